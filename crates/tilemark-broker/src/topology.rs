//! Exchanges, and what is bound to them: where a message goes.
//!
//! Each binding knows its place in its exchange, and each queue its bindings, so that forgetting one costs the same however
//! many there are.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use tilemark_amqp::{Table, Value};

use crate::exchange::{ExchangeKind, ExchangeSettings, Match};
use crate::ids::QueueId;
use crate::slab::{Key, Slab};
use crate::topic::Patterns;

pub(crate) type ExchangeId = Key;
pub(crate) type BindingId = Key;

/// Where a binding leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Destination {
    Queue(QueueId),
    Exchange(ExchangeId),
}

/// A binding, by all that makes it another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Binding {
    pub(crate) source: ExchangeId,
    pub(crate) destination: Destination,
    pub(crate) key: Box<[u8]>,
    /// The bytes of a table on the wire, without its length.
    pub(crate) arguments: Box<[u8]>,
}

/// A binding in the index of its exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) destination: Destination,
    pub(crate) binding: BindingId,
}

#[derive(Debug)]
struct Bound {
    binding: Arc<Binding>,
    /// Its place among the slots of its key.
    place: usize,
    matches: Match,
    /// Memory that its key and arguments take.
    bytes: u64,
}

/// Memory of a word of a topic pattern, with the map that leads on from it.
const WORD_BYTES: u64 = 256;

/// Memory of what a peer chose the length of: the key, twice where it is an index's too, the words of a pattern, and the arguments.
fn bytes_of(binding: &Binding, kind: ExchangeKind) -> u64 {
    let words = match kind {
        ExchangeKind::Topic => 1 + binding.key.iter().filter(|byte| **byte == b'.').count() as u64,
        ExchangeKind::Direct | ExchangeKind::Fanout | ExchangeKind::Headers => 0,
    };
    2 * binding.key.len() as u64 + binding.arguments.len() as u64 + words * WORD_BYTES
}

#[derive(Debug)]
enum Index {
    ByKey(HashMap<Box<[u8]>, Vec<Slot>>),
    ByPattern(Patterns),
    /// Every message is for all, or is compared with each.
    All(Vec<Slot>),
}

impl Index {
    fn slots(&self) -> Box<dyn Iterator<Item = &Slot> + '_> {
        match self {
            Self::ByKey(keys) => Box::new(keys.values().flatten()),
            Self::ByPattern(patterns) => Box::new(patterns.slots()),
            Self::All(slots) => Box::new(slots.iter()),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) name: Box<[u8]>,
    pub(crate) settings: ExchangeSettings,
    index: Index,
    /// Bindings that lead from it.
    bindings: usize,
    /// Bindings that lead to it.
    incoming: BTreeSet<BindingId>,
}

/// Headers of a message, by name once somebody has asked.
enum MessageHeaders<'a> {
    Unread(Table<'a>),
    Read(BTreeMap<&'a [u8], Value<'a>>),
}

impl<'a> MessageHeaders<'a> {
    fn read(&mut self) -> &BTreeMap<&'a [u8], Value<'a>> {
        if let Self::Unread(table) = self {
            *self = Self::Read(table.entries().collect());
        }
        match self {
            Self::Read(headers) => headers,
            Self::Unread(_) => unreachable!("read above"),
        }
    }
}

/// What routing has found out in addition to the queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Routing {
    /// Headers were asked for: another message with the same key may go elsewhere.
    pub(crate) by_headers: bool,
    /// Bindings and patterns that were looked at.
    pub(crate) looked_at: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Topology {
    names: HashMap<Box<[u8]>, ExchangeId>,
    exchanges: Slab<Exchange>,
    bindings: Slab<Bound>,
    bound: HashMap<Arc<Binding>, BindingId>,
    /// By the queue that they lead to.
    of_queues: HashMap<QueueId, BTreeSet<BindingId>>,
    /// Memory that keys and arguments of bindings take.
    binding_bytes: u64,
}

