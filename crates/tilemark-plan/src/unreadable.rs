//! What of a scenario cannot be read: every key that is not known and every value that is none, not only the first.
//!
//! Reading ends at the first mistake. It is noted, taken out, and the rest is read again.

use crate::{
    examples::{example, unit, unit_of},
    problem::{Problem, Problems},
    scenario::{Load, Scenario},
    settings::name_of,
    workload::Work,
};
use serde::Deserialize;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};
use std::collections::BTreeMap;
use tilemark_units::{Bytes, Span, in_our_words};

/// The flag that each key was typed with.
pub(crate) type Typed = BTreeMap<String, &'static str>;

/// Reads a scenario's document; reports all mistakes at once.
pub(crate) fn read(document: &Value, typed: &Typed) -> Result<Scenario, Problems> {
    Scenario::deserialize(document).map_err(|_| Problems(mistakes(document, typed)))
}

/// Mistakes that are reported; after each the whole document is read again.
const MISTAKES_MAX: usize = 25;

/// A place in a document: keys, and numbers in lists.
type Way = Vec<String>;

fn mistakes(document: &Value, typed: &Typed) -> Vec<Problem> {
    let (mut left, mut taken) = (document.clone(), Vec::new());
    let mut problems = Vec::new();
    while let Err((mut way, message)) = read_one_by_one(&left) {
        if taken.len() == MISTAKES_MAX {
            let message = format!("there are more than {MISTAKES_MAX} mistakes");
            problems.push(Problem::new(message, "correct these first"));
            break;
        }
        // The key that the message names: one too many, or one that lacks.
        let key = message.split('`').nth(1).unwrap_or_default().to_owned();
        let mut at = way.clone();
        if message.starts_with("unknown field") {
            if way.last() == Some(&key) {
                at.pop();
            } else {
                way.push(key);
            }
            problems.push(problem(&left, typed, &at, &message));
        } else if message.starts_with("missing field") {
            at.push(key);
            // What was taken out above lacks through no mistake of its own.
            if !taken.contains(&at) {
                problems.push(missing(&left, &at));
            }
        } else {
            problems.push(problem(&left, typed, &at, &message));
        }
        if !take_out(&mut left, &way) {
            break;
        }
        taken.push(way);
    }
    problems
}

/// The first mistake: where it is, and what.
fn read_one_by_one(document: &Value) -> Result<Scenario, (Way, String)> {
    read_works(document)?;
    serde_path_to_error::deserialize(document).map_err(|error| {
        let (way, message) = described(Way::new(), error);
        let is_load = matches!(&way[..], [list, _] if list == "load");
        // A load's workload is read with whatever is left over, so the reader does not know its keys.
        let lists_keys = !message.starts_with("unknown field") || message.contains("expected");
        let message = if is_load && !lists_keys {
            format!("{message}, expected one of {}", load_keys())
        } else {
            message
        };
        (way, message)
    })
}

/// Every key of a load, in backticks.
fn load_keys() -> String {
    Load::KEYS.iter().chain(Work::NAMES).map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// What loads ask for, by itself: the place of a mistake in it is lost where it is read as a part of its load.
fn read_works(document: &Value) -> Result<(), (Way, String)> {
    let loads = document.get("load").and_then(Value::as_array);
    for (index, load) in loads.into_iter().flatten().enumerate() {
        for (name, parameters) in load.as_object().into_iter().flatten() {
            if Work::NAMES.contains(&name.as_str()) {
                let work = serde_json::json!({ name: parameters });
                let way = vec!["load".to_owned(), index.to_string()];
                serde_path_to_error::deserialize::<_, Work>(&work).map_err(|error| described(way, error))?;
            }
        }
    }
    Ok(())
}

fn described(mut way: Way, error: serde_path_to_error::Error<serde_json::Error>) -> (Way, String) {
    way.extend(way_of(error.path()));
    (way, error.into_inner().to_string())
}

fn way_of(path: &Path) -> Way {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(index.to_string()),
        Segment::Map { key } | Segment::Enum { variant: key } => Some(key.clone()),
        Segment::Unknown => None,
    };
    path.iter().map_while(step).collect()
}

fn problem(document: &Value, typed: &Typed, at: &[String], message: &str) -> Problem {
    if let Some(problem) = number_without_unit(document, typed, at, message) {
        return problem;
    }
    let place = place(document, at);
    let place = if place.is_empty() { "the scenario".to_owned() } else { format!("`{place}`") };
    let message = format!("{place}: {}", in_our_words(message));
    // What has no such key needs none.
    let example = if message.contains(": there is no key ") { None } else { example(at) };
    Problem::new(message, remedy(example.map(|example| format!("write it like `{example}`"))))
}

