//! What a placement cannot be on a host, named with what to do.

use super::{
    rules::usable,
    settings::{newly_reserved, no_processor_left, topology_with},
    topology::Topology,
};
use crate::{
    expect,
    plan::{Backend, GuestPlan, HostSummary, Plan, Point, Processors},
    problem::{Problem, Problems},
    scenario::{Scenario, Start, place::HugePageSize, target::Target},
};
use std::collections::{BTreeMap, BTreeSet};
use tilemark_units::{Bytes, counted, matches_glob, ranges};

/// What this host cannot do of the placement of these points, which are of one scenario or of a part of it. `largest` is the most tiles that there may be.
pub(crate) fn check_host(
    scenario: &Scenario,
    points: &[&Point],
    largest: u32,
    host: &HostSummary,
    processors: &Processors,
) -> Vec<Problem> {
    let mut problems: Vec<Problem> = scenario
        .place
        .map
        .iter()
        .filter_map(|(pattern, target)| entry_of_map(scenario, pattern, target, largest, host, processors))
        .collect();
    problems.extend(contradiction(scenario, largest));
    problems.extend(points.iter().flat_map(|point| booted_only(point)));
    if problems.is_empty() {
        // What a profile sets is not known yet: see `check_expanded`.
        let known = points.iter().filter(|point| point.host.profile.is_none());
        problems.extend(known.flat_map(|point| check_with_settings(point, host, processors)));
    }
    problems
}

