//! How many rows each table has.

use serde::{Deserialize, Serialize};

use crate::measure;
use crate::size::{DataSize, Ds2Size};
use crate::table::Table;
use crate::words;

/// The year of the generated orders: that of the kit which the 2009 figures were measured with.
pub const FIRST_ORDER_YEAR: u64 = 2009;

/// Customers for each order of the year: 20,000 customers place 12,000 orders, at every label of DVD Store 2.
const ORDERS_PER_CUSTOMER: f64 = 0.6;

/// Every so many products one is hot: bought ten times as often, stocked ten times as high.
const HOT_EVERY: u64 = 10_000;

/// Whether this product is bought and stocked ten times as much as others.
pub fn is_hot(prod_id: u64) -> bool {
    prod_id.is_multiple_of(HOT_EVERY)
}

/// By which rule the row counts were found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// Ours: bytes of CSV as asked; products grow with the square root of the size, through DVD Store 2's three labels.
    Smooth,
    /// The row counts of DVD Store 2, its jump around 1 GB included.
    Ds2,
}

/// A store: its row counts, the rule they come from, and the seed of its data. Nothing else decides a byte of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// How the row counts were found.
    pub rule: Rule,
    /// What all draws start from.
    pub seed: u64,
    /// Rows of `customers`; ids are 1 to this.
    pub customers: u64,
    /// Rows of `orders`; ids are 1 to this. Order lines and history have one to nine rows for each.
    pub orders: u64,
    /// Rows of `products` and of `inventory`; ids are 1 to this.
    pub products: u64,
}

impl Store {
    /// The store whose CSV has `size` bytes, within 1 %.
    ///
    /// Products follow 10,000 × √(size / 10 MB), the curve through DVD Store 2's 10,000 at 10 MB, 100,000 at 1 GB and
    /// 1,000,000 at 100 GB, so there is no jump anywhere. Customers and orders take what is left, as 5 to 3.
    pub fn of_size(size: DataSize, seed: u64) -> Self {
        let ratio = size.bytes() as f64 / DataSize::MIN.bytes() as f64;
        let products = (10_000.0 * ratio.sqrt()).round() as u64;
        let with_customers = |customers: u64| Store {
            rule: Rule::Smooth,
            seed,
            customers,
            orders: (customers as f64 * ORDERS_PER_CUSTOMER).round() as u64,
            products,
        };
        // The expected bytes rise with the customers, so halving the range finds the right number of them.
        let (mut low, mut high) = (1, size.bytes() / 100);
        while low < high {
            let middle = low.midpoint(high);
            if with_customers(middle).expected_bytes() < size.bytes() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        with_customers(low)
    }

    /// The store with the row counts of DVD Store 2.
    pub fn ds2(size: Ds2Size, seed: u64) -> Self {
        let counts = |customers, orders_per_month: u64, products| Store {
            rule: Rule::Ds2,
            seed,
            customers,
            orders: orders_per_month * 12,
            products,
        };
        match size {
            Ds2Size::Small => counts(20_000, 1_000, 10_000),
            Ds2Size::Medium => counts(2_000_000, 100_000, 100_000),
            Ds2Size::Large => counts(200_000_000, 10_000_000, 1_000_000),
            Ds2Size::Megabytes(n) => counts(2_000 * n, 100 * n, 1_000 * n),
            Ds2Size::Gigabytes(n) => counts(2_000_000 * n, 100_000 * n, 10_000 * n),
        }
    }

    /// Bytes of CSV to expect in all tables together. The real number differs by chance, under 0.1 % from 10 MB on.
    pub fn expected_bytes(&self) -> u64 {
        Table::ALL.iter().map(|&table| self.expected_table_bytes(table)).sum()
    }

    /// Bytes of CSV to expect in one table.
    pub fn expected_table_bytes(&self, table: Table) -> u64 {
        measure::expected_bytes(self, table)
    }

    /// Rows to expect: exact but for order lines and history, which have five rows an order on average.
    pub fn expected_rows(&self, table: Table) -> u64 {
        match table {
            Table::Categories => words::CATEGORIES.len() as u64,
            Table::Products | Table::Inventory => self.products,
            Table::Customers => self.customers,
            Table::Orders => self.orders,
            Table::Orderlines | Table::CustHist => self.orders * 5,
        }
    }

    /// One product in how many is on special offer. DVD Store 2 changes this above 100,000 products; we do not.
    pub(crate) fn special_one_in(&self) -> u64 {
        match self.rule {
            Rule::Ds2 if self.products > 100_000 => 10_000,
            Rule::Ds2 | Rule::Smooth => 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn smooth(bytes: u64) -> Store {
        Store::of_size(DataSize::from_bytes(bytes).unwrap(), 7)
    }

    #[test]
    fn products_pass_through_the_three_labels() {
        assert_eq!(smooth(10_000_000).products, 10_000);
        assert_eq!(smooth(1_000_000_000).products, 100_000);
        assert_eq!(smooth(100_000_000_000).products, 1_000_000);
    }

    #[test]
    fn nothing_jumps_around_one_gigabyte() {
        let (below, at, above) = (smooth(999_000_000), smooth(1_000_000_000), smooth(1_001_000_000));
        for rows in [|s: &Store| s.customers, |s: &Store| s.orders, |s: &Store| s.products] {
            let step_up = rows(&at) as f64 / rows(&below) as f64;
            let step_on = rows(&above) as f64 / rows(&at) as f64;
            assert!(
                (1.0..1.0021).contains(&step_up) && (1.0..1.0021).contains(&step_on),
                "{step_up} {step_on}"
            );
        }
    }

    #[test]
    fn the_plan_expects_the_size_that_was_asked() {
        for megabytes in [10, 100, 999, 1_000, 1_001, 10_000, 100_000] {
            let asked = megabytes * 1_000_000;
            let error = smooth(asked).expected_bytes() as f64 / asked as f64 - 1.0;
            assert!(error.abs() < 1e-4, "{megabytes} MB: off by {error}");
        }
    }

    #[test]
    fn the_old_row_counts_are_followed_with_their_jump() {
        let table = [
            ("S", 20_000, 12_000, 10_000),
            ("M", 2_000_000, 1_200_000, 100_000),
            ("L", 200_000_000, 120_000_000, 1_000_000),
            ("10MB", 20_000, 12_000, 10_000),
            ("15MB", 30_000, 18_000, 15_000),
            ("1000MB", 2_000_000, 1_200_000, 1_000_000),
            ("1GB", 2_000_000, 1_200_000, 100_000),
            ("4GB", 8_000_000, 4_800_000, 40_000),
            ("10GB", 20_000_000, 12_000_000, 100_000),
            ("100GB", 200_000_000, 120_000_000, 1_000_000),
        ];
        for (label, customers, orders, products) in table {
            let store = Store::ds2(label.parse().unwrap(), 1);
            assert_eq!(
                (store.customers, store.orders, store.products),
                (customers, orders, products),
                "{label}"
            );
        }
        assert_eq!(Store::ds2(Ds2Size::Large, 1).special_one_in(), 10_000);
        assert_eq!(Store::ds2(Ds2Size::Medium, 1).special_one_in(), 100);
    }
}
