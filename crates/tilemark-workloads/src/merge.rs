//! What several engines report at the same time, reported as one load.

use std::collections::{BTreeMap, BTreeSet};
use tilemark_agent_protocol::{LoadEvent, Sender};

/// Engines that work at the same time, each with a number, heard one event after the other.
pub(crate) struct MergedEvents {
    at_work: BTreeSet<usize>,
    /// How busy each was, by second.
    busy: BTreeMap<u32, BTreeMap<usize, f64>>,
}

impl MergedEvents {
    pub(crate) fn of(engines: usize) -> Self {
        Self { at_work: (0..engines).collect(), busy: BTreeMap::new() }
    }

    /// What to report because of one engine's event: how busy a second was when all that are still at work have said so,
    /// and all else as it comes.
    pub(crate) fn take(&mut self, engine: usize, event: LoadEvent) -> Vec<LoadEvent> {
        let LoadEvent::Busy { second, fraction } = event else { return vec![event] };
        self.busy.entry(second).or_default().insert(engine, fraction);
        self.reported_by_all()
    }

    /// From its end on an engine uses nothing, and nobody waits for its word.
    pub(crate) fn ended(&mut self, engine: usize) -> Vec<LoadEvent> {
        self.at_work.remove(&engine);
        self.reported_by_all()
    }

    /// How busy those seconds were of which all that are at work have told.
    fn reported_by_all(&mut self) -> Vec<LoadEvent> {
        let mut told = Vec::new();
        self.busy.retain(|second, of_engines| {
            let by_all = self.at_work.iter().all(|engine| of_engines.contains_key(engine));
            if by_all {
                // Their threads may share processors: a processor is as busy as all of them make it.
                let fraction = of_engines.values().sum::<f64>().min(1.0);
                told.push(LoadEvent::Busy { second: *second, fraction });
            }
            !by_all
        });
        told
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
        LoadEvent::Busy { second, fraction }
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
    fn seconds_after_an_engines_early_end_are_told_by_the_others() {
        let mut merged = MergedEvents::of(3);
        for (engine, event) in
            [(0, busy(0, 0.25)), (1, busy(0, 0.25)), (0, busy(1, 0.875)), (1, busy(1, 0.0))]
        {
            assert_eq!(merged.take(engine, event), []);
        }
        // It ended in second 1, and told of second 0 only.
        assert_eq!(merged.take(2, busy(0, 0.25)), [busy(0, 0.75)]);
        assert_eq!(merged.ended(2), [busy(1, 0.875)]);
        assert_eq!(merged.take(0, busy(2, 0.5)), []);
        assert_eq!(merged.ended(1), [busy(2, 0.5)]);
        assert_eq!(merged.take(0, busy(3, 0.9)), [busy(3, 0.9)]);
    }
}
