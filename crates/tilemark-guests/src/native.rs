//! Native twins: the image's files in namespaces of the host's kernel, no guest.

use crate::{
    console::{Console, Consoles},
    conversation::{AgentSession, SocketConversation},
    disks::{DiskFolders, LoopDisk, requests_of},
    error::{GuestError, file},
    gone::{Gone, end_process},
    group::{Limits, OwnGroup, hands_on, names},
    manager::{GuestId, GuestManager, GuestState, Origin, StartMode, TemplateId},
    network::RunNetwork,
    process_tree::ProcessTree,
};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    mem,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tilemark_agent_protocol::Service;
use tilemark_netlink::PortCounts;
use tilemark_plan::plan::{self, GuestPlan};
use tilemark_sys::{
    files::{OPEN_FOLDER, make_folder},
    namespace::Namespaces,
    process::{Child, Spawn, program_in_memory},
};
use tilemark_units::Bytes;

/// The number under which the twin is handed its end of the socket; the agent's `SOCKET_NUMBER`.
const SOCKET_NUMBER: i32 = 3;

/// A twin that hung up, or has lost its namespaces, has ended a moment later.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// What native twins are made of.
#[derive(Debug)]
pub struct NativeSettings {
    /// The agent's program.
    pub agent: Vec<u8>,
    /// The image's root.
    pub root_erofs: PathBuf,
    /// A folder of this manager's own, in the run's directory.
    pub folder: PathBuf,
    /// Where data disks are made.
    pub disks: DiskFolders,
    /// The run's group in cgroup2, where there is one. It hands on the memory controller where the host has it.
    pub cgroup: Option<PathBuf>,
}

/// Guests as namespaces on the host's kernel.
#[derive(Debug)]
pub struct NativeManager {
    settings: NativeSettings,
    network: Arc<RunNetwork>,
    /// The mounted image; the loop device below it is held by the mount.
    root: PathBuf,
    consoles: Consoles,
    twins: Mutex<BTreeMap<u64, Entry>>,
    next: AtomicU64,
}

#[derive(Debug)]
enum Entry {
    Here(Box<Twin>),
    Gone(Gone),
}

#[derive(Debug)]
struct Twin {
    plan: GuestPlan,
    child: Arc<Child>,
    socket: UnixStream,
    console: Console,
    folder: PathBuf,
    group: Option<OwnGroup>,
    disks: Vec<LoopDisk>,
    ended: Option<String>,
}

impl NativeManager {
    /// Mounts the image once for all twins.
    pub fn new(settings: NativeSettings, network: Arc<RunNetwork>) -> Result<Self, GuestError> {
        let root = settings.folder.join("image");
        make_folder(&root, OPEN_FOLDER).map_err(file("make", &root))?;
        let image = LoopDisk::read_only(&settings.root_erofs)?;
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        mount(image.device(), &root, "erofs", flags, None).map_err(file("mount the image on", &root))?;
        let (consoles, twins) = (Consoles::start()?, Mutex::default());
        Ok(Self { settings, network, root, consoles, twins, next: AtomicU64::new(1) })
    }

