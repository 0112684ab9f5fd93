//! `docs/benchmarks.md`, made from stored figures: `benchmarks.md` beside this file has its text, and `docs/benchmarks/*.ndjson` have one
//! object a figure.

use crate::cargo::workspace;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::{collections::BTreeSet, fmt::Write, fs};

const FILE: &str = "docs/benchmarks.md";
const FIGURES: &str = "docs/benchmarks/figures.ndjson";
const FUZZING: &str = "docs/benchmarks/fuzzing.ndjson";
const TEMPLATE: &str = include_str!("benchmarks.md");
const HEAD: &str =
    "<!-- Made by `cargo xtask figures` from xtask/src/benchmarks.md and docs/benchmarks. -->\n";
/// A unit whose numbers have a sign.
const CHANGE: &str = "% change";

/// One figure. What nobody wrote down is null.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    /// The part of the page that it is in.
    section: String,
    what: String,
    command: Option<String>,
    machine: String,
    /// How busy the machine was.
    load: Option<String>,
    backend: Option<String>,
    n: Option<u64>,
    /// What `n` counts.
    n_of: Option<String>,
    /// Numbers are kept with the digits that were recorded: 1.00 is not 1.
    median: Option<Box<RawValue>>,
    low: Option<Box<RawValue>>,
    high: Option<Box<RawValue>>,
    /// `range` of all repeats, or `95 %`.
    interval: Option<String>,
    unit: Option<String>,
    /// An outcome that is no number of a unit.
    result: Option<String>,
    goal: Option<String>,
    reached: Option<bool>,
    /// The day on which it was first written down.
    recorded: Option<String>,
    /// The program's commit.
    commit: Option<String>,
    note: Option<String>,
}

/// What fuzzing one target gave.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fuzzed {
    target: String,
    /// Whether the walls around its parser were complete.
    all_walls: bool,
    seconds: u64,
    inputs: u64,
    edges: u64,
    memory_mib: u64,
    found: Option<String>,
}

/// Writes the page.
pub(crate) fn write() -> Result<()> {
    fs::write(workspace().join(FILE), page()?).with_context(|| format!("cannot write {FILE}"))
}

/// Fails where the page is not what would be made now.
pub(crate) fn check_fresh() -> Result<()> {
    let had = fs::read_to_string(workspace().join(FILE)).unwrap_or_default();
    if had == page()? { Ok(()) } else { bail!("{FILE} is out of date: run `cargo xtask figures`") }
}

fn page() -> Result<String> {
    let read =
        |name| fs::read_to_string(workspace().join(name)).with_context(|| format!("cannot read {name}"));
    filled(TEMPLATE, &lines(&read(FIGURES)?)?, &lines(&read(FUZZING)?)?)
}

fn lines<T: for<'de> Deserialize<'de>>(text: &str) -> Result<Vec<T>> {
    let line =
        |(number, line)| serde_json::from_str(line).with_context(|| format!("line {}: {line}", number + 1));
    text.lines().enumerate().map(line).collect()
}

fn filled(template: &str, figures: &[Figure], fuzzed: &[Fuzzed]) -> Result<String> {
    let (mut text, mut shown) = (HEAD.to_owned(), BTreeSet::new());
    for line in template.lines() {
        if let Some(section) = line.strip_prefix("{{figures ").and_then(|rest| rest.strip_suffix("}}")) {
            let own: Vec<&Figure> = figures.iter().filter(|figure| figure.section == section).collect();
            ensure!(!own.is_empty(), "{FIGURES} has nothing in the section {section}");
            shown.insert(section);
            text += &table(&own)?;
        } else if line == "{{fuzzing}}" {
            text += &fuzzing_table(fuzzed)?;
        } else {
            writeln!(text, "{line}")?;
        }
    }
    let forgotten = figures.iter().find(|figure| !shown.contains(figure.section.as_str()));
    forgotten.map_or(Ok(text), |figure| bail!("{FILE} has no section {}", figure.section))
}

/// The figures of a section, with their notes and commands below.
fn table(figures: &[&Figure]) -> Result<String> {
    let mut text = String::from(
        "| what | goal | value | low to high | n | where | recorded | |\n|---|---|---|---|---|---|---|---|\n",
    );
    let (mut notes, mut commands) = (Vec::new(), Vec::new());
    for figure in figures {
        let mut what = figure.what.clone();
        if let Some(note) = &figure.note {
            let known = notes.iter().position(|known| known == note).unwrap_or_else(|| {
                notes.push(note.clone());
                notes.len() - 1
            });
            write!(what, " [{}]", known + 1)?;
        }
        if let Some(command) = figure.command.as_deref().filter(|command| !commands.contains(command)) {
            commands.push(command);
        }
        let commit = figure.commit.as_ref().map_or(String::new(), |commit| format!(" ({commit})"));
        writeln!(
            text,
            "| {what} | {} | {} | {} | {} | {} | {}{commit} | {} |",
            figure.goal.as_deref().unwrap_or("none"),
            figure.value(),
            figure.spread(),
            figure.count(),
            figure.place(),
            or_not_recorded(figure.recorded.clone()),
            figure.outcome(),
        )?;
    }
    if !notes.is_empty() {
        writeln!(text)?;
    }
    for (number, note) in notes.iter().enumerate() {
        writeln!(text, "{}. {note}", number + 1)?;
    }
    if !commands.is_empty() {
        let quoted: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
        writeln!(text, "\nCommands: {}.", quoted.join(", "))?;
    }
    Ok(text)
}

