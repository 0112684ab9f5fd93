//! One connection: its socket and what it is doing.

use crate::{Conversation, clock::SECOND_NS};
use rustix::{
    event::epoll::{self, EventData, EventFlags},
    io::Errno,
    net::{self, AddressFamily, SendFlags, SocketFlags, SocketType},
};
use std::{net::SocketAddr, os::fd::OwnedFd};
use tilemark_agent_protocol::Stream;

/// The first pause before a broken connection is made anew; each further one is twice as long.
const BACKOFF_FIRST_NS: u64 = 1_000_000;
/// The longest pause.
const BACKOFF_LONGEST_NS: u64 = SECOND_NS;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// There is no socket; a retry is noted.
    Down,
    /// The handshake of TCP is under way.
    Connecting,
    /// The greeting of the conversation is under way.
    Greeting,
    /// Nothing: it may take a request.
    Resting,
    /// A request is under way.
    Asking(crate::lane::Due),
}

/// One connection of one lane.
pub(crate) struct Connection {
    /// Place of its lane in the worker.
    pub(crate) lane: usize,
    pub(crate) doing: Doing,
    pub(crate) conversation: Box<dyn Conversation>,
    /// What is to be sent, and how much of it was.
    pub(crate) out: Vec<u8>,
    sent: usize,
    pub(crate) target: SocketAddr,
    /// Why the last try to connect failed.
    pub(crate) reason: Option<String>,
    pub(crate) socket: Option<OwnedFd>,
    waits_to_write: bool,
    backoff_ns: u64,
}

impl Connection {
    pub(crate) fn new(lane: usize, stream: &Stream, conversation: Box<dyn Conversation>) -> Self {
        Self {
            lane,
            doing: Doing::Down,
            conversation,
            out: Vec::with_capacity(512),
            sent: 0,
            target: stream.target,
            reason: None,
            socket: None,
            waits_to_write: false,
            backoff_ns: BACKOFF_FIRST_NS,
        }
    }

    /// Begins to connect. `token` comes back with each event of its socket.
    pub(crate) fn connect(&mut self, epoll: &OwnedFd, token: u64) -> Result<(), Errno> {
        let family = if self.target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
        net::sockopt::set_tcp_nodelay(&socket, true)?;
        match net::connect(&socket, &self.target) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        epoll::add(epoll, &socket, EventData::new_u64(token), EventFlags::IN | EventFlags::OUT)?;
        self.socket = Some(socket);
        self.waits_to_write = true;
        self.doing = Doing::Connecting;
        self.out.clear();
        self.sent = 0;
        Ok(())
    }

    /// Whether the handshake succeeded.
    pub(crate) fn connect_result(&self) -> Result<(), Errno> {
        let socket = self.socket.as_ref().ok_or(Errno::NOTCONN)?;
        net::sockopt::socket_error(socket)?
    }

    /// Sends what stands in `out` as far as the kernel takes it; the rest when the socket can take more.
    pub(crate) fn flush(&mut self, epoll: &OwnedFd, token: u64) -> Result<(), Errno> {
        let Some(socket) = &self.socket else { return Err(Errno::NOTCONN) };
        while self.sent < self.out.len() {
            match net::send(socket, &self.out[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
        }
        let is_all_sent = self.sent == self.out.len();
        if is_all_sent {
            self.out.clear();
            self.sent = 0;
        }
        if self.waits_to_write == is_all_sent {
            self.waits_to_write = !is_all_sent;
            let write = if is_all_sent { EventFlags::empty() } else { EventFlags::OUT };
            epoll::modify(epoll, socket, EventData::new_u64(token), EventFlags::IN | write)?;
        }
        Ok(())
    }

    /// Closes the socket, whatever was under way.
    pub(crate) fn close(&mut self) {
        // Closing takes it out of the epoll: no other descriptor shares the socket.
        self.socket = None;
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
