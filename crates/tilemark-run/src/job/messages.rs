//! What the command and the engine say to each other: one JSON document a line over a socket pair.
//!
//! The command (the process that the user started) shows and asks; the engine, inside the run's
//! namespaces, does. Either may end first: the other reads the end of the stream.

use crate::{
    failure::Failure,
    job::types::{Job, JobDone},
    progress::Progress,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{
    io::{self, BufRead, BufReader, Write},
    os::unix::net::UnixStream,
};

/// From the command to the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ToEngine {
    /// Do this. The first message, and the only one of its kind.
    Begin(Box<Job>),
    /// First Ctrl-C: end the load, keep what is whole, give everything back.
    Interrupt,
    /// Second Ctrl-C: give everything back at once.
    Quit,
}

/// From the engine to the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum FromEngine {
    /// How far it is.
    Progress(Progress),
    /// Something worth telling, once.
    Note(String),
    /// It is done.
    Done(Box<JobDone>),
    /// It failed.
    Failed(Failure),
}

/// Sends one message.
pub(crate) fn send(stream: &mut UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Messages of the other end, until it ends.
pub(crate) struct Messages {
    lines: BufReader<UnixStream>,
}

impl Messages {
    /// Reads from this stream.
    pub(crate) fn of(stream: UnixStream) -> Self {
        Self { lines: BufReader::new(stream) }
    }

    /// The next message; `None` when the other end is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = String::new();
        match self.lines.read_line(&mut line) {
            Ok(0) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(error),
            Ok(_) => Ok(Some(serde_json::from_str(&line)?)),
        }
    }
}
