//! The store on PostgreSQL.

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use postgres::config::SslMode;
use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::{ToSql, WrongType};
use postgres::{Client, Config, NoTls, Statement};
use tilemark_store_data::{Generator, Progress, StoreDataError, Table, TableSum};
use tilemark_tls::TlsFailure;

use crate::address::{DatabaseAddress, Endpoint};
use crate::console::{Console, first_words, wrong_columns};
use crate::error::StoreError;
use crate::postgresql_tls::Secure;
use crate::session::{
    Cart, Item, NewCustomer, Purchase, Receipt, Search, SearchKey, Session, Shelf, Stock, check_stock,
    tax_cents,
};
use crate::tls;
use crate::transaction::{Bought, Transactions};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes gathered before they are handed to the connection: a message a row would cost more than the row.
const COPY_BUFFER: usize = 256 * 1024;

const LOGIN: &str = "SELECT c.customerid, p.title, p.actor, q.title FROM customers c LEFT JOIN (cust_hist h \
    JOIN products p ON p.prod_id = h.prod_id JOIN products q ON q.prod_id = p.common_prod_id) \
    ON h.customerid = c.customerid WHERE c.username = $1 AND c.password = $2 ORDER BY h.orderid DESC LIMIT 10";
const NEW_CUSTOMER: &str = "INSERT INTO customers (firstname, lastname, address1, city, state, zip, country, region, \
    email, phone, creditcardtype, creditcard, creditcardexpiration, username, password, age, income, gender) VALUES \
    ($1, $2, $3, $4, $5, $6, $7, CAST($8 AS int), $9, $10, $11, $12, $13, $14, $15, CAST($16 AS int), $17, $18) \
    ON CONFLICT (username) DO NOTHING RETURNING customerid";
const BROWSE_COLUMNS: &str =
    "SELECT prod_id, category, title, actor, price::text, special, common_prod_id FROM products";
const SHELVES: &str = "SELECT i.prod_id, CAST(p.price * 100 AS bigint), i.quan_in_stock FROM inventory i \
    JOIN products p ON p.prod_id = i.prod_id WHERE i.prod_id = ANY($1) ORDER BY i.prod_id FOR UPDATE OF i";
/// The order, the stock, the lines and the history: one message instead of four.
const SELL: &str = "WITH o AS (INSERT INTO orders (orderdate, customerid, netamount, tax, totalamount) \
    VALUES (CURRENT_DATE, $1, CAST($2 AS bigint) / 100.0, CAST($3 AS bigint) / 100.0, CAST($4 AS bigint) / 100.0) \
    RETURNING orderid), \
    stock AS (UPDATE inventory i SET quan_in_stock = quan_in_stock - c.quantity, sales = sales + c.quantity \
    FROM unnest(CAST($5 AS int[]), CAST($6 AS int[])) AS c (prod_id, quantity) WHERE i.prod_id = c.prod_id), \
    lines AS (INSERT INTO orderlines (orderlineid, orderid, prod_id, quantity, orderdate) \
    SELECT c.line, o.orderid, c.prod_id, c.quantity, CURRENT_DATE FROM o, \
    unnest(CAST($7 AS int[]), CAST($8 AS int[])) WITH ORDINALITY AS c (prod_id, quantity, line)), \
    history AS (INSERT INTO cust_hist (customerid, orderid, prod_id) \
    SELECT $1, o.orderid, c.prod_id FROM o, unnest(CAST($7 AS int[])) AS c (prod_id)) \
    SELECT orderid FROM o";
const LOW_STOCK: &str = "SELECT quan_in_stock FROM inventory WHERE prod_id = $1 FOR UPDATE";
const NEW_REORDER: &str = "INSERT INTO reorder (prod_id, date_low, quan_low, date_reordered, quan_reordered, \
    date_expected) VALUES ($1, CURRENT_DATE, $2, CURRENT_DATE, $3, CURRENT_DATE)";
const DELIVERY: &str = "UPDATE inventory SET quan_in_stock = quan_in_stock + $1 WHERE prod_id = $2";

fn connect(address: &DatabaseAddress) -> Result<Client, StoreError> {
    let mut config = Config::new();
    match &address.endpoint {
        Endpoint::Tcp { host, port } => config.host(host).port(*port),
        Endpoint::Socket { path, port } => config.host_path(path).port(*port),
    };
    config.user(&address.user).dbname(&address.database).connect_timeout(CONNECT_TIMEOUT);
    config.application_name("tilemark");
    if let Some(secret) = &address.password {
        config.password(secret.reveal());
    }
    let connected = match tls::of(address)? {
        Some(tls) => config.ssl_mode(SslMode::Require).connect(Secure(tls)),
        None => config.ssl_mode(SslMode::Disable).connect(NoTls),
    };
    connected.map_err(|error| not_let_in(address, error))
}

