//! Sizes that follow from the host: who has which processors, and a ladder that fits.

use super::{point::On, variants::Variant};
use crate::{
    expect,
    host_settings::HostSettings,
    plan::{HostSummary, Processors},
    request::Request,
    scenario::{LoadProcessors, Scenario},
};
use std::collections::{BTreeMap, BTreeSet};

/// A quarter of the threads for the load, at least one; all for both where there is only one, or where
/// the scenario says that they share. Where cores have several threads, a quarter of the cores: a guest beside the load on one core
/// would slow both.
pub(super) fn split_processors(host: &HostSummary, choice: LoadProcessors) -> Processors {
    let threads = &host.threads;
    let cores = &host.topology.cores;
    match choice {
        LoadProcessors::Own if cores.len() > 1 && cores.iter().any(|core| core.len() > 1) => {
            let load: BTreeSet<u32> = cores[..(cores.len() / 4).max(1)].iter().flatten().copied().collect();
            let (load, guests) = threads.iter().copied().partition(|id| load.contains(id));
            Processors { load, guests }
        }
        LoadProcessors::Own if threads.len() > 1 => {
            let (load, guests) = threads.split_at((threads.len() / 4).max(1));
            Processors { load: load.to_vec(), guests: guests.to_vec() }
        }
        LoadProcessors::Own | LoadProcessors::Shared => {
            Processors { load: threads.clone(), guests: threads.clone() }
        }
    }
}

/// More processors of guests than this for each thread are no sizing any more. A host that holds them is
/// asked by a search.
const VCPUS_PER_THREAD_MAX: usize = 64;

/// From the scenario's smallest step in doublings for as long as the host has memory and threads for it.
pub(super) fn ladder_of_host(
    scenario: &Scenario,
    request: &Request,
    host: &HostSummary,
    processors: &Processors,
) -> Vec<u32> {
    let variant = Variant {
        scenario: scenario.clone(),
        side: None,
        vary: BTreeMap::new(),
        together: None,
        screened: None,
        host: HostSettings::default(),
        chosen: BTreeSet::new(),
    };
    let free = host.memory_available.saturating_sub(expect::memory_reserve(host.memory_total));
    let guests_max = processors.guests.len() * VCPUS_PER_THREAD_MAX;
    let fits = |tiles: u32| {
        request.backends.iter().all(|&backend| {
            let point = variant.point(0, tiles, backend, On { host, processors }, request.seed);
            let vcpus: usize = point.guests.iter().map(|guest| guest.vcpus as usize).sum();
            expect::memory_of(&point) <= free && vcpus <= guests_max
        })
    };
    let most = host.guests_max() / scenario.guest.len() as u32;
    let first = scenario.ladder.tiles[0];
    let doublings = std::iter::successors(Some(first), |tiles| Some(tiles.saturating_mul(2)));
    // One that does not fit is refused later, with its figures.
    doublings.take_while(|&tiles| tiles == first || (tiles <= most && fits(tiles))).collect()
}
