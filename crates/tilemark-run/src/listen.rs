//! Listening to one load, to its end: by one deadline of the host's clock, and to nothing that cannot be.

use crate::{
    drive::{Heard, LoadProcess, Whose},
    failure::{Failure, FailureCode},
    hearing::{Hearing, Reporter},
};
use std::{
    sync::mpsc::{Receiver, Sender},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Reply, Request};
use tilemark_guests::{AgentSession, GuestError};

/// How long one load may take, by the host's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadTimes {
    /// Until it is ready.
    pub(crate) ready: Duration,
    /// From its beginning to its totals.
    pub(crate) measured: Duration,
}

/// Where what one load reports goes, and what it waits for.
pub(crate) struct LoadListener {
    whose: Whose,
    begins: Receiver<()>,
    sender: Sender<Heard>,
}

impl LoadListener {
    pub(crate) fn new(whose: Whose, begins: Receiver<()>, sender: &Sender<Heard>) -> Self {
        Self { whose, begins, sender: sender.clone() }
    }

    pub(crate) fn send(&self, heard: Heard) {
        let _ = self.sender.send(heard);
    }

    /// Hears one load to its end. `next` gives what it reports next, within a time; `begin` lets it begin.
    fn hear<L>(
        &self,
        load: &mut L,
        hearing: &mut Hearing,
        times: LoadTimes,
        next: impl Fn(&mut L, Duration) -> Result<Next, Failure>,
        begin: impl Fn(&mut L) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (mut deadline, mut has_begun) = (Instant::now() + times.ready, false);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let event = match next(load, left)? {
                _ if left.is_zero() => return self.refuse(late(times, has_begun)),
                Next::Event(event) => event,
                Next::Refused(why) => return self.refuse(why),
                Next::Nothing => return self.refuse(late(times, has_begun)),
            };
            let event = match hearing.take(event) {
                Ok(event) => event,
                Err(nonsense) => return self.refuse(with_causes(&nonsense)),
            };
            let is_ready = matches!(event, LoadEvent::Started(_));
            let is_last = matches!(event, LoadEvent::Done(_));
            if let LoadEvent::Failed { message, remedy } = event {
                return Err(Failure::new(FailureCode::GuestFailed, self.failed(&message), remedy));
            }
            self.send(Heard::Event(self.whose, event));
            if is_ready {
                // Closed, it lets go.
                let _ = self.begins.recv();
                (deadline, has_begun) = (Instant::now() + times.measured, true);
                begin(load)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn refuse(&self, why: String) -> Result<(), Failure> {
        self.send(Heard::Refused(self.whose, why));
        Ok(())
    }

    fn failed(&self, message: &str) -> String {
        match self.whose {
            Whose::Outside => format!("the load failed: {message}"),
            Whose::Inside(_) => format!("the load inside failed: {message}"),
        }
    }
}

/// What a load does next.
enum Next {
    Event(LoadEvent),
    Refused(String),
    Nothing,
}

fn late(times: LoadTimes, is_ready: bool) -> String {
    let LoadTimes { ready, measured } = times;
    if is_ready {
        format!("its load did not end within {} s after it began", measured.as_secs())
    } else {
        format!("its load was not ready within {} s", ready.as_secs())
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Hears the load from outside to its end.
pub(crate) fn outside_load(
    load: &mut dyn LoadProcess,
    job: &LoadJob,
    times: LoadTimes,
    listener: &LoadListener,
) -> Result<(), Failure> {
    load.prepare(job)?;
    let mut hearing = Hearing::of(job, Reporter::Ours, times.measured);
    let next =
        |load: &mut &mut dyn LoadProcess, within| Ok(load.next(within)?.map_or(Next::Nothing, Next::Event));
    listener.hear(&mut { load }, &mut hearing, times, next, |load| load.begin())
}

/// Hears a load inside a guest to its end.
pub(crate) fn inside_load(
    session: &mut AgentSession,
    job: LoadJob,
    times: LoadTimes,
    listener: &LoadListener,
) -> Result<(), Failure> {
    let mut hearing = Hearing::of(&job, Reporter::Guest, times.measured);
    if let Err(error) = session.send(&Request::PrepareLoad(Box::new(job))) {
        return listener.refuse(lost(error)?);
    }
    let next = |session: &mut &mut AgentSession, within| match session.receive(within) {
        Ok(Reply::Load(event)) => Ok(Next::Event(event)),
        Ok(_) => Ok(Next::Refused("its agent answered what nobody had asked".to_owned())),
        Err(GuestError::Silent { .. }) => Ok(Next::Nothing),
        Err(error) => lost(error).map(Next::Refused),
    };
    // One that does not hear that it may begin is found to be gone when it is listened to.
    let begin = |session: &mut &mut AgentSession| {
        let _ = session.send(&Request::BeginLoad);
        Ok(())
    };
    listener.hear(&mut { session }, &mut hearing, times, next, begin)
}

/// A conversation that broke while a guest is measured costs the repeat; what its agent could not do is the guest's failure.
fn lost(error: GuestError) -> Result<String, Failure> {
    match error {
        GuestError::Ended { how, .. } => Ok(format!("it ended during the measurement: {how}")),
        GuestError::Broken { source, .. } => {
            Ok(format!("the conversation with its agent broke off: {}", with_causes(&source)))
        }
        GuestError::Silent { within, .. } => Ok(format!("its agent took nothing for {} s", within.as_secs())),
        other => Err(other.into()),
    }
}
