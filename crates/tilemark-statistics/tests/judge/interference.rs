//! Which roles slow each other down, from repeats whose slowdowns are known.

use crate::run::{Run, quiet, roles};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use std::collections::BTreeSet;
use tilemark_plan::{plan::Backend, scenario::LoopKind};
use tilemark_record::result::{GateMeasure, Interference, LatencyMs, VerdictStatus};
use tilemark_record::summary::{Incident, IncidentKind, RepeatSummary};
use tilemark_statistics::judge::{Judgement, pairs_to_confirm};

/// A web guest under a rate, two guests that work flat out, and one that idles.
const TILE: &str = r#"
schema = 1
name = "roles"
about = "four roles"
headline = "web"
guest = [
    { name = "web", role = "web" },
    { name = "files", role = "disk", disk = [{ size = "64MiB" }] },
    { name = "hog", role = "compute" },
    { name = "idle", role = "idle" },
]
load = [
    { name = "web", guest = "web", rate = "200/s", web = {} },
    { name = "files", guest = "files", loop = "closed", disk = { saturate = true } },
    { name = "hog", guest = "hog", loop = "closed", memory = {} },
]
ladder.tiles = [1]
measure.repeats = 3
"#;

/// So many web guests, each under a rate.
pub(crate) fn tile_of(roles: usize) -> String {
    let guest = |place: usize| format!("[[guest]]\nname = \"role{place}\"\nrole = \"web\"\n");
    let load = |place: usize| {
        format!("[[load]]\nname = \"role{place}\"\nguest = \"role{place}\"\nrate = \"200/s\"\n[load.web]\n")
    };
    let guests: String = (0..roles).map(guest).collect();
    let loads: String = (0..roles).map(load).collect();
    format!(
        "schema = 1\nname = \"roles\"\nabout = \"many roles\"\nheadline = \"role0\"\n{guests}{loads}[ladder]\ntiles = [1]\n\
         [measure]\nrepeats = 3\n"
    )
}

/// Every request takes longer by a factor, which the load, what it is measured with and the block decide.
fn slower(run: &mut Run, mut factor: impl FnMut(&str, Option<&str>, u32) -> f64) {
    for repeat in &mut run.repeats {
        let together = run.plan.points[repeat.point].together.as_ref().unwrap();
        let pair = [Some(together.first.as_str()), together.second.as_deref()];
        for load in &mut repeat.loads {
            let own = pair.iter().position(|role| *role == Some(load.name.as_str())).unwrap();
            let factor = factor(&load.name, pair[1 - own], repeat.block);
            match load.loop_kind {
                LoopKind::Open => load.latency_ms.mean = load.latency_ms.mean.map(|mean| mean * factor),
                LoopKind::Closed => load.seconds *= factor,
            }
        }
    }
}

/// Factors that scatter by so much, on logarithms.
fn scattered(scatter: f64, seed: u64) -> impl FnMut() -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let noise = Normal::new(0.0, scatter).unwrap();
    move || f64::exp(noise.sample(&mut random))
}

