//! Binds running guests that others started to nodes or processors, and gives them back what they had.
//!
//! ```text
//! file of globs + running guests -> what each thread may use now -> journal (synced) -> bind, read back -> memory follows
//!                                                                      |
//!                                      unpin: ours -> as found, read back; somebody else's -> left alone; ended -> nothing
//! ```
//! A process is known by its number and its start: a number alone may have become another process. What no line of the file names is
//! never touched.

mod bind;
mod journal;
mod map;
mod of_kernel;
mod processes;

pub use bind::{Followed, PinReport, Pinned, Refused, ThreadBinding, Unpinned, pin, pin_again, unpin};
pub use journal::{PinJournal, PinnedGuest, PinnedThread};
pub use map::{Machine, PinLine, PinMap, Target};
pub use of_kernel::bind_kernel_threads;
pub use processes::{LiveProcesses, Processes};

use std::io;
use std::path::PathBuf;

/// Why guests could not be pinned, or their binding restored.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// The file of globs has lines that cannot be followed on this host.
    #[error("{}", problems.join("; "))]
    Map {
        /// Each with its line.
        problems: Vec<String>,
    },
    /// Processes cannot be listed.
    #[error("cannot find running guests: {0}")]
    Processes(String),
    /// The journal could not be read or written: nothing more was changed.
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

impl PinError {
    /// What the reader should do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Map { .. } => {
                "write one guest a line: a name, in which * and ? are wildcards, then nodes (`web-* 0-1`) or processors (`db cpus 4-7`)"
            }
            Self::Processes(_) => "mount /proc, and run as root where it hides the processes of others",
            Self::Journal { .. } => {
                "free some space, or set TILEMARK_HOME to a folder that may be written; a journal that is damaged may be removed when no \
                 guest is pinned any more"
            }
        }
    }
}
