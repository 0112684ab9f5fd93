//! Ctrl-C, and the signal that ends services: what is under way ends in order, and half-made things are removed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK, is_root, skipped};
use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, Signal, kill_process},
};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

fn start(home: &Home, arguments: &[&str]) -> Child {
    let mut command = Command::new(TILEMARK);
    command.args(arguments).env("TILEMARK_HOME", home.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), signal).unwrap();
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).sum()
}

#[test]
fn data_that_is_half_written_is_removed() {
    let home = Home::new();
    let out = home.path().join("out");
    let arguments = ["data", "store", "--size", "400MB", "--threads", "1", "--json", "--out"];
    let child = start(&home, &[&arguments[..], &[out.to_str().unwrap()]].concat());
    let until = Instant::now() + Duration::from_secs(600);
    while bytes_in(&out) == 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
    signal(&child, Signal::INT);
    let said = Said::of(&child.wait_with_output().unwrap()).ended(5);
    assert_eq!(said.json()["error"]["code"], "interrupted", "{said:?}");
    assert!(!out.exists(), "something is left");
}

#[test]
fn one_that_waits_for_another_run_need_not_wait() {
    if !is_root() {
        return skipped("runs need root");
    }
    let home = Home::new();
    let lock = home.file("state/lock", "first\n");
    let lock = File::open(lock).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let mut child = start(&home, &["run", "web", "--on", "native", "--offline", "--wait", "--json"]);
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("this takes") {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "it ended before it waited");
    }
    signal(&child, Signal::TERM);
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let error =
        &Said { code: child.wait().unwrap().code(), out, error: String::new() }.ended(5).json()["error"];
    assert_eq!(error["code"], "interrupted");
    assert_eq!(error["message"], "ended while it waited: the run first is under way on this host");
    assert_eq!(fs::read_dir(home.path().join("runs")).into_iter().flatten().count(), 0, "nothing was begun");
}
