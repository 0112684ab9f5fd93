//! Commands of the user's own around the measured seconds of a repeat, such as a profiler.
//!
//! ```text
//!  warm-up | measured seconds                       | guests still there                                  | guests gone
//!          ^ before: started, nobody waits for it   ^ before: SIGINT, then by force   after: 60 s at most ^ all of both gone
//! ```
//! They run as root in the namespaces of the run, which end with it however it ends, and in a control group of their own: that knows
//! their processor time, and what they started and left behind ends with the repeat.

use crate::{
    failure::{Failure, FailureCode},
    job::host_pids,
};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, PipeReader, Read},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};
use tilemark_guests::{GuestId, GuestManager};
use tilemark_host::cgroup::Group;
use tilemark_plan::plan::{Pass, Point};
use tilemark_record::{
    result::Hooks,
    summary::{HookKind, HookRun},
};
use tilemark_sys::passwords::PASSWORDS;
use tilemark_sys::process::{Child, Ended, HasEnded, Spawn, SpawnError};
use tilemark_units::printable_line;

/// The control group of hooks, below the run's. No guest is called so.
const GROUP: &str = "hooks";
/// From SIGINT to SIGTERM, and from that to SIGKILL: a profiler writes its data then.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// The hook after the measured seconds may take so long: guests wait for it.
const AFTER_WITHIN: Duration = Duration::from_secs(60);
/// Killed processes may take so long to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
/// Bytes of its output that stay in the record: the first.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Characters of its last line in a message.
const LAST_CHARACTERS: usize = 200;

/// The hooks of a run.
#[derive(Debug)]
pub(crate) struct HookRunner {
    asked: Hooks,
    group: Group,
    record: PathBuf,
}

impl HookRunner {
    /// Those that the user asked for; nothing where there are none.
    ///
    /// # Errors
    /// When the run has no control group: what hooks cost would be unknown, and what they leave could not be ended.
    pub(crate) fn of(asked: &Hooks, run: Option<&Path>, record: &Path) -> Result<Option<Self>, Failure> {
        if asked.is_empty() {
            return Ok(None);
        }
        let Some(run) = run else {
            return Err(Failure::new(
                FailureCode::HostUnfit,
                "hooks need a control group, and this host has no cgroup2",
                "mount cgroup2 (`mount -t cgroup2 none /sys/fs/cgroup`), or leave out --hook-before and --hook-after",
            ));
        };
        let group = Group::at(run.join(GROUP));
        Ok(Some(Self { asked: asked.clone(), group, record: record.to_owned() }))
    }

    /// Those of one repeat, whose files are in `folder`.
    ///
    /// # Errors
    /// When their control group cannot be made.
    pub(crate) fn of_repeat(
        &self,
        point: &Point,
        pass: Pass,
        folder: &Path,
    ) -> Result<RepeatHooks<'_>, Failure> {
        std::fs::create_dir_all(self.group.path()).map_err(|error| {
            let message = format!("cannot make the control group {}", self.group.path().display());
            Failure::caused_by(&error, FailureCode::HostUnfit, message, "look at `tilemark doctor`")
        })?;
        let side = point.side.map(|side| side.name().to_lowercase()).unwrap_or_default();
        let environment = [
            ("TILEMARK_RUN_FOLDER", self.record.display().to_string()),
            ("TILEMARK_REPEAT_FOLDER", folder.display().to_string()),
            ("TILEMARK_POINT", point.index.to_string()),
            ("TILEMARK_REPEAT", pass.repeat.to_string()),
            ("TILEMARK_TILES", point.tiles.to_string()),
            ("TILEMARK_BACKEND", point.backend.name().to_owned()),
            ("TILEMARK_SIDE", side),
            ("TILEMARK_SECONDS", point.measure.length.get().as_secs().to_string()),
        ];
        Ok(RepeatHooks { runner: self, folder: folder.to_owned(), environment: environment.to_vec() })
    }
}

