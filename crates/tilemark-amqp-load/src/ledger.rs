//! Which messages have arrived.

/// How a message came, seen from one subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// For the first time, and after none that was sent later.
    InOrder,
    /// For the first time, after one that was sent later.
    Late,
    /// It had come before.
    Again,
}

/// A broker decides which numbers come, and each beyond a gap takes memory up to it. A broker that loses messages, or gives them to
/// others, may leave out so many...
const LEAP_MAX: u64 = 16 << 20;
/// ...and so many for each that it delivers: subscribers that compete for a queue get every so-and-so-many-th message.
const SUBSCRIBERS_MAX: u64 = 1024;

/// What one subscriber has received of one publisher.
#[derive(Clone, Debug, Default)]
struct Sequence {
    /// Everything below has arrived.
    next: u64,
    /// Bits for what has arrived from `base` on, when there are gaps.
    ahead: Vec<u64>,
    /// The sequence number of the first bit; a multiple of 64.
    base: u64,
    /// One more than the highest that has arrived.
    end: u64,
    received: u64,
    duplicated: u64,
    reordered: u64,
}

impl Sequence {
    /// Notes a receipt; `None` for a number that cannot be.
    #[inline]
    fn record(&mut self, sequence: u64) -> Option<Receipt> {
        if sequence == self.next && self.ahead.is_empty() {
            self.next += 1;
            self.end = self.next;
            self.received += 1;
            return Some(Receipt::InOrder);
        }
        let most = LEAP_MAX + self.received.saturating_mul(SUBSCRIBERS_MAX);
        (sequence <= most).then(|| self.record_with_gaps(sequence))
    }

    /// What arrives beyond a gap costs a bit each until the gap is closed.
    fn record_with_gaps(&mut self, sequence: u64) -> Receipt {
        if sequence < self.next {
            self.duplicated += 1;
            return Receipt::Again;
        }
        if self.ahead.is_empty() {
            self.base = self.next / 64 * 64;
        }
        let offset = sequence - self.base;
        let (word, bit) = ((offset / 64) as usize, 1 << (offset % 64));
        if self.ahead.len() <= word {
            self.ahead.resize(word + 1, 0);
        }
        if self.ahead[word] & bit != 0 {
            self.duplicated += 1;
            return Receipt::Again;
        }
        self.ahead[word] |= bit;
        self.received += 1;
        let is_late = sequence < self.end;
        self.reordered += u64::from(is_late);
        self.end = self.end.max(sequence + 1);
        if sequence == self.next {
            self.close_gap();
        }
        if is_late { Receipt::Late } else { Receipt::InOrder }
    }

    fn close_gap(&mut self) {
        while self.next < self.end && self.has_bit(self.next) {
            self.next += 1;
        }
        if self.next == self.end {
            self.ahead.clear();
        }
    }

    fn has_bit(&self, sequence: u64) -> bool {
        let offset = sequence - self.base;
        self.ahead.get((offset / 64) as usize).is_some_and(|word| word & (1 << (offset % 64)) != 0)
    }

    fn has(&self, sequence: u64) -> bool {
        sequence < self.next || (sequence < self.end && !self.ahead.is_empty() && self.has_bit(sequence))
    }

    /// Adds what a competing subscriber of the same queue has received.
    fn merge(&mut self, other: &Self) {
        let mut both = Self {
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            ..Self::default()
        };
        for sequence in 0..self.end.max(other.end) {
            match (self.has(sequence), other.has(sequence)) {
                (true, true) => {
                    both.record_with_gaps(sequence);
                    both.duplicated += 1;
                }
                (true, false) | (false, true) => {
                    both.record_with_gaps(sequence);
                }
                (false, false) => {}
            }
        }
        *self = both;
    }

    fn missing(&self, published: u64, limit: usize) -> Vec<u64> {
        (self.next..published).filter(|sequence| !self.has(*sequence)).take(limit).collect()
    }
}

/// What subscribers of one queue have received, by publisher.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    publishers: Vec<Sequence>,
}

/// A message that was published and has not arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Who sent it.
    pub publisher: u16,
    /// Which one it is.
    pub sequence: u64,
}

impl Ledger {
    /// Nothing has arrived of so many publishers.
    pub fn new(publishers: u16) -> Self {
        Self { publishers: vec![Sequence::default(); usize::from(publishers)] }
    }

    /// Notes a receipt and says how it came; `None` when there is no such publisher, or the number is so high that no publisher of ours
    /// can have sent it.
    #[inline]
    pub fn record(&mut self, publisher: u16, sequence: u64) -> Option<Receipt> {
        self.publishers.get_mut(usize::from(publisher))?.record(sequence)
    }

