//! Messages whose time is over. As RabbitMQ does it, only the head of a queue is looked at: a message that has less time than
//! those in front of it stays until they are gone.

use std::time::Instant;

use super::BrokerCore;
use super::pending::Reason;
use crate::ids::QueueId;
use crate::queue::NEVER;

/// Messages that are given up in one turn at most, so that nobody waits for a queue whose messages all end at once.
pub(super) const EXPIRED_PER_TURN: usize = 4096;

impl BrokerCore {
    /// Sees to it that a queue is looked at when the time of its head is over.
    #[inline]
    pub(super) fn arm(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get_mut(id) else { return };
        let due = queue.head().map_or(NEVER, |head| head.expires_ms);
        // An alarm that comes too early finds nothing, and is set again.
        if due < queue.alarm_ms {
            let old = std::mem::replace(&mut queue.alarm_ms, due);
            self.disarm(id, old);
            self.alarms.insert((due, id));
        }
    }

    pub(super) fn disarm(&mut self, id: QueueId, alarm_ms: u64) {
        if alarm_ms != NEVER {
            self.alarms.remove(&(alarm_ms, id));
        }
    }

    /// When a queue must be looked at next.
    pub(crate) fn next_alarm(&self) -> Option<Instant> {
        self.alarms.first().map(|(due, _)| self.clock.instant_of(*due))
    }

    /// Gives up what is over by now; called once in each turn, after what can be delivered was.
    pub(super) fn expire_due(&mut self) {
        let mut left = EXPIRED_PER_TURN;
        while let Some(&(due, id)) = self.alarms.first()
            && due <= self.clock.now_ms()
            && left > 0
        {
            self.alarms.pop_first();
            if let Some(queue) = self.queues.get_mut(id) {
                queue.alarm_ms = NEVER;
            }
            left = left.saturating_sub(1 + self.expire_heads(id, left));
            self.mark_dirty(id);
        }
    }

    /// Gives up the messages at the head of a queue whose time is over, at most so many, and returns how many.
    pub(super) fn expire_heads(&mut self, id: QueueId, most: usize) -> usize {
        let mut count = 0;
        while count < most
            && let Some(queue) = self.queues.get_mut(id)
            && queue.head().is_some_and(|head| head.expires_ms <= self.clock.now_ms())
            && let Some(entry) = queue.pop(|message| self.store.length(message))
        {
            self.give_up(id, entry, Reason::Expired);
            count += 1;
            self.steps += 1;
        }
        self.arm(id);
        count
    }
}
