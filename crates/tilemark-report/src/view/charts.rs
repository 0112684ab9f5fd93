//! The data of the charts, as the page's script reads it.

use super::groups::{Axis, Group, Kind, View, side_words, vary_words};
use super::outcome::Outcome;
use super::rows::{limit_word, load_p99, p99};
use super::section::{Chart, Section};
use super::timeline::{Timeline, timeline};
use crate::number::change;
use crate::published::PublishedScaling;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use tilemark_plan::scenario::{Gate, LoopKind};
use tilemark_record::{
    result::{Break, Comparison, Figure, LatencyMs, LoadResult, PointResult},
    summary::ProcessorFigures,
};
use tilemark_units::Span;

/// All charts.
#[derive(Serialize)]
pub(crate) struct Charts<'a> {
    axis: String,
    steps: Vec<String>,
    headline: String,
    /// Names of all loads, in the plan's order: each has one colour in all charts.
    loads: Vec<String>,
    emulated: bool,
    /// Whether any guest ran in QEMU.
    qemu_ran: bool,
    gate: Option<GateLines>,
    lines: Vec<Line>,
    raw: Vec<RawRepeat>,
    processors: Vec<ProcessorBar>,
    forest: Vec<ForestRow>,
    details: Vec<Detail>,
    timeline: Timeline,
    /// What a paper published of throughput against tiles, where the scenario has such guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<PublishedScaling>,
    /// Those of the sections.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sections: Vec<&'a Chart>,
}

impl Charts<'_> {
    /// Whether there is a p99 to draw.
    pub(crate) fn has_latency(&self) -> bool {
        self.lines.iter().any(|line| line.points.iter().any(|point| point.value.is_some()))
    }

    /// The charts of the sections.
    pub(crate) fn of_sections(&self) -> &[&Chart] {
        &self.sections
    }

    /// Whether it is known where processors went.
    pub(crate) fn has_processors(&self) -> bool {
        self.processors.iter().any(|bar| bar.parts.is_some())
    }

    /// Whether there is a line against tiles to draw: two counts or more under one condition.
    pub(crate) fn has_ladder(&self) -> bool {
        // Steps of which no repeat counts have no mean; the script leaves them out.
        let mains = || self.details.iter().filter(|detail| detail.kind == "main" && detail.mean.is_some());
        let counts: BTreeSet<u32> = mains().map(|detail| detail.count).collect();
        let groups: BTreeSet<&str> = mains().map(|detail| detail.group.as_str()).collect();
        counts.len() > 1 && groups.len() == 1
    }

    /// Whether there is anything by second.
    pub(crate) fn has_timeline(&self) -> bool {
        !self.timeline.repeats.is_empty()
    }

    /// What had to be thinned out of the time line, in words.
    pub(crate) fn thinned(&self) -> Option<String> {
        (self.timeline.seconds_per_mark > 1)
            .then(|| format!("Each mark is the worst latency of {} seconds.", self.timeline.seconds_per_mark))
    }
}

#[derive(Serialize)]
struct GateLines {
    p99_ms: f64,
    achieved: f64,
    /// Where the mean has a limit too.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_ms: Option<f64>,
}

#[derive(Serialize)]
struct Line {
    name: String,
    load: String,
    kind: &'static str,
    points: Vec<LinePoint>,
}

#[derive(Serialize)]
struct LinePoint {
    step: usize,
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    n: u32,
    outcome: &'static str,
    struck: bool,
    achieved: Option<f64>,
    offered: Option<f64>,
    broke: Option<String>,
}

#[derive(Serialize)]
struct RawRepeat {
    step: usize,
    value: f64,
    repeat: u32,
    void: Option<String>,
}

#[derive(Serialize)]
struct ProcessorBar {
    label: String,
    parts: Option<BarParts>,
    limit: Option<&'static str>,
    outcome: &'static str,
    twin: bool,
    struck: bool,
}

/// Parts of the processors, together 1.
#[derive(Serialize)]
struct BarParts {
    /// In it, `idle` is without what is idle of the load's own processors.
    #[serde(flatten)]
    used: ProcessorFigures,
    /// What the load left of its own processors: guests may not use it. At most this much, since other programs may have run there.
    idle_of_load: f64,
}

