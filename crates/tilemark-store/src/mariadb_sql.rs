//! The text of a purchase on MariaDB: several statements in a message, all values whole numbers.

use std::fmt::{self, Write};

use crate::session::{Cart, Item, Receipt};

/// Writes a list, its parts made one by one.
fn write_list(
    out: &mut String,
    items: &[Item],
    between: &str,
    mut part: impl FnMut(&mut String, usize, &Item) -> fmt::Result,
) -> fmt::Result {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(between);
        }
        part(out, at, item)?;
    }
    Ok(())
}

/// Begins the transaction, reads the prices and locks the stocks: a row of product, price in hundredths and stock for each
/// product that has both. The index is forced: on a small table the server would rather read every row, and lock it.
pub(crate) fn write_look(out: &mut String, wanted: &[Item]) -> fmt::Result {
    out.push_str(
        "START TRANSACTION; SELECT prod_id, (SELECT CAST(p.price * 100 AS SIGNED) FROM products p \
         WHERE p.prod_id = i.prod_id) AS cents, quan_in_stock FROM inventory i FORCE INDEX (PRIMARY) WHERE prod_id IN (",
    );
    write_list(out, wanted, ", ", |out, _, item| write!(out, "{}", item.prod_id))?;
    out.push_str(") HAVING cents IS NOT NULL ORDER BY prod_id FOR UPDATE");
    Ok(())
}

/// The order, the stock, the lines, the history and the commit.
pub(crate) fn write_order(out: &mut String, cart: &Cart, wanted: &[Item], receipt: &Receipt) -> fmt::Result {
    let customer = cart.customer_id;
    write!(
        out,
        "INSERT INTO orders (orderdate, customerid, netamount, tax, totalamount) \
         VALUES (CURRENT_DATE, {customer}, {} / 100, {} / 100, {} / 100); UPDATE inventory FORCE INDEX (PRIMARY) SET ",
        receipt.net_cents,
        receipt.tax_cents,
        receipt.total_cents()
    )?;
    for (column, sign) in [("quan_in_stock", '-'), ("sales", '+')] {
        write!(out, "{column} = {column} {sign} CASE prod_id ")?;
        write_list(out, wanted, " ", |out, _, item| {
            write!(out, "WHEN {} THEN {}", item.prod_id, item.quantity)
        })?;
        out.push_str(if sign == '-' { " END, " } else { " END WHERE prod_id IN (" });
    }
    write_list(out, wanted, ", ", |out, _, item| write!(out, "{}", item.prod_id))?;
    out.push_str("); INSERT INTO orderlines (orderlineid, orderid, prod_id, quantity, orderdate) VALUES ");
    write_list(out, &cart.items, ", ", |out, at, item| {
        write!(out, "({}, LAST_INSERT_ID(), {}, {}, CURRENT_DATE)", at + 1, item.prod_id, item.quantity)
    })?;
    out.push_str("; INSERT INTO cust_hist (customerid, orderid, prod_id) VALUES ");
    write_list(out, &cart.items, ", ", |out, _, item| {
        write!(out, "({customer}, LAST_INSERT_ID(), {})", item.prod_id)
    })?;
    out.push_str("; COMMIT");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purchase_is_five_statements_with_each_product_once_in_stock_and_each_line_kept() {
        let item = |prod_id, quantity| Item { prod_id, quantity };
        let cart = Cart { customer_id: 7, items: vec![item(9, 1), item(2, 3), item(9, 2)] };
        let receipt = Receipt { order_id: 0, net_cents: 1_998, tax_cents: 165 };
        let mut text = String::new();
        write_order(&mut text, &cart, &cart.by_product(), &receipt).unwrap();
        let statements: Vec<&str> = text.split("; ").collect();
        assert_eq!(statements.len(), 5);
        assert!(statements[0].ends_with("VALUES (CURRENT_DATE, 7, 1998 / 100, 165 / 100, 2163 / 100)"));
        let taken = "CASE prod_id WHEN 2 THEN 3 WHEN 9 THEN 3 END";
        assert!(
            statements[1].contains(&format!(
                "quan_in_stock - {taken}, sales = sales + {taken} WHERE prod_id IN (2, 9)"
            ))
        );
        assert!(statements[2].ends_with(
            "(1, LAST_INSERT_ID(), 9, 1, CURRENT_DATE), (2, LAST_INSERT_ID(), 2, 3, CURRENT_DATE), \
             (3, LAST_INSERT_ID(), 9, 2, CURRENT_DATE)"
        ));
        assert_eq!(statements[4], "COMMIT");
    }
}
