//! `tilemark host` on real settings of the kernel, in a network namespace of its own: nothing of this host is changed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A network namespace. It ends with the process that holds it.
struct Network {
    holder: Child,
}

impl Network {
    fn new() -> Option<Self> {
        if !common::is_root() {
            common::skipped("a network namespace needs root");
            return None;
        }
        let mut command = Command::new("unshare");
        // It is ready when it has printed a line.
        command.args(["--net", "sh", "-c", "echo ready; exec sleep 3600"]).stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(holder.stdout.as_mut().unwrap()), &mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Some(Self { holder })
    }

    /// A command line in it.
    fn command(&self, home: &Home, program: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.holder.id().to_string(), "--"]).args(program);
        command.env("TILEMARK_HOME", home.path()).env("TILEMARK_LOCK_FOLDER", home.lock_folder());
        command
    }

    fn says(&self, home: &Home, arguments: &[&str]) -> Said {
        let program = [&[TILEMARK], arguments].concat();
        Said::of(&self.command(home, &program).output().unwrap())
    }

    /// The text of each sysctl of IPv4 that it can read.
    fn values(&self, home: &Home) -> String {
        let script =
            "cd /proc/sys/net/ipv4 && for name in tcp_* ip_*; do echo \"$name: $(cat $name 2>&1)\"; done";
        String::from_utf8(self.command(home, &["sh", "-c", script]).output().unwrap().stdout).unwrap()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Values that no kernel has by itself, each of one network namespace.
const SETTINGS: [(&str, &str); 24] = [
    ("tcp_fin_timeout", "17"),
    ("tcp_keepalive_time", "1234"),
    ("tcp_keepalive_intvl", "33"),
    ("tcp_keepalive_probes", "5"),
    ("tcp_retries1", "4"),
    ("tcp_retries2", "9"),
    ("tcp_syn_retries", "4"),
    ("tcp_synack_retries", "4"),
    ("tcp_orphan_retries", "3"),
    ("tcp_reordering", "5"),
    ("tcp_max_reordering", "301"),
    ("tcp_notsent_lowat", "131072"),
    ("tcp_rmem", "4096 131072 4194304"),
    ("tcp_wmem", "4096 65536 4194304"),
    ("tcp_max_syn_backlog", "777"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_no_metrics_save", "1"),
    ("tcp_mtu_probing", "1"),
    ("tcp_base_mss", "1100"),
    ("tcp_timestamps", "0"),
    ("tcp_sack", "0"),
    ("tcp_window_scaling", "0"),
    ("ip_default_ttl", "63"),
    ("ip_local_port_range", "20000 40001"),
];

fn profile(home: &Home, further: &str) -> String {
    let line = |(name, value): &(&str, &str)| {
        format!("[[setting]]\nkey = \"net.ipv4.{name}\"\nvalue = \"{value}\"\nsource = \"a test\"\n")
    };
    let lines: String = SETTINGS.iter().map(line).collect();
    let text = format!("schema = 1\nname = \"many\"\nabout = \"A test.\"\n{lines}{further}");
    home.file("many.toml", &text).to_str().unwrap().to_owned()
}

#[test]
fn a_profile_is_planned_applied_verified_and_restored_byte_for_byte() {
    let Some(network) = Network::new() else { return };
    let home = Home::new();
    let path = profile(&home, "[[setting]]\nkey = \"module.absent.x\"\nvalue = \"1\"\noptional = true\n");
    let profile = path.as_str();
    let before = network.values(&home);

    let plan = network.says(&home, &["host", "plan", profile, "--json"]).ended(0);
    let settings = plan.json()["settings"].as_array().unwrap().clone();
    assert_eq!(settings.len(), SETTINGS.len() + 1);
    for key in ["key", "path", "now", "wanted", "source", "danger", "where"] {
        assert!(settings.iter().all(|setting| setting.get(key).is_some()), "{key}: {plan:?}");
    }
    assert_eq!(settings[0]["path"], "/proc/sys/net/ipv4/tcp_fin_timeout");
    assert!(settings[SETTINGS.len()]["path"].is_null(), "{plan:?}");
    let refused = network.says(&home, &["host", "apply", profile]).ended(2);
    assert!(refused.out.contains("-> 17") && refused.error.contains("--yes"), "{refused:?}");
    assert_eq!(network.says(&home, &["host", "verify", profile]).code, Some(1));
    assert_eq!(network.values(&home), before, "nothing is touched so far");

    let applied = network.says(&home, &["host", "apply", profile, "--yes", "--json"]).ended(0);
    assert_eq!(applied.json()["changed"].as_array().unwrap().len(), SETTINGS.len(), "{applied:?}");
    assert_ne!(network.values(&home), before);
    assert_eq!(network.says(&home, &["host", "verify", profile]).code, Some(0));
    let again = network.says(&home, &["host", "apply", profile, "--yes"]);
    assert!(again.code == Some(3) && again.error.contains("`many` is applied already"), "{again:?}");
    // The journal of another home would take these values for the host's own.
    let other = Home::new();
    let mut elsewhere = network.command(&other, &[TILEMARK, "host", "apply", profile, "--yes"]);
    elsewhere.env("TILEMARK_LOCK_FOLDER", home.lock_folder());
    let elsewhere = Said::of(&elsewhere.output().unwrap());
    let named = home.path().join("state").display().to_string();
    assert!(elsewhere.code == Some(3) && elsewhere.error.contains(&named), "{elsewhere:?}");
    let status = network.says(&home, &["host", "status", "--json"]).json();
    assert_eq!(
        (&status["profile"], &status["settings"][0]["was"]),
        (&"many".into(), &"60".into()),
        "{status}"
    );
    network.says(&home, &["recover"]).ended(0);
    assert_eq!(network.says(&home, &["host", "verify", profile]).code, Some(0), "it stays");
    let elsewhere = home.says(&["host", "restore"]);
    assert!(
        elsewhere.code == Some(6) && elsewhere.error.contains("another network namespace"),
        "{elsewhere:?}"
    );
    assert_eq!(network.says(&home, &["host", "verify", profile]).code, Some(0), "it stays");

    network.says(&home, &["host", "restore"]).ended(0);
    assert_eq!(network.values(&home), before);
    assert!(network.says(&home, &["host", "status"]).out.contains("No profile is applied"));
}

#[test]
fn network_settings_of_the_papers_are_taken_by_this_kernel_and_restored() {
    let Some(network) = Network::new() else { return };
    for paper in ["consolidation-2009", "messaging-2009"] {
        let home = Home::new();
        let before = network.values(&home);
        let plan = network.says(&home, &["host", "plan", paper, "--json"]).json();
        // Those that a network namespace has of its own: all others are of the whole host.
        let own = plan["settings"].as_array().unwrap().iter().filter(|setting| {
            let key = setting["key"].as_str().unwrap();
            key.starts_with("net.ipv4.") && !setting["path"].is_null()
        });
        let line = |setting: &Value| {
            format!("[[setting]]\nkey = {}\nvalue = {}\n", setting["key"], setting["wanted"])
        };
        let lines: Vec<String> = own.map(line).collect();
        assert!(!lines.is_empty(), "{plan}");
        let text = format!("schema = 1\nname = \"paper\"\nabout = \"A test.\"\n{}", lines.concat());
        let file = home.file("paper.toml", &text);
        network.says(&home, &["host", "apply", file.to_str().unwrap(), "--yes"]).ended(0);
        assert_eq!(network.says(&home, &["host", "verify", file.to_str().unwrap()]).code, Some(0));
        assert_eq!(network.says(&home, &["host", "restore"]).code, Some(0));
        assert_eq!(network.values(&home), before);
    }
}

#[test]
fn a_value_that_another_program_set_meanwhile_is_left_and_exits_6() {
    let Some(network) = Network::new() else { return };
    let home = Home::new();
    let profile = profile(&home, "");
    assert_eq!(network.says(&home, &["host", "apply", &profile, "--yes"]).code, Some(0));
    let other = ["sh", "-c", "echo 21 > /proc/sys/net/ipv4/tcp_fin_timeout"];
    assert!(network.command(&home, &other).status().unwrap().success());
    let verified = network.says(&home, &["host", "verify", &profile]);
    assert!(verified.code == Some(1) && verified.out.contains("is 21"), "{verified:?}");
    network.says(&home, &["host", "restore"]).ended(6).with_output("Tilemark set 17, and it is 21 now");
}

#[test]
fn apply_killed_at_any_moment_is_whole_or_recovered_byte_for_byte() {
    let Some(network) = Network::new() else { return };
    let home = Home::new();
    let profile = profile(&home, "");
    let before = network.values(&home);
    let kills = std::env::var("TILEMARK_TEST_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12);
    // Kills are spread over the time that it takes here.
    let begun = Instant::now();
    assert_eq!(network.says(&home, &["host", "apply", &profile, "--yes"]).code, Some(0));
    let whole = begun.elapsed().as_micros() as u64;
    assert_eq!(network.says(&home, &["host", "restore"]).code, Some(0));
    let mut half = 0;
    for kill in 0..kills {
        // Every third one is killed while it restores.
        let is_restoring = kill % 3 == 2;
        let apply = ["host", "apply", &profile, "--yes"];
        if is_restoring {
            assert_eq!(network.says(&home, &apply).code, Some(0));
        }
        let killed: &[&str] = if is_restoring { &["host", "restore"] } else { &apply };
        let mut command = network.command(&home, &[&[TILEMARK], killed].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // nsenter becomes the program: it is the one that is killed.
        thread::sleep(Duration::from_micros(whole / 4 + (kill * 7_919) % whole));
        child.kill().unwrap();
        child.wait().unwrap();
        let recovered = network.says(&home, &["recover", "--json"]).ended(0);
        half += u32::from(recovered.json()["settings"].as_array().is_some_and(|some| !some.is_empty()));
        // One that was whole when it was killed stays applied.
        assert_eq!(network.says(&home, &["host", "restore"]).code, Some(0));
        assert_eq!(network.values(&home), before, "kill {kill}");
    }
    println!("{}", serde_json::json!({ "kills": kills, "in_part": half }));
}

/// A program that plays systemctl(1) with one service, which runs. To stop it takes until the file `go` is there.
const SYSTEMCTL: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1 $2" in
    "show --property=Id") echo Id=made.service ;;
    "show --property=LoadState,ActiveState")
        echo LoadState=loaded
        [ -e stopped ] && echo ActiveState=inactive || echo ActiveState=active ;;
    show*) ;;
    stop*) : >began; until [ -e go ]; do sleep 0.01; done; : >stopped ;;
    start*) rm stopped ;;
