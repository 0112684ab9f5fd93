//! The online store: schema, load, audit on MariaDB and PostgreSQL.
//!
//! [`load_database`] turns an empty database into a store, [`inspect()`] says whether a database can be used, [`run_load`]
//! sends customers to it who log in, look around and buy, and checks afterwards that the database holds exactly what
//! those customers got as answers. What it is not: it starts no server and knows nothing of guests or scenarios.

mod address;
mod administer;
mod audit;
mod books;
mod client;
mod console;
mod demand;
mod error;
mod figures;
mod inspect;
mod ledger;
mod loader;
mod mariadb;
mod mariadb_login;
mod mariadb_sql;
mod mariadb_wire;
mod observer;
mod open_console;
mod open_within;
mod postgresql;
mod postgresql_tls;
mod result;
mod run;
mod schema;
mod secret;
mod session;
mod settings;
mod shopper;
mod steady;
mod threads;
mod tls;
mod transaction;

pub use address::{CertificateCheck, DatabaseAddress, DatabaseKind, DatabaseTls, Endpoint};
pub use administer::{answers, create_database, holds_store, let_in, settle};
pub use audit::{AuditReport, audit};
pub use books::{Books, DatabaseBooks, HistoryRow, OrderLine, Shelves, Snapshot};
pub use demand::{Demand, Pace};
pub use error::{Cause, StoreError};
pub use figures::Latency;
pub use inspect::{FoundSetting, StoreFacts, inspect};
pub use ledger::Confirmed;
pub use loader::{LoadProgress, Loaded, LoadedTable, load_database};
pub use mariadb::MariadbSession;
pub use observer::{Observer, OrderEnded, Outcome, Unobserved};
pub use postgresql::PostgresqlSession;
pub use result::{Finding, FindingKind, LoadResult, Status, Verdict};
pub use run::{open_session, run_load, run_load_with, run_observed_load};
pub use schema::{indexes_sql, tables_sql};
pub use secret::Secret;
pub use session::{Cart, Item, NewCustomer, Purchase, Receipt, Search, SearchKey, Session};
pub use settings::{Durability, Setting, server_settings};
pub use steady::{Steady, find_steady};
