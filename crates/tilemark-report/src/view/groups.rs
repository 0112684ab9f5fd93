//! Points in groups that may be drawn as one line: same backend, same side, same values of what varies.

use super::Cell;
use crate::Report;
use crate::number::counted;
use std::collections::{BTreeMap, BTreeSet};
use tilemark_plan::plan::{Backend, Hardware, SideName};
use tilemark_record::{
    result::{LimitResource, PointResult, VerdictStatus, Voided},
    summary::RepeatSummary,
};

/// Repeats that an interval needs.
const REPEATS_FOR_INTERVAL: u32 = 3;

/// What a group is in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// What the answer is about.
    Main,
    /// The same work without virtualization.
    Twin,
    /// Proves function; its figures say nothing about hardware.
    Emulated,
}

/// What the steps of a chart are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Tile counts.
    Tiles,
    /// Values of what varies, at one tile count.
    Vary,
    /// Roles of a tile, alone and in pairs: each point is a group of its own.
    Roles,
}

/// Points that belong on one line.
pub(crate) struct Group<'a> {
    /// What it is in the report.
    pub(crate) kind: Kind,
    /// How its guests run.
    pub(crate) backend: Backend,
    /// Its side.
    pub(crate) side: Option<SideName>,
    /// What sets it apart from others, for people; empty if nothing does.
    pub(crate) name: String,
    /// Its points in rising order.
    pub(crate) points: Vec<&'a PointResult>,
}

/// A report, put in order.
pub(crate) struct View<'a> {
    /// What it is drawn from.
    pub(crate) report: &'a Report,
    /// What the steps are.
    pub(crate) axis: Axis,
    /// The main groups first, then the twin, then what is emulated.
    pub(crate) groups: Vec<Group<'a>>,
    /// Which points the verdict doubts: their figures are struck, the others stay.
    doubt: Doubt,
}

/// How far distrust reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doubt {
    /// Nothing is known against the figures.
    None,
    /// Only points that say so themselves.
    Points,
    /// All of them: the reason names no point.
    All,
}

impl<'a> View<'a> {
    /// Puts `report` in order.
    pub(crate) fn of(report: &'a Report) -> Self {
        let points = &report.result.points;
        let axis = axis(report);
        let main = main_backend(report);
        let mut lines: BTreeMap<_, Vec<&PointResult>> = BTreeMap::new();
        for point in points {
            let vary = if axis == Axis::Vary { BTreeMap::new() } else { point.vary.clone() };
            let key =
                (kind(report, point.backend, main), point.side, vary_order(report, &vary), point.backend);
            lines.entry(key).or_default().push(point);
        }
        let sides = points.iter().any(|point| point.side.is_some());
        let mut groups: Vec<Group> = lines
            .into_iter()
            .map(|((kind, side, _, backend), mut points)| {
                points.sort_by_key(|point| (point.tiles, point.index));
                let name = name(kind, backend, side, if axis == Axis::Tiles { points.first() } else { None });
                Group { kind, backend, side, name, points }
            })
            .collect();
        if groups.iter().filter(|group| group.kind == Kind::Main).count() == 1 && !sides {
            groups[0].name = backend_words(groups[0].backend).to_owned();
        }
        Self { report, axis, groups, doubt: doubt(report) }
    }

