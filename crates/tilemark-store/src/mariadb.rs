//! The store on MariaDB.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mysql::prelude::Queryable;
use mysql::{Conn, LocalInfileHandler, Opts, OptsBuilder};
use tilemark_store_data::{Generator, Progress, StoreDataError, Table, TableSum};
use tilemark_sys::descriptor::duplicate;

use crate::address::{DatabaseAddress, Endpoint};
use crate::console::{Console, TEXTS_MAX, first_words, wrong_columns};
use crate::error::{Cause, StoreError};
use crate::mariadb_login::log_in;
use crate::mariadb_sql::{write_look, write_order};
use crate::mariadb_wire::{Bound, FirstNumber, Prepared, Wire, broken, first_text, numbers, put_numbers};
use crate::session::{
    Cart, Item, NewCustomer, Purchase, Receipt, Search, SearchKey, Session, Shelf, Stock, check_stock,
    tax_cents,
};
use crate::tls;
use crate::transaction::{Bought, Transactions};

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest packet that the library takes or sends, in bytes. What is sent by it and asked of it is far shorter.
pub(crate) const PACKET_MAX: usize = 1 << 20;

/// Statements that a session keeps prepared.
const STATEMENTS_KEPT: usize = 32;

const LOGIN: &str = "SELECT c.customerid, p.title, p.actor, q.title FROM customers c LEFT JOIN (cust_hist h \
    JOIN products p ON p.prod_id = h.prod_id JOIN products q ON q.prod_id = p.common_prod_id) \
    ON h.customerid = c.customerid WHERE c.username = ? AND c.password = ? ORDER BY h.orderid DESC LIMIT 10";
const NEW_CUSTOMER: &str = "INSERT INTO customers (firstname, lastname, address1, address2, city, state, zip, country, \
    region, email, phone, creditcardtype, creditcard, creditcardexpiration, username, password, age, income, gender) \
    VALUES (?, ?, ?, '', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
const BROWSE_COLUMNS: &str =
    "SELECT prod_id, category, title, actor, price, special, common_prod_id FROM products";

fn connect(address: &DatabaseAddress, options: OptsBuilder) -> Result<Conn, StoreError> {
    let options = match &address.endpoint {
        Endpoint::Tcp { host, port } => {
            options.ip_or_hostname(Some(host)).tcp_port(*port).tcp_connect_timeout(Some(CONNECT_TIMEOUT))
        }
        Endpoint::Socket { path, .. } => options.socket(path.to_str()),
    };
    let options = options
        .user(Some(&address.user))
        .pass(address.password.as_ref().map(|secret| secret.reveal()))
        .db_name(Some(&address.database))
        .prefer_socket(false)
        // Without it the library asks the server, and keeps packets as large as that one likes.
        .max_allowed_packet(Some(PACKET_MAX))
        .stmt_cache_size(STATEMENTS_KEPT);
    kept(|| Conn::new(Opts::from(options))).map_err(|error| not_let_in(address, error))
}

/// Gives the reason why there is no connection its name.
pub(crate) fn not_let_in(address: &DatabaseAddress, error: mysql::Error) -> StoreError {
    let place = address.to_string();
    match &error {
        mysql::Error::MySqlError(server) => match server.code {
            1044 | 1045 | 1698 => StoreError::Refused { address: place, source: said(&error) },
            1049 => StoreError::NoDatabase { database: address.database.clone(), source: said(&error) },
            _ => named("the connection", error),
        },
        _ => StoreError::Down { address: place, source: said(&error) },
    }
}

/// A connection: the library's with a wire of ours on the same socket, or ours alone where it is secured.
struct Connection {
    conn: Option<Conn>,
    wire: Wire,
}

impl Connection {
    fn open(address: &DatabaseAddress) -> Result<Self, StoreError> {
        if let Some(tls) = tls::of(address)? {
            return Ok(Self { conn: None, wire: log_in(address, &tls)? });
        }
        let conn = connect(address, OptsBuilder::new())?;
        let wire = duplicate(&conn)
            .map_err(|error| StoreError::Down { address: address.to_string(), source: Box::new(error) })?;
        Ok(Self { conn: Some(conn), wire: Wire::over(wire) })
    }