/// The guests that a hook is shown.
#[derive(Debug)]
pub(crate) struct HookGuests {
    names: Vec<String>,
    /// The first process of each, and 0 of one that has ended, as the hook sees them.
    pids: Vec<u32>,
    /// The same as the host numbers them.
    host_pids: Vec<u32>,
    /// All processes of all of them.
    all_pids: Vec<u32>,
}

impl HookGuests {
    /// Those of a point, now.
    pub(crate) fn of(manager: &dyn GuestManager, point: &Point, ids: &[GuestId]) -> Self {
        let all = manager.all_processes(ids);
        let firsts: Vec<Option<u32>> = all.iter().map(|pids| pids.first().copied()).collect();
        let number = |pid: Option<u32>| pid.unwrap_or(0);
        Self {
            names: point.guests.iter().map(|guest| guest.name.clone()).collect(),
            host_pids: host_pids::of(&firsts).into_iter().map(number).collect(),
            pids: firsts.into_iter().map(number).collect(),
            all_pids: all.concat(),
        }
    }

    fn environment(&self) -> [(&'static str, String); 4] {
        let list = |pids: &[u32]| {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            pids.join(",")
        };
        [
            ("TILEMARK_GUESTS", self.names.join(",")),
            ("TILEMARK_PIDS", list(&self.pids)),
            ("TILEMARK_HOST_PIDS", list(&self.host_pids)),
            ("TILEMARK_ALL_PIDS", list(&self.all_pids)),
        ]
    }
}

/// The hooks of one repeat.
#[derive(Debug)]
pub(crate) struct RepeatHooks<'a> {
    runner: &'a HookRunner,
    folder: PathBuf,
    environment: Vec<(&'static str, String)>,
}

impl RepeatHooks<'_> {
    /// The group in which they run.
    pub(crate) fn group(&self) -> &Path {
        self.runner.group.path()
    }

    /// Runs them: the first word on the channel is the beginning of the measured seconds, its end is their end. Nothing runs where it
    /// ends without a word.
    pub(crate) fn follow(&self, guests: &HookGuests, measuring: &Receiver<()>) -> Vec<HookRun> {
        let mut ran = if measuring.recv().is_ok() { self.run(guests, measuring) } else { Vec::new() };
        if let Err(error) = self.runner.group.end(GONE_WITHIN)
            && let Some(last) = ran.last_mut()
        {
            last.failed.get_or_insert(format!("what it started cannot be ended: {error}"));
        }
        ran
    }

    fn run(&self, guests: &HookGuests, measuring: &Receiver<()>) -> Vec<HookRun> {
        let asked = &self.runner.asked;
        let start = |kind, command: &Option<String>| {
            command.as_ref().map(|command| self.start(kind, command, guests))
        };
        let before = start(HookKind::Before, &asked.before);
        while measuring.recv().is_ok() {}
        let before = before.map(|started| self.finished(HookKind::Before, started, Hook::end));
        let after = start(HookKind::After, &asked.after);
        let after = after.map(|started| self.finished(HookKind::After, started, Hook::wait));
        before.into_iter().chain(after).collect()
    }

    fn start(&self, kind: HookKind, command: &str, guests: &HookGuests) -> Result<Hook, SpawnError> {
        let prepare = |source| SpawnError::Prepare { program: format!("--hook-{}", kind.name()), source };
        let (reader, writer) = io::pipe().map_err(prepare)?;
        let spawn = || -> io::Result<Spawn> {
            let own = self.environment.iter().cloned().chain(guests.environment());
            let own = own.chain([("TILEMARK_HOOK", kind.name().to_owned())]);
            // What a hook prints is in the record.
            let is_secret = |name: &OsString| PASSWORDS.iter().any(|secret| name == secret);
            let given = std::env::vars_os().filter(|(name, _)| !is_secret(name));
            let all = given.chain(own.map(|(name, value)| (OsString::from(name), OsString::from(value))));
            let all = all.map(|(mut variable, value)| {
                variable.push("=");
                variable.push(value);
                variable
            });
            Ok(Spawn::path(Path::new("/bin/sh"))?
                .arguments(["-c", command])?
                .environment(all)?
                .own_session()
                .in_cgroup(File::open(self.group())?.into())
                .hand(File::open("/dev/null")?.into(), 0)
                .hand(OwnedFd::from(writer.try_clone()?), 1)
                .hand(OwnedFd::from(writer), 2))
        };
        let child = spawn().map_err(prepare)?.start()?;
        Ok(Hook { child, heard: Heard::of(reader), began: Instant::now() })
    }

