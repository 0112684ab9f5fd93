//! Which roles of a tile slow each other down: each is measured alone, then beside every other one and beside a second one of its own
//! kind.
//!
//! What is measured at a point is a part of the tile, with all that it needs: the guest that is loaded, the guest that sends its load,
//! and the back end that it asks.

use crate::JsonSchema;
use crate::scenario::{Guest, Load, Scenario};
use serde::{Deserialize, Serialize};

/// The name under which a point's roles are in [`vary`](crate::plan::Point::vary).
pub const ROLES: &str = "roles";

/// Blocks of repeats in which pairs that look slow are confirmed, where nobody asks for others.
pub const CONFIRM_BLOCKS: u32 = 6;
/// So many pairs are confirmed at most.
pub const CONFIRMED_PAIRS_MAX: usize = 3;

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

/// The roles of a tile: its guests, but for those that only send the load of another or only answer another.
pub fn roles(scenario: &Scenario) -> Vec<&str> {
    let is_role = |guest: &&Guest| {
        let name = Some(&guest.name);
        let only_sends = scenario.load.iter().any(|load| load.from.as_ref() == name);
        let only_answers = scenario.guest.iter().any(|other| other.asks.as_ref() == name);
        scenario.load.iter().any(|load| load.guest == guest.name) || !(only_sends || only_answers)
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
    let own = || scenario.guest.iter().filter(|guest| together.has(&guest.name));
    let answers = |name: &str| own().any(|guest| guest.asks.as_deref() == Some(name));
    let guests = scenario
        .guest
        .iter()
        .filter(|guest| together.has(&guest.name) || sends(&guest.name) || answers(&guest.name));
    Scenario { guest: guests.cloned().collect(), load: loads, ..scenario.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtin::builtin, parse::Draft};

    #[test]
    fn a_role_is_measured_with_the_guests_that_it_needs_and_these_are_no_roles() {
        let text = builtin("consolidation").unwrap().text;
        let scenario = Draft::from_toml(text, "consolidation").unwrap().finish().unwrap();
        assert_eq!(roles(&scenario), ["web", "web-inside", "compute", "files", "database", "idle"]);
        let guests = |first: &str, second: Option<&str>| {
            let together = Together { first: first.to_owned(), second: second.map(str::to_owned) };
            let part = part(&scenario, &together);
            part.guest.into_iter().map(|guest| guest.name).collect::<Vec<_>>()
        };
        assert_eq!(guests("web-inside", None), ["web-inside", "client", "backend"]);
        assert_eq!(guests("web", Some("idle")), ["web", "backend", "idle"]);
        assert_eq!(guests("compute", Some("compute")), ["compute"]);
        assert_eq!(all(&scenario).len(), 25, "5 alone, and 21 pairs of 6 without the pair that has no load");
    }
}
