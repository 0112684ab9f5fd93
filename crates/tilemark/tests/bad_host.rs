//! Hosts that are not as a run needs them: named, with the remedy, the right exit code, and nothing left behind. Root and an
//! image are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK, is_root, real::Real, record::record_of, skipped};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::{fs::FileExt, process::ExitStatusExt},
    path::Path,
    process::Command,
};

const RUN: [&str; 8] = ["run", "web", "--on", "native", "--offline", "--tiles", "1", "--json"];

#[track_caller]
fn refused(real: &Real, said: &Said, code: i32, message: &str, remedy: &str) {
    said.fails_with(code, message, remedy);
    real.all_gone(&BTreeSet::new(), &[]);
}

/// Of a copy that takes the file's place: other homes have the same file.
fn change_a_byte(path: &Path) {
    let copy = path.with_extension("copy");
    fs::copy(path, &copy).unwrap();
    fs::rename(&copy, path).unwrap();
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_at(&mut byte, 1 << 20).unwrap();
    file.write_at(&[byte[0] ^ 1], 1 << 20).unwrap();
}

#[test]
fn an_image_that_fails_its_hash_is_not_used() {
    let Some(real) = Real::new() else { return };
    // Each of them: its folder's name does not show which one the scenario needs.
    let images = fs::read_dir(real.home.path().join("cache/images")).unwrap().flatten();
    let roots: Vec<_> =
        images.map(|entry| entry.path().join("root.erofs")).filter(|path| path.exists()).collect();
    assert!(!roots.is_empty());
    roots.iter().for_each(|root| change_a_byte(root));
    let said = real.home.says(&RUN);
    refused(&real, &said, 3, "root.erofs has changed: its SHA-256 is", "image build --refresh");
    assert!(fs::read_dir(real.home.path().join("runs")).unwrap().next().is_none(), "no record of it");
}

/// The command with a disk of this size as its home, in a mount namespace of its own; `fill` leaves no room on it.
fn on_a_disk_of(real: &Real, size: &str, fill: Fill, run: &[&str]) -> Said {
    let script = r#"
        mount --make-rprivate / && mkdir -p "$1/disk" && mount -t tmpfs -o size="$2" tilemark-test "$1/disk" || exit 99
        ln -s "$1/cache" "$1/disk/cache" && mkdir "$1/disk/runs" "$1/disk/state" || exit 99
        [ "$3" = full ] && dd if=/dev/zero of="$1/disk/filler" bs=4k 2>/dev/null
        shift 3; exec env TILEMARK_HOME="$HOME_OF_TEST/disk" "$@""#;
    let home = real.home.path();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(home).arg(size);
    command.arg(match fill {
        Fill::Nothing => "empty",
        Fill::All => "full",
    });
    command.env("HOME_OF_TEST", home).env("TILEMARK_LOCK_FOLDER", real.home.lock_folder());
    command.arg(TILEMARK).args(run);
    Said::of(&command.output().unwrap())
}

enum Fill {
    Nothing,
    All,
}

#[test]
fn a_disk_with_too_little_space_stops_the_run_before_it_begins_a_pass() {
    let Some(real) = Real::new() else { return };
    let said = on_a_disk_of(&real, "64m", Fill::Nothing, &RUN);
    refused(&real, &said, 3, "of disk space is left", "free");
}

const DISKS: &str = r#"
schema = 1
name = "disks"
about = "A disk that is larger than the host's."
guest = [{ name = "disk", role = "disk", disk = [{ size = "4GiB", on = "store" }] }]
load = [{ name = "disk", guest = "disk", loop = "closed", disk = { saturate = true } }]
ladder.tiles = [1]
"#;

