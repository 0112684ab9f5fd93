//! The whole store on real servers: load, run, audit, planted defects, bad input. Each test starts its own server and
//! says loudly when it cannot.

#![allow(clippy::unwrap_used)] // Helpers of tests are outside of test functions.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::{Server, load, small_store, start, start_with};
use mysql::prelude::Queryable;
use tilemark_plan::scenario::Arrival;
use tilemark_store::{
    Cart, DatabaseAddress, DatabaseBooks, DatabaseKind, Demand, Endpoint, Item, LoadProgress, LoadResult,
    NewCustomer, Pace, Purchase, Search, Secret, Session, Status, StoreError, indexes_sql, inspect,
    load_database, open_session, run_load, run_load_with, tables_sql,
};
use tilemark_store_data::{DataSize, Generator, Rule, Store, StoreDataError, Table, write_files};

fn demand(clients: u32) -> Demand {
    Demand { clients, warmup: Duration::ZERO, measure: Duration::from_secs(1), ..Demand::default() }
}

fn run(address: &DatabaseAddress, demand: &Demand) -> LoadResult {
    run_load(address, demand, &AtomicBool::new(false)).unwrap()
}

fn assert_agrees(result: &LoadResult) {
    let audit = result.audit_report.as_ref().expect("the database was audited");
    assert!(audit.agrees, "{:?}", audit.findings);
    assert_eq!(result.errors, 0, "{:?}", result.error_kinds);
    assert!(result.orders > 0 && audit.orders >= result.orders);
}

fn loading_and_running(kind: DatabaseKind) {
    let Some(server) = start(kind) else { return };
    let address = server.database("store");
    match inspect(&address, 1).unwrap_err() {
        StoreError::WrongSchema { problems } => {
            assert_eq!(problems.len(), 8, "every table is missing: {problems:?}")
        }
        other => panic!("{other}"),
    }
    let seen = load(&address).unwrap();
    assert!(
        matches!(seen.first(), Some(LoadProgress::Rows { .. }))
            && seen.last() == Some(&LoadProgress::Checking)
    );
    let facts = inspect(&address, 8).unwrap();
    assert_eq!((facts.customers, facts.products), (4_000, 1_000));
    assert!(
        facts
            .settings
            .iter()
            .any(|setting| ["fsync", "innodb_flush_log_at_trx_commit"].contains(&setting.name))
    );
    assert!(matches!(load(&address), Err(StoreError::AlreadyLoaded(_))));
    let taken = server.database("taken");
    server.sql("taken", "CREATE TABLE theirs (x int)");
    let error = load(&taken).unwrap_err();
    assert_eq!(error.to_string(), "the database is not empty: it has table `theirs`");
    server.sql("taken", "INSERT INTO theirs VALUES (1)");

    let result = run(&address, &demand(8));
    assert_agrees(&result);
    for step in ["login", "new_customer", "browse", "purchase", "order"] {
        assert!(result.latency_ms.contains_key(step), "{step} was never done");
    }
    assert!(result.client_cpu_s > 0.0 && result.send_lateness_us.is_none());
    let pace = Pace::Open { orders_per_second: 50.0, arrivals: Arrival::Even };
    let result = run(&address, &Demand { pace, ..demand(8) });
    assert_agrees(&result);
    assert!(result.send_lateness_us.is_some() && result.orders + result.rollbacks <= 50);
    server.check_books("store");
}

/// Twenty products and sixteen clients: every order meets the locks of others, shortages and restocks.
fn contention(kind: DatabaseKind) {
    let Some(server) = start(kind) else { return };
    let address = server.database("store");
    let store = Store { rule: Rule::Smooth, seed: 7, customers: 200, orders: 100, products: 20 };
    load_database(&address, &Arc::new(Generator::new(store, 1).unwrap()), &mut |_| {}).unwrap();
    server.sql("store", "UPDATE inventory SET quan_in_stock = 1");
    let result = run(&address, &demand(16));
    assert_agrees(&result);
    assert!(result.rollbacks > 0, "one piece of each product runs short, however few orders come");
    server.check_books("store");
}

/// Somebody else's connection, which keeps its transaction open from one statement to the next.
enum Stranger {
    Mariadb(mysql::Conn),
    Postgresql(Box<postgres::Client>),
}