    /// Has the server keep a statement, as long as the connection.
    fn prepare(&mut self, sql: &str) -> Result<Prepared, StoreError> {
        let Self { conn, wire } = self;
        let prepared = match conn {
            Some(conn) => kept(|| conn.prep(sql)).map(|statement| Prepared::of(&statement)),
            None => kept(|| wire.prepare(sql)),
        };
        prepared.map_err(|error| named("a prepared statement", error))
    }
}

/// Does something with the library. It panics where a server does not keep the protocol, such as by an empty packet: that is an error
/// of the connection, and no reason for the whole load to end.
pub(crate) fn kept<R>(work: impl FnOnce() -> Result<R, mysql::Error>) -> Result<R, mysql::Error> {
    // After an error of this kind the connection is only dropped.
    panic::catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(broken("the server does not keep the protocol".to_owned())))
}

/// What the library says, without its own names for kinds of errors: `IoError { server disconnected }` is a debugger's word.
fn said(error: &mysql::Error) -> Cause {
    let text = error.to_string();
    let inner = text.split_once(" { ").and_then(|(kind, rest)| {
        let is_kind = kind.ends_with("Error") && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        rest.trim_end().strip_suffix('}').filter(|_| is_kind)
    });
    let inner = inner.unwrap_or(&text).trim();
    let inner =
        inner.strip_prefix("ERROR ").map(|rest| format!("error {rest}")).unwrap_or_else(|| inner.to_owned());
    inner.into()
}

/// `ER_INTERNAL_ERROR` of the MariaDB error list.
const INTERNAL_ERROR: u16 = 1815;

/// Gives a server's answer its name. Codes are those of the MariaDB error list.
fn named(what: &str, error: mysql::Error) -> StoreError {
    let (code, is_full) = match &error {
        mysql::Error::MySqlError(server) => (server.code, is_full(server)),
        mysql::Error::IoError(_) | mysql::Error::DriverError(_) | mysql::Error::CodecError(_) => {
            return StoreError::Lost { source: said(&error) };
        }
        _ => (0, false),
    };
    let source = said(&error);
    match code {
        1205 | 1213 => StoreError::Deadlock { source },
        _ if is_full => StoreError::Full { source },
        1290 | 1792 | 1036 => StoreError::ReadOnly { source: Some(source) },
        1040 | 1203 => StoreError::NoConnectionLeft { source },
        1053 | 1077 | 1927 => StoreError::Lost { source },
        4166 | 1148 => StoreError::LocalInfileOff { source },
        1054 | 1146 => StoreError::WrongSchema { problems: vec![format!("{what}: {source}")] },
        _ => StoreError::Statement { what: what.to_owned(), source },
    }
}

/// Whether the server has no room left. 1878: a file that an index is sorted in could not be written; the server does not say why.
fn is_full(server: &mysql::MySqlError) -> bool {
    matches!(server.code, 1021 | 1114 | 1878) || says_no_space(server)
}

/// Whether the server passes on the system's error 28 (ENOSPC): a table's file could not be written (3, 20, 1026), or the
/// storage engine says so (1030). The words after the number are in the server's language.
fn says_no_space(server: &mysql::MySqlError) -> bool {
    let texts = ["error 28 ", "Errcode: 28 ", "errno: 28 "];
    matches!(server.code, 3 | 20 | 1026 | 1030) && texts.iter().any(|text| server.message.contains(text))
}

/// A client's connection. The library opens it, logs in and prepares; everything else goes by our own wire on the same connection.
/// Over TLS all of it goes by the wire.
pub struct MariadbSession {
    _conn: Option<Conn>,
    wire: Wire,
    /// Numbers of prepared statements, which the library keeps as long as the connection.
    login: u32,
    customer_id: FirstNumber,
    new_customer: u32,
    browse_category: u32,
    browse_actor: u32,
    browse_title: u32,
    text: String,
}

