//! A world without root, guests, network and time: what happens in it is written down beforehand.

use crate::{
    failure::{Failure, FailureCode},
    job::messages::{CommandLink, FromEngine, Messages},
    job::quiet::Others,
    pass::host_settings::Hands,
    pass::host_watch::{HostRead, Times, Watch},
    pass::load_process::LoadProcess,
    pass::world::World,
    progress::Progress,
    run::pipeline::{BusyHost, Pipeline},
    run::record::plan_as_run,
    stop::StopSignal,
};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer, V2DeflateSerializer},
};
use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread,
    time::Duration,
};
use tilemark_agent_protocol::{
    Counts, LoadEvent, LoadJob, Sender as LoadSender, Service, StreamSecond, StreamTotal,
};
use tilemark_guests::{
    AgentSession, GuestError, GuestId, GuestManager, GuestState, Origin, PortCounts, StartMode, TemplateId,
    fake::FakeManager,
};
use tilemark_host::telemetry::{
    MemorySecond, PressureSecond, ProcessorSplit, Pss, Second, Watched, WatchedKind, WatchedSecond,
};
use tilemark_plan::{
    host_settings::HostSettings,
    plan::{self, AcceleratorVerdict, GuestPlan, HostSummary, Pass, Plan, Point},
    resolve::Request,
};
use tilemark_record::{
    Event, Events, RunDirectory,
    places::Places,
    summary::{ProgramUse, RepeatSummary, SettingRead},
};
use tilemark_units::{Bytes, Span};

/// One act of a load process.
pub(crate) enum Act {
    /// It reports this.
    Report(LoadEvent),
    /// This happens meanwhile, somewhere in the world.
    Meanwhile(Box<dyn Fn() + Send>),
    /// It says nothing more until it is ended.
    Hang,
    /// It ends without a word.
    Die,
}

/// What the load process of a pass does; passes count from 0.
type Script = dyn Fn(&LoadJob, u32) -> Vec<Act> + Send + Sync;

/// How the host is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watching {
    /// Every second was quiet.
    Quiet,
    /// There is no telemetry in so many passes, and then quiet.
    AbsentAtFirst(u32),
    /// There is no telemetry in one pass, after so many others.
    AbsentAfter(u32),
    /// There is no telemetry any more after so many passes.
    AbsentFrom(u32),
    /// Programs outside the run disturb so many passes, and then it is quiet.
    LoudAtFirst(u32),
    /// The seconds last until the measurement is over: whoever forgets to say so waits for ever.
    UntilOver,
}

pub(crate) struct FakeWatch {
    pub(crate) watching: Watching,
    watched: AtomicU32,
}

impl Watch for FakeWatch {
    fn watch(
        &self,
        watched: &dyn Fn() -> Vec<Watched>,
        reading: &dyn Fn(),
        times: Times,
        over: &Receiver<()>,
    ) -> HostRead {
        let watched = watched();
        reading();
        let names: Vec<String> = watched.iter().map(|watched| watched.name.clone()).collect();
        assert!(names.ends_with(&["tilemark".to_owned()]), "{names:?}");
        let of_each = || {
            let one = |watched: &Watched| WatchedSecond { kind: watched.kind, ..quiet_guest(&watched.name) };
            watched.iter().map(one).collect()
        };
        let second = || Second { watched: of_each(), ..quiet_second() };
        let before = self.watched.fetch_add(1, Ordering::Relaxed);
        match self.watching {
            Watching::AbsentAfter(passes) if before == passes => HostRead::default(),
            Watching::AbsentFrom(passes) if before >= passes => HostRead::default(),
            Watching::AbsentAtFirst(passes) if before < passes => HostRead::default(),
            Watching::UntilOver => {
                assert!(over.recv().is_err(), "nothing is ever sent");
                HostRead::default()
            }
            Watching::LoudAtFirst(passes) if before < passes => {
                let loud = |second: Second| Second {
                    processor: second.processor.map(|split| ProcessorSplit { other: 0.3, ..split }),
                    ..second
                };
                HostRead {
                    seconds: (0..times.seconds).map(|_| loud(second())).collect(),
                    whole: Some(Box::new(loud(Second { seconds: times.seconds.into(), ..second() }))),
                    others: loud_programs(),
                }
            }
            _ => HostRead {
                seconds: (0..times.seconds).map(|_| second()).collect(),
                whole: Some(Box::new(Second { seconds: times.seconds.into(), ..second() })),
                ..HostRead::default()
            },
        }
    }
}

