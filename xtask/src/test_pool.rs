//! Runs the programs of all tests, several at once: most of a test's time is waiting. Cargo runs one after another.

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    io::Write,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Runs before the other tests: in an emulated server Tilemark times whether KVM is usable, and other work on the processors makes
/// that look too slow.
const BEFORE_OTHERS: &str = "xtask/lab";
/// The tests of guests in QEMU, which the lab runs inside; where the lab's tests find them.
const GUESTS_IN_QEMU: (&str, &str) = ("tilemark-guests/emulated", "TILEMARK_TEST_GUESTS_IN_QEMU");
/// Programs that take minutes begin first, or they would end last and alone: the longest of them first.
const FIRST: [&str; 20] = [
    "tilemark/native",
    "tilemark/messaging",
    "tilemark/own_disk",
    "tilemark/clients",
    "tilemark/host_settings",
    "tilemark-guests/emulated",
    "tilemark/emulated",
    "tilemark/whole_commands",
    "tilemark/oltp",
    "tilemark/bad_host",
    "tilemark/odd_home",
    "tilemark-image/image",
    "tilemark-run/tilemark_run",
    "tilemark/fleet",
    "tilemark/fleet_attacks",
    "tilemark-broker/clients",
    "tilemark-report/browser",
    "tilemark-store/databases",
    "tilemark-amqp-load/rabbitmq",
    "tilemark-amqp-load/broker_j",
];
/// Programs at once, for each processor.
const FOR_EACH_PROCESSOR: usize = 1;
/// So many of the slowest are listed.
const SLOWEST: usize = 12;

/// A program with tests, as cargo built it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TestProgram {
    /// Package and target: `tilemark/native`.
    name: String,
    program: PathBuf,
    /// The folder of its package, where cargo runs it.
    folder: PathBuf,
}

struct Ended {
    name: String,
    took: Duration,
    failure: Option<String>,
}

/// All programs with tests, in the order in which they begin, and what each finds in its environment.
pub(crate) struct TestPrograms {
    first: Vec<TestProgram>,
    others: Vec<TestProgram>,
    environment: Vec<(&'static str, OsString)>,
}

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
        for name in [BEFORE_OTHERS, of_guests].into_iter().chain(FIRST) {
            ensure!(
                all.iter().any(|program| program.name == name),
                "no test program {name} was built, which xtask/src/test_pool.rs names: correct its name there, or remove it"
            );
        }
        let (first, others): (Vec<TestProgram>, Vec<TestProgram>) =
            all.into_iter().partition(|program| program.name == BEFORE_OTHERS);
        let of_guests = others.iter().find(|program| program.name == of_guests);
        environment.extend(of_guests.map(|found| (variable, found.program.clone().into_os_string())));
        Ok(Self { first, others, environment })
    }

    /// Runs those that come before the others.
    ///
    /// # Errors
    /// The names of all that failed.
    pub(crate) fn run_first(&self) -> Result<()> {
        let ended: Vec<Ended> =
            self.first.iter().map(|program| run_one(program, &self.environment)).collect();
        outcome(&ended)
    }

    /// Runs the others, whatever some of them do, and lists the slowest.
    ///
    /// # Errors
    /// The names of all that failed.
    pub(crate) fn run_others(&self) -> Result<()> {
        let workers = FOR_EACH_PROCESSOR * thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let (waiting, ended) = (Mutex::new(VecDeque::from_iter(&self.others)), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(program) = next(&waiting) {
                        let one = run_one(program, &self.environment);
                        ended.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                    }
                });
            }
        });
        let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        list_slowest(&mut ended);
        outcome(&ended)
    }
}

/// The lock is free again when this returns, which it would not be in the condition of a loop.
fn next<'a>(waiting: &Mutex<VecDeque<&'a TestProgram>>) -> Option<&'a TestProgram> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
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
    let place = |program: &TestProgram| FIRST.iter().position(|name| *name == program.name);
    programs.sort_by_key(|program| place(program).unwrap_or(FIRST.len()));
    programs
}

/// Runs one to its end and prints all its output in one piece.
fn run_one(test: &TestProgram, environment: &[(&str, OsString)]) -> Ended {
    let began = Instant::now();
    let mut command = Command::new(&test.program);
    command.current_dir(&test.folder).stdin(Stdio::null());
    command.env("CARGO_MANIFEST_DIR", &test.folder);
    command.envs(environment.iter().map(|(name, value)| (OsStr::new(name), value)));
    let output = command.output();
    let took = began.elapsed();
    let failure = match &output {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(output.status.to_string()),
        Err(error) => Some(error.to_string()),
    };
    let mut text = format!("\n-- {} ({:.1} s)\n", test.name, took.as_secs_f64()).into_bytes();
    if let Ok(output) = output {
        text.extend(output.stdout);
        text.extend(output.stderr);
    }
    // Where nobody reads the output, the result still counts.
    let _ = std::io::stdout().lock().write_all(&text);
    Ended { name: test.name.clone(), took, failure }
}

fn list_slowest(ended: &mut [Ended]) {
    ended.sort_by_key(|one| std::cmp::Reverse(one.took));
    println!("\n-- the slowest of {} test programs, in seconds; several run at once", ended.len());
    for one in ended.iter().take(SLOWEST) {
        println!("{:>7.1}  {}", one.took.as_secs_f64(), one.name);
    }
}

fn outcome(ended: &[Ended]) -> Result<()> {
    let failed: Vec<String> = ended
        .iter()
        .filter_map(|one| one.failure.as_ref().map(|failure| format!("{} ({failure})", one.name)))
        .collect();
    if failed.is_empty() { Ok(()) } else { bail!("tests failed: {}", failed.join(", ")) }
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
        let named: Vec<&str> = FIRST.into_iter().chain([BEFORE_OTHERS]).collect();
        let messages: Vec<String> = named.iter().map(|name| message(name)).collect();
        let programs = TestPrograms::new(&messages.join("\n"), Vec::new()).unwrap();
        assert_eq!(
            programs.first.iter().map(|program| program.name.as_str()).collect::<Vec<_>>(),
            [BEFORE_OTHERS]
        );
        assert_eq!(programs.others.len(), FIRST.len());
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
    fn one_failure_fails_all_and_is_named_and_no_other_is() {
        let environment = [("WORD", OsString::from("x"))];
        let (_good_folder, good) =
            shell("good", "[ \"$WORD\" = x ] && [ \"$PWD\" = \"$CARGO_MANIFEST_DIR\" ]");
        let (_bad_folder, bad) = shell("bad", "exit 3");
        let ended = vec![run_one(&good, &environment), run_one(&bad, &environment)];
        assert_eq!(outcome(&ended).unwrap_err().to_string(), "tests failed: bad (exit status: 3)");
    }
}
