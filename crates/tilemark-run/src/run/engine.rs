//! The engine's part of a run: the pipeline in the real world.

use crate::{
    clients::{
        Brought,
        reach::{self, Clients},
    },
    failure::Failure,
    job::keeper::host_proc,
    job::messages::CommandLink,
    job::state_folder::StateFolder,
    job::types::{JobDone, RunDone, RunJob},
    memory_limit::limit_for,
    pass::hooks::HookRunner,
    pass::real_world::{Folders, RealWorld},
    pass::world::World,
    program::Program,
    run::pipeline::{BusyHost, Pipeline},
    stop::StopSignal,
};
use tilemark_record::RunDirectory;

/// Measures a plan.
pub(crate) fn run(
    program: &Program,
    job: &RunJob,
    link: &CommandLink,
    stop: &StopSignal,
) -> Result<JobDone, Failure> {
    limit_for(&job.plan);
    let record = RunDirectory::at(&job.record);
    let folders = Folders {
        state: job.state.clone(),
        cache: job.cache.clone(),
        image: job.image.clone(),
        consoles: job.record.join("guests"),
    };
    let cgroup = StateFolder::at(&job.state).under_way().ok().and_then(|under_way| under_way.cgroup);
    let hooks = HookRunner::of(&job.hooks, cgroup.as_deref(), &job.record)?;
    let clients = job.site.as_ref().map(|site| {
        let keeper = StateFolder::at(&job.state).keeper();
        let network = keeper.map(|keeper| host_proc().join(keeper.to_string()).join("ns/net"));
        let lifetime = reach::lifetime(&job.plan, job.wait_quiet);
        let brought = Brought { agent: program.agent, lifetime, network, temporary: Some(folders.memory()) };
        let too_old = reach::too_old(&job.plan, lifetime);
        Clients::of(site.clients.clone(), brought, job.plan.seed, too_old)
    });
    let world = RealWorld::new(program, folders, cgroup, job.plan.host.own_bridge.as_ref())?
        .with_hooks(hooks)
        .with_clients(clients);
    // Before any guest is started: a client that cannot be reached ends the run now.
    world.clients().map_or(Ok(()), Clients::reach)?;
    let before = job.continues.then(|| record.summaries()).transpose()?;
    let mut pipeline = Pipeline::new(&world, job.plan.clone(), record, link, stop, before)?;
    pipeline.busy_host = BusyHost { goes_on: job.beside_others, wait: job.wait_quiet };
    let failed = match pipeline.run() {
        Err(failure) if !pipeline.has_measured() => return Err(failure),
        ended => ended.err(),
    };
    let mut reasons = Vec::new();
    // Hours of whole repeats are not lost to a guest that failed at last.
    reasons.extend(
        failed.iter().map(|failure| format!("it ended before its plan was done: {}", failure.message)),
    );
    if job.beside_others {
        reasons.push("it was measured beside other work on this host, as was asked".to_owned());
    }
    let (qemu, hashes) = (world.qemu_version(), world.qemu_hashes()?);
    let changed_by_others = std::mem::take(&mut pipeline.changed_by_others);
    let kernels = std::mem::take(&mut pipeline.kernels);
    let unequal = world.unequal();
    Ok(JobDone::Run(RunDone { qemu, hashes, reasons, kernels, unequal, changed_by_others, failed }))
}