    /// What came of one, with its output in its file.
    fn finished(
        &self,
        kind: HookKind,
        started: Result<Hook, SpawnError>,
        end: fn(&Hook) -> io::Result<Option<String>>,
    ) -> HookRun {
        let hook = match started {
            Ok(hook) => hook,
            Err(error) => {
                let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
                let failed = format!("{error}{}", source.unwrap_or_default());
                return HookRun { hook: kind, seconds: 0.0, failed: Some(failed) };
            }
        };
        let failed = end(&hook).unwrap_or_else(|error| Some(format!("it cannot be waited for: {error}")));
        let seconds = hook.began.elapsed().as_secs_f64();
        let text = hook.heard.text();
        let path = self.folder.join(format!("hook-{}.txt", kind.name()));
        let failed = failed.map(|how| match last_line(&text) {
            Some(last) => format!("{how}; its last line: {last}"),
            None => how,
        });
        let unwritten = tilemark_record::write_whole(&path, &text).err().map(|error| error.to_string());
        HookRun { hook: kind, seconds, failed: failed.or(unwritten) }
    }
}

/// A hook that runs, in a process group of its own.
struct Hook {
    child: Child,
    heard: Heard,
    began: Instant,
}

impl Hook {
    /// The measured seconds are over: asks it to end, then ends it. Says what went wrong.
    fn end(&self) -> io::Result<Option<String>> {
        if self.child.ends_within(Duration::ZERO)? == HasEnded::Yes {
            let failed = failure_of(self.child.wait()?);
            self.end_group()?;
            return Ok(failed);
        }
        // However it ends now is how it ends on a signal.
        let obeyed = self.end_group()?;
        Ok((!obeyed).then(|| {
            let seconds = ENDS_WITHIN.as_secs();
            format!("it did not end within {seconds} s of SIGINT and {seconds} s of SIGTERM, and was killed")
        }))
    }

    /// Waits for its end, as long as it may take. Says what went wrong.
    fn wait(&self) -> io::Result<Option<String>> {
        if self.child.ends_within(AFTER_WITHIN)? == HasEnded::Yes {
            return Ok(failure_of(self.child.wait()?));
        }
        self.end_group()?;
        Ok(Some(format!("it had not ended after {} s, and was ended", AFTER_WITHIN.as_secs())))
    }

    /// Signals its group until nobody of it lives. Says whether that was enough without force.
    fn end_group(&self) -> io::Result<bool> {
        for signal in [Signal::INT, Signal::TERM] {
            self.signal(signal);
            if self.gone_within(ENDS_WITHIN)? {
                return Ok(true);
            }
        }
        self.signal(Signal::KILL);
        self.gone_within(GONE_WITHIN)?;
        Ok(false)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group() {
            // One of which nobody lives needs no signal.
            let _ = kill_process_group(group, signal);
        }
    }

    fn gone_within(&self, limit: Duration) -> io::Result<bool> {
        let until = Instant::now() + limit;
        if self.child.ends_within(limit)? == HasEnded::No {
            return Ok(false);
        }
        // A zombie counts as a member of its group.
        let _ = self.child.try_wait();
        while self.group().is_some_and(|group| test_kill_process_group(group).is_ok()) {
            if Instant::now() >= until {
                return Ok(false);
            }
            thread::sleep(PAUSE);
        }
        Ok(true)
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.pid()).ok().and_then(Pid::from_raw)
    }
}

