//! The steps.

use super::section::{Cell, Column, GroupHead, Holds, Part, Row, RowGroup, Section, Table, given, measured};
use super::{Group, Kind, Outcome, RateColumn, View, proof};
use crate::number::{percent, three, whole};
use tilemark_plan::plan::Backend;
use tilemark_record::{
    result::{Figure, GateMeasure, GuestResult, LimitResource, LoadResult, PointResult},
    summary::RepeatSummary,
};
use tilemark_units::median;

/// Places of cells in a row, the head not counted.
const P99: usize = 6;
const WORST_GUEST: usize = 8;
const READY: usize = 10;
const OUTCOME: usize = 13;

/// All columns, in order.
pub(crate) fn columns(rate: RateColumn) -> Vec<Column> {
    let named = |head, holds| Column { holds, ..measured(head) };
    vec![
        given("Tiles").unit("").word("tile"),
        given("Guests").unit("").word("guest").dispensable(6),
        given("vCPUs").unit("per thread").short_unit("/thread").word("vcpus-per-thread").dispensable(5),
        measured("Offered").unit("per s").word("offered").dispensable(3),
        Column { word: if rate == RateColumn::Served { "throughput" } else { "" }, ..rate.head() }
            .dispensable(7),
        measured("Achieved").unit("").word("achieved").dispensable(2),
        measured("p50").unit("ms").word("p50").dispensable(4),
        measured("p99").unit("ms, 95 % interval").short_unit("ms [95 %]").word("p99"),
        measured("Errors").unit("").word("errors").dispensable(2),
        named("Worst guest", Holds::MeasuredName)
            .unit("its p99, ms")
            .short_unit("p99, ms")
            .word("worst-guest")
            .dispensable(9),
        measured("Memory").unit("MiB per guest").short_unit("MiB/guest").word("pss").dispensable(8),
        measured("Ready")
            .unit("s, slowest [p50, p99]")
            .short_unit("s (p50, p99)")
            .word("ready")
            .dispensable(10),
        given("Repeats").unit("kept of all").short_unit("kept").word("repeat").dispensable(6),
        given("Within").unit("of kept").word("within").dispensable(5),
        named("Gate", Holds::Outcome).unit("").word("gate"),
    ]
}

/// The steps, and which load their figures belong to.
pub(crate) fn steps(view: &View) -> Option<Section> {
    let gate = format!("The gate: every load keeps {}.", super::gate_words(&view.report.plan.scenario.gate));
    let about = match view.headline() {
        "" => "This scenario sends no load.".to_owned(),
        _ if view.report.result.interference.is_some() => gate,
        headline => format!("Figures of the load {headline}. {gate}"),
    };
    let figures = match view.groups.is_empty() {
        true => Part::Text("No step was measured.".to_owned()),
        false => Part::Table(steps_table(view)),
    };
    Some(Section::new("steps", "Steps", vec![Part::Text(about), figures]))
}

/// What has no figure anywhere leaves the table and is named below.
fn steps_table(view: &View) -> Table {
    let mut notes = Notes::default();
    let several = view.groups.len() > 1;
    let headline_unit = |point: &PointResult| view.unit_of_figure(point, view.headline_of(point));
    let rate = RateColumn::of(view.points().map(|(_, point)| headline_unit(point)));
    let groups = view.groups.iter().map(|group| RowGroup {
        head: group_head(view, group, several),
        rows: group.points.iter().map(|point| row(view, group.kind, point, rate, &mut notes)).collect(),
    });
    let mut table = Table { columns: columns(rate), groups: groups.collect(), ..Table::default() };
    table.notes = notes.0;
    if view.report.result.interference.is_some() {
        by_roles(view, &mut table);
    }
    without_empty_columns(table)
}

/// Where roles are measured alone and in pairs, each group is one point: its roles are the head of its row, in place of a line of their own.
fn by_roles(view: &View, table: &mut Table) {
    table.below.push(
        "Figures are of the first role of a pair, or of the second where the first has no load".to_owned(),
    );
    let backend = view.groups.first().map(|group| group.backend);
    let is_one_point = |group: &Group| {
        group.kind != Kind::Emulated && Some(group.backend) == backend && group.points.len() == 1
    };
    if !view.groups.iter().all(is_one_point) {
        return;
    }
    table.columns[0] = given("Roles");
    let roles = |group: &Group| group.points[0].vary.values().cloned().collect::<Vec<_>>().join(", ");
    let heads: Vec<Cell> = view.groups.iter().map(|group| Cell::from(roles(group))).collect();
    let rows = std::mem::take(&mut table.groups).into_iter().flat_map(|group| group.rows);
    let rows = rows.zip(heads).map(|(row, head)| Row { head, ..row }).collect();
    table.groups = vec![RowGroup { head: None, rows }];
}

