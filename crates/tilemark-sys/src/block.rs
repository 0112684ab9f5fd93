//! Binding a file to a loop device. The kernel offers this by ioctl only, and rustix has no wrapper for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// From `linux/loop.h`.
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64` of `linux/loop.h`.
#[repr(C)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of `linux/loop.h`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

const _: () = assert!(size_of::<LoopInfo64>() == 232 && size_of::<LoopConfig>() == 304);

/// Whether a loop device takes writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopAccess {
    /// Reads only.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// Whether a loop device goes through the page cache of the file below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopCaching {
    /// Through the page cache: a page may then be held twice.
    Cached,
    /// Past it, by direct I/O on the file below; the kernel goes back to `Cached` where that file cannot.
    Direct,
}

/// The number of a loop device that was unbound when asked; another process may take it first.
///
/// `control` is `/dev/loop-control`, open for reading and writing.
pub fn free_loop_number(control: impl AsFd) -> io::Result<u32> {
    // SAFETY: this ioctl takes no pointer and the descriptor is borrowed for the call. There is no safe wrapper.
    let number = unsafe { libc::ioctl(control.as_fd().as_raw_fd(), LOOP_CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Binds `file` to the loop device `device` in one step, with sectors of `sector_bytes` (a power of two from 512 to
/// the page size). The device unbinds itself when its last user (descriptor or mount) is gone. `EBUSY` says that
/// somebody else was faster.
///
/// The kernel keeps the open file itself, so a `flock` taken on `file` lasts as long as the device.
pub fn configure_loop(
    device: impl AsFd,
    file: impl AsFd,
    sector_bytes: u32,
    access: LoopAccess,
    caching: LoopCaching,
) -> io::Result<()> {
    let access_flag = match access {
        LoopAccess::ReadOnly => LO_FLAGS_READ_ONLY,
        LoopAccess::ReadWrite => 0,
    };
    let caching_flag = match caching {
        LoopCaching::Cached => 0,
        LoopCaching::Direct => LO_FLAGS_DIRECT_IO,
    };
    let config = LoopConfig {
        fd: u32::try_from(file.as_fd().as_raw_fd()).expect("a descriptor that is borrowed is not negative"),
        block_size: sector_bytes,
        info: LoopInfo64 {
            device: 0,
            inode: 0,
            rdevice: 0,
            offset: 0,
            size_limit: 0,
            number: 0,
            encrypt_type: 0,
            encrypt_key_size: 0,
            flags: LO_FLAGS_AUTOCLEAR | access_flag | caching_flag,
            file_name: [0; 64],
            crypt_name: [0; 64],
            encrypt_key: [0; 32],
            init: [0; 2],
        },
        reserved: [0; 8],
    };
    // SAFETY: `config` has the layout that the kernel reads (its size is asserted above), is fully initialised and
    // outlives the call; both descriptors are borrowed for it. There is no safe wrapper.
    let outcome = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
