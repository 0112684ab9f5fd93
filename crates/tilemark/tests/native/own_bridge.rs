//! Guests on a bridge of the user's own: other machines reach them, and nothing of the user's network is changed.

use super::common::{
    Said, TILEMARK,
    real::{Process, Real, Running, keeper_of},
};
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A network of its own, which ends with this.
struct Machine(Child);

impl Machine {
    fn new() -> Self {
        let own = fs::read_link("/proc/self/ns/net").unwrap();
        // It ends with its input, and so with this test.
        let child = Command::new("unshare").args(["--net", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        let namespace = PathBuf::from(format!("/proc/{}/ns/net", child.id()));
        let until = Instant::now() + super::TIMEOUT;
        while fs::read_link(&namespace).unwrap() == own {
            assert!(Instant::now() < until, "no network namespace");
            thread::sleep(Duration::from_millis(5));
        }
        Self(child)
    }

    /// A command in that network.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.0.id())).arg(program);
        command
    }

    fn sh(&self, script: &str) -> String {
        let output = self.command("timeout").args(["60", "bash", "-c", script]).output().unwrap();
        let said = Said::of(&output);
        assert_eq!(said.code, Some(0), "{script}: {said:?}");
        said.out
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host whose bridge `br0` leads to one machine, and its site file.
struct Site {
    host: Machine,
    outside: Machine,
    file: String,
}

impl Site {
    fn new(real: &Real, addresses: &str) -> Self {
        let (host, outside) = (Machine::new(), Machine::new());
        host.sh(&format!(
            "ip link set lo up; ip link add br0 type bridge && ip address add 192.0.2.1/24 dev br0 && \
             ip link add port0 type veth peer name eth0 address 02:00:00:00:00:0a netns {} && ip link set port0 master br0 up && ip link set br0 up",
            outside.0.id()
        ));
        outside.sh("for of in all default eth0; do echo 1 >/proc/sys/net/ipv6/conf/$of/disable_ipv6; done; ip link set lo up && ip address add 192.0.2.10/24 dev eth0 && ip link set eth0 up");
        let text = format!("schema = 1\n[network]\nbridge = \"br0\"\naddresses = \"{addresses}\"\n");
        let file = real.home.file("site.toml", &text).to_str().unwrap().to_owned();
        let site = Self { host, outside, file };
        // What a network says by itself when it begins is over: the state before a run is that of a network that has been there.
        site.host.sh("until bridge link | grep -q forwarding; do sleep 0.1; done");
        site.host.sh("while ip address | grep -q tentative; do sleep 0.1; done");
        site.outside.sh("until echo >/dev/udp/192.0.2.1/9; do sleep 0.1; done");
        site.host.sh("until bridge fdb | grep -q 02:00:00:00:00:0a; do sleep 0.1; done");
        site
    }

    fn run<'a>(&self, real: &'a Real, backend: &str, more: &[&str]) -> Running<'a> {
        let mut command = self.host.command(TILEMARK);
        let words: Vec<&str> =
            super::RUN.iter().map(|word| if *word == "native" { backend } else { word }).collect();
        command.args(words).args(["--site", &self.file]).args(more);
        real.start_as(command)
    }

    fn says(&self, real: &Real, arguments: &[&str]) -> Said {
        let mut command = self.host.command(TILEMARK);
        command.args(arguments).env("TILEMARK_HOME", real.home.path()).stdin(Stdio::null());
        command.env("TILEMARK_LOCK_FOLDER", real.home.lock_folder());
        Said::of(&command.output().unwrap())
    }

    /// All that there is of the host's network, without what counts down or up by itself.
    fn state(&self) -> Vec<String> {
        let all = self.host.sh(
            "ip -d link; ip address; ip route show table all; ip rule; bridge -d link; bridge fdb; bridge vlan; \
             tc qdisc; sysctl -a 2>/dev/null | grep ^net; cat /proc/net/packet | wc -l",
        );
        all.lines().map(without_timers).collect()
    }

    /// What the guest with this address answers to a machine outside.
    fn fetched(&self, address: &str) -> Option<String> {
        let script = format!(
            "exec 3<>/dev/tcp/{address}/80 && printf 'GET /1024.bin HTTP/1.0\\r\\n\\r\\n' >&3 && timeout 5 head -c 12 <&3"
        );
        let output = self.outside.command("timeout").args(["5", "bash", "-c", &script]).output().unwrap();
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        (!answer.is_empty()).then_some(answer)
    }
}

/// A line without the values of timers.
fn without_timers(line: &str) -> String {
    let mut words = line.split_whitespace();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        kept.push(word);
        if word.ends_with("_timer") {
            words.next();
        }
    }
    kept.join(" ")
}

