//! Loads from client machines: agents that are brought through a shell's stream into the run's own network, on this machine.
//! Whole runs need root and an image.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Home, Line, Said, TILEMARK, fleet_lab, is_root,
    real::{Process, Real, Running, TIMEOUT, keeper_of},
    skipped, words,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tilemark_record::{RunDirectory, result::RunResult, summary::RepeatSummary};

/// A shell in the network of the run: in a run, process 1 is the first of its namespaces.
const IN_RUN: &str = r#""nsenter", "--target", "1", "--net", "sh""#;
/// The same with a monotonic clock that is 1,000 s ahead.
const IN_RUN_AHEAD: &str = r#""unshare", "-T", "--monotonic", "1000", "--fork", "--kill-child", "nsenter", "--target", "1", "--net", "sh""#;
const AHEAD_NS: i64 = 1_000_000_000_000;

fn site(home: &Home, carriers: &[&str]) -> PathBuf {
    let clients = (1..).zip(carriers);
    let text: String = clients
        .map(|(number, words)| format!("[[client]]\nname = \"c{number}\"\ncarrier = [{words}]\n"))
        .collect();
    home.file("site.toml", &format!("schema = 1\n{text}"))
}

static SMALL: Line = Line::new(|| {
    words(
        "web --on native --offline --not-alone --seed 7 --set measure.repeats=1 --set measure.warmup=1s \
         --set measure.length=3s",
    )
});
const FROM_CLIENTS: [&str; 2] = ["--set", "load.web.from=clients"];

/// All repeats of a run, by their numbers.
fn repeats(real: &Real, said: &Said) -> Vec<RepeatSummary> {
    // One repeat is too few for a verdict.
    assert_eq!(said.code, Some(5), "{said:?}");
    let result: RunResult = serde_json::from_str(&said.out).unwrap();
    let record = real.record(&result.run);
    let mut repeats: Vec<RepeatSummary> = record.summaries().unwrap();
    repeats.sort_by_key(|repeat| repeat.repeat);
    repeats
}

fn run(real: &Real, site: Option<&Path>, more: &[&str]) -> Said {
    let site: Vec<&str> =
        site.into_iter().flat_map(|site| ["--site", site.to_str().unwrap()]).chain(["--json"]).collect();
    start(real, &[&["run"], &SMALL[..], &site, more].concat()).said()
}

/// Starts it with a folder for temporary files that no other test uses.
fn start<'a>(real: &'a Real, arguments: &[&str]) -> Running<'a> {
    let mut command = Command::new(TILEMARK);
    command.args(arguments).env("TMPDIR", temporary(&real.home));
    real.start_as(command)
}

fn temporary(home: &Home) -> PathBuf {
    let folder = home.path().join("temporary");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Agents of clients that were started in this home, by their command lines.
fn agents(home: &Home) -> BTreeSet<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_agent = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let home = home.path().to_str().unwrap();
        line.contains("/tilemark-client.") && line.contains(home) && line.split('\0').nth(1) == Some("client")
    };
    numbers.filter(is_agent).collect()
}

/// Folders of this home that agents were brought into.
fn folders(home: &Home) -> Vec<PathBuf> {
    fs::read_dir(temporary(home)).unwrap().flatten().map(|entry| entry.path()).collect()
}