    fn twins(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.twins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with a twin that was not stopped.
    fn with<T>(&self, guest: GuestId, act: impl FnOnce(&mut Twin) -> T) -> Result<T, GuestError> {
        let gone = match self.twins().get_mut(&guest.0) {
            Some(Entry::Here(twin)) => return Ok(act(twin)),
            Some(Entry::Gone(gone)) => gone.clone(),
            None => return Err(GuestError::Unknown(guest.0)),
        };
        Err(gone.error())
    }

    /// A twin that hung up is about to end, and its last words may be on their way.
    fn ended_error(&self, guest: GuestId, console: &Console, error: GuestError) -> GuestError {
        let GuestError::Ended { guest: name, how, .. } = error else { return error };
        self.wait_for_end(guest);
        GuestError::Ended { guest: name, how, console: console.tail() }
    }

    /// Waits for a twin that seems to be ending.
    fn wait_for_end(&self, guest: GuestId) {
        if let Ok(child) = self.with(guest, |twin| Arc::clone(&twin.child)) {
            let _ = child.ends_within(ENDS_WITHIN);
        }
    }

    /// What is kept of a twin that was stopped.
    fn gone(&self, guest: GuestId) -> Option<Gone> {
        match self.twins().get(&guest.0) {
            Some(Entry::Gone(gone)) => Some(gone.clone()),
            _ => None,
        }
    }

    /// Its first process, unless it has ended.
    fn first_process(&self, guest: GuestId) -> Result<Option<u32>, GuestError> {
        if self.gone(guest).is_some() {
            return Ok(None);
        }
        self.with(guest, |twin| twin.ended.is_none().then(|| twin.child.pid()))
    }

    fn spawn(&self, plan: &GuestPlan, folder: &Path, disks: &[LoopDisk]) -> Result<Spawned, GuestError> {
        let scratch = folder.join("root");
        make_folder(&scratch, OPEN_FOLDER).map_err(file("make", &scratch))?;
        let (console, log) = self.consoles.open(&folder.join("console.log"))?;
        let (socket, other) = UnixStream::pair().map_err(file("make a socket for", &scratch))?;
        let group = OwnGroup::create(self.settings.cgroup.as_deref(), &plan.name, &limits(plan))?;
        let spawn = self
            .command(plan, &scratch, disks, Streams { log, other, group: group.as_ref() })
            .map_err(file("prepare the start in", folder))?;
        let child = spawn.start().map_err(|source| GuestError::Spawn { guest: plan.name.clone(), source })?;
        Ok(Spawned { child, socket, console, group })
    }

    fn command(
        &self,
        plan: &GuestPlan,
        scratch: &Path,
        disks: &[LoopDisk],
        streams: Streams<'_>,
    ) -> std::io::Result<Spawn> {
        let null = File::open("/dev/null")?;
        let size = plan.memory.get() / 2;
        let all =
            Namespaces::PID | Namespaces::MOUNT | Namespaces::UTS | Namespaces::IPC | Namespaces::NETWORK;
        let spawn =
            Spawn::descriptor(program_in_memory("tilemark-agent", &self.settings.agent)?, "tilemark-agent")?
                .arguments([Path::new("twin"), &self.root, scratch])?
                .argument(size.to_string())?
                .arguments(disks.iter().map(LoopDisk::device))?
                .environment(["PATH=/usr/sbin:/usr/bin:/sbin:/bin"])?
                .namespaces(all)
                .hand(null.into(), 0)
                .hand(streams.log.try_clone()?, 1)
                .hand(streams.log, 2)
                .hand(streams.other.into(), SOCKET_NUMBER)
                .processors(&plan.processors)
                .memory_of_nodes(plan.place.as_ref().map_or(&[], |place| &place.nodes))
                .oom_score(1000)
                .own_session();
        Ok(match streams.group {
            Some(group) => spawn.in_cgroup(group.open()?),
            None => spawn,
        })
    }
}

struct Streams<'a> {
    log: OwnedFd,
    other: UnixStream,
    group: Option<&'a OwnGroup>,
}

struct Spawned {
    child: Child,
    socket: UnixStream,
    console: Console,
    group: Option<OwnGroup>,
}

/// The group counts a twin's processor time whatever processes come and go. A twin at its limit reclaims or ends as a guest does, and
/// is not swapped out. Where the host has the controller, its group keeps it on its processors; else it could leave them
/// (`place_watch.rs` of `tilemark-run` reads where it may run).
fn limits(plan: &GuestPlan) -> Limits {
    let mut processors = plan.processors.clone();
    processors.sort_unstable();
    Limits { memory: Some(plan.memory), swap: Bytes::default(), processes: PROCESSES_MAX, processors }
}

/// Why twins have no memory limit, in a sentence; `None` where they have one.
fn unlimited(run: Option<&Path>) -> Option<&'static str> {
    let Some(run) = run else {
        return Some("native twins have no memory limit: this run has no control group");
    };
    if hands_on(run, "memory") {
        return None;
    }
    // The run's group lies right under the tree's mount point, which says what the host has.
    let host_has = run.parent().is_some_and(|tree| names(&tree.join("cgroup.controllers"), "memory"));
    Some(if host_has {
        "native twins have no memory limit: the memory controller of this host's cgroup2 could not be enabled for them"
    } else {
        "native twins have no memory limit: this host's cgroup2 has no memory controller"
    })
}

/// Processes and threads of a twin: more than a server of thousands of clients has, and few enough that one that makes them without
/// end leaves the host its own.
const PROCESSES_MAX: u64 = 16_384;

