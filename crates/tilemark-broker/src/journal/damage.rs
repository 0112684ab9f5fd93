//! What a journal has lost.

use std::fmt;

use super::record::Counts;

/// What a journal held once, confirmed perhaps, and what cannot be read any more. What the end of a broker has torn, and
/// was confirmed to nobody, does not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalDamage {
    /// Messages that are gone.
    pub messages: u64,
    /// Acknowledgements that are gone: their messages come back.
    pub acknowledgements: u64,
    /// Queues, exchanges and bindings, and their deletions.
    pub definitions: u64,
    /// Batches of records of which it is not known how many they had.
    pub batches_of_unknown_size: u64,
    /// Whole files that are missing between others.
    pub missing_segments: u64,
    /// Bytes that cannot be read.
    pub bytes: u64,
    /// Numbers of the files that are damaged, in ascending order.
    pub segments: Vec<u64>,
}

impl JournalDamage {
    pub(super) fn add_missing(&mut self, announced: Counts, found: Counts) {
        let missing = |announced: u32, found: u32| u64::from(announced.saturating_sub(found));
        self.messages += missing(announced.messages, found.messages);
        self.acknowledgements += missing(announced.settlements, found.settlements);
        self.definitions += missing(announced.others, found.others);
    }

    pub(super) fn add_segment(&mut self, number: u64, bytes: u64) {
        self.bytes += bytes;
        self.segments.push(number);
    }

    pub(super) fn unreadable_segment(&mut self, number: u64, bytes: u64) {
        self.batches_of_unknown_size += 1;
        self.add_segment(number, bytes);
    }
}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let segments: Vec<String> = self.segments.iter().map(ToString::to_string).collect();
        if !segments.is_empty() {
            write!(f, "{} bytes cannot be read in segments {}; ", self.bytes, segments.join(", "))?;
        }
        if self.missing_segments > 0 {
            write!(f, "{} segments are missing; ", self.missing_segments)?;
        }
        let least = if self.batches_of_unknown_size + self.missing_segments > 0 { "at least " } else { "" };
        write!(
            f,
            "lost: {least}{} messages, {least}{} acknowledgements (their messages come back), \
             {least}{} definitions of queues, exchanges and bindings",
            self.messages, self.acknowledgements, self.definitions
        )
    }
}
