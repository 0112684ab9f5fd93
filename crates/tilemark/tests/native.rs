//! Whole runs, natively and for real: root and an image are needed.
//!
//! The image is taken from the folder that `TILEMARK_TEST_CACHE` names (the `cache` of a home), or built once.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;
#[path = "native/own_bridge.rs"]
mod own_bridge;

use common::{
    Home, Line, hears_ctrl_c,
    real::{Process, Real, Running, TIMEOUT, keeper_of, kills, moments},
    words,
};
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
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};
use tilemark_record::{
    RunDirectory,
    result::{ComparisonOutcome, Measured},
};

/// A one-tile web run of three seconds.
static RUN: Line = Line::new(|| {
    words("run web --on native --offline --tiles 1 --set measure.repeats=1 --set measure.warmup=1s --json")
});

#[test]
fn a_native_run_measures_the_web_and_leaves_only_its_record() {
    let Some(real) = Real::new() else { return };
    let (mut running, under_way) =
        real.begin(&[&RUN[..], &["--set", "measure.length=2s", "--not-alone"]].concat());
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
    let result = said.result();
    let point = &result.points[0];
    assert_eq!((point.tiles, point.guests, result.run.as_str()), (1, 1, under_way.id.as_str()));
    assert!(
        point.throughput.is_some() || result.missing.keys().any(|key| key.contains("throughput")),
        "{result:?}"
    );

    let record = real.record(&under_way.id);
    let repeats = record.repeats().unwrap();
    assert!((1..=2).contains(&repeats.len()), "one, and one again where other work voided it: {repeats:?}");
    let summary = repeats[0].summary().unwrap();
    let load = &summary.loads[0];
    assert!(load.completed > 0, "{load:?}");
    assert_eq!((load.failed, load.wrong), (0, 0), "{:?}", load.errors);
    assert_eq!((summary.host.seconds, repeats[0].telemetry().unwrap().len()), (2, 2));
    let of_guest = repeats[0].guest_seconds().unwrap();
    assert_eq!(of_guest.len(), 2, "{of_guest:?}");
    for row in &of_guest {
        assert!(row.processor_s.is_some() && row.run_queue_wait_fraction.is_some(), "{row:?}");
        assert!(row.network_bytes.is_some_and(|bytes| bytes > 0), "{row:?}");
    }
    assert!(summary.memory.as_ref().unwrap().pss_mib_per_guest > 1.0, "{:?}", summary.memory);
    is_as_its_page_says(record.path());
    let log = fs::read(repeats[0].path().join("latency.hlog")).unwrap();
    assert_eq!(requests_in(&log), load.latency_ms.n);
    let page = fs::read_to_string(record.path().join("report.html")).unwrap();
    assert!(page.contains("<html") && page.contains("web"));
    real.home.says(&["report", "last"]).ended(0);
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

/// Compares the files of a record with the tree at the beginning of docs/record.md.
fn is_as_its_page_says(record: &Path) {
    let page = include_str!("../../../docs/record.md");
    let tree = page.split("```").nth(1).unwrap();
    let of_repeat = "points/00/repeat-1";
    assert!(record.join(of_repeat).join("guests/tile-001-web/console.log").is_file());
    let mut folders = vec![record.to_owned()];
    while let Some(folder) = folders.pop() {
        let within = folder.strip_prefix(record).unwrap().to_str().unwrap();
        let within = within.replace("/repeat-2", "/repeat-1").replace(of_repeat, "points/NN/repeat-M");
        let within = within.replace("M/guests/tile-001-web", "M/guests/NAME");
        for entry in fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let name = entry.file_name().unwrap().to_str().unwrap();
            assert!(tree.contains(name), "{name} of {within} is not in docs/record.md");
            let is_in_tree = match within.as_str() {
                "" => true,
                "points/NN/repeat-M" => tree.contains("\npoints/NN/repeat-M/\n"),
                "points/NN/repeat-M/guests/NAME" => tree.contains("\n  guests/NAME/ "),
                _ => false,
            };
            assert!(is_in_tree, "{within}/{name} is not where docs/record.md has it");
        }
    }
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
fn a_second_run_is_refused_with_the_first_which_ends_whole_when_interrupted() {
    let Some(real) = Real::new() else { return };
    let (mut first, under_way) = real.begin(&[&RUN[..], &["--set", "measure.length=60s"]].concat());
    let error = &real.home.says(&RUN[..]).ended(3).json()["error"];
    assert_eq!(error["message"], format!("the run {} is under way on this host", under_way.id));
    assert!(error["remedy"].as_str().unwrap().contains("--wait"));
    let runs = fs::read_dir(real.home.path().join("runs")).unwrap().count();
    assert_eq!(runs, 1, "what was refused has no record");

    let processes = Process::descendants(first.child.id() as i32);
    first.signal(Signal::INT);
    let said = first.said().ended(5);
    let result = said.result();
    assert_eq!(result.answer.holds, None, "a repeat that is not whole does not count");
    assert!(said.error.contains("stopping; what is finished is kept"), "{said:?}");
    real.record(&under_way.id);
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

/// With any other code `git bisect run` would go on to the next commit.
#[test]
fn ctrl_c_ends_a_bisection() {
    let Some(real) = Real::new() else { return };
    let mut run = RUN.to_vec();
    run[0] = "ab";
    let sides = ["--a", "load.web.rate=400/s", "--b", "load.web.rate=500/s", "--exit-verdict"];
    let (mut running, under_way) =
        real.begin(&[&run[..], &sides, &["--set", "measure.length=60s", "--not-alone"]].concat());
    let processes = Process::descendants(running.child.id() as i32);
    running.signal(Signal::INT);
    running.said().ended(128);
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

#[test]
fn a_record_is_not_put_where_something_is() {
    let Some(real) = Real::new() else { return };
    let theirs = real.home.file("theirs/file", "theirs");
    let output = theirs.parent().unwrap().to_str().unwrap();
    let said = real.home.says(&[&RUN[..], &["--output", output]].concat()).ended(2);
    assert!(said.message().ends_with("exists and is not empty"), "{said:?}");
    assert_eq!(fs::read_dir(output).unwrap().count(), 1);
    real.all_gone(&BTreeSet::new(), &[]);
}

/// What the time until a kill is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Since {
    Start,
    Folder,
    Keeper,
}

impl Since {
    fn wait(self, running: &mut Running<'_>) {
        running.until(&format!("{self:?}"), |real| match self {
            Self::Start => Some(()),
            Self::Folder => {
                let mut entries = fs::read_dir(real.home.path().join("state")).ok()?.flatten();
                entries.any(|entry| entry.path().is_dir()).then_some(())
            }
            Self::Keeper => keeper_of(real).map(|_| ()),
        });
    }
}

#[test]
fn a_killed_command_leaves_nothing_at_any_moment() {
    let Some(real) = Real::new() else { return };
    // The first while it reads plan and image; four counted from the moment when a state folder is there; all others from
    // that when the keeper is.
    let from_folder = [0, 2, 5, 15].map(|ms| (Since::Folder, Duration::from_millis(ms)));
    let from_keeper = [0, 50, 500, 1500, 3000].map(Duration::from_millis);
    let more = moments(kills(10).saturating_sub(10), Duration::from_secs(4));
    let from_keeper = from_keeper.into_iter().chain(more).map(|after| (Since::Keeper, after));
    let all = [(Since::Start, Duration::ZERO)].into_iter().chain(from_folder).chain(from_keeper);
    for (since, after) in all.take(kills(10)) {
        let mut running = real.start(&[&RUN[..], &["--set", "measure.length=60s"]].concat());
        since.wait(&mut running);
        thread::sleep(after);
        let (under_way, processes) = (real.under_way(), Process::descendants(running.child.id() as i32));
        assert_eq!(running.child.try_wait().unwrap(), None, "{}", running.error());
        running.signal(Signal::KILL);
        running.child.wait().unwrap();
        let cgroup = under_way.as_ref().and_then(|under_way| under_way.cgroup.clone());
        println!("killed {after:?} after {since:?}: {} processes, {under_way:?}", processes.len());
        assert!(since != Since::Keeper || under_way.is_some(), "nothing was under way");
        real.all_gone(&processes, cgroup.as_slice());
    }
    real.home.says(&["runs"]).with_output("unfinished");
    // The next run is not hindered by what was.
    real.home.says(&[&RUN[..], &["--set", "measure.length=1s"]].concat()).measured();
}

fn limit_in(path: &str) -> String {
    fs::read_to_string(path).unwrap().trim().to_owned()
}

/// The settings that a journal holds: their files, with the values found.
fn held_in(journal: &[u8]) -> Vec<(String, String)> {
    let journal: Value = serde_json::from_slice(journal).unwrap();
    let held = journal["held"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().trim().to_owned();
    held.map(|held| (text(&held["setting"]["path"]), text(&held["found"]))).collect()
}

#[test]
fn guests_copy_memory_beside_each_other_and_every_copy_is_right() {
    let Some(real) = Real::new() else { return };
    let run = "run memory --on native --offline --not-alone --tiles 2 --json --set measure.repeats=1 \
               --set measure.warmup=1s --set measure.length=2s";
    // Beside other work it is at most "cannot tell".
    let said = real.home.says(&words(run)).ended(5);
    let record = real.record(&said.result().run);
    let summary = record.repeats().unwrap()[0].summary().unwrap();
    let load = &summary.loads[0];
    let guests: Vec<_> = load.guests.iter().map(|guest| (guest.name.as_str(), guest.completed > 0)).collect();
    assert_eq!(guests, [("tile-001-memory", true), ("tile-002-memory", true)], "{load:?}");
    assert_eq!((load.failed, load.wrong), (0, 0), "{:?}", load.errors);
    real.all_gone(&BTreeSet::new(), &[]);
}

#[test]
fn idle_guests_are_watched_and_counted_as_a_density() {
    let Some(real) = Real::new() else { return };
    let run = ["run", "density", "--on", "native", "--tiles", "3", "--offline", "--not-alone", "--json"];
    let result = real.home.says(&[&run[..], &["--set", "measure.length=2s"]].concat()).result();
    let point = &result.points[0];
    assert_eq!(point.guests, 3);
    // The machine may be busy with something else; that it was not monitored must not be the reason.
    let reasons: Vec<&str> = point.repeats_voided.iter().map(|voided| voided.reason.as_str()).collect();
    assert!(reasons.iter().all(|reason| !reason.contains("monitored")), "{reasons:?}");
    let record = real.record(&result.run);
    let repeats = record.repeats().unwrap();
    let summary = repeats[0].summary().unwrap();
    assert_eq!((summary.host.seconds, repeats[0].telemetry().unwrap().len()), (2, 2));
    assert!(summary.ready_s.unwrap() > 0.0 && summary.memory.unwrap().pss_mib_per_guest > 1.0);
    if reasons.is_empty() {
        assert!(result.sentence.starts_with("3 idle twins were ready in "), "{}", result.sentence);
    }
}

#[test]
fn a_killed_keeper_takes_the_run_with_it_and_recover_the_rest() {
    let Some(real) = Real::new() else { return };
    let (mut running, under_way) = real.begin(&[&RUN[..], &["--set", "measure.length=60s"]].concat());
    running.until("nginx", |real| {
        let all = Process::descendants(i32::try_from(keeper_of(real)?.keeper?).ok()?);
        all.iter().any(|process| process.name.starts_with("nginx")).then_some(())
    });
    let processes = Process::descendants(running.child.id() as i32);
    // Processors of the load, with how long they might take to wake before: none where the host does not report it.
    let journal = under_way.folder.join("settings.json");
    let held = held_in(&fs::read(&journal).unwrap_or_else(|_| b"{\"held\":[]}".to_vec()));
    // A run of another test, in another home, restores them when it ends.
    let is_held = |(path, found): &(String, String)| limit_in(path) == "n/a" || limit_in(path) == *found;
    assert!(held.iter().all(is_held), "{held:?}");
    // Somebody else's, called like ours: only what carries the run's identity may be touched.
    let decoy = real.home.path().join("tilemark-engine");
    fs::copy("/bin/sleep", &decoy).unwrap();
    let mut decoy = std::process::Command::new(&decoy).arg("60").spawn().unwrap();
    let alive = real.home.says(&["recover", "--json"]).json();
    let of_runs = |said: &Value| (said["removed"].clone(), said["under_way"].clone());
    let (none, it) = (serde_json::json!([]), serde_json::json!([under_way.id]));
    assert_eq!(of_runs(&alive), (none.clone(), it.clone()), "nobody's run is removed");
    kill_process(Pid::from_raw(under_way.keeper.unwrap() as i32).unwrap(), Signal::KILL).unwrap();
    let said = running.said().ended(6);
    let error = &said.json()["error"];
    let keeper = format!("the keeper of {} was killed by signal 9", under_way.id);
    assert!(error["message"].as_str().unwrap().starts_with(&keeper), "{said:?}");
    assert!(error["remedy"].as_str().unwrap().contains("tilemark recover"), "{said:?}");
    soon("the end of all processes", || (!processes.iter().any(Process::lives)).then_some(()));
    assert!(under_way.folder.exists());
    let recovered = real.home.says(&["recover", "--json"]).ended(0);
    assert_eq!(of_runs(&recovered.json()), (it, none));
    real.all_gone(&processes, under_way.cgroup.as_slice());
    // Another run may keep them awake at this moment.
    let until = Instant::now() + TIMEOUT;
    while !held.iter().all(|(path, found)| limit_in(path) == *found) {
        assert!(Instant::now() < until, "not restored: {held:?}");
        thread::sleep(Duration::from_millis(5));
    }
    let again = real.home.says(&["recover"]);
    assert_eq!(again.out, "Nothing was left behind.\n");
    let decoy_ended = decoy.try_wait().unwrap();
    decoy.kill().unwrap();
    decoy.wait().unwrap();
    assert_eq!(decoy_ended, None, "a process that only has our name was ended");
}

#[test]
fn a_run_that_fails_late_keeps_its_whole_repeats_in_a_closed_record() {
    let Some(real) = Real::new() else { return };
    let settings = ["--set", "measure.repeats=3", "--set", "measure.length=2s", "--not-alone"];
    let (mut running, under_way) = real.begin(&[&RUN[..], &settings].concat());
    let record = real.home.path().join("runs").join(&under_way.id);
    let command = running.child.id() as i32;
    let load = running.until("the load of the second repeat", |_| {
        let events = fs::read_to_string(record.join("events.ndjson")).unwrap_or_default();
        let is_second = events.contains("pass-ended");
        let is_load = |process: &Process| words_of(process).starts_with(b"tilemark-load\0");
        Process::descendants(command).into_iter().find(is_load).filter(|_| is_second)
    });
    kill_process(Pid::from_raw(load.pid).unwrap(), Signal::KILL).unwrap();
    let result = running.said().ended(3).result();
    let reason = "it ended before its plan was done: the load process cannot be used";
    assert!(result.verdict.reasons.iter().any(|had| had.starts_with(reason)), "{:?}", result.verdict);
    let record = RunDirectory::at(&record);
    record.verify().unwrap();
    assert!((1..3).contains(&record.repeats().unwrap().len()));
    assert!(record.path().join("report.html").exists());
}

#[test]
fn a_killed_engine_is_named_and_leaves_nothing() {
    let Some(real) = Real::new() else { return };
    let (mut running, under_way) = real.begin(&[&RUN[..], &["--set", "measure.length=60s"]].concat());
    let engine = running.until("an engine", |real| {
        let all = Process::descendants(i32::try_from(keeper_of(real)?.keeper?).ok()?);
        all.into_iter().find(|process| {
            fs::read_to_string(format!("/proc/{}/cmdline", process.pid))
                .is_ok_and(|line| line.starts_with("tilemark-engine\0"))
        })
    });
    let processes = Process::descendants(running.child.id() as i32);
    kill_process(Pid::from_raw(engine.pid).unwrap(), Signal::KILL).unwrap();
    let said = running.said().ended(3);
    let wanted = format!("the engine of {} was killed by signal 9", under_way.id);
    assert!(said.message().starts_with(&wanted), "{said:?}");
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

/// Bytes that came to the host's end of the run network, in the namespace of this process.
fn received(process: &Process) -> Option<u64> {
    let devices = fs::read_to_string(format!("/proc/{}/net/dev", process.pid)).ok()?;
    let line = devices.lines().find_map(|line| line.trim().strip_prefix("tilemark0:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Waits until a run's guest is under load, and ends what begins so among its processes.
fn end_under_load(real: &Real, running: &mut Running<'_>, words: &[u8]) -> BTreeSet<Process> {
    running.until("load", |real| {
        let record = fs::read_dir(real.home.path().join("runs")).ok()?.flatten().next()?.path();
        let events = fs::read_to_string(record.join("events.ndjson")).ok()?;
        events.contains("guests-ready").then_some(())
    });
    running.until("answers to the load", |real| {
        let processes = kept(real);
        let load = processes.iter().find(|process| words_of(process).starts_with(b"tilemark-load\0"))?;
        // Readiness takes a few frames; a load that has begun gets files of up to 256 KiB.
        (received(load)? > 1 << 20).then_some(())
    });
    let processes = kept(real);
    let ended: Vec<_> = processes.iter().filter(|process| words_of(process).starts_with(words)).collect();
    assert!(!ended.is_empty(), "{processes:#?}");
    for process in ended {
        kill_process(Pid::from_raw(process.pid).unwrap(), Signal::KILL).unwrap();
    }
    processes
}

#[test]
fn a_twin_or_a_service_that_is_killed_in_a_run_ends_it_with_4_and_the_guests_name_and_console() {
    let Some(real) = Real::new() else { return };
    for (words, how) in [
        (&b"tilemark-agent\0twin"[..], "its first process ended with code 137"),
        (&b"nginx: master"[..], "its service ended during the measurement"),
    ] {
        let (mut running, under_way) =
            real.begin(&[&RUN[..], &["--set", "measure.length=8s", "--not-alone"]].concat());
        let processes = end_under_load(&real, &mut running, words);
        let said = running.said().ended(4);
        // The figures up to then, and the reason, are in the record: the one document is the result.
        let result = said.result();
        assert_eq!(result.run, under_way.id);
        let error = &said.error[said.error.find("error: ").unwrap()..];
        assert!(error.starts_with("error: guest `tile-001-web` failed in repeat 1: "), "{error}");
        assert!(error.contains(how) && error.contains("its console "), "{error}");
        let console = error.split("  to fix: read ").nth(1).unwrap().split(", ").next().unwrap();
        assert!(fs::metadata(console).is_ok(), "{console} is not there: {error}");
        real.record(&result.run);
        real.all_gone(&processes, under_way.cgroup.as_slice());
        fs::remove_dir_all(real.home.path().join("runs")).unwrap();
    }
}

/// Programs that use all processors of the host, under a name of their own, until the test ends.
struct Loud(Vec<std::process::Child>);

impl Loud {
    fn start(home: &Home) -> Self {
        let program = home.path().join("loud-loop");
        fs::copy("/bin/sh", &program).unwrap();
        let threads = thread::available_parallelism().unwrap().get();
        let one = || {
            let mut command = std::process::Command::new(&program);
            command.args(["-c", "while :; do :; done"]).spawn().unwrap()
        };
        Self((0..threads).map(|_| one()).collect())
    }
}

impl Drop for Loud {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn who_is_loud_is_said_before_the_run_when_a_repeat_is_discarded_and_in_the_record() {
    let Some(real) = Real::new() else { return };
    let _loud = Loud::start(&real.home);
    let error = real.home.says(&[&RUN[..], &["--wait-quiet", "1s"]].concat()).ended(3).message();
    assert!(error.contains("the host was not quiet within 1s: ") && error.contains("loud-loop"), "{error}");
    let runs = fs::read_dir(real.home.path().join("runs")).into_iter().flatten().count();
    assert_eq!(runs, 0, "nothing was begun");

    let said = real.home.says(&[&RUN[..], &["--set", "measure.length=4s", "--not-alone"]].concat());
    let lines = |start: &str| said.error.lines().find(|line| line.starts_with(start)).map(str::to_owned);
    let before = lines("this host is busy: ").unwrap_or_else(|| panic!("{said:?}"));
    assert!(before.contains("loud-loop"), "{before}");
    let discarded = lines("repeat 1 at 1 tile is discarded: ").unwrap_or_else(|| panic!("{said:?}"));
    assert!(discarded.contains("other programs used") && discarded.contains("loud-loop"), "{discarded}");
    let result = said.result();
    let record = real.record(&result.run);
    let others = &record.summaries().unwrap()[0].host.others;
    assert!(others.iter().any(|found| found.program == "loud-loop" && found.fraction > 0.05), "{others:?}");
    // None of ours, whatever else runs here.
    assert!(others.iter().all(|found| !found.program.starts_with("tilemark-agent")), "{others:?}");
}

/// A shell passes the signal on that it got itself, so a closed terminal is two of them.
#[test]
fn a_closed_terminal_does_not_end_a_run() {
    let Some(real) = Real::new() else { return };
    let mut running = real.start(&[&RUN[..], &["--set", "measure.length=3s", "--not-alone"]].concat());
    running.until("a keeper", keeper_of);
    running.signal(Signal::HUP);
    running.signal(Signal::HUP);
    let said = running.said().measured();
    let result = said.result();
    assert!(result.points[0].repeats_kept + result.points[0].repeats_voided.len() as u32 >= 1, "{said:?}");
    real.record(&result.run);
}

/// The guests' keeper, and all that came of it.
fn kept(real: &Real) -> BTreeSet<Process> {
    let keeper = keeper_of(real).and_then(|under_way| i32::try_from(under_way.keeper?).ok());
    keeper.map(Process::descendants).unwrap_or_default()
}

fn words_of(process: &Process) -> Vec<u8> {
    fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default()
}

/// Waits for something that comes without further ado.
#[track_caller]
fn soon<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Guests stay, so a test that fails must end them.
struct Down<'a>(&'a Home);

impl Drop for Down<'_> {
    fn drop(&mut self) {
        // Where all went well there are none.
        let _ = self.0.command(&["guests", "down"]).output();
    }
}

#[test]
fn a_script_s_lock_and_pipe_are_not_held_by_its_guests() {
    let Some(real) = Real::new() else { return };
    let _down = Down(&real.home);
    let script = "exec 9>lock && flock 9 && mkfifo pipe && exec 7<>pipe 8>pipe 7>&- && \
        \"$0\" guests up 1 --on native --offline >up.txt 2>&1 && exec 8>&- 9>&- && flock --nonblock lock true";
    let folder = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_tilemark")])
        .current_dir(folder.path())
        .env("TILEMARK_HOME", real.home.path())
        .stdin(Stdio::null())
        .status();
    let said = std::fs::read_to_string(folder.path().join("up.txt")).unwrap_or_default();
    assert!(status.unwrap().success(), "the lock is still held, or: {said}");
    let holds_pipe = |process: &Process| {
        let open = std::fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten();
        open.filter_map(|open| std::fs::read_link(open.path()).ok()).any(|path| path.ends_with("pipe"))
    };
    let kept = kept(&real);
    assert!(kept.len() >= 3, "a keeper, an engine, a twin: {kept:?}");
    assert_eq!(kept.iter().filter(|process| holds_pipe(process)).count(), 0);
}

#[test]
fn guests_stay_after_the_command_answer_all_others_and_go_when_asked() {
    let Some(real) = Real::new() else { return };
    let _down = Down(&real.home);
    let (mut up, under_way) = real.begin(&["guests", "up", "2", "--on", "native", "--offline", "--json"]);
    let list = || real.home.says(&["guests", "list", "--json"]).json()["guests"].clone();
    let early = list();
    assert_eq!((&early[0]["id"], &early[0]["starting"]), (&"guests-1".into(), &true.into()), "{early}");
    let ready = up.said().ended(0).json();
    assert_eq!((&ready["id"], &ready["ready"]), (&"guests-1".into(), &2.into()), "{ready}");
    for key in ["p50", "p99", "max"] {
        assert!(ready["seconds_to_ready"][key].as_f64().unwrap() > 0.0, "{ready}");
    }
    assert!(ready["pss_mib_per_guest"].as_f64().unwrap() > 0.0, "{ready}");
    let guests = ready["guests"].as_array().unwrap();
    for key in ["name", "mac", "address", "machine_id", "random_hex"] {
        let values: BTreeSet<&str> = guests.iter().map(|guest| guest[key].as_str().unwrap()).collect();
        assert_eq!(values.len(), 2, "each has a {key} of its own: {ready}");
    }
    assert!(guests.iter().all(|guest| guest["random_hex"].as_str().unwrap().len() == 32), "{ready}");
    assert_eq!(list(), Value::from(vec![ready.clone()]));
    for guest in guests {
        let status = fs::read_to_string(format!("/proc/{}/status", guest["pid"])).unwrap();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
        assert!(numbers.ends_with("\t1"), "the first process of a twin by the host's number: {numbers}");
        assert!(fs::metadata(guest["console"].as_str().unwrap()).is_ok(), "{guest}");
    }

    let name = |place: usize| guests[place]["name"].as_str().unwrap();
    let says = |arguments: &[&str]| real.home.says(&[&["guests"], arguments].concat());
    let read = says(&["exec", name(1), "--", "cat", "/etc/machine-id"]);
    assert_eq!(Value::from(read.out.trim()), guests[1]["machine_id"], "{read:?}");
    assert_eq!(says(&["exec", name(0), "--", "sh", "-c", "exit 3"]).code, Some(3));
    says(&["exec", name(0), "--", "/nowhere/program"]).ended(127);
    assert_eq!(says(&["exec", "tile-009-idle", "true"]).code, Some(2));

    // A program that goes on and on holds up neither those who ask something else nor the end.
    let mut client = hears_ctrl_c();
    client.args(["guests", "exec", name(0), "--", "sleep", "1000"]);
    client.env("TILEMARK_HOME", real.home.path()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut client = client.spawn().unwrap();
    let sleeps = |process: &Process| words_of(process).starts_with(b"sleep\x001000");
    soon("the program", || kept(&real).iter().any(sleeps).then_some(()));
    assert_eq!(list()[0]["ready"], 2);
    assert_eq!(says(&["console", name(0)]).code, Some(0));
    assert_eq!(says(&["exec", name(1), "true"]).code, Some(0));
    let busy = says(&["exec", name(0), "true"]);
    assert!(busy.code == Some(3) && busy.error.contains("runs another program"), "{busy:?}");
    kill_process(Pid::from_raw(client.id() as i32).unwrap(), Signal::INT).unwrap();
    let ended = soon("its end by Ctrl-C", || client.try_wait().unwrap());
    assert_eq!(ended.signal(), Some(Signal::INT.as_raw()), "{ended:?}");
    // Nobody waits for the program: it ends, and the guest is free for the next one.
    says(&["exec", name(0), "true"]).ended(0);
    assert!(!kept(&real).iter().any(sleeps), "it runs on");
    assert_eq!(list()[0]["ready"], 2);

    // One that has ended is not shown as ready.
    let processes = kept(&real);
    let twin = processes.iter().find(|process| words_of(process).starts_with(b"tilemark-agent\0twin"));
    kill_process(Pid::from_raw(twin.unwrap().pid).unwrap(), Signal::KILL).unwrap();
    let now = soon("its end", || Some(list()[0].clone()).filter(|now| now["ready"] == 1));
    let ended = now["guests"].as_array().unwrap().iter().filter(|guest| guest["ended"].is_string());
    assert_eq!(ended.count(), 1, "{now}");
    let down = says(&["down", "--json"]);
    assert_eq!(down.json(), serde_json::json!({ "ended": ["guests-1"] }), "{down:?}");
    real.all_gone(&processes, under_way.cgroup.as_slice());
    assert_eq!(list(), serde_json::json!([]));
}

#[test]
fn guests_of_two_homes_that_bear_the_same_name_end_apart() {
    let Some(real) = Real::new() else { return };
    let other = Home::new();
    std::os::unix::fs::symlink(real.home.path().join("cache"), other.path().join("cache")).unwrap();
    let _down = (Down(&real.home), Down(&other));
    let up = ["guests", "up", "1", "--on", "native", "--offline", "--no-memory", "--json"];
    for home in [&real.home, &other] {
        assert_eq!(home.says(&up).json()["id"], "guests-1");
    }
    let (under_way, processes) = (keeper_of(&real).unwrap(), kept(&real));
    assert_eq!(real.home.says(&["guests", "down"]).code, Some(0));
    other.says(&["guests", "exec", "tile-001-idle", "true"]).ended(0);
    assert_eq!(other.says(&["guests", "down"]).code, Some(0));
    // The other's image was the same file, on a loop device of its own.
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

#[test]
fn guests_that_are_being_started_can_be_ended_by_another_command() {
    let Some(real) = Real::new() else { return };
    let _down = Down(&real.home);
    let (mut up, under_way) = real.begin(&["guests", "up", "1", "--on", "native", "--offline", "--json"]);
    let down = real.home.says(&["guests", "down", "guests-1", "--json"]);
    assert_eq!(down.json(), serde_json::json!({ "ended": ["guests-1"] }), "{down:?}");
    let said = up.said().ended(5);
    let error = &said.json()["error"];
    assert_eq!(error["code"], "interrupted");
    assert!(error["message"].as_str().unwrap().starts_with("`tilemark guests down` ended"), "{said:?}");
    real.all_gone(&BTreeSet::new(), under_way.cgroup.as_slice());
}

#[test]
fn two_sides_are_compared_and_too_few_repeats_give_no_verdict() {
    let Some(real) = Real::new() else { return };
    // Tests beside it would end it after six disturbed repeats: therefore `--not-alone`.
    let ab = "ab web --on native --offline --a load.web.rate=300/s --b measure.start=boot --set measure.repeats=2 \
              --set measure.warmup=500ms --set measure.length=1s --not-alone --exit-verdict --json";
    let said = real.home.says(&words(ab)).ended(125);
    assert!(said.error.contains("no difference can be shown by this run"), "{said:?}");
    let result = said.result();
    let comparison = result.comparison.as_ref().unwrap();
    assert_eq!(comparison.outcome, ComparisonOutcome::CannotTell);
    for measure in ["web p50", "web p99", "web throughput", "processor time per answer"] {
        let name = format!("{measure} at 1 tile");
        let is_there = comparison.measures.iter().any(|measure| measure.name == name);
        let why_not = result.missing.contains_key(&format!("comparison.{name}"));
        assert!(is_there || why_not, "no word of {name}: {comparison:?} {:?}", result.missing);
    }
    let record = real.record(&result.run);
    let plan = record.plan().unwrap();
    let repeats = record.repeats().unwrap().len();
    assert_eq!(plan.points.len(), 2);
    assert!([4, 6, 8].contains(&repeats), "two pairs, and again those that other work voided: {repeats}");
    // Each pair of passes has one of each side.
    for block in plan.passes.chunks(2) {
        assert_ne!(plan.points[block[0].point].side, plan.points[block[1].point].side);
    }
    real.all_gone(&BTreeSet::new(), &[]);
}

#[test]
fn a_run_keeps_its_time_by_leaving_out_whole_repeats() {
    let Some(real) = Real::new() else { return };
    let settings = ["--set", "measure.length=1s", "--set", "measure.repeats=50", "--within"];
    for (within, why) in [("soon", "`soon` is not a length of time"), ("50ms", "before one whole repeat")] {
        let refused = real.home.says(&[&RUN[..], &settings, &[within]].concat()).ended(2);
        assert!(refused.message().contains(why), "{refused:?}");
    }
    // Six discarded repeats in a row would end it on a busy machine.
    let said = real.home.says(&[&RUN[..], &["--not-alone"], &settings, &["15s"]].concat());
    let result = said.result();
    assert!(said.error.contains("for all 50 repeats (15s is enough for about"), "{said:?}");
    assert!(said.error.contains("whole repeats: too little time was left"), "{said:?}");
    let record = real.record(&result.run);
    let repeats = record.repeats().unwrap().len();
    assert!((1..50).contains(&repeats), "{repeats} repeats");
    real.all_gone(&BTreeSet::new(), &[]);
}

/// In each tile a web server that another guest asks.
const FROM_A_GUEST: &str = r#"
schema = 1
name = "from-a-guest"
about = "A web server that another guest of its tile asks."
guest = [
    { name = "web", role = "web" },
    { name = "client", role = "client" },
]
load = [{ name = "inside", guest = "web", from = "client", rate = "50/s", web = {} }]
ladder.tiles = [2]
measure = { warmup = "1s", length = "2s", repeats = 1 }
"#;

#[test]
fn a_guest_sends_a_load_to_another_one_of_its_tile() {
    let Some(real) = Real::new() else { return };
    let file = real.home.file("from-a-guest.toml", FROM_A_GUEST);
    let run = ["run", file.to_str().unwrap(), "--on", "native", "--offline", "--not-alone", "--json"];
    let (mut running, under_way) = real.begin(&run);
    running.said().ended(5);
    let record = real.record(&under_way.id);
    let summary = record.repeats().unwrap()[0].summary().unwrap();
    let load = &summary.loads[0];
    assert_eq!((load.failed, load.wrong), (0, 0), "{:?}", load.errors);
    let guests: Vec<_> =
        load.guests.iter().map(|guest| (guest.name.as_str(), guest.completed > 50)).collect();
    assert_eq!(guests, [("tile-001-web", true), ("tile-002-web", true)], "{load:?}");
    assert_eq!(load.measured, Measured::Inside);
    assert!(load.sender_busy.max_fraction > 0.0, "each client reports how busy it is: {load:?}");
    assert!(load.send_lateness_us.p50.is_some(), "{load:?}");
    assert!(summary.incidents.is_empty(), "{:?}", summary.incidents);
}

/// In each tile two users who do the jobs of a file server on the disk of their guest.
const FILES: &str = r#"
schema = 1
name = "files"
about = "Users who work with files on a disk."
guest = [{ name = "files", role = "compute", disk = [{ size = "64MiB" }] }]
load = [{ name = "files", guest = "files", loop = "closed", jobs = { mix = "files", users = 2, file = "1MiB" } }]
ladder.tiles = [2]
measure = { warmup = "1s", length = "8s", repeats = 1 }
"#;

/// The disk of a guest's files as a process of its twin sees it, once a user's folder is on it.
fn mounted_with_files(process: &Process) -> Option<String> {
    let root = format!("/proc/{}/root/srv/tilemark/data", process.pid);
    let mut names = fs::read_dir(root).ok()?.flatten().map(|file| file.file_name());
    names.find(|name| name.to_string_lossy().starts_with("tilemark-jobs-"))?;
    let mounts = fs::read_to_string(format!("/proc/{}/mounts", process.pid)).ok()?;
    mounts.lines().find(|line| line.contains(" /srv/tilemark/data ")).map(str::to_owned)
}

#[test]
fn jobs_of_a_file_server_have_their_files_on_the_disk_of_their_guest() {
    let Some(real) = Real::new() else { return };
    let file = real.home.file("files.toml", FILES);
    let run = ["run", file.to_str().unwrap(), "--on", "native", "--offline", "--not-alone", "--json"];
    let (mut running, under_way) = real.begin(&run);
    let mount = running.until("files on a disk", |real| kept(real).iter().find_map(mounted_with_files));
    assert!(mount.starts_with("/dev/vdb ") && mount.contains(" ext4 "), "{mount}");
    running.said().ended(5);
    let record = real.record(&under_way.id);
    let summary = record.repeats().unwrap()[0].summary().unwrap();
    assert!(summary.incidents.is_empty(), "{:?}", summary.incidents);
    let load = &summary.loads[0];
    assert_eq!((load.failed, load.wrong), (0, 0), "{:?}", load.errors);
    let guests: Vec<&str> = load.jobs.iter().map(|jobs| jobs.guest.as_str()).collect();
    assert_eq!(guests, ["tile-001-files", "tile-002-files"]);
    let in_time = load.completed_in_time.unwrap() as f64;
    let a_minute: f64 = load.jobs.iter().filter_map(|jobs| jobs.jobs_per_minute).sum();
    assert!((a_minute / (in_time * 60.0 / load.seconds) - 1.0).abs() < 1e-6, "{a_minute} and {in_time}");
    for jobs in &load.jobs {
        let of_kinds: u64 = jobs.kinds.values().map(|kind| kind.count).sum();
        assert!(jobs.users == 2 && of_kinds > 10 && jobs.kinds.len() > 5, "{jobs:?}");
        assert!(jobs.kinds.values().all(|kind| kind.not_right == 0), "{jobs:?}");
    }
    real.all_gone(&BTreeSet::new(), &[]);
}
