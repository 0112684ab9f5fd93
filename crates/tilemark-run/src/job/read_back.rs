//! Whether a host was restored: everything that a job could have left is looked for after it, and named with what to do.
//!
//! ```text
//! before the keeper: mounts, loop devices, network devices      what was there is nobody's of the job
//! state is made:     its group, namespaces, settings held
//! engine is done:    who holds these namespaces                 their numbers mean the job's as long as it lives
//! keeper is gone:    all of it read again
//! ```
//! The keeper restores settings while it holds the run's lock, and says how each one reads then: by the time the command reads it
//! the next run may hold it.

use crate::{
    job::state_folder::{Account, ActiveJob, StateFolder, is_in_use},
    job::types::Job,
};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use tilemark_guests::{is_data_disk, is_named_as_ours};
use tilemark_host::{
    cgroup::Group,
    setting::{Held, Now, Outcome},
    traces::{Holder, LoopDevice, Process, holders, loop_devices, loop_devices_in, network_devices},
};
use tilemark_record::result::LeftOver;
use tilemark_sys::mounts::{self, Mount};

/// The kernel ends mounts and loop devices some time after their last user.
const TIMEOUT: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// What was found after a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// What of it is still there.
    pub(crate) left: Vec<LeftOver>,
    /// Settings that somebody else changed meanwhile, in words.
    pub(crate) changed_by_others: Vec<String>,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobEnd {
    /// Its engine did its work.
    Done,
    /// It failed, perhaps before it had namespaces.
    Failed,
}

/// A mount without its options, which others may change while it stays the same mount.
fn identity(mount: Mount) -> Mount {
    Mount { options: Vec::new(), ..mount }
}

/// Reads back what a job could have left.
#[derive(Debug)]
pub(crate) struct ReadBack {
    state: StateFolder,
    folders: Vec<PathBuf>,
    mounts: BTreeSet<Mount>,
    loops: BTreeSet<LoopDevice>,
    network_devices: BTreeSet<String>,
    under_way: Option<ActiveJob>,
    settings: Vec<Held>,
    shared: Vec<Held>,
    holders: BTreeSet<Holder>,
}

impl ReadBack {
    /// What is there before the job. `folders` are those that it mounts in and takes disks from.
    ///
    /// # Errors
    /// When `/proc` or `/sys` cannot be read.
    pub(crate) fn before(state: &StateFolder, folders: &[PathBuf]) -> io::Result<Self> {
        let folders = folders.iter().map(PathBuf::as_path).chain([state.path()]);
        Ok(Self {
            state: state.clone(),
            folders: folders.map(as_the_kernel_names_it).collect(),
            mounts: mounts::of_this_thread()?.into_iter().map(identity).collect(),
            loops: loop_devices()?.into_iter().collect(),
            network_devices: network_devices()?.into_iter().collect(),
            under_way: None,
            settings: Vec::new(),
            shared: Vec::new(),
            holders: BTreeSet::new(),
        })
    }

    /// The folders of a job, besides its state.
    pub(crate) fn folders_of(job: &Job) -> Vec<PathBuf> {
        match job {
            Job::Run(job) => vec![job.record.clone(), job.cache.clone()],
            Job::Guests(job) => vec![job.cache.clone()],
            Job::Image(job) => vec![job.cache.clone()],
        }
    }

    /// The state is made: what belongs to it.
    ///
    /// # Errors
    /// When its journals cannot be read.
    pub(crate) fn begun(&mut self) -> io::Result<()> {
        self.under_way = Some(self.state.under_way()?);
        self.settings = self.state.journal()?.held().map_err(io::Error::other)?;
        self.shared = self.state.shared_journal()?.held().map_err(io::Error::other)?;
        Ok(())
    }

    /// The engine is done, and its keeper has not ended it yet: whoever holds a namespace now holds one of the job's.
    pub(crate) fn ending(&mut self) {
        // Where it cannot be read now, it cannot be read later either, which is reported then.
        self.holders = holders(self.namespaces()).unwrap_or_default();
    }