impl Topology {
    pub(crate) fn declare(&mut self, name: &[u8], settings: ExchangeSettings) -> ExchangeId {
        let index = match settings.kind {
            ExchangeKind::Direct => Index::ByKey(HashMap::new()),
            ExchangeKind::Topic => Index::ByPattern(Patterns::new()),
            ExchangeKind::Fanout | ExchangeKind::Headers => Index::All(Vec::new()),
        };
        let exchange =
            Exchange { name: name.into(), settings, index, bindings: 0, incoming: BTreeSet::new() };
        let id = self.exchanges.insert(exchange);
        self.names.insert(name.into(), id);
        id
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<ExchangeId> {
        self.names.get(name).copied()
    }

    pub(crate) fn get(&self, id: ExchangeId) -> Option<&Exchange> {
        self.exchanges.get(id)
    }

    pub(crate) fn named(&self, name: &[u8]) -> Option<&Exchange> {
        self.exchanges.get(self.find(name)?)
    }

    pub(crate) fn exchanges(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges.iter().map(|(_, exchange)| exchange)
    }

    pub(crate) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.bindings.iter().map(|(_, bound)| &*bound.binding)
    }

    /// Exchanges and bindings.
    pub(crate) fn len(&self) -> usize {
        self.exchanges.len() + self.bindings.len()
    }

    /// Memory that the keys and arguments of bindings take, an estimate in bytes.
    pub(crate) const fn binding_bytes(&self) -> u64 {
        self.binding_bytes
    }

    /// Whether nothing is bound to an exchange.
    pub(crate) fn is_unused(&self, id: ExchangeId) -> bool {
        self.exchanges.get(id).is_none_or(|exchange| exchange.bindings == 0)
    }

    /// Binds; false when there is such a binding already, or its exchange is gone.
    pub(crate) fn bind(&mut self, binding: Binding) -> bool {
        if self.bound.contains_key(&binding) {
            return false;
        }
        let Some(exchange) = self.exchanges.get_mut(binding.source) else { return false };
        exchange.bindings += 1;
        let bytes = bytes_of(&binding, exchange.settings.kind);
        self.binding_bytes += bytes;
        let slots = match &mut exchange.index {
            Index::ByKey(keys) => keys.entry(binding.key.clone()).or_default(),
            Index::ByPattern(patterns) => patterns.add(&binding.key),
            Index::All(slots) => slots,
        };
        let binding = Arc::new(binding);
        let destination = binding.destination;
        let matches = Match::of(Table::checked(&binding.arguments).unwrap_or_default());
        let bound = Bound { binding: Arc::clone(&binding), place: slots.len(), matches, bytes };
        let id = self.bindings.insert(bound);
        slots.push(Slot { destination, binding: id });
        self.bound.insert(binding, id);
        match destination {
            Destination::Queue(queue) => drop(self.of_queues.entry(queue).or_default().insert(id)),
            Destination::Exchange(other) => {
                if let Some(other) = self.exchanges.get_mut(other) {
                    other.incoming.insert(id);
                }
            }
        }
        true
    }

    /// Unbinds; false when there is no such binding.
    pub(crate) fn unbind(&mut self, binding: &Binding) -> bool {
        let Some(&id) = self.bound.get(binding) else { return false };
        self.remove_binding(id).is_some()
    }

    /// Takes a binding away and returns its exchange.
    fn remove_binding(&mut self, id: BindingId) -> Option<ExchangeId> {
        let Bound { binding, place, bytes, .. } = self.bindings.remove(id)?;
        self.binding_bytes -= bytes;
        self.bound.remove(&binding);
        match binding.destination {
            Destination::Queue(queue) => {
                if let Some(of_queue) = self.of_queues.get_mut(&queue) {
                    of_queue.remove(&id);
                    if of_queue.is_empty() {
                        self.of_queues.remove(&queue);
                    }
                }
            }
            Destination::Exchange(other) => {
                if let Some(other) = self.exchanges.get_mut(other) {
                    other.incoming.remove(&id);
                }
            }
        }
        self.leave_index(&binding, place);
        Some(binding.source)
    }

    /// Takes a binding out of its exchange; the last one of its key takes its place.
    fn leave_index(&mut self, binding: &Binding, place: usize) {
        let Some(exchange) = self.exchanges.get_mut(binding.source) else { return };
        exchange.bindings -= 1;
        let slots = match &mut exchange.index {
            Index::ByKey(keys) => keys.get_mut(&binding.key),
            Index::ByPattern(patterns) => patterns.find(&binding.key),
            Index::All(slots) => Some(slots),
        };
        let Some(slots) = slots else { return };
        slots.swap_remove(place);
        let is_empty = slots.is_empty();
        if let Some(moved) = slots.get(place)
            && let Some(moved) = self.bindings.get_mut(moved.binding)
        {
            moved.place = place;
        }
        match &mut exchange.index {
            Index::ByKey(keys) if is_empty => drop(keys.remove(&binding.key)),
            Index::ByPattern(patterns) if is_empty => patterns.prune(&binding.key),
            _ => {}
        }
    }

