//! What a point's own settings of the host change for its guests: huge pages that it reserves, processors that it takes away.

use super::topology::{FreeHugePages, HostNode, Topology};
use crate::{
    host_settings::HostSettings,
    plan::{HostSummary, Point, Processors},
    problem::Problem,
    scenario::target::Target,
};
use tilemark_units::{Bytes, ranges};

/// Keys that reserve huge pages. The sysctl is for the size that the kernel calls its default: 2 MiB, unless its command line says otherwise.
const SIZES: [(&str, Bytes); 3] = [
    ("vm.nr_hugepages", Bytes::from_mib(2)),
    ("hugepages.2MiB", Bytes::from_mib(2)),
    ("hugepages.1GiB", Bytes::from_gib(1)),
];

/// The host as it is once these settings are in force.
pub(super) fn topology_with(settings: &HostSettings, host: &HostSummary) -> Topology {
    let mut topology = host.topology.clone();
    for (key, size) in SIZES {
        // Each key is set for itself: of the host, then of a node.
        if let Some(pages) = pages_of(settings, key) {
            spread(&mut topology.nodes, size, pages);
        }
        for node in &mut topology.nodes {
            if let Some(pages) = pages_of(settings, &format!("{key}.node{}", node.id)) {
                reserve(node, size, pages);
            }
        }
    }
    topology
}

/// A value that is not a number is refused where keys are looked up.
fn pages_of(settings: &HostSettings, key: &str) -> Option<u64> {
    settings.setting.get(key)?.trim().parse().ok()
}

/// As many pages for each node with memory, and one more for the first ones: as the setting does it.
fn spread(nodes: &mut [HostNode], size: Bytes, pages: u64) {
    let has_memory = |node: &HostNode| node.memory.is_none_or(|memory| memory > Bytes::default());
    let count = nodes.iter().filter(|node| has_memory(node)).count() as u64;
    for (place, node) in (0..).zip(nodes.iter_mut().filter(|node| has_memory(node))) {
        reserve(node, size, pages / count + u64::from(place < pages % count));
    }
}

fn reserve(node: &mut HostNode, size: Bytes, pages: u64) {
    match node.huge_pages.iter_mut().find(|pool| pool.size == size) {
        Some(pool) => {
            pool.free = (pool.free + pages).saturating_sub(pool.total);
            pool.total = pages;
        }
        None => node.huge_pages.push(FreeHugePages { size, free: pages, total: pages }),
    }
}

/// Memory in huge pages that the settings of a point reserve beyond what is reserved now.
pub fn newly_reserved(point: &Point, host: &HostSummary) -> Bytes {
    let reserved = |topology: &Topology| topology.nodes.iter().map(HostNode::in_pools).sum::<Bytes>();
    reserved(&topology_with(&point.host, host)).saturating_sub(reserved(&host.topology))
}

/// Processors that a setting takes from everything of a run, with the setting as it is written.
fn taken(settings: &HostSettings, host: &HostSummary) -> Vec<(String, Vec<u32>)> {
    let of =
        |key: &str| settings.setting.get(key).map(|value| (format!("`host.setting.{key}` = {value}"), value));
    let mut all = Vec::new();
    if let Some((words, _)) = of("smt").filter(|(_, value)| matches!(value.as_str(), "off" | "0")) {
        // The first thread of a core stays.
        let others = host.topology.cores.iter().flat_map(|core| core.iter().copied().skip(1));
        all.push((words, others.collect()));
    }
    if let Some((words, value)) = of("cpuset.isolated")
        && let Ok(Target::Processors(isolated)) = Target::parse(&format!("cpus:{value}"))
    {
        all.push((words, isolated));
    }
    all
}

/// What would have no processor left: the kernel refuses to bind a thread to those that are offline or isolated.
pub(super) fn no_processor_left(
    point: &Point,
    host: &HostSummary,
    processors: &Processors,
) -> Option<Problem> {
    let of_guest = |guest: &crate::plan::GuestPlan| {
        let vcpus = guest.place.iter().flat_map(|place| place.vcpus.iter().chain([&place.emulator]));
        let sets: Vec<Vec<u32>> = vcpus.chain([&guest.processors]).cloned().collect();
        (format!("guest `{}`", guest.name), sets)
    };
    let taken = taken(&point.host, host);
    if taken.is_empty() {
        return None;
    }
    let all = std::iter::once(("the load".to_owned(), vec![processors.load.clone()]));
    all.chain(point.guests.iter().map(of_guest)).find_map(|(who, sets)| {
        let is_taken = |id: &u32| taken.iter().any(|(_, ids)| ids.contains(id));
        let lost = sets.iter().find(|set| !set.is_empty() && set.iter().all(is_taken))?;
        let words: Vec<&str> =
            taken.iter().filter(|(_, ids)| lost.iter().any(|id| ids.contains(id))).map(|(words, _)| &**words).collect();
        let message = format!(
            "{} takes away {}, and {who} has no processor but {}",
            words.join(" with "),
            ranges(taken.iter().flat_map(|(_, ids)| ids.iter())),
            ranges(lost)
        );
        let remedy = "leave the setting out, or choose other processors with `place.guests`, `place.map` or `host.load_processors`";
        Some(Problem::new(message, remedy))
    })
}
