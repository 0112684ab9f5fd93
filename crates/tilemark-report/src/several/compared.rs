//! Records side by side, each compared with the first.

use super::{Finding, Sheet, capacity};
use crate::number::{change, counted, three};
use crate::view::{
    self, Cell, Chip, Part, Row, RowGroup, Section, Table, forest_rows, given, limit_word, measured, words,
};
use std::collections::BTreeSet;
use tilemark_record::result::{Comparison, RunResult, Verdict, VerdictStatus};

/// Several sides, each but the first compared with the first.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedRuns {
    /// The sides, the first one first. There are at least two.
    pub sides: Vec<ComparedSide>,
    /// What came of each side but the first, in their order.
    pub against: Vec<Against>,
}

/// A side: one run, or a set of runs of the same thing.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedSide {
    /// What it was asked for by: a run or a set.
    pub name: String,
    /// The results of its runs; at least one.
    pub results: Vec<RunResult>,
}

/// A side against the first one.
#[derive(Debug, Clone, PartialEq)]
pub struct Against {
    /// How they differ; A is the first side, B this one.
    pub comparison: Comparison,
    /// Whether that can be trusted.
    pub verdict: Verdict,
}

impl ComparedRuns {
    /// How a side is called: `A`, `B`; of more than two `A`, `B1`, `B2` …, since each is the B of its own comparison.
    pub fn label(&self, place: usize) -> String {
        match (place, self.sides.len()) {
            (0, _) => "A".to_owned(),
            (_, ..=2) => "B".to_owned(),
            (place, _) => format!("B{place}"),
        }
    }

    /// The labels of the sides that are compared with the first, with what came of them.
    pub(super) fn labelled(&self) -> impl Iterator<Item = (String, &Against)> {
        self.against.iter().enumerate().map(|(place, against)| (self.label(place + 1), against))
    }

    /// The scenario of the first side.
    pub(super) fn scenario(&self) -> &str {
        self.sides.first().and_then(|side| side.results.first()).map_or("", |result| &result.scenario)
    }
}

/// What is shown.
pub(super) fn sheet(runs: &ComparedRuns) -> Sheet {
    let many = runs.against.len() > 1;
    let title = match many {
        false => format!("{}: two sides compared", runs.scenario()),
        true => format!("{}: {} sides, each compared with the first", runs.scenario(), runs.sides.len()),
    };
    let mut sections = Vec::new();
    if many {
        sections.push(Section::new("values", "Values of all sides", vec![Part::Table(values(runs))]));
    }
    let of_measures: Vec<_> = runs
        .labelled()
        .map(|(label, against)| {
            (label, &against.comparison, against.verdict.status == VerdictStatus::NotTrusted)
        })
        .collect();
    let failures: Vec<RowGroup> = grouped(runs, view::failures);
    if failures.iter().any(|group| !group.rows.is_empty()) {
        let table = Table { groups: failures, ..view::failures(&runs.against[0].comparison) };
        sections.push(view::failures_section(table));
    }
    let mut parts = vec![Part::Table(view::measures(&of_measures))];
    if many {
        let about = "p is corrected by Holm over the primary measures of all comparisons together.";
        parts.insert(0, Part::Text(about.to_owned()));
    }
    sections.push(Section::new("measures", "Measures", parts));
    sections.push(Section::new("differences", "What differs", vec![Part::Table(differences(runs))]));
    Sheet {
        title,
        lead: vec![Section::new("records", "Records", vec![Part::Table(records(runs))])],
        findings: runs.labelled().map(|(label, against)| finding(runs, &label, against)).collect(),
        forest: forest(runs, many),
        charts: Vec::new(),
        sections,
    }
}

/// Who, when, where, how many: a row for each side, a line in it for each of its runs.
fn records(runs: &ComparedRuns) -> Table {
    let columns = vec![
        given("Side"),
        words("Began"),
        words("Host"),
        measured("Capacity"),
        words("Verdict"),
        words("Run"),
        measured("Estimate").unit("tiles").dispensable(2),
        words("First bottleneck").dispensable(1),
        words("Kernel").dispensable(3),
        words("QEMU").dispensable(4),
        words("Tilemark").dispensable(5),
    ];
    let row = |(place, side): (usize, &ComparedSide)| {
        let set = (side.results.len() > 1)
            .then(|| format!("{}, {}", side.name, counted(side.results.len() as u64, "run")));
        let head = Cell::from(runs.label(place)).beside(set);
        Row { head, lines: side.results.iter().map(record).collect(), ..Row::default() }
    };
    Table::new(columns, runs.sides.iter().enumerate().map(row).collect())
}

fn record(result: &RunResult) -> Vec<Cell> {
    let (answer, provenance) = (&result.answer, &result.provenance);
    let struck = result.verdict.status == VerdictStatus::NotTrusted;
    let on = answer.backend.map(|backend| format!("on {}", backend.name()));
    let figure = |text: Cell| Cell { struck: struck && !text.is_missing(), ..text };
    let none = || Some(()).filter(|()| answer.holds.is_some() || answer.breaks.is_some());
    vec![
        capacity::minute(&provenance.began).into(),
        capacity::host(&provenance.host).into(),
        figure(Cell::from(capacity::words(answer)).beside(on)),
        capacity::verdict(result.verdict.status).into(),
        result.run.clone().into(),
        figure(Cell::figure(answer.capacity.as_ref().map(capacity::estimate))),
        Cell::figure(none().map(|()| limit_word(answer.limit.resource).to_owned())),
        provenance.kernel.clone().into(),
        Cell::figure(provenance.qemu.clone()),
        provenance.tilemark.clone().into(),
    ]
}

