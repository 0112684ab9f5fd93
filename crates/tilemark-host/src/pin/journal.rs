//! What guests had before they were bound, on disk: written and synced before a thread is touched.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tilemark_sys::files::{read_trusted, replace_private};

use super::PinError;

/// A thread that was bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedThread {
    /// Its number.
    pub tid: u32,
    /// When it started, in clock ticks since the host's boot.
    pub start_ticks: u64,
    /// Processors that it might use before.
    pub found: BTreeSet<u32>,
    /// Processors that it may use now.
    pub set: BTreeSet<u32>,
    /// Ours from an earlier call, while it is bound again: where that call is killed the thread is here still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_before: Option<BTreeSet<u32>>,
}

/// A guest that was bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedGuest {
    /// Its name.
    pub name: String,
    /// Its process.
    pub pid: u32,
    /// When that started, in clock ticks since the host's boot.
    pub start_ticks: u64,
    /// Its threads, the main one first.
    pub threads: Vec<PinnedThread>,
}

impl PinnedThread {
    /// Whether a thread that may use these processors is where we put it.
    pub(super) fn is_ours(&self, now: &BTreeSet<u32>) -> bool {
        self.set == *now || self.set_before.as_ref() == Some(now)
    }
}

impl PinnedGuest {
    /// Whether this is the same process.
    pub(super) fn is(&self, pid: u32, start_ticks: u64) -> bool {
        (self.pid, self.start_ticks) == (pid, start_ticks)
    }
}

/// The journal of all guests that are bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinJournal {
    path: PathBuf,
    boot_id: String,
}

#[derive(Serialize, Deserialize)]
struct Document {
    /// The boot that the processes belong to.
    boot_id: String,
    guests: Vec<PinnedGuest>,
}

impl PinJournal {
    /// The journal in this file, in this boot of the host.
    pub fn at(path: impl Into<PathBuf>, boot_id: impl Into<String>) -> Self {
        Self { path: path.into(), boot_id: boot_id.into() }
    }

    /// The guests that were bound in this boot.
    ///
    /// # Errors
    /// Where it cannot be read, or is not to be trusted.
    pub fn guests(&self) -> Result<Vec<PinnedGuest>, PinError> {
        let text = match read_trusted(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            read => read.map_err(|source| self.failed("read", source))?,
        };
        let document: Document =
            serde_json::from_slice(&text).map_err(|error| self.failed("read", error.into()))?;
        Ok(if document.boot_id == self.boot_id { document.guests } else { Vec::new() })
    }

    /// Writes it whole, synced; without guests it is removed.
    pub(super) fn write(&self, guests: &[PinnedGuest]) -> Result<(), PinError> {
        let written = if guests.is_empty() {
            match std::fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            }
        } else {
            let document = Document { boot_id: self.boot_id.clone(), guests: guests.to_vec() };
            serde_json::to_vec_pretty(&document)
                .map_err(io::Error::from)
                .and_then(|bytes| replace_private(&self.path, &bytes))
        };
        written.map_err(|source| self.failed("write", source))
    }

    fn failed(&self, verb: &'static str, source: io::Error) -> PinError {
        PinError::Journal { verb, path: self.path.clone(), source }
    }
}