impl BarParts {
    /// `load_share`: the part of all threads that only the load may use.
    fn of(figures: ProcessorFigures, load_share: f64) -> Self {
        // Kernel threads have no colour of their own: they are drawn with the host's work for guests.
        let used = ProcessorFigures {
            guest_overhead: figures.guest_overhead + figures.kernel,
            kernel: 0.0,
            // Hooks are programs that are not ours.
            other: figures.other + figures.hooks,
            hooks: 0.0,
            ..figures
        };
        let idle_of_load = (load_share - used.load - used.tilemark).clamp(0.0, used.idle.max(0.0));
        Self { used: ProcessorFigures { idle: used.idle - idle_of_load, ..used }, idle_of_load }
    }
}

/// The part of all threads that only the load may use; none where it shares them with guests.
fn share_of_load(view: &View) -> f64 {
    let plan = &view.report.plan;
    let own = plan.processors.load.iter().filter(|thread| !plan.processors.guests.contains(thread)).count();
    own as f64 / plan.host.threads.len().max(1) as f64
}

/// A measure of a comparison: its change with its interval.
#[derive(Serialize)]
pub(crate) struct ForestRow {
    name: String,
    value: f64,
    low: Option<f64>,
    high: Option<f64>,
    /// A change inside is none: the margin of equivalence, or in an older record what could not have been seen.
    band: Option<f64>,
    resolution: Option<f64>,
    outcome: &'static str,
    /// Whether it decides.
    pub(crate) primary: bool,
    text: String,
    p: Option<f64>,
    pairs: u32,
}

impl ForestRow {
    /// With the label of its side before its name.
    pub(crate) fn under(self, label: &str) -> Self {
        Self { name: format!("{label}: {}", self.name), ..self }
    }
}

/// The charts of a page that has no steps of its own.
#[derive(Serialize)]
pub(crate) struct SheetCharts<'a> {
    headline: &'static str,
    loads: [String; 0],
    lines: [(); 0],
    raw: [(); 0],
    details: [(); 0],
    forest: &'a [ForestRow],
    sections: &'a [Chart],
}

impl<'a> SheetCharts<'a> {
    /// With these rows of changes and these charts.
    pub(crate) const fn new(forest: &'a [ForestRow], sections: &'a [Chart]) -> Self {
        Self { headline: "", loads: [], lines: [], raw: [], details: [], forest, sections }
    }
}

/// A step in detail: bands of tiles, fairness of guests, percentiles, memory.
#[derive(Serialize)]
struct Detail {
    index: usize,
    label: String,
    group: String,
    kind: &'static str,
    outcome: &'static str,
    struck: bool,
    unit: String,
    /// How many tiles.
    count: u32,
    /// Throughput of each tile.
    tiles: Vec<f64>,
    guests: Vec<GuestShare>,
    /// Whether `guests` are compared by the share of their demand that was answered, as the table of fairness does in an open loop.
    by_demand: bool,
    mean: Option<f64>,
    percentiles: [Option<f64>; 5],
    pss_mib: Option<f64>,
    memory_available_min: Option<u64>,
}

#[derive(Serialize)]
struct GuestShare {
    name: String,
    of_mean: f64,
}

/// Guests that a page draws at most, over all steps: about 0.2 MB of it.
const SHARES_MAX: usize = 4_000;

/// Guests of each step that are drawn.
pub(crate) fn shares_shown(view: &View) -> usize {
    (SHARES_MAX / view.report.result.points.len().max(1)).max(16)
}

/// At most `shown` of `shares`, evenly by rank, the least and the most served among them.
fn shares(mut shares: Vec<GuestShare>, shown: usize) -> Vec<GuestShare> {
    if shares.len() <= shown {
        return shares;
    }
    shares.sort_by(|a, b| a.of_mean.total_cmp(&b.of_mean));
    let last = shares.len() - 1;
    let ranks: Vec<usize> = (0..shown).map(|place| place * last / (shown - 1)).collect();
    let mut rank = 0;
    shares.retain(|_| {
        rank += 1;
        ranks.binary_search(&(rank - 1)).is_ok()
    });
    shares
}

/// The data of all charts.
pub(crate) fn charts<'a>(view: &View, sections: &'a [Section]) -> Charts<'a> {
    let steps = view.steps();
    let headline = view.headline().to_owned();
    let drawn = view.drawn();
    let gate = gate(view);
    Charts {
        axis: view.axis_words(),
        loads: view.loads(),
        emulated: view.all_emulated(),
        qemu_ran: view.qemu_ran(),
        gate: Some(GateLines {
            p99_ms: gate.p99.as_milliseconds(),
            achieved: gate.achieved.get(),
            mean_ms: gate.mean.map(Span::as_milliseconds),
        }),
        lines: lines(view, &drawn, &steps),
        raw: raw(view, &drawn, &steps),
        processors: processors(view, &drawn),
        forest: forest(view),
        details: details(view),
        timeline: timeline(view),
        published: crate::published::scaling(&view.report.plan.scenario),
        sections: sections.iter().flat_map(|section| &section.charts).collect(),
        steps,
        headline,
    }
}