/// What the library says where TLS is wanted and the server has none; it has no other sign for it.
const HAS_NO_TLS: &str = "server does not support TLS";

/// Gives the reason why there is no connection its name.
fn not_let_in(address: &DatabaseAddress, error: postgres::Error) -> StoreError {
    let place = address.to_string();
    if let Some(source) = error.source() {
        if source.to_string() == HAS_NO_TLS {
            return StoreError::NoTls { address: place };
        }
        if let Some(failure) = source.downcast_ref::<TlsFailure>() {
            return StoreError::Tls { address: place, source: failure.clone() };
        }
    }
    match error.code() {
        // The same code for each rule of the server that lets nobody in: its words are of connections that are not encrypted.
        Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION)
            if address.tls.is_none() && wants_encryption(&server_text(&error)) =>
        {
            StoreError::WantsTls { address: place, source: Box::new(error) }
        }
        Some(&SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {
            StoreError::Refused { address: place, source: Box::new(error) }
        }
        Some(&SqlState::INVALID_CATALOG_NAME) => {
            StoreError::NoDatabase { database: address.database.clone(), source: Box::new(error) }
        }
        Some(&SqlState::CANNOT_CONNECT_NOW) => StoreError::Down { address: place, source: Box::new(error) },
        // Without a code the server never answered, or the library lacks something that the server asked for.
        None if from_system(&error) => StoreError::Down { address: place, source: Box::new(error) },
        None => StoreError::Refused { address: place, source: Box::new(error) },
        Some(_) => named("the connection", error),
    }
}

/// Whether a server without a rule for this connection says that it is not encrypted, as newer and as older versions do.
fn wants_encryption(text: &str) -> bool {
    text.ends_with("no encryption") || text.ends_with("SSL off")
}

/// Gives a server's answer its name.
fn named(what: &str, error: postgres::Error) -> StoreError {
    let Some(code) = error.code().cloned() else {
        // Without a code it did not come from the server: either the connection broke or the library refused a value.
        let broken = error.is_closed() || from_system(&error);
        // A column of another type than the documented tables have.
        let mismatch = error.source().filter(|source| source.is::<WrongType>()).map(ToString::to_string);
        let source = Box::new(error);
        return if broken {
            StoreError::Lost { source }
        } else if let Some(mismatch) = mismatch {
            StoreError::WrongSchema { problems: vec![format!("{what}: {mismatch}")] }
        } else {
            StoreError::Statement { what: what.to_owned(), source }
        };
    };
    let source = Box::new(error);
    if code == SqlState::T_R_DEADLOCK_DETECTED || code == SqlState::T_R_SERIALIZATION_FAILURE {
        StoreError::Deadlock { source }
    } else if code == SqlState::DISK_FULL {
        StoreError::Full { source }
    } else if code == SqlState::READ_ONLY_SQL_TRANSACTION {
        StoreError::ReadOnly { source: Some(source) }
    } else if code == SqlState::TOO_MANY_CONNECTIONS {
        StoreError::NoConnectionLeft { source }
    } else if code.code().starts_with("57P") || code.code().starts_with("08") {
        StoreError::Lost { source }
    } else if code == SqlState::UNDEFINED_TABLE || code == SqlState::UNDEFINED_COLUMN {
        StoreError::WrongSchema { problems: vec![format!("{what}: {}", server_text(&source))] }
    } else {
        StoreError::Statement { what: what.to_owned(), source }
    }
}

fn from_system(error: &postgres::Error) -> bool {
    error.source().is_some_and(|source| source.is::<io::Error>())
}

fn server_text(error: &postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |server| server.message().to_owned())
}

/// A client's connection.
pub struct PostgresqlSession {
    client: Client,
    login: Statement,
    new_customer: Statement,
    browse_category: Statement,
    browse_actor: Statement,
    browse_title: Statement,
    shelves: Statement,
    sell: Statement,
}

