//! A look at a database before it is used: all that would make a run wrong, found before the first order.

use std::collections::HashSet;

use serde::Serialize;

use crate::address::{DatabaseAddress, DatabaseKind};
use crate::books::PRODUCTS_MAX;
use crate::console::{Console, int};
use crate::error::StoreError;
use crate::open_console::open_console;
use crate::schema::{STATE_COMPLETE, STATE_TABLE, TABLES, columns};

/// Connections beside the clients' own: one to audit with.
const OWN_CONNECTIONS: u64 = 1;

/// What was found in a database that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StoreFacts {
    /// What the server says it is.
    pub server: String,
    /// Settings that decide what a commit promises and what stays in memory, as the server has them.
    pub settings: Vec<FoundSetting>,
    /// Customers that can log in: `user1` to this.
    pub customers: u64,
    /// Products: ids 1 to this.
    pub products: u64,
}

/// One setting as the server has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundSetting {
    /// Its name.
    pub name: &'static str,
    /// Its value, as the server prints it.
    pub value: String,
}

/// Checks version, rights to write, free connections, tables, indexes and rows for a run with `clients` clients.
pub fn inspect(address: &DatabaseAddress, clients: u32) -> Result<StoreFacts, StoreError> {
    let mut console = open_console(address)?;
    let kind = address.kind;
    let server = check_version(kind, &mut *console)?;
    check_writable(kind, &mut *console)?;
    check_connections(kind, &mut *console, u64::from(clients) + OWN_CONNECTIONS)?;
    // Before the schema: half a store lacks keys, and loading it whole is the remedy.
    check_whole(kind, &mut *console)?;
    check_schema(kind, &mut *console)?;
    let products = check_rows(kind, &mut *console)?;
    let customers = console
        .number(&format!("SELECT {} FROM customers WHERE username LIKE 'user%'", int(kind, "COUNT(*)")))?
        as u64;
    if customers == 0 {
        return Err(StoreError::HalfLoaded("customers has no `user1`".to_owned()));
    }
    Ok(StoreFacts { server, settings: settings(kind, &mut *console)?, customers, products })
}

/// Says what the server is, if it is something that the store runs on.
pub(crate) fn check_version(kind: DatabaseKind, console: &mut dyn Console) -> Result<String, StoreError> {
    judge_version(kind, console.texts("SELECT version()")?.concat())
}

fn judge_version(kind: DatabaseKind, version: String) -> Result<String, StoreError> {
    let digits = version.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut parts = digits.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    let found: (u32, u32) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let (right, wanted) = match kind {
        DatabaseKind::Mariadb => (version.contains("MariaDB") && found >= (10, 6), "MariaDB 10.6 or newer"),
        DatabaseKind::Postgresql => (found >= (13, 0), "PostgreSQL 13 or newer"),
    };
    if right { Ok(version) } else { Err(StoreError::WrongVersion { found: version, wanted }) }
}

pub(crate) fn check_writable(kind: DatabaseKind, console: &mut dyn Console) -> Result<(), StoreError> {
    let sql = match kind {
        DatabaseKind::Mariadb => "SELECT CAST(@@read_only + @@innodb_read_only AS CHAR)",
        DatabaseKind::Postgresql => {
            "SELECT CASE WHEN pg_is_in_recovery() OR current_setting('transaction_read_only')::bool \
             THEN '1' ELSE '0' END"
        }
    };
    if console.texts(sql)?.concat() == "0" { Ok(()) } else { Err(StoreError::ReadOnly { source: None }) }
}

