//! Whether a point holds: every load and every guest of it within the gate's p99, errors and achieved part.

use std::collections::BTreeMap;

use tilemark_plan::plan::Point;
use tilemark_plan::scenario::{Gate, LoopKind};
use tilemark_record::result::{Break, GateMeasure, LatencyMs, Voided};
use tilemark_record::summary::{GuestFigures, LoadFigures, RepeatSummary};

use super::measured::{load, load_names};
use crate::figure::{Figure, Scale};
use crate::interval::estimate;
use crate::percentile::percentile_admissible;

/// What the gate found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GateFinding {
    Holds,
    /// Worst first.
    Broke(Vec<Break>),
    Unknown(String),
}

impl GateFinding {
    pub(crate) fn holds(&self) -> Option<bool> {
        match self {
            Self::Holds => Some(true),
            Self::Broke(_) => Some(false),
            Self::Unknown(_) => None,
        }
    }
}

/// The gate over the kept repeats. Where all that is left are repeats in which our load was late, they can
/// still show that the point holds, since lateness only adds to latency; that it breaks they cannot show.
pub(crate) fn gate(
    point: &Point,
    kept: &[&RepeatSummary],
    saturated: &[&RepeatSummary],
    voided: &[Voided],
) -> GateFinding {
    if point.loads.is_empty() {
        return GateFinding::Unknown("it has no load, so there is nothing to hold".to_owned());
    }
    if !kept.is_empty() {
        return over(point, kept);
    }
    let reason = match voided.first() {
        None => return GateFinding::Unknown("it was not measured".to_owned()),
        Some(first) => format!("all its {} repeats were voided: {}", voided.len(), first.reason),
    };
    if !saturated.is_empty() && over(point, saturated) == GateFinding::Holds {
        return GateFinding::Holds;
    }
    GateFinding::Unknown(reason)
}

fn over(point: &Point, repeats: &[&RepeatSummary]) -> GateFinding {
    let (mut breaks, mut unknown) = (Vec::new(), Vec::new());
    for name in load_names(point) {
        match of_load(&point.gate, point.tiles, &load(repeats, name)) {
            GateFinding::Holds => {}
            GateFinding::Broke(found) => breaks.extend(found),
            GateFinding::Unknown(reason) => unknown.push(reason),
        }
    }
    if !breaks.is_empty() {
        breaks.sort_by(|one, other| {
            rank(one).cmp(&rank(other)).then(excess(&point.gate, other).total_cmp(&excess(&point.gate, one)))
        });
        return GateFinding::Broke(breaks);
    }
    if unknown.is_empty() { GateFinding::Holds } else { GateFinding::Unknown(unknown.join("; ")) }
}

/// Latency first: it is what most people feel and understand.
fn rank(found: &Break) -> u8 {
    match found.measure {
        GateMeasure::P99 => 0,
        GateMeasure::Errors => 1,
        GateMeasure::Achieved => 2,
        _ => 3,
    }
}

fn excess(gate: &Gate, found: &Break) -> f64 {
    match found.measure {
        GateMeasure::P99 => found.value / gate.p99.as_milliseconds(),
        GateMeasure::Errors => found.value,
        GateMeasure::Achieved => 1.0 - found.value,
        _ => found.value,
    }
}

fn of_load(gate: &Gate, tiles: u32, repeats: &[&LoadFigures]) -> GateFinding {
    let by_guest = by_guest(repeats);
    let latency = p99(gate.p99.as_milliseconds(), repeats, &by_guest);
    let found = [
        latency.clone().unwrap_or(None),
        errors(gate, repeats, &by_guest),
        achieved(gate, repeats, &by_guest),
    ];
    let breaks: Vec<Break> = found.into_iter().flatten().map(|found| found.named(tiles, repeats)).collect();
    match latency {
        _ if !breaks.is_empty() => GateFinding::Broke(breaks),
        Err(reason) => GateFinding::Unknown(reason),
        Ok(_) => GateFinding::Holds,
    }
}

/// A limit that was crossed, by whom and when.
#[derive(Clone)]
struct Crossing {
    measure: GateMeasure,
    figure: Figure,
    guest: Option<String>,
    second: Option<u32>,
}

impl Crossing {
    fn named(self, tiles: u32, repeats: &[&LoadFigures]) -> Break {
        Break {
            tiles,
            measure: self.measure,
            value: self.figure.value,
            low: self.figure.low(),
            high: self.figure.high(),
            load: repeats.first().map(|load| load.name.clone()).unwrap_or_default(),
            guest: self.guest,
            second: self.second,
            detail: None,
        }
    }
}

type ByGuest<'a> = BTreeMap<&'a str, Vec<&'a GuestFigures>>;

pub(crate) fn by_guest<'a>(repeats: &[&'a LoadFigures]) -> ByGuest<'a> {
    let mut found = ByGuest::new();
    for guest in repeats.iter().flat_map(|load| &load.guests) {
        found.entry(guest.name.as_str()).or_default().push(guest);
    }
    found
}

/// The p99 of a repeat where there are requests enough for one.
pub(crate) fn admissible_p99(latency: &LatencyMs) -> Option<f64> {
    latency.p99.filter(|_| percentile_admissible(latency.n, 0.99).is_ok())
}

