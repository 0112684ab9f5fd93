//! What a run promises, on a store in memory that can be made to go wrong: every defect is found and named, deadlocks
//! are tried again, lost connections make the run not trusted.

#![allow(clippy::unwrap_used)] // Helpers of tests are outside of test functions.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tilemark_plan::scenario::Arrival;
use tilemark_store::{
    Books, Cart, Demand, HistoryRow, Item, LoadResult, NewCustomer, OrderLine, Pace, Purchase, Receipt,
    Search, Session, Shelves, Snapshot, Status, StoreError, StoreFacts, run_load_with,
};

const PRODUCTS: usize = 50;
const CUSTOMERS: i64 = 100;
const PRICE_CENTS: i64 = 999;

/// What goes wrong, once, at the tenth purchase or the first shortage.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Defect {
    None,
    LostOrder,
    OrderTwice,
    WrongStock,
    WrongSales,
    WrongQuantity,
    WrongMoney,
    MissingHistory,
    MissingCustomer,
    PartialRollback,
    SilentDelivery,
}

struct Order {
    customer_id: i64,
    items: Vec<Item>,
    net_cents: i64,
}

#[derive(Default)]
struct State {
    shelves: Vec<Shelves>,
    orders: BTreeMap<i64, Order>,
    history: Vec<HistoryRow>,
    customers: Vec<i64>,
    last_id: i64,
    purchases: u64,
    deadlocks: u64,
}

/// A store in memory and its books.
#[derive(Clone)]
struct FakeStore {
    state: Arc<Mutex<State>>,
    defect: Defect,
    stop: Arc<AtomicBool>,
    deadlock_every: u64,
    lost_at: u64,
    stopped_at: u64,
    /// How long each purchase takes.
    slow: Duration,
}

fn tax(net: i64) -> i64 {
    (net * 825 + 5_000) / 10_000
}

impl FakeStore {
    fn new(defect: Defect) -> Self {
        let shelves = vec![Shelves { in_stock: 40, sales: 7, delivered: 3 }; PRODUCTS];
        let state = State { shelves, last_id: 1_000, customers: vec![CUSTOMERS], ..State::default() };
        Self {
            state: Arc::new(Mutex::new(state)),
            defect,
            stop: Arc::default(),
            deadlock_every: u64::MAX,
            lost_at: u64::MAX,
            stopped_at: 300,
            slow: Duration::ZERO,
        }
    }

    /// Runs two clients until 300 purchases were tried.
    fn run(&self) -> LoadResult {
        self.run_as(Demand::default())
    }

    /// Runs two clients with the pace of this demand for an hour, or until enough purchases were tried.
    fn run_as(&self, demand: Demand) -> LoadResult {
        self.run_for(Duration::from_secs(3_600), demand)
    }

    /// Runs two clients with the pace of this demand for so long, or until enough purchases were tried.
    fn run_for(&self, measure: Duration, demand: Demand) -> LoadResult {
        let demand = Demand { clients: 2, warmup: Duration::ZERO, measure, ..demand };
        let facts = StoreFacts {
            server: "fake".to_owned(),
            settings: Vec::new(),
            customers: CUSTOMERS as u64,
            products: PRODUCTS as u64,
        };
        let open = |_| Ok(Box::new(self.clone()) as Box<dyn Session>);
        run_load_with(facts, &demand, open, &mut self.clone(), &self.stop).unwrap()
    }
}

impl Session for FakeStore {
    fn login(&mut self, username: &str, _: &str) -> Result<Option<i64>, StoreError> {
        Ok(username.strip_prefix("user").and_then(|id| id.parse().ok()))
    }

    fn new_customer(&mut self, _: &NewCustomer) -> Result<Option<i64>, StoreError> {
        let mut state = self.state.lock().unwrap();
        state.last_id += 1;
        let id = state.last_id;
        if !(self.defect == Defect::MissingCustomer && state.customers.len() == 5) {
            state.customers.push(id);
        } else {
            state.customers.push(0);
        }
        Ok(Some(id))
    }

    fn browse(&mut self, search: &Search) -> Result<u64, StoreError> {
        Ok(u64::from(search.limit))
    }

