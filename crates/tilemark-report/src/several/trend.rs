//! Runs of one scenario over time.

use super::{Finding, Sheet, capacity};
use crate::number::{brief, change, counted, three};
use crate::view::{
    Cell, Chart, GroupHead, Level, Mark, Part, RateColumn, Row, RowGroup, Section, Series, SeriesPoint,
    Stroke, Table, given, group_named, measured, words,
};
use serde::Serialize;
use std::collections::BTreeMap;
use tilemark_plan::plan::Backend;
use tilemark_record::result::{Difference, Figure, VerdictStatus};

/// The version of the format of `runs trend --json`.
pub const TREND_SCHEMA: u32 = 1;

/// Characters of what changed that a mark in a chart has room for.
const MARK_LONG: usize = 26;

/// The runs of one scenario over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// Version of this format.
    pub schema: u32,
    /// The scenario.
    pub scenario: String,
    /// Runs that can be set beside each other: of one host, on one backend, in one way.
    pub series: Vec<TrendSeries>,
    /// Runs of the scenario that are in no series, each with the reason.
    pub left_out: Vec<LeftOutRun>,
}

/// A run that is in no series.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOutRun {
    /// Its id.
    pub id: String,
    /// Why.
    pub why: String,
}

/// Runs of one host that can be set beside each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendSeries {
    /// The host's name; empty where the records were redacted.
    pub host: String,
    /// The backend that the figures are of.
    pub backend: Backend,
    /// How they were measured: `capacity`, or `run` with the tile counts.
    pub how: String,
    /// The preset, if one was applied.
    pub preset: Option<String>,
    /// Settings given on the command line.
    pub settings: BTreeMap<String, String>,
    /// The runs, the oldest first.
    pub runs: Vec<TrendRun>,
    /// What is followed.
    pub measures: Vec<TrendMeasure>,
}

/// A run of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendRun {
    /// Its id.
    pub id: String,
    /// When it began, RFC 3339.
    pub began: String,
    /// Its verdict. Only trusted runs count.
    pub verdict: VerdictStatus,
    /// Its answer in a sentence.
    pub sentence: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// What differs in host, kernel, QEMU, Tilemark, image and scenario from the run before it.
    pub changed: Vec<Difference>,
}

/// A measure over the runs of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendMeasure {
    /// Such as `capacity`, `web p99 at 4 tiles`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Whether it is the one figure of a command, in place of what was served. Its name says so.
    #[serde(skip)]
    pub is_of_command: bool,
    /// Whether more is better.
    pub more_is_better: bool,
    /// Its figure in each run; null where the run has none.
    pub values: Vec<Option<Figure>>,
    /// Whether it is at least the figure of that run: nothing broke in it.
    pub at_least: Vec<bool>,
    /// Runs that count: trusted, with a figure.
    pub counted: usize,
    /// Changes of its level, the oldest first.
    pub changes: Vec<TrendChange>,
    /// Why no change could be looked for, where that is so.
    pub not_searched: Option<String>,
}

/// A change of the level of a measure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrendChange {
    /// The last run that counts before it.
    pub last_before: String,
    /// The first run that counts after it.
    pub first_after: String,
    /// The median before it.
    pub before: f64,
    /// The median after it.
    pub after: f64,
    /// After over before, less 1; null where it was 0 before.
    pub change: Option<f64>,
    /// Probability of a cut at least this clear if there were no change.
    pub p: f64,
    /// What differs in host, kernel, QEMU, Tilemark, image and scenario between the two runs.
    pub changed: Vec<Difference>,
}

impl TrendSeries {
    /// Where and how its runs were measured: `vm7, native, capacity, preset quick`.
    fn name(&self) -> String {
        let preset = self.preset.iter().map(|preset| format!("preset {preset}"));
        let settings = self.settings.iter().map(|(key, value)| format!("{key}={value}"));
        let all = [format!("host {}", capacity::host(&self.host)), self.backend.name().to_owned()];
        let all = all.into_iter().chain([self.how.clone()]).chain(preset).chain(settings);
        all.collect::<Vec<_>>().join(", ")
    }

    fn place_of(&self, id: &str) -> Option<usize> {
        self.runs.iter().position(|run| run.id == id)
    }
}

