//! Listens to one load to its end: by one deadline of the host's clock, and to nothing that cannot be.

use crate::{
    clients::{ClientLine, ClientLost},
    failure::{Failure, FailureCode},
    pass::client_repeat,
    pass::host_watch::HostRead,
    pass::load_jobs::LoadTimes,
    pass::load_process::LoadProcess,
    pass::report_check::{ReportCheck, Reporter},
};
use std::{
    cell::Cell,
    sync::mpsc::{Receiver, Sender},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Reply, Request};
use tilemark_guests::{AgentSession, GuestError};
use tilemark_record::{clients::ClockOffset, summary::IncidentKind};
use tilemark_units::with_causes;

/// Which load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadSource {
    /// All that is sent from outside: its events name loads by their places in the point's list.
    Outside,
    /// The one inside the guest of the load at this place in the point's list.
    Inside(u32),
    /// What the client machine at this place in the site file sends: its events name loads by their places in the point's list.
    Client(u32),
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
    /// Where it runs, in words, if that is not in the load process.
    place: Option<String>,
    /// What it says about the repeat when what it reports does not count.
    refused: IncidentKind,
    begins: Receiver<Instant>,
    sender: Sender<LoadMessage>,
}

impl LoadListener {
    /// One that waits for the moment that comes from `begins`, or its end, and sends what it hears to `sender`.
    pub(crate) fn new(source: LoadSource, begins: Receiver<Instant>, sender: &Sender<LoadMessage>) -> Self {
        Self { source, place: None, refused: IncidentKind::Refused, begins, sender: sender.clone() }
    }

    /// One to a load in this guest.
    pub(crate) fn in_guest(self, name: &str) -> Self {
        Self { place: Some(format!("inside guest `{name}`")), ..self }
    }

    /// One to the loads of this client machine. What happens to it is no finding of a guest, and the repeat is measured again.
    pub(crate) fn of_client(self, name: &str) -> Self {
        Self { place: Some(format!("on client `{name}`")), refused: IncidentKind::Unproven, ..self }
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
        begin: impl Fn(&mut L, Instant) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (mut since, mut within, mut has_begun) = (Instant::now(), times.ready, false);
        loop {
            // It may begin in a while only.
            let left = (since + within).saturating_duration_since(Instant::now());
            let event = match next(load, left)? {
                _ if left.is_zero() => return self.refuse(late(within, has_begun)),
                Next::Event(event) => event,
                Next::Refused(why) => return self.refuse(why),
                Next::Nothing => return self.refuse(late(within, has_begun)),
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
                within = times.after_ready_in(since.elapsed());
                // Closed, it lets go.
                since = self.begins.recv().unwrap_or_else(|_| Instant::now());
                has_begun = true;
                begin(load, since)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    fn refuse(&self, why: String) -> Result<(), Failure> {
        self.send(LoadMessage::Lost(self.source, self.refused, why));
        Ok(())
    }

    /// A load that cannot be prepared in a guest would fail in every repeat. One that fails later met something that happened in its
    /// guest, such as the end of its service: a finding, which costs this repeat. So does a client's, whenever it fails.
    fn failed(&self, message: &str, remedy: &str, has_begun: bool) -> Result<(), Failure> {
        let message = match &self.place {
            None => format!("the load failed: {message}"),
            Some(_) if has_begun || matches!(self.source, LoadSource::Client(_)) => {
                let kind = match self.source {
                    LoadSource::Client(_) => self.refused,
                    LoadSource::Outside | LoadSource::Inside(_) => IncidentKind::ServiceErrors,
                };
                let what = format!("its load failed: {message}");
                self.send(LoadMessage::Lost(self.source, kind, what));
                return Ok(());
            }
            Some(place) => format!("the load {place} failed: {message}"),
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

fn late(within: Duration, has_begun: bool) -> String {
    let seconds = within.as_secs();
    if has_begun {
        format!("its load did not end within {seconds} s after it began")
    } else {
        format!("its load was not ready within {seconds} s")
    }
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
    listener.listen(&mut { load }, &mut check, times, next, |load, at| {
        wait_until(at);
        load.begin()
    })
}

/// Waits for the moment at which all loads begin: where some come from client machines, it is ahead.
fn wait_until(at: Instant) {
    std::thread::sleep(at.saturating_duration_since(Instant::now()));
}

/// Listens to the loads of a client machine to their end. Its clock has this offset.
pub(crate) fn listen_client(
    line: &mut ClientLine,
    job: &LoadJob,
    offset: ClockOffset,
    times: LoadTimes,
    listener: &LoadListener,
) -> Result<(), Failure> {
    let mut check = ReportCheck::of(job, Reporter::Ours, times.measured);
    let name = line.name().to_owned();
    let refused = |ClientLost(why): ClientLost| Next::Refused(client_repeat::lost(&name, &why));
    if let Err(lost) = line.send(&Request::PrepareLoad(Box::new(job.clone()))) {
        return listener.refuse(client_repeat::lost(&name, &lost.0));
    }
    let next = |line: &mut &mut ClientLine, within| {
        Ok(line.next_event(within).map_or_else(refused, |event| event.map_or(Next::Nothing, Next::Event)))
    };
    let begin = |line: &mut &mut ClientLine, at| {
        client_repeat::begin_at(line, at, offset);
        Ok(())
    };
    listener.listen(&mut { line }, &mut check, times, next, begin)
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
    let has_begun = Cell::new(false);
    let next = |session: &mut &mut AgentSession, within| match session.receive(within) {
        Ok(Reply::Load(event)) => Ok(Next::Event(event)),
        // Nobody asked it anything since: as if its load had failed.
        Err(GuestError::Refused { message, remedy, .. }) if has_begun.get() => {
            Ok(Next::Event(LoadEvent::Failed { message, remedy }))
        }
        Ok(_) => Ok(Next::Refused("its agent answered what nobody had asked".to_owned())),
        Err(GuestError::Silent { .. }) => Ok(Next::Nothing),
        Err(error) => lost(error).map(Next::Refused),
    };
    // One that does not hear that it may begin is found to be gone when it is listened to.
    let begin = |session: &mut &mut AgentSession, at| {
        has_begun.set(true);
        wait_until(at);
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
