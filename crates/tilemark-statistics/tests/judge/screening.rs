//! Which settings pay, from a whole screening whose effects are known: the design, then what is confirmed.

use crate::run::{CLOSED, COMMAND, FIGURE, Run, SCENARIO, latency, quiet, screened};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use tilemark_plan::{
    plan::Backend,
    resolve::passes,
    screening::{LeftOut, Screened, ScreenedSetting, Screening},
};
use tilemark_record::{
    result::{self, SettingOutcome, VerdictStatus},
    summary::{Incident, IncidentKind, RepeatSummary},
};
use tilemark_statistics::{SCREENING_LEVEL, judge::to_confirm, runs_one_at_a_time};

/// Scatter of a repeat, on logarithms: of throughput, and of p99.
const SCATTER: [f64; 2] = [0.02, 0.1];

fn eleven() -> Screening {
    let setting = |number: u32| ScreenedSetting {
        key: format!("setting.{number}"),
        value: "1".to_owned(),
        found: Some("0".to_owned()),
        claim: (number == 4).then(|| "the paper: 8 % more".to_owned()),
    };
    Screening {
        profile: "p".to_owned(),
        settings: (0..11).map(setting).collect(),
        left_out: vec![LeftOut { key: "gone".to_owned(), why: "it is gone".to_owned() }],
        rows: 12,
        pairs: 12,
    }
}

