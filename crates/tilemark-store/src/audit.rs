//! Does the database hold exactly what was confirmed to its clients? Orders, lines, money, history, stock, customers.
//!
//! Every order has a number and a fingerprint on both sides, and every product its pieces, so a difference is found even
//! where sums agree by chance, and it is named.

use serde::Serialize;

use crate::books::{Books, HistoryRow, OrderLine, Snapshot};
use crate::error::StoreError;
use crate::ledger::{Confirmed, ConfirmedOrder, Fingerprint, RowSum};
use crate::session::tax_cents;

/// How many cases of one kind are named; the rest is counted.
const NAMED: usize = 5;

/// What the audit found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// Whether everything agrees.
    pub agrees: bool,
    /// What does not, one sentence each.
    pub findings: Vec<String>,
    /// Orders compared one by one.
    pub orders: u64,
    /// Their lines.
    pub lines: u64,
    /// Products whose stock, sales and deliveries were compared.
    pub products: u64,
    /// New customers found again.
    pub customers: u64,
    /// Money of all these orders without tax, in hundredths, as the database holds it.
    pub net_cents: i64,
}

/// Compares the books with what was confirmed to the clients since `before`.
pub fn audit(
    books: &mut dyn Books,
    before: &Snapshot,
    confirmed: &Confirmed,
) -> Result<AuditReport, StoreError> {
    let mut orders = OrderAudit::new(&confirmed.orders);
    books.orders_after(before.last_order, &mut |line| orders.see(&line))?;
    orders.finish();
    let mut findings = orders.findings();
    if orders.net_cents != confirmed.net_cents && findings.is_empty() {
        findings.push(format!(
            "orders hold {} cents, clients were confirmed {}",
            orders.net_cents, confirmed.net_cents
        ));
    }

    let mut history = RowSum::default();
    books.history_after(before.last_order, &mut |HistoryRow { customer_id, order_id, prod_id }| {
        history.add_history(customer_id, order_id, prod_id);
    })?;
    if history != confirmed.history {
        let (found, confirmed) = (history.rows, confirmed.history.rows);
        findings
            .push(format!("history differs: {found} rows in the database, {confirmed} confirmed to clients"));
    }

    let mut customers = Cases::default();
    let mut awaited = confirmed.customers.iter().copied().peekable();
    books.customers_after(before.last_customer, &mut |id| {
        while let Some(lost) = awaited.next_if(|&next| next < id) {
            customers.add(lost);
        }
        awaited.next_if_eq(&id);
    })?;
    awaited.for_each(|lost| customers.add(lost));
    customers.tell("new customers that were confirmed to clients are missing", &mut findings);

    findings.extend(stock_findings(before, &books.snapshot()?, confirmed));
    if confirmed.in_doubt > 0 {
        let doubt = confirmed.in_doubt;
        findings
            .push(format!("{doubt} orders are in doubt: the connection was lost before their answer came"));
    }
    Ok(AuditReport {
        agrees: findings.is_empty(),
        findings,
        orders: orders.orders,
        lines: orders.lines,
        products: before.shelves.len() as u64,
        customers: confirmed.customers.len() as u64 - customers.count,
        net_cents: orders.net_cents,
    })
}

/// Each product: what was there and came, less what was sold, must be there now.
fn stock_findings(before: &Snapshot, after: &Snapshot, confirmed: &Confirmed) -> Vec<String> {
    let mut findings = Vec::new();
    if before.shelves.len() != after.shelves.len() {
        findings.push(format!(
            "inventory had {} products and has {}",
            before.shelves.len(),
            after.shelves.len()
        ));
    }
    let mut stock = Cases::default();
    let mut sales = Cases::default();
    let mut deliveries = Cases::default();
    let confirmed_pieces = confirmed.sold.iter().zip(&confirmed.delivered);
    for (id, ((old, new), (&sold, &delivered))) in
        (1..).zip(before.shelves.iter().zip(&after.shelves).zip(confirmed_pieces))
    {
        // A server may say any number: what wraps is no agreement that a real store could reach.
        if new.in_stock != old.in_stock.wrapping_sub(sold).wrapping_add(delivered) {
            stock.add(id);
        }
        if new.sales != old.sales.wrapping_add(sold) {
            sales.add(id);
        }
        if new.delivered != old.delivered.wrapping_add(delivered) {
            deliveries.add(id);
        }
    }
    stock.tell("products have a stock that sales and deliveries do not explain", &mut findings);
    sales.tell("products have other sales than were confirmed to clients", &mut findings);
    deliveries.tell("products have other deliveries than were confirmed to clients", &mut findings);
    findings
}