/// Every request beside the hog takes so many times as long; all times scatter by so much, on logarithms.
fn planted(slowdown: f64, scatter: f64, seed: u64) -> Run {
    let mut run = roles(TILE, Backend::Native);
    let mut noise = scattered(scatter, seed);
    slower(&mut run, |_, beside, _| if beside == Some("hog") { slowdown } else { 1.0 } * noise());
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

/// In how many of so many runs some slowdown is certain although there is none. Times beside `role1` scatter more by a factor.
fn false_alarms(loaded: usize, noisier: f64, runs: u64) -> u64 {
    let quiet = roles(&tile_of(loaded), Backend::Native);
    let is_alarmed = |seed: &u64| {
        let mut run = Run { plan: quiet.plan.clone(), repeats: quiet.repeats.clone() };
        let mut noise = scattered(0.05, *seed);
        slower(&mut run, |_, beside, _| noise().powf(if beside == Some("role1") { noisier } else { 1.0 }));
        let found = found(&run);
        assert_eq!(found.slowdowns.len(), loaded * loaded);
        found.slowdowns.iter().any(|one| one.is_certain())
    };
    (0..runs).filter(is_alarmed).count() as u64
}

/// Measures the pairs to confirm in so many further blocks, with the factors that the planned ones had.
fn confirmed(run: &mut Run, blocks: u32, factor: impl FnMut(&str, Option<&str>, u32) -> f64) -> Vec<String> {
    run.plan.confirm_blocks = blocks;
    let pairs = pairs_to_confirm(&run.plan, &run.repeats).unwrap();
    let points: BTreeSet<usize> = pairs.iter().flat_map(|pair| pair.points.iter().copied()).collect();
    let planned = run.plan.points[0].measure.repeats;
    let further =
        (planned + 1..=planned + blocks).flat_map(|block| points.iter().map(move |point| (*point, block)));
    let repeats = further.map(|(point, block)| quiet(&run.plan.points[point], block, block)).collect();
    let mut further = Run { plan: run.plan.clone(), repeats };
    slower(&mut further, factor);
    run.repeats.append(&mut further.repeats);
    pairs.into_iter().map(|pair| pair.name).collect()
}

#[test]
fn what_looks_slow_is_chosen_with_its_roles_alone_and_what_is_certain_is_not() {
    let mut run = roles(TILE, Backend::Native);
    slower(&mut run, |role, beside, block| match (role, beside) {
        // Too little, certain, and 1.4 that scatters.
        ("web", Some("files")) => 1.04,
        ("web", Some("hog")) => 1.5 + 0.001 * f64::from(block),
        ("files", Some("files")) => 1.4 * [0.7, 1.0, 1.4][block as usize - 1],
        _ => 1.0,
    });
    let named = |points: &[usize]| -> Vec<String> {
        points.iter().map(|point| run.plan.points[*point].together.as_ref().unwrap().to_string()).collect()
    };
    let pairs = pairs_to_confirm(&run.plan, &run.repeats).unwrap();
    assert_eq!(pairs.len(), 1, "{pairs:?}");
    assert_eq!(pairs[0].name, "files + files");
    assert_eq!(named(&pairs[0].points), ["files + files", "files alone"]);
}

#[test]
fn a_host_that_gets_loud_in_further_blocks_takes_nothing_from_the_planned_ones() {
    let factor = |role: &str, beside: Option<&str>, block: u32| match (role, beside) {
        ("files", Some("files")) => 1.4 * [0.7, 1.0, 1.4][(block as usize - 1) % 3],
        _ => 1.0,
    };
    let mut run = roles(TILE, Backend::Native);
    slower(&mut run, factor);
    let without = run.judged();
    assert_eq!(confirmed(&mut run, 6, factor), ["files + files"]);
    for repeat in run.repeats.iter_mut().filter(|repeat| repeat.block > 3) {
        repeat.host.processor.steal = 0.3;
    }
    let judged = run.judged();
    assert_eq!(judged.verdict, without.verdict);
    let pair = judged.points.iter().find(|point| point.vary["roles"] == "files + files").unwrap();
    assert_eq!((pair.repeats_kept, pair.repeats_voided.len()), (3, 6));
    let wanted = "6 repeats of the blocks that confirm what looked slow were discarded, the first because: the hypervisor took 30.0 % of the host as steal";
    assert!(pair.notes.iter().any(|note| note == wanted), "{:?}", pair.notes);

    for repeat in run.repeats.iter_mut().filter(|repeat| repeat.block > 1) {
        repeat.host.processor.steal = 0.3;
    }
    let spoiled = run.judged().verdict;
    assert_eq!(spoiled.status, VerdictStatus::NotTrusted, "the planned blocks were lost too: {spoiled:?}");
}

#[test]
fn without_an_interval_no_pair_is_said_to_look_quick() {
    let run = planted(3.0, 0.01, 1).without(|repeat, _| repeat.block == 3);
    let why = pairs_to_confirm(&run.plan, &run.repeats).unwrap_err();
    assert_eq!(why.reason, "no slowdown has an interval: it needs 3 repeats");
    let none = Run { plan: run.plan, repeats: Vec::new() };
    assert_eq!(pairs_to_confirm(&none.plan, &none.repeats).unwrap_err().reason, "no slowdown is known");
}

/// In how many of a hundred runs, with so many further blocks, the neighbour is named that takes three tenths.
fn named_by_further_blocks(blocks: u32, scatter: f64) -> usize {
    let is_named = |seed: &u64| {
        let mut noise = scattered(scatter, *seed);
        let mut factor = |_: &str, beside: Option<&str>, _: u32| {
            let slowdown = if beside == Some("hog") { 1.0 / 0.7 } else { 1.0 };
            slowdown * noise()
        };
        let mut run = roles(TILE, Backend::Native);
        slower(&mut run, &mut factor);
        confirmed(&mut run, blocks, factor);
        found(&run).worst.is_some_and(|worst| worst.beside == "hog")
    };
    (0..100).filter(is_named).count()
}

#[test]
fn a_role_that_takes_three_tenths_is_named_by_further_blocks_where_times_scatter_by_more_than_a_tenth() {
    let [planned, with_more] = [0, 6].map(|blocks| named_by_further_blocks(blocks, 0.15));
    println!("named without further blocks in {planned} of 100 runs, with six in {with_more}");
    assert!(planned < 50 && with_more >= 95, "{planned} and {with_more} of 100");
}

/// As above, for a run whose pairs that look slow are confirmed.
#[test]
fn roles_that_do_not_slow_each_other_are_accused_in_at_most_one_run_of_twenty_by_further_blocks_too() {
    for (loaded, noisier, runs) in [(3, 1.0, 1_000), (3, 5.0, 1_000), (6, 1.0, 400)] {
        let quiet = roles(&tile_of(loaded), Backend::Native);
        let is_alarmed = |seed: &u64| {
            let mut noise = scattered(0.05, *seed);
            let mut factor = |_: &str, beside: Option<&str>, _: u32| {
                noise().powf(if beside == Some("role1") { noisier } else { 1.0 })
            };
            let mut run = Run { plan: quiet.plan.clone(), repeats: quiet.repeats.clone() };
            slower(&mut run, &mut factor);
            confirmed(&mut run, 6, factor);
            found(&run).slowdowns.iter().any(|one| one.is_certain())
        };
        let found = (0..runs).filter(is_alarmed).count() as u64;
        println!("{loaded} roles, one {noisier} times as noisy: {found} of {runs} runs have a false alarm");
        assert!(found <= most_of(runs), "{loaded} roles, {noisier}: {found} of {runs}");
    }
}

/// 5 of 100, and three standard errors of the count.
pub(crate) fn most_of(runs: u64) -> u64 {
    let runs = runs as f64;
    (0.05 * runs + 3.0 * (0.05 * 0.95 * runs).sqrt()) as u64
}

#[test]
fn three_roles_that_do_not_slow_each_other_are_accused_in_at_most_one_run_of_twenty() {
    let found = false_alarms(3, 1.0, 1_000);
    assert!(found <= most_of(1_000), "{found} of 1,000");
}

#[test]
fn six_roles_that_do_not_slow_each_other_are_accused_in_at_most_one_run_of_twenty() {
    let found = false_alarms(6, 1.0, 400);
    assert!(found <= most_of(400), "{found} of 400");
}

#[test]
fn a_role_that_makes_the_others_times_scatter_is_accused_in_at_most_one_run_of_twenty() {
    let found = false_alarms(3, 5.0, 1_000);
    assert!(found <= most_of(1_000), "{found} of 1,000");
}

#[test]
fn a_role_that_does_nothing_is_seldom_accused_beside_one_that_slows_all() {
    let innocent = |seed: &u64| {
        let certain = found(&planted(1.0 / 0.7, 0.05, *seed)).slowdowns;
        certain.iter().filter(|one| one.is_certain()).all(|one| one.beside == "hog")
    };
    let accused = 100 - (0..100).filter(innocent).count() as u64;
    assert!(accused <= most_of(100), "{accused} of 100");
}

#[test]
fn a_bad_neighbour_is_certain_among_64_ratios_by_three_repeats() {
    // 1.49 [1.47, 1.52]: the deviation of three repeats is 0.008 on logarithms. The other ratios scatter by a tenth.
    let mut run = roles(&tile_of(8), Backend::Native);
    let mut noise = scattered(0.1, 1);
    for load in run.repeats.iter_mut().flat_map(|repeat| &mut repeat.loads) {
        load.latency_ms.mean = Some(4.0);
    }
    slower(&mut run, |role, beside, block| match (role, beside) {
        ("role0", None) => 1.0,
        ("role0", Some("role7")) => 1.49 * f64::exp(0.008 * (f64::from(block) - 2.0)),
        _ => noise(),
    });
    let found = found(&run);
    assert_eq!(found.slowdowns.len(), 64);
    let bad = found.slowdowns.iter().find(|one| one.role == "role0" && one.beside == "role7").unwrap();
    let figure = bad.slowdown.unwrap();
    assert!(
        (figure.low.unwrap() - 1.46).abs() < 0.005 && (figure.high.unwrap() - 1.52).abs() < 0.005,
        "{bad:?}"
    );
    assert_eq!(bad.certain, Some(true), "{bad:?}");
    assert_eq!(found.worst.as_ref(), Some(bad));
}

/// A repeat of "web alone" was discarded, and measured again in a block of its own.
fn with_one_discarded(mut run: Run) -> Run {
    let is_web_alone = |run: &Run, repeat: &RepeatSummary| {
        let together = run.plan.points[repeat.point].together.as_ref().unwrap();
        together.first == "web" && together.second.is_none()
    };
    let place =
        run.repeats.iter().position(|repeat| is_web_alone(&run, repeat) && repeat.block == 2).unwrap();
    let again = RepeatSummary { repeat: 4, block: 4, ..run.repeats[place].clone() };
    run.repeats[place].host.processor.other = 0.3;
    run.repeats.push(again);
    run
}

#[test]
fn a_repeat_that_was_discarded_and_measured_again_is_compared_with_the_ones_that_lack_it() {
    let judged = with_one_discarded(planted(1.5, 0.01, 1)).judged();
    assert_eq!(judged.points.iter().map(|point| point.repeats_voided.len()).sum::<usize>(), 1);
    let found = judged.interference.unwrap();
    let of_web = found.slowdowns.iter().filter(|one| one.role == "web");
    for figure in of_web.map(|one| one.slowdown.unwrap()) {
        assert!((figure.n_repeats, figure.low.is_some()) == (3, true), "{figure:?}");
    }
    let bad = found.slowdowns.iter().find(|one| one.role == "web" && one.beside == "hog").unwrap();
    assert_eq!(bad.certain, Some(true), "{bad:?}");
    assert_eq!(found.worst.unwrap().beside, "hog");
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict);
}

