//! Whether a point holds: every load and every guest of it within the gate's p99, errors and achieved part, by whole intervals.
//!
//! ```text
//! a failure in any repeat ----------------------------------------> breaks
//! each limit: interval within -> holds | across -> undecided | beyond -> breaks
//! ```
//! One limit beyond breaks the point; else one across leaves it undecided.

use std::collections::{BTreeMap, BTreeSet};

use statrs::distribution::{DiscreteCDF, Poisson};
use tilemark_plan::plan::Point;
use tilemark_plan::scenario::{Gate, LoopKind};
use tilemark_record::result::{Break, GateMeasure, LatencyMs, Voided};
use tilemark_record::summary::{GuestFigures, LoadFigures, Quality, RepeatSummary};
use tilemark_units::{Fraction, counted};

use super::failures;
use super::guests::slower_than_others;
use super::law::Seen;
use super::measured::{load, load_names};
use super::tail::{Merged, RepeatLatency};
use crate::figure::INTERVAL_REPEATS_MIN;
use crate::figure::{Figure, Missing, Scale};
use crate::interval::estimate;
use crate::percentile::percentile_admissible;

/// Probability that errors of any guest are called too many where none has more than the gate allows.
const FALSE_ALARM: f64 = 0.005;

/// What the gate found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GateFinding {
    Holds,
    /// Limits that the intervals lie across, worst first.
    Undecided(Vec<Break>),
    /// Worst first.
    Broke(Vec<Break>),
    Unknown(String),
}

impl GateFinding {
    pub(crate) fn holds(&self) -> Option<bool> {
        match self {
            Self::Holds => Some(true),
            Self::Broke(_) => Some(false),
            Self::Undecided(_) | Self::Unknown(_) => None,
        }
    }

    /// What broke, worst first; nothing where nothing did.
    pub(crate) fn breaks(&self) -> &[Break] {
        match self {
            Self::Broke(breaks) => breaks,
            Self::Holds | Self::Undecided(_) | Self::Unknown(_) => &[],
        }
    }

