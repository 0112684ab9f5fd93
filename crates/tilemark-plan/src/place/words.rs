//! Placement in words.

use super::guest_place::GuestPlace;
use crate::{
    plan::{GuestPlan, Plan, Point},
    scenario::place::{HugePageSize, PlaceRule, PlaceTable},
};
use std::collections::BTreeMap;
use tilemark_units::{counted, ranges};

/// Lines of a plan about the places of guests, at most.
const LINES_MAX: usize = 4;
/// Groups of guests that a line names, at most.
const GROUPS_MAX: usize = 4;

/// Where the guests of a plan are, a line for each way in which they are placed. Each is that of its largest point.
pub fn in_words(plan: &Plan) -> Vec<String> {
    let mut largest: BTreeMap<String, &Point> = BTreeMap::new();
    let is_placed = |guest: &GuestPlan| guest.place.is_some() || guest.hugepages.is_some();
    for point in plan.points.iter().filter(|point| point.guests.iter().any(is_placed)) {
        let known = largest.entry(place_of(point)).or_insert(point);
        if point.guests.len() > known.guests.len() {
            *known = point;
        }
    }
    let several = largest.len() > 1;
    let mut lines: Vec<String> = largest
        .into_iter()
        .map(|(name, point)| if several { format!("{name}: {}", of_point(point)) } else { of_point(point) })
        .collect();
    if lines.len() > LINES_MAX {
        let more = lines.len() - (LINES_MAX - 1);
        lines.truncate(LINES_MAX - 1);
        lines.push(format!("and {more} more ways, which `--json` lists"));
    }
    lines
}

/// Which of the compared points it is one of.
fn place_of(point: &Point) -> String {
    let mut words = vec![format!("on {}", point.backend.name())];
    words.extend(point.side.map(|side| format!("side {}", side.name())));
    words.extend(point.vary.iter().map(|(name, value)| format!("{name} {value}")));
    words.join(", ")
}

fn of_point(point: &Point) -> String {
    let mut groups: BTreeMap<String, Vec<&GuestPlan>> = BTreeMap::new();
    for guest in &point.guests {
        groups.entry(of_guest(guest)).or_default().push(guest);
    }
    let count = groups.len();
    let mut parts: Vec<String> = groups
        .into_iter()
        .take(GROUPS_MAX)
        .map(|(place, guests)| match guests.as_slice() {
            [one] => format!("{} {place}", one.name),
            [first, ..] => format!("{} ({}, …) {place}", counted(guests.len() as u64, "guest"), first.name),
            [] => place,
        })
        .collect();
    if count > GROUPS_MAX {
        parts.push(format!("{} more places", count - GROUPS_MAX));
    }
    parts.join("; ")
}

fn of_guest(guest: &GuestPlan) -> String {
    let pages = guest.hugepages.map(HugePageSize::name);
    let pages = pages.map(|size| format!(", in pages of {size}")).unwrap_or_default();
    match &guest.place {
        Some(place) => format!("{}{pages}", place_in_words(place)),
        None => format!("on any processor{pages}"),
    }
}

/// A guest's processors and nodes.
pub fn place_in_words(place: &GuestPlace) -> String {
    let all = place.processors();
    let word = if all.len() == 1 { "processor" } else { "processors" };
    let memory = match place.nodes.as_slice() {
        [] => "memory from anywhere".to_owned(),
        [node] => format!("memory on node {node}"),
        nodes => format!("memory on nodes {}", ranges(nodes)),
    };
    let seen = if place.virtual_nodes.is_empty() {
        String::new()
    } else {
        format!(", as {} of its own", counted(place.virtual_nodes.len() as u64, "node"))
    };
    format!("on {word} {}, {memory}{seen}", ranges(&all))
}

/// What the scenario asks for, in a word.
pub(super) fn rule_name(table: &PlaceTable) -> String {
    match (table.guests, table.map.is_empty()) {
        (PlaceRule::None, false) => "place.map".to_owned(),
        (rule, _) => rule.name().to_owned(),
    }
}
