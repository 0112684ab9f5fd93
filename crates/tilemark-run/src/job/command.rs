//! The command's side of a job: start a keeper, send the job, show how it goes, hand on Ctrl-C, and wait
//! until everything is gone.

use crate::{
    failure::{Failure, FailureCode},
    job::keeper::{KeeperHandle, Network, is_taken},
    job::messages::{FromEngine, Messages, ToEngine, send},
    job::read_back::{Found, JobEnd, ReadBack},
    job::state_folder::StateFolder,
    job::types::{Job, JobDone},
    progress::Listener,
    stop::interrupts,
};
use rustix::process::Signal;
use std::{
    fs::File,
    io::{self, Read},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};
use tilemark_sys::process::{Ended, SpawnError};

/// What is left of a job when its engine is done: nothing, or the guests that were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// Everything goes.
    Gone,
    /// The keeper stays with what was started.
    Stays,
}

/// A job that was done, and what was found after it.
#[derive(Debug)]
pub(crate) struct FinishedJob {
    /// What came of it.
    pub(crate) done: JobDone,
    /// What is left of it on the host. Nothing was looked for where the keeper stays.
    pub(crate) found: Found,
}

/// Does a job in an engine of its own, and reads back whether the host was restored.
///
/// # Errors
/// The job's own failure. Where something of it is also left behind, that is the failure, and the job's own is its cause.
pub(crate) fn do_job(
    job: Job,
    state: &StateFolder,
    locks: Vec<File>,
    afterwards: Afterwards,
    listener: &mut dyn Listener,
) -> Result<FinishedJob, Failure> {
    try_job(job, state, locks, afterwards, listener)?.ok_or_else(|| {
        Failure::new(
            FailureCode::HostUnfit,
            format!("{} is there already", state.path().display()),
            "look what it is with `tilemark recover`, and try again",
        )
    })
}

/// The same, or nothing where another has a state folder of this name already.
///
/// # Errors
/// As [`do_job`].
pub(crate) fn try_job(
    job: Job,
    state: &StateFolder,
    locks: Vec<File>,
    afterwards: Afterwards,
    listener: &mut dyn Listener,
) -> Result<Option<FinishedJob>, Failure> {
    let mut read_back = ReadBack::before(state, &ReadBack::folders_of(&job)).map_err(unreadable)?;
    let network = match &job {
        Job::Image(_) => Network::Host,
        Job::Run(_) | Job::Guests(_) => Network::Own,
    };
    let mut keeper = match KeeperHandle::start(state, network, locks) {
        Ok(keeper) => keeper,
        Err(SpawnError::Prepare { source, .. }) if is_taken(&source) => return Ok(None),
        Err(error) => {
            let remedy = "be root, leave space where TILEMARK_HOME is, and check `tilemark doctor`";
            return Err(Failure::from_error(FailureCode::HostUnfit, &error, remedy));
        }
    };
    // Held open, since the keeper removes it with the state folder. It may have done so already: how it ended then says why.
    let mut log = File::open(state.log());
    let begun = read_back.begun();
    let outcome = match begun {
        Ok(()) => converse(job, &mut keeper, listener),
        Err(_) if !state.path().exists() => Ok(None),
        Err(error) => keeper.end_now().and(Ok(Some(Err(unreadable(error))))),
    };
    let failed = matches!(outcome, Ok(None) | Err(_));
    if afterwards == Afterwards::Stays
        && let Ok(Some(Ok(done))) = outcome
    {
        keeper.hand_over().map_err(|error| engine_is_gone(&error.to_string()))?;
        return Ok(Some(FinishedJob { done, found: Found::default() }));
    }
    read_back.ending();
    let gone = keeper.wait();
    let mut log_text = String::new();
    if failed && let Ok(log) = &mut log {
        // What cannot be read cannot be shown; the failure itself is reported all the same.
        let _ = log.read_to_string(&mut log_text);
    }
    let gone = gone.map_err(|error| engine_is_gone(&error.to_string()))?;
    let end = if matches!(outcome, Ok(Some(Ok(_)))) { JobEnd::Done } else { JobEnd::Failed };
    let found = read_back.after(keeper.account().as_ref(), end);
    if failed && let Some(failure) = ended_from_outside(gone, state) {
        return Err(with_left(failure, &found));
    }
    let failure = match outcome {
        Ok(Some(Ok(done))) => return Ok(Some(FinishedJob { done, found })),
        Ok(Some(Err(failure))) => failure,
        Ok(None) => engine_is_gone(log_text.trim()),
        Err(error) => engine_is_gone(&format!("{error}\n{}", log_text.trim())),
    };
    Err(with_left(failure, &found))
}

fn unreadable(error: io::Error) -> Failure {
    Failure::caused_by(
        &error,
        FailureCode::HostUnfit,
        "what must be restored on this host cannot be read",
        "check that /proc and /sys are mounted",
    )
}

/// An engine that did another job than it was given.
pub(crate) fn other_job_done() -> Failure {
    Failure::new(FailureCode::Bug, "the engine did another job than it was given", "report it")
}

/// A job that failed and left something is a host that was not restored, whatever failed.
fn with_left(failure: Failure, found: &Found) -> Failure {
    let Some(not_restored) = not_restored("it failed", found) else { return failure };
    let mut causes = not_restored.causes;
    if failure.code == FailureCode::NotRestored {
        causes.insert(0, not_restored.message);
        return Failure { causes: [failure.causes, causes].concat(), ..failure };
    }
    causes.push(failure.message);
    causes.extend(failure.causes);
    Failure { causes, ..not_restored }
}

