//! The database's own account of what happened, read before and after a run.

use crate::address::{DatabaseAddress, DatabaseKind};
use crate::console::{Console, int};
use crate::error::StoreError;
use crate::open_console::open_console;

/// Stock and sales of one product.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shelves {
    /// Pieces there.
    pub in_stock: i64,
    /// Pieces ever sold.
    pub sales: i64,
    /// Pieces ever delivered, by the rows of `reorder`.
    pub delivered: i64,
}

/// What a run changes, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Product with id i is at i - 1.
    pub shelves: Vec<Shelves>,
    /// The last order's id.
    pub last_order: i64,
    /// The last customer's id.
    pub last_customer: i64,
}

/// A line of an order, with the order and the product's price. An order without lines has none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderLine {
    /// The order.
    pub order_id: i64,
    /// Who bought; `None` if the order lost its customer.
    pub customer_id: Option<i64>,
    /// As the order says.
    pub net_cents: i64,
    /// As the order says.
    pub tax_cents: i64,
    /// As the order says.
    pub total_cents: i64,
    /// The line's number, if there is a line.
    pub number: Option<i64>,
    /// Its product.
    pub prod_id: Option<i64>,
    /// Its quantity.
    pub quantity: Option<i64>,
    /// The product's price; `None` if there is no such product.
    pub price_cents: Option<i64>,
}

/// One row of a customer's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// Who.
    pub customer_id: i64,
    /// In which order.
    pub order_id: i64,
    /// What.
    pub prod_id: i64,
}

/// Products of the largest store that is audited: that of 10 TB of data. Each takes 40 bytes of memory here.
pub(crate) const PRODUCTS_MAX: u64 = 10_000_000;

/// Reads the account. A trait, so that the audit can be tried on books with planted defects.
pub trait Books {
    /// Stock, sales and last ids as they are now.
    fn snapshot(&mut self) -> Result<Snapshot, StoreError>;
    /// Lines of all orders above `order_id`, by rising order and line.
    fn orders_after(&mut self, order_id: i64, each: &mut dyn FnMut(OrderLine)) -> Result<(), StoreError>;
    /// History of all orders above `order_id`, in any order.
    fn history_after(&mut self, order_id: i64, each: &mut dyn FnMut(HistoryRow)) -> Result<(), StoreError>;
    /// Ids of all customers above `customer_id`, rising.
    fn customers_after(&mut self, customer_id: i64, each: &mut dyn FnMut(i64)) -> Result<(), StoreError>;
}

/// The books of a real database.
pub struct DatabaseBooks {
    kind: DatabaseKind,
    console: Box<dyn Console>,
}

impl DatabaseBooks {
    /// Connects.
    pub fn open(address: &DatabaseAddress) -> Result<Self, StoreError> {
        Ok(Self { kind: address.kind, console: open_console(address)? })
    }

    fn ints(&self, columns: &[&str]) -> String {
        columns.iter().map(|column| int(self.kind, column)).collect::<Vec<_>>().join(", ")
    }
}

impl Books for DatabaseBooks {
    fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        let last = |table: &str, key: &str| {
            format!("SELECT {} FROM {table}", int(self.kind, &format!("COALESCE(MAX({key}), 0)")))
        };
        let (last_order, last_customer) = (last("orders", "orderid"), last("customers", "customerid"));
        let stock = format!(
            "SELECT {} FROM inventory ORDER BY prod_id",
            self.ints(&["prod_id", "quan_in_stock", "sales"])
        );
        let deliveries = format!(
            "SELECT {} FROM reorder GROUP BY prod_id",
            self.ints(&["prod_id", "SUM(quan_reordered)"])
        );
        let mut shelves: Vec<Shelves> = Vec::new();
        self.console.numbers(&stock, 3, &mut |row| {
            if let Some(place) = place(&mut shelves, row[0]) {
                place.in_stock = row[1].unwrap_or_default();
                place.sales = row[2].unwrap_or_default();
            }
        })?;
        self.console.numbers(&deliveries, 2, &mut |row| {
            if let Some(place) = place(&mut shelves, row[0]) {
                place.delivered = row[1].unwrap_or_default();
            }
        })?;
        let last_order = self.console.number(&last_order)?;
        let last_customer = self.console.number(&last_customer)?;
        Ok(Snapshot { shelves, last_order, last_customer })
    }

    fn orders_after(&mut self, order_id: i64, each: &mut dyn FnMut(OrderLine)) -> Result<(), StoreError> {
        const COLUMNS: usize = 9;
        let columns = self.ints(&[
            "o.orderid",
            "o.customerid",
            "o.netamount * 100",
            "o.tax * 100",
            "o.totalamount * 100",
            "l.orderlineid",
            "l.prod_id",
            "l.quantity",
            "p.price * 100",
        ]);
        let sql = format!(
            "SELECT {columns} FROM orders o LEFT JOIN orderlines l ON l.orderid = o.orderid \
             LEFT JOIN products p ON p.prod_id = l.prod_id WHERE o.orderid > {order_id} ORDER BY o.orderid, l.orderlineid"
        );
        self.console.numbers(&sql, COLUMNS, &mut |row| {
            let number = |column: usize| row[column].unwrap_or_default();
            each(OrderLine {
                order_id: number(0),
                customer_id: row[1],
                net_cents: number(2),
                tax_cents: number(3),
                total_cents: number(4),
                number: row[5],
                prod_id: row[6],
                quantity: row[7],
                price_cents: row[8],
            });
        })
    }

    fn history_after(&mut self, order_id: i64, each: &mut dyn FnMut(HistoryRow)) -> Result<(), StoreError> {
        let columns = self.ints(&["customerid", "orderid", "prod_id"]);
        let sql = format!("SELECT {columns} FROM cust_hist WHERE orderid > {order_id}");
        self.console.numbers(&sql, 3, &mut |row| {
            let number = |column: usize| row[column].unwrap_or_default();
            each(HistoryRow { customer_id: number(0), order_id: number(1), prod_id: number(2) });
        })
    }

    fn customers_after(&mut self, customer_id: i64, each: &mut dyn FnMut(i64)) -> Result<(), StoreError> {
        let id = self.ints(&["customerid"]);
        let sql = format!("SELECT {id} FROM customers WHERE customerid > {customer_id} ORDER BY customerid");
        self.console.numbers(&sql, 1, &mut |row| each(row[0].unwrap_or_default()))
    }
}

/// The place of a product, made if it is not there yet. Ids that cannot be are left out; the audit then misses them.
fn place(shelves: &mut Vec<Shelves>, prod_id: Option<i64>) -> Option<&mut Shelves> {
    let at = prod_id.filter(|id| (1..=PRODUCTS_MAX as i64).contains(id))? as usize - 1;
    if shelves.len() <= at {
        shelves.resize(at + 1, Shelves::default());
    }
    shelves.get_mut(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_cannot_be_take_no_memory() {
        let mut shelves = Vec::new();
        for id in [None, Some(i64::MIN), Some(-1), Some(0), Some(i64::MAX), Some(PRODUCTS_MAX as i64 + 1)] {
            assert!(place(&mut shelves, id).is_none(), "{id:?}");
        }
        assert!(shelves.is_empty());
        assert!(place(&mut shelves, Some(3)).is_some());
        assert_eq!(shelves.len(), 3);
    }
}
