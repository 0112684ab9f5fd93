//! What may differ between two sides, and values that differ in nothing.

use crate::{
    check::vary::{ONE_BY_ONE, is_of_plan, overlap},
    problem::Problem,
    scenario::Scenario,
    sides::Sides,
};
use std::collections::BTreeMap;

/// Reports settings of a side that would have no effect there, and those that replace what varies.
pub(crate) fn check_sides(scenario: &Scenario, sides: &Sides) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (side, settings) in [("A", &sides.a), ("B", &sides.b)] {
        for key in settings.keys() {
            if is_of_plan(key) {
                let message = format!(
                    "side {side} sets `{key}`, which is the same in the whole plan: the sides cannot differ in it"
                );
                problems.push(Problem::new(message, ONE_BY_ONE));
            }
            if let Some((name, _)) = scenario.vary.iter().find(|(_, vary)| overlap(&vary.key, key)) {
                let message = format!(
                    "side {side} sets `{key}`, and `vary.{name}` varies it: the side would replace its values"
                );
                problems.push(Problem::new(message, "set it on the sides or vary it, not both"));
            }
        }
    }
    problems
}

/// Names two combinations of values that make one and the same scenario: each has its values, by name, and what they make.
pub(crate) fn same<'a>(
    made: impl Iterator<Item = (&'a BTreeMap<String, String>, &'a Scenario)>,
) -> Option<Problem> {
    let mut known: BTreeMap<String, &BTreeMap<String, String>> = BTreeMap::new();
    for (values, scenario) in made {
        let written = serde_json::to_string(scenario).expect("a scenario that was read can be written");
        if let Some(other) = known.insert(written, values) {
            let words = |values: &BTreeMap<String, String>| {
                values.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
            };
            let message = format!(
                "what varies makes one scenario twice: {} and {} are the same",
                words(other),
                words(values)
            );
            return Some(Problem::new(message, "leave out one of these values of `vary`"));
        }
    }
    None
}
