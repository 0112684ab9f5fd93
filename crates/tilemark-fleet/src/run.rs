//! A fleet run: each host is submitted to once, waited for and collected from, beside the others.
//!
//! ```text
//! waiting ──> submitting ──> submitted ──> over        each step is in fleet.json before the next one is taken
//!                 └── found again: the engine and the host are asked whether they have it
//! ```

use crate::{
    carrier::{CarrierError, Question, SILENT_AT_MOST, STATUS, WAIT, ask},
    collect::{AttemptState, CollectError, attempts, collect},
    end::{End, HostEnd},
    error::FleetError,
    folder::{Fleet, FleetFolder, FleetLock, Step},
    job::job,
    open_files,
    slurm::{self, Job, Queue, Stage, job_name},
};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tilemark_site::{Host, Site, SiteEngine};

/// How long a host is asked to wait before it answers that it still measures: a login each time costs it more than the waiting.
const HELD_S: u64 = 120;
/// How long an answer may take in addition.
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
const BETWEEN_TRIES: Duration = Duration::from_secs(2);
/// So long a job is not reported as never started: its engine or host may not have shown it yet.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);
/// What `sbatch` says where it does not know whether its job was taken (errors of Slurm's communication, slurm_errno.c).
const NO_ANSWER_IN_TIME: [&str; 2] = ["timed out", "Zero Bytes were transmitted"];

/// How a fleet run is watched.
#[derive(Debug, Clone, Copy, Default)]
pub struct Watch {
    /// Return when all is submitted.
    pub detach: bool,
    /// Return after this time; what is not done by then goes on without. A host that has to wait for its turn is not submitted any more.
    pub at_most: Option<Duration>,
    /// From now on at most so many hosts measure at the same time; none: as the fleet run has it.
    pub at_once: Option<usize>,
}

