//! Acknowledgements in ranges.

use std::collections::BTreeSet;

/// What a `basic.ack` or `basic.nack` of the broker settles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// The tag in the method; 0 with `multiple` means all.
    pub delivery_tag: u64,
    /// All tags up to this one.
    pub multiple: bool,
}

/// Which tags are still open, when most are settled in order: publisher confirms at the publisher, acknowledgements at the
/// consumer. Tags count from 1.
#[derive(Debug, Default)]
pub struct ConfirmWindow {
    /// All tags up to this one are settled.
    settled: u64,
    /// The last tag given out.
    issued: u64,
    /// Settled beyond `settled`, out of order.
    ahead: BTreeSet<u64>,
}

impl ConfirmWindow {
    /// Nothing is open.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives out `count` more tags.
    #[inline]
    pub const fn issue(&mut self, count: u64) {
        self.issued += count;
    }

    /// The last tag given out.
    pub const fn issued(&self) -> u64 {
        self.issued
    }

    /// Tags that are open.
    #[inline]
    pub fn open(&self) -> u64 {
        self.issued - self.settled - self.ahead.len() as u64
    }

    /// Settles tags: how many became settled by it, or `None` when a tag was never given out or is settled already.
    pub fn settle(&mut self, confirmation: Confirmation) -> Option<u64> {
        let open_before = self.open();
        let Confirmation { delivery_tag, multiple } = confirmation;
        if multiple {
            let up_to = if delivery_tag == 0 { self.issued } else { delivery_tag };
            if up_to > self.issued || up_to < self.settled {
                return None;
            }
            self.ahead = self.ahead.split_off(&(up_to + 1));
            self.settled = up_to;
        } else {
            if delivery_tag <= self.settled || delivery_tag > self.issued || !self.ahead.insert(delivery_tag)
            {
                return None;
            }
        }
        while self.ahead.first() == Some(&(self.settled + 1)) {
            self.ahead.pop_first();
            self.settled += 1;
        }
        Some(open_before - self.open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(delivery_tag: u64) -> Confirmation {
        Confirmation { delivery_tag, multiple: false }
    }
    fn up_to(delivery_tag: u64) -> Confirmation {
        Confirmation { delivery_tag, multiple: true }
    }

    #[test]
    fn ranges_and_single_tags_settle_each_tag_once() {
        let mut window = ConfirmWindow::new();
        window.issue(10);
        assert_eq!(window.settle(one(3)), Some(1));
        assert_eq!(window.settle(up_to(5)), Some(4));
        assert_eq!(window.open(), 5);
        assert_eq!(window.settle(one(3)), None);
        assert_eq!(window.settle(one(7)), Some(1));
        assert_eq!(window.settle(one(7)), None);
        assert_eq!(window.settle(one(6)), Some(1));
        assert_eq!(window.settle(up_to(11)), None);
        assert_eq!(window.settle(up_to(0)), Some(3));
        assert_eq!(window.open(), 0);
    }
}