esac
"#;

#[test]
fn apply_that_is_interrupted_midway_restores_everything_and_says_so() {
    let Some(network) = Network::new() else { return };
    let home = Home::new();
    let service = "[[setting]]\nkey = \"service.made\"\nvalue = \"stopped\"\nsource = \"a test\"\n";
    let profile = profile(&home, service);
    let before = network.values(&home);
    let systemctl = home.file("bin/systemctl", SYSTEMCTL);
    fs::set_permissions(&systemctl, PermissionsExt::from_mode(0o755)).unwrap();
    let bin = systemctl.parent().unwrap();
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/system && PATH={}:$PATH exec env --default-signal=INT {TILEMARK} host apply {profile} --yes",
        bin.display()
    );
    let mut command = network.command(&home, &["unshare", "--mount", "sh", "-c", &script]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !bin.join("began").exists() && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    let is_stopping = bin.join("began").exists();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // Its thread that counts signals runs before the service has stopped, on a busy machine too.
    thread::sleep(Duration::from_millis(200));
    fs::write(bin.join("go"), "").unwrap();
    let said = Said::of(&child.wait_with_output().unwrap());
    assert!(is_stopping, "it never stopped the service: {said:?}");
    assert!(said.code == Some(5) && said.error.contains("interrupted, and restored"), "{said:?}");
    assert_eq!(network.values(&home), before);
    assert!(!bin.join("stopped").exists(), "the service runs again");
    assert_eq!(network.says(&home, &["host", "status", "--json"]).json()["profile"], Value::Null);
}

