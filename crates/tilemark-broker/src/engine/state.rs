//! What the broker knows.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use super::clock::Clock;
use super::pending::{Chore, Death};
use crate::config::{Config, User};
use crate::connection::{Connection, Origin, Phase};
use crate::exchange::{ExchangeKind, ExchangeSettings};
use crate::ids::{ConnectionId, QueueId};
use crate::journal::Journal;
use crate::outbox::Outbox;
use crate::queue::{Consumer, GoneQueue, Queue};
use crate::slab::Slab;
use crate::store::Store;
use crate::topology::Topology;

/// Limits and promises of a configuration.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) memory_bytes: u64,
    pub(super) largest_message_bytes: u64,
    pub(super) heartbeat_s: u16,
}

/// What a broker holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Connections that are open.
    pub connections: u64,
    /// Queues that are declared.
    pub queues: u64,
    /// Exchanges that clients have declared.
    pub exchanges: u64,
    /// Messages in queues or with consumers that have not acknowledged them.
    pub messages: u64,
    /// Messages that came in.
    pub published: u64,
    /// Messages that went out.
    pub delivered: u64,
    /// Memory that messages, queues and connections take, bytes.
    pub memory_bytes: u64,
    /// Times that the journal was flushed to the disk.
    pub journal_flushes: u64,
    /// Bytes behind the last whole record that were found at start: torn batches of a crash that no client has a confirmation of.
    pub journal_ignored_bytes: u64,
}

/// The broker.
#[derive(Debug)]
pub(crate) struct BrokerCore {
    pub(super) limits: Limits,
    pub(super) users: Vec<User>,
    pub(super) now: Instant,
    pub(super) clock: Clock,
    pub(super) connections: Slab<Connection>,
    pub(super) topology: Topology,
    pub(super) queue_names: HashMap<Box<[u8]>, QueueId>,
    pub(super) queues: Slab<Queue>,
    /// Durable queues that are gone while consumers hold messages of them.
    pub(super) gone_queues: HashMap<QueueId, GoneQueue>,
    pub(super) consumers: Slab<Consumer>,
    pub(super) store: Store,
    pub(super) journal: Option<Journal>,
    /// Changes with every binding, so that channels forget where they last published to.
    pub(super) routing_generation: u64,
    pub(super) last_serial: u64,
    /// A channel has had a limit for all its consumers, so queues may have to take turns.
    pub(super) limits_channels: bool,
    /// Counts the turns of queues that take turns.
    pub(super) last_round: u64,
    pub(super) last_journal_queue: u64,
    /// Connections that have output, or that must be dropped.
    pub(super) touched: Vec<ConnectionId>,
    /// Queues that may have something for a consumer.
    pub(super) dirty: Vec<QueueId>,
    /// Channels with confirms or commits that wait for the journal.
    pub(super) waiting: Vec<(ConnectionId, u16)>,
    /// Connections that published into a backlog in this turn.
    pub(super) backlogged: Vec<ConnectionId>,
    /// Connections that are held back.
    pub(super) paused: Vec<ConnectionId>,
    /// Those among them whose socket does not know yet.
    pub(super) newly_paused: Vec<ConnectionId>,
    /// Connections that may go on.
    pub(super) resumed: Vec<ConnectionId>,
    /// When which queue is to be looked at for messages whose time is over; each queue at most once.
    pub(super) alarms: BTreeSet<(u64, QueueId)>,
    /// Messages that queues have given up and that go to an exchange for dead letters, in their order.
    pub(super) dying: VecDeque<Death>,
    /// What has been done since the start, in steps.
    pub(super) steps: u64,
    /// What takes more than one turn, and who waits for it.
    pub(super) chores: VecDeque<(Option<ConnectionId>, Chore)>,
    /// Connections whose input has cost their share of this turn.
    pub(super) busy: Vec<ConnectionId>,
    pub(super) short_of_memory: bool,
    /// Bytes of messages that have not come in completely.
    pub(super) assembling_bytes: u64,
    /// Bytes of what waits for commits, without the messages.
    pub(super) transaction_bytes: u64,
    /// Bytes of what waits to be sent.
    pub(super) outbox_bytes: u64,
    pub(super) statistics: Statistics,
    /// Publishes that were read in one step.
    #[cfg(test)]
    pub(super) taken_at_once: u64,
}