/// Programs that are loud.
pub(crate) fn loud_programs() -> Vec<ProgramUse> {
    vec![ProgramUse { program: "cc1".to_owned(), processes: 4, fraction: 0.28 }]
}

pub(crate) fn quiet_second() -> Second {
    Second {
        monotonic_ns_end: 0,
        seconds: 1.0,
        clock_step_ns: 0,
        reading_us: 100.0,
        processor: Some(ProcessorSplit {
            guests: 0.5,
            guest_work: Some(0.4),
            host_for_guests: Some(0.1),
            load: 0.1,
            tilemark: 0.0,
            hooks: 0.0,
            kernel: None,
            other: 0.0,
            interrupts: 0.0,
            idle: 0.4,
            steal: 0.0,
        }),
        threads: Vec::new(),
        runnable: None,
        load_1m: None,
        memory: Some(MemorySecond {
            available_bytes: 8 << 30,
            swap_used_bytes: 0,
            swap_in_bytes: Some(0),
            swap_out_bytes: Some(0),
            oom_kills: Some(0),
        }),
        pressure: PressureSecond::default(),
        throttles: Some(0),
        power_w: None,
        disks: Vec::new(),
        interfaces: Vec::new(),
        watched: Vec::new(),
        missing: Vec::new(),
    }
}

/// One that used half a thread and waited an eighth of its time for it.
pub(crate) fn quiet_guest(name: &str) -> WatchedSecond {
    WatchedSecond {
        name: name.to_owned(),
        kind: WatchedKind::NativeGuest,
        threads_used: Some(0.5),
        threads_used_kernel: Some(0.1),
        guest_work: Some(0.4),
        host_for_guest: Some(0.1),
        run_queue_wait: Some(0.125),
        resident_bytes: Some(200 << 20),
        read_bytes: Some(0),
        written_bytes: Some(4096),
        pressure: PressureSecond::default(),
    }
}

/// Fake guests that the test keeps an eye on, and whose templates may fail or be passed over.
#[derive(Clone)]
pub(crate) struct Guests {
    pub(crate) fake: Arc<FakeManager>,
    pub(crate) template_fails: Option<&'static str>,
    /// What is to be cloned is booted.
    pub(crate) boots_all: bool,
    /// Each guest has a process.
    pub(crate) has_processes: bool,
    /// By so many frames what a port dropped rises from one reading to the next.
    pub(crate) spoofed: u64,
    pub(crate) readings: Arc<AtomicU64>,
}

impl Guests {
    pub(crate) fn of(fake: FakeManager) -> Self {
        Self {
            fake: Arc::new(fake),
            template_fails: None,
            boots_all: false,
            has_processes: false,
            spoofed: 0,
            readings: Arc::default(),
        }
    }
}

impl GuestManager for Guests {
    fn backend(&self) -> plan::Backend {
        self.fake.backend()
    }
    fn template(&self, guest: &GuestPlan, service: &Service) -> Result<TemplateId, GuestError> {
        match self.template_fails {
            Some(said) => Err(GuestError::Qmp {
                guest: guest.name.clone(),
                command: "stop".to_owned(),
                said: said.to_owned(),
            }),
            None => self.fake.template(guest, service),
        }
    }
    fn start(&self, guest: &GuestPlan, mode: StartMode) -> Result<GuestId, GuestError> {
        self.fake.start(guest, if self.boots_all { StartMode::Boot } else { mode })
    }
    fn state(&self, guest: GuestId) -> Result<GuestState, GuestError> {
        self.fake.state(guest)
    }
    fn connect(&self, guest: GuestId, within: Duration) -> Result<AgentSession, GuestError> {
        self.fake.connect(guest, within)
    }
    fn processes(&self, guest: GuestId) -> Result<Vec<u32>, GuestError> {
        self.fake.processes(guest).map(|_| self.has_processes.then_some(1).into_iter().collect())
    }
    fn disk_requests(&self, guest: GuestId) -> Result<Option<u64>, GuestError> {
        self.fake.disk_requests(guest)
    }
    fn console(&self, guest: GuestId) -> Result<PathBuf, GuestError> {
        self.fake.console(guest)
    }
    fn port_counts(&self, _: GuestId) -> Option<PortCounts> {
        let reading = self.readings.fetch_add(1, Ordering::Relaxed);
        Some(PortCounts { dropped: self.spoofed * reading, ..PortCounts::default() })
    }
    fn origin(&self, guest: GuestId) -> Result<Origin, GuestError> {
        self.fake.origin(guest)
    }
    fn stop(&self, guest: GuestId) -> Result<(), GuestError> {
        self.fake.stop(guest)
    }
    fn has_network(&self) -> bool {
        self.fake.has_network()
    }
    fn inequalities(&self) -> Vec<String> {
        self.fake.inequalities()
    }
}

