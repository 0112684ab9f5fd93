//! Time in nanoseconds.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn now() -> u64 {
    read(ClockId::Monotonic)
}

/// A moment on CLOCK_MONOTONIC, in nanoseconds.
pub(crate) fn at(moment: Instant) -> u64 {
    let (clock, now) = (now(), Instant::now());
    clock + nanoseconds(moment.saturating_duration_since(now))
        - nanoseconds(now.saturating_duration_since(moment))
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a load shorter than 584 years")
}

/// Processor time of the calling thread, user and kernel, in nanoseconds: getrusage of the thread, finer.
pub(crate) fn thread_cpu() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * SECOND_NS + time.tv_nsec as u64
}
