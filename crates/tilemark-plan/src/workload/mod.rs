//! The workloads: one file for each, with its parameters and all that others must know of it. How it is run is in
//! `tilemark-workloads`.
//!
//! A new workload is a file here and a line in the table `workloads!`; `docs/adding-a-workload.md` lists all that it needs.

mod command;
mod database;
mod disk;
pub(crate) mod facts;
mod found;
mod jobs;
mod memory;
mod messaging;
mod sessions;
mod store;
mod sysbench;
mod web;
mod web_check;
mod whole_seconds;

pub use command::{Better, CommandFrom, CommandParameters, LatencyUnit};
pub use database::{StoreDatabase, StoreDurability, database_log};
pub use disk::DiskParameters;
pub use facts::{At, Exclusive, Facts, InFlight, LoadKeys, Place};
pub use found::{
    CommandFigure, Details, Finding, IncidentKind, JobTimes, JobsFigures, ServerSetting, SteadyWindow,
    StepLatency, StoreFigures, StoreServer, StoreStatus, StoreVerdict,
};
pub use jobs::{JobKind, JobsParameters};
pub use memory::MemoryParameters;
pub use messaging::{MessagingMeasure, MessagingMode, MessagingParameters};
pub use sessions::{SessionFiles, SessionPage, SessionShape, SessionsParameters, Site};
pub use store::StoreParameters;
pub use sysbench::SysbenchParameters;
pub use web::{REQUEST_FILE_BYTES_MAX, WebFile, WebParameters, WebRequest, parse_requests};

use crate::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor},
};
use std::fmt;
use tilemark_units::listed;

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

impl Work {
    /// The store that is loaded into the guest's database before it serves.
    pub fn store(&self) -> Option<&StoreParameters> {
        match self {
            Self::Store(store) => Some(store),
            _ => None,
        }
    }

    /// The mix of jobs that it does.
    pub fn jobs(&self) -> Option<&JobsParameters> {
        match self {
            Self::Jobs(jobs) => Some(jobs),
            _ => None,
        }
    }

    /// A program of the user's that it runs.
    pub fn command(&self) -> Option<&CommandParameters> {
        match self {
            Self::Command(command) => Some(command),
            _ => None,
        }
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
            let found: Vec<&str> = works.keys().map(String::as_str).collect();
            let found = if found.is_empty() { "no workload".to_owned() } else { listed(&found) };
            return Err(A::Error::custom(format!("it has {found}, and exactly one of {} is meant", names())));
        }
        Work::deserialize(serde_json::Value::Object(works)).map_err(A::Error::custom)
    }
}

fn names() -> String {
    listed(Work::NAMES)
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

    /// One over sockets that has none gets too few open files: answer `connections`. A program of the user's opens its own.
    #[test]
    fn workloads_over_sockets_have_connections() {
        let at = At { connections: 77, disks: 1 };
        let beside_the_load = CommandParameters { from: CommandFrom::Host, ..CommandParameters::default() };
        for work in Work::all().into_iter().chain([Work::Command(beside_the_load)]) {
            let facts = work.facts();
            let is_over_sockets = facts.place() == Place::Outside && !facts.starts_own_program();
            assert_eq!(facts.connections(at) > 0, is_over_sockets, "{}", work.name());
        }
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
