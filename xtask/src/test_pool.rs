//! Runs the programs of all tests, several at once: most of a test's time is waiting. Cargo runs one after another.

use crate::idle::idle;
use anyhow::{Context, Result, bail, ensure};
use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    process::{Pid, WaitId, WaitIdOptions, waitid},
};
use serde_json::Value;
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io::{Read, Seek, Write},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

/// Runs before the other tests but those that wait: in an emulated server Tilemark times whether KVM is usable, and much other work on the
/// processors makes that look too slow.
const BEFORE_OTHERS: &str = "xtask/lab";
/// The tests of guests in QEMU, which the lab runs inside; where the lab's tests find them.
const GUESTS_IN_QEMU: (&str, &str) = ("tilemark-guests/emulated", "TILEMARK_TEST_GUESTS_IN_QEMU");
/// Programs that take half a minute or more begin first, or they would end last and alone: about the longest of them first.
const FIRST: [&str; 21] = [
    "tilemark/own_disk",
    "tilemark/fleet",
    "tilemark/native",
    "tilemark-run/tilemark_run",
    "tilemark/emulated",
    "tilemark-guests/emulated",
    "tilemark-report/browser",
    "tilemark-store/databases",
    "tilemark/whole_commands",
    "tilemark/bad_host",
    "tilemark/own_image",
    "tilemark/fleet_attacks",
    "tilemark/trust",
    "tilemark/consolidation",
    "tilemark-broker/clients",
    "tilemark/placement",
    "tilemark/odd_home",
    "tilemark-workloads/tilemark_workloads",
    "tilemark-broker/load",
    "tilemark/command",
    "tilemark/qemu_keys",
];
/// Programs whose tests wait for most of their time, for brokers, databases and machines to start or to end: the longest first. They run
/// one after another beside the lab, and then beside as many others as if they were not there: they want an eighth of a processor.
const WAITING: [&str; 6] = [
    "tilemark/messaging",
    "tilemark/clients",
    "tilemark/oltp",
    "tilemark/host_settings",
    "tilemark/command_load",
    "tilemark-amqp-load/rabbitmq",
];
/// Tests that only compute, by package or program: no guest, no other machine and no clock waits for them. They run on what the
/// others leave of the processors.
const COMPUTING: [&str; 9] = [
    "tilemark-statistics",
    "tilemark-plan",
    "tilemark-fleet/verdict",
    "tilemark-report/golden",
    "tilemark-report/promises",
    "tilemark-record",
    "tilemark-store-data",
    "tilemark-amqp",
    "tilemark-units",
];
/// Programs that make and remove many small files and need nothing of the disk below them: their temporary files are in memory. ext4
/// without a journal prefers other inodes to those of files removed a short time ago, and looks at all of these for each new file
/// (`recently_deleted` in fs/ext4/ialloc.c), so that all other tests wait as well.
const IN_MEMORY: [&str; 2] = ["tilemark-run/tilemark_run", "tilemark-fleet/verdict"];
/// Files of programs in [`IN_MEMORY`]; a folder of every Linux (shm_overview(7)).
const MEMORY: &str = "/dev/shm";
/// Far above what they need there.
const MEMORY_MIN_BYTES: u64 = 1 << 30;
/// Programs at once, beyond one for each processor and one that waits: with as many programs as processors, these idled for a third of the time.
const ONE_MORE: usize = 1;
/// Places in [`TestPrograms::over`].
const WAITING_OVER: usize = 0;
const COMPUTING_OVER: usize = 1;
/// A clock tick of `/proc`, in milliseconds: USER_HZ is 100 on x86-64 (asm-generic/param.h).
const MS_OF_TICK: u64 = 10;
/// So many of the slowest are listed.
const SLOWEST: usize = 12;
/// Between two programs that failed.
const NEXT_PROGRAM: &str = "\n    ";
/// Of a program that failed so many panics are shown at the end, of each so many lines, of each so many characters.
const PANICS_SHOWN: usize = 3;
const PANIC_LINES: usize = 5;
const PANIC_COLUMNS: usize = 200;

/// A program with tests, as cargo built it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TestProgram {
    /// Package and target: `tilemark/native`.
    name: String,
    program: PathBuf,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

impl TestProgram {
    /// Whether this is its name, or that of its package.
    fn is_of(&self, name: &str) -> bool {
        self.name == name || self.name.split_once('/').is_some_and(|(package, _)| package == name)
    }
}

/// The command that starts a program.
type Start = fn(&OsStr) -> Command;

