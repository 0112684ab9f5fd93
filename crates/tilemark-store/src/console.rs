//! Plain SQL beside the clients' prepared statements: for loading, checking and auditing.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use tilemark_store_data::{Generator, Progress, Table, TableSum};

use crate::address::DatabaseKind;
use crate::error::StoreError;

/// Rows of text that are read: far more than a server has tables, columns, indexes and settings that are asked for.
pub(crate) const TEXTS_MAX: usize = 100_000;

/// A connection for statements that are written once and run rarely.
pub(crate) trait Console: Send {
    /// Runs a statement that gives no rows.
    fn run(&mut self, sql: &str) -> Result<(), StoreError>;
    /// Reads rows of so many whole numbers (each column made with [`int`]); NULL reads as `None`. Rows are streamed.
    fn numbers(
        &mut self,
        sql: &str,
        columns: usize,
        each: &mut dyn FnMut(&[Option<i64>]),
    ) -> Result<(), StoreError>;
    /// Reads the first column of all rows as text: names and settings, [`TEXTS_MAX`] at most.
    fn texts(&mut self, sql: &str) -> Result<Vec<String>, StoreError>;
    /// Streams one table's rows into the server's bulk loader.
    fn load(
        &mut self,
        generator: &Arc<Generator>,
        table: Table,
        progress: &SyncSender<Progress>,
    ) -> Result<TableSum, StoreError>;
}

/// A whole number of 64 bits, whatever type the expression has.
pub(crate) fn int(kind: DatabaseKind, expression: &str) -> String {
    match kind {
        DatabaseKind::Mariadb => format!("CAST({expression} AS SIGNED)"),
        DatabaseKind::Postgresql => format!("CAST({expression} AS bigint)"),
    }
}

/// The beginning of a statement, to name it in an error.
pub(crate) fn first_words(sql: &str) -> String {
    let words: Vec<&str> = sql.split_whitespace().take(6).collect();
    format!("`{} …`", words.join(" "))
}

/// A row that has not the columns that were asked for, of the statement `what`.
pub(crate) fn wrong_columns(what: String, found: usize, wanted: usize) -> StoreError {
    let source = format!("the server sent rows of {found} columns instead of {wanted}").into();
    StoreError::Statement { what, source }
}

impl dyn Console + '_ {
    /// The single number that a statement gives.
    pub(crate) fn number(&mut self, sql: &str) -> Result<i64, StoreError> {
        let mut found = None;
        self.numbers(sql, 1, &mut |row| found = row[0])?;
        found.ok_or_else(|| StoreError::Statement {
            what: format!("`{sql}`"),
            source: "it gave no number".into(),
        })
    }
}
