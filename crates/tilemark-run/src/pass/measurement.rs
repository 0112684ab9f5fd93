//! One measurement: loads from outside and inside at the same time, the host watched meanwhile.
//!
//! ```text
//! every load is sent its job  -> connects, makes its tables -> reports that it is ready -> waits
//! the last one is ready       -> all begin: their warm-ups and seconds, and the host's, are the same
//! ```

use crate::{
    failure::Failure,
    pass::client_repeat::RepeatClients,
    pass::disk_check::{DiskCounts, HostCount},
    pass::hooks::{HookGuests, RepeatHooks},
    pass::host_settings::SettingsHeld,
    pass::host_watch::{HostRead, Times, Watch},
    pass::load_figures::LoadReports,
    pass::load_jobs::{inside_job, outside_job, times_inside, times_outside},
    pass::load_listener::{
        LoadListener, LoadMessage, LoadSource, listen_client, listen_inside, listen_outside,
    },
    pass::load_process::LoadProcess,
    pass::place_watch::{self, Halfway, LoadOnHost},
    plan::command_files,
    stop::StopSignal,
};
use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{
        OnceLock,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};
use tilemark_guests::{AgentSession, GuestId, GuestManager, ReadyGuest, stop_all};
use tilemark_host::telemetry::{Watched, WatchedKind};
use tilemark_plan::plan::{self, GuestPlan, LoadPlan, Plan, Point};
use tilemark_record::{
    placement::PlaceFigures,
    summary::{HookRun, Incident, IncidentKind},
};

/// One measurement: what is measured and who watches.
pub(crate) struct Measurement<'a> {
    /// Of which plan.
    pub(crate) plan: &'a Plan,
    /// Of which point.
    pub(crate) point: &'a Point,
    /// In which block: each has its own schedule.
    pub(crate) block: u32,
    /// Who manages its guests.
    pub(crate) manager: &'a dyn GuestManager,
    /// Tilemark's own processes.
    pub(crate) own_processes: Vec<u32>,
    /// Who watches the host.
    pub(crate) watch: &'a dyn Watch,
    /// What is set on the host meanwhile.
    pub(crate) settings: &'a SettingsHeld<'a>,
    /// The user's own commands around the measured seconds.
    pub(crate) hooks: Option<RepeatHooks<'a>>,
    /// Whether it is to end.
    pub(crate) stop: &'a StopSignal,
}

/// What one measurement found.
#[derive(Default)]
pub(crate) struct MeasuredPass {
    /// What the loads reported.
    pub(crate) reports: LoadReports,
    /// The host.
    pub(crate) host: HostRead,
    /// What the host counted on the disks of loads that run inside.
    pub(crate) disks: Vec<HostCount>,
    /// Loads of which nothing counts, and why.
    pub(crate) lost: Vec<Incident>,
    /// Where guests were, where the plan puts any in a place.
    pub(crate) place: Option<PlaceFigures>,
    /// The user's own commands that ran.
    pub(crate) hooks: Vec<HookRun>,
    /// Client machines that were lost, by their places in the site file.
    pub(crate) lost_clients: Vec<u32>,
}