    pub(crate) fn is_failure(&self) -> bool {
        self.breaks().iter().any(|found| found.measure.is_failure())
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
    let failures = failures::breaks(point, kept, saturated);
    if !failures.is_empty() {
        return GateFinding::Broke(failures);
    }
    if !kept.is_empty() {
        return over(point, kept);
    }
    let Some(reason) = Voided::every_one(voided) else {
        return GateFinding::Unknown("it was not measured".to_owned());
    };
    if !saturated.is_empty() && over(point, saturated) == GateFinding::Holds {
        return GateFinding::Holds;
    }
    GateFinding::Unknown(reason)
}

fn over(point: &Point, repeats: &[&RepeatSummary]) -> GateFinding {
    if repeats.len() < INTERVAL_REPEATS_MIN {
        return GateFinding::Unknown(Missing::too_few(repeats.len()).reason);
    }
    let (mut beyond, mut across, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    for name in load_names(point) {
        let repeats = load(repeats, name);
        match limits_of_load(&point.gate, &repeats) {
            Err(reason) => unknown.push(reason),
            Ok(found) => {
                for (place, limit) in found {
                    let named = limit.named(point.tiles, &repeats);
                    if place == Place::Beyond { beyond.push(named) } else { across.push(named) }
                }
            }
        }
    }
    if !beyond.is_empty() {
        return GateFinding::Broke(worst_first(&point.gate, beyond));
    }
    if !across.is_empty() {
        return GateFinding::Undecided(worst_first(&point.gate, across));
    }
    if unknown.is_empty() { GateFinding::Holds } else { GateFinding::Unknown(unknown.join("; ")) }
}

fn worst_first(gate: &Gate, mut breaks: Vec<Break>) -> Vec<Break> {
    breaks.sort_by(|one, other| {
        rank(one).cmp(&rank(other)).then(excess(gate, other).total_cmp(&excess(gate, one)))
    });
    breaks
}

/// Latency first: it is what most people feel and understand.
fn rank(found: &Break) -> u8 {
    match found.measure {
        GateMeasure::P99 => 0,
        GateMeasure::Errors => 1,
        GateMeasure::Achieved => 2,
        GateMeasure::Mean => 3,
        GateMeasure::Good | GateMeasure::Tolerable => 4,
        _ => 5,
    }
}

fn excess(gate: &Gate, found: &Break) -> f64 {
    match found.measure {
        GateMeasure::P99 => found.value / gate.p99.as_milliseconds(),
        GateMeasure::Achieved | GateMeasure::Good | GateMeasure::Tolerable => 1.0 - found.value,
        _ => found.value,
    }
}

/// Where an interval lies to a limit that must not be passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Across,
    Beyond,
}

/// Nothing where the whole interval is within.
fn place(figure: &Figure, limit: f64) -> Option<Place> {
    match &figure.interval {
        Ok(interval) if interval.high <= limit => None,
        Ok(interval) if interval.low > limit => Some(Place::Beyond),
        Ok(_) | Err(_) => Some(Place::Across),
    }
}

/// A limit that is not kept for sure, by whom and when.
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

fn limits_of_load(gate: &Gate, repeats: &[&LoadFigures]) -> Result<Vec<(Place, Crossing)>, String> {
    let guests = by_guest(repeats);
    let latency = latency(gate.p99.as_milliseconds(), repeats, &guests);
    let mut found: Vec<(Place, Crossing)> = latency.as_ref().ok().into_iter().flatten().cloned().collect();
    found.extend(errors(gate, repeats, &guests));
    found.extend(achieved(gate, repeats, &guests));
    found.extend(mean(gate, repeats, &guests));
    found.extend(quality(gate, repeats, &guests));
    match latency {
        // What is known to break outranks what is not known.
        Err(reason) if !found.iter().any(|(place, _)| *place == Place::Beyond) => Err(reason),
        Ok(_) | Err(_) => Ok(found),
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

pub(crate) fn of_load(load: &LoadFigures) -> RepeatLatency<'_> {
    RepeatLatency { figures: &load.latency_ms, histogram: load.latency_histogram.as_ref() }
}

pub(crate) fn of_guest(guest: &GuestFigures) -> RepeatLatency<'_> {
    RepeatLatency { figures: &guest.latency_ms, histogram: guest.latency_histogram.as_ref() }
}

/// The load as a whole, and each guest that differs from the others by more than chance.
fn latency(
    limit_ms: f64,
    repeats: &[&LoadFigures],
    guests: &ByGuest,
) -> Result<Vec<(Place, Crossing)>, String> {
    let (mut found, mut unknown) = (Vec::new(), None);
    for name in judged_alone(guests) {
        let latencies: Vec<RepeatLatency> = guests[name].iter().map(|guest| of_guest(guest)).collect();
        let figure = match Merged::of(&latencies).p99() {
            Ok(figure) => figure,
            Err(_) if guests[name].iter().all(|guest| is_within(&guest.latency_ms, limit_ms)) => continue,
            Err(reason) => {
                unknown = Some(format!("{name} is slower than the other guests: {}", reason.reason));
                continue;
            }
        };
        if let Some(place) = place(&figure, limit_ms) {
            let second = worst_second(&guests[name]);
            found.push((
                place,
                Crossing { measure: GateMeasure::P99, figure, guest: Some(name.to_owned()), second },
            ));
        }
    }
    if let Some(reason) = unknown.filter(|_| guests.len() > 1 && found.is_empty()) {
        return Err(reason);
    }
    let latencies: Vec<RepeatLatency> = repeats.iter().map(|load| of_load(load)).collect();
    match Merged::of(&latencies).p99() {
        Ok(figure) => {
            if let Some(place) = place(&figure, limit_ms) {
                // A load that a guest of it broke adds nothing.
                if !found.iter().any(|(of_guest, _)| *of_guest == Place::Beyond) {
                    // The figure is that of all guests, none of which need be beyond the limit by itself.
                    let crossing = Crossing { measure: GateMeasure::P99, figure, guest: None, second: None };
                    found.push((place, crossing));
                }
            }
            Ok(found)
        }
        Err(_) if found.iter().any(|(place, _)| *place == Place::Beyond) => Ok(found),
        Err(_) => unproven(limit_ms, repeats).map_or(Ok(found), Err),
    }
}

fn is_within(latency: &LatencyMs, limit_ms: f64) -> bool {
    latency.max.is_some_and(|max| max <= limit_ms)
}

/// Guests whose p99 is judged by itself: one that has the load alone, those that are slower than the others, and those that had so few
/// answers that they cannot be compared.
fn judged_alone<'a>(guests: &ByGuest<'a>) -> Vec<&'a str> {
    if guests.len() == 1 {
        return guests.keys().copied().collect();
    }
    let repeats = guests.values().map(Vec::len).max().unwrap_or(0);
    let logs = |guest: &Vec<&GuestFigures>| -> Vec<Option<f64>> {
        let own = |repeat: usize| guest.get(repeat).and_then(|guest| self::of_guest(guest).own_p99());
        (0..repeats).map(|repeat| own(repeat).map(f64::ln)).collect()
    };
    let starved = starved(guests);
    let compared: Vec<(&str, Vec<Option<f64>>)> = guests
        .iter()
        .filter(|(name, _)| !starved.contains(*name))
        .map(|(name, guest)| (*name, logs(guest)))
        .collect();
    let (names, logs): (Vec<&str>, Vec<Vec<Option<f64>>>) = compared.into_iter().unzip();
    let slower = slower_than_others(&logs).into_iter().map(|index| names[index]);
    slower.chain(starved.iter().copied()).collect()
}

