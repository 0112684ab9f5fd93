//! An image in the cache.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tilemark_sys::file_mark::file_mark;
use tilemark_units::Sha256Hash;

use crate::lock::{ImageLock, LockedFile};
use crate::spec::ImageSpec;
use crate::{ImageError, Result};

pub(crate) const SPEC_FILE: &str = "image.toml";
pub(crate) const LOCK_FILE: &str = "image.lock";
/// What the files looked like when they were last verified.
const VERIFIED_FILE: &str = ".verified";

/// A file of an image that its lock speaks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileName {
    /// The root file system of all guests.
    RootErofs,
    /// The uncompressed kernel.
    Vmlinux,
    /// The kernel modules for the boot.
    Initrd,
}

impl FileName {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RootErofs, Self::Vmlinux, Self::Initrd];

    /// The file's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RootErofs => "root.erofs",
            Self::Vmlinux => "vmlinux",
            Self::Initrd => "initrd",
        }
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A whole image.
#[derive(Clone, Debug)]
pub struct Image {
    name: Sha256Hash,
    folder: PathBuf,
    spec: ImageSpec,
    lock: ImageLock,
}

impl Image {
    /// Opens the image in `folder`, which carries its name. Sizes are compared with the lock, hashes are not: that is
    /// what [`Image::verify`] is for.
    pub fn open(folder: &Path) -> Result<Self> {
        let lock_path = folder.join(LOCK_FILE);
        let text = fs::read_to_string(&lock_path).map_err(ImageError::io("read", &lock_path))?;
        let lock = ImageLock::parse(&text)
            .map_err(|reason| ImageError::BadLock { path: lock_path.clone(), reason })?;
        let name = Sha256Hash::of(text.as_bytes());
        if folder.file_name().is_none_or(|found| found != name.to_string().as_str()) {
            let reason = format!("its hash is {name}, and that is not the name of its folder");
            return Err(ImageError::BadLock { path: lock_path, reason });
        }
        let spec = ImageSpec::read_kept(&folder.join(SPEC_FILE))?;
        let image = Self { name, folder: folder.to_owned(), spec, lock };
        for file in FileName::ALL {
            let path = image.path(file);
            let found = fs::metadata(&path).map_err(ImageError::io("read", &path))?.len();
            let expected = image.locked(file).bytes;
            if found != expected {
                return Err(ImageError::SizeMismatch { path, expected, found });
            }
        }
        Ok(image)
    }

    /// The image's name: the hash of its lock.
    pub fn name(&self) -> Sha256Hash {
        self.name
    }

    /// What it was built from.
    pub fn spec(&self) -> &ImageSpec {
        &self.spec
    }

    /// What it holds.
    pub fn lock(&self) -> &ImageLock {
        &self.lock
    }

    /// The folder with its files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where one of its files is.
    pub fn path(&self, file: FileName) -> PathBuf {
        self.folder.join(file.as_str())
    }

    /// What the lock says about one of its files.
    pub fn locked(&self, file: FileName) -> &LockedFile {
        let files = &self.lock.files;
        match file {
            FileName::RootErofs => &files.root_erofs,
            FileName::Vmlinux => &files.vmlinux,
            FileName::Initrd => &files.initrd,
        }
    }

    /// Verifies it unless none of its files was touched since it was last verified: then its file
    /// `.verified` says so. `now` is the time of this call.
    pub(crate) fn verify_if_touched(&self, now: SystemTime) -> Result<()> {
        let path = self.folder.join(VERIFIED_FILE);
        let marks = self.marks(now)?;
        if marks.is_some() && fs::read_to_string(&path).ok() == marks {
            return Ok(());
        }
        self.verify()?;
        if let Some(marks) = marks {
            // One who may not write here, or a full disk: it is verified again the next time.
            let _ = crate::files::write_whole(&path, marks.as_bytes());
        }
        Ok(())
    }

    /// By what touched files are known; `None` where one was changed too short a time ago.
    fn marks(&self, now: SystemTime) -> Result<Option<String>> {
        let mark = |file: FileName| {
            let path = self.path(file);
            let found = fs::metadata(&path).map_err(ImageError::io("read", &path))?;
            Ok(file_mark(&found, now).map(|mark| format!("{file} {mark}\n")))
        };
        FileName::ALL.into_iter().map(mark).collect()
    }

    /// Hashes every file and compares it with the lock.
    pub fn verify(&self) -> Result<()> {
        FileName::ALL.into_iter().try_for_each(|file| {
            let path = self.path(file);
            let found =
                File::open(&path).and_then(Sha256Hash::of_reader).map_err(ImageError::io("read", &path))?;
            let expected = self.locked(file).sha256;
            if found == expected { Ok(()) } else { Err(ImageError::HashMismatch { path, expected, found }) }
        })
    }
}
