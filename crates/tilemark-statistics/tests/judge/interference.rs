//! Which roles slow each other down, from repeats whose slowdowns are known.

use crate::run::{Run, roles};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use tilemark_plan::{plan::Backend, scenario::LoopKind};
use tilemark_record::result::{Interference, VerdictStatus};

/// A web guest under a rate, two guests that work flat out, and one that idles.
const TILE: &str = r#"
schema = 1
name = "roles"
about = "four roles"
headline = "web"
[[guest]]
name = "web"
role = "web"
[[guest]]
name = "files"
role = "disk"
[[guest.disk]]
size = "64MiB"
[[guest]]
name = "hog"
role = "compute"
[[guest]]
name = "idle"
role = "idle"
[[load]]
name = "web"
guest = "web"
rate = "200/s"
[load.web]
[[load]]
name = "files"
guest = "files"
loop = "closed"
[load.disk]
saturate = true
[[load]]
name = "hog"
guest = "hog"
loop = "closed"
[load.memory]
[ladder]
tiles = [1]
[measure]
repeats = 3
"#;

/// Every request beside the hog takes so many times as long; all times scatter by so much, on logarithms.
fn planted(slowdown: f64, scatter: f64, seed: u64) -> Run {
    let mut run = roles(TILE, Backend::Native);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let noise = Normal::new(0.0, scatter).unwrap();
    for repeat in &mut run.repeats {
        let together = run.plan.points[repeat.point].together.as_ref().unwrap();
        let pair = [Some(together.first.as_str()), together.second.as_deref()];
        for load in &mut repeat.loads {
            let own = pair.iter().position(|role| *role == Some(load.name.as_str())).unwrap();
            let factor = if pair[1 - own] == Some("hog") { slowdown } else { 1.0 }
                * f64::exp(noise.sample(&mut random));
            match load.loop_kind {
                LoopKind::Open => load.latency_ms.mean = load.latency_ms.mean.map(|mean| mean * factor),
                LoopKind::Closed => load.seconds *= factor,
            }
        }
    }
    run
}

fn found(run: &Run) -> Interference {
    run.judged().interference.unwrap()
}

#[test]
fn every_loaded_role_has_a_slowdown_beside_every_role_and_its_like() {
    let run = planted(1.0, 0.0, 1);
    assert_eq!(run.plan.points.len(), 3 + 9);
    let found = found(&run);
    let pairs: Vec<(&str, &str)> =
        found.slowdowns.iter().map(|one| (one.role.as_str(), one.beside.as_str())).collect();
    assert_eq!(pairs.len(), 3 * 4, "{pairs:?}");
    assert!(pairs.contains(&("web", "idle")) && pairs.contains(&("files", "files")), "{pairs:?}");
    assert!(!pairs.iter().any(|(role, _)| *role == "idle"), "nothing is asked of it: {pairs:?}");
    for one in &found.slowdowns {
        assert!((one.value() - 1.0).abs() < 0.02, "two guests of a kind serve twice as much: {one:?}");
    }
}

#[test]
fn a_slowdown_is_that_of_latency_in_an_open_loop_and_of_throughput_in_a_closed_one() {
    let found = found(&planted(1.5, 0.0, 1));
    let beside_hog: Vec<f64> =
        found.slowdowns.iter().filter(|one| one.beside == "hog").map(|one| one.value()).collect();
    assert_eq!(beside_hog.len(), 3);
    assert!(beside_hog.iter().all(|value| (value - 1.5).abs() < 0.02), "{beside_hog:?}");
}

#[test]
fn a_role_that_takes_three_tenths_is_named_as_the_worst_pair_19_times_of_20() {
    let named = (0..20).filter(|seed| {
        let worst = found(&planted(1.0 / 0.7, 0.05, *seed)).worst;
        worst.is_some_and(|worst| worst.beside == "hog")
    });
    let named = named.count();
    assert!(named >= 19, "{named} of 20");
}

#[test]
fn roles_that_do_not_slow_each_other_are_rarely_accused() {
    let accused = (0..20).map(|seed| found(&planted(1.0, 0.05, seed)).slowdowns.into_iter());
    let certain = accused.flatten().filter(|one| one.is_certain()).count();
    // One side of a 95 % interval: 6 of 240 are expected by chance, and 16 or more are once in a thousand.
    assert!(certain < 16, "{certain} of 240");
}

#[test]
fn the_sentence_names_the_worst_pair_and_the_verdict_is_of_all_points() {
    let run = planted(1.5, 0.01, 3);
    let judged = run.judged();
    assert!(judged.sentence.starts_with("Worst pair: a request of "), "{}", judged.sentence);
    assert!(judged.sentence.contains(" as long beside "), "{}", judged.sentence);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict);
    let none = planted(1.0, 0.0, 1).judged();
    assert!(none.sentence.starts_with("No pair of roles is known to slow"), "{}", none.sentence);
    let few = planted(1.5, 0.01, 3).without(|repeat, _| repeat.block == 3).judged();
    assert_eq!(few.verdict.status, VerdictStatus::CannotTell, "{:?}", few.verdict);
    assert!(few.missing.keys().any(|key| key.starts_with("interference.web.")), "{:?}", few.missing);
}
