//! Mounting, in a guest and in a native twin.

use crate::error::{AgentError, step};
use rustix::{
    fs::{CWD, FileType, Mode, OFlags, makedev, mknodat, openat},
    mount::{MountFlags, mount, mount_bind, mount_remount},
};
use std::{
    collections::BTreeSet,
    ffi::CString,
    fs, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::symlink,
    },
    path::{Path, PathBuf},
};

/// One file system to mount.
pub(crate) struct Mounted<'a> {
    pub(crate) source: &'a str,
    pub(crate) target: &'a Path,
    pub(crate) kind: &'a str,
    pub(crate) flags: MountFlags,
    pub(crate) options: &'a str,
}

impl Mounted<'_> {
    /// Makes its target and mounts it.
    pub(crate) fn mount(self) -> Result<(), AgentError> {
        fs::create_dir_all(self.target).map_err(step(format!("make {}", self.target.display())))?;
        let options = CString::new(self.options).expect("options here hold no zero byte");
        let options = (!self.options.is_empty()).then_some(options.as_c_str());
        mount(self.source, self.target, self.kind, self.flags, options).map_err(step(format!(
            "mount {} on {}",
            self.kind,
            self.target.display()
        )))
    }
}

/// A tmpfs without devices.
pub(crate) fn tmpfs(target: &Path, options: &str) -> Result<(), AgentError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Mounted { source: "tmpfs", target, kind: "tmpfs", flags, options }.mount()
}

/// /proc and /sys below `root`.
pub(crate) fn kernel_file_systems(root: &Path) -> Result<(), AgentError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    for (kind, folder) in [("proc", "proc"), ("sysfs", "sys")] {
        Mounted { source: kind, target: &root.join(folder), kind, flags, options: "" }.mount()?;
    }
    Ok(())
}

/// An overlay of `scratch` (a file system that may be written) over `lower`, at `target`. Needs /proc.
pub(crate) fn overlay(lower: &Path, scratch: &Path, target: &Path) -> Result<(), AgentError> {
    let upper = scratch.join("upper");
    let work = scratch.join("work");
    for folder in [&upper, &work] {
        fs::create_dir_all(folder).map_err(step(format!("make {}", folder.display())))?;
    }
    // By descriptor, so that no path is read as options: the kernel splits them at commas, and lower folders at colons.
    let opened = [lower, &upper, &work].map(|folder| {
        openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(step(format!("open {}", folder.display())))
    });
    let [lower, upper, work] = opened;
    let (lower, upper, work) = (lower?, upper?, work?);
    let named = |folder: &OwnedFd| format!("/proc/self/fd/{}", folder.as_raw_fd());
    let options = format!("lowerdir={},upperdir={},workdir={}", named(&lower), named(&upper), named(&work));
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Mounted { source: "overlay", target, kind: "overlay", flags, options: &options }.mount()
}

/// Folders that programs expect to be memory, and their modes.
const MEMORY_FOLDERS: [(&str, u32); 3] = [("run", 0o755), ("tmp", 0o1777), ("dev/shm", 0o1777)];

/// Folders that programs expect to be memory, below `root`: each a memory file system of the kernel's own size, half of the memory.
pub(crate) fn memory_folders(root: &Path) -> Result<(), AgentError> {
    for (folder, mode) in MEMORY_FOLDERS {
        tmpfs(&root.join(folder), &format!("mode={mode:o}"))?;
    }
    terminals(root)
}

/// The same, all of them in the memory file system at `scratch`: what is written counts there, whichever folder it is in.
pub(crate) fn memory_folders_in(scratch: &Path, root: &Path) -> Result<(), AgentError> {
    for (folder, mode) in MEMORY_FOLDERS {
        let (place, target) = (scratch.join("memory").join(folder), root.join(folder));
        for folder in [&place, &target] {
            fs::create_dir_all(folder).map_err(step(format!("make {}", folder.display())))?;
        }
        rustix::fs::chmod(&place, Mode::from_raw_mode(mode))
            .map_err(step(format!("open up {}", place.display())))?;
        mount_bind(&place, &target).map_err(step(format!("mount memory on {}", target.display())))?;
    }
    terminals(root)
}

