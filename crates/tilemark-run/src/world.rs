//! The real world of a pipeline: backends, load processes and the host, inside a run's namespaces.

use crate::{
    database_disks::DatabaseDisks,
    drive::LoadProcess,
    failure::{Failure, FailureCode, state_failed},
    judge::QEMU_HASH,
    pipeline::World,
    program::{Program, sha256},
};
use rustix::{
    mount::{MountFlags, mount},
    process::Signal,
};
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    fs, io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tilemark_agent_protocol::{FrameError, LoadEvent, LoadJob, Reply, Request, Session, write_frame};
use tilemark_guests::{
    Accelerator, Backend, DiskFolders, NativeBackend, NativeSettings, QemuBackend, QemuSettings, RunNetwork,
    find_qemu,
};
use tilemark_host::{
    KernelLog,
    telemetry::{self, Pss},
};
use tilemark_image::FileName;
use tilemark_plan::{
    plan::{self, Plan, Point},
    scenario::{QemuWishes, Role},
};
use tilemark_record::sha256_of;
use tilemark_sys::{
    files::make_private_folder,
    process::{Child, Spawn, program_in_memory},
};
use tilemark_units::Bytes;

/// Where a world takes things from and puts them.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    /// A folder of this job's own, on disk: sockets, consoles.
    pub(crate) state: PathBuf,
    /// Where images and the disk store are.
    pub(crate) cache: PathBuf,
    /// The image's folder.
    pub(crate) image: PathBuf,
    /// Where consoles stay when all is over.
    pub(crate) consoles: PathBuf,
}

/// The world of one job.
pub(crate) struct RealWorld<'a> {
    program: &'a Program,
    folders: Folders,
    network: Arc<RunNetwork>,
    cgroup: Option<PathBuf>,
    native: OnceCell<NativeBackend>,
    qemus: Kept,
    // After the backends: their disks lie in it.
    databases: OnceCell<DatabaseDisks>,
    /// Nothing where this host's kernel does not let its log be read.
    kernel_log: Option<RefCell<KernelLog>>,
}

/// QEMU backends, one for each configuration: sides differ in machine type or QEMU, and keep their templates.
/// A list that only grows, so that each stays where it is.
#[derive(Default)]
struct Kept(OnceCell<Box<KeptQemu>>);

struct KeptQemu {
    kind: plan::Backend,
    wishes: QemuWishes,
    backend: QemuBackend,
    next: Kept,
}

impl<'a> RealWorld<'a> {
    /// Makes the run network and mounts the memory of the run.
    pub(crate) fn new(
        program: &'a Program,
        folders: Folders,
        cgroup: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        mount_memory(&folders.memory()).map_err(|error| {
            let message = format!("cannot mount memory on {}", folders.memory().display());
            let remedy = "check that this kernel has tmpfs";
            Failure::caused_by(&error, FailureCode::HostUnfit, message, remedy)
        })?;
        let network = Arc::new(RunNetwork::create()?);
        Ok(Self {
            program,
            folders,
            network,
            cgroup,
            native: OnceCell::new(),
            qemus: Kept::default(),
            databases: OnceCell::new(),
            kernel_log: KernelLog::from_now().ok().map(RefCell::new),
        })
    }

    fn image(&self, file: FileName) -> PathBuf {
        self.folders.image.join(file.as_str())
    }

    fn disks(&self) -> Result<DiskFolders, Failure> {
        let folders = DiskFolders { store: self.folders.state.join("disks"), memory: self.folders.memory() };
        make_private_folder(&folders.store).map_err(state_failed)?;
        Ok(folders)
    }

    fn native(&self) -> Result<&NativeBackend, Failure> {
        if let Some(native) = self.native.get() {
            return Ok(native);
        }
        let settings = NativeSettings {
            agent: self.program.agent.to_vec(),
            root_erofs: self.image(FileName::RootErofs),
            folder: self.folders.consoles.join("native"),
            disks: self.disks()?,
            cgroup: self.cgroup.clone(),
        };
        let native = NativeBackend::new(settings, Arc::clone(&self.network))?;
        Ok(self.native.get_or_init(|| native))
    }

