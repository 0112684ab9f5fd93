//! What can go wrong with a fleet as a whole. What goes wrong on one host is how that host ends.

use std::{
    io,
    path::{Path, PathBuf},
};
use tilemark_record::RecordError;
use tilemark_site::SiteError;

/// A fleet that cannot be planned, run or collected.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// The site file cannot be used.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// No fleet run is called so.
    #[error("no fleet run `{wanted}`{}", if known.is_empty() { ": there are none yet".to_owned() } else { format!("; the newest are: {}", known.join(", ")) })]
    NoFleet {
        /// What was asked for.
        wanted: String,
        /// Ids of the newest fleet runs.
        known: Vec<String>,
    },
    /// Another command works on this fleet run at this moment.
    #[error("another command works on the fleet run {id} at this moment")]
    Busy {
        /// Its id.
        id: String,
    },
    /// `fleet.json` is not what this program writes.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// In which way.
        what: String,
    },
    /// A file cannot be read or written.
    #[error("cannot use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Hosts are to measure in turn, and a command that returns at once would give none of them a turn.
    #[error("the fleet run {id} measures on at most {} at the same time, and with --detach nothing would wait for the next turn", hosts(*at_once))]
    NobodyWaits {
        /// Its id.
        id: String,
        /// How many hosts may measure at the same time.
        at_once: usize,
    },
    /// This machine may not open files enough for the connections to all hosts.
    #[error(
        "{hosts} hosts at the same time need up to {wanted} open files in one process, and the limit is {limit}"
    )]
    FewFiles {
        /// How many hosts are asked at the same time.
        hosts: usize,
        /// What they need.
        wanted: u64,
        /// The hard limit.
        limit: u64,
    },
    /// A record cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// `1 host`, `3 hosts`
fn hosts(count: usize) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}

impl FleetError {
    /// For `map_err` where a file or folder could not be read or written.
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Site(error) => error.remedy().to_owned(),
            Self::NoFleet { .. } => "give the id that `fleet run` printed, the beginning of one, or `last`".to_owned(),
            Self::Busy { .. } => "wait until it has ended; the jobs on the hosts go on meanwhile".to_owned(),
            Self::Damaged { .. } => "restore the file from a copy, or run the fleet again".to_owned(),
            Self::File { .. } => {
                "check that the folder exists, may be written and has space, or set TILEMARK_HOME to another one".to_owned()
            }
            Self::NobodyWaits { .. } => "leave out --detach; --wait-at-most ends the waiting".to_owned(),
            Self::FewFiles { wanted, .. } => format!(
                "raise the hard limit in the shell that starts it, `ulimit -Hn {wanted}`, or use fewer hosts at the same time with --at-once"
            ),
            Self::Record(error) => error.remedy(),
        }
    }

    /// Whether what was asked for is wrong, rather than this machine short of something.
    pub fn is_bad_input(&self) -> bool {
        match self {
            Self::Site(_) | Self::NoFleet { .. } | Self::Damaged { .. } | Self::NobodyWaits { .. } => true,
            Self::Busy { .. } | Self::File { .. } | Self::FewFiles { .. } => false,
            Self::Record(error) => !matches!(error, RecordError::Write { .. } | RecordError::Busy { .. }),
        }
    }
}