impl TrendMeasure {
    /// Its figure in the run at this place: `12.4`, `4`, `at least 4`.
    fn value_of(&self, place: usize) -> Option<String> {
        let figure = self.values[place]?;
        let is_count = figure.low.is_none() && figure.value.fract() == 0.0;
        let value = if is_count { brief(figure.value) } else { three(figure.value) };
        Some(format!("{}{value}", if self.at_least[place] { "at least " } else { "" }))
    }
}

impl TrendRun {
    fn counts(&self) -> bool {
        self.verdict == VerdictStatus::Trusted
    }
}

/// What is shown.
pub(super) fn sheet(trend: &Trend) -> Sheet {
    let runs: usize = trend.series.iter().map(|series| series.runs.len()).sum();
    let mut findings: Vec<Finding> = trend.series.iter().map(finding).collect();
    if findings.is_empty() {
        let text = format!("No finished run of {} has figures to follow.", trend.scenario);
        findings.push(Finding { chip: None, head: String::new(), text, reasons: Vec::new() });
    }
    let mut sections = Vec::new();
    let changes = changes(trend);
    if changes.groups.iter().any(|group| !group.rows.is_empty()) {
        sections.push(Section::new(
            "changes",
            "What changed from one run to the next",
            vec![Part::Table(changes)],
        ));
    }
    if !trend.series.is_empty() {
        sections.push(Section::new("runs", "Runs, the newest first", vec![Part::Table(table(trend))]));
    }
    if !trend.left_out.is_empty() {
        let rows = trend.left_out.iter().map(|left| Row::new(&*left.id, vec![left.why.clone().into()]));
        let table = Table::new(vec![given("Run"), words("Why")], rows.collect());
        sections.push(Section::new("left-out", "Runs that are in no chart", vec![Part::Table(table)]));
    }
    let many = trend.series.len() > 1;
    let charts = trend.series.iter().enumerate().flat_map(|(place, series)| charts(place, series, many));
    Sheet {
        title: format!("{}: {} over time", trend.scenario, counted(runs as u64, "run")),
        lead: Vec::new(),
        findings,
        forest: Vec::new(),
        charts: charts.collect(),
        sections,
    }
}

fn finding(series: &TrendSeries) -> Finding {
    let trusted = series.runs.iter().filter(|run| run.counts()).count();
    let of_runs = format!("{}, {trusted} of them trusted", counted(series.runs.len() as u64, "run"));
    let all =
        || series.measures.iter().flat_map(|measure| measure.changes.iter().map(move |one| (measure, one)));
    let text = match all().next() {
        Some(_) => all().map(|(measure, one)| sentence(series, measure, one)).collect::<Vec<_>>().join(" "),
        None if series.measures.iter().all(|measure| measure.not_searched.is_some()) => {
            "No change of a level was looked for.".to_owned()
        }
        None => "No change of a level was found.".to_owned(),
    };
    Finding {
        chip: None,
        head: format!("{} ({of_runs})", series.name()),
        text,
        reasons: not_searched(series),
    }
}

/// Why no change could be looked for: once, where all measures share the reason.
fn not_searched(series: &TrendSeries) -> Vec<String> {
    let own = |measure: &TrendMeasure| Some((measure.name.clone(), measure.not_searched.clone()?));
    let found: Vec<(String, String)> = series.measures.iter().filter_map(own).collect();
    match found.as_slice() {
        [(_, first), rest @ ..] if rest.iter().all(|(_, reason)| reason == first) => vec![first.clone()],
        several => several.iter().map(|(name, reason)| format!("{name}: {reason}")).collect(),
    }
}

/// `web p99 at 4 tiles rose by 31 %, from 12.3 ms to 16.1 ms, p = 0.0001) between …; between the two runs changed: …`
fn sentence(series: &TrendSeries, measure: &TrendMeasure, one: &TrendChange) -> String {
    let verb = if one.after > one.before { "rose" } else { "fell" };
    let value = |value: f64| format!("{}\u{202f}{}", three(value), measure.unit);
    let day = |id: &str| {
        let run = series.place_of(id).map(|place| &series.runs[place]);
        run.map_or_else(|| id.to_owned(), |run| format!("{id} ({})", capacity::day(&run.began)))
    };
    let size = one.change.map(|of| format!(" by {}\u{202f}%,", change(of.abs()).trim_start_matches('+')));
    let changed = match one.changed.as_slice() {
        [] => "nothing that is recorded changed between these two runs".to_owned(),
        several => format!("between these two runs changed: {}", said(several)),
    };
    format!(
        "{} {verb}{} from {} to {}, between {} and {} (p = {}); {changed}.",
        measure.name,
        size.unwrap_or_default(),
        value(one.before),
        value(one.after),
        day(&one.last_before),
        day(&one.first_after),
        three(one.p),
    )
}