    fn purchase(&mut self, cart: &Cart) -> Result<Purchase, StoreError> {
        std::thread::sleep(self.slow);
        let state = &mut *self.state.lock().unwrap();
        state.purchases += 1;
        if state.purchases >= self.stopped_at {
            self.stop.store(true, Ordering::Relaxed);
        }
        if state.purchases == self.lost_at {
            return Err(StoreError::Lost { source: "the wire was cut".into() });
        }
        if state.purchases.is_multiple_of(self.deadlock_every) {
            state.deadlocks += 1;
            return Err(StoreError::Deadlock { source: "chosen as the victim".into() });
        }
        let wanted = cart.by_product();
        let short = wanted
            .iter()
            .find(|item| state.shelves[item.prod_id as usize - 1].in_stock < i64::from(item.quantity));
        if let Some(&short) = short {
            if self.defect == Defect::PartialRollback {
                // The first line's stock was written before the shortage was met, and stays written.
                state.shelves[cart.items[0].prod_id as usize - 1].in_stock -= 1;
            }
            return Ok(Purchase::Short(short));
        }
        let planted = state.purchases == 10;
        let plant = |defect| planted && self.defect == defect;
        for item in &wanted {
            let shelf = &mut state.shelves[item.prod_id as usize - 1];
            shelf.in_stock -= i64::from(item.quantity);
            shelf.sales += i64::from(item.quantity);
        }
        let first = cart.items[0].prod_id as usize - 1;
        if plant(Defect::WrongStock) {
            // The sum over all products stays right.
            state.shelves[first].in_stock += 1;
            state.shelves[(first + 1) % PRODUCTS].in_stock -= 1;
        }
        if plant(Defect::WrongSales) {
            state.shelves[first].sales -= 1;
        }
        state.last_id += 1;
        let order_id = state.last_id;
        let quantity: i64 = cart.items.iter().map(|item| i64::from(item.quantity)).sum();
        let net_cents = quantity * PRICE_CENTS;
        let mut items = cart.items.clone();
        if plant(Defect::WrongQuantity) {
            items[0].quantity += 1;
        }
        let customer_id = i64::from(cart.customer_id);
        let kept = usize::from(plant(Defect::MissingHistory));
        let history = cart.items.iter().skip(kept);
        state.history.extend(history.map(|item| HistoryRow {
            customer_id,
            order_id,
            prod_id: i64::from(item.prod_id),
        }));
        let wrong = i64::from(plant(Defect::WrongMoney)) * 100;
        if plant(Defect::OrderTwice) {
            state.last_id += 1;
            state.orders.insert(state.last_id, Order { customer_id, items: items.clone(), net_cents });
        }
        if !plant(Defect::LostOrder) {
            state.orders.insert(order_id, Order { customer_id, items, net_cents: net_cents + wrong });
        }
        Ok(Purchase::Committed(Receipt { order_id, net_cents, tax_cents: tax(net_cents) }))
    }

    fn restock(&mut self, short: Item, delivery: i32) -> Result<bool, StoreError> {
        let state = &mut *self.state.lock().unwrap();
        let shelf = &mut state.shelves[short.prod_id as usize - 1];
        if shelf.in_stock >= i64::from(short.quantity) {
            return Ok(false);
        }
        shelf.in_stock += i64::from(delivery);
        if self.defect != Defect::SilentDelivery {
            shelf.delivered += i64::from(delivery);
        }
        Ok(true)
    }
}

impl Books for FakeStore {
    fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        let state = self.state.lock().unwrap();
        let last_customer = state.customers.iter().copied().max().unwrap();
        Ok(Snapshot { shelves: state.shelves.clone(), last_order: 1_000, last_customer })
    }

    fn orders_after(&mut self, order_id: i64, each: &mut dyn FnMut(OrderLine)) -> Result<(), StoreError> {
        for (&order_id, order) in self.state.lock().unwrap().orders.range(order_id + 1..) {
            for (number, item) in (1..).zip(&order.items) {
                each(OrderLine {
                    order_id,
                    customer_id: Some(order.customer_id),
                    net_cents: order.net_cents,
                    tax_cents: tax(order.net_cents),
                    total_cents: order.net_cents + tax(order.net_cents),
                    number: Some(number),
                    prod_id: Some(i64::from(item.prod_id)),
                    quantity: Some(i64::from(item.quantity)),
                    price_cents: Some(PRICE_CENTS),
                });
            }
        }
        Ok(())
    }

    fn history_after(&mut self, order_id: i64, each: &mut dyn FnMut(HistoryRow)) -> Result<(), StoreError> {
        let state = self.state.lock().unwrap();
        state.history.iter().filter(|row| row.order_id > order_id).for_each(|row| each(*row));
        Ok(())
    }

    fn customers_after(&mut self, customer_id: i64, each: &mut dyn FnMut(i64)) -> Result<(), StoreError> {
        let mut ids = self.state.lock().unwrap().customers.clone();
        ids.sort_unstable();
        ids.into_iter().filter(|&id| id > customer_id).for_each(each);
        Ok(())
    }
}