/// Ids of one kind of finding.
#[derive(Default)]
struct Cases {
    count: u64,
    named: Vec<i64>,
}

impl Cases {
    fn add(&mut self, id: i64) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(id);
        }
    }

    fn tell(&self, what: &str, findings: &mut Vec<String>) {
        if self.count > 0 {
            let named: Vec<String> = self.named.iter().map(i64::to_string).collect();
            let more = if self.count > self.named.len() as u64 { ", …" } else { "" };
            findings.push(format!("{} {what}: {}{more}", self.count, named.join(", ")));
        }
    }
}

/// Walks the orders of the database and those confirmed side by side; both rise by id.
struct OrderAudit<'a> {
    confirmed: std::iter::Peekable<std::slice::Iter<'a, ConfirmedOrder>>,
    open: Option<OpenOrder>,
    orders: u64,
    lines: u64,
    net_cents: i64,
    lost: Cases,
    not_reported: Cases,
    altered: Cases,
    wrong_sum: Cases,
}

/// The order whose lines are being read.
struct OpenOrder {
    id: i64,
    net_cents: i64,
    tax_cents: i64,
    total_cents: i64,
    priced_cents: Option<i64>,
    fingerprint: Fingerprint,
}

impl<'a> OrderAudit<'a> {
    fn new(confirmed: &'a [ConfirmedOrder]) -> Self {
        Self {
            confirmed: confirmed.iter().peekable(),
            open: None,
            orders: 0,
            lines: 0,
            net_cents: 0,
            lost: Cases::default(),
            not_reported: Cases::default(),
            altered: Cases::default(),
            wrong_sum: Cases::default(),
        }
    }

    fn see(&mut self, line: &OrderLine) {
        if self.open.as_ref().is_none_or(|order| order.id != line.order_id) {
            self.close();
            let customer = line.customer_id.unwrap_or(-1);
            self.open = Some(OpenOrder {
                id: line.order_id,
                net_cents: line.net_cents,
                tax_cents: line.tax_cents,
                total_cents: line.total_cents,
                priced_cents: Some(0),
                fingerprint: Fingerprint::of_order(
                    customer,
                    line.net_cents,
                    line.tax_cents,
                    line.total_cents,
                ),
            });
        }
        let order = self.open.as_mut().expect("it was just opened");
        if let (Some(number), Some(prod_id), Some(quantity)) = (line.number, line.prod_id, line.quantity) {
            self.lines += 1;
            order.fingerprint = order.fingerprint.line(number, prod_id, quantity);
            order.priced_cents = order
                .priced_cents
                .zip(line.price_cents)
                .and_then(|(sum, price)| sum.checked_add(price.checked_mul(quantity)?));
        }
    }

    fn close(&mut self) {
        let Some(order) = self.open.take() else { return };
        self.orders += 1;
        self.net_cents = self.net_cents.saturating_add(order.net_cents);
        let right = order.priced_cents == Some(order.net_cents)
            && order.tax_cents == tax_cents(order.net_cents)
            && Some(order.total_cents) == order.net_cents.checked_add(order.tax_cents);
        if !right {
            self.wrong_sum.add(order.id);
        }
        while let Some(lost) = self.confirmed.next_if(|confirmed| confirmed.id < order.id) {
            self.lost.add(lost.id);
        }
        match self.confirmed.next_if(|confirmed| confirmed.id == order.id) {
            Some(confirmed) if confirmed.fingerprint == order.fingerprint => {}
            Some(confirmed) => self.altered.add(confirmed.id),
            None => self.not_reported.add(order.id),
        }
    }

    fn finish(&mut self) {
        self.close();
        for lost in self.confirmed.by_ref() {
            self.lost.add(lost.id);
        }
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        self.lost.tell("orders that were confirmed to clients are not in the database", &mut findings);
        self.not_reported.tell("orders are in the database that were confirmed to no client", &mut findings);
        self.altered.tell("orders differ from what was confirmed to their clients", &mut findings);
        self.wrong_sum.tell("orders have amounts that their lines do not add up to", &mut findings);
        findings
    }
}
