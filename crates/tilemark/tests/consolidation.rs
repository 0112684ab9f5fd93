//! Sites with sessions, and the tile of eight guests, natively and for real. Root and the image `consolidation` are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::real::Real;
use tilemark_record::{RunDirectory, result::RunResult, summary::RepeatSummary};

/// The repeat of a run of one, with more arguments.
fn measured(real: &Real, arguments: &[&str]) -> RepeatSummary {
    let always = [
        "--on",
        "native",
        "--offline",
        "--not-alone",
        "--set",
        "measure.repeats=1",
        "--set",
        "measure.warmup=1s",
    ];
    let arguments: Vec<&str> =
        ["run"].iter().chain(arguments).chain(&always).chain(&["--json"]).copied().collect();
    let said = real.start(&arguments).said();
    // One repeat is too few for a verdict.
    assert_eq!(said.code, Some(5), "{said:?}");
    let result: RunResult = serde_json::from_str(&said.out).unwrap();
    let record = RunDirectory::at(&real.home.path().join("runs").join(&result.run));
    record.verify().unwrap();
    let summary = record.repeats().unwrap()[0].summary().unwrap();
    assert!(summary.incidents.is_empty(), "{:?}", summary.incidents);
    summary
}

#[test]
fn users_of_a_bank_go_from_page_to_page_over_tls_and_every_answer_is_right() {
    let Some(real) = Real::with_image("consolidation") else { return };
    let set = ["--set", "load.shop.sessions.shape=bank", "--set", "load.shop.sessions.users=20"];
    let rate = ["--set", "load.shop.rate=40/s", "--set", "measure.length=3s", "--tiles", "2"];
    let arguments = [&["sessions"][..], &set, &rate].concat();
    let summary = measured(&real, &arguments);
    let load = &summary.loads[0];
    assert_eq!((load.failed, load.wrong, load.unit.as_str()), (0, 0, "pages"), "{:?}", load.errors);
    assert!(load.completed > 100, "two tiles were asked 240 pages: {load:?}");
    assert_eq!(load.quality.unwrap().of, load.completed);
    let uses: Vec<_> = summary.uses.iter().map(|one| (one.guest.as_str(), one.guests)).collect();
    assert_eq!(uses, [("web", 2), ("backend", 2)]);
    assert!(summary.uses.iter().all(|one| one.processors > 0.0), "both have worked: {:?}", summary.uses);
}

#[test]
fn every_load_of_the_tile_of_eight_guests_is_answered_rightly() {
    let Some(real) = Real::with_image("consolidation") else { return };
    let summary = measured(
        &real,
        &["consolidation", "--preset", "quick", "--tiles", "1", "--set", "measure.length=4s"],
    );
    let names: Vec<&str> = summary.loads.iter().map(|load| load.name.as_str()).collect();
    assert_eq!(names, ["web", "web-inside", "compute", "files", "database"]);
    for load in &summary.loads {
        assert_eq!((load.failed, load.wrong), (0, 0), "{}: {:?}", load.name, load.errors);
        assert!(load.completed > 0, "{load:?}");
    }
    let guests: Vec<&str> = summary.uses.iter().map(|one| one.guest.as_str()).collect();
    assert_eq!(guests, ["web", "web-inside", "client", "backend", "compute", "files", "database", "idle"]);
}