/// Submits what is not submitted, waits for what is under way, and collects it. Begun again it goes on from where it was.
///
/// # Errors
/// When the fleet's folder cannot be read or written, or another command works on it; when hosts are to measure in turn and nobody would
/// wait for that; and when this machine may not open files enough. What goes wrong on a host is its end.
pub fn run(folder: &FleetFolder, watch: Watch, note: &(dyn Fn(&str) + Sync)) -> Result<(), FleetError> {
    let lock = folder.lock()?;
    let mut fleet = folder.read()?;
    if watch.at_once.is_some() && watch.at_once != fleet.at_once {
        fleet.at_once = watch.at_once;
        folder.write(&fleet)?;
    }
    let at_once = fleet.at_once.unwrap_or(usize::MAX).clamp(1, fleet.hosts.len().max(1));
    let left = left(&fleet);
    let is_in_turn = at_once < left.len();
    if is_in_turn && watch.detach {
        return Err(FleetError::NobodyWaits { id: fleet.id, at_once });
    }
    open_files::suffice_for(at_once.min(left.len()))?;
    let runner = Runner {
        queue: Queue::new(&fleet.id, fleet.hosts.iter().map(|host| host.name.as_str())),
        site: fleet.site.clone(),
        until: watch.at_most.map(|at_most| Instant::now() + at_most),
        detach: watch.detach,
        is_in_turn,
        folder,
        fleet: Mutex::new(fleet),
        note,
        _lock: lock,
    };
    let left = Mutex::new(left);
    thread::scope(|scope| {
        let work = || -> Result<(), FleetError> {
            let mut is_first = true;
            while let Some(host) = { locked(&left).pop_front() } {
                // A worker that waits no longer has left a host that may measure: its turn is not over.
                if is_first || !runner.is_too_late_for(&host) {
                    runner.host(&host)?;
                }
                is_first = false;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}

/// Hosts whose work is not over, those first that may have it already: while they measure, others wait for their turn.
fn left(fleet: &Fleet) -> VecDeque<Host> {
    let mut left: Vec<Host> =
        order(fleet).into_iter().filter(|host| step(fleet, host) != Step::Over).collect();
    left.sort_by_key(|host| step(fleet, host) == Step::Waiting);
    left.into()
}

/// Hosts in an order of the fleet's seed.
fn order(fleet: &Fleet) -> Vec<Host> {
    let mut hosts = fleet.site.hosts.clone();
    hosts.sort_by_key(|host| {
        tilemark_units::Sha256Hash::of(format!("{} {}", fleet.seed, host.name).as_bytes()).to_string()
    });
    hosts
}

fn step(fleet: &Fleet, host: &Host) -> Step {
    fleet.hosts.iter().find(|work| work.name == host.name).map_or(Step::Over, |work| work.step)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Runner<'a> {
    folder: &'a FleetFolder,
    fleet: Mutex<Fleet>,
    site: Site,
    queue: Queue,
    until: Option<Instant>,
    detach: bool,
    /// Whether hosts wait for each other.
    is_in_turn: bool,
    note: &'a (dyn Fn(&str) + Sync),
    _lock: FleetLock,
}

/// Why a host is waited for no longer.
enum Waited {
    /// Its work is over, or may be.
    Over,
    /// It is given up, and ends so.
    GivenUp(HostEnd),
    /// The time for waiting is over; its work is not.
    TimeUp,
    /// What was seen of it cannot be written down.
    Failed(FleetError),
}

impl Runner<'_> {
    /// Whether a host that has nothing yet is to be left so: another one may still measure in its place.
    fn is_too_late_for(&self, host: &Host) -> bool {
        self.is_in_turn && self.is_time_up() && step(&locked(&self.fleet), host) == Step::Waiting
    }

    fn host(&self, host: &Host) -> Result<(), FleetError> {
        let step = step(&locked(&self.fleet), host);
        if step != Step::Submitted
            && let Some(end) = self.submitted(host, step)?
        {
            return self.over(host, Some(end));
        }
        if self.detach {
            return Ok(());
        }
        match self.wait(host) {
            Waited::TimeUp => Ok(()),
            Waited::Failed(error) => Err(error),
            Waited::GivenUp(end) => {
                self.pass_turn_on(host)?;
                self.over(host, Some(end))
            }
            Waited::Over => self.collected(host),
        }
    }

    /// Lets the next host begin though the work of this one may go on: a host that never answers again would keep all others from their
    /// turns. It is printed, and the verdict says so.
    fn pass_turn_on(&self, host: &Host) -> Result<(), FleetError> {
        if !self.is_in_turn || locked(&self.fleet).hosts.iter().all(|work| work.step != Step::Waiting) {
            return Ok(());
        }
        (self.note)(&format!("{}: its turn passes on, though its work may go on", host.name));
        self.mark(host, |work| work.turn_passed_on = true)
    }

    /// Writes a change of one host.
    fn mark(&self, host: &Host, change: impl FnOnce(&mut crate::folder::HostWork)) -> Result<(), FleetError> {
        let mut fleet = locked(&self.fleet);
        let work = fleet.hosts.iter_mut().find(|work| work.name == host.name);
        change(work.expect("fleet.json has the hosts of its site"));
        self.folder.write(&fleet)
    }

    fn over(&self, host: &Host, end: Option<HostEnd>) -> Result<(), FleetError> {
        // One that only could not be reached may have its work, and is asked for it another time.
        let is_final = end.as_ref().is_none_or(|end| match end.end {
            End::NoAnswer | End::NeverStarted => *end == cancelled(),
            End::Lost => !self.may_begin_again(),
            _ => true,
        });
        self.ended(host, end, is_final)
    }

    /// Slurm puts a job into its queue again whose host is back, where nobody cancelled it.
    fn may_begin_again(&self) -> bool {
        matches!(self.site.engine, SiteEngine::Slurm { .. }) && !self.folder.is_cancelled()
    }

    fn ended(&self, host: &Host, end: Option<HostEnd>, is_final: bool) -> Result<(), FleetError> {
        let words = end.as_ref().map_or_else(|| "collected".to_owned(), |end| end.because.clone());
        (self.note)(&format!("{}: {words}", host.name));
        self.mark(host, |work| {
            work.end = end;
            if is_final {
                work.step = Step::Over;
            }
        })
    }

    /// Submits a host's job, once. Its end, where it could not be submitted.
    fn submitted(&self, host: &Host, step: Step) -> Result<Option<HostEnd>, FleetError> {
        let fleet = locked(&self.fleet).clone();
        if step == Step::Submitting {
            match self.found(host, &fleet.id) {
                Ok(Some(id)) => return self.mark_submitted(host, id).map(|()| None),
                Ok(None) => {}
                Err(why) => return Ok(Some(no_answer(why))),
            }
        }
        self.mark(host, |work| work.step = Step::Submitting)?;
        // Whoever cancels makes the mark first and reads this step then, so one of the two sees the other.
        if self.folder.is_cancelled() {
            return Ok(Some(cancelled()));
        }
        let job = job(&fleet, &host.name);
        let submitted = match &self.site.engine {
            SiteEngine::Slurm { .. } => slurm::submit(&self.site, &fleet.id, &host.name, &job)
                .or_else(|why| self.taken_without_answer(host, &fleet.id, why)),
            SiteEngine::Ssh | SiteEngine::Exec { .. } => self.start(host, &fleet.id, &job),
        };
        match submitted {
            Ok(id) => {
                self.mark_submitted(host, id)?;
                // Whoever cancelled a moment ago did not see this job. Hosts that are reached otherwise have a mark of their own.
                if self.folder.is_cancelled() && matches!(self.site.engine, SiteEngine::Slurm { .. }) {
                    let _ = slurm::end(&fleet.id, &host.name, None);
                }
                Ok(None)
            }
            Err(end) => Ok(Some(end)),
        }
    }

    fn mark_submitted(&self, host: &Host, id: String) -> Result<(), FleetError> {
        (self.note)(&format!(
            "{}: submitted{}",
            host.name,
            if id.is_empty() { String::new() } else { format!(" as job {id}") }
        ));
        let now = tilemark_sys::clock::realtime_ns() / 1_000_000_000;
        self.mark(host, |work| {
            work.step = Step::Submitted;
            work.job = (!id.is_empty()).then_some(id);
            work.submitted_unix_s = Some(now);
            work.end = None;
        })
    }

    /// Whether the engine or the host has a job that may have been submitted before.
    fn found(&self, host: &Host, fleet: &str) -> Result<Option<String>, String> {
        if let SiteEngine::Slurm { .. } = &self.site.engine {
            // A queue that was just given a job shows it at once; the host is asked where the queue has forgotten it.
            if let Some(job) = self.queue.job(&job_name(fleet, &host.name))? {
                return Ok(Some(job.id));
            }
        }
        let question =
            Question { verb: "state", fleet, seconds: 0, attempt: 0, job: "", within: ANSWER_WITHIN };
        let answer = ask(&self.site, host, question)
            .map_err(|error| format!("{error}; {}", error.remedy(&self.site, host)))?;
        Ok((!attempts(&answer.lines).is_empty()).then(String::new))
    }

    /// The job that Slurm took although `sbatch` had no answer in time. The end, where it took none.
    fn taken_without_answer(&self, host: &Host, fleet: &str, why: String) -> Result<String, HostEnd> {
        let refused = |because| HostEnd { end: End::NeverStarted, exit_code: None, because };
        if !NO_ANSWER_IN_TIME.iter().any(|words| why.contains(words)) {
            return Err(refused(why));
        }
        let until = Instant::now() + SETTLES_WITHIN;
        loop {
            // What is known of the queue may be from before.
            thread::sleep(BETWEEN_TRIES);
            match self.queue.job(&job_name(fleet, &host.name)) {
                Ok(Some(job)) => return Ok(job.id),
                Ok(None) if Instant::now() < until => {}
                Ok(None) => return Err(refused(why)),
                Err(silent) => {
                    let remedy = "Slurm may have the job: `tilemark fleet run --resume` asks for it";
                    return Err(no_answer(format!("{why}; {silent}; {remedy}")));
                }
            }
        }
    }

    /// Starts a job that outlives the connection. Asking twice starts it once: the second job finds its attempt taken.
    fn start(&self, host: &Host, fleet: &str, job: &str) -> Result<String, HostEnd> {
        let question = Question { verb: "submit", fleet, seconds: 0, attempt: 0, job, within: ANSWER_WITHIN };
        let since = Instant::now();
        loop {
            match ask(&self.site, host, question) {
                Ok(_) => return Ok(String::new()),
                Err(error) if error.may_pass() && since.elapsed() < self.lost_after() => {
                    thread::sleep(BETWEEN_TRIES)
                }
                Err(error @ (CarrierError::NoSudo | CarrierError::Full(_) | CarrierError::Taken)) => {
                    let because = format!("{error}; {}", error.remedy(&self.site, host));
                    return Err(HostEnd { end: End::Unfit, exit_code: None, because });
                }
                Err(error) => return Err(no_answer(format!("{error}; {}", error.remedy(&self.site, host)))),
            }
        }
    }

    fn lost_after(&self) -> Duration {
        Duration::from_secs(self.site.lost_after_s)
    }

    fn is_time_up(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }

    fn wait(&self, host: &Host) -> Waited {
        match &self.site.engine {
            SiteEngine::Slurm { .. } => self.wait_in_queue(host),
            SiteEngine::Ssh | SiteEngine::Exec { .. } => self.wait_there(host),
        }
    }

    /// Asks the host, which answers when its work is over.
    fn wait_there(&self, host: &Host) -> Waited {
        let fleet = locked(&self.fleet).id.clone();
        let mut silent_since = None;
        loop {
            let left = self.until.map_or(HELD_S, |until| {
                until.saturating_duration_since(Instant::now()).as_secs().min(HELD_S)
            });
            let within = Duration::from_secs(left) + ANSWER_WITHIN;
            let question = Question { verb: WAIT, fleet: &fleet, seconds: left, attempt: 0, job: "", within };
            let asked = Instant::now();
            match ask(&self.site, host, question) {
                Ok(answer) => {
                    silent_since = None;
                    let states = attempts(&answer.lines);
                    if !states.iter().any(|(_, state)| *state == AttemptState::Running) {
                        return Waited::Over;
                    }
                }
                Err(error) => {
                    // It was heard meanwhile.
                    if matches!(error, CarrierError::Silent(_)) && asked.elapsed() > 2 * SILENT_AT_MOST {
                        silent_since = None;
                    }
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    if !error.may_pass() || since.elapsed() >= self.lost_after() {
                        return Waited::GivenUp(no_answer(format!(
                            "{error}; {}",
                            error.remedy(&self.site, host)
                        )));
                    }
                    thread::sleep(BETWEEN_TRIES);
                }
            }
            if self.is_time_up() {
                return Waited::TimeUp;
            }
        }
    }

    /// Looks at the queue until the job has left it.
    fn wait_in_queue(&self, host: &Host) -> Waited {
        let name = job_name(&locked(&self.fleet).id, &host.name);
        let (mut silent_since, mut stuck_since) = (None, None);
        let mut has_run = self.has_run(host);
        let mut printed = None;
        let began = Instant::now();
        loop {
            match self.queue.job(&name) {
                Ok(Some(job)) => {
                    silent_since = None;
                    let stage = job.stage();
                    if stage == Stage::Running && !has_run {
                        has_run = true;
                        // The command may end, and the one that goes on sees only that it is queued again.
                        if let Err(error) = self.mark(host, |work| work.has_run = true) {
                            return Waited::Failed(error);
                        }
                    }
                    self.print_reason(host, &job, &mut printed);
                    match stage {
                        Stage::Over => return Waited::Over,
                        Stage::Running | Stage::Queued => stuck_since = None,
                        Stage::HostGone | Stage::Held => {
                            let since = *stuck_since.get_or_insert_with(Instant::now);
                            if since.elapsed() >= self.lost_after() {
                                let end = if has_run { End::Lost } else { End::NeverStarted };
                                let because = format!("{}; {}", job.words(), job.way_on());
                                return Waited::GivenUp(HostEnd { end, exit_code: None, because });
                            }
                        }
                    }
                }
                // It has been over for so long that Slurm has forgotten it.
                Ok(None) if began.elapsed() > SETTLES_WITHIN => return Waited::Over,
                Ok(None) => {}
                Err(why) => {
                    let since = *silent_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.lost_after() {
                        return Waited::GivenUp(no_answer(why));
                    }
                }
            }
            if self.is_time_up() {
                return Waited::TimeUp;
            }
            thread::sleep(BETWEEN_TRIES);
        }
    }

    /// Whether this command or an earlier one has seen its job running.
    fn has_run(&self, host: &Host) -> bool {
        locked(&self.fleet).hosts.iter().any(|work| work.name == host.name && work.has_run)
    }

    /// Prints why a job waits, once for each kind of waiting.
    fn print_reason(&self, host: &Host, job: &Job, printed: &mut Option<Stage>) {
        let stage = job.stage();
        let waits = matches!(stage, Stage::Queued | Stage::HostGone | Stage::Held);
        // Slurm has looked at a job that has just been submitted only a little later.
        let is_known = stage != Stage::Queued || job.reason != "None";
        if waits && is_known && *printed != Some(stage) {
            (self.note)(&format!("{}: {}", host.name, job.words()));
            *printed = Some(stage);
        }
    }

    /// Takes home what a host has; its end is in its attempts.
    fn collected(&self, host: &Host) -> Result<(), FleetError> {
        let fleet = locked(&self.fleet).clone();
        let since = Instant::now();
        loop {
            match collect(self.folder, &fleet, host) {
                // What is cleaned there is here.
                Ok(found) if found.is_empty() && self.folder.attempts(&host.name).is_empty() => {
                    return self.over(host, Some(self.nothing_there(&fleet, host)));
                }
                Ok(found) => {
                    let is_lost = matches!(found.last(), Some((_, AttemptState::Lost)));
                    let end = still_measures(&found);
                    let is_final = end.is_none() && !(is_lost && self.may_begin_again());
                    if end.is_some() {
                        self.pass_turn_on(host)?;
                    }
                    return self.ended(host, end, is_final);
                }
                Err(CollectError::Fleet(error)) => return Err(error),
                Err(CollectError::Carrier(error))
                    if error.may_pass() && since.elapsed() < self.lost_after() =>
                {
                    thread::sleep(BETWEEN_TRIES);
                }
                Err(CollectError::Carrier(error)) => {
                    return self
                        .over(host, Some(no_answer(format!("{error}; {}", error.remedy(&self.site, host)))));
                }
                Err(error @ CollectError::Record(_)) => {
                    return self.over(
                        host,
                        Some(no_answer(format!("{error}; collect it again, or look at it on {}", host.name))),
                    );
                }
            }
        }
    }

    fn nothing_there(&self, fleet: &Fleet, host: &Host) -> HostEnd {
        if self.folder.is_cancelled() {
            return cancelled();
        }
        let because =
            queue_words(fleet, &self.queue, host).unwrap_or_else(|| "its job has never begun".to_owned());
        HostEnd { end: End::NeverStarted, exit_code: None, because }
    }
}

fn no_answer(because: String) -> HostEnd {
    HostEnd { end: End::NoAnswer, exit_code: None, because }
}

/// What the queue knows about the job of a host: why it waits, or how it ended before it did anything.
fn queue_words(fleet: &Fleet, queue: &Queue, host: &Host) -> Option<String> {
    match &fleet.site.engine {
        SiteEngine::Slurm { .. } => Some(queue.job(&job_name(&fleet.id, &host.name)).ok()??.words()),
        SiteEngine::Ssh | SiteEngine::Exec { .. } => None,
    }
}

/// Of a host on which an attempt goes on though the engine has its job no longer.
fn still_measures(found: &[(u32, AttemptState)]) -> Option<HostEnd> {
    let (number, _) = found.iter().find(|(_, state)| *state == AttemptState::Running)?;
    Some(no_answer(format!("its attempt {number} still measures; `tilemark fleet collect` later")))
}

/// Of a host that had not begun.
fn cancelled() -> HostEnd {
    let because = "the fleet run was cancelled before the host began".to_owned();
    HostEnd { end: End::NeverStarted, exit_code: None, because }
}

/// Takes home what has ended, of all hosts beside each other; nothing is submitted and nothing is waited for.
///
/// # Errors
/// When the fleet's folder cannot be read or written, or another command works on it.
pub fn collect_all(folder: &FleetFolder, note: &(dyn Fn(&str) + Sync)) -> Result<(), FleetError> {
    let _lock = folder.lock()?;
    let fleet = Mutex::new(folder.read()?);
    let copy = locked(&fleet).clone();
    let queue = Queue::new(&copy.id, copy.hosts.iter().map(|host| host.name.as_str()));
    each_host(&copy.site.hosts, |host| {
        let is_waiting = step(&copy, host) == Step::Waiting;
        if is_waiting && !folder.is_cancelled() {
            return Ok(());
        }
        let found = if is_waiting { Ok(Vec::new()) } else { collect(folder, &copy, host) };
        let (end, is_over) = match found {
            Ok(found) if found.iter().any(|(_, state)| *state == AttemptState::Running) => (None, false),
            // What is cleaned there is here.
            Ok(found) if found.is_empty() && !folder.attempts(&host.name).is_empty() => (None, true),
            Ok(found) if found.is_empty() && folder.is_cancelled() => (Some(cancelled()), true),
            Ok(found) if found.is_empty() => {
                let because = queue_words(&copy, &queue, host)
                    .unwrap_or_else(|| "nothing of it has begun there".to_owned());
                (Some(HostEnd { end: End::NeverStarted, exit_code: None, because }), false)
            }
            Ok(_) => (None, true),
            Err(CollectError::Fleet(error)) => return Err(error),
            Err(CollectError::Carrier(error)) => {
                (Some(no_answer(format!("{error}; {}", error.remedy(&copy.site, host)))), false)
            }
            Err(error @ CollectError::Record(_)) => (Some(no_answer(error.to_string())), false),
        };
        if let Some(end) = &end {
            note(&format!("{}: {}", host.name, end.because));
        }
        let mut fleet = locked(&fleet);
        if let Some(work) = fleet.hosts.iter_mut().find(|work| work.name == host.name) {
            work.end = end;
            // A job of Slurm that was lost may be requeued, where nobody cancelled it.
            if is_over && (folder.is_cancelled() || !matches!(copy.site.engine, SiteEngine::Slurm { .. })) {
                work.step = Step::Over;
            }
        }
        folder.write(&fleet)
    })
}

/// What each host is doing, in words; nothing is written.
///
/// # Errors
/// When the fleet's folder cannot be read.
pub fn status(folder: &FleetFolder) -> Result<Vec<(String, String)>, FleetError> {
    let fleet = folder.read()?;
    let queue = Queue::new(&fleet.id, fleet.hosts.iter().map(|host| host.name.as_str()));
    let doings = Mutex::new(Vec::new());
    each_host(&fleet.site.hosts, |host| {
        let words = doing(folder, &fleet, &queue, host);
        locked(&doings).push((host.name.clone(), words));
        Ok(())
    })?;
    let doings = doings.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of = |host: &Host| doings.iter().find(|(name, _)| *name == host.name).cloned();
    Ok(fleet.site.hosts.iter().filter_map(of).collect())
}

fn doing(folder: &FleetFolder, fleet: &Fleet, queue: &Queue, host: &Host) -> String {
    match step(fleet, host) {
        Step::Waiting if folder.is_cancelled() => return cancelled().because,
        Step::Waiting => return "waits for its turn; nothing was submitted".to_owned(),
        Step::Submitting | Step::Submitted | Step::Over => {}
    }
    let is_over = step(fleet, host) == Step::Over;
    if let SiteEngine::Slurm { .. } = fleet.site.engine {
        match queue.job(&job_name(&fleet.id, &host.name)) {
            // While its own job has the host, no other job gets an answer from it. Slurm may have begun again what was over.
            Ok(Some(job)) if job.stage() != Stage::Over => return job.words(),
            Err(why) if !is_over => return format!("no answer of the queue: {why}"),
            Ok(_) | Err(_) => {}
        }
    }
    if is_over && !folder.attempts(&host.name).is_empty() {
        return "collected".to_owned();
    }
    if is_over && folder.is_cancelled() {
        return cancelled().because;
    }
    let question =
        Question { verb: STATUS, fleet: &fleet.id, seconds: 0, attempt: 0, job: "", within: ANSWER_WITHIN };
    match ask(&fleet.site, host, question) {
        Err(error) => format!("no answer: {error}"),
        Ok(answer) => match attempts(&answer.lines).last() {
            None => "its job has not begun".to_owned(),
            Some((number, AttemptState::Running)) => format!("measures (attempt {number})"),
            Some((number, AttemptState::Lost)) => format!("its attempt {number} was lost"),
            Some((number, AttemptState::Ended(_)))
                if folder.attempt(&host.name, *number).join("exit").exists() =>
            {
                "collected".to_owned()
            }
            Some((number, AttemptState::Ended(code))) => {
                format!("its attempt {number} ended with exit code {code}; `fleet collect` takes it home")
            }
        },
    }
}

/// So many hosts are asked at the same time.
const ASKED_AT_ONCE: usize = 64;

/// Does something with each host, as many at the same time as open files suffice for. The first error ends it.
pub(crate) fn each_host(
    hosts: &[Host],
    work: impl Fn(&Host) -> Result<(), FleetError> + Sync,
) -> Result<(), FleetError> {
    let at_once = open_files::hosts_at_once().min(ASKED_AT_ONCE).min(hosts.len());
    let left = Mutex::new(hosts.iter().collect::<VecDeque<_>>());
    thread::scope(|scope| {
        let one = || -> Result<(), FleetError> {
            while let Some(host) = { locked(&left).pop_front() } {
                work(host)?;
            }
            Ok(())
        };
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(one)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })
}