impl PostgresqlSession {
    /// Connects and prepares what every client needs.
    pub fn open(address: &DatabaseAddress) -> Result<Self, StoreError> {
        let mut client = connect(address)?;
        let mut prepare =
            |sql: &str| client.prepare(sql).map_err(|error| named("a prepared statement", error));
        let by_words = |column| {
            format!(
                "{BROWSE_COLUMNS} WHERE to_tsvector('simple', {column}) @@ plainto_tsquery('simple', $1) LIMIT $2"
            )
        };
        let by_category =
            format!("{BROWSE_COLUMNS} WHERE category = CAST($1 AS int) AND special = 1 LIMIT $2");
        Ok(Self {
            login: prepare(LOGIN)?,
            new_customer: prepare(NEW_CUSTOMER)?,
            browse_category: prepare(&by_category)?,
            browse_actor: prepare(&by_words("actor"))?,
            browse_title: prepare(&by_words("title"))?,
            shelves: prepare(SHELVES)?,
            sell: prepare(SELL)?,
            client,
        })
    }
}

fn columns(items: &[Item]) -> (Vec<i32>, Vec<i32>) {
    items.iter().map(|item| (item.prod_id, item.quantity)).unzip()
}

impl Transactions for PostgresqlSession {
    type Error = postgres::Error;

    fn named(what: &str, error: Self::Error) -> StoreError {
        named(what, error)
    }

    fn roll_back(&mut self) -> Result<(), StoreError> {
        self.client.batch_execute("ROLLBACK").map_err(|error| named("a rollback", error))
    }

    /// Everything between the begin and the end of the purchase's transaction.
    fn buy(&mut self, cart: &Cart) -> Result<Bought, Self::Error> {
        let wanted = cart.by_product();
        let (ids, quantities) = columns(&wanted);
        self.client.batch_execute("BEGIN")?;
        let shelves: Vec<Shelf> = self
            .client
            .query(&self.shelves, &[&ids])?
            .iter()
            .map(|row| {
                let (prod_id, price_cents, in_stock) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
                Ok(Shelf { prod_id, price_cents, in_stock })
            })
            .collect::<Result<_, Self::Error>>()?;
        let net_cents = match check_stock(&wanted, &shelves) {
            Stock::Enough { net_cents } => net_cents,
            Stock::Short(item) => return Ok(Bought::Short(item)),
            Stock::Unknown => return Ok(Bought::UnknownProduct),
        };
        let receipt = Receipt { order_id: 0, net_cents, tax_cents: tax_cents(net_cents) };
        let (line_ids, line_quantities) = columns(&cart.items);
        let values: [&(dyn ToSql + Sync); 8] = [
            &cart.customer_id,
            &receipt.net_cents,
            &receipt.tax_cents,
            &receipt.total_cents(),
            &ids,
            &quantities,
            &line_ids,
            &line_quantities,
        ];
        let order_id: i32 = self.client.query_one(&self.sell, &values)?.try_get(0)?;
        self.client.batch_execute("COMMIT")?;
        Ok(Bought::Committed(Receipt { order_id: i64::from(order_id), ..receipt }))
    }

    fn refill(&mut self, short: Item, delivery: i32) -> Result<bool, Self::Error> {
        self.client.batch_execute("BEGIN")?;
        let found = self.client.query_opt(LOW_STOCK, &[&short.prod_id])?;
        let in_stock: Option<i32> = found.map(|row| row.try_get(0)).transpose()?;
        let low = in_stock.filter(|&in_stock| in_stock < short.quantity);
        if let Some(in_stock) = low {
            self.client.execute(NEW_REORDER, &[&short.prod_id, &in_stock, &delivery])?;
            self.client.execute(DELIVERY, &[&delivery, &short.prod_id])?;
        }
        self.client.batch_execute("COMMIT")?;
        Ok(low.is_some())
    }
}

impl Session for PostgresqlSession {
    fn login(&mut self, username: &str, password: &str) -> Result<Option<i64>, StoreError> {
        let rows = self.client.query(&self.login, &[&username, &password]);
        let id: Result<Option<i32>, _> =
            rows.and_then(|rows| rows.first().map(|row| row.try_get(0)).transpose());
        Ok(id.map_err(|error| named("a login", error))?.map(i64::from))
    }

    fn new_customer(&mut self, customer: &NewCustomer) -> Result<Option<i64>, StoreError> {
        let c = customer;
        let row = self.client.query_opt(
            &self.new_customer,
            &[
                &c.first_name,
                &c.last_name,
                &c.address,
                &c.city,
                &c.state,
                &c.zip,
                &c.country,
                &c.region,
                &c.email,
                &c.phone,
                &c.card_type,
                &c.card,
                &c.card_expiration,
                &c.username,
                &c.password,
                &c.age,
                &c.income,
                &c.gender,
            ],
        );
        let id: Result<Option<i32>, _> = row.and_then(|row| row.map(|row| row.try_get(0)).transpose());
        Ok(id.map_err(|error| named("a new customer", error))?.map(i64::from))
    }

