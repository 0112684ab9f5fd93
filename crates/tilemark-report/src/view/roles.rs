//! Who suffers: how evenly each role is served at one step, how much slower it is than with one tile, and the guests that wait longest.

use super::{Cell, Outcome, Part, Row, Section, Table, View, given, measured, words};
use crate::number::{counted, percent, three};
use std::collections::BTreeSet;
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{Fairness, GuestResult, LoadResult, PointResult, Served};
use tilemark_units::median;

/// Guests that are named as the worst at most.
const WORST_SHOWN: usize = 10;
/// They are at most one of so many: of a few guests the table names those that there are to name.
const GUESTS_FOR_EACH: usize = 4;
/// Guests from which on some are named.
const GUESTS_MIN: usize = 16;

const ABOUT: &str = "Slowdown: each role is compared with itself at one tile. 2 means that its requests take twice as long, and 1 \
    means no effect.";

/// Every loaded role, where two tiles or more were measured.
pub(crate) fn roles(view: &View) -> Option<Section> {
    let point = point(view)?;
    let columns = vec![
        given("Role"),
        given("Guests").dispensable(3),
        measured("Jain's index").word("fairness"),
        words("Least served").unit("of mean").dispensable(1),
        words("Most served").unit("of mean").dispensable(2),
        measured("Slowdown").unit("95 % interval").short_unit("[95 %]").word("slowdown"),
    ];
    let mut notes = Vec::new();
    let rows = point.loads.iter().map(|load| {
        let cells = cells(view, point, load, &mut notes);
        Row::of(view, point, head(view, load), vec![cells])
    });
    let rows = rows.collect();
    let mut parts = vec![
        Part::Text(format!("{} {} {ABOUT}", which(view, point), of_mean_words(point))),
        Part::Table(Table { notes, ..Table::new(columns, rows) }),
    ];
    parts.extend(worst(view, point).map(Part::Text));
    Some(Section::new("roles", "Who suffers", parts))
}

/// The largest count that holds; where that is no more than one tile, the largest count that was measured.
fn point<'a>(view: &View<'a>) -> Option<&'a PointResult> {
    let result = &view.report.result;
    let is_step = |point: &&PointResult| {
        point.tiles > 1
            && point.repeats_kept > 0
            && point.side.is_none()
            && point.vary.is_empty()
            && !point.loads.is_empty()
            && !view.report.plan.host.emulates(point.backend)
    };
    let steps = || result.points.iter().filter(is_step);
    let backend = result.answer.backend.or_else(|| steps().next().map(|point| point.backend))?;
    let own = || steps().filter(|point| point.backend == backend);
    let holds = own().find(|point| Some(point.tiles) == result.answer.holds);
    holds.or_else(|| own().max_by_key(|point| point.tiles))
}

fn which(view: &View, point: &PointResult) -> String {
    let answer = &view.report.result.answer;
    let tiles = point.tiles;
    if answer.holds == Some(tiles) {
        return format!("At {tiles} tiles, the largest count that holds.");
    }
    let outcome = match Outcome::of(view, point) {
        Outcome::Breaks => ", which break",
        Outcome::Undecided => ", which are undecided",
        Outcome::Holds | Outcome::Unknown => "",
    };
    format!("At {tiles} tiles, the most that were measured{outcome}.")
}

/// What the least and the most served guest are compared by.
fn of_mean_words(point: &PointResult) -> String {
    let has = |kind: LoopKind| point.loads.iter().any(|load| load.loop_kind == kind);
    let got = match (has(LoopKind::Open), has(LoopKind::Closed)) {
        (true, false) => "the share of its demand that was answered",
        (false, _) => "the requests that it answered",
        (true, true) => {
            "the share of its demand that was answered; in a closed loop, by the requests that it answered"
        }
    };
    format!("Least and most served: each guest is compared with the average of its role, by {got}.")
}

/// The guest of the tile, and its load where that has another name.
fn head(view: &View, load: &LoadResult) -> Cell {
    let planned = view.report.plan.scenario.load.iter().find(|planned| planned.name == load.name);
    let role = planned.map_or(load.name.as_str(), |planned| planned.guest.as_str());
    Cell::from(role).beside((role != load.name).then(|| load.name.clone()))
}

