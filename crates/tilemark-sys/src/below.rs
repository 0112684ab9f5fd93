//! What is below a folder, found without following a link and held by a descriptor: whoever may write there could else lead a reader
//! to any file of the host, also between two looks at it.

use crate::files::reach;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use std::{
    ffi::OsString,
    fs::{self, File, Metadata},
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

/// A file, folder or anything else: it stays the one that was found, wherever its name leads by now. It is opened to be looked at only;
/// opening a pipe would wait, and opening some devices is enough to start something.
#[derive(Debug)]
pub struct Below {
    held: File,
    found: Metadata,
}

impl Below {
    /// The folder to begin at.
    ///
    /// # Errors
    /// When there is a link on the way ([`is_link`]) or no folder at its end; else what the kernel answered.
    pub fn folder(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Self::of(File::from(openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?))
    }

    /// What is at a path that may have links on the way or at its end: those of root and of these users are followed, since whoever made a
    /// link decides what is read.
    ///
    /// # Errors
    /// [`crate::files::Distrust::Owner`] for a link of somebody else; else what the kernel answered.
    pub fn reached(path: &Path, users: &[u32]) -> io::Result<Self> {
        Self::of(File::from(reach(path, |user| user == 0 || users.contains(&user))?))
    }

    /// What has this name below this folder.
    ///
    /// # Errors
    /// When there is a link on the way or at its end ([`is_link`]), or the name leads out of the folder; else what the kernel answered.
    pub fn open(&self, name: &Path) -> io::Result<Self> {
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Self::of(File::from(openat2(&self.held, name, flags, Mode::empty(), within)?))
    }

    fn of(held: File) -> io::Result<Self> {
        Ok(Self { found: held.metadata()?, held })
    }

    /// What it is, and how long.
    pub fn metadata(&self) -> &Metadata {
        &self.found
    }

    /// Opens it to read.
    ///
    /// # Errors
    /// When it is not a plain file; else what the kernel answered.
    pub fn file(&self) -> io::Result<File> {
        if !self.found.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
        }
        File::open(self.path())
    }

    /// Where it is, without links on the way.
    ///
    /// # Errors
    /// What the kernel answered.
    pub fn real_path(&self) -> io::Result<PathBuf> {
        fs::read_link(self.path())
    }

    /// The names in it, in order.
    ///
    /// # Errors
    /// When it is no folder; else what the kernel answered.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let names: io::Result<Vec<OsString>> =
            fs::read_dir(self.path())?.map(|entry| Ok(entry?.file_name())).collect();
        let mut names = names?;
        names.sort();
        Ok(names)
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.held.as_raw_fd()))
    }
}

/// Whether something was not opened because it is a link, or behind one.
pub fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Distrust, distrust};
    use rustix::fs::{FileType, mknodat};
    use std::{io::Read, os::unix::fs::symlink};

    #[test]
    fn what_is_below_a_folder_is_read_through_no_link_and_stays_what_was_found() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for folder in ["here/deep", "outside"] {
            fs::create_dir_all(at(folder)).unwrap();
            fs::write(at(folder).join("file"), folder).unwrap();
        }
        symlink("deep", at("here/link")).unwrap();
        mknodat(CWD, at("here/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let here = Below::folder(&at("here")).unwrap();
        assert_eq!(here.names().unwrap(), ["deep", "link", "pipe"]);
        let deep = here.open(Path::new("deep")).unwrap();
        for link in ["link", "link/file"] {
            assert!(is_link(&here.open(Path::new(link)).unwrap_err()), "{link}");
        }
        assert!(here.open(Path::new("../outside/file")).is_err() && here.open(Path::new("/etc")).is_err());
        assert!(here.open(Path::new("pipe")).unwrap().file().is_err(), "nobody waits for it");
        // Exchanged since.
        fs::rename(at("here/deep"), at("moved")).unwrap();
        symlink("../outside", at("here/deep")).unwrap();
        let mut text = String::new();
        deep.open(Path::new("file")).unwrap().file().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "here/deep");
        assert!(is_link(&here.open(Path::new("deep/file")).unwrap_err()));
        symlink("here", at("way")).unwrap();
        assert!(is_link(&Below::folder(&at("way")).unwrap_err()));
    }

    #[test]
    fn a_link_is_followed_where_root_or_a_believed_user_made_it() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let (file, link) = (base.join("folder/file"), base.join("link"));
        fs::create_dir(base.join("folder")).unwrap();
        fs::write(&file, "text").unwrap();
        symlink("file", base.join("folder/other")).unwrap();
        symlink("folder", &link).unwrap();
        let (own, nobody) = (rustix::process::geteuid().as_raw(), 65534);
        for path in ["link/file", "link/other", "folder/../folder/file"] {
            let found = Below::reached(&base.join(path), &[own]).unwrap();
            assert_eq!(found.real_path().unwrap(), file, "{path}");
        }
        if own != 0 {
            assert!(Below::reached(&link.join("file"), &[]).is_err());
            return tilemark_fixtures::skipped("giving a link away needs root");
        }
        std::os::unix::fs::lchown(&link, Some(nobody), None).unwrap();
        let refused = Below::reached(&link.join("file"), &[own]).unwrap_err();
        assert_eq!(distrust(&refused), Some(&Distrust::Owner { path: link.clone(), owner: nobody }));
        assert!(Below::reached(&link.join("file"), &[nobody]).is_ok());
    }
}
