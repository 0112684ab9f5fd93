//! The state folder of something under way: who keeps it, where its record is, how it is found again.
//!
//! `STATE/ID/` holds `under-way.json`, the keeper's log and, for `guests up`, the socket by which other
//! commands reach the engine. The keeper makes it and removes it, so that a command can be killed at any
//! moment; if the keeper itself was killed, `recover` removes it.

use crate::awake::{self, WakeLimits};
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, DirBuilder, File},
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tilemark_host::cgroup::{Group, mount_point};
use tilemark_sys::files::{
    PRIVATE_FOLDER, distrust, make_private_folder, read_trusted, trusted, write_private,
};

/// What is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnderWay {
    /// Its id.
    pub(crate) id: String,
    /// `run`, `guests` or `image`.
    pub(crate) kind: String,
    /// The boot of the host that it belongs to: after another boot nothing of it can live.
    pub(crate) boot_id: String,
    /// Where its record is.
    pub(crate) record: Option<PathBuf>,
    /// Its control group, where there is one.
    pub(crate) cgroup: Option<PathBuf>,
    /// Processors that are kept awake meanwhile, with what they had before.
    #[serde(default)]
    pub(crate) awake: WakeLimits,
    /// The keeper, once it lives.
    pub(crate) keeper: Option<Keeper>,
}

/// A keeper, known by number and start time: a number alone may come to mean another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keeper {
    /// Its number.
    pub(crate) pid: u32,
    /// When it started, in clock ticks since the host's boot.
    pub(crate) start_ticks: u64,
}

impl Keeper {
    /// The one with this number, if it lives.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        start_ticks(pid).map(|start_ticks| Self { pid, start_ticks })
    }

    /// Whether it still lives.
    pub(crate) fn lives(&self) -> bool {
        let exists = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| test_kill_process(pid).is_ok());
        exists && start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// Field 22 of /proc/PID/stat; `None` for a process that is gone or only a zombie.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// One state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateFolder {
    path: PathBuf,
    /// What its keeper is to write into it.
    wanted: Option<UnderWay>,
}

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
const UNDER_WAY: &str = "under-way.json";
/// The group of all processes but the twins, below the run's own: a group that gives controllers to those below it may
/// hold no process itself (cgroup-v2.rst, "No Internal Process Constraint"). No guest is called so.
const ENGINE: &str = "engine";
/// The controller that limits what a twin may use.
const MEMORY: &str = "memory";
/// The controller that limits how many processes a twin may have. It is used where the tree gives it already, as systemd does.
const PROCESSES: &str = "pids";

impl StateFolder {
    /// Says what one shall be. Only the folder of all of them is made now; its keeper makes the rest.
    pub(crate) fn create(states: &Path, id: &str, kind: &str, record: Option<&Path>) -> io::Result<Self> {
        make_private_folder(states).map_err(|error| named(states, error))?;
        let wanted = UnderWay {
            id: id.to_owned(),
            kind: kind.to_owned(),
            boot_id: boot_id()?,
            record: record.map(Path::to_owned),
            cgroup: None,
            awake: WakeLimits::new(),
            keeper: None,
        };
        Ok(Self { path: states.join(id), wanted: Some(wanted) })
    }

    /// Has its keeper keep these processors awake.
    pub(crate) fn keeping_awake(mut self, processors: &[u32]) -> Self {
        if let Some(wanted) = &mut self.wanted {
            wanted.awake = awake::that_sleep(processors);
        }
        self
    }

    /// What its keeper is to write into it.
    pub(crate) fn wanted(&self) -> Option<&UnderWay> {
        self.wanted.as_ref()
    }