fn terminals(root: &Path) -> Result<(), AgentError> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = "newinstance,ptmxmode=0666,mode=620";
    Mounted { source: "devpts", target: &root.join("dev/pts"), kind: "devpts", flags, options }.mount()
}

/// A character device of every Linux system: name, major and minor number (Documentation/admin-guide/devices.txt).
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// A whole /dev without a device file system, for a twin: RabbitMQ for one hangs where something is missing.
pub(crate) fn devices(dev: &Path) -> Result<(), AgentError> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    Mounted { source: "tmpfs", target: dev, kind: "tmpfs", flags, options: "mode=755" }.mount()?;
    for (name, major, minor) in DEVICES {
        let path = dev.join(name);
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(major, minor))
            .map_err(step(format!("make {}", path.display())))?;
        // The mode above went through the umask.
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o666))
            .map_err(step(format!("open up {}", path.display())))?;
    }
    links(dev)
}

/// The files of /proc and /sys that reveal most of the whole host: its memory, keys, messages, timers, energy, devices and serial numbers.
const COVERED: [&str; 17] = [
    "/proc/acpi",
    "/proc/bus",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/vmallocinfo",
    "/sys/devices/virtual/dmi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Folders of a root that a twin's first process mounts on, or writes into, with the host's power.
const OURS: [&str; 8] = ["dev", "etc", "proc", "root", "run", "srv", "sys", "tmp"];

/// Refuses a root in which one of our own paths leads elsewhere: process 1 of a twin would follow it with the host's power. Nothing
/// of the image may run yet.
pub(crate) fn refuse_detours(root: &Path) -> Result<(), AgentError> {
    let kind = |path: &Path| match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.file_type())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(step(format!("look at {}", path.display()))(error)),
    };
    for folder in OURS {
        if kind(&root.join(folder))?.is_some_and(|kind| !kind.is_dir()) {
            return Err(AgentError::Detour(format!("/{folder} is not a folder")));
        }
    }
    if kind(&root.join("etc/machine-id"))?.is_some_and(|kind| !kind.is_file()) {
        return Err(AgentError::Detour("/etc/machine-id is not a file".to_owned()));
    }
    Ok(())
}

/// In a twin: /dev, /proc and /sys cannot be written any more, and [`COVERED`] and the host's PCI devices are covered. To be called in its root.
pub(crate) fn close_kernel_file_systems() -> Result<(), AgentError> {
    let covered = COVERED.map(PathBuf::from).into_iter().chain(pci_folders(Path::new("/sys")));
    for path in covered.filter(|path| path.exists()) {
        if path.is_dir() {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::RDONLY;
            Mounted { source: "tmpfs", target: &path, kind: "tmpfs", flags, options: "size=0,mode=755" }
                .mount()?;
        } else {
            mount_bind("/dev/null", &path).map_err(step(format!("cover {}", path.display())))?;
        }
    }
    for (folder, also) in
        [("/dev", MountFlags::empty()), ("/proc", MountFlags::NODEV), ("/sys", MountFlags::NODEV)]
    {
        let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC | also;
        mount_remount(folder, flags, "").map_err(step(format!("close {folder}")))?;
    }
    Ok(())
}

/// The host's PCI devices: each bus, and the list of all. User 0 may map the registers and the memory of a device. A bus may be deep in the tree
/// of devices, as on Hyper-V, and the list says where.
fn pci_folders(sys: &Path) -> BTreeSet<PathBuf> {
    let within =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let list = sys.join("bus/pci");
    let listed = within(list.join("devices")).filter_map(|link| fs::canonicalize(link).ok());
    within(sys.join("devices"))
        .filter(|path| is_pci(path))
        .chain(listed.map(outermost_bus))
        .chain([list])
        .collect()
}

fn is_pci(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"pci"))
}

