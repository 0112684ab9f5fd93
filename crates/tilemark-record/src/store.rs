//! What a store load on one guest found beside what every load has: part of a repeat's summary.

use crate::summary::{Incident, IncidentKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A store load on one guest. The load writes it as JSON; what it tells besides stays in the guest's `store.json`.
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
    /// What the load itself says of its figures.
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

/// What the load says of its own figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreVerdict {
    /// `trusted`, `not-trusted` or `cannot-tell`.
    pub status: String,
    /// Why not, one sentence each.
    pub reasons: Vec<String>,
    /// Those of them that are more than failed orders, which are counted among the failed requests. Absent in older records.
    #[serde(default)]
    pub findings: Vec<StoreFinding>,
}

/// Something that a store load found, with what it says of the repeat.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoreFinding {
    /// What it says of the repeat.
    pub kind: IncidentKind,
    /// In words.
    pub what: String,
}

impl StoreFigures {
    /// What happened at this guest's database, as incidents of its repeat.
    pub fn incidents(&self) -> impl Iterator<Item = Incident> + '_ {
        self.verdict.findings.iter().map(|finding| Incident {
            kind: finding.kind,
            what: finding.what.clone(),
            guest: Some(self.guest.clone()),
        })
    }
}
