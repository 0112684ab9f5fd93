//! One point of a plan: its guests, their addresses and places, and their loads.

use super::variants::Variant;
use crate::{
    emulated, expect,
    own_bridge::OwnBridge,
    place,
    plan::{Backend, Demand, DiskPlan, GuestPlan, HostSummary, LoadPlan, Point, Processors, Swell},
    scenario::{Guest, Load, LoopKind, Role, Scenario, Start},
    seed::mixed,
};
use std::time::Duration;
use tilemark_units::{Bytes, Span};

/// Where points are to be measured.
#[derive(Clone, Copy)]
pub(super) struct On<'a> {
    pub(super) host: &'a HostSummary,
    pub(super) processors: &'a Processors,
}

impl Variant {
    pub(super) fn point(&self, index: usize, tiles: u32, backend: Backend, on: On<'_>, seed: u64) -> Point {
        let (scenario, processors) = (&self.scenario, on.processors);
        let mut guests = Vec::new();
        let mut loads = Vec::new();
        let mut vcpus = 0_u32;
        for tile in 1..=tiles {
            let first = guests.len() as u32;
            for guest in &scenario.guest {
                let may_use = processors.of_guest(vcpus, guest.vcpus, backend);
                let plan = guest_plan(guest, guests.len() as u32, tile, may_use, on.host);
                guests.push(GuestPlan { working_set: self.working_set(guest, &plan, backend), ..plan });
                // Too many are refused later, with their guest's name.
                vcpus = guest.vcpus.saturating_add(vcpus);
            }
            let place_of = |name: &str| {
                let place = scenario.guest.iter().position(|guest| guest.name == name);
                first + place.expect("checked when the scenario was read") as u32
            };
            for guest in &scenario.guest {
                if let Some(asked) = guest.asks.as_deref().map(place_of) {
                    let place = place_of(&guest.name);
                    guests[place as usize].asks = Some(on.host.guest_address(asked));
                    join(&mut guests, place, asked);
                }
            }
            for load in &scenario.load {
                let plan = load_plan(load, tile, place_of(&load.guest), seed);
                loads.push(LoadPlan { from: load.sender().map(place_of), ..plan });
            }
        }
        if self.together.is_none() {
            swell(&mut loads, scenario, tiles);
        }
        connect(&mut guests, &loads);
        mark_commands(&mut guests, &loads);
        place::place(&mut guests, &scenario.place, backend, on.host, processors);
        if backend == Backend::Emulated {
            let is_chosen = |load: &LoadPlan| {
                ["rate", "loop"].iter().any(|key| self.chosen.contains(&format!("load.{}.{key}", load.name)))
            };
            emulated::lower(&mut loads, processors.guests.len(), scenario.measure.length, is_chosen);
        }
        Point {
            index,
            tiles,
            backend,
            side: self.side,
            vary: self.vary.clone(),
            together: self.together.clone(),
            screened: self.screened.clone(),
            host: self.host.clone(),
            qemu: scenario.qemu.clone(),
            gate: scenario.gate.clone(),
            measure: scenario.measure.clone(),
            guests,
            loads,
        }
    }
}

/// What an emulated guest of 256 MiB has written when it has booted and a clone of it has not, with its service and without: 99 to
/// 102 MiB of each role were measured. A smaller guest has written nearly all of its memory by then, which a clone cannot do without
/// taking what its service needs.
const WRITTEN_BY_A_BOOT: Bytes = Bytes::from_mib(100);

impl Variant {
    /// What a guest writes before the warm-up: clones do. A native twin shares no memory with anybody and has no kernel whose
    /// memory it could want.
    fn working_set(&self, guest: &Guest, planned: &GuestPlan, backend: Backend) -> Bytes {
        let is_cloned =
            backend != Backend::Native && expect::start_of(planned, &self.scenario.measure) == Start::Clone;
        if !is_cloned {
            return Bytes::default();
        }
        let usual = || WRITTEN_BY_A_BOOT.min(Bytes::new(guest.memory.get() / 5 * 2));
        let is_loaded = !self.scenario.load.is_empty();
        guest.working_set.unwrap_or_else(|| if is_loaded { usual() } else { Bytes::default() })
    }
}

