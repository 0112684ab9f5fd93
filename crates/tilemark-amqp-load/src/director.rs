//! Who leads several loads that are one: they begin together, are counted as they go, and may be ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Messages up to now, counted as batches of them go through.
#[derive(Debug, Default)]
pub struct Gauge {
    published: AtomicU64,
    received: AtomicU64,
    wrong: AtomicU64,
    refused: AtomicU64,
}

impl Gauge {
    pub(crate) fn count_published(&self, count: u64) {
        self.published.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn count_received(&self, count: u64, wrong: u64) {
        self.received.fetch_add(count, Ordering::Relaxed);
        if wrong > 0 {
            self.wrong.fetch_add(wrong, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_refused(&self, count: u64) {
        self.refused.fetch_add(count, Ordering::Relaxed);
    }

    /// Messages that publishers have handed to the kernel.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }

    /// Deliveries that subscribers have taken, duplicates and damaged ones too.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Those of them that had come before, came after a later one, or are damaged. What only competing subscribers
    /// together could find is not in it.
    pub fn wrong(&self) -> u64 {
        self.wrong.load(Ordering::Relaxed)
    }

    /// Messages that the broker refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Leads loads; their threads ask it.
pub trait Director: Sync {
    /// A publisher or subscriber begins: called on its own thread, before it connects.
    fn thread_begins(&self);
    /// All threads of a load are connected. May wait, so that several loads begin together, at the moment that it returns. `None`: it does
    /// not begin, because another load failed or the user wanted it to end.
    fn ready(&self) -> Option<Instant>;
    /// Whether to end early. What was done up to then is accounted for.
    fn is_over(&self) -> bool;
    /// Where messages are counted.
    fn gauge(&self) -> &Gauge;
    /// Whether what was measured is reported where the broker ends a connection meanwhile. Otherwise that is an error, and nothing is
    /// reported.
    fn keeps_what_was_measured(&self) -> bool {
        false
    }
}

/// The director of a load that runs by itself: it begins at once, and ends as its settings say.
#[derive(Debug, Default)]
pub(crate) struct Undirected(Gauge);

impl Director for Undirected {
    fn thread_begins(&self) {}
    fn ready(&self) -> Option<Instant> {
        Some(Instant::now())
    }
    fn is_over(&self) -> bool {
        false
    }
    fn gauge(&self) -> &Gauge {
        &self.0
    }
}
