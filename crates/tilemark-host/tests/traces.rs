//! What is left behind on this host's kernel is found: each kind is planted in a namespace or folder of the test's own. Needs root.
#![allow(missing_docs, clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tilemark_host::traces::{Holder, holders, loop_devices, loop_devices_in, network_devices, of_process};
use tilemark_sys::mounts;

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || std::env::var_os("TILEMARK_CI").is_none_or(|value| value != "1"), "CI is root");
    if !is_root {
        println!("skipped: mounts and devices need root");
    }
    is_root
}

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A shell in namespaces of its own that says a line, and ends when its input does.
struct Shell(Child);

impl Shell {
    fn start(namespaces: &[&str], script: &str) -> Self {
        let mut command = Command::new("unshare");
        command.args(namespaces);
        Self::begun(command, script)
    }

    /// One in the network namespace at a path.
    fn entered(path: &str) -> Self {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={path}"));
        Self::begun(command, "true")
    }

    fn begun(mut command: Command, script: &str) -> Self {
        command.args(["sh", "-c", &format!("{script} && echo ready && read end")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
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

/// The test's thread gets mounts of its own.
fn own_mounts_with(folder: &Path) {
    tilemark_sys::namespace::own_mounts().unwrap();
    run("mount", &["-t", "tmpfs", "tilemark-test", folder.to_str().unwrap()]);
}

#[test]
fn a_mount_is_found_where_it_is() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let found = |point: &Path| {
        // A thread's mounts are its own; those of the process are the first thread's.
        let text = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
        text.lines().any(|line| line.contains(&format!(" {} ", point.display())))
    };
    let point = folder.path().canonicalize().unwrap();
    let thread = std::thread::spawn({
        let point = point.clone();
        move || {
            own_mounts_with(&point);
            let mounts = mounts::of_this_thread().unwrap();
            let here: Vec<_> = mounts.iter().filter(|mount| mount.point == point).collect();
            assert_eq!(here.len(), 1, "{mounts:?}");
            assert_eq!((here[0].kind.as_str(), here[0].source.as_str()), ("tmpfs", "tilemark-test"));
        }
    });
    thread.join().unwrap();
    assert!(!found(&point) && !mounts::of_this_thread().unwrap().iter().any(|mount| mount.point == point));
}

#[test]
fn a_loop_device_is_found_with_its_file_and_who_uses_it() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().canonicalize().unwrap().join("a disk");
    fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let device = PathBuf::from(run("losetup", &["--find", "--show", file.to_str().unwrap()]));
    let found = || loop_devices().unwrap().into_iter().find(|found| found.path == device);
    let found_with = found().map(|found| found.file);
    let shell = Shell::start(&["--mount"], &format!("exec 5<{}", device.display()));
    let theirs = of_process(shell.0.id()).unwrap();
    let used = loop_devices_in(&theirs).unwrap();
    shell.end();
    let unused = loop_devices_in(&theirs).unwrap();
    run("losetup", &["-d", device.to_str().unwrap()]);
    assert_eq!(found_with, Some(file));
    assert!(used.contains(&device) && !unused.contains(&device), "{used:?} {unused:?}");
    assert_eq!(found().filter(|found| found.file.ends_with("a disk")), None);
}

#[test]
fn a_network_device_is_found_by_name_in_the_own_namespace_only() {
    if !is_root() {
        return;
    }
    let name = format!("tm{}", std::process::id());
    let elsewhere = std::thread::spawn({
        let name = name.clone();
        move || {
            tilemark_sys::namespace::own_network().unwrap();
            run("ip", &["link", "add", &name, "type", "bridge"]);
            network_devices().unwrap()
        }
    });
    let mut elsewhere = elsewhere.join().unwrap();
    elsewhere.sort();
    assert_eq!(elsewhere, ["lo".to_owned(), name.clone()]);
    assert!(!network_devices().unwrap().contains(&name));
}

#[test]
fn a_namespace_is_found_with_whoever_is_in_it_has_it_open_or_has_mounted_it() {
    if !is_root() {
        return;
    }
    let of_run = Shell::start(&["--net", "--ipc"], "true");
    let namespaces = of_process(of_run.0.id()).unwrap();
    assert_eq!(namespaces.len(), 2, "only those that are not the caller's: {namespaces:?}");
    let net = namespaces.iter().find(|name| name.starts_with("net:")).unwrap().clone();
    let path = format!("/proc/{}/ns/net", of_run.0.id());
    // Somebody in another namespace who has it open, and somebody who is in it.
    let opened = Shell::start(&["--uts"], &format!("exec 5<{path}"));
    let entered = Shell::entered(&path);
    let of = |pid: u32, found: &std::collections::BTreeSet<Holder>| {
        found.iter().any(|holder| {
            matches!(holder, Holder::Process { process, namespace } if process.pid == pid && *namespace == net)
        })
    };
    let has = |pid: u32| of(pid, &holders(&namespaces).unwrap());
    let (first, opened_pid, entered_pid) = (of_run.0.id(), opened.0.id(), entered.0.id());
    of_run.end();
    assert!(!has(first) && has(opened_pid) && has(entered_pid));
    // The rest on a thread with mounts of its own.
    let folder = tempfile::tempdir().unwrap();
    let point = folder.path().canonicalize().unwrap().join("net");
    fs::write(&point, "").unwrap();
    let its = format!("/proc/{}/ns/net", entered_pid);
    let names = namespaces.clone();
    let bound = std::thread::spawn(move || {
        tilemark_sys::namespace::own_mounts().unwrap();
        run("mount", &["--bind", &its, point.to_str().unwrap()]);
        let found = holders(&names).unwrap();
        found.iter().any(|holder| matches!(holder, Holder::Mount { point: at, .. } if *at == point))
    });
    assert!(bound.join().unwrap(), "the mount of it");
    opened.end();
    entered.end();
    assert!(!has(opened_pid));
    assert_eq!(holders(&namespaces).unwrap().len(), 0);
}
