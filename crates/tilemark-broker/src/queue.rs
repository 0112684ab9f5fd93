//! Queues and consumers.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::connection::ConnectionId;
use crate::slab::Key;
use crate::store::MessageId;

pub(crate) type QueueId = Key;
pub(crate) type ConsumerId = Key;

/// A message in a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its place in the order in which the broker took messages: requeued messages go back to it.
    pub(crate) serial: u64,
    pub(crate) message: MessageId,
    /// Somebody may have seen it.
    pub(crate) redelivered: bool,
    /// It stands in the journal for this queue.
    pub(crate) journaled: bool,
}

/// What a full queue does with a new message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    DropHead,
    RejectPublish,
}

/// What `queue.declare` fixes; declaring again must repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueSettings {
    pub(crate) durable: bool,
    pub(crate) exclusive: bool,
    pub(crate) auto_delete: bool,
    pub(crate) max_length: Option<u64>,
    pub(crate) max_length_bytes: Option<u64>,
    pub(crate) overflow: Overflow,
    /// It goes when nobody has used it for so long (`x-expires`).
    pub(crate) expires: Option<Duration>,
}

impl QueueSettings {
    /// Whether persistent messages in it are journaled: an exclusive queue ends with its connection and needs no journal.
    pub(crate) const fn survives_restart(&self) -> bool {
        self.durable && !self.exclusive
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
    pub(crate) ready: VecDeque<Entry>,
    /// Bytes of the messages in `ready`, with what each costs besides.
    pub(crate) ready_bytes: u64,
    pub(crate) unacknowledged: u64,
    pub(crate) consumers: Vec<ConsumerId>,
    pub(crate) next_consumer: usize,
    /// When a tick first found it without a consumer; declaring, getting and consuming start anew.
    pub(crate) unused_since: Option<Instant>,
    /// When it last delivered to a channel whose queues share a limit.
    pub(crate) last_round: u64,
    /// Queued for delivery in this turn of the loop.
    pub(crate) dirty: bool,
    /// Publishers that wait until the backlog is shorter.
    pub(crate) held_back: Vec<ConnectionId>,
}

/// Memory that a message costs besides its bytes: its entry and its place in the store.
pub(crate) const ENTRY_BYTES: u64 = 64;

impl Queue {
    pub(crate) fn new(name: Box<[u8]>, settings: QueueSettings, journal_id: u64) -> Self {
        Self {
            name,
            settings,
            owner: None,
            journal_id,
            ready: VecDeque::new(),
            ready_bytes: 0,
            unacknowledged: 0,
            consumers: Vec::new(),
            next_consumer: 0,
            unused_since: None,
            last_round: 0,
            dirty: false,
            held_back: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry, length: u32) {
        self.ready_bytes += u64::from(length) + ENTRY_BYTES;
        self.ready.push_back(entry);
    }

    #[inline]
    pub(crate) fn pop(&mut self, length: impl FnOnce(MessageId) -> u32) -> Option<Entry> {
        let entry = self.ready.pop_front()?;
        self.ready_bytes -= u64::from(length(entry.message)) + ENTRY_BYTES;
        Some(entry)
    }

    /// Puts a message back to where it stood.
    pub(crate) fn put_back(&mut self, entry: Entry, length: u32) {
        self.ready_bytes += u64::from(length) + ENTRY_BYTES;
        if self.ready.front().is_none_or(|first| entry.serial < first.serial) {
            self.ready.push_front(entry);
            return;
        }
        let at = self.ready.partition_point(|other| other.serial < entry.serial);
        self.ready.insert(at, entry);
    }

    /// Whether it holds more than its limits allow. A queue that refuses what is too much never drops what it has.
    pub(crate) fn is_over_limit(&self) -> bool {
        if self.settings.overflow == Overflow::RejectPublish {
            return false;
        }
        let payload = self.ready_bytes - self.ready.len() as u64 * ENTRY_BYTES;
        self.settings.max_length.is_some_and(|limit| self.ready.len() as u64 > limit)
            || self.settings.max_length_bytes.is_some_and(|limit| payload > limit)
    }

    /// Whether one more message of that length would be over the limits.
    pub(crate) fn would_be_over_limit(&self, length: u32) -> bool {
        let payload = self.ready_bytes - self.ready.len() as u64 * ENTRY_BYTES + u64::from(length);
        self.settings.max_length.is_some_and(|limit| self.ready.len() as u64 + 1 > limit)
            || self.settings.max_length_bytes.is_some_and(|limit| payload > limit)
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
    fn a_message_that_is_put_back_stands_where_it_stood() {
        let mut store = Store::new();
        let settings = QueueSettings {
            durable: false,
            exclusive: false,
            auto_delete: false,
            max_length: None,
            max_length_bytes: None,
            overflow: Overflow::DropHead,
            expires: None,
        };
        let mut queue = Queue::new(b"q"[..].into(), settings, 1);
        for serial in 0..6 {
            let message = store.append(Layout { route: 0, header: 0 }, &[], &[0; 10]);
            queue.push(Entry { serial, message, redelivered: false, journaled: false }, 10);
        }
        let taken: Vec<Entry> = (0..4).filter_map(|_| queue.pop(|id| store.length(id))).collect();
        for index in [2, 0, 3, 1] {
            queue.put_back(taken[index], 10);
        }
        let serials: Vec<u64> = queue.ready.iter().map(|entry| entry.serial).collect();
        assert_eq!(serials, [0, 1, 2, 3, 4, 5]);
        assert_eq!(queue.ready_bytes, 6 * (10 + ENTRY_BYTES));
    }
}
