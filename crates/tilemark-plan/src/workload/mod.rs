//! The workloads: one file for each, with its parameters and all that others must know of it. How it is run is in
//! `tilemark-workloads`.
//!
//! A new workload is a file here and a line in the table below.

mod command;
mod database;
mod disk;
mod found;
mod jobs;
mod memory;
mod messaging;
mod sessions;
mod store;
mod sysbench;
mod web;
mod web_check;

pub use command::{Better, CommandFrom, CommandParameters, LatencyUnit};
pub use database::{StoreDatabase, StoreDurability, database_log};
pub use disk::DiskParameters;
pub use found::{
    CommandFigure, Details, Finding, IncidentKind, JobTimes, JobsFigures, ServerSetting, SteadyWindow,
    StepLatency, StoreFigures, StoreServer, StoreVerdict,
};
pub use jobs::{JobKind, JobsParameters};
pub use memory::MemoryParameters;
pub use messaging::{BrokerService, MessagingMeasure, MessagingMode, MessagingParameters};
pub use sessions::{SessionFiles, SessionPage, SessionShape, SessionsParameters, Site};
pub use store::StoreParameters;
pub use sysbench::SysbenchParameters;
pub use web::{REQUEST_FILE_BYTES_MAX, WebFile, WebParameters, WebRequest, parse_requests};

pub(crate) use messaging::check_broker_memory;

use crate::JsonSchema;
use crate::image_needs::Program;
use crate::scenario::{Guest, Load, Measure, Role};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor},
};
use std::{fmt, time::Duration};
use tilemark_units::{Bytes, Span};

