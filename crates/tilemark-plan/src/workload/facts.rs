//! What others must know of a workload.

use crate::{
    problem::Say,
    program::Program,
    scenario::{
        guest::Guest,
        measure::Measure,
        role::Role,
        timing::{Arrival, LoopKind},
    },
};
use std::time::Duration;
use tilemark_units::{Bytes, Rate, Span};

/// What others must know of a workload. What a workload leaves out has the value that most workloads have.
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

    /// How much is in flight at the guest.
    fn in_flight(&self, at: At) -> InFlight;

    /// Connections to the guest that Tilemark opens for this workload: the run's limit of open files and its load's memory depend on them.
    fn connections(&self, _at: At) -> u32 {
        0
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

    /// It starts a program of the user's own.
    fn starts_own_program(&self) -> bool {
        false
    }

    /// What it can't do in this guest is reported as message and remedy.
    fn check(&self, _load: &LoadKeys<'_>, _guest: &Guest, _measure: &Measure, _say: &mut Say<'_>) {}

    /// Entries of the plan that it takes beside its load's own.
    fn entries(&self) -> u64 {
        0
    }

    /// What a guest can serve one of only; `None`: several loads of it can share a guest.
    fn exclusive(&self) -> Option<Exclusive> {
        None
    }

    /// The guest's service is started with its parameters.
    fn shapes_service(&self) -> bool {
        false
    }

    /// Its guest's web server has pages of its own, which ask a back end.
    fn brings_pages(&self) -> bool {
        false
    }

    /// The guest's service must secure the connections of this load, and makes a certificate for it when it starts.
    fn service_has_tls(&self) -> bool {
        false
    }

    /// Programs of the image that it needs in the guest, besides a web server or broker, which are their role's.
    fn programs(&self) -> Vec<Program> {
        Vec::new()
    }

    /// Bytes of the rows, as CSV, that the guest's database holds before it serves; `None`: it is empty.
    fn data(&self) -> Option<Bytes> {
        None
    }

    /// What distinguishes its rows from those of another load, in words, where a program of its own makes them: databases with the same rows have one
    /// template. A store's differ by their size.
    fn rows(&self) -> Option<String> {
        None
    }

    /// Clients of the guest's database at the same time, which its server has room for; `None`: it asks none.
    fn database_clients(&self) -> Option<u32> {
        None
    }

    /// Memory that it writes by itself: of its guest, and of the guest that sends it.
    fn memory(&self) -> Bytes {
        Bytes::default()
    }

    /// One message, where it sends messages.
    fn message(&self) -> Bytes {
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

    /// Its texts that name a place of their writer's, for a report that names none.
    fn texts_mut(&mut self) -> Vec<&mut String> {
        Vec::new()
    }
}

/// A load's own keys that a workload looks at when it is checked.
#[derive(Debug, Clone, Copy)]
pub struct LoadKeys<'a> {
    /// Its name.
    pub name: &'a str,
    /// Who sends it, where the scenario says so.
    pub from: Option<&'a str>,
    /// When requests are sent.
    pub loop_kind: LoopKind,
    /// What the users of each guest ask.
    pub rate: Option<Rate>,
    /// How the requests of an open loop are spread in time.
    pub arrival: Arrival,
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

/// How much is in flight at a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// So many at most; in a closed loop always, if `is_steady`.
    pub count: u64,
    /// Of these, in the singular: `request`.
    pub noun: &'static str,
    /// What they are: `in flight`.
    pub state: &'static str,
    /// In a closed loop the next begins as soon as one ended.
    pub is_steady: bool,
}

impl InFlight {
    /// So many things of a kind, with the next one as soon as one ended.
    pub const fn steady(count: u64, noun: &'static str) -> Self {
        Self { count, noun, state: "in flight", is_steady: true }
    }

    /// In a closed loop: `32 orders always in flight`, `at most 32 orders in flight` where clients pause between them.
    pub fn in_closed_loop(&self) -> String {
        if self.is_steady { format!("{} always {}", self.counted(), self.state) } else { self.in_open_loop() }
    }

    /// In an open loop: `at most 4 requests in flight`.
    pub fn in_open_loop(&self) -> String {
        format!("at most {} {}", self.counted(), self.state)
    }

    fn counted(&self) -> String {
        tilemark_units::counted(self.count, self.noun)
    }
}

/// What of a guest serves one load only, and what to do about a second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exclusive {
    /// Its agent runs one load at a time.
    Inside,
    /// A second load would change what the first one's audit finds.
    Database,
}

impl Exclusive {
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