#[test]
fn a_disk_that_the_data_disks_of_a_run_would_fill_is_named_before_the_first_guest() {
    let Some(real) = Real::new() else { return };
    let file = real.home.file("disks.toml", DISKS);
    let run = ["run", file.to_str().unwrap(), "--on", "native", "--offline", "--json"];
    // More than what must stay free, and less than that with what the guests would write.
    let said = on_a_disk_of(&real, "3g", Fill::Nothing, &run);
    refused(&real, &said, 3, "4 GiB for data disks in ", "--output");
    assert!(!said.error.contains("starting"), "a guest was started: {said:?}");
}

/// The command under a limit of the shell.
fn under_limit(home: &Home, limit: &str, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$@\""), "sh", TILEMARK]).args(arguments);
    command.env("TILEMARK_HOME", home.path()).env("TILEMARK_LOCK_FOLDER", home.lock_folder());
    command.output().unwrap()
}

#[test]
fn too_few_open_files_are_refused_with_both_numbers_before_anything_is_made() {
    if !is_root() {
        return skipped("runs need root");
    }
    let home = Home::new();
    let said = Said::of(&under_limit(&home, "-n 60", &RUN));
    said.fails_with(3, "open files in one process, and the limit is 60", "ulimit -Hn ");
    assert!(!home.path().join("runs").exists() && !home.path().join("state").exists());
    // A soft limit is raised: what this run lacks is an image.
    let said = Said::of(&under_limit(&home, "-Sn 60", &RUN));
    assert!(said.message().contains("is not in the cache"), "{said:?}");
}

