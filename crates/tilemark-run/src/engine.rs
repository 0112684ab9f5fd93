//! The engine: the process inside a run's namespaces that does a job.

use crate::{
    Program,
    job::{Job, JobDone},
    keeper,
    wire::{Failure, FailureCode, FromEngine, Messages, Progress, ToEngine, send},
};
use std::{
    io,
    os::unix::net::UnixStream,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    thread,
};

/// What the user wants of a job that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    /// That it goes on.
    GoOn,
    /// That the load ends and what is whole is kept.
    Stop,
    /// That everything ends at once.
    Quit,
}

/// The wish, shared by all threads of the engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wishes(Arc<AtomicU8>);

impl Wishes {
    /// What is wanted now.
    pub(crate) fn now(&self) -> Wish {
        match self.0.load(Ordering::Relaxed) {
            0 => Wish::GoOn,
            1 => Wish::Stop,
            _ => Wish::Quit,
        }
    }

    /// Notes a wish; it never goes back to a weaker one.
    pub(crate) fn note(&self, wish: Wish) {
        self.0.fetch_max(wish as u8, Ordering::Relaxed);
    }
}

/// The engine's way to tell the command something.
#[derive(Debug, Clone)]
pub(crate) struct Teller(Arc<Mutex<UnixStream>>);

impl Teller {
    /// One that writes to this stream.
    pub(crate) fn to(stream: UnixStream) -> Self {
        Self(Arc::new(Mutex::new(stream)))
    }

    fn tell(&self, message: &FromEngine) {
        let mut stream = self.0.lock().expect("nobody panics while sending a line");
        // When the command is gone nobody needs to be told; the keeper ends us.
        let _ = send(&mut stream, message);
    }

    /// What went wrong.
    pub(crate) fn failed(&self, failure: Failure) {
        self.tell(&FromEngine::Failed(failure));
    }

    /// How far it is.
    pub(crate) fn progress(&self, progress: Progress) {
        self.tell(&FromEngine::Progress(progress));
    }

    /// Something worth telling, once.
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.tell(&FromEngine::Note(text.into()));
    }
}

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
    let stream = keeper::messages_of_engine()?;
    let teller = Teller::to(stream.try_clone()?);
    let mut messages = Messages::of(stream);
    let Some(ToEngine::Begin(job)) = messages.receive()? else {
        return Err(io::Error::other("the command sent no job"));
    };
    let wishes = Wishes::default();
    let noted = wishes.clone();
    thread::spawn(move || {
        loop {
            match messages.receive() {
                Ok(Some(ToEngine::Interrupt)) => noted.note(Wish::Stop),
                Ok(Some(ToEngine::Begin(_))) => {}
                Ok(Some(ToEngine::Quit)) | Ok(None) | Err(_) => return noted.note(Wish::Quit),
            }
        }
    });
    let told = |done| teller.tell(&FromEngine::Done(Box::new(done)));
    match work(program, *job, &teller, &wishes, &told) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure) => {
            let code = failure.code.exit_code();
            teller.failed(failure);
            Ok(ExitCode::from(code))
        }
    }
}

/// Does the job and tells what came of it. Guests stay until they are asked to go, after that was told.
fn work(
    program: &Program,
    job: Job,
    teller: &Teller,
    wishes: &Wishes,
    told: &dyn Fn(JobDone),
) -> Result<(), Failure> {
    match job {
        Job::Run(job) => told(crate::run_job::run(program, &job, teller, wishes)?),
        Job::Image(job) => told(crate::image_job::ensure(&job, teller)?),
        Job::Guests(job) => crate::guests_job::up(program, &job, teller, wishes, told)?,
    }
    Ok(())
}
