//! The disk load on a file in a temporary folder. What needs fio is skipped, loudly, where it is missing.

#![allow(clippy::unwrap_used, reason = "test helpers fail their test")]

use std::sync::Arc;
use tilemark_agent_protocol::{LoadEvent, LoadJob, Stream};
use tilemark_load::{Stop, figures::Gathered};
use tilemark_plan::{
    plan::Demand,
    scenario::Arrival,
    workload::{DiskParameters, Work},
};
use tilemark_units::{Bytes, Fraction, Rate, Span};
use tilemark_workloads::{
    WorkloadError,
    disk::{Target, run_on},
};

fn is_possible() -> bool {
    let found = std::process::Command::new("fio").arg("--version").output().is_ok();
    let is_ci = std::env::var("TILEMARK_CI").is_ok_and(|value| value == "1");
    assert!(found || !is_ci, "fio is missing, and TILEMARK_CI=1 allows no skipped test");
    if !found {
        println!("skipped: fio is not installed");
    }
    found
}

/// A depth at which a stranger's disk is not overwhelmed.
const DEPTH: u32 = 2;

fn flat_out(length: Span) -> LoadJob {
    job(Demand::Closed, length)
}

fn at_a_rate(length: Span) -> LoadJob {
    let demand = Demand::Open {
        rate: Rate::per_second(200.0).unwrap(),
        arrival: Arrival::Even,
        burst_every: Span::from_seconds(1),
        burst_length: Span::from_seconds(1),
        surge: None,
    };
    job(demand, length)
}

fn job(demand: Demand, length: Span) -> LoadJob {
    let target = "127.0.0.1:1".parse().unwrap();
    let work = Work::Disk(DiskParameters { depth: DEPTH, ..DiskParameters::default() });
    LoadJob {
        streams: vec![Stream { disks: 1, seed: 3, ..Stream::new(5, target, demand, work) }],
        processors: Vec::new(),
        warmup: Span::from_seconds(1),
        length,
    }
}

fn target(folder: &tempfile::TempDir) -> Target {
    let path = folder.path().join("disk").display().to_string();
    Target { path, size: Some(Bytes::from_mib(16)) }
}

fn run(job: &LoadJob, target: Target) -> Result<Gathered, WorkloadError> {
    let stop = Stop::new().unwrap();
    Gathered::of(|start, events| run_on(job, &[target], &stop, start, events))
}

#[test]
fn fio_is_measured_second_by_second_without_its_warmup() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let gathered = run(&flat_out(Span::from_seconds(2)), target(&folder)).unwrap();
    let total = &gathered.totals[0];
    assert_eq!(total.id, 5);
    assert!(total.counts.completed > 0 && total.counts.bytes > 0, "{:?}", total.counts);
    assert!(!gathered.seconds.is_empty());
    let reported: u64 = gathered.seconds.iter().map(|second| second.counts.completed).sum();
    assert_eq!(gathered.latency(|id| id == 5).unwrap().len(), reported);
    assert!(reported <= total.counts.completed);
    assert!(gathered.outputs[&5].contains("\"jobs\""));
}

#[test]
fn a_stop_ends_fio_and_keeps_what_it_measured() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stop = Stop::new().unwrap();
    let job = flat_out(Span::from_seconds(3600));
    let gathered = Gathered::of(|start, events| {
        run_on(&job, &[target(&folder)], &stop, start, &mut |event| {
            if matches!(event, LoadEvent::Second(_)) {
                stop.ask();
            }
            events(event);
        })
    })
    .unwrap();
    assert!(gathered.totals[0].counts.completed > 0);
}

#[test]
fn what_fio_says_about_a_missing_disk_is_reported() {
    if !is_possible() {
        return;
    }
    let nowhere = Target { path: "/dev/null/disk".to_owned(), size: Some(Bytes::from_mib(1)) };
    let error = run(&flat_out(Span::from_seconds(1)), nowhere).unwrap_err();
    assert!(
        matches!(error, WorkloadError::ProgramFailed { .. } | WorkloadError::BadReport { .. }),
        "{error:?}"
    );
}

#[test]
fn a_rate_is_kept_and_every_request_of_it_counted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("disk")).unwrap().set_len(16 << 20).unwrap();
    let gathered = run(&at_a_rate(Span::from_seconds(2)), target(&folder)).unwrap();
    let counts = gathered.totals[0].counts;
    assert_eq!(
        (counts.offered, counts.completed, counts.failed),
        (400, 400, 0),
        "{:?}",
        gathered.totals[0].errors
    );
    assert_eq!(counts.bytes, 400 * 4096);
    assert_eq!(gathered.seconds.iter().map(|second| second.counts.offered).collect::<Vec<_>>(), [200, 200]);
}

#[test]
fn a_disk_that_ends_early_fails_its_requests_in_words() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::File::create(folder.path().join("disk")).unwrap().set_len(4096).unwrap();
    let mut job = at_a_rate(Span::from_seconds(1));
    if let Work::Disk(parameters) = Arc::make_mut(&mut job.streams[0].work) {
        parameters.reads = Fraction::new(1.0).unwrap();
    }
    let gathered = run(&job, target(&folder)).unwrap();
    let total = &gathered.totals[0];
    assert!(total.counts.failed > 0, "{:?}", total.counts);
    assert!(total.errors[0].contains("fill whole buffer"), "{:?}", total.errors);
}

#[test]
fn a_disk_that_is_not_there_is_named() {
    let nowhere = Target { path: "/dev/null/disk".to_owned(), size: Some(Bytes::from_mib(1)) };
    let error = run(&at_a_rate(Span::from_seconds(1)), nowhere).unwrap_err();
    assert!(matches!(&error, WorkloadError::File { path, .. } if path == "/dev/null/disk"), "{error:?}");
}
