//! Whole runs, natively and for real: root and an image are needed.
//!
//! The image is taken from the folder that `TILEMARK_TEST_CACHE` names (the `cache` of a home), or built once.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK, is_root, skipped};
use hdrhistogram::{
    Histogram,
    serialization::{
        Deserializer,
        interval_log::{IntervalLogIterator, LogEntry},
    },
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tilemark_record::{RunDirectory, result::RunResult};

/// Runs would disturb each other, and two cores are enough for one.
static IN_TURN: Mutex<()> = Mutex::new(());

/// A home with an image, for one test at a time; nothing where that can't be.
struct Real {
    home: Home,
    _turn: MutexGuard<'static, ()>,
}

/// A one-tile web run of three seconds.
const RUN: [&str; 12] = [
    "run",
    "web",
    "--on",
    "native",
    "--offline",
    "--tiles",
    "1",
    "--set",
    "measure.repeats=1",
    "--set",
    "measure.warmup=1s",
    "--json",
];

impl Real {
    fn new() -> Option<Self> {
        if !is_root() {
            skipped("native runs need root");
            return None;
        }
        let turn = IN_TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let home = Home::new();
        let cache = cache();
        let copied =
            Command::new("cp").arg("-a").arg(&cache).arg(home.path().join("cache")).status().unwrap();
        assert!(copied.success(), "{} cannot be copied", cache.display());
        Some(Self { home, _turn: turn })
    }

    /// Starts the command; what it says goes into files of the home.
    fn start(&self, arguments: &[&str]) -> Running<'_> {
        let file = |name: &str| File::create(self.home.path().join(name)).unwrap();
        let mut command = Command::new(TILEMARK);
        command.args(arguments).env("TILEMARK_HOME", self.home.path());
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("error"));
        Running { real: self, child: command.spawn().unwrap() }
    }

    /// What is under way, once it has a state folder with a keeper.
    fn under_way(&self) -> Option<UnderWay> {
        let entries = fs::read_dir(self.home.path().join("state")).ok()?;
        let mut folders = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
        let folder = folders.next()?;
        let document: Value = serde_json::from_slice(&fs::read(folder.join("under-way.json")).ok()?).ok()?;
        Some(UnderWay {
            id: document["id"].as_str()?.to_owned(),
            cgroup: document["cgroup"].as_str().map(PathBuf::from),
            keeper: document["keeper"]["pid"].as_i64(),
            folder,
        })
    }

    /// What is left of all that ran here, in words.
    fn left(&self, processes: &BTreeSet<Process>, cgroups: &[PathBuf]) -> Vec<String> {
        let home = self.home.path().to_str().unwrap();
        let mut left = Vec::new();
        let mut say = |what: &str, which: String| left.push(format!("{what} {which}"));
        processes
            .iter()
            .filter(|process| process.lives())
            .for_each(|process| say("process", format!("{process:?}")));
        for entry in fs::read_dir(self.home.path().join("state")).into_iter().flatten().flatten() {
            if entry.file_name() != "lock" {
                say("state", entry.path().display().to_string());
            }
        }
        for entry in fs::read_dir("/sys/block").unwrap().flatten() {
            let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
            if backing.contains(home) {
                say("loop device on", backing);
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.lines().filter(|line| line.contains(home)).for_each(|line| say("mount", line.to_owned()));
        cgroups.iter().filter(|path| path.exists()).for_each(|path| say("group", path.display().to_string()));
        left
    }

    /// Waits until nothing is left, ten seconds at most.
    #[track_caller]
    fn all_gone(&self, processes: &BTreeSet<Process>, cgroups: &[PathBuf]) {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let left = self.left(processes, cgroups);
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "left after 10 s: {left:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The folder of an image that may be copied.
fn cache() -> PathBuf {
    if let Some(cache) = std::env::var_os("TILEMARK_TEST_CACHE") {
        return cache.into();
    }
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native-home");
    let built = Command::new(TILEMARK).args(["image", "build"]).env("TILEMARK_HOME", &home).status().unwrap();
    assert!(built.success(), "the image cannot be built");
    home.join("cache")
}

/// What the state folder tells.
#[derive(Debug)]
struct UnderWay {
    id: String,
    folder: PathBuf,
    cgroup: Option<PathBuf>,
    keeper: Option<i64>,
}

/// A process, told from a later one with its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: i32,
    start_ticks: u64,
    name: String,
}

/// What /proc tells of a process that is no zombie.
struct Stat {
    process: Process,
    parent: i32,
}

fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = text.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    let name = head.split_once('(')?.1.to_owned();
    let process = Process { pid, start_ticks: fields[19].parse().ok()?, name };
    (fields[0] != "Z").then(|| Stat { process, parent: fields[1].parse().unwrap_or(0) })
}

impl Process {
    fn lives(&self) -> bool {
        stat(self.pid).is_some_and(|now| now.process.start_ticks == self.start_ticks)
    }

    /// Everything that came of a process: what is in namespaces of its own too.
    fn descendants(of: i32) -> BTreeSet<Self> {
        let numbers = fs::read_dir("/proc").unwrap().flatten();
        let all: Vec<Stat> =
            numbers.filter_map(|entry| stat(entry.file_name().to_str()?.parse().ok()?)).collect();
        let (mut found, mut ancestors) = (BTreeSet::new(), BTreeSet::from([of]));
        loop {
            let before = ancestors.len();
            for stat in all.iter().filter(|stat| ancestors.contains(&stat.parent)) {
                found.insert(stat.process.clone());
            }
            ancestors.extend(found.iter().map(|process| process.pid));
            if ancestors.len() == before {
                return found;
            }
        }
    }
}

/// A command that was started; it is ended with the test.
struct Running<'a> {
    real: &'a Real,
    child: Child,
}