impl Figure {
    fn value(&self) -> String {
        let median = self.median.as_ref().map(|value| self.number(value, true));
        match (median, &self.result) {
            (Some(median), Some(result)) => format!("{result}: {median}"),
            (Some(median), None) => median,
            (None, Some(result)) => result.clone(),
            (None, None) if self.low.is_some() || self.high.is_some() => "–".to_owned(),
            (None, None) => or_not_recorded(None),
        }
    }

    fn spread(&self) -> String {
        let interval = if self.interval.as_deref() == Some("95 %") { " (95 %)" } else { "" };
        match (&self.low, &self.high) {
            (Some(low), Some(high)) => {
                format!("{} to {}{interval}", self.number(low, false), self.number(high, true))
            }
            (Some(low), None) => format!("at least {}", self.number(low, true)),
            (None, Some(high)) => format!("at most {}", self.number(high, true)),
            // One run has no spread, and neither has an outcome that is no number.
            (None, None) if self.median.is_none() || self.n == Some(1) => "–".to_owned(),
            (None, None) => or_not_recorded(None),
        }
    }

    fn count(&self) -> String {
        let of = self.n_of.as_deref().unwrap_or_default();
        or_not_recorded(self.n.map(|n| format!("{} {of}", grouped(&n.to_string())).trim().to_owned()))
    }

    fn place(&self) -> String {
        let parts = [self.backend.as_deref(), Some(self.machine.as_str()), self.load.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    const fn outcome(&self) -> &'static str {
        match self.reached {
            Some(true) => "reached",
            Some(false) => "**not reached**",
            None => "",
        }
    }

    /// A number as it was recorded, with its sign where it is a change.
    fn number(&self, value: &RawValue, has_unit: bool) -> String {
        let unit = self.unit.as_deref().unwrap_or_default();
        let digits = value.get();
        let text = match digits.strip_prefix('-') {
            Some(digits) => format!("−{}", grouped(digits)),
            None if unit == CHANGE && digits.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) => {
                format!("+{}", grouped(digits))
            }
            None => grouped(digits),
        };
        let unit = if unit == CHANGE { "%" } else { unit };
        if has_unit { format!("{text} {unit}").trim_end().to_owned() } else { text }
    }
}

fn or_not_recorded(text: Option<String>) -> String {
    text.unwrap_or_else(|| "not recorded".to_owned())
}

/// Digits in groups of three before the point.
fn grouped(digits: &str) -> String {
    let whole = digits.split('.').next().unwrap_or(digits);
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + &digits[whole.len()..]
}

fn fuzzing_table(fuzzed: &[Fuzzed]) -> Result<String> {
    let mut text = String::from(
        "| target | seconds | inputs | edges reached | most memory | found in all |\n|---|---|---|---|---|---|\n",
    );
    for of in fuzzed {
        writeln!(
            text,
            "| {}{} | {} | {} | {} | {} MiB | {} |",
            of.target,
            if of.all_walls { ", with all walls" } else { "" },
            of.seconds,
            grouped(&of.inputs.to_string()),
            grouped(&of.edges.to_string()),
            of.memory_mib,
            of.found.as_deref().unwrap_or("none")
        )?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn figure(with: &[(&str, serde_json::Value)]) -> Figure {
        let mut object = json!({ "section": "load", "what": "rate", "machine": "vm-2" });
        with.iter().for_each(|(key, value)| object[*key] = value.clone());
        serde_json::from_str(&object.to_string()).unwrap()
    }

    #[test]
    fn a_figure_keeps_its_digits_and_says_what_nobody_recorded() {
        let line = r#"{"section":"load","what":"rate","machine":"vm-2","median":1.00,"low":-0.50,"high":143300,"unit":"% change","interval":"95 %","n":2000}"#;
        let one: Vec<Figure> = lines(line).unwrap();
        assert_eq!(one[0].value(), "+1.00 %");
        assert_eq!(one[0].spread(), "−0.50 to +143,300 % (95 %)");
        assert_eq!(one[0].count(), "2,000");
        let bare = figure(&[("median", json!(3))]);
        assert_eq!(
            (bare.value(), bare.spread(), bare.count()),
            ("3".into(), "not recorded".into(), "not recorded".into())
        );
        assert_eq!(figure(&[("result", json!("passed"))]).spread(), "–");
        assert_eq!(figure(&[]).value(), "not recorded");
    }

    #[test]
    fn a_missed_goal_is_said_and_equal_notes_are_one() {
        let missed = figure(&[("reached", json!(false)), ("note", json!("Busy.")), ("command", json!("a"))]);
        let other = figure(&[("note", json!("Busy."))]);
        let text = table(&[&missed, &other]).unwrap();
        assert!(text.contains("| rate [1] | none | not recorded | – | not recorded | vm-2 | not recorded | **not reached** |"), "{text}");
        assert_eq!(text.matches("Busy.").count(), 1);
        assert!(text.ends_with("\n1. Busy.\n\nCommands: `a`.\n"), "{text}");
    }

    #[test]
    fn no_figure_is_left_out_of_the_page() {
        let error = filled("{{fuzzing}}\n", &[figure(&[])], &[]).unwrap_err();
        assert_eq!(error.to_string(), "docs/benchmarks.md has no section load");
        assert!(filled("{{figures walls}}\n", &[figure(&[])], &[]).is_err());
        assert!(lines::<Figure>(r#"{"section":"load","what":"rate","machine":"vm-2","speed":1}"#).is_err());
    }

    #[test]
    fn the_page_is_what_the_stored_figures_say() {
        check_fresh().unwrap();
    }
}