    /// The keeper's part: makes it, with a control group if the host has cgroup2.
    ///
    /// It is made aside, under a name that says whose it is, and appears whole: whoever finds a state folder finds its
    /// keeper in it. The group is written down before it is made, so that it is never there without a trace.
    pub(crate) fn make(&self, wanted: UnderWay) -> io::Result<()> {
        let keeper = Keeper::of(std::process::id());
        let aside = Self::at(&self.aside(keeper));
        let made = DirBuilder::new().mode(PRIVATE_FOLDER).create(&aside.path);
        made.map_err(|error| named(&self.path, error))?;
        // The tree of groups is the host's, and an id is one of this home's only.
        let group = format!("tilemark.{}", self.name_with(keeper));
        let tree = mount_point().ok();
        let cgroup = tree.as_ref().map(|tree| tree.join(&group));
        let under_way = UnderWay { cgroup, keeper, ..wanted };
        let appears = aside.write(&under_way).and_then(|()| fs::rename(&aside.path, &self.path));
        appears.map_err(|error| named(&self.path, error)).inspect_err(|_| {
            // What is half made goes; the error that counts is the one above.
            let _ = fs::remove_dir_all(&aside.path);
        })?;
        awake::keep_awake(&under_way.awake);
        match (tree, Group::create(&group)) {
            (Some(tree), Ok(group)) => self.hand_on_memory(&Group::at(tree), &group)?,
            _ => self.write(&UnderWay { cgroup: None, ..under_way })?,
        }
        Ok(())
    }

    /// Gives the memory controller, where the tree has it, to the groups below a run's, while that is still empty. That the
    /// tree has to give it is written down first, beside all states: whoever ends last takes it back. A host that
    /// refuses limits no twin, and the report says so.
    fn hand_on_memory(&self, tree: &Group, group: &Group) -> io::Result<()> {
        if keeps_memory(tree) {
            write_private(&self.debt(), boot_id()?.as_bytes())?;
        }
        let _ = tree.enable(&[MEMORY]);
        let _ = group.enable(&[MEMORY]);
        let _ = group.enable(&[PROCESSES]);
        let _ = group.create_child(ENGINE);
        Ok(())
    }

    /// Takes the memory controller from the groups of the tree again, if one of ours had the tree give it. Refused while
    /// another's twins are held by it: then that one does it.
    fn take_memory_back(&self, tree: &Group) -> io::Result<()> {
        let Ok(boot) = read_trusted(&self.debt()) else { return Ok(()) };
        let is_settled = boot != boot_id()?.into_bytes() || tree.disable(MEMORY).is_ok();
        if is_settled { fs::remove_file(self.debt()) } else { Ok(()) }
    }

    /// Where it is written that the tree gives the memory controller because of one of ours: the boot it was in.
    fn debt(&self) -> PathBuf {
        self.path.with_file_name(".memory-borrowed")
    }

    /// Where a keeper makes it: `.ID.PID.START`.
    fn aside(&self, keeper: Option<Keeper>) -> PathBuf {
        self.path.with_file_name(format!(".{}", self.name_with(keeper)))
    }

    /// A name that nobody else on this host has: `ID.PID.START`, of its keeper.
    fn name_with(&self, keeper: Option<Keeper>) -> String {
        let id = self.path.file_name().unwrap_or_default().to_string_lossy();
        let keeper = keeper.unwrap_or(Keeper { pid: std::process::id(), start_ticks: 0 });
        format!("{id}.{}.{}", keeper.pid, keeper.start_ticks)
    }

    /// Folders that a keeper began to make and did not finish before it died.
    pub(crate) fn half_made(states: &Path) -> Vec<Self> {
        let maker = |name: &str| -> Option<Keeper> {
            let mut parts = name.strip_prefix('.')?.rsplit('.');
            let start_ticks = parts.next()?.parse().ok()?;
            Some(Keeper { pid: parts.next()?.parse().ok()?, start_ticks })
        };
        let entries = fs::read_dir(states).into_iter().flatten().flatten();
        let dead = entries.filter(|entry| {
            maker(&entry.file_name().to_string_lossy()).is_some_and(|keeper| !keeper.lives())
        });
        dead.map(|entry| Self { path: entry.path(), wanted: None }).collect()
    }

