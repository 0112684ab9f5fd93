//! Commit and rollback.

use tilemark_amqp::{Method, ReplyCode};

use super::BrokerCore;
use crate::channel::{Mode, Transaction};
use crate::confirms::Verdict;
use crate::exception::Exception;
use crate::ids::ConnectionId;

impl BrokerCore {
    fn take_transaction(&mut self, id: ConnectionId, number: u16) -> Result<Transaction, Exception> {
        match self.channel(id, number).map(|channel| &mut channel.mode) {
            Some(Mode::Transaction(transaction)) => {
                let transaction = std::mem::take(transaction);
                self.transaction_bytes -= transaction.bytes;
                Ok(transaction)
            }
            _ => {
                let text = "the channel has no transactions: tx.select was not sent";
                Err(Exception::new(ReplyCode::PreconditionFailed, text))
            }
        }
    }

    /// Publishes and settles all that was asked since the last commit. In the journal it is one record, so that a power
    /// cut leaves all of it or nothing.
    pub(super) fn commit(&mut self, id: ConnectionId, number: u16) -> Result<(), Exception> {
        let transaction = self.take_transaction(id, number)?;
        let before = self.journal.as_mut().map_or(0, |journal| {
            journal.begin_group();
            journal.waiting_bytes()
        });
        let mut failed = Ok(());
        for publish in transaction.publishes {
            let placed = self.place(id, number, publish.message, &publish.targets, publish.options);
            failed = failed.and(placed.and_then(all_is_placed));
        }
        for (unacknowledged, settlement) in transaction.settlements.iter().rev() {
            self.settle(unacknowledged, *settlement);
        }
        self.wake_channel(id, number);
        let needed = self.journal.as_mut().and_then(|journal| {
            journal.end_group();
            (journal.waiting_bytes() > before).then(|| journal.open_batch())
        });
        failed?;
        match (needed, self.channel(id, number)) {
            (Some(needed), Some(channel)) => {
                channel.commit_waits_for = Some(needed);
                self.answer_later(id, number);
            }
            _ => self.send(id, number, &Method::TxCommitOk {}),
        }
        Ok(())
    }

    /// Forgets what was published, and what was acknowledged is unacknowledged again.
    pub(super) fn rollback(&mut self, id: ConnectionId, number: u16) -> Result<(), Exception> {
        let transaction = self.take_transaction(id, number)?;
        transaction.publishes.iter().for_each(|publish| self.store.release(publish.message));
        if let Some(channel) = self.channel(id, number) {
            let settlements = transaction.settlements.into_iter();
            channel.unacknowledged.put_back(settlements.map(|(unacknowledged, _)| unacknowledged));
        }
        self.send(id, number, &Method::TxRollbackOk {});
        Ok(())
    }
}

/// A transaction has no `basic.nack`: a refusal by a full queue is reported instead of the commit, as RabbitMQ does.
fn all_is_placed(verdict: Verdict) -> Result<(), Exception> {
    match verdict {
        Verdict::Stored(_) => Ok(()),
        Verdict::Refused => {
            let text = "partial tx completion: a full queue refused a message";
            Err(Exception::new(ReplyCode::PreconditionFailed, text))
        }
    }
}