/// Makes [`Work`] of the table of workloads.
macro_rules! workloads {
    ($($(#[doc = $about:literal])* $name:literal: $variant:ident($parameters:ty),)*) => {
        /// What a load asks for: one workload with its parameters.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        pub enum Work {
            $($(#[doc = $about])* #[serde(rename = $name)] $variant($parameters),)*
        }

        impl Work {
            /// The names of all workloads, as scenarios write them: `[load.NAME]`.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The name of the workload.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }

            /// Every workload with its default parameters, in the order of the table.
            pub fn all() -> Vec<Self> {
                vec![$(Self::$variant(<$parameters>::default())),*]
            }

            /// What others must know of it.
            pub fn facts(&self) -> &dyn Facts {
                match self { $(Self::$variant(parameters) => parameters,)* }
            }

            /// The files of the host that its program needs, by their names beside it.
            pub fn files_mut(&mut self) -> Option<&mut std::collections::BTreeMap<String, String>> {
                match self {
                    Self::Command(command) => Some(&mut command.files),
                    _ => None,
                }
            }

            /// It as a load of a web server, where it is one.
            pub fn web_mut(&mut self) -> Option<&mut WebParameters> {
                match self {
                    Self::Web(web) => Some(web),
                    _ => None,
                }
            }

            /// Its texts that name a place of their writer's, for a report that names none.
            pub fn texts_mut(&mut self) -> Vec<&mut String> {
                match self { $(Self::$variant(parameters) => parameters.texts_mut(),)* }
            }
        }
    };
}

workloads! {
    /// Requests for files, for role `web`.
    "web": Web(WebParameters),
    /// Requests to the guest's data disks, made inside it, for role `disk`.
    "disk": Disk(DiskParameters),
    /// Messages through the guest's broker, for role `broker`.
    "messaging": Messaging(MessagingParameters),
    /// Customers of an online store on the guest's database, for role `database`.
    "store": Store(StoreParameters),
    /// sysbench's read-write transactions, run inside the guest, for role `database`.
    "sysbench": Sysbench(SysbenchParameters),
    /// Blocks of memory, copied inside the guest, for role `compute`.
    "memory": Memory(MemoryParameters),
    /// A mix of small jobs, run inside the guest, for role `compute`.
    "jobs": Jobs(JobsParameters),
    /// Users who go from page to page of a site with PHP and a back end, for role `web`.
    "sessions": Sessions(SessionsParameters),
    /// A program of your own, run in the guest or beside the load, for a guest of any role.
    "command": Command(CommandParameters),
}

/// What others must know of a workload. What is left out is as most workloads have it.
pub trait Facts {
    /// What the loaded guest is for.
    fn role(&self) -> Role;

    /// Whether a service of that role can answer it.
    fn fits(&self, role: Role) -> bool {
        role == self.role()
    }

    /// The port that it asks; `None`: the one that its guest's service says it listens on.
    fn port(&self) -> Option<u16> {
        None
    }

    /// Ports that the guest's service listens on for it, besides its usual one.
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Where its load runs and is measured.
    fn place(&self) -> Place;

    /// What it counts, in the plural: `requests`.
    fn unit(&self) -> &str {
        "requests"
    }

    /// How much is under way at the guest.
    fn in_flight(&self, at: At) -> InFlight;

    /// Connections to the guest.
    fn connections(&self, at: At) -> u32 {
        at.connections
    }

    /// It goes as fast as it can, whatever the load's loop.
    fn is_flat_out(&self) -> bool {
        false
    }

    /// An open loop of it needs a rate.
    fn needs_rate(&self) -> bool {
        !self.is_flat_out()
    }

    /// Its users can ask more for a while: at a rate, its requests follow the one schedule that has a surge.
    fn can_swell(&self) -> bool {
        false
    }

    /// What it can't do in this guest is reported as message and remedy.
    fn check(&self, _load: &Load, _guest: &Guest, _measure: &Measure, _say: &mut Say<'_>) {}

    /// Entries of the plan that it takes beside its load's own.
    fn entries(&self) -> u64 {
        0
    }

    /// What a guest can serve one of only; `None`: several loads of it can share a guest.
    fn alone_on(&self) -> Option<Alone> {
        None
    }

    /// The guest's service is started with its parameters.
    fn shapes_service(&self) -> bool {
        false
    }

    /// The guest's service must secure the connections of this load, and makes a certificate for it when it starts.
    fn service_has_tls(&self) -> bool {
        false
    }

    /// The store that is loaded into the guest's database before it serves.
    fn store(&self) -> Option<&StoreParameters> {
        None
    }

    /// Programs of the image that it needs in the guest, besides a web server or broker, which are their role's.
    fn programs(&self) -> Vec<Program> {
        Vec::new()
    }

    /// The mix of jobs that it does.
    fn jobs(&self) -> Option<&JobsParameters> {
        None
    }

    /// Bytes of the rows, as CSV, that the guest's database holds before it serves; `None`: it is empty.
    fn data(&self) -> Option<Bytes> {
        None
    }

    /// Memory that it writes by itself: of its guest, and of the guest that sends it.
    fn memory(&self) -> Bytes {
        Bytes::default()
    }

    /// The times within which an answer is good and tolerable, where it says so.
    fn good_and_tolerable(&self) -> Option<[Span; 2]> {
        None
    }

    /// It ends when so many are done, at most; 0: by time alone.
    fn count(&self) -> u64 {
        0
    }

    /// A program of the user's that it runs.
    fn command(&self) -> Option<&CommandParameters> {
        None
    }

    /// Its guest may need so much longer than others until it serves.
    fn prepares_within(&self) -> Duration {
        Duration::ZERO
    }

    /// Time of a host's thread that an emulated guest takes for one of them, in seconds; `None` where it has no rate, and so never
    /// asks for more than it gets. Measured with small and large ones on a busy host (docs/benchmarks.md).
    fn emulated_seconds(&self) -> Option<f64> {
        None
    }

    /// Its rate must be a whole number.
    fn has_whole_rate(&self) -> bool {
        false
    }

    /// Frames that the guest may send for one of them, besides those of its bytes.
    fn frames_each(&self) -> u64 {
        0
    }

    /// The host counts its requests on the guest's disks too.
    fn is_counted_on_disks(&self) -> bool {
        false
    }

    /// See [`Work::texts_mut`].
    fn texts_mut(&mut self) -> Vec<&mut String> {
        Vec::new()
    }
}

/// Takes a message and a remedy.
pub type Say<'a> = dyn FnMut(String, &str) + 'a;

/// Reports a warm-up that a program which counts whole seconds cannot know: its seconds would not be ours. The measured time has whole
/// seconds always.
pub(crate) fn check_whole_warmup(load: &str, program: &str, measure: &Measure, say: &mut Say<'_>) {
    let warmup = measure.warmup;
    if warmup.get().subsec_nanos() != 0 {
        say(
            format!(
                "`measure.warmup = \"{warmup}\"` is not a whole number of seconds, and {program} of load `{load}` counts whole seconds"
            ),
            "write whole seconds, such as `2s`",
        );
    }
}

/// Where a load runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the guest.
    Inside,
    /// In the load process, on processors of its own.
    Outside,
}

/// Where a load asks: what a workload's own parameters do not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// Connections of the load.
    pub connections: u32,
    /// Data disks of the guest.
    pub disks: usize,
}

/// How much is under way at a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// So many at most; in a closed loop always, if `is_steady`.
    pub count: u64,
    /// Of these, in the singular: `request`.
    pub noun: &'static str,
    /// What they are: `under way`.
    pub state: &'static str,
    /// In a closed loop the next begins as soon as one ended.
    pub is_steady: bool,
}

impl InFlight {
    /// So many things of a kind, with the next one as soon as one ended.
    pub const fn steady(count: u64, noun: &'static str) -> Self {
        Self { count, noun, state: "under way", is_steady: true }
    }

    /// In a closed loop: `32 orders always under way`, `at most 32 orders under way` where clients pause between them.
    pub fn in_closed_loop(&self) -> String {
        if self.is_steady { format!("{} always {}", self.counted(), self.state) } else { self.in_open_loop() }
    }

    /// In an open loop: `at most 4 requests under way`.
    pub fn in_open_loop(&self) -> String {
        format!("at most {} {}", self.counted(), self.state)
    }

    fn counted(&self) -> String {
        tilemark_units::counted(self.count, self.noun)
    }
}

/// What of a guest serves one load only, and what to do about a second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alone {
    /// Its agent runs one load at a time.
    Inside,
    /// A second load would change what the first one's audit finds.
    Database,
}

