//! What waits inside the engine for a later turn.

use crate::channel::{Channel, Settlement, Unacknowledged};
use crate::ids::QueueId;
use crate::queue::Entry;
use crate::topology::{BindingId, ExchangeId};

/// Something that is done piece by piece.
#[derive(Debug)]
pub(super) enum Chore {
    /// Deliveries that end, the last one first; then the method is the answer.
    Settle { channel: u16, left: Vec<Unacknowledged>, settlement: Settlement, answers: bool },
    /// Messages of a queue that was purged.
    End { journal_id: u64, left: Vec<Entry> },
    /// Messages of a queue that is gone.
    Forget { journal_id: u64, left: Vec<Entry> },
    /// Bindings of a queue that is gone, and the exchanges that have lost some.
    UnbindQueue { queue: QueueId, sources: Vec<ExchangeId> },
    /// Bindings of an exchange that is gone, and the exchanges that have lost some.
    Unbind { left: Vec<BindingId>, sources: Vec<ExchangeId> },
    /// Channels that are closed, and queues whose owner has left.
    Leave { channels: Vec<Channel>, queues: Vec<QueueId> },
}

/// Why a queue has given a message up, in the words of `x-death`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Rejected,
    Expired,
    MaxLength,
}

impl Reason {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::MaxLength => "maxlen",
        }
    }
}

/// A message that a queue with dead letters has given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Death {
    pub(super) queue: QueueId,
    pub(super) journal_id: u64,
    pub(super) entry: Entry,
    pub(super) reason: Reason,
}
