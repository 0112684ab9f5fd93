//! What can go wrong, and what the reader should do about it.

use std::io;
use std::path::PathBuf;

use crate::table::Table;

/// Why data could not be planned or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreDataError {
    /// The text is not a number with a unit.
    #[error("size `{0}` is not a number followed by a unit, such as MB or GiB")]
    SizeNotUnderstood(String),
    /// The size is outside of what can be generated.
    #[error("size of {bytes} bytes is outside 10 MB to 100 GB")]
    SizeOutOfRange {
        /// What was asked.
        bytes: u64,
    },
    /// DVD Store 2 would not accept this size.
    #[error("`{0}` is not a size of DVD Store 2")]
    Ds2SizeUnknown(String),
    /// No thread at all was asked for, or more than a system may give.
    #[error("{0} threads cannot generate anything")]
    Threads(usize),
    /// The folder already holds something.
    #[error("output folder {0} is not empty")]
    OutputNotEmpty(PathBuf),
    /// The folder or a file in it could not be made.
    #[error("cannot create {path}")]
    Create {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The data would not fit.
    #[error("{folder} has {free} bytes free and the data needs about {needed}")]
    DiskShort {
        /// Where the data should go.
        folder: PathBuf,
        /// Bytes free there.
        free: u64,
        /// Bytes the data will take.
        needed: u64,
    },
    /// Writing a file failed half-way.
    #[error("cannot write {path}")]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Somebody set the generator's stop flag.
    #[error("stopped before the data was complete")]
    Stopped,
    /// The receiver of a table's rows refused them.
    #[error("cannot hand on the rows of table {table}")]
    Sink {
        /// Whose rows.
        table: Table,
        /// What the receiver said.
        #[source]
        source: io::Error,
    },
}

impl StoreDataError {
    /// What the reader should do. No `_` arm: a new variant does not compile until it has a remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::SizeNotUnderstood(_) => {
                "write the size as a number and a unit, for example --size 4GB or --size 250MB"
            }
            Self::SizeOutOfRange { .. } => "choose a --size from 10MB to 100GB",
            Self::Ds2SizeUnknown(_) => "use S, M, L, 1MB to 1023MB, 1GB, or 2GB to 4095GB with --as ds2",
            Self::Threads(_) => "give --threads 1 to 1024",
            Self::OutputNotEmpty(_) => {
                "name an empty or a new folder with --out; nothing is ever overwritten"
            }
            Self::Create { .. } => "check that the folder above exists and that you may write there",
            Self::DiskShort { .. } => {
                "free space there, name a folder on another disk with --out, or lower --size"
            }
            Self::Write { .. } => {
                "if the disk is full, free space or lower --size; the unfinished files were removed again"
            }
            Self::Stopped => "start again; what was written so far was removed",
            Self::Sink { .. } => "see the cause: the program or database that reads the rows ended early",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_value_and_does_not_repeat_its_source() {
        let error = StoreDataError::Write { path: "a/orders.csv".into(), source: io::Error::other("full") };
        assert_eq!(error.to_string(), "cannot write a/orders.csv");
        assert!(StoreDataError::SizeNotUnderstood("4 cows".into()).to_string().contains("4 cows"));
        assert!(error.remedy().contains("disk is full"));
    }
}
