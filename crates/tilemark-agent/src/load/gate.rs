//! Where the engines of a mix wait for one another.

use std::{
    collections::BTreeSet,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tilemark_load::Stop;

/// Time between two looks at whether the load shall end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Opens when the last engine stands, or was ended before it did.
pub(super) struct StartGate<'a> {
    stop: &'a Stop,
    /// Engines that neither stand nor have ended.
    awaited: Mutex<BTreeSet<usize>>,
    changed: Condvar,
}

/// One engine on its way to the gate. Dropping it says that nobody need wait for that engine any more.
pub(super) struct Comer<'a> {
    gate: &'a StartGate<'a>,
    engine: usize,
}

impl<'a> StartGate<'a> {
    pub(super) fn of(engines: usize, stop: &'a Stop) -> Self {
        Self { stop, awaited: Mutex::new((0..engines).collect()), changed: Condvar::new() }
    }

    pub(super) const fn comer(&'a self, engine: usize) -> Comer<'a> {
        Comer { gate: self, engine }
    }

    fn awaited(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self, engine: usize) {
        self.awaited().remove(&engine);
        self.changed.notify_all();
    }
}

impl Comer<'_> {
    /// Everything of this engine stands. Returns when that is true of all, or the load shall end.
    pub(super) fn stands(&self) {
        self.gate.arrived(self.engine);
        let mut awaited = self.gate.awaited();
        while !awaited.is_empty() && !self.gate.stop.is_asked() {
            let waited = self.gate.changed.wait_timeout(awaited, LOOK_EVERY);
            awaited = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Comer<'_> {
    fn drop(&mut self) {
        self.gate.arrived(self.engine);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    /// Two engines that stand, and a third that does what it is told to do.
    fn with_a_third(third: impl FnOnce(Comer<'_>)) {
        let stop = Stop::new().unwrap();
        let gate = StartGate::of(3, &stop);
        let (begin, begun) = mpsc::channel();
        thread::scope(|scope| {
            for engine in 0..2 {
                let (begin, gate) = (begin.clone(), &gate);
                scope.spawn(move || {
                    gate.comer(engine).stands();
                    begin.send(engine).unwrap();
                });
            }
            while gate.awaited().len() > 1 {
                thread::yield_now();
            }
            assert_eq!(
                begun.try_recv(),
                Err(mpsc::TryRecvError::Empty),
                "none begins before the last stands"
            );
            third(gate.comer(2));
            let mut both = [begun.recv().unwrap(), begun.recv().unwrap()];
            both.sort_unstable();
            assert_eq!(both, [0, 1]);
        });
    }

    #[test]
    fn all_begin_when_the_last_stands() {
        with_a_third(|comer| comer.stands());
    }

    #[test]
    fn nobody_waits_for_one_that_ended() {
        with_a_third(|_ended| {});
    }

    #[test]
    fn a_stop_ends_the_wait() {
        let stop = Stop::new().unwrap();
        let gate = StartGate::of(2, &stop);
        stop.ask();
        gate.comer(0).stands();
        assert_eq!(gate.awaited().len(), 1, "the other never came");
    }
}
