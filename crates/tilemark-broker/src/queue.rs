//! Queues and consumers.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::time::{Duration, Instant};

use crate::exception::Name;
use crate::ids::{ConnectionId, ConsumerId, QueueId};
use crate::store::MessageId;

/// A message in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its place in the order in which the broker took messages: requeued messages go back to it.
    pub(crate) serial: u64,
    pub(crate) message: MessageId,
    /// Somebody may have seen it.
    pub(crate) redelivered: bool,
    /// The journal has it for this queue.
    pub(crate) journaled: bool,
    /// When its time is over, milliseconds since the broker started; [`NEVER`] without a time to live.
    pub(crate) expires_ms: u64,
}

/// No time to live, or no point in time.
pub(crate) const NEVER: u64 = u64::MAX;

/// A message that was requeued: the oldest is the greatest, as a heap wants it.
#[derive(Clone, Copy, Debug)]
struct Returned(Entry);

impl PartialEq for Returned {
    fn eq(&self, other: &Self) -> bool {
        self.0.serial == other.0.serial
    }
}

impl Eq for Returned {}

impl PartialOrd for Returned {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Returned {
    fn cmp(&self, other: &Self) -> Ordering {
        other.0.serial.cmp(&self.0.serial)
    }
}

/// What a full queue does with a new message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    DropHead,
    RejectPublish,
}

impl Overflow {
    /// The value of `x-overflow`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::DropHead => "drop-head",
            Self::RejectPublish => "reject-publish",
        }
    }
}

/// Where messages go that a queue gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadLetters {
    /// `x-dead-letter-exchange`
    pub(crate) exchange: Name,
    /// `x-dead-letter-routing-key`; without one a message keeps its own.
    pub(crate) routing_key: Option<Name>,
}

/// What `queue.declare` fixes; declaring again must repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    pub(crate) durable: bool,
    pub(crate) exclusive: bool,
    pub(crate) auto_delete: bool,
    pub(crate) max_length: Option<u64>,
    pub(crate) max_length_bytes: Option<u64>,
    pub(crate) overflow: Overflow,
    /// It goes when nobody has used it for so long (`x-expires`).
    pub(crate) expires: Option<Duration>,
    /// How long a message may wait in it (`x-message-ttl`), milliseconds; [`NEVER`] without a limit.
    pub(crate) message_ttl_ms: u64,
    pub(crate) dead_letters: Option<DeadLetters>,
}

impl QueueSettings {
    /// A queue that was declared without arguments.
    pub(crate) const fn plain([durable, exclusive, auto_delete]: [bool; 3]) -> Self {
        Self {
            durable,
            exclusive,
            auto_delete,
            max_length: None,
            max_length_bytes: None,
            overflow: Overflow::DropHead,
            expires: None,
            message_ttl_ms: NEVER,
            dead_letters: None,
        }
    }

    /// What a declaration asks for otherwise: `x-max-length is 5, asked for not set`.
    pub(crate) fn difference(&self, asked: &Self) -> String {
        let both = self.values().into_iter().zip(asked.values());
        let differing = both.filter(|((_, is), (_, asked))| is != asked);
        let all: Vec<String> =
            differing.map(|((name, is), (_, asked))| format!("{name} is {is}, asked for {asked}")).collect();
        all.join("; ")
    }

    /// Each setting by its name in `queue.declare`.
    fn values(&self) -> [(&'static str, SettingValue<'_>); 10] {
        use SettingValue::{Count, Flag, Milliseconds, Named, NotSet, Word};
        let ttl = Some(self.message_ttl_ms).filter(|ttl| *ttl != NEVER);
        let letters = self.dead_letters.as_ref();
        let routing_key = letters.and_then(|letters| letters.routing_key.as_ref());
        [
            ("durable", Flag(self.durable)),
            ("exclusive", Flag(self.exclusive)),
            ("auto-delete", Flag(self.auto_delete)),
            ("x-max-length", self.max_length.map_or(NotSet, Count)),
            ("x-max-length-bytes", self.max_length_bytes.map_or(NotSet, Count)),
            ("x-overflow", Word(self.overflow.name())),
            ("x-expires", self.expires.map_or(NotSet, |time| Milliseconds(time.as_millis()))),
            ("x-message-ttl", ttl.map_or(NotSet, |ttl| Milliseconds(ttl.into()))),
            ("x-dead-letter-exchange", letters.map_or(NotSet, |letters| Named(&letters.exchange))),
            ("x-dead-letter-routing-key", routing_key.map_or(NotSet, Named)),
        ]
    }

