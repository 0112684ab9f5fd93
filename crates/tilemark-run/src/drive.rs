//! One measurement: loads from outside and inside at the same time, the host watched meanwhile.

use crate::{
    disk_check::{DiskCounts, HostCount},
    engine::{Wish, Wishes},
    figures::Told,
    services,
    wire::{Failure, FailureCode},
};
use std::{
    path::PathBuf,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::{self, Scope},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Reply, Request};
use tilemark_guests::{AgentSession, Backend, GuestId, ReadyGuest};
use tilemark_host::telemetry::{Second, Watched, WatchedKind};
use tilemark_plan::plan::{self, GuestPlan, Plan, Point};

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

/// The one who watches the host while a measurement lasts.
pub(crate) trait Watch: Sync {
    /// Reads the host once a second and says what each second and all of them together were. `watched` tells, once the warm-up is over,
    /// whose processor time is told apart; `reading` is called at each reading. Ends early, with what it has,
    /// when `over` closes.
    fn watch(
        &self,
        watched: &dyn Fn() -> Vec<Watched>,
        reading: &dyn Fn(),
        times: Times,
        over: &Receiver<()>,
    ) -> HostRead;
}

/// What was read of the host while a measurement lasted.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HostRead {
    /// Each second.
    pub(crate) seconds: Vec<Second>,
    /// From the first reading to the last. On a host that is too busy to be read in time, seconds are of different
    /// lengths and their parts do not belong together: no mean of them is what this is.
    pub(crate) whole: Option<Box<Second>>,
}

/// When a measurement happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Its first counted moment: the warm-up is over.
    pub(crate) start: Instant,
    /// How many seconds it lasts.
    pub(crate) seconds: u32,
}

/// One measurement: what is measured and who watches.
pub(crate) struct Measurement<'a> {
    /// Of which plan.
    pub(crate) plan: &'a Plan,
    /// Of which point.
    pub(crate) point: &'a Point,
    /// How its guests exist.
    pub(crate) backend: &'a dyn Backend,
    /// Tilemark's own processes.
    pub(crate) own_processes: Vec<u32>,
    /// Who watches the host.
    pub(crate) watch: &'a dyn Watch,
    /// What the user wants.
    pub(crate) wishes: &'a Wishes,
}

/// What one measurement told.
#[derive(Default)]
pub(crate) struct Driven {
    /// The loads.
    pub(crate) told: Told,
    /// The host.
    pub(crate) host: HostRead,
    /// What the host counted on the disks of loads that run inside.
    pub(crate) disks: Vec<HostCount>,
}

/// After its measurement a load may take so long to hear the last answers and to tell its totals.
const AFTERWARDS: Duration = Duration::from_secs(60);

enum Heard {
    Outside(LoadEvent),
    Inside(u32, LoadEvent),
    Watched(HostRead),
    Ended(Result<(), Failure>),
}

/// Drives all loads of a point and watches the host; `None` when the user wanted it to end.
pub(crate) fn drive(
    measurement: &Measurement<'_>,
    guests: &mut [ReadyGuest],
    load: &mut dyn LoadProcess,
) -> Result<Option<Driven>, Failure> {
    let point = measurement.point;
    let ports: Vec<u16> = guests.iter().map(|guest| guest.port).collect();
    let ids: Vec<GuestId> = guests.iter().map(|guest| guest.id).collect();
    let within = point.measure.warmup.get() + point.measure.length.get() + AFTERWARDS;
    let (end_load, load_pid) = (load.ender(), load.pid());
    let (sender, heard) = mpsc::channel();
    let (going_on, over) = mpsc::channel();
    let disks = DiskCounts::of(measurement.backend, point, &ids);
    let driven = thread::scope(|scope| {
        let outside = services::outside_job(measurement.plan, point, &ports);
        let (has_outside, mut under_way) = (outside.is_some(), 0);
        // Loads inside begin with the one outside, once that stands: it may take a second to connect to many guests,
        // and all shall measure at the same time.
        let (mut waiting, to_inside) = (Some(&mut *guests), sender.clone());
        if let Some(job) = outside {
            under_way += 1;
            let sender = sender.clone();
            // Nobody listens only when everything has failed already; so everywhere below.
            scope.spawn(move || {
                let ended = outside_load(load, &job, within, &sender);
                let _ = sender.send(Heard::Ended(ended));
            });
        }
        if let Some(guests) = waiting.take_if(|_| !has_outside) {
            under_way += inside_loads(scope, point, guests, within, &to_inside);
        }
        let (ids, disks) = (&ids, &disks);
        let watch_from_now = move || {
            let times = measurement.times_from(Instant::now());
            scope.spawn(move || {
                let watched = || measurement.watched(ids, load_pid);
                let _ = sender.send(Heard::Watched(measurement.watch.watch(
                    &watched,
                    &|| disks.read(),
                    times,
                    &over,
                )));
            });
        };
        let mut course = Course { under_way, is_loaded: under_way > 0, ..Course::default() };
        let mut watching = Some(watch_from_now);
        if course.under_way == 0 {
            course.begin_watching(&mut watching);
        }
        let mut going_on = Some(going_on);
        while course.under_way > 0 {
            let heard = match heard.recv_timeout(Duration::from_millis(100)) {
                Ok(heard) => Some(heard),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            // What runs inside may have to prepare first, too.
            let begins = match &heard {
                Some(Heard::Outside(LoadEvent::Started(_))) => true,
                Some(Heard::Inside(_, LoadEvent::Started(_))) => !has_outside,
                _ => false,
            };
            if begins {
                if let Some(guests) = waiting.take() {
                    course.under_way += inside_loads(scope, point, guests, within, &to_inside);
                }
                course.begin_watching(&mut watching);
            }
            heard.into_iter().for_each(|heard| course.note(heard));
            if course.watches_for_nobody(within - AFTERWARDS) {
                going_on = None;
            }
            if going_on.is_some() && course.shall_end(measurement.wishes) {
                (going_on, watching, waiting) = (None, None, None);
                end_all(&*end_load, measurement.backend, ids);
            }
        }
        course.end()
    })?;
    disks.read();
    Ok(driven.map(|driven| Driven { disks: disks.into_counts(), ..driven }))
}

impl Measurement<'_> {
    fn times_from(&self, load_began: Instant) -> Times {
        let measure = &self.point.measure;
        Times {
            start: load_began + measure.warmup.get(),
            seconds: u32::try_from(measure.length.get().as_secs()).unwrap_or(u32::MAX),
        }
    }

    /// Everybody whose processor time is told apart.
    fn watched(&self, guests: &[GuestId], load: Option<u32>) -> Vec<Watched> {
        let kind = match self.point.backend {
            plan::Backend::Native => WatchedKind::NativeGuest,
            plan::Backend::Kvm | plan::Backend::Emulated => WatchedKind::QemuGuest,
        };
        let one = |name: &str, kind, pids| Watched { name: name.to_owned(), kind, pids, group: None };
        let groups: Vec<Option<PathBuf>> = guests.iter().map(|guest| self.backend.group(*guest)).collect();
        let without: Vec<GuestId> = guests
            .iter()
            .zip(&groups)
            .filter(|(_, group)| group.is_none())
            .map(|(guest, _)| *guest)
            .collect();
        let mut processes = self.backend.all_processes(&without).into_iter();
        let guest = |(group, plan): (Option<PathBuf>, &GuestPlan)| match group {
            // A server inside may have a process for each client: the group knows those that came and went.
            Some(group) => Watched { group: Some(group), ..one(&plan.name, kind, Vec::new()) },
            None => one(&plan.name, kind, processes.next().unwrap_or_default()),
        };
        let mut watched: Vec<Watched> = groups.into_iter().zip(&self.point.guests).map(guest).collect();
        watched.extend(load.map(|pid| one("load", WatchedKind::Load, vec![pid])));
        watched.push(one("tilemark", WatchedKind::Tilemark, self.own_processes.clone()));
        watched
    }
}

