//! Files that are whole or not there, and removal that does not leave the folder it was given.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tilemark_sys::mounts::{self, Mount};

use crate::{ImageError, Result};

/// Writes a file aside, syncs it and renames it.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let folder = path.parent().expect("only files in folders are written");
    let write = || {
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        sync_folder(folder)
    };
    write().map_err(ImageError::io("write", path))
}

/// Makes renames in the folder last.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Makes a folder that is there for good: everything in it synced, then renamed to `to`.
pub(crate) fn keep_folder(from: &Path, to: &Path) -> Result<()> {
    let keep = || {
        for entry in fs::read_dir(from)? {
            File::open(entry?.path())?.sync_all()?;
        }
        sync_folder(from)?;
        fs::rename(from, to)?;
        sync_folder(to.parent().expect("it was just renamed into a folder"))
    };
    keep().map_err(ImageError::io("write", to))
}

/// Removes a folder and all in it, unless something is mounted there: that could be the host's own.
pub(crate) fn remove_unmounted(folder: &Path) -> Result<()> {
    let whole = folder.canonicalize().map_err(ImageError::io("remove", folder))?;
    let all = mounts::of_this_thread().map_err(ImageError::io("read", Path::new(mounts::MOUNTINFO)))?;
    if let Some(mount) = mount_below(all, &whole) {
        return Err(ImageError::StillMounted { mount });
    }
    fs::remove_dir_all(&whole).map_err(ImageError::io("remove", folder))
}

fn mount_below(mounts: Vec<Mount>, folder: &Path) -> Option<PathBuf> {
    mounts.into_iter().map(|mount| mount.point).find(|point| point.starts_with(folder))
}

/// Free room in bytes for us on the file system of `path`.
pub(crate) fn free_bytes(path: &Path) -> Result<u64> {
    let room =
        rustix::fs::statvfs(path).map_err(|error| ImageError::io("ask for room at", path)(error.into()))?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_whole(&path, b"one").unwrap();
        write_whole(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_mount_at_or_below_a_folder_is_found_and_none_beside_it() {
        let below = |folder| {
            let text = b"37 35 0:5 / /cache/.build\\0431/tree/proc rw - proc proc rw\n";
            mount_below(mounts::parse(text), Path::new(folder))
        };
        assert!(below("/cache/.build#1").is_some());
        assert!(below("/cache/.build#1/tree/proc").is_some());
        assert!(below("/cache/.build").is_none());
    }
}
