//! How large a job of each kind is on this host: measured once, without guests, so that it takes 10 to 100 ms of a processor.

use crate::{
    failure::{Failure, FailureCode},
    pass::{
        load_alone::{End, run_alone},
        load_process::{AgentProcess, LoadPower, load_failed},
    },
    program::Program,
    progress::Listener,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};
use tilemark_agent_protocol::{LoadJob, Stream};
use tilemark_plan::{
    facts::Hardware,
    plan::{Backend, Demand, HostSummary, Plan, Point},
    workload::{Details, JobKind, JobsParameters, Work},
};
use tilemark_sys::files::{read_trusted, replace_private};
use tilemark_units::Span;

/// Long enough for a few jobs of each kind.
const LENGTH: Span = Span::from_seconds(6);

/// The times of jobs of size 1 on a host.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct JobTimesOfHost {
    /// The processor that they are of.
    processor: String,
    /// The kernel that ran.
    kernel: String,
    /// The version of Tilemark: another one may have other jobs.
    tilemark: String,
    /// The set of jobs that was measured. It changes within a version, too.
    #[serde(default)]
    jobs: u32,
    /// Mean times in milliseconds.
    times_ms: BTreeMap<JobKind, f64>,
}

/// Fits the sizes of a plan's jobs to this host. What is not known yet is measured, which takes seconds, and is kept in the cache.
///
/// # Errors
/// Where the jobs cannot be run, or Ctrl-C ends them.
pub(crate) fn fit(
    plan: &mut Plan,
    program: &Program,
    cache: &Path,
    listener: &mut dyn Listener,
) -> Result<(), Failure> {
    let unfitted = unfitted(plan);
    if unfitted.is_empty() {
        return Ok(());
    }
    let mut known = JobTimesOfHost::of(&plan.host, program);
    let file = cache.join("job-times.json");
    known.take_stored(&file);
    if unfitted.iter().any(|kind| !known.times_ms.contains_key(kind)) {
        listener.note("how long each kind of job takes on this host is measured once, for some seconds");
        known.times_ms.extend(measure(program, unfitted)?);
        // Without it, the next run measures again.
        if let Err(error) = fs::create_dir_all(cache).and_then(|()| known.store(&file)) {
            listener.note(&format!("the times of jobs cannot be kept in {}: {error}", file.display()));
        }
    }
    for jobs in jobs_of(plan) {
        jobs.fit(&known.times_ms);
    }
    Ok(())
}

impl JobTimesOfHost {
    fn of(host: &HostSummary, program: &Program) -> Self {
        Self {
            processor: host.processor.clone(),
            kernel: host.kernel.clone(),
            tilemark: program.version.to_owned(),
            jobs: JobKind::SET,
            times_ms: BTreeMap::new(),
        }
    }

    /// Takes what is stored, if it is of such a host. A file that cannot be used is one that is not there.
    fn take_stored(&mut self, file: &Path) {
        let stored = read_trusted(file).ok().and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        let of_such_a_host = |stored: &Self| {
            (&stored.processor, &stored.kernel, &stored.tilemark, stored.jobs)
                == (&self.processor, &self.kernel, &self.tilemark, self.jobs)
        };
        if let Some(stored) = stored.filter(of_such_a_host) {
            self.times_ms = stored.times_ms;
        }
    }

    fn store(&self, file: &Path) -> std::io::Result<()> {
        replace_private(file, &serde_json::to_vec_pretty(self)?)
    }
}

/// The jobs of a plan whose time matters: an emulated guest's, or those of a host that is itself emulated, mean nothing. Those of the
/// scenario are among them, because a search makes further points of it.
fn jobs_of(plan: &mut Plan) -> impl Iterator<Item = &mut JobsParameters> {
    let has_times = |point: &Point| point.backend != Backend::Emulated;
    let is_measured = plan.host.hardware != Hardware::Emulated && plan.points.iter().any(has_times);
    let of_scenario = plan.scenario.load.iter_mut().map(|load| &mut load.work);
    let points = plan.points.iter_mut().filter(move |point| has_times(point));
    let of_points = points.flat_map(|point| &mut point.loads).map(|load| &mut load.work);
    of_scenario.chain(of_points).filter(move |_| is_measured).filter_map(|work| match work {
        Work::Jobs(jobs) => Some(jobs),
        _ => None,
    })
}

