//! QEMU by keys: what a scenario says to QEMU reaches its command line and the record, and what cannot be is reported before anything starts.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Home, is_root,
    real::{Process, Real, keeper_of},
};
use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt, path::Path};

const OWN: [&str; 3] =
    ["qemu.machine=q35,hpet=off", "qemu.cpu=max,la57=off", "qemu.args=[\"-device\", \"virtio-rng-pci\"]"];

/// The arguments of a process whose program is a QEMU with this guest's name.
fn arguments_of_guest(processes: &BTreeSet<Process>) -> Option<Vec<String>> {
    processes.iter().find_map(|process| {
        let text = fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
        let words: Vec<String> =
            text.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        words.iter().any(|word| word.starts_with("tile-001-idle,")).then_some(words)
    })
}

fn has_own(words: &[String]) -> bool {
    let has =
        |flag: &str, start: &str| words.windows(2).any(|pair| pair[0] == flag && pair[1].starts_with(start));
    has("-machine", "q35,hpet=off") && has("-cpu", "max,la57=off") && has("-device", "virtio-rng-pci")
}

fn files_called(folder: &Path, name: &str) -> Vec<String> {
    let entries: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    let mut found = Vec::new();
    for path in entries {
        if path.is_dir() {
            found.extend(files_called(&path, name));
        } else if path.file_name().is_some_and(|own| own == name) {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
    found
}

#[test]
fn a_machine_option_a_processor_and_an_argument_reach_the_guest_and_the_record() {
    let Some(real) = Real::new() else { return };
    let mut run = vec!["run", "density", "--on", "emulated", "--offline", "--not-alone", "--tiles", "1"];
    for set in OWN.into_iter().chain(["measure.start=boot", "measure.repeats=1", "measure.length=2s"]) {
        run.extend(["--set", set]);
    }
    let mut running = real.start(&run);
    running.until("a guest with its own arguments", |real| {
        let keeper = i32::try_from(keeper_of(real)?.keeper?).ok()?;
        arguments_of_guest(&Process::descendants(keeper)).filter(|words| has_own(words)).map(drop)
    });
    running.said().measured();
    let kept = files_called(&real.home.path().join("runs"), "qemu.arguments");
    let words = |text: &String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    assert!(kept.iter().any(|text| has_own(&words(text))), "{kept:?}");
}

/// A guest with a disk and two processors, whose command prints what its kernel sees of both devices.
const DEVICES: &str = r#"
schema = 1
name = "devices"
about = "Devices."
guest = [{ name = "guest", role = "idle", vcpus = 2, disk = [{ size = "64MiB", on = "memory" }] }]
ladder.tiles = [1]
measure = { warmup = "0s", length = "30s", repeats = 1 }
[[load]]
name = "own"
guest = "guest"
[load.command]
run = ["/bin/sh", "-c", "echo cache $(cat /sys/block/vdb/queue/write_cache); echo queues $(ls -d /sys/class/net/eth0/queues/tx-* | wc -l)"]
figure = 'queues ([0-9]+)'
unit = "queues"
better = "higher"
"#;

#[test]
fn devices_and_firmware_are_as_their_keys_say_in_clones_too() {
    let Some(real) = Real::new() else { return };
    let path = real.home.file("devices.toml", DEVICES);
    let mut run = vec!["run", path.to_str().unwrap(), "--on", "emulated", "--offline", "--not-alone"];
    for set in [
        "qemu.firmware=bios-256k.bin",
        "guest.guest.disk.cache=writethrough",
        "guest.guest.disk.iothread=true",
        "guest.guest.net.queues=2",
    ] {
        run.extend(["--set", set]);
    }
    let reported = real.home.says(&run).measured();
    let runs = real.home.path().join("runs");
    let printed = files_called(&runs, "own.txt").concat();
    assert!(
        printed.contains("cache write through") && printed.contains("queues 2"),
        "{printed} {reported:?}"
    );
    let kept = files_called(&runs, "qemu.arguments").concat();
    for wanted in [
        "share/seabios/bios-256k.bin\n",
        "cache.direct=off,file.driver=host_device,file.aio=threads",
        "iothread,id=iothread0\n",
        ",iothread=iothread0,write-cache=off\n",
        "tap,id=net,fds=12:48\n",
        ",mq=on,vectors=6\n",
    ] {
        assert!(kept.contains(wanted), "{wanted}: {kept}");
    }
}

#[test]
fn sides_of_devices_and_firmware_that_become_the_same_are_refused() {
    let home = Home::new();
    let path = home.file("devices.toml", DEVICES);
    let ab = ["plan", "ab", path.to_str().unwrap(), "--on", "emulated"];
    for (a, b) in [
        ("guest.guest.disk.cache=none", "guest.guest.disk.aio=native"),
        ("guest.guest.net.queues=1", "guest.guest.net.vhost=false"),
        ("qemu.machine=pc", "qemu.firmware=bios-256k.bin"),
    ] {
        let said = home.says(&[&ab[..], &["--a", a, "--b", b]].concat());
        assert_eq!(said.code, Some(2), "{a} {b}: {said:?}");
        assert!(said.error.contains("both sides have the same"), "{a} {b}: {said:?}");
    }
    let differ =
        home.says(&[&ab[..], &["--a", "qemu.firmware=bios-microvm.bin", "--b", "qemu.machine=pc"]].concat());
    assert!(!differ.error.contains("both sides"), "{differ:?}");
}

#[test]
fn what_qemu_lacks_or_must_not_get_is_refused_before_anything_starts() {
    let home = Home::new();
    for (flags, wanted) in [
        (&["--on", "emulated", "--set", "qemu.machine=q53"][..], "the nearest names are q35"),
        (&["--on", "emulated", "--set", "qemu.cpu=nehalem"], "Nehalem"),
        (&["--on", "emulated", "--set", "qemu.cpu=host"], "no such processor model for emulated guests"),
        (&["--on", "emulated", "--set", "qemu.args=[\"-daemonize\"]"], "must not hold `-daemonize`"),
        (&["--on", "emulated", "--set", "qemu.firmware=no-such.bin"], "it is in none of the folders of"),
        (&["--on", "emulated", "--set", "qemu.firmware=/dev/null"], "it has 0 bytes"),
        (&["--on", "emulated", "--set", "guest.idle.net.queues=2"], "a guest with 1 processor uses 1 to 1"),
        (&["--on", "emulated", "--set", "guest.idle.disk.cache=none"], "has no `[[guest.disk]]`"),
        (&["--on", "native", "--set", "guest.idle.net.queues=1"], "changes nothing natively"),
        (&["--on", "native", "--set", "qemu.firmware=bios.bin"], "`qemu.firmware` changes nothing natively"),
        (&["--on", "native", "--set", "qemu.machine=q35"], "`qemu.machine` changes nothing natively"),
        (&["--on", "native", "--set", "qemu.args=[\"-no-hpet\"]"], "`qemu.args` changes nothing natively"),
    ] {
        let said = home.says(&[&["plan", "density"][..], flags].concat());
        assert_eq!(said.code, Some(2), "{flags:?}: {said:?}");
        assert!(said.error.contains(wanted), "{flags:?}: {said:?}");
    }
}

/// A bisection skips a commit whose QEMU does not even start, and stops where another commit would not help.
#[test]
fn a_program_that_is_not_a_qemu_or_an_old_one_is_named_by_plan_and_by_a_bisection() {
    let home = Home::new();
    let program = home.path().join("qemu");
    let binary = format!("qemu.binary={}", program.display());
    for (script, mode, [code, bisection], wanted) in [
        ("echo qemu-img version 9.0.0", 0o755, [4, 125], "it printed \"qemu-img version 9.0.0\""),
        ("exit 127", 0o755, [4, 125], "qemu --version` does not answer as QEMU does: it printed nothing"),
        // A user who may not start it may still ask what root would do.
        (
            "",
            if is_root() { 0o644 } else { 0o755 },
            [4, 125],
            if is_root() { "Permission denied" } else { "nothing" },
        ),
        ("echo QEMU emulator version 6.2.0", 0o755, [3, 128], "is QEMU 6.2.0, and 7.2 is the oldest"),
    ] {
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
        let planned = home.says(&["plan", "density", "--on", "emulated", "--set", &binary]);
        let compared =
            home.says(&["ab", "density", "--on", "emulated", "--offline", "--b", &binary, "--exit-verdict"]);
        for (said, code) in [(planned, code), (compared, bisection)] {
            assert_eq!(said.code, Some(code), "{script}: {said:?}");
            assert!(said.error.contains(wanted), "{script}: {said:?}");
        }
    }
}
