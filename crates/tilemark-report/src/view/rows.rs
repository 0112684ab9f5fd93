//! The table of steps.

use super::{Group, Kind, View};
use crate::number::{percent, three, whole};
use tilemark_record::result::{Figure, GateMeasure, GuestResult, LimitResource, LoadResult, PointResult};

/// A column of the table.
pub(crate) struct Column {
    /// Its head.
    pub(crate) head: &'static str,
    /// Its unit, under the head.
    pub(crate) unit: &'static str,
    /// The word of the glossary that explains it.
    pub(crate) word: &'static str,
    /// In a narrow terminal, columns with the largest number go first.
    pub(crate) dispensable: u8,
}

const fn column(head: &'static str, unit: &'static str, word: &'static str, dispensable: u8) -> Column {
    Column { head, unit, word, dispensable }
}

/// All columns, in order.
pub(crate) const COLUMNS: [Column; 15] = [
    column("Tiles", "", "tile", 0),
    column("Guests", "", "guest", 6),
    column("vCPUs", "per thread", "vcpus-per-thread", 5),
    column("Offered", "per s", "offered", 3),
    column("Served", "per s", "throughput", 7),
    column("Achieved", "", "achieved", 2),
    column("p50", "ms", "p50", 4),
    column("p99", "ms, 95 % interval", "p99", 0),
    column("Errors", "", "errors", 2),
    column("Worst guest", "its p99, ms", "worst-guest", 9),
    column("Memory", "MiB per guest", "pss", 8),
    column("Ready", "s, slowest [p50, p99]", "ready", 10),
    column("Repeats", "kept of all", "repeat", 6),
    column("Within", "of kept", "within", 5),
    column("Gate", "", "gate", 0),
];

/// What one cell says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its figure or word.
    pub(crate) text: String,
    /// Its interval.
    pub(crate) interval: Option<String>,
    /// The note that says why there is no figure or no interval, or why it is undecided, counted from 1.
    pub(crate) note: Option<usize>,
}

impl Cell {
    const NONE: &str = "\u{2013}";

    /// Whether it has no figure.
    pub(crate) fn is_missing(&self) -> bool {
        self.text == Self::NONE
    }
}

/// What the gate said of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is within all limits.
    Holds,
    /// An interval lies across a limit, or too few repeats were kept.
    Undecided,
    /// It is beyond one limit, or a guest or service failed.
    Breaks,
    /// It was not judged.
    Unknown,
}

impl Outcome {
    /// In a word.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Undecided => "undecided",
            Self::Breaks => "breaks",
            Self::Unknown => "cannot tell",
        }
    }

    /// Of a point. The gate is no measure of what is emulated.
    pub(crate) fn of(view: &View, point: &PointResult) -> Self {
        if view.report.plan.host.emulates(point.backend) {
            return Self::Unknown;
        }
        match point.holds {
            Some(true) => Self::Holds,
            Some(false) => Self::Breaks,
            None if point.repeats_kept > 0 && point.p99_ms.is_some() => Self::Undecided,
            None => Self::Unknown,
        }
    }
}

/// One step.
pub(crate) struct Row {
    /// Its cells in the order of [`COLUMNS`].
    pub(crate) cells: Vec<Cell>,
    /// What the gate said.
    pub(crate) outcome: Outcome,
    /// Whether its figures are struck through.
    pub(crate) struck: bool,
    /// Whether it proves function only.
    pub(crate) emulated: bool,
}

/// The table of steps.
pub(crate) struct Table<'a> {
    /// The rows of each group.
    pub(crate) groups: Vec<(&'a Group<'a>, Vec<Row>)>,
    /// The columns that hold anything, by their place in [`COLUMNS`].
    pub(crate) columns: Vec<usize>,
    /// Columns that hold nothing at all, with the reason.
    pub(crate) absent: Vec<String>,
    /// The reasons that cells refer to, the first one is number 1.
    pub(crate) notes: Vec<String>,
}

