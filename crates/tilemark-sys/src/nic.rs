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
    /// TCP segmentation by the device: `on` or `off`, and then the names of its kinds that are asked for. `on` alone asks for all kinds that
    /// the device has.
    Tso,
    /// Segmentation just before the device: `on` or `off`.
    Gso,
    /// Received frames joined before the network stack sees them: `on` or `off`.
    Gro,
}

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_STRINGS: u32 = 0x1b;
const GET_STRING_COUNTS: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const SET_FEATURES: u32 = 0x3b;
/// The set of strings that names the features (`ETH_SS_FEATURES`), and the length of each (`ETH_GSTRING_LEN`).
const FEATURE_NAMES: u32 = 4;
const NAME_BYTES: usize = 32;
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
        self.read_by(&|command, words| request(device, command, words))
    }

    fn read_by(self, ask: Ask<'_>) -> io::Result<String> {
        let way = self.way();
        let mut words = [0; WORDS];
        ask(way.get, &mut words)?;
        Ok(match (way.is_flag, words[way.word]) {
            (false, number) => number.to_string(),
            (true, value) => {
                let word = if value == 0 { OFF } else { ON };
                let kinds = if self == Self::Tso { Segmentation::of(ask)?.asked_for() } else { Vec::new() };
                [vec![word.to_owned()], kinds].concat().join(" ")
            }
        })
    }

    /// Sets it; the other values that the same request carries stay as they are.
    ///
    /// # Errors
    /// As [`Self::read`]; `InvalidInput` for a text that is no value; `EINVAL` for a value that the driver refuses.
    pub fn write(self, device: &str, text: &str) -> io::Result<()> {
        self.write_by(&|command, words| request(device, command, words), text)
    }

    fn write_by(self, ask: Ask<'_>, text: &str) -> io::Result<()> {
        let way = self.way();
        let value = match (way.is_flag, text.trim()) {
            (true, ON) => 1,
            (true, OFF) => 0,
            (true, kinds) if self == Self::Tso => return Segmentation::of(ask)?.ask_for(ask, kinds),
            (true, _) => return Err(io::ErrorKind::InvalidInput.into()),
            (false, number) => number.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        };
        let mut words = [0; WORDS];
        ask(way.get, &mut words)?;
        words[way.word] = value;
        ask(way.set, &mut words)
    }
}

/// Passes one request to a device: which, and its structure as words. They are then as the kernel left them.
type Ask<'a> = &'a dyn Fn(u32, &mut [u32]) -> io::Result<()>;

/// The kinds of TCP segmentation of a device, which the kernel holds as features of their own. The request for TSO sets them all.
struct Segmentation {
    /// How many words of 32 features there are.
    blocks: usize,
    /// Each kind that may be set: its bit, its name, whether it is asked for.
    kinds: Vec<(usize, String, bool)>,
}

impl Segmentation {
    fn of(ask: Ask<'_>) -> io::Result<Self> {
        let names = feature_names(ask)?;
        let blocks = names.len().div_ceil(32);
        // `struct ethtool_gfeatures`: the request, how many blocks, and of each `available`, `requested`, `active`, `never_changed`.
        let mut words = vec![0; 2 + 4 * blocks];
        words[1] = blocks as u32;
        ask(GET_FEATURES, &mut words)?;
        let has = |bit: usize, of: usize| words[2 + 4 * (bit / 32) + of] & (1 << (bit % 32)) != 0;
        let is_kind = |name: &str| name.starts_with("tx-tcp") && name.ends_with("segmentation");
        let kinds = names
            .into_iter()
            .enumerate()
            .filter(|(bit, name)| is_kind(name) && has(*bit, 0))
            .map(|(bit, name)| (bit, name, has(bit, 1)));
        Ok(Self { blocks, kinds: kinds.collect() })
    }

    fn asked_for(self) -> Vec<String> {
        self.kinds.into_iter().filter(|(.., asked)| *asked).map(|(_, name, _)| name).collect()
    }