fn check_connections(kind: DatabaseKind, console: &mut dyn Console, needed: u64) -> Result<(), StoreError> {
    // Our own connection is counted as used and is needed, so it is added again.
    let sql = match kind {
        DatabaseKind::Mariadb => {
            "SELECT CAST(@@max_connections - VARIABLE_VALUE + 1 AS SIGNED) FROM information_schema.GLOBAL_STATUS \
             WHERE VARIABLE_NAME = 'THREADS_CONNECTED'"
        }
        DatabaseKind::Postgresql => {
            "SELECT CAST(current_setting('max_connections')::int \
             - current_setting('superuser_reserved_connections')::int - count(*) + 1 AS bigint) \
             FROM pg_stat_activity WHERE backend_type = 'client backend'"
        }
    };
    let free = console.number(sql)?.max(0) as u64;
    if free < needed { Err(StoreError::TooFewConnections { free, needed }) } else { Ok(()) }
}

/// Text in lower case of `expression` for all that `from` selects in the current database.
fn catalogue(
    kind: DatabaseKind,
    console: &mut dyn Console,
    mariadb: &str,
    postgresql: &str,
) -> Result<HashSet<String>, StoreError> {
    let sql = match kind {
        DatabaseKind::Mariadb => mariadb,
        DatabaseKind::Postgresql => postgresql,
    };
    Ok(console.texts(sql)?.into_iter().collect())
}

/// Names of all tables in the current database.
pub(crate) fn tables(kind: DatabaseKind, console: &mut dyn Console) -> Result<HashSet<String>, StoreError> {
    catalogue(
        kind,
        console,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()",
    )
}

fn check_schema(kind: DatabaseKind, console: &mut dyn Console) -> Result<(), StoreError> {
    let found = catalogue(
        kind,
        console,
        "SELECT CONCAT(table_name, '.', column_name) FROM information_schema.columns WHERE table_schema = DATABASE()",
        "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = current_schema()",
    )?;
    let existing = tables(kind, console)?;
    let mut problems: Vec<String> = Vec::new();
    for table in TABLES {
        if !existing.contains(table) {
            problems.push(format!("table {table} is missing"));
            continue;
        }
        let missing = columns(table).iter().filter(|column| !found.contains(&format!("{table}.{column}")));
        problems.extend(missing.map(|column| format!("column {table}.{column} is missing")));
    }
    if problems.is_empty() {
        problems = missing_indexes(kind, console)?;
    }
    if problems.is_empty() { Ok(()) } else { Err(StoreError::WrongSchema { problems }) }
}

fn missing_indexes(kind: DatabaseKind, console: &mut dyn Console) -> Result<Vec<String>, StoreError> {
    let found = catalogue(
        kind,
        console,
        "SELECT CONCAT(table_name, '.', column_name, ' ', IF(index_type = 'FULLTEXT', 'words', seq_in_index)) \
         FROM information_schema.statistics WHERE table_schema = DATABASE()",
        "SELECT CASE WHEN pg_get_indexdef(x.indexrelid) LIKE '%to_tsvector(''simple''%title%' THEN 'products.title words' \
         WHEN pg_get_indexdef(x.indexrelid) LIKE '%to_tsvector(''simple''%actor%' THEN 'products.actor words' \
         ELSE t.relname || '.' || a.attname || ' 1' END FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid \
         LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0] \
         WHERE t.relnamespace = current_schema()::regnamespace AND \
         (a.attname IS NOT NULL OR pg_get_indexdef(x.indexrelid) LIKE '%to_tsvector(''simple''%')",
    )?;
    let needed = [
        "products.title words",
        "products.actor words",
        "products.prod_id 1",
        "products.category 1",
        "inventory.prod_id 1",
        "customers.customerid 1",
        "customers.username 1",
        "orders.orderid 1",
        "orderlines.orderid 1",
        "cust_hist.customerid 1",
    ];
    let missing = needed.into_iter().filter(|index| !found.contains(*index));
    Ok(missing
        .map(|index| match index.split_once(' ') {
            Some((column, "words")) => format!("full-text index on {column} is missing"),
            _ => format!("index on {} is missing", index.trim_end_matches(" 1")),
        })
        .collect())
}

