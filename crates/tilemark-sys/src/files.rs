//! Files and folders whose mode and owner matter: made with one mode whatever the caller's umask, and believed only where nobody
//! else could have written them.

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, open, openat, readlinkat, statat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, set_permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Component, Path, PathBuf};

/// A folder that everybody may look into.
pub const OPEN_FOLDER: u32 = 0o755;
/// A folder for its owner alone.
pub const PRIVATE_FOLDER: u32 = 0o700;
/// A file for its owner alone.
pub const PRIVATE_FILE: u32 = 0o600;

/// The text of a file of `/proc`. Any user may give a process a name, and a mount a folder, of bytes that are not UTF-8; these are
/// replaced, so that one line cannot make all others unreadable.
///
/// # Errors
/// What the kernel refuses.
pub fn read_kernel_text(path: &Path) -> io::Result<String> {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Why a file or folder is not believed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Distrust {
    /// Somebody else made it.
    #[error("{} belongs to user {owner}", path.display())]
    Owner {
        /// What.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Somebody else may write it.
    #[error("users other than its owner may write {} (mode {mode:o})", path.display())]
    Writable {
        /// What.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A folder is where a file should be written.
    #[error("{} is a folder: name a file in it", path.display())]
    Folder {
        /// What.
        path: PathBuf,
    },
    /// A link, pipe, socket or device is where a file or folder should be.
    #[error("{} is neither a plain file nor a folder", path.display())]
    Kind {
        /// What.
        path: PathBuf,
    },
}

/// Listens on a new socket at `path` for its owner alone. Between the two steps the umask decides: where that lets others in, the
/// folder must be closed to them.
///
/// # Errors
/// Where something is at `path` already, or the path is longer than a socket's address.
pub fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    set_permissions(path, Permissions::from_mode(PRIVATE_FILE))?;
    Ok(listener)
}

/// Sets the umask that this process and all that it starts have from now on: nobody else may write, everybody may read. What is
/// private has a mode of its own. A umask belongs to the process: to be called before there are threads.
pub fn set_common_umask() {
    rustix::process::umask(Mode::from_raw_mode(0o022));
}

/// Lets nobody else write what this process makes; a stricter umask of the caller stays as strict.
pub fn tighten_umask() {
    let callers = rustix::process::umask(Mode::from_raw_mode(0o077));
    rustix::process::umask(callers | Mode::from_raw_mode(0o022));
}

/// Makes a folder with exactly this mode; the folders above it that do not exist get 0755. One that exists is taken as it is.
///
/// # Errors
/// What the kernel answered.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    match DirBuilder::new().mode(mode).create(path) {
        // The umask has cut the mode.
        Ok(()) => std::fs::set_permissions(path, Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make_folder(path.parent().unwrap_or(Path::new("")), OPEN_FOLDER)?;
            make_folder(path, mode)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a folder for the caller alone (0700), or takes one that the caller or root owns and nobody else could write, and closes it
/// to others.
///
/// # Errors
/// [`Distrust`] for a folder of somebody else; else what the kernel answered.
pub fn make_private_folder(path: &Path) -> io::Result<()> {
    make_folder(path, PRIVATE_FOLDER)?;
    trusted(path)?;
    let found = std::fs::symlink_metadata(path)?.permissions();
    if found.mode() & 0o777 == PRIVATE_FOLDER {
        return Ok(());
    }
    std::fs::set_permissions(path, Permissions::from_mode(PRIVATE_FOLDER))
}

/// Opens a file of the caller's own to read and write; it is made for the caller alone where it does not exist. A link is not followed.
///
/// # Errors
/// [`Distrust`] where somebody else owns it or may write it; else what the kernel answered.
pub fn open_private(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE).custom_flags(flags);
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP | Errno::NXIO) => refused(Distrust::Kind { path: path.to_owned() }),
        _ => error,
    })?;
    judged(path, &fstat(&file)?)?;
    file.set_permissions(Permissions::from_mode(PRIVATE_FILE))?;
    Ok(file)
}

/// Writes a small file for the caller alone, new or in the place of an older one. A link is not followed.
///
/// # Errors
/// As [`open_private`].
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write;
    let mut file = open_private(path)?;
    file.set_len(0)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes a small file for the caller alone so that a power cut leaves the old one or the new one, whole.
