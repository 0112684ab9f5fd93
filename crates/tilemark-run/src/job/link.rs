//! What the engine reports to the command: progress, notes, its outcome.

use crate::{
    failure::Failure,
    job::messages::{FromEngine, send},
    progress::Progress,
};
use std::{
    os::unix::net::UnixStream,
    sync::{Arc, Mutex},
};

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