#[track_caller]
fn waits_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn clients_send_whole_tiles_with_the_schedules_of_one_sender_and_their_clocks_are_known() {
    let Some(real) = Real::new() else { return };
    let site = site(&real.home, &[IN_RUN, IN_RUN_AHEAD]);
    let from_host = repeats(&real, &run(&real, None, &["--tiles", "3"]));
    let said = run(&real, Some(&site), &[&FROM_CLIENTS[..], &["--tiles", "3"]].concat());
    let from_clients = repeats(&real, &said);
    let (one, other) = (&from_host[0], &from_clients[0]);
    assert_eq!(other.incidents, [], "{said:?}");
    let offered = |repeat: &RepeatSummary| -> Vec<(String, u64)> {
        repeat.loads[0].guests.iter().map(|guest| (guest.name.clone(), guest.offered)).collect()
    };
    assert_eq!(offered(one), offered(other), "schedules depend on the tile alone");
    assert_eq!((other.loads[0].failed, other.loads[0].wrong), (0, 0), "{:?}", other.loads[0].errors);
    assert_eq!(one.clients, []);
    let names: Vec<&str> = other.clients.iter().map(|client| client.name.as_str()).collect();
    assert_eq!(names, ["c1", "c2"]);
    let mut tiles: Vec<u32> = other.clients.iter().flat_map(|client| client.tiles.clone()).collect();
    tiles.sort_unstable();
    assert_eq!(tiles, [1, 2, 3], "each tile has one client");
    for (client, truth) in other.clients.iter().zip([0, AHEAD_NS]) {
        for clock in [client.clock_before, client.clock_after.unwrap()] {
            assert!(clock.least_ns <= truth && truth <= clock.most_ns, "{truth} is not in {clock:?}");
        }
        assert!(client.actual_begin_ns.unwrap() >= client.intended_begin_ns.unwrap(), "{client:?}");
        assert!(client.same_machine && client.lost.is_none() && client.workers.is_some(), "{client:?}");
        assert!(client.idle_round_trip_ms.unwrap() > 0.0, "{client:?}");
        let sent: u64 = client.loads.iter().map(|load| load.offered).sum();
        assert!(sent > 0 && client.busy.max_fraction > 0.0, "{client:?}");
    }
    assert_eq!(agents(&real.home), Default::default(), "no agent is left");
    // Further repeats have their loads from the same clients.
    let other = real
        .home
        .file("other.toml", &format!("schema = 1\n[[client]]\nname = \"c9\"\ncarrier = [{IN_RUN}]\n"));
    let said = run(&real, Some(&other), &[&FROM_CLIENTS[..], &["--tiles", "3", "--more"]].concat()).ended(2);
    let text = format!("{}{}", said.out, said.error);
    assert!(text.contains("had its loads from client `c") && text.contains("from c9"), "{said:?}");
}

/// Does something once to each agent that there is, when the measured seconds begin.
fn once(home: &Home, what: &str) -> String {
    let flag = home.path().join("once");
    format!(
        "mkdir {} && for p in /proc/[0-9]*; do case $(tr '\\0' ' ' <$p/cmdline) in */tilemark-client.*/agent\\ client*) {what} ${{p#/proc/}};; esac; done",
        flag.display()
    )
}

#[test]
fn a_client_that_is_killed_or_silent_costs_that_repeat_is_named_and_comes_back() {
    for (signal, why) in [("KILL", "client c1 was lost: "), ("STOP", "it was silent for 5 s")] {
        let Some(real) = Real::new() else { return };
        let site = site(&real.home, &[IN_RUN]);
        let hook = once(&real.home, &format!("kill -{signal}"));
        let said =
            run(&real, Some(&site), &[&FROM_CLIENTS[..], &["--tiles", "1", "--hook-before", &hook]].concat());
        let repeats = repeats(&real, &said);
        let (first, second) = (&repeats[0], &repeats[1]);
        let incidents: Vec<&str> = first.incidents.iter().map(|incident| incident.what.as_str()).collect();
        assert_eq!(incidents.len(), 1, "{signal}: {incidents:?}");
        assert!(incidents[0].contains(why) && incidents[0].contains("client c1"), "{signal}: {incidents:?}");
        assert!(first.clients[0].lost.is_some(), "{signal}: {:?}", first.clients);
        assert_eq!((second.incidents.len(), &second.clients[0].lost), (0, &None), "{signal}: {second:?}");
        assert!(second.loads[0].completed > 0, "{signal}: {second:?}");
        assert_eq!(agents(&real.home), Default::default(), "{signal}: no agent is left");
    }
}

