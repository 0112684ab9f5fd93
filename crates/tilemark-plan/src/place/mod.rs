//! Which processors and which node's memory each guest has: decided here, from the scenario's wishes and the host's topology, before
//! anything is started.

mod check;
mod differ;
mod rules;
mod settings;
mod target;
mod topology;
mod wishes;
mod words;

pub use check::{check_expanded, check_point};
pub use settings::newly_reserved;
pub use topology::{FreeHugePages, HostNode, Topology};
pub use wishes::{HugePageSize, PlaceRule, PlaceWishes, Siblings};
pub use words::{in_words, place_in_words, ranges};

pub(crate) use check::{check_host, check_wishes};
pub(crate) use differ::{Made, alike};

use crate::JsonSchema;
use crate::plan::{Backend, GuestPlan, HostSummary, Point, Processors};
use rules::{Placer, Wanted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use target::Target;
use tilemark_units::Bytes;

/// Where a guest is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestPlace {
    /// Host threads that each of its virtual processors may use, in their order. Of a native twin: one thread for each.
    pub vcpus: Vec<Vec<u32>>,
    /// Host threads for all else of it: QEMU's main loop and what does its input and output.
    pub emulator: Vec<u32>,
    /// NUMA nodes that its memory comes from. Empty: from any, as the kernel chooses.
    pub nodes: Vec<u32>,
    /// The NUMA nodes that it sees itself, each the mirror of a real one. Empty: one, which is not bound to a part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_nodes: Vec<VirtualNode>,
}

/// A NUMA node of a guest, with the same processors and memory as a part of a real one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualNode {
    /// The real node.
    pub node: u32,
    /// The guest's first virtual processor in it.
    pub first_vcpu: u32,
    /// How many of them are in it.
    pub vcpus: u32,
    /// Its memory.
    pub memory: Bytes,
}

impl GuestPlace {
    /// All host threads that something of the guest may use, sorted.
    pub fn processors(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.vcpus.iter().flatten().chain(&self.emulator).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Puts the guests of a point in their places. What cannot be placed stays where it is: [`check_host`] names it.
pub(crate) fn place(
    guests: &mut [GuestPlan],
    wishes: &PlaceWishes,
    backend: Backend,
    host: &HostSummary,
    processors: &Processors,
) {
    if backend == Backend::Native {
        // A twin has no memory of its own that could come from a pool.
        guests.iter_mut().for_each(|guest| guest.hugepages = None);
    }
    if wishes.is_none() {
        return;
    }
    let mut placer = Placer::new(&host.topology, &processors.guests, wishes);
    let targets: BTreeMap<&str, Option<Target>> =
        wishes.map.values().map(|target| (target.as_str(), Target::parse(target).ok())).collect();
    // One with more processors than the host is refused by its name.
    for guest in guests.iter_mut().filter(|guest| guest.vcpus as usize <= host.threads.len()) {
        let unit = guest.hugepages.map_or(Bytes::from_mib(1), HugePageSize::bytes);
        let wanted = Wanted { vcpus: guest.vcpus, memory: guest.memory, unit };
        let placed = match wishes.target_of(&guest.name) {
            Some(target) => targets[target].as_ref().and_then(|target| placer.at(target, &wanted)),
            None => placer.by_rule(&wanted),
        };
        guest.place = placed.map(|place| match backend {
            Backend::Native => placer.of_twin(place),
            Backend::Kvm | Backend::Emulated => place,
        });
        if let Some(place) = &guest.place {
            guest.processors = place.processors();
        }
    }
}

/// Whether any guest of these points is put in a place.
pub fn is_placed(points: &[Point]) -> bool {
    points.iter().flat_map(|point| &point.guests).any(|guest| guest.place.is_some())
}
