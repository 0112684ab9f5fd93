//! Guests and their load in their places, in whole runs: what the plan says is read back from the kernel under load.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Home,
    real::{Process, Real, keeper_of, last_processor},
    words,
};
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use std::{collections::BTreeSet, fs};
use tilemark_plan::plan::SideName;
use tilemark_record::{placement::PlaceFigures, result::RunResult, summary::RepeatSummary};
use tilemark_units::ranges;

/// One tile of the web, natively, for so many seconds.
fn run<'a>(length: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let run = "run web --on native --offline --not-alone --json --tiles 1 --set measure.repeats=1 \
               --set measure.warmup=1s --set";
    [&words(run)[..], &[length], more].concat()
}

fn first_repeat(real: &Real, id: &str) -> RepeatSummary {
    real.record(id).repeats().unwrap()[0].summary().unwrap()
}

fn notes_of(result: &RunResult) -> String {
    result.points[0].notes.join("; ")
}

#[test]
fn a_twin_and_its_load_stay_where_the_plan_puts_them_and_the_record_has_every_thread() {
    let Some(real) = Real::new() else { return };
    let last = last_processor();
    let place = format!("place.map.*-web=cpus:{last}");
    let result = real.start(&run("measure.length=2s", &["--set", &place])).said().result();
    let summary = first_repeat(&real, &result.run);
    let PlaceFigures { guests, load, interrupts, .. } = summary.place.unwrap();
    let [guest] = guests.as_slice() else { panic!("{guests:?}") };
    assert_eq!((&*guest.guest, guest.is_planned, &guest.unread), ("tile-001-web", true, &None));
    assert!(guest.threads.iter().any(|thread| thread.name.starts_with("nginx")), "{guest:?}");
    assert_eq!(guest.threads_count as usize, guest.threads.len());
    for thread in &guest.threads {
        let wanted = last.to_string();
        assert_eq!(
            (&thread.allowed, &thread.planned, thread.ran_on as usize),
            (&wanted, &wanted, last),
            "{thread:?}"
        );
    }
    assert_eq!((guest.threads_elsewhere, guest.memory_bytes_elsewhere), (0, 0));
    assert!(guest.memory_bytes.values().sum::<u64>() > 1 << 20, "{guest:?}");
    assert!(interrupts.is_some(), "every kernel lists its interrupts");
    let (load, processors) = (load.unwrap(), real.record(&result.run).plan().unwrap().processors.load);
    let names: Vec<&str> = load.threads.iter().map(|thread| &*thread.name).collect();
    assert!(["load-web", "load-0"].iter().all(|name| names.contains(name)), "{load:?}");
    assert!(names.iter().all(|name| name.starts_with("load-")), "{load:?}");
    assert_eq!((load.threads_count as usize, load.threads_elsewhere), (names.len(), 0), "{load:?}");
    for thread in &load.threads {
        assert_eq!(thread.planned, ranges(&processors), "{thread:?}");
        assert!(processors.contains(&thread.ran_on), "{thread:?}");
    }
    assert_eq!(load.unread, None);
    let notes = notes_of(&result);
    let wanted = "placement, read under load in 1 repeat: every thread on the processors planned; 100 % of the pages on the node planned";
    assert!(result.points[0].repeats_kept == 0 || notes.contains(wanted), "{notes}");
    assert!(!notes.contains("of the load"), "{notes}");
}

#[test]
fn sides_differ_in_their_places_and_each_is_read_back_in_its_own() {
    let Some(real) = Real::new() else { return };
    let processors = ["0".to_owned(), last_processor().to_string()];
    if processors[0] == processors[1] {
        return common::skipped("two places need two processors");
    }
    let [a, b] = processors.clone().map(|id| format!("place.map.*-web=cpus:{id}"));
    let words = ["ab", "web", "--on", "native", "--offline", "--not-alone", "--json", "--a", &a, "--b", &b];
    let values =
        ["measure.repeats=1", "measure.warmup=0s", "measure.length=2s", "host.load_processors=shared"];
    let result =
        real.start(&[&words[..], &values.map(|value| ["--set", value]).concat()].concat()).said().result();
    let plan = real.record(&result.run).plan().unwrap();
    let summaries = real.record(&result.run).summaries().unwrap();
    for (side, wanted) in [SideName::A, SideName::B].into_iter().zip(processors) {
        let point = plan.points.iter().position(|point| point.side == Some(side)).unwrap();
        let read = summaries.iter().find(|summary| summary.point == point).unwrap().place.as_ref().unwrap();
        let allowed: BTreeSet<&String> =
            read.guests[0].threads.iter().map(|thread| &thread.allowed).collect();
        assert_eq!((allowed, read.guests[0].threads_elsewhere), ([&wanted].into(), 0), "{side:?}: {read:?}");
    }
    let differs: Vec<String> =
        result.comparison.unwrap().differences.into_iter().map(|one| one.key).collect();
    assert!(differs.iter().any(|key| key.starts_with("place.map")), "{differs:?}");
}