impl Stranger {
    fn connect(address: &DatabaseAddress) -> Self {
        let Endpoint::Socket { path, port } = &address.endpoint else {
            panic!("servers of tests have sockets")
        };
        match address.kind {
            DatabaseKind::Mariadb => {
                let options = mysql::OptsBuilder::new().socket(path.to_str()).user(Some(&address.user));
                let options = options.db_name(Some(&address.database));
                Self::Mariadb(mysql::Conn::new(mysql::Opts::from(options)).unwrap())
            }
            DatabaseKind::Postgresql => {
                let mut config = postgres::Config::new();
                config.host_path(path).port(*port).user(&address.user).dbname(&address.database);
                Self::Postgresql(Box::new(config.connect(postgres::NoTls).unwrap()))
            }
        }
    }

    /// Begins a transaction that holds every customer. On MariaDB it has changed them too: of two transactions in a deadlock
    /// the one that changed less is ended.
    fn hold_customers(&mut self) {
        match self {
            Self::Mariadb(conn) => {
                conn.query_drop("START TRANSACTION").unwrap();
                conn.query_drop("UPDATE customers SET income = income + 1").unwrap();
            }
            Self::Postgresql(client) => {
                client.batch_execute("BEGIN; SELECT FROM customers FOR UPDATE").unwrap();
            }
        }
    }

    /// Wants a product too and ends, whichever of the two the database chose to end.
    fn want_product(mut self, prod_id: i32) {
        let sql = format!("SELECT quan_in_stock FROM inventory WHERE prod_id = {prod_id} FOR UPDATE");
        match &mut self {
            Self::Mariadb(conn) => drop(conn.query_drop(sql).and_then(|()| conn.query_drop("COMMIT"))),
            Self::Postgresql(client) => drop(client.batch_execute(&format!("{sql}; COMMIT"))),
        }
    }
}

/// Whether a transaction waits for a lock of another.
fn somebody_waits(server: &Server) -> bool {
    let waiting = match server.kind {
        DatabaseKind::Mariadb => {
            "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
        }
        DatabaseKind::Postgresql => "SELECT COUNT(*) FROM pg_locks WHERE NOT granted",
    };
    server.sql("store", waiting) != "0"
}

/// A session whose purchases go another way.
struct Meddled<F> {
    session: Box<dyn Session>,
    purchase: F,
}

impl<F> Session for Meddled<F>
where
    F: FnMut(&mut dyn Session, &Cart) -> Result<Purchase, StoreError> + Send,
{
    fn login(&mut self, username: &str, password: &str) -> Result<Option<i64>, StoreError> {
        self.session.login(username, password)
    }

    fn new_customer(&mut self, customer: &NewCustomer) -> Result<Option<i64>, StoreError> {
        self.session.new_customer(customer)
    }

    fn browse(&mut self, search: &Search) -> Result<u64, StoreError> {
        self.session.browse(search)
    }

    fn purchase(&mut self, cart: &Cart) -> Result<Purchase, StoreError> {
        (self.purchase)(&mut *self.session, cart)
    }

    fn restock(&mut self, short: Item, delivery: i32) -> Result<bool, StoreError> {
        self.session.restock(short, delivery)
    }
}

/// A purchase that meets a stranger who holds the customer that it wants and wants the product that it holds.
fn crossed_purchase(
    session: &mut dyn Session,
    cart: &Cart,
    server: &Server,
    address: &DatabaseAddress,
) -> Result<Purchase, StoreError> {
    let mut stranger = Stranger::connect(address);
    stranger.hold_customers();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Bounded: a purchase that never waited ends without a deadlock, and the next one is tried. MariaDB reads
            // its transactions again only where nobody asked for a tenth of a second.
            for _ in 0..50 {
                if somebody_waits(server) {
                    break;
                }
                thread::sleep(Duration::from_millis(150));
            }
            stranger.want_product(cart.items[0].prod_id);
        });
        session.purchase(cart)
    })
}

