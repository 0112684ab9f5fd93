//! Ending a fleet run before its time, and removing what is at home from its hosts.

use crate::{
    carrier::{Answer, CANCEL, Question, ask},
    collect::{AttemptState, attempts},
    error::FleetError,
    folder::{Fleet, FleetFolder, FleetLock, Step},
    run::{collect_all, each_host},
    slurm::{self, Queue, Stage, job_name},
};
use serde::Serialize;
use std::{
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tilemark_record::RunDirectory;
use tilemark_site::{Host, SiteEngine};
use tilemark_units::printable_line;

/// How long a run on a host may take to end, in seconds: host.sh asks it in order for 40 s, at once for 20 s, and ends it by force then.
const ENDS_WITHIN_S: u64 = 90;
const ANSWER_WITHIN: Duration = Duration::from_secs(90);
/// A job that got SIGINT is removed from the queue after this time. Slurm kills it then within its own `KillWait`.
const QUEUE_REMOVES_AFTER: Duration = Duration::from_secs(60);
const QUEUE_WAITS_AT_MOST: Duration = Duration::from_secs(150);
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Another command that waits for the fleet run sees that it is over and collects; it is waited for.
const OTHERS_END_WITHIN: Duration = Duration::from_secs(150);

/// A host, and what became of its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndedWork {
    /// Its name.
    pub name: String,
    /// Whether nothing of the work is left there: it has ended, or it is removed.
    pub done: bool,
    /// In words, with what to do where it is not done.
    pub doing: String,
    /// Whether settings of the host are as the work left them: its own `recover` could not restore them.
    #[serde(skip)]
    pub not_restored: bool,
}

/// The exit code of `tilemark recover` where a setting is not restored.
const NOT_RESTORED: &str = "6";

impl EndedWork {
    fn new(host: &Host, done: bool, doing: impl Into<String>) -> Self {
        Self { name: host.name.clone(), done, doing: doing.into(), not_restored: false }
    }
}

/// Ends the work of all hosts and takes home what they have finished. What was not submitted never is. It may be repeated, and another
/// command may wait for the same fleet run meanwhile.
///
/// # Errors
/// When the fleet's folder cannot be read or written. A host whose work may go on is named in what is returned.
pub fn cancel(folder: &FleetFolder, note: &(dyn Fn(&str) + Sync)) -> Result<Vec<EndedWork>, FleetError> {
    // From here on no command submits anything.
    folder.mark_cancelled()?;
    let fleet = folder.read()?;
    let queue = Queue::new(&fleet.id, fleet.hosts.iter().map(|host| host.name.as_str()));
    let ended = all_hosts(&fleet, |host| {
        let ended = end(&fleet, &queue, host);
        note(&format!("{}: {}", host.name, ended.doing));
        ended
    })?;
    drop(lock_within(folder)?);
    collect_all(folder, note)?;
    Ok(ended)
}

