//! Process 1 of a guest's kernel: from the initramfs to a root that can serve.

use crate::{
    error::{AgentError, step},
    first_process,
    mounts::{self, Mounted},
};
use rustix::{
    io::Errno,
    mount::{MountFlags, mount_move},
    system::{RebootCommand, finit_module, reboot},
};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// The initramfs lists its kernel modules here, in load order, one absolute path a line.
const MODULES_LIST: &str = "/modules.list";
/// A disk with this serial number is the image.
const ROOT_SERIAL: &str = "tilemark-root";
/// The disk appears while its driver is being loaded; anything longer is a fault.
const ROOT_APPEARS_WITHIN: Duration = Duration::from_secs(30);

/// Never comes back: the guest is powered off, whatever happened.
pub(crate) fn run() -> Result<(), AgentError> {
    let ended = prepare_root().and_then(|()| first_process::serve_and_reap("serve-port", None));
    first_process::report(&ended);
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).map_err(step("power off"))
}

fn prepare_root() -> Result<(), AgentError> {
    mounts::kernel_file_systems(Path::new("/"))?;
    let nosuid = MountFlags::NOSUID;
    Mounted {
        source: "dev",
        target: Path::new("/dev"),
        kind: "devtmpfs",
        flags: nosuid,
        options: "mode=755",
    }
    .mount()?;
    load_modules()?;
    let disk = find_root(Path::new("/sys/block"))?;
    let lower = Path::new("/lower");
    let read_only = MountFlags::RDONLY;
    let source = disk.to_str().ok_or_else(|| AgentError::Missing("disk with a name in UTF-8".into()))?;
    Mounted { source, target: lower, kind: "erofs", flags: read_only, options: "" }.mount()?;
    let scratch = Path::new("/scratch");
    mounts::tmpfs(scratch, "mode=755")?;
    let root = Path::new("/newroot");
    mounts::overlay(lower, scratch, root)?;
    free_initramfs();
    for folder in ["dev", "proc", "sys"] {
        let target = root.join(folder);
        fs::create_dir_all(&target).map_err(step(format!("make {}", target.display())))?;
        mount_move(Path::new("/").join(folder), &target).map_err(step(format!("move /{folder}")))?;
    }
    switch_root(root)?;
    mounts::memory_folders(Path::new("/"))?;
    mounts::links(Path::new("/dev"))?;
    quiet_network();
    Ok(())
}

fn load_modules() -> Result<(), AgentError> {
    let list = fs::read_to_string(MODULES_LIST).map_err(step(format!("read {MODULES_LIST}")))?;
    for path in list.lines().filter(|line| !line.is_empty()) {
        let file = File::open(path).map_err(step(format!("open {path}")))?;
        match finit_module(&file, c"", 0) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(step(format!("load {path}"))(error)),
        }
    }
    Ok(())
}

/// The disk with our serial number, or the only disk there is.
fn find_root(block: &Path) -> Result<PathBuf, AgentError> {
    let deadline = Instant::now() + ROOT_APPEARS_WITHIN;
    loop {
        let found = fs::read_dir(block).into_iter().flatten().flatten().find(|entry| {
            fs::read_to_string(entry.path().join("serial")).is_ok_and(|serial| serial.trim() == ROOT_SERIAL)
        });
        match found {
            Some(entry) => return Ok(Path::new("/dev").join(entry.file_name())),
            None if Instant::now() > deadline => {
                return Err(AgentError::Missing(format!("disk with serial number `{ROOT_SERIAL}`")));
            }
            // Only while booting; a driver that probes in the background is the one thing waited for.
            None => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Files of the initramfs are memory; nobody needs them again.
fn free_initramfs() {
    let _ = fs::remove_dir_all("/modules");
    for file in [MODULES_LIST, "/init"] {
        let _ = fs::remove_file(file);
    }
}

/// The initramfs cannot be pivoted away; moving over it is what every initramfs does.
fn switch_root(root: &Path) -> Result<(), AgentError> {
    std::env::set_current_dir(root).map_err(step("enter the root"))?;
    mount_move(".", "/").map_err(step("move the root"))?;
    rustix::process::chroot(".").map_err(step("change the root"))?;
    std::env::set_current_dir("/").map_err(step("enter the root"))
}

/// No IPv6 autoconfiguration on a network where hundreds of guests would all do it.
pub(crate) fn quiet_network() {
    for scope in ["all", "default"] {
        let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
}