#[test]
fn a_slowdown_without_three_pairs_is_not_trusted_though_its_point_failed() {
    // One failure is enough to know that web fails beside files; two repeats are not enough for the slowdown of files.
    let mut run = web_ends_beside(planted(1.0, 0.01, 1), "files", 2);
    let pair = run.plan.points.iter().position(|point| point.vary["roles"] == "web + files").unwrap();
    run.repeats.retain(|repeat| repeat.point != pair || repeat.block < 3);
    let judged = run.judged();
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell, "{:?}", judged.verdict);
    let wanted = ["the slowdown of files beside web has no interval: an interval needs 3 pairs of repeats"];
    assert_eq!(judged.verdict.reasons, wanted);
}

#[test]
fn a_slowdown_that_is_not_known_is_not_trusted() {
    // The requests of web fail alone too, so that its times are compared with none.
    let judged = refused(planted(1.0, 0.01, 1), |_| true).judged();
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell, "{:?}", judged.verdict);
    let wanted = "the slowdown of web beside web (and 3 more) is not known: its requests failed alone too: times are not compared";
    assert_eq!(judged.verdict.reasons, [wanted]);
    let sentence = format!(
        "No pair of roles is known to slow each other down (8 slowdowns measured). Cannot tell: {wanted}."
    );
    assert_eq!(judged.sentence, sentence);
}

