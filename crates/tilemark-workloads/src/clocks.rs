//! Processor time of threads, read by another one.

use std::{
    collections::BTreeMap,
    fs::File,
    os::unix::fs::FileExt,
    sync::{Mutex, PoisonError},
    thread,
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

/// Processors that the threads of a load share: its own, or where it has none, as in a guest, all.
pub(crate) fn processors(job: &LoadJob) -> usize {
    let all = || thread::available_parallelism().map_or(1, usize::from);
    if job.processors.is_empty() { all() } else { job.processors.len() }
}

/// How busy threads were in a second that share some processors, as a part of the time: the busiest of them by itself, or all
/// together where they fill the processors that they share. All together are spread evenly over these.
pub(crate) fn busy(
    second: u32,
    before: &BTreeMap<u32, Vec<u64>>,
    now: &BTreeMap<u32, Vec<u64>>,
    elapsed_ns: f64,
    processors: usize,
) -> LoadEvent {
    let used = |stream: &u32, thread: usize, total: u64| {
        total - before.get(stream).and_then(|threads| threads.get(thread)).copied().unwrap_or(0).min(total)
    };
    let threads: Vec<u64> = now
        .iter()
        .flat_map(|(stream, threads)| {
            threads.iter().enumerate().map(move |(thread, total)| used(stream, thread, *total))
        })
        .collect();
    let part = |ns: f64| (ns / elapsed_ns.max(1.0)).min(1.0);
    let busiest = part(threads.iter().copied().max().unwrap_or(0) as f64);
    let all = part(threads.iter().sum::<u64>() as f64 / processors.max(1) as f64);
    LoadEvent::Busy { second, fraction: busiest.max(all), parts: vec![all; processors] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(threads: &[u64]) -> BTreeMap<u32, Vec<u64>> {
        BTreeMap::from([(0, threads.to_vec())])
    }

    #[test]
    fn two_threads_that_fill_their_one_processor_are_busy_though_neither_is() {
        let busy = |processors| busy(3, &used(&[10, 10]), &used(&[460, 510]), 1_000.0, processors);
        assert_eq!(busy(1), LoadEvent::Busy { second: 3, fraction: 0.95, parts: vec![0.95] });
        assert_eq!(busy(2), LoadEvent::Busy { second: 3, fraction: 0.5, parts: vec![0.475; 2] });
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
