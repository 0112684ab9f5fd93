//! The disk load: flat out or at a rate.

use super::{Target, child, data_disks, paced};
use crate::{
    WorkloadError,
    engine::{LoadFailure, only_stream},
};
use tilemark_agent_protocol::{LoadEvent, LoadJob, StreamTotal};
use tilemark_load::{Start, Stop};
use tilemark_plan::{plan::Demand, workload::Work};

/// The engine of `disk`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    data_disks(only_stream(job)?.disks)
        .and_then(|targets| run_on(job, &targets, stop, start, events))
        .map_err(LoadFailure::with(WorkloadError::remedy))
}

/// Does the job's only stream on these targets.
pub fn run_on(
    job: &LoadJob,
    targets: &[Target],
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, WorkloadError> {
    let [stream] = &job.streams[..] else { return Err(WorkloadError::NoDisk) };
    let Work::Disk(parameters) = &*stream.work else { return Err(WorkloadError::NoDisk) };
    match stream.demand {
        Demand::Open { .. } if !parameters.saturate => {
            paced::run(job, stream, parameters, targets, stop, start, events)
        }
        Demand::Open { .. } | Demand::Closed => {
            child::run(job, stream, parameters, targets, stop, start, events)
        }
    }
}
