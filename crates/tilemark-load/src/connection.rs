//! One connection: its sockets and what it is doing.

use crate::{Answer, Conversation, Tls, clock::SECOND_NS};
use rustix::{
    event::epoll::{self, EventData, EventFlags},
    io::Errno,
    net::{self, AddressFamily, SendFlags, SocketFlags, SocketType},
};
use std::{net::SocketAddr, os::fd::OwnedFd};
use tilemark_agent_protocol::Stream;
use tilemark_tls::{Secured, TlsFailure};

/// The first pause before a broken connection is made again; each further one is twice as long.
const BACKOFF_FIRST_NS: u64 = 1_000_000;
/// The longest pause.
const BACKOFF_LONGEST_NS: u64 = SECOND_NS;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// There is no socket; a retry is noted.
    Down,
    /// The handshakes of TCP and the greetings of the conversation are under way.
    Connecting,
    /// Nothing: it may take a request.
    Resting,
    /// A request is under way.
    Asking(crate::lane::Due),
}

/// How far a socket has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The handshake of TCP is under way.
    Connecting,
    /// The handshake of TLS is under way.
    Securing,
    /// The greeting of the conversation is under way.
    Greeting,
    /// It can be used.
    Ready,
}

/// One socket of a connection; most have only one.
pub(crate) struct Wire {
    /// Comes back with each event of the socket.
    token: u64,
    pub(crate) socket: Option<OwnedFd>,
    pub(crate) stage: Stage,
    /// `None`: what is said on it is not sealed.
    tls: Option<Box<Secured>>,
    /// How much of what is to be sent was.
    sent: usize,
    waits_to_write: bool,
    /// Nothing is read before this time.
    paused_until: Option<u64>,
}

/// The token of wire `wire` of the connection at `place`.
pub(crate) const fn token_of(place: usize, wire: usize) -> u64 {
    (wire as u64) << 32 | place as u64
}

/// The connection's place and the wire.
pub(crate) const fn place_of(token: u64) -> (usize, usize) {
    ((token & 0xffff_ffff) as usize, (token >> 32) as usize)
}

/// One connection of one lane.
pub(crate) struct Connection {
    /// Place of its lane in the worker.
    pub(crate) lane: usize,
    pub(crate) doing: Doing,
    pub(crate) conversation: Box<dyn Conversation>,
    pub(crate) wires: Vec<Wire>,
    /// What is to be sent on each wire.
    pub(crate) outs: Vec<Vec<u8>>,
    pub(crate) target: SocketAddr,
    /// A whole answer that a slow line would still be receiving.
    held: Option<Held>,
    /// Why the last try to connect failed.
    pub(crate) reason: Option<String>,
    backoff_ns: u64,
}

/// An answer that counts from a later moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    pub(crate) answer: Answer,
    /// The peer closes after it.
    pub(crate) closes: bool,
    until: u64,
}

impl Wire {
    fn new(token: u64) -> Self {
        Self {
            token,
            socket: None,
            stage: Stage::Connecting,
            tls: None,
            sent: 0,
            waits_to_write: false,
            paused_until: None,
        }
    }

    /// Begins to connect.
    fn connect(
        &mut self,
        target: SocketAddr,
        buffer: Option<usize>,
        tls: Option<&Tls>,
        epoll: &OwnedFd,
    ) -> Result<(), Errno> {
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        net::sockopt::set_tcp_nodelay(&socket, true)?;
        if let Some(bytes) = buffer {
            net::sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
        match net::connect(&socket, &target) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        let flags = EventFlags::IN | EventFlags::OUT;
        epoll::add(epoll, &socket, EventData::new_u64(self.token), flags)?;
        let tls = tls.map(|tls| Box::new(Secured::new(tls)));
        *self = Self { socket: Some(socket), tls, waits_to_write: true, ..Self::new(self.token) };
        Ok(())
    }

    /// Whether the handshake succeeded.
    pub(crate) fn connect_result(&self) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        net::sockopt::socket_error(socket)?
    }

    /// TCP is connected: TLS or the conversation may begin.
    pub(crate) fn connected(&mut self) {
        self.stage = if self.tls.is_some() { Stage::Securing } else { Stage::Greeting };
    }

