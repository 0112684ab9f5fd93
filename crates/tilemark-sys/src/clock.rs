//! The kernel's real-time clock.

use std::io;

const NS_PER_S: i64 = 1_000_000_000;

/// Moves the real-time clock by so many nanoseconds, in one system call. Whoever reads the clock and then sets it loses the
/// time in between: on a crowded host that was hundreds of milliseconds. Needs `CAP_SYS_TIME`.
///
/// # Errors
/// What the kernel said.
pub fn shift(by_ns: i64) -> io::Result<()> {
    // SAFETY: `timex` holds only integers, for which zero is a value.
    let mut shift: libc::timex = unsafe { std::mem::zeroed() };
    shift.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
    (shift.time.tv_sec, shift.time.tv_usec) = whole_and_rest(by_ns);
    // SAFETY: the kernel reads and writes one `timex`, which lives as long as the call.
    let status = unsafe { libc::clock_adjtime(libc::CLOCK_REALTIME, &raw mut shift) };
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Whole seconds, and nanoseconds that are never negative, as the kernel wants both.
const fn whole_and_rest(ns: i64) -> (i64, i64) {
    (ns.div_euclid(NS_PER_S), ns.rem_euclid(NS_PER_S))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shift_back_has_whole_seconds_below_it_and_a_rest_forwards() {
        assert_eq!(whole_and_rest(-1), (-1, 999_999_999));
        assert_eq!(whole_and_rest(-3_500_000_000), (-4, 500_000_000));
        assert_eq!(whole_and_rest(2_000_000_001), (2, 1));
    }
}
