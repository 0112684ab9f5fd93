//! Threads that work together: where one of them cannot be started, those that were are ended.

use std::{
    io,
    thread::{Builder, Scope, ScopedJoinHandle},
};

/// What the reader should do where the kernel refuses a thread.
pub(crate) const NO_THREAD: &str =
    "raise the limit of processes and threads (`ulimit -u`, `pids.max` of the control group), or free memory";

/// Starts a thread of such a builder for each work. Where one cannot be started, `end` has those end that were.
pub(crate) fn start_all<'s, T, W>(
    builder: &dyn Fn() -> Builder,
    scope: &'s Scope<'s, '_>,
    works: impl Iterator<Item = W>,
    end: impl Fn(),
) -> io::Result<Vec<ScopedJoinHandle<'s, T>>>
where
    T: Send + 's,
    W: FnOnce() -> T + Send + 's,
{
    works.map(|work| builder().spawn_scoped(scope, work).inspect_err(|_| end())).collect()
}

/// For tests: a builder whose first threads can be started, and no other.
#[cfg(test)]
pub(crate) fn only(first: u32) -> impl Fn() -> Builder {
    let started = std::cell::Cell::new(0);
    move || {
        started.set(started.get() + 1);
        // No address space holds such a stack.
        let stack_bytes = if started.get() <= first { 1 << 20 } else { 1 << 60 };
        Builder::new().stack_size(stack_bytes)
    }
}