/// A host that is one table of values. Whoever sets it is written down.
#[derive(Clone, Default)]
pub(crate) struct FakeHost(Arc<Mutex<HostTable>>);

#[derive(Default)]
struct HostTable {
    /// Value by key now.
    values: BTreeMap<String, String>,
    /// What is held: key, our value, value found.
    held: Vec<(String, Option<String>, String)>,
    /// What was done to it, in order.
    done: Vec<String>,
    /// It refuses this key.
    refuses: Option<&'static str>,
    /// It cannot restore this key.
    keeps: Option<&'static str>,
    /// Where it delivers a vector of interrupts whatever is set, by key.
    delivers: BTreeMap<String, String>,
}

impl FakeHost {
    pub(crate) fn with(values: &[(&str, &str)]) -> Self {
        let host = Self::default();
        values.iter().for_each(|(key, value)| host.set(key, value));
        host
    }

    pub(crate) fn refusing(self, key: &'static str) -> Self {
        self.0.lock().unwrap().refuses = Some(key);
        self
    }

    pub(crate) fn delivering(self, key: &str, processors: &str) -> Self {
        self.0.lock().unwrap().delivers.insert(key.to_owned(), processors.to_owned());
        self
    }

    pub(crate) fn keeping(self, key: &'static str) -> Self {
        self.0.lock().unwrap().keeps = Some(key);
        self
    }

    /// Another program sets a value.
    pub(crate) fn set(&self, key: &str, value: &str) {
        self.0.lock().unwrap().values.insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn value(&self, key: &str) -> String {
        self.0.lock().unwrap().values[key].clone()
    }

    pub(crate) fn values(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().values.clone().into_iter().collect()
    }

    /// What was done to it up to now.
    pub(crate) fn done(&self) -> Vec<String> {
        self.0.lock().unwrap().done.clone()
    }

    pub(crate) fn note(&self, what: &str) {
        self.0.lock().unwrap().done.push(what.to_owned());
    }
}

impl Hands for FakeHost {
    fn apply(&self, wanted: &HostSettings, of_plan: &HostSettings) -> Result<Vec<SettingRead>, Failure> {
        let mut table = self.0.lock().unwrap();
        if let Some(key) = wanted.setting.keys().find(|key| Some(key.as_str()) == table.refuses) {
            return Err(Failure::new(FailureCode::HostUnfit, format!("{key} was refused"), "leave it out"));
        }
        let mut found = Vec::new();
        for key in of_plan.setting.keys() {
            let before = table.values[key].clone();
            let own = wanted.setting.get(key).cloned();
            table.held.push((key.clone(), own.clone(), before.clone()));
            if let Some(value) = &own {
                table.values.insert(key.clone(), value.clone());
                table.done.push(format!("{key}={value}"));
            }
            found.push(SettingRead {
                key: key.clone(),
                what: key.clone(),
                place: "host".to_owned(),
                set: own,
                before: Some(before),
                ..SettingRead::default()
            });
        }
        Ok(found)
    }

    fn read(&self) -> Vec<Option<String>> {
        let table = self.0.lock().unwrap();
        table.held.iter().map(|(key, ..)| table.values.get(key).cloned()).collect()
    }

    fn effective(&self) -> Vec<Option<String>> {
        let table = self.0.lock().unwrap();
        table.held.iter().map(|(key, ..)| table.delivers.get(key).cloned()).collect()
    }

    fn rivals(&self, key: &str) -> Vec<String> {
        vec![format!("tuned runs (process 17) and changes {key} too")]
    }

