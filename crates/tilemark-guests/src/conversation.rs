//! Asking a guest's agent, with a time limit on every answer and the guest's name in every error.

use crate::{
    console::Console,
    error::{GuestError, file},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};
use std::{
    io::{self, Read, Write},
    os::{fd::BorrowedFd, unix::net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{FrameError, Reply, Request, Session, SessionError};

/// A conversation with one agent.
pub type AgentSession = Box<dyn AgentConversation>;

/// Requests and replies.
pub trait AgentConversation: Send + std::fmt::Debug {
    /// Asks and waits at most so long for the reply. What the agent could not do is an error.
    fn ask(&mut self, request: &Request, within: Duration) -> Result<Reply, GuestError>;
    /// Asks and does not wait.
    fn send(&mut self, request: &Request) -> Result<(), GuestError>;
    /// Waits at most so long for the next reply or event.
    fn receive(&mut self, within: Duration) -> Result<Reply, GuestError>;
    /// Waits at most so long for a reply or event to begin, and returns whether `caller`, a socket, was hung up at its other end before.
    fn is_abandoned(&mut self, caller: BorrowedFd<'_>, within: Duration) -> Result<bool, GuestError>;
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
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())
            .map_err(file("draw a nonce from", Path::new("the kernel's randomness")))?;
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

impl AgentConversation for SocketConversation {
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

    fn is_abandoned(&mut self, caller: BorrowedFd<'_>, within: Duration) -> Result<bool, GuestError> {
        let hung_up = hangs_up_first(caller, &self.session.stream().stream, within);
        hung_up.map_err(|error| self.broken(within, FrameError::Stream(error)))
    }
}

/// Whether a socket is hung up at its other end before something comes from a stream, and within that time.
fn hangs_up_first(socket: BorrowedFd<'_>, stream: &UnixStream, within: Duration) -> io::Result<bool> {
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        // That a socket is hung up is heard whatever is awaited of it.
        let hears = PollFd::from_borrowed_fd(socket, PollFlags::empty());
        let mut both = [PollFd::new(stream, PollFlags::IN), hears];
        match poll(&mut both, Some(&timeout)) {
            Ok(_) => return Ok(both[0].revents().is_empty() && !both[1].revents().is_empty()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::fd::AsFd, thread};

    #[test]
    fn a_caller_that_hangs_up_is_heard_and_one_that_waits_is_not_left() {
        let pair = || UnixStream::pair().unwrap();
        let ((ours, caller), (agent, stream)) = (pair(), pair());
        let goes_first = |within| hangs_up_first(ours.as_fd(), &stream, within).unwrap();
        let (brief, long) = (Duration::from_millis(20), Duration::from_secs(60));
        assert!(!goes_first(brief), "both are there");
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(brief);
                (&agent).write_all(b"reply").unwrap();
            });
            assert!(!goes_first(long), "the reply came");
        });
        drop(caller);
        assert!(!goes_first(long), "a reply that has come is read first");
        (&stream).read_exact(&mut [0; 5]).unwrap();
        assert!(goes_first(long));
    }
}