#[test]
fn a_limit_of_a_file_s_size_is_named_and_ends_nothing_by_a_signal() {
    let home = Home::new();
    record_of(&home, "20260101-000000-web");
    let page = home.path().join("page.html");
    let report = ["report", "--html", page.to_str().unwrap()];
    let output = under_limit(&home, "-f 1", &report);
    let said = Said::of(&output);
    assert_eq!((said.code, output.status.signal()), (Some(3), None), "{said:?}");
    assert!(said.error.contains("page.html") && said.error.contains("File too large"), "{said:?}");
    assert!(said.error.contains("ulimit -f"), "{said:?}");
    if !is_root() {
        return skipped("runs need root");
    }
    let said = Said::of(&under_limit(&home, "-f 1024", &RUN));
    said.fails_with(3, "the limit of a file's size is ", "ulimit -f unlimited");
    // A soft limit is raised: what this run lacks is an image.
    let said = Said::of(&under_limit(&home, "-Sf 1024", &RUN));
    assert!(said.message().contains("is not in the cache"), "{said:?}");
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing() {
    let Some(real) = Real::new() else { return };
    let said = on_a_disk_of(&real, "1m", Fill::All, &RUN);
    refused(&real, &said, 3, "only 0 B of disk space is left", "TILEMARK_HOME");
}

/// A mount in the state folder holds it, in a mount namespace of the run's and the test's own.
#[test]
fn a_host_that_is_not_restored_is_reported_and_recover_fixes_it() {
    let Some(real) = Real::new() else { return };
    let script = r#"
        mount --make-rprivate / || exit 99
        states=$1; shift
        "$@" & run=$!
        for _ in $(seq 400); do
            folder=$(ls -d "$states"/*/ 2>/dev/null) && break
            sleep 0.05
        done
        mkdir "$folder/held" && mount -t tmpfs tilemark-test "$folder/held" || exit 99
        wait $run"#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(real.home.path().join("state")).arg(TILEMARK);
    command.args(RUN).args(["--set", "measure.repeats=1", "--set", "measure.warmup=1s"]);
    command.args(["--set", "measure.length=1s"]).env("TILEMARK_HOME", real.home.path());
    command.env("TILEMARK_LOCK_FOLDER", real.home.lock_folder());
    let said = Said::of(&command.output().unwrap()).ended(6);
    let result = said.result();
    assert_eq!(result.provenance.as_it_was, Some(false));
    assert!(said.error.contains("error: ") && said.error.contains(&result.run), "{said:?}");
    let left: Vec<&str> = result.provenance.left.iter().map(|left| left.what.as_str()).collect();
    assert!(
        left[0].contains("/held (tmpfs of tilemark-test)") && left[1].contains("cannot remove "),
        "{left:?}"
    );
    assert!(said.error.contains("to fix: `umount ") && said.error.contains("`tilemark recover`"), "{said:?}");
    let recovered = real.home.says(&["recover", "--json"]).json();
    assert_eq!(recovered["removed"], serde_json::json!([result.run]), "{recovered}");
    assert_eq!(recovered["under_way"], serde_json::json!([]), "{recovered}");
    real.all_gone(&BTreeSet::new(), &[]);
}

/// One short run, whatever the machine makes of it.
fn short_run(command: &mut Command, real: &Real) -> Said {
    command.arg(TILEMARK).args(RUN).args(["--set", "measure.repeats=1", "--set", "measure.warmup=1s"]);
    command.args(["--set", "measure.length=1s"]).env("TILEMARK_HOME", real.home.path());
    command.env("TILEMARK_LOCK_FOLDER", real.home.lock_folder());
    Said::of(&command.output().unwrap())
}

/// Mounts, network devices and loop devices where a run has its own: planted in namespaces of the test's and the run's own, but for
/// the loop device, which the script takes away.
#[test]
fn whatever_a_run_leaves_is_named_with_what_to_do_and_the_machine_is_not_called_restored() {
    let Some(real) = Real::new() else { return };
    let script = r#"
        mount --make-rprivate / || exit 99
        home=$1; shift
        truncate -s 1M "$home/cache/planted" || exit 99
        "$@" & run=$!
        for _ in $(seq 400); do
            ls -d "$home"/state/*/ >"$home/found" 2>/dev/null && break
            sleep 0.05
        done
        mkdir "$home/cache/held" && mount -t tmpfs tilemark-test "$home/cache/held" || exit 99
        ip link add tilemark0 type bridge || exit 99
        loop=$(losetup --find --show "$home/cache/planted") || exit 99
        wait $run; code=$?
        losetup -d "$loop"
        exit $code"#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", script, "sh"]).arg(real.home.path());
    let said = short_run(&mut command, &real).ended(6);
    let result = said.result();
    assert_eq!(result.provenance.as_it_was, Some(false));
    let left = &result.provenance.left;
    let cache = real.home.path().canonicalize().unwrap().join("cache");
    let of_loop = format!(" of {}", cache.join("planted").display());
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!(left[0].what, format!("the mount {} (tmpfs of tilemark-test)", cache.join("held").display()));
    assert!(
        left[1].what.starts_with("the loop device /dev/loop") && left[1].what.ends_with(&of_loop),
        "{left:?}"
    );
    assert_eq!(left[2].what, "the network device tilemark0");
    assert!(left[1].remedy.contains("losetup -d /dev/loop"), "{left:?}");
    for left in left {
        assert!(said.error.contains(&left.what) && said.error.contains(&left.remedy), "{said:?}");
    }
    let page =
        fs::read_to_string(real.home.path().join("runs").join(&result.run).join("report.html")).unwrap();
    assert!(
        page.contains(
            "Left on the machine: the network device tilemark0. To fix: `ip link delete tilemark0`"
        )
    );
    real.all_gone(&BTreeSet::new(), &[]);
}

