//! What the command and the engine say to each other: one JSON document a line over a socket pair.
//!
//! The command (the process that the user started) shows and asks; the engine, inside the run's
//! namespaces, does. Either may end first: the other reads the end of the stream.

use crate::job::{Job, JobDone};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
};

/// From the command to the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToEngine {
    /// Do this. The first message, and the only one of its kind.
    Begin(Box<Job>),
    /// First Ctrl-C: end the load, keep what is whole, give everything back.
    Interrupt,
    /// Second Ctrl-C: give everything back at once.
    Quit,
}

/// From the engine to the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum FromEngine {
    /// How far it is.
    Progress(Progress),
    /// Something worth telling, once.
    Note(String),
    /// It is done.
    Done(Box<JobDone>),
    /// It failed.
    Failed(Failure),
}

/// How far a job is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What is going on, in a few words.
    pub doing: String,
    /// Seconds of work that are behind.
    pub seconds_done: f64,
    /// Seconds of work in all, as expected now.
    pub seconds_expected: f64,
}

/// A failure that is no bug, ready to be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The exit code that it stands for.
    pub code: FailureCode,
    /// What failed, then its causes.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// What to do about it.
    pub remedy: String,
}

/// Kinds of failure, by exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureCode {
    /// 1: our bug.
    Bug,
    /// 2: a bad scenario or flag.
    BadInput,
    /// 3: the host is unfit, or busy.
    HostUnfit,
    /// 4: a guest failed.
    GuestFailed,
    /// 5: the user ended it before it was done.
    Interrupted,
    /// 6: the host was not restored.
    NotRestored,
}

impl FailureCode {
    /// The exit code.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Bug => 1,
            Self::BadInput => 2,
            Self::HostUnfit => 3,
            Self::GuestFailed => 4,
            Self::Interrupted => 5,
            Self::NotRestored => 6,
        }
    }

    /// The same in a word, for `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bug => "bug",
            Self::BadInput => "bad-input",
            Self::HostUnfit => "host-unfit",
            Self::GuestFailed => "guest-failed",
            Self::Interrupted => "interrupted",
            Self::NotRestored => "not-restored",
        }
    }
}

impl Failure {
    /// From an error with its remedy; causes are taken from its sources.
    pub fn new(code: FailureCode, error: &dyn std::error::Error, remedy: impl Into<String>) -> Self {
        let causes = std::iter::successors(error.source(), |cause| cause.source());
        Self {
            code,
            message: error.to_string(),
            causes: causes.map(ToString::to_string).collect(),
            remedy: remedy.into(),
        }
    }

    /// From texts alone.
    pub fn told(code: FailureCode, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { code, message: message.into(), causes: Vec::new(), remedy: remedy.into() }
    }
}

/// Sends one message.
pub fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Messages of the other end, until it ends.
pub struct Messages {
    lines: BufReader<UnixStream>,
}

impl Messages {
    /// Reads from this stream.
    pub fn of(stream: UnixStream) -> Self {
        Self { lines: BufReader::new(stream) }
    }

    /// The next message; `None` when the other end is gone.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(error),
            Ok(_) => Ok(Some(serde_json::from_str(&line)?)),
        }
    }
}