const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Main => "main",
        Kind::Twin => "twin",
        Kind::Emulated => "emulated",
    }
}

fn lines(view: &View, drawn: &[&Group], steps: &[String]) -> Vec<Line> {
    let headline = view.headline();
    let alone = drawn.iter().filter(|group| group.kind != Kind::Twin).count() == 1;
    let mut lines = Vec::new();
    for group in drawn {
        lines.push(line(view, group, headline, steps));
        if alone && group.kind != Kind::Twin {
            let others = group.points.iter().flat_map(|point| &point.loads).map(|load| load.name.as_str());
            let mut names: Vec<&str> = Vec::new();
            for name in others.filter(|name| *name != headline) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            lines.extend(names.into_iter().map(|name| line(view, group, name, steps)));
        }
    }
    lines
}

fn gate<'a>(view: &View<'a>) -> &'a Gate {
    view.report.plan.points.first().map_or(&view.report.plan.scenario.gate, |point| &point.gate)
}

/// What a load's point is at a step that something else breaks. A failure that is no load's, as memory that ran out, is drawn at the main
/// load; any other load is within the gate only if its whole interval is.
fn beside_a_break(broke: &[Break], headline: bool, p99: Option<&Figure>, p99_max: f64) -> Outcome {
    let is_of_no_load = broke.iter().any(|one| one.load.is_empty());
    let within = |figure: &Figure| figure.high.unwrap_or(figure.value) <= p99_max;
    if headline && is_of_no_load {
        Outcome::Breaks
    } else if p99.is_none_or(within) {
        Outcome::Holds
    } else {
        Outcome::Undecided
    }
}

fn line(view: &View, group: &Group, load: &str, steps: &[String]) -> Line {
    let headline = load == view.headline();
    let name = match (group.kind, headline) {
        (Kind::Twin, _) => format!("{load}, native twin"),
        _ if group.name.is_empty() || !headline => load.to_owned(),
        _ => format!("{load}, {}", group.name),
    };
    let kind = match group.kind {
        Kind::Main if !headline => "load",
        kind => kind_name(kind),
    };
    let points = group.points.iter().map(|point| line_point(view, point, load, steps)).collect();
    Line { name, load: load.to_owned(), kind, points }
}

fn line_point(view: &View, point: &PointResult, load: &str, steps: &[String]) -> LinePoint {
    let headline = load == view.headline_of(point);
    let result = point.loads.iter().find(|other| other.name == load);
    let figure = if headline { p99(point) } else { result.and_then(load_p99) };
    let broken = point.broke.iter().find(|broke| broke.load == load);
    let outcome = match Outcome::of(view, point) {
        Outcome::Breaks if broken.is_none() && !point.broke.is_empty() => {
            let p99_max = gate(view).p99.as_milliseconds();
            beside_a_break(&point.broke, headline, figure.as_ref(), p99_max)
        }
        outcome => outcome,
    };
    LinePoint {
        step: steps.iter().position(|step| *step == view.step(point)).unwrap_or(0),
        value: figure.map(|figure| figure.value),
        low: figure.and_then(|figure| figure.low),
        high: figure.and_then(|figure| figure.high),
        n: figure.map_or(point.repeats_kept, |figure| figure.n_repeats),
        outcome: outcome.word(),
        struck: view.struck(point),
        achieved: if headline {
            point.achieved_fraction
        } else {
            result.and_then(|load| load.achieved_fraction)
        },
        offered: if headline { point.offered } else { result.and_then(|load| load.offered) },
        broke: broken.map(|broke| {
            let guest = broke.guest.as_deref().unwrap_or("all guests");
            let second = broke.second.map(|second| format!(", second {second}")).unwrap_or_default();
            format!("breaks: {}, {guest}{second}", super::measure_words(broke.measure))
        }),
    }
}

