//! The rules: which node a guest gets, and which processors of it.

use super::{
    guest_place::{GuestPlace, VirtualNode},
    topology::{HostNode, Topology},
};
use crate::scenario::{
    place::{PlaceRule, PlaceTable, Siblings},
    target::Target,
};
use std::collections::{BTreeMap, BTreeSet};
use tilemark_units::Bytes;

/// What a guest wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) vcpus: u32,
    pub(super) memory: Bytes,
    /// Its memory is divided in multiples of this.
    pub(super) unit: Bytes,
}

/// Places one guest after the other.
pub(super) struct Placer {
    rule: PlaceRule,
    parts: Vec<Part>,
    /// How many virtual processors each processor has already.
    users: BTreeMap<u32, u32>,
    /// How many guests' virtual processors each processor has for a twin.
    of_twins: BTreeMap<u32, u32>,
}

/// A node with those of its processors that guests may use.
#[derive(Debug, Clone)]
struct Part {
    /// Its number; nothing where the host shows no nodes.
    node: Option<u32>,
    /// Its processors in the order in which they are used.
    order: Vec<u32>,
    /// The same in pairs.
    pairs: Vec<Vec<u32>>,
    /// What guests may use of its memory, where it is known.
    memory: Option<Bytes>,
    placed_vcpus: u32,
    placed_memory: Bytes,
}

/// Part of a node's memory that guests may have: the rest is the kernel's and everybody else's.
pub(super) fn usable(memory: Bytes) -> Bytes {
    Bytes::new(memory.get() / 10 * 9)
}

impl Placer {
    /// Of a host, on those processors that are the guests'.
    pub(super) fn new(topology: &Topology, guests: &[u32], table: &PlaceTable) -> Self {
        let of_guests: BTreeSet<u32> = guests.iter().copied().collect();
        let part = |node: Option<u32>, threads: &[u32], memory: Option<Bytes>| {
            let threads = threads.iter().copied().filter(|id| of_guests.contains(id)).collect();
            Part::new(node, &threads, topology, memory, table.siblings())
        };
        let parts: Vec<Part> = if topology.nodes.is_empty() {
            vec![part(None, guests, None)]
        } else {
            let node = |node: &HostNode| part(Some(node.id), &node.threads, node.memory.map(usable));
            topology.nodes.iter().map(node).filter(|part| !part.order.is_empty()).collect()
        };
        Self { rule: table.guests, parts, users: BTreeMap::new(), of_twins: BTreeMap::new() }
    }

    /// The next guest by the scenario's rule.
    pub(super) fn by_rule(&mut self, wanted: &Wanted) -> Option<GuestPlace> {
        if self.rule == PlaceRule::None || self.parts.is_empty() {
            return None;
        }
        let chosen = self.choose(wanted);
        Some(self.on(&chosen, wanted))
    }

    /// The next guest where the map wants it. Nothing where guests may use none of that.
    pub(super) fn at(&mut self, target: &Target, wanted: &Wanted) -> Option<GuestPlace> {
        match target {
            Target::Nodes(nodes) => {
                let of_map = |part: &Part| part.node.is_some_and(|node| nodes.contains(&node));
                let chosen: Vec<usize> =
                    (0..self.parts.len()).filter(|place| of_map(&self.parts[*place])).collect();
                if chosen.len() < nodes.len() {
                    return None;
                }
                let rule = std::mem::replace(&mut self.rule, PlaceRule::PerNode);
                let place = self.on(&chosen, wanted);
                self.rule = rule;
                Some(place)
            }
            Target::Processors(processors) => {
                let is_known = |id: &u32| self.parts.iter().any(|part| part.order.contains(id));
                if !processors.iter().all(is_known) {
                    return None;
                }
                let holds = |part: &&mut Part| processors.iter().any(|id| part.order.contains(id));
                let mut nodes = Vec::new();
                for part in self.parts.iter_mut().filter(holds) {
                    part.placed_vcpus += wanted.vcpus;
                    nodes.extend(part.node);
                }
                let vcpus = vec![processors.clone(); wanted.vcpus as usize];
                Some(GuestPlace { vcpus, emulator: processors.clone(), nodes, virtual_nodes: Vec::new() })
            }
        }
    }