    fn qemu(&self, kind: plan::Backend, wishes: &QemuWishes) -> Result<&QemuBackend, Failure> {
        let (mut list, mut number) = (&self.qemus, 0);
        while let Some(kept) = list.0.get() {
            if kept.kind == kind && kept.wishes == *wishes {
                return Ok(&kept.backend);
            }
            (list, number) = (&kept.next, number + 1);
        }
        let accelerator = match kind {
            plan::Backend::Kvm => Accelerator::Kvm,
            plan::Backend::Emulated | plan::Backend::Native => Accelerator::Emulated,
        };
        let mut initramfs = fs::read(self.image(FileName::Initrd)).map_err(state_failed)?;
        initramfs.extend(tilemark_image::agent_initramfs(self.program.agent));
        let settings = QemuSettings {
            accelerator,
            binary: find_qemu(wishes.binary.as_deref().map(Path::new))?,
            machine: wishes.machine.clone().unwrap_or_else(|| "pc".to_owned()),
            vmlinux: wishes.kernel.as_ref().map_or_else(|| self.image(FileName::Vmlinux), PathBuf::from),
            initramfs,
            root_erofs: self.image(FileName::RootErofs),
            folder: self.folders.consoles.join(format!("{}-{number}", kind.name())),
            disks: self.disks()?,
            walls: wishes.walls,
        };
        let backend = QemuBackend::new(settings, Arc::clone(&self.network))?;
        let kept = KeptQemu { kind, wishes: wishes.clone(), backend, next: Kept::default() };
        Ok(&list.0.get_or_init(|| Box::new(kept)).backend)
    }

    /// All that decides what a database's template holds beside its parameters.
    fn template_maker(&self) -> String {
        let image = self.folders.image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{image} {}", sha256(self.program.agent))
    }