/// A setting that changes throughput, or the figure of a command, by this share, and p99 by its inverse.
type Planted = (&'static str, f64);

/// Gives a repeat what is set in its point, and scatter.
fn change(run: &Run, repeat: &mut RepeatSummary, planted: &[Planted], random: &mut ChaCha8Rng) {
    let set = &run.plan.points[repeat.point].host.setting;
    let own: f64 = planted.iter().filter(|(key, _)| set.contains_key(*key)).map(|(_, by)| by.ln_1p()).sum();
    let [of_rate, of_tail] = SCATTER.map(|deviation| Normal::new(0.0, deviation).unwrap().sample(random));
    let load = &mut repeat.loads[0];
    if let Some(figure) = &mut load.figure {
        figure.value = FIGURE * (own + of_rate).exp();
        return;
    }
    load.seconds = 20.0 / (own + of_rate).exp();
    load.latency_ms = latency(load.latency_ms.n, 20.0 * (of_tail - own).exp());
}

/// The design, measured; then what it found confirmed.
fn tried(planted: &[Planted], seed: u64) -> Run {
    tried_on(CLOSED, planted, seed)
}

fn tried_on(text: &str, planted: &[Planted], seed: u64) -> Run {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut run = screened(text, eleven(), 2);
    let mut repeats = run.repeats.clone();
    repeats.iter_mut().for_each(|repeat| change(&run, repeat, planted, &mut random));
    run.repeats = repeats;
    confirm(&mut run, planted, &mut random);
    run
}

fn confirm(run: &mut Run, planted: &[Planted], random: &mut ChaCha8Rng) {
    let found = to_confirm(&run.plan, &run.repeats);
    if found.real.is_empty() {
        return;
    }
    let first = run.plan.points.len();
    for (screened, host) in eleven().confirming(&found.real, &found.paid) {
        let point = run.plan.point_to_confirm(run.plan.points.len(), screened, host, 12);
        run.plan.points.push(point);
    }
    for pass in passes(&run.plan.points[first..], 1) {
        let mut repeat = quiet(&run.plan.points[pass.point], pass.repeat, pass.block);
        change(run, &mut repeat, planted, random);
        run.repeats.push(repeat);
    }
}

fn found(run: &Run) -> result::Screening {
    run.judged().screening.unwrap()
}

fn keys(found: &result::Screening, outcome: SettingOutcome) -> Vec<&str> {
    found.of(outcome).map(|setting| setting.key.as_str()).collect()
}

#[test]
fn a_setting_that_slows_the_load_by_5_percent_is_found_19_times_of_20_in_a_quarter_of_the_runs() {
    const TRIES: u64 = 60;
    for planted in [vec![("setting.4", -0.05)], vec![("setting.0", -0.05), ("setting.10", -0.05)]] {
        let (mut all_found, mut with_others, mut runs) = (0, 0, 0);
        for seed in 0..TRIES {
            let run = tried(&planted, seed);
            let found = found(&run);
            let harm = keys(&found, SettingOutcome::Harms);
            all_found += u64::from(planted.iter().all(|(key, _)| harm.contains(key)));
            let named = found.settings.iter().filter(|setting| {
                matches!(setting.outcome, SettingOutcome::Harms | SettingOutcome::Pays)
                    && planted.iter().all(|(key, _)| *key != setting.key)
            });
            with_others += u64::from(named.count() > 0);
            runs += run.repeats.len();
        }
        assert!(all_found * 20 >= TRIES * 19, "{planted:?}: {all_found} of {TRIES}");
        assert!(
            (with_others as f64) <= SCREENING_LEVEL * TRIES as f64,
            "{planted:?}: others in {with_others}"
        );
        let each = runs as f64 / TRIES as f64;
        assert!(4.0 * each <= runs_one_at_a_time(24, 11) as f64, "{each} runs");
    }
}

/// Nothing of its speed changes.
#[test]
fn a_setting_with_which_requests_fail_is_confirmed_and_harms() {
    let mut run = tried(&[], 7);
    let fail = |run: &mut Run| {
        for repeat in &mut run.repeats {
            let is_on = run.plan.points[repeat.point].host.setting.contains_key("setting.3");
            repeat.loads[0].failed = if is_on { repeat.loads[0].completed / 50 } else { 0 };
        }
    };
    fail(&mut run);
    let before = found(&run);
    let of = |found: &result::Screening| found.settings[3].clone();
    assert_eq!(of(&before).outcome, SettingOutcome::CannotTell, "fails by the design, in no effect");
    assert_eq!(to_confirm(&run.plan, &run.repeats).real, ["setting.3"]);
    confirm(&mut run, &[], &mut ChaCha8Rng::seed_from_u64(7));
    fail(&mut run);
    let judged = run.judged();
    let after = judged.screening.unwrap();
    assert_eq!(of(&after).outcome, SettingOutcome::Harms);
    assert!(after.settings.iter().all(|other| other.key == "setting.3" || other.failures.is_empty()));
    let wanted = "1 harms: setting.3 = 1 (errors of disk: 2 % with it, 0 % without)";
    assert!(judged.sentence.contains(wanted), "{}", judged.sentence);
}

#[test]
fn of_settings_that_do_nothing_none_is_named_more_often_than_stated() {
    const TRIES: u64 = 60;
    let is_named = |seed: &u64| {
        let run = tried(&[], *seed);
        let found = found(&run);
        !keys(&found, SettingOutcome::Pays).is_empty() || !keys(&found, SettingOutcome::Harms).is_empty()
    };
    let named = (0..TRIES).filter(is_named).count();
    assert!(named as f64 <= SCREENING_LEVEL * TRIES as f64, "{named} of {TRIES}");
}

#[test]
fn what_pays_is_measured_alone_and_all_that_paid_together_and_the_sentence_names_it() {
    let run = tried(&[("setting.2", 0.08), ("setting.4", 0.06), ("setting.7", -0.06)], 3);
    let judged = run.judged();
    let found = judged.screening.clone().unwrap();
    assert_eq!(keys(&found, SettingOutcome::Pays), ["setting.2", "setting.4"]);
    assert_eq!(keys(&found, SettingOutcome::Harms), ["setting.7"]);
    assert_eq!(found.together_of, ["setting.2", "setting.4"]);
    let together = found.together[0].change.unwrap();
    assert!(together.low.unwrap() < 0.1448 && together.high.unwrap() > 0.1448, "8 % and 6 %: {together:?}");
    let of = |key: &str| found.settings.iter().find(|setting| setting.key == key).unwrap();
    assert_eq!(of("setting.4").claim.as_deref(), Some("the paper: 8 % more"));
    assert!(!of("setting.4").confirmed.is_empty() && of("setting.5").confirmed.is_empty());
    let none = of("setting.5");
    assert!(none.screened[0].none_above().unwrap() < 0.03, "{none:?}");
    assert!(
        judged.sentence.starts_with("Of 11 settings, 2 pay: setting.2 = 1 (throughput +"),
        "{}",
        judged.sentence
    );
    assert!(judged.sentence.contains("1 harms: setting.7 = 1"), "{}", judged.sentence);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict);
    let none_because = judged.answer.none_because.unwrap();
    assert!(none_because.starts_with("settings of the host were screened at one step"), "{none_because}");
    assert_eq!(found.left_out[0].key, "gone");
}