/// Threads of the load below a process.
fn load_threads(of: i32) -> Vec<i32> {
    let tasks = |process: Process| fs::read_dir(format!("/proc/{}/task", process.pid)).into_iter().flatten();
    let tasks = Process::descendants(of).into_iter().flat_map(tasks).flatten();
    let is_load = |name: String| name.starts_with("load-");
    let sending = tasks.filter(|task| fs::read_to_string(task.path().join("comm")).is_ok_and(is_load));
    sending.map(|task| task.file_name().to_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_thread_that_somebody_moves_is_a_note_with_where_it_was() {
    let Some(real) = Real::new() else { return };
    let last = last_processor();
    if last == 0 {
        return common::skipped("one processor: there is nowhere to move a thread to");
    }
    let place = format!("place.map.*-web=cpus:{last}");
    let mut running = real.start(&run("measure.length=3s", &["--set", &place]));
    running.until("a keeper", keeper_of);
    let (mut first, mut guests) = (CpuSet::new(), CpuSet::new());
    first.set(0);
    guests.set(last);
    // Again and again: until the middle of the measurement new ones may come.
    let mut moved = BTreeSet::new();
    while running.child.try_wait().unwrap().is_none() {
        for process in Process::descendants(running.child.id() as i32) {
            if process.name.starts_with("nginx")
                && sched_setaffinity(Pid::from_raw(process.pid), &first).is_ok()
            {
                moved.insert(process.pid);
            }
        }
        for thread in load_threads(running.child.id() as i32) {
            // One that has just ended needs no moving.
            let _ = sched_setaffinity(Pid::from_raw(thread), &guests);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!moved.is_empty(), "nginx was never seen");
    let result = running.said().result();
    let summary = first_repeat(&real, &result.run);
    let PlaceFigures { guests, load, .. } = summary.place.unwrap();
    assert!(guests[0].threads_elsewhere > 0, "{guests:?}");
    let thread = &guests[0].threads[0];
    assert_eq!((&*thread.allowed, &thread.planned), ("0", &last.to_string()), "{thread:?}");
    let notes = notes_of(&result);
    let wanted = format!(
        "threads not on the processors planned (in tile-001-web: \"nginx\", planned on {last}, may run on 0"
    );
    assert!(result.points[0].repeats_kept == 0 || notes.contains(&wanted), "{notes}");
    let (load, processors) = (load.unwrap(), real.record(&result.run).plan().unwrap().processors.load);
    assert_eq!((load.threads_elsewhere, &*load.threads[0].allowed), (load.threads_count, &*last.to_string()));
    let wanted = format!("planned on {}, may run on {last}", ranges(&processors));
    assert!(result.points[0].repeats_kept == 0 || notes.contains(&wanted), "{notes}");
    assert!(result.points[0].repeats_kept == 0 || notes.contains("placement of the load"), "{notes}");
}

#[test]
fn a_run_that_places_no_guest_reads_no_places_back() {
    let Some(real) = Real::new() else { return };
    let result = real.start(&run("measure.length=1s", &[])).said().result();
    assert_eq!(first_repeat(&real, &result.run).place, None);
}

#[test]
fn a_plan_prints_the_places_and_what_cannot_be_is_refused_before_anything_is_started() {
    let home = Home::new();
    let plan =
        |more: &[&str]| home.says(&[&["plan", "web", "--on", "native", "--tiles", "1"], more].concat());
    let last = last_processor();
    let said = plan(&["--set", "host.load_processors=shared", "--set", &format!("place.map.*=cpus:{last}")])
        .ended(0);
    let wanted = format!("Place     tile-001-web on processor {last}, memory on node");
    assert!(said.out.lines().any(|line| line.starts_with(&wanted)), "{}", said.out);
    for (setting, message) in [
        ("place.map.*=node:900", "node 900 does not exist or is offline"),
        ("place.map.*=cpus:9000", "processor 9000 does not exist"),
        ("place.map.*-nobody=node:0", "is the name of no guest"),
        ("place.guests=everywhere", "place.guests"),
    ] {
        let said = plan(&["--set", setting]).ended(2);
        assert!(said.error.contains(message), "{}", said.error);
    }
}

/// `guests list --json` reads back where the kernel has them.
#[test]
fn guests_that_stay_are_put_in_places_and_listed_with_what_is_elsewhere() {
    let Some(real) = Real::new() else { return };
    let last = last_processor();
    if last == 0 {
        return common::skipped("one processor: there is nowhere else to be");
    }
    let place = format!("place.map.*=cpus:{last}");
    let up = ["guests", "up", "2", "--role", "web", "--on", "native", "--offline", "--no-memory", "--json"];
    let said = real.start(&[&up[..], &["--set", &place]].concat()).said();
    let ready = said.json();
    for guest in ready["guests"].as_array().unwrap() {
        let words = guest["place"].as_str().unwrap();
        assert!(words.starts_with(&format!("on processor {last}")), "{words}");
    }
    let listed = || real.start(&["guests", "list", "--json"]).said().json();
    let first = |listed: &serde_json::Value| listed["guests"][0]["guests"][0].clone();
    assert_eq!(first(&listed())["elsewhere"], serde_json::Value::Null);
    let pid = i32::try_from(ready["guests"][0]["pid"].as_i64().unwrap()).unwrap();
    let mut other = CpuSet::new();
    other.set(0);
    sched_setaffinity(Pid::from_raw(pid), &other).unwrap();
    let elsewhere = first(&listed())["elsewhere"].as_str().map(str::to_owned);
    real.start(&["guests", "down"]).said().ended(0);
    let elsewhere = elsewhere.unwrap();
    assert!(
        elsewhere.starts_with("1 of ") && elsewhere.contains(&format!("put on {last}, which may run on 0")),
        "{elsewhere}"
    );
}

#[test]
fn values_of_guests_that_stay_are_places_only_and_one_that_cannot_be_is_refused() {
    let home = Home::new();
    let up = |set: &str| {
        home.says(&["guests", "up", "1", "--role", "web", "--on", "native", "--offline", "--set", set])
    };
    for (set, wanted) in [
        ("load.web.rate=1/s", "`guests up` has no value `load.web.rate`"),
        ("place.map.*=cpus:9000", "processor 9000 does not exist"),
        ("place.map.*=node:900", "node 900 does not exist or is offline"),
    ] {
        let said = up(set);
        let is_root = rustix::process::geteuid().is_root();
        assert!(!is_root || (said.code == Some(2) && said.error.contains(wanted)), "{set}: {said:?}");
    }
}
