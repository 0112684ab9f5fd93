//! The end of a guest's first process, and what is kept of the guest afterwards.

use crate::{console::ConsoleTail, error::GuestError};
use rustix::process::Signal;
use std::{io, path::PathBuf, time::Duration};
use tilemark_sys::process::{Child, HasEnded};

/// What is kept of a guest that was stopped. Descriptors and disks went with it; its console stays where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gone {
    /// Its name.
    pub(crate) guest: String,
    /// Where its console was written.
    pub(crate) console: PathBuf,
    /// How it ended, in words.
    pub(crate) how: String,
}

impl Gone {
    /// What is said to those who want something of it.
    pub(crate) fn error(&self) -> GuestError {
        GuestError::Ended {
            guest: self.guest.clone(),
            how: self.how.clone(),
            console: ConsoleTail::read(&self.console),
        }
    }
}

/// Kills a process and waits until it is gone, at most so long. One that has ended is no error.
pub(crate) fn end_process(child: &Child, within: Duration) -> io::Result<()> {
    child.signal(Signal::KILL)?;
    match child.ends_within(within)? {
        HasEnded::Yes => {
            // It fails only where somebody else took note of the end already.
            let _ = child.wait();
            Ok(())
        }
        HasEnded::No => Err(io::ErrorKind::TimedOut.into()),
    }
}