/// Ten more repeats with nothing set, and as many of another point, which are discarded.
fn discard_beside_nothing(run: &mut Run, lossy: &Screened) {
    for screened in [&Screened::Nothing, lossy] {
        let point = run.plan.points.iter().find(|point| point.screened.as_ref() == Some(screened)).unwrap();
        let again = (13..=22).map(|block| quiet(point, block, block));
        run.repeats.extend(again.map(|mut repeat| {
            repeat.host.processor.other = if screened == lossy { 0.3 } else { 0.0 };
            repeat
        }));
    }
}

#[test]
fn what_settings_do_together_is_not_known_where_more_of_their_repeats_are_discarded() {
    let mut run = tried(&[("setting.2", 0.08), ("setting.4", 0.06)], 3);
    assert!(!found(&run).together.is_empty() && !run.judged().missing.contains_key("screening.together"));
    discard_beside_nothing(&mut run, &Screened::Together);
    let judged = run.judged();
    assert!(judged.screening.as_ref().unwrap().together.is_empty());
    let why = &judged.missing["screening.together"];
    let wanted = "45 % of the repeats with all these settings were discarded, 0 % of those with nothing set";
    assert_eq!(why, wanted);
}

#[test]
fn a_load_that_reports_no_latency_is_screened_by_what_it_gets_done() {
    let mut run = tried(&[("setting.2", 0.08)], 3);
    for load in run.repeats.iter_mut().flat_map(|repeat| &mut repeat.loads) {
        load.latency_ms = latency(0, 0.0);
    }
    let found = found(&run);
    assert_eq!(keys(&found, SettingOutcome::Pays), ["setting.2"]);
    assert!(keys(&found, SettingOutcome::NoEffect).len() > 5, "{found:?}");
    let mut screened = found.settings.iter().flat_map(|setting| &setting.screened);
    assert!(screened.all(|effect| effect.measure == "throughput"));
}

/// The repeats with it that are left may be the lucky ones.
#[test]
fn a_setting_under_which_more_repeats_are_discarded_than_by_chance_is_not_known_to_pay() {
    let mut run = tried(&[("setting.2", 0.08)], 3);
    assert_eq!(keys(&found(&run), SettingOutcome::Pays), ["setting.2"]);
    discard_beside_nothing(&mut run, &Screened::Alone("setting.2".to_owned()));
    let judged = run.judged();
    let found = judged.screening.unwrap();
    let lost = &found.settings[2];
    assert_eq!(lost.outcome, SettingOutcome::CannotTell, "{lost:?}");
    let failure = &lost.failures[0];
    assert_eq!((failure.name.as_str(), failure.a), ("repeats that were discarded", 0.0));
    assert!((failure.b - 10.0 / 22.0).abs() < 1e-9 && failure.p.unwrap() < 0.01, "{failure:?}");
    let wanted =
        "setting.2 = 1 is undecided: 45 % of the repeats with it were discarded, 0 % of those without it.";
    assert!(judged.sentence.contains(wanted), "{}", judged.sentence);
}

