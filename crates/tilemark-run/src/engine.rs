//! The engine: the process inside a run's namespaces that does a job.

use crate::{
    failure::{Failure, FailureCode},
    guests_up, image,
    job::keeper::messages_of_engine,
    job::messages::{CommandLink, FromEngine, Messages, ToEngine},
    job::types::{Job, JobDone},
    program::Program,
    run,
    stop::StopSignal,
};
use std::{io, process::ExitCode, thread};

/// The engine's `main`.
pub(crate) fn engine_main(program: &Program) -> ExitCode {
    tilemark_sys::limits::raise_open_files();
    match converse(program) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("engine: {error}");
            ExitCode::from(FailureCode::Bug.exit_code())
        }
    }
}

fn converse(program: &Program) -> io::Result<ExitCode> {
    let stream = messages_of_engine()?;
    let link = CommandLink::to(stream.try_clone()?);
    let mut messages = Messages::of(stream);
    let Some(ToEngine::Begin(job)) = messages.receive()? else {
        return Err(io::Error::other("the command sent no job"));
    };
    let stop = StopSignal::default();
    let requested = stop.clone();
    thread::spawn(move || {
        loop {
            match messages.receive() {
                Ok(Some(ToEngine::Interrupt)) => requested.request(),
                Ok(Some(ToEngine::Begin(_))) => {}
                Ok(Some(ToEngine::Quit)) | Ok(None) | Err(_) => return requested.request(),
            }
        }
    });
    let report = |done| link.send(&FromEngine::Done(Box::new(done)));
    match run_job(program, *job, &link, &stop, &report) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            let code = failure.code.exit_code();
            link.failed(failure);
            Ok(ExitCode::from(code))
        }
    }
}

/// Does the job and reports what came of it. Guests stay after that, until they are asked to go.
fn run_job(
    program: &Program,
    job: Job,
    link: &CommandLink,
    stop: &StopSignal,
    report: &dyn Fn(JobDone),
) -> Result<(), Failure> {
    match job {
        Job::Run(job) => report(run::engine::run(program, &job, link, stop)?),
        Job::Image(job) => report(image::build::ensure(&job, link)?),
        Job::Guests(job) => guests_up::engine::up(program, &job, link, stop, report)?,
    }
    Ok(())
}
