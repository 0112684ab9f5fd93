//! Work that Ctrl-C ends, on a thread of its own.

use crate::{
    failure::{Failure, FailureCode},
    progress::Listener,
    stop::interrupts,
};
use std::{
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

/// What is shown at Ctrl-C while work goes on in this process.
pub(crate) struct OnInterrupt {
    /// At the first one, which the work hears of by itself.
    pub(crate) first: &'static str,
    /// What to do after a second one, which leaves the work where it is.
    pub(crate) remedy: &'static str,
}

/// How often it is looked for Ctrl-C.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Does work on a thread of its own and looks in on it meanwhile. A second Ctrl-C leaves that thread to itself: it may be
/// waiting for a server that never answers.
pub(crate) fn until_interrupted_again<R: Send + 'static>(
    listener: &mut dyn Listener,
    on_interrupt: &OnInterrupt,
    mut look: impl FnMut(&mut dyn Listener),
    work: impl FnOnce() -> Result<R, Failure> + Send + 'static,
) -> Result<R, Failure> {
    let (ended, end) = mpsc::channel::<()>();
    let working = thread::spawn(move || {
        let outcome = work();
        drop(ended);
        outcome
    });
    let mut is_noted = false;
    // Ends at once when the work drops its end.
    while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(BETWEEN_LOOKS) {
        if interrupts() > 1 {
            let message = "stopped by a second Ctrl-C";
            return Err(Failure::new(FailureCode::Interrupted, message, on_interrupt.remedy));
        }
        if interrupts() > 0 && !is_noted {
            is_noted = true;
            listener.note(on_interrupt.first);
        }
        look(listener);
    }
    working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
