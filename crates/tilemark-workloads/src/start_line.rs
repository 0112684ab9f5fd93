//! Where the engines of a mix wait until all of them are ready.

use std::{
    collections::BTreeSet,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tilemark_load::Stop;

/// Time between two looks at whether the load shall end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Opens when the last engine is ready, or has ended before.
pub(crate) struct StartLine<'a> {
    stop: &'a Stop,
    /// Engines that are neither ready nor ended.
    awaited: Mutex<BTreeSet<usize>>,
    changed: Condvar,
}

/// One engine on its way to the line. Dropped, nobody waits for that engine any more.
pub(crate) struct Starter<'a> {
    line: &'a StartLine<'a>,
    engine: usize,
}

impl<'a> StartLine<'a> {
    pub(crate) fn of(engines: usize, stop: &'a Stop) -> Self {
        Self { stop, awaited: Mutex::new((0..engines).collect()), changed: Condvar::new() }
    }

    pub(crate) const fn starter(&'a self, engine: usize) -> Starter<'a> {
        Starter { line: self, engine }
    }

    fn awaited(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self, engine: usize) {
        self.awaited().remove(&engine);
        self.changed.notify_all();
    }
}

impl Starter<'_> {
    /// This engine is ready. Returns when all are, or the load is to end.
    pub(crate) fn wait_for_all(&self) {
        self.line.arrived(self.engine);
        let mut awaited = self.line.awaited();
        while !awaited.is_empty() && !self.line.stop.is_asked() {
            let waited = self.line.changed.wait_timeout(awaited, LOOK_EVERY);
            awaited = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Starter<'_> {
    fn drop(&mut self) {
        self.line.arrived(self.engine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    /// Two engines that are ready, and a third that does what it is told to do.
    fn with_a_third(third: impl FnOnce(Starter<'_>)) {
        let stop = Stop::new().unwrap();
        let line = StartLine::of(3, &stop);
        let (begin, begun) = mpsc::channel();
        thread::scope(|scope| {
            for engine in 0..2 {
                let (begin, line) = (begin.clone(), &line);
                scope.spawn(move || {
                    line.starter(engine).wait_for_all();
                    begin.send(engine).unwrap();
                });
            }
            while line.awaited().len() > 1 {
                thread::yield_now();
            }
            assert_eq!(
                begun.try_recv(),
                Err(mpsc::TryRecvError::Empty),
                "none begins before the last is ready"
            );
            third(line.starter(2));
            let mut both = [begun.recv().unwrap(), begun.recv().unwrap()];
            both.sort_unstable();
            assert_eq!(both, [0, 1]);
        });
    }

    #[test]
    fn all_begin_when_the_last_is_ready() {
        with_a_third(|starter| starter.wait_for_all());
    }

    #[test]
    fn nobody_waits_for_one_that_ended() {
        with_a_third(|_ended| {});
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let stop = Stop::new().unwrap();
        let line = StartLine::of(2, &stop);
        stop.ask();
        line.starter(0).wait_for_all();
        assert_eq!(line.awaited().len(), 1, "the other never came");
    }
}