    fn restore(&self) -> Result<Vec<String>, Failure> {
        let mut table = self.0.lock().unwrap();
        let mut others = Vec::new();
        for (key, own, before) in std::mem::take(&mut table.held) {
            let Some(own) = own else { continue };
            if Some(key.as_str()) == table.keeps {
                return Err(Failure::new(FailureCode::NotRestored, format!("{key} stays"), "look at it"));
            }
            if table.values[&key] == own {
                table.values.insert(key, before);
            } else {
                others.push(key);
            }
        }
        table.done.push("restored".to_owned());
        Ok(others)
    }
}

/// The world. Its amounts of memory and disk may depend on how many load processes were started before.
pub(crate) struct FakeWorld {
    pub(crate) managers: BTreeMap<plan::Backend, Guests>,
    pub(crate) watch: FakeWatch,
    pub(crate) memory: Box<dyn Fn(u32) -> Bytes>,
    pub(crate) disk: Box<dyn Fn(u32) -> Bytes>,
    /// The load process of this pass cannot be started.
    pub(crate) no_load_process: Option<u32>,
    pub(crate) script: Arc<Script>,
    pub(crate) load_processes: Cell<u32>,
    /// The size of every process.
    pub(crate) pss: Option<Pss>,
    /// What runs do where the host is loud.
    pub(crate) busy_host: BusyHost,
    /// What is seen of the host while a run waits, one look after the other.
    pub(crate) looks: RefCell<VecDeque<Others>>,
    /// How long the templates of disks are said to have taken before each pass.
    pub(crate) on_templates: Duration,
    /// What the kernel reports next.
    pub(crate) kernel_errors: RefCell<Vec<String>>,
    /// The host that points set.
    pub(crate) host: FakeHost,
}

impl FakeWorld {
    /// One with plenty of everything, native guests, and loads that do as the script says.
    pub(crate) fn new(script: impl Fn(&LoadJob, u32) -> Vec<Act> + Send + Sync + 'static) -> Self {
        let world = Self {
            managers: BTreeMap::new(),
            watch: FakeWatch { watching: Watching::Quiet, watched: AtomicU32::new(0) },
            memory: Box::new(|_| Bytes::from_gib(64)),
            disk: Box::new(|_| Bytes::from_gib(64)),
            no_load_process: None,
            script: Arc::new(script),
            load_processes: Cell::new(0),
            pss: None,
            on_templates: Duration::ZERO,
            kernel_errors: RefCell::default(),
            host: FakeHost::default(),
            busy_host: BusyHost::default(),
            looks: RefCell::default(),
        };
        world.with(Guests::of(FakeManager::new(plan::Backend::Native)))
    }

    /// The same with these guests.
    pub(crate) fn with(mut self, guests: Guests) -> Self {
        self.managers.insert(guests.backend(), guests);
        self
    }

    /// Names of all guests that run now.
    pub(crate) fn running(&self) -> Vec<String> {
        self.managers.values().flat_map(|guests| guests.fake.running()).collect()
    }

    /// How many load processes were started.
    pub(crate) fn load_processes(&self) -> u32 {
        self.load_processes.get()
    }
}

impl World for FakeWorld {
    fn manager(&self, point: &Point) -> Result<&dyn GuestManager, Failure> {
        match self.managers.get(&point.backend) {
            Some(guests) => Ok(guests),
            None => Err(Failure::new(FailureCode::HostUnfit, "no QEMU found", "install QEMU")),
        }
    }

    fn load_process(&self, _: &Point) -> Result<Box<dyn LoadProcess>, Failure> {
        let pass = self.load_processes.get();
        if self.no_load_process == Some(pass) {
            return Err(unusable());
        }
        self.load_processes.set(pass + 1);
        let (end, ended) = mpsc::channel();
        Ok(Box::new(FakeLoad { script: Arc::clone(&self.script), pass, acts: VecDeque::new(), end, ended }))
    }

    fn prepare_disks(&self, _: &Point, _: &dyn Fn(&str)) -> Result<Duration, Failure> {
        Ok(self.on_templates)
    }

    fn others(&self, _: &dyn Fn() -> bool) -> Option<Others> {
        self.looks.borrow_mut().pop_front()
    }

    fn memory_available(&self) -> Option<Bytes> {
        Some((self.memory)(self.load_processes.get()))
    }

    fn disk_available(&self) -> Option<Bytes> {
        Some((self.disk)(self.load_processes.get()))
    }

    fn pss(&self, _: u32) -> Option<Pss> {
        self.pss
    }

    fn own_processes(&self) -> Vec<u32> {
        vec![1]
    }

