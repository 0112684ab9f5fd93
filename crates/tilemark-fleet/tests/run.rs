//! A fleet run of hosts that shells of this machine play.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

mod played;

use flate2::{Compression, write::GzEncoder};
use played::Played;
use std::{env, fs, io::Write, os::unix::fs::PermissionsExt, process::Command, sync::Mutex, time::Duration};
use tilemark_fleet::{End, Engine, Step, Watch, verdict};

#[test]
fn a_host_waits_for_its_turn_also_when_the_command_waits_no_longer() {
    let played = Played::new(&["n1", "n2", "n3"], Some(1), "");
    played.file("wait", b"");
    let none = Watch { at_most: Some(Duration::ZERO), ..Watch::default() };
    played.run(none, &|_| ()).unwrap();
    assert_eq!((played.at(Step::Submitted), played.at(Step::Waiting)), (1, 2));
    // The same again: the one that measures has the turn.
    played.run(none, &|_| ()).unwrap();
    assert_eq!((played.at(Step::Submitted), played.at(Step::Waiting)), (1, 2));
    fs::remove_file(played.home.path().join("wait")).unwrap();
    played.run(Watch::default(), &|_| ()).unwrap();
    assert_eq!(played.at(Step::Over), 3);
}

#[test]
fn hosts_that_measure_in_turn_are_not_all_submitted_by_a_command_that_does_not_wait() {
    let played = Played::new(&["n1", "n2", "n3"], Some(1), "");
    let error = played.run(Watch { detach: true, ..Watch::default() }, &|_| ()).unwrap_err();
    assert!(error.to_string().contains("at most 1 host"), "{error}");
    assert_eq!(played.at(Step::Waiting), 3);
}

#[test]
fn a_fleet_run_that_goes_on_may_be_given_another_number_of_turns() {
    let played = Played::new(&["n1", "n2", "n3"], None, "");
    played.file("wait", b"");
    // One of them has its work from an earlier command: it has the turn, wherever it is in the order.
    let mut fleet = played.folder.read().unwrap();
    for number in 0..3 {
        fleet.hosts.iter_mut().for_each(|host| host.step = Step::Waiting);
        fleet.hosts[number].step = Step::Submitting;
        played.folder.write(&fleet).unwrap();
        let watch = Watch { at_once: Some(1), at_most: Some(Duration::ZERO), ..Watch::default() };
        played.run(watch, &|_| ()).unwrap();
        let hosts = played.folder.read().unwrap().hosts;
        assert_eq!((hosts[number].step, played.at(Step::Waiting)), (Step::Submitted, 2));
        assert_eq!(played.folder.read().unwrap().at_once, Some(1));
    }
}

#[test]
fn one_host_with_a_damaged_archive_stops_no_other() {
    let played = Played::new(&["n1", "n2", "n3"], None, "");
    let mut archive = GzEncoder::new(Vec::new(), Compression::fast());
    archive.write_all(&[b'x'; 2048]).unwrap();
    played.file("hosts/n2/archive", &archive.finish().unwrap());
    played.run(Watch::default(), &|_| ()).unwrap();
    let found = verdict::of(played.folder.path()).unwrap();
    let ends: Vec<(&str, End)> = found.hosts.iter().map(|host| (&*host.name, host.end)).collect();
    assert_eq!(ends, [("n1", End::Unfit), ("n2", End::NoAnswer), ("n3", End::Unfit)]);
    let because = &found.hosts[1].because;
    assert!(because.starts_with("its record is not whole: ") && because.contains("on n2"), "{because}");
}

/// Set where this test program is a process of its own, with a queue that a script plays.
const QUEUE: &str = "TILEMARK_TEST_QUEUE";

