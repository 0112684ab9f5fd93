//! One peer, without its socket.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::channel::Channel;
use crate::ids::QueueId;
use crate::outbox::Outbox;

/// Where a peer is: guest may not come from elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    ThisMachine,
    Elsewhere,
}

/// How far the conversation is.
///
/// ```text
/// Header -> StartOk -> TuneOk -> Open -> Running -> Closing -> Ended
///    any of them ------------------------------------^          ^
///    a peer that vanishes or answers the close -----------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for the eight octets that name the protocol.
    Header,
    /// Waits for `connection.start-ok`.
    StartOk,
    /// Waits for `connection.tune-ok`.
    TuneOk,
    /// Waits for `connection.open`.
    Open,
    /// Channels may be used.
    Running,
    /// We sent `connection.close`; only `close-ok` counts.
    Closing,
    /// Send what is left, then drop the socket.
    Ended,
}

/// Why nothing is read from a peer for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Memory is short: until it is not.
    Memory,
    /// It asks and does not read the answers: until it has.
    Unread,
    /// What it asked for takes more than one turn: until that is done.
    Work {
        /// It is.
        is_done: bool,
    },
    /// Its queue's consumers are behind: until they caught up, or a moment has passed.
    Backlog(Instant),
}

/// What the client says it understands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Capabilities {
    /// `connection.blocked`
    pub(crate) blocked: bool,
    /// `basic.cancel` from the server
    pub(crate) cancel_notify: bool,
    /// `connection.close` instead of a silent end after a wrong password
    pub(crate) authentication_failure_close: bool,
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) phase: Phase,
    pub(crate) origin: Origin,
    pub(crate) user: Box<[u8]>,
    pub(crate) capabilities: Capabilities,
    pub(crate) outbox: Outbox,
    /// By number; 0 is never used.
    pub(crate) channels: Vec<Option<Box<Channel>>>,
    pub(crate) open_channels: u16,
    pub(crate) channel_max: u16,
    pub(crate) frame_max: usize,
    /// Seconds; 0 is none.
    pub(crate) heartbeat: u16,
    pub(crate) last_received: Instant,
    pub(crate) last_sent: Instant,
    /// When the present phase began: handshakes and closes have a deadline.
    pub(crate) phase_since: Instant,
    pub(crate) consumers: u32,
    pub(crate) exclusive_queues: BTreeSet<QueueId>,
    pub(crate) pause: Option<Pause>,
    /// What it asked for and what is not done yet.
    pub(crate) chores: u32,
    /// `connection.blocked` was sent to it.
    pub(crate) is_notified_of_block: bool,
    pub(crate) has_published: bool,
    /// A queue passed its consumers by because the outbox was full.
    pub(crate) starved: bool,
    /// Is in the engine's list of connections that need attention.
    pub(crate) touched: bool,
    /// Bytes of its outbox that the broker's memory counts.
    pub(crate) counted_outbox: u64,
    /// The queue whose backlog asks this publisher to wait.
    pub(crate) backlog: Option<QueueId>,
    /// Channels with confirms or commits to answer in this turn.
    pub(crate) answers: Vec<u16>,
}

/// What a connection may negotiate at most: 128 KiB as other brokers do.
pub(crate) const FRAME_MAX: usize = 131_072;
/// Channels on one connection.
pub(crate) const CHANNEL_MAX: u16 = 2047;

impl Connection {
    pub(crate) fn new(origin: Origin, now: Instant) -> Self {
        Self {
            phase: Phase::Header,
            origin,
            user: Box::default(),
            capabilities: Capabilities::default(),
            outbox: Outbox::default(),
            channels: Vec::new(),
            open_channels: 0,
            channel_max: CHANNEL_MAX,
            frame_max: FRAME_MAX,
            heartbeat: 0,
            last_received: now,
            last_sent: now,
            phase_since: now,
            consumers: 0,
            exclusive_queues: BTreeSet::new(),
            pause: None,
            chores: 0,
            is_notified_of_block: false,
            has_published: false,
            starved: false,
            touched: false,
            counted_outbox: 0,
            backlog: None,
            answers: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn channel(&self, number: u16) -> Option<&Channel> {
        self.channels.get(usize::from(number))?.as_deref()
    }

    #[inline]
    pub(crate) fn channel_mut(&mut self, number: u16) -> Option<&mut Channel> {
        self.channels.get_mut(usize::from(number))?.as_deref_mut()
    }

    pub(crate) fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.phase_since = now;
    }
}
