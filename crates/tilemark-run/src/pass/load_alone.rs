//! One load without guests, from its start to all that it reports.

use crate::{
    failure::{Failure, FailureCode},
    pass::load_figures::LoadReports,
    pass::load_process::{AgentProcess, LoadProcess, load_failed},
    stop::interrupted,
};
use std::{
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};
use tilemark_agent_protocol::{LoadEvent, LoadJob};

/// How a load came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It lasted as long as it was asked to.
    Whole,
    /// Ctrl-C was pressed before.
    Interrupted,
}

/// Beside the length of a load, the longest between two things that it reports.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Has a process run a load. Ctrl-C ends it, and what it reported up to then counts too.
///
/// # Errors
/// The load's own failure, or a load that reports nothing.
pub(crate) fn run_alone(mut process: AgentProcess, job: &LoadJob) -> Result<(LoadReports, End), Failure> {
    process.prepare(job)?;
    process.begin()?;
    let stop = process.stopper().map_err(load_failed)?;
    let (going_on, over) = mpsc::channel();
    let (reports, end) = thread::scope(|scope| {
        let end = scope.spawn(move || stop_when_interrupted(&over, stop));
        let reports = read_reports(&mut process, job.length.get() + TIMEOUT);
        drop(going_on);
        (reports, end.join().expect("it only waits and sends"))
    });
    match (reports, end) {
        (Ok(reports), end) => Ok((reports, end)),
        (Err(failure), End::Whole) => Err(failure),
        (Err(failure), End::Interrupted) => Err(Failure {
            causes: vec![failure.message],
            ..Failure::new(FailureCode::Interrupted, "ended before anything was measured", "nothing to do")
        }),
    }
}

/// How often it is looked for Ctrl-C.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Waits until the load is over, and stops it when Ctrl-C is pressed.
fn stop_when_interrupted(over: &Receiver<()>, stop: impl FnOnce()) -> End {
    while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(BETWEEN_LOOKS) {
        if interrupted() {
            stop();
            return End::Interrupted;
        }
    }
    End::Whole
}

/// All that a load reports, each event at most so long after the one before.
fn read_reports(process: &mut AgentProcess, within: Duration) -> Result<LoadReports, Failure> {
    let mut reports = LoadReports::default();
    loop {
        let Some(event) = process.next(within)? else {
            let message = format!("the load reported nothing for {} s", within.as_secs());
            return Err(Failure::new(
                FailureCode::HostUnfit,
                message,
                "check what it is sent to, and send less",
            ));
        };
        match event {
            LoadEvent::Failed { message, remedy } => {
                return Err(Failure::new(FailureCode::HostUnfit, message, remedy));
            }
            event => {
                let last = matches!(event, LoadEvent::Done(_));
                reports.outside(event);
                if last {
                    return Ok(reports);
                }
            }
        }
    }
}