impl Running<'_> {
    /// Waits for a moment of the run.
    fn until<T>(&mut self, what: &str, found: impl Fn(&Real) -> Option<T>) -> T {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = found(self.real) {
                return found;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended before: {what}; {}", self.error());
            assert!(Instant::now() < until, "waited in vain: {what}; {}", self.error());
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn error(&self) -> String {
        fs::read_to_string(self.real.home.path().join("error")).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    fn said(&mut self) -> Said {
        let code = self.child.wait().unwrap().code();
        let out = fs::read_to_string(self.real.home.path().join("out")).unwrap();
        Said { code, out, error: self.error() }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn keeper_of(real: &Real) -> Option<UnderWay> {
    real.under_way().filter(|under_way| under_way.keeper.is_some())
}

#[test]
fn a_native_run_measures_the_web_and_leaves_only_its_record() {
    let Some(real) = Real::new() else { return };
    let mut running = real.start(&[&RUN[..], &["--set", "measure.length=2s", "--not-alone"]].concat());
    let under_way = running.until("a keeper", keeper_of);
    running.until("load", |real| {
        fs::read_dir(real.home.path().join("runs")).ok()?.flatten().next().filter(|run| {
            fs::read_to_string(run.path().join("events.ndjson"))
                .is_ok_and(|text| text.contains("guests-ready"))
        })
    });
    let processes = Process::descendants(running.child.id() as i32);
    assert!(processes.iter().any(|process| process.name.starts_with("nginx")), "{processes:#?}");
    let said = running.said();
    // Beside other work it is at most "cannot tell".
    assert_eq!(said.code, Some(5), "{said:?}");
    let result: RunResult = serde_json::from_value(said.json()).unwrap();
    let point = &result.points[0];
    assert_eq!((point.tiles, point.guests, result.run.as_str()), (1, 1, under_way.id.as_str()));
    assert!(
        point.throughput.is_some() || result.missing.keys().any(|key| key.contains("throughput")),
        "{result:?}"
    );

    let record = RunDirectory::at(&real.home.path().join("runs").join(&under_way.id));
    record.verify().unwrap();
    let repeats = record.repeats().unwrap();
    assert_eq!(repeats.len(), 1);
    let summary = repeats[0].summary().unwrap();
    let load = &summary.loads[0];
    assert!(load.completed > 0, "{load:?}");
    assert_eq!((load.failed, load.wrong), (0, 0), "{:?}", load.errors);
    assert_eq!((summary.host.seconds, repeats[0].telemetry().unwrap().len()), (2, 2));
    assert!(summary.memory.as_ref().unwrap().pss_mib_per_guest > 1.0, "{:?}", summary.memory);
    let log = fs::read(repeats[0].path().join("latency.hlog")).unwrap();
    assert_eq!(requests_in(&log), load.latency_ms.n);
    let page = fs::read_to_string(record.path().join("report.html")).unwrap();
    assert!(page.contains("<html") && page.contains("web"));
    let drawn = real.home.says(&["report", "last"]);
    assert_eq!(drawn.code, Some(0), "{drawn:?}");
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

/// How many values a log of histograms holds.
fn requests_in(log: &[u8]) -> u64 {
    use base64::Engine;
    let mut requests = 0;
    for entry in IntervalLogIterator::new(log) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        let bytes = base64::engine::general_purpose::STANDARD.decode(interval.encoded_histogram()).unwrap();
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        requests += histogram.len();
    }
    requests
}

#[test]
fn a_second_run_is_told_of_the_first_which_ends_whole_when_interrupted() {
    let Some(real) = Real::new() else { return };
    let mut first = real.start(&[&RUN[..], &["--set", "measure.length=60s"]].concat());
    let under_way = first.until("a keeper", keeper_of);
    let second = real.home.says(&RUN);
    assert_eq!(second.code, Some(3), "{second:?}");
    let error = &second.json()["error"];
    assert_eq!(error["message"], format!("the run {} is under way on this host", under_way.id));
    assert!(error["remedy"].as_str().unwrap().contains("--wait"));
    let runs = fs::read_dir(real.home.path().join("runs")).unwrap().count();
    assert_eq!(runs, 1, "what was refused has no record");

    let processes = Process::descendants(first.child.id() as i32);
    first.signal(Signal::INT);
    let said = first.said();
    assert_eq!(said.code, Some(5), "{said:?}");
    let result: RunResult = serde_json::from_value(said.json()).unwrap();
    assert_eq!(result.answer.holds, None, "a repeat that is not whole does not count");
    assert!(said.error.contains("ending the load"), "{said:?}");
    RunDirectory::at(&real.home.path().join("runs").join(&under_way.id)).verify().unwrap();
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

#[test]
fn a_record_is_not_put_where_something_is() {
    let Some(real) = Real::new() else { return };
    let theirs = real.home.file("theirs/file", "theirs");
    let output = theirs.parent().unwrap().to_str().unwrap();
    let said = real.home.says(&[&RUN[..], &["--output", output]].concat());
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(
        said.json()["error"]["message"].as_str().unwrap().ends_with("exists and is not empty"),
        "{said:?}"
    );
    assert_eq!(fs::read_dir(output).unwrap().count(), 1);
    real.all_gone(&BTreeSet::new(), &[]);
}

#[test]
fn a_killed_command_leaves_nothing_at_any_moment() {
    let Some(real) = Real::new() else { return };
    let mut under_way_at_kill = 0;
    // The first while it reads plan and image, the others counted from the moment when something is there.
    for after_ms in
        [None, Some(0), Some(2), Some(5), Some(15), Some(50), Some(150), Some(500), Some(1500), Some(3000)]
    {
        let mut running = real.start(&[&RUN[..], &["--set", "measure.length=10s"]].concat());
        if let Some(after_ms) = after_ms {
            running.until("a state folder", |real| {
                fs::read_dir(real.home.path().join("state"))
                    .ok()?
                    .flatten()
                    .find(|entry| entry.path().is_dir())
            });
            thread::sleep(Duration::from_millis(after_ms));
        }
        let (under_way, processes) = (real.under_way(), Process::descendants(running.child.id() as i32));
        assert_eq!(running.child.try_wait().unwrap(), None, "{}", running.error());
        running.signal(Signal::KILL);
        running.child.wait().unwrap();
        let cgroup = under_way.as_ref().and_then(|under_way| under_way.cgroup.clone());
        println!("killed after {after_ms:?} ms: {} processes, {under_way:?}", processes.len());
        under_way_at_kill += u32::from(under_way.is_some());
        real.all_gone(&processes, cgroup.as_slice());
    }
    assert!(under_way_at_kill >= 5, "most kills came before anything was under way");
    let listed = real.home.says(&["runs"]);
    assert!(listed.out.contains("unfinished"), "{listed:?}");
    // The next run is not hindered by what was.
    let next = real.home.says(&[&RUN[..], &["--set", "measure.length=1s"]].concat());
    assert!(matches!(next.code, Some(0 | 5)), "{next:?}");
}

#[test]
fn a_killed_keeper_takes_the_run_with_it_and_recover_the_rest() {
    let Some(real) = Real::new() else { return };
    let mut running = real.start(&[&RUN[..], &["--set", "measure.length=60s"]].concat());
    let under_way = running.until("a keeper", keeper_of);
    running.until("nginx", |real| {
        let all = Process::descendants(i32::try_from(keeper_of(real)?.keeper?).ok()?);
        all.iter().any(|process| process.name.starts_with("nginx")).then_some(())
    });
    let processes = Process::descendants(running.child.id() as i32);
    let alive = real.home.says(&["recover", "--json"]).json();
    assert_eq!(
        alive,
        serde_json::json!({ "removed": [], "under_way": [under_way.id] }),
        "nobody's run is removed"
    );
    kill_process(Pid::from_raw(under_way.keeper.unwrap() as i32).unwrap(), Signal::KILL).unwrap();
    let said = running.said();
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(
        said.json()["error"]["message"].as_str().unwrap().contains("ended before it was done"),
        "{said:?}"
    );
    let until = Instant::now() + Duration::from_secs(10);
    while processes.iter().any(Process::lives) {
        assert!(Instant::now() < until, "left after 10 s: {processes:#?}");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(under_way.folder.exists());
    let recovered = real.home.says(&["recover", "--json"]);
    assert_eq!(recovered.code, Some(0), "{recovered:?}");
    assert_eq!(recovered.json(), serde_json::json!({ "removed": [under_way.id], "under_way": [] }));
    real.all_gone(&processes, under_way.cgroup.as_slice());
    let again = real.home.says(&["recover"]);
    assert_eq!(again.out, "Nothing was left behind.\n");
}
