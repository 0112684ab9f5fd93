//! A load of the tile.

use super::timing::{Arrival, LoopKind};
use crate::{
    JsonSchema,
    workload::{self, Work, facts::LoadKeys},
};
use serde::{Deserialize, Serialize};
use tilemark_units::{Rate, Span};

/// What is sent to the guests, or run in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name, unique in the scenario, such as `web-steady`: 1 to 40 of `a` to `z`, `0` to `9` and `-`.
    pub name: String,
    /// The guest of the tile that it loads.
    pub guest: String,
    /// Who sends the load: the name of a guest of the tile with role `client` (the two guests can then reach each other on the run
    /// network), or `"clients"`: the machines of the site file (`--site FILE`), each for whole tiles; see [clients.md](clients.md).
    /// Default: the load process of the host, or the loaded guest itself for a workload that runs inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// When requests are sent.
    #[serde(default, rename = "loop")]
    pub loop_kind: LoopKind,
    /// What the users of each guest ask, as in `"200/s"`. Default: none. An open loop needs it. Emulated guests are asked what they
    /// can serve, where that is less; `--set load.NAME.rate=RATE` asks for all of it.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// How the requests of an open loop are spread in time.
    #[serde(default)]
    pub arrival: Arrival,
    /// With `arrival = "bursts"`: the period. A burst begins with each, and `measure.length` is a whole number of them.
    #[serde(default = "default_burst_every")]
    pub burst_every: Span,
    /// With `arrival = "bursts"`: the first part of each period. All requests of the period come in it.
    #[serde(default = "default_burst_length")]
    pub burst_length: Span,
    /// Connections to each guest. Only `web` uses it: other workloads have as many as their clients, users, publishers and subscribers, or
    /// run inside the guest.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// What is asked: exactly one of the workloads.
    #[serde(flatten, deserialize_with = "workload::one_work")]
    pub work: Work,
}

/// In place of a guest's name in `load.from`: the client machines of the site file.
pub const FROM_CLIENTS: &str = "clients";

impl Load {
    /// Most requests a second: more than a processor can send, of anything.
    pub const RATE_MAX: u64 = 10_000_000;
    /// Its own keys, without those of the workloads.
    pub(crate) const KEYS: [&str; 9] =
        ["arrival", "burst_every", "burst_length", "connections", "from", "guest", "loop", "name", "rate"];

    /// Those of its own keys that its workload looks at.
    pub(crate) fn own_keys(&self) -> LoadKeys<'_> {
        LoadKeys {
            name: &self.name,
            from: self.from.as_deref(),
            loop_kind: self.loop_kind,
            rate: self.rate,
            arrival: self.arrival,
        }
    }

    /// Whether client machines send it.
    pub fn is_from_clients(&self) -> bool {
        self.from.as_deref() == Some(FROM_CLIENTS)
    }

    /// The guest of the tile that sends it, where one does.
    pub fn sender(&self) -> Option<&str> {
        self.from.as_deref().filter(|from| *from != FROM_CLIENTS)
    }
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

#[cfg(all(test, feature = "schema"))]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_loads_keys_is_complete() {
        let schema = schemars::schema_for!(Load);
        let keys: Vec<&str> =
            schema.get("properties").unwrap().as_object().unwrap().keys().map(String::as_str).collect();
        let mut keys: Vec<&str> = keys.into_iter().filter(|key| !Work::NAMES.contains(key)).collect();
        keys.sort_unstable();
        assert_eq!(keys, Load::KEYS);
    }
}