#[test]
fn a_slowdown_below_one_in_a_hundred_is_not_certain_however_exact() {
    let found = found(&planted(1.005, 0.0001, 1));
    assert!(found.slowdowns.iter().any(|one| one.slowdown.unwrap().low.unwrap() > 1.0), "{found:?}");
    assert!(found.slowdowns.iter().all(|one| one.certain == Some(false)), "{found:?}");
}

/// 40 of 100 requests of the web guest are refused at once where the test says so, and the others take as long as ever.
fn refused(mut run: Run, is_there: impl Fn(Option<&str>) -> bool) -> Run {
    for repeat in &mut run.repeats {
        let together = run.plan.points[repeat.point].together.as_ref().unwrap();
        let pair = [Some(together.first.as_str()), together.second.as_deref()];
        let beside = pair.into_iter().find(|role| *role != Some("web")).flatten();
        for load in repeat.loads.iter_mut().filter(|load| load.name == "web" && is_there(beside)) {
            load.failed = load.offered * 4 / 10;
            load.completed = load.offered - load.failed;
            load.latency_ms.mean = load.latency_ms.mean.map(|mean| 0.6 * mean);
            for guest in &mut load.guests {
                guest.errors = guest.offered * 4 / 10;
                guest.completed = guest.offered - guest.errors;
            }
        }
    }
    run
}

