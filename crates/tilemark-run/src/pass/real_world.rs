//! The real world of a pipeline: managers of guests, load processes and the host, inside a run's namespaces.

use crate::{
    clients::reach::Clients,
    failure::{Failure, FailureCode, state_failed},
    guests::database_disks::DatabaseDisks,
    job::keeper::host_proc,
    job::quiet::{self, Others},
    job::state_folder::StateFolder,
    job::types::QEMU_HASH,
    pass::hooks::HookRunner,
    pass::host_hands::HostHands,
    pass::host_settings::Hands,
    pass::load_process::{AgentProcess, LoadPower, LoadProcess, load_failed},
    pass::world::World,
    program::Program,
};
use rustix::mount::{MountFlags, mount};
use std::{
    cell::{OnceCell, RefCell},
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tilemark_guests::{
    Accelerator, BootFiles, DiskFolders, GuestManager, NativeManager, NativeSettings, QemuManager,
    QemuSettings, RunNetwork, USUAL_MACHINE, Uplink, find_firmware, find_qemu,
};
use tilemark_host::{
    KernelLog,
    cgroup::Group,
    telemetry::{self, Pss},
};
use tilemark_image::FileName;
use tilemark_plan::{
    own_bridge::OwnBridge,
    plan::{self, LoadPlan, Point},
    scenario::{QemuTable, Role},
};
use tilemark_record::sha256_of;
use tilemark_sys::files::make_private_folder;
use tilemark_units::{Bytes, Sha256Hash};

/// Where a world takes things from and puts them.
#[derive(Debug, Clone)]
pub(crate) struct Folders {
    /// A folder of this job's own, on disk: sockets, consoles.
    pub(crate) state: PathBuf,
    /// Where images and the disk store are.
    pub(crate) cache: PathBuf,
    /// The image's folder; nothing where every guest boots from a disk of its own.
    pub(crate) image: Option<PathBuf>,
    /// Where consoles stay when all is over.
    pub(crate) consoles: PathBuf,
}

/// The world of one job.
pub(crate) struct RealWorld<'a> {
    program: &'a Program,
    folders: Folders,
    network: Arc<RunNetwork>,
    cgroup: Option<PathBuf>,
    native: OnceCell<NativeManager>,
    qemus: QemuManagers,
    // After the managers: their disks lie in it.
    databases: OnceCell<DatabaseDisks>,
    hands: HostHands,
    hooks: Option<HookRunner>,
    clients: Option<Clients>,
    /// Nothing where this host's kernel does not let its log be read.
    kernel_log: Option<RefCell<KernelLog>>,
}

/// Managers of QEMU, one for each configuration: sides differ in machine type or QEMU, and keep their templates.
/// A list that only grows, so that each stays where it is.
#[derive(Default)]
struct QemuManagers(OnceCell<Box<QemuOfSettings>>);

struct QemuOfSettings {
    kind: plan::Backend,
    table: QemuTable,
    manager: QemuManager,
    next: QemuManagers,
}

/// The cable from this job's network to the user's own bridge: its keeper is in the host's network.
fn uplink_of(own: OwnBridge, state: &Path) -> Result<Uplink, Failure> {
    let under_way = StateFolder::at(state).under_way().map_err(state_failed)?;
    let (Some(keeper), Some(device)) = (under_way.keeper, under_way.uplink) else {
        let message = "the state of this run names no uplink for `network.bridge`";
        return Err(Failure::new(FailureCode::Bug, message, "report it with the command"));
    };
    let namespace = host_proc().join(keeper.pid.to_string()).join("ns/net");
    let host = fs::File::open(namespace).map_err(state_failed)?.into();
    Ok(Uplink { own, device, host })
}

impl<'a> RealWorld<'a> {
    /// Makes the run network and mounts the memory of the run.
    pub(crate) fn new(
        program: &'a Program,
        folders: Folders,
        cgroup: Option<PathBuf>,
        own_bridge: Option<&OwnBridge>,
    ) -> Result<Self, Failure> {
        mount_memory(&folders.memory()).map_err(|error| {
            let message = format!("cannot mount memory on {}", folders.memory().display());
            let remedy = "check that this kernel has tmpfs";
            Failure::caused_by(&error, FailureCode::HostUnfit, message, remedy)
        })?;
        let network = match own_bridge {
            None => RunNetwork::create()?,
            Some(own) => RunNetwork::create_on(uplink_of(own.clone(), &folders.state)?)?,
        };
        let network = Arc::new(network);
        Ok(Self {
            program,
            hands: HostHands::new(&folders.state, &folders.memory()),
            folders,
            network,
            cgroup,
            native: OnceCell::new(),
            qemus: QemuManagers::default(),
            databases: OnceCell::new(),
            hooks: None,
            clients: None,
            kernel_log: KernelLog::from_now().ok().map(RefCell::new),
        })
    }

