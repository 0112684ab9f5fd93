//! Which processors and which node's memory each guest has: decided here, from the scenario's `[place]` and the host's topology, before
//! anything is started.

mod check;
mod differ;
mod guest_place;
mod rules;
mod settings;
mod topology;
mod words;

pub use crate::scenario::place::{HugePageSize, PlaceRule, PlaceTable, Siblings};
pub use check::{check_expanded, check_point};
pub use guest_place::{GuestPlace, VirtualNode};
pub use settings::newly_reserved;
pub use topology::{FreeHugePages, HostNode, Topology};
pub use words::{in_words, place_in_words};

pub(crate) use check::check_host;
pub(crate) use differ::{Made, alike};

use crate::plan::{Backend, GuestPlan, HostSummary, Point, Processors};
use crate::scenario::target::Target;
use rules::{Placer, Wanted};
use std::collections::BTreeMap;
use tilemark_units::Bytes;

/// Puts the guests of a point in their places. What cannot be placed stays where it is: [`check_host`] names it.
pub(crate) fn place(
    guests: &mut [GuestPlan],
    table: &PlaceTable,
    backend: Backend,
    host: &HostSummary,
    processors: &Processors,
) {
    if backend == Backend::Native {
        // A twin has no memory of its own that could come from a pool.
        guests.iter_mut().for_each(|guest| guest.hugepages = None);
    }
    if table.is_none() {
        return;
    }
    let mut placer = Placer::new(&host.topology, &processors.guests, table);
    let targets: BTreeMap<&str, Option<Target>> =
        table.map.values().map(|target| (target.as_str(), Target::parse(target).ok())).collect();
    // One with more processors than the host is refused by its name.
    for guest in guests.iter_mut().filter(|guest| guest.vcpus as usize <= host.threads.len()) {
        let unit = guest.hugepages.map_or(Bytes::from_mib(1), HugePageSize::bytes);
        let wanted = Wanted { vcpus: guest.vcpus, memory: guest.memory, unit };
        let placed = match table.target_of(&guest.name) {
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