impl Measurement<'_> {
    /// Runs all loads of the point and watches the host; `None` when the user wanted it to end.
    ///
    /// # Errors
    /// The first failure of a load.
    pub(crate) fn run(
        &self,
        guests: &mut [ReadyGuest],
        load: &mut dyn LoadProcess,
        clients: Option<&mut RepeatClients<'_>>,
    ) -> Result<Option<MeasuredPass>, Failure> {
        let begin_after = clients.as_ref().map_or(Duration::ZERO, |clients| clients.begin_after());
        let end_clients = clients.as_ref().map(|clients| clients.enders()).unwrap_or_default();
        let ports: Vec<Vec<u16>> = guests.iter().map(|guest| guest.ports.clone()).collect();
        let ids: Vec<GuestId> = guests.iter().map(|guest| guest.id).collect();
        let (end_load, load_pid, load_group) = (load.ender(), load.pid(), load.group());
        let (sender, messages) = mpsc::channel();
        let (going_on, over) = mpsc::channel();
        let disks = DiskCounts::of(self.manager, self.point, &ids);
        let (place, strayed, ran) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let (measuring, hears) = mpsc::channel();
        let measured = thread::scope(|scope| {
            let mut barrier = LoadBarrier::default();
            self.outside_load(scope, load, &ports, &mut barrier, &sender);
            self.inside_loads(scope, guests, &ports, &mut barrier, &sender);
            self.client_loads(scope, clients, &mut barrier, &sender);
            let (ids, disks, load_group) = (&ids, &disks, &load_group);
            let halfway = self.places(scope, ids, load_pid, &place, &strayed);
            self.run_hooks(scope, ids, hears, &ran);
            let watch_from = move |begins: Instant| {
                let times = self.times_from(begins);
                scope.spawn(move || {
                    let watched = || self.watched(ids, load_pid, load_group);
                    let reading = || {
                        disks.read();
                        self.settings.read_at_start();
                        halfway.count();
                        // Without hooks nobody listens.
                        let _ = measuring.send(());
                    };
                    let read = self.watch.watch(&watched, &reading, times, &over);
                    drop(measuring);
                    let _ = sender.send(LoadMessage::Watched(read));
                });
            };
            let mut running = Running::new(barrier, watch_from, going_on);
            running.begin_after = begin_after;
            running.follow(&messages, self, &|| {
                end_clients.iter().for_each(|end| end());
                end_all(&*end_load, self.manager, ids);
            });
            running.end(self.point)
        })?;
        disks.read();
        let (disks, place) = (disks.into_counts(), place.into_inner());
        let hooks = ran.into_inner().unwrap_or_default();
        Ok(measured.map(|mut measured| {
            measured.lost.extend(strayed.into_inner().unwrap_or_default());
            MeasuredPass { disks, place, hooks, ..measured }
        }))
    }

    /// Reads where guests and the load are once half of the measurement is over, in a thread of its own: the one that watches the host reads
    /// it each second, and does not wait for that.
    fn places<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        ids: &'scope [GuestId],
        load: Option<u32>,
        place: &'scope OnceLock<PlaceFigures>,
        strayed: &'scope OnceLock<Vec<Incident>>,
    ) -> Halfway {
        let (halfway, hears) = Halfway::of(self.times_from(Instant::now()).seconds);
        let is_wanted = place_watch::is_wanted(self.plan);
        let is_native = self.point.backend == plan::Backend::Native;
        let load = load.filter(|_| self.point.loads.iter().any(LoadPlan::is_outside));
        let load = load.map(|pid| LoadOnHost { pid, processors: &self.plan.processors.load });
        if is_wanted || is_native {
            scope.spawn(move || {
                let before = place_watch::interrupts_so_far().filter(|_| is_wanted);
                // The other end goes where the measurement ends before.
                if hears.recv().is_err() {
                    return;
                }
                if is_native {
                    let _ = strayed.set(place_watch::strayed(self.manager, self.point, ids));
                }
                if is_wanted {
                    let both = before.zip(place_watch::interrupts_so_far());
                    let interrupts = both.map(|(before, after)| {
                        place_watch::interrupts_between(&before, &after, &self.plan.processors)
                    });
                    let read = place_watch::read(self.manager, self.point, ids, load);
                    let _ = place.set(PlaceFigures { interrupts, ..read });
                }
            });
        }
        halfway
    }

    /// Runs the user's own commands, in a thread of its own, from the first reading of the host until its watcher is through.
    fn run_hooks<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        ids: &'scope [GuestId],
        measuring: Receiver<()>,
        ran: &'scope OnceLock<Vec<HookRun>>,
    ) {
        let Some(hooks) = &self.hooks else { return };
        scope.spawn(move || {
            let guests = HookGuests::of(self.manager, self.point, ids);
            let _ = ran.set(hooks.follow(&guests, &measuring));
        });
    }

    /// Prepares the load that is sent from outside, if the point has one.
    fn outside_load<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        load: &'scope mut dyn LoadProcess,
        ports: &[Vec<u16>],
        barrier: &mut LoadBarrier,
        sender: &Sender<LoadMessage>,
    ) {
        let Some(job) = outside_job(self.plan, self.point, self.block, ports) else { return };
        let listener = LoadListener::new(LoadSource::Outside, barrier.add(LoadSource::Outside), sender);
        let times = times_outside(self.point);
        scope.spawn(move || {
            let ended = listen_outside(load, &job, times, &listener);
            listener.send(LoadMessage::Ended(ended));
        });
    }

    /// Prepares the loads that run inside guests.
    fn inside_loads<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        guests: &'scope mut [ReadyGuest],
        ports: &[Vec<u16>],
        barrier: &mut LoadBarrier,
        sender: &Sender<LoadMessage>,
    ) {
        let mut sessions: Vec<Option<&mut AgentSession>> =
            guests.iter_mut().map(|guest| Some(&mut guest.session)).collect();
        for (place, load) in (0..).zip(&self.point.loads) {
            let Some(job) = inside_job(self.point, self.block, load, ports) else { continue };
            let Some(guest) = load.runs_in() else { continue };
            let Some(session) = sessions[guest as usize].take() else { continue };
            let source = LoadSource::Inside(place);
            let listener = LoadListener::new(source, barrier.add(source), sender)
                .in_guest(&self.point.guests[guest as usize].name);
            let times = times_inside(self.point, load);
            scope.spawn(move || {
                let ended =
                    command_files::bring(job).and_then(|job| listen_inside(session, job, times, &listener));
                listener.send(LoadMessage::Ended(ended));
            });
        }
    }

    /// Prepares the loads that client machines send.
    fn client_loads<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        clients: Option<&'scope mut RepeatClients<'_>>,
        barrier: &mut LoadBarrier,
        sender: &Sender<LoadMessage>,
    ) {
        let times = times_outside(self.point);
        for member in clients.into_iter().flat_map(RepeatClients::members) {
            let (place, client, job, offset) = member.parts();
            let source = LoadSource::Client(place);
            let listener = LoadListener::new(source, barrier.add(source), sender).of_client(client.name());
            scope.spawn(move || {
                let ended = listen_client(client, job, offset, times, &listener);
                listener.send(LoadMessage::Ended(ended));
            });
        }
    }

    fn planned(&self) -> Duration {
        self.point.measure.warmup.get() + self.point.measure.length.get()
    }

    fn times_from(&self, load_began: Instant) -> Times {
        let measure = &self.point.measure;
        Times {
            start: load_began + measure.warmup.get(),
            seconds: u32::try_from(measure.length.get().as_secs()).unwrap_or(u32::MAX),
        }
    }

    /// Everybody whose processor time is read apart.
    fn watched(&self, guests: &[GuestId], load: Option<u32>, load_group: &Option<PathBuf>) -> Vec<Watched> {
        let kind = match self.point.backend {
            plan::Backend::Native => WatchedKind::NativeGuest,
            plan::Backend::Kvm | plan::Backend::Emulated => WatchedKind::QemuGuest,
        };
        let one = |name: &str, kind, pids| Watched { name: name.to_owned(), kind, pids, group: None };
        let groups: Vec<Option<PathBuf>> = guests.iter().map(|guest| self.manager.group(*guest)).collect();
        let without: Vec<GuestId> = guests
            .iter()
            .zip(&groups)
            .filter(|(_, group)| group.is_none())
            .map(|(guest, _)| *guest)
            .collect();
        let mut processes = self.manager.all_processes(&without).into_iter();
        let guest = |(group, plan): (Option<PathBuf>, &GuestPlan)| match group {
            // A server inside may have a process for each client: the group knows those that came and went.
            Some(group) => Watched { group: Some(group), ..one(&plan.name, kind, Vec::new()) },
            None => one(&plan.name, kind, processes.next().unwrap_or_default()),
        };
        let mut watched: Vec<Watched> = groups.into_iter().zip(&self.point.guests).map(guest).collect();
        watched.extend(
            load.map(|pid| Watched {
                group: load_group.clone(),
                ..one("load", WatchedKind::Load, vec![pid])
            }),
        );
        watched.push(one("tilemark", WatchedKind::Tilemark, self.own_processes.clone()));
        watched.extend(self.hooks.as_ref().map(|hooks| Watched {
            group: Some(hooks.group().to_owned()),
            ..one("hooks", WatchedKind::Hooks, Vec::new())
        }));
        watched
    }
}

