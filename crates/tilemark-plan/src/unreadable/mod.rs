//! What of a scenario cannot be read: every key that is not known and every value that is none, not only the first.
//!
//! Reading ends at the first mistake. It is noted, taken out, and the rest is read again.

mod loads;
mod way;

use crate::{
    examples::{example, right_value, unit, unit_of},
    problem::{Problem, Problems},
    scenario::Scenario,
};
use loads::{put_work_for, read_loads, wrong_works};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tilemark_units::{Bytes, Span, in_our_words};
use way::{Mistake, Way, described, place, pointer, take_out};

/// The flag that each key was typed with.
pub(crate) type Typed = BTreeMap<String, &'static str>;

/// Reads a scenario's document; reports all mistakes at once.
pub(crate) fn read(document: &Value, typed: &Typed) -> Result<Scenario, Problems> {
    Scenario::deserialize(document).map_err(|_| Problems(mistakes(document, typed)))
}

/// Mistakes that are reported; after each the whole document is read again.
const MISTAKES_MAX: usize = 25;

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
            put_work_for(&mut left, &at, &way);
        } else if message.starts_with("missing field") {
            at.push(key);
            // What was taken out above lacks through no mistake of its own.
            if !taken.contains(&at) {
                problems.push(missing(&left, &at));
            }
            // The document itself cannot be taken out.
            if let ([key], Some(all)) = (&at[..], left.as_object_mut())
                && let Some(value) = in_place_of(key)
            {
                all.insert(key.clone(), value);
                taken.push(at);
                continue;
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
fn read_one_by_one(document: &Value) -> Result<Scenario, Mistake> {
    read_loads(document)?;
    serde_path_to_error::deserialize(document).map_err(|error| described(Way::new(), error))
}

fn problem(document: &Value, typed: &Typed, at: &[String], message: &str) -> Problem {
    let known = number_without_unit(document, typed, at, message)
        .or_else(|| one_table(typed, at, message))
        .or_else(|| wrong_load(document, at, message));
    if let Some(problem) = known {
        return problem;
    }
    let place = place(document, at);
    let place = if place.is_empty() { "the scenario".to_owned() } else { format!("`{place}`") };
    let message = format!("{place}: {}", in_our_words(message));
    // What has no such key needs none.
    let value = if message.contains(": there is no key ") { None } else { right_value(at) };
    let example = value.and_then(|value| written(document, typed, at, &value));
    of_a_key(message, example.map(|example| format!("write it like {example}")))
}

/// A key with a value, as the user wrote it: after its flag, or as a line of the file.
fn written(document: &Value, typed: &Typed, at: &[String], value: &str) -> Option<String> {
    let place = place(document, at);
    Some(match typed.get(&place) {
        Some(flag) => {
            let setting = format!("{place}={}", value.trim_matches('"'));
            let mark = if setting.contains([' ', '"', '[', '{']) { "'" } else { "" };
            format!("`{flag} {mark}{setting}{mark}`")
        }
        None => format!("`{} = {value}`", at.last()?),
    })
}

/// A number where a number with a unit is meant: the user's own number is shown with one.
fn number_without_unit(document: &Value, typed: &Typed, at: &[String], message: &str) -> Option<Problem> {
    let number = document.pointer(&pointer(at)).filter(|value| value.is_number())?;
    if !message.ends_with("expected a string") {
        return None;
    }
    let unit = unit_of_default(document, at).or_else(|| unit(at))?;
    let written = written(document, typed, at, &format!("\"{number}{unit}\""))?;
    let right = format!("write {written}{}", other_units(&unit, number));
    Some(of_a_key(format!("`{}`: {number} has no unit", place(document, at)), Some(right)))
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

/// A list of tables that is written as one table, such as `[load]`.
fn one_table(typed: &Typed, at: &[String], message: &str) -> Option<Problem> {
    let has_tables = matches!(at.last()?.as_str(), "load" | "guest" | "disk");
    if !has_tables || !message.starts_with("invalid type: map, expected a sequence") {
        return None;
    }
    let steps: Vec<&str> =
        at.iter().map(String::as_str).filter(|step| step.parse::<usize>().is_err()).collect();
    let list = steps.join(".");
    let remedy = format!("write `[[{list}]]`, with two brackets");
    let message = format!("`{list}`: it is one table, and a list of tables is meant");
    (!typed.contains_key(&list)).then(|| of_a_key(message, Some(remedy)))
}

/// A load that asks for nothing, or for several things.
fn wrong_load(document: &Value, at: &[String], message: &str) -> Option<Problem> {
    let (what, remedy) = wrong_works(document, at).filter(|_| !message.starts_with("unknown field"))?;
    Some(of_a_key(format!("`{}` {what}", place(document, at)), Some(remedy)))
}

fn missing(document: &Value, at: &[String]) -> Problem {
    let example = example(at).map(|example| format!("add `{example}`"));
    of_a_key(format!("`{}` is missing", place(document, at)), example)
}

/// What can be read in place of a missing key of the document itself, so that the rest is read too.
fn in_place_of(key: &str) -> Option<Value> {
    match key {
        "schema" => Some(Value::from(1)),
        "name" | "about" => Some(Value::String(String::new())),
        "guest" => Some(Value::Array(Vec::new())),
        _ => None,
    }
}

fn of_a_key(message: String, remedy: Option<String>) -> Problem {
    let page = Some("docs/scenarios.md has every key");
    Problem { page, ..Problem::new(message, remedy.unwrap_or_default()) }
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    #[test]
    fn all_missing_keys_of_a_scenario_are_named_at_once() {
        let text = "[measure]\nrepeats = \"many\"\n";
        let problems = Draft::from_toml(text, "x.toml").unwrap().finish().unwrap_err().to_string();
        for named in [
            "`schema` is",
            "`name` is",
            "`about` is",
            "`guest` is",
            "`ladder` is missing",
            "`measure.repeats`",
        ] {
            assert!(problems.contains(named), "{named}: {problems}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_shown_with_one_as_it_was_typed() {
        let web = include_str!("../../../../scenarios/web.toml");
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