#[test]
fn a_store_without_defects_agrees() {
    let store = FakeStore::new(Defect::None);
    let result = store.run();
    let audit = result.audit_report.unwrap();
    assert!(audit.agrees, "{:?}", audit.findings);
    assert_eq!(audit.orders, result.orders);
    assert_eq!(result.orders_by_second.iter().map(|&orders| u64::from(orders)).sum::<u64>(), result.orders);
    assert!(result.rollbacks > 0, "40 pieces of 50 products cannot serve 300 carts without a shortage");
    assert!(audit.customers > 0 && audit.lines > audit.orders);
    assert_eq!(result.errors, 0);
    assert_eq!(result.verdict.status, Status::NotTrusted, "it was stopped early: {:?}", result.verdict);
}

#[test]
fn every_planted_defect_is_found_and_named() {
    for (defect, named) in [
        (Defect::LostOrder, "1 orders that were confirmed to clients are not in the database: "),
        (Defect::OrderTwice, "1 orders are in the database that were confirmed to no client: "),
        (Defect::WrongStock, "2 products have a stock that sales and deliveries do not explain: "),
        (Defect::WrongSales, "1 products have other sales than were confirmed to clients: "),
        (Defect::WrongQuantity, "1 orders differ from what was confirmed to their clients: "),
        (Defect::WrongMoney, "1 orders have amounts that their lines do not add up to: "),
        (Defect::MissingHistory, "history differs: "),
        (Defect::MissingCustomer, "1 new customers that were confirmed to clients are missing: "),
        (Defect::PartialRollback, "products have a stock that sales and deliveries do not explain: "),
        (Defect::SilentDelivery, "products have other deliveries than were confirmed to clients: "),
    ] {
        let result = FakeStore::new(defect).run();
        let audit = result.audit_report.unwrap();
        assert!(!audit.agrees, "{defect:?} was not found");
        assert!(
            audit.findings.iter().any(|finding| finding.contains(named)),
            "{defect:?}: {:?}",
            audit.findings
        );
        assert_eq!(result.verdict.status, Status::NotTrusted, "{defect:?}");
    }
}

#[test]
fn a_deadlock_is_tried_again_and_harms_nothing() {
    let store = FakeStore { deadlock_every: 7, ..FakeStore::new(Defect::None) };
    let result = store.run();
    assert!(result.audit_report.unwrap().agrees);
    assert_eq!(result.errors, 0);
    assert_eq!(result.retries, store.state.lock().unwrap().deadlocks);
    assert!(result.retries >= 42);
}

#[test]
fn a_lost_connection_ends_its_client_and_the_trust_but_not_the_run() {
    let store = FakeStore { lost_at: 20, ..FakeStore::new(Defect::None) };
    let result = store.run();
    assert_eq!(result.verdict.status, Status::NotTrusted);
    let reasons = result.verdict.reasons.join("; ");
    assert!(reasons.contains("1 of 2 clients gave up"), "{reasons}");
    assert!(reasons.contains("the connection to the database was lost: the wire was cut"), "{reasons}");
    assert!(reasons.contains("1 orders are in doubt"), "{reasons}");
    assert!(result.orders > 100, "the other client went on: {}", result.orders);
}

/// Each would sleep for an hour or so otherwise.
#[test]
fn a_client_that_sleeps_hears_that_the_run_is_stopped() {
    let hour = Duration::from_secs(3_600);
    // Orders by chance begin at once.
    let rarely = Pace::Open { orders_per_second: 0.001, arrivals: Arrival::Poisson };
    for pace in [Pace::Closed { think_time: hour }, rarely] {
        let store = FakeStore { stopped_at: 1, ..FakeStore::new(Defect::None) };
        let result = store.run_as(Demand { pace, ..Demand::default() });
        assert!(result.audit_report.unwrap().agrees);
        assert!((1..=2).contains(&(result.orders + result.rollbacks)), "{pace:?}: {}", result.orders);
    }
}

/// Two clients do 20 orders a second of the 100 that are wanted: all 100 would take 5 s.
#[test]
fn orders_that_an_overloaded_store_keeps_waiting_are_given_up_and_counted_as_failed() {
    let slow = Duration::from_millis(100);
    let store = FakeStore { stopped_at: u64::MAX, slow, ..FakeStore::new(Defect::None) };
    let pace = Pace::Open { orders_per_second: 100.0, arrivals: Arrival::Even };
    let result = store.run_for(Duration::from_secs(1), Demand { pace, ..Demand::default() });
    let given_up = result.error_kinds.get("not begun within 2 s after the end: no client was free");
    assert!(given_up.is_some_and(|count| (1..100).contains(count)), "{:?}", result.error_kinds);
    assert_eq!(given_up, Some(&result.errors), "nothing else failed");
    assert!(result.audit_report.unwrap().agrees, "what was begun is in the store");
    assert_eq!(result.verdict.status, Status::NotTrusted);
}
