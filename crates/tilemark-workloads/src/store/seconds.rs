//! Orders of one stream become seconds and totals. A second is reported when all that began in it has ended.

use super::{Message, Signals};
use crate::start_line::Starter;
use std::{
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering, mpsc::Sender},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::Counts;
use tilemark_load::{Account, NO_LATENESS, Sample, Verdict};
use tilemark_store::{Observer, OrderEnded, Outcome};

/// The only stream of each account.
const STREAM: u32 = 0;

/// The observer of a stream.
pub(super) struct Seconds<'a> {
    sender: Sender<Message>,
    signals: &'a Signals,
    starter: Starter<'a>,
    state: Mutex<State>,
}

struct State {
    account: Account,
    latest: u32,
}

/// The second of the measurement to which a time belongs.
const fn second_of(intended: Duration) -> u32 {
    intended.as_secs() as u32
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> Seconds<'a> {
    pub(super) fn new(id: u32, sender: Sender<Message>, signals: &'a Signals, starter: Starter<'a>) -> Self {
        let account = Account::new([(id, 1)].into_iter(), 0);
        Self { sender, signals, starter, state: Mutex::new(State { account, latest: 0 }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports what is still open, and counts the whole measurement.
    pub(super) fn finish(&self) -> Counts {
        let mut state = self.state();
        self.close_before(&mut state.account, u32::MAX);
        state.account.counts(STREAM)
    }

    /// Reports the seconds before this one whose orders have all ended.
    fn close_before(&self, account: &mut Account, second: u32) {
        account.over_before(STREAM, second);
        // Whoever listens does so until the stream has ended.
        account.close_ready(&mut |event| drop(self.sender.send(Message::Event(event))));
    }
}

impl Observer for Seconds<'_> {
    fn ready(&self) -> Instant {
        let _ = self.sender.send(Message::Ready);
        self.starter.wait().unwrap_or_else(|| {
            // It does not begin: from its end on no order is sent.
            self.signals.end.store(true, Ordering::Relaxed);
            Instant::now()
        })
    }

    fn client_begins(&self) {
        self.signals.clocks.add_this_thread();
    }

    fn begun(&self, intended: Duration) {
        let second = second_of(intended);
        let mut state = self.state();
        state.account.begun(STREAM, second);
        if second > state.latest {
            state.latest = second;
            // The second before may have orders whose client is about to begin them.
            self.close_before(&mut state.account, second - 1);
        }
    }

    fn ended(&self, order: OrderEnded) {
        let second = second_of(order.intended);
        let verdict = match order.outcome {
            // One that was rolled back because stock was short is not an order: it is in the store's own figures.
            Outcome::RolledBack => return self.state().account.withdrawn(STREAM, second),
            Outcome::Committed => Verdict::Right,
            Outcome::Failed => Verdict::Failed,
        };
        let latency = nanoseconds(order.latency);
        let lateness = order.lateness.map_or(NO_LATENESS, nanoseconds);
        let sample = Sample { stream: STREAM, second, latency, lateness, body_bytes: 0, verdict };
        self.state().account.samples(&[sample]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start_line::StartLine;
    use std::sync::mpsc::{Receiver, channel};
    use tilemark_agent_protocol::LoadEvent;
    use tilemark_load::figures::decode;

    fn ended(at_ms: u64, outcome: Outcome) -> OrderEnded {
        let (intended, latency) = (Duration::from_millis(at_ms), Duration::from_millis(5));
        OrderEnded { intended, latency, lateness: None, outcome }
    }

    fn seconds(messages: &Receiver<Message>) -> Vec<(u32, u64)> {
        let second = |message| match message {
            Message::Event(LoadEvent::Second(second)) => {
                let latency = decode(&second.latency).unwrap();
                assert!((4_990_000..5_010_000).contains(&latency.max()), "5 ms: {}", latency.max());
                Some((second.second, latency.len()))
            }
            _ => None,
        };
        messages.try_iter().filter_map(second).collect()
    }

    #[test]
    fn a_second_is_reported_when_all_that_began_in_it_has_ended() {
        let (sender, messages) = channel();
        let signals = Signals::default();
        let line = StartLine::default();
        let observer = Seconds::new(7, sender, &signals, Starter(&line));
        for at in [100, 200, 1_100, 2_100] {
            observer.begun(Duration::from_millis(at));
        }
        observer.ended(ended(100, Outcome::Committed));
        observer.begun(Duration::from_millis(3_000));
        assert_eq!(seconds(&messages), [], "one order of it is under way");
        observer.ended(ended(200, Outcome::Committed));
        observer.ended(ended(1_100, Outcome::Committed));
        observer.begun(Duration::from_millis(4_000));
        assert_eq!(seconds(&messages), [(0, 2), (1, 1)]);
        observer.ended(ended(2_100, Outcome::Failed));
        let all = observer.finish();
        assert_eq!((all.offered, all.completed, all.failed), (4, 3, 1));
    }

    #[test]
    fn what_was_rolled_back_is_neither_an_order_nor_an_error() {
        let (sender, _messages) = channel();
        let signals = Signals::default();
        let line = StartLine::default();
        let observer = Seconds::new(1, sender, &signals, Starter(&line));
        observer.begun(Duration::ZERO);
        observer.ended(ended(0, Outcome::RolledBack));
        assert_eq!(observer.finish(), Counts::default());
    }
}
