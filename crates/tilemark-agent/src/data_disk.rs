//! The data disks of a guest: which there are, and where they are mounted.

use crate::error::{AgentError, step};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use serde::{Deserialize, Serialize};
use std::{
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
};

/// One of them. The first holds data, the second the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DataDisk {
    Data,
    Log,
}

/// Where the folders are.
const PARENT: &str = "/srv/tilemark";

/// A disk that was mounted, and the folder above: whoever owns the guest's files may have put another in its place since.
pub(crate) struct MountedDisk {
    pub(crate) disk: DataDisk,
    parent: OwnedFd,
}

impl DataDisk {
    /// Its device.
    pub(crate) fn device(self) -> &'static Path {
        Path::new(match self {
            Self::Data => "/dev/vdb",
            Self::Log => "/dev/vdc",
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Log => "log",
        }
    }

    /// Where it is mounted.
    pub(crate) fn folder(self) -> PathBuf {
        Path::new(PARENT).join(self.name())
    }

    /// Mounts the file system that is on it. No link is followed on the way.
    pub(crate) fn mount(self) -> Result<MountedDisk, AgentError> {
        let flags = MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
        let (device, folder) = (self.device(), self.folder());
        let (parent, target) = (opened(Path::new(PARENT))?, opened(&folder)?);
        // A file system may ask for a panic of the kernel when it is damaged; here it may not.
        let options = Some(c"errors=remount-ro");
        mount(device, behind(&target), "ext4", flags, options).map_err(step(format!(
            "mount {} on {}",
            device.display(),
            folder.display()
        )))?;
        Ok(MountedDisk { disk: self, parent })
    }
}

impl MountedDisk {
    /// Unmounts it, and it only.
    pub(crate) fn unmount(&self) -> Result<(), AgentError> {
        let folder = behind(&self.parent).join(self.disk.name());
        unmount(&folder, UnmountFlags::NOFOLLOW)
            .map_err(step(format!("unmount {}", self.disk.folder().display())))
    }
}

fn opened(folder: &Path) -> Result<OwnedFd, AgentError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, folder, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(step(format!("open {} without following links", folder.display())))
}

/// A path that leads to what is open, wherever its name leads by now.
fn behind(folder: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}
