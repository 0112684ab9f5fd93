//! What a load of jobs finds: the times of each kind, and how equal its users' times were.

use hdrhistogram::Histogram;
use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::LoadJob;
use tilemark_load::figures::histogram;
use tilemark_plan::workload::{JobKind, JobTimes, JobsFigures};

/// Jobs that each user needs before its pace means something.
const JOBS_OF_USER_MIN: u64 = 20;
/// A day: no load lasts longer.
const LONGEST_US: u64 = 86_400_000_000;
/// Jobs that must be beyond a percentile.
const BEYOND: f64 = 20.0;

/// Watches all users' jobs. Those count that end within the measured time.
pub(super) struct Watch {
    warmup: Duration,
    length: Duration,
    origin: OnceLock<Instant>,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    kinds: BTreeMap<JobKind, OfKind>,
    users: BTreeMap<u32, BTreeMap<JobKind, Done>>,
}

struct OfKind {
    /// In microseconds.
    times: Histogram<u64>,
    not_right: u64,
}

/// Jobs of one kind that a user has done.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    jobs: u64,
    seconds: f64,
}

/// One job as it ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) user: u32,
    pub(super) kind: JobKind,
    pub(super) took: Duration,
    pub(super) is_right: bool,
}

impl Watch {
    /// Of users with the numbers below `users`: one who never ends a job is among them.
    pub(super) fn of(job: &LoadJob, users: u32) -> Self {
        let (warmup, length) = (job.warmup.get(), job.length.get());
        let users = (0..users).map(|number| (number, BTreeMap::new())).collect();
        let tally = Mutex::new(Tally { users, ..Tally::default() });
        Self { warmup, length, origin: OnceLock::new(), tally }
    }

    /// All times count from here.
    pub(super) fn begin(&self, origin: Instant) {
        // A load begins once.
        let _ = self.origin.set(origin);
    }

    /// Takes a job that ended now.
    pub(super) fn take(&self, now: Instant, ended: Ended) {
        let since = self.origin.get().and_then(|origin| now.checked_duration_since(*origin));
        let is_measured =
            since.is_some_and(|since| since >= self.warmup && since < self.warmup + self.length);
        if is_measured {
            self.tally.lock().unwrap_or_else(PoisonError::into_inner).take(ended);
        }
    }

    /// What was found. The rates and the guest's name are added where they are known.
    pub(super) fn figures(&self) -> JobsFigures {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).figures()
    }
}

impl Tally {
    fn take(&mut self, Ended { user, kind, took, is_right }: Ended) {
        let of_kind = self.kinds.entry(kind).or_insert_with(|| OfKind { times: histogram(), not_right: 0 });
        if !is_right {
            of_kind.not_right += 1;
            return;
        }
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).min(LONGEST_US);
        of_kind.times.record(us).expect("it grows up to the longest time");
        let done = self.users.entry(user).or_default().entry(kind).or_default();
        done.jobs += 1;
        done.seconds += took.as_secs_f64();
    }

    fn figures(&self) -> JobsFigures {
        let kinds = self.kinds.iter().map(|(kind, of_kind)| (*kind, of_kind.times()));
        let users: Vec<&BTreeMap<JobKind, Done>> = self.users.values().collect();
        JobsFigures { jti: jti(&users), kinds: kinds.collect(), ..JobsFigures::default() }
    }
}

impl OfKind {
    fn times(&self) -> JobTimes {
        let count = self.times.len();
        let at = |fraction: f64| {
            let is_admissible = count as f64 * (1.0 - fraction) >= BEYOND - 1e-9;
            is_admissible.then(|| self.times.value_at_quantile(fraction) as f64 / 1e3)
        };
        JobTimes {
            count,
            not_right: self.not_right,
            mean_ms: (count > 0).then(|| self.times.mean() / 1e3),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
        }
    }
}

