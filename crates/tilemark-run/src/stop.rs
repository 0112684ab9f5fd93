//! Whether the user wants it to end: Ctrl-C in the command, and the signal that the command hands on to the engine.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};
use tilemark_sys::thread::survive_hangup;

/// Ctrl-C's up to now, in this process.
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// Counts Ctrl-C instead of dying of it. Call it once.
pub fn count_interrupts() {
    // It fails only when a handler is there already: then interrupts are counted already.
    let _ = ctrlc::set_handler(|| {
        INTERRUPTS.fetch_add(1, Ordering::Relaxed);
    });
    // A closed terminal does not ask for the end: the shell passes its signal on too, and two would end everything at once. What is
    // measured is in the record. Where it is refused, it counts as Ctrl-C.
    let _ = survive_hangup();
}

/// How often Ctrl-C was pressed.
pub(crate) fn interrupts() -> u32 {
    INTERRUPTS.load(Ordering::Relaxed)
}

/// Whether Ctrl-C was pressed.
pub fn interrupted() -> bool {
    interrupts() > 0
}

/// Asks a job that is under way to end: its load ends, and what is whole is kept. Shared by all threads of the engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct StopSignal(Arc<AtomicBool>);

impl StopSignal {
    /// From now on the job is to end.
    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the job is to end.
    pub(crate) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
