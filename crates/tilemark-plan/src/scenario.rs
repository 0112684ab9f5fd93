//! A scenario as a person writes it: the tile, the ladder, the demand, the gate and what varies.
//!
//! Every field is checked when it is read; an unknown key is an error. What a scenario leaves out has
//! the default that its field states. Nothing here looks at a host.

use crate::workload::{
    BrokerService, DiskParameters, MessagingParameters, StoreParameters, SysbenchParameters, WebParameters,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tilemark_units::{Bytes, Fraction, Rate, Span};

/// The version of the scenario format.
pub const SCENARIO_SCHEMA: u32 = 1;

/// A whole scenario file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of this format: 1.
    pub schema: u32,
    /// Short name, as in `tilemark run NAME`.
    pub name: String,
    /// What it measures and why, in a sentence or two.
    pub about: String,
    /// The load whose figures are the point's own. Needed when there are loads.
    #[serde(default)]
    pub headline: Option<String>,
    /// The image that its guests boot: `first-look`, or a path to an `image.toml`.
    #[serde(default = "default_image")]
    pub image: String,
    /// The guests of one tile.
    pub guest: Vec<Guest>,
    /// What is sent to them, or run in them.
    #[serde(default)]
    pub load: Vec<Load>,
    /// How often the tile is repeated.
    pub ladder: Ladder,
    /// How long and how often to measure.
    #[serde(default)]
    pub measure: Measure,
    /// What users tolerate.
    #[serde(default)]
    pub gate: Gate,
    /// Where loads and guests run.
    #[serde(default)]
    pub host: HostWishes,
    /// Which QEMU, and how it is told to build a machine.
    #[serde(default)]
    pub qemu: QemuWishes,
    /// Sizes of the same scenario: `quick`, `host`, `published`. Each maps a dotted key to its value.
    #[serde(default)]
    pub preset: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// What varies: each name maps to a dotted key and its values; every combination is measured.
    #[serde(default)]
    pub vary: BTreeMap<String, Vary>,
}

pub(crate) fn default_image() -> String {
    "first-look".to_owned()
}

/// One guest of the tile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Its name within the tile, such as `web`.
    pub name: String,
    /// What it is for; decides the service that runs in it.
    pub role: Role,
    /// Processors. Default 1.
    #[serde(default = "one")]
    pub vcpus: u32,
    /// Memory. Default 256 MiB.
    #[serde(default = "default_memory")]
    pub memory: Bytes,
    /// Memory that a clone of it writes before the load's warm-up, since it shares with its template what a guest that boots has
    /// written itself. Default: two fifths of its memory, at most 100 MiB, in a scenario with a load; nothing in one without, which
    /// counts a density.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Bytes>,
    /// Data disks.
    #[serde(default)]
    pub disk: Vec<Disk>,
    /// Which broker runs in a guest with role `broker`.
    #[serde(default)]
    pub broker: BrokerService,
}

fn one() -> u32 {
    1
}
fn default_memory() -> Bytes {
    Bytes::from_mib(256)
}

/// What a guest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Nothing but its operating system.
    Idle,
    /// A web server.
    Web,
    /// A guest whose disks are worked from inside.
    Disk,
    /// A message broker.
    Broker,
    /// A database.
    Database,
    /// Arithmetic.
    Compute,
}

impl Role {
    /// The name as it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Web => "web",
            Self::Disk => "disk",
            Self::Broker => "broker",
            Self::Database => "database",
            Self::Compute => "compute",
        }
    }
}

/// A data disk of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its size.
    pub size: Bytes,
    /// Where its bytes are. Default `store`.
    #[serde(default)]
    pub on: DiskMedium,
}

/// Where the bytes of a data disk are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskMedium {
    /// In the disk store, on the host's own disk.
    #[default]
    Store,
    /// In the host's memory, behind a loop device with 512-byte sectors.
    Memory,
}

/// What is sent to a guest, or run in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name, such as `web-steady`.
    pub name: String,
    /// The guest of the tile that it loads.
    pub guest: String,
    /// Open loop (a rate, whatever the answers do) or closed loop (the next request after the answer).
    #[serde(default, rename = "loop")]
    pub loop_kind: LoopKind,
    /// What each guest's users ask. Needed by an open loop.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// How the requests of an open loop are spread in time. Default `poisson`.
    #[serde(default)]
    pub arrival: Arrival,
    /// With `arrival = "bursts"`: a burst begins this often. Default 5 s.
    #[serde(default = "default_burst_every")]
    pub burst_every: Span,
    /// With `arrival = "bursts"`: all of a period's requests come in its first so much. Default 1 s.
    #[serde(default = "default_burst_length")]
    pub burst_length: Span,
    /// Connections to each guest. Default 4.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// Exactly one of the following says what is asked.
    #[serde(default)]
    pub web: Option<WebParameters>,
    /// Work on the guest's data disks, from inside.
    #[serde(default)]
    pub disk: Option<DiskParameters>,
    /// Messages through the guest's broker.
    #[serde(default)]
    pub messaging: Option<MessagingParameters>,
    /// Orders at the guest's database.
    #[serde(default)]
    pub store: Option<StoreParameters>,
    /// sysbench read-write, inside a database guest.
    #[serde(default)]
    pub sysbench: Option<SysbenchParameters>,
}

