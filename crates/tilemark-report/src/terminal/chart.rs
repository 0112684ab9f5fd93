//! A small chart: p99 of each step over a scale of logarithms, with the gate; for sides, a forest.

use super::paint::{Ink, Paint, clean, columns, wrap};
use crate::number::{brief, change, limit, three};
use crate::view::{self, Kind, Outcome, View};
use tilemark_record::result::{Figure, MeasureComparison, PointResult};

/// Lines of the chart of p99.
const LINES: usize = 9;
/// Columns before the chart: a figure and the axis.
const MARGIN: usize = 9;

/// One step of the chart.
struct Step {
    label: String,
    figure: Figure,
    outcome: Outcome,
    struck: bool,
}

/// p99 against steps. Nothing where there is no room, or no figure.
pub(super) fn latency(view: &View, paint: &Paint, width: usize) -> String {
    let mut groups = view.drawn();
    groups.retain(|group| group.kind != Kind::Twin);
    let Some(first) = groups.first() else { return String::new() };
    let steps: Vec<Step> = first.points.iter().filter_map(|point| step(view, point)).collect();
    let widest = steps.iter().map(|step| columns(&step.label)).max().unwrap_or(0);
    let slot = ((width - MARGIN) / steps.len().max(1)).min(9);
    if steps.is_empty() || slot < widest + 1 {
        return String::new();
    }
    let gate = view.report.plan.scenario.gate.p99.as_milliseconds();
    let values = steps.iter().flat_map(|step| [step.figure.low, step.figure.high, Some(step.figure.value)]);
    let scale = Scale::over(values.flatten().chain([gate]));
    let emulated = if view.all_emulated() { ", EMULATED" } else { "" };
    let axis = view.axis_words();
    let is_undecided = steps.iter().any(|step| step.outcome == Outcome::Undecided && !step.struck);
    let undecided = if is_undecided { "; ◐ is undecided" } else { "" };
    // One chart has room: what the others hold is in the table below.
    let of = match groups.len() {
        1 => String::new(),
        count => format!(", of {}, the first of {count} groups of steps", clean(&first.name)),
    };
    let (axis, limit) = (clean(&axis), limit(gate));
    let title =
        format!("p99 in ms against {axis}{of}{emulated}; the line is the gate, {limit} ms{undecided}");
    let mut out = String::new();
    for line in wrap(&title, width) {
        out.push_str(&format!("{}\n", paint.ink(Ink::Dim, &line)));
    }
    for line in (0..LINES).rev() {
        out.push_str(&chart_line(&steps, &scale, gate, line, slot, paint));
    }
    let labels: String = steps.iter().map(|step| format!("{:^slot$}", step.label)).collect();
    out.push_str(&format!("{:>MARGIN$}{}\n\n", "", labels.trim_end()));
    out
}

fn step(view: &View, point: &PointResult) -> Option<Step> {
    let figure = view::p99(point).filter(|figure| figure.value > 0.0)?;
    Some(Step {
        label: clean(&view.step(point)),
        figure,
        outcome: Outcome::of(view, point),
        struck: view.struck(point),
    })
}

/// Lines of the chart over logarithms of milliseconds.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>) -> Self {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::ln).collect();
        let low = logs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { low, high: high.max(low + 0.5) }
    }

    /// The line of `value`.
    fn line(&self, value: f64) -> usize {
        let part = (value.max(f64::MIN_POSITIVE).ln() - self.low) / (self.high - self.low);
        (part.clamp(0.0, 1.0) * (LINES - 1) as f64).round() as usize
    }

    /// The value in the middle of a line.
    fn value(&self, line: usize) -> f64 {
        (self.low + (self.high - self.low) * line as f64 / (LINES - 1) as f64).exp()
    }
}

