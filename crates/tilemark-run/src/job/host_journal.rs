//! The journals of what `host apply` set: it stays until `host restore`, and belongs to no job.
//!
//! ```text
//! STATE/.host/applying.json   while it is applied: whoever comes next restores it where its command was killed
//! STATE/.host/applied.json    once all of it is: only `host restore` does
//! /run/tilemark/applied-by    the STATE of the home that applied last: another home must not apply on top of it
//! ```

use crate::job::{lock::host_folder, state_folder::boot_id};
use std::{
    ffi::OsString,
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};
use tilemark_host::{
    HostError,
    setting::{Held, Journal, Outcome, Setting},
};
use tilemark_sys::files::{make_private_folder, read_trusted, replace_private};

const FOLDER: &str = ".host";
const APPLYING: &str = "applying.json";
const APPLIED: &str = "applied.json";
const APPLIED_BY: &str = "applied-by";

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
    /// Vectors of interrupts that it wants elsewhere, and that the kernel did not let anybody move.
    pub(crate) immovable: Vec<Setting>,
}

/// What another home has applied on this host, in part or whole, and that home's folder of states.
///
/// # Errors
/// Where a file cannot be read, or is not to be trusted.
pub(crate) fn of_another_home(states: &Path) -> Result<Option<(PathBuf, Applied)>, HostError> {
    let path = host_folder().join(APPLIED_BY);
    let failed = HostError::journal("read", &path);
    let home = match read_trusted(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => PathBuf::from(OsString::from_vec(read.map_err(failed)?)),
    };
    if home == states {
        return Ok(None);
    }
    let journal = HostJournal::of(&home).map_err(failed)?;
    let applied = journal.in_file(APPLIED)?;
    let found = applied.map_or_else(|| journal.in_file(APPLYING), |applied| Ok(Some(applied)))?;
    Ok(found.map(|applied| (home, applied)))
}

/// Says to all homes of this host that this one applies a profile. The host's lock is held.
///
/// # Errors
/// Where that cannot be written.
pub(crate) fn announce(states: &Path) -> Result<(), HostError> {
    let path = host_folder().join(APPLIED_BY);
    replace_private(&path, states.as_os_str().as_bytes()).map_err(HostError::journal("write", &path))
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
        let journal = Journal::at(self.folder.join(name), &self.boot_id);
        if name == APPLYING { journal.half_set() } else { journal }
    }

    /// What is applied in this boot.
    ///
    /// # Errors
    /// Where a journal cannot be read.
    pub(crate) fn applied(&self) -> Result<Option<Applied>, HostError> {
        self.in_file(APPLIED)
    }

    /// What is applied in part in this boot: by a command that is at it, was killed, or could not restore it.
    ///
    /// # Errors
    /// Where a journal cannot be read.
    pub(crate) fn applied_in_part(&self) -> Result<Option<Applied>, HostError> {
        self.in_file(APPLYING)
    }

    fn in_file(&self, name: &str) -> Result<Option<Applied>, HostError> {
        let journal = self.journal(name);
        let Some(profile) = journal.owner()? else { return Ok(None) };
        Ok(Some(Applied { profile, held: journal.held()?, immovable: journal.immovable()? }))
    }

    /// Applies all settings or none, and keeps them. Returns the vectors of interrupts that the kernel does not let anybody move.
    ///
    /// # Errors
    /// As [`Journal::hold`]; then nothing is applied, or what could not be restored is in the journal.
    pub(crate) fn apply(&self, profile: &str, settings: &[Setting]) -> Result<Vec<Setting>, HostError> {
        make_private_folder(&self.folder).map_err(HostError::journal("make", &self.folder))?;
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
