//! Disks of the user's own: what is in such a file, as far as that can be known without starting it, and the overlay that takes a guest's
//! writes in its place.
//!
//! A disk may come from anybody, and QEMU opens it as root. So its format is read here first, within limits, and QEMU is given every level
//! of it by name: what the file says about other files is never followed outside its own folder.

mod error;
mod format;
mod overlay;
mod qcow2;

pub use error::OwnDiskError;
pub use overlay::write_overlay;

use format::Found;
use rustix::fs::OFlags;
use std::{
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt},
    },
    path::{Component, Path, PathBuf},
};
use tilemark_units::Bytes;

/// Levels of one disk: itself, and what backs it.
const LEVELS_MAX: usize = 8;
/// Sectors of a disk.
const SECTOR: u64 = 512;
/// The largest disk that a guest may see. The overlay's first table, one cluster, has room for no more.
pub const DISK_MAX: Bytes = Bytes::from_gib(4096);

/// A disk as its files say it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnDisk {
    /// Its files: itself first, then what backs it.
    pub levels: Vec<Level>,
    /// What its guest sees.
    pub size: Bytes,
}

/// One file of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Level {
    /// Its absolute path.
    pub path: PathBuf,
    /// How it is read.
    pub format: DiskFormat,
    /// Its length.
    pub bytes: Bytes,
}

/// How a disk's file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFormat {
    /// Sector after sector.
    Raw,
    /// QEMU's own format.
    Qcow2,
}

impl DiskFormat {
    /// QEMU's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Qcow2 => "qcow2",
        }
    }
}

/// Reads what the files of a disk say about themselves: at most some MiB, however large they are.
///
/// # Errors
/// When it is absent, no file, damaged, encrypted, in a format that is not read here, or needs a file that it may not have.
pub fn look_at(path: &Path) -> Result<OwnDisk, OwnDiskError> {
    let mut levels = Vec::new();
    let mut size = None;
    let mut next = Some((absolute(path)?, None));
    while let Some((path, stated)) = next.take() {
        if levels.len() == LEVELS_MAX {
            return Err(OwnDiskError::Deep { path, most: LEVELS_MAX });
        }
        let file = open(&path)?;
        let bytes = file.metadata().map_err(OwnDiskError::read(&path))?.len();
        let (format, own) = match stated {
            Some(DiskFormat::Raw) => (DiskFormat::Raw, bytes),
            _ => {
                let head = read_at(&file, &path, 0, format::HEAD_BYTES)?;
                match format::of(&head) {
                    Found::Raw if stated == Some(DiskFormat::Qcow2) => {
                        return Err(damaged(&path, "it does not begin as a qcow2 does"));
                    }
                    Found::Raw => (DiskFormat::Raw, bytes),
                    Found::Other(what) => return Err(OwnDiskError::OtherFormat { path, what }),
                    Found::Installer => return Err(OwnDiskError::Installer { path }),
                    Found::Packed(what) => return Err(OwnDiskError::Packed { path, what }),
                    Found::Qcow2 => {
                        let found = qcow2::read(&file, &path, bytes)?;
                        next = found.backing.map(|name| backing(&path, &name)).transpose()?;
                        if let Some((_, stated)) = &mut next {
                            *stated = found.backing_format;
                        }
                        (DiskFormat::Qcow2, found.size)
                    }
                }
            }
        };
        if format == DiskFormat::Raw {
            check_raw(&file, &path, bytes, levels.is_empty())?;
        }
        size.get_or_insert(own);
        levels.push(Level { path, format, bytes: Bytes::new(bytes) });
    }
    let size = Bytes::new(size.unwrap_or_default());
    let path = &levels[0].path;
    if size.get() == 0 || !size.get().is_multiple_of(SECTOR) {
        return Err(damaged(
            path,
            format!("its disk has {} bytes, which is not a number of sectors", size.get()),
        ));
    }
    if size > DISK_MAX {
        return Err(OwnDiskError::TooLarge { path: path.clone(), size });
    }
    Ok(OwnDisk { levels, size })
}

/// Refuses a disk that somebody else than root and these users may write or exchange: QEMU opens its files by their names, later, and
/// follows what is in them then.
///
/// # Errors
/// When a file of it, or the folder that it is in, belongs to another user, or other users may write it.
pub fn refuse_writable(disk: &OwnDisk, users: &[u32]) -> Result<(), OwnDiskError> {
    let path = &disk.levels[0].path;
    // All its files are in one folder.
    let files = disk.levels.iter().map(|level| level.path.as_path());
    for place in files.chain(path.parent()) {
        let found = fs::metadata(place).map_err(OwnDiskError::read(place))?;
        if let Some(why) = writer(&found, users) {
            return Err(OwnDiskError::Writable { path: place.to_owned(), why });
        }
    }
    Ok(())
}

