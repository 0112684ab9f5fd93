//! Back-pressure: what happens when messages come in faster than they go out.
//!
//! Two measures. *Memory is short*: every connection that publishes gets `connection.blocked` and is not read from until
//! memory is free again; consumers go on. *Backlog*: a publisher whose queue has consumers that are merely behind is not
//! read from for a moment, which keeps queues short and in the processor's cache. It is a matter of scheduling only: it ends
//! after [`BACKLOG_WAIT`] in any case, and never touches a connection that consumes, whose acknowledgements are needed.

use std::time::{Duration, Instant};

use tilemark_amqp::{Method, ReplyCode, ShortStr};

use super::BrokerCore;
use crate::connection::Pause;
use crate::exception::Exception;
use crate::ids::{ConnectionId, QueueId};

/// A queue with consumers and more than this in it asks its publishers to wait: a few times what one read brings.
pub(super) const BACKLOG_BYTES: u64 = 1 << 20;
/// They go on when it is below this.
pub(super) const RELIEVED_BYTES: u64 = BACKLOG_BYTES / 2;
/// And in any case after this time.
const BACKLOG_WAIT: Duration = Duration::from_millis(5);
/// Memory of a message beyond its bytes: its place in the store.
const PLACE_BYTES: u64 = 32;
/// Memory of a message in one queue, with a consumer, or in a transaction.
const HELD_BYTES: u64 = 64;
/// Memory of a queue, a binding, an exchange or a consumer, with its name; a binding's key and arguments are counted in addition.
const DEFINITION_BYTES: u64 = 512;
/// Memory of an acknowledgement in a transaction.
pub(super) const SETTLEMENT_BYTES: u64 = 128;
const UNREAD_BYTES: usize = 8 << 20;
const SHORT_UNREAD_BYTES: usize = 128 * 1024;
/// Bytes that may wait for the disk before publishers do.
const JOURNAL_WAITING_BYTES: u64 = 32 << 20;

impl BrokerCore {
    /// Memory that peers have made the broker take, bytes. An estimate, and rather too much than too little: vectors
    /// grow by doubling.
    pub(super) fn memory_bytes(&self) -> u64 {
        let messages = self.store.held_bytes() + self.store.len() as u64 * PLACE_BYTES;
        let entries = self.store.references() * HELD_BYTES;
        let journal = self.journal.as_ref().map_or(0, crate::journal::Journal::memory_bytes);
        messages
            + entries
            + journal
            + self.assembling_bytes
            + self.transaction_bytes
            + self.outbox_bytes
            + self.definitions_bytes()
    }

    fn definitions_bytes(&self) -> u64 {
        let definitions = self.queues.len() + self.consumers.len() + self.topology.len();
        definitions as u64 * DEFINITION_BYTES + self.topology.binding_bytes()
    }

    /// Queues, exchanges, bindings and consumers may take half of the memory: nothing but their deletion frees it.
    pub(super) fn check_room_for_definition(&self) -> Result<(), Exception> {
        if self.definitions_bytes() > self.limits.memory_bytes / 2 {
            let text = "queues, exchanges, bindings and consumers take half of the broker's memory";
            return Err(Exception::new(ReplyCode::ResourceError, text));
        }
        Ok(())
    }

    /// A peer that leaves more than this unread is not listened to: answers to what it asks would take memory without end.
    #[inline]
    pub(super) const fn unread_bytes(&self) -> usize {
        if self.short_of_memory { SHORT_UNREAD_BYTES } else { UNREAD_BYTES }
    }

    /// Counts what a connection has to be sent.
    pub(super) fn count_outboxes(&mut self) {
        for id in &self.touched {
            if let Some(connection) = self.connections.get_mut(*id) {
                let counted = connection.outbox.capacity() as u64;
                self.outbox_bytes += counted;
                self.outbox_bytes -= std::mem::replace(&mut connection.counted_outbox, counted);
            }
        }
    }