#[test]
fn a_role_whose_requests_fail_beside_another_is_named_first_and_its_times_are_not_compared() {
    let run = refused(planted(1.0, 0.01, 1), |beside| beside == Some("files"));
    let judged = run.judged();
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict);
    let wanted = "web fails beside files: 40 % of its requests failed, 0 % alone. No other pair of roles is known to slow each other \
                  down (11 slowdowns measured).";
    assert_eq!(judged.sentence, wanted);
    let found = judged.interference.unwrap();
    let web = found.slowdowns.iter().find(|one| one.role == "web" && one.beside == "files").unwrap();
    assert_eq!((web.slowdown, web.p, web.certain), (None, None, Some(false)));
    let fails = web.fails.as_ref().unwrap();
    assert_eq!((fails.measure, fails.alone), (GateMeasure::Errors, 0.0));
    assert!((fails.beside - 0.4).abs() < 1e-9, "{fails:?}");
    assert_eq!(found.slowdowns.iter().filter(|one| one.fails.is_some()).count(), 1);
    let reason = &judged.missing["interference.web.files"];
    assert_eq!(reason, "40 % of its requests failed, 0 % alone: times are not compared");
}

#[test]
fn a_role_that_fails_and_one_that_is_slow_are_both_named() {
    let judged = refused(planted(1.5, 0.01, 1), |beside| beside == Some("files")).judged();
    assert!(judged.sentence.starts_with("web fails beside files: 40 % "), "{}", judged.sentence);
    assert!(
        judged.sentence.contains(" 0 % alone. Largest slowdown: beside hog, a request of "),
        "{}",
        judged.sentence
    );
    let certain =
        "3 of 11 slowdowns are certain; the chance that any of them is a false alarm is at most 5 %.";
    assert!(judged.sentence.ends_with(certain), "{}", judged.sentence);
}

#[test]
fn a_role_that_fails_alone_too_does_not_fail_because_of_another_and_has_no_ratio() {
    let judged = refused(planted(1.0, 0.01, 1), |_| true).judged();
    let found = judged.interference.unwrap();
    assert!(found.slowdowns.iter().all(|one| one.fails.is_none()), "{found:?}");
    let of_web = || found.slowdowns.iter().filter(|one| one.role == "web");
    assert!(of_web().count() == 4 && of_web().all(|one| one.slowdown.is_none()), "{found:?}");
    assert_eq!(
        judged.missing["interference.web.idle"],
        "its requests failed alone too: times are not compared"
    );
}

#[test]
fn errors_beside_another_role_are_named_where_demand_was_not_served_alone() {
    let mut run = refused(planted(1.0, 0.01, 1), |beside| beside == Some("files"));
    for repeat in &mut run.repeats {
        let is_alone = run.plan.points[repeat.point].together.as_ref().unwrap().second.is_none();
        for load in repeat.loads.iter_mut().filter(|load| is_alone && load.name == "web") {
            load.completed = load.offered * 9 / 10;
            load.guests.iter_mut().for_each(|guest| guest.completed = guest.offered * 9 / 10);
        }
    }
    let judged = run.judged();
    assert!(
        judged.sentence.starts_with("web fails beside files: 40 % of its requests failed, "),
        "{judged:?}"
    );
    let ratios = judged.interference.unwrap().slowdowns;
    assert_eq!(ratios.iter().filter(|one| one.fails.is_some()).count(), 1, "the others lack none beside");
    assert_eq!(ratios.iter().filter(|one| one.slowdown.is_some()).count(), 11);
}