/// What our mark says about the load that made the store; `None` where there is no mark, as in a store built by hand.
pub(crate) fn load_state(
    kind: DatabaseKind,
    console: &mut dyn Console,
) -> Result<Option<String>, StoreError> {
    if !tables(kind, console)?.contains(STATE_TABLE) {
        return Ok(None);
    }
    Ok(Some(console.texts(&format!("SELECT state FROM {STATE_TABLE}"))?.concat()))
}

/// Checks that a load, if it was ours, came to its end.
pub(crate) fn check_whole(kind: DatabaseKind, console: &mut dyn Console) -> Result<(), StoreError> {
    match load_state(kind, console)? {
        Some(state) if state != STATE_COMPLETE => {
            let text = format!(
                "an earlier load was interrupted, or another is under way (table {STATE_TABLE} says `{state}`)"
            );
            Err(StoreError::HalfLoaded(text))
        }
        _ => Ok(()),
    }
}

/// Checks that nothing is missing from small tables.
fn check_rows(kind: DatabaseKind, console: &mut dyn Console) -> Result<u64, StoreError> {
    let mut ask = |sql: &str| console.number(&sql.replace("COUNT(*)", &int(kind, "COUNT(*)")));
    let products = ask("SELECT COUNT(*) FROM products")?;
    let stocked = ask("SELECT COUNT(*) FROM inventory")?;
    let last = ask(&format!("SELECT {} FROM products", int(kind, "COALESCE(MAX(prod_id), 0)")))?;
    if products <= 0 || products != last || products != stocked {
        let text = format!("{products} products with ids up to {last}, {stocked} of them in inventory");
        return Err(StoreError::HalfLoaded(text));
    }
    if products as u64 > PRODUCTS_MAX {
        let text = format!("{products} products, and {PRODUCTS_MAX} can be audited at most");
        return Err(StoreError::WrongSchema { problems: vec![text] });
    }
    for table in ["categories", "orders", "orderlines", "cust_hist"] {
        if ask(&format!("SELECT COUNT(*) FROM (SELECT 1 FROM {table} LIMIT 1) AS any_row"))? == 0 {
            return Err(StoreError::HalfLoaded(format!("table {table} is empty")));
        }
    }
    Ok(products as u64)
}

fn settings(kind: DatabaseKind, console: &mut dyn Console) -> Result<Vec<FoundSetting>, StoreError> {
    let names: &[&str] = match kind {
        DatabaseKind::Mariadb => &[
            "innodb_flush_log_at_trx_commit",
            "innodb_doublewrite",
            "innodb_buffer_pool_size",
            "innodb_log_file_size",
        ],
        DatabaseKind::Postgresql => &[
            "fsync",
            "synchronous_commit",
            "full_page_writes",
            "shared_buffers",
            "max_wal_size",
            "wal_level",
        ],
    };
    names
        .iter()
        .map(|name| {
            let sql = match kind {
                DatabaseKind::Mariadb => format!("SELECT CAST(@@{name} AS CHAR)"),
                DatabaseKind::Postgresql => format!("SELECT current_setting('{name}')"),
            };
            Ok(FoundSetting { name, value: console.texts(&sql)?.concat() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_judged_by_maker_and_number() {
        let right = |kind, text: &str| judge_version(kind, text.to_owned()).is_ok();
        assert!(right(DatabaseKind::Mariadb, "10.11.19-MariaDB-0+deb12u1"));
        assert!(right(DatabaseKind::Mariadb, "11.4.2-MariaDB"));
        assert!(right(
            DatabaseKind::Postgresql,
            "PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu"
        ));
        assert!(!right(DatabaseKind::Mariadb, "10.5.9-MariaDB"));
        assert!(!right(DatabaseKind::Postgresql, "PostgreSQL 9.6.24 on x86_64-pc-linux-gnu"));
        let error = judge_version(DatabaseKind::Mariadb, "8.0.36".to_owned()).unwrap_err();
        assert_eq!(error.to_string(), "the server is 8.0.36; MariaDB 10.6 or newer is needed");
    }
}
