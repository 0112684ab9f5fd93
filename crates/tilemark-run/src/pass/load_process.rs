//! The process that sends load from outside: its trait, and the agent that is one.

use crate::failure::{Failure, FailureCode};
use rustix::process::Signal;
use std::{
    fmt::Display,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::Arc,
    time::Duration,
};
use tilemark_agent_protocol::{FrameError, LoadEvent, LoadJob, Reply, Request, Session, write_frame};
use tilemark_sys::process::{Child, Spawn, program_in_memory};

/// The process that sends load from outside. It ends when it is dropped.
pub(crate) trait LoadProcess: Send {
    /// Has it make ready; it reports `Started` when it is.
    fn prepare(&mut self, job: &LoadJob) -> Result<(), Failure>;
    /// What was prepared begins, at once or as soon as it is ready.
    fn begin(&mut self) -> Result<(), Failure>;
    /// The load's next event; `None` if none arrives within this time.
    fn next(&mut self, within: Duration) -> Result<Option<LoadEvent>, Failure>;
    /// Its process.
    fn pid(&self) -> Option<u32>;
    /// A way to end it from another thread, so that `next` returns.
    fn ender(&self) -> Box<dyn Fn() + Send>;
}

/// The failure of a load process, whatever broke.
pub(crate) fn load_failed(error: impl Display) -> Failure {
    Failure::caused_by(
        &error,
        FailureCode::HostUnfit,
        "the load process cannot be used",
        "check that processes can be started and memory is left",
    )
}

/// The agent as a load process, spoken to over a socket.
pub(crate) struct AgentProcess {
    child: Arc<Child>,
    session: Session<UnixStream>,
}

impl AgentProcess {
    /// Starts it in the caller's namespaces and says hello. A terminal's Ctrl-C is the caller's alone.
    pub(crate) fn start(agent: &[u8]) -> io::Result<Self> {
        Self::of(spawn(agent)?)
    }

    /// The same, with the files of its load in a folder.
    pub(crate) fn start_in(agent: &[u8], folder: &Path) -> io::Result<Self> {
        Self::of(spawn(agent)?.environment([format!("TMPDIR={}", folder.display())])?)
    }

    fn of(spawn: Spawn) -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        let spawn = spawn
            .hand(OwnedFd::from(its.try_clone()?), 0)
            .hand(OwnedFd::from(its), 1)
            .own_session()
            .dies_with_thread(Signal::KILL);
        let child = spawn.start().map_err(io::Error::other)?;
        ours.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut nonce = [0; 8];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
        let session = Session::open(ours, u64::from_ne_bytes(nonce)).map_err(io::Error::other)?;
        Ok(Self { child: Arc::new(child), session })
    }

    /// A way to end its load early from another thread: what was measured so far is reported all the same.
    pub(crate) fn stopper(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let mut stream = self.session.stream().try_clone()?;
        Ok(move || {
            // A load process that is gone is found to be so by who listens to it.
            let _ = write_frame(&mut stream, &Request::StopLoad);
        })
    }
}

fn spawn(agent: &[u8]) -> io::Result<Spawn> {
    Spawn::descriptor(program_in_memory("tilemark-load", agent)?, "tilemark-load")?.argument("load")
}

impl LoadProcess for AgentProcess {
    fn prepare(&mut self, job: &LoadJob) -> Result<(), Failure> {
        self.session.send(&Request::PrepareLoad(Box::new(job.clone()))).map_err(load_failed)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.session.send(&Request::BeginLoad).map_err(load_failed)
    }

    fn next(&mut self, within: Duration) -> Result<Option<LoadEvent>, Failure> {
        // No time at all would mean for ever.
        let within = within.max(Duration::from_millis(1));
        self.session.stream().set_read_timeout(Some(within)).map_err(load_failed)?;
        match self.session.receive() {
            Ok(Reply::Load(event)) => Ok(Some(event)),
            Ok(Reply::Failed { message, remedy }) => Ok(Some(LoadEvent::Failed { message, remedy })),
            Ok(other) => Err(load_failed(format!("unexpected answer {other:?}"))),
            Err(FrameError::Stream(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(load_failed(error)),
        }
    }

    fn pid(&self) -> Option<u32> {
        Some(self.child.pid())
    }

    fn ender(&self) -> Box<dyn Fn() + Send> {
        let child = Arc::clone(&self.child);
        Box::new(move || {
            // One that has ended already is what is wanted.
            let _ = child.signal(Signal::KILL);
        })
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // Its work is over; one that has ended already is what is wanted.
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}
