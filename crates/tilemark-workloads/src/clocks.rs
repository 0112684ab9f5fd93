//! Processor time of threads, read by another one.

use std::{
    fs::File,
    iter,
    os::unix::fs::FileExt,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};
use tilemark_agent_protocol::{LoadEvent, LoadJob};

/// The clocks of the threads of one load.
#[derive(Debug, Default)]
pub(crate) struct ThreadClocks(Mutex<Vec<ThreadClock>>);

#[derive(Debug)]
struct ThreadClock {
    /// The kernel's account of a thread; its first number is the processor time in nanoseconds.
    account: Option<File>,
    last_ns: u64,
}

impl ThreadClocks {
    /// Adds the calling thread.
    pub(crate) fn add_this_thread(&self) {
        let account = File::open("/proc/thread-self/schedstat").ok();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(ThreadClock { account, last_ns: 0 });
    }

    /// Processor time of each up to now, in nanoseconds, in the order in which they were added.
    pub(crate) fn read(&self) -> Vec<u64> {
        let mut clocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clocks.iter_mut().map(ThreadClock::read).collect()
    }
}

impl ThreadClock {
    /// A thread that has ended keeps what it was last seen to have used.
    fn read(&mut self) -> u64 {
        let mut text = [0; 64];
        let length = self.account.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let first = std::str::from_utf8(&text[..length]).ok().and_then(|text| text.split(' ').next());
        self.last_ns = first.and_then(|number| number.parse().ok()).unwrap_or(0).max(self.last_ns);
        self.last_ns
    }
}

/// How busy the threads of a load are that share some processors, second by second.
pub(crate) struct BusySeconds {
    /// The load's own, or where it has none, as in a guest, all.
    processors: usize,
    next: u32,
    /// What each thread had used when it was last read, and when that was.
    before: Option<(Vec<u64>, Instant)>,
}

impl BusySeconds {
    pub(crate) fn of(job: &LoadJob) -> Self {
        let all = || thread::available_parallelism().map_or(1, usize::from);
        let processors = if job.processors.is_empty() { all() } else { job.processors.len() };
        Self { processors, next: 0, before: None }
    }

    /// Takes what each thread has used, in nanoseconds: when the measurement begins, and at the end of each second. Returns how busy they
    /// were in that second, as a part of it: the busiest of them by itself, or all together where they fill their processors. All
    /// together are spread evenly over these.
    pub(crate) fn take(&mut self, now: Instant, used: Vec<u64>) -> Option<LoadEvent> {
        let (before, at) = self.before.replace((used.clone(), now))?;
        let earlier = before.into_iter().chain(iter::repeat(0));
        let threads: Vec<u64> =
            used.iter().zip(earlier).map(|(total, before)| total.saturating_sub(before)).collect();
        let elapsed_ns = now.duration_since(at).as_nanos() as f64;
        let part = |ns: f64| (ns / elapsed_ns.max(1.0)).min(1.0);
        let busiest = part(threads.iter().copied().max().unwrap_or(0) as f64);
        let all = part(threads.iter().sum::<u64>() as f64 / self.processors.max(1) as f64);
        let second = self.next;
        self.next += 1;
        Some(LoadEvent::Busy { second, fraction: busiest.max(all), parts: vec![all; self.processors] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn two_threads_that_fill_their_one_processor_are_busy_though_neither_is() {
        let begin = Instant::now();
        let busy = |processors| {
            let mut seconds = BusySeconds { processors, next: 3, before: None };
            assert_eq!(seconds.take(begin, vec![10, 10]), None);
            seconds.take(begin + Duration::from_nanos(1_000), vec![460, 510])
        };
        assert_eq!(busy(1), Some(LoadEvent::Busy { second: 3, fraction: 0.95, parts: vec![0.95] }));
        assert_eq!(busy(2), Some(LoadEvent::Busy { second: 3, fraction: 0.5, parts: vec![0.475; 2] }));
    }

    #[test]
    fn a_thread_is_read_by_another_and_after_its_end() {
        let clocks = ThreadClocks::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                clocks.add_this_thread();
                let mut sum = 0_u64;
                while clocks.read()[0] < 5_000_000 {
                    sum = (0..100_000_u64).fold(sum, |sum, number| sum.rotate_left(3) ^ number);
                }
                assert_ne!(sum, 1);
            });
        });
        assert!(clocks.read()[0] >= 5_000_000);
    }
}