    /// Notes that a publish went into a queue with a long backlog.
    #[cold]
    pub(super) fn note_backlog(&mut self, publisher: Option<ConnectionId>, queue: QueueId) {
        if let Some(id) = publisher
            && let Some(connection) = self.connections.get_mut(id)
            && connection.consumers == 0
            && connection.backlog.is_none()
        {
            connection.backlog = Some(queue);
            self.backlogged.push(id);
        }
    }

    pub(super) fn watch_memory(&mut self) {
        for id in std::mem::take(&mut self.backlogged) {
            self.hold_back(id);
        }
        self.count_outboxes();
        let used = self.memory_bytes();
        let waiting = self.journal.as_ref().map_or(0, crate::journal::Journal::waiting_bytes);
        // Ends at nine tenths, so that a broker at its limit does not block and unblock with every message.
        let limit =
            if self.short_of_memory { self.limits.memory_bytes / 10 * 9 } else { self.limits.memory_bytes };
        let is_short = used > limit || waiting > JOURNAL_WAITING_BYTES;
        if is_short != self.short_of_memory {
            self.short_of_memory = is_short;
            if is_short { self.notify_publishers_of_block() } else { self.end_shortage() }
        }
    }

    fn hold_back(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        let Some(queue_id) = connection.backlog.take() else { return };
        let Some(queue) = self.queues.get_mut(queue_id) else { return };
        if queue.ready_bytes < RELIEVED_BYTES || connection.pause.is_some() {
            return;
        }
        connection.pause = Some(Pause::Backlog(self.now + BACKLOG_WAIT));
        // It may be there from an earlier wait that ended by time.
        if !queue.held_back.contains(&id) {
            queue.held_back.push(id);
        }
        self.paused.push(id);
        self.newly_paused.push(id);
    }

    fn notify_publishers_of_block(&mut self) {
        for id in self.connections.keys() {
            if self.connections.get(id).is_some_and(|connection| connection.has_published) {
                self.notify_of_block(id);
            }
        }
    }

    pub(super) fn notify_of_block(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.capabilities.blocked && !std::mem::replace(&mut connection.is_notified_of_block, true) {
            let reason = ShortStr::cut("low on memory");
            self.notify(id, 0, &Method::ConnectionBlocked { reason });
        }
    }

    fn end_shortage(&mut self) {
        for id in self.connections.keys() {
            let Some(connection) = self.connections.get_mut(id) else { continue };
            if connection.pause == Some(Pause::Memory) {
                self.resumed.push(id);
            }
            if std::mem::take(&mut connection.is_notified_of_block) {
                self.notify(id, 0, &Method::ConnectionUnblocked {});
            }
        }
    }

    /// Connections that this turn has paused.
    pub(crate) fn take_newly_paused(&mut self) -> Vec<ConnectionId> {
        std::mem::take(&mut self.newly_paused)
    }

    /// Connections that may be read from again, each once.
    pub(crate) fn take_resumed(&mut self) -> Vec<ConnectionId> {
        let now = self.now;
        if !self.paused.is_empty() {
            let connections = &self.connections;
            let resumed = &mut self.resumed;
            self.paused.retain(|id| match connections.get(*id).and_then(|connection| connection.pause) {
                Some(Pause::Backlog(until)) if until <= now => {
                    resumed.push(*id);
                    false
                }
                Some(_) => true,
                None => false,
            });
        }
        let mut resumed = std::mem::take(&mut self.resumed);
        resumed.retain(|id| {
            self.connections.get_mut(*id).is_some_and(|connection| match connection.pause {
                // Somebody else's end of waiting does not end this one's.
                Some(Pause::Work { is_done: false }) => false,
                _ => connection.pause.take().is_some(),
            })
        });
        resumed
    }

    /// When somebody who is held back must go on at the latest.
    pub(crate) fn next_resumption(&self) -> Option<Instant> {
        let pauses = self.paused.iter().filter_map(|id| self.connections.get(*id)?.pause);
        pauses.filter_map(|pause| if let Pause::Backlog(until) = pause { Some(until) } else { None }).min()
    }
}
