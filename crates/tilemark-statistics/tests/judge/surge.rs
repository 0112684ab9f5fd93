//! What others felt of a surge, from repeats in which it is known.

use crate::interference::{most_of, tile_of};
use crate::run::{Run, SCENARIO, of_scenario};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::SurgeResult;
use tilemark_record::summary::{AroundSurge, SurgePart};

/// Requests of the other tiles take so many times as long during the surge, and as before after it. The repeats scatter.
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

/// Six loads of one tile, each with requests that take as long before a surge as during and after it, but for scatter of 5 % and a factor
/// on the first load during it.
fn scattered(run: &mut Run, slowdown: f64, seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let noise = Normal::new(0.0, 0.05).unwrap();
    for load in run.repeats.iter_mut().flat_map(|repeat| &mut repeat.loads) {
        let factor = if load.name == "role0" { slowdown } else { 1.0 };
        let mut part = |factor: f64| SurgePart {
            seconds: 10,
            offered: 6_000,
            completed: 6_000,
            errors: 0,
            mean_ms: Some(4.0 * factor * f64::exp(noise.sample(&mut random))),
            p99_ms: None,
        };
        load.surge = Some(AroundSurge { before: part(1.0), during: part(factor), after: part(1.0) });
    }
}

/// Loads that are named as certainly slowed in each of so many runs, where the surge slows the first one by a factor.
fn named(slowdown: f64, runs: u64) -> Vec<Vec<String>> {
    let mut run = of_scenario(&tile_of(6), &[4]);
    let of_run = |seed| {
        scattered(&mut run, slowdown, seed);
        let loads = run.judged().points.remove(0).loads;
        let certain = loads.into_iter().filter(|load| load.surge.unwrap().is_certain());
        certain.map(|load| load.name).collect()
    };
    (0..runs).map(of_run).collect()
}

#[test]
fn loads_that_a_surge_does_not_slow_are_named_in_at_most_one_run_of_twenty() {
    let runs = 400;
    let found = named(1.0, runs).iter().filter(|named| !named.is_empty()).count() as u64;
    assert!(found <= most_of(runs), "{found} of {runs}");
}

#[test]
fn the_load_that_a_surge_makes_twice_as_slow_is_named_19_times_of_20() {
    let found = named(2.0, 20).iter().filter(|named| named.contains(&"role0".to_owned())).count();
    assert!(found >= 19, "{found} of 20");
}

#[test]
fn a_slowdown_below_one_in_a_hundred_is_not_certain_and_neither_is_one_whose_requests_failed() {
    let mut run = planted(1.005);
    for load in run.repeats.iter_mut().flat_map(|repeat| &mut repeat.loads) {
        let surge = load.surge.get_or_insert_with(Default::default);
        surge.during.mean_ms = surge.before.mean_ms.map(|before| before * 1.005);
    }
    let exact = found(&run, 4).unwrap();
    assert!(exact.slowdown_during.unwrap().low.unwrap() > 1.0 && exact.p.unwrap() < 0.05, "{exact:?}");
    assert_eq!(exact.certain, Some(false));
    let failing = planted(2.0).at(4, |repeat| {
        for load in &mut repeat.loads {
            load.surge.as_mut().unwrap().during.errors = 600;
        }
    });
    let failing = found(&failing, 4).unwrap();
    assert_eq!((failing.p, failing.certain), (None, Some(false)));
    assert_eq!(found(&planted(2.0), 4).unwrap().certain, Some(true));
}

#[test]
fn a_program_that_reports_latencies_only_at_the_end_is_the_reason_for_no_slowdown() {
    let run = planted(2.0).at(4, |repeat| {
        for load in &mut repeat.loads {
            let surge = load.surge.as_mut().unwrap();
            for part in [&mut surge.before, &mut surge.during, &mut surge.after] {
                (part.mean_ms, part.p99_ms) = (None, None);
            }
        }
    });
    let judged = run.judged();
    let surge = judged.points[1].loads[0].surge.unwrap();
    assert_eq!((surge.slowdown_during, surge.before.mean_ms), (None, None));
    let reason = &judged.missing["points.1.loads.bursts.surge.slowdown_during"];
    assert_eq!(reason, "its program reports latencies only at the end");
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

/// The gate of the plan.
fn errors_max(run: &Run) -> f64 {
    run.plan.points[0].gate.errors.get()
}

/// So many of 600 requests failed in each second before the surge and while it lasted.
fn failing(before: u64, during: u64) -> Run {
    planted(2.0).at(4, |repeat| {
        for load in &mut repeat.loads {
            let surge = load.surge.as_mut().unwrap();
            for (part, failed) in [(&mut surge.before, before), (&mut surge.during, during)] {
                part.completed = (600 - failed) * u64::from(part.seconds);
                part.errors = failed * u64::from(part.seconds);
            }
        }
    })
}

#[test]
fn errors_that_a_surge_makes_many_times_as_many_are_felt_also_where_a_few_were_before_it() {
    let few = failing(1, 360);
    let surge = found(&few, 4).unwrap();
    assert!(surge.before.errors.unwrap() > errors_max(&few), "{surge:?}");
    assert!(surge.fails(errors_max(&few)), "{surge:?}");
    assert_eq!((surge.p, surge.certain), (None, Some(false)));
}

#[test]
fn errors_that_were_there_before_a_surge_are_not_felt_of_it_and_their_times_are_not_compared() {
    let both = failing(30, 30);
    let surge = found(&both, 4).unwrap();
    assert!(!surge.fails(errors_max(&both)), "{surge:?}");
    assert!(!surge.compares_times(&surge.during, errors_max(&both)), "{surge:?}");
    assert_eq!((surge.p, surge.certain), (None, Some(false)));
}

#[test]
fn a_closed_loop_that_is_answered_nothing_while_a_surge_lasts_has_felt_it() {
    let run = planted(1.0).at(4, |repeat| {
        for load in &mut repeat.loads {
            load.loop_kind = LoopKind::Closed;
            let during = &mut load.surge.as_mut().unwrap().during;
            (during.offered, during.completed, during.mean_ms, during.p99_ms) = (0, 0, None, None);
        }
    });
    let surge = found(&run, 4).unwrap();
    assert_eq!((surge.during.errors, surge.slowdown_during), (None, None));
    assert!(surge.fails(errors_max(&run)), "{surge:?}");
    assert!(!found(&planted(1.0), 4).unwrap().fails(errors_max(&run)));
}
