//! Sites with sessions, and the tile of eight guests, natively and for real, once and 32 times. Root and the image
//! `consolidation` are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Said,
    real::{Process, Real},
    words,
};
use tilemark_record::{result::RunResult, summary::RepeatSummary};

/// The guests of the tile, in the scenario's order.
const GUESTS: [&str; 8] = ["web", "web-inside", "client", "backend", "compute", "files", "database", "idle"];

/// A run of one repeat, with more arguments.
fn command<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let always = "--on native --offline --not-alone --set measure.repeats=1 --set measure.warmup=1s --json";
    [&["run"], arguments, &words(always)].concat()
}

fn measured(real: &Real, arguments: &[&str]) -> RepeatSummary {
    the_repeat(real, &real.start(&command(arguments)).said())
}

/// The only repeat of a run that ended whole and without an incident.
fn the_repeat(real: &Real, said: &Said) -> RepeatSummary {
    // One repeat is too few for a verdict.
    assert_eq!(said.code, Some(5), "{said:?}");
    let result: RunResult = serde_json::from_str(&said.out).unwrap();
    let record = real.record(&result.run);
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
fn every_load_of_the_tile_of_eight_guests_is_answered_correctly() {
    let Some(real) = Real::with_image("consolidation") else { return };
    let summary = measured(
        &real,
        &["consolidation", "--preset", "quick", "--tiles", "1", "--set", "measure.length=4s"],
    );
    every_load_is_answered_correctly(&summary);
}

fn every_load_is_answered_correctly(summary: &RepeatSummary) {
    let names: Vec<&str> = summary.loads.iter().map(|load| load.name.as_str()).collect();
    assert_eq!(names, ["web", "web-inside", "compute", "files", "database"]);
    for load in &summary.loads {
        assert_eq!((load.failed, load.wrong), (0, 0), "{}: {:?}", load.name, load.errors);
        assert!(load.completed > 0, "{load:?}");
    }
    let guests: Vec<&str> = summary.uses.iter().map(|one| one.guest.as_str()).collect();
    assert_eq!(guests, GUESTS);
}

/// As many tiles as on the host of the paper of 2009. They are asked what two slow processors can serve.
#[test]
#[ignore = "minutes; `cargo xtask soak tiles-32` runs it"]
fn each_of_256_guests_answers_correctly_and_all_are_gone_afterwards() {
    const TILES: u32 = 32;
    let Some(real) = Real::with_image("consolidation") else { return };
    let asked = words(
        "consolidation --preset quick --tiles 32 --set load.web.rate=0.5/s --set load.web.sessions.users=5 \
         --set load.web-inside.rate=0.2/s --set load.web-inside.sessions.users=5 --set load.compute.rate=0.1/s \
         --set load.files.rate=0.1/s --set load.database.rate=1/s --set measure.length=60s",
    );
    let (mut running, under_way) = real.begin(&command(&asked));
    let all = running.until("its guests", |_| {
        let all = Process::descendants(i32::try_from(under_way.keeper?).ok()?);
        (all.len() >= 256).then_some(all)
    });
    let said = running.said();
    real.all_gone(&all, under_way.cgroup.as_slice());
    let summary = the_repeat(&real, &said);
    every_load_is_answered_correctly(&summary);
    for one in &summary.uses {
        assert_eq!(one.guests, TILES, "{}", one.guest);
    }
    for load in &summary.loads {
        let least = &load.fairness.as_ref().unwrap().least_served;
        assert!(least.of_mean > 0.0, "{} of {} got no answer", least.guest, load.name);
        println!("{}", serde_json::json!({ "load": load.name, "right": load.completed, "unit": load.unit }));
    }
    let most = summary.seconds_to_ready.unwrap().max;
    println!("{}", serde_json::json!({ "guests": 256, "ready_after_s": most, "processes": all.len() }));
}