#[test]
fn a_setting_that_raises_a_figure_that_is_better_when_lower_harms() {
    let judged = tried_on(COMMAND, &[("setting.4", 1.0), ("setting.7", -0.2)], 3).judged();
    let found = judged.screening.as_ref().unwrap();
    assert_eq!(keys(found, SettingOutcome::Harms), ["setting.4"], "{}", judged.sentence);
    assert_eq!(keys(found, SettingOutcome::Pays), ["setting.7"], "{}", judged.sentence);
    assert!(judged.sentence.contains("1 pays: setting.7 = 1 (figure -"), "{}", judged.sentence);
    assert!(judged.sentence.contains("1 harms: setting.4 = 1 (figure +"), "{}", judged.sentence);
    let mut screened = found.settings.iter().flat_map(|setting| &setting.screened);
    assert!(screened.all(|effect| effect.measure == "figure"));
}

#[test]
fn an_effect_that_is_not_there_alone_is_not_known() {
    let mut random = ChaCha8Rng::seed_from_u64(5);
    let mut run = screened(CLOSED, eleven(), 2);
    let mut repeats = run.repeats.clone();
    repeats.iter_mut().for_each(|repeat| change(&run, repeat, &[("setting.3", 0.08)], &mut random));
    run.repeats = repeats;
    let before = found(&run);
    assert_eq!(before.settings[3].outcome, SettingOutcome::CannotTell, "it is not confirmed yet");
    confirm(&mut run, &[], &mut random);
    let after = found(&run);
    assert!(!after.settings[3].confirmed.is_empty());
    assert_ne!(after.settings[3].outcome, SettingOutcome::Pays);
}

#[test]
fn an_open_loop_is_judged_by_its_latency_too_and_a_discarded_repeat_costs_its_pair_only() {
    let mut run = screened(SCENARIO, eleven(), 2);
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let noise = Normal::new(0.0, 0.01).unwrap();
    let points = run.plan.points.clone();
    for repeat in &mut run.repeats {
        let slow = if points[repeat.point].host.setting.contains_key("setting.6") { 1.2 } else { 1.0 };
        for load in &mut repeat.loads {
            load.latency_ms = latency(load.latency_ms.n, 20.0 * slow * f64::exp(noise.sample(&mut random)));
        }
    }
    let lost =
        Incident { kind: IncidentKind::Unproven, what: "setting.1 was changed".to_owned(), guest: None };
    run.repeats[3].incidents.push(lost);
    let found = found(&run);
    let measures: Vec<&str> =
        found.settings[6].screened.iter().map(|effect| effect.measure.as_str()).collect();
    assert_eq!(measures, ["throughput", "p50", "p99"]);
    let p50 = &found.settings[6].screened[1];
    assert!((p50.change.unwrap().value - 0.2).abs() < 0.02 && p50.p.unwrap() < 0.001, "{p50:?}");
    assert_eq!(p50.change.unwrap().n_repeats, 23, "24 pairs less one");
    assert_eq!(found.repeats, 47);
    assert_eq!(to_confirm(&run.plan, &run.repeats).real, ["setting.6"]);
    assert!(to_confirm(&run.plan, &run.repeats).paid.is_empty(), "it is slower");
}

#[test]
fn an_emulator_and_too_few_repeats_say_nothing() {
    let mut run = screened(CLOSED, eleven(), 2);
    run.plan.points.iter_mut().for_each(|point| point.backend = Backend::Emulated);
    run.repeats.iter_mut().for_each(|repeat| repeat.backend = Backend::Emulated);
    let judged = run.judged();
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert!(judged.verdict.reasons[0].contains("emulator"), "{:?}", judged.verdict);
    let few = screened(CLOSED, eleven(), 1);
    let judged = few.judged();
    assert!(judged.missing["screening.throughput"].contains("too few"), "{:?}", judged.missing);
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    let named = |point: &tilemark_plan::plan::Point| matches!(point.screened, Some(Screened::Row { .. }));
    assert!(few.plan.points.iter().all(named) && few.plan.points.len() == 24);
}