    /// Whether persistent messages in it are journaled: an exclusive queue ends with its connection and needs no journal.
    pub(crate) const fn survives_restart(&self) -> bool {
        self.durable && !self.exclusive
    }
}

/// The value of a setting: two of them are compared as values, and printed in a message.
#[derive(PartialEq, Eq)]
enum SettingValue<'a> {
    NotSet,
    Flag(bool),
    Count(u64),
    Milliseconds(u128),
    Word(&'static str),
    Named(&'a Name),
}

impl fmt::Display for SettingValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSet => f.write_str("not set"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Milliseconds(ms) => write!(f, "{ms} ms"),
            Self::Word(word) => f.write_str(word),
            Self::Named(name) => write!(f, "{name}"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Box<[u8]>,
    pub(crate) settings: QueueSettings,
    /// The connection that an exclusive queue belongs to.
    pub(crate) owner: Option<ConnectionId>,
    /// Its name in the journal, never used twice.
    pub(crate) journal_id: u64,
    /// In the order of their serials.
    ready: VecDeque<Entry>,
    /// Requeued messages, oldest first: each costs little, in whatever order they come.
    returned: BinaryHeap<Returned>,
    /// Bytes of the messages that are ready, with the overhead of each.
    pub(crate) ready_bytes: u64,
    pub(crate) unacknowledged: u64,
    pub(crate) consumers: Vec<ConsumerId>,
    pub(crate) next_consumer: usize,
    /// When a tick first found it without a consumer; declaring, getting and consuming start again.
    pub(crate) unused_since: Option<Instant>,
    /// When it last delivered to a channel whose queues share a limit.
    pub(crate) last_round: u64,
    /// Queued for delivery in this turn of the loop.
    pub(crate) dirty: bool,
    /// When it is to be looked at for messages whose time is over.
    pub(crate) alarm_ms: u64,
    /// Publishers that wait until the backlog is shorter.
    pub(crate) held_back: Vec<ConnectionId>,
}

/// Memory that a message costs beyond its bytes: its entry and its place in the store.
pub(crate) const ENTRY_BYTES: u64 = 64;

/// Entries that an empty queue keeps room for: a few turns' worth.
const KEPT_ENTRIES: usize = 64 * 1024;

impl Queue {
    pub(crate) fn new(name: Box<[u8]>, settings: QueueSettings, journal_id: u64) -> Self {
        Self {
            name,
            settings,
            owner: None,
            journal_id,
            ready: VecDeque::new(),
            returned: BinaryHeap::new(),
            ready_bytes: 0,
            unacknowledged: 0,
            consumers: Vec::new(),
            next_consumer: 0,
            unused_since: None,
            last_round: 0,
            dirty: false,
            alarm_ms: NEVER,
            held_back: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry, length: u32) {
        self.ready_bytes += u64::from(length) + ENTRY_BYTES;
        self.ready.push_back(entry);
    }

    /// Messages that are ready.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.returned.len()
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.returned.is_empty()
    }

    /// The oldest message that is ready.
    #[inline]
    pub(crate) fn head(&self) -> Option<&Entry> {
        if self.returned.is_empty() { self.ready.front() } else { self.older_head() }
    }

    fn older_head(&self) -> Option<&Entry> {
        let returned = self.returned.peek().map(|returned| &returned.0);
        match (returned, self.ready.front()) {
            (Some(returned), Some(first)) if first.serial < returned.serial => Some(first),
            (returned, first) => returned.or(first),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self, length: impl FnOnce(MessageId) -> u32) -> Option<Entry> {
        let entry =
            if self.returned.is_empty() { self.ready.pop_front()? } else { self.pop_with_returned()? };
        self.ready_bytes -= u64::from(length(entry.message)) + ENTRY_BYTES;
        Some(entry)
    }

    fn pop_with_returned(&mut self) -> Option<Entry> {
        let is_ready = self.older_head()?.serial == self.ready.front().map_or(NEVER, |first| first.serial);
        if is_ready { self.ready.pop_front() } else { self.returned.pop().map(|returned| returned.0) }
    }

    /// Puts a message back to where it was.
    pub(crate) fn put_back(&mut self, entry: Entry, length: u32) {
        self.ready_bytes += u64::from(length) + ENTRY_BYTES;
        if self.ready.front().is_none_or(|first| entry.serial < first.serial) && self.returned.is_empty() {
            self.ready.push_front(entry);
        } else {
            self.returned.push(Returned(entry));
        }
    }

    /// Takes all messages that are ready, in no order.
    pub(crate) fn take_all(&mut self) -> Vec<Entry> {
        self.ready_bytes = 0;
        let returned = std::mem::take(&mut self.returned).into_iter().map(|returned| returned.0);
        let mut all = Vec::from(std::mem::take(&mut self.ready));
        all.extend(returned);
        all
    }

    /// A long backlog leaves long buffers behind; when it is gone, so should they be.
    pub(crate) fn free_memory(&mut self) {
        if self.ready.is_empty() && self.ready.capacity() > KEPT_ENTRIES {
            self.ready.shrink_to(KEPT_ENTRIES);
        }
        if self.returned.is_empty() && self.returned.capacity() > KEPT_ENTRIES {
            self.returned.shrink_to(KEPT_ENTRIES);
        }
    }

    /// Whether it holds more than its limits allow. A queue that refuses what is too much never drops what it has.
    pub(crate) fn is_over_limit(&self) -> bool {
        if self.settings.overflow == Overflow::RejectPublish {
            return false;
        }
        let payload = self.ready_bytes - self.len() as u64 * ENTRY_BYTES;
        self.settings.max_length.is_some_and(|limit| self.len() as u64 > limit)
            || self.settings.max_length_bytes.is_some_and(|limit| payload > limit)
    }

    /// Whether one more message of that length would be over the limits.
    pub(crate) fn would_be_over_limit(&self, length: u32) -> bool {
        let payload = self.ready_bytes - self.len() as u64 * ENTRY_BYTES + u64::from(length);
        self.settings.max_length.is_some_and(|limit| self.len() as u64 + 1 > limit)
            || self.settings.max_length_bytes.is_some_and(|limit| payload > limit)
    }
}

/// A durable queue that is gone, while consumers still hold messages of it.
#[derive(Debug)]
pub(crate) struct GoneQueue {
    pub(crate) journal_id: u64,
    pub(crate) unacknowledged: u64,
}

impl GoneQueue {
    pub(crate) const fn of(queue: &Queue) -> Self {
        Self { journal_id: queue.journal_id, unacknowledged: queue.unacknowledged }
    }
}

#[derive(Debug)]
pub(crate) struct Consumer {
    pub(crate) connection: ConnectionId,
    pub(crate) channel: u16,
    pub(crate) queue: QueueId,
    pub(crate) tag: Box<[u8]>,
    pub(crate) no_ack: bool,
    pub(crate) exclusive: bool,
    /// Most messages it may hold unacknowledged; 0 is no limit.
    pub(crate) prefetch: u16,
    pub(crate) unacknowledged: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Layout, Store};

    #[test]
    fn a_requeued_message_is_at_its_former_place() {
        let mut store = Store::new();
        let settings = QueueSettings::plain([false; 3]);
        let mut queue = Queue::new(b"q"[..].into(), settings, 1);
        for serial in 0..6 {
            let message = store.append(Layout { route: 0, header: 0 }, [&[0; 10]]);
            queue
                .push(Entry { serial, message, redelivered: false, journaled: false, expires_ms: NEVER }, 10);
        }
        let taken: Vec<Entry> = (0..4).filter_map(|_| queue.pop(|id| store.length(id))).collect();
        for index in [2, 0, 3, 1] {
            queue.put_back(taken[index], 10);
        }
        assert_eq!((queue.ready_bytes, queue.len()), (6 * (10 + ENTRY_BYTES), 6));
        let serials: Vec<u64> =
            std::iter::from_fn(|| queue.pop(|id| store.length(id))).map(|entry| entry.serial).collect();
        assert_eq!(serials, [0, 1, 2, 3, 4, 5]);
        assert_eq!((queue.ready_bytes, queue.is_empty()), (0, true));
    }
}
