//! The manager.

use super::{
    command::{Birth, Drives, arguments, limits, number},
    confinement::{self, Confinement},
    place,
    qmp::{Monitor, MonitorError, clone_commands, freeze_commands, greeting, is_migrated, is_resumed},
    settings::{Accelerator, QemuSettings, QemuVersion},
    template::{Frozen, Thawed, of_huge_pages},
    template_key::template_key,
};
use crate::{
    console::{Console, Consoles},
    conversation::{AgentSession, SocketConversation},
    disks::{LoopDisk, requests_of},
    error::{GuestError, file},
    gone::{Gone, end_process},
    group::OwnGroup,
    manager::{GuestId, GuestManager, GuestState, Origin, StartMode, TemplateId},
    network::RunNetwork,
    own_disk::{Overlay, agent_disk, seed_disk},
    ready::expect_serving,
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use tilemark_agent_protocol::{Request, Service};
use tilemark_netlink::PortCounts;
use tilemark_plan::{
    plan::{self, DiskPlan, GuestPlan},
    scenario::DiskAio,
};
use tilemark_sys::{
    files::{OPEN_FOLDER, listen_privately, make_folder},
    namespace::Namespaces,
    process::{Child, Spawn, program_in_memory},
    walls::{Rings, Walls},
};

/// A template may take so long to boot and to warm; emulated guests on a busy host are the slow ones.
const TEMPLATE_WITHIN: Duration = Duration::from_secs(480);
/// Saving the state of devices; memory is not copied.
const FREEZES_WITHIN: Duration = Duration::from_secs(60);
/// In a guest's folder: the program and its arguments, one a line, as they are without the sandbox's own.
pub const QEMU_ARGUMENTS: &str = "qemu.arguments";
/// A killed QEMU only has to free its memory.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// Guests in QEMU.
#[derive(Debug)]
pub struct QemuManager {
    settings: QemuSettings,
    version: QemuVersion,
    network: Arc<RunNetwork>,
    /// Nothing where no guest boots the image.
    initramfs: Option<OwnedFd>,
    /// The agent as a disk, for guests that boot from their own; made for the first of them.
    agent_disk: OnceLock<OwnedFd>,
    /// Nothing where the walls are off.
    confinement: Option<Confinement>,
    next: AtomicU64,
    consoles: Consoles,
    guests: Guests,
    templates: Mutex<BTreeMap<u64, Template>>,
}

#[derive(Debug)]
struct Template {
    key: String,
    frozen: Arc<Frozen>,
}

/// All guests that were started, by number.
#[derive(Debug, Default)]
struct Guests(Mutex<BTreeMap<u64, Entry>>);

#[derive(Debug, Clone)]
enum Entry {
    Here(Arc<Guest>),
    Gone { gone: Gone, origin: Origin },
}

impl Guests {
    fn insert(&self, number: u64, guest: Guest) {
        lock(&self.0).insert(number, Entry::Here(Arc::new(guest)));
    }

    fn entry(&self, guest: GuestId) -> Result<Entry, GuestError> {
        lock(&self.0).get(&guest.0).cloned().ok_or(GuestError::Unknown(guest.0))
    }

    /// Ends a guest and lets go of all that it had open.
    fn stop(&self, guest: GuestId) -> Result<(), GuestError> {
        let Entry::Here(here) = self.entry(guest)? else { return Ok(()) };
        let gone = here.end()?;
        lock(&self.0).insert(guest.0, Entry::Gone { gone, origin: here.origin() });
        Ok(())
    }
}

#[derive(Debug)]
struct Guest {
    plan: GuestPlan,
    child: Child,
    birth: Birth,
    console: Console,
    socket: PathBuf,
    /// What QEMU itself printed.
    qemu_log: Console,
    /// Held while somebody waits for what QEMU says.
    monitor: Mutex<Monitor>,
    /// Whether it runs: a clone does once its state is loaded.
    resumed: AtomicBool,
    /// Whether its threads are where the plan has them.
    is_in_place: AtomicBool,
    /// Never held while somebody waits. Where both are locked, this one is locked first.
    inner: Mutex<Inner>,
}

/// What changes while a guest lives.
#[derive(Debug)]
struct Inner {
    disks: Vec<LoopDisk>,
    /// The disk of its own that it boots from, with what it wrote.
    own: Option<Overlay>,
    group: Option<OwnGroup>,
    ended: Option<String>,
    /// The conversation going on: QEMU serves one at a time, so the next one cuts it.
    stream: Option<UnixStream>,
}

impl QemuManager {
    /// Looks at the program and prepares the files that all guests share.
    pub fn new(settings: QemuSettings, network: Arc<RunNetwork>) -> Result<Self, GuestError> {
        let version = QemuVersion::of(&settings.binary)?;
        make_folder(&settings.folder, OPEN_FOLDER).map_err(file("make", &settings.folder))?;
        let initramfs = settings.image.as_ref();
        let initramfs =
            initramfs.map(|image| program_in_memory("tilemark-initramfs", &image.initramfs)).transpose();
        let initramfs = initramfs.map_err(file("keep the initramfs of", &settings.folder))?;
        let confinement = settings.walls.are_on().then(|| Confinement::new(&settings.folder)).transpose()?;
        Ok(Self {
            settings,
            version,
            network,
            initramfs,
            agent_disk: OnceLock::new(),
            confinement,
            next: AtomicU64::new(1),
            consoles: Consoles::start()?,
            guests: Guests::default(),
            templates: Mutex::default(),
        })
    }

    /// Its program.
    pub fn binary(&self) -> &Path {
        &self.settings.binary
    }

    /// The version that the program gave.
    pub fn version(&self) -> QemuVersion {
        self.version
    }

    fn guest(&self, guest: GuestId) -> Result<Arc<Guest>, GuestError> {
        match self.guests.entry(guest)? {
            Entry::Here(guest) => Ok(guest),
            Entry::Gone { gone, .. } => Err(gone.error()),
        }
    }

    fn frozen(&self, template: TemplateId) -> Result<Arc<Frozen>, GuestError> {
        let frozen = lock(&self.templates).get(&template.0).map(|found| Arc::clone(&found.frozen));
        frozen.ok_or(GuestError::UnknownTemplate(template.0))
    }

    /// What a further guest is made of: the memory and the state of its template, and a network device of its own.
    fn clone_of(
        &self,
        template: TemplateId,
        plan: &GuestPlan,
        tap: Vec<OwnedFd>,
    ) -> Result<Materials, GuestError> {
        let frozen = self.frozen(template)?;
        let memory = vec![(number::MEMORY, frozen.memory(nodes_of(plan))?)];
        let state = Some(frozen.state()?);
        Ok(Materials { tap, memory, state, birth: Birth::Clone })
    }

    fn make_template(&self, plan: &GuestPlan, service: &Service) -> Result<Frozen, GuestError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let plan = GuestPlan { name: format!("template-{number}"), ..plan.clone() };
        let thawed = Thawed::new(plan.memory)?;
        let materials = Materials {
            tap: self.network.unconnected_tap(number, plan.net.queues)?,
            memory: vec![(number::MEMORY, thawed.memory()?)],
            state: None,
            birth: Birth::Template,
        };
        let id = GuestId(number);
        self.guests.insert(number, self.spawn(&plan, number, materials)?);
        let frozen = thawed.state().and_then(|state| self.warm_and_freeze(id, &plan, service, &state));
        let stopped = self.stop(id);
        lock(&self.guests.0).remove(&number);
        frozen.and(stopped)?;
        thawed.freeze(nodes_of(&plan))
    }

    fn warm_and_freeze(
        &self,
        id: GuestId,
        plan: &GuestPlan,
        service: &Service,
        state: &OwnedFd,
    ) -> Result<(), GuestError> {
        let mut session = self.connect(id, TEMPLATE_WITHIN)?;
        let within = TEMPLATE_WITHIN.max(service.answer_within());
        expect_serving(
            plan,
            session.ask(&Request::StartService(Box::new(service.clone())), within)?,
            service,
        )?;
        drop(session);
        let guest = self.guest(id)?;
        lock(&guest.inner).hang_up();
        guest.settle();
        let mut monitor = lock(&guest.monitor);
        let frozen = monitor
            .send_with(&freeze_commands(), state.as_fd())
            .map_err(MonitorError::Stream)
            .and_then(|()| monitor.wait(FREEZES_WITHIN, is_migrated));
        frozen.map_err(|error| guest.monitor_failed(error, FREEZES_WITHIN))
    }

    fn spawn(&self, plan: &GuestPlan, number: u64, materials: Materials) -> Result<Guest, GuestError> {
        let folder = self.settings.folder.join(format!("{number}-{}", plan.name));
        make_folder(&folder, OPEN_FOLDER).map_err(file("make", &folder))?;
        let (console, console_end) = self.consoles.open(&folder.join("console.log"))?;
        let (qemu_log, log_end) = self.consoles.open(&folder.join("qemu.log"))?;
        let socket = folder.join("agent");
        let disks = LoopDisk::of_guest(plan, &self.settings.disks)?;
        let own = Overlay::of_guest(plan, number, &self.settings.disks)?;
        let (ours, theirs) = UnixStream::pair().map_err(file("make a socket for", &folder))?;
        let birth = materials.birth;
        let mut monitor = Monitor::new(&plan.name, ours).map_err(file("use the socket of", &folder))?;
        let greeted = match &materials.state {
            Some(state) => monitor.send_with(&clone_commands(), state.as_fd()),
            None => monitor.send(&[greeting()]),
        };
        greeted.map_err(file("write to the monitor of", &folder))?;
        let files = Files { console: console_end, log: log_end, agent: listen(&socket)?, monitor: theirs };
        let group =
            OwnGroup::create(self.settings.cgroup.as_deref(), &plan.name, &limits(&self.settings, plan))?;
        let spawn = self
            .command(plan, (number, &folder), Drives { data: &disks, own: own.as_ref() }, files, materials)
            .and_then(|spawn| match &group {
                Some(group) => Ok(spawn.in_cgroup(group.open()?)),
                None => Ok(spawn),
            })
            .map_err(file("prepare the start in", &folder))?;
        let child = spawn.start().map_err(|source| GuestError::Spawn { guest: plan.name.clone(), source })?;
        Ok(Guest {
            plan: plan.clone(),
            child,
            birth,
            console,
            socket,
            qemu_log,
            monitor: Mutex::new(monitor),
            resumed: AtomicBool::new(birth != Birth::Clone),
            is_in_place: AtomicBool::new(false),
            inner: Mutex::new(Inner { disks, own, group, ended: None, stream: None }),
        })
    }

    /// What only a guest with a disk of its own is handed.
    fn hand_own_disk(&self, spawn: Spawn, plan: &GuestPlan, number: u64) -> io::Result<Spawn> {
        if self.agent_disk.get().is_none() {
            let made = program_in_memory("tilemark-agent-disk", &agent_disk(&self.settings.agent))?;
            // Another may have made it meanwhile; the two are the same.
            let _ = self.agent_disk.set(made);
        }
        let mut instance = [0; 8];
        rustix::rand::getrandom(&mut instance, rustix::rand::GetRandomFlags::empty())?;
        let seed = seed_disk(plan, u64::from_ne_bytes(instance) ^ number);
        let seed = program_in_memory("tilemark-seed", &seed)?;
        let agent = self.agent_disk.get().ok_or(io::ErrorKind::NotFound)?.try_clone()?;
        Ok(spawn.hand(seed, number::SEED).hand(agent, number::AGENT_DISK))
    }

    fn command(
        &self,
        plan: &GuestPlan,
        (number, folder): (u64, &Path),
        drives: Drives<'_>,
        files: Files,
        materials: Materials,
    ) -> io::Result<Spawn> {
        let own = arguments(&self.settings, self.version, plan, drives, materials.birth);
        fs::write(
            folder.join(QEMU_ARGUMENTS),
            format!("{}\n{}\n", self.settings.binary.display(), own.join("\n")),
        )?;
        let mut spawn = Spawn::path(&self.settings.binary)?
            .arguments(own)?
            .hand(File::open("/dev/null")?.into(), 0)
            .hand(files.log.try_clone()?, 1)
            .hand(files.log, 2)
            .hand(files.console, number::CONSOLE)
            .hand(files.agent.into(), number::AGENT)
            .hand(files.monitor.into(), number::MONITOR)
            .processors(&plan.processors)
            .memory_of_nodes(nodes_of(plan))
            .oom_score(1000)
            .clean_environment()?
            .own_session();
        if let Some(confinement) = &self.confinement {
            let rings = rings(&plan.disks, &self.settings.more);
            spawn = spawn
                .arguments(confinement.arguments(self.version, number))?
                .namespaces(namespaces_beside(rings))
                .longest_file(confinement::longest_file(drives.own))
                .behind(Walls::of_monitor(rings).map_err(io::Error::other)?);
        }
        if self.settings.accelerator == Accelerator::Emulated {
            // The translator asks for huge pages for its buffer, of which an idle guest uses a part: 6 MiB a guest.
            // Under KVM they are the guest's own speed and stay.
            spawn = spawn.without_huge_pages();
        }
        for (number, queue) in number::of_queues().zip(materials.tap) {
            spawn = spawn.hand(queue, number);
        }
        for (number, memory) in materials.memory {
            spawn = spawn.hand(memory, number);
        }
        if drives.own.is_some() {
            spawn = self.hand_own_disk(spawn, plan, number)?;
        } else if let Some(initramfs) = &self.initramfs {
            spawn = spawn.hand(initramfs.try_clone()?, number::INITRAMFS);
        }
        Ok(spawn)
    }
}

