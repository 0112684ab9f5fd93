//! The yardstick for lateness: a bare loop of absolute sleeps under the sender's own scheduling, and nothing
//! else. `bare_sleep RATE SECONDS PROCESSOR`; prints one JSON line.

use rustix::{
    thread::{clock_nanosleep_absolute, set_current_timer_slack},
    time::{ClockId, Timespec, clock_gettime},
};

fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn main() {
    let arguments: Vec<i64> =
        std::env::args().skip(1).map(|word| word.parse().expect("a whole number")).collect();
    let (rate, seconds, processor) = (arguments[0], arguments[1], arguments[2]);
    assert!(
        tilemark_load::pin(&[u32::try_from(processor).expect("a processor")]),
        "a processor that is ours"
    );
    set_current_timer_slack(std::num::NonZeroU64::new(1)).expect("slack is always allowed");
    let fifo = tilemark_sys::thread::ask_for_fifo(1).is_ok();
    let begin = now() + 1_000_000;
    let mut late = Vec::with_capacity(usize::try_from(rate * seconds).expect("a short run"));
    for k in 0..rate * seconds {
        let time = begin + k * 1_000_000_000 / rate;
        let wake = Timespec { tv_sec: time / 1_000_000_000, tv_nsec: time % 1_000_000_000 };
        while clock_nanosleep_absolute(ClockId::Monotonic, &wake).is_err() {}
        late.push(now() - time);
    }
    late.sort_unstable();
    let at = |part: f64| late[(late.len() as f64 * part) as usize] as f64 / 1e3;
    println!(
        "{{\"real_time\":{fifo},\"lateness_us\":{{\"p50\":{:.2},\"p99\":{:.2},\"p999\":{:.2}}}}}",
        at(0.5),
        at(0.99),
        at(0.999)
    );
}
