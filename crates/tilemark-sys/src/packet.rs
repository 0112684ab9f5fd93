//! Frames of ARP on one network device, for asking whether an address is in use. rustix has no address of packet sockets.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
    sockopt::{Timeout, set_socket_timeout},
};
use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

/// ETH_P_ARP, in the byte order of the wire.
const ARP: u16 = 0x0806_u16.to_be();

/// A socket that sends frames by one device, and receives those of ARP that come in by it.
#[derive(Debug)]
pub struct ArpSocket(OwnedFd);

impl ArpSocket {
    /// Opens one on the device with this index, in the caller's network namespace.
    ///
    /// # Errors
    /// What the kernel answered: without the right, or the device is off.
    pub fn open(index: u32) -> io::Result<Self> {
        // Without a protocol nothing comes in before it is bound: frames of other devices would.
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let index = i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?;
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: ARP,
            sll_ifindex: index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the kernel reads as many bytes as it is given the size of.
        let bound = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if bound != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self(socket))
    }

    /// Sends one frame, from its first address on.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        send(&self.0, frame, SendFlags::empty())?;
        Ok(())
    }

    /// The next frame until a deadline; nothing where none came.
    pub fn receive(&self, frame: &mut [u8], until: Instant) -> io::Result<Option<usize>> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left < Duration::from_micros(1) {
                return Ok(None);
            }
            set_socket_timeout(&self.0, Timeout::Recv, Some(left))?;
            match recv(&self.0, &mut *frame, RecvFlags::empty()) {
                Ok((_, length)) => return Ok(Some(length.min(frame.len()))),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
