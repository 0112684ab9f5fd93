//! Right values of a key and their unit, from the scenarios inside the program.

use crate::builtin::BUILTINS;
use std::collections::BTreeMap;
use tilemark_units::{Bytes, Fraction, Rate, Span};

/// An example of a value that is longer is none.
const EXAMPLE_MAX: usize = 100;

/// A right value of a key, as `rate = "500/s"`. Steps of lists are numbers; an item of a list has no key that it could be written with.
pub(crate) fn example(way: &[String]) -> Option<String> {
    Some(format!("{} = {}", way.last()?, right_value(way)?))
}

/// Right values that no scenario inside the program has.
const OWN_VALUES: [(&str, &str); 1] = [("measure.surge", "{ tile = 1, factor = 16 }")];

/// The value alone, as TOML writes it: the shortest in the scenarios inside the program.
pub(crate) fn right_value(way: &[String]) -> Option<String> {
    way.last().filter(|step| step.parse::<usize>().is_err())?;
    let own = || OWN_VALUES.into_iter().find(|(key, _)| *key == way.join("."));
    right_values(way).min_by_key(String::len).or_else(|| Some(own()?.1.to_owned()))
}

/// The unit that most scenarios inside the program give a key's values, as `/s` of `rate = "500/s"`. Nothing where they have none.
pub(crate) fn unit(way: &[String]) -> Option<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for unit in right_values(way).filter_map(|value| unit_of(value.trim_matches('"'))) {
        *counts.entry(unit).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(unit, _)| unit)
}

/// The unit of a value, as `/s` of `500/s`.
pub(crate) fn unit_of(value: &str) -> Option<String> {
    let has_unit = value.parse::<Rate>().is_ok()
        || value.parse::<Span>().is_ok()
        || value.parse::<Bytes>().is_ok()
        || value.parse::<Fraction>().is_ok();
    let unit = value.trim_start_matches(|each: char| each.is_ascii_digit() || each == '.');
    (has_unit && !unit.is_empty()).then(|| unit.to_owned())
}

/// The short values that a key has in the scenarios inside the program, as TOML writes them.
fn right_values(way: &[String]) -> impl Iterator<Item = String> {
    BUILTINS.iter().filter_map(|builtin| {
        let document: toml::Value = toml::Value::Table(builtin.text.parse().ok()?);
        let value = found(&document, way)?.to_string();
        (value.len() <= EXAMPLE_MAX && !value.contains('\n')).then_some(value)
    })
}

fn found<'v>(document: &'v toml::Value, way: &[String]) -> Option<&'v toml::Value> {
    let Some((step, rest)) = way.split_first() else { return Some(document) };
    match document {
        toml::Value::Table(table) => found(table.get(step)?, rest),
        toml::Value::Array(items) if step.parse::<usize>().is_ok() => {
            items.iter().find_map(|item| found(item, rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_comes_from_the_scenarios_inside_the_program() {
        let way = |steps: &[&str]| steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>();
        assert!(example(&way(&["ladder", "tiles"])).unwrap().starts_with("tiles = ["));
        assert!(example(&way(&["load", "0", "rate"])).unwrap().starts_with("rate = \""));
        assert!(example(&way(&["ladder"])).unwrap().starts_with("ladder = { tiles = ["));
        assert_eq!(example(&way(&["measure", "surge"])).unwrap(), "surge = { tile = 1, factor = 16 }");
        assert_eq!(example(&way(&["wob"])), None);
        assert_eq!(example(&way(&["load", "0"])), None, "`0 = …` is no key");
    }

    #[test]
    fn a_key_has_the_unit_of_its_values_and_a_name_or_a_count_has_none() {
        let unit = |steps: &[&str]| unit(&steps.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>());
        assert_eq!(unit(&["load", "0", "rate"]).as_deref(), Some("/s"));
        assert_eq!(unit(&["gate", "p99"]).as_deref(), Some("s"));
        assert_eq!(unit(&["guest", "0", "memory"]).as_deref(), Some("MiB"));
        assert_eq!(unit(&["gate", "errors"]).as_deref(), Some("%"));
        for none in [&["name"][..], &["measure", "repeats"], &["guest", "0", "role"], &["wob"]] {
            assert_eq!(unit(none), None, "{none:?}");
        }
    }
}
