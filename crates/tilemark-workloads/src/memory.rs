//! Blocks of memory, copied by threads of the agent and checked page by page.

use crate::engine::{LoadFailure, only_stream};
use std::hint::black_box;
use tilemark_agent_protocol::{LoadEvent, LoadJob, StreamTotal};
use tilemark_load::{LoadError, Operation, OperationResult, Start, Stop, Verdict, run_blocking};
use tilemark_plan::workload::{MemoryParameters, Work};

const PAGE: usize = 4096;
const STAMP: usize = size_of::<u64>();

/// The engine of `memory`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let stream = only_stream(job)?;
    let Work::Memory(parameters) = &*stream.work else { return Err(LoadFailure::stray(stream)) };
    let copies = (0..parameters.threads).map(|_| Copy::boxed(parameters)).collect();
    run_blocking(job, stream, copies, stop, start, events).map_err(LoadFailure::with(LoadError::remedy))
}

/// The two arrays of a thread.
struct Copy {
    source: Vec<u8>,
    target: Vec<u8>,
    block: usize,
    /// Where the next block begins.
    at: usize,
    /// The number of the next block: its pages carry it.
    number: u64,
}

impl Copy {
    fn boxed(parameters: &MemoryParameters) -> Box<dyn Operation> {
        let (block, array) = (parameters.block.get() as usize, parameters.array.get() as usize);
        // Whole blocks, and every page written: memory that was never written is one page of zeros.
        let length = array / block * block;
        Box::new(Self { source: vec![1; length], target: vec![2; length], block, at: 0, number: 1 })
    }

    /// How many pages of the copy are not what they were copied from.
    fn copy_next(&mut self) -> usize {
        let place = self.at..self.at + self.block;
        let (source, target) = (&mut self.source[place.clone()], &mut self.target[place]);
        let stamp = self.number.to_ne_bytes();
        source.chunks_exact_mut(PAGE).for_each(|page| page[..STAMP].copy_from_slice(&stamp));
        black_box(&mut *target).copy_from_slice(black_box(source));
        let is_wrong = |page: &&[u8]| page[..STAMP] != stamp || page[PAGE - 1] != 1;
        let wrong = target.chunks_exact(PAGE).filter(is_wrong).count();
        self.at = (self.at + self.block) % self.source.len();
        self.number += 1;
        wrong
    }
}

impl Operation for Copy {
    fn run_once(&mut self) -> OperationResult {
        let bytes = self.block as u64;
        match self.copy_next() {
            0 => OperationResult { verdict: Verdict::Right, bytes, trouble: None },
            wrong => {
                let trouble = format!("{wrong} pages of a copy are not what was copied");
                OperationResult { verdict: Verdict::Wrong, bytes, trouble: Some(trouble) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_agent_protocol::Stream;
    use tilemark_load::figures::Gathered;
    use tilemark_plan::plan::Demand;
    use tilemark_units::{Bytes, Span};

    fn small() -> MemoryParameters {
        MemoryParameters { array: Bytes::from_kib(40), block: Bytes::from_kib(16), threads: 2 }
    }

    #[test]
    fn blocks_are_copied_and_counted_with_their_bytes() {
        let target = ([127, 0, 0, 1], 0).into();
        let job = LoadJob {
            streams: vec![Stream::new(3, target, Demand::Closed, Work::Memory(small()))],
            processors: Vec::new(),
            warmup: Span::from_milliseconds(10),
            length: Span::from_seconds(1),
        };
        let stop = Stop::new().unwrap();
        let gathered = Gathered::of(|start, events| run_job(&job, &stop, start, events)).unwrap();
        let counts = gathered.totals[0].counts;
        assert!(counts.completed > 2 && counts.failed + counts.wrong == 0, "{counts:?}");
        assert_eq!(counts.bytes, counts.completed * 16 * 1024);
        let nothing = LoadJob { streams: Vec::new(), ..job };
        assert!(Gathered::of(|start, events| run_job(&nothing, &stop, start, events)).is_err());
    }

    #[test]
    fn a_page_that_is_not_what_was_copied_is_wrong() {
        let mut copy =
            Copy { source: vec![1; 2 * PAGE], target: vec![2; 2 * PAGE], block: PAGE, at: 0, number: 1 };
        assert_eq!([copy.copy_next(), copy.copy_next()], [0, 0]);
        assert_eq!((copy.at, copy.number), (0, 3), "it begins again");
        // The end of a page in the source has changed: it is copied as it is, and is not what it must be.
        copy.source[PAGE - 1] = 7;
        assert_eq!([copy.copy_next(), copy.copy_next()], [1, 0]);
    }
}
