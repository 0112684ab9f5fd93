//! The journals of what `host apply` set: it stays until `host restore`, and belongs to no job.
//!
//! ```text
//! STATE/.host/applying.json   while it is applied: whoever comes next restores it where its command was killed
//! STATE/.host/applied.json    once all of it is: only `host restore` does
//! ```

use crate::job::state_folder::boot_id;
use std::{
    io,
    path::{Path, PathBuf},
};
use tilemark_host::{
    HostError,
    setting::{Held, Journal, Outcome, Setting},
};
use tilemark_sys::files::make_private_folder;

const FOLDER: &str = ".host";
const APPLYING: &str = "applying.json";
const APPLIED: &str = "applied.json";

/// The journals of a home.
#[derive(Debug, Clone)]
pub(crate) struct HostJournal {
    folder: PathBuf,
    boot_id: String,
}

/// What is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The profile.
    pub(crate) profile: String,
    /// Its settings that had another value before.
    pub(crate) held: Vec<Held>,
}

impl HostJournal {
    /// Those in this folder of states.
    ///
    /// # Errors
    /// Where the boot cannot be read.
    pub(crate) fn of(states: &Path) -> io::Result<Self> {
        Ok(Self::in_boot(states, boot_id()?))
    }

    /// The same, in a boot that a test names.
    pub(crate) fn in_boot(states: &Path, boot_id: String) -> Self {
        Self { folder: states.join(FOLDER), boot_id }
    }

    fn journal(&self, name: &str) -> Journal {
        Journal::at(self.folder.join(name), &self.boot_id)
    }

    /// What is applied in this boot.
    ///
    /// # Errors
    /// Where a journal cannot be read.
    pub(crate) fn applied(&self) -> Result<Option<Applied>, HostError> {
        let journal = self.journal(APPLIED);
        let Some(profile) = journal.owner()? else { return Ok(None) };
        Ok(Some(Applied { profile, held: journal.held()? }))
    }

    /// Applies all settings or none, and keeps them. Returns the vectors of interrupts that the kernel does not let anybody move.
    ///
    /// # Errors
    /// As [`Journal::hold`]; then nothing is applied, or what could not be restored is in the journal.
    pub(crate) fn apply(&self, profile: &str, settings: &[Setting]) -> Result<Vec<Setting>, HostError> {
        let failed = |source| HostError::Journal { verb: "make", path: self.folder.clone(), source };
        make_private_folder(&self.folder).map_err(failed)?;
        let journal = self.journal(APPLYING).owned_by(profile);
        let immovable = journal.hold(settings)?;
        if !journal.held()?.is_empty() {
            journal.rename(APPLIED)?;
        }
        Ok(immovable)
    }

    /// Restores what a command that was killed had applied in part.
    ///
    /// # Errors
    /// Where a journal cannot be read or written.
    pub(crate) fn restore_half(&self) -> Result<Vec<Outcome>, HostError> {
        self.restore(APPLYING)
    }

    /// Restores all that is applied, in part or whole.
    ///
    /// # Errors
    /// Where a journal cannot be read or written.
    pub(crate) fn restore_all(&self) -> Result<Vec<Outcome>, HostError> {
        let mut outcomes = self.restore(APPLYING)?;
        outcomes.extend(self.restore(APPLIED)?);
        Ok(outcomes)
    }

    fn restore(&self, name: &str) -> Result<Vec<Outcome>, HostError> {
        let journal = self.journal(name);
        // What cannot be restored now stays in the journal, under its name.
        let owner = journal.owner()?.unwrap_or_default();
        journal.owned_by(owner).restore()
    }
}
