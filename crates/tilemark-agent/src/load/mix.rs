//! What several engines tell at the same time, told as one load.

use std::collections::BTreeMap;
use tilemark_agent_protocol::{LoadEvent, Sender, StreamTotal};

/// Engines that work at the same time, heard one event after the other.
pub(super) struct Mix {
    engines: usize,
    started: Vec<Sender>,
    busy: BTreeMap<u32, Vec<f64>>,
    totals: Vec<StreamTotal>,
    failed: Option<LoadEvent>,
}

impl Mix {
    pub(super) const fn of(engines: usize) -> Self {
        Self { engines, started: Vec::new(), busy: BTreeMap::new(), totals: Vec::new(), failed: None }
    }

    /// What to tell because of one engine's event: a start when all have started, how busy a second was when
    /// all have said so, the seconds as they come, and the end not at all.
    pub(super) fn take(&mut self, event: LoadEvent) -> Option<LoadEvent> {
        match event {
            LoadEvent::Started(sender) => {
                self.started.push(sender);
                (self.started.len() == self.engines).then(|| LoadEvent::Started(together(&self.started)))
            }
            LoadEvent::Busy { second, fraction } => {
                let told = self.busy.entry(second).or_default();
                told.push(fraction);
                // Their threads may share processors: a processor is as busy as all of them make it.
                let fraction = told.iter().sum::<f64>().min(1.0);
                (told.len() == self.engines).then_some(LoadEvent::Busy { second, fraction })
            }
            LoadEvent::Done(totals) => {
                self.totals.extend(totals);
                None
            }
            failed @ LoadEvent::Failed { .. } => {
                // The first is the one to tell: others follow from it.
                self.failed.get_or_insert(failed);
                None
            }
            told @ (LoadEvent::Second(_) | LoadEvent::Output { .. }) => Some(told),
        }
    }

    /// The last event.
    pub(super) fn end(self) -> LoadEvent {
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

    #[test]
    fn it_starts_when_all_have_started_and_got_no_more_than_the_worst() {
        let mut mix = Mix::of(2);
        assert_eq!(mix.take(LoadEvent::Started(sender(true))), None);
        let all = Sender { workers: 4, ..sender(false) };
        assert_eq!(mix.take(LoadEvent::Started(sender(false))), Some(LoadEvent::Started(all)));
    }

    #[test]
    fn a_second_is_as_busy_as_all_make_it() {
        let mut mix = Mix::of(2);
        assert_eq!(mix.take(LoadEvent::Busy { second: 3, fraction: 0.25 }), None);
        assert_eq!(mix.take(LoadEvent::Busy { second: 4, fraction: 0.1 }), None);
        let busy = mix.take(LoadEvent::Busy { second: 3, fraction: 0.5 });
        assert_eq!(busy, Some(LoadEvent::Busy { second: 3, fraction: 0.75 }));
    }

    #[test]
    fn the_first_failure_is_told_and_only_at_the_end() {
        let mut mix = Mix::of(2);
        assert_eq!(mix.take(failed("no broker")), None);
        assert_eq!(mix.take(LoadEvent::Done(Vec::new())), None);
        assert_eq!(mix.take(failed("later")), None);
        assert_eq!(mix.end(), failed("no broker"));
    }
}
