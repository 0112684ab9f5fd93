//! The files of a journal. A trait, so that tests can cut the power.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

/// Numbered, append-only segments.
pub(crate) trait Disk: Send {
    /// The segments that are there, in ascending order.
    fn segments(&mut self) -> io::Result<Vec<u64>>;
    /// All bytes of a segment.
    fn read(&mut self, segment: u64) -> io::Result<Vec<u8>>;
    /// Appends to a segment, which is created with its first bytes.
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

/// Messages are for the broker's user alone, whatever the umask.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Files for the broker's user alone. A link is not followed: root's broker would write where it leads.
fn own_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(FILE_MODE).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options
}

const SUFFIX: &str = ".journal";
/// Written and removed at each start.
const PROOF: &str = "proof";

/// A disk without room for a page is refused at the start, and not with the first message that it cannot keep.
fn prove_writable(folder: &Path) -> io::Result<()> {
    let path = folder.join(PROOF);
    let written = own_file().create(true).truncate(true).open(&path).and_then(prove);
    let removed = std::fs::remove_file(&path);
    written.and(removed)
}

fn prove(mut file: File) -> io::Result<()> {
    file.write_all(&[0; 4096])?;
    file.sync_all()
}

impl FolderDisk {
    /// Creates the folder when it is missing, and locks it.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        let lock = own_file().create(true).truncate(false).open(folder.join("lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        prove_writable(folder)?;
        let directory = File::open(folder)?;
        Ok(Self { folder: folder.to_owned(), directory, open: None, names_changed: true, _lock: lock })
    }

    /// Opens a folder that no broker uses, to read it only.
    pub(crate) fn open_to_read(folder: &Path) -> io::Result<Self> {
        let directory = File::open(folder)?;
        let lock = match File::open(folder.join("lock")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => directory.try_clone()?,
            lock => lock?,
        };
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { folder: folder.to_owned(), directory, open: None, names_changed: false, _lock: lock })
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
            let file = own_file().create(true).append(true).open(self.path(segment))?;
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
        let full = own_file().open("/dev/full").unwrap();
        assert_eq!(prove(full).unwrap_err().kind(), io::ErrorKind::StorageFull);
        // What cannot be written at all is refused by the same proof.
        std::fs::create_dir(folder.path().join(PROOF)).unwrap();
        assert!(FolderDisk::open(folder.path()).is_err());
        std::fs::remove_dir(folder.path().join(PROOF)).unwrap();
        FolderDisk::open(folder.path()).unwrap();
        assert!(!folder.path().join(PROOF).exists(), "the proof is left");
    }

    #[test]
    fn a_journal_is_for_its_user_alone_and_written_through_no_link() {
        use std::os::unix::fs::PermissionsExt;
        let base = tempfile::tempdir().unwrap();
        let (folder, precious) = (base.path().join("journal"), base.path().join("precious"));
        std::fs::write(&precious, "precious").unwrap();
        let mut disk = FolderDisk::open(&folder).unwrap();
        disk.append(1, b"message").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(
            [&folder, &disk.path(1), &folder.join("lock")].map(|path| mode(path)),
            [0o700, 0o600, 0o600]
        );
        std::os::unix::fs::symlink(&precious, disk.path(2)).unwrap();
        assert!(disk.append(2, b"message").is_err());
        drop(disk);
        std::os::unix::fs::symlink(&precious, folder.join(PROOF)).unwrap();
        assert!(FolderDisk::open(&folder).is_err());
        assert_eq!(std::fs::read_to_string(precious).unwrap(), "precious");
    }

    #[test]
    fn a_flush_flushes_the_segment_and_hands_on_that_it_failed() {
        let folder = tempfile::tempdir().unwrap();
        let mut disk = FolderDisk::open(folder.path()).unwrap();
        disk.append(1, b"stored").unwrap();
        disk.sync().unwrap();
        // It takes every byte and refuses to flush.
        disk.open = Some((2, own_file().open("/dev/null").unwrap()));
        disk.append(2, b"lost").unwrap();
        assert_eq!(disk.sync().unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