/// A deadlock made by a second session: the whole purchase is retried and is there once.
fn deadlock(kind: DatabaseKind) {
    let Some(server) = start(kind) else { return };
    let server = Arc::new(server);
    let address = server.database("store");
    load(&address).unwrap();
    server.sql("store", "UPDATE inventory SET quan_in_stock = 300");
    let (deadlocks, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let open = |_| -> Result<Box<dyn Session>, StoreError> {
        let (server, deadlocks, address) = (Arc::clone(&server), Arc::clone(&deadlocks), address.clone());
        let stop = Arc::clone(&stop);
        let session = open_session(&address)?;
        // Until the database has ended a purchase for it.
        let purchase = move |session: &mut dyn Session, cart: &Cart| {
            if deadlocks.load(Ordering::Relaxed) > 0 {
                let bought = session.purchase(cart);
                stop.store(true, Ordering::Relaxed);
                return bought;
            }
            let bought = crossed_purchase(session, cart, &server, &address);
            if matches!(bought, Err(StoreError::Deadlock { .. })) {
                deadlocks.fetch_add(1, Ordering::Relaxed);
            }
            bought
        };
        Ok(Box::new(Meddled { session, purchase }))
    };
    let mut books = DatabaseBooks::open(&address).unwrap();
    let facts = inspect(&address, 1).unwrap();
    // Far longer than the test takes: the run ends after the first purchase behind the deadlock.
    let demand = Demand { measure: Duration::from_secs(600), ..demand(1) };
    let result = run_load_with(facts, &demand, open, &mut books, &stop).unwrap();
    assert_eq!(deadlocks.load(Ordering::Relaxed), 1, "the database ended no purchase");
    assert_eq!(result.retries, 1);
    assert_agrees(&result);
    server.check_books("store");
}

/// Something wrong behind the client's back.
#[derive(Clone, Copy, Debug)]
enum Act {
    LoseOrder,
    AlterLine,
    MoveStock,
    KeepPartOfRollback,
    CommitPartOfOrder,
}

/// What does it after a purchase; nothing where the purchase gives no occasion.
fn sabotage(act: Act, cart: &Cart, purchase: &Purchase) -> Option<String> {
    let first = cart.items[0].prod_id;
    let sql = match (act, purchase) {
        (Act::LoseOrder, Purchase::Committed(receipt)) => {
            format!("DELETE FROM orders WHERE orderid = {}", receipt.order_id)
        }
        (Act::AlterLine, Purchase::Committed(receipt)) => {
            format!(
                "UPDATE orderlines SET quantity = quantity + 1 WHERE orderid = {} AND orderlineid = 1",
                receipt.order_id
            )
        }
        (Act::MoveStock, Purchase::Committed(_)) => format!(
            "UPDATE inventory SET quan_in_stock = quan_in_stock + CASE prod_id WHEN {first} THEN 1 ELSE -1 END \
             WHERE prod_id = {first} OR prod_id = (SELECT MAX(prod_id) FROM products WHERE prod_id <> {first})"
        ),
        (Act::KeepPartOfRollback, Purchase::Short(_)) => {
            format!("UPDATE inventory SET sales = sales + 1 WHERE prod_id = {first}")
        }
        (Act::CommitPartOfOrder, Purchase::Short(_)) => format!(
            "INSERT INTO orders (orderdate, customerid, netamount, tax, totalamount) \
             VALUES (CURRENT_DATE, {}, 9.99, 0.82, 10.81)",
            cart.customer_id
        ),
        _ => return None,
    };
    Some(sql)
}

fn defects(kind: DatabaseKind) {
    let Some(server) = start(kind) else { return };
    let server = Arc::new(server);
    let address = server.database("store");
    load(&address).unwrap();
    for (act, named) in [
        (Act::LoseOrder, "1 orders that were confirmed to clients are not in the database: "),
        (Act::AlterLine, "1 orders differ from what was confirmed to their clients: "),
        (Act::MoveStock, "2 products have a stock that sales and deliveries do not explain: "),
        (Act::KeepPartOfRollback, "1 products have other sales than were confirmed to clients: "),
        (Act::CommitPartOfOrder, "1 orders are in the database that were confirmed to no client: "),
    ] {
        // One product in four is gone, so that shortages come at once; the last one must be there to be moved.
        server.sql(
            "store",
            "UPDATE inventory SET quan_in_stock = CASE WHEN prod_id % 4 = 1 THEN 0 ELSE 300 END",
        );
        let purchases = Arc::new(AtomicU64::new(0));
        let open = |_| -> Result<Box<dyn Session>, StoreError> {
            let (server, purchases) = (Arc::clone(&server), Arc::clone(&purchases));
            let session = open_session(&address)?;
            let purchase = move |session: &mut dyn Session, cart: &Cart| {
                let bought = session.purchase(cart)?;
                // Once, of all that give occasion.
                if let Some(sql) = sabotage(act, cart, &bought)
                    && purchases.fetch_add(1, Ordering::Relaxed) == 0
                {
                    server.sql("store", &sql);
                }
                Ok(bought)
            };
            Ok(Box::new(Meddled { session, purchase }))
        };
        let mut books = DatabaseBooks::open(&address).unwrap();
        let facts = inspect(&address, 2).unwrap();
        let result = run_load_with(facts, &demand(2), open, &mut books, &AtomicBool::new(false)).unwrap();
        let audit = result.audit_report.unwrap();
        assert!(
            audit.findings.iter().any(|finding| finding.contains(named)),
            "{act:?}: {:?}",
            audit.findings
        );
        assert_eq!(result.verdict.status, Status::NotTrusted, "{act:?}");
        // What was planted breaks the books and no key.
        server.check("store");
    }
}

fn bad_input(kind: DatabaseKind) {
    let Some(server) = start(kind) else { return };
    let address = server.database("store");
    load(&address).unwrap();
    let refused = || inspect(&address, 4).unwrap_err();
    let sql = |text: &str| server.sql("store", text);

    let error = inspect(&address, 900).unwrap_err();
    assert!(matches!(error, StoreError::TooFewConnections { needed: 901, .. }), "{error}");

    sql("UPDATE load_state SET state = 'loading'");
    assert!(matches!(refused(), StoreError::HalfLoaded(_)));
    let error = load(&address).unwrap_err();
    assert!(
        matches!(error, StoreError::HalfLoaded(_)),
        "half a store is reported as that, not as a store: {error}"
    );
    sql("UPDATE load_state SET state = 'complete'");
    sql("DELETE FROM inventory WHERE prod_id = 1000");
    assert!(matches!(refused(), StoreError::HalfLoaded(_)));
    sql("INSERT INTO inventory VALUES (1000, 5, 0)");

    sql("ALTER TABLE reorder RENAME COLUMN quan_low TO quan_lo");
    assert_eq!(
        refused().to_string(),
        "the schema is not that of the store: column reorder.quan_low is missing"
    );
    sql("ALTER TABLE reorder RENAME COLUMN quan_lo TO quan_low");
    sql(match kind {
        DatabaseKind::Mariadb => "DROP INDEX products_title ON products",
        DatabaseKind::Postgresql => "DROP INDEX products_title",
    });
    let text = refused().to_string();
    assert_eq!(text, "the schema is not that of the store: full-text index on products.title is missing");
    sql("UPDATE load_state SET state = 'loading'");
    let unfinished = refused();
    assert!(matches!(unfinished, StoreError::HalfLoaded(_)), "its keys come last: {unfinished}");
    sql("UPDATE load_state SET state = 'complete'");
    sql(match kind {
        DatabaseKind::Mariadb => "ALTER TABLE products ADD FULLTEXT KEY products_title (title)",
        DatabaseKind::Postgresql => {
            "CREATE INDEX products_title ON products USING gin (to_tsvector('simple', title))"
        }
    });

    if kind == DatabaseKind::Postgresql {
        sql("ALTER TABLE customers ALTER COLUMN customerid TYPE bigint");
        let result = run(&address, &demand(1));
        let kinds = format!("{:?}", result.error_kinds);
        assert!(kinds.contains("the schema is not that of the store: a "), "{kinds}");
        assert_eq!(result.verdict.status, Status::NotTrusted);
        sql("ALTER TABLE customers ALTER COLUMN customerid TYPE int");
    }

    let (closed, open) = match kind {
        DatabaseKind::Mariadb => ("SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0"),
        DatabaseKind::Postgresql => (
            "ALTER DATABASE store SET default_transaction_read_only = on",
            "SET default_transaction_read_only = off; ALTER DATABASE store SET default_transaction_read_only = off",
        ),
    };
    sql(closed);
    let read_only = refused();
    server.sql("", open);
    assert!(matches!(read_only, StoreError::ReadOnly { .. }), "{read_only}");

    let mut other = DatabaseAddress { database: "nothing".to_owned(), ..address.clone() };
    let error = inspect(&other, 1).unwrap_err();
    assert!(matches!(error, StoreError::NoDatabase { .. }), "{}", error.with_causes());
    other =
        DatabaseAddress { user: "mallory".into(), password: Some(Secret::new("hunter2")), ..address.clone() };
    let error = inspect(&other, 1).unwrap_err();
    assert!(matches!(error, StoreError::Refused { .. }), "{}", error.with_causes());
    assert!(
        !format!("{error:?} {}", error.with_causes()).contains("hunter2"),
        "a password must not be printed"
    );
    other = DatabaseAddress {
        endpoint: Endpoint::Socket { path: "/nowhere".into(), port: 1 },
        ..address.clone()
    };
    assert!(matches!(inspect(&other, 1).unwrap_err(), StoreError::Down { .. }));
    assert_agrees(&run(&address, &demand(2)));
    server.check("store");
}

/// A load that fails half-way leaves an empty database, into which the next one goes.
fn failed_load(kind: DatabaseKind) {
    let Some(server) = start(kind) else { return };
    let address = server.database("store");
    let (breaking, repairing) = match kind {
        DatabaseKind::Mariadb => ("SET GLOBAL local_infile = 0", "SET GLOBAL local_infile = 1"),
        // The name of an index is taken.
        DatabaseKind::Postgresql => ("CREATE SEQUENCE products_title", "DROP SEQUENCE products_title"),
    };
    server.sql("store", breaking);
    let error = load(&address).unwrap_err();
    let right = matches!(
        (kind, &error),
        (DatabaseKind::Mariadb, StoreError::LocalInfileOff { .. })
            | (DatabaseKind::Postgresql, StoreError::Statement { .. })
    );
    assert!(right, "{}", error.with_causes());
    server.sql("store", repairing);
    let generator = small_store();
    let stop = generator.stop_flag();
    let error =
        load_database(&address, &generator, &mut |_| stop.store(true, Ordering::Relaxed)).unwrap_err();
    assert!(matches!(error, StoreError::Data(StoreDataError::Stopped)), "{}", error.with_causes());
    load(&address).unwrap();
    assert_agrees(&run(&address, &demand(2)));
    server.check_books("store");
}

/// A load that fails drops the tables that it made, and not those of the same names in another schema.
#[test]
fn a_failed_load_into_postgresql_drops_nothing_of_others() {
    let Some(server) = start(DatabaseKind::Postgresql) else { return };
    let address = server.database("store");
    // The user is `store`, so the search path "$user", public begins with this schema.
    server.sql(
        "store",
        "CREATE SCHEMA store; CREATE TABLE public.orders (theirs int); CREATE TABLE public.load_state (theirs int)",
    );
    // A type in the way of the first table of the store, and of the last: nothing was made yet, or nearly all.
    for table in ["categories", "reorder"] {
        server.sql("store", &format!("CREATE TYPE store.{table} AS ENUM ('taken')"));
        let error = load(&address).unwrap_err();
        assert!(matches!(error, StoreError::Statement { .. }), "{}", error.with_causes());
        let left = "SELECT string_agg(schemaname || '.' || tablename, ' ' ORDER BY tablename) FROM pg_tables \
             WHERE schemaname IN ('public', 'store')";
        assert_eq!(server.sql("store", left), "public.load_state public.orders", "after {table}");
        server.sql("store", &format!("DROP TYPE store.{table}"));
    }
    load(&address).unwrap();
    server.check_books("store");
    assert_eq!(server.sql("store", "SELECT COUNT(theirs) FROM public.orders"), "0", "it is still theirs");
}

/// The load needs nothing but the documented tables: built and filled here by the server's own client.
fn built_by_hand(kind: DatabaseKind) {
    let Some(server) = start(kind) else { return };
    let address = server.database("store");
    let files = server.readable_folder();
    write_files(&small_store(), &files, |_| {}).unwrap();
    server.sql("store", tables_sql(kind));
    for table in Table::ALL {
        let path = files.join(format!("{table}.csv"));
        let (path, columns) = (path.display(), table.columns().join(", "));
        server.sql(
            "store",
            &match kind {
                DatabaseKind::Mariadb => {
                    format!(
                        "LOAD DATA INFILE '{path}' INTO TABLE {table} FIELDS TERMINATED BY ',' ({columns})"
                    )
                }
                DatabaseKind::Postgresql => {
                    let force =
                        if table == Table::Customers { ", FORCE_NOT_NULL (address2, state)" } else { "" };
                    format!("COPY {table} ({columns}) FROM '{path}' WITH (FORMAT csv{force})")
                }
            },
        );
    }
    server.sql("store", indexes_sql(kind));
    if kind == DatabaseKind::Postgresql {
        for (table, id) in [("orders", "orderid"), ("customers", "customerid")] {
            let sequence = format!("pg_get_serial_sequence('{table}', '{id}')");
            server.sql("store", &format!("SELECT setval({sequence}, (SELECT MAX({id}) FROM {table}))"));
        }
    }
    assert_agrees(&run(&address, &demand(4)));
    server.check_books("store");
}

fn crash(kind: DatabaseKind) {
    let Some(server) = start(kind) else { return };
    let address = server.database("store");
    load(&address).unwrap();
    let server = Arc::new(Mutex::new(server));
    let purchases = Arc::new(AtomicU64::new(0));
    let open = |_| -> Result<Box<dyn Session>, StoreError> {
        let (server, purchases) = (Arc::clone(&server), Arc::clone(&purchases));
        let session = open_session(&address)?;
        let purchase = move |session: &mut dyn Session, cart: &Cart| {
            if purchases.fetch_add(1, Ordering::Relaxed) == 50 {
                server.lock().unwrap().crash();
            }
            session.purchase(cart)
        };
        Ok(Box::new(Meddled { session, purchase }))
    };
    let mut books = DatabaseBooks::open(&address).unwrap();
    let facts = inspect(&address, 4).unwrap();
    // Far longer than the test takes: the run ends because nobody is left.
    let demand = Demand { measure: Duration::from_secs(600), ..demand(4) };
    let result = run_load_with(facts, &demand, open, &mut books, &AtomicBool::new(false)).unwrap();
    assert_eq!(result.verdict.status, Status::NotTrusted);
    let reasons = result.verdict.reasons.join("; ");
    assert!(reasons.contains("4 of 4 clients gave up"), "{reasons}");
    assert!(reasons.contains("the connection to the database was lost"), "{reasons}");
    assert!(reasons.contains("the database could not be audited"), "{reasons}");
    assert!(result.measured_s < 600.0, "a dead database is not a slow one");
    // What was under way is whole or not there.
    let mut server = server.lock().unwrap();
    server.restart();
    server.check_books("store");
}

/// A tablespace with an end takes the place of a full disk, which takes a mount of its own and therefore root.
#[test]
fn a_full_mariadb_is_named_and_emptied() {
    let settings = ["innodb_file_per_table=OFF", "innodb_data_file_path=ibdata1:12M:autoextend:max:15M"];
    let Some(server) = start_with(DatabaseKind::Mariadb, &settings) else { return };
    let address = server.database("store");
    let generator = Arc::new(Generator::new(Store::of_size(DataSize::MIN, 7), 1).unwrap());
    let error = load_database(&address, &generator, &mut |_| {}).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{}", error.with_causes());
    assert_eq!(server.sql("store", "SHOW TABLES"), "", "nothing half-made is left");
}

/// An event trigger says what a full disk says (53100), in the middle of a load.
#[test]
fn a_full_postgresql_is_named_and_emptied() {
    let Some(server) = start(DatabaseKind::Postgresql) else { return };
    let address = server.database("store");
    server.sql(
        "store",
        "CREATE FUNCTION full_disk() RETURNS event_trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; \
         CREATE EVENT TRIGGER full_disk ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION full_disk()",
    );
    let error = load(&address).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{}", error.with_causes());
    let left = "SELECT COUNT(*) FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(server.sql("store", left), "0", "nothing half-made is left");
}

/// Each test for each kind of database.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod mariadb {
            $(#[test] fn $name() { super::$name(super::DatabaseKind::Mariadb); })*
        }
        mod postgresql {
            $(#[test] fn $name() { super::$name(super::DatabaseKind::Postgresql); })*
        }
    };
}

on_both!(loading_and_running, contention, deadlock, defects, bad_input, failed_load, built_by_hand, crash);
