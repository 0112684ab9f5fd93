//! What several engines tell at the same time, told as one load.

use std::collections::{BTreeMap, BTreeSet};
use tilemark_agent_protocol::{LoadEvent, Sender, StreamTotal};

/// Engines that work at the same time, each with a number, heard one event after the other.
pub(crate) struct Mix {
    engines: usize,
    /// Those that have not told their last event.
    at_work: BTreeSet<usize>,
    started: Vec<Sender>,
    /// How busy each was, by second.
    busy: BTreeMap<u32, BTreeMap<usize, f64>>,
    totals: Vec<StreamTotal>,
    failed: Option<LoadEvent>,
}

impl Mix {
    pub(crate) fn of(engines: usize) -> Self {
        Self {
            engines,
            at_work: (0..engines).collect(),
            started: Vec::new(),
            busy: BTreeMap::new(),
            totals: Vec::new(),
            failed: None,
        }
    }

    /// What to tell because of one engine's event: a start when all have started, how busy a second was when
    /// all that are still at work have said so, the seconds as they come, and the end not at all.
    pub(crate) fn take(&mut self, engine: usize, event: LoadEvent) -> Vec<LoadEvent> {
        match event {
            LoadEvent::Started(sender) => {
                self.started.push(sender);
                let all = self.started.len() == self.engines;
                all.then(|| LoadEvent::Started(together(&self.started))).into_iter().collect()
            }
            LoadEvent::Busy { second, fraction } => {
                self.busy.entry(second).or_default().insert(engine, fraction);
                self.told_by_all()
            }
            LoadEvent::Done(totals) => {
                self.totals.extend(totals);
                self.ended(engine)
            }
            failed @ LoadEvent::Failed { .. } => {
                // The first is the one to tell: others follow from it.
                self.failed.get_or_insert(failed);
                self.ended(engine)
            }
            told @ (LoadEvent::Second(_) | LoadEvent::Output { .. } | LoadEvent::Details { .. }) => {
                vec![told]
            }
        }
    }

    /// From its end on an engine uses nothing, and nobody waits for its word.
    fn ended(&mut self, engine: usize) -> Vec<LoadEvent> {
        self.at_work.remove(&engine);
        self.told_by_all()
    }

    /// How busy those seconds were of which all that are at work have told.
    fn told_by_all(&mut self) -> Vec<LoadEvent> {
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

    /// The last event.
    pub(crate) fn end(self) -> LoadEvent {
        self.failed.unwrap_or(LoadEvent::Done(self.totals))
    }
}

/// What all senders together got: never more than the worst of them.
fn together(senders: &[Sender]) -> Sender {
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

    fn failed(message: &str) -> LoadEvent {
        LoadEvent::Failed { message: message.to_owned(), remedy: String::new() }
    }

    fn busy(second: u32, fraction: f64) -> LoadEvent {
        LoadEvent::Busy { second, fraction }
    }

    #[test]
    fn it_starts_when_all_have_started_and_got_no_more_than_the_worst() {
        let mut mix = Mix::of(2);
        assert_eq!(mix.take(0, LoadEvent::Started(sender(true))), []);
        let all = Sender { workers: 4, ..sender(false) };
        assert_eq!(mix.take(1, LoadEvent::Started(sender(false))), [LoadEvent::Started(all)]);
    }

    #[test]
    fn a_second_is_as_busy_as_all_make_it() {
        let mut mix = Mix::of(2);
        assert_eq!(mix.take(0, busy(3, 0.25)), []);
        assert_eq!(mix.take(0, busy(4, 0.125)), []);
        assert_eq!(mix.take(1, busy(3, 0.5)), [busy(3, 0.75)]);
    }

    #[test]
    fn seconds_after_an_engines_early_end_are_told_by_the_others() {
        let mut mix = Mix::of(3);
        for (engine, event) in
            [(0, busy(0, 0.25)), (1, busy(0, 0.25)), (0, busy(1, 0.875)), (1, busy(1, 0.0))]
        {
            assert_eq!(mix.take(engine, event), []);
        }
        // It ended in second 1, and told of second 0 only.
        assert_eq!(mix.take(2, busy(0, 0.25)), [busy(0, 0.75)]);
        assert_eq!(mix.take(2, LoadEvent::Done(Vec::new())), [busy(1, 0.875)]);
        assert_eq!(mix.take(0, busy(2, 0.5)), []);
        assert_eq!(mix.take(1, LoadEvent::Done(Vec::new())), [busy(2, 0.5)]);
        assert_eq!(mix.take(0, busy(3, 0.9)), [busy(3, 0.9)]);
    }

    #[test]
    fn the_first_failure_is_told_and_only_at_the_end() {
        let mut mix = Mix::of(3);
        assert_eq!(mix.take(0, failed("no broker")), []);
        assert_eq!(mix.take(1, LoadEvent::Done(Vec::new())), []);
        assert_eq!(mix.take(2, failed("later")), []);
        assert_eq!(mix.end(), failed("no broker"));
    }
}