/// Each measure with its value on every side, and the change from A beside it.
fn values(runs: &ComparedRuns) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for measure in runs.against.iter().flat_map(|against| &against.comparison.measures) {
        if !names.contains(&&*measure.name) {
            names.push(&measure.name);
        }
    }
    let row = |name: &&str| {
        let found = |against: &'_ Against| {
            against.comparison.measures.iter().find(|measure| measure.name == *name).cloned()
        };
        let all: Vec<_> = runs.against.iter().map(found).collect();
        let first = all.iter().flatten().find_map(|measure| Some((measure.a?, measure.unit.clone()?)));
        let of_first = Cell::figure(first.map(|(value, unit)| value_words(value, &unit)));
        let others = all.into_iter().map(|measure| {
            let Some(measure) = measure else { return Cell::figure(None) };
            let unit = measure.unit.clone().unwrap_or_default();
            let changed = format!("{}\u{202f}%, {}", change(measure.change.value), measure.outcome.words());
            Cell::figure(measure.b.map(|value| value_words(value, &unit))).beside(Some(changed))
        });
        Row::new(*name, [of_first].into_iter().chain(others).collect())
    };
    let sides = (0..runs.sides.len()).map(|place| words(runs.label(place)));
    let columns = [given("Measure")].into_iter().chain(sides);
    Table::new(columns.collect(), names.iter().map(row).collect())
}

fn value_words(value: f64, unit: &str) -> String {
    format!("{}\u{202f}{unit}", three(value))
}

/// The rows of a table of each comparison; of several, each group under its label.
fn grouped(runs: &ComparedRuns, table: impl Fn(&Comparison) -> Table) -> Vec<RowGroup> {
    let many = runs.against.len() > 1;
    let group = |(label, against): (String, &Against)| {
        let rows = table(&against.comparison).groups.into_iter().flat_map(|group| group.rows);
        RowGroup { head: many.then(|| view::against_first(&label)), rows: rows.collect() }
    };
    runs.labelled().map(group).filter(|group| !group.rows.is_empty()).collect()
}

/// All that differs from A, with its value on every side.
fn differences(runs: &ComparedRuns) -> Table {
    let all = || runs.against.iter().flat_map(|against| &against.comparison.differences);
    let mut seen = BTreeSet::new();
    // One key may differ in several values, as that of many guests; each pair is a row.
    let pairs: Vec<(&str, &str)> = all()
        .map(|difference| (&*difference.key, &*difference.a))
        .filter(|pair| seen.insert(*pair))
        .collect();
    let row = |(key, of_a): &(&str, &str)| {
        let others = runs.against.iter().map(|against| {
            let mut own = against.comparison.differences.iter();
            let own = own.find(|difference| difference.key == *key && difference.a == *of_a);
            own.map_or("as A", |difference| &difference.b).into()
        });
        Row::new(*key, [Cell::from(*of_a)].into_iter().chain(others).collect())
    };
    let mut rows: Vec<Row> = pairs.iter().map(row).collect();
    if rows.is_empty() {
        rows.push(Row::new("nothing: the sides are the same", vec![Cell::default()]));
    }
    let sides = (0..runs.sides.len()).map(|place| words(runs.label(place)));
    Table::new([given("Setting")].into_iter().chain(sides).collect(), rows)
}

fn finding(runs: &ComparedRuns, label: &str, against: &Against) -> Finding {
    let Against { comparison, verdict } = against;
    let mut reasons = verdict.reasons.clone();
    if let Some(voided) = comparison.voided.filter(|voided| voided.a + voided.b > 0) {
        let tilemark_record::result::VoidedSides { a, of_a, b, of_b, .. } = voided;
        reasons.push(format!("discarded: {a} of {of_a} repeats of A, {b} of {of_b} of B"));
    }
    let head = match runs.against.len() {
        1 => String::new(),
        _ => format!("{label} compared with A (called B below)"),
    };
    Finding { chip: Some(chip(verdict.status)), head, text: comparison.sentence.clone(), reasons }
}

fn chip(status: VerdictStatus) -> Chip {
    match status {
        VerdictStatus::Trusted => Chip::Trusted,
        VerdictStatus::NotTrusted => Chip::NotTrusted,
        VerdictStatus::CannotTell => Chip::CannotTell,
    }
}

/// The rows of the chart: of several comparisons only the measures that decide.
fn forest(runs: &ComparedRuns, many: bool) -> Vec<view::ForestRow> {
    let rows = runs.labelled().flat_map(|(label, against)| {
        let own = forest_rows(&against.comparison).into_iter().filter(move |row| !many || row.primary);
        own.map(move |row| if many { row.under(&label) } else { row })
    });
    rows.collect()
}