/// Where loads that are ready wait for the others.
#[derive(Default)]
struct LoadBarrier {
    /// Those that have reported nothing yet: the first thing that a load reports is that it is ready.
    awaited: BTreeSet<LoadSource>,
    /// Ends of channels over which the moment comes at which all begin. Where they close without one, loads let go at once.
    held: Vec<Sender<Instant>>,
}

impl LoadBarrier {
    /// One more load. It begins at the moment that comes over this channel, or when it closes.
    fn add(&mut self, source: LoadSource) -> Receiver<Instant> {
        let (held, begins) = mpsc::channel();
        self.awaited.insert(source);
        self.held.push(held);
        begins
    }

    fn note(&mut self, message: &LoadMessage) {
        match message {
            LoadMessage::Event(source, _) | LoadMessage::Lost(source, ..) => self.awaited.remove(source),
            LoadMessage::Watched(_) | LoadMessage::Ended(_) => false,
        };
    }

    fn all_ready(&self) -> bool {
        self.awaited.is_empty()
    }

    fn begin(&mut self, at: Instant) {
        for held in self.held.drain(..) {
            // One that is not listened to any more needs no beginning.
            let _ = held.send(at);
        }
    }

    fn let_go(&mut self) {
        self.held.clear();
    }
}

/// Loads and the watcher of the host while they run.
struct Running<W> {
    measured: MeasuredPass,
    barrier: LoadBarrier,
    /// How long after the last load is ready all begin.
    begin_after: Duration,
    /// Begins to watch the host, once, from the moment on at which the loads begin.
    watch_from: Option<W>,
    /// Closed when nothing is to be watched any more.
    going_on: Option<Sender<()>>,
    /// Loads and watchers that have not ended.
    left: usize,
    /// Whether there is any load. Idle guests are watched for the whole time.
    is_loaded: bool,
    failed: Option<Failure>,
    /// Loads whose reports count for nothing, and why.
    lost: Vec<(LoadSource, IncidentKind, String)>,
    interrupted: bool,
    /// Since when the host is watched, until the watcher has ended.
    watching_since: Option<Instant>,
}

