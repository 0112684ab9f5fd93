//! Many hosts: played by shells of this machine, and real ones with ssh and Slurm in the lab (`cargo xtask fleet-lab`).

#![allow(missing_docs, clippy::unwrap_used)]

mod common;
#[path = "../../tilemark-fleet/tests/made/mod.rs"]
mod made;

use common::{
    Home, Said, TILEMARK, fleet_lab, is_root,
    real::{TIMEOUT, kills, moments},
    record::record_of,
    skipped,
};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::fs::PermissionsExt,
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
                 doctor) echo '{{\"findings\": []}}' ;;\nrun)\n  for out; do :; done\n  \
                 leaves() {{ cp -r \"$(cat \"$TILEMARK_HOME/leaves\" 2>/dev/null || echo {})\" \"$out\"; exit \"$(cat {folder}/code)\"; }}\n  \
                 trap 'echo once >>\"$TILEMARK_HOME/asked\"; kill $!; leaves' INT\n  \
                 [ ! -e \"$TILEMARK_HOME/deaf\" ] || trap '' INT\n  \
                 echo once >>\"$TILEMARK_HOME/measured\"\n  \
                 if [ -e \"$TILEMARK_HOME/unfit\" ]; then echo 'error: no room'; echo '  to fix: make some'; exit 3; fi\n  \
                 /bin/sleep \"$(cat {folder}/takes)\" &\n  wait $!\n  leaves ;;\nrecover) echo once >>\"$TILEMARK_HOME/recovered\"\n  \
                 [ ! -e \"$TILEMARK_HOME/recovers\" ] || {{ echo 'Not restored: vm.swappiness'; echo 'Restored: ksm'; exit \"$(cat \"$TILEMARK_HOME/recovers\")\"; }} ;;\nesac\n",
                record.display()
            ),
        );
        fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        home.file("version", &format!("tilemark {}\n", env!("CARGO_PKG_VERSION")));
        home.file("takes", "0.2");
        home.file("code", "5");
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
        self.times(host, "measured")
    }

    /// How often a host did what it notes in this file.
    fn times(&self, host: &str, what: &str) -> usize {
        let path = self.home.path().join("hosts").join(host).join(what);
        fs::read_to_string(path).map_or(0, |text| text.lines().count())
    }

    /// The folder of the newest fleet run on a host.
    fn work_of(&self, host: &str) -> PathBuf {
        let id = self.folder();
        let id = id.path().file_name().unwrap().to_owned();
        self.home.path().join("hosts").join(host).join("fleet-jobs").join(id).join(host)
    }

    /// Waits until a host measures.
    fn measures(&self, host: &str) {
        until(&format!("{host} measures"), || self.measured(host) > 0);
    }

    fn folder(&self) -> FleetFolder {
        FleetFolder::find(&self.home.path().join("fleets"), "last").unwrap()
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < until, "it is never so: {what}");
        thread::sleep(Duration::from_millis(10));
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
    let document = played.run(&["--json"]).ended(5).json();
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

    let again = played.fleet(&["collect"]).ended(5);
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
    assert_eq!(said.code, Some(0), "all is submitted: {said:?}");
    let folder = played.folder();
    let exit = played
        .home
        .path()
        .join("hosts/n1/fleet-jobs")
        .join(folder.path().file_name().unwrap())
        .join("n1/attempt-0/exit");
    let until = Instant::now() + TIMEOUT;
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
        let until = Instant::now() + TIMEOUT;
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
    let document = plan().ended(3).json();
    assert_eq!((&document["asked"], &document["fit"]), (&6.into(), &1.into()), "{document}");
    assert_eq!(document["hosts"][0]["time"], "3s");
    for (index, words) in [
        (1, "ssh-keygen -R key"),
        (2, "see that gone is up, and that `sh` reaches it"),
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
    // A system that is too old: its `setpriv` knows no such flag.
    let old = played.home.file("old/setpriv", "#!/bin/sh\nexit 1\n");
    fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let carrier = played.home.path().join("carrier");
    let whole = fs::read_to_string(&carrier).unwrap();
    fs::write(&carrier, format!("export PATH={}:$PATH\n{whole}", old.parent().unwrap().display())).unwrap();
    let problems = plan().json()["hosts"][0]["problems"].to_string();
    assert!(problems.contains("`setpriv --pdeathsig` of util-linux 2.33; install"), "{problems}");
    fs::write(&carrier, whole).unwrap();
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

#[test]
fn a_fleet_s_plan_says_what_slurm_refuses_and_what_to_do() {
    let Some(played) = Played::new(&["n1"], "") else { return };
    let words = played.home.path().join("words");
    let folder = played.home.path().join("programs");
    let srun =
        played.home.file("programs/srun", &format!("#!/bin/sh\ncat {} >&2\nexit 1\n", words.display()));
    let squeue = played.home.file("programs/squeue", "#!/bin/sh\n");
    for program in [srun, squeue] {
        fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let site = "schema = 1\nengine = \"slurm\"\npartition = \"nope\"\n[[host]]\nname = \"n1\"\n";
    let site = played.home.file("slurm.toml", site);
    for (refusal, problem, remedy) in [
        ("Invalid partition name specified", "Slurm refuses the question", "`sinfo --Node`"),
        ("Invalid node name specified", "Slurm refuses the question", "the names in the site file"),
        ("Invalid account or account/partition combination specified", "Slurm refuses", "`sacctmgr show"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "Slurm refuses", "`partition`"),
        ("Requested nodes not in this partition", "Slurm refuses", "`partition`"),
        (
            "Requested nodes are busy",
            "its node is not free for a question",
            "wait, or write carrier = \"ssh\"",
        ),
        ("Unable to contact slurm controller (connect failure)", "it cannot be reached", "`scontrol ping`"),
    ] {
        fs::write(&words, format!("srun: error: Unable to allocate resources: {refusal}\n")).unwrap();
        let mut plan =
            played.home.command(&["fleet", "plan", "web", "--site", site.to_str().unwrap(), "--json"]);
        let named =
            Said::of(&plan.env("PATH", &path).output().unwrap()).ended(3).json()["hosts"][0]["problems"][0]
                .as_str()
                .unwrap()
                .to_owned();
        assert!(named.contains(problem) && named.contains(refusal) && named.contains(remedy), "{named}");
        assert!(!named.contains("`ssh n1`"), "{named}");
    }
}

#[test]
fn an_address_that_changed_is_used_by_a_fleet_run_that_goes_on() {
    let gone = "[ $0 != n1 ] || { echo 'ssh: connect to host n1 port 22: No route to host' >&2; exit 255; }";
    let Some(played) = Played::new(&["n1"], gone) else { return };
    let said = played.run(&["--json"]);
    assert_eq!(ends(&said.json()), named(&[("n1", "no-answer")]), "{said:?}");
    // The seed of all hosts can be given again.
    let seed = played.folder().read().unwrap().seed;
    assert!(said.error.lines().any(|line| line == format!("seed {seed}")), "{said:?}");
    let site = fs::read_to_string(&played.site).unwrap();
    let site = site
        .replace("\"{host}\"", "\"{address}\"")
        .replace("name = \"n1\"", "name = \"n1\"\naddress = \"moved\"");
    let moved = played.home.file("moved.toml", &site);
    let said = played.fleet(&["run", "--resume", "--site", moved.to_str().unwrap(), "--json"]);
    assert_eq!(ends(&said.json()), named(&[("n1", "cannot-tell")]), "{said:?}");
    assert_eq!((played.measured("n1"), played.measured("moved")), (0, 1));
    assert_eq!(played.folder().read().unwrap().site.hosts[0].address, "moved");
    let said = played.fleet(&["confirm", "--site", moved.to_str().unwrap(), "--json"]);
    assert!(said.message().contains("nothing to confirm"), "{said:?}");
}

#[test]
fn a_fleet_folder_of_somebody_else_starts_no_program() {
    let Some(played) = Played::new(&["n1"], "touch $TILEMARK_HOME/../../started") else { return };
    played.run(&["--json"]);
    let started = played.home.path().join("started");
    assert!(started.exists(), "the carrier runs");
    let theirs = played.home.path().join("theirs");
    fs::rename(played.folder().path(), &theirs).unwrap();
    fs::remove_file(&started).unwrap();
    let theirs = theirs.to_str().unwrap();
    for arguments in [
        &["status", theirs][..],
        &["collect", theirs],
        &["cancel", theirs],
        &["clean", theirs],
        &["confirm", theirs],
        &["run", "--resume", theirs],
    ] {
        let said = played.fleet(&[arguments, &["--json"]].concat()).ended(2);
        let error = &said.json()["error"];
        assert!(error["message"].as_str().unwrap().contains("its file names programs to start"), "{said:?}");
        let gives_work = ["confirm", "run"].contains(&arguments[0]);
        assert_eq!(error["remedy"].as_str().unwrap().contains("--site FILE"), !gives_work, "{said:?}");
        assert!(!started.exists(), "{arguments:?}");
        // Its flags and its scenario are somebody else's still.
        if gives_work {
            let site = ["--site", played.site.to_str().unwrap(), "--json"];
            let said = played.fleet(&[arguments, &site].concat());
            assert_eq!((said.code, started.exists()), (Some(2), false), "{said:?}");
        }
    }
    let read = played.fleet(&["report", theirs, "--json"]);
    assert_eq!(read.json()["asked"], 1, "{read:?}");
    assert!(!started.exists());
    // Others could put their programs into it again, or a host's folder elsewhere.
    let host = Path::new(theirs).join("hosts/n1");
    let change = |is_odd: bool| {
        fs::set_permissions(theirs, PermissionsExt::from_mode(if is_odd { 0o777 } else { 0o755 })).unwrap();
    };
    let link = |is_odd: bool| {
        let aside = played.home.path().join("aside");
        if is_odd {
            fs::rename(&host, &aside).unwrap();
            std::os::unix::fs::symlink(&aside, &host).unwrap();
        } else {
            fs::remove_file(&host).unwrap();
            fs::rename(&aside, &host).unwrap();
        }
    };
    for make_odd in [&change as &dyn Fn(bool), &link] {
        make_odd(true);
        for command in ["status", "collect", "cancel", "clean"] {
            let said = played.fleet(&[command, theirs, "--site", played.site.to_str().unwrap(), "--json"]);
            assert_eq!((said.code, started.exists()), (Some(2), false), "{said:?}");
            let message = said.message();
            assert!(message.contains("others could change its folder"), "{message}");
        }
        make_odd(false);
    }
    played.fleet(&["clean", theirs, "--site", played.site.to_str().unwrap()]).ended(0);
    assert!(started.exists(), "by one's own site file");
}

#[test]
fn a_fleet_run_that_goes_on_is_given_no_other_work() {
    let Some(played) = Played::new(&["n1", "n2", "n3"], "") else { return };
    played.home.file("takes", "1000");
    let said = played.run(&["--at-once", "1", "--wait-at-most", "1s", "--json"]);
    let mut ended: Vec<String> = ends(&said.json()).into_iter().map(|(_, end)| end).collect();
    ended.sort();
    assert_eq!(ended, ["not-collected-yet", "not-submitted-yet", "not-submitted-yet"], "{said:?}");
    assert_eq!(said.code, Some(5), "hosts are missing, and may still measure: {said:?}");
    let measured = || ["n1", "n2", "n3"].iter().map(|host| played.measured(host)).sum::<usize>();
    until("one measures", || measured() == 1);
    for work in [
        &["--capacity"][..],
        &["--on", "native"],
        &["--preset", "quick"],
        &["--set", "gate.p99=20ms"],
        &["--trust"],
        &["--seed", "7"],
        &["--tiles", "1,2"],
        &["--within", "10m"],
        &["--offline"],
    ] {
        played
            .fleet(&[&["run", "--resume", "--wait-at-most", "1s"], work].concat())
            .ended(2)
            .with_error(work[0]);
    }
    // All at once, as nobody would wait for a turn.
    let said = played.fleet(&["run", "--resume", "--detach", "--json"]).ended(2);
    assert!(said.json()["error"]["remedy"].as_str().unwrap().contains("leave out --detach"), "{said:?}");
    assert_eq!(measured(), 1);
    let said = played.fleet(&["run", "--resume", "--at-once", "2", "--wait-at-most", "1s", "--json"]);
    assert_eq!(said.json()["measured"], 0, "{said:?}");
    until("two measure", || measured() == 2);
    assert_eq!(played.fleet(&["cancel"]).code, Some(0));
    assert_eq!(measured(), 2);
}

/// A host that answers nothing while this file of the fleet's folder is there.
const GONE: &str =
    "[ ! -e $TILEMARK_HOME/gone ] || { echo 'ssh: connect to host: No route to host' >&2; exit 255; }";

#[test]
fn a_fleet_run_that_is_cancelled_ends_its_work_and_keeps_what_was_finished() {
    let Some(played) = Played::new(&["n1", "n2", "n3"], GONE) else { return };
    played.home.file("takes", "1000");
    let said = played.run(&["--detach", "--json"]);
    assert_eq!((said.code, &said.json()["measured"]), (Some(0), &0.into()), "{said:?}");
    ["n1", "n2", "n3"].iter().for_each(|host| played.measures(host));
    assert_eq!(played.fleet(&["collect"]).code, Some(5), "nothing has ended yet");
    let gone = played.home.file("hosts/n3/gone", "");
    let document = played.fleet(&["cancel", "--json"]).ended(5).json();
    let done = |document: &Value| -> Vec<bool> {
        document["hosts"].as_array().unwrap().iter().map(|host| host["done"] == true).collect()
    };
    assert_eq!(done(&document), [true, true, false], "{document}");
    let doing = document["hosts"][2]["doing"].as_str().unwrap();
    assert!(doing.contains("No route to host") && doing.contains("`tilemark fleet cancel` again"), "{doing}");
    // Each was asked once, as Ctrl-C asks, and was restored; what it had finished is here.
    let ends_now = ends(&document["verdict"]);
    assert_eq!(ends_now, named(&[("n1", "cannot-tell"), ("n2", "cannot-tell"), ("n3", "no-answer")]));
    for host in ["n1", "n2"] {
        assert_eq!((played.times(host, "asked"), played.times(host, "recovered")), (1, 2), "{host}");
    }
    assert_eq!(played.times("n3", "asked"), 0);
    // The third one is back.
    fs::remove_file(gone).unwrap();
    let said = played.fleet(&["cancel", "--json"]);
    assert_eq!((said.code, done(&said.json())), (Some(0), vec![true; 3]), "{said:?}");
    assert_eq!(ends(&said.json()["verdict"])[2].1, "cannot-tell");
    assert_eq!(played.times("n3", "asked"), 1);
    // Nothing of it begins again.
    assert_eq!(played.fleet(&["run", "--resume", "--json"]).json()["measured"], 3);
    assert_eq!(["n1", "n2", "n3"].map(|host| played.measured(host)), [1, 1, 1]);
}

#[test]
fn a_host_whose_turn_has_not_come_never_begins_once_its_fleet_run_is_cancelled() {
    let Some(played) = Played::new(&["n1", "n2"], "") else { return };
    played.home.file("takes", "1000");
    let site = played.site.to_str().unwrap();
    let child = Command::new(TILEMARK)
        .args(["fleet", "run", "web", "--on", "native", "--at-once", "1", "--json", "--site", site])
        .env("TILEMARK_HOME", played.home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until("one of them measures", || played.measured("n1") + played.measured("n2") == 1);
    let said = played.fleet(&["cancel"]).ended(0);
    assert_eq!(said.out.lines().next(), Some("2 asked, 2 ended."), "{said:?}");
    // The command that waited for it has ended too, with the same answer.
    let waited = Said::of(&child.wait_with_output().unwrap()).json();
    let mut ended: Vec<String> = ends(&waited).into_iter().map(|(_, end)| end).collect();
    ended.sort();
    assert_eq!(ended, ["cannot-tell", "never-started"], "{waited}");
    assert_eq!(played.measured("n1") + played.measured("n2"), 1);
    let because =
        waited["hosts"].as_array().unwrap().iter().find(|host| host["end"] == "never-started").unwrap();
    assert_eq!(because["because"], "the fleet run was cancelled before the host began");
}

#[test]
fn work_that_does_not_end_when_it_is_asked_is_ended_by_force() {
    // A second takes 10 ms there: a run is asked for a minute before it is killed.
    let quick = "mkdir -p $TILEMARK_HOME/quick\necho 'case $1 in *.*) exec /bin/sleep $1 ;; *) exec /bin/sleep 0.0$1 ;; esac' >$TILEMARK_HOME/quick/sleep\n\
                 chmod 755 $TILEMARK_HOME/quick/sleep\nexport PATH=$TILEMARK_HOME/quick:$PATH";
    // What it left is restored, is not, or could not be looked at.
    for (recovers, code) in [(None, 0), (Some("6"), 6), (Some("3"), 5)] {
        let Some(played) = Played::new(&["n1"], quick) else { return };
        played.home.file("hosts/n1/deaf", "");
        played.home.file("takes", "60");
        played.run(&["--detach"]);
        played.measures("n1");
        recovers.map(|recovers| played.home.file("hosts/n1/recovers", recovers));
        let said = played.fleet(&["cancel", "--json"]);
        assert_eq!(said.code, Some(code), "{said:?}");
        let document = said.json();
        assert_eq!(ends(&document["verdict"]), named(&[("n1", "lost")]), "{said:?}");
        assert_eq!(document["verdict"]["hosts"][0]["because"], "the run there was ended by signal 9");
        let host = &document["hosts"][0];
        assert_eq!(host["done"], recovers.is_none(), "{host}");
        let words = recovers.map_or_else(String::new, |code| {
            let words = "Not restored: vm.swappiness; to fix: `sudo tilemark recover` on n1";
            format!(", and `tilemark recover` there ended with exit code {code}: {words}")
        });
        assert_eq!(host["doing"], format!("its work has ended{words}"));
    }
}

#[test]
fn only_what_is_at_home_is_removed_from_hosts() {
    let Some(played) = Played::new(&["n1", "n2"], GONE) else { return };
    let other = played.home.file("hosts/n1/fleet-jobs/20200101-000000-web/n1/attempt-0/exit", "0");
    played.home.file("takes", "1000");
    played.run(&["--detach"]);
    ["n1", "n2"].iter().for_each(|host| played.measures(host));
    let kept = |words: [&str; 2]| {
        let said = played.fleet(&["clean", "--json"]).ended(5);
        for (host, words) in said.json()["hosts"].as_array().unwrap().iter().zip(words) {
            assert!(host["doing"].as_str().unwrap().contains(words), "{host}");
            assert_eq!(host["done"], false);
        }
        assert!(["n1", "n2"].iter().all(|host| played.work_of(host).join("attempt-0").exists()));
    };
    kept(["`tilemark fleet collect` first"; 2]);
    // Attempts that were never collected are kept, though others are at home.
    fs::create_dir_all(played.folder().attempt("n1", 7)).unwrap();
    kept(["attempt 0 is measuring", "`tilemark fleet collect` first"]);
    assert_eq!(played.fleet(&["cancel"]).code, Some(0));
    fs::create_dir_all(played.work_of("n1").join("attempt-1")).unwrap();
    // What is damaged here may be whole there.
    let record = played.folder().attempt("n2", 0).join("record/result.json");
    let whole = fs::read(&record).unwrap();
    fs::write(&record, "{}").unwrap();
    kept(["attempt 1 is not collected", "is damaged"]);
    fs::write(&record, whole).unwrap();
    played.home.file("hosts/n2/gone", "");
    kept(["attempt 1 is not collected", "No route to host"]);
    fs::remove_file(played.home.path().join("hosts/n2/gone")).unwrap();
    fs::remove_dir(played.work_of("n1").join("attempt-1")).unwrap();
    let said = played.fleet(&["clean"]);
    assert_eq!((said.code, said.out.trim()), (Some(0), "2 asked, 2 cleaned."), "{said:?}");
    for host in ["n1", "n2"] {
        assert!(!played.work_of(host).parent().unwrap().exists(), "{host}");
    }
    assert!(other.exists(), "the work of another fleet run is kept");
    // What is at home stays unchanged, also by further questions.
    fs::remove_dir(played.folder().attempt("n1", 7)).unwrap();
    for again in [&["collect", "--json"][..], &["run", "--resume", "--json"], &["report", "--json"]] {
        let document = played.fleet(again).json();
        assert_eq!(ends(&document), named(&[("n1", "cannot-tell"), ("n2", "cannot-tell")]), "{again:?}");
    }
    assert_eq!(["n1", "n2"].map(|host| played.measured(host)), [1, 1]);
    assert_eq!(played.fleet(&["clean"]).code, Some(0));
}

#[test]
fn whole_repeats_of_an_attempt_that_was_lost_come_home() {
    let Some(played) = Played::new(&["n1"], "") else { return };
    let place = played.home.path().join("made");
    made::fleet(&place, &made::hosts(1), &[]);
    played.home.file("hosts/n1/leaves", made::attempt(&place, "h1", 1).join("record").to_str().unwrap());
    played.run(&[]);
    // The state after the host's death: the record has no manifest, and nobody wrote how it ended.
    let attempt = played.work_of("n1").join("attempt-0");
    fs::remove_file(attempt.join("exit")).unwrap();
    fs::remove_file(attempt.join("record/manifest.json")).unwrap();
    fs::remove_file(attempt.with_file_name("attempt-0.tar.gz")).unwrap();
    fs::remove_dir_all(played.folder().path().join("hosts")).unwrap();
    let document = played.fleet(&["collect", "--json"]).json();
    assert_eq!(ends(&document), named(&[("n1", "lost")]), "{document}");
    let because = document["hosts"][0]["because"].as_str().unwrap();
    let there = tilemark_record::RunDirectory::at(&attempt.join("record")).summaries().unwrap();
    let here = tilemark_record::RunDirectory::at(&played.folder().attempt("n1", 0).join("record"));
    assert!(!there.is_empty() && here.summaries().unwrap() == there);
    assert!(
        because.ends_with("10 repeats were whole, and are in its record, which has no verdict"),
        "{because}"
    );
    assert_eq!(played.fleet(&["clean"]).code, Some(0));
}

#[test]
fn a_collection_whose_own_disk_is_full_says_so_and_the_next_one_takes_it_home() {
    let Some(played) = Played::new(&["n1"], "") else { return };
    played.run(&["--detach"]);
    until("n1 has ended", || played.work_of("n1").join("attempt-0/exit").exists());
    let mut noise = vec![0; 2 << 20];
    fs::File::open("/dev/urandom").unwrap().read_exact(&mut noise).unwrap();
    fs::write(played.work_of("n1").join("attempt-0/scenario.toml"), noise).unwrap();
    // The folder of fleet runs on a disk of 1 MiB, for this command alone.
    let home = played.home.path().display().to_string();
    let full = format!(
        "cp -a {home}/fleets {home}/copy && mount -t tmpfs -o size=1m tmpfs {home}/fleets && cp -a {home}/copy/. {home}/fleets &&\
         {TILEMARK} fleet collect --json; code=$?; ls -A {home}/fleets/*/hosts/n1 >&2; exit $code"
    );
    let mut alone = Command::new("unshare");
    alone.args(["--mount", "sh", "-c", &full]).env("TILEMARK_HOME", played.home.path());
    let said = Said::of(&alone.output().unwrap());
    said.fails_with(3, "No space left on device", "has space");
    assert!(!said.error.contains("attempt-"), "nothing is left of it: {said:?}");
    let said = played.fleet(&["collect", "--json"]);
    assert_eq!(ends(&said.json()), named(&[("n1", "cannot-tell")]), "{said:?}");
}

/// Hosts that leave made records; `h1` is 10 % slower than the others where that is asked.
fn with_made_records(slow: f64) -> Option<Played> {
    let played = Played::new(&["h1", "h2", "h3", "h4", "h5", "h6"], GONE)?;
    let mut hosts = made::hosts(6);
    hosts[0].slow = slow;
    played.home.file("code", "0");
    let site = fs::read_to_string(&played.site).unwrap();
    let site = ["h1", "h2", "h3", "h4", "h5", "h6"].iter().fold(site, |site, host| {
        let group = if matches!(*host, "h1" | "h2" | "h3" | "h4") { "rack-a" } else { "rack-b" };
        site.replace(&format!("name = \"{host}\"\n"), &format!("name = \"{host}\"\ngroups = [\"{group}\"]\n"))
    });
    fs::write(&played.site, site).unwrap();
    let place = played.home.path().join("made");
    made::fleet(&place, &hosts, &[]);
    for host in &hosts {
        let record = made::attempt(&place, &host.name, 1).join("record");
        played.home.file(&format!("hosts/{}/leaves", host.name), record.to_str().unwrap());
    }
    Some(played)
}

#[test]
fn a_host_that_differs_is_measured_again_among_others_of_its_group_by_one_command() {
    let Some(played) = with_made_records(1.1) else { return };
    let found = played.run(&["--json"]).json();
    assert_eq!(
        (&found["named"], &found["verdict"]),
        (&serde_json::json!(["h1"]), &"differs".into()),
        "{found}"
    );
    let first = played.folder().path().file_name().unwrap().to_str().unwrap().to_owned();
    // Groups of equal hardware: the others come from all hosts. The user's groups: only from those of rack-a.
    let confirmed = played.fleet(&["confirm", &first, "--site-groups", "--json"]);
    let found = confirmed.json();
    let again = &found["confirmation"];
    assert_eq!(again["confirmed"], serde_json::json!(["h1"]), "{confirmed:?}");
    let others = again["others"].as_array().unwrap();
    assert!(
        others.len() == 2 && others.iter().all(|host| ["h2", "h3", "h4"].contains(&host.as_str().unwrap()))
    );
    let group = host(&found, "h1")["group"].as_str().unwrap();
    assert!(group.starts_with("rack-a"), "{group}");
    assert_eq!((played.measured("h1"), played.measured("h5") + played.measured("h6")), (2, 2));
    assert_eq!(tilemark_fleet::ids(&played.home.path().join("fleets")).len(), 2);
    // What is drawn later has it too, and the last fleet run is still the first one.
    let page = played.home.path().join("fleets").join(&first).join("report.html");
    for again in [&["collect", "--json"][..], &["report", "--json"], &["run", "--resume", "--json"]] {
        fs::remove_file(&page).ok();
        let found = played.fleet(again).json();
        assert_eq!(found["fleet"], *first, "{again:?}");
        assert_eq!(found["confirmation"]["confirmed"], serde_json::json!(["h1"]), "{again:?}");
        let drawn = fs::read_to_string(&page).unwrap_or_default();
        assert_eq!(drawn.contains("Confirmed by a second measurement"), again[0] != "report", "{again:?}");
    }
    // Where nobody answers, nothing is confirmed, and the exit code shows it.
    let gone: Vec<PathBuf> =
        (1..=6).map(|number| played.home.file(&format!("hosts/h{number}/gone"), "")).collect();
    let said = played.fleet(&["confirm", &first, "--json"]).ended(3);
    assert_eq!(said.json()["confirmation"]["not_measured"]["h1"], "it has no whole record");
    assert_eq!(said.json()["named"], serde_json::json!([]));
    gone.iter().for_each(|gone| fs::remove_file(gone).unwrap());
    // Where no other host of the group is trusted, nothing is measured.
    let fleets = tilemark_fleet::ids(&played.home.path().join("fleets")).len();
    let place = played.home.path().join("fleets").join(&first);
    for host in ["h2", "h3", "h4", "h5", "h6"] {
        let number = tilemark_fleet::FleetFolder::find(&played.home.path().join("fleets"), &first)
            .unwrap()
            .attempts(host)[0];
        made::write_end(&place, host, number, tilemark_fleet::End::CannotTell, "made");
    }
    let message = played.fleet(&["confirm", &first, "--json"]).ended(2).message();
    assert!(message.contains("nothing can be confirmed: all hosts: no other host"), "{message}");
    assert!(message.ends_with("beside h1"), "{message}");
    assert_eq!(tilemark_fleet::ids(&played.home.path().join("fleets")).len(), fleets);
    // Where nobody differs there is nothing to confirm.
    let Some(alike) = with_made_records(1.0) else { return };
    assert_eq!(alike.run(&["--json"]).json()["named"], serde_json::json!([]));
    let said = alike.fleet(&["confirm", "--json"]).ended(2);
    assert!(said.message().contains("nothing to confirm"));
    assert_eq!(tilemark_fleet::ids(&alike.home.path().join("fleets")).len(), 1);
}

#[test]
fn two_runs_of_a_fleet_are_compared_and_its_pages_drawn_without_names() {
    let home = Home::new();
    let (before, after) = (home.path().join("before"), home.path().join("after"));
    let mut hosts = made::hosts(6);
    for (number, host) in hosts.iter_mut().enumerate() {
        host.name = format!("quokka-{number}.example.org");
    }
    made::fleet(&before, &hosts, &[]);
    for host in &mut hosts[..3] {
        *host = host.clone().with("/kernel/release", serde_json::json!({ "value": "6.13.0-amd64" }));
        host.slow = 1.12;
    }
    made::fleet(&after, &hosts, &["quokka-gone"]);
    made::write_end(&after, "quokka-gone", 1, tilemark_fleet::End::NoAnswer, "ssh 192.168.9.9 as mia");
    let paths = [before.to_str().unwrap(), after.to_str().unwrap()];
    let drift = home.says(&["fleet", "compare", paths[0], paths[1], "--json"]).ended(0).json();
    assert_eq!(drift["both"], 6);
    assert!(drift["measures"][0]["against_controls"]["change"]["value"].as_f64().unwrap() > 0.05, "{drift}");
    assert!(drift["changes"].to_string().contains("6.13.0-amd64"), "{drift}");
    let (page, text) = (home.path().join("page.html"), home.path().join("page.md"));
    let files = ["--html", page.to_str().unwrap(), "--markdown", text.to_str().unwrap()];
    for (whole, command) in [
        (true, &["compare", paths[0], paths[1]][..]),
        (false, &["compare", paths[0], paths[1]]),
        (true, &["report", paths[1]]),
        (false, &["report", paths[1]]),
    ] {
        let redact: &[&str] = if whole { &[] } else { &["--redact"] };
        let said = home.says(&[&["fleet"], command, &files, redact].concat());
        let json = home.says(&[&["fleet"], command, &["--json"], redact].concat()).out;
        let drawn = [said.out, fs::read_to_string(&page).unwrap(), fs::read_to_string(&text).unwrap(), json];
        for (place, drawn) in drawn.iter().enumerate() {
            for secret in ["quokka", "192.168.9.9", " mia"] {
                assert!(whole || !drawn.contains(secret), "{command:?}, {place}: {secret}");
            }
            assert_eq!(drawn.contains("quokka-0"), whole, "{command:?}, {place}");
            assert!(whole || drawn.contains("host-"), "{command:?}, {place}");
        }
    }
}

/// The lab's own program beside ours.
fn lab() -> Option<(Command, String)> {
    let mut lab = fleet_lab()?;
    let mark = format!("fleet-test-{}-{:?}", std::process::id(), thread::current().id());
    lab.env(MARK, &mark);
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
    let until = Instant::now() + TIMEOUT;
    while !lives().is_empty() {
        assert!(Instant::now() < until, "left of the lab: {:?}", lives());
        thread::sleep(Duration::from_millis(50));
    }
}

/// A quick measurement, and who is killed during it.
const LAB_SCRIPT: &str = r#"
quick="--on native --offline --tiles 1 --set measure.repeats=1 --set measure.warmup=1s --set measure.length=4s"
tilemark fleet plan web --site ssh.toml $quick >&2 || exit 90
sed 's/"hosts"/"nope"/' slurm.toml >nope.toml
tilemark fleet plan web --site nope.toml $quick --json >nope.json 2>>notes
echo "code $?" >&2
grep -q 'Slurm refuses the question.*sinfo --Node' nope.json || { cat nope.json >&2; exit 93; }
tilemark fleet run web --site ssh.toml $quick --json >ssh.json 2>notes &
run=$!
until [ "$(grep -c submitted notes)" = 3 ]; do sleep 0.1; done
sleep 1
power off n2 || exit 91
wait $run
echo "code $?" >&2
power on n2 || exit 92
tilemark fleet collect --json >collected.json 2>>notes
# A partition that takes no job of more than 30 minutes: questions, fetches and the work are all within it.
sed 's/"hosts"/"short"/' slurm.toml >short.toml
tilemark fleet run web --site short.toml $quick --json >slurm.json 2>>notes
echo "code $?" >&2
# A user who is root only through sudo, and one who no longer is.
tilemark fleet run web --site sudo.toml $quick --json >sudo.json 2>>notes
echo "code $?" >&2
ssh 10.99.0.13 'rm /etc/sudoers.d/lab' || exit 94
tilemark fleet plan web --site sudo.toml $quick --json >plan.json 2>>notes
echo "code $?" >&2
cat notes >&2
printf '['; cat ssh.json; printf ','; cat collected.json; printf ','; cat slurm.json
printf ','; cat sudo.json; printf ','; cat plan.json; printf ']'
exit 7
"#;

#[test]
fn a_fleet_of_real_hosts_is_measured_over_ssh_and_slurm_and_the_one_that_is_killed_is_named() {
    let Some((mut lab, mark)) = lab() else { return };
    let said = Said::of(&lab.args(["sh", "-c", LAB_SCRIPT]).output().unwrap());
    assert_eq!(said.code, Some(7), "the script's own: {}\n{}", said.out, said.error);
    let documents = said.json();
    let [ssh, collected, slurm, sudo, plan] = [0, 1, 2, 3, 4].map(|index| documents[index].clone());
    assert_eq!((&ssh["asked"], &ssh["measured"]), (&3.into(), &2.into()), "{ssh}");
    let of = |document: &Value, name: &str| host(document, name)["end"].as_str().unwrap().to_owned();
    assert_eq!(of(&ssh, "n2"), "no-answer", "{ssh}");
    assert!(ssh["sentence"].as_str().unwrap().contains("Missing: n2 (no answer)"), "{ssh}");
    // It is back, and what it had begun is lost.
    assert_eq!(of(&collected, "n2"), "lost", "{collected}");
    assert_eq!(collected["measured"], 2);
    for measured in [&slurm, &sudo] {
        assert_eq!((&measured["asked"], &measured["measured"]), (&3.into(), &3.into()), "{measured}");
    }
    assert_eq!(plan["fit"], 2, "{plan}");
    let problem = plan["hosts"][2]["problems"][0].as_str().unwrap();
    assert!(problem.contains("`sudo -n` asks for a password"), "{plan}");
    for name in ["n1", "n3"] {
        // Three hosts share this machine's processors, so figures may be discarded; that each measured is what counts here.
        // They share its kernel too, which may still have the loop devices of the one that was killed.
        let because = host(&ssh, name)["because"].as_str().unwrap_or_default();
        let has_devices = of(&ssh, name) == "not-restored" && because.contains("loop device");
        let ends = ["trusted", "not-trusted", "cannot-tell"];
        assert!(ends.contains(&of(&ssh, name).as_str()) || has_devices, "{ssh}");
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
    let until = Instant::now() + TIMEOUT;
    while groups().iter().filter(|name| before.contains(name)).count() == before.len() {
        assert!(Instant::now() < until, "groups are left: {:?}", groups());
        thread::sleep(Duration::from_millis(50));
    }
}
