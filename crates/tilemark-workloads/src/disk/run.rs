//! The disk load: flat out or at a rate.

use super::{Target, child, data_disks, paced};
use crate::WorkloadError;
use tilemark_agent_protocol::{LoadEvent, LoadJob, Stream, StreamWork};
use tilemark_load::Stop;
use tilemark_plan::plan::Demand;

/// Does the job's disk stream on the guest's data disks. The last event is `Done`; an error is not told.
pub fn run(job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) -> Result<(), WorkloadError> {
    let disks = job.streams.iter().find_map(|stream| match &stream.work {
        StreamWork::Disk(disk) => Some(disk.disks),
        _ => None,
    });
    run_on(job, &data_disks(disks.unwrap_or(0))?, stop, events)
}

/// [`run`] on other targets than the data disks.
pub fn run_on(
    job: &LoadJob,
    targets: &[Target],
    stop: &Stop,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<(), WorkloadError> {
    let (stream, disk) = match &job.streams[..] {
        [stream @ Stream { work: StreamWork::Disk(disk), .. }] => (stream, disk),
        _ => return Err(WorkloadError::NoDisk),
    };
    match stream.demand {
        Demand::Open { .. } if !disk.parameters.saturate => {
            paced::run(job, stream, disk, targets, stop, events)
        }
        Demand::Open { .. } | Demand::Closed => child::run(job, stream, disk, targets, stop, events),
    }
}