/// Lines that only one of two states has.
fn changed(before: &[String], after: &[String]) -> Vec<String> {
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("- {line}"));
    let new = after.iter().filter(|line| !before.contains(line)).map(|line| format!("+ {line}"));
    gone.chain(new).collect()
}

const NOTHING: [&str; 0] = [];

/// The first guest's address.
const GUEST: &str = "192.0.2.65";
const LONG: [&str; 2] = ["--set", "measure.length=60s"];

#[track_caller]
fn refused(said: &Said, code: i32, message: &str, remedy: &str) {
    assert_eq!(said.code, Some(code), "{said:?}");
    let error = &said.json()["error"];
    assert!(error["message"].as_str().unwrap().contains(message), "{said:?}");
    assert!(error["remedy"].as_str().unwrap().contains(remedy), "{said:?}");
}

#[test]
fn guests_are_reached_from_outside_and_the_users_network_is_restored() {
    let Some(real) = Real::new() else { return };
    let site = Site::new(&real, "192.0.2.64-192.0.2.66");
    let before = site.state();
    for backend in ["native", "emulated"] {
        let mut running = site.run(&real, backend, &["--set", "measure.length=5s"]);
        let answer = running.until("an answer of the guest", |_| site.fetched(GUEST));
        assert_eq!(answer, "HTTP/1.1 200", "{backend}");
        assert!(site.host.sh("bridge link").contains("tmuplink"), "by which it was reached");
        // One port more, and nothing that was there is otherwise: not the bridge's address, its MTU, a setting.
        let meanwhile = changed(&before, &site.state());
        assert!(meanwhile.iter().any(|line| line.starts_with("+ ")), "{backend}");
        let otherwise: Vec<&String> = meanwhile.iter().filter(|line| line.starts_with("- ")).collect();
        assert!(otherwise.is_empty(), "{backend}: {meanwhile:#?}");
        let said = running.said().measured();
        assert_eq!(said.json()["provenance"]["as_it_was"], true, "{said:?}");
        assert_eq!(site.fetched(GUEST), None);
        assert_eq!(changed(&before, &site.state()), NOTHING, "after {backend}");
    }
}

