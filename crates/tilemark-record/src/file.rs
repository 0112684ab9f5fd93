//! Files that are there whole or not at all.

use crate::{error::RecordError, faults};
use rustix::{
    fs::{Mode, OFlags, ResolveFlags, open, openat, openat2},
    io::Errno,
};
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Take, Write},
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    },
    path::{Component, Path},
    thread,
    time::{Duration, Instant},
};
use tilemark_units::Sha256Hash;

/// Bytes of a document of a record at most.
pub const DOCUMENT_MAX: u64 = 64 << 20;
/// Bytes of a file of rows or events at most: a thousand guests write some 100 MB of rows in a quarter of an hour.
pub(crate) const LINES_MAX: u64 = 1 << 30;
/// Everybody may read a record, and only its owner write it, whatever the umask.
const FILE_MODE: u32 = 0o644;
/// The same of a folder.
const FOLDER_MODE: u32 = 0o755;

/// How long a lock is left alone before it is tried again.
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Locks a file or folder for this process alone, and waits so long at most for who holds it.
///
/// # Errors
/// Another one holds it still, or the file system locks nothing.
pub fn lock_within(file: &File, within: Duration) -> Result<(), TryLockError> {
    let until = Instant::now() + within;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(BETWEEN_TRIES),
            locked => return locked,
        }
    }
}

/// Makes a folder of a record, and those above it that do not exist: everybody may read them and only their owner write them, whatever
/// the umask.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    faults::space()?;
    make_all(path)
}

fn make_all(path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    make_all(path.parent().unwrap_or(Path::new("")))?;
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        // The mode asked for is cut by the umask.
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(FOLDER_MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Opens a file of a record to append to, not through a link; it is made where it does not exist.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).mode(FILE_MODE).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = options.open(path)?;
    file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// Writes a file aside, syncs it and renames it into its place.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    write_in_parts(path, |file| file.write_all(bytes))
}

/// The same for what is made while it is written, since it would be large in memory.
pub(crate) fn write_in_parts(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), RecordError> {
    write_aside(path, fill).map_err(RecordError::write(path))
}

fn write_aside(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    faults::space()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // With a name that nobody can know before, made by this process: root may write into a folder of somebody else, where a link
    // with a known name would lead to any file of the host. It is removed if an error ends this.
    let aside = tempfile::Builder::new()
        .prefix(".aside-")
        .permissions(fs::Permissions::from_mode(FILE_MODE))
        .tempfile_in(folder)?;
    let (file, aside) = aside.into_parts();
    // The mode asked for is cut by the umask.
    file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
    let mut file = faults::Checked(file);
    fill(&mut file)?;
    file.0.sync_all()?;
    faults::space()?;
    aside.persist(path)?;
    File::open(folder)?.sync_all()
}

/// SHA-256 of a file, in hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String, RecordError> {
    File::open(path).and_then(sha256).map_err(RecordError::read(path))
}

fn sha256(file: File) -> io::Result<String> {
    Sha256Hash::of_reader(file).map(|hash| hash.to_string())
}

/// Opens a file of a record to read. A record may come from anybody: a link in it, also on the way to the file, would lead to another
/// file of the host, and a pipe or a device would never end.
fn open_plain(record: &Path, name: &Path) -> io::Result<File> {
    let folder = open(record, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = match openat2(&folder, name, flags, Mode::empty(), within) {
        // Linux before 5.6, and filters that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_part_by_part(folder, name, flags),
        opened => opened,
    };
    let file = File::from(opened?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"))
    }
}

/// The same where the kernel cannot resolve a path without links at once.
fn open_part_by_part(mut folder: OwnedFd, name: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut parts = name.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(part) = part else { return Err(Errno::XDEV) };
        if parts.peek().is_none() {
            return openat(&folder, part, flags | OFlags::NOFOLLOW, Mode::empty());
        }
        let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // A link in the place of a folder is not a folder.
        folder = openat(&folder, part, on_the_way, Mode::empty())?;
    }
    Err(Errno::NOENT)
}

/// The same, of at most so many bytes: whoever made the record could else fill the memory of whoever reads it.
fn open_within(record: &Path, name: &Path, most: u64) -> io::Result<Take<File>> {
    let file = open_plain(record, name)?;
    let bytes = file.metadata()?.len();
    if bytes > most {
        let why = format!("it has {bytes} bytes, and such a file of a record has at most {most}");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    // One that grows meanwhile is not read on.
    Ok(file.take(bytes))
}

/// Reads a document of a record.
pub(crate) fn read(record: &Path, name: &Path) -> Result<String, RecordError> {
    read_up_to(record, name, DOCUMENT_MAX)
}

/// Reads a file of a record that has at most so many bytes.
pub(crate) fn read_up_to(record: &Path, name: &Path, most: u64) -> Result<String, RecordError> {
    let read = || -> io::Result<String> {
        let mut text = String::new();
        open_within(record, name, most)?.read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(RecordError::read(&record.join(name)))
}

/// Opens a file of a record that may have any length, since not all of it is read.
pub(crate) fn open_any_length(record: &Path, name: &Path) -> Result<File, RecordError> {
    open_plain(record, name).map_err(RecordError::read(&record.join(name)))
}

/// Opens a file of a record that has a line for each thing that was measured.
pub(crate) fn open_lines(record: &Path, name: &Path) -> Result<impl Read, RecordError> {
    open_within(record, name, LINES_MAX).map_err(RecordError::read(&record.join(name)))
}

/// SHA-256 of a file of a record, in hexadecimal.
pub(crate) fn sha256_of_plain(record: &Path, name: &Path) -> Result<String, RecordError> {
    open_plain(record, name).and_then(sha256).map_err(RecordError::read(&record.join(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_without_links_is_found_part_by_part_and_one_with_a_link_is_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("points/00")).unwrap();
        fs::write(folder.path().join("points/00/summary"), "whole").unwrap();
        std::os::unix::fs::symlink("points", folder.path().join("link")).unwrap();
        std::os::unix::fs::symlink("points/00/summary", folder.path().join("last")).unwrap();
        let found = |name: &str| {
            let place = File::open(folder.path()).unwrap().into();
            open_part_by_part(place, Path::new(name), OFlags::RDONLY).map(File::from)
        };
        assert_eq!(io::read_to_string(found("points/00/summary").unwrap()).unwrap(), "whole");
        for name in
            ["link/00/summary", "last", "../summary", "/etc/passwd", "points/../points/00/summary", ""]
        {
            assert!(found(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_finished_leaves_the_old_one_and_nothing_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        fs::create_dir(&path).unwrap();
        assert!(matches!(write_whole(&path, b"new"), Err(RecordError::Write { .. })));
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["result.json"]);
    }

    #[test]
    fn the_hash_is_the_published_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        write_whole(&path, b"abc").unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            sha256_of(&path).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
