//! A mix of small jobs: each user is a thread that draws them without replacement, and checks every result.

mod calls;
mod figures;
mod files;
mod kernels;

use crate::engine::{LoadFailure, only_stream};
use figures::{Ended, Watch};
use files::UserFiles;
use kernels::BadJob;
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use tempfile::TempDir;
use tilemark_agent_protocol::{LoadEvent, LoadJob, StreamTotal};
use tilemark_load::{LoadError, Operation, OperationResult, Start, Stop, Verdict, run_blocking};
use tilemark_plan::workload::{Details, JobKind, JobsParameters, Work};

/// Where the first data disk of a guest with jobs is mounted.
pub const DISK: &str = "/srv/tilemark/data";

/// The engine of `jobs`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let has_disk = only_stream(job)?.disks > 0;
    let folder = if has_disk { PathBuf::from(DISK) } else { std::env::temp_dir() };
    run_in(&folder, job, stop, start, events)
}

/// Does the job's only stream with its files below a folder.
fn run_in(
    folder: &Path,
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let stream = only_stream(job)?;
    let Work::Jobs(parameters) = &*stream.work else { return Err(LoadFailure::stray(stream)) };
    // Gone when all users have ended.
    let folder = tempfile::Builder::new().prefix("tilemark-jobs-").tempdir_in(folder).map_err(no_folder)?;
    let watch = Arc::new(Watch::of(job, parameters.users));
    let users =
        (0..parameters.users).map(|number| User::boxed(parameters, stream.seed, number, &folder, &watch));
    let users = users.collect::<io::Result<_>>().map_err(no_folder)?;
    let mut observed = |sender| {
        let origin = start(sender);
        origin.into_iter().for_each(|origin| watch.begin(origin));
        origin
    };
    let totals = run_blocking(job, stream, users, stop, &mut observed, events)
        .map_err(LoadFailure::with(LoadError::remedy))?;
    if !totals.is_empty() {
        let details = Box::new(Details::Jobs(watch.figures()));
        events(LoadEvent::Details { id: stream.id, details });
    }
    Ok(totals)
}

fn no_folder(error: io::Error) -> LoadFailure {
    LoadFailure::new(&error, "give the guest a disk for the files of its jobs, or more memory")
}

/// A user with its list of jobs.
struct User {
    round: Vec<JobKind>,
    /// What is left of the round, the next one last.
    left: Vec<JobKind>,
    number: u32,
    parameters: JobsParameters,
    random: ChaCha8Rng,
    files: UserFiles,
    watch: Arc<Watch>,
}

impl User {
    fn boxed(
        parameters: &JobsParameters,
        seed: u64,
        number: u32,
        folder: &TempDir,
        watch: &Arc<Watch>,
    ) -> io::Result<Box<dyn Operation>> {
        let folder = folder.path().join(number.to_string());
        fs::create_dir(&folder)?;
        Ok(Box::new(Self::new(parameters, seed, number, folder, Arc::clone(watch))))
    }

    fn new(parameters: &JobsParameters, seed: u64, number: u32, folder: PathBuf, watch: Arc<Watch>) -> Self {
        let jobs = parameters.round().into_iter();
        let round = jobs.flat_map(|(kind, count)| std::iter::repeat_n(kind, count as usize)).collect();
        // Each user draws in an order of its own.
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number.into());
        let files = UserFiles { folder, bytes: parameters.file.get() as usize };
        Self { round, left: Vec::new(), number, parameters: parameters.clone(), random, files, watch }
    }

    /// The next job of the round; of a new one where all are done.
    fn draw(&mut self) -> Option<JobKind> {
        if self.left.is_empty() {
            self.left.clone_from(&self.round);
            self.left.shuffle(&mut self.random);
        }
        self.left.pop()
    }
}

