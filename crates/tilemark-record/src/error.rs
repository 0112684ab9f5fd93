//! What can go wrong with a record.

use std::{
    io,
    path::{Path, PathBuf},
};

/// A record that could not be written, read or trusted.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file is not what it was when the record was closed.
    #[error("{} is damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// In which way.
        what: String,
    },
    /// A format that a later version of Tilemark wrote.
    #[error("{} has format {found}, and this program knows up to {known}", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest that is known.
        known: u32,
    },
    /// The run never came to its end.
    #[error("the record {} was never closed", path.display())]
    Unfinished {
        /// The run's directory.
        path: PathBuf,
    },
    /// A run writes the record at this moment.
    #[error("a run writes the record {} at this moment", path.display())]
    Busy {
        /// The run's directory.
        path: PathBuf,
    },
    /// A folder that is no record of a run.
    #[error("{} is not a record of a run", path.display())]
    NoRecord {
        /// The folder.
        path: PathBuf,
    },
    /// There is something where the record was to be written.
    #[error("{} exists and is not empty", path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// No run is called so.
    #[error("no run `{wanted}`{}", if known.is_empty() { ": this user has no runs".to_owned() } else { format!("; the newest are: {}", known.join(", ")) })]
    NoSuchRun {
        /// What was asked for.
        wanted: String,
        /// Ids of the newest runs.
        known: Vec<String>,
    },
    /// A path that was given for a run leads to no record.
    #[error("{} is not a record: it has no plan.json", path.display())]
    NotARecord {
        /// The path that was given.
        path: PathBuf,
    },
    /// Several runs begin like that.
    #[error("`{wanted}` begins {}", matches.join(" and "))]
    NotUnique {
        /// What was asked for.
        wanted: String,
        /// Ids that begin with it.
        matches: Vec<String>,
    },
}

impl RecordError {
    /// For `map_err` where a file or folder could not be written.
    pub fn write(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    /// For `map_err` where one could not be read.
    pub fn read(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// Whether a run writes the record at this moment.
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space on that disk, or name a place on another one".to_owned()
            }
            Self::Write { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                "lift the limit of a file's size in the shell that starts it: `ulimit -f unlimited`"
                    .to_owned()
            }
            Self::Write { .. } => {
                "check that the folder exists and that this user may write there, or use sudo".to_owned()
            }
            Self::Read { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                "do not use this record: no run of Tilemark writes such a file".to_owned()
            }
            Self::Read { .. } => "check the path; `tilemark runs` lists what is there".to_owned(),
            Self::Damaged { .. } => "run it again, or restore the file from a copy".to_owned(),
            Self::Newer { .. } => {
                "read it with the version of Tilemark that wrote it, or a later one".to_owned()
            }
            Self::Unfinished { .. } => {
                "run it again; its events.ndjson, if it has one, shows how far it came".to_owned()
            }
            Self::Busy { .. } => {
                "wait until it has ended; `tilemark recover` lists runs under way".to_owned()
            }
            Self::NoRecord { .. } => {
                "remove it yourself if nothing in it is needed; `tilemark runs` lists records".to_owned()
            }
            Self::Occupied { .. } => "name an empty or new directory".to_owned(),
            Self::NoSuchRun { known, .. } if known.is_empty() => {
                "make one with `tilemark quick`, or give the path of a record".to_owned()
            }
            Self::NoSuchRun { .. } => "`tilemark runs` lists all; the path of a record works too".to_owned(),
            Self::NotARecord { .. } => "check the path".to_owned(),
            Self::NotUnique { .. } => "give more of the id".to_owned(),
        }
    }
}
