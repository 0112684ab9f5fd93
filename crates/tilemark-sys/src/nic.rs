//! Values of a network device that only ethtool's requests reach: rings, interrupt coalescing, offloads (`linux/ethtool.h`).

use serde::{Deserialize, Serialize};
use std::{
    fmt, io,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// A value of a network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NicValue {
    /// Descriptors in the receive ring.
    RxRing,
    /// Descriptors in the transmit ring.
    TxRing,
    /// Microseconds that an interrupt for received frames waits for more.
    RxUsecs,
    /// Microseconds that an interrupt for sent frames waits for more.
    TxUsecs,
    /// TCP segmentation by the device: `on` or `off`.
    Tso,
    /// Segmentation just before the device: `on` or `off`.
    Gso,
    /// Received frames joined before the network stack sees them: `on` or `off`.
    Gro,
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_COALESCE: u32 = 0x0e;
const SET_COALESCE: u32 = 0x0f;
const GET_RINGS: u32 = 0x10;
const SET_RINGS: u32 = 0x11;

/// The largest of the structures that are passed, `struct ethtool_coalesce`: 23 words.
const WORDS: usize = 23;
/// Where `struct ethtool_ringparam` has the current sizes.
const RX_PENDING: usize = 5;
const TX_PENDING: usize = 8;
/// Where `struct ethtool_coalesce` has the times.
const RX_COALESCE: usize = 1;
const TX_COALESCE: usize = 5;

const ON: &str = "on";
const OFF: &str = "off";

/// How a value is asked for: with what request to read, what to write, and in which word it is.
struct Way {
    get: u32,
    set: u32,
    word: usize,
    is_flag: bool,
}

impl NicValue {
    fn way(self) -> Way {
        let (get, set, word, is_flag) = match self {
            Self::RxRing => (GET_RINGS, SET_RINGS, RX_PENDING, false),
            Self::TxRing => (GET_RINGS, SET_RINGS, TX_PENDING, false),
            Self::RxUsecs => (GET_COALESCE, SET_COALESCE, RX_COALESCE, false),
            Self::TxUsecs => (GET_COALESCE, SET_COALESCE, TX_COALESCE, false),
            // `struct ethtool_value`: the request and the value.
            Self::Tso => (0x1e, 0x1f, 1, true),
            Self::Gso => (0x23, 0x24, 1, true),
            Self::Gro => (0x2b, 0x2c, 1, true),
        };
        Way { get, set, word, is_flag }
    }

    /// Its value now.
    ///
    /// # Errors
    /// What the kernel answered: `EOPNOTSUPP` where the driver has none, `ENODEV` where there is no such device.
    pub fn read(self, device: &str) -> io::Result<String> {
        let way = self.way();
        let value = request(device, way.get, [0; WORDS])?[way.word];
        Ok(match (way.is_flag, value) {
            (false, number) => number.to_string(),
            (true, 0) => OFF.to_owned(),
            (true, _) => ON.to_owned(),
        })
    }

    /// Sets it; the other values that the same request carries stay as they are.
    ///
    /// # Errors
    /// As [`Self::read`]; `InvalidInput` for a text that is no value; `EINVAL` for a value that the driver refuses.
    pub fn write(self, device: &str, text: &str) -> io::Result<()> {
        let way = self.way();
        let value = match (way.is_flag, text.trim()) {
            (true, ON) => 1,
            (true, OFF) => 0,
            (true, _) => return Err(io::ErrorKind::InvalidInput.into()),
            (false, number) => number.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        };
        let mut words = request(device, way.get, [0; WORDS])?;
        words[way.word] = value;
        request(device, way.set, words).map(drop)
    }
}

/// As ethtool(8) calls it.
impl fmt::Display for NicValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::RxRing => "rx ring",
            Self::TxRing => "tx ring",
            Self::RxUsecs => "rx-usecs",
            Self::TxUsecs => "tx-usecs",
            Self::Tso => "tso",
            Self::Gso => "gso",
            Self::Gro => "gro",
        })
    }
}

/// `struct ifreq` with a pointer to ethtool's data.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u32,
    rest: [u8; 16],
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40);

/// Passes one request in the caller's network namespace; the first word says which. Returns the words as the kernel left them.
fn request(device: &str, command: u32, mut words: [u32; WORDS]) -> io::Result<[u32; WORDS]> {
    if device.is_empty() || device.len() >= libc::IFNAMSIZ || device.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    words[0] = command;
    let socket: OwnedFd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut name = [0; libc::IFNAMSIZ];
    name[..device.len()].copy_from_slice(device.as_bytes());
    let mut interface = InterfaceRequest { name, data: words.as_mut_ptr(), rest: [0; 16] };
    // SAFETY: SIOCETHTOOL reads one ifreq, which this struct is, and reads and writes the structure of its command behind `data`: each
    // of those used here has at most WORDS words, and `words` lives until the call is over.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut interface) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_is_an_error_and_so_is_a_text_that_is_no_value() {
        let error = NicValue::Tso.read("tm-absent").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(NicValue::Tso.write("lo", "yes").unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let long = "a".repeat(libc::IFNAMSIZ);
        assert_eq!(NicValue::Tso.read(&long).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_offloads_of_the_loopback_device_are_read() {
        // It segments nothing by itself, and always hands on what is large.
        assert_eq!(NicValue::Tso.read("lo").unwrap(), ON);
        assert_eq!(NicValue::RxRing.read("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    }
}
