//! Two runs of one fleet: what changed, host by host.

use super::super::{Finding, Sheet};
use super::sheet::{names, of_change};
use super::{FLEET_SCHEMA, FleetOutcome};
use crate::number::{counted, three};
use crate::view::{Cell, Chip, Part, Row, Section, Table, given, measured, words};
use serde::Serialize;
use std::collections::BTreeMap;
use tilemark_record::result::Figure;
use tilemark_units::natural_key;

/// What changed between two runs of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetDrift {
    /// Version of this format.
    pub schema: u32,
    /// The id of the earlier run.
    pub before: String,
    /// The id of the later run.
    pub after: String,
    /// The scenario, where both measured one.
    pub scenario: Option<String>,
    /// Hosts that both runs measured.
    pub both: usize,
    /// Hosts that only one run measured.
    pub only_in_one: Vec<String>,
    /// Hosts that were asked and that neither run measured.
    pub in_neither: Vec<String>,
    /// Hosts that both measured and that are not compared, each with the reason.
    pub not_compared: BTreeMap<String, String>,
    /// The step at which they are compared.
    pub step: Option<String>,
    /// `alike` where nothing changed.
    pub verdict: FleetOutcome,
    /// Hosts that changed more than chance and the other hosts do, and those of `failures`.
    pub named: Vec<String>,
    /// Hosts that fail at the step in one of the two runs and hold it in the other.
    pub failures: Vec<DriftFailure>,
    /// What is compared.
    pub measures: Vec<DriftOfMeasure>,
    /// What changed in the facts of hosts.
    pub changes: Vec<FactChange>,
    /// Why the verdict is not more.
    pub reasons: Vec<String>,
    /// The verdict in a few sentences.
    pub sentence: String,
}

/// A measure in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriftOfMeasure {
    /// Its name, such as `web p50`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Whether more is better.
    pub more_is_better: bool,
    /// A change within this is none: 0.03 is 3 %.
    pub least_change: f64,
    /// All hosts.
    pub all: DriftShift,
    /// Hosts on which something changed.
    pub changed: DriftShift,
    /// Hosts on which nothing changed: the controls.
    pub controls: DriftShift,
    /// How much more the changed hosts changed than the controls did.
    pub against_controls: DriftShift,
    /// Each host by itself.
    pub hosts: Vec<DriftHost>,
    /// Why no host is judged by itself, where that is so.
    pub hosts_why: Option<String>,
}

/// A mean change of several hosts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriftShift {
    /// Later over earlier, less 1, with the 95 % interval over hosts; null where it cannot be known.
    pub change: Option<Figure>,
    /// Probability of a change at least this large if there were none. Of `all` and `against_controls` corrected by Holm over both and all
    /// measures, since either of them names a change.
    pub p: Option<f64>,
    /// What it says.
    pub outcome: FleetOutcome,
    /// Why it is null.
    pub why: Option<String>,
}

/// A host in both runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DriftHost {
    /// Its name.
    pub name: String,
    /// Its value in the later run.
    pub value: f64,
    /// Later over earlier, less 1, with its 95 % interval.
    pub change: Figure,
    /// Corrected by Holm over all hosts and measures.
    pub p: f64,
    /// What it says.
    pub outcome: FleetOutcome,
}

/// A host that fails in one of the two runs and holds in the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriftFailure {
    /// Its name.
    pub name: String,
    /// Whether it fails in the later run; else it failed in the earlier one.
    pub fails_now: bool,
    /// What fails or failed, such as `errors of web: 20.0 %`.
    pub what: String,
    /// Whether nothing changed in its facts.
    pub is_control: bool,
}

/// A fact that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FactChange {
    /// Which.
    pub fact: String,
    /// Its value in the earlier run.
    pub before: String,
    /// Its value in the later run.
    pub after: String,
    /// The hosts on which it changed so.
    pub hosts: Vec<String>,
}

