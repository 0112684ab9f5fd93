//! Version 2 control groups by plain file writes: make a group, put processes in, end them all, take the group away.
//!
//! A group is the one thing a process and its children cannot leave by forking or by a new session, so it is how a run's
//! processes are ended whole. A host that keeps its controllers on version 1 still groups and kills.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use tilemark_sys::mounts::{self, Mount};

use crate::error::HostError;

/// Where control groups are mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupMounts {
    /// The version 2 tree.
    pub version_2: Option<String>,
    /// Controllers that a version 1 tree holds.
    pub version_1_controllers: Vec<String>,
}

/// The control groups among mounts.
pub fn control_groups(mounts: Vec<Mount>) -> CgroupMounts {
    let mut found = CgroupMounts::default();
    for mount in mounts {
        match mount.kind.as_str() {
            "cgroup2" if found.version_2.is_none() => {
                found.version_2 = Some(mount.point.to_string_lossy().into_owned());
            }
            "cgroup" => {
                found
                    .version_1_controllers
                    .extend(mount.options.into_iter().filter(|option| is_controller(option)));
            }
            _ => {}
        }
    }
    found
}

/// Super-block options of version 1 that are no controllers (cgroups(7)).
fn is_controller(option: &str) -> bool {
    !matches!(option, "rw" | "ro" | "none" | "xattr" | "noprefix" | "clone_children" | "cpuset_v2_mode")
        && !option.contains('=')
}

/// The folder of the version 2 tree.
///
/// # Errors
/// [`HostError::NoControlGroups`] where none is mounted.
pub fn mount_point() -> Result<PathBuf, HostError> {
    let mounts = mounts::of_this_thread().map_err(failed("read", Path::new(mounts::MOUNTINFO)))?;
    control_groups(mounts).version_2.map(PathBuf::from).ok_or(HostError::NoControlGroups)
}