    /// The same with commands of the user's own.
    pub(crate) fn with_hooks(self, hooks: Option<HookRunner>) -> Self {
        Self { hooks, ..self }
    }

    /// The same with client machines.
    pub(crate) fn with_clients(self, clients: Option<Clients>) -> Self {
        Self { clients, ..self }
    }

    /// What guests boot from, or twins have as their root.
    fn image(&self) -> Option<impl Fn(FileName) -> PathBuf> {
        let folder = self.folders.image.as_ref()?;
        Some(|file: FileName| folder.join(file.as_str()))
    }

    /// What guests in QEMU boot from that have no disk of their own.
    fn boot_files(&self, table: &QemuTable) -> Result<Option<BootFiles>, Failure> {
        let Some(image) = self.image() else { return Ok(None) };
        let mut initramfs = fs::read(image(FileName::Initrd)).map_err(state_failed)?;
        initramfs.extend(tilemark_image::agent_initramfs(self.program.agent));
        let vmlinux = table.kernel.as_ref().map_or_else(|| image(FileName::Vmlinux), PathBuf::from);
        Ok(Some(BootFiles { vmlinux, initramfs, root_erofs: image(FileName::RootErofs) }))
    }

    fn disks(&self) -> Result<DiskFolders, Failure> {
        let folders = DiskFolders { store: self.folders.state.join("disks"), memory: self.folders.memory() };
        make_private_folder(&folders.store).map_err(state_failed)?;
        Ok(folders)
    }

    fn native(&self) -> Result<&NativeManager, Failure> {
        if let Some(native) = self.native.get() {
            return Ok(native);
        }
        let image = self.image().ok_or_else(|| {
            let message = "a native twin was wanted, and no image was obtained";
            Failure::new(FailureCode::Bug, message, "report it with the scenario")
        })?;
        let settings = NativeSettings {
            agent: self.program.agent.to_vec(),
            root_erofs: image(FileName::RootErofs),
            folder: self.folders.consoles.join("native"),
            disks: self.disks()?,
            cgroup: self.cgroup.clone(),
        };
        let native = NativeManager::new(settings, Arc::clone(&self.network))?;
        Ok(self.native.get_or_init(|| native))
    }

    fn qemu(&self, kind: plan::Backend, table: &QemuTable) -> Result<&QemuManager, Failure> {
        let (mut list, mut number) = (&self.qemus, 0);
        while let Some(entry) = list.0.get() {
            if entry.kind == kind && entry.table == *table {
                return Ok(&entry.manager);
            }
            (list, number) = (&entry.next, number + 1);
        }
        let accelerator = match kind {
            plan::Backend::Kvm => Accelerator::Kvm,
            plan::Backend::Emulated | plan::Backend::Native => Accelerator::Emulated,
        };
        let binary = find_qemu(table.binary.as_deref().map(Path::new))?;
        let settings = QemuSettings {
            accelerator,
            binary: binary.clone(),
            machine: table.machine.clone().unwrap_or_else(|| USUAL_MACHINE.to_owned()),
            cpu: table.cpu.clone(),
            more: table.args.clone(),
            firmware: table.firmware.as_deref().map(|named| find_firmware(&binary, named)).transpose()?,
            image: self.boot_files(table)?,
            agent: self.program.agent.to_vec(),
            tsc_khz: if accelerator == Accelerator::Emulated { tilemark_sys::clock::tsc_khz() } else { None },
            folder: self.folders.consoles.join(format!("{}-{number}", kind.name())),
            disks: self.disks()?,
            walls: table.walls,
            cgroup: self.cgroup.clone(),
        };
        let manager = QemuManager::new(settings, Arc::clone(&self.network))?;
        let entry = QemuOfSettings { kind, table: table.clone(), manager, next: QemuManagers::default() };
        Ok(&list.0.get_or_init(|| Box::new(entry)).manager)
    }

    /// All that decides what a database's template holds beside its parameters.
    fn template_maker(&self) -> String {
        let image = self.folders.image.as_deref().and_then(Path::file_name).unwrap_or_default();
        let image = image.to_string_lossy().into_owned();
        format!("{image} {}", Sha256Hash::of(self.program.agent))
    }