fn chart_line(steps: &[Step], scale: &Scale, gate: f64, line: usize, slot: usize, paint: &Paint) -> String {
    let on_gate = scale.line(gate) == line;
    let label = match (on_gate, line % 2) {
        (true, _) => {
            Some(limit(gate)).filter(|label| columns(label) < MARGIN - 1).unwrap_or_else(|| brief(gate))
        }
        (false, 0) => three(scale.value(line)),
        _ => String::new(),
    };
    let axis = if label.is_empty() { '│' } else { '┤' };
    let background = if on_gate { "┄" } else { " " };
    let mut out = format!("{label:>width$} {axis}", width = MARGIN - 2);
    for step in steps {
        let before = (slot - 1) / 2;
        let empty = |count: usize| paint.ink(Ink::Dim, &background.repeat(count));
        out.push_str(&empty(before));
        out.push_str(&sign(step, scale, line).map_or_else(|| empty(1), |(sign, ink)| paint.ink(ink, sign)));
        out.push_str(&empty(slot - 1 - before));
    }
    format!("{}\n", out.trim_end())
}

fn sign(step: &Step, scale: &Scale, line: usize) -> Option<(&'static str, Ink)> {
    let ink = match (step.struck, step.outcome) {
        (true, _) => Ink::Dim,
        (_, Outcome::Breaks) => Ink::Bad,
        (_, Outcome::Undecided | Outcome::Unknown) => Ink::Warn,
        (_, Outcome::Holds) => Ink::Good,
    };
    if scale.line(step.figure.value) == line {
        let sign = match (step.struck, step.outcome) {
            (true, _) => "×",
            (_, Outcome::Breaks) => "◆",
            (_, Outcome::Undecided) => "◐",
            (_, Outcome::Unknown) => "○",
            (_, Outcome::Holds) => "●",
        };
        return Some((sign, ink));
    }
    let (low, high) = (step.figure.low?, step.figure.high?);
    (scale.line(low)..=scale.line(high)).contains(&line).then_some(("│", ink))
}

/// The band of a measure: its margin, or in an older record what could not have been seen.
fn band_of(measure: &MeasureComparison) -> Option<f64> {
    measure.margin.or(measure.resolution)
}

fn band_words(margins: bool) -> &'static str {
    match margins {
        true => "Change from A to B; inside ░ counts as no difference",
        false => "Change from A to B; ░ is too small for this run to show",
    }
}

/// The change of each measure from A to B, with the margin of equivalence.
pub(super) fn forest(view: &View, paint: &Paint, width: usize) -> String {
    let Some(comparison) = &view.report.result.comparison else {
        return String::new();
    };
    let margins = comparison.measures.iter().any(|measure| measure.margin.is_some());
    let room = width.saturating_sub(34).clamp(11, 61) | 1;
    let reach = comparison
        .measures
        .iter()
        .flat_map(|measure| {
            [measure.change.low, measure.change.high, Some(measure.change.value), band_of(measure)]
        })
        .flatten()
        .map(f64::abs)
        .filter(|value| value.is_finite())
        .fold(0.001, f64::max);
    let place = |value: f64| ((value / reach + 1.0) / 2.0 * (room - 1) as f64).round() as usize;
    let mut out = format!("{}\n", paint.ink(Ink::Dim, band_words(margins)));
    for failure in &comparison.failures {
        let percent = |share: f64| format!("{} %", brief(100.0 * share));
        let (a, b) = (percent(failure.a), percent(failure.b));
        let words = failure.outcome.words();
        let line = format!("{}: {words}, {b} of B, {a} of A", clean(&failure.name));
        wrap(&line, width).iter().for_each(|line| out.push_str(&format!("{line}\n")));
    }
    for measure in &comparison.measures {
        let figure = &measure.change;
        let band = band_of(measure).map(|band| place(-band)..=place(band));
        let span = figure.low.zip(figure.high).map(|(low, high)| place(low)..=place(high));
        let bar: String = (0..room)
            .map(|at| match at {
                at if at == place(figure.value) => '●',
                at if span.as_ref().is_some_and(|span| span.contains(&at)) => '─',
                at if at == room / 2 => '│',
                at if band.as_ref().is_some_and(|band| band.contains(&at)) => '░',
                _ => ' ',
            })
            .collect();
        let interval = match (figure.low, figure.high) {
            (Some(low), Some(high)) => format!(" [{}, {}]", change(low), change(high)),
            _ => String::new(),
        };
        let text = format!("{} %{interval}", change(figure.value));
        let secondary = if measure.primary { "" } else { " (not primary)" };
        out.push_str(&format!("{}{secondary}: {}\n", clean(&measure.name), measure.outcome.words()));
        out.push_str(&format!("  {bar}  {text}\n"));
    }
    out.push('\n');
    out
}