impl MariadbSession {
    /// Connects and prepares what every client needs.
    pub fn open(address: &DatabaseAddress) -> Result<Self, StoreError> {
        let mut connection = Connection::open(address)?;
        let mut prepare = |sql: &str| connection.prepare(sql);
        let login = prepare(LOGIN)?;
        let no_number = || StoreError::WrongSchema {
            problems: vec!["column `customers.customerid` is neither int nor bigint".to_owned()],
        };
        let by_words =
            |column| format!("{BROWSE_COLUMNS} WHERE MATCH ({column}) AGAINST (? IN BOOLEAN MODE) LIMIT ?");
        let (login_id, customer_id) = (login.id, login.first.ok_or_else(no_number)?);
        let new_customer = prepare(NEW_CUSTOMER)?.id;
        let by_category = format!("{BROWSE_COLUMNS} WHERE category = ? AND special = 1 LIMIT ?");
        let browse_category = prepare(&by_category)?.id;
        let browse_actor = prepare(&by_words("actor"))?.id;
        let browse_title = prepare(&by_words("title"))?.id;
        let Connection { conn, wire } = connection;
        Ok(Self {
            login: login_id,
            customer_id,
            new_customer,
            browse_category,
            browse_actor,
            browse_title,
            text: String::new(),
            wire,
            _conn: conn,
        })
    }

    /// Begins the transaction, reads prices and stocks and locks the stocks, by rising product.
    fn lock_shelves(&mut self, wanted: &[Item]) -> Result<Vec<Shelf>, mysql::Error> {
        self.text.clear();
        write_look(&mut self.text, wanted).expect("a string takes any text");
        let mut shelves = Vec::with_capacity(wanted.len());
        self.wire.query(&self.text, &mut |row| {
            let [prod_id, price_cents, in_stock] = numbers(row)?;
            shelves.push(Shelf { prod_id: prod_id as i32, price_cents, in_stock: in_stock as i32 });
            Ok(())
        })?;
        Ok(shelves)
    }
}

impl Transactions for MariadbSession {
    type Error = mysql::Error;

    fn named(what: &str, error: Self::Error) -> StoreError {
        named(what, error)
    }

    fn roll_back(&mut self) -> Result<(), StoreError> {
        self.wire.query("ROLLBACK", &mut |_| Ok(())).map(drop).map_err(|error| named("a rollback", error))
    }

    /// The purchase's transaction, in two messages: look and lock, then write and commit. All values are whole numbers,
    /// so they are in the text; prepared statements would be a message each.
    fn buy(&mut self, cart: &Cart) -> Result<Bought, Self::Error> {
        let wanted = cart.by_product();
        let shelves = self.lock_shelves(&wanted)?;
        let net_cents = match check_stock(&wanted, &shelves) {
            Stock::Enough { net_cents } => net_cents,
            Stock::Short(item) => return Ok(Bought::Short(item)),
            Stock::Unknown => return Ok(Bought::UnknownProduct),
        };
        let receipt = Receipt { order_id: 0, net_cents, tax_cents: tax_cents(net_cents) };
        self.text.clear();
        write_order(&mut self.text, cart, &wanted, &receipt).expect("a string takes any text");
        // The order's is the first id: its statement is the first of them.
        let done = self.wire.query(&self.text, &mut |_| Ok(()))?;
        Ok(Bought::Committed(Receipt { order_id: done.insert_id as i64, ..receipt }))
    }

    fn refill(&mut self, short: Item, delivery: i32) -> Result<bool, Self::Error> {
        let Item { prod_id, quantity } = short;
        let mut no_rows = |_: &[u8]| Ok(());
        self.wire.query("START TRANSACTION", &mut no_rows)?;
        let mut in_stock = None;
        self.wire.query(
            &format!("SELECT quan_in_stock FROM inventory WHERE prod_id = {prod_id} FOR UPDATE"),
            &mut |row| {
                let [found] = numbers(row)?;
                in_stock = Some(found);
                Ok(())
            },
        )?;
        let low = in_stock.filter(|&in_stock| in_stock < i64::from(quantity));
        if let Some(in_stock) = low {
            self.wire.query(
                &format!(
                    "INSERT INTO reorder (prod_id, date_low, quan_low, date_reordered, quan_reordered, date_expected) \
                     VALUES ({prod_id}, CURRENT_DATE, {in_stock}, CURRENT_DATE, {delivery}, CURRENT_DATE)"
                ),
                &mut no_rows,
            )?;
            self.wire.query(
                &format!("UPDATE inventory SET quan_in_stock = quan_in_stock + {delivery} WHERE prod_id = {prod_id}"),
                &mut no_rows,
            )?;
        }
        self.wire.query("COMMIT", &mut no_rows)?;
        Ok(low.is_some())
    }
}

