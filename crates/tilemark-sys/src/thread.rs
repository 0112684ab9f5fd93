//! What a sender's thread asks of the scheduler, where no safe call exists.

use std::{cell::Cell, io, mem, ptr, sync::OnceLock};

/// Puts the calling thread, and only it, under SCHED_FIFO at `priority` (1 to 99).
///
/// It needs CAP_SYS_NICE or a real-time limit (`ulimit -r`); the error says what the kernel answered.
pub fn ask_for_fifo(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 names the calling thread, and `parameters` outlives the call. A safe wrapper exists neither
    // in rustix nor in nix.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts the calling thread, and only it, back under SCHED_OTHER, the scheduler's default. No right is needed for that.
///
/// # Errors
/// What the kernel answered.
pub fn ask_for_default() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: as in `ask_for_fifo`.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

thread_local! {
    /// Signals that the handler of this thread has had. It is made without allocating, so that a handler may use it.
    static HANDLED: Cell<u64> = const { Cell::new(0) };
}

/// A real-time signal that nobody else uses.
fn own_signal() -> libc::c_int {
    libc::SIGRTMIN() + 2
}

extern "C" fn count(_signal: libc::c_int) {
    HANDLED.set(HANDLED.get() + 1);
}

/// Sends a signal to the calling thread so many times, and returns how often its handler ran.
pub fn signal_itself(times: u32) -> io::Result<u64> {
    static HANDLER: OnceLock<Option<i32>> = OnceLock::new();
    if let Some(error) = HANDLER.get_or_init(handle_own_signal) {
        return Err(io::Error::from_raw_os_error(*error));
    }
    let before = HANDLED.get();
    for _ in 0..times {
        // SAFETY: the calling thread exists. A signal that a thread sends to itself is handled before the call returns (POSIX,
        // kill), and the handler only counts. No safe call sends a signal to one thread.
        let error = unsafe { libc::pthread_kill(libc::pthread_self(), own_signal()) };
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
    }
    Ok(HANDLED.get() - before)
}

/// Has the signal counted. Returns the error, if there was one.
fn handle_own_signal() -> Option<i32> {
    // SAFETY: all zeroes is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = count as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` outlives the call, and the handler does only what a handler may.
    let result = unsafe { libc::sigaction(own_signal(), &raw const action, ptr::null_mut()) };
    if result == 0 { None } else { io::Error::last_os_error().raw_os_error() }
}

extern "C" fn pass_over(_signal: libc::c_int) {}

/// From now on this process goes on when its terminal is closed. Programs that it starts do not inherit that.
///
/// # Errors
/// What the kernel answered.
pub fn survive_hangup() -> io::Result<()> {
    // SAFETY: all zeroes is a valid sigaction: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = pass_over as *const () as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` outlives the call, and the handler does nothing.
    let result = unsafe { libc::sigaction(libc::SIGHUP, &raw const action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_that_does_not_exist_is_refused() {
        assert_eq!(ask_for_fifo(1000).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn a_thread_handles_each_signal_that_it_sends_to_itself() {
        assert_eq!(signal_itself(1_000).unwrap(), 1_000);
        let other = std::thread::spawn(|| signal_itself(10).unwrap());
        assert_eq!((other.join().unwrap(), signal_itself(0).unwrap()), (10, 0));
    }
}
