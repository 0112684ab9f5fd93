//! A thousand records are read by as many threads as there are processors.

use std::{num::NonZero, thread};

/// Threads at most: beyond, the disk is what they wait for.
const THREADS_MAX: usize = 8;

/// Does the same with each item; the results are in the order of the items.
pub(super) fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let part = items.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let work = &work;
        let started: Vec<_> = items
            .chunks(part)
            .map(|chunk| scope.spawn(move || chunk.iter().map(work).collect::<Vec<R>>()))
            .collect();
        let done = started.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|panic| {
                // A panic of one record's reader is a fault of this program, and is passed on.
                std::panic::resume_unwind(panic)
            })
        });
        done.flatten().collect()
    })
}
