//! One ICMP echo: the proof that a guest answers over the bridge.

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, recv, sendto, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use std::{
    io,
    net::{Ipv4Addr, SocketAddrV4},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

/// An echo that did not come back.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The socket.
    #[error("cannot send an echo request to {address}")]
    Socket {
        /// To whom.
        address: Ipv4Addr,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// Nothing came.
    #[error("{address} did not answer an echo request within {} s", within.as_secs_f64())]
    Silent {
        /// Who.
        address: Ipv4Addr,
        /// How long was waited in all.
        within: Duration,
    },
}

impl PingError {
    /// What the reader should do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Socket { .. } => "run as root",
            Self::Silent { .. } => "read the guest's console; its network device may not have come up",
        }
    }
}

/// Echo requests from the calling thread's network namespace.
#[derive(Debug)]
pub struct Ping {
    socket: OwnedFd,
    identifier: u16,
}

/// An unanswered request is repeated after this; the first ones can fall into the time in which a
/// guest's device comes up.
const REPEAT_AFTER: Duration = Duration::from_millis(200);
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

impl Ping {
    /// Opens a raw socket. The identifier distinguishes this sender's echoes from those of other senders.
    pub fn open(identifier: u16) -> io::Result<Self> {
        let socket =
            socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::ICMP))?;
        Ok(Self { socket, identifier })
    }

    /// Asks until an answer comes; the time from the first request to it.
    pub fn ask(&self, address: Ipv4Addr, within: Duration) -> Result<Duration, PingError> {
        let failed = |source: io::Error| PingError::Socket { address, source };
        let start = Instant::now();
        let mut sequence: u16 = 0;
        while start.elapsed() < within {
            sequence = sequence.wrapping_add(1);
            let request = echo_request(self.identifier, sequence);
            match sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrV4::new(address, 0)) {
                // The route or the neighbour is not there yet: as good as no answer.
                Ok(_) | Err(Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
            if self.await_reply(address, REPEAT_AFTER.min(within)).map_err(failed)? {
                return Ok(start.elapsed());
            }
        }
        Err(PingError::Silent { address, within })
    }

    fn await_reply(&self, address: Ipv4Addr, within: Duration) -> io::Result<bool> {
        let deadline = Instant::now() + within;
        let mut packet = [0_u8; 256];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            set_socket_timeout(&self.socket, Timeout::Recv, Some(left))?;
            match recv(&self.socket, &mut packet, RecvFlags::empty()) {
                Ok((length, _)) if is_reply(&packet[..length], address, self.identifier) => return Ok(true),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn echo_request(identifier: u16, sequence: u16) -> [u8; 16] {
    let mut packet = [0; 16];
    packet[0] = ECHO_REQUEST;
    packet[4..6].copy_from_slice(&identifier.to_be_bytes());
    packet[6..8].copy_from_slice(&sequence.to_be_bytes());
    packet[8..].copy_from_slice(b"tilemark");
    let sum = checksum(&packet);
    packet[2..4].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The internet checksum of RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded to 16 bits above")
}

/// Whether an IP packet is the echo reply of `address` to us.
fn is_reply(packet: &[u8], address: Ipv4Addr, identifier: u16) -> bool {
    let Some(header) = packet.first().map(|first| usize::from(first & 0x0f) * 4) else { return false };
    let from = packet.get(12..16);
    let echo = packet.get(header..).unwrap_or_default();
    from == Some(&address.octets())
        && echo.first() == Some(&ECHO_REPLY)
        && echo.get(4..6) == Some(&identifier.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_sums_to_zero() {
        assert_eq!(checksum(&echo_request(7, 9)), 0);
    }

    #[test]
    fn only_the_asked_guest_answers() {
        let guest = Ipv4Addr::new(10, 77, 1, 3);
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[12..16].copy_from_slice(&guest.octets());
        packet.extend(echo_request(7, 1));
        assert!(!is_reply(&packet, guest, 7), "our own request");
        packet[20] = ECHO_REPLY;
        assert!(is_reply(&packet, guest, 7));
        assert!(!is_reply(&packet, guest, 8), "to another sender");
        assert!(!is_reply(&packet, Ipv4Addr::new(10, 77, 1, 4), 7), "from another guest");
        assert!(!is_reply(&packet[..22], guest, 7), "cut");
    }
}
