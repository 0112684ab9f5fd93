//! A control group for each guest below the run's own, with limits where the run's group hands on the controllers.

use crate::error::{GuestError, file};
use std::{
    fs::{self, File},
    io::{self, Write},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};
use tilemark_units::Bytes;
use tilemark_units::ranges;

/// What a guest's group may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Memory; nothing where nobody knows how much it needs.
    pub(crate) memory: Option<Bytes>,
    /// How much of it the host may swap out.
    pub(crate) swap: Bytes,
    /// Processes and threads.
    pub(crate) processes: u64,
    /// The host's processors; all where it is empty.
    pub(crate) processors: Vec<u32>,
}

/// The group of one guest. Dropping it removes it: its processes have ended by then. What is left is removed with the run's.
#[derive(Debug)]
pub(crate) struct OwnGroup {
    folder: PathBuf,
    /// How many processes the kernel had ended at its limit before, where a guest of the same name left it behind.
    ended_before: u64,
}

impl OwnGroup {
    /// Makes it, where the run has a group.
    pub(crate) fn create(
        run: Option<&Path>,
        name: &str,
        limits: &Limits,
    ) -> Result<Option<Self>, GuestError> {
        let Some(run) = run else { return Ok(None) };
        let folder = run.join(name);
        fs::create_dir_all(&folder).map_err(file("make the control group", &folder))?;
        let group = Self { ended_before: ended_at_limit(&folder), folder };
        group.limit(run, limits)?;
        Ok(Some(group))
    }

    fn limit(&self, run: &Path, limits: &Limits) -> Result<(), GuestError> {
        if hands_on(run, "pids") {
            set(&self.folder.join("pids.max"), &limits.processes.to_string())?;
        }
        if hands_on(run, "cpuset") && !limits.processors.is_empty() {
            set(&self.folder.join("cpuset.cpus"), &ranges(&limits.processors))?;
        }
        let Some(memory) = limits.memory.filter(|_| hands_on(run, "memory")) else { return Ok(()) };
        set(&self.folder.join("memory.max"), &memory.get().to_string())?;
        let swap = self.folder.join("memory.swap.max");
        // A kernel that was built without swap, or does not account for it, has no such file.
        if swap.exists() { set(&swap, &limits.swap.get().to_string()) } else { Ok(()) }
    }

    /// Its folder.
    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// To start a process in it.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        File::open(&self.folder).map(OwnedFd::from)
    }

    /// Whether the kernel ended a process of it because it was at its limit.
    pub(crate) fn ran_out_of_memory(&self) -> bool {
        ended_at_limit(&self.folder) > self.ended_before
    }
}

/// How many processes of a group the kernel ended because it was at its limit (cgroup-v2.rst, "memory.events").
fn ended_at_limit(group: &Path) -> u64 {
    let events = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Sets a value of a control group. Its file is never created: where the kernel has none, nothing would limit.
fn set(path: &Path, value: &str) -> Result<(), GuestError> {
    let opened = File::options().write(true).open(path);
    opened.and_then(|mut file| file.write_all(value.as_bytes())).map_err(file("write", path))
}

/// Whether the groups below a run's have this controller.
pub(crate) fn hands_on(run: &Path, controller: &str) -> bool {
    names(&run.join(HANDED_ON), controller)
}

/// Where a group says which controllers those below it have.
const HANDED_ON: &str = "cgroup.subtree_control";

/// Whether a file lists this controller.
pub(crate) fn names(list: &Path, controller: &str) -> bool {
    fs::read_to_string(list).is_ok_and(|names| names.split_whitespace().any(|name| name == controller))
}

/// A folder that plays a tree with these controllers and a run's group that hands on those.
#[cfg(test)]
pub(crate) fn played(controllers: &str, handed_on: &str) -> (tempfile::TempDir, PathBuf) {
    let tree = tempfile::tempdir().unwrap();
    let run = tree.path().join("tilemark.run-1");
    fs::create_dir(&run).unwrap();
    fs::write(tree.path().join("cgroup.controllers"), controllers).unwrap();
    fs::write(run.join(HANDED_ON), handed_on).unwrap();
    (tree, run)
}

/// The limits that a guest's group gets, by file, where the kernel makes these files with it.
#[cfg(test)]
pub(crate) fn written(run: &Path, name: &str, limits: &Limits, files: &[&str]) -> Vec<String> {
    let folder = run.join(name);
    fs::create_dir(&folder).unwrap();
    files.iter().for_each(|file| fs::write(folder.join(file), "").unwrap());
    let group = OwnGroup::create(Some(run), name, limits).unwrap().unwrap();
    assert_eq!(group.path(), folder);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), files.len(), "no file is created");
    files.iter().map(|file| fs::read_to_string(folder.join(file)).unwrap()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        let (memory, swap) = (Some(Bytes::from_mib(1)), Bytes::from_mib(2));
        Limits { memory, swap, processes: 3, processors: vec![2, 3, 5] }
    }

    #[test]
    fn a_limit_that_would_limit_nothing_is_refused() {
        let (_tree, run) = played("memory\n", "memory\n");
        assert!(OwnGroup::create(Some(&run), "tile-001-web", &limits()).is_err());
        assert!(!run.join("tile-001-web").exists(), "what was half made is left");
    }

    #[test]
    fn what_the_run_hands_on_is_limited_and_nothing_else() {
        for (handed_on, files, wanted) in [
            ("pids\n", &["pids.max"][..], &["3"][..]),
            ("memory\n", &["memory.max", "memory.swap.max"], &["1048576", "2097152"]),
            ("cpuset\n", &["cpuset.cpus"], &["2-3,5"]),
            ("cpu\n", &[], &[]),
        ] {
            let (_tree, run) = played("cpu cpuset memory pids\n", handed_on);
            assert_eq!(written(&run, "web", &limits(), files), wanted, "{handed_on}");
        }
        assert!(OwnGroup::create(None, "web", &limits()).unwrap().is_none());
    }

    #[test]
    fn a_group_goes_with_its_guest_and_says_whether_it_ran_out_of_memory() {
        let (_tree, run) = played("", "");
        let group = OwnGroup::create(Some(&run), "web", &limits()).unwrap().unwrap();
        assert!(!group.ran_out_of_memory());
        let events = run.join("web/memory.events");
        fs::write(&events, "max 9\noom 1\noom_kill 0\n").unwrap();
        assert!(!group.ran_out_of_memory());
        fs::write(&events, "max 9\noom 1\noom_kill 1\n").unwrap();
        assert!(group.ran_out_of_memory());
        let next = OwnGroup::create(Some(&run), "web", &limits()).unwrap().unwrap();
        assert!(!next.ran_out_of_memory(), "what the guest before it did is not its own");
        fs::remove_file(&events).unwrap();
        drop(group);
        assert!(!run.join("web").exists());
    }
}
