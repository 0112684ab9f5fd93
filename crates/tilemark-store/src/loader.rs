//! From an empty database to a loaded, indexed and checked store.
//!
//! ```text
//! empty -> tables, marked "loading" -> rows and keys, two lanes -> foreign keys -> checked -> "complete"
//!         any failure: the tables that this load made are dropped again, and nothing else
//! ```
//! Rows go from the generator straight into the server's bulk loader; no file is written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use tilemark_store_data::{Generator, Progress, StoreDataError, Table, TableSum};

use crate::address::{DatabaseAddress, DatabaseKind};
use crate::console::{Console, int};
use crate::error::StoreError;
use crate::inspect::{check_version, check_whole, check_writable, tables};
use crate::open_console::open_console;
use crate::schema::{
    FOREIGN_KEYS, REFERENCES, STATE_COMPLETE, STATE_TABLE, TABLES, indexes_sql, statements, tables_sql,
};
use crate::threads::start_all;

/// Two connections load at once: MariaDB's bulk loader and index builder use one thread each.
const LANES: [&[Table]; 2] = [
    &[Table::Categories, Table::Customers, Table::CustHist],
    &[Table::Products, Table::Orders, Table::Orderlines, Table::Inventory],
];

/// Tables whose own ids are 1 to their number of rows, each once.
const OWN_KEYS: [[&str; 2]; 5] = [
    ["categories", "category"],
    ["products", "prod_id"],
    ["customers", "customerid"],
    ["orders", "orderid"],
    ["inventory", "prod_id"],
];

/// How far a load has come.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadProgress {
    /// Rows are on their way: bytes of CSV sent so far, and bytes in all.
    Rows {
        /// Sent.
        bytes: u64,
        /// To be sent, within about 0.1 %.
        bytes_expected: u64,
    },
    /// Foreign keys are made and everything is checked.
    Checking,
}

/// What was loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Loaded {
    /// What the server says it is.
    pub server: String,
    /// One entry for each table.
    pub tables: Vec<LoadedTable>,
}

/// One table's rows as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LoadedTable {
    /// Which.
    pub table: Table,
    /// Rows, bytes and checksum of its CSV.
    pub sum: TableSum,
}

