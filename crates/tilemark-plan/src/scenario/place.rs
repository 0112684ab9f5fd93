//! The table `[place]` of a scenario: where guests are.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tilemark_units::{Bytes, matches_glob};

/// Which processors and which node's memory guests have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlaceTable {
    /// How guests are placed.
    pub guests: PlaceRule,
    /// Guests that are placed by name, whatever `guests` says. Each key is a name of guests in which `*` matches any text and `?` one character, such as
    /// `"tile-00*-web"`; its value is `"node:LIST"` or `"cpus:LIST"`, such as `"node:0"` or `"cpus:2-3"`. Default: no guest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub map: BTreeMap<String, String>,
    /// Whether virtual processors of one guest use threads of the same core. Default: `"apart"` with `guests = "spread"`, `"together"`
    /// with `"pack"` and `"pairs"`. It matters on a host with SMT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub siblings: Option<Siblings>,
}

/// How guests are placed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceRule {
    /// The host's scheduler chooses among all processors for guests, and its kernel chooses the memory. A native twin has as many
    /// processors as its guest, the next ones in turn.
    #[default]
    None,
    /// Guests are spread evenly over the NUMA nodes. Each virtual processor has one processor; none has two while another one has
    /// none. Memory comes from the guest's node.
    Spread,
    /// Guests fill one NUMA node after the other. Each virtual processor has one processor. Memory comes from the guest's node.
    Pack,
    /// Guests are spread evenly over the NUMA nodes. Each may use all processors of its node. Memory comes from that node.
    PerNode,
    /// Guests are spread evenly over the NUMA nodes. Two virtual processors of a guest have two neighbouring processors, on a host
    /// with SMT those of one core. Memory comes from the guest's node.
    Pairs,
}

impl PlaceRule {
    /// The name as it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Spread => "spread",
            Self::Pack => "pack",
            Self::PerNode => "per-node",
            Self::Pairs => "pairs",
        }
    }
}

/// Whether virtual processors of one guest use threads of the same core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Siblings {
    /// The threads of one core first.
    Together,
    /// One thread of each core first.
    Apart,
}

/// Size of the huge pages that a guest's memory consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum HugePageSize {
    /// Pages of 2 MiB.
    #[serde(rename = "2MiB")]
    TwoMebibytes,
    /// Pages of 1 GiB.
    #[serde(rename = "1GiB")]
    OneGibibyte,
}

impl HugePageSize {
    /// One page.
    pub const fn bytes(self) -> Bytes {
        match self {
            Self::TwoMebibytes => Bytes::from_mib(2),
            Self::OneGibibyte => Bytes::from_gib(1),
        }
    }

    /// The name as it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TwoMebibytes => "2MiB",
            Self::OneGibibyte => "1GiB",
        }
    }
}

impl PlaceTable {
    /// Whether guests are left where they are.
    pub fn is_none(&self) -> bool {
        self.guests == PlaceRule::None && self.map.is_empty()
    }

    /// Whether it is what a scenario has that says nothing.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What the map says about a guest; the first of several patterns, which say the same in a valid scenario.
    pub(crate) fn target_of(&self, guest: &str) -> Option<&str> {
        self.targets_of(guest).next().map(|(_, target)| target)
    }

    /// All patterns of the map that a guest's name fits, with what they say.
    pub(crate) fn targets_of(&self, guest: &str) -> impl Iterator<Item = (&str, &str)> {
        let fits = move |(pattern, _): &(&String, &String)| matches_glob(pattern, guest);
        self.map.iter().filter(fits).map(|(pattern, target)| (pattern.as_str(), target.as_str()))
    }

    /// Whether threads of one core are used together.
    pub(crate) fn siblings(&self) -> Siblings {
        let usual = || if self.guests == PlaceRule::Spread { Siblings::Apart } else { Siblings::Together };
        self.siblings.unwrap_or_else(usual)
    }
}