impl<W: FnOnce(Instant)> Running<W> {
    fn new(barrier: LoadBarrier, watch_from: W, going_on: Sender<()>) -> Self {
        let left = barrier.awaited.len();
        Self {
            measured: MeasuredPass::default(),
            barrier,
            begin_after: Duration::ZERO,
            watch_from: Some(watch_from),
            going_on: Some(going_on),
            left,
            is_loaded: left > 0,
            failed: None,
            lost: Vec::new(),
            interrupted: false,
            watching_since: None,
        }
    }

    /// Takes what loads and watcher report until all have ended.
    fn follow(&mut self, messages: &Receiver<LoadMessage>, of: &Measurement<'_>, end_all: &dyn Fn()) {
        self.begin_when_ready();
        while self.left > 0 {
            match messages.recv_timeout(Duration::from_millis(100)) {
                Ok(message) => {
                    self.barrier.note(&message);
                    self.note(message);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.begin_when_ready();
            if self.watches_for_nobody(of.planned()) {
                self.going_on = None;
            }
            if self.going_on.is_some() && self.shall_end(of.stop) {
                (self.going_on, self.watch_from) = (None, None);
                self.barrier.let_go();
                end_all();
            }
        }
    }

    /// The host is watched from the moment on when the load's schedule begins.
    fn begin_when_ready(&mut self) {
        if !self.barrier.all_ready() {
            return;
        }
        if let Some(watch_from) = self.watch_from.take() {
            let begins = Instant::now() + self.begin_after;
            self.barrier.begin(begins);
            watch_from(begins);
            self.left += 1;
            self.watching_since = Some(begins);
        }
    }

    fn note(&mut self, message: LoadMessage) {
        match message {
            LoadMessage::Event(LoadSource::Outside, event) => self.measured.reports.outside(event),
            LoadMessage::Event(LoadSource::Inside(place), event) => {
                self.measured.reports.inside(place, event);
            }
            LoadMessage::Event(LoadSource::Client(place), event) => {
                self.measured.reports.client(place, event);
            }
            LoadMessage::Lost(source, kind, why) => self.lost.push((source, kind, why)),
            LoadMessage::Watched(host) => {
                self.left -= 1;
                self.watching_since = None;
                self.measured.host = host;
            }
            LoadMessage::Ended(ended) => {
                self.left -= 1;
                // The first failure is the one to report: others follow from it.
                self.failed = self.failed.take().or(ended.err());
            }
        }
    }

    /// All loads have ended long before their time: a load of so many messages does when they are through.
    fn watches_for_nobody(&self, planned: Duration) -> bool {
        let is_early = |since: Instant| since.elapsed() + Duration::from_secs(1) < planned;
        self.is_loaded && self.left == 1 && self.watching_since.is_some_and(is_early)
    }

    fn shall_end(&mut self, stop: &StopSignal) -> bool {
        self.interrupted = self.failed.is_none() && stop.is_requested();
        self.interrupted || self.failed.is_some()
    }

    fn end(mut self, point: &Point) -> Result<Option<MeasuredPass>, Failure> {
        match self.failed {
            _ if self.interrupted => return Ok(None),
            Some(failure) => return Err(failure),
            None => {}
        }
        for (source, kind, what) in self.lost {
            let guest = match source {
                LoadSource::Outside => {
                    self.measured.reports = LoadReports::default();
                    None
                }
                // The repeat that it was lost in is measured again; what it reported is forgotten with its tiles.
                LoadSource::Client(place) => {
                    self.measured.lost_clients.push(place);
                    None
                }
                LoadSource::Inside(place) => {
                    self.measured.reports.forget(place);
                    let load = &point.loads[place as usize];
                    let guest = load.runs_in().unwrap_or(load.guest);
                    Some(point.guests[guest as usize].name.clone())
                }
            };
            self.measured.lost.push(Incident { kind, what, guest });
        }
        Ok(Some(self.measured))
    }
}

/// Ends what others wait for, so that they stop waiting.
fn end_all(end_load: &dyn Fn(), manager: &dyn GuestManager, ids: &[GuestId]) {
    end_load();
    // The pass ends them again and reports what failed then.
    let _ = stop_all(manager, ids);
}