    /// The keeper is gone: what is left. `account` is its last report.
    pub(crate) fn after(&self, account: Option<&Account>, end: JobEnd) -> Found {
        self.after_within(TIMEOUT, account, end)
    }

    fn after_within(&self, timeout: Duration, account: Option<&Account>, end: JobEnd) -> Found {
        let until = Instant::now() + timeout;
        let mut traces = self.traces();
        while !traces.is_empty() && Instant::now() < until {
            thread::sleep(BETWEEN_LOOKS);
            traces = self.traces();
        }
        let mut found = Found { left: traces, changed_by_others: Vec::new() };
        if end == JobEnd::Done && self.namespaces().is_empty() {
            found.leave(
                "which namespaces it had is not known".to_owned(),
                "look with `lsns` for what is left of it",
            );
        }
        self.read_settings(account, &mut found);
        found.left.extend(self.group());
        // Where the keeper left it on purpose, its reasons are above.
        let is_explained = account.is_some_and(|account| !account.left().is_empty());
        if self.state.path().exists() && !is_explained {
            let what = format!("the folder {} is still there", self.state.path().display());
            found.leave(what, "`tilemark recover` removes it");
        }
        found
    }

    fn namespaces(&self) -> &[String] {
        self.under_way.as_ref().map_or(&[], |under_way| &under_way.namespaces)
    }

    /// What ends with the job's namespaces, if late.
    fn traces(&self) -> Vec<LeftOver> {
        let looks = [
            ("mounts", self.new_mounts()),
            ("loop devices", self.new_loops()),
            ("network devices", self.new_network_devices()),
            ("namespaces", self.still_held()),
        ];
        let said = looks.into_iter().flat_map(|(what, found)| {
            found.unwrap_or_else(|error| {
                vec![left(
                    format!("the {what} cannot be read: {error}"),
                    "check that /proc and /sys are mounted",
                )]
            })
        });
        said.collect()
    }

    fn new_mounts(&self) -> io::Result<Vec<LeftOver>> {
        let mounts = mounts::of_this_thread()?.into_iter().map(identity);
        let new = mounts.filter(|mount| !self.mounts.contains(mount) && self.is_below(&mount.point));
        let named = new.map(|mount| {
            let point = mount.point.display();
            left(
                format!("the mount {point} ({} of {})", mount.kind, mount.source),
                &format!("`umount {point}`"),
            )
        });
        Ok(named.collect())
    }

    fn new_loops(&self) -> io::Result<Vec<LeftOver>> {
        let is_new = |device: &LoopDevice| !self.loops.contains(device);
        let is_of_a_job = |file: &Path| self.is_below(file) || is_data_disk(file);
        let new = loop_devices()?.into_iter().filter(|device| is_new(device) && is_of_a_job(&device.file));
        let new: Vec<LoopDevice> = new.collect();
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let of_others = loop_devices_in(&self.namespaces_of_others()?)?;
        let named = new.into_iter().filter(|device| !of_others.contains(&device.path)).map(|device| {
            let path = device.path.display();
            left(
                format!("the loop device {path} of {}", device.file.display()),
                &format!("unmount what is mounted from it, then `losetup -d {path}`"),
            )
        });
        Ok(named.collect())
    }

    fn new_network_devices(&self) -> io::Result<Vec<LeftOver>> {
        let new = network_devices()?.into_iter().filter(|name| !self.network_devices.contains(name));
        let uplink = self.under_way.as_ref().and_then(|under_way| under_way.uplink.as_ref());
        let ours = new.filter(|name| is_named_as_ours(name) || Some(name) == uplink);
        let named =
            ours.map(|name| left(format!("the network device {name}"), &format!("`ip link delete {name}`")));
        Ok(named.collect())
    }

