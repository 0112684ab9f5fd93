//! The engine's part of a run: the pipeline in the real world.

use crate::{
    failure::Failure,
    job::{JobDone, RunDone, RunJob},
    link::CommandLink,
    pipeline::Pipeline,
    program::Program,
    state::StateFolder,
    stop::StopSignal,
    world::{Folders, RealWorld},
};
use std::time::{Duration, Instant};
use tilemark_record::RunDirectory;

/// Measures a plan.
pub(crate) fn run(
    program: &Program,
    job: &RunJob,
    link: &CommandLink,
    stop: &StopSignal,
) -> Result<JobDone, Failure> {
    crate::memory_limit::limit_for(&job.plan);
    let record = RunDirectory::at(&job.record);
    let folders = Folders {
        state: job.state.clone(),
        cache: job.cache.clone(),
        image: job.image.clone(),
        consoles: job.record.join("guests"),
    };
    let cgroup = StateFolder::at(&job.state).under_way().ok().and_then(|under_way| under_way.cgroup);
    let world = RealWorld::new(program, folders, cgroup)?;
    let events = record.events()?;
    let repeats = if job.continues { record.summaries()? } else { Vec::new() };
    let before = repeats.len();
    let mut pipeline = Pipeline {
        world: &world,
        plan: job.plan.clone(),
        record,
        events,
        link,
        stop,
        continued_after: job.continues.then_some(before),
        repeats,
        began: Instant::now(),
        expected_done: 0.0,
        on_templates: Duration::ZERO,
    };
    let failed = match pipeline.run() {
        Err(failure) if pipeline.repeats.len() == before => return Err(failure),
        ended => ended.err(),
    };
    let mut reasons = Vec::new();
    // Hours of whole repeats are not lost to a guest that failed at last.
    reasons.extend(
        failed.iter().map(|failure| format!("it ended before its plan was done: {}", failure.message)),
    );
    if job.not_alone {
        reasons.push("it was measured beside other work on this host, as was asked".to_owned());
    }
    let (qemu, hashes) = (world.qemu_version(), world.qemu_hashes()?);
    Ok(JobDone::Run(RunDone { qemu, hashes, reasons, unequal: world.unequal(), failed }))
}