    /// Adds what another subscriber of the same queue has received.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.publishers.iter_mut().zip(&other.publishers) {
            mine.merge(theirs);
        }
    }

    /// Different messages that have arrived.
    pub fn received(&self) -> u64 {
        self.publishers.iter().map(|found| found.received).sum()
    }

    /// Receipts of a message that had arrived before.
    pub fn duplicated(&self) -> u64 {
        self.publishers.iter().map(|found| found.duplicated).sum()
    }

    /// Receipts after a later message of the same publisher at the same subscriber.
    pub fn reordered(&self) -> u64 {
        self.publishers.iter().map(|found| found.reordered).sum()
    }

    /// How many of a publisher's first `published` messages have not arrived.
    pub fn lost(&self, publisher: u16, published: u64) -> u64 {
        self.publishers
            .get(usize::from(publisher))
            .map_or(0, |found| published.saturating_sub(found.received))
    }

    /// The first few that have not arrived, by name.
    pub fn missing(&self, publisher: u16, published: u64, limit: usize) -> Vec<Missing> {
        let found = self.publishers.get(usize::from(publisher)).map(|found| found.missing(published, limit));
        found.unwrap_or_default().into_iter().map(|sequence| Missing { publisher, sequence }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_lost_in_ten_million_is_found_and_named() {
        let mut ledger = Ledger::new(1);
        for sequence in (0..10_000_000).filter(|sequence| *sequence != 7_654_321) {
            ledger.record(0, sequence);
        }
        assert_eq!((ledger.received(), ledger.lost(0, 10_000_000)), (9_999_999, 1));
        assert_eq!(ledger.missing(0, 10_000_000, 5), [Missing { publisher: 0, sequence: 7_654_321 }]);
        assert_eq!((ledger.duplicated(), ledger.reordered()), (0, 0));
    }

    #[test]
    fn the_last_message_counts_as_lost_when_it_is() {
        let mut ledger = Ledger::new(2);
        (0..9).for_each(|sequence| assert_eq!(ledger.record(1, sequence), Some(Receipt::InOrder)));
        assert_eq!((ledger.lost(1, 10), ledger.lost(1, 9), ledger.lost(0, 3)), (1, 0, 3));
        assert_eq!(ledger.record(2, 0), None);
    }

    #[test]
    fn duplicates_and_late_ones_are_distinguished() {
        let mut ledger = Ledger::new(1);
        use Receipt::{Again, InOrder, Late};
        let sequences = [0, 1, 1, 5, 3, 3, 2, 4, 4, 6, 0];
        let came = sequences.map(|sequence| ledger.record(0, sequence).unwrap());
        let wanted = [InOrder, InOrder, Again, InOrder, Late, Again, Late, Late, Again, InOrder, Again];
        assert_eq!(came, wanted);
        assert_eq!((ledger.received(), ledger.duplicated(), ledger.reordered()), (7, 4, 3));
        assert_eq!(ledger.lost(0, 7), 0);
    }

    #[test]
    fn numbers_that_nobody_sent_take_no_memory() {
        let mut ledger = Ledger::new(1);
        for sequence in [u64::MAX, u64::MAX - 1, 1 << 40, 2 << 40] {
            assert_eq!(ledger.record(0, sequence), None, "{sequence}");
        }
        assert!(ledger.publishers[0].ahead.is_empty());
        assert_eq!(ledger.record(0, 0), Some(Receipt::InOrder));
        let mut other = ledger.clone();
        // A broker may lose a million at once.
        assert_eq!(other.record(0, 1_000_000), Some(Receipt::InOrder));
        ledger.merge(&other);
        assert_eq!((ledger.received(), ledger.lost(0, 1_000_001)), (2, 999_999));
    }

    #[test]
    fn one_of_a_thousand_subscribers_knows_all_that_it_received() {
        let mut ledger = Ledger::new(1);
        (0..10_000).for_each(|part| assert_eq!(ledger.record(0, 7 + part * 1000), Some(Receipt::InOrder)));
        assert_eq!(ledger.received(), 10_000);
    }

    #[test]
    fn competing_subscribers_together_miss_nothing_and_share_nothing() {
        let (mut even, mut odd) = (Ledger::new(1), Ledger::new(1));
        for sequence in 0..1000 {
            let ledger = if sequence % 2 == 0 { &mut even } else { &mut odd };
            ledger.record(0, sequence);
        }
        // Comes a second time, and at this subscriber after later ones.
        odd.record(0, 500);
        even.merge(&odd);
        assert_eq!(
            (even.received(), even.lost(0, 1000), even.duplicated(), even.reordered()),
            (1000, 0, 1, 1)
        );
    }
}
