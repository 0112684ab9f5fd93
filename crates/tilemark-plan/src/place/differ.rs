//! Sides and values that differ in placement only must place some guest differently on this host.

use super::{
    guest_place::{GuestPlace, VirtualNode},
    words::rule_name,
};
use crate::{
    plan::{GuestPlan, HostSummary, Point},
    problem::Problem,
    scenario::{
        Scenario,
        place::{HugePageSize, PlaceTable},
    },
};
use std::collections::BTreeMap;
use tilemark_units::counted;

/// A scenario at one value of what varies, on one side, with the points that were made of it.
pub(crate) struct Made<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) points: Vec<&'a Point>,
}

/// A problem where two scenarios differ in nothing but placement and have their guests in the same places: figures would be compared
/// with themselves.
pub(crate) fn alike(made: &[Made<'_>], host: &HostSummary) -> Option<Problem> {
    let mut groups: BTreeMap<String, Vec<&Made<'_>>> = BTreeMap::new();
    for one in made {
        groups.entry(without_placement(one.scenario)).or_default().push(one);
    }
    for group in groups.values() {
        for (place, one) in group.iter().enumerate() {
            let same = |other: &&&Made<'_>| {
                one.scenario != other.scenario && are_in_same_places(&one.points, &other.points, host)
            };
            if let Some(other) = group[place + 1..].iter().find(same) {
                return Some(nothing_to_compare(one.scenario, other.scenario, host));
            }
        }
    }
    None
}

/// All that a scenario says without its placement.
fn without_placement(scenario: &Scenario) -> String {
    let mut rest = Scenario { place: PlaceTable::default(), ..scenario.clone() };
    rest.guest.iter_mut().for_each(|guest| guest.hugepages = None);
    serde_json::to_string(&rest).unwrap_or_default()
}

fn are_in_same_places(one: &[&Point], other: &[&Point], host: &HostSummary) -> bool {
    let guests = |points: &[&Point]| points.iter().map(|point| point.guests.len()).collect::<Vec<_>>();
    let all = |points: &[&Point]| points.iter().flat_map(|point| point.guests.clone()).collect::<Vec<_>>();
    let (first, second) = (all(one), all(other));
    guests(one) == guests(other)
        && first.iter().zip(&second).all(|(one, other)| Effect::of(one, host) == Effect::of(other, host))
}

/// What of a guest's place makes a difference.
#[derive(PartialEq)]
struct Effect<'a> {
    /// Of each virtual processor, or of all where they are the same.
    processors: Vec<&'a [u32]>,
    nodes: &'a [u32],
    virtual_nodes: &'a [VirtualNode],
    pages: Option<HugePageSize>,
}

impl<'a> Effect<'a> {
    fn of(guest: &'a GuestPlan, host: &HostSummary) -> Self {
        let of = |place: &'a GuestPlace| place.vcpus.iter().map(Vec::as_slice).collect();
        let mut processors: Vec<&[u32]> = guest.place.as_ref().map_or_else(|| vec![&*guest.processors], of);
        processors.dedup();
        // The only node is no choice.
        let chosen = guest.place.as_ref().filter(|_| host.topology.nodes.len() > 1);
        Self {
            processors,
            nodes: chosen.map_or(&[], |place| &place.nodes),
            virtual_nodes: chosen.map_or(&[], |place| &place.virtual_nodes),
            pages: guest.hugepages,
        }
    }
}

fn nothing_to_compare(one: &Scenario, other: &Scenario, host: &HostSummary) -> Problem {
    let name = |scenario: &Scenario| rule_name(&scenario.place);
    let nodes = host.topology.nodes.len().max(1) as u64;
    let message = format!(
        "`{}` and `{}` put every guest in the same place on this host with {} and {}: there is nothing to compare",
        name(one),
        name(other),
        counted(nodes, "NUMA node"),
        counted(host.threads.len() as u64, "thread"),
    );
    let remedy = "compare places that differ here (`tilemark plan` prints them), or measure on a host with more nodes or processors";
    Problem::new(message, remedy)
}
