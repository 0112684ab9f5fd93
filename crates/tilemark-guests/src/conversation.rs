//! Asking a guest's agent, with a time limit on every answer and the guest's name in every error.

use crate::{console::Console, error::GuestError};
use std::{
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{FrameError, Reply, Request, Session, SessionError};

/// A conversation with one agent.
pub type AgentSession = Box<dyn Conversation>;

/// Requests and replies.
pub trait Conversation: Send + std::fmt::Debug {
    /// Asks and waits at most so long for the reply. What the agent could not do is an error.
    fn ask(&mut self, request: &Request, within: Duration) -> Result<Reply, GuestError>;
    /// Asks and does not wait.
    fn send(&mut self, request: &Request) -> Result<(), GuestError>;
    /// Waits at most so long for the next reply or event.
    fn receive(&mut self, within: Duration) -> Result<Reply, GuestError>;
}

/// A stream whose every read ends by one deadline.
#[derive(Debug)]
pub(crate) struct Limited {
    stream: UnixStream,
    deadline: Instant,
}

impl Limited {
    pub(crate) fn new(stream: UnixStream, within: Duration) -> Self {
        Self { stream, deadline: Instant::now() + within }
    }

    /// Sets another deadline.
    pub(crate) fn limit(&mut self, within: Duration) {
        self.deadline = Instant::now() + within;
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer).map_err(as_timeout)
    }
}

impl Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(Some(left))?;
        self.stream.write(bytes).map_err(as_timeout)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A socket says "again" when its time is over.
fn as_timeout(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => io::ErrorKind::TimedOut.into(),
        _ => error,
    }
}

/// A conversation over a Unix socket.
#[derive(Debug)]
pub(crate) struct SocketConversation {
    guest: String,
    console: Console,
    session: Session<Limited>,
}

impl SocketConversation {
    /// Says hello and waits for it to come back.
    pub(crate) fn open(
        guest: &str,
        console: Console,
        stream: UnixStream,
        within: Duration,
    ) -> Result<Self, GuestError> {
        let mut nonce = [0; 8];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty()).map_err(|source| {
            GuestError::File {
                action: "draw a nonce from",
                path: "the kernel's randomness".into(),
                source: source.into(),
            }
        })?;
        match Session::open(Limited::new(stream, within), u64::from_ne_bytes(nonce)) {
            Ok(session) => Ok(Self { guest: guest.to_owned(), console, session }),
            Err(source) => Err(not_begun(guest, &console, within, source)),
        }
    }

    fn broken(&self, within: Duration, source: FrameError) -> GuestError {
        let console = self.console.tail();
        match source {
            FrameError::Stream(error) if error.kind() == io::ErrorKind::TimedOut => {
                GuestError::Silent { guest: self.guest.clone(), within, console }
            }
            source => GuestError::Broken { guest: self.guest.clone(), console, source },
        }
    }
}

fn not_begun(guest: &str, console: &Console, within: Duration, source: SessionError) -> GuestError {
    let (guest, console) = (guest.to_owned(), console.tail());
    match source {
        SessionError::Stream(error) if error.kind() == io::ErrorKind::TimedOut => {
            GuestError::Silent { guest, within, console }
        }
        SessionError::Stream(error)
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            ) =>
        {
            GuestError::Ended { guest, how: "it hung up before its agent answered".to_owned(), console }
        }
        source => GuestError::NoConversation { guest, console, source },
    }
}

impl Conversation for SocketConversation {
    fn ask(&mut self, request: &Request, within: Duration) -> Result<Reply, GuestError> {
        self.session.stream_mut().limit(within);
        let asked = self.session.ask(request);
        let reply = asked.map_err(|error| self.broken(within, error))?;
        refused_to_error(&self.guest, &self.console, reply)
    }

    fn send(&mut self, request: &Request) -> Result<(), GuestError> {
        let within = Duration::from_secs(10);
        self.session.stream_mut().limit(within);
        let sent = self.session.send(request);
        sent.map_err(|error| self.broken(within, error))
    }

    fn receive(&mut self, within: Duration) -> Result<Reply, GuestError> {
        self.session.stream_mut().limit(within);
        let received = self.session.receive();
        let reply = received.map_err(|error| self.broken(within, error))?;
        refused_to_error(&self.guest, &self.console, reply)
    }
}

fn refused_to_error(guest: &str, console: &Console, reply: Reply) -> Result<Reply, GuestError> {
    match reply {
        Reply::Failed { message, remedy } => {
            let console = console.tail();
            Err(GuestError::Refused { guest: guest.to_owned(), message, remedy, console })
        }
        reply => Ok(reply),
    }
}
