//! A deadline for a thread that sits in the kernel: a second thread signals it, again and again, until it is out.
//! And the clock that such a thread is timed by.

use std::io;
use std::mem;
use std::ptr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::thread_ns;

/// Between two signals. A signal that comes just before the ioctl is lost, so one is not enough.
const KICK_EVERY: Duration = Duration::from_millis(1);

/// Which signal kicks: a real-time one, which nothing else here uses.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 1
}

extern "C" fn ignore(_signal: libc::c_int) {}

/// Makes the kicking signal interrupt system calls and do nothing else, for the whole process.
pub(super) fn install_handler() -> io::Result<()> {
    // SAFETY: all zeroes is a valid sigaction: no flags (so calls are not restarted), an empty mask.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = ignore as *const () as usize;
    // SAFETY: the handler is an empty function, so it may run at any instruction. Safe wrappers ask for the same promise.
    let result = unsafe { libc::sigaction(signal(), &action, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Processor time of the calling thread, guest mode included. Loops are timed by it and not by the wall clock, so that
/// what other processes take from the thread does not look like a slow accelerator.
pub(super) fn thread_time() -> Duration {
    Duration::from_nanos(thread_ns())
}

/// What the kicking thread waits for.
enum Watch {
    Resting,
    Until(Instant),
    Over,
}

/// Kicks the thread that made it, from another thread, while it is armed and late.
pub(super) struct Kicker {
    thread: libc::pid_t,
    watch: Mutex<Watch>,
    changed: Condvar,
}

impl Kicker {
    /// For the calling thread.
    pub(super) fn for_this_thread() -> Self {
        // SAFETY: gettid takes nothing and cannot fail.
        let thread = unsafe { libc::gettid() };
        Self { thread, watch: Mutex::new(Watch::Resting), changed: Condvar::new() }
    }

    /// From `deadline` on, the thread is kicked.
    pub(super) fn arm(&self, deadline: Instant) {
        self.set(Watch::Until(deadline));
    }

    /// No more kicks.
    pub(super) fn rest(&self) {
        self.set(Watch::Resting);
    }

    /// Ends [`Kicker::watch`].
    pub(super) fn end(&self) {
        self.set(Watch::Over);
    }

    fn set(&self, watch: Watch) {
        *self.watch.lock().unwrap_or_else(PoisonError::into_inner) = watch;
        self.changed.notify_one();
    }

    /// The kicking thread's body.
    pub(super) fn watch(&self) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let wait = match *watch {
                Watch::Over => return,
                Watch::Resting => None,
                Watch::Until(deadline) => Some(self.kick_if_late(deadline)),
            };
            watch = match wait {
                None => self.changed.wait(watch).unwrap_or_else(PoisonError::into_inner),
                Some(wait) => {
                    self.changed.wait_timeout(watch, wait).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Kicks where it is time; says how long to wait before looking again.
    fn kick_if_late(&self, deadline: Instant) -> Duration {
        let left = deadline.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return left;
        }
        // SAFETY: tgkill takes three numbers; the thread lives as long as the scope this runs in, so the id is its own.
        // std has no way to signal one thread.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread, signal()) };
        KICK_EVERY
    }
}