impl FleetDrift {
    /// One without figures, which says why.
    pub fn without_figures(before: String, after: String, why: String) -> Self {
        Self {
            schema: FLEET_SCHEMA,
            before,
            after,
            scenario: None,
            both: 0,
            only_in_one: Vec::new(),
            in_neither: Vec::new(),
            not_compared: BTreeMap::new(),
            step: None,
            verdict: FleetOutcome::CannotTell,
            named: Vec::new(),
            failures: Vec::new(),
            measures: Vec::new(),
            changes: Vec::new(),
            sentence: format!("The two runs cannot be compared: {why}."),
            reasons: vec![why],
        }
    }

    /// Whether each host that was asked in one of the two runs is compared.
    pub fn is_about_all(&self) -> bool {
        self.only_in_one.is_empty() && self.in_neither.is_empty() && self.not_compared.is_empty()
    }
}

/// What is shown.
pub(in super::super) fn sheet(drift: &FleetDrift) -> Sheet {
    // A change is one whoever else is missing. That is no verdict about all hosts.
    let chip = match drift.verdict {
        FleetOutcome::CannotTell | FleetOutcome::NotCompared => Some(Chip::CannotTell),
        FleetOutcome::Differs | FleetOutcome::Alike => Some(Chip::Trusted).filter(|_| drift.is_about_all()),
    };
    let finding =
        Finding { chip, head: String::new(), text: drift.sentence.clone(), reasons: drift.reasons.clone() };
    let mut sections = Vec::new();
    if !drift.failures.is_empty() {
        sections.push(Section::new(
            "failures",
            "Hosts that fail, or no longer do",
            vec![Part::Table(failures(drift))],
        ));
    }
    if !drift.measures.is_empty() {
        let step = drift.step.as_ref().map(|step| format!(" {step}")).unwrap_or_default();
        let about = format!(
            "Hosts are compared{step}, each with itself. Where a fact of a host changed, it is one of the changed hosts."
        );
        let parts = vec![Part::Text(about), Part::Table(shifts(drift))];
        sections.push(Section::new("shifts", "Mean changes over hosts", parts));
    }
    if drift.measures.iter().any(|measure| !measure.hosts.is_empty()) {
        let about = "The later run over the earlier one, with its 95 % interval. A host is named where it changed more than chance and the \
                     other hosts explain.";
        let parts = vec![Part::Text(about.to_owned()), Part::Table(hosts(drift))];
        sections.push(Section::new("hosts", "Each host", parts));
    }
    if !drift.changes.is_empty() {
        let row = |one: &FactChange| {
            let hosts = Cell::from(names(&one.hosts)).beside(Some(counted(one.hosts.len() as u64, "host")));
            Row::new(one.fact.clone(), vec![one.before.clone().into(), one.after.clone().into(), hosts])
        };
        let columns = vec![given("Fact"), words("Before"), words("After"), words("Hosts")];
        let table = Table::new(columns, drift.changes.iter().map(row).collect());
        sections.push(Section::new("facts", "What changed in their facts", vec![Part::Table(table)]));
    }
    let in_one = drift
        .only_in_one
        .iter()
        .map(|name| (name.clone(), "only one of the two runs measured it".to_owned()));
    let in_neither = drift.in_neither.iter().map(|name| (name.clone(), "neither run measured it".to_owned()));
    let left_out: BTreeMap<String, String> =
        in_one.chain(in_neither).chain(drift.not_compared.clone()).collect();
    if !left_out.is_empty() {
        let mut left_out: Vec<(String, String)> = left_out.into_iter().collect();
        left_out.sort_by_cached_key(|(name, _)| natural_key(name));
        let row = |(name, why): (String, String)| Row::new(name, vec![why.into()]);
        let table = Table::new(vec![given("Host"), words("Why")], left_out.into_iter().map(row).collect());
        sections.push(Section::new("left-out", "Hosts that are not compared", vec![Part::Table(table)]));
    }
    let scenario = drift.scenario.as_deref().unwrap_or("no scenario");
    Sheet {
        title: format!("{scenario}: fleet {} since {}", drift.after, drift.before),
        lead: Vec::new(),
        findings: vec![finding],
        forest: Vec::new(),
        charts: Vec::new(),
        sections,
    }
}