/// The bus that all buses on the way to a device are below; the device itself where there is none.
fn outermost_bus(device: PathBuf) -> PathBuf {
    device.ancestors().filter(|folder| is_pci(folder)).last().map(Path::to_path_buf).unwrap_or(device)
}

/// The links that udev would make.
pub(crate) fn links(dev: &Path) -> Result<(), AgentError> {
    let all = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ];
    for (name, target) in all {
        let path = dev.join(name);
        let _ = fs::remove_file(&path);
        symlink(target, &path).map_err(step(format!("link {}", path.display())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn what_is_written_in_any_memory_folder_of_a_shell_counts_as_one() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("mounting needs root");
        }
        let folder = tempfile::tempdir().unwrap();
        let (scratch, root) = (folder.path().join("scratch"), folder.path().join("root"));
        // In a mount namespace of this thread's own.
        let in_own_mounts = || {
            tilemark_sys::namespace::own_mounts().unwrap();
            tmpfs(&scratch, "mode=755,size=1048576").unwrap();
            memory_folders_in(&scratch, &root).unwrap();
            let write =
                |path: &str, bytes| fs::write(root.join(path), vec![1; bytes]).map_err(|error| error.kind());
            write("tmp/half", 600 << 10).unwrap();
            for path in ["tmp/other", "run/other", "dev/shm/other"] {
                assert_eq!(write(path, 600 << 10), Err(io::ErrorKind::StorageFull), "{path}");
                fs::remove_file(root.join(path)).unwrap();
            }
            let mode = |path| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
            assert_eq!(["run", "tmp", "dev/shm"].map(mode), [0o755, 0o1777, 0o1777]);
        };
        std::thread::scope(|scope| scope.spawn(in_own_mounts).join()).unwrap();
    }

    #[test]
    fn every_bus_of_pci_devices_is_covered() {
        let sys = tempfile::tempdir().unwrap();
        let at = |path: &str| sys.path().join(path);
        let deep = "devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/3b5c/pciabcd:00";
        let devices = [
            ("0000:00:02.0", "devices/pci0000:00/0000:00:02.0".to_owned()),
            ("10000:01:00.0", "devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:01:00.0".to_owned()),
            ("abcd:00:02.0", format!("{deep}/abcd:00:02.0")),
            ("0001:00:00.0", "devices/platform/0001:00:00.0".to_owned()),
        ];
        for folder in ["devices/pci0000:80", "devices/virtual", "bus/pci/devices"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        for (name, device) in &devices {
            fs::create_dir_all(at(device)).unwrap();
            symlink(Path::new("../../..").join(device), at("bus/pci/devices").join(name)).unwrap();
        }
        let expected =
            ["bus/pci", "devices/pci0000:00", "devices/pci0000:80", deep, "devices/platform/0001:00:00.0"];
        assert_eq!(pci_folders(sys.path()), expected.map(at).into());
    }

    #[test]
    fn a_root_whose_folders_lead_elsewhere_is_refused() {
        let whole = || {
            let root = tempfile::tempdir().unwrap();
            OURS.iter().for_each(|folder| fs::create_dir(root.path().join(folder)).unwrap());
            fs::write(root.path().join("etc/machine-id"), "").unwrap();
            root
        };
        refuse_detours(whole().path()).unwrap();
        refuse_detours(tempfile::tempdir().unwrap().path()).unwrap();
        for folder in OURS {
            let root = whole();
            fs::remove_dir_all(root.path().join(folder)).unwrap();
            symlink("etc", root.path().join(folder)).unwrap();
            let refused = refuse_detours(root.path()).unwrap_err();
            assert!(refused.to_string().contains(&format!("/{folder} is not a folder")), "{refused}");
        }
        let root = whole();
        fs::remove_file(root.path().join("etc/machine-id")).unwrap();
        symlink("/proc/sys/kernel/core_pattern", root.path().join("etc/machine-id")).unwrap();
        assert!(refuse_detours(root.path()).is_err());
    }
}
