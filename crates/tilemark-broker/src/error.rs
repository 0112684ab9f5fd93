//! Why a broker cannot start or had to end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::journal::JournalDamage;

/// What keeps a broker from serving.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Another process has the journal.
    #[error("the journal in {folder} is in use by another broker")]
    JournalInUse {
        /// The folder asked for.
        folder: PathBuf,
    },
    /// The journal cannot be read or written.
    #[error("cannot use the journal in {folder}")]
    Journal {
        /// The folder asked for.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The folder that is to be checked does not exist.
    #[error("there is no journal in {folder}")]
    NoJournal {
        /// The folder asked for.
        folder: PathBuf,
    },
    /// The journal cannot be read in full.
    #[error("the journal in {folder} is damaged: {damage}")]
    JournalDamaged {
        /// The folder asked for.
        folder: PathBuf,
        /// What is lost.
        damage: JournalDamage,
    },
    /// The kernel refused something that the loop needs.
    #[error("cannot run the broker's event loop")]
    Loop(#[source] io::Error),
    /// The loop's thread panicked.
    #[error("the broker ended by a bug of its own")]
    Panicked,
}

impl BrokerError {
    /// What the reader should do.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Listen { .. } => {
                "end what listens on that port (ss -ltnp shows it), or choose another port"
            }
            Self::JournalInUse { .. } => "end the other broker, or choose another folder for the journal",
            Self::Journal { .. } => {
                "make the folder writable and see that its disk is neither full nor failing"
            }
            Self::NoJournal { .. } => "check the path: it is the folder given to `--journal`",
            Self::JournalDamaged { .. } => {
                "restore the folder from a copy, or start the broker with --accept-damage: it keeps what can be read"
            }
            Self::Loop(_) => "raise the limit of open files (ulimit -n), then start the broker again",
            Self::Panicked => "report the message above it as a bug",
        }
    }
}
