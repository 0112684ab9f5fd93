//! The records of one segment, past whatever is damaged, and what is missing among them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::damage::JournalDamage;
use super::record::{Counts, Found, HEADER_BYTES, Record, SegmentHeader, read};

/// Which batches of a segment must be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// All: the same broker has written a later segment.
    All,
    /// All but the last one, which the end of the broker may have torn.
    AllButTheLast,
}

#[derive(Debug, Default)]
struct Batch {
    found: Counts,
    announced: Option<Counts>,
}

/// A segment that is being read.
#[derive(Debug)]
pub(super) struct Segment<'a> {
    bytes: &'a [u8],
    header: SegmentHeader,
    at: usize,
    /// By their number in the segment, from 1.
    batches: BTreeMap<u32, Batch>,
    last_batch: u32,
    /// What cannot be read, and the last batch that was seen before it.
    gaps: Vec<(u32, Range<usize>)>,
}

impl<'a> Segment<'a> {
    pub(super) fn new(bytes: &'a [u8], header: SegmentHeader) -> Self {
        let at = HEADER_BYTES.min(bytes.len());
        Self { bytes, header, at, batches: BTreeMap::new(), last_batch: 0, gaps: Vec::new() }
    }

    /// The next record that can be read.
    pub(super) fn next_record(&mut self) -> Option<Record<'a>> {
        while self.at < self.bytes.len() {
            let rest: &'a [u8] = &self.bytes[self.at..];
            match read(rest, self.header) {
                Found::Record(record, batch, length) => {
                    self.at += length;
                    self.last_batch = self.last_batch.max(batch);
                    let entry = self.batches.entry(batch).or_default();
                    record.count(&mut entry.found);
                    if let Record::Batch(counts) = &record {
                        entry.announced = Some(*counts);
                    }
                    return Some(record);
                }
                Found::Damaged(batch, length) => {
                    self.last_batch = self.last_batch.max(batch);
                    self.pass_over(length);
                }
                // The head is damaged, too: searches for the next one, octet by octet. Each takes the same short time.
                Found::Nothing => self.pass_over(1),
            }
        }
        None
    }

    fn pass_over(&mut self, length: usize) {
        let end = self.at + length;
        match self.gaps.last_mut() {
            Some((_, gap)) if gap.end == self.at => gap.end = end,
            _ => self.gaps.push((self.last_batch, self.at..end)),
        }
        self.at = end;
    }

    /// Adds what is missing of batches that were whole once to `damage`. Returns the bytes of the last batch, which
    /// its writer never heard to be stored.
    pub(super) fn judge(self, number: u64, whole: Whole, damage: &mut JournalDamage) -> u64 {
        let surely_whole = match whole {
            Whole::All => self.last_batch,
            Whole::AllButTheLast => self.last_batch.saturating_sub(1),
        };
        let mut is_damaged = false;
        for batch in 1..=surely_whole {
            let found = self.batches.get(&batch);
            let counts = found.map_or_else(Counts::default, |batch| batch.found);
            match found.and_then(|batch| batch.announced) {
                Some(announced) if announced == counts => continue,
                Some(announced) => damage.add_missing(announced, counts),
                None => damage.batches_of_unknown_size += 1,
            }
            is_damaged = true;
        }
        let (mut damaged, mut torn) = (0, 0);
        for (batch, gap) in &self.gaps {
            let is_of_whole = *batch <= surely_whole && is_damaged || whole == Whole::All;
            *(if is_of_whole { &mut damaged } else { &mut torn }) += gap.len() as u64;
        }
        // Behind the last batch that can be read there may have been others.
        let is_cut =
            whole == Whole::All && self.gaps.last().is_some_and(|(_, gap)| gap.end == self.bytes.len());
        if is_cut && !is_damaged {
            damage.batches_of_unknown_size += 1;
        }
        if is_damaged || is_cut {
            damage.add_segment(number, damaged);
        }
        torn
    }
}