/// What is left after `what`, if something is: a host that was not restored, or one where another program has changed a setting since.
pub(crate) fn not_restored(what: &str, found: &Found) -> Option<Failure> {
    if found.left.is_empty() {
        return changed_by_others(what, &found.changed_by_others);
    }
    let mut named = found.left.iter().map(|one| one.what.clone());
    let message = match (named.next()?, found.left.len()) {
        (only, 1) => format!("{what}, and this machine was not restored: {only}"),
        (first, several) => {
            format!("{what}, and this machine was not restored: {first}, and {} more", several - 1)
        }
    };
    let mut remedies: Vec<&str> = Vec::new();
    for one in &found.left {
        if !remedies.contains(&one.remedy.as_str()) {
            remedies.push(&one.remedy);
        }
    }
    Some(Failure {
        code: FailureCode::NotRestored,
        message,
        causes: named.collect(),
        remedy: remedies.join("; "),
    })
}

/// Settings that were left alone, since another program has changed them.
fn changed_by_others(what: &str, changed: &[String]) -> Option<Failure> {
    let first = changed.first()?;
    let message = match changed.len() {
        1 => format!("{what}, and another program has changed a setting since: {first}"),
        several => {
            format!("{what}, and another program has changed {several} settings since, the first one {first}")
        }
    };
    Some(Failure {
        code: FailureCode::NotRestored,
        message,
        causes: changed.iter().skip(1).cloned().collect(),
        remedy: "nothing, if you want that value; else write the old one by hand, and end the program that changes it"
            .to_owned(),
    })
}

/// Signals that a process does not get for its own faults.
const FROM_OUTSIDE: [Signal; 4] = [Signal::KILL, Signal::TERM, Signal::HUP, Signal::INT];

/// Somebody ended the keeper or the engine: no fault of theirs. The keeper hands on how the engine ended as a shell does,
/// as 128 and the signal.
fn ended_from_outside(keeper: Ended, state: &StateFolder) -> Option<Failure> {
    let outside = |signal: i32| FROM_OUTSIDE.iter().any(|known| known.as_raw() == signal);
    let id = state.id();
    match keeper {
        Ended::Signalled(signal) if outside(signal) => Some(Failure::new(
            FailureCode::NotRestored,
            format!(
                "the keeper of {id} was killed by signal {signal}; its guests ended with it; its folder {} is left",
                state.path().display()
            ),
            "`tilemark recover` removes what is left; then run it again",
        )),
        Ended::Exited(code) if outside(code - 128) => Some(Failure::new(
            FailureCode::HostUnfit,
            format!(
                "the engine of {id} was killed by signal {}; everything that it started was removed",
                code - 128
            ),
            "look with `dmesg` whether memory ran out, then run it again",
        )),
        Ended::Signalled(_) | Ended::Exited(_) => None,
    }
}

fn engine_is_gone(log: &str) -> Failure {
    // Rust's own words, when an allocation is refused.
    if let Some(line) = log.lines().find(|line| line.starts_with("memory allocation of")) {
        let message = "the engine reached the limit of its memory; everything that it started was removed";
        let remedy = "measure fewer guests or shorter, or look for a guest that reports too much";
        return Failure::caused_by(&line, FailureCode::HostUnfit, message, remedy);
    }
    let last: Vec<&str> = log.lines().rev().take(8).collect();
    let last: Vec<String> = last.into_iter().rev().map(str::to_owned).collect();
    Failure {
        code: FailureCode::Bug,
        message: "the engine ended before it was done; everything that it started was removed".to_owned(),
        causes: last,
        remedy: "run it again; if it happens twice, report it with these lines".to_owned(),
    }
}

/// After the second Ctrl-C an engine may end by itself for so long; then its keeper takes it away.
const TIMEOUT: Duration = Duration::from_secs(2);

fn ended_at_once() -> Failure {
    Failure::new(
        FailureCode::Interrupted,
        "stopped by a second Ctrl-C; everything that it started was removed",
        "nothing to do; the record of a run stays unfinished (`tilemark runs` shows it)",
    )
}

/// Sends the job and shows what comes back, until the engine is done or gone (`None`).
fn converse(
    job: Job,
    keeper: &mut KeeperHandle,
    listener: &mut dyn Listener,
) -> io::Result<Option<Result<JobDone, Failure>>> {
    send(&mut keeper.messages, &ToEngine::Begin(Box::new(job)))?;
    let messages = receive_from(Messages::of(keeper.messages.try_clone()?));
    let (mut passed_on, mut killed_after) = (0, None);
    loop {
        if killed_after.is_some_and(|until| Instant::now() >= until) {
            // It is in the midst of something that it cannot leave, such as a guest that boots.
            keeper.end_now()?;
            return Ok(Some(Err(ended_at_once())));
        }
        match messages.recv_timeout(Duration::from_millis(50)) {
            Ok(FromEngine::Progress(progress)) => listener.progress(&progress),
            Ok(FromEngine::Note(text)) => listener.note(&text),
            Ok(FromEngine::Done(done)) => return Ok(Some(Ok(*done))),
            Ok(FromEngine::Failed(failure)) => return Ok(Some(Err(failure))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
        let interrupts = interrupts();
        while passed_on < interrupts {
            passed_on += 1;
            let message = if passed_on == 1 { ToEngine::Interrupt } else { ToEngine::Quit };
            listener.note(match passed_on {
                1 => "stopping; what is finished is kept. Ctrl-C again stops everything immediately",
                _ => "ending everything",
            });
            if passed_on == 2 {
                killed_after = Some(Instant::now() + TIMEOUT);
            }
            send(&mut keeper.messages, &message)?;
        }
    }
}

fn receive_from(mut messages: Messages) -> Receiver<FromEngine> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        // Ends when the engine is gone, sends what is no message, or nobody listens any more.
        while let Ok(Some(message)) = messages.receive() {
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    receiver
}
