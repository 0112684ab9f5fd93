//! Time in nanoseconds.

use std::time::{Duration, Instant};
pub(crate) use tilemark_sys::clock::{monotonic_ns as now, thread_ns as thread_cpu};

/// Nanoseconds in a second.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// A moment on the monotonic clock, in nanoseconds.
pub(crate) fn at(moment: Instant) -> u64 {
    let (clock, now) = (now(), Instant::now());
    clock + nanoseconds(moment.saturating_duration_since(now))
        - nanoseconds(now.saturating_duration_since(moment))
}

pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("a load shorter than 584 years")
}