    fn still_held(&self) -> io::Result<Vec<LeftOver>> {
        let now = holders(self.namespaces())?;
        let named = now.intersection(&self.holders).map(|holder| {
            let remedy = match holder {
                Holder::Process { process, .. } => format!("end the process {}", process.pid),
                Holder::Mount { point, .. } => format!("`umount {}`", point.display()),
            };
            left(holder.to_string(), &remedy)
        });
        Ok(named.collect())
    }

    fn group(&self) -> Option<LeftOver> {
        let path = self.under_way.as_ref()?.cgroup.as_ref().filter(|path| path.exists())?;
        let mut processes = Vec::new();
        add_processes(&Group::at(path), &mut processes);
        let of = match processes.len() {
            0 => String::new(),
            _ => format!(" with {}", processes.join(", ")),
        };
        let remedy = "`tilemark recover` ends and removes it";
        Some(left(format!("the control group {}{of}", path.display()), remedy))
    }

    fn is_below(&self, path: &Path) -> bool {
        self.folders.iter().any(|folder| path.starts_with(folder))
    }

    /// Those of runs, guests and builds of this home whose keepers live.
    fn namespaces_of_others(&self) -> io::Result<Vec<String>> {
        let states = self.state.path().parent().unwrap_or(Path::new("."));
        let others = StateFolder::all(states)?.into_iter().filter(|state| state.path() != self.state.path());
        let live = others.filter_map(|state| state.under_way().ok());
        let live = live.filter(|under_way| under_way.keeper.is_some_and(|keeper| keeper.lives()));
        Ok(live.flat_map(|under_way| under_way.namespaces).collect())
    }

    fn read_settings(&self, account: Option<&Account>, found: &mut Found) {
        for held in &self.settings {
            let said =
                account.and_then(|account| account.settings.iter().find(|outcome| outcome.held == *held));
            found.judge(reading(held, said));
        }
        for held in &self.shared {
            let said =
                account.and_then(|account| account.shared.iter().find(|outcome| outcome.held == *held));
            // Another run needs it still, and restores it when it ends.
            if !(held.now() == Now::Ours && is_in_use(held)) {
                found.judge(reading(held, said));
            }
        }
        for why in account.iter().flat_map(|account| &account.failed) {
            found.leave(why.clone(), "`tilemark recover` tries it again");
        }
    }
}

/// How a setting reads now, beside what the keeper reported when it had restored it.
fn reading(held: &Held, said: Option<&Outcome>) -> Outcome {
    let now = held.now();
    let settled = said.filter(|outcome| outcome.is_settled());
    match (&now, settled) {
        // It is as found, or was when the keeper ended: the next run holds it by now.
        (Now::AsFound, None) => Outcome { held: held.clone(), now, refused: None },
        (Now::AsFound | Now::Ours, Some(outcome)) => outcome.clone(),
        (Now::Other(_) | Now::Gone(_) | Now::Unread(_), _) | (Now::Ours, None) => {
            Outcome { held: held.clone(), now, refused: said.and_then(|outcome| outcome.refused.clone()) }
        }
    }
}

impl Found {
    fn leave(&mut self, what: String, remedy: &str) {
        self.left.push(left(what, remedy));
    }

    fn judge(&mut self, outcome: Outcome) {
        match outcome.now {
            // With its device a value is gone, ours as well.
            Now::AsFound | Now::Gone(_) => {}
            Now::Other(_) => self.changed_by_others.push(outcome.to_string()),
            Now::Ours | Now::Unread(_) => {
                let remedy = format!(
                    "`tilemark recover` tries it again; by hand, {}",
                    outcome.held.order_to_restore()
                );
                self.leave(outcome.to_string(), &remedy);
            }
        }
    }
}

fn left(what: String, remedy: &str) -> LeftOver {
    LeftOver { what, remedy: remedy.to_owned() }
}