fn plain(program: &OsStr) -> Command {
    Command::new(program)
}

struct Ended {
    name: String,
    took: Duration,
    /// What it and the children that it waited for used of the processors. Keepers of guests are not among them.
    used: Duration,
    failure: Option<String>,
}

/// All programs with tests, in the order in which they begin, and what each finds in its environment.
pub(crate) struct TestPrograms {
    first: Vec<TestProgram>,
    computing: Queue,
    waiting: Queue,
    others: Queue,
    environment: Vec<(&'static str, OsString)>,
    /// Those of the queues that have ended.
    ended: Mutex<Vec<Ended>>,
    /// Set once [`Self::run_waiting`] and [`Self::run_computing`] have ended.
    over: [OnceLock<()>; 2],
}

/// Programs that are to run.
type Queue = Mutex<VecDeque<TestProgram>>;

impl TestPrograms {
    /// The programs in cargo's messages.
    ///
    /// # Errors
    /// What cargo prints is no list of programs, or lacks one that is named here.
    pub(crate) fn new(
        messages_of_cargo: &str,
        mut environment: Vec<(&'static str, OsString)>,
    ) -> Result<Self> {
        let all = in_order(programs(messages_of_cargo)?);
        let (of_guests, variable) = GUESTS_IN_QEMU;
        let listed = [BEFORE_OTHERS, of_guests].into_iter().chain(FIRST).chain(COMPUTING).chain(WAITING);
        for name in listed.chain(IN_MEMORY) {
            ensure!(
                all.iter().any(|program| program.is_of(name)),
                "no test program {name} was built, which xtask/src/test_pool.rs names: correct its name there, or remove it"
            );
        }
        let (first, others): (Vec<TestProgram>, Vec<TestProgram>) =
            all.into_iter().partition(|program| program.name == BEFORE_OTHERS);
        let (computing, others): (Vec<TestProgram>, Vec<TestProgram>) =
            others.into_iter().partition(|program| COMPUTING.iter().any(|name| program.is_of(name)));
        let (waiting, others): (Vec<TestProgram>, Vec<TestProgram>) =
            others.into_iter().partition(|program| WAITING.contains(&program.name.as_str()));
        let of_guests = others.iter().find(|program| program.name == of_guests);
        environment.extend(of_guests.map(|found| (variable, found.program.clone().into_os_string())));
        let [computing, waiting, others] = [computing, waiting, others].map(|of| Mutex::new(of.into()));
        Ok(Self {
            first,
            computing,
            waiting,
            others,
            environment,
            ended: Mutex::default(),
            over: [OnceLock::new(), OnceLock::new()],
        })
    }

    /// Runs those that come before the others.
    ///
    /// # Errors
    /// The names of all that failed.
    pub(crate) fn run_first(&self) -> Result<()> {
        let ended: Vec<Ended> =
            self.first.iter().map(|program| run_one(program, plain, &self.environment)).collect();
        outcome(&ended)
    }

    /// Runs those that only compute, where they disturb no other: one for each processor, because the other tests have usually ended by
    /// then.
    ///
    /// # Errors
    /// The names of all that failed.
    pub(crate) fn run_computing(&self) -> Result<()> {
        let work = || self.until_empty(&[&self.computing], idle);
        let outcome = thread::scope(|scope| joined((0..processors()).map(|_| scope.spawn(work)).collect()));
        self.over[COMPUTING_OVER].get_or_init(|| ());
        outcome
    }

    /// Runs those that wait, one after another.
    ///
    /// # Errors
    /// The names of all that failed.
    pub(crate) fn run_waiting(&self) -> Result<()> {
        let outcome = self.until_empty(&[&self.waiting], plain);
        self.over[WAITING_OVER].get_or_init(|| ());
        outcome
    }

    /// Runs the others, and what is left of those that wait. Once [`Self::run_waiting`] or [`Self::run_computing`] has ended, which other
    /// threads call, its place is taken by others.
    ///
    /// # Errors
    /// The names of all that failed.
    pub(crate) fn run_others(&self) -> Result<()> {
        thread::scope(|scope| {
            let work = || self.until_empty(&[&self.others, &self.waiting], plain);
            let mut started: Vec<_> = (0..processors() + ONE_MORE).map(|_| scope.spawn(work)).collect();
            started.extend(self.over.iter().map(|over| {
                scope.spawn(move || {
                    // Once the others are under way or over, nothing is left for this place.
                    while over.get().is_none() && has_any(&self.others) {
                        thread::sleep(Duration::from_millis(200));
                    }
                    work()
                })
            }));
            joined(started)
        })
    }

    /// Runs programs of the first queue that has one, until all are empty, whatever some of them do.
    fn until_empty(&self, queues: &[&Queue], command: Start) -> Result<()> {
        let mut ended = Vec::new();
        while let Some(program) = queues.iter().find_map(|queue| next(queue)) {
            ended.push(run_one(&program, command, &self.environment));
        }
        let outcome = outcome(&ended);
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).extend(ended);
        outcome
    }

