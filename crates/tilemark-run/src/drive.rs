//! One measurement: loads from outside and inside at the same time, the host watched meanwhile.

use crate::{
    engine::{Wish, Wishes},
    figures::Told,
    services, watch,
    wire::{Failure, FailureCode},
};
use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Reply, Request};
use tilemark_guests::{AgentSession, Backend, GuestId, ReadyGuest};
use tilemark_host::telemetry::{Second, Watched, WatchedKind};
use tilemark_plan::plan::{self, Plan, Point};

/// The process that sends load from outside. It ends when it is dropped.
pub(crate) trait LoadProcess: Send {
    /// Begins.
    fn begin(&mut self, job: &LoadJob) -> Result<(), Failure>;
    /// The next thing that it tells, at most so late.
    fn next(&mut self, within: Duration) -> Result<LoadEvent, Failure>;
    /// Its process.
    fn pid(&self) -> Option<u32>;
    /// A way to end it from another thread, so that `next` returns.
    fn ender(&self) -> Box<dyn Fn() + Send>;
}

/// What one measurement told.
pub(crate) struct Driven {
    /// The loads.
    pub(crate) told: Told,
    /// The host, second by second.
    pub(crate) host: Vec<Second>,
}

/// After its measurement a load may take so long to hear the last answers and to tell its totals.
const AFTERWARDS: Duration = Duration::from_secs(60);

enum Heard {
    Outside(LoadEvent),
    Inside(u32, LoadEvent),
    Ended(Result<(), Failure>),
}