/// Every repeat of the headline load as it was measured, discarded ones too.
fn raw(view: &View, drawn: &[&Group], steps: &[String]) -> Vec<RawRepeat> {
    let mains = drawn.iter().filter(|group| group.kind != Kind::Twin);
    let points: BTreeMap<usize, &PointResult> =
        mains.flat_map(|group| &group.points).map(|point| (point.index, *point)).collect();
    let headline = view.headline();
    let figures = view.report.repeats.iter().filter_map(|repeat| {
        let point = points.get(&repeat.point)?;
        let load = repeat.loads.iter().find(|load| load.name == headline)?;
        let void = point.repeats_voided.iter().find(|void| void.repeat == repeat.repeat);
        Some(RawRepeat {
            step: steps.iter().position(|step| *step == view.step(point))?,
            value: load.latency_ms.p99?,
            repeat: repeat.repeat,
            void: void.map(|void| void.reason.clone()),
        })
    });
    figures.collect()
}

fn processors(view: &View, drawn: &[&Group]) -> Vec<ProcessorBar> {
    let mut points: Vec<(&Group, &PointResult)> =
        drawn.iter().flat_map(|group| group.points.iter().map(move |point| (*group, *point))).collect();
    // Roles say by their step which group they are.
    let several =
        view.axis != Axis::Roles && drawn.iter().filter(|group| group.kind == Kind::Main).count() > 1;
    // The twin's processors are shown with its figures below: here they would double every step.
    points.retain(|(group, _)| group.kind != Kind::Twin);
    if several {
        points.sort_by_key(|(group, point)| (point.tiles, group.side, point.index));
    }
    points
        .into_iter()
        .map(|(group, point)| {
            let step = view.step(point);
            let label = match group.side {
                Some(side) if several => format!("{} {step}", side_words(side)),
                None if several && !point.vary.is_empty() => format!("{step} {}", vary_words(point)),
                _ => step,
            };
            ProcessorBar {
                label,
                parts: point.processor.map(|figures| BarParts::of(figures, share_of_load(view))),
                limit: point.limit.map(limit_word),
                outcome: Outcome::of(view, point).word(),
                twin: group.kind == Kind::Twin,
                struck: view.struck(point),
            }
        })
        .collect()
}

fn forest(view: &View) -> Vec<ForestRow> {
    view.report.result.comparison.as_ref().map(forest_rows).unwrap_or_default()
}

/// A row for each measure of a comparison.
pub(crate) fn forest_rows(comparison: &Comparison) -> Vec<ForestRow> {
    let rows = comparison.measures.iter().map(|measure| {
        let figure = &measure.change;
        let interval = match (figure.low, figure.high) {
            (Some(low), Some(high)) => format!(" [{}, {}]", change(low), change(high)),
            _ => String::new(),
        };
        ForestRow {
            name: measure.name.clone(),
            value: figure.value,
            low: figure.low,
            high: figure.high,
            band: measure.margin.or(measure.resolution),
            resolution: measure.resolution,
            outcome: measure.outcome.words(),
            primary: measure.primary,
            text: format!("{}\u{202f}%{interval}", change(figure.value)),
            p: measure.p,
            pairs: figure.n_repeats,
        }
    });
    rows.collect()
}

fn details(view: &View) -> Vec<Detail> {
    view.points().map(|(group, point)| detail(view, group, point)).collect()
}

fn detail<'a>(view: &View<'a>, group: &Group, point: &'a PointResult) -> Detail {
    let headline = point.loads.iter().find(|load| load.name == view.headline_of(point));
    let guests = headline.map(|load| load.guests.as_slice()).unwrap_or_default();
    let mut tiles: BTreeMap<u32, f64> = BTreeMap::new();
    for guest in guests {
        *tiles.entry(guest.tile).or_default() += guest.throughput;
    }
    let by_demand = headline.and_then(|load| shares_of_demand(view, point, load));
    let by_count = || guests.iter().map(|guest| (&*guest.name, guest.throughput)).collect();
    let is_by_demand = by_demand.is_some();
    let got = over_mean(by_demand.unwrap_or_else(by_count));
    let latency = point.latency_ms.unwrap_or_default();
    let LatencyMs { mean: mean_latency, p50, p90, p999, max, .. } = latency;
    let p99 = p99(point).map(|figure| figure.value);
    let alone = view.groups.iter().filter(|other| other.kind == Kind::Main).count() == 1;
    let hosts = view.report.repeats.iter().filter(|repeat| repeat.point == point.index);
    Detail {
        index: point.index,
        label: view.step(point),
        group: match group.kind {
            Kind::Main if alone || view.axis == Axis::Roles => String::new(),
            _ => group.name.clone(),
        },
        kind: kind_name(group.kind),
        outcome: Outcome::of(view, point).word(),
        struck: view.struck(point),
        unit: unit_of_bands(view, point),
        count: point.tiles,
        tiles: tiles.into_values().map(|served| (served * 100.0).round() / 100.0).collect(),
        guests: shares(got, shares_shown(view)),
        by_demand: is_by_demand,
        mean: mean_latency,
        percentiles: [p50, p90, p99, p999, max],
        pss_mib: point.pss_mib_per_guest,
        memory_available_min: hosts.filter_map(|repeat| repeat.host.memory_available_min).min(),
    }
}

