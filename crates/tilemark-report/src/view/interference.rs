//! How much roles of the tile slow each other down: one row for each role, one column for each role beside it.

use super::{Cell, Part, Row, Section, Table, View, given, measured};
use crate::number::{NARROW_SPACE, three};
use std::collections::BTreeSet;
use tilemark_record::result::{Interference, Slowdown};
use tilemark_units::counted;

const ABOUT: &str = "How many times as long a request of the role in the row takes beside the role in the column as alone, with its \
    95 % interval. 1 means no effect. In the column of its own name a role is beside a second one of its kind.";

/// The text must stay legible on it.
const FULL_COLOUR_PERCENT: f64 = 60.0;
/// A role is called faster beside another only where the whole interval is beyond this.
const LEAST_CHANGE: f64 = 0.01;
/// A slowdown from which on a cell has the full colour, unless the largest of the table is larger.
const FULL_COLOUR: f64 = 2.0;

/// The table of slowdowns, where roles were measured alone and in pairs.
pub(crate) fn interference(view: &View) -> Option<Section> {
    let found = view.report.result.interference.as_ref()?;
    let about = [Some(ABOUT.to_owned()), confirmed(view, found), certain(found), faster(found)]
        .into_iter()
        .flatten()
        .collect::<Vec<String>>();
    let parts = vec![Part::Text(about.join(" ")), Part::Table(table(view, found))];
    Some(Section { is_answer: true, ..Section::new("interference", "Who slows whom", parts) })
}

/// Which pairs were measured in more blocks than was planned for all: more of their repeats count.
fn confirmed(view: &View, found: &Interference) -> Option<String> {
    let planned = view.report.plan.points.first()?.measure.repeats;
    let has_more = |one: &&Slowdown| one.slowdown.is_some_and(|figure| figure.n_repeats > planned);
    let pairs: BTreeSet<[&str; 2]> = found
        .slowdowns
        .iter()
        .filter(has_more)
        .map(|one| [one.role.as_str().min(&one.beside), one.role.as_str().max(&one.beside)])
        .collect();
    let names: Vec<String> = pairs.iter().map(|[one, other]| format!("{one} + {other}")).collect();
    (!names.is_empty()).then(|| {
        format!("These looked slow and were measured in more blocks than the others: {}.", names.join(", "))
    })
}

/// Which ones are certain, over all ratios; older records knew single intervals only.
fn certain(found: &Interference) -> Option<String> {
    let level = 100.0 * found.level?;
    let all = counted(found.slowdowns.iter().filter(|one| one.slowdown.is_some()).count() as u64, "ratio");
    let certain = found.slowdowns.iter().filter(|one| one.is_certain());
    let certain: Vec<String> = certain.map(in_words).collect();
    let which = if certain.is_empty() { "none".to_owned() } else { certain.join(", ") };
    Some(format!(
        "Of many intervals some lie above 1 by chance. Certain, with at most a {level:.0}{NARROW_SPACE}% chance of a false \
         alarm over {all}: {which}."
    ))
}

/// Which ones are faster than alone, by an interval that lies below 1, and what is known to do that.
fn faster(found: &Interference) -> Option<String> {
    let is_faster = |one: &&Slowdown| {
        one.slowdown.is_some_and(|figure| figure.high.is_some_and(|high| high < 1.0 - LEAST_CHANGE))
    };
    let names: Vec<String> = found.slowdowns.iter().filter(is_faster).map(in_words).collect();
    (!names.is_empty()).then(|| {
        format!(
            "Below 1 a role is faster than alone: {}. A common reason: a processor that is often idle sleeps between \
             requests and wakes up slowly, and a neighbour keeps it awake.",
            names.join(", ")
        )
    })
}

fn in_words(one: &Slowdown) -> String {
    let second = if one.role == one.beside { "a second " } else { "" };
    format!("{} beside {second}{}", one.role, one.beside)
}

fn table(view: &View, found: &Interference) -> Table {
    let roles = in_order(found.slowdowns.iter().map(|one| one.role.as_str()));
    // The roles without a load, which are beside others only, come last.
    let beside = in_order(roles.iter().copied().chain(found.slowdowns.iter().map(|one| one.beside.as_str())));
    let largest = found.slowdowns.iter().map(Slowdown::value).fold(FULL_COLOUR, f64::max);
    let mut notes = Vec::new();
    let rows = roles.iter().map(|role| {
        let cell = |other: &&str| {
            let one = found.slowdowns.iter().find(|one| one.role == *role && one.beside == **other);
            one.map_or_else(|| Cell::figure(None), |one| cell(view, one, largest, &mut notes))
        };
        Row { struck: view.answer_struck(), ..Row::new(*role, beside.iter().map(cell).collect()) }
    });
    let rows = rows.collect();
    let columns =
        std::iter::once(given("Role")).chain(beside.iter().map(|name| measured((*name).to_owned())));
    Table { notes, ..Table::new(columns.collect(), rows) }
}

fn cell(view: &View, one: &Slowdown, largest: f64, notes: &mut Vec<String>) -> Cell {
    let name = format!("interference.{}.{}", one.role, one.beside);
    let mut note = |name: &str| {
        let why = view.report.result.missing.get(name)?;
        let place = notes.iter().position(|known| known == why);
        let place = place.unwrap_or_else(|| {
            notes.push(why.clone());
            notes.len() - 1
        });
        Some(place + 1)
    };
    let Some(figure) = one.slowdown else {
        let note = note(&name);
        return match one.fails {
            Some(_) => Cell { note, heat: Some(FULL_COLOUR_PERCENT as u8), ..Cell::from("fails") },
            None => Cell { note, ..Cell::figure(None) },
        };
    };
    let interval =
        figure.low.zip(figure.high).map(|(low, high)| format!("[{}, {}]", three(low), three(high)));
    let note = if interval.is_none() { note(&format!("{name}.low")) } else { None };
    let heat = FULL_COLOUR_PERCENT * ((figure.value - 1.0) / (largest - 1.0)).clamp(0.0, 1.0);
    Cell { note, heat: Some(heat as u8), ..Cell::from(three(figure.value)).beside(interval) }
}

/// Each name once, in the order of its first appearance.
fn in_order<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}
