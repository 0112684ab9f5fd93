//! What a load of jobs finds: the times of each kind, and how equal its users' times were.

use hdrhistogram::Histogram;
use std::{
    collections::{BTreeMap, BTreeSet},
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
    users: BTreeMap<u32, Jobs>,
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
        let users: Vec<&Jobs> = self.users.values().collect();
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

/// The jobs that one user has done.
type Jobs = BTreeMap<JobKind, Done>;

/// How equal users' times were: 1 less the deviation of their times over the mean of their times, at least 0. So does AIM7 (reaim's
/// `src/driver.c`, there in percent), whose users all do the same list once. Ours are cut off in the middle of a list, with other
/// jobs done by each: so a user's time is its [pace](paces). Where users have done the same jobs, this is the same figure.
fn jti(users: &[&Jobs]) -> Option<f64> {
    let shared = shared(users);
    let has_enough = |user: &Jobs| user.values().map(|done| done.jobs).sum::<u64>() >= JOBS_OF_USER_MIN;
    if shared.len() < 2 || !shared.iter().all(has_enough) || !are_comparable(&shared) {
        return None;
    }
    let times = paces(&shared)?;
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    Some((1.0 - (squares / (count - 1.0)).sqrt() / mean).max(0.0))
}

/// The jobs of kinds that at least two users have done. Of another kind only its one user knows how long a job takes, so it shows nothing.
fn shared(users: &[&Jobs]) -> Vec<Jobs> {
    let is_shared = |kind: &JobKind| users.iter().filter(|user| user.contains_key(kind)).count() > 1;
    let of_user = |user: &&Jobs| {
        user.iter().filter(|(kind, _)| is_shared(kind)).map(|(kind, done)| (*kind, *done)).collect()
    };
    users.iter().map(of_user).collect()
}

/// Whether each user is joined to the first one by kinds that both have done, directly or through others.
fn are_comparable(users: &[Jobs]) -> bool {
    let mut kinds: BTreeSet<JobKind> = users.iter().take(1).flat_map(Jobs::keys).copied().collect();
    loop {
        let joined = users.iter().filter(|user| user.keys().any(|kind| kinds.contains(kind)));
        let more: BTreeSet<JobKind> = joined.flat_map(Jobs::keys).copied().collect();
        if more.len() == kinds.len() {
            return users.iter().all(|user| user.keys().any(|kind| kinds.contains(kind)));
        }
        kinds = more;
    }
}

/// Paces and times are fitted in turn until they change by less than this part, and at most in so many rounds.
const SETTLED: f64 = 1e-9;
const ROUNDS_MAX: usize = 1_000;

/// How many times as long each user's jobs took as such jobs take: a job takes the time of its kind times the pace of its user. What a kind takes
/// is of all users at their paces. A plain mean of each kind would be nearer to a user, the larger its own part of that kind.
fn paces(users: &[Jobs]) -> Option<Vec<f64>> {
    let mut paces = vec![1.0; users.len()];
    for _ in 0..ROUNDS_MAX {
        let kinds = times_of_kinds(users, &paces);
        let pace = |user: &Jobs| {
            let took: f64 = user.values().map(|done| done.seconds).sum();
            let usual: f64 = user.iter().map(|(kind, done)| kinds[kind] * done.jobs as f64).sum();
            Some(took / usual).filter(|pace| pace.is_finite() && *pace > 0.0)
        };
        let next: Vec<f64> = users.iter().map(pace).collect::<Option<_>>()?;
        let is_settled = next.iter().zip(&paces).all(|(next, pace)| (next / pace - 1.0).abs() < SETTLED);
        paces = next;
        if is_settled {
            break;
        }
    }
    Some(paces)
}

/// The time of a job of each kind at a pace of 1.
fn times_of_kinds(users: &[Jobs], paces: &[f64]) -> BTreeMap<JobKind, f64> {
    let mut kinds: BTreeMap<JobKind, [f64; 2]> = BTreeMap::new();
    for (user, pace) in users.iter().zip(paces) {
        for (kind, done) in user {
            let [seconds, jobs] = kinds.entry(*kind).or_default();
            *seconds += done.seconds;
            *jobs += done.jobs as f64 * pace;
        }
    }
    kinds.into_iter().map(|(kind, [seconds, jobs])| (kind, seconds / jobs)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_units::Span;

    fn user(jobs: &[(JobKind, u64, f64)]) -> Jobs {
        jobs.iter()
            .map(|(kind, jobs, each)| (*kind, Done { jobs: *jobs, seconds: each * *jobs as f64 }))
            .collect()
    }

    fn jti_of(users: &[Jobs]) -> Option<f64> {
        jti(&users.iter().collect::<Vec<_>>()).map(|jti| (jti * 1e6).round() / 1e6)
    }

    const SORT: JobKind = JobKind::Sort;
    const READ: JobKind = JobKind::Read;
    const FLOAT: JobKind = JobKind::Float;

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
    fn a_user_is_not_its_own_measure_of_jobs_that_others_did_not_do_or_did_less() {
        // One is twice as slow in all that it does: paces of 4/3 and 2/3, a mean of 1 and a deviation of 0.471.
        let twice_as_slow = Some(0.528_595);
        let slow = user(&[(SORT, 40, 0.02), (READ, 20, 0.06)]);
        let quick = user(&[(READ, 20, 0.03), (FLOAT, 40, 0.05)]);
        assert_eq!(jti_of(&[slow, quick]), twice_as_slow, "one kind each is its own");
        let (slow, quick) =
            (user(&[(SORT, 40, 0.02), (READ, 4, 0.06)]), user(&[(SORT, 4, 0.01), (READ, 40, 0.03)]));
        assert_eq!(jti_of(&[slow, quick]), twice_as_slow, "most of a kind is of one user");
    }

    #[test]
    fn users_whom_no_kind_joins_have_no_index() {
        let pair = |kind| [user(&[(kind, 20, 0.01)]), user(&[(kind, 20, 0.02)])];
        let [[a, b], [c, d]] = [pair(SORT), pair(READ)];
        assert_eq!(jti_of(&[a.clone(), b.clone(), c.clone(), d.clone()]), None);
        let joins = user(&[(SORT, 20, 0.01), (READ, 20, 0.01)]);
        assert!(jti_of(&[a.clone(), b.clone(), c, d, joins]).is_some());
        // 20 jobs of kinds that others did are needed.
        let own = user(&[(SORT, 19, 0.01), (READ, 40, 0.01)]);
        assert_eq!(jti_of(&[a, b, own]), None);
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
