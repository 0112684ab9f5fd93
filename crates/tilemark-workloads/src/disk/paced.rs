//! Requests to the data disks at a rate: an open loop, measured from each request's intended start.
//!
//! fio has no open loop: it counts from submission and so leaves out how long a request waited for its turn,
//! and between requests it spins for as long as its first sleeps took, which on a busy guest is most of
//! the time. It does what it is made for, the disk flat out.

use super::{Target, job::block_size};
use crate::WorkloadError;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use rustix::fs::{Mode, OFlags, open};
use std::{
    fs::File,
    io::{self, Seek, SeekFrom},
    os::unix::fs::FileExt,
    sync::Arc,
};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Stream, StreamTotal};
use tilemark_load::{Operation, OperationResult, Start, Stop, Verdict, run_blocking};
use tilemark_plan::workload::DiskParameters;

/// What direct input and output needs of an address in memory, on any disk.
const ALIGNMENT: usize = 4096;

/// Does an open loop on the targets.
pub(super) fn run(
    job: &LoadJob,
    stream: &Stream,
    parameters: &DiskParameters,
    targets: &[Target],
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, WorkloadError> {
    let block = block_size(parameters)?;
    let disks: Vec<Disk> =
        targets.iter().map(|target| Disk::open(target, block)).collect::<Result<_, _>>()?;
    let disks = Arc::new(disks);
    // Depth is for each disk. A request goes to any disk, so all of them together have one limit.
    let in_flight = parameters.in_flight_on(targets.len());
    if !(1..=DiskParameters::IN_FLIGHT_MAX).contains(&in_flight) {
        return Err(WorkloadError::BadDisk { what: "depth, over all its disks", value: in_flight });
    }
    let request = |slot| -> Box<dyn Operation> {
        Box::new(Request {
            disks: Arc::clone(&disks),
            reads: parameters.reads.get(),
            random: ChaCha8Rng::seed_from_u64(stream.seed.wrapping_add(slot)),
            buffer: Aligned::filled(block, stream.seed),
        })
    };
    let requests = (1..=in_flight).map(request).collect();
    run_blocking(job, stream, requests, stop, start, events).map_err(WorkloadError::Load)
}

/// An open data disk.
struct Disk {
    file: File,
    blocks: u64,
}

impl Disk {
    fn open(target: &Target, block: usize) -> Result<Self, WorkloadError> {
        let unusable = |source| WorkloadError::File { path: target.path.clone(), source };
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC;
        let file = open(&target.path, flags, Mode::empty()).map_err(|error| unusable(error.into()))?;
        let mut file = File::from(file);
        let size = match target.size {
            Some(size) => size.get(),
            None => file.seek(SeekFrom::End(0)).map_err(unusable)?,
        };
        let blocks = size / block as u64;
        if blocks == 0 {
            return Err(WorkloadError::BadDisk { what: "size in bytes", value: size });
        }
        Ok(Self { file, blocks })
    }
}

/// One place for a request in flight.
struct Request {
    disks: Arc<Vec<Disk>>,
    reads: f64,
    random: ChaCha8Rng,
    buffer: Aligned,
}

impl Request {
    fn once(&mut self) -> io::Result<()> {
        let disk = &self.disks[self.random.next_u64() as usize % self.disks.len()];
        let block = self.buffer.length as u64;
        let offset = self.random.next_u64() % disk.blocks * block;
        // 32 bits are finer than any share that a scenario states; all of them lie below 2^32.
        if f64::from(self.random.next_u32()) < self.reads * (u64::from(u32::MAX) + 1) as f64 {
            disk.file.read_exact_at(self.buffer.bytes_mut(), offset)
        } else {
            disk.file.write_all_at(self.buffer.bytes(), offset)
        }
    }
}

impl Operation for Request {
    fn run_once(&mut self) -> OperationResult {
        match self.once() {
            Ok(()) => {
                OperationResult { verdict: Verdict::Right, bytes: self.buffer.length as u64, trouble: None }
            }
            Err(error) => {
                OperationResult { verdict: Verdict::Failed, bytes: 0, trouble: Some(error.to_string()) }
            }
        }
    }
}

/// Bytes at an address that direct input and output takes.
struct Aligned {
    memory: Vec<u8>,
    begin: usize,
    length: usize,
}

impl Aligned {
    /// Random bytes: a disk that compresses or finds zeros must not be faster than with users' data.
    fn filled(length: usize, seed: u64) -> Self {
        let mut memory = vec![0; length + ALIGNMENT];
        let begin = memory.as_ptr().align_offset(ALIGNMENT);
        ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut memory[begin..begin + length]);
        Self { memory, begin, length }
    }
    fn bytes(&self) -> &[u8] {
        &self.memory[self.begin..self.begin + self.length]
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.begin..self.begin + self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_as_direct_input_and_output_needs() {
        for length in [512, 4096, 8192] {
            let buffer = Aligned::filled(length, 1);
            assert_eq!((buffer.bytes().as_ptr() as usize % ALIGNMENT, buffer.bytes().len()), (0, length));
            assert!(buffer.bytes().iter().any(|byte| *byte != 0));
        }
    }
}