    /// The place of a guest's twin: one processor for each virtual one, among those that it may use. It has no processors that
    /// a node could be shown in.
    pub(super) fn of_twin(&mut self, place: GuestPlace) -> GuestPlace {
        let mut own: Vec<u32> = Vec::new();
        for allowed in &place.vcpus {
            let users = |id: &u32| (own.contains(id), self.of_twins.get(id).copied().unwrap_or(0));
            if let Some(id) = allowed.iter().copied().min_by_key(users) {
                *self.of_twins.entry(id).or_default() += 1;
                own.push(id);
            }
        }
        let mut emulator = own.clone();
        emulator.sort_unstable();
        emulator.dedup();
        let vcpus = own.into_iter().map(|id| vec![id]).collect();
        GuestPlace { vcpus, emulator, nodes: place.nodes, virtual_nodes: Vec::new() }
    }

    /// The node of a guest, or as few as it needs where it is wider than each.
    fn choose(&self, wanted: &Wanted) -> Vec<usize> {
        let all = 0..self.parts.len();
        let wide_enough: Vec<usize> =
            all.clone().filter(|place| self.parts[*place].can_hold(wanted)).collect();
        if self.rule == PlaceRule::Pack
            && let Some(first) = wide_enough.iter().find(|place| self.parts[**place].has_room(wanted))
        {
            return vec![*first];
        }
        let fuller = |one: &usize, other: &usize| {
            self.parts[*one].filled(wanted).total_cmp(&self.parts[*other].filled(wanted))
        };
        if let Some(emptiest) = wide_enough.into_iter().min_by(fuller) {
            return vec![emptiest];
        }
        let mut by_room: Vec<usize> = all.collect();
        by_room.sort_by(fuller);
        let (mut processors, mut memory) = (0, Some(Bytes::default()));
        let mut chosen = Vec::new();
        for place in by_room {
            let part = &self.parts[place];
            chosen.push(place);
            processors += part.order.len();
            memory = memory.zip(part.memory).map(|(sum, more)| sum + more);
            if processors >= wanted.vcpus as usize && memory.is_none_or(|memory| memory >= wanted.memory) {
                break;
            }
        }
        chosen.sort_unstable();
        chosen
    }

    /// A guest on these nodes.
    fn on(&mut self, chosen: &[usize], wanted: &Wanted) -> GuestPlace {
        // Each node that the guest sees has a processor.
        let is_mirrored = chosen.len() > 1 && wanted.vcpus as usize >= chosen.len();
        let of_vcpus = if is_mirrored { chosen } else { &chosen[..1] };
        let sizes: Vec<u64> = of_vcpus.iter().map(|place| self.parts[*place].order.len() as u64).collect();
        let shares = shares(wanted.vcpus.into(), &sizes, 1);
        let memory = shares_of_memory(wanted, &shares);
        let mut place = GuestPlace::default();
        for ((&part, &share), memory) in of_vcpus.iter().zip(&shares).zip(memory) {
            let first_vcpu = place.vcpus.len() as u32;
            place.vcpus.extend(self.processors(part, share as u32));
            self.parts[part].placed_vcpus += share as u32;
            self.parts[part].placed_memory += memory;
            if let Some(node) = self.parts[part].node.filter(|_| is_mirrored) {
                let vcpus = share as u32;
                place.virtual_nodes.push(VirtualNode { node, first_vcpu, vcpus, memory });
            }
        }
        place.emulator = place.processors();
        place.nodes = chosen.iter().filter_map(|place| self.parts[*place].node).collect();
        place
    }

    /// The processors of so many virtual ones on a node.
    fn processors(&mut self, part: usize, vcpus: u32) -> Vec<Vec<u32>> {
        let part = &self.parts[part];
        match self.rule {
            PlaceRule::None | PlaceRule::PerNode => vec![part.order.clone(); vcpus as usize],
            PlaceRule::Spread | PlaceRule::Pack => (0..vcpus)
                .map(|_| {
                    let id = least_used(&self.users, part.order.iter().map(std::slice::from_ref));
                    *self.users.entry(id[0]).or_default() += 1;
                    id
                })
                .collect(),
            PlaceRule::Pairs => (0..vcpus.div_ceil(2))
                .flat_map(|number| {
                    let pair = least_used(&self.users, part.pairs.iter().map(Vec::as_slice));
                    *self.users.entry(pair[0]).or_default() += 1;
                    vec![pair; 2.min(vcpus - 2 * number) as usize]
                })
                .collect(),
        }
    }
}

/// The group of processors whose first one has the fewest users; the first of them.
fn least_used<'a>(users: &BTreeMap<u32, u32>, groups: impl Iterator<Item = &'a [u32]>) -> Vec<u32> {
    let of = |group: &&[u32]| users.get(&group[0]).copied().unwrap_or(0);
    groups.min_by_key(of).map(<[u32]>::to_vec).unwrap_or_default()
}