/// What a tile was served in a second. A command with one figure is run once in each measurement.
fn unit_of_bands(view: &View, point: &PointResult) -> String {
    match &point.throughput {
        _ if view.unit_of_figure(point, view.headline_of(point)).is_some() => "runs/s".to_owned(),
        Some(throughput) => throughput.unit.clone(),
        None => "requests/s".to_owned(),
    }
}

/// What a guest was asked and what it answered, over repeats.
#[derive(Default)]
struct Asked {
    offered: u64,
    completed: u64,
    repeats: f64,
    /// Repeats in which its load ended with it and reported nothing.
    lost: f64,
}

impl Asked {
    /// The part of its demand that it got, where each repeat weighs as much. A guest that nothing was asked of is not starved; one that died is.
    fn share(&self) -> Option<f64> {
        let part = self.completed as f64 / self.offered.max(1) as f64;
        (self.offered > 0 || self.lost > 0.0).then(|| part * (1.0 - self.lost / self.repeats))
    }
}

/// The part of its demand that each guest got over the kept repeats of an open loop, where random arrivals ask more of one than of another.
/// `None` in a closed loop, and where the repeats have no figures of guests.
fn shares_of_demand<'a>(
    view: &View<'a>,
    point: &'a PointResult,
    load: &LoadResult,
) -> Option<Vec<(&'a str, f64)>> {
    let repeats = view.kept_repeats(point).filter(|_| load.loop_kind == LoopKind::Open);
    let mut counts: BTreeMap<&str, Asked> = BTreeMap::new();
    for own in repeats.flat_map(|repeat| &repeat.loads).filter(|own| own.name == load.name) {
        for guest in &own.guests {
            let asked = counts.entry(&guest.name).or_default();
            asked.completed = asked.completed.saturating_add(guest.completed);
            asked.offered = asked.offered.saturating_add(guest.offered);
            asked.repeats += 1.0;
            asked.lost += f64::from(u8::from(own.has_lost(guest)));
        }
    }
    let shares = counts.into_iter().filter_map(|(name, asked)| Some((name, asked.share()?)));
    Some(shares.collect()).filter(|shares: &Vec<_>| !shares.is_empty())
}

/// What each guest got over the mean of all.
fn over_mean(got: Vec<(&str, f64)>) -> Vec<GuestShare> {
    let mean = got.iter().map(|(_, amount)| amount).sum::<f64>() / got.len().max(1) as f64;
    let of_mean = |amount: f64| if mean > 0.0 { (amount / mean * 1e4).round() / 1e4 } else { 0.0 };
    got.into_iter()
        .map(|(name, amount)| GuestShare { name: name.to_owned(), of_mean: of_mean(amount) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_record::result::GateMeasure;

    #[test]
    fn a_point_beside_a_break_holds_only_by_its_own_interval() {
        let broke = |load: &str| Break {
            tiles: 4,
            measure: GateMeasure::OutOfMemory,
            value: 1.0,
            low: None,
            high: None,
            load: load.to_owned(),
            guest: None,
            second: None,
            detail: None,
        };
        let of = |load: &str, headline, value, high| {
            let figure = Figure { value, low: None, high, n_repeats: 5 };
            beside_a_break(&[broke(load)], headline, Some(&figure), 50.0)
        };
        assert_eq!(of("", true, 20.0, Some(22.0)), Outcome::Breaks, "memory ran out");
        assert_eq!(of("", false, 20.0, Some(22.0)), Outcome::Holds);
        assert_eq!(of("disk", true, 20.0, Some(22.0)), Outcome::Holds);
        assert_eq!(of("disk", true, 60.0, Some(90.0)), Outcome::Undecided);
        assert_eq!(of("disk", true, 40.0, Some(90.0)), Outcome::Undecided);
    }
}