impl Processors {
    /// Threads of a guest with so many processors, where the guests before it have so many together. A native twin
    /// may run on as many threads as its guest has processors, the next ones in turn; a guest's own processors
    /// are threads of the host, which the scheduler may place on any of the guests' threads.
    fn of_guest(&self, before: u32, vcpus: u32, backend: Backend) -> Vec<u32> {
        let threads = &self.guests;
        match backend {
            Backend::Native => {
                let count = (vcpus as usize).min(threads.len());
                threads.iter().cycle().skip(before as usize % threads.len()).take(count).copied().collect()
            }
            Backend::Kvm | Backend::Emulated => threads.clone(),
        }
    }
}

/// Lets guests that send a load and those that they load reach each other.
fn connect(guests: &mut [GuestPlan], loads: &[LoadPlan]) {
    for (from, to) in loads.iter().filter_map(|load| Some((load.from?, load.guest))) {
        join(guests, from, to);
    }
}

/// Marks the guests in which a command runs.
fn mark_commands(guests: &mut [GuestPlan], loads: &[LoadPlan]) {
    let commands = loads.iter().filter(|load| load.work.facts().starts_own_program());
    for guest in commands.filter_map(LoadPlan::runs_in) {
        guests[guest as usize].runs_command = true;
    }
}

/// Lets two guests reach each other.
fn join(guests: &mut [GuestPlan], one: u32, other: u32) {
    for (one, other) in [(one, other), (other, one)] {
        let reaches = &mut guests[one as usize].reaches;
        if !reaches.contains(&other) {
            reaches.push(other);
        }
    }
}

fn guest_plan(guest: &Guest, index: u32, tile: u32, processors: Vec<u32>, host: &HostSummary) -> GuestPlan {
    GuestPlan {
        name: format!("tile-{tile:03}-{}", guest.name),
        index,
        tile,
        role: guest.roles().first().copied().unwrap_or(Role::Idle),
        services: guest.service_plans(),
        broker: guest.broker,
        vcpus: guest.vcpus,
        memory: guest.memory,
        working_set: Bytes::default(),
        disks: guest.disk.iter().map(DiskPlan::from).collect(),
        net: guest.net,
        mac: host.guest_mac(index),
        address: host.guest_address(index),
        network: host.own_bridge.as_ref().map(OwnBridge::guest_network),
        processors,
        reaches: Vec::new(),
        asks: None,
        place: None,
        hugepages: guest.hugepages,
        from: guest.own_disk(),
        runs_command: false,
    }
}

/// The headline load of one tile is more for a while, where other tiles are there to feel it.
fn swell(loads: &mut [LoadPlan], scenario: &Scenario, tiles: u32) {
    let measure = &scenario.measure;
    let Some(surge) = measure.surge.filter(|surge| surge.least_tiles() <= tiles) else { return };
    let seconds = measure.surge_seconds();
    let own = loads
        .iter_mut()
        .filter(|load| load.tile == surge.tile && Some(&load.name) == scenario.headline.as_ref());
    for load in own {
        if let Demand::Open { surge: swell, .. } = &mut load.demand {
            *swell = Some(Swell {
                from: Span::new(measure.warmup.get() + Duration::from_secs(seconds.start.into())),
                length: Span::from_seconds(seconds.len() as u64),
                factor: surge.factor,
            });
        }
    }
}

fn load_plan(load: &Load, tile: u32, guest: u32, seed: u64) -> LoadPlan {
    let demand = match (load.loop_kind, load.rate) {
        _ if load.work.facts().is_flat_out() => Demand::Closed,
        (LoopKind::Open, Some(rate)) => Demand::Open {
            rate,
            arrival: load.arrival,
            burst_every: load.burst_every,
            burst_length: load.burst_length,
            surge: None,
        },
        (LoopKind::Open, None) | (LoopKind::Closed, _) => Demand::Closed,
    };
    let work = load.work.clone();
    let seed = mixed(seed, &[load.name.as_str(), &tile.to_string()]);
    LoadPlan {
        name: load.name.clone(),
        tile,
        guest,
        from: None,
        from_clients: load.is_from_clients(),
        demand,
        lowered_from: None,
        paced: false,
        connections: load.connections,
        work,
        seed,
    }
}