    /// The load whose figures are those of this point.
    pub(crate) fn headline_of(&self, point: &PointResult) -> &'a str {
        let plan = &self.report.plan;
        plan.points.get(point.index).and_then(|point| point.headline(&plan.scenario)).unwrap_or_default()
    }

    /// The unit of the one figure that the command of a load prints in place of a rate.
    pub(crate) fn unit_of_figure(&self, point: &PointResult, load: &str) -> Option<&'a str> {
        let point = self.report.plan.points.get(point.index)?;
        point.figure_of(load).map(|(unit, _)| unit)
    }

    /// The headline load of the run; empty where nothing is sent.
    pub(crate) fn headline(&self) -> &'a str {
        self.report.plan.scenario.headline.as_deref().unwrap_or_default()
    }

    /// Whether tiles and guests are compared with each other. Of roles and pairs of them the matrix compares what can be compared: their
    /// tiles and guests are few and differ.
    pub(crate) fn compares_tiles(&self) -> bool {
        !self.groups.is_empty() && !self.headline().is_empty() && self.axis != Axis::Roles
    }

    /// Names of all loads, in the plan's order.
    pub(crate) fn loads(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for load in self.report.result.points.iter().flat_map(|point| &point.loads) {
            if !names.contains(&load.name) {
                names.push(load.name.clone());
            }
        }
        names
    }

    /// Whether any guest ran in QEMU; a record without a point says it by its version.
    pub(crate) fn qemu_ran(&self) -> bool {
        let points = &self.report.result.points;
        points.is_empty() || points.iter().any(|point| point.backend != Backend::Native)
    }

    /// The version of QEMU that guests ran in.
    pub(crate) fn qemu(&self) -> Option<&'a str> {
        self.report.result.provenance.qemu.as_deref().filter(|_| self.qemu_ran())
    }

    /// Groups that belong into the charts of the first screen: never emulated beside real ones.
    pub(crate) fn drawn(&self) -> Vec<&Group<'a>> {
        let real: Vec<&Group> = self.groups.iter().filter(|group| group.kind != Kind::Emulated).collect();
        if real.is_empty() { self.groups.iter().collect() } else { real }
    }

    /// How guests ran, in words.
    pub(crate) fn backends(&self) -> String {
        let words = self.groups.iter().map(|group| match group.kind {
            Kind::Twin => "native twin",
            _ => backend_words(group.backend),
        });
        let mut words: Vec<&str> = words.collect();
        words.dedup();
        let words = words.join(" + ");
        match self.report.plan.host.hardware {
            Hardware::Emulated if !words.is_empty() => format!("{words} on an emulated host"),
            _ => words,
        }
    }

    /// Whether everything that was measured is emulated.
    pub(crate) fn all_emulated(&self) -> bool {
        !self.groups.is_empty() && self.groups.iter().all(|group| group.kind == Kind::Emulated)
    }

    /// Whether anything that was measured is emulated.
    pub(crate) fn any_emulated(&self) -> bool {
        self.groups.iter().any(|group| group.kind == Kind::Emulated)
    }

    /// The name of a point's step on the axis.
    pub(crate) fn step(&self, point: &PointResult) -> String {
        match self.axis {
            Axis::Tiles => point.tiles.to_string(),
            Axis::Vary | Axis::Roles => vary_words(point),
        }
    }

    /// A point's step, with what sets its group apart where there are others like it.
    pub(crate) fn label(&self, group: &Group, point: &PointResult) -> String {
        let step = self.step(point);
        let alone = self.groups.iter().filter(|other| other.kind == group.kind).count() == 1;
        match group.kind {
            Kind::Main if alone || self.axis == Axis::Roles => step,
            _ => format!("{step}, {}", group.name),
        }
    }

    /// The head of a point's row, with its group; it names a point that is not trusted.
    pub(crate) fn head(&self, group: &Group, point: &PointResult) -> Cell {
        let step = self.step(point);
        let is_named = group.name.is_empty() || self.axis == Axis::Roles;
        let step = if is_named { step } else { format!("{step}, {}", group.name) };
        Cell::from(step).beside(self.struck(point).then(|| "(not trusted)".to_owned()))
    }

    /// All points with their groups.
    pub(crate) fn points(&self) -> impl Iterator<Item = (&Group<'a>, &'a PointResult)> {
        self.groups.iter().flat_map(|group| group.points.iter().map(move |point| (group, *point)))
    }

    /// The repeats of `point` that count.
    pub(crate) fn kept_repeats(&self, point: &'a PointResult) -> impl Iterator<Item = &'a RepeatSummary> {
        let is_kept =
            |repeat: &RepeatSummary| point.repeats_voided.iter().all(|void| void.repeat != repeat.repeat);
        self.report.repeats.iter().filter(move |repeat| repeat.point == point.index && is_kept(repeat))
    }

    /// What is worth knowing of points, most of all that two ways of counting memory do not agree. A note that several points have is one.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<(&str, String, u64)> = Vec::new();
        for (group, point) in self.points() {
            for note in &point.notes {
                match notes.iter_mut().find(|(known, ..)| known == note) {
                    Some((_, _, more)) => *more += 1,
                    None => {
                        notes.push((note, format!("{} {}", self.axis_words(), self.label(group, point)), 0))
                    }
                }
            }
        }
        let line = |(note, place, more): (&str, String, u64)| match more {
            0 => format!("{place}: {note}."),
            more => format!("{place}, and {}: {note}.", counted(more, "more step")),
        };
        notes.into_iter().map(line).collect()
    }

    /// The name of the axis.
    pub(crate) fn axis_words(&self) -> String {
        match self.axis {
            Axis::Tiles => "tiles".to_owned(),
            Axis::Roles => "roles".to_owned(),
            Axis::Vary => {
                let names: BTreeSet<&str> = self
                    .report
                    .result
                    .points
                    .iter()
                    .flat_map(|point| point.vary.keys().map(String::as_str))
                    .collect();
                names.into_iter().collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The steps of the charts, in order, without doubles.
    pub(crate) fn steps(&self) -> Vec<String> {
        let drawn = self.drawn();
        let mut points: Vec<&PointResult> =
            drawn.iter().flat_map(|group| group.points.iter().copied()).collect();
        points.sort_by_key(|point| match self.axis {
            Axis::Tiles => (point.tiles as usize, 0),
            Axis::Vary | Axis::Roles => (0, point.index),
        });
        let mut steps = Vec::new();
        for point in points {
            let step = self.step(point);
            if !steps.contains(&step) {
                steps.push(step);
            }
        }
        steps
    }

    /// Whether a point's figures are struck through: shown, and not to be believed.
    pub(crate) fn struck(&self, point: &PointResult) -> bool {
        match self.doubt {
            Doubt::All => true,
            Doubt::Points => doubtful(point),
            Doubt::None => point.repeats_kept == 0 && !point.repeats_voided.is_empty(),
        }
    }

    /// Whether the answer and the cost are struck through.
    pub(crate) fn answer_struck(&self) -> bool {
        self.report.result.verdict.status == VerdictStatus::NotTrusted
    }

    /// Whether the sentence is struck through. Where there is no answer, it says why or holds only figures
    /// of points that can be trusted.
    pub(crate) fn sentence_struck(&self) -> bool {
        let result = &self.report.result;
        let answers_otherwise =
            result.comparison.is_some() || result.interference.is_some() || result.screening.is_some();
        self.answer_struck() && (result.answer.none_because.is_none() || answers_otherwise)
    }

    /// Why `figure` of `point` is missing.
    pub(crate) fn missing(&self, point: &PointResult, figure: &str) -> String {
        let result = &self.report.result;
        let (at, headline) = (point.index, self.headline_of(point));
        let keys = [format!("points.{at}.{figure}"), format!("points.{at}.loads.{headline}.{figure}")];
        if let Some(reason) = keys.iter().chain([&figure.to_owned()]).find_map(|key| result.missing.get(key))
        {
            return reason.clone();
        }
        if point.repeats_kept == 0 {
            let discarded = Voided::every_one(&point.repeats_voided);
            return discarded.unwrap_or_else(|| "no repeat was finished".to_owned());
        }
        if self.headline().is_empty() && !matches!(figure, "processor" | "pss_mib_per_guest" | "ready_s") {
            return "this scenario sends no load".to_owned();
        }
        match figure {
            "offered" | "achieved_fraction" => {
                "closed loop: no request is sent before the previous answer".to_owned()
            }
            "pss_mib_per_guest" if point.backend == Backend::Native => {
                "native: no guest, so no memory per guest".to_owned()
            }
            "pss_mib_per_guest" => "memory of guests was not read".to_owned(),
            "ready_s" => "the record does not say how soon guests were ready".to_owned(),
            "latency_ms.p50" | "p99_ms" | "latency_ms.p99" | "latency_ms.p999" => {
                "fewer than 20 requests lie beyond it".to_owned()
            }
            "p99_ms.low" if point.repeats_kept < REPEATS_FOR_INTERVAL => format!(
                "no interval: {} kept, it needs {REPEATS_FOR_INTERVAL}",
                counted(point.repeats_kept.into(), "repeat")
            ),
            "p99_ms.low" => "the record has no interval".to_owned(),
            "repeats_within" => "this record does not have it".to_owned(),
            "holds" if point.repeats_kept < REPEATS_FOR_INTERVAL => format!(
                "{} kept, an interval needs {REPEATS_FOR_INTERVAL}",
                counted(point.repeats_kept.into(), "repeat")
            ),
            "holds" => "the gate could not be judged".to_owned(),
            _ => "not measured".to_owned(),
        }
    }
}

/// Words for a backend.
pub(crate) const fn backend_words(backend: Backend) -> &'static str {
    match backend {
        Backend::Kvm => "KVM guests",
        Backend::Emulated => "emulated guests",
        Backend::Native => "native (no guests)",
    }
}

/// The values of what varies, for people.
pub(crate) fn vary_words(point: &PointResult) -> String {
    let values: Vec<String> = match point.vary.len() {
        1 => point.vary.values().cloned().collect(),
        _ => point.vary.iter().map(|(name, value)| format!("{name} {value}")).collect(),
    };
    values.join(", ")
}

fn axis(report: &Report) -> Axis {
    if report.result.interference.is_some() {
        return Axis::Roles;
    }
    let points = &report.result.points;
    let tiles: BTreeSet<u32> = points.iter().map(|point| point.tiles).collect();
    let vary: BTreeSet<_> = points.iter().map(|point| &point.vary).collect();
    if tiles.len() == 1 && vary.len() > 1 { Axis::Vary } else { Axis::Tiles }
}

/// The backend that the answer is about; without an answer the first measured one of kvm, native, emulated.
fn main_backend(report: &Report) -> Backend {
    let measured = |backend| {
        !report.plan.host.emulates(backend)
            && report.result.points.iter().any(|point| point.backend == backend)
    };
    report.result.answer.backend.filter(|backend| measured(*backend)).unwrap_or_else(|| {
        [Backend::Kvm, Backend::Native]
            .into_iter()
            .find(|backend| measured(*backend))
            .unwrap_or(Backend::Emulated)
    })
}

fn kind(report: &Report, backend: Backend, main: Backend) -> Kind {
    match backend {
        backend if report.plan.host.emulates(backend) => Kind::Emulated,
        Backend::Native if main != Backend::Native => Kind::Twin,
        _ => Kind::Main,
    }
}

/// Groups are in the order in which the plan lists their points, not in that of their values' text.
fn vary_order(report: &Report, vary: &BTreeMap<String, String>) -> usize {
    report.result.points.iter().position(|point| &point.vary == vary).unwrap_or(0)
}

fn name(kind: Kind, backend: Backend, side: Option<SideName>, vary: Option<&&PointResult>) -> String {
    let mut parts = Vec::new();
    match kind {
        Kind::Twin => parts.push("native twin".to_owned()),
        Kind::Emulated if backend == Backend::Emulated => parts.push("emulated".to_owned()),
        Kind::Emulated => parts.push(format!("{} on an emulated host", backend.name())),
        Kind::Main if backend == Backend::Native => parts.push("native".to_owned()),
        Kind::Main => {}
    }
    parts.extend(side.map(|side| side_words(side).to_owned()));
    parts.extend(vary.map(|point| vary_words(point)).filter(|words| !words.is_empty()));
    parts.join(", ")
}

/// Words for a side.
pub(crate) const fn side_words(side: SideName) -> &'static str {
    side.name()
}

fn doubt(report: &Report) -> Doubt {
    if report.result.verdict.status != VerdictStatus::NotTrusted {
        return Doubt::None;
    }
    if report.result.points.iter().any(doubtful) { Doubt::Points } else { Doubt::All }
}

/// A point that says itself why it is not to be believed.
fn doubtful(point: &PointResult) -> bool {
    point.repeats_kept == 0
        || point.limit == Some(LimitResource::LoadGenerator)
        || point.repeats_voided.len() as u32 > point.repeats_kept
}