#[test]
fn root_of_a_container_without_rights_learns_that_nothing_was_changed_and_what_to_do() {
    if !common::is_root() {
        return common::skipped("to be another user needs root");
    }
    let home = Home::new();
    let text = "schema = 1\nname = \"one\"\nabout = \"A test.\"\n[[setting]]\nkey = \"vm.stat_interval\"\nvalue = \"7\"\nsource = \"a test\"\n";
    let profile = home.file("one.toml", text);
    fs::set_permissions(home.path(), PermissionsExt::from_mode(0o777)).unwrap();
    // Where it was built nobody else may look.
    let program = home.path().join("tilemark");
    fs::copy(TILEMARK, &program).unwrap();
    let value = fs::read_to_string("/proc/sys/vm/stat_interval").unwrap();
    // It is root there, and nobody outside.
    let container = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.args(["unshare", "--user", "--map-root-user"]);
        command
    };
    if !container().arg("true").status().unwrap().success() {
        return common::skipped("this kernel lets nobody make a user namespace");
    }
    let mut command = container();
    command.arg(program).args(["host", "apply"]).arg(profile).arg("--yes");
    command.env("TILEMARK_HOME", home.path().join("own")).env("TILEMARK_LOCK_FOLDER", home.lock_folder());
    let said = Said::of(&command.output().unwrap()).ended(3);
    assert!(said.error.contains("vm/stat_interval") && said.error.contains("container"), "{said:?}");
    assert_eq!(fs::read_to_string("/proc/sys/vm/stat_interval").unwrap(), value);
}

