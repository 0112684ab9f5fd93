//! The state folder of something under way: who keeps it, where its record is, how it is found again.
//!
//! `STATE/ID/` holds `under-way.json`, `settings.json` (the journal of the host's settings that are held for it), the keeper's log
//! and, for `guests up`, the socket by which other commands reach the engine. The keeper makes it and removes it, so that a
//! command can be killed at any moment; if the keeper itself was killed, `recover` removes it. Settings that several runs share
//! have their journal beside all states, and whoever ends last restores them.

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, test_kill_process},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::{self, DirBuilder, File},
    io,
    os::{fd::OwnedFd, unix::fs::DirBuilderExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tilemark_guests::remove_uplink;
use tilemark_host::{
    HostError,
    cgroup::{Group, mount_point},
    setting::{
        Held, Journal, Outcome, Setting,
        memory_controller::{self, MEMORY},
        wake_limit,
    },
    traces::start_ticks,
};
use tilemark_sys::files::{
    PRIVATE_FOLDER, distrust, make_private_folder, read_trusted, trusted, write_private,
};

/// What is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ActiveJob {
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
    /// Settings of the host that are held meanwhile. What they were before is in the journal.
    #[serde(default)]
    pub(crate) settings: Vec<Setting>,
    /// Namespaces of its own, as the kernel names them, once they are there.
    #[serde(default)]
    pub(crate) namespaces: Vec<String>,
    /// The network device on the user's own bridge that it is reached by, where there is one.
    #[serde(default)]
    pub(crate) uplink: Option<String>,
    /// Where an older version began it: processors that it kept awake, with what they had before.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) awake: BTreeMap<u32, String>,
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

/// One state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateFolder {
    path: PathBuf,
    /// What its keeper is to write into it.
    wanted: Option<ActiveJob>,
}

/// How long killed processes may take to be gone.
const TIMEOUT: Duration = Duration::from_secs(10);
const UNDER_WAY: &str = "under-way.json";
const SETTINGS: &str = "settings.json";
/// How every control group of a run begins.
const GROUP: &str = "tilemark.";
/// The group of all processes but the twins, below the run's own: a group that gives controllers to those below it may
/// hold no process itself (cgroup-v2.rst, "No Internal Process Constraint"). No guest is called so.
const ENGINE: &str = "engine";
/// Controllers that limit how many processes a guest may have, and keep a twin on its processors. They are used where the tree gives them
/// already, as systemd does with the first.
const USED: [&str; 2] = ["pids", "cpuset"];