#[test]
fn a_job_that_is_held_or_beyond_a_limit_never_starts_and_its_reason_is_printed_once() {
    let Some(lines) = env::var_os(QUEUE) else {
        let folder = tempfile::tempdir().unwrap();
        let squeue = folder.path().join("squeue");
        fs::write(&squeue, format!("#!/bin/sh\ncat \"${QUEUE}\"\n")).unwrap();
        fs::set_permissions(&squeue, PermissionsExt::from_mode(0o755)).unwrap();
        let name = "a_job_that_is_held_or_beyond_a_limit_never_starts_and_its_reason_is_printed_once";
        let mut path = folder.path().as_os_str().to_owned();
        path.push(":");
        path.push(env::var_os("PATH").unwrap());
        let mut alone = Command::new(env::current_exe().unwrap());
        alone.args(["--exact", name]).env("PATH", path).env(QUEUE, folder.path().join("lines"));
        let output = alone.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
        return;
    };
    let engine = Engine::Slurm { partition: None, over_ssh: false };
    let played = Played::with(tempfile::tempdir().unwrap(), engine, &["n1", "n2", "n3"], None);
    played.submitted();
    let id = played.folder.read().unwrap().id;
    let states = ["PENDING|JobHeldUser", "REQUEUE_HOLD|None", "PENDING|QOSMaxWallDurationPerJobLimit"];
    let queue: String =
        (1..).zip(states).map(|(n, state)| format!("tilemark-{id}-n{n}|{n}|{state}\n")).collect();
    fs::write(lines, queue).unwrap();
    let notes = Mutex::new(Vec::new());
    // Long enough for `lost_after`; without the rule the jobs are waited for until then.
    let watch = Watch { at_most: Some(Duration::from_secs(30)), ..Watch::default() };
    played.run(watch, &|note| notes.lock().unwrap().push(note.to_owned())).unwrap();
    for (host, reason) in played.folder.read().unwrap().hosts.iter().zip([
        "Slurm's job 1 is PENDING (JobHeldUser); ",
        "Slurm's job 2 is REQUEUE_HOLD (None); ",
        "Slurm's job 3 is PENDING (QOSMaxWallDurationPerJobLimit); ",
    ]) {
        let end = host.end.as_ref().unwrap_or_else(|| panic!("{} has no end", host.name));
        assert_eq!(end.end, End::NeverStarted);
        assert!(end.because.starts_with(reason), "{end:?}");
        let printed = format!("{}: {}", host.name, reason.trim_end_matches("; "));
        assert_eq!(notes.lock().unwrap().iter().filter(|note| **note == printed).count(), 1, "{notes:?}");
    }
}

/// Plays systemd: it notes its words, and runs what it is asked to in the environment that a unit would have.
const SYSTEMD_RUN: &str = r#"#!/bin/sh
for word; do echo "$word"; done >"$TILEMARK_HOME/words"
home=
while [ "$1" != sh ]; do
    [ "$1" != --setenv ] || home=$2
    shift
done
[ -n "$home" ] || exit 1
env -i "PATH=$PATH" "$home" setsid "$@" </dev/null >/dev/null 2>&1 &
"#;

#[test]
fn a_host_with_systemd_runs_its_work_as_a_unit_that_knows_its_home() {
    // A host that was booted by systemd has a folder that this machine need not have.
    let has_systemd = "exec unshare --mount --propagation private sh -c 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec sh'";
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        println!("skipped: a mount namespace needs root");
        return;
    }
    let played = Played::new(&["n1"], None, has_systemd);
    let systemd_run = played.file("bin/systemd-run", SYSTEMD_RUN.as_bytes());
    fs::set_permissions(&systemd_run, PermissionsExt::from_mode(0o755)).unwrap();
    played.run(Watch::default(), &|_| ()).unwrap();
    assert_eq!(played.at(Step::Over), 1);
    let (id, home) =
        (played.folder.read().unwrap().id, played.home.path().join("hosts/n1").display().to_string());
    let words = fs::read_to_string(format!("{home}/words")).unwrap();
    let unit = format!("tilemark-fleet-{id}-n1");
    let (setenv, job) = (format!("TILEMARK_HOME={home}"), format!("{home}/fleet-jobs/{id}/n1/job.sh"));
    let expected = ["--quiet", "--collect", "--unit", &unit, "--setenv", &setenv, "sh", &job];
    assert_eq!(words.lines().collect::<Vec<&str>>(), expected);
    let found = verdict::of(played.folder.path()).unwrap();
    assert_eq!(found.hosts[0].end, End::Unfit, "its work ran: {}", found.hosts[0].because);
}