fn group_head(view: &View, group: &Group, several: bool) -> Option<GroupHead> {
    match group.kind {
        Kind::Emulated => {
            let name = (group.backend != Backend::Emulated).then(|| group.name.clone());
            Some(GroupHead::Emulated { name, proof: proof(view, group.backend) })
        }
        _ => several.then(|| GroupHead::Named(group.name.clone())),
    }
}

/// Takes columns away that have no figure at all, for one reason.
fn without_empty_columns(mut table: Table) -> Table {
    let reason_of = |place: usize| {
        let mut cells = table.rows().flat_map(|row| &row.lines).map(|line| &line[place]).peekable();
        let first = cells.peek().and_then(|cell| cell.note);
        first.filter(|note| {
            cells.all(|cell| cell.is_missing() && cell.aside.is_none() && cell.note == Some(*note))
        })
    };
    let reasons: Vec<Option<usize>> = (0..table.columns.len() - 1).map(reason_of).collect();
    let is_kept = |place: usize| place == 0 || reasons[place - 1].is_none();
    let mut kept = Notes::default();
    for line in table.groups.iter_mut().flat_map(|group| &mut group.rows).flat_map(|row| &mut row.lines) {
        let mut place = 0;
        line.retain_mut(|cell| {
            place += 1;
            // Numbers are given again: reasons of whole columns are below the table without one.
            cell.note = cell
                .note
                .filter(|note| !reasons.contains(&Some(*note)))
                .map(|note| kept.number(table.notes[note - 1].clone()));
            is_kept(place)
        });
    }
    for (note, reason) in (1..).zip(&table.notes) {
        let heads = (1..table.columns.len()).filter(|place| reasons[place - 1] == Some(note));
        let heads: Vec<&str> = heads.map(|place| &*table.columns[place].head).collect();
        if !heads.is_empty() {
            table.absent.push(format!("{}: {reason}", heads.join(", ")));
        }
    }
    let mut place = 0;
    table.columns.retain(|_| {
        place += 1;
        is_kept(place - 1)
    });
    table.notes = kept.0;
    table
}

/// Reasons for missing figures, each named once.
#[derive(Default)]
struct Notes(Vec<String>);

impl Notes {
    fn number(&mut self, reason: String) -> usize {
        let place = self.0.iter().position(|known| *known == reason).unwrap_or_else(|| {
            self.0.push(reason);
            self.0.len() - 1
        });
        place + 1
    }
}

fn row(view: &View, kind: Kind, point: &PointResult, rate: RateColumn, notes: &mut Notes) -> Row {
    let mut cell = |text: Option<String>, figure: &str| {
        let note = text.is_none().then(|| notes.number(view.missing(point, figure)));
        Cell { note, ..Cell::figure(text) }
    };
    let p50 = point.latency_ms.and_then(|latency| latency.p50);
    let p99 = p99(point);
    let served = point.throughput.as_ref().map(|throughput| throughput.figure.value);
    let unit = view.unit_of_figure(point, view.headline_of(point));
    let worst = worst_guest(view, point);
    let ready = point.seconds_to_ready;
    let kept = point.repeats_kept;
    let outcome = Outcome::of(view, point);
    let not_trusted = if view.struck(point) { ", not trusted" } else { "" };
    let mut cells = vec![
        whole(point.guests.into()).into(),
        three(point.vcpus_per_thread).into(),
        cell(point.offered.map(three), "offered"),
        cell(served.map(|value| rate.cell(value, unit)), "throughput"),
        cell(point.achieved_fraction.map(percent), "achieved_fraction"),
        cell(p50.map(three), "latency_ms.p50"),
        cell(p99.map(|figure| three(figure.value)), "p99_ms"),
        cell(point.errors.map(percent_or_none), "errors"),
        cell(worst.map(|worst| worst.name.clone()), "loads"),
        cell(point.pss_mib_per_guest.map(three), "pss_mib_per_guest"),
        cell(ready.map(|ready| ready.max).or(point.ready_s).map(three), "ready_s"),
        format!("{kept} of {}", kept as usize + point.repeats_voided.len()).into(),
        match point.repeats_within {
            _ if kind == Kind::Emulated => Cell::figure(None),
            within => cell(within.map(|within| format!("{within} of {kept}")), "repeats_within"),
        },
        match outcome {
            Outcome::Unknown if kind == Kind::Emulated => "not judged".into(),
            Outcome::Unknown => cell(None, "holds"),
            known => (gate_words(known, point) + not_trusted).into(),
        },
    ];
    cells[P99].aside = p99.as_ref().and_then(interval);
    if p99.is_none() {
        cells[P99].aside = discarded_p99(view, point).map(|value| format!("discarded {}", three(value)));
    }
    if p99.is_some() && cells[P99].aside.is_none() {
        cells[P99].note = Some(notes.number(view.missing(point, "p99_ms.low")));
    }
    if outcome == Outcome::Undecided {
        cells[OUTCOME].note = Some(notes.number(view.missing(point, "holds")));
    }
    cells[WORST_GUEST].aside = worst.and_then(|worst| worst.latency_ms.p99).map(three);
    cells[READY].aside = ready.map(|ready| format!("[{}, {}]", three(ready.p50), three(ready.p99)));
    Row { outcome: Some(outcome), ..Row::of(view, point, step(view, point), vec![cells]) }
}