    /// Lists the slowest of those that have ended.
    pub(crate) fn list_slowest(&self) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.sort_by_key(|one| std::cmp::Reverse(one.took));
        println!(
            "\n-- the slowest of {} test programs, in seconds: its time, that of processors",
            ended.len()
        );
        for one in ended.iter().take(SLOWEST) {
            println!("{:>7.1} {:>7.1}  {}", one.took.as_secs_f64(), one.used.as_secs_f64(), one.name);
        }
        let used: Duration = ended.iter().map(|one| one.used).sum();
        println!("all: {:.1} s of processor time; several run at once", used.as_secs_f64());
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Waits for workers; the failures of all.
fn joined(workers: Vec<ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    let failed: Vec<String> = workers
        .into_iter()
        .filter_map(|worker| {
            worker.join().map_or_else(
                |_| Some("a worker panicked".to_owned()),
                |outcome| Some(outcome.err()?.to_string()),
            )
        })
        .collect();
    if failed.is_empty() { Ok(()) } else { bail!(failed.join(NEXT_PROGRAM)) }
}

fn has_any(queue: &Queue) -> bool {
    !queue.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
}

/// The lock is free again when this returns, which it would not be in the condition of a loop.
fn next(queue: &Queue) -> Option<TestProgram> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// The programs among cargo's messages, one JSON document a line.
fn programs(messages: &str) -> Result<Vec<TestProgram>> {
    let mut programs = Vec::new();
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).with_context(|| format!("cargo printed {line}"))?;
        let (Some(program), Some(manifest)) =
            (message["executable"].as_str(), message["manifest_path"].as_str())
        else {
            continue;
        };
        if message["profile"]["test"] != true {
            continue;
        }
        let folder = Path::new(manifest).parent().context("a manifest is in a folder")?.to_owned();
        let package = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let target = message["target"]["name"].as_str().unwrap_or_default();
        programs.push(TestProgram { name: format!("{package}/{target}"), program: program.into(), folder });
    }
    if programs.is_empty() { bail!("cargo built no tests") } else { Ok(programs) }
}

fn in_order(mut programs: Vec<TestProgram>) -> Vec<TestProgram> {
    let listed = [&FIRST[..], &WAITING].concat();
    let place = |program: &TestProgram| listed.iter().position(|name| *name == program.name);
    programs.sort_by_key(|program| place(program).unwrap_or(listed.len()));
    programs
}

/// Runs one to its end and prints all its output in one piece.
fn run_one(test: &TestProgram, command: Start, environment: &[(&str, OsString)]) -> Ended {
    let began = Instant::now();
    let ended = output_of(test, command, environment);
    let took = began.elapsed();
    let (failure, used, output) = match ended {
        Ok((status, used, output)) => {
            ((!status.success()).then(|| format!("({status}){}", panics(&output))), used, output)
        }
        Err(error) => (Some(format!("({error})")), Duration::ZERO, Vec::new()),
    };
    let mut text = format!("\n-- {} ({:.1} s)\n", test.name, took.as_secs_f64()).into_bytes();
    text.extend(output);
    // Where nobody reads the output, the result still counts.
    let _ = std::io::stdout().lock().write_all(&text);
    Ended { name: test.name.clone(), took, used, failure }
}

/// How it ended, what it used of the processors, and what it printed.
fn output_of(
    test: &TestProgram,
    command: Start,
    environment: &[(&str, OsString)],
) -> std::io::Result<(ExitStatus, Duration, Vec<u8>)> {
    let mut output = tempfile::tempfile()?;
    let mut command = command(test.program.as_os_str());
    command.current_dir(&test.folder).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    command.env("CARGO_MANIFEST_DIR", &test.folder);
    command.envs(environment.iter().map(|(name, value)| (OsStr::new(name), value)));
    if IN_MEMORY.contains(&test.name.as_str()) && has_memory() {
        command.env("TMPDIR", MEMORY);
    }
    let mut child = command.spawn()?;
    // Its account is gone once somebody has waited for it.
    waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    let used = processor_time(&std::fs::read_to_string(format!("/proc/{}/stat", child.id()))?);
    let status = child.wait()?;
    let mut text = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut text)?;
    Ok((status, used, text))
}