/// What a host lacks for the points that name a profile, once it is read into them.
///
/// # Errors
/// All that is lacking.
pub fn check_expanded(plan: &Plan) -> Result<(), Problems> {
    let points = plan.points.iter().filter(|point| point.host.profile.is_some());
    let mut problems: Vec<Problem> =
        points.flat_map(|point| check_with_settings(point, &plan.host, &plan.processors)).collect();
    problems.dedup();
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

fn check_with_settings(point: &Point, host: &HostSummary, processors: &Processors) -> Vec<Problem> {
    let taken = no_processor_left(point, host, processors);
    let all = taken.into_iter().chain(too_much_reserved(point, host));
    all.chain(check_point(point, host)).collect()
}

/// What the nodes of a host lack for a point with its settings in force: memory or free huge pages.
pub fn check_point(point: &Point, host: &HostSummary) -> Vec<Problem> {
    let topology = topology_with(&point.host, host);
    memory_of_nodes(point, &topology).into_iter().chain(huge_pages(point, &topology)).collect()
}

/// Huge pages that a run reserves come out of the memory that its guests and everybody else have.
fn too_much_reserved(point: &Point, host: &HostSummary) -> Option<Problem> {
    let reserved = newly_reserved(point, host);
    let needed = reserved + expect::memory_of(point);
    let free = host.memory_available.saturating_sub(expect::memory_reserve(host.memory_total));
    (reserved > Bytes::default() && needed > free).then(|| {
        let message = format!(
            "{} on {} and the {} of huge pages that `host.setting` reserves need {} of memory; this host has {} available, \
             and {} of it must stay available",
            counted(point.tiles, "tile"),
            point.backend.name(),
            reserved.rounded(),
            needed.rounded(),
            host.memory_available.rounded(),
            expect::memory_reserve(host.memory_total).rounded(),
        );
        Problem::new(message, "reserve fewer huge pages, or lower `ladder.tiles` (--tiles)")
    })
}

/// The names of all guests that there may be.
fn names(scenario: &Scenario, tiles: u32) -> impl Iterator<Item = String> {
    (1..=tiles).flat_map(move |tile| {
        scenario.guest.iter().map(move |guest| format!("tile-{tile:03}-{}", guest.name))
    })
}

fn entry_of_map(
    scenario: &Scenario,
    pattern: &str,
    target: &str,
    largest: u32,
    host: &HostSummary,
    processors: &Processors,
) -> Option<Problem> {
    if !names(scenario, largest).any(|name| matches_glob(pattern, &name)) {
        let first = names(scenario, 1).next().unwrap_or_default();
        let message = format!("`place.map`: {pattern:?} is the name of no guest");
        return Some(Problem::new(message, format!("guests are called as `{first}`; `*` matches any text")));
    }
    let wrong = match Target::parse(target).ok()? {
        Target::Nodes(nodes) => nodes.iter().find_map(|node| wrong_node(*node, host, processors)),
        Target::Processors(wanted) => wanted.iter().find_map(|id| wrong_processor(*id, host, processors)),
    };
    wrong.map(|(what, remedy)| {
        Problem::new(format!("`place.map`: {pattern:?} is put on {target}: {what}"), remedy)
    })
}

fn wrong_node(id: u32, host: &HostSummary, processors: &Processors) -> Option<(String, String)> {
    let nodes = &host.topology.nodes;
    let known: Vec<u32> = nodes.iter().map(|node| node.id).collect();
    let Some(node) = nodes.iter().find(|node| node.id == id) else {
        let what = if known.is_empty() {
            "the kernel of this host shows no NUMA nodes".to_owned()
        } else {
            format!("node {id} does not exist or is offline; this host has {}", ranges(&known))
        };
        return Some((what, "name a node of this host, or processors with `cpus:`".to_owned()));
    };
    if node.threads.is_empty() {
        return Some((
            format!("node {id} has no processor online"),
            "name a node with processors".to_owned(),
        ));
    }
    let is_for_guests = |id: &u32| processors.guests.contains(id);
    (!node.threads.iter().any(is_for_guests)).then(|| {
        let what = format!("all processors of node {id} are the load's");
        (
            what,
            "name another node, or let guests share them with `host.load_processors = \"shared\"`".to_owned(),
        )
    })
}

fn wrong_processor(id: u32, host: &HostSummary, processors: &Processors) -> Option<(String, String)> {
    if processors.guests.contains(&id) {
        return None;
    }
    if host.threads.contains(&id) {
        let others = ranges(&processors.guests);
        return Some((
            format!("processor {id} is the load's"),
            format!(
                "name processors of guests, which are {others}, or let them share with `host.load_processors = \"shared\"`"
            ),
        ));
    }
    let state = if host.topology.offline.contains(&id) { "is offline" } else { "does not exist" };
    Some((
        format!("processor {id} {state}; online are {}", ranges(&host.threads)),
        format!("name processors of guests, which are {}", ranges(&processors.guests)),
    ))
}

/// A guest that two entries put in different places.
fn contradiction(scenario: &Scenario, largest: u32) -> Option<Problem> {
    if scenario.place.map.len() < 2 {
        return None;
    }
    names(scenario, largest).find_map(|name| {
        let mut targets = scenario.place.targets_of(&name);
        let (first, target) = targets.next()?;
        let (second, other) = targets.find(|(_, other)| *other != target)?;
        let message =
            format!("`place.map` puts guest `{name}` on {target} by {first:?} and on {other} by {second:?}");
        Some(Problem::new(message, "change one of the two patterns so that it does not match that guest"))
    })
}

/// Memory that is bound to a node must be there: the kernel ends guests for which it is not.
fn memory_of_nodes(point: &Point, topology: &Topology) -> Option<Problem> {
    let mut bound: BTreeMap<u32, Bytes> = BTreeMap::new();
    for guest in point.guests.iter().filter(|guest| guest.hugepages.is_none()) {
        let Some(place) = &guest.place else { continue };
        // The memory of each virtual node is bound to its node; QEMU's own is on any of them.
        for node in &place.virtual_nodes {
            *bound.entry(node.node).or_default() += node.memory;
        }
        let in_virtual_nodes: Bytes = place.virtual_nodes.iter().map(|node| node.memory).sum();
        let shared = expect::memory_of_guest(point, guest).saturating_sub(in_virtual_nodes);
        for node in &place.nodes {
            *bound.entry(*node).or_default() += Bytes::new(shared.get() / place.nodes.len() as u64);
        }
    }
    let too_much = |(id, needed): (u32, Bytes)| {
        let node = topology.nodes.iter().find(|node| node.id == id)?;
        // Nothing but huge pages comes out of a pool.
        let memory = node.memory?.saturating_sub(node.in_pools());
        (needed > usable(memory)).then_some((id, needed, memory))
    };
    let (id, needed, memory) = bound.into_iter().find_map(too_much)?;
    let message = format!(
        "{} on {} need {} of the memory of node {id}, which has {}; a tenth of it must stay for others",
        counted(point.tiles, "tile"),
        point.backend.name(),
        needed.rounded(),
        memory.rounded()
    );
    Some(Problem::new(
        message,
        "put fewer guests on it, lower `ladder.tiles` (--tiles), or lower their `memory`",
    ))
}

/// Guests whose memory no clone can have.
fn booted_only(point: &Point) -> Option<Problem> {
    let is_cloned = |guest: &&GuestPlan| {
        point.backend != Backend::Native && expect::start_of(guest, &point.measure) == Start::Clone
    };
    let problem = |guest: &GuestPlan| {
        let name = guest.name_in_tile();
        let remedy = "boot its guests with `measure.start = \"boot\"`";
        if let Some(pages) = guest.hugepages {
            let size = pages.name();
            let message = format!(
                "guest `{name}` is a clone and is to have pages of {size}: a clone copies each page of its template that it writes, \
                 and would copy {size} for every byte"
            );
            return Some(Problem::new(message, format!("{remedy}, or leave out `guest.{name}.hugepages`")));
        }
        let nodes = guest.place.as_ref().map_or(0, |place| place.virtual_nodes.len());
        (nodes > 0).then(|| {
            let message = format!(
                "guest `{name}` is wider than a NUMA node of this host and would see {nodes} of its own: a clone has the one piece of \
                 memory that its template was made with"
            );
            Problem::new(message, format!("{remedy}, or lower its `vcpus` or `memory`"))
        })
    };
    point.guests.iter().filter(is_cloned).find_map(problem)
}

/// Huge pages must be free before a guest begins.
fn huge_pages(point: &Point, topology: &Topology) -> Vec<Problem> {
    let mut needed: BTreeMap<(HugePageSize, Option<u32>), u64> = BTreeMap::new();
    for guest in &point.guests {
        let Some(size) = guest.hugepages else { continue };
        let pages = |memory: Bytes| memory.get() / size.bytes().get();
        match &guest.place {
            Some(place) if !place.virtual_nodes.is_empty() => {
                for node in &place.virtual_nodes {
                    *needed.entry((size, Some(node.node))).or_default() += pages(node.memory);
                }
            }
            Some(place) if place.nodes.len() == 1 => {
                *needed.entry((size, Some(place.nodes[0]))).or_default() += pages(guest.memory);
            }
            _ => *needed.entry((size, None)).or_default() += pages(guest.memory),
        }
    }
    let sizes: BTreeSet<HugePageSize> = needed.keys().map(|(size, _)| *size).collect();
    let all = |size: HugePageSize| {
        needed.iter().filter(move |((of, _), _)| *of == size).map(|(_, pages)| pages).sum()
    };
    let totals: Vec<((HugePageSize, Option<u32>), u64)> =
        sizes.into_iter().map(|size| ((size, None), all(size))).collect();
    let of_nodes = needed.iter().filter(|((_, node), _)| node.is_some()).map(|(key, pages)| (*key, *pages));
    let mut problems: Vec<Problem> =
        of_nodes.filter_map(|(key, pages)| too_few(point, key, pages, topology)).collect();
    if problems.is_empty() {
        problems.extend(totals.into_iter().filter_map(|(key, pages)| too_few(point, key, pages, topology)));
    }
    problems
}

fn too_few(
    point: &Point,
    (size, node): (HugePageSize, Option<u32>),
    needed: u64,
    topology: &Topology,
) -> Option<Problem> {
    let free = topology.free_huge_pages(size.bytes(), node);
    if needed <= free {
        return None;
    }
    let kib = size.bytes().get() / 1024;
    let (place, folder) = match node {
        Some(node) => (format!(" of node {node}"), format!("/sys/devices/system/node/node{node}/hugepages")),
        None => (String::new(), "/sys/kernel/mm/hugepages".to_owned()),
    };
    let message = format!(
        "{} on {} need {} of {}{place}, and {free} are free",
        counted(point.tiles, "tile"),
        point.backend.name(),
        counted(needed, "huge page"),
        size.name(),
    );
    let remedy = format!(
        "reserve {} more: raise {folder}/hugepages-{kib}kB/nr_hugepages and read it back, or lower `ladder.tiles` (--tiles)",
        needed - free
    );
    Some(Problem::new(message, remedy))
}
