//! Settings of a database server, sized from the memory it may use.

use tilemark_plan::workload::database_log;
use tilemark_units::Bytes;

use crate::address::DatabaseKind;
use crate::error::StoreError;

/// What a commit promises. It is stated beside every figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Each commit is on the disk before it is confirmed; torn pages are repaired.
    Full,
    /// A crash may lose the last second. For comparison with papers that ran so, never the default.
    Relaxed,
}

/// One setting of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name as the server knows it.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

impl Setting {
    /// `name=value`, which both servers take in their configuration file, MariaDB after `--` and PostgreSQL after `-c`.
    pub fn line(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}

const MIB: u64 = 1 << 20;

/// Settings for a server that may use `memory_bytes` and serves `clients` at once.
///
/// MariaDB: three quarters of the memory are the buffer pool, as in the published experiment (3 of 4 GB). PostgreSQL
/// relies on the system's page cache, so a quarter is its own buffer and the planner gets three quarters in all.
pub fn server_settings(
    kind: DatabaseKind,
    memory_bytes: u64,
    clients: u32,
    durability: Durability,
) -> Result<Vec<Setting>, StoreError> {
    let (memory, least) = (Bytes::new(memory_bytes), Bytes::from_mib(64));
    if memory < least {
        return Err(StoreError::Memory { memory, least });
    }
    // Beside the clients: the loader's lanes, the audit, an administrator.
    let connections = (clients + 8).to_string();
    let mebibytes = |bytes: u64| format!("{}M", bytes / MIB);
    let pool = memory_bytes / 4 * 3;
    let log = database_log(memory).get();
    let full = durability == Durability::Full;
    let pairs: Vec<(&'static str, String)> = match kind {
        DatabaseKind::Mariadb => vec![
            ("innodb_buffer_pool_size", mebibytes(pool)),
            ("innodb_log_file_size", mebibytes(log)),
            ("innodb_flush_log_at_trx_commit", if full { "1" } else { "2" }.into()),
            ("innodb_doublewrite", if full { "ON" } else { "OFF" }.into()),
            ("innodb_ft_min_token_size", "3".into()),
            ("innodb_autoinc_lock_mode", "2".into()),
            ("character_set_server", "utf8mb4".into()),
            ("local_infile", "ON".into()),
            ("max_connections", connections),
            ("performance_schema", "OFF".into()),
            ("skip_log_bin", "ON".into()),
            ("table_open_cache", "2000".into()),
        ],
        DatabaseKind::Postgresql => vec![
            ("shared_buffers", mebibytes(memory_bytes / 4).replace('M', "MB")),
            ("effective_cache_size", mebibytes(pool).replace('M', "MB")),
            (
                "maintenance_work_mem",
                mebibytes((memory_bytes / 16).clamp(16 * MIB, 1024 * MIB)).replace('M', "MB"),
            ),
            ("fsync", if full { "on" } else { "off" }.into()),
            ("synchronous_commit", if full { "on" } else { "off" }.into()),
            ("full_page_writes", if full { "on" } else { "off" }.into()),
            ("max_wal_size", mebibytes(log.max(64 * MIB)).replace('M', "MB")),
            ("wal_level", "minimal".into()),
            ("max_wal_senders", "0".into()),
            ("jit", "off".into()),
            ("random_page_cost", "1.1".into()),
            ("max_connections", connections),
        ],
    };
    Ok(pairs.into_iter().map(|(name, value)| Setting { name, value }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: DatabaseKind, durability: Durability, name: &str) -> String {
        let settings = server_settings(kind, 4096 * MIB, 32, durability).unwrap();
        settings.into_iter().find(|setting| setting.name == name).map(|setting| setting.value).unwrap()
    }

    #[test]
    fn four_gibibytes_give_the_published_buffer_pool_and_full_durability() {
        assert_eq!(value(DatabaseKind::Mariadb, Durability::Full, "innodb_buffer_pool_size"), "3072M");
        assert_eq!(value(DatabaseKind::Mariadb, Durability::Full, "innodb_flush_log_at_trx_commit"), "1");
        assert_eq!(value(DatabaseKind::Mariadb, Durability::Full, "innodb_doublewrite"), "ON");
        assert_eq!(value(DatabaseKind::Postgresql, Durability::Full, "fsync"), "on");
        assert_eq!(value(DatabaseKind::Postgresql, Durability::Full, "shared_buffers"), "1024MB");
        assert_eq!(value(DatabaseKind::Postgresql, Durability::Relaxed, "synchronous_commit"), "off");
        let error = server_settings(DatabaseKind::Mariadb, MIB, 1, Durability::Full).unwrap_err().to_string();
        assert_eq!(error, "a database server needs at least 64MiB of memory, and it has 1MiB");
    }
}
