//! What was sold, which the stock of each product follows.

use std::sync::atomic::{AtomicU32, Ordering};

/// Quantities sold of each product, added up by all threads.
pub(crate) struct Sales(Vec<AtomicU32>);

impl Sales {
    pub(crate) fn none(products: u64) -> Self {
        Self((0..products).map(|_| AtomicU32::new(0)).collect())
    }

    pub(crate) fn add(&self, product: u64, quantity: u64) {
        // Only the sum counts and it is read after the threads were joined, so no ordering is needed.
        self.0[product as usize - 1].fetch_add(quantity as u32, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, product: u64) -> u64 {
        u64::from(self.0[product as usize - 1].load(Ordering::Relaxed))
    }
}