/// Removes the work of hosts from them where all of it is at home and verified.
///
/// # Errors
/// When the fleet's folder cannot be read or written, or another command works on it.
pub fn clean(folder: &FleetFolder, note: &(dyn Fn(&str) + Sync)) -> Result<Vec<EndedWork>, FleetError> {
    let _lock = folder.lock()?;
    let fleet = Mutex::new(folder.read()?);
    let copy = locked(&fleet).clone();
    let queue = Queue::new(&copy.id, copy.hosts.iter().map(|host| host.name.as_str()));
    let cleaned = all_hosts(&copy, |host| {
        let cleaned = removed(folder, &copy, &queue, host);
        note(&format!("{}: {}", host.name, cleaned.doing));
        cleaned
    })?;
    // What is removed is over: nobody waits for it again.
    let mut fleet = locked(&fleet);
    for work in &mut fleet.hosts {
        let is_done = cleaned.iter().any(|host| host.name == work.name && host.done);
        if is_done && work.step != Step::Waiting {
            work.step = Step::Over;
        }
    }
    folder.write(&fleet)?;
    Ok(cleaned)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with each host; in the order of the site.
fn all_hosts(fleet: &Fleet, work: impl Fn(&Host) -> EndedWork + Sync) -> Result<Vec<EndedWork>, FleetError> {
    let found = Mutex::new(Vec::new());
    each_host(&fleet.site.hosts, |host| {
        let of = work(host);
        locked(&found).push(of);
        Ok(())
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|of| fleet.site.hosts.iter().position(|host| host.name == of.name));
    Ok(found)
}

fn lock_within(folder: &FleetFolder) -> Result<FleetLock, FleetError> {
    let since = Instant::now();
    loop {
        match folder.lock() {
            Err(FleetError::Busy { .. }) if since.elapsed() < OTHERS_END_WITHIN => {
                thread::sleep(BETWEEN_LOOKS)
            }
            other => return other,
        }
    }
}

fn step(fleet: &Fleet, host: &Host) -> Step {
    fleet.hosts.iter().find(|work| work.name == host.name).map_or(Step::Over, |work| work.step)
}

/// Ends the work of one host.
fn end(fleet: &Fleet, queue: &Queue, host: &Host) -> EndedWork {
    match step(fleet, host) {
        Step::Waiting => return EndedWork::new(host, true, "was not submitted, and will not be"),
        // Slurm may have put a job that was lost into the queue again.
        Step::Over => match is_queued(fleet, queue, host) {
            Ok(false) => return EndedWork::new(host, true, "was over"),
            Ok(true) => {}
            Err(why) => {
                let what = format!("the queue does not answer: {why}; then `tilemark fleet cancel` again");
                return EndedWork::new(host, false, what);
            }
        },
        Step::Submitting | Step::Submitted => {}
    }
    if let SiteEngine::Slurm { .. } = fleet.site.engine
        && let Err(why) = leaves_queue(fleet, queue, host)
    {
        let fix = format!("to fix: `scancel --name={}`", job_name(&fleet.id, &host.name));
        return EndedWork::new(host, false, format!("its job may go on: {why}; {fix}"));
    }
    // Also over Slurm: a job that was killed leaves the host to be restored.
    let question = Question {
        verb: CANCEL,
        fleet: &fleet.id,
        seconds: ENDS_WITHIN_S,
        attempt: 0,
        job: "",
        within: Duration::from_secs(ENDS_WITHIN_S) + ANSWER_WITHIN,
    };
    let asked = ask(&fleet.site, host, question);
    let asked =
        asked.or_else(|error| if error.may_pass() { ask(&fleet.site, host, question) } else { Err(error) });
    match asked {
        Ok(answer) => ended(host, &answer),
        Err(error) => {
            let again = "then `tilemark fleet cancel` again";
            EndedWork::new(
                host,
                false,
                format!("its work may go on: {error}; {}, {again}", error.remedy(&fleet.site, host)),
            )
        }
    }
}

/// What a host answers that was asked to end its work.
fn ended(host: &Host, answer: &Answer) -> EndedWork {
    let found = attempts(&answer.lines);
    if let Some((number, _)) = found.iter().find(|(_, state)| *state == AttemptState::Running) {
        let fix = format!("to fix: end it on {}, then `sudo tilemark recover` there", host.name);
        return EndedWork::new(host, false, format!("its attempt {number} does not end; {fix}"));
    }
    let what = if found.is_empty() { "its work had not begun, and will not" } else { "its work has ended" };
    match answer.value("recovered").map(|said| said.split_once(' ').unwrap_or((said, ""))) {
        None | Some(("0", _)) => EndedWork::new(host, true, what),
        Some((code, words)) => {
            let words = printable_line(words.trim());
            let doing = format!(
                "{what}, and `tilemark recover` there ended with exit code {}: {words}; to fix: `sudo tilemark recover` on {}",
                printable_line(code),
                host.name
            );
            EndedWork { not_restored: code == NOT_RESTORED, ..EndedWork::new(host, false, doing) }
        }
    }
}

fn is_queued(fleet: &Fleet, queue: &Queue, host: &Host) -> Result<bool, String> {
    if !matches!(fleet.site.engine, SiteEngine::Slurm { .. }) {
        return Ok(false);
    }
    let job = queue.job(&job_name(&fleet.id, &host.name))?;
    Ok(job.is_some_and(|job| job.stage() != Stage::Over))
}

/// Ends a host's job in order where it runs, and waits until the queue has none.
fn leaves_queue(fleet: &Fleet, queue: &Queue, host: &Host) -> Result<(), String> {
    let name = job_name(&fleet.id, &host.name);
    let since = Instant::now();
    let mut was_asked = false;
    loop {
        let job = queue.job(&name)?;
        match job.as_ref().map(|job| job.stage()) {
            None | Some(Stage::Over) => return Ok(()),
            Some(Stage::Running) if !was_asked => {
                slurm::end(&fleet.id, &host.name, Some("INT"))?;
                was_asked = true;
            }
            Some(Stage::Running) if since.elapsed() < QUEUE_REMOVES_AFTER => {}
            Some(_) => slurm::end(&fleet.id, &host.name, None)?,
        }
        if since.elapsed() >= QUEUE_WAITS_AT_MOST {
            return Err(job.map(|job| job.words()).unwrap_or_default());
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// Removes the work of one host, where all of it is here.
fn removed(folder: &FleetFolder, fleet: &Fleet, queue: &Queue, host: &Host) -> EndedWork {
    let kept = |why: String| EndedWork::new(host, false, why);
    if step(fleet, host) == Step::Waiting {
        return EndedWork::new(host, true, "has nothing: nothing was submitted to it");
    }
    if let SiteEngine::Slurm { .. } = fleet.site.engine {
        match queue.job(&job_name(&fleet.id, &host.name)) {
            Ok(Some(job)) if job.stage() != Stage::Over => {
                return kept(format!("{}: wait for it, or `tilemark fleet cancel`", job.words()));
            }
            Ok(_) => {}
            Err(why) => return kept(format!("no answer of the queue: {why}")),
        }
    }
    let mut here = " ".to_owned();
    for number in folder.attempts(&host.name) {
        let record = RunDirectory::at(&folder.attempt(&host.name, number).join("record"));
        if record.is_closed()
            && let Err(error) = record.verify()
        {
            return kept(format!(
                "the record of attempt {number} here is damaged ({error}), so the one on the host is kept; to fix: remove {} and collect again",
                folder.attempt(&host.name, number).display()
            ));
        }
        here += &format!("{number} ");
    }
    // It may be under way to the host.
    if here == " " && step(fleet, host) != Step::Over && !folder.is_cancelled() {
        return kept("nothing of it is collected: `tilemark fleet collect` first".to_owned());
    }
    let question = Question {
        verb: "clean",
        fleet: &fleet.id,
        seconds: 0,
        attempt: 0,
        job: &here,
        within: ANSWER_WITHIN,
    };
    match ask(&fleet.site, host, question) {
        Ok(answer) => match answer.value("kept") {
            Some(why) => {
                kept(format!("{}: `tilemark fleet collect` first, or `fleet cancel`", printable_line(why)))
            }
            None => EndedWork::new(host, true, "its folder there is removed"),
        },
        Err(error) => kept(format!("{error}; {}", error.remedy(&fleet.site, host))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended_by(lines: &[&str]) -> EndedWork {
        let host = Host { name: "n1".into(), address: "n1".into(), user: None, groups: Vec::new() };
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        ended(&host, &Answer { lines, ..Answer::default() })
    }

    #[test]
    fn work_goes_on_while_any_attempt_runs() {
        // A shell lists the tenth attempt before the ninth.
        let left = ended_by(&["recovered 0 ", "attempt 10 running", "attempt 9 lost"]);
        assert!(!left.done && left.doing.starts_with("its attempt 10 does not end; "), "{left:?}");
        let over = ended_by(&["recovered 0 Nothing was left behind.", "attempt 0 ended 5"]);
        assert_eq!((over.done, &*over.doing), (true, "its work has ended"));
    }

    #[test]
    fn a_host_that_does_not_recover_is_not_done_and_says_why() {
        for (code, not_restored) in [("6", true), ("3", false)] {
            let left =
                ended_by(&[&format!("recovered {code} Not restored: vm.swappiness. "), "attempt 0 lost"]);
            assert_eq!((left.done, left.not_restored), (false, not_restored));
            let words = format!(
                "its work has ended, and `tilemark recover` there ended with exit code {code}: Not restored: vm.swappiness.; \
                 to fix: `sudo tilemark recover` on n1"
            );
            assert_eq!(left.doing, words);
        }
    }
}
