//! Why a disk of the user's own cannot be booted.

use std::{
    io,
    path::{Path, PathBuf},
};
use tilemark_units::Bytes;

/// A disk that no guest can boot from.
#[derive(Debug, thiserror::Error)]
pub enum OwnDiskError {
    /// It is not there, or may not be read.
    #[error("cannot read the disk {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// It is something else than a file.
    #[error("the disk {} is {what}", path.display())]
    NoFile {
        /// Which.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Somebody could exchange it between this look at it and QEMU's.
    #[error("{} {why}, and anyone who can write to a disk can make QEMU open any file of the host as root", path.display())]
    Writable {
        /// The file, or its folder.
        path: PathBuf,
        /// Whose it is, or who may write it.
        why: String,
    },
    /// It is compressed as a whole, or in an archive.
    #[error("the disk {} is packed ({what})", path.display())]
    Packed {
        /// Which.
        path: PathBuf,
        /// By what.
        what: &'static str,
    },
    /// It is in another format.
    #[error("the disk {} is in the format {what}, which is not read here", path.display())]
    OtherFormat {
        /// Which.
        path: PathBuf,
        /// The format.
        what: &'static str,
    },
    /// A CD that a system is installed from.
    #[error("{} is an installer's CD (ISO 9660), no disk with a system", path.display())]
    Installer {
        /// Which.
        path: PathBuf,
    },
    /// What is in it contradicts itself.
    #[error("the disk {} is damaged: {what}", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Its sectors are encrypted.
    #[error("the disk {} is encrypted", path.display())]
    Encrypted {
        /// Which.
        path: PathBuf,
    },
    /// Its sectors are in another file.
    #[error("the disk {} keeps its sectors in a data file of its own", path.display())]
    DataFile {
        /// Which.
        path: PathBuf,
    },
    /// It uses what is not known here.
    #[error("the disk {} needs {what}, which is not known here", path.display())]
    Unknown {
        /// Which.
        path: PathBuf,
        /// What it needs.
        what: String,
    },
    /// The file that backs it is absent.
    #[error("the disk {} is backed by {}, which cannot be used", path.display(), backing.display())]
    BackingMissing {
        /// Which.
        path: PathBuf,
        /// What backs it.
        backing: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// What backs it is no file of its folder.
    #[error("the disk {} is backed by {backing:?}, which is not in its folder", path.display())]
    BackedElsewhere {
        /// Which.
        path: PathBuf,
        /// What it names.
        backing: String,
    },
    /// It has too many levels, or they are a circle.
    #[error("the disk {} is more than {most} levels deep, or backs itself", path.display())]
    Deep {
        /// The first that is too many.
        path: PathBuf,
        /// So many are read.
        most: usize,
    },
    /// Its guest would see too large a disk.
    #[error("the disk {} has {}, and a guest's disk may have {} at most", path.display(), size.rounded(), super::DISK_MAX.rounded())]
    TooLarge {
        /// Which.
        path: PathBuf,
        /// What its guest would see.
        size: Bytes,
    },
    /// Nothing on it starts.
    #[error("the disk {} has no boot sector", path.display())]
    NoBootSector {
        /// Which.
        path: PathBuf,
    },
}

impl OwnDiskError {
    /// For `map_err` where a file or folder could not be read.
    pub(super) fn read(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    /// What the reader should do.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Read { .. } => {
                "correct the path in `guest.NAME.from`: it begins at the scenario's folder, and root must be able to read it"
            }
            Self::NoFile { .. } => {
                "name a qcow2 or raw file; a device can be copied into one with `qemu-img convert -O qcow2 DEVICE FILE`"
            }
            Self::Writable { .. } => {
                "copy the disk into a folder that only you may write, or take the right from others with `chmod go-w`"
            }
            Self::Packed { .. } => "unpack it first, as with `xz -d`, `gzip -d` or `tar -x`",
            Self::Installer { .. } => "install a system from it onto a disk first, or take a cloud image",
            Self::OtherFormat { .. } => "convert it: `qemu-img convert -O qcow2 FILE NEW.qcow2`",
            Self::Damaged { .. } => {
                "get it again, compare its checksum, and look at it with `qemu-img check FILE`"
            }
            Self::Encrypted { .. } => {
                "give a copy that is not encrypted: `qemu-img convert --object secret,… --image-opts … -O qcow2 NEW.qcow2`"
            }
            Self::DataFile { .. } | Self::Unknown { .. } | Self::Deep { .. } => {
                "give a plain copy of it: `qemu-img convert -O qcow2 FILE NEW.qcow2`"
            }
            Self::BackingMissing { .. } => {
                "put that file back, or give a copy that needs none: `qemu-img convert -O qcow2 FILE NEW.qcow2`, where both are"
            }
            Self::BackedElsewhere { .. } => {
                "give a copy that needs no other file: `qemu-img convert -O qcow2 FILE NEW.qcow2`; a disk may only name files beside it"
            }
            Self::TooLarge { .. } => "use a smaller disk",
            Self::NoBootSector { .. } => {
                "give the whole disk with its boot loader, for BIOS; a partition or a root file system alone does not start"
            }
        }
    }
}
