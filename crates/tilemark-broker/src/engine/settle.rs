//! Acknowledging, rejecting and giving back.

use tilemark_amqp::{Method, ReplyCode};

use super::Engine;
use crate::channel::{Mode, Settlement, Unacknowledged};
use crate::connection::ConnectionId;
use crate::exception::Exception;

impl Engine {
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
            transaction
                .settlements
                .extend(taken.into_iter().map(|unacknowledged| (unacknowledged, settlement)));
            return Ok(());
        }
        for unacknowledged in taken.iter().rev() {
            self.settle(unacknowledged, settlement);
        }
        self.wake_channel(id, number);
        Ok(())
    }

    /// Ends a delivery one way or the other.
    pub(super) fn settle(&mut self, unacknowledged: &Unacknowledged, settlement: Settlement) {
        let Unacknowledged { queue: queue_id, entry, consumer, .. } = *unacknowledged;
        if let Some(consumer) = consumer.and_then(|consumer| self.consumers.get_mut(consumer)) {
            consumer.unacknowledged -= 1;
        }
        let Some(queue) = self.queues.get_mut(queue_id) else {
            // The queue was deleted meanwhile, and its messages with it.
            self.store.release(entry.message);
            return;
        };
        queue.unacknowledged -= 1;
        if settlement == Settlement::Requeue {
            queue.put_back(
                crate::queue::Entry { redelivered: true, ..entry },
                self.store.length(entry.message),
            );
            while self.queues.get(queue_id).is_some_and(crate::queue::Queue::is_over_limit) {
                self.drop_head(queue_id);
            }
        } else {
            if entry.journaled
                && let Some(journal) = &mut self.journal
            {
                journal.settle(&self.store, queue.journal_id, entry.serial);
            }
            self.store.release(entry.message);
        }
        self.mark_dirty(queue_id);
    }

    /// A channel has room again: all its queues may deliver.
    pub(super) fn wake_channel(&mut self, id: ConnectionId, number: u16) {
        let Some(channel) = self.channel(id, number) else { return };
        if !std::mem::take(&mut channel.passed_by) {
            return;
        }
        for consumer in channel.consumers.clone() {
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
        answer: Option<Method<'_>>,
    ) -> Result<(), Exception> {
        if !requeue {
            let text = "recover without requeue is not supported, with requeue it is";
            return Err(Exception::new(ReplyCode::NotImplemented, text));
        }
        let Some(channel) = self.channel(id, number) else { return Ok(()) };
        let all = std::mem::take(&mut channel.unacknowledged);
        for unacknowledged in all.iter().rev() {
            self.settle(unacknowledged, Settlement::Requeue);
        }
        self.wake_channel(id, number);
        if let Some(answer) = answer {
            self.send(id, number, &answer);
        }
        Ok(())
    }
}
