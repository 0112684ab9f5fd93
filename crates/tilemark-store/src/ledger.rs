//! What was confirmed to the clients, kept so that the database can be held to it.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::session::{Cart, Item, Receipt};

/// An order as somebody states it, boiled down to a number: two statements agree if the numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

/// The last step of SplitMix64 (Steele, Lea, Flood 2014): a one-to-one mix of 64 bits.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

impl Fingerprint {
    /// Begins with the order itself.
    pub(crate) fn of_order(customer_id: i64, net_cents: i64, tax_cents: i64, total_cents: i64) -> Self {
        Self(0).and(customer_id).and(net_cents).and(tax_cents).and(total_cents)
    }

    /// Adds a line; the order of the lines counts.
    pub(crate) fn line(self, number: i64, prod_id: i64, quantity: i64) -> Self {
        self.and(number).and(prod_id).and(quantity)
    }

    fn and(self, value: i64) -> Self {
        Self(mix(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ value as u64))
    }
}

/// A sum over rows whose order does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowSum {
    pub(crate) rows: u64,
    sum: u64,
}

impl RowSum {
    pub(crate) fn add_history(&mut self, customer_id: i64, order_id: i64, prod_id: i64) {
        let row = Fingerprint(1).and(customer_id).and(order_id).and(prod_id);
        self.rows += 1;
        self.sum = self.sum.wrapping_add(row.0);
    }

    fn merge(&mut self, other: RowSum) {
        self.rows += other.rows;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

/// An order that was confirmed to a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConfirmedOrder {
    pub(crate) id: i64,
    pub(crate) fingerprint: Fingerprint,
}

/// One client's book, written by its own thread alone.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) orders: Vec<ConfirmedOrder>,
    customers: Vec<i64>,
    history: RowSum,
    net_cents: i64,
    pub(crate) in_doubt: u64,
}

impl Ledger {
    pub(crate) fn order(&mut self, cart: &Cart, receipt: &Receipt) {
        let customer = i64::from(cart.customer_id);
        let order =
            Fingerprint::of_order(customer, receipt.net_cents, receipt.tax_cents, receipt.total_cents());
        let fingerprint = (1..).zip(&cart.items).fold(order, |all, (number, item)| {
            all.line(number, i64::from(item.prod_id), i64::from(item.quantity))
        });
        self.orders.push(ConfirmedOrder { id: receipt.order_id, fingerprint });
        self.net_cents = self.net_cents.saturating_add(receipt.net_cents);
        for item in &cart.items {
            self.history.add_history(customer, receipt.order_id, i64::from(item.prod_id));
        }
    }

    pub(crate) fn customer(&mut self, id: i64) {
        self.customers.push(id);
    }
}

/// Pieces sold and delivered of each product, added up by all clients.
pub(crate) struct Pieces {
    sold: Vec<AtomicI64>,
    delivered: Vec<AtomicI64>,
}

impl Pieces {
    pub(crate) fn none(products: u64) -> Self {
        let zeros = || (0..products).map(|_| AtomicI64::new(0)).collect();
        Self { sold: zeros(), delivered: zeros() }
    }

    pub(crate) fn sold(&self, items: &[Item]) {
        // Only the sums count, and they are read after the threads were joined.
        for item in items {
            self.sold[item.prod_id as usize - 1].fetch_add(i64::from(item.quantity), Ordering::Relaxed);
        }
    }

    pub(crate) fn delivered(&self, prod_id: i32, pieces: i32) {
        self.delivered[prod_id as usize - 1].fetch_add(i64::from(pieces), Ordering::Relaxed);
    }
}

/// All answers that the clients of a run confirmed; by default nothing, as of a run without clients.
#[derive(Debug, Default)]
pub struct Confirmed {
    pub(crate) orders: Vec<ConfirmedOrder>,
    pub(crate) customers: Vec<i64>,
    pub(crate) history: RowSum,
    pub(crate) net_cents: i64,
    pub(crate) in_doubt: u64,
    pub(crate) sold: Vec<i64>,
    pub(crate) delivered: Vec<i64>,
}

impl Confirmed {
    pub(crate) fn from_ledgers(ledgers: impl IntoIterator<Item = Ledger>, pieces: Pieces) -> Self {
        let values = |all: Vec<AtomicI64>| all.into_iter().map(AtomicI64::into_inner).collect();
        let mut confirmed = Confirmed {
            orders: Vec::new(),
            customers: Vec::new(),
            history: RowSum::default(),
            net_cents: 0,
            in_doubt: 0,
            sold: values(pieces.sold),
            delivered: values(pieces.delivered),
        };
        for ledger in ledgers {
            confirmed.orders.extend(ledger.orders);
            confirmed.customers.extend(ledger.customers);
            confirmed.history.merge(ledger.history);
            confirmed.net_cents = confirmed.net_cents.saturating_add(ledger.net_cents);
            confirmed.in_doubt += ledger.in_doubt;
        }
        confirmed.orders.sort_unstable_by_key(|order| order.id);
        confirmed.customers.sort_unstable();
        confirmed
    }
}
