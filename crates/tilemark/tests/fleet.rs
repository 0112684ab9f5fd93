//! Many hosts: played by shells of this machine, and real ones with ssh and Slurm in the lab (`cargo xtask fleet-lab`).

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Home, Said, TILEMARK, is_root,
    real::{PATIENCE, kills, moments},
    record::record_of,
    skipped,
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tilemark_fleet::{FleetFolder, collect_all};

/// A fleet whose hosts are folders of this machine: `exec` gives a shell with another home, and the `tilemark` there leaves a record
/// that is ready instead of measuring.
struct Played {
    home: Home,
    site: PathBuf,
}

impl Played {
    /// `carrier` is what a shell does for the host `$0` before it becomes the host's.
    fn new(hosts: &[&str], carrier: &str) -> Option<Self> {
        if !is_root() {
            skipped("what a fleet does on a host needs root");
            return None;
        }
        let home = Home::new();
        let record = record_of(&home, "made");
        let folder = home.path().display().to_string();
        let program = home.file(
            "program",
            &format!(
                "#!/bin/sh\ncase $1 in\n--version) cat {folder}/version ;;\nplan) echo '{{\"expected\": {{\"time\": \"3s\"}}}}' ;;\n\
                 doctor) echo '{{\"findings\": []}}' ;;\nrun)\n  echo once >>\"$TILEMARK_HOME/measured\"\n  for out; do :; done\n  \
                 if [ -e \"$TILEMARK_HOME/unfit\" ]; then echo 'error: no room'; echo '  to fix: make some'; exit 3; fi\n  \
                 sleep \"$(cat {folder}/takes)\"\n  cp -r {} \"$out\"\n  exit 5 ;;\nesac\n",
                record.display()
            ),
        );
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        home.file("version", &format!("tilemark {}\n", env!("CARGO_PKG_VERSION")));
        home.file("takes", "0.2");
        let carrier = home.file(
            "carrier",
            &format!(
                "export TILEMARK_HOME={folder}/hosts/$0\nmkdir -p \"$TILEMARK_HOME\"\n{carrier}\nexec sh\n"
            ),
        );
        let listed: String = hosts.iter().map(|host| format!("[[host]]\nname = \"{host}\"\n")).collect();
        let site = home.file(
            "site.toml",
            &format!(
                "schema = 1\nengine = \"exec\"\nexec = [\"sh\", \"-c\", \". {}\", \"{{host}}\"]\nprogram = \"{}\"\n\
                 lost_after = \"1s\"\n{listed}",
                carrier.display(),
                program.display()
            ),
        );
        Some(Self { home, site })
    }

    fn fleet(&self, arguments: &[&str]) -> Said {
        self.home.says(&[&["fleet"], arguments].concat())
    }

    fn run(&self, more: &[&str]) -> Said {
        self.fleet(&[&["run", "web", "--on", "native", "--site", self.site.to_str().unwrap()], more].concat())
    }

    /// How often a host was asked to measure.
    fn measured(&self, host: &str) -> usize {
        let path = self.home.path().join("hosts").join(host).join("measured");
        fs::read_to_string(path).map_or(0, |text| text.lines().count())
    }

    fn folder(&self) -> FleetFolder {
        FleetFolder::find(&self.home.path().join("fleets"), "last").unwrap()
    }
}

/// Hosts and their ends, by name: a verdict has those that differ first.
fn ends(document: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let hosts = document["hosts"].as_array().unwrap().iter();
    let mut ends: Vec<_> = hosts.map(|host| (text(&host["name"]), text(&host["end"]))).collect();
    ends.sort();
    ends
}

fn host<'d>(document: &'d Value, name: &str) -> &'d Value {
    document["hosts"].as_array().unwrap().iter().find(|host| host["name"] == name).unwrap()
}

fn named(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, end)| ((*name).to_owned(), (*end).to_owned())).collect()
}

