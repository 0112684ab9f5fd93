//! Databases of guests: what they are and how much room they need.

use crate::JsonSchema;
use crate::problem::Say;
use crate::program::{MARIADB, POSTGRESQL, Program};
use crate::scenario::{disk::Disk, guest::Guest};
use serde::{Deserialize, Serialize};
use tilemark_units::Bytes;

/// Which database serves the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreDatabase {
    /// MariaDB as Debian ships it, InnoDB tables.
    #[default]
    Mariadb,
    /// PostgreSQL as Debian ships it.
    Postgresql,
}

/// How large a database's log is in a guest with this memory: a third of what it caches, which is three quarters of the
/// memory, but 16 MiB to 2 GiB. The server is started with this (`server_settings` of `tilemark-store`).
pub fn database_log(memory: Bytes) -> Bytes {
    Bytes::new(memory.get() / 4).clamp(Bytes::from_mib(16), Bytes::from_gib(2))
}

impl StoreDatabase {
    /// The name as a scenario writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb",
            Self::Postgresql => "postgresql",
        }
    }

    /// The server.
    pub const fn program(self) -> Program {
        match self {
            Self::Mariadb => MARIADB,
            Self::Postgresql => POSTGRESQL,
        }
    }
}

/// What a commit promises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreDurability {
    /// Each commit is on the disk before it is confirmed, and torn pages are repaired.
    #[default]
    Full,
    /// A crash may lose the last second.
    Relaxed,
}

impl StoreDurability {
    /// As scenarios write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Relaxed => "relaxed",
        }
    }
}

/// Clients of one database at the same time.
pub(super) const CLIENTS_MAX: u32 = 1000;
/// Frames for a transaction at a database: dozens of statements.
pub(super) const FRAMES_EACH: u64 = 1_000;
/// Room on the database's disk for each byte of CSV. Loaded with all keys, 400 MB of CSV were 1.8 times as much in MariaDB and
/// 2.2 times in PostgreSQL; the rest is for sorting while keys are made and for the orders of a long run.
const ROOM_FOR_DATA: u64 = 3;
/// What files there are for each byte of CSV, at the least: see [`ROOM_FOR_DATA`].
const FILES_FOR_DATA: u64 = 2;
/// What a database takes there without any row.
const ROOM_FOR_SERVER: Bytes = Bytes::from_mib(256);
/// What a file system takes of the disk of a log.
const ROOM_FOR_FILE_SYSTEM: Bytes = Bytes::from_mib(64);

/// What a load wants of its database's disk.
pub(super) struct Data<'a> {
    /// The load's name.
    pub(super) load: &'a str,
    /// Bytes of its rows as CSV.
    pub(super) size: Bytes,
    /// The key of its parameters that says how many.
    pub(super) key: &'a str,
}

/// The first disk holds the database, the second its log; an only disk holds both. A guest without disks keeps them in its
/// memory.
pub(super) fn check_database_fits(
    database: StoreDatabase,
    data: &Data<'_>,
    guest: &Guest,
    say: &mut Say<'_>,
) {
    let for_data = Bytes::new(data.size.get().saturating_mul(ROOM_FOR_DATA)) + ROOM_FOR_SERVER;
    let for_log = room_for_log(database, guest.memory);
    match guest.disk.as_slice() {
        [] => check_memory_fits(data, guest, say),
        [both] => check_data_fits(data, guest, (both, for_data + for_log), say),
        [first, second, ..] => {
            check_data_fits(data, guest, (first, for_data), say);
            check_log_fits(guest, (second, for_log), say);
        }
    }
}

/// Without disks its files are in the file system of the guest's memory, which the kernel lets have a half of it (tmpfs). A guest that boots
/// from a disk of the user's own has them there.
fn check_memory_fits(data: &Data<'_>, guest: &Guest, say: &mut Say<'_>) {
    let needed = Bytes::new(data.size.get().saturating_mul(FILES_FOR_DATA));
    if guest.from.is_none() && needed.get() > guest.memory.get() / 2 {
        let (load, guest_name, memory) = (data.load, &guest.name, guest.memory);
        let message = format!(
            "load `{load}` has {} MB of data, and guest `{guest_name}` has no disk and {memory} of memory: the database's files are about {}, \
             and half of the memory is theirs at most",
            data.size.get() / 1_000_000,
            needed.rounded()
        );
        say(message, &format!("add a `[[guest.disk]]`, or lower `{}`", data.key));
    }
}

fn check_data_fits(data: &Data<'_>, guest: &Guest, (disk, needed): (&Disk, Bytes), say: &mut Say<'_>) {
    if disk.size < needed {
        let (load, guest) = (data.load, &guest.name);
        let message = format!(
            "load `{load}` has {} MB of data, and the first disk of guest `{guest}` has {}: the database needs about {}",
            data.size.get() / 1_000_000,
            disk.size,
            needed.rounded()
        );
        let gib = needed.get().div_ceil(1 << 30);
        say(message, &format!("give that disk a `size` of \"{gib}GiB\", or lower `{}`", data.key));
    }
}

fn check_log_fits(guest: &Guest, (disk, needed): (&Disk, Bytes), say: &mut Say<'_>) {
    if disk.size < needed {
        let message = format!(
            "the second disk of guest `{}` has {}: with {} of memory the database's log needs about {}",
            guest.name,
            disk.size,
            guest.memory,
            needed.rounded()
        );
        let mib = needed.get().div_ceil(1 << 20);
        say(message, &format!("give that disk a `size` of \"{mib}MiB\", or lower the guest's `memory`"));
    }
}

/// MariaDB's log has one length. PostgreSQL's grows beyond its own while rows are loaded faster than a checkpoint writes them.
fn room_for_log(database: StoreDatabase, memory: Bytes) -> Bytes {
    let log = database_log(memory);
    let most = match database {
        StoreDatabase::Mariadb => log,
        StoreDatabase::Postgresql => Bytes::new(2 * log.get()),
    };
    most + ROOM_FOR_FILE_SYSTEM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_scenarios_write_them() {
        for durability in [StoreDurability::Full, StoreDurability::Relaxed] {
            assert_eq!(serde_json::to_value(durability).unwrap(), durability.name());
        }
    }
}