/// The kinds that have no size of their own yet.
fn unfitted(plan: &mut Plan) -> Vec<JobKind> {
    let mut kinds: Vec<JobKind> = jobs_of(plan)
        .flat_map(|jobs| jobs.mix.keys().filter(|kind| !jobs.fitted.contains_key(kind)))
        .copied()
        .collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Mean times of jobs of size 1, one after the other, in milliseconds.
fn measure(program: &Program, kinds: Vec<JobKind>) -> Result<BTreeMap<JobKind, f64>, Failure> {
    let jobs = JobsParameters {
        mix: kinds.into_iter().map(|kind| (kind, 1)).collect(),
        ..JobsParameters::default()
    };
    // Nothing is sent: jobs run in the process itself.
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let job = LoadJob {
        streams: vec![Stream::new(0, nowhere, Demand::Closed, Work::Jobs(jobs))],
        processors: Vec::new(),
        warmup: Span::from_seconds(1),
        length: LENGTH,
    };
    // A disk's own time is no processor's.
    let process =
        AgentProcess::start_in(program.agent, &folder_in_memory(), LoadPower::All).map_err(load_failed)?;
    let (reports, end) = run_alone(process, &job)?;
    if end == End::Interrupted {
        let message = "ended before the first guest was started";
        return Err(Failure::new(FailureCode::Interrupted, message, "nothing to do: nothing was begun"));
    }
    let Some(Details::Jobs(found)) = reports.details(0) else {
        return Err(load_failed("it reported no times of jobs"));
    };
    Ok(found.kinds.iter().filter_map(|(kind, times)| Some((*kind, times.mean_ms?))).collect())
}

fn folder_in_memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Progress;
    use tilemark_fixtures::{host, plan, request};
    use tilemark_units::Bytes;

    /// No agent: whatever must be measured fails.
    const PROGRAM: Program = Program { agent: b"no program", version: "1.2.3" };

    struct Notes(Vec<String>);

    impl Listener for Notes {
        fn progress(&mut self, _: &Progress) {}
        fn note(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
    }

    fn plan_on(backend: Backend) -> Plan {
        let scenario = "schema = 1\nname = \"j\"\nabout = \"j\"\nheadline = \"j\"\n[[guest]]\nname = \"g\"\nrole = \"compute\"\n\
             [[load]]\nname = \"j\"\nguest = \"g\"\nloop = \"closed\"\n[load.jobs]\nmix = { sort = 1, text = 1 }\n\
             fitted = { text = 700 }\n[ladder]\ntiles = [1, 2]\n";
        plan(scenario, &request(&[backend]), &host(4, Bytes::from_gib(8)))
    }

    fn store(cache: &Path, kernel: &str) {
        store_times(cache, |known| known.kernel = kernel.to_owned());
    }

    fn store_times(cache: &Path, change: impl Fn(&mut JobTimesOfHost)) {
        let known = JobTimesOfHost::of(&plan_on(Backend::Native).host, &PROGRAM);
        let times_ms = [(JobKind::Sort, 3.0), (JobKind::Text, 3.0)].into();
        let mut stored = JobTimesOfHost { times_ms, ..known };
        change(&mut stored);
        stored.store(&cache.join("job-times.json")).unwrap();
    }

    fn fitted(plan: &mut Plan) -> Vec<BTreeMap<JobKind, u32>> {
        jobs_of(plan).map(|jobs| jobs.fitted.clone()).collect()
    }

    #[test]
    fn jobs_are_fitted_by_the_times_of_this_host_and_a_size_that_is_given_stays() {
        let cache = tempfile::tempdir().unwrap();
        let mut plan = plan_on(Backend::Native);
        plan.host.hardware = Hardware::Virtual;
        store(cache.path(), &plan.host.kernel);
        let mut notes = Notes(Vec::new());
        fit(&mut plan, &PROGRAM, cache.path(), &mut notes).unwrap();
        let sizes = BTreeMap::from([(JobKind::Sort, 10_000), (JobKind::Text, 700)]);
        assert_eq!(fitted(&mut plan), vec![sizes; 1 + 3], "the scenario, one tile, and two");
        let of_search = plan.point_at(&plan.points[0], 9, 4);
        assert_eq!(of_search.loads[0].work, plan.points[0].loads[0].work, "a search measures the same jobs");
        assert_eq!(notes.0, Vec::<String>::new(), "nothing was measured");
    }

    #[test]
    fn times_of_another_kernel_or_of_a_damaged_file_are_measured_again() {
        let cache = tempfile::tempdir().unwrap();
        let file = cache.path().join("job-times.json");
        store(cache.path(), "another");
        for damaged in [false, true] {
            if damaged {
                fs::write(&file, "{").unwrap();
            }
            let mut notes = Notes(Vec::new());
            let failed = fit(&mut plan_on(Backend::Native), &PROGRAM, cache.path(), &mut notes).unwrap_err();
            assert_eq!((failed.code, notes.0.len()), (FailureCode::HostUnfit, 1), "{failed:?}");
        }
    }

    #[test]
    fn times_of_another_set_of_jobs_are_measured_again() {
        let cache = tempfile::tempdir().unwrap();
        let stored = |change: fn(&mut JobTimesOfHost)| {
            store_times(cache.path(), change);
            let mut plan = plan_on(Backend::Native);
            plan.host.hardware = Hardware::Virtual;
            fit(&mut plan, &PROGRAM, cache.path(), &mut Notes(Vec::new())).is_ok()
        };
        assert!(stored(|_| ()));
        assert!(!stored(|times| times.jobs -= 1));
        // A file of a program that did not count them.
        let file = cache.path().join("job-times.json");
        store_times(cache.path(), |_| ());
        let text = fs::read_to_string(&file).unwrap().replace("\"jobs\": 2,", "");
        fs::write(&file, &text).unwrap();
        let mut known = JobTimesOfHost::of(&plan_on(Backend::Native).host, &PROGRAM);
        known.take_stored(&file);
        assert_eq!((known.times_ms.len(), text.contains("jobs\"")), (0, false));
    }

    #[test]
    fn where_times_mean_nothing_none_is_measured() {
        let cache = tempfile::tempdir().unwrap();
        let mut on_emulated_host = plan_on(Backend::Native);
        on_emulated_host.host.hardware = Hardware::Emulated;
        for mut plan in [plan_on(Backend::Emulated), on_emulated_host] {
            fit(&mut plan, &PROGRAM, cache.path(), &mut Notes(Vec::new())).unwrap();
        }
        assert!(!cache.path().join("job-times.json").exists());
    }
}