#[test]
fn demand_that_is_not_served_beside_another_role_is_named() {
    let mut run = planted(1.0, 0.01, 1);
    for repeat in &mut run.repeats {
        let together = run.plan.points[repeat.point].together.as_ref().unwrap();
        let is_pair = together.first == "web" && together.second.as_deref() == Some("hog");
        for load in repeat.loads.iter_mut().filter(|load| is_pair && load.name == "web") {
            load.completed = load.offered * 7 / 10;
            load.guests.iter_mut().for_each(|guest| guest.completed = guest.offered * 7 / 10);
        }
    }
    let sentence = run.judged().sentence;
    let wanted = "web fails beside hog: 30 % of its demand was not served, 0 % alone. ";
    assert!(sentence.starts_with(wanted), "{sentence}");
}

/// The web guest ends beside another role, in one block.
fn web_ends_beside(mut run: Run, role: &str, block: u32) -> Run {
    for repeat in &mut run.repeats {
        let together = run.plan.points[repeat.point].together.as_ref().unwrap();
        if together.first == "web" && together.second.as_deref() == Some(role) && repeat.block == block {
            let guest = repeat.loads.iter().find(|load| load.name == "web").unwrap().guests[0].name.clone();
            let kind = IncidentKind::GuestEnded;
            repeat.incidents.push(Incident { kind, what: "it ended".to_owned(), guest: Some(guest) });
        }
    }
    run
}

#[test]
fn a_guest_that_ends_beside_another_role_is_named() {
    let sentence = web_ends_beside(planted(1.0, 0.01, 1), "hog", 2).judged().sentence;
    let wanted = "web fails beside hog: it ended (1 of 3 repeats), but not when it ran alone. ";
    assert!(sentence.starts_with(wanted), "{sentence}");
}

/// The hog had the host for itself in what was left of such a repeat.
#[test]
fn a_repeat_beside_a_guest_that_ended_does_not_count_for_the_one_that_is_left() {
    let beside_web = |judged: &Judgement| {
        let found = judged.interference.clone().unwrap();
        found.slowdowns.into_iter().find(|one| one.role == "hog" && one.beside == "web").unwrap()
    };
    let once = web_ends_beside(planted(1.0, 0.01, 1), "hog", 2).judged();
    let left = beside_web(&once).slowdown.unwrap();
    assert_eq!((left.n_repeats, left.low), (2, None), "block 2 is left out");
    let ended = (1..=3).fold(planted(1.0, 0.01, 1), |run, block| web_ends_beside(run, "hog", block)).judged();
    let none = beside_web(&ended);
    assert_eq!((none.slowdown, none.fails), (None, None));
    assert_eq!(ended.missing["interference.hog.web"], "web ended in 3 of 3 repeats");
    assert_eq!(ended.verdict.status, VerdictStatus::CannotTell);
    let doubt = "Cannot tell: the slowdown of hog beside web is not known: web ended in 3 of 3 repeats.";
    assert!(ended.sentence.ends_with(doubt), "{}", ended.sentence);
}

/// Changes the repeats of a pair of roles in these blocks.
fn in_pair(mut run: Run, pair: &str, blocks: &[u32], change: impl Fn(&mut RepeatSummary)) -> Run {
    let point = run.plan.points.iter().position(|point| point.vary["roles"] == pair).unwrap();
    let of_pair = run.repeats.iter_mut().filter(|repeat| repeat.point == point);
    of_pair.filter(|repeat| blocks.contains(&repeat.block)).for_each(change);
    run
}

