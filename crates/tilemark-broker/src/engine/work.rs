//! Work that takes more than one turn.
//!
//! The loop serves its peers in turns, and while one turn lasts nobody else is served. So what a peer may ask for in one
//! method and what takes long (giving a million messages back, hanging up with thousands of queues) is a *chore*: a piece of
//! it is done in each turn, and the peer that asked is not read from until it is done. What each of its methods costs is counted, too: a
//! peer whose input has cost its share of a turn goes on in the next one.

use tilemark_amqp::Method;

use super::BrokerCore;
use super::pending::Chore;
use crate::channel::{Channel, Mode, Settlement};
use crate::connection::Pause;
use crate::ids::{ConnectionId, QueueId};

/// What the input of one peer may cost in one turn, in steps. A step is the cost of putting a message into a queue or taking
/// it out: about 0.1 us.
pub(super) const STEPS_OF_A_PEER: u64 = 20_000;
/// What all chores together may cost in one turn, and all dead letters.
pub(super) const STEPS_OF_CHORES: u64 = 20_000;
/// What is so small is done at once.
const AT_ONCE: usize = 4096;
/// Steps of removing a binding or a queue.
const REMOVAL_STEPS: u64 = 10;

impl BrokerCore {
    /// Whether the input of a peer has cost its share of this turn; then it goes on in the next one.
    #[inline]
    pub(super) fn has_had_its_share(&mut self, id: ConnectionId, steps_before: u64) -> bool {
        let is_over = self.steps - steps_before > STEPS_OF_A_PEER;
        if is_over
            && let Some(connection) = self.connections.get_mut(id)
            && connection.pause.is_none()
        {
            connection.pause = Some(Pause::Work { is_done: true });
            self.busy.push(id);
        }
        is_over
    }

    /// Does something at once where it is small, and piece by piece where it is not. `asker` is not read from until then.
    pub(super) fn start(&mut self, asker: Option<ConnectionId>, mut chore: Chore) {
        if self.size_of(&chore) <= AT_ONCE {
            while !self.step(asker, &mut chore) {}
            return;
        }
        if let Some(connection) = asker.and_then(|id| self.connections.get_mut(id)) {
            connection.chores += 1;
            connection.pause = Some(Pause::Work { is_done: false });
        }
        self.chores.push_back((asker, chore));
    }

    fn size_of(&self, chore: &Chore) -> usize {
        match chore {
            Chore::Settle { left, .. } => left.len(),
            Chore::End { left, .. } | Chore::Forget { left, .. } => left.len(),
            Chore::UnbindQueue { queue, .. } => self.topology.count_of_queue(*queue),
            Chore::Unbind { left, .. } => left.len(),
            Chore::Leave { channels, queues } => {
                let of_channels: usize = channels.iter().map(Channel::size).sum();
                let bindings: usize = queues.iter().map(|queue| self.topology.count_of_queue(*queue)).sum();
                of_channels + queues.len() + bindings
            }
        }
    }

    /// A piece of each chore in turn, as much as one turn has room for.
    pub(super) fn do_chores(&mut self) {
        let end = self.steps + STEPS_OF_CHORES;
        while self.steps < end
            && let Some((asker, mut chore)) = self.chores.pop_front()
        {
            let end_of_piece = (self.steps + AT_ONCE as u64).min(end);
            let mut is_done = false;
            while !is_done && self.steps < end_of_piece {
                is_done = self.step(asker, &mut chore);
            }
            if is_done {
                self.end_chore(asker);
            } else {
                self.chores.push_back((asker, chore));
            }
        }
        self.resumed.append(&mut self.busy);
    }

    fn end_chore(&mut self, asker: Option<ConnectionId>) {
        let Some(id) = asker else { return };
        let Some(connection) = self.connections.get_mut(id) else { return };
        connection.chores -= 1;
        if connection.chores == 0 && connection.pause == Some(Pause::Work { is_done: false }) {
            connection.pause = Some(Pause::Work { is_done: true });
            self.resumed.push(id);
        }
    }

    /// Does the next little bit; true when nothing is left.
    fn step(&mut self, asker: Option<ConnectionId>, chore: &mut Chore) -> bool {
        self.steps += 1;
        match chore {
            Chore::Settle { channel, left, settlement, answers } => {
                if let Some(unacknowledged) = left.pop() {
                    self.settle(&unacknowledged, *settlement);
                    return false;
                }
                let (Some(id), number) = (asker, *channel) else { return true };
                self.wake_channel(id, number);
                if *answers {
                    self.send(id, number, &Method::BasicRecoverOk {});
                }
                true
            }
            Chore::End { journal_id, left } => {
                let Some(entry) = left.pop() else { return true };
                self.end_message(*journal_id, &entry);
                false
            }
            Chore::Forget { journal_id, left } => {
                let Some(entry) = left.pop() else { return true };
                self.forget_message(*journal_id, &entry);
                false
            }
            Chore::UnbindQueue { queue, sources } => {
                self.steps += REMOVAL_STEPS;
                if self.topology.forget_one_of_queue(*queue, sources) {
                    return false;
                }
                // Routes that were looked up while bindings went must not be used again.
                self.routing_generation += 1;
                self.remove_exchanges(self.done_among(std::mem::take(sources)));
                true
            }
            Chore::Unbind { left, sources } => {
                self.steps += REMOVAL_STEPS;
                if let Some(binding) = left.pop() {
                    sources.extend(self.topology.forget(binding));
                    return false;
                }
                // Routes that were looked up while bindings went must not be used again.
                self.routing_generation += 1;
                self.remove_exchanges(self.done_among(std::mem::take(sources)));
                true
            }
            Chore::Leave { channels, queues } => self.step_of_leaving(channels, queues),
        }
    }

    /// Last first: each message goes in front of those that came after it. And before the consumers go: a queue that goes with
    /// its last consumer has to find all its messages in it.
    fn step_of_leaving(&mut self, channels: &mut Vec<Channel>, queues: &mut Vec<QueueId>) -> bool {
        let Some(channel) = channels.last_mut() else {
            let Some(queue) = queues.pop() else { return true };
            self.steps += REMOVAL_STEPS;
            self.remove_queue(queue);
            return false;
        };
        if let Mode::Transaction(transaction) = &mut channel.mode
            && let Some(publish) = transaction.publishes.pop()
        {
            self.store.release(publish.message);
        } else if let Some(unacknowledged) = channel.unacknowledged.pop_back() {
            self.settle(&unacknowledged, Settlement::Requeue);
        } else if let Some(consumer) = channel.consumers.pop() {
            self.remove_consumer(consumer);
        } else {
            channels.pop();
        }
        false
    }
}
