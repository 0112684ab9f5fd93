//! Whole runs for real, in a home of their own: started, watched, killed, and looked after for what they leave.

use super::{Home, Said, TILEMARK, is_root, skipped};
use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{CpuSet, sched_getaffinity},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tilemark_record::RunDirectory;

/// Far above what anything that a test waits for takes, on machines that are many times slower too.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// How many runs of this test program are under way at once. They would disturb each other, and two cores are enough for one; but
/// those of some programs mostly wait for their seconds to pass: one keeps a sixth of two processors busy.
fn at_once() -> usize {
    match env!("CARGO_CRATE_NAME") {
        "native" | "clients" => 2,
        _ => 1,
    }
}

/// Runs of this test program that are under way.
static UNDER_WAY: Mutex<usize> = Mutex::new(0);
static ONE_ENDED: Condvar = Condvar::new();

/// The turn of one test. Dropping it lets the next one begin.
struct Turn;

impl Turn {
    fn take() -> Self {
        let under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        let fewer = ONE_ENDED.wait_while(under_way, |under_way| *under_way >= at_once());
        *fewer.unwrap_or_else(PoisonError::into_inner) += 1;
        Self
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ONE_ENDED.notify_one();
    }
}

/// A home with an image, for one test at a time, or two; nothing where that can't be.
pub struct Real {
    pub home: Home,
    _turn: Turn,
}

impl Real {
    pub fn new() -> Option<Self> {
        Self::at(Home::new)
    }

    /// A home whose cache has that image; nothing where that can't be.
    pub fn with_image(name: &str) -> Option<Self> {
        let real = Self::new()?;
        let listed = real.home.says(&["image", "list", "--json"]).json();
        let has = |image: &Value| image["spec"] == name;
        if listed["images"].as_array().or(listed.as_array()).unwrap().iter().any(has) {
            return Some(real);
        }
        skipped(&format!("the tests' cache has no image `{name}`: `tilemark image build {name}`"));
        None
    }

    /// In a home that is made here.
    pub fn at(home: impl FnOnce() -> Home) -> Option<Self> {
        if !is_root() {
            skipped("native runs need root");
            return None;
        }
        let turn = Turn::take();
        let home = home();
        copy(&cache(), &home.path().join("cache"));
        Some(Self { home, _turn: turn })
    }