fn p99(limit_ms: f64, repeats: &[&LoadFigures], guests: &ByGuest) -> Result<Option<Crossing>, String> {
    let figure_of = |latencies: Vec<&LatencyMs>| {
        let values: Vec<f64> = latencies.into_iter().filter_map(admissible_p99).collect();
        estimate(&values, Scale::Logarithmic, 0).ok()
    };
    let crossing = |guest: Option<&str>, figure: Figure| {
        let second = guest.and_then(|guest| worst_second(&guests[guest]));
        Crossing { measure: GateMeasure::P99, figure, guest: guest.map(str::to_owned), second }
    };
    let of_guests = guests.iter().filter_map(|(name, repeats)| {
        Some((*name, figure_of(repeats.iter().map(|guest| &guest.latency_ms).collect())?))
    });
    let worst = of_guests.max_by(|one, other| one.1.value.total_cmp(&other.1.value));
    if let Some((guest, figure)) = worst.filter(|(_, figure)| figure.value > limit_ms) {
        return Ok(Some(crossing(Some(guest), figure)));
    }
    let whole = figure_of(repeats.iter().map(|load| &load.latency_ms).collect());
    if let Some(figure) = whole.filter(|figure| figure.value > limit_ms) {
        return Ok(Some(crossing(slowest_guest(guests), figure)));
    }
    // A closed loop of which no latency was taken, as messages flat out, has none to hold.
    // Too few requests for a p99: where even the slowest was within the limit, so was the p99.
    let unproven = repeats.iter().find(|load| {
        !is_without_latency(load)
            && admissible_p99(&load.latency_ms).is_none()
            && !load.latency_ms.max.is_some_and(|max| max <= limit_ms)
    });
    match unproven {
        None => Ok(None),
        Some(load) => Err(format!(
            "load {} had {} requests in a repeat, too few for a p99, and its slowest took over {limit_ms} ms",
            load.name, load.latency_ms.n
        )),
    }
}

fn is_without_latency(load: &LoadFigures) -> bool {
    load.loop_kind == LoopKind::Closed && load.latency_ms.n == 0 && load.completed > 0
}

fn worst_second(repeats: &[&GuestFigures]) -> Option<u32> {
    let seconds = repeats.iter().filter_map(|guest| guest.worst_second);
    seconds.max_by(|one, other| one.latency_ms.total_cmp(&other.latency_ms)).map(|worst| worst.second)
}

fn slowest_guest<'a>(guests: &ByGuest<'a>) -> Option<&'a str> {
    let slowest = |repeats: &[&GuestFigures]| {
        repeats
            .iter()
            .filter_map(|guest| guest.worst_second)
            .map(|worst| worst.latency_ms)
            .fold(0.0, f64::max)
    };
    guests.iter().max_by(|one, other| slowest(one.1).total_cmp(&slowest(other.1))).map(|(name, _)| *name)
}

/// Part of a load's requests that failed or were answered wrongly.
pub(crate) fn error_fraction(load: &LoadFigures) -> Option<f64> {
    part(load.failed + load.wrong, load.completed + load.failed + load.wrong)
}

/// Part of the demand that was served; nothing for a closed loop, which has no demand to fall short of.
pub(crate) fn achieved_fraction(load: &LoadFigures) -> Option<f64> {
    match load.loop_kind {
        LoopKind::Open => part(load.completed, load.offered),
        LoopKind::Closed => None,
    }
}

fn part(of: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| of as f64 / whole as f64)
}

fn fractions<T>(repeats: &[T], fraction: impl Fn(&T) -> Option<f64>) -> Option<Figure> {
    let values: Vec<f64> = repeats.iter().filter_map(fraction).collect();
    estimate(&values, Scale::Linear, 0).ok()
}

fn errors(gate: &Gate, repeats: &[&LoadFigures], guests: &ByGuest) -> Option<Crossing> {
    let of_guest = |guest: &&GuestFigures| part(guest.errors, guest.completed + guest.errors);
    let worst = worst_guest(guests, of_guest, |one, other| one.total_cmp(&other));
    let whole = fractions(repeats, |load| error_fraction(load));
    let crosses = |figure: &Figure| figure.value > gate.errors.get();
    crossing_of(GateMeasure::Errors, worst, whole, crosses)
}

fn achieved(gate: &Gate, repeats: &[&LoadFigures], guests: &ByGuest) -> Option<Crossing> {
    repeats.iter().find(|load| load.loop_kind == LoopKind::Open)?;
    let of_guest = |guest: &&GuestFigures| part(guest.completed, guest.offered);
    let worst = worst_guest(guests, of_guest, |one, other| other.total_cmp(&one));
    let whole = fractions(repeats, |load| achieved_fraction(load));
    let crosses = |figure: &Figure| figure.value < gate.achieved.get();
    crossing_of(GateMeasure::Achieved, worst, whole, crosses)
}

/// A guest with its figure.
struct OfGuest {
    name: String,
    figure: Figure,
}

fn worst_guest(
    guests: &ByGuest,
    fraction: impl Fn(&&GuestFigures) -> Option<f64>,
    worse: impl Fn(f64, f64) -> std::cmp::Ordering,
) -> Option<OfGuest> {
    let figures = guests.iter().filter_map(|(name, repeats)| {
        Some(OfGuest { name: (*name).to_owned(), figure: fractions(repeats, &fraction)? })
    });
    figures.max_by(|one, other| worse(one.figure.value, other.figure.value))
}

fn crossing_of(
    measure: GateMeasure,
    worst: Option<OfGuest>,
    whole: Option<Figure>,
    crosses: impl Fn(&Figure) -> bool,
) -> Option<Crossing> {
    if let Some(OfGuest { name, figure }) = worst.filter(|worst| crosses(&worst.figure)) {
        return Some(Crossing { measure, figure, guest: Some(name), second: None });
    }
    let figure = whole.filter(crosses)?;
    Some(Crossing { measure, figure, guest: None, second: None })
}
