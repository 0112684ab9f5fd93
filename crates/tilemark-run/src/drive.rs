//! One measurement: loads from outside and inside at the same time, the host watched meanwhile.
//!
//! ```text
//! every load is told to prepare -> connects, makes its tables -> says that all stands -> is held
//! the last one stands -> all are told to begin: their warm-ups and seconds, and the host's, are the same
//! ```

use crate::{
    disk_check::{DiskCounts, HostCount},
    failure::Failure,
    figures::Told,
    listen::{LoadListener, inside_load, outside_load},
    services,
    stop::StopSignal,
};
use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::{self, Scope},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LoadEvent, LoadJob};
use tilemark_guests::{AgentSession, Backend, GuestId, ReadyGuest};
use tilemark_host::telemetry::{Second, Watched, WatchedKind};
use tilemark_plan::plan::{self, GuestPlan, LoadPlan, Plan, Point};
use tilemark_record::summary::{Incident, IncidentKind};

/// The process that sends load from outside. It ends when it is dropped.
pub(crate) trait LoadProcess: Send {
    /// Has it make ready; it tells `Started` when all stands.
    fn prepare(&mut self, job: &LoadJob) -> Result<(), Failure>;
    /// What was prepared begins, at once or as soon as all stands.
    fn begin(&mut self) -> Result<(), Failure>;
    /// The load's next event; `None` if none arrives within this time.
    fn next(&mut self, within: Duration) -> Result<Option<LoadEvent>, Failure>;
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
    /// In which block: each has its own schedule.
    pub(crate) block: u32,
    /// How its guests exist.
    pub(crate) backend: &'a dyn Backend,
    /// Tilemark's own processes.
    pub(crate) own_processes: Vec<u32>,
    /// Who watches the host.
    pub(crate) watch: &'a dyn Watch,
    /// What the user wants.
    pub(crate) stop: &'a StopSignal,
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
    /// Loads of which nothing counts, and why.
    pub(crate) refused: Vec<Incident>,
}

/// Which load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// All that is sent from outside.
    Outside,
    /// The one inside that has this place in the point's list.
    Inside(u32),
}

/// Where loads that stand wait for the others.
#[derive(Default)]
struct StartLine {
    /// Of which nothing was heard yet: the first thing that a load tells is that it stands.
    awaited: BTreeSet<Whose>,
    /// Ends of channels that nothing is sent over: they close, and that is heard by all at once.
    held: Vec<Sender<()>>,
}

impl StartLine {
    /// One more load. It begins when this channel closes.
    fn comes(&mut self, whose: Whose) -> Receiver<()> {
        let (held, begins) = mpsc::channel();
        self.awaited.insert(whose);
        self.held.push(held);
        begins
    }

    fn hears(&mut self, heard: &Heard) {
        match heard {
            Heard::Event(whose, _) | Heard::Refused(whose, _) => self.awaited.remove(whose),
            Heard::Watched(_) | Heard::Ended(_) => false,
        };
    }

    fn all_stand(&self) -> bool {
        self.awaited.is_empty()
    }

    fn begin(&mut self) {
        self.held.clear();
    }
}

/// What a measurement hears.
pub(crate) enum Heard {
    Event(Whose, LoadEvent),
    /// Nothing that it reported counts, and it is not listened to any more.
    Refused(Whose, String),
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
    let planned = point.measure.warmup.get() + point.measure.length.get();
    let (end_load, load_pid) = (load.ender(), load.pid());
    let (sender, heard) = mpsc::channel();
    let (going_on, over) = mpsc::channel();
    let disks = DiskCounts::of(measurement.backend, point, &ids);
    let driven = thread::scope(|scope| {
        let mut line = StartLine::default();
        if let Some(job) = services::outside_job(measurement.plan, point, measurement.block, &ports) {
            let listener = LoadListener::new(Whose::Outside, line.comes(Whose::Outside), &sender);
            let times = services::times_outside(point);
            // Nobody listens only when everything has failed already; so everywhere below.
            scope.spawn(move || {
                let ended = outside_load(load, &job, times, &listener);
                listener.send(Heard::Ended(ended));
            });
        }
        inside_loads(scope, measurement, guests, &mut line, &sender);
        let under_way = line.awaited.len();
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
        if line.all_stand() {
            course.begin_watching(&mut watching);
        }
        let mut going_on = Some(going_on);
        while course.under_way > 0 {
            let heard = match heard.recv_timeout(Duration::from_millis(100)) {
                Ok(heard) => Some(heard),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if let Some(heard) = heard {
                line.hears(&heard);
                course.note(heard);
            }
            if line.all_stand() {
                line.begin();
                course.begin_watching(&mut watching);
            }
            if course.watches_for_nobody(planned) {
                going_on = None;
            }
            if going_on.is_some() && course.shall_end(measurement.stop) {
                (going_on, watching) = (None, None);
                line.begin();
                end_all(&*end_load, measurement.backend, ids);
            }
        }
        course.end(point)
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
    /// Whose reports count for nothing, and why.
    refused: Vec<(Whose, String)>,
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
            Heard::Event(Whose::Outside, event) => self.driven.told.outside(event),
            Heard::Event(Whose::Inside(place), event) => self.driven.told.inside(place, event),
            Heard::Refused(whose, why) => self.refused.push((whose, why)),
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

    fn shall_end(&mut self, stop: &StopSignal) -> bool {
        self.interrupted = self.failed.is_none() && stop.is_requested();
        self.interrupted || self.failed.is_some()
    }

    fn end(mut self, point: &Point) -> Result<Option<Driven>, Failure> {
        match self.failed {
            _ if self.interrupted => return Ok(None),
            Some(failure) => return Err(failure),
            None => {}
        }
        for (whose, what) in self.refused {
            let guest = match whose {
                Whose::Outside => {
                    self.driven.told = Told::default();
                    None
                }
                Whose::Inside(place) => {
                    self.driven.told.forget(place);
                    Some(name_of_guest(point, &point.loads[place as usize]))
                }
            };
            self.driven.refused.push(Incident { kind: IncidentKind::Refused, what, guest });
        }
        Ok(Some(self.driven))
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

fn name_of_guest(point: &Point, load: &LoadPlan) -> String {
    point.guests[load.guest as usize].name.clone()
}

/// Prepares the loads that run inside their guests.
fn inside_loads<'scope>(
    scope: &'scope Scope<'scope, '_>,
    measurement: &'scope Measurement<'_>,
    guests: &'scope mut [ReadyGuest],
    line: &mut StartLine,
    sender: &Sender<Heard>,
) {
    let mut sessions: Vec<Option<&mut AgentSession>> =
        guests.iter_mut().map(|guest| Some(&mut guest.session)).collect();
    let point = measurement.point;
    for (place, load) in (0..).zip(&point.loads) {
        let Some(job) = services::inside_job(point, measurement.block, load) else { continue };
        let Some(session) = sessions[load.guest as usize].take() else { continue };
        let whose = Whose::Inside(place);
        let listener = LoadListener::new(whose, line.comes(whose), sender);
        let times = services::times_inside(point, load);
        scope.spawn(move || {
            let ended = inside_load(session, job, times, &listener);
            listener.send(Heard::Ended(ended));
        });
    }
}
