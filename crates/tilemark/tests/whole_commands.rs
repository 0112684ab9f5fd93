//! The commands that measure, each as a whole: what it asks, finds and writes, and that nothing is left of it. No figure
//! is judged here: the machine may be busy.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Said,
    real::{ActiveJob, Process, Real, Running, TIMEOUT},
    words,
};
use rustix::process::Signal;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, thread,
    time::{Duration, Instant},
};
use tilemark_record::{
    RunDirectory,
    result::{PointResult, RunResult},
};

/// The limit of a processor that a run keeps awake.
const KEPT_AWAKE: &str = "n/a\n";

/// How long each processor may take to wake, where the host says so: what a run changes of the host, and restores.
fn wake_limits() -> BTreeMap<String, String> {
    let processors = fs::read_dir("/sys/devices/system/cpu").unwrap().flatten();
    let limit = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("power/pm_qos_resume_latency_us")).ok()?;
        Some((entry.file_name().into_string().ok()?, text))
    };
    processors.filter_map(limit).collect()
}

/// Waits until every processor has its limit from before, as other runs may change them meanwhile: those that another run
/// kept awake at that time have no limit to compare.
#[track_caller]
fn wake_limits_are_restored(before: &BTreeMap<String, String>) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let now = wake_limits();
        let changed: Vec<_> = before
            .iter()
            .filter(|(processor, limit)| *limit != KEPT_AWAKE && now.get(*processor) != Some(limit))
            .collect();
        if changed.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "not restored: {changed:?}, now {now:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A command under way, with what has to be gone and restored after it.
struct Whole<'a> {
    real: &'a Real,
    running: Running<'a>,
    under_way: ActiveJob,
    limits: BTreeMap<String, String>,
}

impl<'a> Whole<'a> {
    fn start(real: &'a Real, arguments: &[&str]) -> Self {
        let limits = wake_limits();
        let (running, under_way) = real.begin(arguments);
        Self { real, running, under_way, limits }
    }

    /// Waits for its end, and looks that its guests are gone, its host is restored and its record is whole.
    #[track_caller]
    fn ends(mut self) -> (Said, RunResult, RunDirectory) {
        // All that ever came of it, however long it takes.
        let mut processes = BTreeSet::new();
        while self.running.child.try_wait().unwrap().is_none() {
            processes.extend(Process::descendants(self.running.child.id() as i32));
            thread::sleep(Duration::from_millis(100));
        }
        let said = self.running.said();
        let Self { real, under_way, limits, .. } = &self;
        // Trusted, or not: that is the machine's business.
        assert!(matches!(said.code, Some(0 | 5)), "{said:?}");
        real.all_gone(&processes, under_way.cgroup.as_slice());
        wake_limits_are_restored(limits);
        let result = said.result();
        assert_eq!((result.run.as_str(), result.provenance.as_it_was), (&*under_way.id, Some(true)));
        let record = real.record(&under_way.id);
        assert_eq!(record.result().unwrap(), result, "the record holds what was printed");
        assert!(!result.sentence.is_empty());
        result.points.iter().for_each(|point| every_figure_or_its_reason_is_there(&result, point));
        let repeats: usize = result.points.iter().map(repeats_of).sum();
        assert_eq!(record.repeats().unwrap().len(), repeats, "each repeat is kept or voided");
        (said, result, record)
    }
}

/// What happened up to now in the one run of a home.
fn events(real: &Real) -> String {
    let runs = fs::read_dir(real.home.path().join("runs")).into_iter().flatten().flatten();
    runs.filter_map(|run| fs::read_to_string(run.path().join("events.ndjson")).ok()).collect()
}

fn repeats_of(point: &PointResult) -> usize {
    point.repeats_kept as usize + point.repeats_voided.len()
}

/// Each figure of a point is there, or why it is not.
#[track_caller]
fn every_figure_or_its_reason_is_there(result: &RunResult, point: &PointResult) {
    let has_reason = |figure: &str| {
        let place = format!("points.{}.", point.index);
        result.missing.keys().any(|key| key.starts_with(&place) && key.contains(figure))
    };
    if point.repeats_kept > 0 {
        assert!(point.throughput.is_some(), "{point:?}");
        assert!(point.latency_ms.is_some_and(|latency| latency.n > 0), "{point:?}");
        assert!(point.ready_s.is_some() && point.seconds_to_ready.is_some(), "{point:?}");
        assert!(point.p99_ms.is_some() || has_reason("p99_ms"), "{point:?} {:?}", result.missing);
    } else {
        assert!(point.throughput.is_none() && has_reason("throughput"), "{point:?} {:?}", result.missing);
    }
    assert!(point.holds.is_some() || has_reason("holds"), "{point:?} {:?}", result.missing);
}

/// Something that holds, something that breaks, or why neither is known.
#[track_caller]
fn is_answered(result: &RunResult) {
    let answer = &result.answer;
    let counts: Vec<u32> = result.points.iter().map(|point| point.tiles).collect();
    match (answer.holds, &answer.breaks) {
        (None, None) => assert!(answer.none_because.is_some(), "{answer:?}"),
        (holds, breaks) => {
            let named = holds.into_iter().chain(breaks.as_ref().map(|broke| broke.tiles));
            assert!(named.into_iter().all(|tiles| counts.contains(&tiles)), "{answer:?} {counts:?}");
        }
    }
}