/// The p99 of the headline load over the discarded repeats of a step of which no repeat counts: their median, in milliseconds.
fn discarded_p99(view: &View, point: &PointResult) -> Option<f64> {
    let voided = |repeat: &&RepeatSummary| {
        repeat.point == point.index && point.repeats_voided.iter().any(|void| void.repeat == repeat.repeat)
    };
    let headline = view.headline_of(point);
    let loads = view.report.repeats.iter().filter(voided).flat_map(|repeat| &repeat.loads);
    median(loads.filter(|load| load.name == headline).filter_map(|load| load.latency_ms.p99).collect())
}

/// A part of all requests.
pub(crate) fn percent_or_none(fraction: f64) -> String {
    if fraction == 0.0 { "0".to_owned() } else { percent(fraction) }
}

fn step(view: &View, point: &PointResult) -> String {
    match view.axis {
        super::Axis::Tiles => point.tiles.to_string(),
        super::Axis::Vary | super::Axis::Roles => format!("{} ({})", point.tiles, view.step(point)),
    }
}

/// The one p99 that is shown of a load; where the record gives none with an interval, that of its latency.
pub(crate) fn load_p99(load: &LoadResult) -> Option<Figure> {
    let pooled = load.latency_ms.p99.map(|value| Figure { value, low: None, high: None, n_repeats: 0 });
    load.p99_ms.or(pooled)
}

/// The one p99 that is shown of a step: that of its headline load.
pub(crate) fn p99(point: &PointResult) -> Option<Figure> {
    let pooled = || {
        let value = point.latency_ms?.p99?;
        Some(Figure { value, low: None, high: None, n_repeats: point.repeats_kept })
    };
    point.p99_ms.or_else(pooled)
}

/// `[74.0, 90.1]`
pub(crate) fn interval(figure: &Figure) -> Option<String> {
    Some(format!("[{}, {}]", three(figure.low?), three(figure.high?)))
}

/// The guest of the headline load that was answered slowest.
pub(crate) fn worst_guest<'a>(view: &View<'a>, point: &PointResult) -> Option<&'a GuestResult> {
    let headline = view.headline_of(point);
    let place = view.report.result.points.iter().find(|other| std::ptr::eq(*other, point))?;
    let load = place.loads.iter().find(|load| load.name == headline)?;
    load.guests
        .iter()
        .filter(|guest| guest.latency_ms.p99.is_some())
        .max_by(|a, b| a.latency_ms.p99.unwrap_or(0.0).total_cmp(&b.latency_ms.p99.unwrap_or(0.0)))
}

fn gate_words(outcome: Outcome, point: &PointResult) -> String {
    match point.broke.first() {
        Some(first) if outcome == Outcome::Breaks => format!("breaks: {}", measure_words(first.measure)),
        _ => outcome.word().to_owned(),
    }
}

/// A limit of the gate in words.
pub(crate) const fn measure_words(measure: GateMeasure) -> &'static str {
    match measure {
        GateMeasure::P99 => "p99",
        GateMeasure::Errors => "errors",
        GateMeasure::Achieved => "achieved",
        GateMeasure::Mean => "mean",
        GateMeasure::Good => "good pages",
        GateMeasure::Tolerable => "tolerable pages",
        GateMeasure::GuestEnded => "a guest ended",
        GateMeasure::OutOfMemory => "out of memory",
        GateMeasure::Swapping => "swapping",
        GateMeasure::WrongAnswers => "wrong answers",
        GateMeasure::ServiceErrors => "service errors",
    }
}

/// What limits, in a word.
pub(crate) const fn limit_word(limit: LimitResource) -> &'static str {
    match limit {
        LimitResource::Processor => "processor",
        LimitResource::Memory => "memory",
        LimitResource::Disk => "disk",
        LimitResource::Network => "network",
        LimitResource::LoadGenerator => "load generator (not the host)",
        LimitResource::Unknown => "unknown",
    }
}