/// Drives all loads of a point and watches the host; `None` when the user wanted it to end.
pub(crate) fn drive(
    plan: &Plan,
    point: &Point,
    guests: &mut [ReadyGuest],
    load: &mut dyn LoadProcess,
    own_processes: &[u32],
    backend: &dyn Backend,
    wishes: &Wishes,
) -> Result<Option<Driven>, Failure> {
    let ports: Vec<u16> = guests.iter().map(|guest| guest.port).collect();
    let ids: Vec<_> = guests.iter().map(|guest| guest.id).collect();
    let outside = services::outside_job(plan, point, &ports);
    let within = point.measure.warmup.get() + point.measure.length.get() + AFTERWARDS;
    let end_load = load.ender();
    let load_pid = load.pid();
    let ids = &ids;
    let (sender, heard) = mpsc::channel();
    thread::scope(|scope| {
        let mut under_way = 0;
        let has_outside = outside.is_some();
        if let Some(job) = outside {
            under_way += 1;
            let sender = sender.clone();
            scope.spawn(move || {
                let ended = outside_load(load, &job, within, &sender);
                // Nobody listens only when everything has failed already.
                let _ = sender.send(Heard::Ended(ended));
            });
        }
        let mut sessions: Vec<Option<&mut AgentSession>> =
            guests.iter_mut().map(|guest| Some(&mut guest.session)).collect();
        for (place, load) in (0..).zip(&point.loads) {
            let Some(job) = services::inside_job(point, load) else { continue };
            let Some(session) = sessions[load.guest as usize].take() else { continue };
            under_way += 1;
            let sender = sender.clone();
            scope.spawn(move || {
                let ended = inside_load(session, place, job, within, &sender);
                let _ = sender.send(Heard::Ended(ended));
            });
        }
        drop(sender);
        let seconds = u32::try_from(point.measure.length.get().as_secs()).unwrap_or(u32::MAX);
        let watch_from = |start: Instant| {
            let start = start + point.measure.warmup.get();
            scope.spawn(move || {
                // Looked up when the warm-up is over: what runs inside has started its processes by then.
                thread::sleep(start.saturating_duration_since(Instant::now()));
                let watched = watched(point, backend, ids, load_pid, own_processes);
                watch::watch(&watched, start, seconds, wishes)
            })
        };
        let mut watching = (!has_outside).then(|| watch_from(Instant::now()));
        let mut told = Told::default();
        let mut failed = None;
        while under_way > 0 {
            match heard.recv_timeout(Duration::from_millis(100)) {
                Ok(Heard::Outside(event)) => {
                    if matches!(event, LoadEvent::Started(_)) && watching.is_none() {
                        watching = Some(watch_from(Instant::now()));
                    }
                    told.outside(event);
                }
                Ok(Heard::Inside(place, event)) => told.inside(place, event),
                Ok(Heard::Ended(Ok(()))) => under_way -= 1,
                Ok(Heard::Ended(Err(failure))) => {
                    under_way -= 1;
                    if failed.is_none() {
                        failed = Some(failure);
                        wishes_end(&*end_load, backend, ids);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if wishes.now() != Wish::GoOn && failed.is_none() {
                wishes_end(&*end_load, backend, ids);
                failed = Some(Failure::told(FailureCode::Bug, "interrupted", ""));
            }
        }
        let host =
            watching.map(|watching| watching.join().expect("watching does not panic")).unwrap_or_default();
        match failed {
            _ if wishes.now() != Wish::GoOn => Ok(None),
            Some(failure) => Err(failure),
            None => Ok(Some(Driven { told, host })),
        }
    })
}

/// Ends what others wait for, so that they stop waiting.
fn wishes_end(end_load: &dyn Fn(), backend: &dyn Backend, ids: &[GuestId]) {
    end_load();
    for id in ids {
        // The pass ends them again and tells what failed then.
        let _ = backend.stop(*id);
    }
}

fn outside_load(
    load: &mut dyn LoadProcess,
    job: &LoadJob,
    within: Duration,
    sender: &Sender<Heard>,
) -> Result<(), Failure> {
    load.begin(job)?;
    loop {
        match load.next(within)? {
            LoadEvent::Failed { message, remedy } => {
                return Err(Failure::told(
                    FailureCode::GuestFailed,
                    format!("the load failed: {message}"),
                    remedy,
                ));
            }
            event => {
                let last = matches!(event, LoadEvent::Done(_));
                let _ = sender.send(Heard::Outside(event));
                if last {
                    return Ok(());
                }
            }
        }
    }
}

fn inside_load(
    session: &mut AgentSession,
    place: u32,
    job: LoadJob,
    within: Duration,
    sender: &Sender<Heard>,
) -> Result<(), Failure> {
    session.send(&Request::StartLoad(Box::new(job))).map_err(crate::pipeline::guest_failed)?;
    loop {
        match session.receive(within).map_err(crate::pipeline::guest_failed)? {
            Reply::Load(LoadEvent::Failed { message, remedy }) => {
                return Err(Failure::told(
                    FailureCode::GuestFailed,
                    format!("the load inside failed: {message}"),
                    remedy,
                ));
            }
            Reply::Load(event) => {
                let last = matches!(event, LoadEvent::Done(_));
                let _ = sender.send(Heard::Inside(place, event));
                if last {
                    return Ok(());
                }
            }
            _ => {}
        }
    }
}

/// Everybody whose processor time is told apart.
fn watched(
    point: &Point,
    backend: &dyn Backend,
    guests: &[GuestId],
    load: Option<u32>,
    own_processes: &[u32],
) -> Vec<Watched> {
    let kind = match point.backend {
        plan::Backend::Native => WatchedKind::NativeGuest,
        plan::Backend::Kvm | plan::Backend::Emulated => WatchedKind::QemuGuest,
    };
    let one = |name: &str, kind, pids| Watched { name: name.to_owned(), kind, pids, group: None };
    let processes =
        |guest: &GuestId| backend.processes(*guest).map(|processes| processes.all).unwrap_or_default();
    let mut watched: Vec<Watched> = guests
        .iter()
        .zip(&point.guests)
        .map(|(guest, plan)| one(&plan.name, kind, processes(guest)))
        .collect();
    watched.extend(load.map(|pid| one("load", WatchedKind::Load, vec![pid])));
    watched.push(one("tilemark", WatchedKind::Tilemark, own_processes.to_vec()));
    watched
}