/// A ring can open a socket of any kind, which in the run's network would speak to every guest as the host: such a QEMU has a network of its
/// own, with nothing in it. Its tap is handed to it and stays where it is. All others are spared what a network costs.
fn namespaces_beside(rings: Rings) -> Namespaces {
    match rings {
        Rings::Denied => Namespaces::PID,
        Rings::Allowed => Namespaces::PID | Namespaces::NETWORK,
    }
}

/// What a guest is made of, except files of its own.
struct Materials {
    /// A descriptor of each queue.
    tap: Vec<OwnedFd>,
    /// Files that its memory is in, each under its number.
    memory: Vec<(i32, OwnedFd)>,
    state: Option<OwnedFd>,
    birth: Birth,
}

/// The nodes that a guest's memory comes from.
fn nodes_of(plan: &GuestPlan) -> &[u32] {
    plan.place.as_ref().map_or(&[], |place| &place.nodes)
}

/// Files of huge pages for a guest that is booted: one, or one for each of its nodes.
fn booted_memory(plan: &GuestPlan) -> Result<Vec<(i32, OwnedFd)>, GuestError> {
    let Some(pages) = plan.hugepages else { return Ok(Vec::new()) };
    let nodes = plan.place.as_ref().map_or(&[][..], |place| &place.virtual_nodes);
    if nodes.is_empty() {
        return Ok(vec![(number::MEMORY, of_huge_pages(plan.memory, pages)?)]);
    }
    let numbers = number::FIRST_NODE..number::FIRST_QUEUE;
    if nodes.len() > numbers.len() {
        return Err(GuestError::Place {
            guest: plan.name.clone(),
            what: format!("give it huge pages on {} nodes", nodes.len()),
            source: io::Error::other(format!("QEMU is handed at most {} files of memory", numbers.len())),
        });
    }
    numbers.zip(nodes).map(|(number, node)| Ok((number, of_huge_pages(node.memory, pages)?))).collect()
}