impl BrokerCore {
    /// An empty broker with the exchanges that every broker has.
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let mut topology = Topology::default();
        for kind in ExchangeKind::ALL {
            topology.declare(format!("amq.{}", kind.name()).as_bytes(), ExchangeSettings::of_broker(kind));
        }
        topology.declare(b"amq.match", ExchangeSettings::of_broker(ExchangeKind::Headers));
        Self {
            limits: Limits {
                memory_bytes: config.memory_limit_bytes,
                largest_message_bytes: config.largest_message_bytes,
                heartbeat_s: u16::try_from(config.heartbeat.as_secs()).unwrap_or(u16::MAX),
            },
            users: config.users.clone(),
            now,
            clock: Clock::starting_at(now),
            connections: Slab::new(),
            topology,
            queue_names: HashMap::new(),
            queues: Slab::new(),
            gone_queues: HashMap::new(),
            consumers: Slab::new(),
            store: Store::new(),
            journal: None,
            routing_generation: 1,
            last_serial: 0,
            limits_channels: false,
            last_round: 0,
            last_journal_queue: 0,
            touched: Vec::new(),
            dirty: Vec::new(),
            waiting: Vec::new(),
            backlogged: Vec::new(),
            paused: Vec::new(),
            newly_paused: Vec::new(),
            resumed: Vec::new(),
            alarms: BTreeSet::new(),
            dying: VecDeque::new(),
            steps: 0,
            #[cfg(test)]
            taken_at_once: 0,
            chores: VecDeque::new(),
            busy: Vec::new(),
            short_of_memory: false,
            assembling_bytes: 0,
            transaction_bytes: 0,
            outbox_bytes: 0,
            statistics: Statistics::default(),
        }
    }

    /// A peer has connected.
    pub(crate) fn connect(&mut self, origin: Origin) -> ConnectionId {
        self.connections.insert(Connection::new(origin, self.now))
    }

    /// Sets the clock.
    pub(crate) fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.clock.set(now);
    }

    /// Connections to send to, or to drop; each once.
    pub(crate) fn take_touched(&mut self, into: &mut Vec<ConnectionId>) {
        into.append(&mut self.touched);
        for id in into {
            if let Some(connection) = self.connections.get_mut(*id) {
                connection.touched = false;
            }
        }
    }

    /// What waits to be sent.
    pub(crate) fn outbox(&mut self, id: ConnectionId) -> Option<&mut Outbox> {
        self.connections.get_mut(id).map(|connection| &mut connection.outbox)
    }

    /// Whether the socket is to be dropped once the outbox is empty.
    pub(crate) fn is_ended(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_none_or(|connection| connection.phase == Phase::Ended)
    }

    /// Whether nothing is to be read from it for now.
    pub(crate) fn is_paused(&self, id: ConnectionId) -> bool {
        self.connections.get(id).is_some_and(|connection| connection.pause.is_some())
    }

    /// Notes that a connection has output.
    #[inline]
    pub(super) fn touch(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.touched
        {
            connection.touched = true;
            self.touched.push(id);
        }
    }

    /// Notes that a queue may have something for a consumer.
    #[inline]
    pub(super) fn mark_dirty(&mut self, id: QueueId) {
        if let Some(queue) = self.queues.get_mut(id)
            && !queue.dirty
            && !queue.consumers.is_empty()
            && !queue.is_empty()
        {
            queue.dirty = true;
            self.dirty.push(id);
        }
    }

    /// What it holds and has done.
    pub(crate) fn statistics(&self) -> Statistics {
        Statistics {
            connections: self.connections.len() as u64,
            queues: self.queues.len() as u64,
            exchanges: self.topology.exchanges().filter(|found| !found.name.starts_with(b"amq.")).count()
                as u64,
            messages: self.store.len() as u64,
            memory_bytes: self.memory_bytes(),
            journal_flushes: self.journal.as_ref().map_or(0, Journal::stored),
            ..self.statistics
        }
    }

    /// Notes in the journal that the broker ends in order.
    pub(crate) fn close_journal(&mut self) {
        if let Some(journal) = self.journal.as_mut().filter(|journal| journal.failure().is_none()) {
            journal.close();
        }
    }

    /// Why nothing is stored any more, once the disk has failed.
    pub(crate) fn journal_failure(&self) -> Option<String> {
        self.journal.as_ref().and_then(Journal::failure)
    }

    /// Whether all that was journaled is stored, so that the broker may end.
    pub(crate) fn is_settled(&self) -> bool {
        let is_stored = |journal: &Journal| journal.is_settled() || journal.failure().is_some();
        self.chores.is_empty() && self.dying.is_empty() && self.journal.as_ref().is_none_or(is_stored)
    }
}
