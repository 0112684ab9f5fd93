//! Messages on their way out.

use tilemark_amqp::{DeliverMethod, put_deliver};

use super::BrokerCore;
use super::memory::RELIEVED_BYTES;
use crate::channel::Unacknowledged;
use crate::connection::{Connection, Pause, Phase};
use crate::ids::{ConnectionId, QueueId};
use crate::queue::Consumer;

/// A consumer whose peer has this much to read gets no more for now: a slow reader costs its queue's memory, which has
/// limits, and not ours without any.
const OUTBOX_BYTES: usize = 512 * 1024;
/// The same while memory is short.
const SHORT_OUTBOX_BYTES: usize = 64 * 1024;

/// Whether a consumer can take another message.
#[inline]
fn has_room(consumer: &Consumer, connection: &mut Connection, outbox_bytes: usize) -> bool {
    if consumer.prefetch != 0 && consumer.unacknowledged >= u32::from(consumer.prefetch) {
        return false;
    }
    if connection.outbox.len() >= outbox_bytes {
        connection.starved = true;
        return false;
    }
    if connection.phase != Phase::Running {
        return false;
    }
    let Some(channel) = connection.channel_mut(consumer.channel) else { return false };
    let limit = usize::from(channel.prefetch_per_channel);
    if limit != 0 && channel.held() >= limit {
        channel.passed_by = true;
        return false;
    }
    !channel.stopped && !channel.closing
}

/// Whether a queue has more to deliver after it has given others their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    Over,
    Again,
}

impl BrokerCore {
    pub(super) fn deliver_all(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        if self.limits_channels && dirty.len() > 1 {
            // Queues that share the room of a channel: who has waited longest goes first.
            dirty.sort_by_key(|queue| self.queues.get(*queue).map_or(0, |queue| queue.last_round));
        }
        let mut at = 0;
        while let Some(&queue) = dirty.get(at) {
            if self.deliver(queue) == Round::Again {
                dirty.push(queue);
            }
            at += 1;
        }
        dirty.clear();
        // Nothing gets dirty by delivering; the buffer is kept for the next turn.
        if self.dirty.is_empty() {
            self.dirty = dirty;
        }
    }

    /// Gives the messages of a queue to its consumers in turn, until the queue is empty or nobody has room. After a message
    /// to a channel whose queues share a limit, the other queues have their turn.
    fn deliver(&mut self, id: QueueId) -> Round {
        let outbox_bytes = if self.short_of_memory { SHORT_OUTBOX_BYTES } else { OUTBOX_BYTES };
        let Some(queue) = self.queues.get_mut(id) else { return Round::Over };
        queue.dirty = false;
        let mut passed_by = 0;
        let mut round = Round::Over;
        let now_ms = self.clock.now_ms();
        while passed_by < queue.consumers.len() {
            // What is over by now is given up behind this; what is over at once may still be delivered at once.
            if queue.head().is_none_or(|head| head.expires_ms < now_ms) {
                break;
            }
            if queue.next_consumer >= queue.consumers.len() {
                queue.next_consumer = 0;
            }
            let consumer_id = queue.consumers[queue.next_consumer];
            queue.next_consumer += 1;
            let Some(consumer) = self.consumers.get_mut(consumer_id) else { break };
            // The connection may be gone while its consumers still are to be removed.
            let connection = self.connections.get_mut(consumer.connection);
            let Some(connection) = connection else {
                passed_by += 1;
                continue;
            };
            if !has_room(consumer, connection, outbox_bytes) {
                passed_by += 1;
                continue;
            }
            passed_by = 0;
            let Some(entry) = queue.pop(|message| self.store.length(message)) else { break };
            let frame_max = connection.frame_max;
            let Some(channel) = connection.channel_mut(consumer.channel) else { break };
            channel.last_delivery += 1;
            let tag = channel.last_delivery;
            if channel.prefetch_per_channel != 0 {
                round = Round::Again;
            }
            if !consumer.no_ack {
                consumer.unacknowledged += 1;
                queue.unacknowledged += 1;
                let held = Unacknowledged { tag, queue: id, entry, consumer: Some(consumer_id) };
                channel.unacknowledged.push_back(held);
            }
            let parts = self.store.parts(entry.message);
            let method = DeliverMethod {
                consumer_tag: &consumer.tag,
                delivery_tag: tag,
                redelivered: entry.redelivered,
                route: parts.route,
            };
            let out = connection.outbox.buffer();
            put_deliver(out, consumer.channel, &method, parts.header, parts.body, frame_max);
            self.statistics.delivered += 1;
            if !connection.touched {
                connection.touched = true;
                self.touched.push(consumer.connection);
            }
            if consumer.no_ack {
                if entry.journaled
                    && let Some(journal) = &mut self.journal
                {
                    journal.settle(&self.store, queue.journal_id, entry.serial);
                }
                self.store.release(entry.message);
            }
            if round == Round::Again {
                self.last_round += 1;
                queue.last_round = self.last_round;
                break;
            }
        }
        // What is in front now may have less time than what was.
        let is_early = queue.head().is_some_and(|head| head.expires_ms < queue.alarm_ms);
        if queue.ready_bytes < RELIEVED_BYTES && !queue.held_back.is_empty() {
            self.resumed.append(&mut queue.held_back);
        }
        if is_early {
            self.arm(id);
        }
        round
    }

    /// A peer has read: queues that passed it by may go on.
    pub(crate) fn was_sent(&mut self, id: ConnectionId, count: usize) {
        let unread_bytes = self.unread_bytes();
        let outbox_bytes = if self.short_of_memory { SHORT_OUTBOX_BYTES } else { OUTBOX_BYTES };
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.outbox.sent(count);
        let counted = connection.outbox.capacity() as u64;
        self.outbox_bytes += counted;
        self.outbox_bytes -= std::mem::replace(&mut connection.counted_outbox, counted);
        connection.last_sent = self.now;
        if connection.pause == Some(Pause::Unread) && connection.outbox.len() < unread_bytes / 2 {
            self.resumed.push(id);
        }
        if !connection.starved || connection.outbox.len() >= outbox_bytes / 2 {
            return;
        }
        connection.starved = false;
        let consumers: Vec<_> =
            connection.channels.iter().flatten().flat_map(|found| found.consumers.clone()).collect();
        for consumer in consumers {
            if let Some(queue) = self.consumers.get(consumer).map(|consumer| consumer.queue) {
                self.mark_dirty(queue);
            }
        }
    }

    /// Whether another turn has something to deliver at once.
    pub(crate) fn has_work(&self) -> bool {
        !self.dirty.is_empty()
            || !self.resumed.is_empty()
            || !self.dying.is_empty()
            || !self.chores.is_empty()
    }
}