    fn kernel_errors(&self) -> Vec<String> {
        self.kernel_errors.take()
    }

    fn hands(&self) -> &dyn Hands {
        &self.host
    }

    fn watch(&self) -> &dyn Watch {
        &self.watch
    }
}

fn unusable() -> Failure {
    Failure::new(FailureCode::HostUnfit, "the load process cannot be used", "check that memory is left")
}

struct FakeLoad {
    script: Arc<Script>,
    pass: u32,
    acts: VecDeque<Act>,
    end: Sender<()>,
    ended: Receiver<()>,
}

impl LoadProcess for FakeLoad {
    fn prepare(&mut self, job: &LoadJob) -> Result<(), Failure> {
        self.acts = (self.script)(job, self.pass).into();
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn next(&mut self, _: Duration) -> Result<Option<LoadEvent>, Failure> {
        loop {
            match self.acts.pop_front().expect("a script ends with Done, Failed, Hang or Die") {
                Act::Report(event) => return Ok(Some(event)),
                Act::Meanwhile(happens) => happens(),
                Act::Die => return Err(unusable()),
                Act::Hang => {
                    self.ended.recv().expect("this process holds a sender itself");
                    return Err(unusable());
                }
            }
        }
    }

    fn pid(&self) -> Option<u32> {
        None
    }

    fn ender(&self) -> Box<dyn Fn() + Send> {
        let end = self.end.clone();
        Box::new(move || {
            let _ = end.send(());
        })
    }
}

/// Requests of each stream and second: enough for a p99.
pub(crate) const REQUESTS: u64 = 2500;

/// Its first act: all connections are made.
pub(crate) fn started() -> Act {
    let sender = LoadSender { workers: 1, real_time: true, timer_slack_ns: 1, pinned: true };
    Act::Report(LoadEvent::Started(sender))
}

/// A load whose every request is answered after so many milliseconds.
pub(crate) fn answered(job: &LoadJob, latency_ms: u64) -> Vec<Act> {
    let counts = Counts { offered: REQUESTS, completed: REQUESTS, ..Counts::default() };
    let seconds = u32::try_from(job.length.get().as_secs()).unwrap();
    let mut acts = vec![started()];
    for second in 0..seconds {
        acts.extend(job.streams.iter().map(|stream| {
            let latency = encoded(latency_ms * 1_000_000);
            let lateness = encoded(10_000);
            Act::Report(LoadEvent::Second(StreamSecond { id: stream.id, second, counts, latency, lateness }))
        }));
        acts.push(Act::Report(LoadEvent::busy(second, 0.3)));
    }
    acts.push(Act::Report(LoadEvent::Done(
        job.streams.iter().map(|stream| total(stream.id, seconds)).collect(),
    )));
    acts
}

fn total(id: u32, seconds: u32) -> StreamTotal {
    let requests = REQUESTS * u64::from(seconds);
    StreamTotal {
        id,
        counts: Counts { offered: requests, completed: requests, ..Counts::default() },
        completed_in_time: requests,
        seconds: seconds.into(),
        client_cpu_s: 0.1,
        errors: Vec::new(),
        findings: Vec::new(),
    }
}

fn encoded(nanoseconds: u64) -> Vec<u8> {
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    histogram.record_n(nanoseconds, REQUESTS).unwrap();
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    bytes
}

/// Folders for our things, below this one.
pub(crate) fn places_in(home: &Path) -> Places {
    Places { cache: home.join("cache"), runs: home.join("runs"), state: home.join("state") }
}

/// A tile of a web server and an idle guest.
pub(crate) const TILE: &str = r#"
schema = 1
name = "t"
about = "a test"
headline = "web"
[[guest]]
name = "web"
role = "web"
[[guest]]
name = "idle"
role = "idle"
[[load]]
name = "web"
guest = "web"
rate = "2500/s"
[load.web]
[ladder]
tiles = [1, 2]
search_limit = 64
[measure]
warmup = "1s"
length = "1s"
repeats = 3
"#;

/// What is asked of a scenario: its ladder, natively.
pub(crate) fn ladder() -> Request {
    tilemark_fixtures::request(&[plan::Backend::Native])
}

/// A search for the largest count that holds.
pub(crate) fn search(within: Option<Span>) -> Request {
    Request { search: true, within, ..ladder() }
}

/// The plan of a scenario on a host of four threads and 64 GiB.
pub(crate) fn plan_of(scenario: &str, request: &Request) -> Plan {
    let host =
        HostSummary { kvm: AcceleratorVerdict::Absent, ..tilemark_fixtures::host(4, Bytes::from_gib(64)) };
    tilemark_fixtures::plan(scenario, request, &host)
}

/// A run that is over.
pub(crate) struct Ran {
    pub(crate) outcome: Result<(), Failure>,
    pub(crate) notes: Vec<String>,
    /// Each time that it said how far it was.
    pub(crate) progress: Vec<Progress>,
    pub(crate) on_templates: Duration,
    pub(crate) changed_by_others: Vec<String>,
    pub(crate) record: RunDirectory,
    _folder: tempfile::TempDir,
}

impl Ran {
    /// The plan with what was added to it while it ran.
    pub(crate) fn plan(&self) -> Plan {
        plan_as_run(&self.record).unwrap()
    }

