//! The disk load: flat out or at a rate.

use super::{Target, child, data_disks, paced};
use crate::{WorkloadError, engine::LoadFailure};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Stream};
use tilemark_load::Stop;
use tilemark_plan::{plan::Demand, workload::Work};

/// The engine of `disk`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<(), LoadFailure> {
    let disks = job.streams.first().map_or(0, |stream| stream.disks);
    data_disks(disks)
        .and_then(|targets| run_on(job, &targets, stop, events))
        .map_err(|error| LoadFailure::new(&error, error.remedy()))
}

/// Does the job's only stream on these targets. The last event is `Done`; an error is returned and not reported as an event.
pub fn run_on(
    job: &LoadJob,
    targets: &[Target],
    stop: &Stop,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<(), WorkloadError> {
    let (stream, parameters) = match &job.streams[..] {
        [stream @ Stream { work: Work::Disk(parameters), .. }] => (stream, parameters),
        _ => return Err(WorkloadError::NoDisk),
    };
    match stream.demand {
        Demand::Open { .. } if !parameters.saturate => {
            paced::run(job, stream, parameters, targets, stop, events)
        }
        Demand::Open { .. } | Demand::Closed => child::run(job, stream, parameters, targets, stop, events),
    }
}