impl Session for MariadbSession {
    fn login(&mut self, username: &str, password: &str) -> Result<Option<i64>, StoreError> {
        let mut found = None;
        let values = [Bound::Text(username), Bound::Text(password)];
        self.wire
            .execute(self.login, &values, &mut |row| {
                found = Some(self.customer_id.read(row)?);
                Ok(())
            })
            .map_err(|error| named("a login", error))?;
        Ok(found)
    }

    fn new_customer(&mut self, customer: &NewCustomer) -> Result<Option<i64>, StoreError> {
        let c = customer;
        let values = [
            Bound::Text(&c.first_name),
            Bound::Text(&c.last_name),
            Bound::Text(&c.address),
            Bound::Text(&c.city),
            Bound::Text(c.state),
            Bound::Text(&c.zip),
            Bound::Text(c.country),
            Bound::Number(c.region.into()),
            Bound::Text(&c.email),
            Bound::Text(&c.phone),
            Bound::Number(c.card_type.into()),
            Bound::Text(&c.card),
            Bound::Text(&c.card_expiration),
            Bound::Text(&c.username),
            Bound::Text(c.password),
            Bound::Number(c.age.into()),
            Bound::Number(c.income.into()),
            Bound::Text(c.gender),
        ];
        match self.wire.execute(self.new_customer, &values, &mut |_| Ok(())) {
            Ok(done) => Ok(Some(done.insert_id as i64)),
            Err(mysql::Error::MySqlError(server)) if server.code == 1062 => Ok(None),
            Err(error) => Err(named("a new customer", error)),
        }
    }

    fn browse(&mut self, search: &Search) -> Result<u64, StoreError> {
        let mut all_words = |words: &str| {
            self.text.clear();
            for word in words.split(' ') {
                self.text.push_str(if self.text.is_empty() { "+" } else { " +" });
                self.text.push_str(word);
            }
        };
        let statement = match &search.key {
            SearchKey::Category(_) => self.browse_category,
            SearchKey::Actor(words) => {
                all_words(words);
                self.browse_actor
            }
            SearchKey::Title(words) => {
                all_words(words);
                self.browse_title
            }
        };
        let key = match search.key {
            SearchKey::Category(category) => Bound::Number(category.into()),
            _ => Bound::Text(&self.text),
        };
        self.wire
            .execute(statement, &[key, Bound::Number(search.limit.into())], &mut |_| Ok(()))
            .map(|done| done.rows)
            .map_err(|error| named("a browse", error))
    }

    fn purchase(&mut self, cart: &Cart) -> Result<Purchase, StoreError> {
        self.purchase_whole(cart)
    }

    fn restock(&mut self, short: Item, delivery: i32) -> Result<bool, StoreError> {
        self.restock_whole(short, delivery)
    }
}

/// A connection for loading and auditing. Of its two parts, whichever has a statement under way reads all of its answer.
pub(crate) struct MariadbConsole(Connection);

impl MariadbConsole {
    pub(crate) fn open(address: &DatabaseAddress) -> Result<Self, StoreError> {
        Connection::open(address).map(Self)
    }
}

/// How the rows' making ended, reported from inside the library's callback.
type Outcome = Arc<Mutex<Option<Result<TableSum, StoreDataError>>>>;