    /// Every whole repeat.
    pub(crate) fn repeats(&self) -> Vec<RepeatSummary> {
        self.record.repeats().unwrap().iter().map(|files| files.summary().unwrap()).collect()
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        Events::read(&self.record.path().join("events.ndjson")).unwrap()
    }

    /// Passes that began, in order.
    pub(crate) fn began(&self) -> Vec<Pass> {
        let began = |event| if let Event::PassBegan { pass, .. } = event { Some(pass) } else { None };
        self.events().into_iter().filter_map(began).collect()
    }

    /// Passes that ended with their figures written, in order.
    pub(crate) fn ended(&self) -> Vec<Pass> {
        let ended = |event| if let Event::PassEnded { pass } = event { Some(pass) } else { None };
        self.events().into_iter().filter_map(ended).collect()
    }

    /// How it failed.
    pub(crate) fn failure(&self) -> &Failure {
        self.outcome.as_ref().expect_err("it was to fail")
    }
}

/// Runs a plan in a world, with a record in a folder of its own.
pub(crate) fn run(plan: &Plan, world: &FakeWorld, stop: &StopSignal) -> Ran {
    run_at(tempfile::tempdir().unwrap(), plan, world, stop)
}

/// The same with a record in `folder`, at `folder/run`.
pub(crate) fn run_at(folder: tempfile::TempDir, plan: &Plan, world: &FakeWorld, stop: &StopSignal) -> Ran {
    let record = RunDirectory::create(&folder.path().join("run"), plan).unwrap();
    run_into(folder, record, plan, world, stop)
}

/// The same with a record that exists already, in `folder`.
pub(crate) fn run_into(
    folder: tempfile::TempDir,
    record: RunDirectory,
    plan: &Plan,
    world: &FakeWorld,
    stop: &StopSignal,
) -> Ran {
    session(folder, record, plan, None, world, stop)
}

/// Adds a further session to the record of one that is over.
pub(crate) fn run_on(ran: Ran, plan: &Plan, world: &FakeWorld) -> Ran {
    let Ran { record, _folder: folder, .. } = ran;
    let repeats = record.summaries().unwrap();
    session(folder, record, plan, Some(repeats), world, &StopSignal::default())
}

fn session(
    folder: tempfile::TempDir,
    record: RunDirectory,
    plan: &Plan,
    before: Option<Vec<RepeatSummary>>,
    world: &FakeWorld,
    stop: &StopSignal,
) -> Ran {
    let (ours, its) = UnixStream::pair().unwrap();
    let listener = thread::spawn(move || {
        let (mut messages, mut notes, mut reported) = (Messages::of(its), Vec::new(), Vec::new());
        while let Some(message) = messages.receive().unwrap() {
            match message {
                FromEngine::Note(text) => notes.push(text),
                FromEngine::Progress(progress) => reported.push(progress),
                FromEngine::Done(_) | FromEngine::Failed(_) => {}
            }
        }
        (notes, reported)
    });
    let link = CommandLink::to(ours);
    let mut pipeline = Pipeline::new(world, plan.clone(), record.clone(), &link, stop, before).unwrap();
    pipeline.busy_host = world.busy_host;
    let outcome = pipeline.run();
    let on_templates = pipeline.time.on_templates;
    let changed_by_others = std::mem::take(&mut pipeline.changed_by_others);
    drop(link);
    let (notes, progress) = listener.join().unwrap();
    Ran { outcome, notes, progress, on_templates, changed_by_others, record, _folder: folder }
}
