//! What several engines report at the same time, reported as one load.

use std::collections::{BTreeMap, BTreeSet};
use tilemark_agent_protocol::{LoadEvent, Sender};

/// Engines that work at the same time, each with a number, heard one event after the other.
pub(crate) struct MergedEvents {
    at_work: BTreeSet<usize>,
    /// How busy each was, by second.
    busy: BTreeMap<u32, BTreeMap<usize, Used>>,
}

/// What one engine used of a second.
struct Used {
    /// Its busiest thread, as a part of the second.
    fraction: f64,
    /// The same of each of the job's processors; empty where that is not known.
    parts: Vec<f64>,
}

impl Used {
    /// Of the processor at a place. An engine that does not know may have used any.
    fn at(&self, place: usize) -> f64 {
        if self.parts.is_empty() { self.fraction } else { self.parts.get(place).copied().unwrap_or(0.0) }
    }
}

/// How busy all were: their threads share processors, and a processor is as busy as all of them make it.
fn all_together<'u>(engines: impl Iterator<Item = &'u Used> + Clone) -> f64 {
    let places = engines.clone().map(|used| used.parts.len()).max().unwrap_or(0).max(1);
    let at_places = (0..places).map(|place| engines.clone().map(|used| used.at(place)).sum::<f64>());
    let busiest = engines.clone().map(|used| used.fraction);
    at_places.chain(busiest).fold(0.0, f64::max).min(1.0)
}

impl MergedEvents {
    pub(crate) fn of(engines: usize) -> Self {
        Self { at_work: (0..engines).collect(), busy: BTreeMap::new() }
    }

    /// What to report because of one engine's event: how busy a second was when all that are still at work have said so,
    /// and all else as it comes.
    pub(crate) fn take(&mut self, engine: usize, event: LoadEvent) -> Vec<LoadEvent> {
        let LoadEvent::Busy { second, fraction, parts } = event else { return vec![event] };
        self.busy.entry(second).or_default().insert(engine, Used { fraction, parts });
        self.reported_by_all()
    }

    /// From its end on an engine uses nothing, and nobody waits for its word.
    pub(crate) fn ended(&mut self, engine: usize) -> Vec<LoadEvent> {
        self.at_work.remove(&engine);
        self.reported_by_all()
    }

    /// How busy the seconds were that all engines at work have reported.
    fn reported_by_all(&mut self) -> Vec<LoadEvent> {
        let mut events = Vec::new();
        self.busy.retain(|second, of_engines| {
            let by_all = self.at_work.iter().all(|engine| of_engines.contains_key(engine));
            if by_all {
                events.push(LoadEvent::busy(*second, all_together(of_engines.values())));
            }
            !by_all
        });
        events
    }
}

/// What all senders together got: never more than the worst of them.
pub(crate) fn together(senders: &[Sender]) -> Sender {
    Sender {
        workers: senders.iter().map(|sender| sender.workers).sum(),
        real_time: senders.iter().all(|sender| sender.real_time),
        timer_slack_ns: senders.iter().map(|sender| sender.timer_slack_ns).max().unwrap_or(0),
        pinned: senders.iter().all(|sender| sender.pinned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(real_time: bool) -> Sender {
        Sender { workers: 2, real_time, timer_slack_ns: 1, pinned: true }
    }

    fn busy(second: u32, fraction: f64) -> LoadEvent {
        LoadEvent::busy(second, fraction)
    }

    #[test]
    fn all_together_got_no_more_than_the_worst() {
        let all = Sender { workers: 4, ..sender(false) };
        assert_eq!(together(&[sender(true), sender(false)]), all);
    }

    #[test]
    fn a_second_is_as_busy_as_all_make_it() {
        let mut merged = MergedEvents::of(2);
        assert_eq!(merged.take(0, busy(3, 0.25)), []);
        assert_eq!(merged.take(0, busy(4, 0.125)), []);
        assert_eq!(merged.take(1, busy(3, 0.5)), [busy(3, 0.75)]);
    }

    #[test]
    fn engines_on_two_processors_fill_neither_and_on_one_they_fill_it() {
        let merged = |one: [f64; 2], other: [f64; 2]| {
            let mut merged = MergedEvents::of(2);
            let on = |parts: [f64; 2]| {
                let fraction = parts[0].max(parts[1]);
                LoadEvent::Busy { second: 0, fraction, parts: parts.to_vec() }
            };
            assert_eq!(merged.take(0, on(one)), []);
            merged.take(1, on(other))
        };
        assert_eq!(merged([0.5, 0.0], [0.0, 0.5]), [busy(0, 0.5)]);
        assert_eq!(merged([0.5, 0.0], [0.5, 0.0]), [busy(0, 1.0)]);
        // One that is not bound to a processor, and has a single busy thread, beside one on the first.
        let mut unbound = MergedEvents::of(2);
        unbound.take(0, LoadEvent::Busy { second: 0, fraction: 0.75, parts: vec![0.375; 2] });
        let bound = LoadEvent::Busy { second: 0, fraction: 0.25, parts: vec![0.25] };
        assert_eq!(unbound.take(1, bound), [busy(0, 0.75)]);
    }

    #[test]
    fn seconds_after_an_engines_early_end_are_reported_by_the_others() {
        let mut merged = MergedEvents::of(3);
        for (engine, event) in
            [(0, busy(0, 0.25)), (1, busy(0, 0.25)), (0, busy(1, 0.875)), (1, busy(1, 0.0))]
        {
            assert_eq!(merged.take(engine, event), []);
        }
        // It ended in second 1, and reported second 0 only.
        assert_eq!(merged.take(2, busy(0, 0.25)), [busy(0, 0.75)]);
        assert_eq!(merged.ended(2), [busy(1, 0.875)]);
        assert_eq!(merged.take(0, busy(2, 0.5)), []);
        assert_eq!(merged.ended(1), [busy(2, 0.5)]);
        assert_eq!(merged.take(0, busy(3, 0.9)), [busy(3, 0.9)]);
    }
}
