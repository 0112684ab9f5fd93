//! Mounting, in a guest and in a native twin.

use crate::error::{AgentError, step};
use rustix::{
    fs::{CWD, FileType, Mode, makedev, mknodat},
    mount::{MountFlags, mount},
};
use std::{ffi::CString, fs, os::unix::fs::symlink, path::Path};

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

/// A tmpfs.
pub(crate) fn tmpfs(target: &Path, options: &str) -> Result<(), AgentError> {
    let flags = MountFlags::NOSUID;
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

/// An overlay of `scratch` (a file system that may be written) over `lower`, at `target`.
pub(crate) fn overlay(lower: &Path, scratch: &Path, target: &Path) -> Result<(), AgentError> {
    let upper = scratch.join("upper");
    let work = scratch.join("work");
    for folder in [&upper, &work] {
        fs::create_dir_all(folder).map_err(step(format!("make {}", folder.display())))?;
    }
    let options =
        format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    Mounted { source: "overlay", target, kind: "overlay", flags: MountFlags::empty(), options: &options }
        .mount()
}

/// Folders that programs expect to be memory, below `root`.
pub(crate) fn memory_folders(root: &Path) -> Result<(), AgentError> {
    tmpfs(&root.join("run"), "mode=755")?;
    tmpfs(&root.join("tmp"), "mode=1777")?;
    tmpfs(&root.join("dev/shm"), "mode=1777")?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    let options = "newinstance,ptmxmode=0666,mode=620";
    Mounted { source: "devpts", target: &root.join("dev/pts"), kind: "devpts", flags, options }.mount()
}

/// A character device of every Linux system: name, major and minor number (Documentation/admin-guide/devices.txt).
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// A whole /dev without a device file system, for a twin: RabbitMQ for one hangs where something is missing.
pub(crate) fn devices(dev: &Path) -> Result<(), AgentError> {
    tmpfs(dev, "mode=755")?;
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
