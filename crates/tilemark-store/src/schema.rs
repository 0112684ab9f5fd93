//! The tables and keys of the store, as the SQL files of this crate say them.

use crate::address::DatabaseKind;

/// Marks a database while it is loaded. A store built by hand does not have it, and need not.
pub(crate) const STATE_TABLE: &str = "load_state";

/// What that mark says once the load came to its end.
pub(crate) const STATE_COMPLETE: &str = "complete";

/// All tables of the store.
pub(crate) const TABLES: [&str; 8] =
    ["categories", "products", "customers", "orders", "orderlines", "cust_hist", "inventory", "reorder"];

/// Keys that point from a column to a table's own key of the same meaning: child, column, parent, column.
pub(crate) const REFERENCES: [[&str; 4]; 9] = [
    ["products", "category", "categories", "category"],
    ["inventory", "prod_id", "products", "prod_id"],
    ["products", "common_prod_id", "products", "prod_id"],
    ["orders", "customerid", "customers", "customerid"],
    ["orderlines", "orderid", "orders", "orderid"],
    ["orderlines", "prod_id", "products", "prod_id"],
    ["cust_hist", "customerid", "customers", "customerid"],
    ["cust_hist", "orderid", "orders", "orderid"],
    ["cust_hist", "prod_id", "products", "prod_id"],
];

/// The columns of a table. Those of `reorder` are not generated, so they are here.
pub(crate) fn columns(table: &str) -> &'static [&'static str] {
    tilemark_store_data::Table::ALL.iter().find(|known| known.name() == table).map_or(
        &["prod_id", "date_low", "quan_low", "date_reordered", "quan_reordered", "date_expected"],
        |known| known.columns(),
    )
}

/// SQL that makes the empty tables, for reading and for building a store by hand.
pub fn tables_sql(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Mariadb => include_str!("../sql/mariadb-tables.sql"),
        DatabaseKind::Postgresql => include_str!("../sql/postgresql-tables.sql"),
    }
}

/// SQL that makes keys, full-text indexes and foreign keys once the rows are there.
pub fn indexes_sql(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Mariadb => include_str!("../sql/mariadb-indexes.sql"),
        DatabaseKind::Postgresql => include_str!("../sql/postgresql-indexes.sql"),
    }
}

/// The lane of foreign keys in the index files: made last, when both tables have their rows and keys.
pub(crate) const FOREIGN_KEYS: &str = "foreign keys";

/// A statement of an SQL file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Statement {
    /// What the comment `-- lane …` before it says: a table, or [`FOREIGN_KEYS`].
    pub(crate) lane: &'static str,
    pub(crate) sql: &'static str,
}

/// Cuts a file of statements at the semicolons that end a line.
pub(crate) fn statements(file: &'static str) -> Vec<Statement> {
    file.split_inclusive(";\n")
        .map(|part| {
            let lane = part.lines().find_map(|line| line.strip_prefix("-- lane ")).unwrap_or_default();
            let from =
                part.lines().take_while(|line| line.starts_with("--")).map(|line| line.len() + 1).sum();
            Statement { lane, sql: part[from..].trim().trim_end_matches(';') }
        })
        .filter(|statement| !statement.sql.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_made_and_every_index_has_a_lane() {
        for kind in [DatabaseKind::Mariadb, DatabaseKind::Postgresql] {
            let made = statements(tables_sql(kind));
            assert_eq!(made.len(), TABLES.len());
            for (statement, table) in made.iter().zip(TABLES) {
                assert!(statement.sql.starts_with(&format!("CREATE TABLE {table} (")), "{}", statement.sql);
                assert!(
                    columns(table).iter().all(|column| statement.sql.contains(&format!("\n  {column} ")))
                );
            }
            for statement in statements(indexes_sql(kind)) {
                let lane = statement.lane;
                assert!(lane == FOREIGN_KEYS || TABLES.contains(&lane), "{}", statement.sql);
                assert!(statement.sql.starts_with("ALTER") || statement.sql.starts_with("CREATE"));
            }
        }
    }
}