    /// Opens what came on the socket. `None`: TLS has not come far enough for the conversation to begin.
    pub(crate) fn open<'b>(
        &mut self,
        received: &'b [u8],
        plain: &'b mut Vec<u8>,
    ) -> Result<Option<&'b [u8]>, TlsFailure> {
        let Some(tls) = &mut self.tls else { return Ok(Some(received)) };
        tls.open(received, plain)?;
        Ok((!tls.is_handshaking()).then_some(plain))
    }

    /// Whether something is to be sent.
    fn has_to_send(&self, out: &[u8]) -> bool {
        !out.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.has_to_send())
    }

    /// Sends what is in `out` as far as the kernel takes it; the rest when the socket can take more.
    fn flush(&mut self, out: &mut Vec<u8>, epoll: &OwnedFd) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::NOTCONN) };
        let out = match &mut self.tls {
            Some(tls) => tls.seal(out),
            None => out,
        };
        while self.sent < out.len() {
            match net::send(socket, &out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        let is_all_sent = self.sent == out.len();
        if is_all_sent {
            out.clear();
            self.sent = 0;
        }
        if self.waits_to_write == is_all_sent {
            self.waits_to_write = !is_all_sent;
            self.listen(epoll)?;
        }
        Ok(())
    }

    /// Reads nothing until an absolute time.
    pub(crate) fn pause(&mut self, until: u64, epoll: &OwnedFd) -> Result<(), Errno> {
        self.paused_until = Some(until);
        self.listen(epoll)
    }

    /// Reads again, if the pause that ends at `time` is still its own: a socket that was made again has none.
    pub(crate) fn resume(&mut self, time: u64, epoll: &OwnedFd) -> Result<(), Errno> {
        if self.paused_until != Some(time) {
            return Ok(());
        }
        self.paused_until = None;
        self.listen(epoll)
    }

    /// Asks for the events that it can use now.
    fn listen(&self, epoll: &OwnedFd) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::NOTCONN) };
        let read = if self.paused_until.is_none() { EventFlags::IN } else { EventFlags::empty() };
        let write = if self.waits_to_write { EventFlags::OUT } else { EventFlags::empty() };
        epoll::modify(epoll, socket, EventData::new_u64(self.token), read | write)
    }
}

impl Connection {
    /// `place`: its place in the worker.
    pub(crate) fn new(
        place: usize,
        lane: usize,
        stream: &Stream,
        conversation: Box<dyn Conversation>,
    ) -> Self {
        let wires = conversation.wires().max(1);
        Self {
            lane,
            doing: Doing::Down,
            conversation,
            wires: (0..wires).map(|wire| Wire::new(token_of(place, wire))).collect(),
            outs: vec![Vec::with_capacity(512); wires],
            target: stream.target,
            held: None,
            reason: None,
            backoff_ns: BACKOFF_FIRST_NS,
        }
    }

    /// Begins to connect all wires.
    pub(crate) fn connect(&mut self, epoll: &OwnedFd) -> Result<(), Errno> {
        self.outs.iter_mut().for_each(Vec::clear);
        let (buffer, tls) = (self.conversation.receive_buffer(), self.conversation.tls());
        for wire in &mut self.wires {
            wire.connect(self.target, buffer, tls, epoll)?;
        }
        self.doing = Doing::Connecting;
        Ok(())
    }

    /// Sends what is in the out of one wire.
    pub(crate) fn flush(&mut self, wire: usize, epoll: &OwnedFd) -> Result<(), Errno> {
        self.wires[wire].flush(&mut self.outs[wire], epoll)
    }

    /// Sends what is in the outs of all wires.
    pub(crate) fn flush_all(&mut self, epoll: &OwnedFd) -> Result<(), Errno> {
        for (wire, out) in self.wires.iter_mut().zip(&mut self.outs) {
            if wire.has_to_send(out) {
                wire.flush(out, epoll)?;
            }
        }
        Ok(())
    }

    /// Holds an answer until that time, and until every wire has received what it reads no faster. When that is.
    pub(crate) fn hold(&mut self, answer: Answer, closes: bool, until: u64) -> u64 {
        let until = self.wires.iter().filter_map(|wire| wire.paused_until).fold(until, u64::max);
        self.held = Some(Held { answer, closes, until });
        until
    }

    /// The answer that was held until then.
    pub(crate) fn take_held(&mut self, until: u64) -> Option<Held> {
        self.held.take_if(|held| held.until == until)
    }

    /// The answer that is held.
    pub(crate) fn take_any_held(&mut self) -> Option<Held> {
        self.held.take()
    }

    /// One wire can be used. Whether all can.
    pub(crate) fn is_ready_with(&mut self, wire: usize) -> bool {
        self.wires[wire].stage = Stage::Ready;
        self.wires.iter().all(|wire| wire.stage == Stage::Ready)
    }

    /// Closes the sockets, whatever was under way.
    pub(crate) fn close(&mut self) {
        // Closing takes them out of the epoll: no other descriptor shares a socket.
        self.wires.iter_mut().for_each(|wire| wire.socket = None);
        self.held = None;
        self.doing = Doing::Down;
    }

    /// The pause before the next try, in nanoseconds; it doubles from try to try.
    pub(crate) fn next_backoff(&mut self) -> u64 {
        let pause = self.backoff_ns;
        self.backoff_ns = (pause * 2).min(BACKOFF_LONGEST_NS);
        pause
    }

    /// It gave a whole answer: the next break is the first one again.
    pub(crate) fn proved_good(&mut self) {
        self.backoff_ns = BACKOFF_FIRST_NS;
    }
}
