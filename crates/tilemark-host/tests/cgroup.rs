//! Control groups on this host's kernel. Needs root and a version 2 tree.
#![allow(missing_docs, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use tilemark_host::HostError;
use tilemark_host::cgroup::Group;

const TIMEOUT: Duration = Duration::from_secs(600);

/// A group of this test's own, or the reason why there is none.
fn group(name: &str) -> Option<Group> {
    match Group::create(&format!("tilemark-test-{}-{name}", std::process::id())) {
        Ok(group) => Some(group),
        Err(error) => {
            let reason = format!("{error}: {:?}; {}", std::error::Error::source(&error), error.remedy());
            tilemark_fixtures::skipped(&reason);
            None
        }
    }
}

#[test]
fn a_group_ends_every_process_and_goes_away() {
    let Some(group) = group("end") else { return };
    let below = group.create_child("below").unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    below.add(child.id()).unwrap();
    assert_eq!(below.processes().unwrap(), [child.id()]);
    assert!(matches!(group.wait_until_empty(Duration::ZERO), Err(HostError::GroupStillPopulated { .. })));
    assert!(group.remove().is_err(), "a group with a process in it was removed");
    group.end(TIMEOUT).unwrap();
    assert!(!group.exists());
    child.wait().unwrap();
    group.end(TIMEOUT).unwrap(); // ending what is gone is no error
}

#[test]
fn a_child_in_a_session_of_its_own_does_not_escape() {
    let Some(group) = group("session") else { return };
    // The shell waits until it is in the group, forks a session leader, says so and waits to be killed.
    let script = "read go; setsid sleep 1000 >&- & echo forked; exec sleep 1000 >&-";
    let mut command = Command::new("sh");
    let mut shell =
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    group.add(shell.id()).unwrap();
    shell.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut said = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "forked\n");
    assert_eq!(group.processes().unwrap().len(), 2);
    group.end(TIMEOUT).unwrap();
    shell.wait().unwrap();
    assert!(!group.exists());
}

#[test]
fn two_that_end_a_group_at_once_both_succeed() {
    let Some(parent) = group("two") else { return };
    for round in 0..200 {
        let group = parent.create_child(&format!("round-{round}")).unwrap();
        group.create_child("engine").unwrap();
        let barrier = std::sync::Barrier::new(2);
        let end = || {
            barrier.wait();
            group.end(TIMEOUT)
        };
        let both =
            std::thread::scope(|scope| [scope.spawn(end), scope.spawn(end)].map(|one| one.join().unwrap()));
        assert!(both.iter().all(Result::is_ok), "round {round}: {both:?}");
        assert!(!group.exists());
    }
    parent.end(TIMEOUT).unwrap();
}

#[test]
fn a_group_that_is_not_there_is_named() {
    let gone = Group::at("/sys/fs/cgroup/tilemark-never-made");
    let error = gone.processes().unwrap_err();
    assert!(error.to_string().contains("tilemark-never-made/cgroup.procs"), "{error}");
}
