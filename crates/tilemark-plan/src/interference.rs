//! Which roles of a tile slow each other down: each is measured alone, then beside every other one and beside a second one of its own
//! kind.
//!
//! What is measured at a point is a part of the tile, with all that it needs: the guest that is loaded, and the guest that sends its load.

use crate::scenario::{Guest, Load, Scenario};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name under which a point's roles are in [`vary`](crate::plan::Point::vary).
pub const ROLES: &str = "roles";

/// The roles of one point, by the names of their guests in the tile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Together {
    /// A role.
    pub first: String,
    /// The role that it is measured with, which may be the same; `None`: it is alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<String>,
}

impl std::fmt::Display for Together {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.second {
            None => write!(formatter, "{} alone", self.first),
            Some(second) => write!(formatter, "{} + {second}", self.first),
        }
    }
}

impl Together {
    /// Tiles of its point: two of the same are two tiles.
    pub(crate) fn tiles(&self) -> u32 {
        if self.second.as_ref() == Some(&self.first) { 2 } else { 1 }
    }

    fn has(&self, role: &str) -> bool {
        self.first == role || self.second.as_deref() == Some(role)
    }
}

/// The roles of a tile: its guests, but for those that only send the load of another.
pub fn roles(scenario: &Scenario) -> Vec<&str> {
    let is_role = |guest: &&Guest| {
        let loads = || scenario.load.iter();
        loads().any(|load| load.guest == guest.name)
            || loads().all(|load| load.from.as_ref() != Some(&guest.name))
    };
    scenario.guest.iter().filter(is_role).map(|guest| guest.name.as_str()).collect()
}

/// Each role alone, each with itself and every pair of two, in the order of the tile; not those of which nothing is loaded.
pub(crate) fn all(scenario: &Scenario) -> Vec<Together> {
    let roles = roles(scenario);
    let together = |first: &str, second: Option<&str>| Together {
        first: first.to_owned(),
        second: second.map(str::to_owned),
    };
    let alone = roles.iter().map(|role| together(role, None));
    let pairs = roles
        .iter()
        .enumerate()
        .flat_map(|(place, first)| roles[place..].iter().map(move |second| together(first, Some(second))));
    let is_loaded = |together: &Together| scenario.load.iter().any(|load| together.has(&load.guest));
    alone.chain(pairs).filter(is_loaded).collect()
}

/// The part of a scenario that such a point measures.
pub(crate) fn part(scenario: &Scenario, together: &Together) -> Scenario {
    let loads: Vec<Load> = scenario.load.iter().filter(|load| together.has(&load.guest)).cloned().collect();
    let sends = |name: &str| loads.iter().any(|load| load.from.as_deref() == Some(name));
    let guests = scenario.guest.iter().filter(|guest| together.has(&guest.name) || sends(&guest.name));
    Scenario { guest: guests.cloned().collect(), load: loads, ..scenario.clone() }
}