/// The processes of a group and those below, with their names.
fn add_processes(group: &Group, processes: &mut Vec<String>) {
    for pid in group.processes().unwrap_or_default() {
        let name = Process::of(pid).map_or_else(|| "gone".to_owned(), |process| process.name);
        processes.push(format!("process {pid} ({name})"));
    }
    let below = fs::read_dir(group.path()).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        add_processes(&Group::at(entry.path()), processes);
    }
}

/// A path without links. Of one that is not there yet, the folder above it.
fn as_the_kernel_names_it(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => as_the_kernel_names_it(parent).join(name),
        _ => path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::state_folder::Keeper;
    use std::{
        io::{BufRead, BufReader, Write},
        process::{Child, Command, Stdio},
    };
    use tempfile::TempDir;
    use tilemark_host::{
        cgroup::mount_point,
        setting::{Journal, wake_limit},
        traces,
    };
    use tilemark_image::disk_store::{LoopOptions, attach_loop};

    /// A home with the state of one run, which is begun and whose keeper is gone.
    struct Run {
        home: TempDir,
        state: StateFolder,
    }

    impl Run {
        fn new() -> Option<Self> {
            if !rustix::process::geteuid().is_root() {
                tilemark_fixtures::skipped("mounts and devices need root");
                return None;
            }
            let home = tempfile::tempdir().unwrap();
            let state = StateFolder::at(&home.path().join("state/run-1"));
            fs::create_dir_all(home.path().join("cache")).unwrap();
            fs::create_dir_all(state.path()).unwrap();
            Some(Self { home, state })
        }

        fn cache(&self) -> PathBuf {
            self.home.path().join("cache")
        }

        /// Notes what is under way in a state of this home, kept by this process.
        fn note(&self, name: &str, namespaces: &[String], cgroup: Option<&Path>) {
            let folder = self.home.path().join("state").join(name);
            fs::create_dir_all(&folder).unwrap();
            let under_way = serde_json::json!({
                "id": name, "kind": "run", "boot_id": crate::job::state_folder::boot_id().unwrap(), "record": null,
                "cgroup": cgroup, "namespaces": namespaces, "keeper": Keeper::of(std::process::id()),
            });
            fs::write(folder.join("under-way.json"), under_way.to_string()).unwrap();
        }

        fn before(&self) -> ReadBack {
            ReadBack::before(&self.state, &[self.cache()]).unwrap()
        }

        /// What is found once the keeper has removed the folder.
        fn found(&self, read_back: &ReadBack) -> Found {
            let _ = fs::remove_dir_all(self.state.path());
            read_back.after_within(Duration::ZERO, Some(&Account::default()), JobEnd::Done)
        }
    }

    fn whats(found: &Found) -> Vec<&str> {
        found.left.iter().map(|left| left.what.as_str()).collect()
    }

    fn run(program: &str, arguments: &[&str]) {
        let status = Command::new(program).args(arguments).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}");
    }

    /// A shell that has done `script` and waits.
    struct Shell(Child);

    impl Shell {
        fn start(command: &[&str], script: &str) -> Self {
            let script = format!("{script} && echo ready && read end");
            let mut shell = Command::new(command[0]);
            shell.args(&command[1..]).args(["sh", "-c", &script]);
            let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n");
            Self(child)
        }

        fn end(mut self) {
            self.0.stdin.take().unwrap().write_all(b"\n").unwrap();
            self.0.wait().unwrap();
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            // It has ended already where all went well.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// On a thread with mounts and a network of its own.
    fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = thread::spawn(|| {
            tilemark_sys::namespace::own_mounts().unwrap();
            tilemark_sys::namespace::own_network().unwrap();
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    const SOME: &str = "net:[1]";

    #[test]
    fn a_mount_and_a_network_device_that_came_with_the_run_are_found_and_no_other() {
        let Some(of) = Run::new() else { return };
        apart(move || {
            of.note("run-1", &[SOME.to_owned()], None);
            let (older, newer) = (of.cache().join("older"), of.cache().join("new er"));
            let elsewhere = of.home.path().join("elsewhere");
            for folder in [&older, &newer, &elsewhere] {
                fs::create_dir(folder).unwrap();
            }
            let mount = |at: &Path| run("mount", &["-t", "tmpfs", "tilemark-test", at.to_str().unwrap()]);
            let device = |name: &str| run("ip", &["link", "add", name, "type", "bridge"]);
            mount(&older);
            device("guest7");
            let mut read_back = of.before();
            read_back.begun().unwrap();
            mount(&newer);
            mount(&elsewhere);
            device("tilemark0");
            device("guestbook");
            run("mount", &["-o", "remount,size=1m", older.to_str().unwrap()]);
            let found = of.found(&read_back);
            let named =
                format!("the mount {} (tmpfs of tilemark-test)", newer.canonicalize().unwrap().display());
            assert_eq!(whats(&found), [named.as_str(), "the network device tilemark0"]);
            assert_eq!(found.left[1].remedy, "`ip link delete tilemark0`");
            for folder in [&newer, &older, &elsewhere] {
                run("umount", &[folder.to_str().unwrap()]);
            }
            run("ip", &["link", "delete", "tilemark0"]);
            assert_eq!(of.found(&read_back), Found::default());
        });
    }

    #[test]
    fn a_loop_device_on_a_file_of_the_run_is_found_unless_another_run_uses_it() {
        let Some(of) = Run::new() else { return };
        of.note("run-1", &[SOME.to_owned()], None);
        let file = of.cache().join("disks.xfs");
        fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
        let read_back = {
            let mut read_back = of.before();
            read_back.begun().unwrap();
            read_back
        };
        let device = attach_loop(&file, LoopOptions::default()).unwrap();
        let (path, file) = (device.path().display().to_string(), file.canonicalize().unwrap());
        let named = format!("the loop device {path} of {}", file.display());
        assert_eq!(whats(&of.found(&read_back)), [named]);
        // Guests of the same home have it open.
        let others = Shell::start(&["unshare", "--mount"], &format!("exec 5<{path}"));
        of.note("guests-1", &traces::of_process(others.0.id()).unwrap(), None);
        assert_eq!(of.found(&read_back), Found::default());
        others.end();
        drop(device);
        // The kernel ends it a moment later.
        while !of.found(&read_back).left.is_empty() {
            thread::yield_now();
        }
    }

    #[test]
    fn whoever_holds_a_namespace_of_the_run_is_named_and_nobody_who_got_its_number_later() {
        let Some(of) = Run::new() else { return };
        let init = Shell::start(&["unshare", "--net"], "true");
        let path = format!("--net=/proc/{}/ns/net", init.0.id());
        of.note("run-1", &traces::of_process(init.0.id()).unwrap(), None);
        let visitor = Shell::start(&["nsenter", &path], "true");
        let mut read_back = of.before();
        read_back.begun().unwrap();
        read_back.ending();
        init.end();
        let late = Shell::start(&["nsenter", &format!("--net=/proc/{}/ns/net", visitor.0.id())], "true");
        let found = of.found(&read_back);
        assert_eq!(found.left.len(), 1, "{found:?}");
        let named = format!("process {} (sh) holds the namespace net:[", visitor.0.id());
        assert!(found.left[0].what.starts_with(&named), "{found:?}");
        assert_eq!(found.left[0].remedy, format!("end the process {}", visitor.0.id()));
        visitor.end();
        assert_eq!(of.found(&read_back), Found::default());
        late.end();
    }

    #[test]
    fn a_group_is_found_with_its_processes() {
        let Some(of) = Run::new() else { return };
        let Ok(tree) = mount_point() else {
            return tilemark_fixtures::skipped("no cgroup version 2 tree is mounted");
        };
        let group = Group::at(tree.join(format!("tilemark-test-{}-read-back", std::process::id())));
        fs::create_dir(group.path()).unwrap();
        of.note("run-1", &[SOME.to_owned()], Some(group.path()));
        let mut read_back = of.before();
        read_back.begun().unwrap();
        let below = group.create_child("engine").unwrap();
        let shell = Shell::start(&["env"], "true");
        below.add(shell.0.id()).unwrap();
        let with_process = of.found(&read_back);
        shell.end();
        let without = of.found(&read_back);
        group.remove().unwrap();
        let path = group.path().display();
        let named = format!("the control group {path} with process ");
        assert!(whats(&with_process)[0].starts_with(&named) && whats(&with_process)[0].ends_with(" (sh)"));
        assert_eq!(whats(&without), [format!("the control group {path}")]);
        assert_eq!(of.found(&read_back), Found::default());
    }

    #[test]
    fn a_folder_that_stays_and_namespaces_that_nobody_knows_are_no_restored_machine() {
        let Some(of) = Run::new() else { return };
        of.note("run-1", &[], None);
        let mut read_back = of.before();
        read_back.begun().unwrap();
        let look = |came| read_back.after_within(Duration::ZERO, None, came);
        let folder = format!("the folder {} is still there", of.state.path().display());
        assert_eq!(whats(&look(JobEnd::Failed)), [folder.as_str()]);
        assert_eq!(whats(&look(JobEnd::Done)), ["which namespaces it had is not known", &folder]);
        assert_eq!(whats(&of.found(&read_back)), ["which namespaces it had is not known"]);
    }

    /// A setting that was found at 20 and is held at n/a, and reads now as given.
    fn held(folder: &TempDir, now: &str) -> Held {
        let setting = wake_limit::awake_below(folder.path(), 0);
        fs::create_dir_all(setting.path.parent().unwrap()).unwrap();
        fs::write(&setting.path, "20\n").unwrap();
        let journal = Journal::at(folder.path().join("settings.json"), "this-boot");
        journal.hold(std::slice::from_ref(&setting)).unwrap();
        fs::write(&setting.path, now).unwrap();
        journal.held().unwrap().remove(0)
    }

    #[test]
    fn a_setting_is_restored_where_it_reads_so_and_else_by_what_the_keeper_read_under_its_lock() {
        let said = |held: &Held, now: Option<Now>| {
            let refused = (now == Some(Now::Ours)).then(|| "Permission denied".to_owned());
            now.map(|now| Outcome { held: held.clone(), now, refused })
        };
        let other = || Now::Other("50".to_owned());
        for (reads, keeper, left, changed) in [
            ("20", Some(Now::AsFound), 0, 0),
            // A keeper that was killed restored nothing; somebody has.
            ("20", None, 0, 0),
            ("20", Some(Now::Ours), 0, 0),
            ("n/a", None, 1, 0),
            ("n/a", Some(Now::Ours), 1, 0),
            // The next run holds it by now.
            ("n/a", Some(Now::AsFound), 0, 0),
            ("50", Some(Now::AsFound), 0, 1),
            ("50", Some(other()), 0, 1),
            ("50", None, 0, 1),
            ("20", Some(other()), 0, 1),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let held = held(&folder, reads);
            let mut found = Found::default();
            found.judge(reading(&held, said(&held, keeper.clone()).as_ref()));
            assert_eq!(
                (found.left.len(), found.changed_by_others.len()),
                (left, changed),
                "{reads} {keeper:?}"
            );
            let failure = crate::job::command::not_restored("the run is over", &found);
            let exit_code = failure.map(|failure| failure.code.exit_code());
            assert_eq!(exit_code, (left + changed > 0).then_some(6), "{reads} {keeper:?}");
            if keeper == Some(Now::Ours) && left == 1 {
                assert!(
                    found.left[0]
                        .what
                        .contains("it was 20, Tilemark set n/a, and it is still n/a; Permission denied")
                );
                assert!(found.left[0].remedy.contains("write \"20\" into "), "{found:?}");
            }
        }
    }
}
