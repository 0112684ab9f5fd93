//! Data disks: raw files behind loop devices, whose sectors are the same for guests and twins.

use crate::error::{GuestError, file};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};
use tilemark_image::disk_store::{LoopAccess, LoopCaching, LoopDevice, LoopOptions, attach_loop};
use tilemark_plan::{
    plan::{DiskPlan, GuestPlan},
    scenario::DiskMedium,
};
use tilemark_sys::files::PRIVATE_FILE;

/// Sectors of a data disk: requests of 512 bytes must be possible.
const SECTOR_BYTES: u32 = 512;
/// Sectors of a disk that was cloned: on the blocks of a clone the kernel has direct I/O for whole blocks of its file
/// system only, and goes silently through the page cache otherwise.
const CLONE_SECTOR_BYTES: u32 = 4096;

/// Folders in which data disks are made.
#[derive(Debug, Clone)]
pub struct DiskFolders {
    /// On the host's disk: the disk store, mounted.
    pub store: PathBuf,
    /// On a tmpfs.
    pub memory: PathBuf,
}

/// The name of the file behind a guest's data disk.
pub fn disk_file_name(guest: &str, index: usize) -> String {
    format!("{guest}-{index}.disk")
}

/// Whether a file is called as the kernel names a data disk of a run to those who do not see what it lies in.
pub fn is_data_disk(file: &Path) -> bool {
    file.parent() == Some(Path::new("/"))
        && file.extension().is_some_and(|end| end == "disk" || end == "disk (deleted)")
}

/// A file bound to a loop device. The device unbinds itself when its last user is gone; the file goes with it.
#[derive(Debug)]
pub(crate) struct LoopDisk {
    path: PathBuf,
    device_path: PathBuf,
    device: Option<LoopDevice>,
    sector_bytes: u32,
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
        let options = LoopOptions {
            access: LoopAccess::ReadOnly,
            caching: LoopCaching::Cached,
            sector_bytes: SECTOR_BYTES,
        };
        Self::bind(path, options, Keep::File)
    }

    /// Reads and writes that the host's kernel completed on it.
    fn requests(&self) -> Option<u64> {
        let name = self.device_path.file_name()?;
        let text = fs::read_to_string(Path::new("/sys/class/block").join(name).join("stat")).ok()?;
        completed_requests(&text)
    }

    /// Makes all data disks of a guest: empty, or with what the file of their name already holds.
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
        let path = folder.join(disk_file_name(&guest.name, index));
        let sector_bytes = sector_bytes_of(&path);
        let mut options = OpenOptions::new();
        let made = options.write(true).create(true).truncate(false).mode(PRIVATE_FILE).open(&path);
        made.and_then(|file| file.set_len(disk.size.get())).map_err(file("make the disk", &path))?;
        let options = LoopOptions { access: LoopAccess::ReadWrite, caching, sector_bytes };
        Self::bind(&path, options, Keep::Nothing)
    }

    fn bind(path: &Path, options: LoopOptions, keep: Keep) -> Result<Self, GuestError> {
        let device = attach_loop(path, options).map_err(io::Error::other);
        let device = device.map_err(file("bind a loop device to", path))?;
        let (path, device_path) = (path.to_owned(), device.path().to_owned());
        Ok(Self { path, device_path, device: Some(device), sector_bytes: options.sector_bytes, keep })
    }

    /// The loop device.
    pub(crate) fn device(&self) -> &Path {
        &self.device_path
    }

    /// The sectors of the loop device: whoever is given the disk must see the same, since smaller requests would be
    /// read, changed and written back on the way.
    pub(crate) fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// One that is bound to nothing.
    #[cfg(test)]
    pub(crate) fn unbound(path: &Path) -> Self {
        let (path, sector_bytes) = (path.to_owned(), sector_bytes_of(path));
        Self { path, device_path: "/dev/loop7".into(), device: None, sector_bytes, keep: Keep::File }
    }
}

/// The sectors of a data disk to be made. A file that is there was cloned for its guest: disks go with their guests, so
/// none is left over.
fn sector_bytes_of(path: &Path) -> u32 {
    if path.exists() { CLONE_SECTOR_BYTES } else { SECTOR_BYTES }
}

/// Requests that the host's kernel did on these disks; `None` where it does not say.
pub(crate) fn requests_of(disks: &[LoopDisk]) -> Option<u64> {
    disks.iter().map(LoopDisk::requests).sum()
}

/// From a block device's `stat`: the kernel's Documentation/block/stat.rst has completed reads first and completed
/// writes fifth.
fn completed_requests(stat: &str) -> Option<u64> {
    let mut fields = stat.split_whitespace().map(str::parse::<u64>);
    Some(fields.next()?.ok()? + fields.nth(3)?.ok()?)
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        drop(self.device.take());
        if self.keep == Keep::Nothing {
            let _ = fs::remove_file(&self.path);
        }
    }
}