/// Loads rows by the library, which asks for them in its own time.
fn load_by_library(
    conn: &mut Conn,
    sql: &str,
    mut make: impl FnMut(&mut dyn io::Write) -> Result<TableSum, StoreDataError> + Send + 'static,
) -> (Result<(), mysql::Error>, Option<Result<TableSum, StoreDataError>>) {
    let outcome: Outcome = Arc::default();
    let slot = Arc::clone(&outcome);
    conn.set_local_infile_handler(Some(LocalInfileHandler::new(move |_, stream| {
        let (made, failed) = ended(make(stream));
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        failed
    })));
    let loaded = kept(|| conn.query_drop(sql));
    conn.set_local_infile_handler(None);
    let made = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    (loaded, made)
}

/// The same by our own wire.
fn load_by_wire(
    wire: &mut Wire,
    sql: &str,
    make: impl FnOnce(&mut dyn io::Write) -> Result<TableSum, StoreDataError>,
) -> (Result<(), mysql::Error>, Option<Result<TableSum, StoreDataError>>) {
    let mut outcome = None;
    let loaded = wire.load(sql, |stream| {
        let (made, failed) = ended(make(stream));
        outcome = Some(made);
        failed
    });
    (loaded, outcome)
}

/// What became of the rows, and what whoever sends them is to know of it.
fn ended(made: Result<TableSum, StoreDataError>) -> (Result<TableSum, StoreDataError>, io::Result<()>) {
    let failed = made.as_ref().err().map(|error| io::Error::other(error.to_string()));
    (made, failed.map_or(Ok(()), Err))
}

/// Runs one statement, and once more where InnoDB reports which internal step failed but not why, as it rarely does in a full tablespace
/// ("rename index to add"). The second attempt then reports that it is full. Any other error of it may come from what the first one left
/// behind, so that the first error counts.
fn again_for_the_reason<T>(mut attempt: impl FnMut() -> Result<T, mysql::Error>) -> Result<T, mysql::Error> {
    let first = match attempt() {
        Err(mysql::Error::MySqlError(server)) if server.code == INTERNAL_ERROR => server,
        ended => return ended,
    };
    match attempt() {
        Err(mysql::Error::MySqlError(server)) if !is_full(&server) => Err(first.into()),
        ended => ended,
    }
}

