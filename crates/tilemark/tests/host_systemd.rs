//! Services of a real systemd, which is process 1 in namespaces of its own: it has no unit but those of the test. Root and systemd are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const SYSTEMD: &str = "/lib/systemd/systemd";

/// Each unit with what its sections have: what runs at first is wanted by `ready.target`. `front` needs `back`, and `top` needs `front`.
/// `opens` needs `helper`, which starts with it, and `rival` excludes `held`.
const UNITS: [(&str, &str); 12] = [
    ("ready.target", "Wants=top.service slow.service lonely.service held.service"),
    ("back.service", "[Service]\nExecStart=/bin/sleep infinity"),
    ("front.service", "Requires=back.service\nAfter=back.service\n[Service]\nExecStart=/bin/sleep infinity"),
    ("top.service", "Requires=front.service\nAfter=front.service\n[Service]\nExecStart=/bin/sleep infinity"),
    ("lonely.service", "StartLimitIntervalSec=1h\n[Service]\nExecStart=/bin/sleep infinity"),
    (
        "opens.service",
        "Requires=helper.service\nAfter=helper.service\n[Service]\nExecStart=/bin/sleep infinity",
    ),
    ("helper.service", "StartLimitIntervalSec=1h\n[Service]\nExecStart=/bin/sleep infinity"),
    ("rival.service", "Conflicts=held.service\n[Service]\nExecStart=/bin/sleep infinity"),
    ("held.service", "[Service]\nExecStart=/bin/sleep infinity"),
    ("slow.service", "[Service]\nExecStart=/bin/sleep infinity\nExecStop=/bin/sleep 3"),
    ("fails.service", "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/false"),
    ("odd.service", "no section"),
];

/// Starts a shell in a control group of its own, whose name it prints, and in that systemd's namespaces.
const OUTER: &str = r#"
    mounted=$(findmnt --noheadings --types cgroup2 --output TARGET | head -n 1)
    group=$mounted/tilemark-test-systemd-$$
    [ -n "$mounted" ] && mkdir "$group" && echo $$ >"$group/cgroup.procs" && echo "$group" || exit 99
    exec unshare --mount --net --pid --fork --kill-child --cgroup --uts --ipc sh -euc "$0" sh "$@" >/dev/null"#;

