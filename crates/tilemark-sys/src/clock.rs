//! The kernel's clocks, and the processor's counter of time.

use rustix::time::{ClockId, clock_gettime};
use std::{io, thread, time::Duration, time::Instant};

const NS_PER_S: i64 = 1_000_000_000;

/// The real-time clock, which may be set: nanoseconds since 1970. 0 before.
pub fn realtime_ns() -> u64 {
    read(ClockId::Realtime)
}

/// The monotonic clock, which nobody sets: nanoseconds since some moment, usually the boot. It does not count while the host sleeps.
// Loads read it for each request: compiled into their own loop.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(ClockId::Monotonic)
}

/// Processor time of the calling thread in nanoseconds: user, kernel and guest mode.
pub fn thread_ns() -> u64 {
    read(ClockId::ThreadCPUTime)
}

#[inline]
fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec * NS_PER_S + time.tv_nsec).unwrap_or(0)
}

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

/// How many thousand times in a second the processor's time-stamp counter counts, measured for 20 ms by the kernel's clock. Both are read
/// many times at each end, and the readings that lie closest together count: so it is right to some millionths on a busy host too. `None` on
/// processors that are not x86-64.
pub fn tsc_khz() -> Option<u32> {
    let first = reading()?;
    thread::sleep(MEASURED);
    let last = reading()?;
    let (counted, passed) = (last.counter.wrapping_sub(first.counter), last.at - first.at);
    u32::try_from(u128::from(counted) * 1_000_000 / passed.as_nanos()).ok()
}

const MEASURED: Duration = Duration::from_millis(20);
/// Readings at each end.
const READINGS: usize = 32;

/// What the counter showed, and when.
struct Reading {
    counter: u64,
    at: Instant,
}

/// The one of many during which least time passed.
fn reading() -> Option<Reading> {
    let one = || {
        let before = Instant::now();
        let counter = time_stamp_counter()?;
        let took = before.elapsed();
        Some((took, Reading { counter, at: before + took / 2 }))
    };
    let all = (0..READINGS).map_while(|_| one());
    all.min_by_key(|(took, _)| *took).map(|(_, reading)| reading)
}

#[cfg(target_arch = "x86_64")]
fn time_stamp_counter() -> Option<u64> {
    // SAFETY: every x86-64 processor has this instruction, and it changes nothing.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
const fn time_stamp_counter() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_as_fast_a_second_time() {
        let [first, second] = [(); 2].map(|()| tsc_khz());
        assert_eq!(first.is_some(), cfg!(target_arch = "x86_64"));
        if let (Some(first), Some(second)) = (first, second) {
            assert!((f64::from(second) / f64::from(first) - 1.0).abs() < 0.01, "{first}, {second}");
            // Between 100 MHz and 20 GHz.
            assert!((100_000..20_000_000).contains(&first), "{first}");
        }
    }

    #[test]
    fn a_shift_back_has_whole_seconds_below_it_and_a_rest_forwards() {
        assert_eq!(whole_and_rest(-1), (-1, 999_999_999));
        assert_eq!(whole_and_rest(-3_500_000_000), (-4, 500_000_000));
        assert_eq!(whole_and_rest(2_000_000_001), (2, 1));
    }
}
