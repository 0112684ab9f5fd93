//! What can go wrong with a database, and what the reader should do about it.

use std::error::Error;

use tilemark_plan::problem::Fault;
use tilemark_store_data::{StoreDataError, Table};
use tilemark_tls::{TlsFailure, TlsFault};
use tilemark_units::Bytes;

/// What a database's own library said. Boxed, because the two libraries have their own types.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why the store could not be loaded, used or audited.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The address does not say what is needed.
    #[error("the database's address is not understood: {0}")]
    Address(&'static str),
    /// Nobody answers there.
    #[error("no database answers at {address}")]
    Down {
        /// Where, without password.
        address: String,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The server answered and said no to this user.
    #[error("{address} does not let this user in")]
    Refused {
        /// Where, without password.
        address: String,
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// TLS is wanted and the server has none.
    #[error("{address} has no TLS")]
    NoTls {
        /// Where, without password.
        address: String,
    },
    /// The server lets nobody in without TLS.
    #[error("{address} lets nobody in without TLS")]
    WantsTls {
        /// Where, without password.
        address: String,
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// The server and we do not agree on TLS, or its certificate is not accepted.
    #[error("the connection to {address} could not be secured")]
    Tls {
        /// Where, without password.
        address: String,
        /// What is wrong.
        #[source]
        source: TlsFailure,
    },
    /// The authorities that are given cannot be used.
    #[error("the authorities for {address} cannot be used: {reason}")]
    Authorities {
        /// Where, without password.
        address: String,
        /// What is wrong with them.
        reason: String,
    },
    /// There is no database of this name in the server.
    #[error("there is no database `{database}` in the server")]
    NoDatabase {
        /// Its name.
        database: String,
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// The server is too old, or something else.
    #[error("the server is {found}; {wanted} is needed")]
    WrongVersion {
        /// What it says it is.
        found: String,
        /// What we can use.
        wanted: &'static str,
    },
    /// Nothing can be written.
    #[error("the database is read-only")]
    ReadOnly {
        /// What the server said, if a statement found it out.
        #[source]
        source: Option<Cause>,
    },
    /// The server has fewer free connections than the run has clients.
    #[error("the server has {free} free connections and the run needs {needed}")]
    TooFewConnections {
        /// How many are free.
        free: u64,
        /// How many the run needs.
        needed: u64,
    },
    /// The server turned a connection away because it has too many.
    #[error("the server has no connection left")]
    NoConnectionLeft {
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// Tables or columns are not those of the store.
    #[error("the schema is not that of the store: {}", problems.join("; "))]
    WrongSchema {
        /// All that differs.
        problems: Vec<String>,
    },
    /// A load was begun and never finished, or rows are missing.
    #[error("the store is only half loaded: {0}")]
    HalfLoaded(String),
    /// The database is to be loaded and already has tables of the store.
    #[error("table `{0}` exists already")]
    AlreadyLoaded(String),
    /// The database is to be loaded and has tables of others.
    #[error("the database is not empty: it has table `{table}`{}", others(*tables))]
    NotEmpty {
        /// The first of them by name.
        table: String,
        /// How many there are.
        tables: usize,
    },
    /// The server's disk, tablespace or memory is full.
    #[error("the database's disk is full")]
    Full {
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// The connection ended.
    #[error("the connection to the database was lost")]
    Lost {
        /// What the system or the server said.
        #[source]
        source: Cause,
    },
    /// The server chose this transaction to end a deadlock, or it waited too long for a lock.
    #[error("the transaction ran into a deadlock")]
    Deadlock {
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// The server does not take rows from its client.
    #[error("the server does not allow LOAD DATA LOCAL INFILE")]
    LocalInfileOff {
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// Any other refusal of a statement.
    #[error("the database refused {what}")]
    Statement {
        /// What was being done.
        what: String,
        /// What the server said.
        #[source]
        source: Cause,
    },
    /// A loaded table does not hold what was sent.
    #[error("table {table} has {found} rows and {sent} were sent")]
    RowsMissing {
        /// Which table.
        table: Table,
        /// Rows that arrived.
        found: u64,
        /// Rows that were sent.
        sent: u64,
    },
    /// A setting with a value that cannot work.
    #[error("{0}")]
    Demand(Fault),
    /// The server would have too little memory.
    #[error("a database server needs at least {least} of memory, and it has {memory}")]
    Memory {
        /// What it has.
        memory: Bytes,
        /// What it needs.
        least: Bytes,
    },
    /// The rows could not be made.
    #[error("the store's data could not be made")]
    Data(#[from] StoreDataError),
    /// The kernel refused a thread.
    #[error("a thread of the store's load cannot be started")]
    Thread(#[source] std::io::Error),
}

fn others(tables: usize) -> String {
    match tables {
        1 => String::new(),
        several => format!(" and {} more", several - 1),
    }
}

impl StoreError {
    /// What the reader should do. No `_` arm: a new variant does not compile until it has a remedy.
    pub fn remedy(&self) -> &str {
        match self {
            Self::Address(_) => {
                "write mysql://USER@HOST:PORT/DATABASE or postgres://…, ?socket=PATH for a socket, with the password in \
                 TILEMARK_DATABASE_PASSWORD"
            }
            Self::Down { .. } => "start the database, and check host, port and firewall",
            // MariaDB has no words of its own for it.
            Self::Refused { address, .. } if address.starts_with("mysql") && !address.contains('?') => {
                "check user and password, and that the user has all rights on the database; where the server takes only \
                 secured connections (require_secure_transport, REQUIRE SSL), add ?ssl-mode=required to the address"
            }
            Self::Refused { .. } => {
                "check user and password, and that the user has all rights on the database"
            }
            Self::NoTls { .. } => {
                "switch TLS on in the server (MariaDB: ssl_cert and ssl_key; PostgreSQL: ssl = on), or leave ssl-mode or \
                 sslmode out of the address"
            }
            Self::WantsTls { .. } => {
                "add ?sslmode=require to the address, or one of the words that check its certificate (verify-ca, verify-full)"
            }
            Self::Tls { source, .. } => match source.fault {
                TlsFault::OtherName => {
                    "name the host as its certificate does, or write verify-ca, which accepts any name"
                }
                TlsFault::UnknownAuthority => {
                    "give the authority that has signed it, with ssl-ca=FILE (PostgreSQL: sslrootcert=FILE), or accept any \
                     certificate with ssl-mode=required (sslmode=require)"
                }
                TlsFault::Certificate => {
                    "give the server a certificate that is valid today and not an authority's own, or accept any with \
                     ssl-mode=required (sslmode=require)"
                }
                TlsFault::NotTls => "switch TLS 1.3 on in the server, and check the port",
                TlsFault::Other => "read the server's log, which says why it ended the handshake",
            },
            Self::Authorities { .. } => {
                "give a PEM file with the certificates of authorities: ssl-ca=FILE, on PostgreSQL sslrootcert=FILE"
            }
            Self::NoDatabase { .. } => {
                "create it first (CREATE DATABASE store), or name another one after the host"
            }
            Self::WrongVersion { .. } => "install MariaDB 10.6 or newer or PostgreSQL 13 or newer",
            Self::ReadOnly { .. } => {
                "switch read-only off (read_only, innodb_read_only, default_transaction_read_only), or name the primary"
            }
            Self::TooFewConnections { .. } => {
                "raise max_connections in the server's settings, or lower --clients"
            }
            Self::NoConnectionLeft { .. } => "end other clients, raise max_connections, or lower --clients",
            Self::WrongSchema { .. } => {
                "load the store into an empty database, or fix the tables named above"
            }
            Self::HalfLoaded(_) => {
                "if no load is under way, drop the store's tables and load_state (or the whole database, if it holds \
                 nothing else), and load the store once more"
            }
            Self::AlreadyLoaded(_) => "load into an empty database: nothing is ever overwritten",
            Self::NotEmpty { .. } => {
                "make a database for the store alone (CREATE DATABASE store), and load into that one"
            }
            Self::Full { .. } => {
                "free space where the database keeps its data and log, or load a smaller store"
            }
            Self::Lost { .. } => {
                "read the server's log: it was ended, it crashed or the network broke; then run again"
            }
            Self::Deadlock { .. } => "run again with fewer clients; each order was already tried ten times",
            Self::LocalInfileOff { .. } => "start the server with local_infile=ON",
            Self::Statement { .. } => "see the server's answer; check the user's rights and the server's log",
            Self::RowsMissing { .. } => {
                "drop the database and load again; if it happens again, check the server's log"
            }
            Self::Demand(fault) => &fault.remedy,
            Self::Memory { .. } => "give the guest more memory, or its database a larger `service_memory`",
            Self::Data(error) => error.remedy(),
            Self::Thread(_) => {
                "raise the limit of processes and threads (`ulimit -u`, `pids.max` of the control group), free memory, or lower \
                 --clients"
            }
        }
    }

    /// Whether the connection cannot be used any more.
    pub fn ends_connection(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::Down { .. })
    }

    /// Whether the server is gone or refuses to work, and nothing that was asked of it was wrong.
    pub(crate) fn is_of_server(&self) -> bool {
        match self {
            Self::Down { .. }
            | Self::Refused { .. }
            | Self::NoTls { .. }
            | Self::WantsTls { .. }
            | Self::Tls { .. }
            | Self::NoDatabase { .. }
            | Self::ReadOnly { .. }
            | Self::TooFewConnections { .. }
            | Self::NoConnectionLeft { .. }
            | Self::Full { .. }
            | Self::Lost { .. }
            | Self::Deadlock { .. }
            | Self::Statement { .. } => true,
            Self::Address(_)
            | Self::Authorities { .. }
            | Self::WrongVersion { .. }
            | Self::WrongSchema { .. }
            | Self::HalfLoaded(_)
            | Self::AlreadyLoaded(_)
            | Self::NotEmpty { .. }
            | Self::LocalInfileOff { .. }
            | Self::RowsMissing { .. }
            | Self::Demand(_)
            | Self::Memory { .. }
            | Self::Data(_)
            | Self::Thread(_) => false,
        }
    }

    /// The message with all its causes on one line.
    pub fn with_causes(&self) -> String {
        let causes = std::iter::successors(self.source(), |&cause| cause.source());
        causes.fold(self.to_string(), |text, cause| format!("{text}: {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_printed_once_with_a_remedy() {
        let error = StoreError::Lost { source: "server closed".into() };
        assert_eq!(error.with_causes(), "the connection to the database was lost: server closed");
        assert!(error.remedy().contains("log"));
        assert!(error.ends_connection());
    }
}