///
/// # Errors
/// As [`open_private`].
pub fn replace_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let aside = path.with_file_name(format!(".{name}.aside"));
    write_private(&aside, bytes)?;
    std::fs::rename(aside, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Whether what is at a path can be believed: a plain file or a folder that root or the caller owns, and that nobody else may write.
///
/// # Errors
/// [`Distrust`]; else what the kernel answered.
pub fn trusted(path: &Path) -> io::Result<()> {
    judged(path, &statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Reads a small file that can be believed ([`trusted`]).
///
/// # Errors
/// [`Distrust`]; else what the kernel answered.
pub fn read_trusted(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    trusted(path)?;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    judged(path, &fstat(&file)?)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The [`Distrust`] in an error, if that is what it is.
pub fn distrust(error: &io::Error) -> Option<&Distrust> {
    error.get_ref()?.downcast_ref()
}

fn refused(why: Distrust) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn judged(path: &Path, found: &Stat) -> io::Result<()> {
    let (path, mode) = (path.to_owned(), found.st_mode & 0o7777);
    let kind = found.st_mode & libc::S_IFMT;
    if kind != libc::S_IFREG && kind != libc::S_IFDIR {
        return Err(refused(Distrust::Kind { path }));
    }
    if !is_ours(found.st_uid) {
        return Err(refused(Distrust::Owner { path, owner: found.st_uid }));
    }
    if mode & 0o022 != 0 {
        return Err(refused(Distrust::Writable { path, mode }));
    }
    Ok(())
}

/// Whether root or the caller is this user.
fn is_ours(user: u32) -> bool {
    user == 0 || user == rustix::process::geteuid().as_raw()
}

/// A place for a file that the caller named, with its folder held open: nobody can lead the writer elsewhere meanwhile.
#[derive(Debug)]
pub struct Place {
    _folder: OwnedFd,
    path: PathBuf,
}

impl Place {
    /// Opens the folder of `path`. A link on the way is followed only if root or the caller made it, since whoever made a link decides
    /// where root writes. What is at `path` itself must be a plain file, or nothing.
    ///
    /// # Errors
    /// [`Distrust`] for links of somebody else and for what is no plain file; else what the kernel answered.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = open_folder(path.parent().unwrap_or(Path::new("")))?;
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if found.st_mode & libc::S_IFMT == libc::S_IFDIR => {
                return Err(refused(Distrust::Folder { path: path.to_owned() }));
            }
            Ok(found) if found.st_mode & libc::S_IFMT != libc::S_IFREG => {
                return Err(refused(Distrust::Kind { path: path.to_owned() }));
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let path = held(&folder).join(name);
        Ok(Self { _folder: folder, path })
    }

    /// Opens the folder at `path`, which is made with this mode where it does not exist.
    ///
    /// # Errors
    /// As [`Place::of_file`].
    pub fn of_folder(path: &Path, mode: u32) -> io::Result<Self> {
        let folder = match open_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
                let parent = path.parent().unwrap_or(Path::new(""));
                let above = Self::of_folder(
                    if parent.as_os_str().is_empty() { Path::new(".") } else { parent },
                    OPEN_FOLDER,
                )?;
                make_folder(&above.path.join(name), mode)?;
                open_folder(path)?
            }
            opened => opened?,
        };
        Ok(Self { path: held(&folder), _folder: folder })
    }

    /// Opens the folder at `path`, which the caller must own.
    ///
    /// # Errors
    /// [`Distrust::Owner`] for a folder of somebody else, and as [`Place::of_file`].
    pub fn of_own_folder(path: &Path) -> io::Result<Self> {
        let folder = open_folder(path)?;
        let owner = fstat(&folder)?.st_uid;
        if owner != rustix::process::geteuid().as_raw() {
            return Err(refused(Distrust::Owner { path: path.to_owned(), owner }));
        }
        Ok(Self { path: held(&folder), _folder: folder })
    }

    /// The way to it through the open folder: good while this is held.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn held(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// As many links as the kernel follows.
const LINKS_MAX: usize = 40;

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let at = reach(path, is_ours)?;
    if fstat(&at)?.st_mode & libc::S_IFMT == libc::S_IFDIR { Ok(at) } else { Err(Errno::NOTDIR.into()) }
}

/// Opens what is at a path, only to look at it. A link on the way or at its end is followed only if it is of a user who is believed.
///
/// # Errors
/// [`Distrust::Owner`] for a link of somebody else; else what the kernel answered.
pub(crate) fn reach(path: &Path, is_believed: impl Fn(u32) -> bool) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let start = |path: &Path| {
        let start = if path.is_absolute() { "/" } else { "." };
        open(start, flags | OFlags::DIRECTORY, Mode::empty())
    };
    let mut at = start(path)?;
    let (mut left, mut seen, mut links) = (parts(path), PathBuf::new(), 0);
    if path.is_absolute() {
        seen.push("/");
    }
    while let Some(part) = left.pop_front() {
        seen.push(&part);
        let next = openat(&at, &part, flags | OFlags::NOFOLLOW, Mode::empty())?;
        let found = fstat(&next)?;
        if found.st_mode & libc::S_IFMT != libc::S_IFLNK {
            at = next;
            continue;
        }
        if !is_believed(found.st_uid) {
            return Err(refused(Distrust::Owner { path: seen, owner: found.st_uid }));
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        let target = readlinkat(&next, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            at = start(&target)?;
        }
        for part in parts(&target).into_iter().rev() {
            left.push_front(part);
        }
    }
    Ok(at)
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let part = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    const NOBODY: u32 = 65534;

    fn is_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        assert!(is_root || std::env::var_os("TILEMARK_CI").is_none_or(|value| value != "1"), "CI is root");
        is_root
    }

    fn mode_of(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn folders_and_files_for_the_owner_alone_are_so_and_older_ones_become_so() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("a/b");
        make_private_folder(&folder).unwrap();
        assert_eq!((mode_of(&folder), mode_of(&base.path().join("a"))), (PRIVATE_FOLDER, OPEN_FOLDER));
        let file = folder.join("file");
        write_private(&file, b"a longer text").unwrap();
        write_private(&file, b"text").unwrap();
        assert_eq!((mode_of(&file), read_trusted(&file).unwrap()), (PRIVATE_FILE, b"text".to_vec()));
        for path in [&folder, &file] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        make_private_folder(&folder).unwrap();
        open_private(&file).unwrap();
        assert_eq!((mode_of(&folder), mode_of(&file)), (PRIVATE_FOLDER, PRIVATE_FILE));
    }

    #[test]
    fn files_that_others_own_or_may_write_and_links_are_refused() {
        let base = tempfile::tempdir().unwrap();
        let (folder, file, link) =
            (base.path().join("folder"), base.path().join("file"), base.path().join("link"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        for path in [&folder, &file] {
            trusted(path).unwrap();
            std::fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
            let error = trusted(path).unwrap_err();
            assert_eq!(distrust(&error), Some(&Distrust::Writable { path: path.clone(), mode: 0o777 }));
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let kind = Some(Distrust::Kind { path: link.clone() });
        for error in [open_private(&link).unwrap_err(), read_trusted(&link).unwrap_err()] {
            assert_eq!(distrust(&error), kind.as_ref());
        }
        if !is_root() {
            return tilemark_fixtures::skipped("giving a file away needs root");
        }
        for path in [&folder, &file] {
            chown(path, Some(NOBODY), None).unwrap();
            assert_eq!(
                distrust(&trusted(path).unwrap_err()),
                Some(&Distrust::Owner { path: path.clone(), owner: NOBODY })
            );
        }
        assert!(make_private_folder(&folder).is_err() && open_private(&file).is_err());
    }

    #[test]
    fn a_place_is_reached_through_own_links_and_through_nobody_elses() {
        let base = tempfile::tempdir().unwrap();
        let (folder, link) = (base.path().join("folder"), base.path().join("link"));
        std::fs::create_dir(&folder).unwrap();
        symlink("folder/../folder", &link).unwrap();
        let place = Place::of_file(&link.join("page")).unwrap();
        std::fs::write(place.path(), "page").unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("page")).unwrap(), "page");
        let made = Place::of_folder(&link.join("new/er"), PRIVATE_FOLDER).unwrap();
        std::fs::write(made.path().join("page"), "page").unwrap();
        assert_eq!(mode_of(&folder.join("new/er")), PRIVATE_FOLDER);
        for odd in ["/dev/null", "/dev/stdout", "/proc/self/fd"] {
            assert!(Place::of_file(Path::new(odd)).is_err(), "{odd}");
        }
        let of_a_folder = Place::of_file(&folder).unwrap_err();
        assert_eq!(of_a_folder.to_string(), format!("{} is a folder: name a file in it", folder.display()));
        if !is_root() {
            return tilemark_fixtures::skipped("giving a link away needs root");
        }
        std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
        for error in [
            Place::of_file(&link.join("page")).unwrap_err(),
            Place::of_folder(&link.join("newest"), PRIVATE_FOLDER).unwrap_err(),
        ] {
            assert_eq!(distrust(&error), Some(&Distrust::Owner { path: link.clone(), owner: NOBODY }));
        }
        assert!(!folder.join("newest").exists());
    }

    #[test]
    fn a_socket_is_for_its_owner_alone_and_takes_nobodys_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = listen_privately(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, PRIVATE_FILE);
        assert_eq!(listen_privately(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