/// Who else could write it. A group that has the number of the owner is the owner's alone, as most distributions make one for each user.
fn writer(found: &Metadata, users: &[u32]) -> Option<String> {
    let (user, mode) = (found.uid(), found.mode());
    if user != 0 && !users.contains(&user) {
        return Some(format!("belongs to user {user}"));
    }
    // In such a folder, as /tmp, nobody exchanges files of others.
    let is_sticky = found.is_dir() && mode & 0o1000 != 0;
    let is_open = mode & 0o002 != 0 || mode & 0o020 != 0 && found.gid() != user;
    (is_open && !is_sticky).then(|| format!("may be written by other users (mode {:o})", mode & 0o7777))
}

/// The file itself, without links on the way.
fn absolute(path: &Path) -> Result<PathBuf, OwnDiskError> {
    fs::canonicalize(path).map_err(OwnDiskError::read(path))
}

/// Opens a file, and nothing else: a pipe would be waited for without end.
fn open(path: &Path) -> Result<File, OwnDiskError> {
    let failed = OwnDiskError::read(path);
    let flags = i32::try_from((OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or_default();
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    let what = if kind.is_dir() {
        "a folder"
    } else if kind.is_block_device() {
        "a device"
    } else {
        "not a file"
    };
    let refused = || OwnDiskError::NoFile { path: path.to_owned(), what };
    if !kind.is_file() {
        return Err(refused());
    }
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    // It may have been exchanged since.
    if file.metadata().map_err(failed)?.is_file() { Ok(file) } else { Err(refused()) }
}

/// At most so many bytes from there: fewer where the file ends.
fn read_at(file: &File, path: &Path, at: u64, most: usize) -> Result<Vec<u8>, OwnDiskError> {
    let mut bytes = vec![0; most];
    let mut filled = 0;
    while filled < most {
        match file.read_at(&mut bytes[filled..], at.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(OwnDiskError::read(path)(source)),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn damaged(path: &Path, what: impl Into<String>) -> OwnDiskError {
    OwnDiskError::Damaged { path: path.to_owned(), what: what.into() }
}

/// The file that a name inside a disk means: one in the same folder, or none.
fn backing(path: &Path, name: &[u8]) -> Result<(PathBuf, Option<DiskFormat>), OwnDiskError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let shown = tilemark_units::printable(&String::from_utf8_lossy(name)).into_owned();
    let elsewhere = || OwnDiskError::BackedElsewhere { path: path.to_owned(), backing: shown.clone() };
    // QEMU would take `nbd:…` and `json:…` for something else than a file.
    if name.contains(&b':') || name.contains(&0) || name.is_empty() {
        return Err(elsewhere());
    }
    let named = Path::new(OsStr::from_bytes(name));
    let (within, file) = match (named.parent(), named.file_name()) {
        (Some(within), Some(file)) => (within, file),
        _ => return Err(elsewhere()),
    };
    let is_here = within == folder || within.components().all(|part| part == Component::CurDir);
    if !is_here {
        return Err(elsewhere());
    }
    let wanted = folder.join(file);
    let found = match fs::canonicalize(&wanted) {
        Ok(found) => found,
        Err(source) => {
            return Err(OwnDiskError::BackingMissing { path: path.to_owned(), backing: wanted, source });
        }
    };
    // A link may lead anywhere.
    if found.parent() == Some(folder) { Ok((found, None)) } else { Err(elsewhere()) }
}

/// A raw disk has whole sectors, and the first of one that is booted ends as every boot sector does.
fn check_raw(file: &File, path: &Path, bytes: u64, is_booted: bool) -> Result<(), OwnDiskError> {
    if bytes == 0 || !bytes.is_multiple_of(SECTOR) {
        return Err(damaged(
            path,
            format!("it has {bytes} bytes, which is not a whole number of sectors: it may be cut off"),
        ));
    }
    let sector = read_at(file, path, 0, SECTOR as usize)?;
    if is_booted && sector.get(510..) != Some(&[0x55, 0xAA]) {
        return Err(OwnDiskError::NoBootSector { path: path.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
