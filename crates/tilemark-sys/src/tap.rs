//! Taps: network devices whose other end is a program, here QEMU.

use std::{
    fs::{File, OpenOptions},
    io,
    os::fd::{AsRawFd, OwnedFd},
};

/// `struct ifreq` with its flags, as TUNSETIFF takes it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    flags: libc::c_short,
    rest: [u8; 22],
}

/// The longest name of a network device, in bytes.
pub const DEVICE_NAME_BYTES_MAX: usize = libc::IFNAMSIZ - 1;

/// Makes a tap in the caller's network namespace. It lives as long as the descriptor, wherever that is handed:
/// nothing is left when QEMU ends. Frames carry a virtio-net header, as QEMU's taps do.
pub fn create_tap(name: &str) -> io::Result<OwnedFd> {
    open_tap(name, 0)
}

/// Makes a tap with several queues, and returns a descriptor of each. It lives as long as any of them.
pub fn create_tap_with_queues(name: &str, queues: u32) -> io::Result<Vec<OwnedFd>> {
    (0..queues).map(|_| open_tap(name, libc::IFF_MULTI_QUEUE)).collect()
}

fn open_tap(name: &str, more: libc::c_int) -> io::Result<OwnedFd> {
    if name.is_empty() || name.len() > DEVICE_NAME_BYTES_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let file: File = OpenOptions::new().read(true).write(true).open("/dev/net/tun")?;
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | more;
    let mut request = InterfaceRequest {
        name: [0; libc::IFNAMSIZ],
        flags: libc::c_short::try_from(flags).expect("flags of 16 bits"),
        rest: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes one ifreq, 40 bytes on x86-64, which this struct is; rustix has
    // no wrapper for it.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file.into())
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);
