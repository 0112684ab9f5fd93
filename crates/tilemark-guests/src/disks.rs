//! Data disks: raw files behind loop devices with 512-byte sectors, the same for guests and twins.

use crate::error::{GuestError, file};
use rustix::io::Errno;
use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
};
use tilemark_plan::{
    plan::{DiskPlan, GuestPlan},
    scenario::DiskMedium,
};
use tilemark_sys::block::{LoopAccess, LoopCaching, configure_loop, free_loop_number};

/// Sectors of a data disk: requests of 512 bytes must be possible.
const SECTOR_BYTES: u32 = 512;
/// Another process can take the loop device that was free a moment ago.
const LOOP_ATTEMPTS: u32 = 64;

/// Folders in which data disks are made.
#[derive(Debug, Clone)]
pub struct DiskFolders {
    /// On the host's disk: the disk store, mounted.
    pub store: PathBuf,
    /// On a tmpfs.
    pub memory: PathBuf,
}

/// A file bound to a loop device. The device unbinds itself when its last user is gone; the file goes with it.
#[derive(Debug)]
pub(crate) struct LoopDisk {
    path: PathBuf,
    device_path: PathBuf,
    device: Option<File>,
    keep: Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    File,
    Nothing,
}

impl LoopDisk {
    /// Binds a file that stays.
    pub(crate) fn read_only(path: &Path) -> Result<Self, GuestError> {
        Self::bind(path, LoopAccess::ReadOnly, LoopCaching::Cached, Keep::File)
    }

    /// Makes all data disks of a guest, empty.
    pub(crate) fn of_guest(guest: &GuestPlan, folders: &DiskFolders) -> Result<Vec<Self>, GuestError> {
        guest.disks.iter().enumerate().map(|(index, disk)| Self::make(guest, index, disk, folders)).collect()
    }

    fn make(
        guest: &GuestPlan,
        index: usize,
        disk: &DiskPlan,
        folders: &DiskFolders,
    ) -> Result<Self, GuestError> {
        let (folder, caching) = match disk.on {
            DiskMedium::Store => (&folders.store, LoopCaching::Direct),
            // A tmpfs has no direct I/O.
            DiskMedium::Memory => (&folders.memory, LoopCaching::Cached),
        };
        let path = folder.join(format!("{}-{index}.disk", guest.name));
        let made = OpenOptions::new().write(true).create(true).truncate(true).open(&path);
        made.and_then(|file| file.set_len(disk.size.get())).map_err(file("make the disk", &path))?;
        Self::bind(&path, LoopAccess::ReadWrite, caching, Keep::Nothing)
    }

    fn bind(path: &Path, access: LoopAccess, caching: LoopCaching, keep: Keep) -> Result<Self, GuestError> {
        let backing = OpenOptions::new().read(true).write(access == LoopAccess::ReadWrite).open(path);
        let backing = backing.map_err(file("open", path))?;
        let (device, device_path) =
            bind_any(&backing, access, caching).map_err(file("bind a loop device to", path))?;
        Ok(Self { path: path.to_owned(), device_path, device: Some(device), keep })
    }

    /// The loop device.
    pub(crate) fn device(&self) -> &Path {
        &self.device_path
    }
}

fn bind_any(backing: &File, access: LoopAccess, caching: LoopCaching) -> io::Result<(File, PathBuf)> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..LOOP_ATTEMPTS {
        let path = PathBuf::from(format!("/dev/loop{}", free_loop_number(&control)?));
        let device = OpenOptions::new().read(true).write(access == LoopAccess::ReadWrite).open(&path)?;
        match configure_loop(&device, backing, SECTOR_BYTES, access, caching) {
            Ok(()) => return Ok((device, path)),
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Errno::BUSY.into())
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        drop(self.device.take());
        if self.keep == Keep::Nothing {
            let _ = fs::remove_file(&self.path);
        }
    }
}