#[test]
fn values_of_a_network_device_that_are_no_files_are_restored_too() {
    let Some(network) = Network::new() else { return };
    let home = Home::new();
    let line = |(key, value): &(&str, &str)| {
        format!("[[setting]]\nkey = \"nic.tm0.{key}\"\nvalue = \"{value}\"\nsource = \"a test\"\n")
    };
    let values = [
        ("tso", "off"),
        ("gso", "off"),
        ("gro", "on"),
        ("tx_queue_len", "77"),
        ("rps_cpus", "0"),
        ("xps_cpus", "0"),
    ];
    let lines: String = values.iter().map(line).collect();
    let text = format!("schema = 1\nname = \"nic\"\nabout = \"A test.\"\n{lines}");
    let profile = home.file("nic.toml", &text).to_str().unwrap().to_owned();
    // What /sys shows of devices is of the namespace in which it was mounted.
    let script = format!(
        "set -e; mount -t sysfs none /sys; ip link add tm0 numtxqueues 2 type veth peer name tm1; cd {}
         {TILEMARK} host plan {profile} --json > before
         {TILEMARK} host apply {profile} --yes --json > applied
         {TILEMARK} host verify {profile}
         {TILEMARK} host restore
         {TILEMARK} host plan {profile} --json > after",
        home.path().display()
    );
    let said =
        Said::of(&network.command(&home, &["unshare", "--mount", "sh", "-c", &script]).output().unwrap());
    assert_eq!(said.code, Some(0), "{said:?}");
    let read = |name: &str| fs::read_to_string(home.path().join(name)).unwrap();
    assert_eq!(read("before"), read("after"));
    let applied: serde_json::Value = serde_json::from_str(&read("applied")).unwrap();
    // Each of the two queues to send from has its own.
    assert_eq!(applied["changed"].as_array().unwrap().len(), values.len() + 1, "{applied}");
    assert!(said.out.contains("nic.tm0.tso: it was on, Tilemark set off, and it is on again"), "{said:?}");
}

#[test]
fn what_forwarding_changes_along_with_itself_is_restored_and_what_loses_addresses_is_refused() {
    let Some(network) = Network::new() else { return };
    let home = Home::new();
    let file = |name: &str, settings: &[(&str, &str)]| {
        let line =
            |(key, value): &(&str, &str)| format!("[[setting]]\nkey = \"{key}\"\nvalue = \"{value}\"\n");
        let lines: String = settings.iter().map(line).collect();
        let text = format!("schema = 1\nname = \"test\"\nabout = \"A test.\"\n{lines}");
        home.file(name, &text).to_str().unwrap().to_owned()
    };
    let keys = ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"];
    let forwarding = file("forwarding.toml", &keys.map(|key| (key, "1")));
    let without = file("without.toml", &[("net.ipv6.conf.all.disable_ipv6", "1")]);
    let script = format!(
        "set -e; ip link add tm0 type veth peer name tm1; cd {}
         for device in tm0 tm1; do ip link set $device addrgenmode none; ip link set $device up; done
         ip -6 addr add fd00::1/64 dev tm0 nodad
         cd /proc/sys/net; echo 0 > ipv4/conf/all/accept_redirects
         for version in ipv4 ipv6; do echo 1 > $version/conf/tm0/forwarding; done
         values() {{ grep -r . ipv4/conf ipv6/conf 2> /dev/null | sort > {0}/$1; ip -6 -o addr show dev tm0 >> {0}/$1; }}
         values before
         {TILEMARK} host apply {forwarding} --yes --allow {} --allow {}
         values applied
         {TILEMARK} host restore
         values after
         {TILEMARK} host apply {without} --yes || echo refused $?
         values refused",
        home.path().display(),
        keys[0],
        keys[1],
    );
    let said = Said::of(&network.command(&home, &["sh", "-c", &script]).output().unwrap()).ended(0);
    let [before, applied, after, refused] = ["before", "applied", "after", "refused"]
        .map(|name| fs::read_to_string(home.path().join(name)).unwrap());
    assert!(before.contains("ipv6/conf/tm1/forwarding:0") && before.contains("fd00::1"), "{before}");
    assert!(applied.contains("ipv4/conf/tm1/forwarding:1") && applied.contains("ipv6/conf/tm1/forwarding:1"));
    assert_eq!(after, before);
    assert_eq!(refused, before);
    assert!(said.out.contains("refused 3") && said.error.contains("does not bring them back"), "{said:?}");
}

