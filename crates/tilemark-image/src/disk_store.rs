//! Data disks: raw files in a file system that shares blocks between copies (XFS with reflink), so that a disk of any
//! size is cloned in milliseconds. The file system is one sparse file in the cache; it is mounted only in the mount
//! namespace of the run that uses it, and unmounted with it.
//!
//! Guests are given the files themselves, native twins loop devices on them ([`attach_loop`]).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, ioctl_ficlone};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::command::Tool;
use crate::files::sync_folder;
use crate::{ImageError, Result, Silent};

mod loop_device;

pub use loop_device::{LoopDevice, LoopOptions, attach_loop};
pub use tilemark_sys::block::{LoopAccess, LoopCaching};

/// The least that mkfs.xfs makes a file system of.
const CAPACITY_BYTES_MIN: u64 = 300 << 20;

/// A mounted disk store. Dropping it unmounts; where the process is killed, the end of its mount namespace does.
#[derive(Debug)]
pub struct DiskStore {
    mount_point: PathBuf,
}

impl DiskStore {
    /// Mounts the store in `file` at `mount_point`, a folder that is made if it is not there. A store that is not
    /// there is made, with room for `capacity_bytes`, of which only what disks hold is taken from the host.
    ///
    /// Needs root and a mount namespace that is not shared with the host. A store is mounted once at a time.
    pub fn open(file: &Path, mount_point: &Path, capacity_bytes: u64) -> Result<Self> {
        if !file.try_exists().map_err(ImageError::io("read", file))? {
            make_store(file, capacity_bytes.max(CAPACITY_BYTES_MIN))?;
        }
        fs::create_dir_all(mount_point).map_err(ImageError::io("create", mount_point))?;
        let backing = open_both_ways(file).map_err(ImageError::io("open", file))?;
        // The loop device keeps this very open file, so the lock lasts exactly as long as the store can change.
        lock(&backing, file)?;
        let device = loop_device::attach_file(&backing, file, LoopOptions::default())?;
        // The device is the mount's from here on, and goes with it.
        mount(
            device.path(),
            mount_point,
            "xfs",
            MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME,
            // What removed disks held goes back to the host. A copy of a home has a store with the same UUID, which may be mounted too.
            Some(c"discard,nouuid"),
        )
        .map_err(|error| ImageError::StoreMount { file: file.to_owned(), source: error.into() })?;
        Ok(Self { mount_point: mount_point.to_owned() })
    }

    /// The file of a disk.
    pub fn disk_path(&self, name: &str) -> Result<PathBuf> {
        let plain = name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        if plain {
            Ok(self.mount_point.join(name))
        } else {
            Err(ImageError::BadDiskName { name: name.to_owned() })
        }
    }

    /// Makes a disk with the content that another has now, and returns its file. No block is copied; the two share
    /// them until one is written.
    pub fn clone_disk(&self, from: &str, to: &str) -> Result<PathBuf> {
        let (from, to) = (self.disk_path(from)?, self.disk_path(to)?);
        let source = File::open(&from).map_err(ImageError::io("open", &from))?;
        let target = new_file(&to).map_err(ImageError::io("create", &to))?;
        if let Err(error) = ioctl_ficlone(&target, &source) {
            // An empty disk of this name must not be taken for a clone.
            fs::remove_file(&to).map_err(ImageError::io("remove", &to))?;
            return Err(ImageError::Clone { file: from, source: error.into() });
        }
        Ok(to)
    }

    /// Removes a disk; one that is not there is no error, so clean-up can always call it.
    pub fn remove_disk(&self, name: &str) -> Result<()> {
        let path = self.disk_path(name)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(ImageError::io("remove", &path)(error))
            }
            _ => Ok(()),
        }
    }

    /// The names of all disks, sorted.
    pub fn disks(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(&self.mount_point).map_err(ImageError::io("read", &self.mount_point))?;
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        // Detached, it goes with its last user. A failure here cannot be reported to anybody.
        let _ = unmount(&self.mount_point, UnmountFlags::DETACH);
    }
}

/// Removes the store in `file` with all its disks; returns the bytes that it held of the host's disk, nothing where
/// there is none. Refuses while it is mounted.
pub fn remove_store(file: &Path) -> Result<Option<u64>> {
    let backing = match open_both_ways(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(ImageError::io("open", file))?,
    };
    lock(&backing, file)?;
    let held = backing.metadata().map_err(ImageError::io("read", file))?;
    fs::remove_file(file).map_err(ImageError::io("remove", file))?;
    // stat(2) counts in 512 bytes, whatever the file system.
    Ok(Some(held.blocks() * 512))
}

fn lock(backing: &File, file: &Path) -> Result<()> {
    flock(backing, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => ImageError::StoreBusy { file: file.to_owned() },
        other => ImageError::io("lock", file)(other.into()),
    })
}

/// Makes the file aside and renames it, so that a store is whole or not there.
fn make_store(file: &Path, capacity_bytes: u64) -> Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(ImageError::io("create", folder))?;
    let aside =
        tempfile::NamedTempFile::new_in(folder).map_err(ImageError::io("create a file in", folder))?;
    aside.as_file().set_len(capacity_bytes).map_err(ImageError::io("write", aside.path()))?;
    // Sectors of 512 bytes, so that disks in it can have such sectors with direct I/O.
    Tool::new("mkfs.xfs", "xfsprogs")
        .args(["-q", "-f", "-s", "size=512", "-m", "reflink=1", "-L", "tilemark"])
        .arg(aside.path())
        .run(&mut Silent)??;
    let keep = || {
        aside.as_file().sync_all()?;
        // Two runs may have made one: the first stays, for it may be in use already.
        match aside.persist_noclobber(file) {
            Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
            _ => sync_folder(folder),
        }
    };
    keep().map_err(ImageError::io("write", file))
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

fn open_both_ways(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_in_use_stays_and_an_unused_one_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disks.xfs");
        assert_eq!(remove_store(&file).unwrap(), None);
        fs::write(&file, vec![1; 1 << 20]).unwrap();
        let mounted = open_both_ways(&file).unwrap();
        lock(&mounted, &file).unwrap();
        assert!(matches!(remove_store(&file), Err(ImageError::StoreBusy { .. })));
        assert!(file.exists());
        // Dropped, it would still be held while another test starts a process, which has a copy for a moment.
        flock(&mounted, FlockOperation::Unlock).unwrap();
        assert!(remove_store(&file).unwrap().is_some());
        assert!(!file.exists());
    }

    #[test]
    fn a_disks_name_cannot_lead_out_of_the_store() {
        // Never mounted, so dropping it must not unmount anything.
        let store = std::mem::ManuallyDrop::new(DiskStore { mount_point: "/none".into() });
        assert_eq!(store.disk_path("web-1.raw").unwrap(), Path::new("/none/web-1.raw"));
        for name in ["", ".", "..", "../etc/passwd", "a/b", ".hidden", "a b"] {
            assert!(matches!(store.disk_path(name), Err(ImageError::BadDiskName { .. })), "{name}");
        }
    }
}
