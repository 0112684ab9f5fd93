//! What others felt of a surge, from repeats in which it is known.

use crate::run::{Run, SCENARIO, of_scenario};
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::SurgeResult;
use tilemark_record::summary::{AroundSurge, SurgePart};

/// Others' requests take so many times as long during the surge, and as long as before after it. The repeats scatter.
fn planted(slowdown: f64) -> Run {
    of_scenario(SCENARIO, &[1, 4]).at(4, |repeat| {
        for load in &mut repeat.loads {
            let level = 4.0 * (1.0 + f64::from(repeat.repeat) / 10.0);
            let part = |factor: f64, seconds| SurgePart {
                seconds,
                offered: 600 * u64::from(seconds),
                completed: 600 * u64::from(seconds),
                errors: 0,
                mean_ms: Some(level * factor),
                p99_ms: Some(level * factor * 5.0),
            };
            let wobble = 1.0 + f64::from(repeat.repeat % 3) / 100.0;
            let (before, after) = (part(1.0, 10), part(wobble, 5));
            load.surge = Some(AroundSurge { before, during: part(slowdown * wobble, 5), after });
        }
    })
}

fn found(run: &Run, tiles: u32) -> Option<SurgeResult> {
    let points = run.judged().points;
    points.iter().find(|point| point.tiles == tiles).unwrap().loads[0].surge
}

#[test]
fn what_others_felt_is_over_the_time_before_in_pairs_of_one_repeat() {
    let surge = found(&planted(2.0), 4).unwrap();
    let (during, after) = (surge.slowdown_during.unwrap(), surge.slowdown_after.unwrap());
    assert!((during.value / 2.02 - 1.0).abs() < 0.01, "{during:?}");
    // The level of a repeat scatters by a tenth, and its pair cancels that.
    assert!(during.low.unwrap() > 1.95 && during.high.unwrap() < 2.1, "{during:?}");
    assert!((after.value - 1.0).abs() < 0.03 && during.n_repeats == 5, "{after:?}");
    let mean = surge.before.mean_ms.unwrap();
    assert!((mean - 5.2).abs() < 1e-9, "{mean}");
    assert_eq!((surge.before.throughput, surge.before.errors), (Some(600.0), Some(0.0)));
    assert_eq!(found(&planted(2.0), 1), None, "one tile has nobody beside it");
}

#[test]
fn in_a_closed_loop_the_slowdown_is_of_throughput_and_a_time_without_answers_has_none() {
    let run = planted(1.0).at(4, |repeat| {
        for load in &mut repeat.loads {
            load.loop_kind = LoopKind::Closed;
            let surge = load.surge.as_mut().unwrap();
            surge.during.completed /= 3;
            surge.after.completed = 0;
        }
    });
    let surge = found(&run, 4).unwrap();
    assert!((surge.slowdown_during.unwrap().value - 3.0).abs() < 0.01, "{surge:?}");
    assert_eq!(surge.slowdown_after, None);
    let missing = run.judged().missing;
    assert!(missing.contains_key("points.1.loads.bursts.surge.slowdown_after"), "{missing:?}");
}
