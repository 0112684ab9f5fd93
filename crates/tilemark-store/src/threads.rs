//! Threads that work together: where one of them cannot be started, those that were are ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::error::StoreError;

/// Starts a thread of such a builder for each work, all of which end once `stop` is set. Sets it where a thread cannot be started.
pub(crate) fn start_all<'s, T, W>(
    builder: &dyn Fn() -> Builder,
    scope: &'s Scope<'s, '_>,
    works: impl Iterator<Item = W>,
    stop: &AtomicBool,
) -> Result<Vec<ScopedJoinHandle<'s, T>>, StoreError>
where
    T: Send + 's,
    W: FnOnce() -> T + Send + 's,
{
    let start = |work| {
        builder().spawn_scoped(scope, work).map_err(|source| {
            stop.store(true, Ordering::Relaxed);
            StoreError::Thread(source)
        })
    };
    works.map(start).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_thread_that_cannot_be_started_ends_those_that_were_and_no_other_is_started() {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let (stop, started) = (AtomicBool::new(false), Cell::new(0));
            let builder = || {
                started.set(started.get() + 1);
                // No address space holds the stack of the second.
                let stack_bytes = if started.get() == 1 { 1 << 20 } else { 1 << 60 };
                Builder::new().stack_size(stack_bytes)
            };
            let works_on = || {
                while !stop.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
            };
            let works = std::iter::repeat_n(works_on, 3);
            let failed = thread::scope(|scope| start_all(&builder, scope, works, &stop).map(drop));
            done.send((failed, started.get())).unwrap();
        });
        let (failed, started) = is_done.recv_timeout(Duration::from_secs(60)).expect("all of them end");
        let error = failed.unwrap_err();
        assert!(matches!(error, StoreError::Thread(_)), "{error:?}");
        assert!(error.remedy().contains("`ulimit -u`"), "{}", error.remedy());
        assert_eq!(started, 2);
    }
}