fn default_connections() -> u32 {
    4
}
fn default_burst_every() -> Span {
    Span::from_seconds(5)
}
fn default_burst_length() -> Span {
    Span::from_seconds(1)
}

/// Whether the next request waits for the last answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoopKind {
    /// Requests come at their intended times, whatever the answers do.
    #[default]
    Open,
    /// Each connection asks again when it was answered.
    Closed,
}

/// How the requests of an open loop are spread in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// Independent users: exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Even,
    /// Independent users who come together: the period's requests in its first part.
    Bursts,
}

/// How often the tile is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// Tile counts, rising.
    pub tiles: Vec<u32>,
    /// Where a search for the largest count stops. Default 1,024.
    #[serde(default = "default_search_limit")]
    pub search_limit: u32,
}

fn default_search_limit() -> u32 {
    1024
}

/// How long and how often to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Load before the measurement, not counted. Default 3 s.
    pub warmup: Span,
    /// The measurement. Default 10 s.
    pub length: Span,
    /// Passes over each step. Default 5.
    pub repeats: u32,
    /// How guests come to be. Default `clone`.
    pub start: Start,
    /// The p that a difference between sides must reach. Default 1 %.
    pub significance: Fraction,
    /// A change of throughput, median or processor time within this is no difference between sides. Default 3 %.
    pub margin: Fraction,
    /// The same for p99. Default 10 %.
    pub margin_p99: Fraction,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            warmup: Span::from_seconds(3),
            length: Span::from_seconds(10),
            repeats: 5,
            start: Start::Clone,
            significance: Fraction::new(0.01).expect("one in a hundred is a part of a whole"),
            margin: Fraction::new(0.03).expect("three in a hundred are a part of a whole"),
            margin_p99: Fraction::new(0.1).expect("one in ten is a part of a whole"),
        }
    }
}

/// How guests come to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Cloned copy-on-write from a booted, warmed and frozen template of their role.
    #[default]
    Clone,
    /// Each booted by itself.
    Boot,
}

/// Limits that a point must keep to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// 99 of 100 requests of every load must be answered within this. Default 50 ms.
    pub p99: Span,
    /// At most this part of the requests may fail. Default 0.1 %.
    pub errors: Fraction,
    /// At least this part of the demand must be served. Default 99 %.
    pub achieved: Fraction,
}

impl Default for Gate {
    fn default() -> Self {
        let fraction = |part| Fraction::new(part).expect("a literal between 0 and 1");
        Self { p99: Span::from_milliseconds(50), errors: fraction(0.001), achieved: fraction(0.99) }
    }
}

/// Where loads and guests run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostWishes {
    /// Which processors the load has. Default `own`.
    pub load_processors: LoadProcessors,
}

/// Which processors the load has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadProcessors {
    /// A quarter of the threads, at least one, which no guest uses.
    #[default]
    Own,
    /// Load and guests share all.
    Shared,
}

/// Which QEMU, and how it is told to build a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QemuWishes {
    /// Path of the QEMU program. Default: the first one found.
    pub binary: Option<String>,
    /// Machine type, such as `pc` or `q35`. Default `pc`.
    pub machine: Option<String>,
    /// Another kernel (an ELF `vmlinux`) for guests than the image's own.
    pub kernel: Option<String>,
    /// Whether QEMU is kept away from the host: a user of its own, no power, a filter of system calls, an empty root.
    #[serde(skip_serializing_if = "QemuWalls::are_on")]
    pub walls: QemuWalls,
}

/// Whether QEMU is kept away from the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QemuWalls {
    /// It is.
    #[default]
    On,
    /// It runs as root, as a process of the run does. For a comparison of what walls cost; a guest that breaks out of it has the host.
    Off,
}

impl QemuWalls {
    /// Whether they are on.
    pub const fn are_on(&self) -> bool {
        matches!(self, Self::On)
    }
}

/// One thing that varies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// The dotted key that is set, such as `load.web-steady.rate`.
    pub key: String,
    /// Its values, in order.
    pub values: Vec<serde_json::Value>,
}