struct Files {
    console: OwnedFd,
    log: OwnedFd,
    agent: UnixListener,
    monitor: UnixStream,
}

fn listen(path: &Path) -> Result<UnixListener, GuestError> {
    // QEMU serves it, which asks nobody who they are.
    let listening = short(path).and_then(|(_folder, short)| listen_privately(&short));
    listening.map_err(file("listen on", path))
}

fn connect_to(path: &Path) -> Result<UnixStream, GuestError> {
    let connected = short(path).and_then(|(_folder, short)| UnixStream::connect(short));
    connected.map_err(file("connect to", path))
}

/// A socket's address holds 107 bytes, and a run's directory can be deeper: the way leads through a descriptor of
/// its folder, which must stay open meanwhile.
fn short(path: &Path) -> io::Result<(File, PathBuf)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let folder = File::open(folder)?;
    let short = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    Ok((folder, short))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// QEMU's word for the reason of a shutdown, as a sentence. `-no-reboot` turns a reset into a shutdown with code 0.
fn in_words(reason: &str) -> String {
    match reason {
        "guest-reset" => {
            "the guest reset its machine (a reboot, a kernel panic or a triple fault)".to_owned()
        }
        "guest-shutdown" => "the guest powered off".to_owned(),
        "host-signal" => "QEMU received a signal".to_owned(),
        other => format!("it shut down (`{other}`)"),
    }
}