/// What a measurement has come to.
#[derive(Default)]
struct Course {
    driven: Driven,
    /// Loads and watchers that have not ended.
    under_way: usize,
    /// Whether there is any load. Idle guests are watched for the whole time.
    is_loaded: bool,
    failed: Option<Failure>,
    interrupted: bool,
    /// Since when the host is watched, until it was told what was seen.
    watching_since: Option<Instant>,
}

impl Course {
    /// Once: the host is watched from the moment on when the load's schedule begins.
    fn begin_watching(&mut self, begin: &mut Option<impl FnOnce()>) {
        if let Some(begin) = begin.take() {
            begin();
            self.under_way += 1;
            self.watching_since = Some(Instant::now());
        }
    }

    fn note(&mut self, heard: Heard) {
        match heard {
            Heard::Outside(event) => self.driven.told.outside(event),
            Heard::Inside(place, event) => self.driven.told.inside(place, event),
            Heard::Watched(host) => {
                self.under_way -= 1;
                self.watching_since = None;
                self.driven.host = host;
            }
            Heard::Ended(ended) => {
                self.under_way -= 1;
                // The first failure is the one to tell: others follow from it.
                self.failed = self.failed.take().or(ended.err());
            }
        }
    }

    /// All loads have ended long before their time: a load of so many messages does when they are through.
    fn watches_for_nobody(&self, planned: Duration) -> bool {
        let is_early = |since: Instant| since.elapsed() + Duration::from_secs(1) < planned;
        self.is_loaded && self.under_way == 1 && self.watching_since.is_some_and(is_early)
    }

    fn shall_end(&mut self, wishes: &Wishes) -> bool {
        self.interrupted = self.failed.is_none() && wishes.now() != Wish::GoOn;
        self.interrupted || self.failed.is_some()
    }

    fn end(self) -> Result<Option<Driven>, Failure> {
        match self.failed {
            _ if self.interrupted => Ok(None),
            Some(failure) => Err(failure),
            None => Ok(Some(self.driven)),
        }
    }
}

/// Ends what others wait for, so that they stop waiting.
fn end_all(end_load: &dyn Fn(), backend: &dyn Backend, ids: &[GuestId]) {
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

/// Starts the loads that run inside their guests, and says how many.
fn inside_loads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    point: &'scope Point,
    guests: &'scope mut [ReadyGuest],
    within: Duration,
    sender: &Sender<Heard>,
) -> usize {
    let mut sessions: Vec<Option<&mut AgentSession>> =
        guests.iter_mut().map(|guest| Some(&mut guest.session)).collect();
    let mut begun = 0;
    for (place, load) in (0..).zip(&point.loads) {
        let Some(job) = services::inside_job(point, load) else { continue };
        let Some(session) = sessions[load.guest as usize].take() else { continue };
        begun += 1;
        let sender = sender.clone();
        scope.spawn(move || {
            let ended = inside_load(session, place, job, within, &sender);
            let _ = sender.send(Heard::Ended(ended));
        });
    }
    begun
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
