//! The TLS of one peer, around its socket. Nothing here waits.

use std::net::TcpStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tilemark_tls::{Secured, ServerTls};

/// Bytes of an outbox that are sealed at once: what a socket's buffer takes in one go.
pub(crate) const SEALED_AT_ONCE: usize = 64 << 10;
/// One read takes at most this much of a peer.
const READ_BYTES: usize = 64 << 10;

/// What came of a read.
pub(crate) enum Received {
    /// In [`SecuredSocket::plain`] is what the peer said, if anything.
    Some,
    /// Nothing has come.
    Nothing,
    /// The peer is gone, or does not keep TLS.
    Over,
}

pub(crate) struct SecuredSocket {
    secured: Secured,
    pub(crate) plain: Vec<u8>,
    out: Vec<u8>,
}

impl std::fmt::Debug for SecuredSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecuredSocket").finish_non_exhaustive()
    }
}

impl SecuredSocket {
    pub(crate) fn new(tls: &ServerTls) -> Self {
        Self { secured: Secured::serving(tls), plain: Vec::new(), out: Vec::new() }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.secured.is_handshaking()
    }

    /// Whether something sealed has not been sent.
    pub(crate) fn has_to_send(&self) -> bool {
        self.secured.has_to_send()
    }

    /// `arrived` is for what comes on the socket, and nothing of it is kept there.
    pub(crate) fn receive(&mut self, stream: &TcpStream, arrived: &mut [u8]) -> Received {
        let most = arrived.len().min(READ_BYTES);
        match rustix::net::recv(stream, &mut arrived[..most], RecvFlags::DONTWAIT) {
            Ok((0, _)) => Received::Over,
            Ok((count, _)) => match self.secured.open(&arrived[..count], &mut self.plain) {
                Ok(()) => Received::Some,
                Err(_) => {
                    // The peer is to know why; where it does not fit, it sees the end.
                    let _ = self.flush(stream);
                    Received::Over
                }
            },
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Err(_) => Received::Over,
        }
    }

    /// Seals this, to be sent by [`SecuredSocket::flush`].
    pub(crate) fn seal(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.secured.seal(&mut self.out);
    }

    /// Sends what is sealed; whether all of it is sent.
    pub(crate) fn flush(&mut self, stream: &TcpStream) -> Result<bool, Errno> {
        let sealed = self.secured.seal(&mut self.out);
        let mut sent = 0;
        while sent < sealed.len() {
            match rustix::net::send(stream, &sealed[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(count) => sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    sealed.drain(..sent);
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        sealed.clear();
        Ok(true)
    }

    /// Says that nothing more follows, as far as the socket takes it.
    pub(crate) fn say_goodbye(&mut self, stream: &TcpStream) {
        self.secured.close();
        let _ = self.flush(stream);
    }
}
