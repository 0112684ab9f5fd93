//! What the points of a plan need that the host, or the plan itself, does not have.

use super::point::On;
use crate::{
    expect,
    place::{self, Made},
    plan::{GuestPlan, HostSummary, Point},
    problem::Problem,
    request::Request,
    scenario::Scenario,
};
use std::collections::BTreeSet;
use tilemark_units::{Bytes, counted};

/// A surge that none of a variant's points has.
pub(super) fn swells_nothing(
    scenario: &Scenario,
    points: &[Point],
    request: &Request,
    host: &HostSummary,
) -> Option<Problem> {
    let surge = scenario.measure.surge?;
    let (tile, least) = (surge.tile, surge.least_tiles());
    let leave_out = "leave out `measure.surge`";
    if request.interference {
        let message = "roles are measured in pairs, without a surge, and this scenario has one";
        return Some(Problem::new(message, format!("{leave_out} in a copy of the scenario")));
    }
    if request.search {
        let limit = search_limit(scenario, host);
        let message = format!(
            "the surge of tile {tile} is in none of the counts: the search ends at {}",
            counted(limit, "tile")
        );
        let remedy = format!("raise `ladder.search_limit` to {least} or more, or {leave_out}");
        return (limit < least).then(|| Problem::new(message, remedy));
    }
    if points.is_empty() || points.iter().any(Point::has_surge) {
        return None;
    }
    let counts: BTreeSet<u32> = points.iter().map(|point| point.tiles).collect();
    let most = counts.last().copied().unwrap_or(0);
    let message =
        format!("the surge of tile {tile} is in none of the points: they have {}", counted(most, "tile"));
    Some(Problem::new(message, format!("give `--tiles {least}`, or more of them, or {leave_out}")))
}

/// The count at which a search stops.
pub(super) fn search_limit(scenario: &Scenario, host: &HostSummary) -> u32 {
    scenario.ladder.search_limit.min(host.guests_max() / scenario.guest.len() as u32)
}

pub(super) fn unfit(points: &[Point], host: &HostSummary, request: &Request) -> Vec<Problem> {
    let mut problems = Vec::new();
    let reserve = expect::memory_reserve(host.memory_total);
    let free = host.memory_available.saturating_sub(reserve);
    for point in points {
        let needed = expect::memory_of(point);
        if needed > free {
            let message = format!(
                "{} on {} need {} of memory; this host has {} available, and {} of it must stay available",
                counted(point.tiles, "tile"),
                point.backend.name(),
                needed.rounded(),
                host.memory_available.rounded(),
                reserve.rounded(),
            );
            problems.push(Problem::new(message, memory_remedy(points, free)));
        }
        // A twin may use less than it is allowed; no host can keep a promise of more than it has.
        if let Some(guest) = point.guests.iter().find(|guest| guest.memory > host.memory_total) {
            let message = format!(
                "guest `{}` has {} of memory and this host has {}",
                guest.name,
                guest.memory.rounded(),
                host.memory_total.rounded()
            );
            let own = guest.name_in_tile();
            problems.push(Problem::new(
                message,
                format!("lower its `memory`, as with `--set guest.{own}.memory=1GiB`"),
            ));
        }
        let threads = host.threads.len();
        if let Some(guest) = point.guests.iter().find(|guest| guest.vcpus as usize > threads) {
            let GuestPlan { name, vcpus, .. } = guest;
            let message =
                format!("guest `{name}` has {vcpus} processors and this host has {threads} threads");
            let own = guest.name_in_tile();
            let remedy = format!("lower its `vcpus`, as with `--set guest.{own}.vcpus={threads}`");
            problems.push(Problem::new(message, remedy));
        }
    }
    problems.extend(too_few_addresses(points, host));
    problems.dedup();
    if request.search && points.iter().any(|point| !point.vary.is_empty()) {
        let remedy = "leave out `vary` in a copy of the scenario, or use `run`";
        problems.push(Problem::new("a search has one answer, and this scenario varies something", remedy));
    }
    if request.backends.is_empty() {
        problems
            .push(Problem::new("no backend was chosen", "say `--on native`, `--on emulated` or `--on kvm`"));
    }
    problems
}

/// Names the steps whose points all fit, where there are some.
fn memory_remedy(points: &[Point], free: Bytes) -> String {
    let fits = |tiles: u32| {
        points.iter().filter(|point| point.tiles == tiles).all(|point| expect::memory_of(point) <= free)
    };
    let fitting: BTreeSet<u32> =
        points.iter().map(|point| point.tiles).filter(|tiles| fits(*tiles)).collect();
    let steps: Vec<String> = fitting.iter().map(u32::to_string).collect();
    // Tiles are alike.
    let most = points
        .iter()
        .map(|point| free.get().saturating_mul(point.tiles.into()) / expect::memory_of(point).get().max(1))
        .min();
    match steps.as_slice() {
        [] => match most.unwrap_or(0) {
            0 => "lower the guests' `memory`".to_owned(),
            most => format!("give `--tiles {most}`, or lower the guests' `memory`"),
        },
        steps => {
            format!("give `--tiles {}`: these steps fit; or lower the guests' `memory`", steps.join(","))
        }
    }
}

/// A range of the user's own bridge that is too small for the largest step.
fn too_few_addresses(points: &[Point], host: &HostSummary) -> Option<Problem> {
    let own = host.own_bridge.as_ref()?;
    let largest = points.iter().max_by_key(|point| point.guests.len())?;
    let (guests, addresses) = (largest.guests.len() as u64, u64::from(own.guests_max()) + 1);
    if guests < addresses {
        return None;
    }
    let message = format!(
        "{} need {} addresses, one for each guest and one for the run itself, and `network.addresses` has {addresses}: {}-{}",
        counted(largest.tiles, "tile"),
        guests + 1,
        own.first,
        own.last
    );
    let remedy = "give a longer range in the site file, or measure fewer tiles (`--tiles`)";
    Some(Problem::new(message, remedy))
}

/// What of the wanted placement this host cannot do, and sides that would be placed alike. `whole` is the scenario that parts were made
/// of: an entry of the map may be for a guest that a part does not have.
pub(super) fn unplaced(
    made: &[Made<'_>],
    whole: Option<&Scenario>,
    request: &Request,
    on: On<'_>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    let most_tiles = |made: &[Made<'_>]| {
        made.iter().flat_map(|made| &made.points).map(|point| point.tiles).max().unwrap_or(0)
    };
    for one in made {
        let scenario = whole.unwrap_or(one.scenario);
        let planned = most_tiles(if whole.is_some() { made } else { std::slice::from_ref(one) });
        let largest = if request.search { scenario.ladder.search_limit } else { planned };
        let largest = largest.min(on.host.guests_max() / scenario.guest.len().max(1) as u32);
        problems.extend(place::check_host(scenario, &one.points, largest, on.host, on.processors));
    }
    if problems.is_empty() {
        problems.extend(place::alike(made, on.host));
    }
    problems.dedup();
    problems
}