fn failures(drift: &FleetDrift) -> Table {
    let columns =
        vec![given("Host"), words("Earlier run"), words("Later run"), words("Facts").dispensable(1)];
    let row = |host: &DriftFailure| {
        let (fails, holds) = (format!("fails: {}", host.what).into(), "holds".into());
        let (before, after) = if host.fails_now { (holds, fails) } else { (fails, holds) };
        let facts = if host.is_control { "unchanged" } else { "changed" };
        Row::new(host.name.clone(), vec![before, after, facts.into()])
    };
    Table::new(columns, drift.failures.iter().map(row).collect())
}

fn shifts(drift: &FleetDrift) -> Table {
    let columns = vec![
        given("Measure"),
        words("Of"),
        measured("Change").unit("%"),
        measured("p").dispensable(2),
        words("Verdict"),
        measured("Hosts").dispensable(1),
    ];
    let line = |(of, shift): (&str, &DriftShift)| match &shift.change {
        None => vec![of.to_owned().into(), shift.why.clone().unwrap_or_default().into()],
        Some(figure) => vec![
            of.to_owned().into(),
            of_change(figure),
            Cell::figure(shift.p.map(p_words)),
            said(shift.outcome).into(),
            figure.n_repeats.to_string().into(),
        ],
    };
    let row = |measure: &DriftOfMeasure| {
        let all = [
            ("all hosts", &measure.all),
            ("hosts on which something changed", &measure.changed),
            ("hosts on which nothing changed", &measure.controls),
            ("changed hosts beyond unchanged ones", &measure.against_controls),
        ];
        Row {
            head: measure.name.clone().into(),
            lines: all.into_iter().map(line).collect(),
            ..Row::default()
        }
    };
    Table::new(columns, drift.measures.iter().map(row).collect())
}

fn hosts(drift: &FleetDrift) -> Table {
    let with: Vec<&DriftOfMeasure> =
        drift.measures.iter().filter(|measure| !measure.hosts.is_empty()).collect();
    let mut columns = vec![given("Host"), words("Verdict")];
    columns.extend(with.iter().map(|measure| measured(measure.name.clone()).unit("% since then")));
    let mut all: Vec<&str> =
        with.iter().flat_map(|measure| measure.hosts.iter().map(|host| &*host.name)).collect();
    all.sort_by_cached_key(|name| natural_key(name));
    all.dedup();
    let of = |measure: &'_ DriftOfMeasure, name: &str| -> Option<DriftHost> {
        measure.hosts.iter().find(|host| host.name == name).cloned()
    };
    let mut rows: Vec<(FleetOutcome, Row)> = Vec::new();
    for name in all {
        let own: Vec<Option<DriftHost>> = with.iter().map(|measure| of(measure, name)).collect();
        let has_turned = drift.failures.iter().any(|host| host.name == name);
        let by_failure = has_turned.then_some(FleetOutcome::Differs);
        let outcome = own.iter().flatten().map(|host| host.outcome).chain(by_failure).min();
        let outcome = outcome.unwrap_or(FleetOutcome::NotCompared);
        let mut cells = vec![Cell::from(said(outcome))];
        cells
            .extend(own.iter().map(|host| {
                host.as_ref().map_or_else(|| Cell::figure(None), |host| of_change(&host.change))
            }));
        rows.push((outcome, Row::new(name, cells)));
    }
    rows.sort_by_key(|(outcome, _)| *outcome);
    Table::new(columns, rows.into_iter().map(|(_, row)| row).collect())
}

const fn said(outcome: FleetOutcome) -> &'static str {
    match outcome {
        FleetOutcome::Differs => "changed",
        FleetOutcome::Alike => "the same",
        FleetOutcome::CannotTell => "cannot tell",
        FleetOutcome::NotCompared => "not compared",
    }
}

fn p_words(p: f64) -> String {
    if p < 0.0001 { "< 0.0001".to_owned() } else { three(p) }
}
