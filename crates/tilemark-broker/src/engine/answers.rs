//! The end of a turn: deliveries, the journal's batch, confirms.

use tilemark_amqp::{Method, ReplyCode, put_method};

use super::BrokerCore;
use crate::channel::Mode;
use crate::exception::Exception;
use crate::ids::ConnectionId;
use crate::journal::Definition;

impl BrokerCore {
    /// Notes that a channel has confirms or a commit to be answered in this turn.
    #[inline]
    pub(super) fn answer_later(&mut self, id: ConnectionId, number: u16) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if connection.answers.last() != Some(&number) && !connection.answers.contains(&number) {
            connection.answers.push(number);
            self.waiting.push((id, number));
        }
    }

    /// Does what the input of this turn has made possible.
    pub(crate) fn turn(&mut self) {
        self.do_chores();
        self.deliver_all();
        self.expire_due();
        self.bury_dead();
        if !self.dirty.is_empty() {
            self.deliver_all();
        }
        self.turn_journal();
        self.answer_all();
        self.watch_memory();
    }

    fn turn_journal(&mut self) {
        let Some(mut journal) = self.journal.take() else { return };
        journal.turn(&self.store, || self.definitions());
        self.journal = Some(journal);
    }

    /// All that is durable, as the start of a new segment repeats it.
    pub(super) fn definitions(&self) -> Vec<Definition> {
        let durable = self.topology.exchanges().filter(|found| found.settings.durable);
        let exchanges = durable.filter(|found| !found.name.starts_with(b"amq.")).map(|found| {
            Definition::Exchange(super::exchanges::exchange_record(&found.name, &found.settings))
        });
        let queues =
            self.queues.iter().filter(|(_, queue)| queue.settings.survives_restart()).map(|(_, queue)| {
                let crate::queue::Queue { journal_id, name, settings, .. } = queue;
                Definition::Queue(crate::journal::QueueRecord {
                    id: *journal_id,
                    name: name.clone(),
                    settings: settings.clone(),
                })
            });
        let bindings = self.topology.bindings().filter_map(|binding| self.binding_record(binding));
        exchanges.chain(queues).chain(bindings.map(Definition::Binding)).collect()
    }

    fn answer_all(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let (stored, failure) = match &self.journal {
            Some(journal) => (journal.stored(), journal.failure()),
            None => (0, None),
        };
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.retain(|&(id, number)| self.answer(id, number, stored, failure.as_deref()));
        self.waiting.append(&mut waiting);
    }

    /// Answers what can be answered; true when something still waits for the journal.
    fn answer(&mut self, id: ConnectionId, number: u16, stored: u64, failure: Option<&str>) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        connection.answers.retain(|other| *other != number);
        // Two fields of one connection are needed at once: the channel's state and the buffer to write to.
        let Some(Some(channel)) = connection.channels.get_mut(usize::from(number)) else { return false };
        if channel.closing {
            return false;
        }
        let out = connection.outbox.buffer();
        let before = out.len();
        if let Mode::Confirm(confirms) = &mut channel.mode {
            while let Some(answer) = confirms.answer(stored) {
                let (delivery_tag, multiple) = (answer.up_to, answer.multiple);
                let method = match answer.accepted {
                    true => Method::BasicAck { delivery_tag, multiple },
                    false => Method::BasicNack { delivery_tag, multiple, requeue: false },
                };
                put_method(out, number, &method);
            }
        }
        if channel.commit_waits_for.is_some_and(|needed| needed <= stored) {
            channel.commit_waits_for = None;
            put_method(out, number, &Method::TxCommitOk {});
        }
        let has_output = out.len() > before;
        let still_waits = channel.waits_for_journal();
        if still_waits {
            connection.answers.push(number);
        }
        if has_output {
            self.touch(id);
        }
        if still_waits && let Some(failure) = failure {
            let exception =
                Exception::new(ReplyCode::InternalError, format!("the journal failed: {failure}"));
            self.close_connection(id, (0, 0), &exception);
            return false;
        }
        still_waits
    }
}