#[test]
fn each_host_of_a_fleet_ends_by_name_and_a_second_collection_changes_nothing() {
    let gone =
        "[ $0 != n2 ] || { echo 'ssh: connect to host n2 port 22: Connection refused' >&2; exit 255; }";
    let Some(played) = Played::new(&["n1", "n2", "n3"], gone) else { return };
    played.home.file("hosts/n3/unfit", "");
    let said = played.run(&["--json"]);
    assert_eq!(said.code, Some(5), "{said:?}");
    let document = said.json();
    assert_eq!(
        (&document["asked"], &document["measured"], &document["trusted"]),
        (&3.into(), &1.into(), &0.into())
    );
    assert_eq!(ends(&document), named(&[("n1", "cannot-tell"), ("n2", "no-answer"), ("n3", "unfit")]));
    assert_eq!(host(&document, "n3")["because"], "no room; to fix: make some");
    let because = host(&document, "n2")["because"].as_str().unwrap();
    assert!(because.contains("Connection refused") && because.contains("see that n2 is up"), "{because}");
    assert_eq!(document["verdict"], "cannot-tell");
    let sentence = "3 asked, 1 measured, 0 trusted. Missing: n2 (no answer), n3 (unfit).";
    assert!(document["sentence"].as_str().unwrap().starts_with(sentence), "{document}");
    let page = fs::read_to_string(played.folder().path().join("report.html")).unwrap();
    assert!(page.contains("3 asked, 1 measured"));

    let again = played.fleet(&["collect"]);
    assert_eq!(again.code, Some(5), "{again:?}");
    let first = "3 asked, 1 measured, 0 trusted. Missing: n2, n3.";
    assert_eq!(again.out.lines().next(), Some(first), "{again:?}");
    assert_eq!(played.measured("n1"), 1);
    // The host that was gone is back: its work was never begun, and going on gives it to it.
    let carrier = played.home.path().join("carrier");
    fs::write(
        &carrier,
        fs::read_to_string(&carrier)
            .unwrap()
            .replace("!= n2", "!= nobody")
            .replace("nobody ]", "x ] || true"),
    )
    .unwrap();
    let resumed = played.fleet(&["run", "--resume", "--json"]);
    assert_eq!(
        ends(&resumed.json()),
        named(&[("n1", "cannot-tell"), ("n2", "cannot-tell"), ("n3", "unfit")])
    );
    assert_eq!(["n1", "n2", "n3"].map(|host| played.measured(host)), [1, 1, 1]);
    let status = played.fleet(&["status"]).out;
    assert_eq!(status.matches("collected").count(), 3, "{status}");
}

#[test]
fn a_record_that_is_cut_anywhere_comes_home_whole_or_not_at_all() {
    let cut = "bytes=$(cat $TILEMARK_HOME/../../cut 2>/dev/null) && { sh | head -c $bytes; exit; }";
    let Some(played) = Played::new(&["n1"], cut) else { return };
    let said = played.run(&["--detach", "--json"]);
    assert_eq!(ends(&said.json()), named(&[("n1", "not-collected-yet")]), "{said:?}");
    let folder = played.folder();
    let exit = played
        .home
        .path()
        .join("hosts/n1/fleet-jobs")
        .join(folder.path().file_name().unwrap())
        .join("n1/attempt-0/exit");
    let until = Instant::now() + PATIENCE;
    while !exit.exists() {
        assert!(Instant::now() < until, "the host does not end its work");
        thread::sleep(Duration::from_millis(20));
    }
    let place = folder.attempt("n1", 0);
    let hosts = place.parent().unwrap();
    let collected = |bytes: usize| {
        played.home.file("cut", &bytes.to_string());
        collect_all(&folder, &|_| ()).unwrap();
        let here: Vec<_> =
            fs::read_dir(hosts).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
        if place.exists() {
            assert_eq!(here, ["attempt-0"])
        } else {
            assert!(here.is_empty(), "{here:?}")
        }
        place.exists()
    };
    // Where the whole answer is known to come home; below it nothing does.
    let whole = (0..).map(|power| 256 << power).find(|bytes| collected(*bytes)).unwrap();
    let again = |bytes| {
        let _ = fs::remove_dir_all(hosts);
        collected(bytes)
    };
    let (mut none, mut all) = (0, whole);
    while none + 1 < all {
        let middle = usize::midpoint(none, all);
        if again(middle) { all = middle } else { none = middle }
    }
    for bytes in (0..all).step_by((all / 40).max(1)).chain(all.saturating_sub(60)..all) {
        assert!(!again(bytes), "cut after {bytes} of {all} bytes");
    }
    // Repeated without a cut, onto nothing and onto itself.
    for _ in 0..2 {
        assert!(collected(all));
        tilemark_record::RunDirectory::at(&place.join("record")).verify().unwrap();
    }
}