impl GuestManager for NativeManager {
    fn backend(&self) -> plan::Backend {
        plan::Backend::Native
    }

    fn template(&self, _: &GuestPlan, _: &Service) -> Result<TemplateId, GuestError> {
        Ok(TemplateId(0))
    }

    fn start(&self, plan: &GuestPlan, _: StartMode) -> Result<GuestId, GuestError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = self.settings.folder.join(format!("{number}-{}", plan.name));
        let disks = LoopDisk::of_guest(plan, &self.settings.disks)?;
        let Spawned { child, socket, console, group } = self.spawn(plan, &folder, &disks)?;
        let child = Arc::new(child);
        let twin = Twin { plan: plan.clone(), child, socket, console, folder, group, disks, ended: None };
        let namespace_path = PathBuf::from(format!("/proc/{}/ns/net", twin.child.pid()));
        self.twins().insert(number, Entry::Here(Box::new(twin)));
        let id = GuestId(number);
        let joined = File::open(&namespace_path)
            .map_err(file("open", &namespace_path))
            .and_then(|namespace| self.network.veth(plan, namespace.as_fd()));
        if let Err(error) = joined {
            let console = self.with(id, |twin| twin.console.clone())?;
            // Its namespaces are gone a moment before its end can be seen.
            self.wait_for_end(id);
            let ended = self.state(id)?;
            self.stop(id)?;
            return Err(match ended {
                GuestState::Ended(how) => {
                    GuestError::Ended { guest: plan.name.clone(), how, console: console.tail() }
                }
                _ => error,
            });
        }
        Ok(id)
    }

    fn state(&self, guest: GuestId) -> Result<GuestState, GuestError> {
        if let Some(gone) = self.gone(guest) {
            return Ok(GuestState::Ended(gone.how));
        }
        self.with(guest, |twin| match &twin.ended {
            Some(how) => GuestState::Ended(how.clone()),
            None => match twin.child.try_wait() {
                Ok(None) => GuestState::Running,
                Ok(Some(ended)) => {
                    let how = format!("its first process ended with code {}", ended.code());
                    twin.ended = Some(how.clone());
                    GuestState::Ended(how)
                }
                Err(error) => GuestState::Ended(format!("its first process cannot be watched: {error}")),
            },
        })
    }

    fn connect(&self, guest: GuestId, within: Duration) -> Result<AgentSession, GuestError> {
        let (name, console, stream) =
            self.with(guest, |twin| (twin.plan.name.clone(), twin.console.clone(), twin.socket.try_clone()))?;
        let stream = stream.map_err(file("use the socket of", console.file()))?;
        let opened = SocketConversation::open(&name, console.clone(), stream, within);
        Ok(Box::new(opened.map_err(|error| self.ended_error(guest, &console, error))?))
    }

    fn processes(&self, guest: GuestId) -> Result<Vec<u32>, GuestError> {
        Ok(self.first_process(guest)?.map(|first| ProcessTree::now().below(first)).unwrap_or_default())
    }

    fn all_processes(&self, guests: &[GuestId]) -> Vec<Vec<u32>> {
        let tree = ProcessTree::now();
        let first = |guest: &GuestId| self.first_process(*guest).ok().flatten();
        guests.iter().map(|guest| first(guest).map(|first| tree.below(first)).unwrap_or_default()).collect()
    }

    fn group(&self, guest: GuestId) -> Option<PathBuf> {
        self.with(guest, |twin| twin.group.as_ref().map(|group| group.path().to_owned())).ok().flatten()
    }

    fn disk_requests(&self, guest: GuestId) -> Result<Option<u64>, GuestError> {
        if self.gone(guest).is_some() {
            return Ok(None);
        }
        self.with(guest, |twin| requests_of(&twin.disks).filter(|_| !twin.disks.is_empty()))
    }

    fn console(&self, guest: GuestId) -> Result<PathBuf, GuestError> {
        match self.gone(guest) {
            Some(gone) => Ok(gone.console),
            None => self.with(guest, |twin| twin.console.clone()).map(|console| console.file().to_owned()),
        }
    }

    fn port_counts(&self, guest: GuestId) -> Option<PortCounts> {
        let plan = self.with(guest, |twin| twin.plan.clone()).ok()?;
        self.network.port_counts(&plan)
    }

    fn origin(&self, _: GuestId) -> Result<Origin, GuestError> {
        Ok(Origin::Namespaced)
    }

    fn stop(&self, guest: GuestId) -> Result<(), GuestError> {
        if self.gone(guest).is_some() {
            return Ok(());
        }
        let state = self.state(guest)?;
        let (child, folder) = self.with(guest, |twin| (Arc::clone(&twin.child), twin.folder.clone()))?;
        let how = if let GuestState::Ended(how) = state {
            how
        } else {
            end_process(&child, STOPS_WITHIN).map_err(file("end the guest in", &folder))?;
            "it was stopped".to_owned()
        };
        let (disks, group, plan, console) = self.with(guest, |twin| {
            twin.ended = Some(how.clone());
            (mem::take(&mut twin.disks), twin.group.take(), twin.plan.clone(), twin.console.clone())
        })?;
        drop(disks);
        console.close();
        drop(group);
        self.network.remove(&plan)?;
        let console = console.file().to_owned();
        self.twins().insert(guest.0, Entry::Gone(Gone { guest: plan.name, console, how }));
        Ok(())
    }

    fn has_network(&self) -> bool {
        true
    }

    fn inequalities(&self) -> Vec<String> {
        let mut all = vec![
            "native twins share the host's kernel: its page cache, scheduler and limits are common to all"
                .to_owned(),
            "a native twin has its processors by affinity, not as threads that another kernel schedules"
                .to_owned(),
            "system calls of a native twin pass a filter (up to 3 % of the throughput where a web server flat out was measured)"
                .to_owned(),
        ];
        all.extend(unlimited(self.settings.cgroup.as_deref()).map(str::to_owned));
        all
    }
}

