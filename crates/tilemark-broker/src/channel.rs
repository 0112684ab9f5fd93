//! One channel of a connection.

use std::collections::VecDeque;

use crate::confirms::{Confirms, Verdict};
use crate::engine::Wish;
use crate::queue::{ConsumerId, Entry, NEVER, QueueId};
use crate::store::{Layout, MessageId};

/// A message on its way in: method, then header, then body.
#[derive(Debug)]
pub(crate) struct Assembly {
    pub(crate) stage: Stage,
    /// Route, header and, of bodies in several frames, what has come so far.
    pub(crate) bytes: Vec<u8>,
    pub(crate) layout: Layout,
    pub(crate) mandatory: bool,
    pub(crate) persistent: bool,
    /// Milliseconds.
    pub(crate) ttl_ms: u64,
    /// Where this message goes, when its headers decide it and not its route alone.
    pub(crate) own_targets: Option<Vec<QueueId>>,
}

impl Default for Assembly {
    fn default() -> Self {
        Self {
            stage: Stage::Idle,
            bytes: Vec::new(),
            layout: Layout::default(),
            mandatory: false,
            persistent: false,
            ttl_ms: NEVER,
            own_targets: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Idle,
    Header,
    /// Bytes of body that are still to come.
    Body(u64),
}

/// Where the last publish of this channel went: publishers mostly repeat themselves.
#[derive(Debug, Default)]
pub(crate) struct RouteCache {
    pub(crate) generation: u64,
    pub(crate) route: Vec<u8>,
    pub(crate) targets: Vec<QueueId>,
    /// A headers exchange is on the way: each message is routed by itself.
    pub(crate) by_headers: bool,
}

/// A delivered message that waits for its acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unacknowledged {
    pub(crate) tag: u64,
    pub(crate) queue: QueueId,
    pub(crate) entry: Entry,
    /// None for `basic.get`.
    pub(crate) consumer: Option<ConsumerId>,
}

/// A publish that waits for the commit of its transaction.
#[derive(Debug)]
pub(crate) struct PendingPublish {
    pub(crate) message: MessageId,
    pub(crate) targets: Vec<QueueId>,
    pub(crate) wish: Wish,
}

/// How a consumer answers a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    Acknowledge,
    Discard,
    Requeue,
}

/// A transaction: what commit will do.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) publishes: Vec<PendingPublish>,
    pub(crate) settlements: Vec<(Unacknowledged, Settlement)>,
    /// Memory of both besides the messages, bytes.
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Plain,
    Confirm(Confirms),
    Transaction(Transaction),
}

#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub(crate) assembly: Assembly,
    pub(crate) route: RouteCache,
    pub(crate) mode: Mode,
    pub(crate) unacknowledged: VecDeque<Unacknowledged>,
    pub(crate) last_delivery: u64,
    /// For consumers that come; 0 is no limit.
    pub(crate) prefetch_per_consumer: u16,
    /// For all consumers together; 0 is no limit.
    pub(crate) prefetch_per_channel: u16,
    pub(crate) consumers: Vec<ConsumerId>,
    /// The client asked for no deliveries (`channel.flow`).
    pub(crate) stopped: bool,
    /// We closed it and wait for `channel.close-ok`; until then everything on it is ignored.
    pub(crate) closing: bool,
    /// The client closed it too, before it had read our close: it may open the channel again without a `close-ok`.
    pub(crate) closed_by_both: bool,
    /// The queue that was declared last: what an empty name means.
    pub(crate) last_queue: Box<[u8]>,
    /// The limit for all its consumers kept a queue from delivering: when there is room again, its queues are woken.
    pub(crate) passed_by: bool,
    /// A `tx.commit-ok` that waits for the journal.
    pub(crate) commit_waits_for: Option<u64>,
}

impl Channel {
    /// Notes how a publish ended, if the publisher wants to know.
    #[inline]
    pub(crate) fn note(&mut self, verdict: Verdict) {
        if let Mode::Confirm(confirms) = &mut self.mode {
            confirms.publish(verdict);
        }
    }

    /// Deliveries that count against the limit for all consumers: an acknowledgement counts when it is committed.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        let uncommitted = match &self.mode {
            Mode::Transaction(transaction) => transaction.settlements.len(),
            _ => 0,
        };
        self.unacknowledged.len() + uncommitted
    }

    /// What has to be done when it is closed, in messages and consumers.
    pub(crate) fn size(&self) -> usize {
        let published = match &self.mode {
            Mode::Transaction(transaction) => transaction.publishes.len(),
            _ => 0,
        };
        self.held() + published + self.consumers.len()
    }

    pub(crate) fn waits_for_journal(&self) -> bool {
        self.commit_waits_for.is_some()
            || matches!(&self.mode, Mode::Confirm(confirms) if confirms.is_waiting())
    }

    /// Takes the deliveries that a tag names; `None` when there is none such.
    pub(crate) fn take(&mut self, tag: u64, multiple: bool, taken: &mut Vec<Unacknowledged>) -> Option<()> {
        if multiple {
            if tag > self.last_delivery
                || (tag != 0 && self.unacknowledged.front().is_none_or(|first| first.tag > tag))
            {
                return None;
            }
            let count = match tag {
                0 => self.unacknowledged.len(),
                _ => self.unacknowledged.partition_point(|found| found.tag <= tag),
            };
            taken.extend(self.unacknowledged.drain(..count));
            return Some(());
        }
        if self.unacknowledged.front()?.tag == tag {
            taken.extend(self.unacknowledged.pop_front());
            return Some(());
        }
        let at = self.unacknowledged.binary_search_by_key(&tag, |found| found.tag).ok()?;
        taken.extend(self.unacknowledged.remove(at));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;
    use crate::store::Store;

    fn channel_with(tags: u64) -> Channel {
        let mut slab = Slab::new();
        let queue = slab.insert(());
        let message = Store::new().append(Layout { route: 0, header: 0 }, &[], &[]);
        let entry = Entry { serial: 0, message, redelivered: false, journaled: false, expires_ms: NEVER };
        let unacknowledged =
            (1..=tags).map(|tag| Unacknowledged { tag, queue, entry, consumer: None }).collect();
        Channel { unacknowledged, last_delivery: tags, ..Channel::default() }
    }

    fn taken(channel: &mut Channel, tag: u64, multiple: bool) -> Option<Vec<u64>> {
        let mut taken = Vec::new();
        channel.take(tag, multiple, &mut taken)?;
        Some(taken.iter().map(|found| found.tag).collect())
    }

    #[test]
    fn tags_are_taken_once_singly_or_up_to_one() {
        let mut channel = channel_with(6);
        assert_eq!(taken(&mut channel, 3, false), Some(vec![3]));
        assert_eq!(taken(&mut channel, 3, false), None);
        assert_eq!(taken(&mut channel, 4, true), Some(vec![1, 2, 4]));
        assert_eq!(taken(&mut channel, 4, true), None);
        assert_eq!(taken(&mut channel, 7, true), None);
        assert_eq!(taken(&mut channel, 0, true), Some(vec![5, 6]));
        assert_eq!(taken(&mut channel, 0, true), Some(vec![]));
        assert_eq!(taken(&mut channel, 1, false), None);
    }
}