impl Inner {
    fn hang_up(&mut self) {
        if let Some(stream) = self.stream.take() {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Guest {
    fn state(&self) -> GuestState {
        let mut inner = lock(&self.inner);
        if inner.ended.is_none() {
            inner.ended = match self.child.try_wait() {
                Ok(None) => None,
                Ok(Some(ended)) => Some(self.how(ended.code(), inner.group.as_ref())),
                Err(error) => Some(format!("QEMU cannot be watched: {error}")),
            };
        }
        match inner.ended.clone() {
            Some(how) => GuestState::Ended(how),
            None if self.resumed.load(Ordering::Acquire) => GuestState::Running,
            None => GuestState::Starting,
        }
    }

    /// A clone answers nobody before its state is loaded.
    fn wait_until_resumed(&self, within: Duration) -> Result<(), GuestError> {
        if self.resumed.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut monitor = lock(&self.monitor);
        // Another may have waited for it meanwhile.
        if !self.resumed.load(Ordering::Acquire) {
            let resumed = monitor.wait(within, is_resumed);
            self.resumed.store(resumed.is_ok(), Ordering::Release);
            drop(monitor);
            resumed.map_err(|error| self.ended_error(self.monitor_failed(error, within)))?;
        }
        Ok(())
    }

    /// Puts its threads where the plan has them, once. QEMU has a thread for each processor before its guest begins.
    fn keep_place(&self, within: Duration) -> Result<(), GuestError> {
        let Some(place) = self.plan.place.as_ref().filter(|_| !self.is_in_place.load(Ordering::Acquire))
        else {
            return Ok(());
        };
        let mut monitor = lock(&self.monitor);
        let answer = monitor.ask(&place::ask_threads(), within);
        drop(monitor);
        let answer = answer.map_err(|error| self.ended_error(self.monitor_failed(error, within)))?;
        place::pin(&self.plan.name, self.child.pid(), place, &place::threads_in(&answer))?;
        self.is_in_place.store(true, Ordering::Release);
        Ok(())
    }

    /// Cuts the conversation that is going on and calls the agent.
    fn call(&self) -> Result<UnixStream, GuestError> {
        lock(&self.inner).hang_up();
        let stream = connect_to(&self.socket)?;
        let kept = stream.try_clone().map_err(file("use the socket", &self.socket))?;
        let mut inner = lock(&self.inner);
        // Whoever called at the same moment is cut too.
        inner.hang_up();
        inner.stream = Some(kept);
        Ok(stream)
    }

    fn origin(&self) -> Origin {
        match self.birth {
            Birth::Boot | Birth::Template => Origin::Booted,
            Birth::Clone => Origin::Cloned,
        }
    }

    /// Ends it; its disks are free again when this returns.
    fn end(&self) -> Result<Gone, GuestError> {
        if !matches!(self.state(), GuestState::Ended(_)) {
            end_process(&self.child, STOPS_WITHIN).map_err(file("end the guest of", &self.socket))?;
            lock(&self.inner).ended = Some("it was stopped".to_owned());
        }
        let mut inner = lock(&self.inner);
        inner.hang_up();
        inner.disks.clear();
        inner.own = None;
        inner.group = None;
        let how = inner.ended.clone().unwrap_or_default();
        let _ = fs::remove_file(&self.socket);
        self.console.close();
        self.qemu_log.close();
        Ok(Gone { guest: self.plan.name.clone(), console: self.console.file().to_owned(), how })
    }

    /// How QEMU ended: why the guest shut down or the kernel ended it, and what QEMU printed.
    fn how(&self, code: i32, group: Option<&OwnGroup>) -> String {
        let mut how = format!("QEMU ended with code {code}");
        if group.is_some_and(OwnGroup::ran_out_of_memory) {
            how += " at the memory limit of its control group";
        }
        if let Some(reason) = lock(&self.monitor).reason_of_end() {
            how += &format!(" because {}", in_words(reason));
        }
        let printed = self.qemu_log.tail().lines.join("; ");
        if !printed.is_empty() {
            how += &format!(": {printed}");
        }
        how
    }

    /// A stream may break a moment before the process is gone: then the end of the process is the error.
    fn ended_error(&self, error: GuestError) -> GuestError {
        if !matches!(
            &error,
            GuestError::Ended { .. } | GuestError::Broken { .. } | GuestError::NoConversation { .. }
        ) {
            return error;
        }
        let _ = self.child.ends_within(Duration::from_secs(2));
        match self.state() {
            GuestState::Ended(how) => self.ended(how),
            _ => error,
        }
    }

    fn ended(&self, how: String) -> GuestError {
        GuestError::Ended { guest: self.plan.name.clone(), how, console: self.console.tail() }
    }

    fn monitor_failed(&self, error: MonitorError, within: Duration) -> GuestError {
        let console = self.console.tail();
        match error {
            MonitorError::Refused(error) => error,
            MonitorError::Stream(error) if error.kind() == io::ErrorKind::TimedOut => {
                GuestError::Silent { guest: self.plan.name.clone(), within, console }
            }
            MonitorError::Stream(error) => GuestError::Ended {
                guest: self.plan.name.clone(),
                how: format!("QEMU closed its monitor: {error}"),
                console,
            },
        }
    }

    /// Waits until its processors have nothing to do, so that clones begin with nothing left over. Bounded: a guest that
    /// is never idle is frozen as it is.
    fn settle(&self) {
        let deadline = Instant::now() + SETTLES_WITHIN;
        let mut before = self.processor_ticks();
        while Instant::now() < deadline {
            std::thread::sleep(SETTLE_SAMPLE);
            let now = self.processor_ticks();
            if now.saturating_sub(before) <= SETTLED_TICKS {
                return;
            }
            before = now;
        }
    }

    /// Processor time of the whole QEMU, in the kernel's ticks of 10 ms.
    fn processor_ticks(&self) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.pid())).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
    }
}

