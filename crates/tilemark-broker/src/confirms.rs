//! Publisher confirms of one channel, answered in order and in ranges.

use std::collections::VecDeque;

/// What a publish waits for before it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Confirmed once the journal has stored everything up to this point; 0 needs nothing.
    Stored(u64),
    /// Refused.
    Refused,
}

/// Neighbouring publishes with the same verdict.
#[derive(Clone, Copy, Debug)]
struct Run {
    last_tag: u64,
    verdict: Verdict,
}

/// One `basic.ack` or `basic.nack` to send, for all tags up to `up_to` that are still open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) up_to: u64,
    /// More than one tag.
    pub(crate) multiple: bool,
    pub(crate) accepted: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Confirms {
    issued: u64,
    answered: u64,
    runs: VecDeque<Run>,
}

impl Confirms {
    /// Notes the next publish.
    #[inline]
    pub(crate) fn publish(&mut self, verdict: Verdict) {
        self.issued += 1;
        if let Some(last) = self.runs.back_mut() {
            let joined = match (last.verdict, verdict) {
                // Both wait for the journal, or for nothing: the later need covers the earlier one, at no cost worth
                // naming when they are of the same batch.
                (Verdict::Stored(old), Verdict::Stored(new)) => old == new || new == 0,
                (old, new) => old == new,
            };
            if joined {
                last.last_tag = self.issued;
                return;
            }
        }
        self.runs.push_back(Run { last_tag: self.issued, verdict });
    }

    /// Whether anything waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.runs.is_empty()
    }

    /// The next answer that can be given when the journal has stored everything up to `stored`.
    pub(crate) fn answer(&mut self, stored: u64) -> Option<Answer> {
        let first = *self.runs.front()?;
        let accepted = match first.verdict {
            Verdict::Stored(needed) if needed > stored => return None,
            Verdict::Stored(_) => true,
            Verdict::Refused => false,
        };
        let mut up_to = 0;
        while let Some(run) = self.runs.front() {
            let same = match run.verdict {
                Verdict::Stored(needed) => accepted && needed <= stored,
                Verdict::Refused => !accepted,
            };
            if !same {
                break;
            }
            up_to = run.last_tag;
            self.runs.pop_front();
        }
        let multiple = up_to - self.answered > 1;
        self.answered = up_to;
        Some(Answer { up_to, multiple, accepted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_no_journal_is_confirmed_in_one_range() {
        let mut confirms = Confirms::default();
        for _ in 0..1000 {
            confirms.publish(Verdict::Stored(0));
        }
        assert_eq!(confirms.answer(0), Some(Answer { up_to: 1000, multiple: true, accepted: true }));
        assert_eq!(confirms.answer(0), None);
    }

    #[test]
    fn nothing_is_confirmed_before_it_is_stored() {
        let mut confirms = Confirms::default();
        confirms.publish(Verdict::Stored(10));
        confirms.publish(Verdict::Stored(20));
        confirms.publish(Verdict::Stored(0));
        confirms.publish(Verdict::Refused);
        confirms.publish(Verdict::Stored(20));
        assert_eq!(confirms.answer(9), None);
        assert_eq!(confirms.answer(19), Some(Answer { up_to: 1, multiple: false, accepted: true }));
        assert_eq!(confirms.answer(19), None);
        assert_eq!(confirms.answer(20), Some(Answer { up_to: 3, multiple: true, accepted: true }));
        assert_eq!(confirms.answer(20), Some(Answer { up_to: 4, multiple: false, accepted: false }));
        assert_eq!(confirms.answer(20), Some(Answer { up_to: 5, multiple: false, accepted: true }));
        assert!(!confirms.is_waiting());
    }
}