/// A run on a host whose wake limits are files of the test, with `meanwhile` done to each limit that it holds and `after` to all.
fn with_played_limits(real: &Real, meanwhile: &str, after: &str) -> Option<Said> {
    if !Path::new("/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us").exists() {
        println!("skipped: this host has no wake limits");
        return None;
    }
    let script = format!(
        r#"
        mount --make-rprivate / || exit 99
        home=$1; shift
        limits=$(ls /sys/devices/system/cpu/cpu[0-9]*/power/pm_qos_resume_latency_us)
        for limit in $limits; do
            echo 20 >"$home/limit-$(echo "$limit" | tr / -)"
            mount --bind "$home/limit-$(echo "$limit" | tr / -)" "$limit" || exit 99
        done
        "$@" & run=$!
        for _ in $(seq 400); do
            held=$(grep -l n/a $limits) && break
            sleep 0.05
        done
        for limit in $held; do {meanwhile} || exit 99; done
        wait $run; code=$?
        grep -h . $limits >"$home/limits"
        for limit in $held; do {after} || exit 99; done
        {TILEMARK} recover --json >"$home/recovered" 2>&1
        grep -h . $limits >"$home/limits-after-recover"
        exit $code"#
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh"]).arg(real.home.path());
    Some(short_run(&mut command, real))
}

fn lines_of(real: &Real, name: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(real.home.path().join(name)).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_setting_that_somebody_else_changed_in_a_run_is_left_alone_and_named_with_its_values() {
    let Some(real) = Real::new() else { return };
    let Some(said) = with_played_limits(&real, r#"echo 50 >"$limit""#, "true") else { return };
    assert_eq!(said.code, Some(6), "{said:?}");
    assert!(said.error.contains("another program has changed"), "{said:?}");
    let provenance = said.result().provenance;
    assert_eq!((provenance.as_it_was, provenance.left), (Some(true), Vec::new()));
    let changed = &provenance.changed_by_others;
    assert!(!changed.is_empty(), "no processor was kept awake");
    assert!(
        changed.iter().all(|one| one.ends_with("it was 20, Tilemark set n/a, and it is 50 now")),
        "{changed:?}"
    );
    let limits = lines_of(&real, "limits");
    assert!(limits.contains("50") && !limits.contains("n/a"), "{limits:?}");
    real.all_gone(&BTreeSet::new(), &[]);
}

#[test]
fn a_setting_that_cannot_be_restored_is_named_with_the_reason_and_recover_restores_it() {
    let Some(real) = Real::new() else { return };
    let (meanwhile, after) = (r#"mount -o remount,bind,ro "$limit""#, r#"mount -o remount,bind,rw "$limit""#);
    let Some(said) = with_played_limits(&real, meanwhile, after) else { return };
    assert_eq!(said.code, Some(6), "{said:?}");
    let result = said.result();
    assert_eq!(result.provenance.as_it_was, Some(false));
    let left = &result.provenance.left;
    assert!(!left.is_empty());
    for left in left {
        assert!(left.what.starts_with("wake-up latency limit (PM QoS) of CPU "), "{left:?}");
        assert!(
            left.what.contains("it was 20, Tilemark set n/a, and it is still n/a; cannot write the wake-up"),
            "{left:?}"
        );
        assert!(left.what.ends_with("Read-only file system (os error 30)"), "{left:?}");
        assert!(
            left.remedy.starts_with("`tilemark recover` tries it again; by hand, write \"20\" into /sys/")
        );
    }
    assert!(
        said.error.contains("this machine was not restored: wake-up latency limit (PM QoS) of CPU "),
        "{said:?}"
    );
    assert!(lines_of(&real, "limits").contains("n/a"));
    let recovered = fs::read_to_string(real.home.path().join("recovered")).unwrap();
    assert!(recovered.contains(&result.run), "{recovered}");
    assert_eq!(lines_of(&real, "limits-after-recover"), BTreeSet::from(["20".to_owned()]));
    real.all_gone(&BTreeSet::new(), &[]);
}

#[test]
fn a_missing_qemu_is_a_fault_of_the_host_and_not_of_a_guest() {
    let Some(real) = Real::new() else { return };
    let emulated = ["run", "web", "--on", "emulated", "--offline", "--tiles", "1", "--json"];
    let said = real.home.says(&[&emulated[..], &["--set", "qemu.binary=/nowhere/qemu"]].concat());
    refused(&real, &said, 3, "no QEMU found; looked for /nowhere/qemu", "install qemu-system-x86");
}
