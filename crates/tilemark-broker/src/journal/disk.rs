//! The files of a journal. A trait, so that tests can cut the power.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Numbered, append-only segments.
pub(crate) trait Disk: Send {
    /// The segments that are there, in ascending order.
    fn segments(&mut self) -> io::Result<Vec<u64>>;
    /// All bytes of a segment.
    fn read(&mut self, segment: u64) -> io::Result<Vec<u8>>;
    /// Appends to a segment, which comes to be with its first bytes.
    fn append(&mut self, segment: u64, bytes: &[u8]) -> io::Result<()>;
    /// Returns when all that was appended or removed would survive a power cut.
    fn sync(&mut self) -> io::Result<()>;
    /// Removes a segment.
    fn remove(&mut self, segment: u64) -> io::Result<()>;
}

/// Segments as files in a folder that belongs to this broker alone.
#[derive(Debug)]
pub(crate) struct FolderDisk {
    folder: PathBuf,
    directory: File,
    open: Option<(u64, File)>,
    names_changed: bool,
    _lock: File,
}

const SUFFIX: &str = ".journal";
/// Written and removed at each start.
const PROOF: &str = "proof";

/// A disk that takes not even a page is told at the start, and not by the first message that it cannot keep.
fn prove_writable(folder: &Path) -> io::Result<()> {
    let path = folder.join(PROOF);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&[0; 4096])?;
        file.sync_all()
    });
    let removed = std::fs::remove_file(&path);
    written.and(removed)
}

impl FolderDisk {
    /// Creates the folder when it is missing, and locks it.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let lock = OpenOptions::new().create(true).write(true).truncate(false).open(folder.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        prove_writable(folder)?;
        let directory = File::open(folder)?;
        Ok(Self { folder: folder.to_owned(), directory, open: None, names_changed: true, _lock: lock })
    }

    fn path(&self, segment: u64) -> PathBuf {
        self.folder.join(format!("{segment:012}{SUFFIX}"))
    }
}

impl Disk for FolderDisk {
    fn segments(&mut self) -> io::Result<Vec<u64>> {
        let mut segments = Vec::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            let number: Option<u64> =
                name.to_str().and_then(|name| name.strip_suffix(SUFFIX)).and_then(|name| name.parse().ok());
            segments.extend(number);
        }
        segments.sort_unstable();
        Ok(segments)
    }

    fn read(&mut self, segment: u64) -> io::Result<Vec<u8>> {
        let mut file = File::open(self.path(segment))?;
        // After `kill -9` the last batch may be in the page cache only; what we build on must be on the disk first.
        file.sync_all()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn append(&mut self, segment: u64, bytes: &[u8]) -> io::Result<()> {
        if self.open.as_ref().is_none_or(|(open, _)| *open != segment) {
            let file = OpenOptions::new().create(true).append(true).open(self.path(segment))?;
            self.open = Some((segment, file));
            self.names_changed = true;
        }
        let (_, file) = self.open.as_mut().expect("opened above");
        file.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some((_, file)) = &self.open {
            file.sync_data()?;
        }
        if std::mem::take(&mut self.names_changed) {
            self.directory.sync_all()?;
        }
        Ok(())
    }

    fn remove(&mut self, segment: u64) -> io::Result<()> {
        self.names_changed = true;
        std::fs::remove_file(self.path(segment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_on_a_full_disk_is_refused_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/full", folder.path().join(PROOF)).unwrap();
        assert_eq!(FolderDisk::open(folder.path()).unwrap_err().kind(), io::ErrorKind::StorageFull);
        FolderDisk::open(folder.path()).unwrap();
        assert!(!folder.path().join(PROOF).exists(), "the proof is left");
    }

    #[test]
    fn a_flush_flushes_the_segment_and_hands_on_that_it_failed() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = FolderDisk::open(folder.path()).unwrap();
        disk.append(1, b"stored").unwrap();
        disk.sync().unwrap();
        // It takes every byte and refuses to flush.
        std::os::unix::fs::symlink("/dev/null", disk.path(2)).unwrap();
        disk.append(2, b"lost").unwrap();
        assert_eq!(disk.sync().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