/// One group. Dropping it leaves it: whoever made it removes it, and a keeper that died has left it for `recover`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes a group right under the tree's mount point. It may exist already: then it is taken as it is.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn create(name: &str) -> Result<Self, HostError> {
        Self::create_in(&mount_point()?, name)
    }

    /// Makes a group under another.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn create_child(&self, name: &str) -> Result<Self, HostError> {
        Self::create_in(&self.path, name)
    }

    fn create_in(parent: &Path, name: &str) -> Result<Self, HostError> {
        let path = parent.join(name);
        match fs::create_dir(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed("create", &path)(error)),
            _ => Ok(Self { path }),
        }
    }

    /// The group at a path, which a journal or another process named.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its folder is there.
    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Moves a process, with all its threads, into the group. 0 is the caller.
    ///
    /// # Errors
    /// Where the process is gone or the kernel refuses.
    pub fn add(&self, pid: u32) -> Result<(), HostError> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// The processes in the group itself, not in those below; numbers as the caller's PID namespace has them, 0 for a
    /// process that is outside it.
    ///
    /// # Errors
    /// Where the group is gone.
    pub fn processes(&self) -> Result<Vec<u32>, HostError> {
        let text = self.read("cgroup.procs")?;
        Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
    }

    /// Controllers that this group could give to groups below it.
    ///
    /// # Errors
    /// Where the group is gone.
    pub fn controllers(&self) -> Result<Vec<String>, HostError> {
        Ok(self.read("cgroup.controllers")?.split_whitespace().map(str::to_owned).collect())
    }

    /// Gives controllers to the groups below, as far as there are any; says which.
    ///
    /// # Errors
    /// Where the kernel refuses one that exists.
    pub fn enable(&self, wanted: &[&str]) -> Result<Vec<String>, HostError> {
        let mut given = self.controllers()?;
        given.retain(|controller| wanted.contains(&controller.as_str()));
        for controller in &given {
            self.write("cgroup.subtree_control", &format!("+{controller}"))?;
        }
        Ok(given)
    }

    /// Controllers that this group gives to the groups below it.
    ///
    /// # Errors
    /// Where the group is gone.
    pub fn enabled(&self) -> Result<Vec<String>, HostError> {
        Ok(self.read("cgroup.subtree_control")?.split_whitespace().map(str::to_owned).collect())
    }

    /// Takes a controller from the groups below.
    ///
    /// # Errors
    /// Where a group below gives it to its own, or the kernel refuses.
    pub fn disable(&self, controller: &str) -> Result<(), HostError> {
        self.write("cgroup.subtree_control", &format!("-{controller}"))
    }

    /// Kills every process in the group and below (`cgroup.kill`, Linux 5.14). Returns at once.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn kill(&self) -> Result<(), HostError> {
        self.write("cgroup.kill", "1")
    }

    /// Waits, without polling by time, until no process lives in the group or below.
    ///
    /// # Errors
    /// [`HostError::GroupStillPopulated`] after `timeout`.
    pub fn wait_until_empty(&self, timeout: Duration) -> Result<(), HostError> {
        let path = self.path.join("cgroup.events");
        let mut events = fs::File::open(&path).map_err(failed("open", &path))?;
        let start = Instant::now();
        loop {
            let mut text = String::new();
            events.seek(SeekFrom::Start(0)).map_err(failed("read", &path))?;
            events.read_to_string(&mut text).map_err(failed("read", &path))?;
            if text.lines().any(|line| line == "populated 0") {
                return Ok(());
            }
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return Err(HostError::GroupStillPopulated { path: self.path.clone(), waited: timeout });
            }
            wait_for_change(&events, left).map_err(failed("watch", &path))?;
        }
    }

    /// Kills all processes and takes the group and those below it away. A group that is gone is no error, and somebody else may end it
    /// at the same time: a keeper, and `recover`.
    ///
    /// # Errors
    /// Where a process does not end within `timeout`, or the kernel refuses.
    pub fn end(&self, timeout: Duration) -> Result<(), HostError> {
        for _ in 0..TRIES_BESIDE_ANOTHER {
            match self.end_once(timeout) {
                Err(_) if !self.exists() => return Ok(()),
                // Its files go a moment before its folder does.
                Err(error) if is_gone(&error) => thread::sleep(BETWEEN_TRIES),
                ended => return ended,
            }
        }
        self.end_once(timeout)
    }

    fn end_once(&self, timeout: Duration) -> Result<(), HostError> {
        self.kill()?;
        self.wait_until_empty(timeout)?;
        self.remove()
    }

    /// Takes the empty group and the empty groups below it away.
    ///
    /// # Errors
    /// Where a process lives in one of them.
    pub fn remove(&self) -> Result<(), HostError> {
        for entry in fs::read_dir(&self.path).map_err(failed("list", &self.path))? {
            let entry = entry.map_err(failed("list", &self.path))?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                Self::at(entry.path()).remove()?;
            }
        }
        match fs::remove_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &self.path)(error)),
            _ => Ok(()),
        }
    }

    fn read(&self, file: &str) -> Result<String, HostError> {
        let path = self.path.join(file);
        fs::read_to_string(&path).map_err(failed("read", &path))
    }

    fn write(&self, file: &str, value: &str) -> Result<(), HostError> {
        let path = self.path.join(file);
        // Not `fs::write`, which would create the file where the kernel has none.
        let opened = fs::OpenOptions::new().write(true).open(&path);
        opened
            .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
            .map_err(failed("write", &path))
    }
}

/// How often the end of a group that somebody else ends too is tried again, and how long after.
const TRIES_BESIDE_ANOTHER: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// Whether a file of a group is not there any more: the kernel answers ENODEV to whoever has it open.
fn is_gone(error: &HostError) -> bool {
    let HostError::GroupFile { source, .. } = error else { return false };
    source.kind() == io::ErrorKind::NotFound || source.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

/// The kernel raises POLLPRI on `cgroup.events` when a value in it changes (cgroup-v2.rst, "cgroup.events").
fn wait_for_change(events: &fs::File, left: Duration) -> io::Result<()> {
    let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut [PollFd::new(events, PollFlags::PRI)], Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn failed<'p>(verb: &'static str, path: &'p Path) -> impl Fn(io::Error) -> HostError + 'p {
    move |source| HostError::GroupFile { verb, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
32 30 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw,relatime shared:10 master:3 - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn the_version_2_tree_is_found_beside_version_1() {
        let mounts = control_groups(mounts::parse(HYBRID.as_bytes()));
        assert_eq!(mounts.version_2.as_deref(), Some("/sys/fs/cgroup/unified"));
        assert_eq!(mounts.version_1_controllers, ["cpu"]);
    }

    #[test]
    fn a_host_without_version_2_has_none() {
        let version_1: String = HYBRID.lines().take(3).map(|line| format!("{line}\n")).collect();
        assert_eq!(control_groups(mounts::parse(version_1.as_bytes())).version_2, None);
    }
}
