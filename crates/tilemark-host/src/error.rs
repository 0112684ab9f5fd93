//! What can go wrong while a host is read or grouped.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An error of this crate. Facts that cannot be read are no errors: they are missing, with the reason.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No version 2 control group tree is mounted.
    #[error("no cgroup version 2 tree is mounted")]
    NoControlGroups,
    /// A file of a control group could not be read or written.
    #[error("cannot {verb} {}", path.display())]
    GroupFile {
        /// What was tried.
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A group did not become empty.
    #[error("processes of {} still live {waited:?} after they were killed", path.display())]
    GroupStillPopulated {
        /// The group.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A file that telemetry cannot do without.
    #[error("cannot read {}", path.display())]
    Telemetry {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A setting could not be read or written.
    #[error("cannot {verb} the {name} ({})", path.display())]
    Setting {
        /// What was tried.
        verb: &'static str,
        /// The setting.
        name: String,
        /// Its file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel took a value and has another.
    #[error("the {name} ({}) is {read} after {written} was written", path.display())]
    SettingIgnored {
        /// The setting.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The value that was written.
        written: String,
        /// The value that was read back.
        read: String,
    },
    /// The journal of settings could not be read or written.
    #[error("cannot {verb} the journal {}", path.display())]
    Journal {
        /// What was tried.
        verb: &'static str,
        /// The journal.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl HostError {
    /// The error with its causes, in a line.
    pub fn in_a_line(&self) -> String {
        let causes = std::iter::successors(self.source(), |&cause| cause.source());
        causes.fold(self.to_string(), |line, cause| format!("{line}: {cause}"))
    }

    /// What the reader should do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoControlGroups => "mount it: mount -t cgroup2 none /sys/fs/cgroup",
            Self::GroupFile { .. } => {
                "run as root, outside a container that holds its control groups read-only"
            }
            Self::GroupStillPopulated { .. } => {
                "a process hangs in the kernel: look for state D in ps, and at the kernel's log"
            }
            Self::Setting { .. } | Self::SettingIgnored { .. } => {
                "run as root, outside a container that sees its host's settings only to read"
            }
            Self::Journal { .. } => "free some space, or set TILEMARK_HOME to a folder that may be written",
            Self::Telemetry { .. } => "mount /proc, and run as root where it hides the processes of others",
        }
    }
}
