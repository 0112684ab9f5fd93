//! Files that are whole or not there, and removal that does not leave the folder it was given.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tilemark_sys::files::read_kernel_text;

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
    let table = Path::new("/proc/self/mountinfo");
    let mounts = read_kernel_text(table).map_err(ImageError::io("read", table))?;
    if let Some(mount) = mount_below(&mounts, &whole) {
        return Err(ImageError::StillMounted { mount });
    }
    fs::remove_dir_all(&whole).map_err(ImageError::io("remove", folder))
}

fn mount_below(mountinfo: &str, folder: &Path) -> Option<PathBuf> {
    mount_points(mountinfo).find(|mount| mount.starts_with(folder))
}

/// The fifth field of each line (proc(5)), with its octal escapes undone.
fn mount_points(mountinfo: &str) -> impl Iterator<Item = PathBuf> + '_ {
    mountinfo.lines().filter_map(|line| line.split(' ').nth(4)).map(|field| {
        let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
        escapes.iter().fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain)).into()
    })
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
    fn mount_points_are_read_with_their_escapes() {
        let text = "36 35 98:0 / /a\\040b rw,noatime master:1 - ext3 /dev/root rw\n37 35 0:5 / /proc rw - proc proc rw\n";
        assert_eq!(mount_points(text).collect::<Vec<_>>(), [Path::new("/a b"), Path::new("/proc")]);
    }

    #[test]
    fn a_mount_at_or_below_a_folder_is_found_and_none_beside_it() {
        let text = "37 35 0:5 / /cache/.build-1/tree/proc rw - proc proc rw\n";
        assert!(mount_below(text, Path::new("/cache/.build-1")).is_some());
        assert!(mount_below(text, Path::new("/cache/.build-1/tree/proc")).is_some());
        assert!(mount_below(text, Path::new("/cache/.build")).is_none());
    }
}
