//! Hosts that fail where others of their group do not. A failure may be quick, so no time shows it.

use super::read::{HostRecord, StepKey};
use super::sentence::{hosts as count_of, names};

/// How the hosts of a group do at a step.
pub(super) struct Failures<'r> {
    /// What failed on each, in the order of the records; `None` where nothing did, and where its answer does not count.
    pub(super) failed: Vec<Option<&'r str>>,
    /// Hosts whose answer counts and that did not fail.
    sound: usize,
    /// Hosts that hold.
    hold: usize,
}

impl<'r> Failures<'r> {
    pub(super) fn at(key: &StepKey, records: &[&'r HostRecord]) -> Self {
        let failed = |record: &&'r HostRecord| record.counting_step(key)?.failed.as_deref();
        let failed: Vec<Option<&str>> = records.iter().map(failed).collect();
        let counting = records.iter().filter(|record| record.counting_step(key).is_some()).count();
        Self {
            sound: counting - failed.iter().flatten().count(),
            hold: records.iter().filter(|record| record.holds(key)).count(),
            failed,
        }
    }

    /// Whether the host at this place of the records failed.
    pub(super) fn has_failed(&self, place: Option<usize>) -> bool {
        place.is_some_and(|place| self.failed[place].is_some())
    }

    /// Whether more than half of all hosts hold: one that fails is out of line then.
    pub(super) fn most_hold(&self) -> bool {
        2 * self.hold > self.failed.len()
    }

    /// Whether some hosts fail and others do not.
    pub(super) fn are_of_some(&self) -> bool {
        self.sound > 0 && self.failed.iter().any(Option::is_some)
    }

    /// `All 10 hosts fail at 4 tiles on kvm`, where none that counts does not
    pub(super) fn words_of_all(&self, key: &StepKey) -> Option<String> {
        let fail = self.failed.iter().flatten().count();
        (self.sound == 0 && fail > 1).then(|| format!("All {} fail {}", count_of(fail), key.words()))
    }

    /// `where most hold`
    pub(super) fn beside(&self) -> &'static str {
        match (self.most_hold(), self.hold) {
            (true, _) => "where most hold",
            (false, 0) => "and others do not",
            (false, _) => "where others hold",
        }
    }

    /// `5 of 10 hosts fail at 4 tiles on kvm where others hold: h1, h2, h3, h4, h5`
    pub(super) fn words(&self, key: &StepKey, hosts: &[String]) -> String {
        let failed: Vec<(&str, &str)> = hosts
            .iter()
            .zip(&self.failed)
            .filter_map(|(name, failed)| Some((name.as_str(), (*failed)?)))
            .collect();
        match &failed[..] {
            [(name, what)] => format!("{name} fails {} {}: {what}", key.words(), self.beside()),
            _ => format!(
                "{} of {} fail {} {}: {}",
                failed.len(),
                count_of(hosts.len()),
                key.words(),
                self.beside(),
                names(failed.iter().map(|(name, _)| *name))
            ),
        }
    }
}
