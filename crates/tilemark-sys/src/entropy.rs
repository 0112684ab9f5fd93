//! Crediting randomness to the running kernel: the first step of a clone, whose kernel has its template's.

use std::{fs::OpenOptions, io, os::fd::AsRawFd};

/// The most bytes that are credited at once.
pub const ENTROPY_BYTES_MAX: usize = 512;

/// `struct rand_pool_info` of linux/random.h with room for its bytes.
#[repr(C)]
struct PoolInformation {
    entropy_bits: libc::c_int,
    bytes: libc::c_int,
    pool: [u8; ENTROPY_BYTES_MAX],
}

/// `_IOW('R', 0x03, int[2])` of linux/random.h.
const RNDADDENTROPY: libc::Ioctl = 0x4008_5203;
/// `_IO('R', 0x07)` of linux/random.h.
const RNDRESEEDCRNG: libc::Ioctl = 0x5207;

/// Adds bytes to the kernel's pool, credits them fully, and makes it draw new keys at once. Needs root.
pub fn reseed_kernel(bytes: &[u8]) -> io::Result<()> {
    let bytes = &bytes[..bytes.len().min(ENTROPY_BYTES_MAX)];
    let length = libc::c_int::try_from(bytes.len()).expect("at most 512");
    let mut information =
        PoolInformation { entropy_bits: length * 8, bytes: length, pool: [0; ENTROPY_BYTES_MAX] };
    information.pool[..bytes.len()].copy_from_slice(bytes);
    let device = OpenOptions::new().write(true).open("/dev/urandom")?;
    // SAFETY: RNDADDENTROPY reads a header of two ints and as many bytes as the second says, all of which
    // are in `information`; RNDRESEEDCRNG takes no argument. No library wraps them.
    let result = unsafe {
        match libc::ioctl(device.as_raw_fd(), RNDADDENTROPY, &raw const information) {
            0 => libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG),
            failed => failed,
        }
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
