//! The clocks: of real time, which is set, and the monotonic one, which nobody sets.

use crate::error::{AgentError, step};
use rustix::{
    thread::clock_nanosleep_absolute,
    time::{ClockId, Timespec, clock_settime},
};
pub(crate) use tilemark_sys::clock::{monotonic_ns, realtime_ns};

/// The longest that a load waits for its beginning.
const AHEAD_MAX_NS: u64 = 60_000_000_000;

/// Sleeps until the monotonic clock shows so many nanoseconds, at most a minute ahead.
pub(crate) fn sleep_until_monotonic(ns: u64) {
    let ns = ns.min(monotonic_ns().saturating_add(AHEAD_MAX_NS));
    let until = Timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).expect("fits for 500 years"),
        tv_nsec: i64::try_from(ns % 1_000_000_000).expect("below a billion"),
    };
    while clock_nanosleep_absolute(ClockId::Monotonic, &until) == Err(rustix::io::Errno::INTR) {}
}

/// Sets it. A twin shares the host's clock, and leaves it alone (`Owner::Host`).
pub(crate) fn set(realtime_ns: u64, owner: Owner) -> Result<(), AgentError> {
    match owner {
        Owner::Host => Ok(()),
        Owner::Guest | Owner::Disk => {
            let time = Timespec {
                tv_sec: i64::try_from(realtime_ns / 1_000_000_000).expect("fits for 500 years"),
                tv_nsec: i64::try_from(realtime_ns % 1_000_000_000).expect("below a billion"),
            };
            clock_settime(ClockId::Realtime, time).map_err(step("set the clock"))
        }
    }
}

/// Moves it by so many nanoseconds.
pub(crate) fn adjust(by_ns: i64, owner: Owner) -> Result<(), AgentError> {
    if owner == Owner::Host || by_ns == 0 {
        return Ok(());
    }
    tilemark_sys::clock::shift(by_ns).map_err(step("move the clock"))
}

/// Whose clock and entropy a kernel's are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This guest's own kernel, which booted the image.
    Guest,
    /// This guest's own kernel, which booted a disk of the user's own: others have named its devices.
    Disk,
    /// The host's: this is a native twin.
    Host,
}