    /// Version of the QEMU that was used, if one was; all of them where sides had their own.
    pub(crate) fn qemu_version(&self) -> Option<String> {
        let versions: BTreeSet<String> = self.used_qemus().map(|qemu| qemu.version().to_string()).collect();
        (!versions.is_empty()).then(|| versions.into_iter().collect::<Vec<_>>().join(", "))
    }

    /// SHA-256 of each QEMU that was used, by its name in the provenance.
    pub(crate) fn qemu_hashes(&self) -> Result<BTreeMap<String, String>, Failure> {
        let hash = |qemu: &QemuManager| {
            let hash = sha256_of(qemu.binary())?;
            Ok((format!("{QEMU_HASH}{}", qemu.binary().display()), hash))
        };
        self.used_qemus().map(hash).collect()
    }

    fn used_qemus(&self) -> impl Iterator<Item = &QemuManager> {
        let entry = std::iter::successors(self.qemus.0.get(), |entry| entry.next.0.get());
        entry.map(|entry| &entry.manager)
    }

    /// What could not be made equal between the backends that were used.
    pub(crate) fn unequal(&self) -> Vec<String> {
        self.native.get().map(GuestManager::inequalities).unwrap_or_default()
    }
}

impl Folders {
    /// Memory that nobody but this mount namespace sees.
    pub(crate) fn memory(&self) -> PathBuf {
        self.state.join("memory")
    }
}

/// Below the run's control group: a load that starts programs of the user's own, with them. No guest is called so.
const LOAD_GROUP: &str = "load";

/// A tmpfs that nobody but this mount namespace sees.
fn mount_memory(path: &Path) -> io::Result<()> {
    make_private_folder(path)?;
    Ok(mount("tilemark", path, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(c"mode=0700"))?)
}

impl World for RealWorld<'_> {
    fn manager(&self, point: &Point) -> Result<&dyn GuestManager, Failure> {
        match point.backend {
            plan::Backend::Native => Ok(self.native()?),
            kind => Ok(self.qemu(kind, &point.qemu)?),
        }
    }

    fn load_process(&self, point: &Point) -> Result<Box<dyn LoadProcess>, Failure> {
        let is_program = |load: &LoadPlan| load.is_outside() && load.work.facts().starts_own_program();
        let (agent, folder) = (self.program.agent, self.folders.memory());
        let process = match (point.loads.iter().any(is_program), &self.cgroup) {
            (true, Some(run)) => {
                let group = Group::at(run).create_child(LOAD_GROUP).map_err(|error| {
                    Failure::from_error(FailureCode::HostUnfit, &error, "look at `tilemark doctor`")
                })?;
                AgentProcess::start_in_group(agent, &folder, &group)
            }
            (true, None) => AgentProcess::start_in(agent, &folder, LoadPower::All),
            (false, _) => AgentProcess::start_in(agent, &folder, LoadPower::Priority),
        };
        Ok(Box::new(process.map_err(load_failed)?))
    }

    fn prepare_disks(&self, point: &Point, progress: &dyn Fn(&str)) -> Result<Duration, Failure> {
        if point.guests.iter().all(|guest| !guest.serves(Role::Database) || guest.disks.is_empty()) {
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
        tilemark_sys::memory::available_bytes().map(Bytes::new)
    }

    fn disk_available(&self) -> Option<Bytes> {
        let free = |folder: &PathBuf| {
            let disk = rustix::fs::statvfs(folder).ok()?;
            // What cannot be written, such as a cache of images that several hosts share, cannot fill up.
            let is_written = !disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
            is_written.then_some(Bytes::new(disk.f_bavail * disk.f_frsize))
        };
        // Consoles are in the record, data disks in state and cache.
        [&self.folders.state, &self.folders.cache, &self.folders.consoles].into_iter().filter_map(free).min()
    }

    fn pss(&self, pid: u32) -> Option<Pss> {
        telemetry::pss(pid).ok()
    }

    fn own_processes(&self) -> Vec<u32> {
        vec![1, std::process::id()]
    }

    fn others(&self, is_over: &dyn Fn() -> bool) -> Option<Others> {
        quiet::look(quiet::QUIET_FOR, self.own_processes(), is_over)
    }

    fn missing_wall(&self) -> Option<String> {
        self.network.missing_wall().map(str::to_owned)
    }

    fn hands(&self) -> &dyn Hands {
        &self.hands
    }

    fn hooks(&self) -> Option<&HookRunner> {
        self.hooks.as_ref()
    }

    fn clients(&self) -> Option<&Clients> {
        self.clients.as_ref()
    }

    fn kernel_errors(&self) -> Vec<String> {
        self.kernel_log.as_ref().map(|log| log.borrow_mut().errors()).unwrap_or_default()
    }
}