/// Time between two looks at how busy a template is.
const SETTLE_SAMPLE: Duration = Duration::from_millis(200);
/// A template is idle when it used at most so many ticks of 10 ms in one sample: 5 % of a processor.
const SETTLED_TICKS: u64 = 1;
const SETTLES_WITHIN: Duration = Duration::from_secs(5);

impl GuestManager for QemuManager {
    fn backend(&self) -> plan::Backend {
        match self.settings.accelerator {
            Accelerator::Kvm => plan::Backend::Kvm,
            Accelerator::Emulated => plan::Backend::Emulated,
        }
    }

    fn template(&self, plan: &GuestPlan, service: &Service) -> Result<TemplateId, GuestError> {
        let key = template_key(&self.settings, self.version, plan, service, SystemTime::now())?;
        if let Some((&number, _)) = lock(&self.templates).iter().find(|(_, template)| template.key == key) {
            return Ok(TemplateId(number));
        }
        let frozen = Arc::new(self.make_template(plan, service)?);
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.templates).insert(number, Template { key, frozen });
        Ok(TemplateId(number))
    }

    fn near(&self, template: TemplateId, plan: &GuestPlan) -> Result<(), GuestError> {
        self.frozen(template)?.memory(nodes_of(plan)).map(drop)
    }

    fn start(&self, plan: &GuestPlan, mode: StartMode) -> Result<GuestId, GuestError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let tap = self.network.tap(plan)?;
        let materials = match mode {
            StartMode::Boot => {
                Materials { tap, memory: booted_memory(plan)?, state: None, birth: Birth::Boot }
            }
            StartMode::Clone(template) => self.clone_of(template, plan, tap)?,
        };
        self.guests.insert(number, self.spawn(plan, number, materials)?);
        Ok(GuestId(number))
    }

    fn state(&self, guest: GuestId) -> Result<GuestState, GuestError> {
        Ok(match self.guests.entry(guest)? {
            Entry::Here(guest) => guest.state(),
            Entry::Gone { gone, .. } => GuestState::Ended(gone.how),
        })
    }

    fn connect(&self, guest: GuestId, within: Duration) -> Result<AgentSession, GuestError> {
        let guest = self.guest(guest)?;
        if let GuestState::Ended(how) = guest.state() {
            return Err(guest.ended(how));
        }
        let deadline = Instant::now() + within;
        guest.wait_until_resumed(within)?;
        guest.keep_place(deadline.saturating_duration_since(Instant::now()))?;
        let stream = guest.call()?;
        let left = deadline.saturating_duration_since(Instant::now());
        let opened = SocketConversation::open(&guest.plan.name, guest.console.clone(), stream, left);
        Ok(Box::new(opened.map_err(|error| guest.ended_error(error))?))
    }

    fn processes(&self, guest: GuestId) -> Result<Vec<u32>, GuestError> {
        let Entry::Here(guest) = self.guests.entry(guest)? else { return Ok(Vec::new()) };
        if matches!(guest.state(), GuestState::Ended(_)) {
            return Ok(Vec::new());
        }
        Ok(vec![guest.child.pid()])
    }

    fn disk_requests(&self, guest: GuestId) -> Result<Option<u64>, GuestError> {
        let Entry::Here(guest) = self.guests.entry(guest)? else { return Ok(None) };
        let inner = lock(&guest.inner);
        Ok(requests_of(&inner.disks).filter(|_| !inner.disks.is_empty()))
    }

    fn console(&self, guest: GuestId) -> Result<PathBuf, GuestError> {
        Ok(match self.guests.entry(guest)? {
            Entry::Here(guest) => guest.console.file().to_owned(),
            Entry::Gone { gone, .. } => gone.console,
        })
    }

    fn port_counts(&self, guest: GuestId) -> Option<PortCounts> {
        self.network.port_counts(&self.guest(guest).ok()?.plan)
    }

    fn origin(&self, guest: GuestId) -> Result<Origin, GuestError> {
        Ok(match self.guests.entry(guest)? {
            Entry::Here(guest) => guest.origin(),
            Entry::Gone { origin, .. } => origin,
        })
    }

    fn stop(&self, guest: GuestId) -> Result<(), GuestError> {
        self.guests.stop(guest)
    }

    fn has_network(&self) -> bool {
        true
    }

    fn inequalities(&self) -> Vec<String> {
        match self.settings.accelerator {
            Accelerator::Kvm => Vec::new(),
            Accelerator::Emulated => {
                vec![
                    "emulated guests show that things work; their times say nothing about hardware"
                        .to_owned(),
                ]
            }
        }
    }
}