fn failure_of(ended: Ended) -> Option<String> {
    match ended {
        Ended::Exited(0) => None,
        Ended::Exited(code) => Some(format!("it ended with exit code {code}")),
        Ended::Signalled(signal) => Some(format!("it was ended by signal {signal}")),
    }
}

/// What a hook prints, as far as it is kept. The rest is read, so that it need not wait, and left out.
struct Heard {
    kept: Arc<Mutex<Vec<u8>>>,
    over: Receiver<()>,
}

impl Heard {
    /// Reads in a thread of its own, which ends with the pipe.
    fn of(mut pipe: PipeReader) -> Self {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let (ends, over) = mpsc::channel();
        let keeps = Arc::clone(&kept);
        thread::spawn(move || {
            let mut part = [0; 8192];
            while let Ok(bytes @ 1..) = pipe.read(&mut part) {
                let mut kept = keeps.lock().unwrap_or_else(PoisonError::into_inner);
                let room = KEPT_BYTES_MAX - kept.len();
                kept.extend_from_slice(&part[..bytes.min(room)]);
            }
            drop(ends);
        });
        Self { kept, over }
    }

    /// What was kept. What left the process group may still hold the pipe: it is not waited for.
    fn text(&self) -> Vec<u8> {
        let _ = self.over.recv_timeout(Duration::from_millis(500));
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn last_line(text: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let short: String = last.chars().take(LAST_CHARACTERS).collect();
    Some(printable_line(&short).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use std::fs;
    use tilemark_host::cgroup::mount_point;

    /// Hooks in a control group of their own; nothing where this host gives none.
    struct Bench {
        runner: HookRunner,
        folder: tempfile::TempDir,
    }

    impl Bench {
        fn new(name: &str, before: &str, after: &str) -> Option<Self> {
            let Ok(tree) = mount_point() else {
                tilemark_fixtures::skipped("no cgroup version 2 tree is mounted");
                return None;
            };
            let run = tree.join(format!("tilemark-test-hooks-{name}-{}", std::process::id()));
            if fs::create_dir(&run).is_err() {
                tilemark_fixtures::skipped("no control group can be made here");
                return None;
            }
            let folder = tempfile::tempdir().unwrap();
            let hooks = Hooks { before: Some(before.to_owned()), after: Some(after.to_owned()) };
            let runner = HookRunner::of(&hooks, Some(&run), folder.path()).unwrap().unwrap();
            Some(Self { runner, folder })
        }

        /// What ran around measured seconds that last until `over` is true.
        fn ran(&self, over: impl Fn(&Path) -> bool) -> Vec<HookRun> {
            let plan = plan_of(TILE, &ladder());
            let pass = Pass { block: 2, point: 0, repeat: 2 };
            let hooks = self.runner.of_repeat(&plan.points[0], pass, self.folder.path()).unwrap();
            let guests = HookGuests {
                names: vec!["tile-001-web".to_owned(), "tile-001-idle".to_owned()],
                pids: vec![7, 8],
                host_pids: vec![4007, 4008],
                all_pids: vec![7, 9, 8],
            };
            let (measuring, hears) = mpsc::channel();
            thread::scope(|scope| {
                let (hooks, guests) = (&hooks, &guests);
                let followed = scope.spawn(move || hooks.follow(guests, &hears));
                measuring.send(()).unwrap();
                while !over(self.folder.path()) {
                    thread::sleep(PAUSE);
                }
                drop(measuring);
                followed.join().unwrap()
            })
        }

        fn text(&self, name: &str) -> String {
            fs::read_to_string(self.folder.path().join(name)).unwrap()
        }
    }

    impl Drop for Bench {
        fn drop(&mut self) {
            assert!(!self.runner.group.exists(), "the group of hooks is left");
            let _ = fs::remove_dir(self.runner.group.path().parent().unwrap());
        }
    }

    fn lives(pid: &str) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    }

    #[test]
    fn a_profiler_runs_while_it_is_measured_writes_on_sigint_and_the_after_hook_reads_it() {
        let before = "trap 'echo data > $TILEMARK_REPEAT_FOLDER/profile; exit 130' INT; \
                      env | grep ^TILEMARK_ | sort; echo > $TILEMARK_REPEAT_FOLDER/runs; \
                      while :; do sleep 0.02; done";
        let Some(bench) = Bench::new("profile", before, "cat $TILEMARK_REPEAT_FOLDER/profile; env") else {
            return;
        };
        let ran = bench.ran(|folder| folder.join("runs").exists());
        let failed: Vec<_> = ran.iter().map(|run| (run.hook, run.failed.clone())).collect();
        assert_eq!(failed, [(HookKind::Before, None), (HookKind::After, None)]);
        let said = bench.text("hook-before.txt");
        for line in [
            "TILEMARK_PIDS=7,8",
            "TILEMARK_HOST_PIDS=4007,4008",
            "TILEMARK_ALL_PIDS=7,9,8",
            "TILEMARK_GUESTS=tile-001-web,tile-001-idle",
            "TILEMARK_HOOK=before",
            "TILEMARK_REPEAT=2",
            "TILEMARK_BACKEND=native",
        ] {
            assert!(said.lines().any(|said| said == line), "{line}: {said}");
        }
        let after = bench.text("hook-after.txt");
        assert!(after.starts_with("data\n") && after.contains("TILEMARK_HOOK=after"), "{after}");
    }

    #[test]
    fn processes_that_left_their_group_or_ignore_signals_end_with_the_repeat() {
        let before = "setsid sh -c 'echo $$ > $TILEMARK_REPEAT_FOLDER/away; exec sleep 1000' & exit 3";
        let after = "trap '' INT TERM; echo last words; (sleep 1000 & echo $! > $TILEMARK_REPEAT_FOLDER/behind); exit 4";
        let Some(bench) = Bench::new("left", before, after) else { return };
        let is_written =
            |folder: &Path| fs::read_to_string(folder.join("away")).is_ok_and(|pid| !pid.is_empty());
        let ran = bench.ran(is_written);
        let failed: Vec<_> = ran.iter().map(|run| run.failed.as_deref()).collect();
        assert_eq!(
            failed,
            [Some("it ended with exit code 3"), Some("it ended with exit code 4; its last line: last words")]
        );
        for name in ["away", "behind"] {
            assert!(!lives(&bench.text(name)), "{name} lives");
        }
    }

    #[test]
    fn a_hook_that_floods_does_not_wait_and_what_is_kept_is_bounded() {
        let flood = "head -c 3000000 /dev/zero; echo > $TILEMARK_REPEAT_FOLDER/through";
        let Some(bench) = Bench::new("flood", flood, "true") else { return };
        bench.ran(|folder| folder.join("through").exists());
        let kept = fs::metadata(bench.folder.path().join("hook-before.txt")).unwrap().len();
        assert_eq!(kept, KEPT_BYTES_MAX as u64);
    }

    #[test]
    fn no_hook_runs_where_nothing_is_measured_and_a_host_without_groups_is_refused() {
        let Some(bench) = Bench::new("none", "touch $TILEMARK_REPEAT_FOLDER/ran", "true") else { return };
        let plan = plan_of(TILE, &ladder());
        let pass = Pass { block: 1, point: 0, repeat: 1 };
        let hooks = bench.runner.of_repeat(&plan.points[0], pass, bench.folder.path()).unwrap();
        let guests =
            HookGuests { names: Vec::new(), pids: Vec::new(), host_pids: Vec::new(), all_pids: Vec::new() };
        let (measuring, hears) = mpsc::channel();
        drop(measuring);
        assert_eq!(hooks.follow(&guests, &hears), []);
        assert!(!bench.folder.path().join("ran").exists());
        let asked = Hooks { before: Some("true".to_owned()), after: None };
        let refused = HookRunner::of(&asked, None, Path::new("/")).unwrap_err();
        assert!(refused.message.contains("cgroup2"), "{}", refused.message);
        assert!(HookRunner::of(&Hooks::default(), None, Path::new("/")).unwrap().is_none());
    }
}
