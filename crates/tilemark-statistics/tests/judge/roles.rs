//! How much slower each role is with many tiles than with one, from repeats whose slowdowns are known.

use crate::run::{Run, of_scenario, of_scenario_on};
use tilemark_plan::{plan::Backend, scenario::LoopKind};
use tilemark_record::result::LoadResult;
use tilemark_record::summary::{Incident, IncidentKind};

/// A web guest under a rate and a disk guest flat out.
const TILE: &str = r#"
schema = 1
name = "two-roles"
about = "two roles"
headline = "pages"
guest = [
    { name = "web", role = "web" },
    { name = "files", role = "disk", disk = [{ size = "64MiB" }] },
]
load = [
    { name = "pages", guest = "web", rate = "200/s", web = {} },
    { name = "files", guest = "files", loop = "closed", disk = { saturate = true } },
]
[ladder]
tiles = [1]
[measure]
repeats = 5
"#;

/// With four tiles a page takes 1.5 times as long, and a request of a disk twice.
fn planted(run: Run) -> Run {
    run.at(4, |repeat| {
        for load in &mut repeat.loads {
            match load.loop_kind {
                LoopKind::Open => load.latency_ms.mean = load.latency_ms.mean.map(|mean| 1.5 * mean),
                LoopKind::Closed => load.seconds *= 2.0,
            }
        }
    })
}

fn loads(run: &Run, tiles: u32) -> Vec<LoadResult> {
    let points = run.judged().points;
    points.into_iter().find(|point| point.tiles == tiles).unwrap().loads
}

#[test]
fn a_role_s_slowdown_against_one_tile_is_of_latency_in_an_open_loop_and_of_throughput_in_a_closed_one() {
    let run = planted(of_scenario(TILE, &[1, 4]));
    for (name, planted) in [("pages", 1.5), ("files", 2.0)] {
        let found = loads(&run, 4).into_iter().find(|load| load.name == name).unwrap();
        let slowdown = found.slowdown_vs_one_tile.unwrap();
        assert!((slowdown.value / planted - 1.0).abs() < 0.01, "{name}: {slowdown:?}");
        assert!(slowdown.low.unwrap() > 0.98 * planted && slowdown.high.unwrap() < 1.02 * planted);
        assert_eq!(slowdown.n_repeats, 5);
    }
    assert!(loads(&run, 1).iter().all(|load| load.slowdown_vs_one_tile.is_none()), "one tile is itself");
}

#[test]
fn nothing_is_slower_than_what_was_not_measured_and_no_emulator_s_time_counts() {
    let without = planted(of_scenario(TILE, &[2, 4]));
    assert!(loads(&without, 4).iter().all(|load| load.slowdown_vs_one_tile.is_none()));
    assert!(!without.judged().missing.keys().any(|key| key.contains("slowdown")), "there is no such figure");
    let emulated = planted(of_scenario_on(TILE, &[Backend::Emulated], &[1, 4]));
    assert!(loads(&emulated, 4).iter().all(|load| load.slowdown_vs_one_tile.is_none()));
}

#[test]
fn repeats_without_a_common_block_are_paired_and_two_pairs_have_no_interval() {
    let apart =
        planted(of_scenario(TILE, &[1, 4])).without(|repeat, point| (point.tiles == 1) == (repeat.block > 2));
    let judged = apart.judged();
    assert_eq!(loads(&apart, 4)[0].slowdown_vs_one_tile.unwrap().n_repeats, 2);
    let reason = judged.missing.get("points.1.loads.pages.slowdown_vs_one_tile.low");
    assert_eq!(
        reason.map(String::as_str),
        Some("only 2 repeats, and an interval needs 3"),
        "{:?}",
        judged.missing
    );
}

/// Why the pages of four tiles are not compared with those of one.
fn why_not_compared(run: &Run) -> Option<String> {
    let pages = loads(run, 4).into_iter().find(|load| load.name == "pages").unwrap();
    let reason = run.judged().missing.get("points.1.loads.pages.slowdown_vs_one_tile").cloned();
    assert_eq!(pages.slowdown_vs_one_tile.is_none(), reason.is_some());
    reason
}

#[test]
fn times_of_requests_that_fail_are_not_compared_with_one_tile() {
    let fails = |run: Run, tiles| {
        run.at(tiles, |repeat| {
            let load = repeat.loads.iter_mut().find(|load| load.name == "pages").unwrap();
            load.failed = load.completed * 3 / 10;
            load.completed -= load.failed;
        })
    };
    let run = || planted(of_scenario(TILE, &[1, 4]));
    assert_eq!(why_not_compared(&run()), None);
    let failed = "pages failed 30 % of its requests [30, 30]";
    assert_eq!(why_not_compared(&fails(run(), 4)).unwrap(), format!("{failed}: times are not compared"));
    let alone = why_not_compared(&fails(run(), 1)).unwrap();
    assert_eq!(alone, format!("{failed}, with one tile: times are not compared"));
}

#[test]
fn times_beside_a_guest_that_ended_or_memory_that_ran_out_are_not_compared_with_one_tile() {
    let run = || planted(of_scenario(TILE, &[1, 4]));
    let ended = run().first(1, 1, |repeat| {
        repeat.incidents.push(Incident {
            kind: IncidentKind::GuestEnded,
            guest: Some("tile-001-web".to_owned()),
            what: "QEMU ended".to_owned(),
        });
    });
    let reason = why_not_compared(&ended).unwrap();
    assert!(
        reason.ends_with("QEMU ended (1 of 5 repeats), with one tile: times are not compared"),
        "{reason}"
    );
    let killed = run().first(2, 4, |repeat| repeat.host.oom_kills = Some(1));
    let reason = why_not_compared(&killed).unwrap();
    assert!(reason.ends_with("memory ran out (2 of 5 repeats): times are not compared"), "{reason}");
    // A guest of another load says nothing about the pages' own time.
    let other = run().first(1, 4, |repeat| {
        repeat.incidents.push(Incident {
            kind: IncidentKind::GuestEnded,
            guest: Some("tile-002-files".to_owned()),
            what: "QEMU ended".to_owned(),
        });
    });
    assert_eq!(why_not_compared(&other), None);
}

#[test]
fn demand_that_many_tiles_do_not_serve_is_what_a_slowdown_shows() {
    let run = planted(of_scenario(TILE, &[1, 4])).at(4, |repeat| {
        for load in repeat.loads.iter_mut().filter(|load| load.loop_kind == LoopKind::Open) {
            load.completed = load.completed * 6 / 10;
        }
    });
    assert_eq!(why_not_compared(&run), None);
}

#[test]
fn a_load_with_a_surge_is_not_compared_with_one_tile_and_those_beside_it_are() {
    let text = TILE.replace("repeats = 5", "repeats = 5\nsurge = { tile = 1, factor = 16 }");
    let run = planted(of_scenario(&text, &[1, 4]));
    let reason = "the point has a surge, and one tile by itself had none";
    assert_eq!(why_not_compared(&run).unwrap(), reason);
    assert!(loads(&run, 4).iter().any(|load| load.name == "files" && load.slowdown_vs_one_tile.is_some()));
    let judged = run.judged();
    assert_eq!(judged.points[1].throughput_vs_one_tile, None);
    assert_eq!(judged.missing["points.1.throughput_vs_one_tile"], reason);
}