/// The first look takes minutes: one repeat of it is waited for, and then it is interrupted.
#[test]
fn quick_measures_the_first_look_and_ends_whole_when_interrupted() {
    let Some(real) = Real::new() else { return };
    let mut quick = Whole::start(&real, &["quick", "--offline", "--json"]);
    quick.running.until("a repeat", |real| events(real).contains("pass-ended").then_some(()));
    quick.running.signal(Signal::INT);
    let (said, result, record) = quick.ends();
    assert_eq!(said.code, Some(5), "one repeat is no answer: {said:?}");
    assert_eq!((result.scenario.as_str(), result.preset.as_deref()), ("first-look", Some("quick")));
    let first = &result.points[0];
    assert_eq!((first.tiles, first.guests), (2, 8));
    assert!(repeats_of(first) >= 1, "{first:?}");
    match first.backend.name() {
        "native" => {
            assert!(said.error.contains("No capacity answer for guests on this host"), "{said:?}");
            let shown = &result.points[1];
            assert_eq!((shown.backend.name(), shown.tiles, repeats_of(shown)), ("emulated", 1, 0));
        }
        other => assert_eq!(other, "kvm"),
    }
    is_answered(&result);
    let plan = record.plan().unwrap();
    assert!(plan.search.is_some_and(|search| search.within.is_some()), "it says its time and keeps it");
    let of_first = record.repeats().unwrap()[0].summary().unwrap();
    let loads: Vec<&str> = of_first.loads.iter().map(|load| load.name.as_str()).collect();
    assert_eq!(loads, ["web-steady", "web-bursts", "disk-steady"]);
}

#[test]
fn capacity_searches_up_to_its_limit_and_answers() {
    let Some(real) = Real::new() else { return };
    let capacity = "capacity web --on native --offline --json --within 10m --set load.web.rate=3000/s \
                    --set measure.warmup=200ms --set measure.length=1s --set measure.repeats=2 \
                    --set ladder.search_limit=2";
    let (_, result, record) = Whole::start(&real, &words(capacity)).ends();
    assert!(record.plan().unwrap().search.is_some_and(|search| (search.from, search.limit) == (1, 2)));
    let first = &result.points[0];
    assert_eq!((first.tiles, first.backend.name()), (1, "native"));
    assert!(repeats_of(first) >= 1, "{first:?}");
    assert!(result.points.iter().all(|point| point.tiles <= 2), "{result:?}");
    is_answered(&result);
}

#[test]
fn a_run_with_its_twin_measures_both_in_the_same_blocks() {
    let Some(real) = Real::new() else { return };
    let run = "run web --on emulated --twin --tiles 1 --offline --json --set load.web.rate=50/s \
               --set measure.warmup=500ms --set measure.length=1s --set measure.repeats=1";
    let (_, result, record) = Whole::start(&real, &words(run)).ends();
    let points: Vec<(&str, u32)> =
        result.points.iter().map(|point| (point.backend.name(), point.tiles)).collect();
    assert_eq!(points, [("emulated", 1), ("native", 1)]);
    assert!(result.points.iter().all(|point| repeats_of(point) >= 1), "{result:?}");
    let plan = record.plan().unwrap();
    let passes: Vec<u32> = plan.passes.iter().map(|pass| pass.block).collect();
    assert_eq!(passes, [1, 1], "guests and twin in one block");
    // An emulator proves function: what it costs is no cost of virtualization.
    assert!(result.cost.is_none() && result.missing.contains_key("cost"), "{result:?}");
    let page = fs::read_to_string(record.path().join("report.html")).unwrap();
    assert!(page.contains("EMULATED"), "what is emulated is marked");
}

#[test]
fn a_record_is_continued_and_is_as_before_where_that_is_killed() {
    let Some(real) = Real::new() else { return };
    let first = words(
        "run web --on native --tiles 1 --offline --not-alone --json --set load.web.rate=50/s \
         --set measure.warmup=200ms --set measure.length=1s --set measure.repeats=1",
    );
    let (_, result, record) = Whole::start(&real, &first).ends();
    let repeats = repeats_of(&result.points[0]);
    let more = [&first[..], &["--more"]].concat();
    let mut killed = Whole::start(&real, &more);
    killed.running.until("a load", |real| events(real).matches("pass-began").nth(repeats).map(drop));
    // The keeper too: until it is gone, the run is under way.
    let processes = Process::descendants(killed.running.child.id() as i32);
    killed.running.signal(Signal::KILL);
    killed.running.child.wait().unwrap();
    real.all_gone(&processes, killed.under_way.cgroup.as_slice());
    assert!(record.verify().is_err(), "nothing was killed while it measured");
    let said = real.home.says(&["recover", "--json"]);
    assert_eq!(said.json()["records"], serde_json::json!([result.run]), "{said:?}");
    record.verify().unwrap();
    assert_eq!(record.result().unwrap(), result, "it is as before");
    assert_eq!(record.repeats().unwrap().len(), repeats);
    let (_, continued, record) = Whole::start(&real, &more).ends();
    assert_eq!((&continued.run, continued.provenance.sessions), (&result.run, 2));
    assert!(record.repeats().unwrap().len() > repeats);
}