impl StateFolder {
    /// Says what one shall be. Only the folder of all of them is made now; its keeper makes the rest.
    pub(crate) fn create(states: &Path, id: &str, kind: &str, record: Option<&Path>) -> io::Result<Self> {
        if Path::new(id).file_name() != Some(OsStr::new(id)) {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "a state folder has a plain name");
            return Err(named(Path::new(id), error));
        }
        make_private_folder(states).map_err(|error| named(states, error))?;
        let wanted = ActiveJob {
            id: id.to_owned(),
            kind: kind.to_owned(),
            boot_id: boot_id()?,
            record: record.map(Path::to_owned),
            cgroup: None,
            settings: Vec::new(),
            namespaces: Vec::new(),
            uplink: None,
            awake: BTreeMap::new(),
            keeper: None,
        };
        Ok(Self { path: states.join(id), wanted: Some(wanted) })
    }

    /// Has its keeper hold these settings of the host.
    pub(crate) fn holding(mut self, settings: Vec<Setting>) -> Self {
        if let Some(wanted) = &mut self.wanted {
            wanted.settings = settings;
        }
        self
    }

    /// Names the network device that it will have on the user's own bridge.
    pub(crate) fn with_uplink(mut self, uplink: Option<String>) -> Self {
        if let Some(wanted) = &mut self.wanted {
            wanted.uplink = uplink;
        }
        self
    }

    /// What its keeper is to write into it.
    pub(crate) fn wanted(&self) -> Option<&ActiveJob> {
        self.wanted.as_ref()
    }

    /// The keeper's part: makes it, with a control group if the host has cgroup2.
    ///
    /// It is made aside, under a name that says whose it is, and appears whole: whoever finds a state folder finds its
    /// keeper in it. The group is written down before it is made, so that it is never there without a trace.
    pub(crate) fn make(&self, wanted: ActiveJob) -> io::Result<()> {
        let keeper = Keeper::of(std::process::id());
        // Where mounts cannot be read it is an error: without it no guest would have its limits.
        let tree = match mount_point() {
            Ok(tree) => Some(tree),
            Err(HostError::NoControlGroups) => None,
            Err(error) => return Err(io::Error::other(error.in_a_line())),
        };
        let aside = Self::at(&self.aside(keeper));
        let made = DirBuilder::new().mode(PRIVATE_FOLDER).create(&aside.path);
        made.map_err(|error| named(&self.path, error))?;
        // The tree of groups is the host's, and an id is one of this home's only.
        let group = format!("{GROUP}{}", self.name_with(keeper));
        let cgroup = tree.as_ref().map(|tree| tree.join(&group));
        let under_way = ActiveJob { cgroup, keeper, ..wanted };
        let appears = aside.write(&under_way).and_then(|()| fs::rename(&aside.path, &self.path));
        appears.map_err(|error| named(&self.path, error)).inspect_err(|_| {
            // What is half made goes; the error that counts is the one above.
            let _ = fs::remove_dir_all(&aside.path);
        })?;
        match (tree, Group::create(&group)) {
            (Some(tree), Ok(group)) => self.hand_on(MEMORY, &Group::at(tree), &group)?,
            _ => self.write(&ActiveJob { cgroup: None, ..under_way })?,
        }
        Ok(())
    }

    /// Gives the controller that limits memory, where the tree has it, to the groups below a run's, while that is still empty. A host that
    /// refuses limits no twin, and the report says so.
    fn hand_on(&self, limit: &str, tree: &Group, group: &Group) -> io::Result<()> {
        let _lock = locked(tree)?;
        if tree.controllers().is_ok_and(|names| names.iter().any(|name| name == limit)) {
            let held = self.shared_journal()?.hold(&[memory_controller::given(tree, limit)]);
            if let Err(error @ HostError::Journal { .. }) = held {
                return Err(io::Error::other(error.in_a_line()));
            }
        }
        let _ = group.enable(&[limit]);
        for controller in USED {
            let _ = group.enable(&[controller]);
        }
        let _ = group.create_child(ENGINE);
        Ok(())
    }

    /// The keeper's part: holds the settings that it is to hold, all or none. Returns why there are none, where the host refuses.
    ///
    /// # Errors
    /// When the journal cannot be written: then nothing was touched.
    pub(crate) fn hold(&self) -> io::Result<Option<String>> {
        match self.journal()?.hold(&self.under_way()?.settings) {
            Ok(_) => Ok(None),
            Err(error @ HostError::Journal { .. }) => Err(io::Error::other(error.in_a_line())),
            Err(error) => Ok(Some(error.in_a_line())),
        }
    }

    /// The keeper's part: notes the namespaces that are its own.
    pub(crate) fn note_namespaces(&self, namespaces: Vec<String>) -> io::Result<()> {
        self.write(&ActiveJob { namespaces, ..self.under_way()? })
    }

    /// The journal of the settings that are held for it alone.
    pub(crate) fn journal(&self) -> io::Result<Journal> {
        Ok(Journal::at(self.path.join(SETTINGS), boot_id()?))
    }

    /// The journal of the settings that are held for all of this home, beside their states.
    pub(crate) fn shared_journal(&self) -> io::Result<Journal> {
        shared_journal(self.path.parent().unwrap_or(Path::new(".")))
    }

    /// Where a keeper makes it: `.ID.PID.START`.
    fn aside(&self, keeper: Option<Keeper>) -> PathBuf {
        self.path.with_file_name(format!(".{}", self.name_with(keeper)))
    }

    /// A name that nobody else on this host has: `ID.PID.START`, of its keeper.
    fn name_with(&self, keeper: Option<Keeper>) -> String {
        let keeper = keeper.unwrap_or(Keeper { pid: std::process::id(), start_ticks: 0 });
        format!("{}.{}.{}", self.id(), keeper.pid, keeper.start_ticks)
    }

    /// Folders that a keeper began to make and did not finish before it died.
    pub(crate) fn half_made(states: &Path) -> Vec<Self> {
        let entries = fs::read_dir(states).into_iter().flatten().flatten();
        let dead = entries.filter(|entry| {
            keeper_of_aside(&entry.file_name().to_string_lossy()).is_some_and(|keeper| !keeper.lives())
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

    /// The number of its keeper, once it lives.
    pub(crate) fn keeper(&self) -> Option<u32> {
        self.under_way().ok()?.keeper.map(|keeper| keeper.pid)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The id of what it belongs to: its name.
    pub(crate) fn id(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
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
    pub(crate) fn under_way(&self) -> io::Result<ActiveJob> {
        trusted(&self.path)?;
        let text = read_trusted(&self.path.join(UNDER_WAY))?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn write(&self, under_way: &ActiveJob) -> io::Result<()> {
        let aside = self.path.join(".under-way.aside");
        write_private(&aside, &serde_json::to_vec_pretty(under_way)?)?;
        fs::rename(aside, self.path.join(UNDER_WAY))
    }

    /// Its control group, to start processes in.
    pub(crate) fn open_cgroup(&self) -> Option<OwnedFd> {
        let path = self.under_way().ok()?.cgroup?;
        File::open(path.join(ENGINE)).or_else(|_| File::open(path)).ok().map(OwnedFd::from)
    }

    /// Ends the control group with whatever still lives in it, restores the settings, and then removes the folder. Whatever fails,
    /// the rest is done; the folder stays, with its journal, where something of it is left.
    pub(crate) fn take_away(&self) -> Account {
        self.take_away_below(Path::new(wake_limit::PROCESSORS))
    }

    /// The same, on a host whose processors are in this folder.
    fn take_away_below(&self, processors: &Path) -> Account {
        let mut account = Account::default();
        // One that nobody finished has no such file, and began nothing.
        let under_way = self.under_way().ok();
        if let Some(path) = under_way.as_ref().and_then(|under_way| under_way.cgroup.as_ref()) {
            account.note(Group::at(path).end(TIMEOUT));
            if let (Some(tree), Some(states)) = (path.parent(), self.path.parent()) {
                account.shared = account.note(restore_shared(states, &Group::at(tree))).unwrap_or_default();
            }
        }
        // It ends with the run's network, unless somebody else holds that.
        if let Some(uplink) = under_way.as_ref().and_then(|under_way| under_way.uplink.as_ref()) {
            let removed = remove_uplink(uplink);
            let failed =
                removed.map_err(|error| format!("cannot remove the network device {uplink}: {error}"));
            account.failed.extend(failed.err());
        }
        account.settings = account.note(self.restore(under_way.as_ref(), processors)).unwrap_or_default();
        if account.failed.is_empty()
            && account.settings.iter().all(Outcome::is_settled)
            && let Err(error) = self.remove(under_way.as_ref())
        {
            account.failed.push(format!("cannot remove {}: {error}", self.path.display()));
        }
        account
    }

    /// Removes the folder, under another name first: nobody finds it without the file that names its keeper, and takes it for one
    /// that is left.
    pub(crate) fn remove(&self, under_way: Option<&ActiveJob>) -> io::Result<()> {
        let aside = self.aside(under_way.and_then(|under_way| under_way.keeper));
        let removed = fs::rename(&self.path, &aside).and_then(|()| {
            // What cannot be removed is left where it is looked for.
            fs::remove_dir_all(&aside).inspect_err(|_| drop(fs::rename(&aside, &self.path)))
        });
        // Another command has removed it meanwhile.
        removed.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
    }

    /// Whether its files are being removed at this moment, under another name.
    pub(crate) fn is_being_removed(&self) -> bool {
        let aside = format!(".{}.", self.id());
        let beside = self.path.parent().and_then(|states| fs::read_dir(states).ok());
        let mut names = beside.into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.any(|name| {
            let name = name.to_string_lossy();
            name.starts_with(&aside) && keeper_of_aside(&name).is_some_and(|keeper| keeper.lives())
        })
    }

    fn restore(&self, under_way: Option<&ActiveJob>, processors: &Path) -> Result<Vec<Outcome>, HostError> {
        let path = self.path.join(SETTINGS);
        let failed = HostError::journal("use", &path);
        let journal = self.journal().map_err(failed)?;
        // Another boot began with its own.
        let boot = boot_id().map_err(failed)?;
        if let Some(older) = under_way.filter(|found| found.boot_id == boot && !found.awake.is_empty()) {
            let noted = older.awake.iter();
            let noted = noted.map(|(processor, limit)| wake_limit::noted(processors, *processor, limit));
            journal.adopt(noted.collect())?;
        }
        journal.restore()
    }
}

/// What came of taking a state away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Each setting that was held for it alone.
    pub(crate) settings: Vec<Outcome>,
    /// Each setting that it shared with others and that nobody needs any more.
    pub(crate) shared: Vec<Outcome>,
    /// What could not be done, in words.
    pub(crate) failed: Vec<String>,
}

impl Account {
    fn note<T>(&mut self, done: Result<T, HostError>) -> Option<T> {
        done.map_err(|error| self.failed.push(error.in_a_line())).ok()
    }

    /// All settings.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.settings.iter().chain(&self.shared)
    }

    /// What is left, in words.
    pub(crate) fn left(&self) -> Vec<String> {
        let settings = self.outcomes().filter(|outcome| !outcome.is_settled()).map(ToString::to_string);
        self.failed.iter().cloned().chain(settings).collect()
    }
}

fn shared_journal(states: &Path) -> io::Result<Journal> {
    Ok(Journal::at(states.join(".settings.json"), boot_id()?))
}

/// Held while controllers of the tree are given or taken: whoever takes one sees every group that needs it.
fn locked(tree: &Group) -> io::Result<File> {
    let folder = File::open(tree.path())?;
    flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
}

/// Whether a group of a run needs what is held.
pub(crate) fn is_in_use(held: &Held) -> bool {
    memory_controller::users(&held.setting).iter().any(|group| group.starts_with(GROUP))
}

/// Restores what the runs of this home shared, as far as no run needs it any more.
pub(crate) fn restore_shared(states: &Path, tree: &Group) -> Result<Vec<Outcome>, HostError> {
    let path = states.join(".settings.json");
    let failed = HostError::journal("use", &path);
    let journal = shared_journal(states).map_err(failed)?;
    let _lock = locked(tree).map_err(|error| failed(named(tree.path(), error)))?;
    // Where an older version noted, in a file that names the boot alone, that it had the tree give the memory controller.
    let noted = states.join(".memory-borrowed");
    if let Ok(boot) = read_trusted(&noted) {
        if boot == boot_id().map_err(failed)?.into_bytes() {
            journal.adopt(vec![memory_controller::noted(tree)])?;
        }
        fs::remove_file(&noted).map_err(failed)?;
    }
    journal.restore_unless(&is_in_use)
}

/// Whose a folder is that a keeper makes or removes: `.ID.PID.START`.
fn keeper_of_aside(name: &str) -> Option<Keeper> {
    let mut parts = name.strip_prefix('.')?.rsplit('.');
    let start_ticks = parts.next()?.parse().ok()?;
    Some(Keeper { pid: parts.next()?.parse().ok()?, start_ticks })
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
    use tilemark_host::setting::Now;

    #[test]
    fn the_name_of_a_state_folder_is_no_path() {
        let folder = tempfile::tempdir().unwrap();
        let states = folder.path().join("state");
        for name in ["", "..", "../run", "/run", "run/..", "run/"] {
            let error = StateFolder::create(&states, name, "run", None).unwrap_err();
            assert!(error.to_string().ends_with("a state folder has a plain name"), "{name}: {error}");
            assert!(!states.exists(), "{name}");
        }
    }

    #[test]
    fn a_folder_being_made_is_left_alone_and_a_half_made_one_is_found_when_its_maker_is_dead() {
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

    /// A command that waits for the end would take such a folder for one that could not be removed.
    #[test]
    fn a_folder_that_is_being_removed_is_never_seen_without_the_name_of_its_keeper() {
        let states = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let state = StateFolder::at(&states.path().join("guests-1"));
            fs::create_dir(state.path()).unwrap();
            for file in 0..500 {
                fs::write(state.path().join(file.to_string()), "").unwrap();
            }
            // A file system in memory removes the newest first.
            fs::write(state.path().join(UNDER_WAY), "{}").unwrap();
            let removed = state.clone();
            let remover = std::thread::spawn(move || removed.remove(None));
            while state.path().exists() {
                let is_named = state.path().join(UNDER_WAY).exists();
                assert!(is_named || !state.path().exists(), "it is there, and does not name its keeper");
            }
            remover.join().unwrap().unwrap();
        }
        assert_eq!(fs::read_dir(states.path()).unwrap().count(), 0);
    }

    /// A folder that plays a group.
    fn played(path: &Path, controllers: &str) -> Group {
        fs::create_dir_all(path).unwrap();
        fs::write(path.join("cgroup.controllers"), controllers).unwrap();
        fs::write(path.join("cgroup.subtree_control"), "").unwrap();
        Group::at(path)
    }

    #[test]
    fn a_run_hands_on_what_limits_processes_and_processors_where_its_tree_gives_it() {
        for controller in ["pids", "cpuset"] {
            let folder = tempfile::tempdir().unwrap();
            let tree = played(folder.path(), controller);
            let group = played(&folder.path().join("tilemark.run-1"), controller);
            StateFolder::at(&folder.path().join("state")).hand_on(MEMORY, &tree, &group).unwrap();
            assert_eq!(tree.enabled().unwrap(), Vec::<String>::new());
            assert_eq!(group.enabled().unwrap(), [format!("+{controller}")]);
        }
    }

    #[test]
    fn nothing_is_handed_on_where_the_host_has_no_memory_controller() {
        let folder = tempfile::tempdir().unwrap();
        let tree = played(folder.path(), "hugetlb\n");
        let group = played(&folder.path().join("tilemark.run-1"), "");
        let state = StateFolder::at(&folder.path().join("state"));
        state.hand_on(MEMORY, &tree, &group).unwrap();
        assert_eq!(state.shared_journal().unwrap().held().unwrap(), []);
        assert_eq!(tree.enabled().unwrap().len() + group.enabled().unwrap().len(), 0);
    }

    /// A group of the test's own that plays the tree, on this host's kernel: it has a controller to give. Nobody else changes what
    /// the real tree gives while this is there.
    struct Tree {
        group: Group,
        controller: String,
        host: Group,
        is_borrowed: bool,
        _lock: File,
    }

    impl Tree {
        fn new(name: &str) -> Option<Self> {
            if !rustix::process::geteuid().is_root() {
                tilemark_fixtures::skipped("control groups need root");
                return None;
            }
            let host = mount_point().ok().map(Group::at);
            let Some((host, controller)) =
                host.and_then(|host| Some((host.clone(), host.controllers().ok()?.into_iter().next()?)))
            else {
                tilemark_fixtures::skipped("no version 2 tree here has a controller to give");
                return None;
            };
            let lock = locked(&host).unwrap();
            let is_borrowed = !host.enabled().unwrap().contains(&controller);
            host.enable(&[&controller]).unwrap();
            let group = Group::create(&format!("tilemark-test-{}-{name}", std::process::id())).unwrap();
            Some(Self { group, controller, host, is_borrowed, _lock: lock })
        }

        /// A run that has begun in a folder, with its group below this tree.
        fn run(&self, states: &Path, name: &str) -> StateFolder {
            let state = StateFolder::create(states, name, "run", None).unwrap();
            fs::create_dir(&state.path).unwrap();
            let group = self.group.create_child(&format!("tilemark.{name}")).unwrap();
            let cgroup = Some(group.path().to_owned());
            state.write(&ActiveJob { cgroup, ..state.wanted.clone().unwrap() }).unwrap();
            state.hand_on(&self.controller, &self.group, &group).unwrap();
            state
        }

        fn gives(&self) -> bool {
            self.group.enabled().unwrap().contains(&self.controller)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = self.group.end(TIMEOUT);
            if self.is_borrowed {
                let _ = self.host.disable(&self.controller);
            }
        }
    }

    #[test]
    fn a_borrowed_controller_is_restored_by_whoever_ends_last() {
        let Some(tree) = Tree::new("last") else { return };
        let states = tempfile::tempdir().unwrap();
        let states = states.path();
        let (first, second) = (tree.run(states, "run-1"), tree.run(states, "run-2"));
        let group = Group::at(tree.group.path().join("tilemark.run-1"));
        assert!(tree.gives() && group.enabled().unwrap().contains(&tree.controller));
        // The group itself must stay without processes.
        assert!(group.path().join(ENGINE).is_dir());
        let account = first.take_away();
        assert_eq!((account.left(), account.shared.len()), (Vec::new(), 0), "the other one needs it");
        assert!(tree.gives() && !group.exists() && !first.path.exists());
        let account = second.take_away();
        assert_eq!((account.left(), account.shared.len()), (Vec::new(), 1));
        assert!(!tree.gives() && second.shared_journal().unwrap().held().unwrap().is_empty());
        // What was given before any of ours began is nobody's to take.
        tree.group.enable(&[&tree.controller]).unwrap();
        assert_eq!(tree.run(states, "run-3").take_away(), Account::default());
        assert!(tree.gives());
    }

    #[test]
    fn a_controller_that_others_need_by_now_is_named_as_left_and_restored_later() {
        let Some(tree) = Tree::new("others") else { return };
        let states = tempfile::tempdir().unwrap();
        let state = tree.run(states.path(), "run-1");
        let others = tree.group.create_child("somebody-else").unwrap();
        others.enable(&[&tree.controller]).unwrap();
        let left = state.take_away().left();
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0].contains(&tree.controller) && left[0].contains("busy"), "{left:?}");
        others.disable(&tree.controller).unwrap();
        let outcomes = restore_shared(states.path(), &tree.group).unwrap();
        assert!(outcomes.len() == 1 && outcomes[0].is_settled() && !tree.gives(), "{outcomes:?}");
    }

    #[test]
    fn what_older_versions_noted_is_restored_in_their_boot_and_in_no_other() {
        let boot = || boot_id().unwrap();
        for (noted_in, control_after, limit_after) in
            [(boot(), "-memory", "20"), ("older".to_owned(), "memory", "n/a")]
        {
            let folder = tempfile::tempdir().unwrap();
            let tree = played(folder.path(), "memory\n");
            let control = folder.path().join("cgroup.subtree_control");
            fs::write(&control, "memory").unwrap();
            let limit = wake_limit::awake_below(folder.path(), 3);
            fs::create_dir_all(limit.path.parent().unwrap()).unwrap();
            fs::write(&limit.path, "n/a").unwrap();
            let state = StateFolder::at(&folder.path().join("run-1"));
            fs::create_dir(&state.path).unwrap();
            // As the version before wrote them.
            fs::write(folder.path().join(".memory-borrowed"), &noted_in).unwrap();
            let under_way = serde_json::json!({
                "id": "run-1", "kind": "run", "boot_id": noted_in, "record": null,
                "cgroup": folder.path().join("tilemark.gone"), "awake": { "3": "20" }, "keeper": null,
            });
            fs::write(state.path.join(UNDER_WAY), under_way.to_string()).unwrap();
            let account = state.take_away_below(folder.path());
            assert_eq!(account.left(), Vec::<String>::new());
            assert!(account.outcomes().all(|outcome| outcome.now == Now::AsFound), "{account:?}");
            assert_eq!(fs::read_to_string(&control).unwrap(), control_after);
            assert_eq!(fs::read_to_string(&limit.path).unwrap(), limit_after);
            assert!(!folder.path().join(".memory-borrowed").exists() && !state.path.exists());
            assert!(tree.exists());
        }
    }

    #[test]
    fn this_process_lives_and_one_with_its_number_and_another_start_does_not() {
        let keeper = Keeper::of(std::process::id()).unwrap();
        assert!(keeper.lives());
        assert!(!Keeper { start_ticks: keeper.start_ticks + 1, ..keeper }.lives());
    }
}
