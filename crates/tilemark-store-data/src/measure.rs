//! How many bytes the rows will take, worked out without making them.

use crate::plan::Store;
use crate::rows::{ADDRESS_TAIL, MAIL_TAIL, NET_CENTS_MAX, PASSWORD, USER, tax_cents};
use crate::table::Table;
use crate::words;

/// Bytes of a table's CSV: exact where a row's length is fixed by its id, the mean where it is drawn.
pub(crate) fn expected_bytes(store: &Store, table: Table) -> u64 {
    let orders = store.orders as f64;
    let customer_ref = id_digits(store.customers) / store.customers as f64;
    let product_ref = id_digits(store.products) / store.products as f64;
    let bytes = match table {
        Table::Categories => {
            (1..).zip(words::CATEGORIES).map(|(id, name)| digits(id) + name.len() as f64 + 2.0).sum()
        }
        Table::Products => {
            // Category: 9 of one digit, 7 of two. Title of 15 letters, actor of 13, price 4 or 5, special 1.
            let drawn = 23.0 / 16.0 + 15.0 + 13.0 + (4.0 + 20.0 * 5.0) / 21.0 + 1.0 + product_ref;
            id_digits(store.products) + store.products as f64 * (drawn + 7.0)
        }
        Table::Customers => customers(store),
        Table::Orders => {
            let drawn = 10.0 + customer_ref + mean_money_digits();
            id_digits(store.orders) + orders * (drawn + 6.0)
        }
        Table::Orderlines => {
            5.0 * (id_digits(store.orders) + orders * (1.0 + product_ref + 1.0 + 10.0 + 5.0))
        }
        Table::CustHist => 5.0 * (id_digits(store.orders) + orders * (customer_ref + product_ref + 3.0)),
        Table::Inventory => {
            let sold = (orders * 10.0 / store.products as f64).round() as u64;
            id_digits(store.products) + store.products as f64 * (mean_stock_digits() + digits(sold) + 3.0)
        }
    };
    bytes.round() as u64
}

fn customers(store: &Store) -> f64 {
    let americans = store.customers.div_ceil(2) as f64;
    let others = store.customers as f64 - americans;
    let country = words::COUNTRIES.iter().map(|name| name.len()).sum::<usize>() as f64 / 10.0;
    let names = 6 + 10 + 10 + ADDRESS_TAIL.len() + 7 + 10 + MAIL_TAIL.len() + 10;
    let codes = 5 + 1 + 1 + 16 + 7 + USER.len() + PASSWORD.len() + 2 + 1;
    // Incomes are 20,000 to 100,000 in fives: one in five has six digits.
    let drawn = (names + codes) as f64 + 5.2;
    2.0 * id_digits(store.customers)
        + store.customers as f64 * (drawn + 20.0)
        + americans * 4.0
        + others * country
}

fn digits(value: u64) -> f64 {
    f64::from(value.checked_ilog10().map_or(1, |log| log + 1))
}

/// Digits of all numbers from 1 to `last` together.
fn id_digits(last: u64) -> f64 {
    let mut sum = 0;
    let mut first = 1_u64;
    let mut width = 1_u64;
    while first <= last {
        let end = last.min(first.saturating_mul(10) - 1);
        sum += (end - first + 1) * width;
        first = first.saturating_mul(10);
        width += 1;
    }
    sum as f64
}

/// Mean length of net, tax and total together, over all amounts that can be drawn.
fn mean_money_digits() -> f64 {
    let length = |cents: u64| digits(cents / 100) + 3.0;
    let all: f64 = (1..=NET_CENTS_MAX)
        .map(|net| length(net) + length(tax_cents(net)) + length(net + tax_cents(net)))
        .sum();
    all / NET_CENTS_MAX as f64
}

/// Mean digits of a stock of 0 to 500. The few hot products, one in 10,000, do not count.
fn mean_stock_digits() -> f64 {
    (0..=500).map(digits).sum::<f64>() / 501.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_a_range_equal_the_sum_of_the_parts() {
        for last in [1, 9, 10, 12_345] {
            assert_eq!(id_digits(last), (1..=last).map(digits).sum::<f64>());
        }
        assert_eq!(digits(0), 1.0);
        assert_eq!(mean_stock_digits(), (10.0 + 180.0 + 401.0 * 3.0) / 501.0);
    }
}
