//! The data disks of a guest: which there are, and where they are mounted.

use crate::{
    error::{AgentError, step},
    power::Power,
};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    mount::{MountFlags, UnmountFlags, mount, unmount},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
    process::Command,
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

    /// Mounts it, if the guest has it; a blank one gets a file system first. Returns whether there is one.
    pub(crate) fn take(self, power: &mut Power) -> Result<bool, AgentError> {
        let (device, folder) = (self.device(), self.folder());
        fs::create_dir_all(&folder).map_err(step(format!("make {}", folder.display())))?;
        if !device.exists() {
            return Ok(false);
        }
        if !has_file_system(device)? {
            make_file_system(device)?;
        }
        power.mount(self)?;
        Ok(true)
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

/// Blocks that fit the sectors of a cloned disk; all inode tables at once, so that nothing is written behind a measurement's back.
const FILE_SYSTEM: [&str; 10] =
    ["-q", "-F", "-b", "4096", "-m", "0", "-i", "65536", "-E", "lazy_itable_init=0,lazy_journal_init=0"];

fn make_file_system(device: &Path) -> Result<(), AgentError> {
    let made = Command::new("/usr/sbin/mkfs.ext4").args(FILE_SYSTEM).arg(device).output();
    let output = made.map_err(step("start mkfs.ext4"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(AgentError::Service(format!("mkfs.ext4 {}: {}", device.display(), said.trim())))
}

/// Whether a disk holds an ext4: its magic number (fs/ext4/ext4.h) at byte 56 of the superblock, which begins at 1,024.
fn has_file_system(disk: &Path) -> Result<bool, AgentError> {
    let mut magic = [0; 2];
    let read = File::open(disk).and_then(|file| file.read_exact_at(&mut magic, 1024 + 56));
    read.map_err(step(format!("read {}", disk.display())))?;
    Ok(u16::from_le_bytes(magic) == 0xEF53)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_their_files_where_the_first_disk_is_mounted() {
        assert_eq!(DataDisk::Data.folder(), Path::new(tilemark_workloads::jobs::DISK));
    }
}