    /// Asks for the kinds that are named after the first word, and for no other one.
    fn ask_for(self, ask: Ask<'_>, text: &str) -> io::Result<()> {
        let mut names = text.split_whitespace();
        if !matches!(names.next(), Some(ON | OFF)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let wanted: Vec<&str> = names.collect();
        // `struct ethtool_sfeatures`: the request, how many blocks, and of each `valid` and `requested`.
        let mut words = vec![0; 2 + 2 * self.blocks];
        words[1] = self.blocks as u32;
        for (bit, name, _) in &self.kinds {
            let block = 2 + 2 * (bit / 32);
            words[block] |= 1 << (bit % 32);
            words[block + 1] |= u32::from(wanted.contains(&name.as_str())) << (bit % 32);
        }
        ask(SET_FEATURES, &mut words)
    }
}

/// The names of all features, in the order of their bits.
fn feature_names(ask: Ask<'_>) -> io::Result<Vec<String>> {
    // `struct ethtool_sset_info`: the request, a reserved word, a mask of 64 bits, and the count of each set in it.
    let mut counts = [0; WORDS];
    counts[2] = 1 << FEATURE_NAMES;
    ask(GET_STRING_COUNTS, &mut counts)?;
    // `struct ethtool_gstrings`: the request, the set, how many there are, and the strings.
    let mut words = vec![0; 3 + counts[4] as usize * NAME_BYTES / size_of::<u32>()];
    words[1] = FEATURE_NAMES;
    words[2] = counts[4];
    ask(GET_STRINGS, &mut words)?;
    let bytes: Vec<u8> = words[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    Ok(bytes.chunks(NAME_BYTES).map(name).collect())
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

/// Passes one request in the caller's network namespace; the first word says which. The words are then as the kernel left them.
fn request(device: &str, command: u32, words: &mut [u32]) -> io::Result<()> {
    if device.is_empty() || device.len() >= libc::IFNAMSIZ || device.contains('\0') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    words[0] = command;
    let socket: OwnedFd = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mut name = [0; libc::IFNAMSIZ];
    name[..device.len()].copy_from_slice(device.as_bytes());
    let mut interface = InterfaceRequest { name, data: words.as_mut_ptr(), rest: [0; 16] };
    // SAFETY: SIOCETHTOOL reads one ifreq, which this struct is, and reads and writes the structure of its command behind `data`: each
    // of those with a fixed size has at most WORDS words, those of features have as many blocks as they name, the strings have the count
    // that the kernel gave before, which never changes, and `words` lives until the call is over.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut interface) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
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

    /// `struct ethtool_ringparam` and `struct ethtool_coalesce`, in which each word but the first has its own place as its value.
    #[test]
    fn a_ring_and_a_time_are_set_and_the_other_values_of_the_same_request_stay() {
        let fresh = || -> Vec<u32> { (0..WORDS as u32).collect() };
        let held = std::cell::RefCell::new([(GET_RINGS, fresh()), (GET_COALESCE, fresh())]);
        let ask = |command: u32, words: &mut [u32]| {
            let mut held = held.borrow_mut();
            let (get, own) = held.iter_mut().find(|(get, _)| [*get, *get + 1].contains(&command)).unwrap();
            let is_get = *get == command;
            if is_get {
                words[1..].copy_from_slice(&own[1..])
            } else {
                own[1..].copy_from_slice(&words[1..])
            }
            Ok(())
        };
        // As linux/ethtool.h has them: `rx_pending`, `tx_pending`, `rx_coalesce_usecs`, `tx_coalesce_usecs`.
        for (place, value, word) in [
            (0, NicValue::RxRing, 5),
            (0, NicValue::TxRing, 8),
            (1, NicValue::RxUsecs, 1),
            (1, NicValue::TxUsecs, 5),
        ] {
            assert_eq!(value.read_by(&ask).unwrap(), word.to_string());
            value.write_by(&ask, "512\n").unwrap();
            let mut wanted = fresh();
            wanted[word] = 512;
            assert_eq!(held.borrow()[place].1, wanted, "{value}");
            value.write_by(&ask, &word.to_string()).unwrap();
            assert_eq!(held.borrow()[place].1, fresh(), "{value}");
        }
    }

    #[test]
    fn the_kinds_of_segmentation_that_were_asked_for_are_restored_and_no_other_one() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("a network namespace needs root");
        }
        let in_its_own = || {
            crate::namespace::own_network().unwrap();
            let found = "on tx-tcp-segmentation tx-tcp6-segmentation";
            NicValue::Tso.write("lo", found).unwrap();
            assert_eq!(NicValue::Tso.read("lo").unwrap(), found);
            NicValue::Tso.write("lo", OFF).unwrap();
            assert_eq!(NicValue::Tso.read("lo").unwrap(), OFF);
            NicValue::Tso.write("lo", ON).unwrap();
            assert!(NicValue::Tso.read("lo").unwrap().contains("mangleid"));
            NicValue::Tso.write("lo", found).unwrap();
            assert_eq!(NicValue::Tso.read("lo").unwrap(), found);
        };
        std::thread::scope(|scope| scope.spawn(in_its_own).join().unwrap());
    }

    #[test]
    fn the_offloads_of_the_loopback_device_are_read() {
        // It segments nothing by itself, and always hands on what is large.
        assert_eq!(NicValue::Gso.read("lo").unwrap(), ON);
        let kinds = "on tx-tcp-segmentation tx-tcp-ecn-segmentation tx-tcp-mangleid-segmentation";
        assert!(NicValue::Tso.read("lo").unwrap().starts_with(kinds), "{:?}", NicValue::Tso.read("lo"));
        assert_eq!(NicValue::RxRing.read("lo").unwrap_err().raw_os_error(), Some(libc::EOPNOTSUPP));
    }
}