/// Whether files can be in memory. Containers often have a small folder for that, from which nothing may be executed.
fn has_memory() -> bool {
    statvfs(MEMORY).is_ok_and(|found| {
        let is_executable = !found.f_flag.contains(StatVfsMountFlags::NOEXEC);
        is_executable && found.f_bavail.saturating_mul(found.f_frsize) >= MEMORY_MIN_BYTES
    })
}

/// The processor time of a process and of those of its children that have ended, from its `/proc/PID/stat` (proc(5): fields 14 to 17,
/// after a name that may hold anything).
fn processor_time(stat: &str) -> Duration {
    let after_name = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks: u64 =
        after_name.split(' ').skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * MS_OF_TICK)
}

fn outcome(ended: &[Ended]) -> Result<()> {
    let failed: Vec<String> = ended
        .iter()
        .filter_map(|one| one.failure.as_ref().map(|failure| format!("{} {failure}", one.name)))
        .collect();
    if failed.is_empty() { Ok(()) } else { bail!(failed.join(NEXT_PROGRAM)) }
}

/// How the first panics of a test program begin, each on lines of its own: its output is far above in the log.
fn panics(output: &[u8]) -> String {
    let (mut shown, mut panics, mut lines_left) = (String::new(), 0, 0);
    for line in String::from_utf8_lossy(output).lines() {
        if line.starts_with("thread '") && line.contains("panicked at") {
            panics += 1;
            lines_left = if panics > PANICS_SHOWN { 0 } else { PANIC_LINES };
        }
        if line.is_empty() {
            lines_left = 0;
        }
        if lines_left > 0 {
            lines_left -= 1;
            shown.push_str("\n      ");
            shown.extend(line.chars().take(PANIC_COLUMNS));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(package: &str, target: &str, test: bool) -> String {
        let manifest = format!("/w/{package}/Cargo.toml");
        let program = format!("/t/{target}");
        serde_json::json!({"reason": "compiler-artifact", "executable": program, "manifest_path": manifest,
            "profile": {"test": test}, "target": {"name": target}})
        .to_string()
    }

    #[test]
    fn every_test_program_is_run_once_the_longest_first() {
        let other = "{\"reason\":\"build-finished\",\"success\":true}".to_owned();
        let messages = [
            artifact("a", "a", true),
            artifact("a", "a", false),
            artifact("tilemark", "native", true),
            other,
        ]
        .join("\n");
        let names: Vec<String> =
            in_order(programs(&messages).unwrap()).into_iter().map(|program| program.name).collect();
        assert_eq!(names, ["tilemark/native", "a/a"]);
        assert!(programs("{}").is_err() && programs("no JSON").is_err());
    }

    #[test]
    fn the_lab_comes_first_and_gets_the_program_that_runs_inside_it_and_a_name_that_is_wrong_is_named() {
        let message = |name: &str| {
            let (package, target) = name.split_once('/').unwrap();
            artifact(package, target, true)
        };
        let computing =
            COMPUTING.map(|name| if name.contains('/') { name.to_owned() } else { format!("{name}/x") });
        let named: Vec<String> = FIRST
            .into_iter()
            .chain([BEFORE_OTHERS])
            .chain(WAITING)
            .map(str::to_owned)
            .chain(computing)
            .collect();
        assert!(IN_MEMORY.iter().all(|name| named.iter().any(|listed| listed == name)), "{named:?}");
        let messages: Vec<String> = named.iter().map(|name| message(name)).collect();
        let programs = TestPrograms::new(&messages.join("\n"), Vec::new()).unwrap();
        assert_eq!(
            programs.first.iter().map(|program| program.name.as_str()).collect::<Vec<_>>(),
            [BEFORE_OTHERS]
        );
        let names = |queue: Queue| queue.into_inner().unwrap().into_iter().map(|program| program.name);
        assert_eq!(
            (names(programs.computing).len(), names(programs.others).len()),
            (COMPUTING.len(), FIRST.len())
        );
        assert!(names(programs.waiting).eq(WAITING));
        assert_eq!(programs.environment, [("TILEMARK_TEST_GUESTS_IN_QEMU", OsString::from("/t/emulated"))]);
        let error = TestPrograms::new(&messages[1..].join("\n"), Vec::new()).err().unwrap().to_string();
        assert!(error.starts_with(&format!("no test program {} was built", FIRST[0])), "{error}");
    }

    fn shell(name: &str, script: &str) -> (tempfile::TempDir, TestProgram) {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("test");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let test = TestProgram { name: name.to_owned(), program, folder: folder.path().to_owned() };
        (folder, test)
    }

    #[test]
    fn what_a_program_and_its_children_used_is_read_from_its_account() {
        let stat = "7 (a) b (c) Z 1 7 7 0 -1 0 0 0 0 0 150 50 20 5 20 0 1 0";
        assert_eq!(processor_time(stat), Duration::from_millis(2250));
        let busy = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
        let (_folder, busy) = shell("busy", &format!("echo out; echo err >&2; ( {busy} )"));
        let (status, used, output) = output_of(&busy, idle, &[]).unwrap();
        assert!(status.success() && used > Duration::ZERO, "{used:?}");
        assert_eq!(output, b"out\nerr\n");
    }

    #[test]
    fn each_program_runs_once_whichever_row_it_is_in_and_each_failure_is_named() {
        let made = ["a", "b", "c", "d", "e"].map(|name| shell(name, "exit 1"));
        let [waiting, others, computing] = [&made[..1], &made[1..3], &made[3..]]
            .map(|row| Mutex::new(row.iter().map(|(_, program)| program.clone()).collect::<VecDeque<_>>()));
        let (first, environment) = (Vec::new(), Vec::new());
        let (ended, over) = (Mutex::default(), Default::default());
        let programs = TestPrograms { first, computing, waiting, others, environment, ended, over };
        let outcomes = thread::scope(|scope| {
            let beside = [scope.spawn(|| programs.run_waiting()), scope.spawn(|| programs.run_computing())];
            let others = programs.run_others();
            let [waiting, computing] = beside.map(|row| row.join().unwrap());
            [waiting, others, computing]
        });
        let errors =
            outcomes.map(|outcome| outcome.err().map_or_else(String::new, |error| error.to_string()));
        let errors = errors.concat();
        let ended = programs.ended.into_inner().unwrap();
        assert_eq!((ended.len(), errors.matches(" (exit status: 1)").count()), (5, 5), "{errors}");
    }

    #[test]
    fn temporary_files_are_in_memory_where_they_are_many_and_small() {
        for (name, code) in [(IN_MEMORY[0], i32::from(!has_memory())), ("other", 1)] {
            let (_folder, test) = shell(name, &format!("[ \"$TMPDIR\" = {MEMORY} ]"));
            let (status, ..) = output_of(&test, plain, &[("TMPDIR", OsString::from("/tmp"))]).unwrap();
            assert_eq!(status.code(), Some(code), "{name}");
        }
    }

    #[test]
    fn one_failure_fails_all_and_is_named_and_no_other_is() {
        let environment = [("WORD", OsString::from("x"))];
        let (_good_folder, good) =
            shell("good", "[ \"$WORD\" = x ] && [ \"$PWD\" = \"$CARGO_MANIFEST_DIR\" ]");
        let (_bad_folder, bad) = shell("bad", "exit 3");
        let ended = vec![run_one(&good, plain, &environment), run_one(&bad, idle, &environment)];
        assert_eq!(outcome(&ended).unwrap_err().to_string(), "bad (exit status: 3)");
    }

    #[test]
    fn how_the_panics_of_failed_programs_begin_is_shown_with_them() {
        let panicked = |name: &str, output: &str| {
            let (_folder, test) = shell(name, &format!("printf '{output}'; exit 101"));
            run_one(&test, plain, &[])
        };
        let panic = |name: &str| format!("thread \\047{name}\\047 (7) panicked at a.rs:1:\\n");
        let two = format!("noise\\n{} left: 42\\n{}1\\n2\\n3\\n4\\n5\\n", panic("a"), panic("b"));
        let many = format!("{}\\nnoise\\n", panic("c")).repeat(PANICS_SHOWN + 1);
        let failed = outcome(&[panicked("one", &two), panicked("two", &many)]).unwrap_err().to_string();
        let wanted = "one (exit status: 101)
      thread 'a' (7) panicked at a.rs:1:
       left: 42
      thread 'b' (7) panicked at a.rs:1:
      1
      2
      3
      4
    two (exit status: 101)"
            .to_owned()
            + &"\n      thread 'c' (7) panicked at a.rs:1:".repeat(PANICS_SHOWN);
        assert_eq!(failed, wanted);
    }
}