/// Makes the store in an empty database: tables, rows, keys, statistics, checks. The generator's stop flag ends it early; a
/// load that failed sets it, so each load needs a generator of its own. If it fails, what it made is gone again
/// unless the connection is gone; then its mark says that it is half loaded.
pub fn load_database(
    address: &DatabaseAddress,
    generator: &Arc<Generator>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Loaded, StoreError> {
    let mut console = open_console(address)?;
    let server = check_version(address.kind, &mut *console)?;
    check_writable(address.kind, &mut *console)?;
    // What an earlier load left behind is reported as that, not as somebody's tables.
    check_whole(address.kind, &mut *console)?;
    let existing = tables(address.kind, &mut *console)?;
    if let Some(table) = TABLES.iter().chain([&STATE_TABLE]).find(|&&table| existing.contains(table)) {
        return Err(StoreError::AlreadyLoaded((*table).to_owned()));
    }
    if let Some(table) = existing.iter().min() {
        let (table, tables) = (table.clone(), existing.len());
        return Err(StoreError::NotEmpty { table, tables });
    }
    let mut made = Made::none(address.kind, &mut *console)?;
    match fill(address, generator, &mut *console, &mut made, progress) {
        Ok(tables) => Ok(Loaded { server, tables }),
        Err(error) => {
            // The first error is the one to report; a lost connection cannot be cleaned up and stays marked.
            if let Ok(mut console) = open_console(address) {
                made.remove(&mut *console);
            }
            Err(error)
        }
    }
}

/// The tables that a load has made itself. A failed one drops these and nothing else: a table of the same name may be in
/// another schema of the search path, and is somebody's own.
struct Made {
    kind: DatabaseKind,
    /// The schema that new tables go to, quoted.
    schema: String,
    tables: Vec<&'static str>,
}

impl Made {
    fn none(kind: DatabaseKind, console: &mut dyn Console) -> Result<Self, StoreError> {
        let schema = console
            .texts(match kind {
                DatabaseKind::Mariadb => "SELECT CONCAT('`', REPLACE(DATABASE(), '`', '``'), '`')",
                // No schema at all: then no table can be made either.
                DatabaseKind::Postgresql => "SELECT quote_ident(COALESCE(current_schema()::text, ''))",
            })?
            .concat();
        Ok(Self { kind, schema, tables: Vec::new() })
    }

    fn make(
        &mut self,
        table: &'static str,
        create: &str,
        console: &mut dyn Console,
    ) -> Result<(), StoreError> {
        console.run(create)?;
        self.tables.push(table);
        Ok(())
    }

    /// Drops them, the last one first: those that point to others were made after them, and the mark goes last.
    fn remove(&self, console: &mut dyn Console) {
        drop(unchecked(self.kind, console));
        for table in self.tables.iter().rev() {
            drop(console.run(&format!("DROP TABLE {}.{table}", self.schema)));
        }
    }
}

/// Switches the checks of foreign keys off for this connection, where they would be made row by row.
fn unchecked(kind: DatabaseKind, console: &mut dyn Console) -> Result<(), StoreError> {
    match kind {
        DatabaseKind::Mariadb => console.run("SET foreign_key_checks = 0"),
        DatabaseKind::Postgresql => Ok(()),
    }
}

fn fill(
    address: &DatabaseAddress,
    generator: &Arc<Generator>,
    console: &mut dyn Console,
    made: &mut Made,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Vec<LoadedTable>, StoreError> {
    let kind = address.kind;
    let mark = format!("CREATE TABLE {STATE_TABLE} (state varchar(20) NOT NULL)");
    // Another load may have made it since we looked: then it is reported as that.
    made.make(STATE_TABLE, &mark, console).or_else(|error| check_whole(kind, console).and(Err(error)))?;
    console.run(&format!("INSERT INTO {STATE_TABLE} VALUES ('loading')"))?;
    // The file makes them in this order.
    for (table, statement) in TABLES.into_iter().zip(statements(tables_sql(kind))) {
        made.make(table, statement.sql, console)?;
    }
    let loaded = run_lanes(address, generator, progress)?;
    progress(LoadProgress::Checking);
    unchecked(kind, console)?;
    let remaining =
        |lane: &str| lane == FOREIGN_KEYS || !LANES.iter().copied().flatten().any(|t| t.name() == lane);
    for statement in statements(indexes_sql(kind)).iter().filter(|statement| remaining(statement.lane)) {
        go_on(generator)?;
        console.run(statement.sql)?;
        progress(LoadProgress::Checking);
    }
    go_on(generator)?;
    finish(kind, console, &loaded)?;
    console.run(&format!("UPDATE {STATE_TABLE} SET state = '{STATE_COMPLETE}'"))?;
    Ok(loaded)
}

/// Between two statements, each of which may take minutes: nothing where the stop flag is not set.
fn go_on(generator: &Generator) -> Result<(), StoreError> {
    if generator.stop_flag().load(Ordering::Relaxed) { Err(StoreDataError::Stopped.into()) } else { Ok(()) }
}

/// Reported so often where no rows are sent, because keys are made: the caller can only stop a load that it hears of.
const REPORTED_EVERY: Duration = Duration::from_millis(200);

fn run_lanes(
    address: &DatabaseAddress,
    generator: &Arc<Generator>,
    progress: &mut dyn FnMut(LoadProgress),
) -> Result<Vec<LoadedTable>, StoreError> {
    let bytes_expected = generator.store().expected_bytes();
    let stop = generator.stop_flag();
    thread::scope(|scope| {
        // Gone with whoever listens: a lane that is ended does not wait until somebody takes its progress.
        let (sender, receiver) = sync_channel::<Progress>(64);
        let lanes = LANES.into_iter().map(|lane| {
            let sender = sender.clone();
            move || {
                // When one lane has failed the other need not go on for minutes.
                run_lane(address, generator, lane, &sender)
                    .inspect_err(|_| generator.stop_flag().store(true, Ordering::Relaxed))
            }
        });
        let lanes = start_all(&thread::Builder::new, scope, lanes, &stop)?;
        drop(sender);
        let mut sent = [0_u64; Table::ALL.len()];
        loop {
            match receiver.recv_timeout(REPORTED_EVERY) {
                Ok(at) => sent[at.table as usize] = at.bytes,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress(LoadProgress::Rows { bytes: sent.iter().sum(), bytes_expected });
        }
        let mut loaded = Vec::new();
        let mut failed: Option<StoreError> = None;
        for lane in lanes {
            match lane.join().expect("a lane reports its failures as errors") {
                Ok(tables) => loaded.extend(tables),
                // The lane that was merely stopped does not say why.
                Err(error)
                    if failed.is_none()
                        || matches!(failed, Some(StoreError::Data(StoreDataError::Stopped))) =>
                {
                    failed = Some(error);
                }
                Err(_) => {}
            }
        }
        failed.map_or(Ok(loaded), Err)
    })
}

/// Loads some tables one after the other, each with its keys while its pages are still in memory.
fn run_lane(
    address: &DatabaseAddress,
    generator: &Arc<Generator>,
    lane: &[Table],
    progress: &SyncSender<Progress>,
) -> Result<Vec<LoadedTable>, StoreError> {
    let mut console = open_console(address)?;
    let indexes = statements(indexes_sql(address.kind));
    lane.iter()
        .map(|&table| {
            let sum = console.load(generator, table, progress)?;
            for statement in indexes.iter().filter(|statement| statement.lane == table.name()) {
                go_on(generator)?;
                console.run(statement.sql)?;
            }
            Ok(LoadedTable { table, sum })
        })
        .collect()
}

/// Checks that every row arrived and every key points to something, and gives the planner its statistics.
///
/// Ids of the data are 1 to the number of rows without a gap, so a key points to a row if it lies in that range: one
/// reading of each table proves it, where looking up every key would take as long as the load.
fn finish(kind: DatabaseKind, console: &mut dyn Console, loaded: &[LoadedTable]) -> Result<(), StoreError> {
    let rows_of = |table: &str| loaded.iter().find(|at| at.table.name() == table).map_or(0, |at| at.sum.rows);
    for LoadedTable { table, sum } in loaded {
        let keys: Vec<[&str; 4]> = REFERENCES.into_iter().filter(|key| key[0] == table.name()).collect();
        let own = OWN_KEYS.iter().filter(|key| key[0] == table.name());
        let ranges: Vec<(&str, u64)> = keys
            .iter()
            .map(|key| (key[1], rows_of(key[2])))
            .chain(own.map(|key| (key[1], sum.rows)))
            .collect();
        let mut columns = vec![int(kind, "COUNT(*)")];
        for (column, _) in &ranges {
            columns.push(int(kind, &format!("MIN({column})")));
            columns.push(int(kind, &format!("MAX({column})")));
        }
        let mut found = vec![0; columns.len()];
        console.numbers(
            &format!("SELECT {} FROM {table}", columns.join(", ")),
            columns.len(),
            &mut |row| {
                found = row.iter().map(|value| value.unwrap_or(0)).collect();
            },
        )?;
        if found[0] as u64 != sum.rows {
            return Err(StoreError::RowsMissing { table: *table, found: found[0] as u64, sent: sum.rows });
        }
        for ((column, last), range) in ranges.iter().zip(found[1..].chunks_exact(2)) {
            if range[0] < 1 || range[1] > *last as i64 {
                let text = format!("{table}.{column} has values outside of 1 to {last}");
                return Err(StoreError::HalfLoaded(text));
            }
        }
    }
    match kind {
        DatabaseKind::Mariadb => console.run(&format!("ANALYZE TABLE {}", TABLES.join(", "))),
        DatabaseKind::Postgresql => {
            for (table, column) in
                [("products", "prod_id"), ("customers", "customerid"), ("orders", "orderid")]
            {
                console.run(&format!(
                    "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), (SELECT MAX({column}) FROM {table}))"
                ))?;
            }
            console.run(&format!("VACUUM ANALYZE {}", TABLES.join(", ")))
        }
    }
}
