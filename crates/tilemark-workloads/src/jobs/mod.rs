//! A mix of small jobs: each user is a thread that draws them without replacement, and checks every result.

mod kernels;

use crate::engine::{LoadFailure, only_stream};
use kernels::BadJob;
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use std::{fs, io, path::PathBuf};
use tempfile::TempDir;
use tilemark_agent_protocol::{LoadEvent, LoadJob, StreamTotal};
use tilemark_load::{Operation, Performed, Start, Stop, Verdict, run_blocking};
use tilemark_plan::workload::{JobKind, JobsParameters, Work};

/// The engine of `jobs`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let stream = only_stream(job)?;
    let Work::Jobs(parameters) = &stream.work else { return Err(LoadFailure::stray(stream)) };
    // Gone when all users have ended.
    let folder = tempfile::Builder::new().prefix("tilemark-jobs-").tempdir().map_err(no_folder)?;
    let users = (0..parameters.users).map(|number| User::boxed(parameters, stream.seed, number, &folder));
    let users = users.collect::<io::Result<_>>().map_err(no_folder)?;
    run_blocking(job, stream, users, stop, start, events)
        .map_err(|error| LoadFailure::new(&error, error.remedy()))
}

fn no_folder(error: io::Error) -> LoadFailure {
    LoadFailure::new(&error, "give the guest more memory: the files of its jobs are in it")
}

/// A user with its list of jobs.
struct User {
    round: Vec<JobKind>,
    /// What is left of the round, the next one last.
    left: Vec<JobKind>,
    scale: u32,
    random: ChaCha8Rng,
    folder: PathBuf,
}

impl User {
    fn boxed(
        parameters: &JobsParameters,
        seed: u64,
        number: u32,
        folder: &TempDir,
    ) -> io::Result<Box<dyn Operation>> {
        let folder = folder.path().join(number.to_string());
        fs::create_dir(&folder)?;
        Ok(Box::new(Self::new(parameters, seed, number, folder)))
    }

    fn new(parameters: &JobsParameters, seed: u64, number: u32, folder: PathBuf) -> Self {
        let jobs = parameters.round().into_iter();
        let round = jobs.flat_map(|(kind, count)| std::iter::repeat_n(kind, count as usize)).collect();
        // Each user draws in an order of its own.
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number.into());
        Self { round, left: Vec::new(), scale: parameters.scale, random, folder }
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
    fn perform(&mut self) -> Performed {
        let done = self.draw().map_or(Ok(()), |kind| kernels::run(kind, self.scale, &self.folder));
        let (verdict, trouble) = match done {
            Ok(()) => (Verdict::Right, None),
            Err(BadJob::Failed(error)) => (Verdict::Failed, Some(error.to_string())),
            Err(BadJob::Wrong(what)) => (Verdict::Wrong, Some(what)),
        };
        Performed { verdict, bytes: 0, trouble }
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

    fn drawn(user: &mut User, count: usize) -> Vec<JobKind> {
        (0..count).filter_map(|_| user.draw()).collect()
    }

    #[test]
    fn each_round_holds_the_whole_mix_in_an_order_of_its_user() {
        let parameters = JobsParameters::default();
        let user = |number| User::new(&parameters, 7, number, PathBuf::new());
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
        let mix = [(JobKind::Read, 1), (JobKind::Write, 1), (JobKind::Linear, 1)].into();
        let work = Work::Jobs(JobsParameters { mix, users: 2, scale: 1 });
        let target = ([127, 0, 0, 1], 0).into();
        let job = LoadJob {
            streams: vec![Stream::new(3, target, Demand::Closed, work)],
            processors: Vec::new(),
            warmup: Span::from_milliseconds(10),
            length: Span::from_seconds(1),
        };
        let stop = Stop::new().unwrap();
        let gathered = Gathered::of(|start, events| run_job(&job, &stop, start, events)).unwrap();
        let counts = gathered.totals[0].counts;
        assert!(counts.completed > 2 && counts.failed + counts.wrong == 0, "{counts:?}");
    }

    #[test]
    fn a_job_that_cannot_be_done_failed_and_one_with_another_result_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let mix = [(JobKind::Read, 1)].into();
        let parameters = JobsParameters { mix, users: 1, scale: 1 };
        let verdict = |folder: PathBuf| User::new(&parameters, 1, 0, folder).perform().verdict;
        assert_eq!(verdict(folder.path().to_owned()), Verdict::Right);
        assert_eq!(verdict(folder.path().join("not there")), Verdict::Failed);
        let file = folder.path().join("read");
        let mut bytes = fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&file, bytes).unwrap();
        assert_eq!(verdict(folder.path().to_owned()), Verdict::Wrong);
    }
}
