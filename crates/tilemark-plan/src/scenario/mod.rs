//! A scenario as a person writes it: the tile, the ladder, the demand, the gate and what varies.
//!
//! Every field is checked when it is read; an unknown key is an error. A key that a scenario leaves out has
//! its default. Nothing here looks at a host.
//!
//! `docs/scenarios.md` is made from the comments of these types (`cargo xtask scenarios`). A key whose default is no
//! value says in a sentence of its own, which begins with `Default:`, what then happens.

pub(crate) mod broker;
pub(crate) mod disk;
mod gate;
pub(crate) mod guest;
mod host;
mod load;
pub(crate) mod measure;
pub(crate) mod place;
mod qemu;
pub(crate) mod ready;
pub(crate) mod role;
pub(crate) mod target;
pub(crate) mod timing;

pub use crate::guest_image::{ImageFile, ImageTable, RequestedImage};
pub use broker::BrokerService;
pub use disk::{Disk, DiskAio, DiskCache, DiskMedium};
pub use gate::Gate;
pub use guest::{Guest, Net};
pub use host::{HostTable, LoadProcessors};
pub use load::{FROM_CLIENTS, Load};
pub use measure::{Measure, Start, Surge, SurgeAt};
pub use qemu::{QemuTable, QemuWalls};
pub use ready::Ready;
pub use role::Role;
pub use timing::{Arrival, LoopKind};

use crate::JsonSchema;
use place::PlaceTable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the scenario format.
pub const SCENARIO_SCHEMA: u32 = 1;

/// A whole scenario file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of this format: `1`.
    pub schema: u32,
    /// Short name, as in `tilemark run NAME`: at most 40 letters, digits and `-`.
    pub name: String,
    /// What it measures and why, in a sentence or two.
    pub about: String,
    /// Name of the main load: the p99 and throughput of a step are those of this load. Default: the only load. A scenario with several loads needs it.
    #[serde(default)]
    pub headline: Option<String>,
    /// The image that its guests boot: the name of one inside the program, the path of an `image.toml`, or a table `[image]`.
    #[serde(default = "default_image")]
    pub image: RequestedImage,
    /// The guests of one tile.
    pub guest: Vec<Guest>,
    /// What is sent to them, or run in them.
    #[serde(default)]
    pub load: Vec<Load>,
    /// The tile counts to measure.
    pub ladder: Ladder,
    /// How long and how often to measure.
    #[serde(default)]
    pub measure: Measure,
    /// What users tolerate: the limits that a point must keep to hold.
    #[serde(default)]
    pub gate: Gate,
    /// Where loads and guests run.
    #[serde(default)]
    pub host: HostTable,
    /// Which processors and which node's memory guests have. Default: the host chooses.
    #[serde(default, skip_serializing_if = "PlaceTable::is_default")]
    pub place: PlaceTable,
    /// Which QEMU runs the guests, and with which machine type and kernel.
    #[serde(default)]
    pub qemu: QemuTable,
    /// Sizes of the same scenario, such as `quick`, `host` and `published`. Each maps dotted keys to values.
    #[serde(default)]
    pub preset: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// What varies. Each name maps to a dotted key and its values; every combination is measured, each with its own
    /// ladder.
    #[serde(default)]
    pub vary: BTreeMap<String, Vary>,
}

pub(crate) fn default_image() -> RequestedImage {
    RequestedImage::Named("first-look".to_owned())
}

/// The tile counts to measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// Rising tile counts; at most 1,000 guests.
    pub tiles: Vec<u32>,
    /// The tile count at which `capacity` stops searching. It also stops at 1,000 guests.
    #[serde(default = "default_search_limit")]
    pub search_limit: u32,
}

fn default_search_limit() -> u32 {
    1024
}

/// One key that varies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// The dotted key that is set, such as `load.web-steady.rate`: one of `guest`, `load`, `gate`, `measure`, `place`, `qemu` and
    /// `host.setting`, or `host.profile`. All others are the same in the whole plan. No key varies twice, nor do its parts.
    pub key: String,
    /// Its values, in order, each once.
    pub values: Vec<serde_json::Value>,
}