    fn browse(&mut self, search: &Search) -> Result<u64, StoreError> {
        let limit = i64::from(search.limit);
        let rows = match &search.key {
            SearchKey::Category(category) => self.client.query(&self.browse_category, &[category, &limit]),
            SearchKey::Actor(words) => self.client.query(&self.browse_actor, &[words, &limit]),
            SearchKey::Title(words) => self.client.query(&self.browse_title, &[words, &limit]),
        };
        rows.map(|rows| rows.len() as u64).map_err(|error| named("a browse", error))
    }

    fn purchase(&mut self, cart: &Cart) -> Result<Purchase, StoreError> {
        self.purchase_whole(cart)
    }

    fn restock(&mut self, short: Item, delivery: i32) -> Result<bool, StoreError> {
        self.restock_whole(short, delivery)
    }
}

/// A connection for loading and auditing.
pub(crate) struct PostgresqlConsole(Client);

impl PostgresqlConsole {
    pub(crate) fn open(address: &DatabaseAddress) -> Result<Self, StoreError> {
        connect(address).map(Self)
    }

    fn copy(
        &mut self,
        generator: &Generator,
        table: Table,
        progress: &SyncSender<Progress>,
    ) -> Result<TableSum, StoreError> {
        let lost = |error| named(&format!("the rows of {table}"), error);
        let force = match table {
            Table::Customers => ", FORCE_NOT_NULL (address2, state)",
            _ => "",
        };
        // FREEZE needs a table emptied in the same transaction; with wal_level=minimal the rows then skip the log.
        let sql = format!(
            "COPY {table} ({}) FROM STDIN WITH (FORMAT csv, FREEZE{force})",
            table.columns().join(", ")
        );
        let mut transaction = self.0.transaction().map_err(lost)?;
        transaction.batch_execute(&format!("TRUNCATE {table}")).map_err(lost)?;
        let writer = transaction.copy_in(&sql).map_err(lost)?;
        let mut writer = io::BufWriter::with_capacity(COPY_BUFFER, writer);
        let made = generator.write_table(table, &mut writer, &mut |at| {
            let _ = progress.send(at); // Nobody listens any more: the load goes on.
        });
        let sum = match made {
            Ok(sum) => sum,
            Err(StoreDataError::Sink { source, .. }) => {
                drop(writer.into_parts());
                return Err(match source.downcast::<postgres::Error>() {
                    Ok(error) => lost(error),
                    Err(source) => StoreError::Lost { source: Box::new(source) },
                });
            }
            Err(other) => return Err(other.into()),
        };
        writer.flush().map_err(|source| StoreError::Lost { source: Box::new(source) })?;
        let writer =
            writer.into_inner().map_err(|_| StoreError::Lost { source: "rows were left over".into() })?;
        writer.finish().map_err(lost)?;
        transaction.commit().map_err(lost)?;
        Ok(sum)
    }
}

impl Console for PostgresqlConsole {
    fn run(&mut self, sql: &str) -> Result<(), StoreError> {
        self.0.batch_execute(sql).map_err(|error| named(&first_words(sql), error))
    }

    fn numbers(
        &mut self,
        sql: &str,
        columns: usize,
        each: &mut dyn FnMut(&[Option<i64>]),
    ) -> Result<(), StoreError> {
        let failed = |error| named(&first_words(sql), error);
        let mut numbers = Vec::new();
        let mut rows = self.0.query_raw(sql, std::iter::empty::<&str>()).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            numbers.clear();
            if row.len() != columns {
                return Err(wrong_columns(first_words(sql), row.len(), columns));
            }
            for column in 0..row.len() {
                numbers.push(row.try_get::<_, Option<i64>>(column).map_err(failed)?);
            }
            each(&numbers);
        }
        Ok(())
    }

    fn texts(&mut self, sql: &str) -> Result<Vec<String>, StoreError> {
        let rows = self.0.query(sql, &[]).map_err(|error| named(&first_words(sql), error))?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| named(&first_words(sql), error))).collect()
    }

    fn load(
        &mut self,
        generator: &Arc<Generator>,
        table: Table,
        progress: &SyncSender<Progress>,
    ) -> Result<TableSum, StoreError> {
        self.copy(generator, table, progress)
    }
}
