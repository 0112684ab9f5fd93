//! What a sender's thread asks of the scheduler, where no safe call exists.

use std::io;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_that_does_not_exist_is_refused() {
        assert_eq!(ask_for_fifo(1000).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }
}
