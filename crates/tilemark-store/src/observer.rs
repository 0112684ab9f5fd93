//! Orders as they happen, for somebody who reports a run second by second.

use std::time::{Duration, Instant};

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was committed.
    Committed,
    /// Too little in stock: all of it was undone, as it should be. It is no order and no error.
    RolledBack,
    /// A step of it failed.
    Failed,
}

/// An order that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderEnded {
    /// Its intended start, from the beginning of the measured time.
    pub intended: Duration,
    /// From its intended start to its end.
    pub latency: Duration,
    /// How late it was begun by our own fault; nothing in a closed loop.
    pub lateness: Option<Duration>,
    /// How it ended.
    pub outcome: Outcome,
}

/// Receives orders from the clients' own threads, so it must be quick.
pub trait Observer: Sync {
    /// All connections are open. Returns the moment at which the first order begins, from which all times count.
    fn ready(&self) -> Instant;
    /// The calling thread is a client's, before its first order. Nobody need care.
    fn client_begins(&self) {}
    /// An order with this intended start, counted from the beginning of the measured time, was begun.
    fn begun(&self, intended: Duration);
    /// An order that was begun ended.
    fn ended(&self, order: OrderEnded);
}

/// Nobody looks.
pub struct Unobserved;

impl Observer for Unobserved {
    fn ready(&self) -> Instant {
        Instant::now()
    }
    fn begun(&self, _: Duration) {}
    fn ended(&self, _: OrderEnded) {}
}
