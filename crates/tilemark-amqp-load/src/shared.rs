//! What the threads of a load share, and what each of them is counted by.

use crate::LoadError;
use crate::director::Director;
use crate::subscriber::Fresh;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

/// What the threads of a load share.
pub(crate) struct Shared<'d> {
    pub(crate) run: u16,
    pub(crate) director: &'d dyn Director,
    aborted: AtomicBool,
    first_error: Mutex<Option<LoadError>>,
    /// What ended a connection first, where the rest is reported.
    broken: Mutex<Option<String>>,
    start: Start,
    /// By queue: messages that have come out.
    received: Vec<AtomicU64>,
    /// By queue: messages that are to come out; `u64::MAX` while publishers are at work.
    expected: Vec<AtomicU64>,
}

/// Where the threads of a load wait for each other. Only those that could be made are waited for.
#[derive(Default)]
struct Start {
    threads: Mutex<Threads>,
    changed: Condvar,
}

#[derive(Default)]
struct Threads {
    made: usize,
    /// Connected, or failed.
    ready: usize,
    may_begin: bool,
}

impl Start {
    fn change(&self, change: impl FnOnce(&mut Threads)) {
        change(&mut self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn wait_until(&self, is_so: impl Fn(&Threads) -> bool) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(threads, |threads| !is_so(threads)));
    }
}

impl<'d> Shared<'d> {
    pub(crate) fn new(run: u16, director: &'d dyn Director, queues: usize) -> Self {
        Self {
            run,
            director,
            aborted: AtomicBool::new(false),
            first_error: Mutex::new(None),
            broken: Mutex::new(None),
            start: Start::default(),
            received: (0..queues).map(|_| AtomicU64::new(0)).collect(),
            expected: (0..queues).map(|_| AtomicU64::new(u64::MAX)).collect(),
        }
    }

    pub(crate) fn check_running(&self) -> Result<(), LoadError> {
        if self.aborted.load(Ordering::Relaxed) { Err(LoadError::Aborted) } else { Ok(()) }
    }

    /// Ends the load; the first error is the one to report.
    pub(crate) fn fail(&self, error: LoadError) {
        self.first_error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.aborted.store(true, Ordering::Relaxed);
    }

    /// Takes the end of a connection for the end of what its thread measures, where what was measured is to be reported. Hands any other
    /// error back.
    pub(crate) fn breaks(&self, error: LoadError) -> Result<(), LoadError> {
        if !self.director.keeps_what_was_measured() || !error.is_end_of_connection() {
            return Err(error);
        }
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get_or_insert_with(|| format!("{error}{cause}; the figures are of what was done until then"));
        Ok(())
    }

    /// What ended a connection first.
    pub(crate) fn broken(&self) -> Option<String> {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn into_error(self) -> Option<LoadError> {
        self.first_error.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a publisher or subscriber. Where it cannot be made, the load ends.
    pub(crate) fn spawn<'s, T: Send + 's>(
        &self,
        scope: &'s Scope<'s, '_>,
        work: impl FnOnce() -> T + Send + 's,
    ) -> Option<ScopedJoinHandle<'s, T>> {
        self.spawn_as(Builder::new(), scope, work)
    }

    fn spawn_as<'s, T: Send + 's>(
        &self,
        kind: Builder,
        scope: &'s Scope<'s, '_>,
        work: impl FnOnce() -> T + Send + 's,
    ) -> Option<ScopedJoinHandle<'s, T>> {
        let thread =
            kind.spawn_scoped(scope, work).map_err(|error| self.fail(LoadError::Thread(error))).ok()?;
        self.start.change(|threads| threads.made += 1);
        Some(thread)
    }

    /// For a publisher or subscriber: all are connected, or somebody has failed; and the load may begin.
    pub(crate) fn wait_for_start(&self) {
        self.start.change(|threads| threads.ready += 1);
        self.start.wait_until(|threads| threads.may_begin);
    }

    /// For the thread that leads, when it has made all others: waits until all are connected, then until the director lets them begin.
    /// `prepare` is called between the two, while all others wait, with the moment at which the load begins.
    pub(crate) fn start(&self, prepare: impl FnOnce(Instant)) {
        self.start.wait_until(|threads| threads.ready == threads.made);
        if !self.aborted.load(Ordering::Relaxed) {
            match self.director.ready() {
                Some(origin) => prepare(origin),
                None => self.fail(LoadError::Aborted),
            }
        }
        self.start.change(|threads| threads.may_begin = true);
    }

    pub(crate) fn count_received(&self, queue: usize, fresh: Fresh) {
        // A second copy does not count as another message, or the wait would end before the last one.
        self.received[queue].fetch_add(fresh.deliveries - fresh.duplicated, Ordering::Relaxed);
        self.director.gauge().count_received(fresh.deliveries, fresh.wrong());
    }

    pub(crate) fn expect(&self, queue: usize, count: u64) {
        self.expected[queue].store(count, Ordering::Release);
    }

    /// Whether all that was published has come out of a queue.
    pub(crate) fn is_drained(&self, queue: usize) -> bool {
        self.received[queue].load(Ordering::Relaxed) >= self.expected[queue].load(Ordering::Acquire)
    }

    pub(crate) fn is_published(&self, queue: usize) -> bool {
        self.expected[queue].load(Ordering::Acquire) != u64::MAX
    }
}

/// A thread of the load panics only by a bug of ours, and then so does the load.
pub(crate) fn joined<T>(handle: ScopedJoinHandle<'_, Option<T>>) -> Option<T> {
    handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Processor time of the calling thread, s.
#[allow(clippy::cast_precision_loss, reason = "2^53 s")]
pub(crate) fn cpu_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A name for what a run declares, and a number for its stamps.
pub(crate) fn random_run() -> (String, u16) {
    let mut random = [0_u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .expect("the kernel gives 8 random bytes at once");
    (format!("{:016x}", u64::from_be_bytes(random)), u16::from_be_bytes([random[0], random[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::director::Undirected;
    use std::sync::mpsc;
    use std::time::Duration;

    /// More than a process can have on any processor: a thread with it is never made.
    const IMPOSSIBLE_STACK: usize = 1 << 47;

    #[test]
    fn a_thread_that_cannot_be_made_ends_the_load_and_nobody_waits_for_it() {
        let (say, said) = mpsc::channel();
        std::thread::spawn(move || {
            let director = Undirected::default();
            let shared = Shared::new(1, &director, 1);
            let began = std::thread::scope(|scope| {
                let waits = || {
                    shared.wait_for_start();
                    shared.check_running().is_ok()
                };
                let made = shared.spawn(scope, waits);
                let not_made = shared.spawn_as(Builder::new().stack_size(IMPOSSIBLE_STACK), scope, waits);
                assert!(not_made.is_none());
                shared.start(|_| panic!("the load began"));
                made.unwrap().join().unwrap()
            });
            say.send((began, shared.into_error())).unwrap();
        });
        let (began, error) = said.recv_timeout(Duration::from_secs(60)).expect("nobody waits");
        assert!(!began && matches!(error, Some(LoadError::Thread(_))), "{error:?}");
    }
}
