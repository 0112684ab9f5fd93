//! `load.command`, whole and natively: root and an image are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, real::Real, words};
use std::{fs, path::PathBuf};
use tilemark_record::{
    RunDirectory,
    result::{ComparisonOutcome, RunResult},
    summary::RepeatSummary,
};

/// A scenario with this command, beside the files that it may bring.
fn scenario(home: &Home, command: &str) -> String {
    let text = format!(
        "schema = 1\nname = \"own\"\nabout = \"Own.\"\nheadline = \"own\"\n[[guest]]\nname = \"guest\"\nrole = \"idle\"\n\
         [[load]]\nname = \"own\"\nguest = \"guest\"\n[load.command]\n{command}\n[ladder]\ntiles = [1]\n\
         [measure]\nwarmup = \"1s\"\nlength = \"2s\"\nrepeats = 1\n"
    );
    let path = home.path().join("own.toml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn bring(home: &Home, script: &str) {
    fs::write(home.path().join("bench.sh"), format!("#!/bin/sh\n{script}\n")).unwrap();
}

const FLAGS: [&str; 6] = ["--on", "native", "--offline", "--not-alone", "--json", "--trust"];

/// The result of a run, and the repeats of its record.
fn measured(real: &Real, arguments: &[&str]) -> (RunResult, Vec<RepeatSummary>, PathBuf) {
    let result = real.home.says(&[arguments, &FLAGS].concat()).measured().result();
    let path = real.home.path().join("runs").join(&result.run);
    let record = RunDirectory::at(&path);
    let repeats = record.repeats().unwrap().iter().map(|repeat| repeat.summary().unwrap()).collect();
    (result, repeats, path)
}

#[test]
fn a_command_in_a_guest_is_measured_by_its_lines_and_its_figure_is_compared() {
    let Some(real) = Real::new() else { return };
    bring(&real.home, "while :; do sleep 0.1; echo \"rate $1\"; done");
    let rate = "run = [\"bench.sh\", \"250\"]\nfiles = { \"bench.sh\" = \"bench.sh\" }\nrate = 'rate ([0-9.]+)'\nunit = \"turns\"";
    let path = scenario(&real.home, rate);
    let (_, repeats, folder) = measured(&real, &["run", &path]);
    let load = &repeats[0].loads[0];
    assert_eq!((load.completed, load.unit.as_str(), load.failed), (500, "turns", 0), "{load:?}");
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("turns"), "the page says what is counted");

    bring(&real.home, "sleep 0.2; echo \"took $1 s\"");
    let figure = "run = [\"bench.sh\", \"4\"]\nfiles = { \"bench.sh\" = \"bench.sh\" }\nfigure = 'took ([0-9.]+)'\nunit = \"s\"\nbetter = \"lower\"";
    let path = scenario(&real.home, figure);
    let [a, b] = [4, 8].map(|seconds| format!("load.own.command.run=[\"bench.sh\", \"{seconds}\"]"));
    let short = words("--set measure.repeats=2 --set measure.warmup=0s --set measure.length=1s");
    let sides = [&["ab", &path, "--a", &a, "--b", &b], &short[..]].concat();
    let (result, repeats, _) = measured(&real, &sides);
    let figures: Vec<f64> =
        repeats.iter().filter_map(|repeat| Some(repeat.loads[0].figure.as_ref()?.value)).collect();
    assert!(figures.contains(&4.0) && figures.contains(&8.0), "{figures:?}");
    let compared = result.comparison.unwrap();
    let own = compared.measures.iter().find(|measure| measure.name.starts_with("own figure"));
    if let Some(own) = own {
        assert!(!own.more_is_better && own.outcome != ComparisonOutcome::Better, "{own:?}");
    }
}

#[test]
fn a_command_on_the_host_knows_its_guest_and_needs_trust() {
    let Some(real) = Real::new() else { return };
    let command = "run = [\"/bin/sh\", \"-c\", \"while :; do sleep 0.1; echo at {address} took 2.5; done\"]\n\
                   from = \"host\"\nlatency = 'at 10[.]77[.]1[.]0 took ([0-9.]+)'";
    let path = scenario(&real.home, command);
    let untrusted = real.home.says(&["plan", &path, "--on", "native", "--json"]);
    assert!(untrusted.code == Some(0), "a plan touches nothing: {untrusted:?}");
    let refused = real.home.says(&["run", &path, "--on", "native", "--json"]).ended(2);
    assert!(refused.message().contains("load.own.command.run"));
    let (_, repeats, _) = measured(&real, &["run", &path]);
    let load = &repeats[0].loads[0];
    assert!(load.completed >= 5, "{load:?}");
    assert!(load.latency_ms.max.is_some_and(|max| (max - 2.5).abs() < 0.01), "{:?}", load.latency_ms);
}

/// It runs until it is ended, so that its time is in no account of processes that have ended. Its rounds are short, for a busy machine.
#[test]
fn the_processor_time_of_a_command_on_the_host_is_the_loads() {
    let Some(real) = Real::new() else { return };
    if !fs::read_to_string("/proc/self/mountinfo").unwrap().contains(" cgroup2 ") {
        return common::skipped("no cgroup version 2 tree is mounted");
    }
    let command = "run = [\"/bin/sh\", \"-c\", \"while :; do i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done; echo 1 round; done\"]\n\
                   from = \"host\"\nrate = '([0-9]+) round'";
    let path = scenario(&real.home, command);
    // On a busy machine the reading of the host may begin a second or two late.
    let (_, repeats, _) = measured(&real, &["run", &path, "--set", "measure.length=8s"]);
    let used = &repeats[0].host.processor;
    let threads = std::thread::available_parallelism().unwrap().get() as f64;
    assert!(used.load * threads > 0.1, "its time was not counted as the load's: {used:?}");
}

#[test]
fn a_command_that_gives_nothing_is_named_and_a_missing_file_before_anything_starts() {
    let Some(real) = Real::new() else { return };
    let missing = scenario(&real.home, "run = [\"a\"]\nfiles = { a = \"nowhere\" }\nrate = '([0-9]+)'");
    let refused = real.home.says(&["plan", &missing, "--on", "native", "--trust", "--json"]).ended(2);
    assert!(refused.message().contains("nowhere"));

    let absent = scenario(&real.home, "run = [\"no-such-tool\"]\nrate = '([0-9]+)'");
    let failed = real.home.says(&[&["run", &absent][..], &FLAGS].concat());
    assert!(
        failed.error.contains("no-such-tool") || format!("{failed:?}").contains("no-such-tool"),
        "{failed:?}"
    );

    let unmatched = scenario(
        &real.home,
        "run = [\"/bin/sh\", \"-c\", \"echo hello world; exec sleep 100\"]\nrate = 'tps ([0-9]+)'\nsilence = \"1s\"",
    );
    let (_, repeats, _) = measured_or_failed(&real, &unmatched);
    let incidents = format!("{repeats:?}");
    assert!(incidents.contains("last lines: hello world"), "{incidents}");
}

/// A run whose repeats fail in the guest is a finding, with a record.
fn measured_or_failed(real: &Real, path: &str) -> (Option<i32>, Vec<RepeatSummary>, PathBuf) {
    let said = real.home.says(&[&["run", path][..], &FLAGS].concat());
    let newest = fs::read_dir(real.home.path().join("runs")).unwrap().flatten().map(|run| run.path()).max();
    let folder = newest.unwrap_or_else(|| panic!("no record: {said:?}"));
    let repeats = RunDirectory::at(&folder).repeats().unwrap();
    (said.code, repeats.iter().map(|repeat| repeat.summary().unwrap()).collect(), folder)
}