/// Guests that had less than half as many answers as the typical guest, and in some repeat too few for a p99: one of them must not keep
/// the others from being compared.
fn starved<'a>(guests: &ByGuest<'a>) -> BTreeSet<&'a str> {
    let answers = |guest: &[&GuestFigures]| guest.iter().map(|guest| guest.latency_ms.n).sum::<u64>();
    let mut all: Vec<u64> = guests.values().map(|guest| answers(guest)).collect();
    all.sort_unstable();
    let typical = all.get(all.len() / 2).copied().unwrap_or(0);
    let is_starved = |guest: &[&GuestFigures]| {
        2 * answers(guest) < typical && guest.iter().any(|guest| self::of_guest(guest).own_p99().is_none())
    };
    guests.iter().filter(|(_, guest)| is_starved(guest)).map(|(name, _)| *name).collect()
}

/// Why a load with too few requests for a p99 cannot be judged. Where even the slowest was within the limit, so was the p99;
/// a closed loop of which no latency was taken, as messages flat out, has none to hold.
fn unproven(limit_ms: f64, repeats: &[&LoadFigures]) -> Option<String> {
    let slow = repeats
        .iter()
        .find(|load| !is_without_latency(load) && load.latency_ms.max.is_none_or(|max| max > limit_ms))?;
    let requests: u64 = repeats.iter().map(|load| load.latency_ms.n).sum();
    Some(format!(
        "load {} had {requests} requests in {}, too few for a p99, and its slowest took over {limit_ms} ms",
        slow.name,
        counted(repeats.len() as u64, "repeat")
    ))
}

/// A closed loop that was served and of which no latency was taken.
pub(crate) fn is_without_latency(load: &LoadFigures) -> bool {
    load.loop_kind == LoopKind::Closed && load.latency_ms.n == 0 && load.completed > 0
}