/// A number where a number with a unit is meant: the user's own number is shown with one.
fn number_without_unit(document: &Value, typed: &Typed, at: &[String], message: &str) -> Option<Problem> {
    let number = document.pointer(&pointer(at)).filter(|value| value.is_number())?;
    if !message.ends_with("expected a string") {
        return None;
    }
    let (key, unit) = (at.last()?, unit_of_default(document, at).or_else(|| unit(at))?);
    let place = place(document, at);
    let written = |unit: &str| match typed.get(&place) {
        Some(flag) => format!("`{flag} {place}={number}{unit}`"),
        None => format!("`{key} = \"{number}{unit}\"`"),
    };
    let right = format!("write {}{}", written(&unit), other_units(&unit, number));
    Some(Problem::new(format!("`{place}`: {number} has no unit"), remedy(Some(right))))
}

/// Units that may be meant as well: nobody knows which one the number was thought in.
fn other_units(unit: &str, number: &Value) -> String {
    let one = format!("1{unit}");
    if one.parse::<Span>().is_ok() {
        return format!(" (or another unit: {})", Span::units().join(", "));
    }
    if one.parse::<Bytes>().is_ok() && unit != "B" {
        return format!(" or {number}B");
    }
    String::new()
}

/// The unit of the value that a scenario has where it leaves the key out.
fn unit_of_default(document: &Value, at: &[String]) -> Option<String> {
    let mut without = document.clone();
    take_out(&mut without, at);
    let scenario = serde_json::to_value(Scenario::deserialize(&without).ok()?).ok()?;
    unit_of(scenario.pointer(&pointer(at))?.as_str()?)
}

fn missing(document: &Value, at: &[String]) -> Problem {
    let example = example(at).map(|example| format!("add `{example}`"));
    Problem::new(format!("`{}` is missing", place(document, at)), remedy(example))
}

fn remedy(first: Option<String>) -> String {
    let format = "docs/scenarios.md has every key";
    first.map_or_else(|| format.to_owned(), |first| format!("{first}; {format}"))
}

/// A place as settings name it: guests and loads by their names.
fn place(document: &Value, way: &[String]) -> String {
    let word = |end: usize| {
        let step = &way[end - 1];
        let is_number = step.parse::<usize>().is_ok();
        let item = document.pointer(&pointer(&way[..end])).filter(|_| is_number);
        item.and_then(name_of).unwrap_or(step)
    };
    (1..=way.len()).map(word).collect::<Vec<_>>().join(".")
}

/// A way as RFC 6901 writes it.
fn pointer(way: &[String]) -> String {
    way.iter().map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1"))).collect()
}

/// Takes a value out of a document; says whether it was there.
fn take_out(document: &mut Value, way: &[String]) -> bool {
    let Some((last, before)) = way.split_last() else { return false };
    match document.pointer_mut(&pointer(before)) {
        Some(Value::Object(table)) => table.remove(last).is_some(),
        Some(Value::Array(items)) => {
            let index = last.parse().ok().filter(|index: &usize| *index < items.len());
            index.map(|index| items.remove(index)).is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    #[test]
    fn a_number_without_a_unit_is_shown_with_one_as_it_was_typed() {
        let web = include_str!("../../../scenarios/web.toml");
        let said = |flag: Option<&'static str>, key: &str, text: &str| {
            let mut draft = Draft::from_toml(web, "web").unwrap();
            match flag {
                Some(flag) => {
                    draft.apply_typed(flag, &[(key.to_owned(), text.to_owned())].into()).unwrap();
                }
                None => draft.set(key, text.parse::<f64>().unwrap().into()).unwrap(),
            }
            let problems = draft.finish().unwrap_err();
            (problems.to_string(), problems.remedy())
        };
        for (key, number, right) in [
            ("load.web.rate", "300", "300/s"),
            ("gate.p99", "20", "20ms"),
            ("gate.errors", "0.5", "0.5%"),
            ("guest.web.memory", "512", "512MiB"),
        ] {
            let (message, remedy) = said(Some("--set"), key, number);
            assert_eq!(message, format!("`{key}`: {number} has no unit"));
            assert!(remedy.starts_with(&format!("write `--set {key}={right}`")), "{remedy}");
            assert!(said(Some("--b"), key, number).1.starts_with(&format!("write `--b {key}={right}`")));
        }
        // 4096 of a size are bytes as often as they are of the default's unit.
        let sized = said(Some("--set"), "guest.web.memory", "4096").1;
        assert!(sized.starts_with("write `--set guest.web.memory=4096MiB` or 4096B; "), "{sized}");
        let timed = said(Some("--set"), "gate.p99", "20").1;
        assert!(timed.contains("=20ms` (or another unit: h, m, s, ms, us, ns); "), "{timed}");
        let (message, remedy) = said(None, "load.web.rate", "1.5");
        assert_eq!(message, "`load.web.rate`: 1.5 has no unit");
        assert!(remedy.starts_with("write `rate = \"1.5/s\"`; "), "{remedy}");
        // A name has no unit.
        assert!(said(Some("--set"), "name", "5").0.contains("a text in quotes is meant"));
    }
}
