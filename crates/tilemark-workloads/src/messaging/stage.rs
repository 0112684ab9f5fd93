//! Several loads begin together and end together.

use crate::{clocks::ThreadClocks, start_line::Starter};
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Instant,
};
use tilemark_amqp_load::{Director, Gauge, LoadError};
use tilemark_load::{Got, Scheduling, Stop, prepare_thread};

/// What a load reports to the thread that leads.
pub(super) enum Message<R> {
    /// All its threads are connected.
    Ready,
    /// It has ended.
    Ended(u32, Result<R, LoadError>),
}

/// One load, seen from the thread that leads.
pub(super) struct Actor<'a> {
    stop: &'a Stop,
    /// All was measured that was to be, or another load failed.
    over: AtomicBool,
    scheduling: Scheduling,
    pub(super) gauge: Gauge,
    pub(super) clocks: ThreadClocks,
    /// What its threads got of the kernel.
    pub(super) got: Mutex<Vec<Got>>,
}

impl<'a> Actor<'a> {
    pub(super) fn new(stop: &'a Stop, scheduling: Scheduling) -> Self {
        Self {
            stop,
            over: AtomicBool::new(false),
            scheduling,
            gauge: Gauge::default(),
            clocks: ThreadClocks::default(),
            got: Mutex::default(),
        }
    }

    /// Ends this load.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }
}

/// One load, seen from its own threads.
pub(super) struct Part<'a, R> {
    pub(super) actor: &'a Actor<'a>,
    pub(super) starter: Starter<'a>,
    pub(super) say: Mutex<mpsc::Sender<Message<R>>>,
}

impl<R: Send> Director for Part<'_, R> {
    fn thread_begins(&self) {
        let got = prepare_thread(None, self.actor.scheduling);
        self.actor.got.lock().unwrap_or_else(PoisonError::into_inner).push(got);
        self.actor.clocks.add_this_thread();
    }

    fn ready(&self) -> Option<Instant> {
        // Nobody listens only when another load has failed, and then the word says so.
        let _ = self.say.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Ready);
        self.starter.wait()
    }

    fn is_over(&self) -> bool {
        self.actor.over.load(Ordering::Acquire) || self.actor.stop.is_asked()
    }

    fn gauge(&self) -> &Gauge {
        &self.actor.gauge
    }

    /// A broker that ends has failed, and not the load: its guest is named, and the other streams go on.
    fn keeps_what_was_measured(&self) -> bool {
        true
    }
}