/// The kernel ends a PID namespace at once; a process that writes to a stuck disk can take longer.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

impl Drop for NativeManager {
    fn drop(&mut self) {
        let all: Vec<u64> = self.twins().keys().copied().collect();
        for number in all {
            if let Err(error) = self.stop(GuestId(number)) {
                let _ = writeln!(std::io::stderr(), "a guest could not be stopped: {error}");
            }
        }
        let _ = unmount(&self.root, UnmountFlags::DETACH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{played, written};
    use tilemark_fixtures::guest;
    use tilemark_plan::scenario::Role;

    #[test]
    fn a_twin_may_use_as_much_memory_as_its_guest_has() {
        let (_tree, run) = played("cpu memory\n", "memory\n");
        let limits = limits(&guest(0, Role::Web));
        assert_eq!(written(&run, "tile-001-web", &limits, &["memory.max"]), ["100663296"]);
        assert_eq!(unlimited(Some(&run)), None);
    }

    #[test]
    fn a_twin_may_have_so_many_processes() {
        let (_tree, run) = played("pids\n", "pids\n");
        assert_eq!(written(&run, "tile-001-web", &limits(&guest(0, Role::Web)), &["pids.max"]), ["16384"]);
    }

    #[test]
    fn a_twin_cannot_leave_its_processors_where_the_host_has_the_controller() {
        let (_tree, run) = played("cpuset\n", "cpuset\n");
        let plan = GuestPlan { processors: vec![5, 4], ..guest(0, Role::Web) };
        assert_eq!(written(&run, "tile-001-web", &limits(&plan), &["cpuset.cpus"]), ["4-5"]);
    }

    #[test]
    fn a_twin_at_its_limit_is_not_swapped_out() {
        let (_tree, run) = played("memory\n", "memory\n");
        let files = ["memory.max", "memory.swap.max"];
        assert_eq!(written(&run, "tile-001-web", &limits(&guest(0, Role::Web)), &files)[1], "0");
    }

    #[test]
    fn the_host_is_said_to_have_no_memory_controller_only_when_it_has_none() {
        let why = |controllers, handed_on| {
            let (_tree, run) = played(controllers, handed_on);
            written(&run, "tile-001-web", &limits(&guest(0, Role::Web)), &[]);
            unlimited(Some(&run)).unwrap()
        };
        assert!(why("hugetlb\n", "").ends_with("this host's cgroup2 has no memory controller"));
        assert!(why("cpu memory\n", "cpu\n").ends_with("could not be enabled for them"));
        assert!(unlimited(None).unwrap().ends_with("this run has no control group"));
    }
}
