//! Limits of libvirt for many guests, where a script plays its virt-admin(1): root is needed.
//!
//! What the command sees as `/run` and `/etc` are folders of the test, by mounts that nobody else sees.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK};
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    process::Command,
};

/// Answers as virt-admin of libvirt 9.0 does, for the daemon that runs and its limits in files.
const VIRT_ADMIN: &str = r#"#!/bin/sh
PATH=/usr/bin:/bin
cd "$(dirname "$0")/.."
echo "$3" >>asked
refuse() {
    printf 'error: %s\nerror: %s\n' "$1" "$2" >&2
    exit 1
}
daemon=$(cat daemon)
[ "$1 $2 $4" = "--connect $daemon:///system $daemon" ] || refuse 'Failed to connect to the admin server' "no $2"
case "$3 $5" in
"server-clients-info ") printf 'nclients_max        : %s\nnclients            : 0\nnclients_unauth_max : 20\n\n' $(cat clients) ;;
"server-threadpool-info ") printf 'minWorkers     : 5\nmaxWorkers     : %s\nnWorkers       : 5\n\n' $(cat workers) ;;
"server-clients-set --max-clients") echo "$6" >clients ;;
"server-threadpool-set --max-workers")
    [ "$6" -ge 5 ] || refuse 'Unable to change server workerpool parameters' 'minWorkers cannot be larger than maxWorkers'
    echo "$6" >workers ;;
*) refuse 'unknown command' "$*" ;;
esac
"#;

/// What the command sees of this host.
const SCRIPT: &str = r#"
    home=$1; shift
    mount -t tmpfs none /run && mount --bind "$home/etc" /etc && mkdir /run/libvirt || exit 99
    ln -s "$home/libvirtd" /run/libvirt/libvirt-admin-sock
    ln -s "$home/virtqemud" /run/libvirt/virtqemud-admin-sock
    export PATH="$home/bin"
    exec "$@""#;

/// A host with libvirt, whose daemon is `libvirtd` and runs until its socket is dropped.
struct Host {
    home: Home,
    socket: Option<UnixListener>,
}

