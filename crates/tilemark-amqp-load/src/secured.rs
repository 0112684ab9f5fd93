//! TLS between a session's socket and its frames. Nothing here waits.

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::net::TcpStream;
use tilemark_tls::{Secured, Tls};

use crate::address::BrokerTls;
use crate::{BrokerAddress, LoadError};

/// Bytes that are sealed at once: what a socket's buffer takes in one go.
const SEALED_AT_ONCE: usize = 64 << 10;
/// Bytes that are received at once: a record and a half.
const RECEIVED_AT_ONCE: usize = 24 << 10;

/// What an attempt to move bytes came to.
pub(crate) enum Tried {
    Bytes(usize),
    WouldBlock,
    HungUp,
}

/// The TLS of one session.
pub(crate) struct SecuredWire {
    secured: Secured,
    /// Opened, and from `taken` on not yet handed on.
    plain: Vec<u8>,
    taken: usize,
    received: Vec<u8>,
    /// To be sealed.
    out: Vec<u8>,
}

impl std::fmt::Debug for SecuredWire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecuredWire").finish_non_exhaustive()
    }
}

impl SecuredWire {
    /// For a session with this broker, where it wants TLS.
    pub(crate) fn of(broker: &BrokerAddress) -> Result<Option<Self>, LoadError> {
        let Some(BrokerTls { name, ca }) = &broker.tls else { return Ok(None) };
        let address = broker.sockets[0].ip();
        let tls = Tls::to_server(Some(name), address, ca.as_deref()).map_err(LoadError::Tls)?;
        Ok(Some(Self {
            secured: Secured::new(&tls),
            plain: Vec::new(),
            taken: 0,
            received: vec![0; RECEIVED_AT_ONCE],
            out: Vec::new(),
        }))
    }

    /// Whether the peers have not agreed yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.secured.is_handshaking()
    }

    /// Whether something was opened that nobody has taken.
    pub(crate) fn has_plain(&self) -> bool {
        self.taken < self.plain.len()
    }

    /// Whether something sealed has not been sent.
    pub(crate) fn has_to_send(&self) -> bool {
        self.secured.has_to_send()
    }

    /// Sends what is sealed; says whether all of it is sent.
    pub(crate) fn flush(&mut self, stream: &TcpStream) -> Result<bool, Errno> {
        let sealed = self.secured.seal(&mut self.out);
        while !sealed.is_empty() {
            match rustix::net::send(stream, sealed, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(count) => drop(sealed.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Seals and sends as much as fits. What was taken may be sent in part: the rest goes with the next call.
    pub(crate) fn send(&mut self, stream: &TcpStream, bytes: &[u8]) -> Result<Tried, Errno> {
        if !self.flush(stream)? {
            return Ok(Tried::WouldBlock);
        }
        let part = &bytes[..bytes.len().min(SEALED_AT_ONCE)];
        self.out.extend_from_slice(part);
        self.flush(stream)?;
        Ok(Tried::Bytes(part.len()))
    }

    /// Puts what came, opened, into `space`.
    pub(crate) fn receive(
        &mut self,
        stream: &TcpStream,
        space: &mut [u8],
        flags: RecvFlags,
    ) -> Result<Tried, ReceiveError> {
        self.flush(stream).map_err(ReceiveError::Socket)?;
        if !self.has_plain() {
            match rustix::net::recv(stream, &mut self.received[..], flags) {
                Ok((0, _)) => return Ok(Tried::HungUp),
                Ok((count, _)) => {
                    self.taken = 0;
                    let opened = self.secured.open(&self.received[..count], &mut self.plain);
                    opened.map_err(|failure| ReceiveError::Tls(failure.to_string()))?;
                }
                Err(Errno::AGAIN | Errno::INTR) => return Ok(Tried::WouldBlock),
                Err(error) => return Err(ReceiveError::Socket(error)),
            }
        }
        let left = &self.plain[self.taken..];
        let count = left.len().min(space.len());
        space[..count].copy_from_slice(&left[..count]);
        self.taken += count;
        // A record of the handshake has nothing for us.
        Ok(if count == 0 { Tried::WouldBlock } else { Tried::Bytes(count) })
    }
}

/// Why nothing can be received.
pub(crate) enum ReceiveError {
    Socket(Errno),
    Tls(String),
}