impl Operation for User {
    fn run_once(&mut self) -> OperationResult {
        let Some(kind) = self.draw() else {
            return OperationResult { verdict: Verdict::Right, bytes: 0, trouble: None };
        };
        let began = Instant::now();
        let done = kernels::run(kind, self.parameters.size_of(kind), &self.files);
        let now = Instant::now();
        let (took, is_right) = (now - began, done.is_ok());
        self.watch.take(now, Ended { user: self.number, kind, took, is_right });
        let (verdict, trouble) = match done {
            Ok(()) => (Verdict::Right, None),
            Err(BadJob::Failed(error)) => (Verdict::Failed, Some(format!("job `{}`: {error}", kind.name()))),
            Err(BadJob::Wrong(what)) => (Verdict::Wrong, Some(format!("job `{}`: {what}", kind.name()))),
        };
        OperationResult { verdict, bytes: 0, trouble }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tilemark_agent_protocol::Stream;
    use tilemark_load::figures::Gathered;
    use tilemark_plan::plan::Demand;
    use tilemark_units::Span;

    fn job(work: Work) -> LoadJob {
        let target = ([127, 0, 0, 1], 0).into();
        LoadJob {
            streams: vec![Stream::new(3, target, Demand::Closed, work)],
            processors: Vec::new(),
            warmup: Span::from_milliseconds(10),
            length: Span::from_seconds(1),
        }
    }

    fn watch() -> Arc<Watch> {
        Arc::new(Watch::of(&job(Work::Jobs(JobsParameters::default())), 1))
    }

    fn drawn(user: &mut User, count: usize) -> Vec<JobKind> {
        (0..count).filter_map(|_| user.draw()).collect()
    }

    #[test]
    fn each_round_holds_the_whole_mix_in_an_order_of_its_user() {
        let parameters = JobsParameters::default();
        let user = |number| User::new(&parameters, 7, number, PathBuf::new(), watch());
        let (mut first, mut second) = (user(0), user(1));
        let rounds = [drawn(&mut first, 82), drawn(&mut first, 82), drawn(&mut second, 82)];
        assert!(rounds[0] != rounds[1] && rounds[0] != rounds[2], "each is shuffled anew");
        for round in &rounds {
            let mut counts = BTreeMap::new();
            round.iter().for_each(|kind| *counts.entry(*kind).or_insert(0) += 1);
            assert_eq!(counts.into_iter().collect::<Vec<_>>(), parameters.round());
        }
        assert_eq!(drawn(&mut user(0), 82), rounds[0], "the seed decides");
    }

    #[test]
    fn users_run_jobs_which_are_all_right_and_leave_no_file() {
        let mix = [(JobKind::Read, 1), (JobKind::SyncWrite, 1), (JobKind::Linear, 1)].into();
        let job = job(Work::Jobs(JobsParameters { mix, users: 2, ..JobsParameters::default() }));
        let (stop, folder) = (Stop::new().unwrap(), tempfile::tempdir().unwrap());
        let gathered =
            Gathered::of(|start, events| run_in(folder.path(), &job, &stop, start, events)).unwrap();
        let total = &gathered.totals[0];
        let counts = total.counts;
        assert!(counts.completed > 0 && counts.failed + counts.wrong == 0, "{counts:?}");
        let Details::Jobs(jobs) = &gathered.details[&3] else { panic!("{:?}", gathered.details) };
        let of_kinds: u64 = jobs.kinds.values().map(|kind| kind.count).sum();
        // A job may end between two looks at the clock.
        assert!(of_kinds.abs_diff(total.completed_in_time) <= 2, "{jobs:?}: {total:?}");
        assert!(
            jobs.kinds.keys().all(|kind| [JobKind::Read, JobKind::SyncWrite, JobKind::Linear].contains(kind))
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "its folder is gone");
    }

    #[test]
    fn a_job_that_cannot_be_done_failed_and_one_with_another_result_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let mix = [(JobKind::Read, 1)].into();
        let parameters = JobsParameters { mix, ..JobsParameters::default() };
        let verdict = |folder: PathBuf| User::new(&parameters, 1, 0, folder, watch()).run_once().verdict;
        assert_eq!(verdict(folder.path().to_owned()), Verdict::Right);
        assert_eq!(verdict(folder.path().join("not there")), Verdict::Failed);
        let file = folder.path().join("read");
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        assert_eq!(verdict(folder.path().to_owned()), Verdict::Wrong);
    }
}
