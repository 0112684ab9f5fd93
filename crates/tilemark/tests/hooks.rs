//! Hooks around the measured seconds, whole and natively: root and an image are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Home, Line,
    real::{Process, Real},
    words,
};
use rustix::process::Signal;
use std::{collections::BTreeMap, fs, path::Path};
use tilemark_record::{result::VerdictStatus, summary::HookKind};

static RUN: Line = Line::new(|| {
    words(
        "run web --on native --offline --tiles 1 --set measure.repeats=1 --set measure.warmup=1s --json \
         --not-alone",
    )
});

/// Variables of ours in what a hook printed.
fn variables(folder: &Path, name: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder.join(name)).unwrap();
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    text.lines().filter_map(pair).filter(|(name, _)| name.starts_with("TILEMARK_")).collect()
}

#[test]
fn hooks_run_around_the_measured_seconds_with_the_guests_pids_and_are_gone() {
    let Some(real) = Real::new() else { return };
    // A profiler that uses a processor, and writes its data on SIGINT.
    let before = "trap 'echo data > $TILEMARK_REPEAT_FOLDER/profile; exit 130' INT; env; \
                  cat /proc/$TILEMARK_PIDS/cmdline | tr '\\0' ' '; while :; do :; done";
    let after = "cat $TILEMARK_REPEAT_FOLDER/profile; env; ls /proc/$TILEMARK_PIDS/cmdline; exit 3";
    let hooks = ["--hook-before", before, "--hook-after", after, "--set", "measure.length=2s"];
    let (mut running, under_way) = real.begin(&[&RUN[..], &hooks].concat());
    let group = under_way.cgroup.clone().unwrap();
    running.until("a hook", |_| {
        let processes = fs::read_to_string(group.join("hooks/cgroup.procs")).ok()?;
        (!processes.is_empty()).then_some(())
    });
    let processes = Process::descendants(running.child.id() as i32);
    let said = running.said().ended(5);
    assert!(said.error.contains("--hook-after failed: it ended with exit code 3"), "{said:?}");
    let result = said.result();
    // Not trusted where other work of this host discarded the repeat.
    assert_ne!(result.verdict.status, VerdictStatus::Trusted);
    let reasons = result.verdict.reasons.join("; ");
    assert!(reasons.contains("hooks used up to"), "{reasons}");
    assert_eq!(result.provenance.hooks.before.as_deref(), Some(before));

    let record = real.record(&under_way.id);
    let files = &record.repeats().unwrap()[0];
    let summary = files.summary().unwrap();
    let ran: Vec<_> = summary.hooks.iter().map(|run| (run.hook, run.failed.is_some())).collect();
    assert_eq!(ran, [(HookKind::Before, false), (HookKind::After, true)], "{:?}", summary.hooks);
    assert!(summary.hooks[0].seconds > 1.5, "it ran for the measured seconds: {:?}", summary.hooks);
    assert!(summary.host.processor.hooks > 0.01, "a busy hook: {:?}", summary.host.processor);
    let given = variables(files.path(), "hook-before.txt");
    assert_eq!(given["TILEMARK_GUESTS"], "tile-001-web", "{given:?}");
    assert_eq!((given["TILEMARK_REPEAT"].as_str(), given["TILEMARK_BACKEND"].as_str()), ("1", "native"));
    let repeat = fs::canonicalize(files.path()).unwrap();
    assert_eq!(fs::canonicalize(&given["TILEMARK_REPEAT_FOLDER"]).unwrap(), repeat);
    let own: u32 = given["TILEMARK_PIDS"].parse().unwrap();
    let hosts: i32 = given["TILEMARK_HOST_PIDS"].parse().unwrap();
    assert!(given["TILEMARK_ALL_PIDS"].split(',').count() > 1, "a web server has processes: {given:?}");
    assert!(processes.iter().any(|process| process.pid == hosts), "{hosts} of {processes:#?}");
    assert_ne!(i64::from(own), i64::from(hosts), "a number of the run's namespace and one of the host's");
    let text = fs::read_to_string(files.path().join("hook-before.txt")).unwrap();
    assert!(text.contains("tilemark-agent twin"), "the pid is that of the twin: {text}");
    let after = fs::read_to_string(files.path().join("hook-after.txt")).unwrap();
    assert!(after.starts_with("data\n"), "the data of the first is there: {after}");
    assert!(after.contains(&format!("/proc/{own}/cmdline")), "its guests are still there: {after}");
    let page = fs::read_to_string(record.path().join("report.html")).unwrap();
    assert!(page.contains("Hook before") && page.contains("--hook-after failed"), "the report names both");
    real.all_gone(&processes, &[group]);
}

#[test]
fn a_killed_command_leaves_nothing_of_a_hook() {
    let Some(real) = Real::new() else { return };
    let before = "setsid sleep 4321 & trap '' INT TERM; sleep 4321";
    let hooks = ["--hook-before", before, "--set", "measure.length=60s"];
    let (mut running, under_way) = real.begin(&[&RUN[..], &hooks].concat());
    let group = under_way.cgroup.clone().unwrap();
    let keeper = i32::try_from(under_way.keeper.unwrap()).unwrap();
    let of_hook = |processes: &std::collections::BTreeSet<Process>| {
        processes.iter().filter(|process| process.name == "sleep").count() == 2
    };
    let processes = running.until("a hook with its child", |_| {
        Some(Process::descendants(keeper)).filter(|found| of_hook(found))
    });
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    real.all_gone(&processes, &[group]);
}

#[test]
fn an_empty_hook_is_refused() {
    Home::new()
        .says(&["run", "web", "--on", "native", "--hook-before", ""])
        .ended(2)
        .with_error("--hook-before");
}