/// The table of steps: what has no figure anywhere leaves it and is named below.
pub(crate) fn table<'a>(view: &'a View) -> Table<'a> {
    let mut notes = Notes::default();
    let mut groups: Vec<(&Group, Vec<Row>)> = view
        .groups
        .iter()
        .map(|group| {
            (group, group.points.iter().map(|point| row(view, group.kind, point, &mut notes)).collect())
        })
        .collect();
    let empty = |place: usize| {
        let mut rows = groups.iter().flat_map(|(_, rows)| rows).peekable();
        let first = rows.peek().and_then(|row| row.cells[place].note);
        let is_absent = |cell: &Cell, note| cell.is_missing() && cell.note == Some(note);
        first.filter(|note| rows.all(|row| is_absent(&row.cells[place], *note)))
    };
    let absent: Vec<Option<usize>> = (0..COLUMNS.len()).map(empty).collect();
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(|place| absent[*place].is_none()).collect();
    let mut kept = Notes::default();
    for cell in groups.iter_mut().flat_map(|(_, rows)| rows).flat_map(|row| &mut row.cells) {
        // Numbers are given again: reasons of whole columns stand below the table without one.
        cell.note = cell
            .note
            .filter(|note| !absent.contains(&Some(*note)))
            .map(|note| kept.number(notes.0[note - 1].clone()));
    }
    let words = notes.0.iter().enumerate().filter_map(|(place, reason)| {
        let heads: Vec<&str> = (0..COLUMNS.len())
            .filter(|column| absent[*column] == Some(place + 1))
            .map(|column| COLUMNS[column].head)
            .collect();
        (!heads.is_empty()).then(|| format!("{}: {reason}", heads.join(", ")))
    });
    Table { columns, absent: words.collect(), notes: kept.0, groups }
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

fn row(view: &View, kind: Kind, point: &PointResult, notes: &mut Notes) -> Row {
    let mut cell = |text: Option<String>, figure: &str| match text {
        Some(text) => Cell { text, ..Cell::default() },
        None => {
            let note = Some(notes.number(view.missing(point, figure)));
            Cell { text: Cell::NONE.to_owned(), interval: None, note }
        }
    };
    let p50 = point.latency_ms.and_then(|latency| latency.p50);
    let p99 = p99(point);
    let worst = worst_guest(view, point);
    let ready = point.seconds_to_ready;
    let kept = point.repeats_kept;
    let not_trusted = if view.struck(point) { ", not trusted" } else { "" };
    let mut cells = vec![
        cell(Some(step(view, point)), ""),
        cell(Some(whole(point.guests.into())), ""),
        cell(Some(three(point.vcpus_per_thread)), ""),
        cell(point.offered.map(three), "offered"),
        cell(point.throughput.as_ref().map(|throughput| three(throughput.figure.value)), "throughput"),
        cell(point.achieved_fraction.map(percent), "achieved_fraction"),
        cell(p50.map(three), "latency_ms.p50"),
        cell(p99.map(|figure| three(figure.value)), "p99_ms"),
        cell(point.errors.map(percent_or_none), "errors"),
        cell(worst.map(|worst| worst.name.clone()), "loads"),
        cell(point.pss_mib_per_guest.map(three), "pss_mib_per_guest"),
        cell(ready.map(|ready| ready.max).or(point.ready_s).map(three), "ready_s"),
        cell(Some(format!("{kept} of {}", kept as usize + point.repeats_voided.len())), ""),
        match point.repeats_within {
            _ if kind == Kind::Emulated => cell(Some(Cell::NONE.to_owned()), ""),
            within => cell(within.map(|within| format!("{within} of {kept}")), "repeats_within"),
        },
        match Outcome::of(view, point) {
            Outcome::Unknown if kind == Kind::Emulated => cell(Some("not judged".to_owned()), ""),
            Outcome::Unknown => cell(None, "holds"),
            known => cell(Some(gate_words(known, point) + not_trusted), ""),
        },
    ];
    cells[7].interval = p99.as_ref().and_then(interval);
    if p99.is_some() && cells[7].interval.is_none() {
        cells[7].note = Some(notes.number(view.missing(point, "p99_ms.low")));
    }
    if Outcome::of(view, point) == Outcome::Undecided {
        cells[14].note = Some(notes.number(view.missing(point, "holds")));
    }
    cells[9].interval = worst.and_then(|worst| worst.latency_ms.p99).map(three);
    cells[11].interval = ready.map(|ready| format!("[{}, {}]", three(ready.p50), three(ready.p99)));
    Row {
        cells,
        outcome: Outcome::of(view, point),
        struck: view.struck(point),
        emulated: kind == Kind::Emulated,
    }
}

fn percent_or_none(fraction: f64) -> String {
    if fraction == 0.0 { "0".to_owned() } else { percent(fraction) }
}

fn step(view: &View, point: &PointResult) -> String {
    match view.axis {
        super::Axis::Tiles => point.tiles.to_string(),
        super::Axis::Vary => format!("{} ({})", point.tiles, view.step(point)),
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
    let headline = view.headline();
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
        LimitResource::LoadGenerator => "our load",
        LimitResource::Unknown => "unknown",
    }
}
