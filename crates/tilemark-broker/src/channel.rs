//! One channel of a connection.

use std::collections::VecDeque;

use crate::confirms::{Confirms, Verdict};
use crate::ids::{ConsumerId, QueueId};
use crate::queue::{Entry, NEVER};
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

/// What a publisher wants for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PublishOptions {
    pub(crate) persistent: bool,
    pub(crate) mandatory: bool,
    /// Its time to live, milliseconds.
    pub(crate) ttl_ms: u64,
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
    pub(crate) options: PublishOptions,
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
    /// Memory of both without the messages, bytes.
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
    pub(crate) unacknowledged: Deliveries,
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
        if !multiple {
            taken.push(self.unacknowledged.take_one(tag)?);
            return Some(());
        }
        if tag > self.last_delivery
            || (tag != 0 && self.unacknowledged.first_tag().is_none_or(|first| first > tag))
        {
            return None;
        }
        self.unacknowledged.take_up_to(if tag == 0 { u64::MAX } else { tag }, taken);
        Some(())
    }
}

/// Deliveries that wait for their acknowledgement, in the order of their tags. One that is taken from the middle leaves a gap,
/// which costs nothing until gaps are most of it.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    /// The first one is never a gap.
    entries: VecDeque<Delivery>,
    gaps: usize,
}

#[derive(Clone, Copy, Debug)]
struct Delivery {
    held: Unacknowledged,
    is_gap: bool,
}

/// So many gaps are kept in any case.
const KEPT_GAPS: usize = 64;

impl Deliveries {
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.gaps
    }

    #[inline]
    pub(crate) fn push_back(&mut self, held: Unacknowledged) {
        self.entries.push_back(Delivery { held, is_gap: false });
    }

    /// The last one, which has the highest tag.
    pub(crate) fn pop_back(&mut self) -> Option<Unacknowledged> {
        while let Some(last) = self.entries.pop_back() {
            if !last.is_gap {
                return Some(last.held);
            }
            self.gaps -= 1;
        }
        None
    }

    /// Puts some back that were taken before.
    pub(crate) fn put_back(&mut self, some: impl Iterator<Item = Unacknowledged>) {
        // A gap has the tag of what comes back.
        self.entries.retain(|delivery| !delivery.is_gap);
        self.gaps = 0;
        some.for_each(|held| self.push_back(held));
        self.entries.make_contiguous().sort_by_key(|delivery| delivery.held.tag);
    }

    /// All of them, in the order of their tags.
    pub(crate) fn into_vec(self) -> Vec<Unacknowledged> {
        self.entries.into_iter().filter(|delivery| !delivery.is_gap).map(|delivery| delivery.held).collect()
    }

    fn first_tag(&self) -> Option<u64> {
        self.entries.front().map(|first| first.held.tag)
    }

    fn take_one(&mut self, tag: u64) -> Option<Unacknowledged> {
        if self.first_tag()? == tag {
            let first = self.entries.pop_front()?;
            self.drop_first_gaps();
            return Some(first.held);
        }
        let at = self.entries.binary_search_by_key(&tag, |delivery| delivery.held.tag).ok()?;
        let delivery = self.entries.get_mut(at).filter(|delivery| !delivery.is_gap)?;
        delivery.is_gap = true;
        let held = delivery.held;
        self.gaps += 1;
        if self.gaps > KEPT_GAPS && self.gaps > self.entries.len() / 2 {
            self.entries.retain(|delivery| !delivery.is_gap);
            self.gaps = 0;
        }
        Some(held)
    }

    fn take_up_to(&mut self, tag: u64, taken: &mut Vec<Unacknowledged>) {
        let count = self.entries.partition_point(|delivery| delivery.held.tag <= tag);
        for delivery in self.entries.drain(..count) {
            if delivery.is_gap {
                self.gaps -= 1;
            } else {
                taken.push(delivery.held);
            }
        }
        self.drop_first_gaps();
    }

    fn drop_first_gaps(&mut self) {
        while self.entries.front().is_some_and(|first| first.is_gap) {
            self.entries.pop_front();
            self.gaps -= 1;
        }
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
        let message = Store::new().append(Layout { route: 0, header: 0 }, []);
        let entry = Entry { serial: 0, message, redelivered: false, journaled: false, expires_ms: NEVER };
        let mut unacknowledged = Deliveries::default();
        (1..=tags)
            .for_each(|tag| unacknowledged.push_back(Unacknowledged { tag, queue, entry, consumer: None }));
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

    #[test]
    fn whatever_order_tags_are_taken_in_each_is_taken_once_and_gaps_do_not_pile_up() {
        let mut channel = channel_with(10_000);
        for tag in (2..=10_000).step_by(2) {
            assert_eq!(taken(&mut channel, tag, false), Some(vec![tag]));
            assert_eq!(taken(&mut channel, tag, false), None);
        }
        assert_eq!(channel.unacknowledged.len(), 5000);
        assert!(channel.unacknowledged.entries.len() <= 10_000);
        for tag in (0..4_500).map(|below| 9_999 - 2 * below) {
            assert_eq!(taken(&mut channel, tag, false), Some(vec![tag]));
        }
        assert_eq!(channel.unacknowledged.len(), 500);
        assert!(
            channel.unacknowledged.entries.len() <= 1001 + KEPT_GAPS,
            "{}",
            channel.unacknowledged.entries.len()
        );
        // What a transaction had taken comes back to its place.
        let mut again = Vec::new();
        channel.take(501, true, &mut again).unwrap();
        assert_eq!(channel.unacknowledged.first_tag(), Some(503));
        channel.unacknowledged.put_back(again.into_iter());
        let tags: Vec<u64> =
            std::mem::take(&mut channel.unacknowledged).into_vec().iter().map(|held| held.tag).collect();
        assert_eq!(tags, (1..=999).step_by(2).collect::<Vec<u64>>());
    }
}