    /// Version of the QEMU that was used, if one was; all of them where sides had their own.
    pub(crate) fn qemu_version(&self) -> Option<String> {
        let versions: BTreeSet<String> = self.used_qemus().map(|qemu| qemu.version().to_string()).collect();
        (!versions.is_empty()).then(|| versions.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// SHA-256 of each QEMU that was used, by its name in the provenance.
    pub(crate) fn qemu_hashes(&self) -> Result<BTreeMap<String, String>, Failure> {
        let hash = |qemu: &QemuBackend| {
            let hash = sha256_of(qemu.binary())?;
            Ok((format!("{QEMU_HASH}{}", qemu.binary().display()), hash))
        };
        self.used_qemus().map(hash).collect()
    }

    fn used_qemus(&self) -> impl Iterator<Item = &QemuBackend> {
        let kept = std::iter::successors(self.qemus.0.get(), |kept| kept.next.0.get());
        kept.map(|kept| &kept.backend)
    }

    /// What could not be made equal between the backends that were used.
    pub(crate) fn unequal(&self) -> Vec<String> {
        self.native.get().map(Backend::inequalities).unwrap_or_default()
    }
}

impl Folders {
    fn memory(&self) -> PathBuf {
        self.state.join("memory")
    }
}

/// A tmpfs that nobody but this mount namespace sees.
fn mount_memory(path: &Path) -> io::Result<()> {
    make_private_folder(path)?;
    Ok(mount("tilemark", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=0700"))?)
}

impl World for RealWorld<'_> {
    fn backend(&self, point: &Point) -> Result<&dyn Backend, Failure> {
        match point.backend {
            plan::Backend::Native => Ok(self.native()?),
            kind => Ok(self.qemu(kind, &point.qemu)?),
        }
    }

    fn load_process(&self, _: &Plan) -> Result<Box<dyn LoadProcess>, Failure> {
        let process = AgentProcess::start(self.program.agent).map_err(load_failed)?;
        Ok(Box::new(process))
    }

    fn prepare_disks(&self, point: &Point, progress: &dyn Fn(&str)) -> Result<Duration, Failure> {
        if point.guests.iter().all(|guest| guest.role != Role::Database || guest.disks.is_empty()) {
            return Ok(Duration::ZERO);
        }
        let disks = match self.databases.get() {
            Some(disks) => disks,
            None => {
                let opened = DatabaseDisks::open(&self.folders.cache, &self.disks()?.store)?;
                self.databases.get_or_init(|| opened)
            }
        };
        disks.prepare(point, self.native()?, &self.template_maker(), progress)
    }

    fn memory_available(&self) -> Option<Bytes> {
        let text = fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        Some(Bytes::from_kib(line.split_whitespace().nth(1)?.parse().ok()?))
    }

    fn disk_available(&self) -> Option<Bytes> {
        let free = |folder: &PathBuf| {
            let disk = rustix::fs::statvfs(folder).ok()?;
            // What cannot be written, such as a cache of images that several hosts share, cannot fill up.
            let is_written = !disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
            is_written.then_some(Bytes::new(disk.f_bavail * disk.f_frsize))
        };
        // Consoles stand in the record, data disks in state and cache.
        [&self.folders.state, &self.folders.cache, &self.folders.consoles].into_iter().filter_map(free).min()
    }

    fn pss(&self, pid: u32) -> Option<Pss> {
        telemetry::pss(pid).ok()
    }

    fn own_processes(&self) -> Vec<u32> {
        vec![1, std::process::id()]
    }

    fn missing_wall(&self) -> Option<String> {
        self.network.missing_wall().map(str::to_owned)
    }

    fn kernel_errors(&self) -> Vec<String> {
        self.kernel_log.as_ref().map(|log| log.borrow_mut().errors()).unwrap_or_default()
    }
}

/// The failure of a load process, whatever broke.
pub(crate) fn load_failed(error: impl Display) -> Failure {
    Failure::caused_by(
        &error,
        FailureCode::HostUnfit,
        "the load process cannot be used",
        "check that processes can be started and memory is left",
    )
}

/// The agent as a load process, spoken to over a socket.
pub(crate) struct AgentProcess {
    child: Arc<Child>,
    session: Session<UnixStream>,
}

impl AgentProcess {
    /// Starts it in the caller's namespaces and says hello. A terminal's Ctrl-C is the caller's alone.
    pub(crate) fn start(agent: &[u8]) -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        let spawn = Spawn::descriptor(program_in_memory("tilemark-load", agent)?, "tilemark-load")?
            .argument("load")?
            .hand(OwnedFd::from(its.try_clone()?), 0)
            .hand(OwnedFd::from(its), 1)
            .own_session()
            .dies_with_thread(Signal::KILL);
        let child = spawn.start().map_err(io::Error::other)?;
        ours.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut nonce = [0; 8];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
        let session = Session::open(ours, u64::from_ne_bytes(nonce)).map_err(io::Error::other)?;
        Ok(Self { child: Arc::new(child), session })
    }

    /// A way to end its load early from another thread: what was measured so far is told all the same.
    pub(crate) fn stopper(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let mut stream = self.session.stream().try_clone()?;
        Ok(move || {
            // A load process that is gone is found to be so by who listens to it.
            let _ = write_frame(&mut stream, &Request::StopLoad);
        })
    }
}

impl LoadProcess for AgentProcess {
    fn prepare(&mut self, job: &LoadJob) -> Result<(), Failure> {
        self.session.send(&Request::PrepareLoad(Box::new(job.clone()))).map_err(load_failed)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.session.send(&Request::BeginLoad).map_err(load_failed)
    }

    fn next(&mut self, within: Duration) -> Result<Option<LoadEvent>, Failure> {
        // No time at all would mean for ever.
        let within = within.max(Duration::from_millis(1));
        self.session.stream().set_read_timeout(Some(within)).map_err(load_failed)?;
        match self.session.receive() {
            Ok(Reply::Load(event)) => Ok(Some(event)),
            Ok(Reply::Failed { message, remedy }) => Ok(Some(LoadEvent::Failed { message, remedy })),
            Ok(other) => Err(load_failed(format!("unexpected answer {other:?}"))),
            Err(FrameError::Stream(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(load_failed(error)),
        }
    }

    fn pid(&self) -> Option<u32> {
        Some(self.child.pid())
    }

    fn ender(&self) -> Box<dyn Fn() + Send> {
        let child = Arc::clone(&self.child);
        Box::new(move || {
            // One that has ended already is what is wanted.
            let _ = child.signal(Signal::KILL);
        })
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // Its work is over; one that has ended already is what is wanted.
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}
