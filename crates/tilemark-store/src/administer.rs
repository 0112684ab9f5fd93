//! What the owner of a server does with a store's database before and after a run: make it, let somebody in, settle it.

use crate::address::{DatabaseAddress, DatabaseKind};
use crate::error::StoreError;
use crate::inspect::load_state;
use crate::open_console::open_console;
use crate::schema::STATE_COMPLETE;
use crate::secret::Secret;

/// Whether the server lets this user in now.
pub fn answers(owner: &DatabaseAddress) -> Result<(), StoreError> {
    open_console(owner).map(drop)
}

/// Makes an empty database of this name. `owner` is somebody who may, in a database that is there already.
pub fn create_database(owner: &DatabaseAddress, name: &str) -> Result<(), StoreError> {
    open_console(owner)?.run(&format!("CREATE DATABASE {name}"))
}

/// Whether the database holds a store whose load came to its end.
pub fn holds_store(owner: &DatabaseAddress) -> Result<bool, StoreError> {
    let mut console = open_console(owner)?;
    Ok(load_state(owner.kind, &mut *console)?.is_some_and(|state| state == STATE_COMPLETE))
}

/// Lets a user in from everywhere, with all rights on the owner's database. One of this name is replaced.
pub fn let_in(owner: &DatabaseAddress, user: &str, password: &Secret) -> Result<(), StoreError> {
    let mut console = open_console(owner)?;
    let (user, password) = (quoted(user), quoted(password.reveal()));
    let database = &owner.database;
    let statements = match owner.kind {
        DatabaseKind::Mariadb => vec![
            format!("CREATE OR REPLACE USER {user}@'%' IDENTIFIED BY {password}"),
            format!("GRANT ALL ON {database}.* TO {user}@'%'"),
        ],
        DatabaseKind::Postgresql => {
            let name = user.replace('\'', "\"");
            let known = format!("SELECT rolname::text FROM pg_roles WHERE rolname = {user}");
            let verb = if console.texts(&known)?.is_empty() { "CREATE" } else { "ALTER" };
            vec![
                format!("{verb} ROLE {name} LOGIN PASSWORD {password}"),
                format!("GRANT ALL ON DATABASE {database} TO {name}"),
                format!("GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}"),
                format!("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {name}"),
            ]
        }
    };
    // An error would repeat the statement's beginning, which is no place for a password.
    statements.iter().try_for_each(|sql| console.run(sql)).map_err(|error| match error {
        StoreError::Statement { source, .. } => {
            StoreError::Statement { what: "a new user".to_owned(), source }
        }
        other => other,
    })
}

/// Settles a store before it is frozen: nothing is left to be cleaned up in the background afterwards.
pub fn settle(owner: &DatabaseAddress) -> Result<(), StoreError> {
    open_console(owner)?.run(match owner.kind {
        // The next shutdown purges all and merges all before it ends.
        DatabaseKind::Mariadb => "SET GLOBAL innodb_fast_shutdown = 0",
        DatabaseKind::Postgresql => "CHECKPOINT",
    })
}

/// An SQL text of letters, digits and a few signs; what could end it early is left out.
fn quoted(text: &str) -> String {
    let plain = text.chars().filter(|sign| sign.is_ascii_alphanumeric() || "-_.".contains(*sign));
    format!("'{}'", plain.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_breaks_out_of_a_quoted_text() {
        assert_eq!(quoted("a-1_b.c"), "'a-1_b.c'");
        assert_eq!(quoted("a'; DROP TABLE x; --"), "'aDROPTABLEx--'");
    }
}
