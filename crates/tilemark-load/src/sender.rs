//! What a sender's thread asks of the kernel, and what it got.

use std::num::NonZeroU64;

/// The lowest real-time priority: above all that is not real-time is enough.
const FIFO_PRIORITY: i32 = 1;

/// What one thread got.
#[derive(Debug, Clone, Copy)]
pub struct Got {
    /// Whether it runs under SCHED_FIFO.
    pub real_time: bool,
    /// Timer slack that the kernel reports for it, in nanoseconds.
    pub timer_slack_ns: u64,
    /// Whether it has one processor that it never leaves.
    pub pinned: bool,
}

/// Which scheduling a sender asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduling {
    /// SCHED_FIFO: an open loop sleeps between its requests and must wake in time.
    RealTime,
    /// As any thread: a closed loop never sleeps when the server is fast, and has no intended time to miss.
    Ordinary,
}

/// Pins the calling thread to `processor`, sets its timer slack to 1 ns and asks for `scheduling`. What is
/// refused is done without, and reported.
pub fn prepare_thread(processor: Option<u32>, scheduling: Scheduling) -> Got {
    let pinned = processor.is_some_and(|processor| pin(&[processor]));
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let real_time =
        scheduling == Scheduling::RealTime && tilemark_sys::thread::ask_for_fifo(FIFO_PRIORITY).is_ok();
    // A real-time thread has no slack whatever the kernel reports for it.
    let timer_slack_ns = rustix::thread::current_timer_slack().unwrap_or(50_000);
    Got { real_time, timer_slack_ns, pinned }
}

/// Lets the calling thread run on `processors` only. False: the kernel refused.
pub fn pin(processors: &[u32]) -> bool {
    let mut set = rustix::thread::CpuSet::new();
    for processor in processors {
        if *processor as usize >= rustix::thread::CpuSet::MAX_CPU {
            return false;
        }
        set.set(*processor as usize);
    }
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}