#[test]
fn a_read_only_proc_sys_is_named_with_what_to_do() {
    let Some(network) = Network::new() else { return };
    let home = Home::new();
    let profile = profile(&home, "");
    let script = format!(
        "mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys && exec {TILEMARK} host apply {profile} --yes"
    );
    let command = ["unshare", "--mount", "sh", "-c", &script];
    let before = network.values(&home);
    let said = Said::of(&network.command(&home, &command).output().unwrap()).ended(3);
    assert!(said.error.contains("Read-only file system") && said.error.contains("container"), "{said:?}");
    assert_eq!(network.values(&home), before);
}

#[test]
fn a_key_that_is_spelled_wrongly_stops_plan_apply_and_verify() {
    let home = Home::new();
    let text =
        "schema = 1\nname = \"mine\"\nabout = \"A test.\"\n[[setting]]\nkey = \"vm.swapiness\"\nvalue = 10\n";
    let file = home.file("mine.toml", text);
    let file = file.to_str().unwrap();
    let meant =
        "this host has no `vm.swapiness`: there is no /proc/sys/vm/swapiness. Did you mean `vm.swappiness`?";
    home.says(&["host", "plan", file]).ended(3).with_output(meant);
    let applied = home.says(&["host", "apply", file]).ended(3);
    assert!(applied.error.contains(meant) && !applied.error.contains("--yes"), "{applied:?}");
    assert!(applied.error.contains("mark it `optional = true` in the profile"), "{applied:?}");
    let error = home.says(&["host", "apply", file, "--json"]).json()["error"].clone();
    assert!(error["code"] == "host-unfit" && error["message"] == meant, "{error}");
    let verified = home.says(&["host", "verify", file]).ended(2);
    assert!(verified.error.contains(meant) && verified.out.is_empty(), "{verified:?}");
    // Where it is no profile that names it, none can be marked.
    let set = "host.setting.vm.swapiness=10";
    let error = home.says(&["plan", "web", "--on", "native", "--set", set, "--json"]).json()["error"].clone();
    assert!(error["message"] == meant && error["remedy"] == "leave it out", "{error}");
    let set = format!("host.profile={file}");
    let error =
        home.says(&["plan", "web", "--on", "native", "--set", &set, "--json"]).json()["error"].clone();
    assert!(error["message"] == meant, "{error}");
    assert!(error["remedy"].as_str().unwrap().contains("`optional = true`"), "{error}");
}

#[test]
fn what_is_wrong_with_a_profile_is_named_before_anything_is_touched() {
    let home = Home::new();
    let said = home.says(&["host", "plan", "no-such"]);
    assert!(said.code == Some(2) && said.error.contains("current"), "{said:?}");
    let bad = "schema = 1\nname = \"bad\"\nabout = \"A test.\"\n[[setting]]\nkey = \"thp\"\nvalue = \"sometimes\"\n";
    let file = home.file("bad.toml", bad);
    let setting =
        home.says(&["host", "plan", file.to_str().unwrap(), "--json"]).ended(3).json()["settings"][0].clone();
    assert!(setting["state"] == "refused" && setting["why"].as_str().unwrap().contains("always, madvise"));
    home.says(&["host", "apply", file.to_str().unwrap(), "--yes"]).with_error("always, madvise, never");
    let listed = home.says(&["host", "settings", "--json"]).json();
    assert!(listed["settings"].as_array().unwrap().iter().any(|one| one["key"] == "vm.swappiness"));
    for name in ["current", "consolidation-2009", "messaging-2009", "oltp-2009", "block-io-2012"] {
        let said = home.says(&["host", "plan", name]);
        // This host may have a program that sets the same, or what cannot be changed while it runs.
        assert!(matches!(said.code, Some(0 | 3)), "{said:?}");
        assert!(
            !said.out.contains("no setting is called"),
            "{name} has a key that is not in the catalogue: {said:?}"
        );
    }
    assert!(!home.path().join("state").exists(), "a plan touches nothing");
    assert!(fs::read_dir(home.path()).unwrap().count() <= 2);
}