fn worst_second(repeats: &[&GuestFigures]) -> Option<u32> {
    let seconds = repeats.iter().filter_map(|guest| guest.worst_second);
    seconds.max_by(|one, other| one.latency_ms.total_cmp(&other.latency_ms)).map(|worst| worst.second)
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

/// Requests of one repeat, and those of them that were not served as they should.
#[derive(Clone, Copy)]
struct Missed {
    of: u64,
    missed: u64,
}

fn errors(gate: &Gate, repeats: &[&LoadFigures], guests: &ByGuest) -> Vec<(Place, Crossing)> {
    let of_load = |load: &LoadFigures| {
        let missed = load.failed + load.wrong;
        Missed { of: load.completed + missed, missed }
    };
    missed(GateMeasure::Errors, gate.errors.get(), repeats, guests, of_load, errors_of, |missed| missed)
}

fn errors_of(guest: &GuestFigures) -> Missed {
    Missed { of: guest.completed + guest.errors, missed: guest.errors }
}

fn achieved(gate: &Gate, repeats: &[&LoadFigures], guests: &ByGuest) -> Vec<(Place, Crossing)> {
    if repeats.iter().all(|load| load.loop_kind == LoopKind::Closed) {
        return Vec::new();
    }
    let of_load =
        |load: &LoadFigures| Missed { of: load.offered, missed: load.offered.saturating_sub(load.completed) };
    let limit = 1.0 - gate.achieved.get();
    missed(GateMeasure::Achieved, limit, repeats, guests, of_load, unserved_of, |missed| 1.0 - missed)
}

/// The errors of a load, or else its demand that was not served, if the whole interval lies beyond the gate.
pub(crate) fn not_served(point: &Point, kept: &[&RepeatSummary], name: &str) -> Option<Break> {
    let repeats = load(kept, name);
    let guests = by_guest(&repeats);
    let found = errors(&point.gate, &repeats, &guests).into_iter();
    let found = found.chain(achieved(&point.gate, &repeats, &guests));
    let beyond = found.filter(|(place, _)| *place == Place::Beyond);
    let beyond = beyond.map(|(_, crossing)| crossing.named(point.tiles, &repeats)).collect();
    worst_first(&point.gate, beyond).into_iter().next()
}

/// The mean of a load's latency against what the gate allows, and that of each guest that differs from the others by more than chance: among
/// many it hardly moves the mean of all.
fn mean(gate: &Gate, repeats: &[&LoadFigures], guests: &ByGuest) -> Vec<(Place, Crossing)> {
    let Some(limit) = gate.mean else { return Vec::new() };
    let crossing = |means: Vec<f64>, guest: Option<&str>| {
        let figure = estimate(&means, Scale::Linear, 0).ok()?.map(no_less_than_zero);
        let place = place(&figure, limit.as_milliseconds())?;
        let guest = guest.map(str::to_owned);
        Some((place, Crossing { measure: GateMeasure::Mean, figure, guest, second: None }))
    };
    let of_guest = |name: &str| {
        crossing(guests[name].iter().filter_map(|guest| guest.latency_ms.mean).collect(), Some(name))
    };
    // A guest that has the load alone is the load.
    let differ = if guests.len() > 1 { judged_alone(guests) } else { Vec::new() };
    let mut found: Vec<(Place, Crossing)> = differ.into_iter().filter_map(of_guest).collect();
    if !found.iter().any(|(place, _)| *place == Place::Beyond) {
        found.extend(crossing(repeats.iter().filter_map(|load| load.latency_ms.mean).collect(), None));
    }
    found
}

/// Which pages are good enough.
type Enough = fn(&Quality) -> u64;

/// What the gate allows of pages: the least part of those that are good enough, if any.
fn limits_of_pages(gate: &Gate) -> [(GateMeasure, Option<Fraction>, Enough); 2] {
    [
        (GateMeasure::Good, gate.good, |quality| quality.good),
        (GateMeasure::Tolerable, gate.tolerable, |quality| quality.tolerable),
    ]
}

/// Pages, and those of them that were not good enough. None where they were not counted, as of guests in older records.
fn not_enough(quality: Option<Quality>, enough: Enough) -> Missed {
    let (of, enough) = quality.map_or((0, 0), |quality| (quality.of, enough(&quality)));
    Missed { of, missed: of.saturating_sub(enough) }
}

/// The pages of a load and of its guests that were not good, and those that were not tolerable, against what the gate allows.
fn quality(gate: &Gate, repeats: &[&LoadFigures], guests: &ByGuest) -> Vec<(Place, Crossing)> {
    let of_limit = |(measure, least, enough): (GateMeasure, Option<Fraction>, Enough)| {
        let least = least?.get();
        let of_load = |load: &LoadFigures| not_enough(load.quality, enough);
        let of_guest = |guest: &GuestFigures| not_enough(guest.quality, enough);
        Some(missed(measure, 1.0 - least, repeats, guests, of_load, of_guest, |missed| 1.0 - missed))
    };
    limits_of_pages(gate).into_iter().filter_map(of_limit).flatten().collect()
}

/// Whether requests were slower on average in a repeat than the gate allows.
fn is_slow(gate: &Gate, latency: &LatencyMs) -> bool {
    gate.mean.zip(latency.mean).is_some_and(|(limit, mean)| mean > limit.as_milliseconds())
}

/// Whether a load was slower on average in a repeat than the gate allows, or had fewer good or tolerable pages.
fn is_worse_on_the_whole(gate: &Gate, load: &LoadFigures) -> bool {
    let has_few = |least: Option<Fraction>, enough: Enough| {
        let quality = least.zip(load.quality);
        quality.is_some_and(|(least, quality)| (enough(&quality) as f64) < least.get() * quality.of as f64)
    };
    is_slow(gate, &load.latency_ms)
        || limits_of_pages(gate).into_iter().any(|(_, least, enough)| has_few(least, enough))
}

fn unserved_of(guest: &GuestFigures) -> Missed {
    Missed { of: guest.offered, missed: guest.offered.saturating_sub(guest.completed) }
}

/// What a load and its guests missed against what the gate allows. A guest is judged by itself where it missed more than chance
/// explains if it kept the limit.
fn missed(
    measure: GateMeasure,
    limit: f64,
    repeats: &[&LoadFigures],
    guests: &ByGuest,
    of_load: impl Fn(&LoadFigures) -> Missed,
    of_guest: impl Fn(&GuestFigures) -> Missed,
    shown: impl Fn(f64) -> f64 + Copy,
) -> Vec<(Place, Crossing)> {
    let mut found = Vec::new();
    let mut take = |repeats: Vec<Missed>, guest: Option<&str>| {
        let parts: Vec<f64> = repeats.iter().filter_map(|repeat| part(repeat.missed, repeat.of)).collect();
        let Ok(figure) = estimate(&parts, Scale::Linear, 0) else { return };
        let figure = figure.map(as_part);
        if let Some(place) = place(&figure, limit + 1e-12) {
            let figure = flipped(figure, shown);
            found.push((place, Crossing { measure, figure, guest: guest.map(str::to_owned), second: None }));
        }
    };
    for (name, guest_repeats) in guests {
        let own: Vec<Missed> = guest_repeats.iter().map(|guest| of_guest(guest)).collect();
        if is_more_than_chance(&own, limit, guests.len()) {
            take(own, Some(name));
        }
    }
    take(repeats.iter().map(|load| of_load(load)).collect(), None);
    let by_guest =
        |(place, crossing): &(Place, Crossing)| *place == Place::Beyond && crossing.guest.is_some();
    if found.iter().any(by_guest) {
        found.retain(|(_, crossing)| crossing.guest.is_some());
    }
    found
}

/// A mean of times is not negative, though the interval of Student's t about it may reach there.
fn no_less_than_zero(milliseconds: f64) -> f64 {
    milliseconds.max(0.0)
}

/// A part of all is between none and all, though the interval of Student's t about it may reach beyond.
pub(super) fn as_part(part: f64) -> f64 {
    part.clamp(0.0, 1.0)
}

/// A figure as it is shown; what is shown may grow where what is judged falls.
fn flipped(figure: Figure, shown: impl Fn(f64) -> f64) -> Figure {
    let interval = figure.interval.map(|interval| {
        let (one, other) = (shown(interval.low), shown(interval.high));
        crate::figure::Interval { low: one.min(other), high: one.max(other) }
    });
    Figure { value: shown(figure.value), interval, n_repeats: figure.n_repeats }
}

/// Whether so many missed requests are no chance where the limit is kept: the upper tail of Poisson's distribution, at
/// [`FALSE_ALARM`] divided by the number of guests.
fn is_more_than_chance(repeats: &[Missed], limit: f64, guests: usize) -> bool {
    let (of, missed) = repeats.iter().fold((0, 0), |sum, repeat| (sum.0 + repeat.of, sum.1 + repeat.missed));
    let allowed = of as f64 * limit;
    if missed as f64 <= allowed {
        return false;
    }
    let Ok(poisson) = Poisson::new(allowed) else { return missed > 0 };
    poisson.sf(missed.saturating_sub(1)) < FALSE_ALARM / guests.max(1) as f64
}

/// What each of these repeats by itself says about the gate: how far its worst p99 lies from the limit, or that it missed the gate
/// otherwise.
pub(crate) fn seen(point: &Point, repeats: &[&RepeatSummary]) -> Vec<Seen> {
    let limit_ms = point.gate.p99.as_milliseconds();
    let mut alone: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in load_names(point) {
        let loads = load(repeats, name);
        alone.insert(name, judged_alone(&by_guest(&loads)));
    }
    repeats.iter().map(|repeat| seen_in(point, repeat, limit_ms, &alone)).collect()
}

/// Whether a guest missed more in this repeat than chance explains if it kept the limit, as the gate judges it over all repeats.
fn a_guest_missed(point: &Point, load: &LoadFigures) -> bool {
    let is_missed = |missed: Missed, limit: f64| is_more_than_chance(&[missed], limit, load.guests.len());
    let is_open = load.loop_kind == LoopKind::Open;
    let has_few = |guest: &GuestFigures| {
        limits_of_pages(&point.gate).into_iter().any(|(_, least, enough)| {
            least.is_some_and(|least| is_missed(not_enough(guest.quality, enough), 1.0 - least.get()))
        })
    };
    load.guests.iter().any(|guest| {
        is_missed(errors_of(guest), point.gate.errors.get())
            || (is_open && is_missed(unserved_of(guest), 1.0 - point.gate.achieved.get()))
            || has_few(guest)
    })
}

fn seen_in(point: &Point, repeat: &RepeatSummary, limit_ms: f64, alone: &BTreeMap<&str, Vec<&str>>) -> Seen {
    if failures::has_failed(repeat) {
        return Seen::Over;
    }
    let mut worst: Option<f64> = None;
    let mut is_unknown = false;
    for load in &repeat.loads {
        let missed = error_fraction(load).is_some_and(|part| part > point.gate.errors.get())
            || achieved_fraction(load).is_some_and(|part| part < point.gate.achieved.get());
        if missed || a_guest_missed(point, load) || is_worse_on_the_whole(&point.gate, load) {
            return Seen::Over;
        }
        let named = alone.get(load.name.as_str()).map_or(&[][..], Vec::as_slice);
        let guests = || load.guests.iter().filter(|guest| named.contains(&guest.name.as_str()));
        if guests().any(|guest| is_slow(&point.gate, &guest.latency_ms)) {
            return Seen::Over;
        }
        let own = guests().filter_map(|guest| of_guest(guest).own_p99());
        let whole = of_load(load).own_p99();
        is_unknown |= whole.is_none() && unproven(limit_ms, &[load]).is_some();
        worst = own.chain(whole).chain(worst).reduce(f64::max);
    }
    match worst {
        _ if is_unknown => Seen::Nothing,
        Some(p99) => Seen::Ratio((p99 / limit_ms).ln()),
        None => Seen::Within,
    }
}
