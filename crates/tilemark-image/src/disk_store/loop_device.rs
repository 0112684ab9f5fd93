//! Loop devices that go with their last user.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use tilemark_sys::block::{LoopAccess, LoopCaching, configure_loop, free_loop_number};

use crate::{ImageError, Result};

const CONTROL: &str = "/dev/loop-control";
/// Documentation/admin-guide/devices.txt.
const LOOP_MAJOR: u32 = 7;
/// Others may take a free device before we do. As often as this in a row, it is not chance.
const ATTEMPTS_MAX: usize = 100;

/// What a loop device is to be like.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// The size of its sectors: 512, 1024, 2048 or 4096.
    pub sector_bytes: u32,
    /// Whether it takes writes.
    pub access: LoopAccess,
    /// Whether it goes through the page cache of the file below.
    pub caching: LoopCaching,
}

impl Default for LoopOptions {
    /// Writable, 512-byte sectors, past the page cache: as a disk would be.
    fn default() -> Self {
        Self { sector_bytes: 512, access: LoopAccess::ReadWrite, caching: LoopCaching::Direct }
    }
}

/// A loop device, held. It unbinds itself when neither this nor a mount nor any other descriptor of it is left, so
/// also when this process is killed.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    device: File,
    caching: LoopCaching,
}

impl LoopDevice {
    /// Whether it really goes past the page cache. The kernel does not where the file below cannot; so with sectors
    /// smaller than a block on a clone, as seen on Linux 6.18.
    pub fn caching(&self) -> LoopCaching {
        self.caching
    }

    /// Its path, such as `/dev/loop3`. Good only while this is held.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for LoopDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Attaches a file to a free loop device.
pub fn attach_loop(path: &Path, options: LoopOptions) -> Result<LoopDevice> {
    let writes = options.access == LoopAccess::ReadWrite;
    let file =
        OpenOptions::new().read(true).write(writes).open(path).map_err(ImageError::io("open", path))?;
    attach_file(&file, path, options)
}

/// Attaches an open file; `path` names it in errors.
pub(super) fn attach_file(file: &File, path: &Path, options: LoopOptions) -> Result<LoopDevice> {
    let refuse = |source| ImageError::Loop { file: path.to_owned(), source };
    let control = OpenOptions::new().read(true).write(true).open(CONTROL).map_err(refuse)?;
    for _ in 0..ATTEMPTS_MAX {
        let number = free_loop_number(&control).map_err(refuse)?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = match open_device(&path, number) {
            // Somebody took the device and its removal was asked for meanwhile.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => continue,
            other => other.map_err(refuse)?,
        };
        match configure_loop(&device, file, options.sector_bytes, options.access, options.caching) {
            Ok(()) => return Ok(LoopDevice { path, device, caching: caching_of(number).map_err(refuse)? }),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            Err(error) => return Err(refuse(error)),
        }
    }
    Err(refuse(io::ErrorKind::ResourceBusy.into()))
}

fn caching_of(number: u32) -> io::Result<LoopCaching> {
    let direct = fs::read_to_string(format!("/sys/block/loop{number}/loop/dio"))?;
    Ok(if direct.trim() == "1" { LoopCaching::Direct } else { LoopCaching::Cached })
}

fn open_device(path: &Path, number: u32) -> io::Result<File> {
    let open = || OpenOptions::new().read(true).write(true).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A /dev that no devtmpfs fills, as in containers, does not get the node by itself.
            let mode = Mode::RUSR | Mode::WUSR;
            match mknodat(CWD, path, FileType::BlockDevice, mode, makedev(LOOP_MAJOR, number)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => open(),
                Err(error) => Err(error.into()),
            }
        }
        other => other,
    }
}