/// Process 1: what systemd finds is the test's own, by mounts that nobody else sees.
const INNER: &str = r#"
    mount -t proc proc /proc
    # A systemd that boots raises limits of the whole machine, and writes an identity where there is none.
    for path in /proc/sys /etc/machine-id; do
        mount --bind "$path" "$path" && mount -o remount,bind,ro "$path"
    done
    for folder in /run /etc/systemd /usr/lib/systemd/system /usr/lib/systemd/system-generators; do
        mount -t tmpfs none "$folder"
    done
    cp "$1"/units/* /usr/lib/systemd/system/
    umount --recursive --lazy /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup
    exec env -i container=test PATH="$PATH" "$2" --unit=ready.target --log-target=null --show-status=no"#;

/// A host with systemd.
struct Host {
    home: Home,
    /// What started it, and ends with it.
    outer: Child,
    /// Its control group.
    group: PathBuf,
    /// Its process 1, by its number here.
    process: Pid,
}

impl Host {
    fn new() -> Option<Self> {
        if !common::is_root() || !Path::new(SYSTEMD).exists() {
            common::skipped("needs root and systemd");
            return None;
        }
        let home = Home::new();
        for (name, text) in UNITS {
            home.file(&format!("units/{name}"), &format!("[Unit]\nDefaultDependencies=no\n{text}\n"));
        }
        let mut outer = Command::new("sh");
        outer.args(["-c", OUTER, INNER]).arg(home.path()).arg(SYSTEMD);
        let mut outer = outer.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut group = String::new();
        let printed = outer.stdout.take().unwrap();
        BufReader::new(printed).read_line(&mut group).unwrap();
        if group.is_empty() {
            outer.wait().unwrap();
            common::skipped("control groups (cgroup2) cannot be made here");
            return None;
        }
        let mut host = Self { home, outer, group: group.trim().into(), process: Pid::INIT };
        host.process = wait_for("systemd's process", || child_of(host.outer.id()));
        wait_for("systemd to be ready", || {
            (host.systemctl(&["is-active", "ready.target"]).out == "active\n").then_some(())
        });
        Some(host)
    }

    /// A command in it.
    fn command(&self, command: &[&str]) -> Command {
        let mut inside = Command::new("nsenter");
        let target = self.process.to_string();
        inside.args(["--target", &target, "--mount", "--net", "--pid", "--cgroup", "--"]).args(command);
        inside.env("TILEMARK_HOME", self.home.path()).env("TILEMARK_LOCK_FOLDER", self.home.lock_folder());
        inside
    }

    fn says(&self, arguments: &[&str]) -> Said {
        Said::of(&self.command(&[&[TILEMARK], arguments].concat()).output().unwrap())
    }

    fn systemctl(&self, arguments: &[&str]) -> Said {
        Said::of(&self.command(&[&["systemctl"], arguments].concat()).output().unwrap())
    }

    /// The services that run, once systemd has nothing under way.
    fn running(&self) -> Vec<String> {
        wait_for("systemd to end its jobs", || {
            self.systemctl(&["list-jobs", "--no-legend"]).out.trim().is_empty().then_some(())
        });
        let list = ["list-units", "--type=service", "--state=active", "--plain", "--no-legend"];
        let lines = self.systemctl(&list).out;
        lines.lines().map(|line| line.split('.').next().unwrap().to_owned()).collect()
    }

    /// A profile of these services, and its file.
    fn profile(&self, services: &[(&str, &str)]) -> String {
        let line = |(name, value): &(&str, &str)| {
            format!("[[setting]]\nkey = \"service.{name}\"\nvalue = \"{value}\"\nsource = \"a test\"\n")
        };
        let lines: String = services.iter().map(line).collect();
        let text = format!("schema = 1\nname = \"services\"\nabout = \"A test.\"\n{lines}");
        self.home.file("services.toml", &text).to_str().unwrap().to_owned()
    }

    fn apply(&self, services: &[(&str, &str)]) -> Said {
        self.says(&["host", "apply", &self.profile(services), "--yes"])
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Process 1 of its namespace takes all others along.
        let _ = self.outer.kill();
        let _ = self.outer.wait();
        let until = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.group).is_err() && self.group.exists() && Instant::now() < until {
            remove_below(&self.group);
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The only child of `unshare` or `nsenter`.
fn child_of(process: u32) -> Option<Pid> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    Pid::from_raw(text.split_whitespace().next()?.parse().ok()?)
}

/// Removes the control groups in this one.
fn remove_below(group: &Path) {
    for child in fs::read_dir(group).into_iter().flatten().flatten().filter(|child| child.path().is_dir()) {
        remove_below(&child.path());
        let _ = fs::remove_dir(child.path());
    }
}

/// What is there at last. Far above what any of it takes.
#[track_caller]
fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited 60 s for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

const AT_FIRST: [&str; 6] = ["back", "front", "held", "lonely", "slow", "top"];

#[test]
fn services_are_stopped_and_started_and_all_that_went_along_is_restored() {
    let Some(host) = Host::new() else { return };
    assert_eq!(host.running(), AT_FIRST);
    let services = [("back", "stopped"), ("opens", "running"), ("lonely", "running"), ("rival", "running")];
    let applied = host.apply(&services).ended(0);
    assert_eq!(host.running(), ["helper", "lonely", "opens", "rival", "slow"], "{applied:?}");
    host.says(&["host", "verify", &host.profile(&services)]).ended(0);
    let restored = host.says(&["host", "restore"]).ended(0);
    assert_eq!(host.running(), AT_FIRST, "{restored:?}");
}

#[test]
fn a_service_that_another_program_started_again_differs_and_is_restored_already() {
    let Some(host) = Host::new() else { return };
    host.apply(&[("lonely", "stopped"), ("top", "stopped")]).ended(0);
    assert_eq!(host.systemctl(&["start", "top"]).code, Some(0));
    host.says(&["host", "verify", &host.profile(&[("lonely", "stopped"), ("top", "stopped")])])
        .ended(1)
        .with_output("service.top is running, and the profile wants stopped");
    let restored = host.says(&["host", "restore"]);
    assert_eq!(restored.code, Some(0), "it runs as before: {restored:?}");
    assert_eq!(host.running(), AT_FIRST);
}

#[test]
fn what_systemd_refuses_is_named_with_its_words_and_what_was_set_before_is_restored() {
    let Some(host) = Host::new() else { return };
    let refused = host.apply(&[("back", "stopped"), ("fails", "running")]).ended(3);
    assert!(
        refused.error.contains("service.fails") && refused.error.contains("control process"),
        "{refused:?}"
    );
    assert_eq!(host.running(), AT_FIRST, "{refused:?}");
    for (name, said) in
        [("absent", "systemd has no unit absent.service"), ("odd", "odd.service of systemd is")]
    {
        host.apply(&[("lonely", "stopped"), (name, "running")]).ended(3).with_error(said);
        assert_eq!(host.running(), AT_FIRST, "{name}");
    }
}

/// systemd starts a unit five times in a while, here an hour, and not once more.
#[test]
fn a_service_is_restored_however_often_it_was_stopped() {
    let Some(host) = Host::new() else { return };
    for round in 0..7 {
        let applied = host.apply(&[("lonely", "stopped"), ("opens", "running")]);
        assert_eq!(applied.code, Some(0), "{round}: {applied:?}");
        assert_eq!(host.running(), ["back", "front", "held", "helper", "opens", "slow", "top"], "{round}");
        let restored = host.says(&["host", "restore"]);
        assert_eq!(restored.code, Some(0), "{round}: {restored:?}");
        assert_eq!(host.running(), AT_FIRST, "{round}");
    }
}

/// systemd goes on with what it was asked for, also where whoever asked was killed.
#[test]
fn services_of_a_killed_apply_are_restored_by_whoever_comes_next() {
    let Some(host) = Host::new() else { return };
    let profile = host.profile(&[("lonely", "stopped"), ("slow", "stopped")]);
    for recovers in ["recover", "restore"] {
        let mut apply = host.command(&[TILEMARK, "host", "apply", &profile, "--yes"]);
        let mut apply = apply.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the stop of the slow one", || {
            let shown = host.systemctl(&["show", "--property=ActiveState", "slow"]);
            shown.out.contains("deactivating").then_some(())
        });
        kill_process(child_of(apply.id()).unwrap(), Signal::KILL).unwrap();
        apply.wait().unwrap();
        let command: &[&str] = if recovers == "recover" { &["recover"] } else { &["host", "restore"] };
        let recovered = host.says(command).ended(0);
        assert_eq!(host.running(), AT_FIRST, "{recovered:?}");
        assert_eq!(host.says(&["host", "status", "--json"]).json()["profile"], serde_json::Value::Null);
    }
}
