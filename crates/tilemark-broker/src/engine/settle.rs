//! Acknowledging, rejecting and giving back.

use tilemark_amqp::{Method, ReplyCode};

use super::BrokerCore;
use super::memory::SETTLEMENT_BYTES;
use super::pending::{Chore, Reason};
use crate::channel::{Mode, Settlement, Unacknowledged};
use crate::exception::Exception;
use crate::ids::{ConnectionId, QueueId};
use crate::queue::{Entry, NEVER};

impl BrokerCore {
    pub(super) fn settle_method(
        &mut self,
        id: ConnectionId,
        number: u16,
        method: &Method<'_>,
    ) -> Result<(), Exception> {
        let refused = |requeue| if requeue { Settlement::Requeue } else { Settlement::Discard };
        let (tag, multiple, settlement) = match *method {
            Method::BasicAck { delivery_tag, multiple } => (delivery_tag, multiple, Settlement::Acknowledge),
            Method::BasicNack { delivery_tag, multiple, requeue } => {
                (delivery_tag, multiple, refused(requeue))
            }
            Method::BasicReject { delivery_tag, requeue } => (delivery_tag, false, refused(requeue)),
            _ => return Ok(()),
        };
        let Some(channel) = self.channel(id, number) else { return Ok(()) };
        let mut taken = Vec::new();
        if channel.take(tag, multiple, &mut taken).is_none() {
            return Err(Exception::new(ReplyCode::PreconditionFailed, format!("unknown delivery tag {tag}")));
        }
        if let Mode::Transaction(transaction) = &mut channel.mode {
            let bytes = taken.len() as u64 * SETTLEMENT_BYTES;
            transaction.bytes += bytes;
            transaction
                .settlements
                .extend(taken.into_iter().map(|unacknowledged| (unacknowledged, settlement)));
            self.transaction_bytes += bytes;
            return Ok(());
        }
        if let [only] = &taken[..] {
            self.steps += 1;
            self.settle(only, settlement);
            self.wake_channel(id, number);
        } else {
            self.start(Some(id), Chore::Settle { channel: number, left: taken, settlement, answers: false });
        }
        Ok(())
    }

    /// Ends a delivery one way or the other.
    pub(super) fn settle(&mut self, unacknowledged: &Unacknowledged, settlement: Settlement) {
        let Unacknowledged { queue: queue_id, entry, consumer, .. } = *unacknowledged;
        if let Some(consumer) = consumer.and_then(|consumer| self.consumers.get_mut(consumer)) {
            consumer.unacknowledged -= 1;
        }
        let Some(queue) = self.queues.get_mut(queue_id) else {
            self.settle_of_gone_queue(queue_id, &entry);
            return;
        };
        queue.unacknowledged -= 1;
        match settlement {
            Settlement::Requeue => {
                queue.put_back(Entry { redelivered: true, ..entry }, self.store.length(entry.message));
                if entry.expires_ms != NEVER {
                    self.arm(queue_id);
                }
                self.drop_until_within_limit(queue_id);
            }
            Settlement::Acknowledge => {
                let journal_id = queue.journal_id;
                self.end_message(journal_id, &entry);
            }
            Settlement::Discard => self.give_up(queue_id, entry, Reason::Rejected),
        }
        self.mark_dirty(queue_id);
    }

    /// The queue was deleted meanwhile, and its messages with it.
    fn settle_of_gone_queue(&mut self, queue: QueueId, entry: &Entry) {
        let Some(gone) = self.gone_queues.get_mut(&queue) else {
            self.store.release(entry.message);
            return;
        };
        gone.unacknowledged -= 1;
        let (journal_id, is_last) = (gone.journal_id, gone.unacknowledged == 0);
        if is_last {
            self.gone_queues.remove(&queue);
        }
        self.forget_message(journal_id, entry);
    }

    /// A channel has room again: all its queues may deliver.
    pub(super) fn wake_channel(&mut self, id: ConnectionId, number: u16) {
        let Some(channel) = self.channel(id, number) else { return };
        if !std::mem::take(&mut channel.passed_by) {
            return;
        }
        let consumers = channel.consumers.clone();
        self.steps += consumers.len() as u64;
        for consumer in consumers {
            if let Some(queue) = self.consumers.get(consumer).map(|consumer| consumer.queue) {
                self.mark_dirty(queue);
            }
        }
    }

    pub(super) fn recover(
        &mut self,
        id: ConnectionId,
        number: u16,
        requeue: bool,
        answers: bool,
    ) -> Result<(), Exception> {
        if !requeue {
            let text = "recover without requeue is not supported, with requeue it is";
            return Err(Exception::new(ReplyCode::NotImplemented, text));
        }
        let Some(channel) = self.channel(id, number) else { return Ok(()) };
        let left = std::mem::take(&mut channel.unacknowledged).into_vec();
        let settlement = Settlement::Requeue;
        self.start(Some(id), Chore::Settle { channel: number, left, settlement, answers });
        Ok(())
    }
}
