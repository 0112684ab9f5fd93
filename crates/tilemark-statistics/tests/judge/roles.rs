//! How much slower each role is with many tiles than with one, from repeats whose slowdowns are known.

use crate::run::{Run, of_scenario, of_scenario_on};
use tilemark_plan::{plan::Backend, scenario::LoopKind};
use tilemark_record::result::LoadResult;

/// A web guest under a rate and a disk guest flat out.
const TILE: &str = r#"
schema = 1
name = "two-roles"
about = "two roles"
headline = "pages"
[[guest]]
name = "web"
role = "web"
[[guest]]
name = "files"
role = "disk"
[[guest.disk]]
size = "64MiB"
[[load]]
name = "pages"
guest = "web"
rate = "200/s"
[load.web]
[[load]]
name = "files"
guest = "files"
loop = "closed"
[load.disk]
saturate = true
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
