//! Names of the scenario, its guests and its loads: each is given once.

use crate::{problem::Say, scenario::Scenario};
use std::collections::BTreeSet;

pub(super) fn check(scenario: &Scenario, say: &mut Say<'_>) {
    if scenario.name.is_empty()
        || scenario.name.len() > 40
        || scenario.name.contains(|c: char| !c.is_ascii_alphanumeric() && c != '-')
    {
        say(
            format!("`name = {:?}` is not a valid name", scenario.name),
            "use at most 40 letters, digits and `-`",
        );
    }
    if scenario.guest.is_empty() {
        say("the tile has no guest".to_owned(), "add a `[[guest]]`");
    }
    for name in repeated(scenario.guest.iter().map(|guest| guest.name.as_str())) {
        say(format!("two guests are called `{name}`"), "give each guest of the tile its own name");
    }
    for name in repeated(scenario.load.iter().map(|load| load.name.as_str())) {
        say(format!("two loads are called `{name}`"), "give each load its own name");
    }
}

/// What is there twice.
pub(super) fn repeated<T: Ord + Clone>(all: impl Iterator<Item = T>) -> BTreeSet<T> {
    let mut seen = BTreeSet::new();
    all.filter(|one| !seen.insert(one.clone())).collect()
}
