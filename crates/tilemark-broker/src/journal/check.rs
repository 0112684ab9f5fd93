//! Reading a journal without serving it.

use std::fmt;
use std::io;
use std::path::Path;

use super::damage::JournalDamage;
use super::disk::FolderDisk;
use super::recovery::recover;
use crate::error::BrokerError;

/// What is in a journal that no broker uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalCheck {
    /// Files of records.
    pub segments: usize,
    /// Their size together, bytes.
    pub bytes: u64,
    /// Durable queues.
    pub queues: usize,
    /// Messages that a queue still needs.
    pub messages: usize,
    /// Bytes that a broker was about to store when it ended; they were confirmed to nobody.
    pub unstored_bytes: u64,
    /// What cannot be read any more; `None` where all is whole.
    pub damage: Option<JournalDamage>,
}

/// Reads the journal in a folder and changes nothing. Fails when a broker uses it, and when it cannot be read.
pub fn check_journal(folder: &Path) -> Result<JournalCheck, BrokerError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::WouldBlock => BrokerError::JournalInUse { folder: folder.to_owned() },
        _ => BrokerError::Journal { folder: folder.to_owned(), source },
    };
    let mut disk = FolderDisk::open_to_read(folder).map_err(|error| match error.kind() {
        // It does not exist, or is a file.
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            BrokerError::NoJournal { folder: folder.to_owned() }
        }
        _ => failed(error),
    })?;
    let recovered = recover(&mut disk).map_err(failed)?;
    Ok(JournalCheck {
        segments: recovered.segments.len(),
        bytes: recovered.segments.iter().map(|(_, bytes)| bytes).sum(),
        queues: recovered.queues.len(),
        messages: recovered.messages.len(),
        unstored_bytes: recovered.ignored_bytes,
        damage: recovered.damage,
    })
}

impl fmt::Display for JournalCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { segments, bytes, queues, messages, unstored_bytes, damage } = self;
        write!(f, "{segments} segments, {bytes} bytes, {queues} durable queues, {messages} messages")?;
        if *unstored_bytes > 0 {
            write!(
                f,
                "; {unstored_bytes} bytes were not stored when the broker ended, and were not confirmed"
            )?;
        }
        match damage {
            Some(damage) => write!(f, "; damaged: {damage}"),
            None => write!(f, "; no damage"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_no_folder_has_no_journal() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [folder.path().join("nowhere"), file] {
            let error = check_journal(&path).unwrap_err();
            assert_eq!(error.to_string(), format!("there is no journal in {}", path.display()));
            assert!(error.remedy().contains("`--journal`"), "{}", error.remedy());
        }
        assert_eq!(check_journal(folder.path()).unwrap(), JournalCheck::default());
    }
}