    /// Starts the command; what it says goes into files of the home.
    pub fn start(&self, arguments: &[&str]) -> Running<'_> {
        let mut command = Command::new(TILEMARK);
        command.args(arguments);
        self.start_as(command)
    }

    /// The same with a command that becomes the program, as by `exec`.
    pub fn start_as(&self, mut command: Command) -> Running<'_> {
        let file = |name: &str| File::create(self.home.path().join(name)).unwrap();
        command.env("TILEMARK_HOME", self.home.path());
        command.env("TILEMARK_LOCK_FOLDER", self.home.lock_folder());
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("error"));
        Running { real: self, child: command.spawn().unwrap() }
    }

    /// Starts the command, and waits for its keeper.
    pub fn begin(&self, arguments: &[&str]) -> (Running<'_>, ActiveJob) {
        let mut running = self.start(arguments);
        let under_way = running.until("a keeper", keeper_of);
        (running, under_way)
    }

    /// The record of a run that is over: it is whole.
    #[track_caller]
    pub fn record(&self, run: &str) -> RunDirectory {
        let record = RunDirectory::at(&self.home.path().join("runs").join(run));
        record.verify().unwrap();
        record
    }

    /// What is under way, once it has a state folder with a keeper.
    pub fn under_way(&self) -> Option<ActiveJob> {
        let entries = fs::read_dir(self.home.path().join("state")).ok()?;
        // One whose name begins with a dot is still being made, and about to have another name.
        let made = entries.flatten().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let mut folders = made.map(|entry| entry.path()).filter(|path| path.is_dir());
        let folder = folders.next()?;
        let document: Value = serde_json::from_slice(&fs::read(folder.join("under-way.json")).ok()?).ok()?;
        Some(ActiveJob {
            id: document["id"].as_str()?.to_owned(),
            cgroup: document["cgroup"].as_str().map(PathBuf::from),
            keeper: document["keeper"]["pid"].as_i64(),
            folder,
        })
    }

    /// What is left of all that ran here, in words.
    pub fn left(&self, processes: &BTreeSet<Process>, cgroups: &[PathBuf]) -> Vec<String> {
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

    /// Waits until nothing is left, and prints how long it took: `cargo xtask bench kill` reads that.
    #[track_caller]
    pub fn all_gone(&self, processes: &BTreeSet<Process>, cgroups: &[PathBuf]) {
        let began = Instant::now();
        let until = began + TIMEOUT;
        loop {
            let left = self.left(processes, cgroups);
            if left.is_empty() {
                return println!("{{\"gone_after_s\":{:.3}}}", began.elapsed().as_secs_f64());
            }
            assert!(Instant::now() < until, "left after {TIMEOUT:?}: {left:#?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// How many kills a test of them does: as many as it wants itself, or more in a soak.
pub fn kills(usual: usize) -> usize {
    std::env::var("TILEMARK_TEST_KILLS").map_or(usual, |kills| kills.parse().unwrap())
}

/// Moments spread over a span, no two alike: the fractional parts of the golden ratio's multiples.
pub fn moments(count: usize, span: Duration) -> Vec<Duration> {
    (1..=count).map(|number| span.mul_f64((number as f64 * 0.618_033_988_75).fract())).collect()
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

/// Copies a cache. The files of images are the same ones, as hard links where that can be: a test that damages one makes a
/// copy of it first.
fn copy(cache: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(cache).unwrap().flatten() {
        let cp = |flags| {
            let mut cp = Command::new("cp");
            cp.arg(flags).arg(entry.path()).arg(to).stderr(Stdio::null()).status().unwrap().success()
        };
        let is_there = (entry.file_name() == "images" && cp("-al")) || cp("-a");
        assert!(is_there, "{} cannot be copied", entry.path().display());
    }
    // A lock on the same file would be one for all homes.
    let _ = fs::remove_file(to.join("images/lock"));
}

/// What the state folder holds.
#[derive(Debug)]
pub struct ActiveJob {
    pub id: String,
    pub folder: PathBuf,
    pub cgroup: Option<PathBuf>,
    pub keeper: Option<i64>,
}

/// A process, distinguished from a later one with its number.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    start_ticks: u64,
    pub name: String,
}

/// What /proc has of a process that is not a zombie.
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
    pub fn lives(&self) -> bool {
        stat(self.pid).is_some_and(|now| now.process.start_ticks == self.start_ticks)
    }

    /// Everything that came of a process: what is in namespaces of its own too.
    pub fn descendants(of: i32) -> BTreeSet<Self> {
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
pub struct Running<'a> {
    real: &'a Real,
    pub child: Child,
}

impl Running<'_> {
    /// Waits for a moment of the run.
    pub fn until<T>(&mut self, what: &str, found: impl Fn(&Real) -> Option<T>) -> T {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = found(self.real) {
                return found;
            }
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended before: {what}; {}", self.error());
            assert!(Instant::now() < until, "waited in vain: {what}; {}", self.error());
            thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn error(&self) -> String {
        fs::read_to_string(self.real.home.path().join("error")).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), signal).unwrap();
    }

    pub fn said(&mut self) -> Said {
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

/// The last processor of this host, which is a guest's. The load has the first one, or with one processor both share it.
pub fn last_processor() -> usize {
    let online = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).rev().find(|id| online.is_set(*id)).unwrap()
}

pub fn keeper_of(real: &Real) -> Option<ActiveJob> {
    real.under_way().filter(|under_way| under_way.keeper.is_some())
}