fn cells(view: &View, point: &PointResult, load: &LoadResult, notes: &mut Vec<String>) -> Vec<Cell> {
    let mut missing = |figure: &str| {
        let key = format!("points.{}.loads.{}.{figure}", point.index, load.name);
        let known = view.report.result.missing.get(&key).cloned();
        let reason = known.or_else(|| match figure {
            "slowdown_vs_one_tile" => Some("no slowdown: this run did not measure 1 tile".to_owned()),
            _ => None,
        })?;
        let place = notes.iter().position(|note| *note == reason);
        Some(
            place.unwrap_or_else(|| {
                notes.push(reason);
                notes.len() - 1
            }) + 1,
        )
    };
    let jain = match &load.fairness {
        Some(fair) => format!("{:.4}", fair.jain).into(),
        None => Cell { note: missing("fairness"), ..Cell::figure(None) },
    };
    let slowdown = match load.slowdown_vs_one_tile {
        Some(figure) => Cell {
            note: figure.low.is_none().then(|| missing("slowdown_vs_one_tile.low")).flatten(),
            ..Cell::from(three(figure.value)).beside(super::rows::interval(&figure))
        },
        None => Cell { note: missing("slowdown_vs_one_tile"), ..Cell::figure(None) },
    };
    let one = |of: fn(&Fairness) -> &Served| match &load.fairness {
        None => Cell::figure(None),
        Some(fair) if super::tables::all_equal(fair) => super::tables::ALL_EQUAL.into(),
        Some(fair) => served(load, of(fair)),
    };
    vec![
        crate::number::whole(load.guests.len() as u64).into(),
        jain,
        one(|fair| &fair.least_served),
        one(|fair| &fair.most_served),
        slowdown,
    ]
}

/// A guest with its part of the mean. In a closed loop also what it was served a second; in an open one that follows what was asked of it,
/// so that the guest with the least of its demand may have the highest rate.
fn served(load: &LoadResult, served: &Served) -> Cell {
    let own = load.guests.iter().find(|guest| guest.name == served.guest);
    let own = own.filter(|_| load.loop_kind == LoopKind::Closed);
    let rate = own.map(|guest| format!(", {} per s", three(guest.throughput))).unwrap_or_default();
    Cell::from(&*served.guest).beside(Some(format!("{}{rate}", percent(served.of_mean))))
}

/// The guests whose requests take longest, each over the median of its role. Nothing where there are so few guests that the table names
/// what there is to name.
fn worst<'a>(view: &View<'a>, point: &'a PointResult) -> Option<String> {
    let guests: usize = point.loads.iter().map(|load| load.guests.len()).sum();
    if guests < GUESTS_MIN {
        return None;
    }
    let mut slow: Vec<(&str, f64)> =
        point.loads.iter().flat_map(|load| over_median(load, &died(view, point, load))).collect();
    slow.sort_by(|one, other| other.1.total_cmp(&one.1));
    slow.truncate(WORST_SHOWN.min(guests / GUESTS_FOR_EACH));
    if slow.is_empty() {
        return None;
    }
    let named = slow.iter().map(|(name, over)| match over.is_finite() {
        true => format!("{name} {}\u{d7}", three(*over)),
        false => format!("{name} was served nothing"),
    });
    let named: Vec<String> = named.collect();
    Some(format!(
        "The {} slowest of {}, compared with the median of their role: {}. Some guest is always the slowest by chance.",
        slow.len(),
        counted(guests as u64, "guest"),
        named.join(", ")
    ))
}

/// Every guest's time of a request over the median of all guests of the load: its mean latency in an open loop, the inverse of its
/// throughput in a closed one. One that died in every repeat takes for ever.
fn over_median<'a>(load: &'a LoadResult, died: &BTreeSet<&str>) -> Vec<(&'a str, f64)> {
    let time = |guest: &GuestResult| match load.loop_kind {
        _ if died.contains(&*guest.name) => Some(f64::INFINITY),
        LoopKind::Open => guest.latency_ms.mean,
        LoopKind::Closed => Some(1.0 / guest.throughput),
    };
    let Some(median) = median(load.guests.iter().filter_map(time).collect()) else { return Vec::new() };
    let over = |time: f64| if time.is_infinite() { time } else { time / median };
    let over = load.guests.iter().filter_map(|guest| Some((guest.name.as_str(), over(time(guest)?))));
    over.filter(|(_, over)| !over.is_nan()).collect()
}

/// The guests of a load of which no kept repeat has figures, because their loads ended with them.
fn died<'a>(view: &View<'a>, point: &'a PointResult, load: &LoadResult) -> BTreeSet<&'a str> {
    let (mut died, mut reported) = (BTreeSet::new(), BTreeSet::new());
    let repeats = view.kept_repeats(point).flat_map(|repeat| &repeat.loads);
    for own in repeats.filter(|own| own.name == load.name) {
        for guest in &own.guests {
            if own.has_lost(guest) {
                died.insert(&*guest.name)
            } else {
                reported.insert(&*guest.name)
            };
        }
    }
    &died - &reported
}
