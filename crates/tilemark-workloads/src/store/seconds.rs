//! Orders of one stream become seconds and totals. A second is told when all that began in it has ended.

use super::{Message, Signals};
use crate::start_line::Starter;
use hdrhistogram::Histogram;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering, mpsc::Sender},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Counts, LoadEvent, StreamSecond};
use tilemark_load::figures::encode;
use tilemark_store::{Observer, OrderEnded, Outcome};

/// The observer of a stream.
pub(super) struct Seconds<'a> {
    id: u32,
    sender: Sender<Message>,
    signals: &'a Signals,
    starter: Starter<'a>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: BTreeMap<u32, Open>,
    latest: u32,
    counts: Counts,
}

#[derive(Default)]
struct Open {
    under_way: u64,
    counts: Counts,
    latency_ns: Vec<u64>,
    lateness_ns: Vec<u64>,
}

/// Nanoseconds as a histogram with three significant digits.
fn encode_all(values: &[u64]) -> Vec<u8> {
    let mut histogram = Histogram::<u64>::new(3).expect("three digits are allowed");
    values.iter().for_each(|value| histogram.record(*value).expect("it grows with its values"));
    encode(&histogram)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> Seconds<'a> {
    pub(super) fn new(id: u32, sender: Sender<Message>, signals: &'a Signals, starter: Starter<'a>) -> Self {
        Self { id, sender, signals, starter, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports what is still open, and counts the whole measurement.
    pub(super) fn finish(&self) -> Counts {
        let mut state = self.state();
        let left: Vec<u32> = state.open.keys().copied().collect();
        left.into_iter().for_each(|second| self.close(&mut state, second));
        state.counts
    }

    fn close(&self, state: &mut State, second: u32) {
        let Some(open) = state.open.remove(&second) else { return };
        let (latency, lateness) = (encode_all(&open.latency_ns), encode_all(&open.lateness_ns));
        state.counts = [state.counts, open.counts].into_iter().sum();
        let ended = StreamSecond { id: self.id, second, counts: open.counts, latency, lateness };
        // Whoever listens does so until the stream has ended.
        let _ = self.sender.send(Message::Event(LoadEvent::Second(ended)));
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
        let second = intended.as_secs() as u32;
        let mut state = self.state();
        state.open.entry(second).or_default().under_way += 1;
        if second > state.latest {
            state.latest = second;
            // The second before may have orders whose client is about to begin them.
            let over = |(at, open): (&u32, &Open)| (*at + 1 < second && open.under_way == 0).then_some(*at);
            let over: Vec<u32> = state.open.iter().filter_map(over).collect();
            over.into_iter().for_each(|second| self.close(&mut state, second));
        }
    }

    fn ended(&self, order: OrderEnded) {
        let mut state = self.state();
        let open = state.open.entry(order.intended.as_secs() as u32).or_default();
        open.under_way = open.under_way.saturating_sub(1);
        // One that was rolled back for want of stock is no order: it is in the store's own figures.
        match order.outcome {
            Outcome::RolledBack => return,
            Outcome::Committed => open.counts.completed += 1,
            Outcome::Failed => open.counts.failed += 1,
        }
        open.counts.offered += 1;
        open.latency_ns.push(nanoseconds(order.latency));
        open.lateness_ns.extend(order.lateness.map(nanoseconds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::start_line::StartLine;
    use std::sync::mpsc::{Receiver, channel};
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
    fn a_second_is_told_when_all_that_began_in_it_has_ended() {
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
