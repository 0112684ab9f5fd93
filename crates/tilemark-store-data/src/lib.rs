//! Seeded, parallel data for the online store: customers, orders, their lines and history, products and stock.
//!
//! A [`Store`] says how many rows each table has; a [`Generator`] writes them as CSV into any [`std::io::Write`]: a
//! file, or the stream that a database's bulk loader reads. The bytes depend on the store and the seed alone, never
//! on the number of threads: rows are made in blocks, and each block draws from its own counter-based random stream.
//!
//! The distributions are those of the classic store benchmark that the published figures were measured with; the
//! words and names are our own. What it is not: it knows no database, and it does not load anything.

mod checksum;
mod error;
mod files;
mod generate;
mod measure;
mod plan;
mod random;
mod rows;
mod sales;
mod size;
mod table;
mod text;
pub mod words;

pub use checksum::TableSum;
pub use error::StoreDataError;
pub use files::{MANIFEST, Manifest, write_files};
pub use generate::{Generator, Progress};
pub use plan::{FIRST_ORDER_YEAR, Rule, Store, is_hot};
pub use size::{DataSize, Ds2Size};
pub use table::Table;