impl Drop for QemuManager {
    fn drop(&mut self) {
        let all: Vec<u64> = lock(&self.guests.0).keys().copied().collect();
        for number in all {
            if let Err(error) = self.stop(GuestId(number)) {
                let _ = writeln!(io::stderr(), "a guest could not be stopped: {error}");
            }
        }
    }
}

/// What a guest's disks, and further arguments of QEMU, need; QEMU's events do without.
fn rings(disks: &[DiskPlan], more: &[String]) -> Rings {
    let is_asked = disks.iter().any(|disk| disk.aio == DiskAio::IoUring)
        || more.iter().any(|argument| argument.contains(DiskAio::IoUring.name()));
    if is_asked { Rings::Allowed } else { Rings::Denied }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use tilemark_plan::scenario::{DiskMedium, Role};
    use tilemark_units::Bytes;

    #[test]
    fn only_a_qemu_that_is_to_use_io_uring_may() {
        let plain = DiskPlan::new(Bytes::from_mib(64), DiskMedium::Store);
        let ring = DiskPlan { aio: DiskAio::IoUring, ..plain.clone() };
        assert_eq!(
            [rings(&[], &[]), rings(std::slice::from_ref(&plain), &["-nographic".to_owned()])],
            [Rings::Denied; 2]
        );
        assert_eq!(rings(&[plain, ring], &[]), Rings::Allowed);
        assert_eq!(rings(&[], &["file=/disk,if=none,aio=io_uring".to_owned()]), Rings::Allowed);
    }

    #[test]
    fn a_socket_deeper_than_an_address_is_reached() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
        fs::create_dir_all(&deep).unwrap();
        let _listener = listen(&deep.join("agent")).unwrap();
        connect_to(&deep.join("agent")).unwrap();
    }

    /// A guest whose QEMU is a program that does nothing, and QEMU's end of its monitor.
    fn idle_guest(birth: Birth) -> (Guest, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let sleep = Spawn::path("/bin/sleep".as_ref()).unwrap().argument("600").unwrap();
        let child = sleep.dies_with_thread(rustix::process::Signal::KILL).start().unwrap();
        let plan = tilemark_fixtures::guest(0, Role::Web);
        let guest = Guest {
            monitor: Mutex::new(Monitor::new(&plan.name, ours).unwrap()),
            plan,
            child,
            birth,
            console: Console::of_file("/nowhere/console.log".as_ref()),
            socket: "/nowhere/agent".into(),
            qemu_log: Console::of_file("/nowhere/qemu.log".as_ref()),
            resumed: AtomicBool::new(birth != Birth::Clone),
            is_in_place: AtomicBool::new(false),
            inner: Mutex::new(Inner { disks: Vec::new(), own: None, group: None, ended: None, stream: None }),
        };
        (guest, theirs)
    }

    #[test]
    fn a_guests_state_is_known_while_somebody_waits_for_its_monitor() {
        let (guest, mut qemu) = idle_guest(Birth::Clone);
        let waits = lock(&guest.monitor);
        assert_eq!(guest.state(), GuestState::Starting);
        drop(waits);
        qemu.write_all(b"{\"event\": \"RESUME\"}\n").unwrap();
        guest.wait_until_resumed(Duration::from_secs(10)).unwrap();
        let _waits = lock(&guest.monitor);
        assert_eq!(guest.state(), GuestState::Running);
        end_process(&guest.child, Duration::from_secs(10)).unwrap();
        assert!(matches!(guest.state(), GuestState::Ended(_)));
    }

    #[test]
    fn a_stopped_guest_keeps_nothing_open_and_its_console_is_still_known() {
        let (guest, mut qemu) = idle_guest(Birth::Clone);
        let (guests, id) = (Guests::default(), GuestId(1));
        guests.insert(1, guest);
        guests.stop(id).unwrap();
        guests.stop(id).unwrap();
        qemu.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        assert_eq!(qemu.read(&mut [0]).unwrap(), 0, "its monitor is still open");
        let Entry::Gone { gone, origin } = guests.entry(id).unwrap() else { panic!("it is still here") };
        assert_eq!((gone.how.as_str(), origin), ("it was stopped", Origin::Cloned));
        assert_eq!(gone.console, Path::new("/nowhere/console.log"));
        assert!(gone.error().to_string().contains("its console /nowhere/console.log"));
    }
}