impl Host {
    fn new() -> Option<Self> {
        if !common::is_root() {
            common::skipped("mounting needs root");
            return None;
        }
        let home = Home::new();
        let program = home.file("bin/virt-admin", VIRT_ADMIN);
        fs::set_permissions(program, Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(home.path().join("etc")).unwrap();
        let socket = UnixListener::bind(home.path().join("libvirtd")).unwrap();
        let host = Self { home, socket: Some(socket) };
        host.put("daemon", "libvirtd");
        host.limits("5000", "20");
        Some(host)
    }

    fn put(&self, name: &str, text: &str) {
        self.home.file(name, &format!("{text}\n"));
    }

    /// Gives the daemon these limits, as its restart or another program would.
    fn limits(&self, clients: &str, workers: &str) {
        self.put("clients", clients);
        self.put("workers", workers);
    }

    #[track_caller]
    fn has(&self, clients: &str, workers: &str) {
        let now = ["clients", "workers"].map(|name| fs::read_to_string(self.home.path().join(name)).unwrap());
        assert_eq!(now.each_ref().map(|text| text.trim()), [clients, workers]);
    }

    /// Ends the daemon as `kill -9` does: its socket stays, and nobody listens on it.
    fn kill_daemon(&mut self) {
        self.socket = None;
        self.put("daemon", "none");
    }

    fn says(&self, arguments: &[&str]) -> Said {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(self.home.path()).arg(TILEMARK);
        command.args(arguments).env("TILEMARK_HOME", self.home.path());
        Said::of(&command.env("TILEMARK_LOCK_FOLDER", self.home.lock_folder()).output().unwrap())
    }

    /// A profile of these limits, and its file.
    fn profile(&self, clients: &str, workers: &str, further: &str) -> String {
        let line = |key: &str, value: &str| {
            format!(
                "[[setting]]\nkey = \"libvirt.{key}\"\nvalue = \"{value}\"\nsource = \"a test\"\n{further}"
            )
        };
        let lines = [line("max_clients", clients), line("max_workers", workers)].concat();
        let text = format!("schema = 1\nname = \"libvirt\"\nabout = \"A test.\"\n{lines}");
        self.home.file("libvirt.toml", &text).to_str().unwrap().to_owned()
    }

    fn apply(&self, profile: &str) -> Said {
        self.says(&["host", "apply", profile, "--yes"])
    }
}

#[test]
fn limits_of_a_running_libvirt_are_set_verified_and_restored_and_nothing_else_is_asked_of_it() {
    let Some(host) = Host::new() else { return };
    let configuration = "max_workers = 20\n";
    host.home.file("etc/libvirt/libvirtd.conf", configuration);
    let profile = host.profile("6000", "300", "");
    let planned = host.says(&["host", "plan", &profile, "--json"]).json();
    assert_eq!(
        (&planned["settings"][1]["now"], &planned["settings"][1]["state"]),
        (&"20".into(), &"changes".into())
    );
    host.apply(&profile).ended(0);
    host.has("6000", "300");
    host.says(&["host", "verify", &profile]).ended(0);
    host.says(&["host", "restore"]).ended(0).with_output("it was 20, Tilemark set 300, and it is 20 again");
    host.has("5000", "20");
    let asked = fs::read_to_string(host.home.path().join("asked")).unwrap();
    assert!(asked.lines().all(|command| command.ends_with("-info") || command.ends_with("-set")), "{asked}");
    let file = host.home.path().join("etc/libvirt/libvirtd.conf");
    assert_eq!(fs::read_to_string(file).unwrap(), configuration);
}

#[test]
fn a_libvirt_that_was_restarted_or_set_by_another_program_meanwhile_is_left_alone() {
    let Some(host) = Host::new() else { return };
    let profile = host.profile("6000", "300", "");
    assert_eq!(host.apply(&profile).code, Some(0));
    // A daemon that starts has the limits of its configuration.
    host.limits("5000", "20");
    host.says(&["host", "restore"]).ended(0);
    assert_eq!(host.apply(&profile).code, Some(0));
    host.put("workers", "77");
    host.says(&["host", "restore"]).ended(6).with_output("Tilemark set 300, and it is 77 now");
    host.has("5000", "77");
}

#[test]
fn limits_of_a_daemon_that_was_killed_are_gone_and_keep_no_other_profile_away() {
    let Some(mut host) = Host::new() else { return };
    let profile = host.profile("6000", "300", "");
    assert_eq!(host.apply(&profile).code, Some(0));
    host.kill_daemon();
    host.says(&["host", "restore"]).ended(0).with_output("neither virtqemud nor libvirtd runs on this host");
    assert_eq!(host.says(&["host", "status", "--json"]).json()["profile"], Value::Null);
}

#[test]
fn the_daemon_that_runs_is_the_one_that_is_set() {
    let Some(mut host) = Host::new() else { return };
    // Left by a virtqemud that was killed.
    drop(UnixListener::bind(host.home.path().join("virtqemud")).unwrap());
    host.apply(&host.profile("6000", "300", "")).ended(0);
    host.has("6000", "300");
    assert_eq!(host.says(&["host", "restore"]).code, Some(0));
    host.kill_daemon();
    fs::remove_file(host.home.path().join("virtqemud")).unwrap();
    let _virtqemud = UnixListener::bind(host.home.path().join("virtqemud")).unwrap();
    host.put("daemon", "virtqemud");
    assert_eq!(host.apply(&host.profile("6000", "300", "")).code, Some(0));
    host.has("6000", "300");
}

#[test]
fn a_limit_that_libvirt_refuses_is_named_with_its_reason_and_the_one_before_it_is_restored() {
    let Some(host) = Host::new() else { return };
    let refused = host.apply(&host.profile("6000", "2", "")).ended(3);
    assert!(refused.error.contains("libvirt.max_workers"), "{refused:?}");
    let reason = "error: Unable to change server workerpool parameters; error: minWorkers cannot be larger than maxWorkers\n";
    assert!(refused.error.contains(reason), "{refused:?}");
    assert!(refused.error.contains("to fix: give another value"), "{refused:?}");
    let asked = fs::read_to_string(host.home.path().join("asked")).unwrap();
    assert_eq!(asked.matches("server-clients-set").count(), 2, "set, and set back: {asked}");
    host.has("5000", "20");
}

#[test]
fn a_host_without_libvirt_or_its_tool_is_named_and_an_optional_limit_is_skipped() {
    let Some(mut host) = Host::new() else { return };
    let tool = host.home.path().join("bin/virt-admin");
    let profile = host.profile("6000", "300", "");
    fs::rename(&tool, tool.with_extension("away")).unwrap();
    host.says(&["host", "plan", &profile]).ended(3).with_output("virt-admin: it is not on the PATH");
    fs::rename(tool.with_extension("away"), &tool).unwrap();
    host.kill_daemon();
    host.says(&["host", "plan", &profile])
        .ended(3)
        .with_output("neither virtqemud nor libvirtd runs on this host");
    let settings = &host
        .says(&["host", "plan", &host.profile("6000", "300", "optional = true\n"), "--json"])
        .ended(0)
        .json()["settings"];
    assert_eq!((&settings[0]["state"], &settings[1]["state"]), (&"skipped".into(), &"skipped".into()));
}

#[test]
fn doctor_names_what_the_configuration_of_libvirt_lacks_and_changes_nothing_of_it() {
    let Some(host) = Host::new() else { return };
    let finding = || {
        let document = host.says(&["doctor", "--json"]).json();
        let findings = document["findings"].as_array().unwrap().clone();
        findings.into_iter().find(|finding| finding["key"] == "libvirtd-limits")
    };
    assert_eq!(finding(), None, "it is not installed");
    let short = "# of this host\nmax_clients = 250\nmax_client_requests = 300\n";
    let file = host.home.file("etc/libvirt/libvirtd.conf", short);
    let found = finding().unwrap();
    assert_eq!(
        found["what"],
        "libvirtd has max_clients = 250, max_workers = 20 (/etc/libvirt/libvirtd.conf)"
    );
    assert!(found["remedy"].as_str().unwrap().contains("systemctl restart libvirtd"), "{found}");
    assert_eq!(fs::read_to_string(&file).unwrap(), short);
    host.home.file("etc/libvirt/libvirtd.conf", &format!("{short}max_clients = 300\nmax_workers = 300\n"));
    assert_eq!(finding(), None);
}