#[test]
fn a_run_on_the_users_bridge_that_is_killed_leaves_nothing_there() {
    let Some(real) = Real::new() else { return };
    let site = Site::new(&real, "192.0.2.64-192.0.2.66");
    let before = site.state();
    for killed in ["the command", "the keeper", "Ctrl-C"] {
        let mut running = site.run(&real, "native", &LONG);
        running.until("an answer of the guest", |_| site.fetched(GUEST));
        let under_way = keeper_of(&real).unwrap();
        let processes = Process::descendants(running.child.id() as i32);
        match killed {
            "the command" => running.signal(Signal::KILL),
            "the keeper" => {
                let keeper = i32::try_from(under_way.keeper.unwrap()).unwrap();
                let keeper = rustix::process::Pid::from_raw(keeper).unwrap();
                rustix::process::kill_process(keeper, Signal::KILL).unwrap();
            }
            _ => {
                running.signal(Signal::INT);
                running.signal(Signal::INT);
            }
        }
        running.said();
        site.says(&real, &["recover", "--json"]).ended(0);
        real.all_gone(&processes, under_way.cgroup.as_slice());
        let until = Instant::now() + super::TIMEOUT;
        loop {
            let changed = changed(&before, &site.state());
            if changed.is_empty() {
                break;
            }
            assert!(Instant::now() < until, "after {killed}: {changed:#?}");
            thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_bridge_or_addresses_that_cannot_be_used_are_refused_before_anything_starts() {
    let Some(real) = Real::new() else { return };
    let site = Site::new(&real, "192.0.2.64-192.0.2.66");
    let before = site.state();
    let run = |file: &str| site.says(&real, &[&super::RUN[..], &["--site", file]].concat());
    // A machine outside has one of the addresses.
    site.outside.sh("ip address add 192.0.2.65/24 dev eth0");
    let said = run(&site.file);
    let taken = "192.0.2.65 of `network.addresses` is in use: 02:00:00:00:00:0a answered on the bridge `br0`";
    refused(&said, 3, taken, "give a range");
    assert!(fs::read_dir(real.home.path().join("runs")).into_iter().flatten().next().is_none(), "no record");
    site.outside.sh("ip address del 192.0.2.65/24 dev eth0");
    // Fewer addresses than guests.
    let few = real
        .home
        .file("few.toml", "schema = 1\n[network]\nbridge = \"br0\"\naddresses = \"192.0.2.64-192.0.2.65\"\n");
    let plan = ["plan", "web", "--on", "native", "--tiles", "2", "--json", "--site", few.to_str().unwrap()];
    let said = site.says(&real, &plan);
    let counts = "2 tiles need 3 addresses, one for each guest and one for the run itself, and `network.addresses` has 2";
    refused(&said, 2, counts, "longer range");
    let missing = real.home.file(
        "missing.toml",
        "schema = 1\n[network]\nbridge = \"br7\"\naddresses = \"192.0.2.64-192.0.2.99\"\n",
    );
    refused(&run(missing.to_str().unwrap()), 3, "no network device `br7`", "ip link show type bridge");
    let said = site.says(&real, &["doctor", "--json", "--site", missing.to_str().unwrap()]);
    assert_eq!(said.code, Some(3), "as the run would end: {said:?}");
    let findings = said.json()["findings"].to_string();
    assert!(findings.contains("no network device `br7`"), "{said:?}");
    let said = site.says(&real, &["doctor", "--site", &site.file]);
    let fit = "2 guests can be joined to the bridge br0, with addresses of 192.0.2.64 to 192.0.2.66: no address is in use";
    assert!(said.error.contains(fit), "{said:?}");
    real.all_gone(&BTreeSet::new(), &[]);
    assert_eq!(changed(&before, &site.state()), NOTHING);
}

/// A card that was joined to a bridge and kept its address, as when only the half of it is done.
#[test]
fn an_address_that_a_port_of_the_bridge_has_kept_is_named_with_the_remedy() {
    let Some(real) = Real::new() else { return };
    let site = Site::new(&real, "192.0.2.64-192.0.2.66");
    let finding = || {
        // With the devices of that network in /sys, as they are on a host.
        let mut command = site.host.command("unshare");
        let script = "mount -t sysfs sysfs /sys && exec \"$0\" \"$@\"";
        command.args(["--mount", "sh", "-c", script, TILEMARK, "doctor", "--json", "--site", &site.file]);
        let said = Said::of(&command.env("TILEMARK_HOME", real.home.path()).output().unwrap());
        assert_eq!(said.code, Some(0), "guests can be joined to it: {said:?}");
        let findings = said.json()["findings"].clone();
        findings.as_array().unwrap().iter().find(|finding| finding["key"] == "bridge-port-address").cloned()
    };
    assert_eq!(finding(), None);
    site.host.sh("ip address add 192.0.2.9/24 dev port0");
    let found = finding().unwrap();
    assert!(
        found["what"]
            .as_str()
            .unwrap()
            .starts_with("port0, a port of the bridge br0, has the address 192.0.2.9"),
        "{found}"
    );
    assert!(found["remedy"].as_str().unwrap().contains("`ip address del 192.0.2.9/24 dev port0`"), "{found}");
    // An address of another network does no harm.
    site.host.sh("ip address flush dev port0; ip address add 198.51.100.9/24 dev port0");
    assert_eq!(finding(), None);
}

/// The firewall is played: what `nft` prints on a host with Docker. The switch is the kernel's own.
#[test]
fn a_firewall_that_drops_what_a_bridge_forwards_is_named_with_the_remedy() {
    let Some(real) = Real::new() else { return };
    let site = Site::new(&real, "192.0.2.64-192.0.2.66");
    let switch = "/proc/sys/net/bridge/bridge-nf-call-iptables";
    if !Path::new(switch).exists() {
        return super::common::skipped("this kernel has no br_netfilter");
    }
    let folder = real.home.path().join("programs");
    fs::create_dir(&folder).unwrap();
    let chain = r#"{"family":"ip","table":"filter","name":"FORWARD","hook":"forward","policy":"drop"}"#;
    let nft = format!("#!/bin/sh\necho '{{\"nftables\":[{{\"chain\":{chain}}}]}}'\n");
    fs::write(folder.join("nft"), nft).unwrap();
    fs::set_permissions(folder.join("nft"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let says = |arguments: &[&str]| {
        // With the devices of that network in /sys, as they are on a host.
        let mut command = site.host.command("unshare");
        let script = "mount -t sysfs sysfs /sys && exec env PATH=\"$0\" \"$@\"";
        command.args(["--mount", "sh", "-c", script, &path, TILEMARK]).args(arguments);
        command.env("TILEMARK_HOME", real.home.path()).stdin(Stdio::null());
        Said::of(&command.output().unwrap())
    };
    let finding = |said: &Said| {
        let findings = said.json()["findings"].clone();
        findings.as_array().unwrap().iter().find(|finding| finding["key"] == "bridge-netfilter").cloned()
    };
    let doctor = ["doctor", "--json", "--site", &site.file];
    site.host.sh(&format!("echo 1 >{switch}"));
    let said = says(&doctor);
    assert_eq!(said.code, Some(0), "rules may let guests through: {said:?}");
    let found = finding(&said).unwrap();
    let (what, remedy) = (found["what"].as_str().unwrap(), found["remedy"].as_str().unwrap());
    assert!(what.contains("bridge br0") && what.contains("chain FORWARD of table filter"), "{found}");
    assert!(
        remedy.contains("192.0.2.64 to 192.0.2.66") && remedy.contains("bridge-nf-call-iptables=0"),
        "{found}"
    );
    let plan = ["plan", "web", "--on", "native", "--tiles", "1", "--offline", "--site", &site.file];
    says(&plan).with_output("chain FORWARD of table filter");
    site.host.sh(&format!("echo 0 >{switch}"));
    assert_eq!(finding(&says(&doctor)), None);
    site.host.sh("ip link set br0 type bridge nf_call_iptables 1");
    let found = finding(&says(&doctor)).unwrap();
    assert!(found["remedy"].as_str().unwrap().contains("br0 type bridge nf_call_iptables 0"), "{found}");
}

#[test]
fn guests_that_are_kept_are_reached_from_outside_until_they_are_ended() {
    let Some(real) = Real::new() else { return };
    let site = Site::new(&real, "192.0.2.64-192.0.2.66");
    let before = site.state();
    let up = ["guests", "up", "1", "--role", "web", "--on", "native", "--offline", "--no-memory", "--json"];
    let said = site.says(&real, &[&up[..], &["--site", &site.file]].concat()).ended(0);
    assert_eq!(site.fetched(GUEST).as_deref(), Some("HTTP/1.1 200"), "{said:?}");
    // Others with the same addresses are refused.
    let again = site.says(&real, &[&up[..], &["--site", &site.file]].concat());
    refused(&again, 3, "is in use", "give a range");
    let clients = real.home.file("clients.toml", "schema = 1\n[[client]]\nname = \"c1\"\n");
    let without = site.says(&real, &[&up[..], &["--site", clients.to_str().unwrap()]].concat());
    refused(&without, 2, "has no [network]", "tilemark run SCENARIO --site FILE");
    site.says(&real, &["guests", "down", "--json"]).ended(0);
    assert_eq!(site.fetched(GUEST), None);
    let until = Instant::now() + super::TIMEOUT;
    while !changed(&before, &site.state()).is_empty() {
        assert!(Instant::now() < until, "{:#?}", changed(&before, &site.state()));
        thread::sleep(Duration::from_millis(100));
    }
}

/// The other run is on another host of that network, which is what two homes with locks of their own are.
#[test]
fn a_second_run_with_the_same_addresses_is_refused() {
    let Some(real) = Real::new() else { return };
    let site = Site::new(&real, "192.0.2.64-192.0.2.66");
    let mut running = site.run(&real, "native", &LONG);
    running.until("an answer of the guest", |_| site.fetched(GUEST));
    let under_way = keeper_of(&real).unwrap();
    let processes = Process::descendants(running.child.id() as i32);
    let run = [&super::RUN[..], &["--not-alone", "--site", &site.file]].concat();
    let said = site.says(&real, &run);
    // Its own address is answered for by nobody: guests' addresses are.
    refused(
        &said,
        3,
        "192.0.2.65 of `network.addresses` is in use: 72:54:c0:00:02:41 answered",
        "another run",
    );
    running.signal(Signal::KILL);
    running.said();
    // Its keeper reads from the home what it has to end: the home stays until then.
    real.all_gone(&processes, under_way.cgroup.as_slice());
}
