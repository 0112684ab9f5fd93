//! Several loads begin together and end together.

use crate::clocks::ThreadClocks;
use std::sync::{
    Condvar, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
    mpsc,
};
use tilemark_amqp_load::{Cue, Director, Gauge, LoadError};
use tilemark_load::{Got, Scheduling, Stop, prepare_thread};

/// What a load says to the thread that leads.
pub(super) enum Said<R> {
    /// All its threads are connected.
    Ready,
    /// It has ended.
    Ended(u32, Result<R, LoadError>),
}

/// What all loads wait for.
pub(super) struct Stage<'a> {
    stop: &'a Stop,
    /// One of them failed.
    over: AtomicBool,
    cue: Mutex<Option<Cue>>,
    changed: Condvar,
}

impl<'a> Stage<'a> {
    pub(super) fn new(stop: &'a Stop) -> Self {
        Self { stop, over: AtomicBool::new(false), cue: Mutex::new(None), changed: Condvar::new() }
    }

    /// Lets all that wait begin, or not at all. The first word counts.
    pub(super) fn give(&self, cue: Cue) {
        self.cue.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cue);
        self.changed.notify_all();
    }

    /// Ends all that has begun.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    fn wait(&self) -> Cue {
        let mut cue = self.cue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *cue {
                Some(cue) => return cue,
                None => cue = self.changed.wait(cue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// One load on the stage.
pub(super) struct Actor<'a, R> {
    stage: &'a Stage<'a>,
    /// All was measured that was to be.
    over: AtomicBool,
    scheduling: Scheduling,
    gauge: Gauge,
    pub(super) clocks: ThreadClocks,
    /// What its threads got of the kernel.
    pub(super) got: Mutex<Vec<Got>>,
    say: Mutex<mpsc::Sender<Said<R>>>,
}

impl<'a, R> Actor<'a, R> {
    pub(super) fn new(stage: &'a Stage<'a>, scheduling: Scheduling, say: mpsc::Sender<Said<R>>) -> Self {
        Self {
            stage,
            over: AtomicBool::new(false),
            scheduling,
            gauge: Gauge::default(),
            clocks: ThreadClocks::default(),
            got: Mutex::default(),
            say: Mutex::new(say),
        }
    }

    /// Ends this load.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

impl<R: Send> Director for Actor<'_, R> {
    fn thread_begins(&self) {
        let got = prepare_thread(None, self.scheduling);
        self.got.lock().unwrap_or_else(PoisonError::into_inner).push(got);
        self.clocks.add_this_thread();
    }

    fn ready(&self) -> Cue {
        // Nobody listens only when another load has failed, and then the cue says so.
        let _ = self.say.lock().unwrap_or_else(PoisonError::into_inner).send(Said::Ready);
        self.stage.wait()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
            || self.stage.over.load(Ordering::Acquire)
            || self.stage.stop.is_asked()
    }

    fn gauge(&self) -> &Gauge {
        &self.gauge
    }
}
