//! The tables of the store.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A table that is generated. `reorder`, the store's eighth table, starts empty and has no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// The sixteen categories.
    Categories,
    /// What is sold.
    Products,
    /// Who buys.
    Customers,
    /// Orders of one year, in the order of their dates.
    Orders,
    /// The items of each order.
    Orderlines,
    /// What each customer bought: one row for each order line.
    CustHist,
    /// Stock and sales of each product; sales are the sum of what the order lines sold.
    Inventory,
}

impl Table {
    /// All tables; each comes after the tables that its keys point to, and inventory after the lines it sums up.
    pub const ALL: [Table; 7] = [
        Table::Categories,
        Table::Products,
        Table::Customers,
        Table::Orders,
        Table::Orderlines,
        Table::CustHist,
        Table::Inventory,
    ];

    /// The name of the table in the database; the file is this with `.csv`.
    pub fn name(self) -> &'static str {
        match self {
            Table::Categories => "categories",
            Table::Products => "products",
            Table::Customers => "customers",
            Table::Orders => "orders",
            Table::Orderlines => "orderlines",
            Table::CustHist => "cust_hist",
            Table::Inventory => "inventory",
        }
    }

    /// The columns in the order in which a row holds them.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Table::Categories => &["category", "categoryname"],
            Table::Products => {
                &["prod_id", "category", "title", "actor", "price", "special", "common_prod_id"]
            }
            Table::Customers => &[
                "customerid",
                "firstname",
                "lastname",
                "address1",
                "address2",
                "city",
                "state",
                "zip",
                "country",
                "region",
                "email",
                "phone",
                "creditcardtype",
                "creditcard",
                "creditcardexpiration",
                "username",
                "password",
                "age",
                "income",
                "gender",
            ],
            Table::Orders => &["orderid", "orderdate", "customerid", "netamount", "tax", "totalamount"],
            Table::Orderlines => &["orderlineid", "orderid", "prod_id", "quantity", "orderdate"],
            Table::CustHist => &["customerid", "orderid", "prod_id"],
            Table::Inventory => &["prod_id", "quan_in_stock", "sales"],
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