#[test]
fn a_fleet_whose_command_is_killed_at_any_moment_measures_each_host_once() {
    let Some(played) = Played::new(&["n1", "n2"], "sleep 0.05") else { return };
    for (round, moment) in moments(kills(6), Duration::from_millis(900)).into_iter().enumerate() {
        let before = ["n1", "n2"].map(|host| played.measured(host));
        let site = played.site.to_str().unwrap();
        let mut child = Command::new(TILEMARK)
            .args(["fleet", "run", "web", "--on", "native", "--site", site])
            .env("TILEMARK_HOME", played.home.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From when the fleet is on disk.
        let until = Instant::now() + PATIENCE;
        while tilemark_fleet::ids(&played.home.path().join("fleets")).len() <= round {
            assert!(Instant::now() < until, "no fleet.json");
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        let resumed = played.fleet(&["run", "--resume", "--json"]);
        let document = resumed.json();
        assert_eq!(document["measured"], 2, "{resumed:?}");
        assert_eq!(
            ["n1", "n2"].map(|host| played.measured(host)),
            before.map(|count| count + 1),
            "after {moment:?}"
        );
    }
}

#[test]
fn a_submission_that_was_begun_is_looked_for_before_it_is_given_again() {
    let Some(played) = Played::new(&["n1", "n2"], "") else { return };
    assert_eq!(played.run(&["--json"]).json()["measured"], 2);
    let folder = played.folder();
    let mut fleet = folder.read().unwrap();
    // The state between writing and hearing that the host has it; of n2 the host has nothing.
    for work in &mut fleet.hosts {
        work.step = tilemark_fleet::Step::Submitting;
    }
    folder.write(&fleet).unwrap();
    fs::remove_dir_all(folder.path().join("hosts")).unwrap();
    fs::remove_dir_all(played.home.path().join("hosts/n2")).unwrap();
    let document = played.fleet(&["run", "--resume", "--json"]).json();
    assert_eq!(document["measured"], 2, "{document}");
    assert_eq!((played.measured("n1"), played.measured("n2")), (1, 1));
}

#[test]
fn a_fleet_s_plan_names_each_mistake_with_what_to_do() {
    let carrier = "case $0 in\nkey) echo 'Host key verification failed.' >&2; exit 255 ;;\n\
                   gone) echo 'ssh: connect to host gone port 22: No route to host' >&2; exit 255 ;;\n\
                   login) echo 'root@login: Permission denied (publickey).' >&2; exit 255 ;;\n\
                   sudo) exec sh -c 'sed \"s/.(id -u)/1000/g\" | sh' ;;\n\
                   noise) echo Welcome; exec cat ;;\n\
                   esac";
    let Some(played) = Played::new(&["fit", "key", "gone", "login", "sudo", "noise"], carrier) else {
        return;
    };
    let site = played.site.to_str().unwrap();
    let plan = || played.fleet(&["plan", "web", "--on", "native", "--site", site, "--json"]);
    let said = plan();
    assert_eq!(said.code, Some(3), "{said:?}");
    let document = said.json();
    assert_eq!((&document["asked"], &document["fit"]), (&6.into(), &1.into()), "{document}");
    assert_eq!(document["hosts"][0]["time"], "3s");
    for (index, words) in [
        (1, "ssh-keygen -R key"),
        (2, "`ssh gone` reaches it"),
        (3, "ssh-copy-id"),
        (4, "sudo without a password"),
        (5, "give the command again"),
    ] {
        let problem = document["hosts"][index]["problems"][0].as_str().unwrap();
        assert!(problem.contains(words), "{problem}");
    }
    played.home.file("version", "tilemark 0.0.9\n");
    let problem = plan().json()["hosts"][0]["problems"][0].clone();
    assert!(problem.as_str().unwrap().contains("it has Tilemark 0.0.9"), "{problem}");
    // The same when it is measured all the same.
    let measured = played.run(&["--json"]).json();
    assert!(host(&measured, "fit")["because"].as_str().unwrap().contains("tilemark 0.0.9"), "{measured}");
    assert_eq!(played.measured("fit"), 0);
    played
        .home
        .file("site.toml", &fs::read_to_string(&played.site).unwrap().replace("/program\"", "/none\""));
    let problem = plan().json()["hosts"][0]["problems"][0].clone();
    assert!(problem.as_str().unwrap().contains("install it there"), "{problem}");
    // What is wrong for all is refused at once.
    for arguments in [
        &["web", "--site", "/nowhere/site.toml"][..],
        &["wob", "--site", site],
        &["web", "--preset", "wob", "--site", site],
    ] {
        let said = played.fleet(&[&["run", "--json"], arguments].concat());
        assert!(matches!(said.code, Some(2 | 3)), "{said:?}");
        assert!(said.json()["error"]["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{said:?}");
    }
    assert_eq!(played.fleet(&["status", "20991231"]).code, Some(2));
}

/// The lab's own program beside ours.
fn lab() -> Option<(Command, String)> {
    let xtask = Path::new(TILEMARK).with_file_name("xtask");
    if !is_root() || !xtask.is_file() {
        skipped("the lab of many hosts needs root, and xtask beside the program: `cargo build --workspace`");
        return None;
    }
    if std::env::var_os("TILEMARK_TEST_CACHE").is_none() {
        skipped("the lab of many hosts needs the tests' image: set TILEMARK_TEST_CACHE");
        return None;
    }
    let mark = format!("fleet-test-{}-{:?}", std::process::id(), thread::current().id());
    let mut lab = Command::new(xtask);
    lab.args(["fleet-lab", "--program", TILEMARK, "--"]).stdin(Stdio::null()).env(MARK, &mark);
    Some((lab, mark))
}

/// A name in the environment of everything that a test's lab starts.
const MARK: &str = "TILEMARK_FLEET_TEST";

/// Waits until nothing lives that was started with this mark.
fn all_gone(mark: &str) {
    let wanted = format!("{MARK}={mark}");
    let lives = || {
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let has = |number: &u32| {
            let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        };
        numbers.filter(has).collect::<Vec<_>>()
    };
    let until = Instant::now() + PATIENCE;
    while !lives().is_empty() {
        assert!(Instant::now() < until, "left of the lab: {:?}", lives());
        thread::sleep(Duration::from_millis(50));
    }
}

/// A quick measurement, and who is killed during it.
const LAB_SCRIPT: &str = r#"
quick="--on native --offline --tiles 1 --set measure.repeats=1 --set measure.warmup=1s --set measure.length=4s"
tilemark fleet plan web --site ssh.toml $quick >&2 || exit 90
tilemark fleet run web --site ssh.toml $quick --json >ssh.json 2>notes &
run=$!
until [ "$(grep -c submitted notes)" = 3 ]; do sleep 0.1; done
sleep 1
power off n2 || exit 91
wait $run
echo "code $?" >&2
power on n2 || exit 92
tilemark fleet collect --json >collected.json 2>>notes
tilemark fleet run web --site slurm.toml $quick --json >slurm.json 2>>notes
echo "code $?" >&2
cat notes >&2
printf '['; cat ssh.json; printf ','; cat collected.json; printf ','; cat slurm.json; printf ']'
"#;

#[test]
fn a_fleet_of_real_hosts_is_measured_over_ssh_and_slurm_and_the_one_that_is_killed_is_named() {
    let Some((mut lab, mark)) = lab() else { return };
    let said = Said::of(&lab.args(["sh", "-c", LAB_SCRIPT]).output().unwrap());
    assert_eq!(said.code, Some(0), "{}\n{}", said.out, said.error);
    let documents = said.json();
    let [ssh, collected, slurm] = [0, 1, 2].map(|index| documents[index].clone());
    assert_eq!((&ssh["asked"], &ssh["measured"]), (&3.into(), &2.into()), "{ssh}");
    let of = |document: &Value, name: &str| host(document, name)["end"].as_str().unwrap().to_owned();
    assert_eq!(of(&ssh, "n2"), "no-answer", "{ssh}");
    assert!(ssh["sentence"].as_str().unwrap().contains("Missing: n2 (no answer)"), "{ssh}");
    // It is back, and what it had begun is lost.
    assert_eq!(of(&collected, "n2"), "lost", "{collected}");
    assert_eq!(collected["measured"], 2);
    assert_eq!((&slurm["asked"], &slurm["measured"]), (&3.into(), &3.into()), "{slurm}");
    for name in ["n1", "n3"] {
        // Three hosts share this machine's processors, so figures may be discarded; that each measured is what counts here.
        assert!(["trusted", "not-trusted", "cannot-tell"].contains(&of(&ssh, name).as_str()), "{ssh}");
    }
    all_gone(&mark);
}

#[test]
fn a_lab_of_many_hosts_that_is_killed_leaves_nothing() {
    let Some((mut lab, mark)) = lab() else { return };
    let groups = || {
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let tree = mounts
            .lines()
            .find(|line| line.contains(" cgroup2 "))
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .to_owned();
        let entries =
            fs::read_dir(tree).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        entries.filter(|name| name.starts_with("tilemark-lab-")).collect::<Vec<_>>()
    };
    let command = ["sh", "-c", "echo up; sleep 1000"];
    let mut child = lab.args(command).stdout(Stdio::piped()).spawn().unwrap();
    let up =
        BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).any(|line| line == "up");
    assert!(up, "the lab did not come up");
    let before = groups();
    assert!(!before.is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    all_gone(&mark);
    // Other labs may be under way; a group with processes is one of theirs.
    let until = Instant::now() + PATIENCE;
    while groups().iter().filter(|name| before.contains(name)).count() == before.len() {
        assert!(Instant::now() < until, "groups are left: {:?}", groups());
        thread::sleep(Duration::from_millis(50));
    }
}