#[test]
fn a_client_that_is_lost_twice_ends_the_run_by_name() {
    let Some(real) = Real::new() else { return };
    let site = site(&real.home, &[IN_RUN]);
    let hook = once(&real.home, "kill -KILL").replace("mkdir", "mkdir -p");
    let more = ["--tiles", "1", "--hook-before", &hook, "--set", "measure.repeats=3"];
    let said = run(&real, Some(&site), &[&FROM_CLIENTS[..], &more].concat());
    assert!(said.error.contains("client `c1` was lost twice"), "{said:?}");
    let result: Value = serde_json::from_str(&said.out).unwrap();
    let record = RunDirectory::at(&real.home.path().join("runs").join(result["run"].as_str().unwrap()));
    assert_eq!(record.summaries().unwrap().len(), 2, "{said:?}");
}

#[test]
fn a_killed_command_leaves_no_agent() {
    let Some(real) = Real::new() else { return };
    let site = site(&real.home, &[IN_RUN]);
    let arguments =
        [&["run"], &SMALL[..], &FROM_CLIENTS, &["--tiles", "1", "--site", site.to_str().unwrap()]].concat();
    let mut running = start(&real, &arguments);
    let under_way = running.until("a keeper", keeper_of);
    let found = running.until("an agent", |real| Some(agents(&real.home)).filter(|found| !found.is_empty()));
    let processes: BTreeSet<Process> = Process::descendants(running.child.id() as i32);
    assert!(found.iter().all(|pid| processes.iter().any(|process| process.pid == *pid)));
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

#[test]
fn doctor_looks_at_each_client_and_names_those_that_cannot_be_used() {
    let home = Home::new();
    // Two bytes of the agent are others.
    let damaged = r#""sh", "-c", "(head -n 1; head -c 5000; head -c 2 >/dev/null; printf XY; cat) | sh""#;
    let refused = r#""sh", "-c", "echo no key fits >&2; exit 255""#;
    let site = site(&home, &[r#""sh""#, damaged, refused, r#""tilemark-no-such-program""#]);
    let mut doctor = home.command(&["doctor", "--site", site.to_str().unwrap(), "--json"]);
    let said = Said::of(&doctor.env("TMPDIR", temporary(&home)).output().unwrap()).ended(3);
    let looked = said.json()["clients"].clone();
    let problem = |place: usize| looked[place]["problem"].as_str().unwrap_or_default().to_owned();
    assert_eq!((looked[0]["name"].as_str(), problem(0).as_str()), (Some("c1"), ""), "{said:?}");
    assert!(looked[0]["processors"].as_u64().unwrap() > 0 && looked[0]["same_machine"] == true, "{said:?}");
    assert!(looked[0]["clock_uncertainty_ms"].as_f64().unwrap() > 0.0, "{said:?}");
    assert!(problem(1).contains("SHA-256"), "{said:?}");
    assert!(problem(2).contains("no key fits") && problem(2).contains("255"), "{said:?}");
    assert!(problem(3).contains("PATH"), "{said:?}");
    assert!(said.error.contains("client `c2` cannot be used, and 2 more"), "{said:?}");
    // A plan looks at them in the same way, and says so to programs too.
    let words = ["plan", "web", "--on", "native", "--site", site.to_str().unwrap(), "--json"];
    let mut plan = home.command(&[&words[..], &FROM_CLIENTS].concat());
    let said = Said::of(&plan.env("TMPDIR", temporary(&home)).output().unwrap()).ended(3);
    let planned = said.json();
    assert_eq!(
        (&planned["clients"][0]["name"], &planned["clients"][0]["problem"]),
        (&"c1".into(), &Value::Null)
    );
    assert!(planned["clients"][1]["problem"].as_str().unwrap().contains("SHA-256"), "{said:?}");
    assert!(planned["points"].is_array() && said.error.contains("client `c2` cannot be used"), "{said:?}");
    waits_until("no folder of an agent", || folders(&home).is_empty());
}

/// A program that is called `srun` and runs the words after its flags on this machine, as `srun` does elsewhere. It leaves behind what it
/// was handed.
fn played_srun(home: &Home, instead: &str) -> String {
    let folder = home.path().join("programs");
    fs::create_dir_all(&folder).unwrap();
    let (mark, shell) = (home.path().join("mark"), folder.join("shell"));
    let srun = format!(
        "#!/bin/sh\nwhile case $1 in --*) true;; *) false;; esac; do shift; done\n{}\n",
        instead.replace("MARK", mark.to_str().unwrap()).replace("SHELL", shell.to_str().unwrap())
    );
    let shell_text = format!(
        "#!/bin/sh\necho \"TMPDIR=$TMPDIR HOME=$TILEMARK_HOME JOB=$SLURM_JOB_ID$SLURM_JOBID\" >{}\nexec sh\n",
        mark.display()
    );
    for (path, text) in [(folder.join("srun"), srun), (shell, shell_text)] {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

fn srun_site(home: &Home) -> PathBuf {
    home.file("srun.toml", "schema = 1\n[[client]]\nname = \"c1\"\ncarrier = \"srun\"\n")
}

#[test]
fn srun_hands_no_folder_of_this_machine_to_a_client_and_begins_a_job_of_its_own() {
    let home = Home::new();
    // The last word is the shell: another takes its place that says what it finds.
    let path = played_srun(&home, "[ \"$6\" = sh ] && exec \"$1\" \"$2\" \"$3\" \"$4\" \"$5\" SHELL");
    let mut doctor = home.command(&["doctor", "--site", srun_site(&home).to_str().unwrap(), "--json"]);
    doctor.env("PATH", path).env("TMPDIR", temporary(&home)).env("SLURM_JOB_ID", "7").env("SLURM_JOBID", "7");
    Said::of(&doctor.output().unwrap()).ended(0);
    assert_eq!(fs::read_to_string(home.path().join("mark")).unwrap(), "TMPDIR= HOME= JOB=\n");
}

#[test]
fn srun_gets_sigterm_when_its_command_is_killed() {
    let home = Home::new();
    let path = played_srun(
        &home,
        "trap 'echo ended >>MARK; exit' TERM; echo begun >MARK; while :; do sleep 0.05; done",
    );
    let mut doctor = Command::new(TILEMARK);
    doctor.args(["doctor", "--site", srun_site(&home).to_str().unwrap()]).env("PATH", path);
    doctor.env("TILEMARK_HOME", home.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = doctor.spawn().unwrap();
    let marked = |wanted: &str| fs::read_to_string(home.path().join("mark")).is_ok_and(|text| text == wanted);
    waits_until("srun begins", || marked("begun\n"));
    running.kill().unwrap();
    running.wait().unwrap();
    waits_until("srun ends its job", || marked("begun\nended\n"));
}

/// Each role alone and beside the other, where one of them is sent from clients and the other is not.
const TWO_ROLES: &str = r#"
schema = 1
name = "two-roles"
about = "a web guest and a disk guest"
headline = "web"
guest = [
    { name = "web", role = "web" },
    { name = "disk", role = "disk", disk = [{ size = "64MiB", on = "memory" }] },
]
load = [
    { name = "web", guest = "web", rate = "200/s", from = "clients", web = {} },
    { name = "disk", guest = "disk", rate = "50/s", disk = {} },
]
ladder.tiles = [1]
measure = { repeats = 1, warmup = "1s", length = "3s" }
"#;

#[test]
fn interference_is_measured_with_loads_from_clients() {
    let Some(real) = Real::new() else { return };
    let site = site(&real.home, &[IN_RUN]);
    let scenario = real.home.file("two-roles.toml", TWO_ROLES);
    let words =
        ["interference", scenario.to_str().unwrap(), "--on", "native", "--offline", "--not-alone", "--json"];
    let alone = real.home.says(&words).ended(2);
    assert!(format!("{}{}", alone.out, alone.error).contains("--site FILE"), "{alone:?}");
    let said = start(&real, &[&words[..], &["--site", site.to_str().unwrap()]].concat()).said();
    let repeats = repeats(&real, &said);
    assert!(repeats.len() >= 3, "{said:?}");
    for repeat in &repeats {
        assert_eq!(repeat.incidents, [], "{said:?}");
        let web = repeat.loads.iter().find(|load| load.name == "web");
        let senders: Vec<&str> = repeat.clients.iter().map(|client| client.name.as_str()).collect();
        // Where the web load is measured, the client sends it.
        assert_eq!(senders, if web.is_some() { vec!["c1"] } else { vec![] }, "{repeat:?}");
        assert!(web.is_none_or(|web| web.completed > 0 && web.failed == 0), "{repeat:?}");
    }
    assert!(repeats.iter().any(|repeat| repeat.clients.is_empty()), "the disk alone has no client");
}

#[test]
fn what_does_not_belong_together_is_refused_before_anything_is_started() {
    let home = Home::new();
    let file = site(&home, &[r#""sh""#]);
    let file = file.to_str().unwrap();
    let plan = |more: &[&str]| {
        let said = home.says(&[&["plan", "web", "--on", "native"], more].concat()).ended(2);
        said.error
    };
    assert!(plan(&["--site", file]).contains("--set load.web.from=clients"));
    assert!(plan(&FROM_CLIENTS).contains("`--site FILE`"));
    let hosts = home.file("hosts.toml", "schema = 1\nengine = \"ssh\"\n[[host]]\nname = \"n1\"\n");
    let only_hosts = plan(&[&FROM_CLIENTS[..], &["--site", hosts.to_str().unwrap()]].concat());
    assert!(only_hosts.contains("[[client]]"), "{only_hosts}");
    let said =
        home.says(&["plan", "disk", "--on", "native", "--site", file, "--set", "load.disk.from=clients"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}

#[test]
fn an_agent_ends_by_itself_when_its_host_is_silent_and_at_its_plans_end() {
    let home = Home::new();
    // One that hears nothing, and one that hears its host and has one second.
    for (seconds, speaks, ends_with) in [("3600", false, 3), ("1", true, 4)] {
        let folder = home.path().join(format!("tilemark-client.{seconds}"));
        fs::create_dir(&folder).unwrap();
        let program = folder.join("agent");
        fs::copy(env!("TILEMARK_AGENT"), &program).unwrap();
        let mut agent = Command::new(&program)
            .args(["client", seconds])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Held open: its end is not what ends it.
        let mut input = agent.stdin.take().unwrap();
        waits_until("its file is gone", || !folder.exists());
        let until = Instant::now() + TIMEOUT;
        let code = loop {
            if let Some(ended) = agent.try_wait().unwrap() {
                break ended.code();
            }
            assert!(Instant::now() < until, "it lives on");
            if speaks {
                let _ = input.write_all(&[0]);
            }
            thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(code, Some(ends_with), "{seconds}");
    }
}

#[test]
fn a_client_that_cannot_be_reached_ends_a_run_before_its_guests_start() {
    if !is_root() {
        return skipped("native runs need root");
    }
    let Some(real) = Real::new() else { return };
    let site = site(&real.home, &[IN_RUN, r#""sh", "-c", "exit 255""#]);
    let said = run(&real, Some(&site), &FROM_CLIENTS).ended(3);
    assert!(
        said.out.contains("client `c2` cannot be used") || said.error.contains("client `c2` cannot be used"),
        "{said:?}"
    );
    assert!(!said.error.contains("starting"), "{said:?}");
    assert_eq!(agents(&real.home), Default::default());
}

/// Loads over real ssh and Slurm, to guests on a bridge of the host that is measured.
const LAB_SCRIPT: &str = r#"
ip link add br0 type bridge
ip link set br0 up
ip addr flush dev eth0
ip addr add 10.99.0.10/24 dev br0
ip link set eth0 master br0
cat >site.toml <<'T'
schema = 1
[[client]]
name = "n1"
[[client]]
name = "n2"
carrier = "srun"
partition = "hosts"
[network]
bridge = "br0"
addresses = "10.99.0.64-10.99.0.127"
T
tries=0
until ssh n1 true; do tries=$((tries + 1)); [ $tries -lt 300 ] || exit 89; sleep 0.1; done
tilemark doctor --site site.toml --json >doctor.json || exit 90
quick="--on native --offline --not-alone --tiles 2 --set measure.repeats=1 --set measure.warmup=1s --set measure.length=4s"
tilemark run web --site site.toml --set load.web.from=clients $quick --output /root/record --json >run.json 2>notes
echo "code $?" >&2
cat notes >&2
# A command that is killed: both carriers go with it, and the agents by their silence at the latest.
tilemark run web --site site.toml --set load.web.from=clients $quick --set measure.length=60s --output /root/other >/dev/null 2>&1 &
run=$!
agents() { for n in n1 n2; do ssh $n true || echo unreachable; ssh $n 'ls /proc/*/cmdline | xargs -n1 cat 2>/dev/null | tr "\\0" " "' | grep -o "tilemark-client[^ ]* client [0-9]*"; done; }
tries=0
until [ "$(agents | grep -c client)" -ge 2 ]; do tries=$((tries + 1)); [ $tries -lt 300 ] || exit 95; sleep 0.2; done
# An srun that is killed: its job does not keep the client.
job=$(squeue --noheader --format=%i)
for number in $(ps -e -o pid=,comm= | awk '$2 == "srun" { print $1 }'); do kill -9 "$number"; done
until=$(($(date +%s) + 15))
while [ -n "$(squeue --noheader --job="$job")" ] && [ $(date +%s) -lt $until ]; do sleep 0.2; done
[ -z "$(squeue --noheader --job="$job")" ] || exit 96
kill -9 $run
until=$(($(date +%s) + 15))
while [ "$(agents | wc -l)" != 0 ] && [ $(date +%s) -lt $until ]; do sleep 0.2; done
[ "$(agents | wc -l)" = 0 ] || exit 91
for n in n1 n2; do [ -z "$(ssh $n 'ls -d /tmp/tilemark-client.* 2>/dev/null')" ] || exit 92; done
summary=$(ls record/points/00/repeat-*/summary.json | tail -n 1)
printf '['; cat doctor.json; printf ','; cat "$summary"; printf ']'
"#;

#[test]
fn real_clients_send_over_ssh_and_slurm_to_guests_on_a_bridge_and_leave_nothing() {
    let Some(mut lab) = fleet_lab() else { return };
    lab.args(["sh", "-c", LAB_SCRIPT]);
    let said = Said::of(&lab.output().unwrap());
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.error);
    let documents = said.json();
    assert_eq!(documents[0]["clients"][1]["name"], "n2");
    assert_eq!(documents[0]["clients"][1]["no_way"], Value::Null, "the bridge answers it");
    let repeat: RepeatSummary = serde_json::from_value(documents[1].clone()).unwrap();
    assert_eq!(repeat.incidents, [], "{}", said.error);
    assert!(repeat.loads[0].completed > 1_000 && repeat.loads[0].failed == 0, "{:?}", repeat.loads);
    let names: Vec<&str> = repeat.clients.iter().map(|client| client.name.as_str()).collect();
    assert_eq!(names, ["n1", "n2"]);
    for client in &repeat.clients {
        assert!(client.lost.is_none() && client.loads[0].completed > 0, "{client:?}");
        // The hosts of the lab share this machine's clock.
        let clock = client.clock_before;
        assert!(clock.least_ns <= 0 && 0 <= clock.most_ns, "{client:?}");
        assert!(client.line_used.is_some() && client.line_mbit_per_s.is_some(), "{client:?}");
    }
}
