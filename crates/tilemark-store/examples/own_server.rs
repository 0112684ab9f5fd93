//! Measures the store on a database server that it starts and ends itself, and prints one JSON document:
//! `own_server orders KIND PLACE CLIENTS SECONDS`, `own_server load KIND PLACE SIZE` (ours, from nothing to checked) or
//! `own_server bulk KIND PLACE SIZE` (the server's own loader on ready CSV). PLACE is `memory` or `disk`.

#[path = "../tests/common/mod.rs"]
mod servers;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use servers::Server;
use tilemark_store::{
    Books, DatabaseBooks, DatabaseKind, Demand, HistoryRow, OrderLine, Snapshot, StoreError, indexes_sql,
    inspect, load_database, open_session, run_load_with, tables_sql,
};
use tilemark_store_data::{Generator, Store, Table, write_files};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match texts.as_slice() {
        ["orders", kind, place, clients, seconds] => {
            orders(&start(kind, place), number(clients) as u32, number(seconds))
        }
        ["load", kind, place, size] => load(&start(kind, place), size),
        ["bulk", kind, place, size] => bulk(&start(kind, place), size),
        _ => panic!("usage: own_server orders KIND PLACE CLIENTS SECONDS | load|bulk KIND PLACE SIZE"),
    };
    match done {
        Ok(printed) => println!("{printed}"),
        Err(error) => {
            eprintln!("error: {}\n  to fix: {}", error.with_causes(), error.remedy());
            std::process::exit(3);
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a whole number")
}

/// A server whose memory holds a gigabyte of data, with full durability.
fn start(kind: &str, place: &str) -> Server {
    let folder = match place {
        "memory" => Path::new("/dev/shm"),
        "disk" => Path::new("/var/tmp"),
        _ => panic!("PLACE is `memory` or `disk`"),
    };
    let (kind, settings) = match kind {
        "mariadb" => (DatabaseKind::Mariadb, ["innodb_buffer_pool_size=2G", "innodb_log_file_size=1G"]),
        "postgresql" => (DatabaseKind::Postgresql, ["shared_buffers=1GB", "max_wal_size=2GB"]),
        _ => panic!("KIND is `mariadb` or `postgresql`"),
    };
    servers::start_at(kind, &settings, folder).expect("the server starts; its error is above")
}

fn generator(size: &str) -> Result<Arc<Generator>, StoreError> {
    Ok(Arc::new(Generator::new(Store::of_size(size.parse()?, 7), 1)?))
}

/// Books that note what the server's processes had used when the first order came and when the last was done: what checks
/// and audits cost is no part of an order.
struct Timed<'a> {
    books: DatabaseBooks,
    server: &'a Server,
    began_s: Option<f64>,
    used_s: Option<f64>,
}

impl Books for Timed<'_> {
    fn snapshot(&mut self) -> Result<Snapshot, StoreError> {
        let snapshot = self.books.snapshot()?;
        self.began_s.get_or_insert_with(|| self.server.cpu_s());
        Ok(snapshot)
    }

    fn orders_after(&mut self, order_id: i64, each: &mut dyn FnMut(OrderLine)) -> Result<(), StoreError> {
        self.used_s = self.began_s.map(|began| self.server.cpu_s() - began);
        self.books.orders_after(order_id, each)
    }

    fn history_after(&mut self, order_id: i64, each: &mut dyn FnMut(HistoryRow)) -> Result<(), StoreError> {
        self.books.history_after(order_id, each)
    }

    fn customers_after(&mut self, customer_id: i64, each: &mut dyn FnMut(i64)) -> Result<(), StoreError> {
        self.books.customers_after(customer_id, each)
    }
}

fn orders(server: &Server, clients: u32, seconds: u64) -> Result<Value, StoreError> {
    let address = server.database("store");
    load_database(&address, &generator("100MB")?, &mut |_| {})?;
    let (warmup, measure) = (Duration::from_secs(5), Duration::from_secs(seconds));
    let demand = Demand { clients, warmup, measure, ..Demand::default() };
    let facts = inspect(&address, clients)?;
    let mut books = Timed { books: DatabaseBooks::open(&address)?, server, began_s: None, used_s: None };
    let open = |_| open_session(&address);
    let result = run_load_with(facts, &demand, open, &mut books, &AtomicBool::new(false))?;
    assert_eq!(result.audit, "agrees", "what does not agree is no figure");
    let mut printed = serde_json::to_value(&result).expect("a result has only plain values");
    printed["server_cpu_s"] = json!(books.used_s);
    Ok(printed)
}

fn load(server: &Server, size: &str) -> Result<Value, StoreError> {
    let (address, generator) = (server.database("store"), generator(size)?);
    let began = Instant::now();
    load_database(&address, &generator, &mut |_| {})?;
    Ok(json!({ "seconds": began.elapsed().as_secs_f64() }))
}

/// With the same switches as ours, so that neither keeps keys or a log that the other leaves out.
fn bulk(server: &Server, size: &str) -> Result<Value, StoreError> {
    server.database("store");
    let files = server.readable_folder();
    let generator = generator(size)?;
    write_files(&generator, &files, |_| {})?;
    let sql = |text: &str| server.sql("store", text);
    let began = Instant::now();
    sql(tables_sql(server.kind));
    for table in Table::ALL {
        let path = files.join(format!("{table}.csv"));
        let (path, columns) = (path.display(), table.columns().join(", "));
        sql(&match server.kind {
            DatabaseKind::Mariadb => format!(
                "SET unique_checks = 0, foreign_key_checks = 0; \
                 LOAD DATA INFILE '{path}' INTO TABLE {table} FIELDS TERMINATED BY ',' ({columns})"
            ),
            DatabaseKind::Postgresql => {
                let force = if table == Table::Customers { ", FORCE_NOT_NULL (address2, state)" } else { "" };
                format!(
                    "BEGIN; TRUNCATE {table}; \
                     COPY {table} ({columns}) FROM '{path}' WITH (FORMAT csv, FREEZE{force}); COMMIT"
                )
            }
        });
    }
    let unchecked = if server.kind == DatabaseKind::Mariadb { "SET foreign_key_checks = 0; " } else { "" };
    sql(&format!("{unchecked}{}", indexes_sql(server.kind)));
    let tables = Table::ALL.map(Table::name).join(", ");
    sql(&match server.kind {
        DatabaseKind::Mariadb => format!("ANALYZE TABLE {tables}"),
        DatabaseKind::Postgresql => format!("VACUUM ANALYZE {tables}"),
    });
    Ok(json!({ "seconds": began.elapsed().as_secs_f64() }))
}
