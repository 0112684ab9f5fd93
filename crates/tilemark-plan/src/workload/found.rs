//! What a load found beside what every load counts: it travels from the load and is part of a repeat's summary.

use super::{command::Better, jobs::JobKind};
use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What only loads of one workload find.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Details {
    /// An online store's.
    Store(StoreFigures),
    /// A mix of jobs'.
    Jobs(JobsFigures),
    /// The one figure of a command.
    Command(CommandFigure),
}

/// The one figure that a command has at its end. Over several guests it is their mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandFigure {
    /// Its value.
    pub value: f64,
    /// Its unit, as the scenario calls it.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
}

/// A load of jobs on one guest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobsFigures {
    /// The guest.
    pub guest: String,
    /// Its users.
    pub users: u64,
    /// Right jobs a minute over the measured time.
    pub jobs_per_minute: Option<f64>,
    /// The same for each user.
    pub jobs_per_minute_and_user: Option<f64>,
    /// How equal the users' times were, 0 to 1: 1 less the deviation of the users' times over their mean. AIM7 calls it JTI and prints it in
    /// percent. A user's time is that of its jobs over what such jobs take, of kinds that at least two users did. Null where there is one
    /// user, where a user has fewer than 20 such jobs, and where no kinds join all users.
    pub jti: Option<f64>,
    /// The times of the jobs of each kind.
    pub kinds: BTreeMap<JobKind, JobTimes>,
}

/// The jobs of one kind that ended within the measured time. A percentile with fewer than 20 jobs beyond it is not given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobTimes {
    /// Jobs with the right result.
    pub count: u64,
    /// Jobs that failed or had another result.
    pub not_right: u64,
    /// The mean time of those with the right result, in milliseconds.
    pub mean_ms: Option<f64>,
    /// Half are below.
    pub p50_ms: Option<f64>,
    /// 90 % are below.
    pub p90_ms: Option<f64>,
}

/// Something that a load found, with what it says about the repeat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What it says about the repeat.
    pub kind: IncidentKind,
    /// In words.
    pub what: String,
}

/// What an incident says about a repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IncidentKind {
    /// A guest ended while it was measured: a finding.
    GuestEnded,
    /// A service lost or invented what it had confirmed, by its audit: a finding.
    WrongAnswers,
    /// A service answered with errors, or its clients gave up: a finding.
    ServiceErrors,
    /// A load inside a guest reported what cannot be, or did not end in time; or a guest sent frames under foreign addresses or
    /// flooded the run network. The repeat says nothing, and is not retried: the guest would do it again.
    Refused,
    /// Whether the answers were right could not be checked, or the guests were not what the plan wants. The repeat says
    /// nothing.
    #[default]
    Unproven,
}

/// A store load on one guest. The rest of the load's report is in the guest's `store.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreFigures {
    /// The guest.
    #[serde(default)]
    pub guest: String,
    /// Committed orders a minute over the measured time.
    pub orders_per_minute: Option<f64>,
    /// As the classic driver counts: orders that were rolled back are in it.
    pub orders_per_minute_ds2: Option<u64>,
    /// Orders that found too little stock and were undone.
    pub rollbacks: u64,
    /// Share of them in all orders.
    pub rollback_fraction: Option<f64>,
    /// Steps done again because of a deadlock.
    pub retries: u64,
    /// Processor time of the clients for each order, in microseconds.
    pub client_cpu_us_per_order: Option<f64>,
    /// Time of each step in milliseconds.
    pub latency_ms: BTreeMap<String, StepLatency>,
    /// The part of the measured time in which the rate had settled.
    pub steady: Option<SteadyWindow>,
    /// `agrees`, what does not, or why there was no audit.
    pub audit: String,
    /// The database as it was found.
    pub store: StoreServer,
    /// What the load itself says about its figures.
    pub verdict: StoreVerdict,
}

/// A step's times in short. A percentile with fewer than 20 values beyond it is not given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepLatency {
    /// Values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half are below.
    pub p50: Option<f64>,
    /// 90 % are below.
    pub p90: Option<f64>,
    /// 99 % are below.
    pub p99: Option<f64>,
    /// 99.9 % are below.
    pub p999: Option<f64>,
    /// The largest.
    pub max: f64,
}

/// A part of the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SteadyWindow {
    /// Its first second.
    pub from_s: u64,
    /// The first second after it.
    pub to_s: u64,
    /// Committed orders a minute in it.
    pub orders_per_minute: f64,
}

/// A database server as it was found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreServer {
    /// What it says it is.
    pub server: String,
    /// Settings that decide what a commit promises and what stays in memory.
    pub settings: Vec<ServerSetting>,
    /// Customers before the run.
    pub customers: u64,
    /// Products.
    pub products: u64,
}

/// One setting of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSetting {
    /// Its name.
    pub name: String,
    /// Its value, as the server prints it.
    pub value: String,
}

/// What the load says about its own figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreVerdict {
    /// Whether its figures can be relied on.
    pub status: StoreStatus,
    /// Why not, one sentence each.
    pub reasons: Vec<String>,
    /// Those of them that are more than failed orders, which are counted among the failed requests. Absent in older records.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// Whether the figures of a store load can be relied on, by the load itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreStatus {
    /// They can.
    Trusted,
    /// Something went wrong that they do not show.
    NotTrusted,
    /// Too little was seen.
    #[default]
    CannotTell,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records have had these words since before they were a type.
    #[test]
    fn a_stores_verdict_has_the_words_of_records() {
        let words = [
            (StoreStatus::Trusted, "trusted"),
            (StoreStatus::NotTrusted, "not-trusted"),
            (StoreStatus::CannotTell, "cannot-tell"),
        ];
        for (status, word) in words {
            let verdict = StoreVerdict { status, ..StoreVerdict::default() };
            let older = format!(r#"{{"status":"{word}","reasons":[]}}"#);
            assert_eq!(serde_json::from_str::<StoreVerdict>(&older).unwrap(), verdict);
            assert_eq!(serde_json::to_value(&verdict).unwrap()["status"], word);
        }
    }
}