impl Part {
    fn new(
        node: Option<u32>,
        threads: &BTreeSet<u32>,
        topology: &Topology,
        memory: Option<Bytes>,
        siblings: Siblings,
    ) -> Self {
        let of_part = |core: &Vec<u32>| core.iter().copied().filter(|id| threads.contains(id)).collect();
        let mut cores: Vec<Vec<u32>> = topology.cores.iter().map(of_part).collect();
        cores.retain(|core| !core.is_empty());
        let known: BTreeSet<u32> = cores.iter().flatten().copied().collect();
        cores.extend(threads.difference(&known).map(|id| vec![*id]));
        cores.sort_unstable();
        let order = match siblings {
            Siblings::Together => cores.concat(),
            Siblings::Apart => one_of_each(&cores),
        };
        let pairs = match siblings {
            Siblings::Together => pairs_of_cores(&cores),
            Siblings::Apart => pairs_of(&order),
        };
        Self { node, order, pairs, memory, placed_vcpus: 0, placed_memory: Bytes::default() }
    }

    fn can_hold(&self, wanted: &Wanted) -> bool {
        self.order.len() >= wanted.vcpus as usize && self.memory.is_none_or(|memory| memory >= wanted.memory)
    }

    /// Whether each of its virtual processors has a processor of its own, with this guest too.
    fn has_room(&self, wanted: &Wanted) -> bool {
        (self.placed_vcpus + wanted.vcpus) as usize <= self.order.len()
            && self.memory.is_none_or(|memory| memory >= self.placed_memory + wanted.memory)
    }

    /// How full it is with this guest too: virtual processors for each processor, or memory, whichever is more.
    fn filled(&self, wanted: &Wanted) -> f64 {
        let processors = f64::from(self.placed_vcpus + wanted.vcpus) / self.order.len() as f64;
        let memory = self.memory.map_or(0.0, |memory| {
            (self.placed_memory + wanted.memory).get() as f64 / memory.get().max(1) as f64
        });
        processors.max(memory)
    }
}

/// The first thread of each core, then the second of each.
fn one_of_each(cores: &[Vec<u32>]) -> Vec<u32> {
    let most = cores.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|thread| cores.iter().filter_map(move |core| core.get(thread)).copied()).collect()
}

/// Two threads of one core, as far as cores have two; what is left over in pairs of neighbours.
fn pairs_of_cores(cores: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let whole = cores.iter().flat_map(|core| core.chunks_exact(2)).map(<[u32]>::to_vec);
    let mut pairs: Vec<Vec<u32>> = whole.collect();
    let left: Vec<u32> = cores.iter().flat_map(|core| core.chunks_exact(2).remainder()).copied().collect();
    if pairs.is_empty() || left.len() > 1 {
        pairs.extend(pairs_of(&left));
    }
    pairs
}

/// Neighbours in pairs. One that is left over is in none, unless there is no other.
fn pairs_of(order: &[u32]) -> Vec<Vec<u32>> {
    if order.len() == 1 {
        return vec![order.to_vec()];
    }
    order.chunks_exact(2).map(<[u32]>::to_vec).collect()
}

/// A whole in parts that are to each other as the sizes, each at least `least` where the whole is enough; the largest remainders are
/// rounded up.
fn shares(whole: u64, sizes: &[u64], least: u64) -> Vec<u64> {
    let sum: u128 = sizes.iter().map(|size| u128::from(*size)).sum::<u128>().max(1);
    let exact = |size: &u64| u128::from(whole) * u128::from(*size);
    let mut shares: Vec<u64> = sizes.iter().map(|size| ((exact(size) / sum) as u64).max(least)).collect();
    let mut by_remainder: Vec<usize> = (0..sizes.len()).collect();
    by_remainder.sort_by_key(|place| std::cmp::Reverse(exact(&sizes[*place]) % sum));
    let mut next = by_remainder.iter().cycle();
    while shares.iter().sum::<u64>() < whole {
        let Some(place) = next.next() else { break };
        shares[*place] += 1;
    }
    while shares.iter().sum::<u64>() > whole {
        let Some(largest) = (0..shares.len()).max_by_key(|place| shares[*place]) else { break };
        shares[largest] -= 1;
    }
    shares
}

/// A guest's memory on the nodes of its virtual processors, in whole units; what is no whole unit is with the first.
fn shares_of_memory(wanted: &Wanted, vcpus: &[u64]) -> Vec<Bytes> {
    let unit = wanted.unit.get().max(1);
    let units = wanted.memory.get() / unit;
    let mut memory: Vec<Bytes> =
        shares(units, vcpus, 0).into_iter().map(|units| Bytes::new(units * unit)).collect();
    if let Some(first) = memory.first_mut() {
        *first += Bytes::new(wanted.memory.get() % unit);
    }
    memory
}