impl Alone {
    pub(crate) const fn loads(self) -> &'static str {
        match self {
            Self::Inside => "loads that run inside it",
            Self::Database => "loads on its database",
        }
    }

    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::Inside => "a guest runs one load from inside: give it one",
            Self::Database => {
                "give each a guest of its own: the audit of one would meet what the other bought"
            }
        }
    }
}

/// Reads the one workload of a load. Records up to 0.1 have a `null` for each that it is not.
pub(crate) fn one_work<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Work, D::Error> {
    deserializer.deserialize_struct("Work", Work::NAMES, OneWork)
}

struct OneWork;

impl<'de> Visitor<'de> for OneWork {
    type Value = Work;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "exactly one of {}", names())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Work, A::Error> {
        let mut works = serde_json::Map::new();
        while let Some((name, parameters)) = map.next_entry::<String, serde_json::Value>()? {
            if !parameters.is_null() {
                works.insert(name, parameters);
            }
        }
        if works.len() != 1 {
            return Err(A::Error::custom(format!(
                "what is asked must be given once: exactly one of {}",
                names()
            )));
        }
        Work::deserialize(serde_json::Value::Object(works)).map_err(A::Error::custom)
    }
}

fn names() -> String {
    Work::NAMES.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The comment of `load.connections` names it: `docs/scenarios.md` is made from that.
    #[test]
    fn only_a_web_load_has_the_connections_of_its_load() {
        let at = At { connections: 77, disks: 1 };
        let uses: Vec<&str> = Work::all()
            .iter()
            .filter(|work| work.facts().connections(at) == at.connections)
            .map(Work::name)
            .collect();
        assert_eq!(uses, ["web"]);
    }

    #[test]
    fn it_is_known_of_every_workload_with_a_rate_what_an_emulated_guest_can_serve() {
        for work in Work::all() {
            let facts = work.facts();
            let is_known = facts.emulated_seconds().is_some_and(|seconds| seconds > 0.0);
            assert!(is_known || facts.is_flat_out(), "{} is asked its whole rate", work.name());
        }
    }
}
