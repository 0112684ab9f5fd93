//! The data disks of a guest: which there are, and where they are mounted.

use crate::error::{AgentError, step};
use rustix::{
    io::Errno,
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One of them. The first holds data, the second the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DataDisk {
    Data,
    Log,
}

impl DataDisk {
    /// Its device.
    pub(crate) fn device(self) -> &'static Path {
        Path::new(match self {
            Self::Data => "/dev/vdb",
            Self::Log => "/dev/vdc",
        })
    }

    /// Where it is mounted.
    pub(crate) fn folder(self) -> &'static Path {
        Path::new(match self {
            Self::Data => "/srv/tilemark/data",
            Self::Log => "/srv/tilemark/log",
        })
    }

    /// Mounts the file system that is on it.
    pub(crate) fn mount(self) -> Result<(), AgentError> {
        let flags = MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
        let (device, folder) = (self.device(), self.folder());
        mount(device, folder, "ext4", flags, None).map_err(step(format!(
            "mount {} on {}",
            device.display(),
            folder.display()
        )))
    }

    /// Unmounts its folder. One that no disk is mounted on is no error.
    pub(crate) fn unmount(self) -> Result<(), AgentError> {
        match unmount(self.folder(), UnmountFlags::empty()) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(step(format!("unmount {}", self.folder().display()))(error)),
        }
    }
}
