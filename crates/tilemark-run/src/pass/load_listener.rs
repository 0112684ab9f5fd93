//! Listens to one load to its end: by one deadline of the host's clock, and to nothing that cannot be.

use crate::{
    failure::{Failure, FailureCode},
    pass::host_watch::HostRead,
    pass::load_jobs::LoadTimes,
    pass::load_process::LoadProcess,
    pass::report_check::{ReportCheck, Reporter},
};
use std::{
    sync::mpsc::{Receiver, Sender},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Reply, Request};
use tilemark_guests::{AgentSession, GuestError};
use tilemark_record::summary::IncidentKind;

/// Which load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadSource {
    /// All that is sent from outside: its events name loads by their places in the point's list.
    Outside,
    /// The one inside the guest of the load at this place in the point's list.
    Inside(u32),
}

/// What a load or the watcher of the host reports to the measurement.
pub(crate) enum LoadMessage {
    /// A load goes on.
    Event(LoadSource, LoadEvent),
    /// Nothing that it reported counts, and it is not listened to any more: what it did, and why in words.
    Lost(LoadSource, IncidentKind, String),
    /// The host was watched to the end.
    Watched(HostRead),
    /// A load is not listened to any more.
    Ended(Result<(), Failure>),
}

/// Where what one load reports goes, and what it waits for.
pub(crate) struct LoadListener {
    source: LoadSource,
    /// Where it runs, if that is a guest.
    guest: Option<String>,
    begins: Receiver<()>,
    sender: Sender<LoadMessage>,
}

impl LoadListener {
    /// One that waits for `begins` to close, and sends what it hears to `sender`.
    pub(crate) fn new(source: LoadSource, begins: Receiver<()>, sender: &Sender<LoadMessage>) -> Self {
        Self { source, guest: None, begins, sender: sender.clone() }
    }

    /// One to a load in this guest.
    pub(crate) fn in_guest(self, name: &str) -> Self {
        Self { guest: Some(name.to_owned()), ..self }
    }

    /// Sends the measurement a message. Nobody listens only when everything has failed already.
    pub(crate) fn send(&self, message: LoadMessage) {
        let _ = self.sender.send(message);
    }

    /// Listens to one load to its end. `next` gives what it reports next, within a time; `begin` lets it begin.
    fn listen<L>(
        &self,
        load: &mut L,
        check: &mut ReportCheck,
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
            let event = match check.take(event) {
                Ok(event) => event,
                Err(refused) => return self.refuse(with_causes(&refused)),
            };
            let is_ready = matches!(event, LoadEvent::Started(_));
            let is_last = matches!(event, LoadEvent::Done(_));
            if let LoadEvent::Failed { message, remedy } = event {
                return self.failed(&message, &remedy, has_begun);
            }
            self.send(LoadMessage::Event(self.source, event));
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
        self.send(LoadMessage::Lost(self.source, IncidentKind::Refused, why));
        Ok(())
    }

    /// A load that cannot be prepared in a guest would fail in every repeat. One that fails later met something that happened in its
    /// guest, such as the end of its service: a finding, which costs this repeat.
    fn failed(&self, message: &str, remedy: &str, has_begun: bool) -> Result<(), Failure> {
        let message = match &self.guest {
            None => format!("the load failed: {message}"),
            Some(_) if has_begun => {
                let what = format!("its load failed: {message}");
                self.send(LoadMessage::Lost(self.source, IncidentKind::ServiceErrors, what));
                return Ok(());
            }
            Some(guest) => format!("the load inside guest `{guest}` failed: {message}"),
        };
        Err(Failure::new(FailureCode::GuestFailed, message, remedy))
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

/// Listens to the load from outside to its end.
pub(crate) fn listen_outside(
    load: &mut dyn LoadProcess,
    job: &LoadJob,
    times: LoadTimes,
    listener: &LoadListener,
) -> Result<(), Failure> {
    load.prepare(job)?;
    let mut check = ReportCheck::of(job, Reporter::Ours, times.measured);
    let next =
        |load: &mut &mut dyn LoadProcess, within| Ok(load.next(within)?.map_or(Next::Nothing, Next::Event));
    listener.listen(&mut { load }, &mut check, times, next, |load| load.begin())
}

/// Listens to a load inside a guest to its end.
pub(crate) fn listen_inside(
    session: &mut AgentSession,
    job: LoadJob,
    times: LoadTimes,
    listener: &LoadListener,
) -> Result<(), Failure> {
    let mut check = ReportCheck::of(&job, Reporter::Guest, times.measured);
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
    listener.listen(&mut { session }, &mut check, times, next, begin)
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