    /// How many bindings lead to a queue.
    pub(crate) fn count_of_queue(&self, queue: QueueId) -> usize {
        self.of_queues.get(&queue).map_or(0, BTreeSet::len)
    }

    /// Takes a binding of a queue away and adds its exchange to `sources`; false when there is none.
    pub(crate) fn forget_one_of_queue(&mut self, queue: QueueId, sources: &mut Vec<ExchangeId>) -> bool {
        let Some(binding) = self.of_queues.get(&queue).and_then(|of_queue| of_queue.first().copied()) else {
            return false;
        };
        let source = self.remove_binding(binding);
        if sources.last() != source.as_ref() {
            sources.extend(source);
        }
        true
    }

    /// Removes an exchange: nobody finds it any more. Returns it with the bindings from and to it, which
    /// [`Topology::forget`] takes away.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<(Exchange, Vec<BindingId>)> {
        let id = self.names.remove(name)?;
        let exchange = self.exchanges.remove(id)?;
        let from = exchange.index.slots().map(|slot| slot.binding);
        let all = from.chain(exchange.incoming.iter().copied()).collect();
        Some((exchange, all))
    }

    /// Takes a binding away, if it is still there, and returns its exchange.
    pub(crate) fn forget(&mut self, id: BindingId) -> Option<ExchangeId> {
        self.remove_binding(id)
    }

    /// Adds the queues that a message goes to from an exchange, each once.
    pub(crate) fn route(
        &self,
        start: ExchangeId,
        key: &[u8],
        headers: Table<'_>,
        targets: &mut Vec<QueueId>,
    ) -> Routing {
        let mut routing = Routing::default();
        let mut exchanges = vec![start];
        // Cycles of exchanges are allowed: each is asked once.
        let mut seen: HashSet<ExchangeId> = HashSet::new();
        let mut headers = MessageHeaders::Unread(headers);
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(&id) = exchanges.get(at) {
            at += 1;
            let Some(exchange) = self.exchanges.get(id) else { continue };
            routing.looked_at += 1;
            let mut leads_nowhere = true;
            self.route_in(exchange, key, &mut headers, &mut routing, |destination| {
                leads_nowhere = false;
                match destination {
                    Destination::Queue(queue) => targets.push(queue),
                    Destination::Exchange(other) => found.push(other),
                }
            });
            if leads_nowhere {
                let alternate = exchange.settings.alternate.as_ref();
                found.extend(alternate.and_then(|name| self.find(&name.0)));
            }
            if !found.is_empty() {
                seen.insert(id);
                exchanges.extend(found.drain(..).filter(|other| seen.insert(*other)));
            }
        }
        if targets.len() > 1 {
            targets.sort_unstable();
            targets.dedup();
        }
        routing
    }

    fn route_in(
        &self,
        exchange: &Exchange,
        key: &[u8],
        headers: &mut MessageHeaders<'_>,
        routing: &mut Routing,
        mut to: impl FnMut(Destination),
    ) {
        match &exchange.index {
            Index::ByKey(keys) => {
                let slots = keys.get(key).map_or(&[][..], |slots| &slots[..]);
                slots.iter().for_each(|slot| to(slot.destination));
            }
            Index::ByPattern(patterns) => {
                routing.looked_at += patterns.matching(key, |slot| to(slot.destination));
            }
            Index::All(slots) if exchange.settings.kind == ExchangeKind::Headers => {
                routing.by_headers = true;
                let headers = headers.read();
                for slot in slots {
                    let Some(bound) = self.bindings.get(slot.binding) else { continue };
                    let wanted = Table::checked(&bound.binding.arguments).unwrap_or_default();
                    if bound.matches.fits(wanted, headers, &mut routing.looked_at) {
                        to(slot.destination);
                    }
                }
            }
            Index::All(slots) => slots.iter().for_each(|slot| to(slot.destination)),
        }
    }
}