/// How equal users' times were: 1 less the deviation of their times over the mean of their times, at least 0. So does AIM7 (reaim's
/// `src/driver.c`, there in percent), whose users all do the same list once. Ours are cut off in the middle of a list, with other
/// jobs done by each: so a user's time is that of its jobs over the time that such jobs took on average over all users. Where users
/// have done the same jobs, this is the same figure.
fn jti(users: &[&BTreeMap<JobKind, Done>]) -> Option<f64> {
    let mut all: BTreeMap<JobKind, Done> = BTreeMap::new();
    for (kind, done) in users.iter().flat_map(|user| user.iter()) {
        let sum = all.entry(*kind).or_default();
        sum.jobs += done.jobs;
        sum.seconds += done.seconds;
    }
    let time = |user: &&BTreeMap<JobKind, Done>| {
        let jobs: u64 = user.values().map(|done| done.jobs).sum();
        let took: f64 = user.values().map(|done| done.seconds).sum();
        let mean = |kind: &JobKind| all[kind].seconds / all[kind].jobs as f64;
        let usual: f64 = user.iter().map(|(kind, done)| mean(kind) * done.jobs as f64).sum();
        (jobs >= JOBS_OF_USER_MIN && usual > 0.0).then_some(took / usual)
    };
    let times: Vec<f64> = users.iter().map(time).collect::<Option<_>>()?;
    if times.len() < 2 {
        return None;
    }
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    Some((1.0 - (squares / (count - 1.0)).sqrt() / mean).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_units::Span;

    fn user(jobs: &[(JobKind, u64, f64)]) -> BTreeMap<JobKind, Done> {
        jobs.iter()
            .map(|(kind, jobs, each)| (*kind, Done { jobs: *jobs, seconds: each * *jobs as f64 }))
            .collect()
    }

    fn jti_of(users: &[BTreeMap<JobKind, Done>]) -> Option<f64> {
        jti(&users.iter().collect::<Vec<_>>()).map(|jti| (jti * 1e6).round() / 1e6)
    }

    const SORT: JobKind = JobKind::Sort;
    const READ: JobKind = JobKind::Read;

    #[test]
    fn equal_users_have_an_index_of_1_and_others_that_of_their_deviation() {
        let one = user(&[(SORT, 20, 0.01), (READ, 20, 0.03)]);
        assert_eq!(jti_of(&[one.clone(), one.clone()]), Some(1.0));
        // Times of 8, 10 and 12 s for the same list: a mean of 10 and a deviation of 2.
        let list = |seconds: f64| user(&[(SORT, 50, seconds / 100.0), (READ, 50, seconds / 100.0)]);
        assert_eq!(jti_of(&[list(8.0), list(10.0), list(12.0)]), Some(0.8));
        // Deviations of more than the mean.
        let times = [0.1, 0.1, 0.1, 0.1, 10.0].map(list);
        assert_eq!(jti_of(&times), Some(0.0));
    }

    #[test]
    fn users_who_were_cut_off_at_other_jobs_are_as_equal_as_their_pace() {
        let (many_sorts, many_reads) =
            (user(&[(SORT, 40, 0.01), (READ, 10, 0.03)]), user(&[(SORT, 10, 0.01), (READ, 40, 0.03)]));
        assert_eq!(jti_of(&[many_sorts, many_reads]), Some(1.0));
    }

    #[test]
    fn one_user_and_users_with_too_few_jobs_have_no_index() {
        let enough = user(&[(SORT, 20, 0.01)]);
        assert_eq!(jti_of(&[]), None);
        assert_eq!(jti_of(std::slice::from_ref(&enough)), None);
        assert_eq!(jti_of(&[enough, user(&[(SORT, 19, 0.01)])]), None);
    }

    #[test]
    fn jobs_count_that_end_within_the_measured_time_with_the_percentiles_that_their_number_allows() {
        let job = LoadJob {
            streams: Vec::new(),
            processors: Vec::new(),
            warmup: Span::from_seconds(1),
            length: Span::from_seconds(2),
        };
        let (watch, origin) = (Watch::of(&job, 2), Instant::now());
        let ended = |is_right| Ended { user: 0, kind: SORT, took: Duration::from_millis(30), is_right };
        watch.take(origin, ended(true));
        watch.begin(origin);
        for ms in [0, 999, 3_000] {
            watch.take(origin + Duration::from_millis(ms), ended(true));
        }
        assert_eq!(watch.figures(), JobsFigures::default());
        for number in 0..40 {
            watch.take(origin + Duration::from_millis(1_000 + 49 * number), ended(true));
        }
        watch.take(origin + Duration::from_millis(2_999), ended(false));
        let times = watch.figures().kinds[&SORT];
        assert_eq!((times.count, times.not_right), (40, 1));
        assert!((times.mean_ms.unwrap() - 30.0).abs() < 0.1 && times.p50_ms.is_some(), "{times:?}");
        assert_eq!(times.p90_ms, None, "200 are needed");
    }
}