impl Console for MariadbConsole {
    fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        again_for_the_reason(|| self.0.wire.query(sql, &mut |_| Ok(())))
            .map(drop)
            .map_err(|error| named(&first_words(sql), error))
    }

    fn numbers(
        &mut self,
        sql: &str,
        columns: usize,
        each: &mut dyn FnMut(&[Option<i64>]),
    ) -> Result<(), StoreError> {
        let (mut numbers, mut wrong) = (Vec::new(), None);
        let read = self.0.wire.query(sql, &mut |row| {
            numbers.clear();
            put_numbers(row, &mut numbers)?;
            match numbers.len() {
                found if found == columns => each(&numbers),
                found => wrong = Some(found),
            }
            Ok(())
        });
        read.map_err(|error| named(&first_words(sql), error))?;
        wrong.map_or(Ok(()), |found| Err(wrong_columns(first_words(sql), found, columns)))
    }

    fn texts(&mut self, sql: &str) -> Result<Vec<String>, StoreError> {
        let mut texts = Vec::new();
        let read = self.0.wire.query(sql, &mut |row| {
            if texts.len() == TEXTS_MAX {
                return Err(broken(format!("the server sent more than {TEXTS_MAX} rows")));
            }
            texts.push(first_text(row)?);
            Ok(())
        });
        read.map(|_| texts).map_err(|error| named(&first_words(sql), error))
    }

    fn load(
        &mut self,
        generator: &Arc<Generator>,
        table: Table,
        progress: &SyncSender<Progress>,
    ) -> Result<TableSum, StoreError> {
        let (generator, progress) = (Arc::clone(generator), progress.clone());
        let make = move |stream: &mut dyn io::Write| {
            generator.write_table(table, stream, &mut |at| {
                let _ = progress.send(at); // Nobody listens any more: the load goes on.
            })
        };
        // Keys are checked after the load by queries over whole tables, which is far faster than row by row; with these
        // two off, InnoDB fills an empty table by sorted pages.
        let sql = format!(
            "LOAD DATA LOCAL INFILE '{table}' INTO TABLE {table} CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' \
             LINES TERMINATED BY '\\n' ({})",
            table.columns().join(", ")
        );
        self.run("SET unique_checks = 0, foreign_key_checks = 0")?;
        let (loaded, made) = match &mut self.0.conn {
            Some(conn) => load_by_library(conn, &sql, make),
            None => load_by_wire(&mut self.0.wire, &sql, make),
        };
        let loaded = loaded.map_err(|error| named(&first_words(&sql), error));
        match (loaded, made) {
            (_, Some(Err(StoreDataError::Stopped))) => Err(StoreDataError::Stopped.into()),
            // A server that went away breaks both; its own answer says more than our broken pipe.
            (Err(error), _) => Err(error),
            (Ok(()), Some(sum)) => Ok(sum?),
            (Ok(()), None) => {
                Err(StoreError::LocalInfileOff { source: "the server asked for no rows".into() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_says_is_shown_without_its_names_for_errors() {
        let server =
            mysql::MySqlError { state: "28000".to_owned(), message: "Access denied".to_owned(), code: 1045 };
        assert_eq!(said(&mysql::Error::MySqlError(server)).to_string(), "error 1045 (28000): Access denied");
        let lost = mysql::Error::IoError(std::io::Error::other("server disconnected"));
        assert_eq!(said(&lost).to_string(), "server disconnected");
    }

    fn refused(code: u16, message: &str) -> mysql::Error {
        let (state, message) = ("HY000".to_owned(), message.to_owned());
        mysql::Error::MySqlError(mysql::MySqlError { state, message, code })
    }

    fn answer(code: u16, message: &str) -> StoreError {
        named("a purchase", refused(code, message))
    }

    #[test]
    fn a_statement_with_an_internal_error_is_run_once_more_and_only_a_full_database_replaces_that_error() {
        let internal = || refused(INTERNAL_ERROR, "Internal error: rename index to add");
        let full = || refused(1114, "The table 'customers' is full");
        for (answers, expected) in [
            (vec![Err(internal()), Err(full())], Err("error 1114 (HY000): The table 'customers' is full")),
            (vec![Err(internal()), Ok(7)], Ok(7)),
            (
                vec![Err(internal()), Err(refused(1061, "Duplicate key name 'by_username'"))],
                Err("error 1815 (HY000): Internal error: rename index to add"),
            ),
            (
                vec![Err(internal()), Err(internal())],
                Err("error 1815 (HY000): Internal error: rename index to add"),
            ),
            (vec![Err(full())], Err("error 1114 (HY000): The table 'customers' is full")),
        ] {
            let mut answers = answers.into_iter();
            let ended = again_for_the_reason(|| answers.next().expect("no more is asked"));
            let ended = ended.map_err(|error| said(&error).to_string());
            assert_eq!(ended, expected.map_err(str::to_owned));
            assert!(answers.next().is_none());
        }
    }

    #[test]
    fn a_full_disk_is_named_whichever_part_of_the_server_met_it() {
        for (code, message) in [
            (3, "Error writing file './store/orders.frm' (Errcode: 28 \"No space left on device\")"),
            (20, "Disk is full writing './a.MAI' (Errcode: 28 \"No space left on device\"). Waiting …"),
            (1021, "Disk full (/tmp/#sql.MAI); waiting for someone to free some space"),
            (1026, "Error writing file './store/a' (errno: 28 \"No space left on device\")"),
            (1030, "Got error 28 \"No space left on device\" from storage engine InnoDB"),
            (1114, "The table 'orders' is full"),
            (1878, "Temporary file write failure"),
        ] {
            let error = answer(code, message);
            assert!(matches!(error, StoreError::Full { .. }), "{code}: {error:?}");
        }
        for (code, message) in [
            (3, "Error writing file './a' (Errcode: 5 \"Input/output error\")"),
            (1030, "Got error 122 \"Internal (unspecified) error in handler\" from storage engine InnoDB"),
            (1062, "Duplicate entry 'errno: 28 ' for key 'customers_username'"),
        ] {
            let error = answer(code, message);
            assert!(matches!(error, StoreError::Statement { .. }), "{code}: {error:?}");
        }
    }
}