    /// Takes up one that exists.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), wanted: None }
    }

    /// All that exist, but for those that are being made.
    ///
    /// # Errors
    /// When somebody other than root or the caller could have made or changed one: it names processes and groups to end, and
    /// sockets to trust.
    pub(crate) fn all(states: &Path) -> io::Result<Vec<Self>> {
        let Ok(entries) = fs::read_dir(states) else { return Ok(Vec::new()) };
        trusted(states)?;
        let made = entries.flatten().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let folders: Vec<PathBuf> = made.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.iter().try_for_each(|path| believed(path))?;
        Ok(folders.into_iter().map(|path| Self { path, wanted: None }).collect())
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where keeper, init and engine write what nobody reads unless they fail.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("keeper.log")
    }

    /// Where commands reach the engine of `guests up`.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("engine.sock")
    }

    /// What is under way.
    pub(crate) fn under_way(&self) -> io::Result<UnderWay> {
        trusted(&self.path)?;
        let text = read_trusted(&self.path.join(UNDER_WAY))?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn write(&self, under_way: &UnderWay) -> io::Result<()> {
        let aside = self.path.join(".under-way.aside");
        write_private(&aside, &serde_json::to_vec_pretty(under_way)?)?;
        fs::rename(aside, self.path.join(UNDER_WAY))
    }

    /// Its control group, to start processes in.
    pub(crate) fn open_cgroup(&self) -> Option<OwnedFd> {
        let path = self.under_way().ok()?.cgroup?;
        File::open(path.join(ENGINE)).or_else(|_| File::open(path)).ok().map(OwnedFd::from)
    }

    /// Removes the control group, with whatever still lives in it, and then the folder.
    pub(crate) fn remove_with_cgroup(&self) -> io::Result<()> {
        let under_way = self.under_way().ok();
        if let Some(path) = under_way.as_ref().and_then(|under_way| under_way.cgroup.as_ref()) {
            Group::at(path).end(PATIENCE).map_err(io::Error::other)?;
            path.parent().map_or(Ok(()), |tree| self.take_memory_back(&Group::at(tree)))?;
        }
        // Another boot began with its own.
        if let Some(under_way) = under_way.filter(|found| boot_id().is_ok_and(|boot| boot == found.boot_id)) {
            awake::give_back(&under_way.awake);
        }
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Whether the tree has the memory controller and gives it to no group.
fn keeps_memory(tree: &Group) -> bool {
    let names_memory = |names: Vec<String>| names.iter().any(|name| name == MEMORY);
    tree.controllers().is_ok_and(names_memory) && !tree.enabled().is_ok_and(names_memory)
}

/// The system's reason does not name the path; a reason of our own does.
fn named(path: &Path, error: io::Error) -> io::Error {
    if distrust(&error).is_some() {
        return error;
    }
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// A folder and the journal in it, if it has one, are only believed where nobody else wrote them. One may go meanwhile.
fn believed(path: &Path) -> io::Result<()> {
    for path in [path, &path.join(UNDER_WAY)] {
        match trusted(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The boot of this host.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_being_made_is_nobodys_and_one_half_made_is_found_when_its_maker_is_dead() {
        let states = tempfile::tempdir().unwrap();
        let state = StateFolder::at(&states.path().join("guests-1"));
        let maker = Keeper::of(std::process::id()).unwrap();
        fs::create_dir(state.aside(Some(maker))).unwrap();
        assert_eq!(StateFolder::all(states.path()).unwrap().len(), 0);
        assert_eq!(StateFolder::half_made(states.path()).len(), 0, "its maker lives");
        let dead = state.aside(Some(Keeper { start_ticks: maker.start_ticks + 1, ..maker }));
        fs::create_dir(&dead).unwrap();
        let found = StateFolder::half_made(states.path());
        assert_eq!(found.iter().map(StateFolder::path).collect::<Vec<_>>(), [dead.as_path()]);
    }

    /// A folder that plays a group.
    fn played(path: &Path, controllers: &str) -> Group {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("cgroup.controllers"), controllers).unwrap();
        fs::write(path.join("cgroup.subtree_control"), "").unwrap();
        Group::at(path)
    }

    #[test]
    fn a_run_hands_the_memory_controller_on_to_its_twins_where_the_host_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let tree = played(folder.path(), "cpuset cpu memory\n");
        let group = played(&folder.path().join("tilemark.run-1"), "memory\n");
        assert!(keeps_memory(&tree));
        StateFolder::at(&folder.path().join("state")).hand_on_memory(&tree, &group).unwrap();
        for group in [&tree, &group] {
            assert_eq!(group.enabled().unwrap(), ["+memory"]);
        }
        // The group itself must stay without processes.
        assert!(group.path().join(ENGINE).is_dir());
        fs::write(tree.path().join("cgroup.subtree_control"), "cpu memory\n").unwrap();
        assert!(!keeps_memory(&tree), "it was handed on before");
    }

    #[test]
    fn a_run_hands_on_the_limit_of_processes_where_its_tree_gives_it() {
        let folder = tempfile::tempdir().unwrap();
        let tree = played(folder.path(), "pids\n");
        let group = played(&folder.path().join("tilemark.run-1"), "pids\n");
        StateFolder::at(&folder.path().join("state")).hand_on_memory(&tree, &group).unwrap();
        assert_eq!(
            (tree.enabled().unwrap(), group.enabled().unwrap()),
            (Vec::new(), vec!["+pids".to_owned()])
        );
    }

    #[test]
    fn nothing_is_handed_on_where_the_host_has_no_memory_controller() {
        let folder = tempfile::tempdir().unwrap();
        let tree = played(folder.path(), "hugetlb\n");
        let group = played(&folder.path().join("tilemark.run-1"), "");
        assert!(!keeps_memory(&tree));
        let state = StateFolder::at(&folder.path().join("state"));
        state.hand_on_memory(&tree, &group).unwrap();
        assert!(!state.debt().exists());
        assert_eq!(tree.enabled().unwrap().len() + group.enabled().unwrap().len(), 0);
    }

    #[test]
    fn a_borrowed_memory_controller_is_given_back_by_whoever_ends_last() {
        let folder = tempfile::tempdir().unwrap();
        let tree = played(folder.path(), "memory\n");
        let control = folder.path().join("cgroup.subtree_control");
        let begun = |name: &str, boot_id: String| {
            let state = StateFolder::at(&folder.path().join(name));
            fs::create_dir(&state.path).unwrap();
            let wanted = StateFolder::create(folder.path(), name, "run", None).unwrap().wanted.unwrap();
            // A group that is gone: nothing is to be killed.
            let cgroup = Some(folder.path().join("tilemark.gone"));
            state.write(&UnderWay { boot_id, cgroup, ..wanted }).unwrap();
            state
        };
        let boot = || boot_id().unwrap();
        let (first, second) = (begun("run-1", boot()), begun("run-2", boot()));
        first.hand_on_memory(&tree, &played(&folder.path().join("group"), "memory\n")).unwrap();
        // While the second's twins are held by it the kernel refuses: a file that is a folder cannot be written.
        fs::remove_file(&control).unwrap();
        fs::create_dir(&control).unwrap();
        first.remove_with_cgroup().unwrap();
        fs::remove_dir(&control).unwrap();
        fs::write(&control, "memory").unwrap();
        second.remove_with_cgroup().unwrap();
        assert!(fs::read_to_string(&control).unwrap().starts_with("-memory"));
        assert!(!second.debt().exists());
        // What was given before any of ours began is nobody's to take, and another boot owes nothing.
        for debt in [None, Some("older")] {
            fs::write(&control, "memory").unwrap();
            let state = begun("run-3", boot());
            debt.iter().for_each(|boot| fs::write(state.debt(), boot).unwrap());
            state.remove_with_cgroup().unwrap();
            assert_eq!(fs::read_to_string(&control).unwrap(), "memory");
            assert!(!state.debt().exists());
        }
    }

    #[test]
    fn this_process_lives_and_one_with_its_number_and_another_start_does_not() {
        let keeper = Keeper::of(std::process::id()).unwrap();
        assert!(keeper.lives());
        assert!(!Keeper { start_ticks: keeper.start_ticks + 1, ..keeper }.lives());
    }
}
