//! What tests with real guests share: namespaces of their own, the image, the agent.

#![allow(dead_code, missing_docs, unreachable_pub, clippy::unwrap_used)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tilemark_agent_protocol::Service;
use tilemark_guests::{
    Accelerator, BootFiles, DiskFolders, NativeManager, NativeSettings, QemuManager, QemuSettings,
    RunNetwork, find_qemu,
};
use tilemark_plan::{plan::GuestPlan, scenario::Role};
use tilemark_sys::{
    namespace::{self, Namespaces},
    process::{Ended, Spawn},
};

const INSIDE: &str = "TILEMARK_TEST_INSIDE";

/// Runs `test` (the name of the calling test function) in PID, mount and network namespaces of its own, which take
/// everything with them. Says loudly when that is not possible.
pub fn in_namespaces(name: &str, test: impl FnOnce(&World)) {
    if let Some(folder) = std::env::var_os(INSIDE) {
        namespace::isolate_mounts().unwrap();
        namespace::remount_proc().unwrap();
        let folder = PathBuf::from(folder);
        rustix::mount::mount("tmpfs", &folder, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        return test(&World::find(folder).unwrap());
    }
    if let Some(reason) = missing() {
        assert!(std::env::var_os("TILEMARK_CI").is_none(), "may not be skipped here: {reason}");
        // Not by a macro, whose output the test harness would hide.
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            format!("skipped: {name}: {reason}\n").as_bytes(),
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let child = Spawn::this_program("test")
        .unwrap()
        .arguments([name, "--exact", "--nocapture", "--include-ignored"])
        .unwrap()
        .environment(
            std::env::vars()
                .map(|(k, v)| format!("{k}={v}"))
                .chain([format!("{INSIDE}={}", folder.path().display())]),
        )
        .unwrap()
        .namespaces(Namespaces::PID | Namespaces::MOUNT | Namespaces::NETWORK)
        .dies_with_thread(rustix::process::Signal::KILL)
        .start()
        .unwrap();
    assert_eq!(child.wait().unwrap(), Ended::Exited(0), "{name} failed in its namespaces");
}

fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root".to_owned());
    }
    World::find(PathBuf::new()).err()
}

/// Where things are.
pub struct World {
    pub folder: PathBuf,
    pub image: PathBuf,
    pub agent: Vec<u8>,
}

impl World {
    fn find(folder: PathBuf) -> Result<Self, String> {
        let variable = |name: &str, what: &str| {
            std::env::var_os(name).map(PathBuf::from).ok_or(format!("set {name} to {what}"))
        };
        let image = variable("TILEMARK_TEST_IMAGE", "a folder with root.erofs, vmlinux and initrd")?;
        let agent = variable("TILEMARK_TEST_AGENT", "the statically linked agent")?;
        let agent =
            std::fs::read(&agent).map_err(|error| format!("cannot read {}: {error}", agent.display()))?;
        Ok(Self { folder, image, agent })
    }

    pub fn disks(&self) -> DiskFolders {
        DiskFolders { store: self.folder.clone(), memory: self.folder.clone() }
    }

    pub fn emulated(&self, network: &Arc<RunNetwork>) -> QemuManager {
        QemuManager::new(self.qemu_settings(), Arc::clone(network)).unwrap()
    }

    pub fn qemu_settings(&self) -> QemuSettings {
        self.settings_with_agent(&self.agent)
    }

    /// The same with another program as first process.
    pub fn settings_with_agent(&self, agent: &[u8]) -> QemuSettings {
        let mut initramfs = std::fs::read(self.image.join("initrd")).unwrap();
        initramfs.extend(tilemark_image::agent_initramfs(agent));
        QemuSettings {
            accelerator: accelerator(),
            binary: find_qemu(None).unwrap(),
            machine: "pc".to_owned(),
            cpu: None,
            more: Vec::new(),
            firmware: None,
            image: Some(BootFiles {
                vmlinux: self.image.join("vmlinux"),
                initramfs,
                root_erofs: self.image.join("root.erofs"),
            }),
            agent: self.agent.clone(),
            tsc_khz: tilemark_sys::clock::tsc_khz(),
            folder: self.folder.join("qemu"),
            disks: self.disks(),
            walls: Default::default(),
            cgroup: None,
        }
    }

    pub fn native(&self, network: &Arc<RunNetwork>) -> NativeManager {
        self.native_of(self.image.join("root.erofs"), network)
    }

    /// Twins with another root.
    pub fn native_of(&self, root_erofs: PathBuf, network: &Arc<RunNetwork>) -> NativeManager {
        let settings = NativeSettings {
            agent: self.agent.clone(),
            root_erofs,
            folder: self.folder.join("native"),
            disks: self.disks(),
            cgroup: None,
        };
        NativeManager::new(settings, Arc::clone(network)).unwrap()
    }
}

/// A group that plays a run's, for a test of its own; nothing where this host has no cgroup2. Dropping it removes it.
pub struct RunGroup(pub PathBuf);

impl RunGroup {
    pub fn create(world: &World) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let tree = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
        // A number of this PID namespace is not the host's; the folder's name is drawn for this test alone.
        let name = world.folder.file_name()?.to_str()?.trim_start_matches('.');
        let group = Path::new(tree.split(' ').nth(4)?).join(format!("tilemark-test-{name}"));
        std::fs::create_dir(&group).unwrap();
        Some(Self(group))
    }
}

impl Drop for RunGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The translator; in the lab, where it runs at speed, KVM.
pub fn accelerator() -> Accelerator {
    match std::env::var("TILEMARK_TEST_ACCELERATOR").as_deref() {
        Ok("kvm") => Accelerator::Kvm,
        Ok(other) => panic!("TILEMARK_TEST_ACCELERATOR is `{other}`, which is unknown here"),
        Err(_) => Accelerator::Emulated,
    }
}

pub fn guest(index: u32, role: Role) -> GuestPlan {
    GuestPlan { name: format!("tile-{index:03}-{}", role.name()), ..tilemark_fixtures::guest(index, role) }
}

pub fn service(guest: &GuestPlan) -> Service {
    Service::new(guest.role, guest.memory, guest.vcpus)
}

pub fn exists(path: &Path) -> bool {
    path.exists()
}
