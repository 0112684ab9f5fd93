//! The engine's part of a run: the pipeline in the real world.

use crate::{
    Program,
    engine::{Teller, Wishes},
    job::{JobDone, RunDone, RunJob},
    measure::record_failed,
    pipeline::Pipeline,
    state::StateFolder,
    wire::Failure,
    world::{Folders, RealWorld},
};
use std::time::{Duration, Instant};
use tilemark_record::RunDirectory;

/// Measures a plan.
pub(crate) fn run(
    program: &Program,
    job: &RunJob,
    teller: &Teller,
    wishes: &Wishes,
) -> Result<JobDone, Failure> {
    let record = RunDirectory::at(&job.record);
    let folders = Folders {
        state: job.state.clone(),
        cache: job.cache.clone(),
        image: job.image.clone(),
        consoles: job.record.join("guests"),
    };
    let cgroup = StateFolder::at(&job.state).under_way().ok().and_then(|under_way| under_way.cgroup);
    let world = RealWorld::new(program, folders, cgroup)?;
    let events = record.events().map_err(record_failed)?;
    let repeats = if job.continues { record.summaries().map_err(record_failed)? } else { Vec::new() };
    let mut pipeline = Pipeline {
        world: &world,
        plan: job.plan.clone(),
        record,
        events,
        teller,
        wishes,
        continued_after: job.continues.then_some(repeats.len()),
        repeats,
        began: Instant::now(),
        expected_done: 0.0,
        on_templates: Duration::ZERO,
    };
    pipeline.run()?;
    let mut reasons = Vec::new();
    if job.not_alone {
        reasons.push("it was measured beside other work on this host, as was asked".to_owned());
    }
    let (qemu, hashes) = (world.qemu_version(), world.qemu_hashes()?);
    Ok(JobDone::Run(RunDone { qemu, hashes, reasons, unequal: world.unequal() }))
}