#[test]
fn a_guest_without_a_load_that_ends_and_a_host_that_swaps_fail_both_roles_of_a_pair() {
    let idle_ends = |repeat: &mut RepeatSummary| {
        let (kind, what) = (IncidentKind::GuestEnded, "it ended".to_owned());
        repeat.incidents.push(Incident { kind, what, guest: Some("tile-001-idle".to_owned()) });
    };
    let judged = in_pair(planted(1.0, 0.01, 1), "web + idle", &[1, 2, 3], idle_ends).judged();
    let wanted = "web fails beside idle: idle in tile 1: it ended (3 of 3 repeats), but not when it ran alone. No other pair ";
    assert!(judged.sentence.starts_with(wanted), "{}", judged.sentence);

    let swaps = |repeat: &mut RepeatSummary| repeat.host.swapped_pages = Some(500_000);
    let judged = in_pair(planted(1.0, 0.01, 1), "web + files", &[2], swaps).judged();
    let wanted = "web fails beside files: the host swapped 500000 pages (1 of 3 repeats), but not when it ran alone. No other pair ";
    let either = [wanted.to_owned(), wanted.replacen("web fails beside files", "files fails beside web", 1)];
    assert!(either.iter().any(|wanted| judged.sentence.starts_with(wanted)), "{}", judged.sentence);
    let failing = judged.interference.unwrap().slowdowns.into_iter().filter(|one| one.fails.is_some());
    let failing: Vec<(String, Option<f64>)> =
        failing.map(|one| (one.role, one.slowdown.map(|figure| figure.value))).collect();
    assert_eq!(failing, [("web".to_owned(), None), ("files".to_owned(), None)]);

    let alone_too = in_pair(planted(1.0, 0.01, 1), "web alone", &[1], swaps);
    let judged = in_pair(alone_too, "web + files", &[2], swaps).judged();
    let found = judged.interference.unwrap().slowdowns;
    let fail = |role: &str| found.iter().any(|one| one.role == role && one.fails.is_some());
    assert!(fail("files") && !fail("web"), "the host swapped beside web alone too: {found:?}");
    let reason = "the host swapped 500000 pages (1 of 3 repeats), where it was alone: times are not compared";
    assert_eq!(judged.missing["interference.web.files"], reason);
}

#[test]
fn a_closed_loop_without_an_answer_or_an_error_is_named() {
    let starved = |repeat: &mut RepeatSummary| {
        for load in repeat.loads.iter_mut().filter(|load| load.name == "files") {
            // A closed loop sends its next request when it is answered.
            (load.offered, load.completed, load.latency_ms) = (0, 0, LatencyMs::default());
            for guest in &mut load.guests {
                (guest.offered, guest.completed, guest.latency_ms) = (0, 0, LatencyMs::default());
            }
        }
    };
    for (blocks, had) in [(&[1, 2, 3][..], "3 of 3"), (&[2][..], "1 of 3")] {
        let judged = in_pair(planted(1.0, 0.01, 1), "files + hog", blocks, starved).judged();
        let wanted = format!(
            "files fails beside hog: no request was answered in time ({had} repeats), but not when it ran alone. "
        );
        assert!(judged.sentence.starts_with(&wanted), "{}", judged.sentence);
        assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict);
    }
}

#[test]
fn a_guest_that_ended_is_named_before_requests_that_failed() {
    let run = refused(planted(1.0, 0.01, 1), |beside| beside == Some("files"));
    let sentence = web_ends_beside(run, "hog", 2).judged().sentence;
    let wanted =
        "web fails beside hog: it ended (1 of 3 repeats), but not when it ran alone. 1 more pair fails. ";
    assert!(sentence.starts_with(wanted), "a repeat of three comes before 40 % of the requests: {sentence}");
}

#[test]
fn the_sentence_names_the_worst_pair_and_the_verdict_is_of_all_points() {
    let run = planted(1.5, 0.01, 3);
    let judged = run.judged();
    assert!(judged.sentence.starts_with("Worst pair: beside hog, a request of web "), "{}", judged.sentence);
    assert!(judged.sentence.contains(" as long as alone. "), "{}", judged.sentence);
    let certain =
        " 3 of 12 slowdowns are certain; the chance that any of them is a false alarm is at most 5 %.";
    assert!(judged.sentence.ends_with(certain), "{}", judged.sentence);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict);
    let none = planted(1.0, 0.0, 1).judged();
    assert!(none.sentence.starts_with("No pair of roles is known to slow"), "{}", none.sentence);
    let few = planted(1.5, 0.01, 3).without(|repeat, _| repeat.block == 3).judged();
    assert_eq!(few.verdict.status, VerdictStatus::CannotTell, "{:?}", few.verdict);
    assert!(few.missing.keys().any(|key| key.starts_with("interference.web.")), "{:?}", few.missing);
}
