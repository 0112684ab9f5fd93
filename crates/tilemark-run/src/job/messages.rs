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
    sync::{Arc, Mutex},
};

/// From the command to the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum ToEngine {
    /// Do this. The first message, and the only one of its kind.
    Begin(Box<Job>),
    /// First Ctrl-C: end the load, keep what is whole, restore the host.
    Interrupt,
    /// Second Ctrl-C: end at once and restore the host.
    Quit,
}

/// From the engine to the command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum FromEngine {
    /// How far it is.
    Progress(Progress),
    /// Something to print, once.
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

/// The engine's link to the command.
#[derive(Debug, Clone)]
pub(crate) struct CommandLink(Arc<Mutex<UnixStream>>);

impl CommandLink {
    /// One that writes to this stream.
    pub(crate) fn to(stream: UnixStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    /// Sends one message.
    pub(crate) fn send(&self, message: &FromEngine) {
        let mut stream = self.0.lock().expect("nobody panics while sending a line");
        // When the command is gone nobody listens; the keeper ends us.
        let _ = send(&mut stream, message);
    }

    /// What went wrong.
    pub(crate) fn failed(&self, failure: Failure) {
        self.send(&FromEngine::Failed(failure));
    }

    /// How far it is.
    pub(crate) fn progress(&self, progress: Progress) {
        self.send(&FromEngine::Progress(progress));
    }

    /// Something worth showing, once.
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.send(&FromEngine::Note(text.into()));
    }
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