/// `host.kernel 6.1 → 6.12, qemu 7.2 → 10.0`
fn said(changed: &[Difference]) -> String {
    let one = |each: &Difference| format!("{} {} \u{2192} {}", each.key, each.a, each.b);
    changed.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A head for the group of a series, where there are several.
fn group_head(trend: &Trend, series: &TrendSeries) -> Option<GroupHead> {
    (trend.series.len() > 1).then(|| group_named(&series.name()))
}

/// Runs before which something changed in host, kernel, QEMU, Tilemark, image or scenario, the newest first.
fn changes(trend: &Trend) -> Table {
    let group = |series: &TrendSeries| {
        let changed = series.runs.iter().rev().filter(|run| !run.changed.is_empty());
        let rows = changed.flat_map(|run| {
            run.changed.iter().enumerate().map(move |(place, each)| {
                let head = if place == 0 { Cell::from(&*run.id) } else { Cell::default() };
                Row::new(head, vec![each.key.clone().into(), each.a.clone().into(), each.b.clone().into()])
            })
        });
        RowGroup { head: group_head(trend, series), rows: rows.collect() }
    };
    let groups = trend.series.iter().map(group).filter(|group: &RowGroup| !group.rows.is_empty());
    let columns = vec![given("Before run"), words("What"), words("From"), words("To")];
    Table { groups: groups.collect(), ..Table::new(columns, Vec::new()) }
}

/// All runs, the newest first, a group for each series.
fn table(trend: &Trend) -> Table {
    let third = || trend.series.iter().filter_map(|series| series.measures.get(2));
    let rate = RateColumn::of(third().map(|measure| measure.is_of_command.then_some(&*measure.unit)));
    let columns = vec![
        given("Run"),
        words("Began"),
        words("Verdict"),
        measured("Capacity").unit("tiles"),
        measured("p99").unit("ms").word("p99"),
        rate.head().dispensable(1),
        words("Tags").dispensable(2),
    ];
    let group = |series: &TrendSeries| {
        let rows = (0..series.runs.len()).rev().map(|place| row(series, place, rate));
        RowGroup { head: group_head(trend, series), rows: rows.collect() }
    };
    let table = Table { groups: trend.series.iter().map(group).collect(), ..Table::new(columns, Vec::new()) };
    let names = |series: &TrendSeries| {
        series.measures.iter().skip(1).map(|measure| measure.name.clone()).collect::<Vec<_>>().join(", ")
    };
    let of: Vec<String> = trend.series.iter().map(names).filter(|names| !names.is_empty()).collect();
    let mut absent: Vec<String> = Vec::new();
    for names in of {
        let text = format!("p99 and {} are: {names}", rate.head().head);
        absent.extend(Some(text).filter(|text| !absent.contains(text)));
    }
    Table { below: absent, ..table }
}

fn row(series: &TrendSeries, place: usize, rate: RateColumn) -> Row {
    let run = &series.runs[place];
    let figure = |at: usize| {
        let text = |measure: &TrendMeasure| match (at, measure.values[place]) {
            (2, Some(figure)) => {
                Some(rate.cell(figure.value, measure.is_of_command.then_some(&*measure.unit)))
            }
            _ => measure.value_of(place),
        };
        let cell = Cell::figure(series.measures.get(at).and_then(text));
        Cell { struck: run.verdict == VerdictStatus::NotTrusted && !cell.is_missing(), ..cell }
    };
    let cells = vec![
        capacity::minute(&run.began).into(),
        capacity::verdict(run.verdict).into(),
        figure(0),
        figure(1),
        figure(2),
        Cell::figure(Some(run.tags.join(", ")).filter(|tags| !tags.is_empty())),
    ];
    Row::new(&*run.id, cells)
}

fn charts(place: usize, series: &TrendSeries, many: bool) -> Vec<Chart> {
    let drawn =
        series.measures.iter().enumerate().filter(|(_, measure)| measure.values.iter().any(Option::is_some));
    let chart = |(number, measure): (usize, &TrendMeasure)| {
        let of = if many { format!(" \u{2013} {}", series.name()) } else { String::new() };
        Chart {
            id: format!("trend-{place}-{number}").into(),
            title: format!("{}{of}", capitalized(&measure.name)).into(),
            unit: format!("{}; the axis need not begin at 0", measure.unit).into(),
            about: "The measure in each run with its interval; the same figures are in the table of runs"
                .into(),
            across: "runs, the oldest first",
            places: series.runs.iter().map(|run| capacity::day(&run.began)).collect(),
            right: None,
            series: lines(series, measure),
            zoomed: true,
            marks: marks(series, measure),
            levels: levels(series, measure),
        }
    };
    drawn.map(chart).collect()
}

fn capitalized(name: &str) -> String {
    // A load's name is left as it is.
    name.strip_prefix("capacity").map_or_else(|| name.to_owned(), |rest| format!("Capacity{rest}"))
}

/// The trusted runs on a line, and the others as rings.
fn lines(series: &TrendSeries, measure: &TrendMeasure) -> Vec<Series> {
    let mut trusted = Series::new(&measure.name, "trusted", Stroke::Main);
    let mut others = Series::new(&measure.name, "not trusted, does not count", Stroke::Hollow);
    for (place, (run, figure)) in series.runs.iter().zip(&measure.values).enumerate() {
        let Some(figure) = figure else { continue };
        let line = if run.counts() { &mut trusted } else { &mut others };
        line.points.push(SeriesPoint {
            place,
            value: figure.value,
            bar: figure.low.zip(figure.high).filter(|_| run.counts()),
            lines: hover(run, measure, place),
            struck: false,
        });
    }
    [trusted, others].into_iter().filter(|line| !line.points.is_empty()).collect()
}

fn hover(run: &TrendRun, measure: &TrendMeasure, place: usize) -> Vec<String> {
    let interval = measure.values[place].and_then(|figure| figure.low.zip(figure.high));
    let interval = interval.map(|(low, high)| format!(" [{}, {}]", three(low), three(high)));
    let mut lines = vec![
        run.id.clone(),
        format!(
            "{} {} {}{}",
            measure.name,
            measure.value_of(place).unwrap_or_default(),
            measure.unit,
            interval.unwrap_or_default()
        ),
        capacity::verdict(run.verdict).to_owned(),
    ];
    lines.extend((!run.tags.is_empty()).then(|| format!("tags: {}", run.tags.join(", "))));
    lines.extend(
        (!run.changed.is_empty()).then(|| format!("changed since the run before: {}", said(&run.changed))),
    );
    lines
}

/// Where something changed, and where the level did.
fn marks(series: &TrendSeries, measure: &TrendMeasure) -> Vec<Mark> {
    let is_level =
        |place: usize| measure.changes.iter().any(|one| series.place_of(&one.first_after) == Some(place));
    let mark = |(place, run): (usize, &TrendRun)| {
        let level = is_level(place);
        if run.changed.is_empty() && !level {
            return None;
        }
        let keys: Vec<&str> = run.changed.iter().map(|each| &*each.key).collect();
        let mut label: String = keys.join(", ").chars().take(MARK_LONG).collect();
        if keys.join(", ").chars().count() > MARK_LONG {
            label.push('\u{2026}');
        }
        Some(Mark { place, label, level })
    };
    series.runs.iter().enumerate().filter_map(mark).collect()
}

/// The level of each part between changes; none where there is no change.
fn levels(series: &TrendSeries, measure: &TrendMeasure) -> Vec<Level> {
    let Some(first) = measure.changes.first() else { return Vec::new() };
    let starts: Vec<usize> =
        measure.changes.iter().filter_map(|one| series.place_of(&one.first_after)).collect();
    let values = [first.before].into_iter().chain(measure.changes.iter().map(|one| one.after));
    let from = [0].into_iter().chain(starts.iter().copied());
    let to = starts.iter().copied().chain([series.runs.len()]);
    from.zip(to).zip(values).map(|((from, to), value)| Level { from, to, value }).collect()
}
