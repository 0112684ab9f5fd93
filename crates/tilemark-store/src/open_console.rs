//! The console of a server, whichever it is.

use crate::address::{DatabaseAddress, DatabaseKind};
use crate::console::Console;
use crate::error::StoreError;
use crate::mariadb::MariadbConsole;
use crate::open_within::open;
use crate::postgresql::PostgresqlConsole;

/// Opens one.
pub(crate) fn open_console(address: &DatabaseAddress) -> Result<Box<dyn Console>, StoreError> {
    open(address, open_console_at)
}

/// The same, however long the server takes.
pub(crate) fn open_console_at(address: &DatabaseAddress) -> Result<Box<dyn Console>, StoreError> {
    Ok(match address.kind {
        DatabaseKind::Mariadb => Box::new(MariadbConsole::open(address)?),
        DatabaseKind::Postgresql => Box::new(PostgresqlConsole::open(address)?),
    })
}
