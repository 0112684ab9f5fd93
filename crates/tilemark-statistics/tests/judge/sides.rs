//! Two sides in turn, and two records.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tilemark_plan::plan::{Backend, Hardware, SideName};
use tilemark_record::result::{ComparisonOutcome, VerdictStatus};
use tilemark_record::summary::{Incident, IncidentKind, RepeatSummary};
use tilemark_statistics::judge::{
    Judgement, OtherRuns, RecordComparison, RunRepeats, compare_records, compare_runs, compare_with_first,
};
use tilemark_statistics::{ExitVerdict, Tolerance};

use crate::run::{CLOSED, Run, SCENARIO, all_slow, ladder, of_scenario, sides, sides_at};
use crate::truth::with_requests;

const A: &[(&str, &str)] = &[("qemu.machine", "pc")];
const B: &[(&str, &str)] = &[("qemu.machine", "q35")];

/// B answers so many times as slowly in the median, and takes as much more processor time.
fn slower(factor: f64) -> impl Fn(&mut RepeatSummary) {
    move |repeat| {
        repeat.host.processor.guest_work *= factor;
        for load in &mut repeat.loads {
            load.latency_ms.p50 = load.latency_ms.p50.map(|p50| p50 * factor);
        }
    }
}

fn open_loop(repeats: u32, factor: f64) -> Run {
    sides(SCENARIO, repeats, A, B).on(SideName::B, slower(factor))
}

#[test]
fn a_slower_side_is_called_worse_with_its_change_and_the_only_thing_that_differs() {
    let judged = open_loop(12, 1.061).judged();
    let comparison = judged.comparison.as_ref().unwrap();
    assert_eq!(comparison.outcome, ComparisonOutcome::Worse);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict.reasons);
    let keys: Vec<&str> = comparison.differences.iter().map(|difference| difference.key.as_str()).collect();
    assert_eq!(keys, ["qemu.machine"]);
    let median = &comparison.measures[0];
    assert!(median.primary && !median.more_is_better && median.name == "steady p50 at 1 tile");
    assert!((median.change.value - 0.061).abs() < 0.005 && median.change.n_repeats == 12);
    assert!(
        judged.sentence.starts_with("B is worse than A in steady p50 at 1 tile: +6."),
        "{}",
        judged.sentence
    );
    assert!(
        judged.sentence.ends_with(", 12 pairs. Only qemu.machine differs: pc (A), q35 (B)."),
        "{}",
        judged.sentence
    );
    assert_eq!(judged.exit_verdict(0.03), ExitVerdict::Worse);
    assert_eq!(judged.exit_verdict(0.10), ExitVerdict::NoWorse);
}

#[test]
fn a_faster_side_is_called_better() {
    let judged = open_loop(12, 0.9).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::Better);
    assert!(
        judged.sentence.starts_with("B is better than A in steady p50 at 1 tile: −10"),
        "{}",
        judged.sentence
    );
    assert_eq!(judged.exit_verdict(0.01), ExitVerdict::NoWorse);
    assert_eq!(judged.exit_verdict(0.0), ExitVerdict::CannotTell, "p99 may be a little worse");
}

#[test]
fn equal_sides_are_equivalent_within_their_margins() {
    let judged = open_loop(12, 1.0).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::NoDifference);
    assert!(
        judged.sentence.starts_with(
            "No difference between A and B: every measure lies within its margin. The least certain is "
        ),
        "{}",
        judged.sentence
    );
    assert!(judged.sentence.contains(", 12 pairs, within the margin of "), "{}", judged.sentence);
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::NoWorse);
}

#[test]
fn five_pairs_cannot_reach_one_in_a_hundred_and_say_so() {
    let judged = open_loop(5, 2.0).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::CannotTell);
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert!(
        judged.verdict.reasons[0].contains("p < 0.0033 is not possible with so few"),
        "{:?}",
        judged.verdict.reasons
    );
    assert!(judged.sentence.contains("use 10 pairs; to fix: more repeats"), "{}", judged.sentence);
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::CannotTell);
}

#[test]
fn a_block_that_lost_a_side_is_left_out_whole() {
    let run = open_loop(13, 1.2).on(SideName::A, |repeat| {
        if repeat.repeat == 4 {
            repeat.host.processor.steal = 0.5;
        }
    });
    let comparison = run.judged().comparison.unwrap();
    assert_eq!(comparison.measures[0].change.n_repeats, 12);
    assert_eq!(comparison.outcome, ComparisonOutcome::Worse);
}

#[test]
fn sides_whose_repeats_were_mostly_discarded_neither_accuse_nor_acquit() {
    let run = sides(SCENARIO, 20, A, B).on(SideName::B, slower(1.5)).on(SideName::B, |repeat| {
        if repeat.repeat > 8 {
            repeat.host.processor.steal = 0.3;
        }
    });
    let judged = run.judged();
    assert_eq!(judged.verdict.status, VerdictStatus::NotTrusted);
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::CannotTell);
}

#[test]
fn a_side_that_lost_every_repeat_needs_a_quiet_host_and_not_more_repeats() {
    let judged = |other: f64, busy: f64| {
        let run = sides(SCENARIO, 8, A, B).on(SideName::A, |repeat| {
            repeat.host.processor.other = other;
            repeat.loads[0].sender_busy.max_fraction = busy;
        });
        run.judged().sentence
    };
    let busy = judged(0.3, 0.1);
    assert!(
        busy.contains("all 8 repeats of A were discarded, the first because: other programs used 30.0 %"),
        "{busy}"
    );
    assert!(
        busy.contains("to fix: measure on a quiet host") && busy.contains("`--wait-quiet 10m`"),
        "{busy}"
    );
    let late = judged(0.0, 0.95);
    assert!(late.contains("to fix: remove the cause first"), "{late}");
    assert!(!busy.contains("measure.repeats=") && !late.contains("measure.repeats="));
}

#[test]
fn a_closed_loop_is_compared_by_what_it_gets_done() {
    let run = sides(CLOSED, 12, A, B).on(SideName::B, |repeat| {
        repeat.loads[0].seconds /= 0.94;
    });
    let judged = run.judged();
    let first = &judged.comparison.as_ref().unwrap().measures[0];
    assert_eq!(
        (first.name.as_str(), first.primary, first.more_is_better),
        ("disk throughput at 1 tile", true, true)
    );
    assert_eq!(first.outcome, ComparisonOutcome::Worse);
    assert!(judged.sentence.contains("disk throughput at 1 tile: −6."), "{}", judged.sentence);
}

#[test]
fn no_cause_is_named_where_several_things_differ() {
    let b = &[("qemu.machine", "q35"), ("guest.web.memory", "512MiB")];
    let judged = sides(SCENARIO, 12, A, b).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().differences.len(), 2);
    assert!(judged.sentence.contains("2 things differ, so no cause is named: "), "{}", judged.sentence);
}

#[test]
fn what_differs_between_sides_has_the_keys_that_were_typed_and_both_values() {
    let a = &[("guest.web.vcpus", "2"), ("host.setting.ksm", "off"), ("measure.start", "boot")];
    let run = sides(SCENARIO, 12, a, &[("measure.start", "boot")]);
    let differences = |run: &Run| {
        let found = run.judged().comparison.unwrap().differences.into_iter();
        found.map(|found| format!("{}: {}, {}", found.key, found.a, found.b)).collect::<Vec<_>>()
    };
    assert_eq!(differences(&run), ["guest.web.vcpus: 2, 1", "host.setting.ksm: off, not set"]);
    let only = sides(SCENARIO, 12, &[("load.steady.rate", "300/s")], &[]).judged();
    assert!(
        only.sentence.ends_with(" Only load.steady.rate differs: 300/s (A), 200/s (B)."),
        "{}",
        only.sentence
    );
    // A plan from before it kept what was typed.
    let mut plan = serde_json::to_value(&run.plan).unwrap();
    plan.as_object_mut().unwrap().remove("sides").unwrap();
    let older = Run { plan: serde_json::from_value(plan).unwrap(), ..run };
    let keys = differences(&older);
    assert!(keys.iter().any(|found| found == "guests.vcpus: 2, 1"), "{keys:?}");
}

#[test]
fn at_most_three_measures_decide_and_the_rest_is_corrected() {
    let comparison = open_loop(12, 1.0).judged().comparison.unwrap();
    let deciding: Vec<bool> = comparison.measures.iter().map(|measure| measure.primary).collect();
    assert_eq!(deciding, [true, true, true, false]);
}

#[test]
fn two_sides_are_no_capacity() {
    let judged = open_loop(12, 1.0).judged();
    assert_eq!(judged.answer.holds, None);
    assert!(judged.answer.none_because.as_ref().unwrap().contains("two sides"));
}

/// A ladder with so many repeats.
fn run_of(repeats: u32, tiles: &[u32]) -> Run {
    of_scenario(&SCENARIO.replace("repeats = 5", &format!("repeats = {repeats}")), tiles)
}

#[test]
fn two_runs_without_a_step_in_common_say_why_and_not_that_they_are_the_same() {
    let (a, b) = (run_of(6, &[1, 2]), run_of(4, &[4]));
    for more in 1..=3 {
        let [of_a, of_b] =
            [&a, &b].map(|run| vec![RunRepeats { plan: &run.plan, repeats: &run.repeats }; more]);
        let found = compare_runs(&of_a, &of_b, Vec::new(), Vec::new());
        let sentence = &found.comparison.sentence;
        assert!(
            sentence.starts_with("No answer: no step was measured on both sides; to fix: "),
            "{sentence}"
        );
        for differs in ["tiles", "measure.repeats"] {
            let has_it = found.comparison.differences.iter().any(|difference| difference.key == differs);
            assert!(has_it && sentence.contains(differs), "{differs}: {sentence}");
        }
    }
}

#[test]
fn two_single_runs_differ_at_most_between_themselves_and_neither_accuse_nor_acquit() {
    let a = run_of(6, &[1, 2]);
    let mut b = run_of(6, &[2, 4]).at(2, slower(1.2));
    b.plan.host.kernel = "6.12".to_owned();
    let found = compare_records(&a.plan, &a.repeats, &b.plan, &b.repeats, Vec::new());
    let (comparison, sentence) = (&found.comparison, &found.comparison.sentence);
    assert_eq!(comparison.outcome, ComparisonOutcome::DiffersBetweenRuns, "{:?}", comparison.measures);
    assert!(comparison.measures.iter().all(|measure| measure.name.ends_with("at 2 tiles")));
    assert_eq!(found.verdict.status, VerdictStatus::Trusted, "{:?}", found.verdict.reasons);
    assert!(sentence.starts_with("These two runs differ in steady p50 at 2 tiles: +20"), "{sentence}");
    assert!(
        sentence.contains("Two runs of the same configuration also differ")
            && sentence.ends_with("Only host.kernel differs: 6.1 (A), 6.12 (B)."),
        "{sentence}"
    );
    assert_eq!(found.exit_verdict(0.05), ExitVerdict::CannotTell);
    let alike = compare_records(&a.plan, &a.repeats, &a.plan, &a.repeats, Vec::new());
    assert_eq!(alike.comparison.outcome, ComparisonOutcome::CannotTell);
    assert_eq!(alike.exit_verdict(0.05), ExitVerdict::CannotTell);
}

/// So many runs, each with a level of its own.
fn runs(count: u32, factor: f64) -> Vec<Run> {
    (0..count)
        .map(|run| run_of(5, &[1]).at(1, slower(factor * (1.0 + 0.002 * f64::from(run * 3 % 5)))))
        .collect()
}

fn compared_runs(a: &[Run], b: &[Run]) -> RecordComparison {
    fn side(runs: &[Run]) -> Vec<RunRepeats<'_>> {
        runs.iter().map(|run| RunRepeats { plan: &run.plan, repeats: &run.repeats }).collect()
    }
    compare_runs(&side(a), &side(b), Vec::new(), Vec::new())
}

fn compared_with_first(a: &[Run], others: &[&[Run]]) -> Vec<RecordComparison> {
    fn side(runs: &[Run]) -> Vec<RunRepeats<'_>> {
        runs.iter().map(|run| RunRepeats { plan: &run.plan, repeats: &run.repeats }).collect()
    }
    let others =
        others.iter().map(|runs| OtherRuns { runs: side(runs), made_with: Vec::new(), unlike: Vec::new() });
    compare_with_first(&side(a), others.collect())
}

#[test]
fn several_sides_are_each_compared_with_the_first_and_p_is_corrected_over_all_of_them() {
    let (a, same, slow) = (runs(8, 1.0), runs(8, 1.0), runs(8, 1.2));
    let alone = compared_runs(&a, &slow);
    let found = compared_with_first(&a, &[&same, &slow]);
    let outcomes: Vec<ComparisonOutcome> = found.iter().map(|one| one.comparison.outcome).collect();
    assert_eq!(outcomes, [ComparisonOutcome::NoDifference, ComparisonOutcome::Worse]);
    let p = |of: &RecordComparison| of.comparison.measures[0].p.unwrap();
    assert!((p(&found[1]) / p(&alone) - 2.0).abs() < 1e-9, "{} alone, {} of two", p(&alone), p(&found[1]));
    // Six runs a side are enough for one comparison, and not for two: 2 of 924 times 6 measures is above 1 %.
    let (a, slow) = (runs(6, 1.0), runs(6, 1.2));
    assert_eq!(compared_runs(&a, &slow).comparison.outcome, ComparisonOutcome::Worse);
    let found = compared_with_first(&a, &[&slow, &slow]);
    assert!(found.iter().all(|one| one.comparison.outcome == ComparisonOutcome::CannotTell));
}

#[test]
fn a_comparison_has_the_values_of_both_sides_in_the_unit_of_the_measure() {
    let judged = open_loop(12, 1.5).judged();
    let measure = &judged.comparison.as_ref().unwrap().measures[0];
    let (a, b) = (measure.a.unwrap(), measure.b.unwrap());
    assert_eq!(measure.unit.as_deref(), Some("ms"));
    assert!((a - 20.0 / 6.0).abs() < 0.02 && (b / a - 1.5).abs() < 0.01, "{a} {b}");
}

#[test]
fn with_six_runs_a_side_the_run_is_the_unit_and_decides() {
    let found = compared_runs(&runs(6, 1.0), &runs(6, 1.2));
    assert_eq!(found.comparison.outcome, ComparisonOutcome::Worse, "{}", found.comparison.sentence);
    assert_eq!(found.comparison.measures[0].change.n_repeats, 6);
    assert!(found.comparison.sentence.contains(", 6 runs a side."), "{}", found.comparison.sentence);
    assert_eq!(found.exit_verdict(0.05), ExitVerdict::Worse);
    let alike = compared_runs(&runs(6, 1.0), &runs(6, 1.0));
    assert_eq!(alike.comparison.outcome, ComparisonOutcome::NoDifference, "{}", alike.comparison.sentence);
    assert_eq!(alike.exit_verdict(0.05), ExitVerdict::NoWorse);
}

#[test]
fn three_runs_a_side_can_acquit_and_say_how_many_could_accuse() {
    let alike = compared_runs(&runs(3, 1.0), &runs(3, 1.0));
    assert_eq!(alike.exit_verdict(0.05), ExitVerdict::NoWorse, "{}", alike.comparison.sentence);
    let slower = compared_runs(&runs(3, 1.0), &runs(3, 1.2));
    assert_eq!(slower.comparison.outcome, ComparisonOutcome::CannotTell);
    assert!(slower.comparison.sentence.contains("use 6 repeats a side"), "{}", slower.comparison.sentence);
    assert_eq!(slower.exit_verdict(0.05), ExitVerdict::CannotTell);
    let two = compared_runs(&runs(2, 1.0), &runs(2, 1.2));
    assert_eq!(two.comparison.outcome, ComparisonOutcome::CannotTell);
    assert!(two.comparison.sentence.contains("2 runs a side: at least"));
}

#[test]
fn runs_of_one_side_that_are_not_alike_are_no_repetitions() {
    let mut a = runs(6, 1.0);
    a[3].plan.host.kernel = "6.12".to_owned();
    let found = compared_runs(&a, &runs(6, 1.2));
    assert_eq!(found.comparison.outcome, ComparisonOutcome::CannotTell);
    assert!(
        found.comparison.sentence.contains("not alike: host.kernel differ"),
        "{}",
        found.comparison.sentence
    );
}

/// So large a part of the requests of every load fails at once.
fn failing(part: f64) -> impl Fn(&mut RepeatSummary) {
    move |repeat| {
        for load in &mut repeat.loads {
            load.failed = (part * load.offered as f64) as u64;
            load.completed = load.offered - load.failed;
            for guest in &mut load.guests {
                guest.errors = (part * guest.offered as f64) as u64;
                guest.completed = guest.offered - guest.errors;
            }
        }
    }
}

#[test]
fn a_side_that_fails_quickly_is_worse_however_fast_it_is() {
    let run = open_loop(12, 0.8).on(SideName::B, failing(0.3));
    let judged = run.judged();
    let comparison = judged.comparison.as_ref().unwrap();
    assert_eq!(comparison.outcome, ComparisonOutcome::Worse, "{}", judged.sentence);
    assert!(
        judged.sentence.starts_with("B is worse than A in errors of steady at 1 tile: 30 % of B, 0 % of A."),
        "{}",
        judged.sentence
    );
    assert_eq!(judged.exit_verdict(0.5), ExitVerdict::Worse);
    let turned = open_loop(12, 0.8).on(SideName::A, failing(0.3)).judged();
    assert_eq!(turned.comparison.unwrap().outcome, ComparisonOutcome::Better);
}

#[test]
fn a_side_that_fails_less_and_is_slower_is_neither_better_nor_worse() {
    let judged = open_loop(12, 1.5).on(SideName::A, failing(0.02)).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::CannotTell);
    let both = "No answer: B is better than A in errors of steady at 1 tile: 0 % of B, 2 % of A, and worse in steady p50 at 1 tile: +50.";
    assert!(judged.sentence.starts_with(both), "{}", judged.sentence);
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    let reason = "B is better in errors of steady at 1 tile and worse in steady p50 at 1 tile";
    assert!(judged.verdict.reasons.iter().any(|had| had == reason), "{:?}", judged.verdict.reasons);
}

#[test]
fn a_side_that_fails_less_is_not_called_no_worse_in_what_nothing_bounds() {
    let wild = |repeat: &mut RepeatSummary| {
        let factor = if repeat.repeat.is_multiple_of(2) { 1.4 } else { 0.9 };
        for load in &mut repeat.loads {
            load.latency_ms.p99 = load.latency_ms.p99.map(|p99| p99 * factor);
        }
    };
    let judged = open_loop(12, 1.0).on(SideName::A, failing(0.02)).on(SideName::B, wild).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::Better, "{}", judged.sentence);
    let open =
        "It is not known whether it is worse by more than the margin of 10 % in steady p99 at 1 tile: +";
    assert!(judged.sentence.contains(open), "{}", judged.sentence);
}

#[test]
fn a_side_that_serves_less_of_its_demand_is_worse_and_one_within_the_gate_is_not() {
    for (part, outcome) in [(0.95, ComparisonOutcome::Worse), (0.995, ComparisonOutcome::NoDifference)] {
        let judged = open_loop(12, 1.0)
            .on(SideName::B, |repeat| {
                for load in &mut repeat.loads {
                    load.completed = (part * load.offered as f64) as u64;
                }
                // The same work for each answer.
                repeat.host.processor.guest_work *= part;
                repeat.host.processor.guest_overhead *= part;
            })
            .judged();
        assert_eq!(judged.comparison.unwrap().outcome, outcome, "{part}: {}", judged.sentence);
    }
}

#[test]
fn a_side_that_served_nothing_in_some_blocks_is_worse_in_them_and_not_absent() {
    let judged = sides(CLOSED, 12, A, B)
        .on(SideName::B, |repeat| {
            if repeat.repeat % 3 == 0 {
                let load = &mut repeat.loads[0];
                (load.completed, load.latency_ms) = (0, Default::default());
            }
        })
        .judged();
    let comparison = judged.comparison.as_ref().unwrap();
    assert_eq!(comparison.outcome, ComparisonOutcome::Worse, "{}", judged.sentence);
    assert!(
        judged.sentence.contains("nothing served of disk at 1 tile: 33 % of B, 0 % of A"),
        "{}",
        judged.sentence
    );
    assert_ne!(judged.exit_verdict(1.0), ExitVerdict::NoWorse);
}

#[test]
fn a_guest_that_ended_on_one_side_only_is_a_difference() {
    let judged = open_loop(12, 1.0)
        .on(SideName::B, |repeat| {
            if repeat.repeat == 5 {
                repeat.incidents.push(Incident {
                    kind: IncidentKind::GuestEnded,
                    what: "QEMU ended by signal 9".to_owned(),
                    guest: Some("tile-001-web".to_owned()),
                });
            }
        })
        .judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::Worse, "{}", judged.sentence);
    assert!(judged.sentence.contains("guest ended at 1 tile: 8.3 % of B, 0 % of A"), "{}", judged.sentence);
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::CannotTell, "one of twelve may be chance");
}

#[test]
fn a_side_that_breaks_the_gate_where_the_other_holds_it_is_worse() {
    let judged = open_loop(12, 1.0).on(SideName::B, all_slow(80.0)).judged();
    assert!(
        judged
            .sentence
            .starts_with("B is worse than A in repeats beyond the gate at 1 tile: 100 % of B, 0 % of A."),
        "{}",
        judged.sentence
    );
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::Worse);
}

#[test]
fn a_gate_that_one_side_breaks_by_chance_accuses_and_acquits_nobody() {
    // The host stalled in 4 of 16 repeats of one side: the p99 of all its requests is far beyond the limit.
    let answers = |stalls: bool| {
        move |repeat: &mut RepeatSummary| {
            let ms = if stalls && repeat.repeat % 4 == 3 { 3_000.0 } else { 12.0 };
            repeat.loads.iter_mut().for_each(|load| with_requests(load, |_| (4_000, ms)));
        }
    };
    for (stalled, sound) in [(SideName::A, SideName::B), (SideName::B, SideName::A)] {
        let judged = open_loop(16, 1.0).on(stalled, answers(true)).on(sound, answers(false)).judged();
        let comparison = judged.comparison.as_ref().unwrap();
        assert_eq!(comparison.outcome, ComparisonOutcome::CannotTell, "{}", judged.sentence);
        assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
        assert!(
            judged.sentence.contains("repeats beyond the gate at 1 tile")
                && judged.sentence.contains("which can be chance"),
            "{}",
            judged.sentence
        );
        assert_eq!(judged.exit_verdict(0.5), ExitVerdict::CannotTell);
    }
}

#[test]
fn one_guest_of_forty_that_fails_on_one_side_makes_it_worse() {
    // 3 % of one guest's requests are less than 0.1 % of the load's.
    let judged = sides_at(SCENARIO, &[40], 12, A, B)
        .on(SideName::B, |repeat| {
            for load in &mut repeat.loads {
                let guest = &mut load.guests[7];
                guest.errors = (0.03 * guest.offered as f64) as u64;
                guest.completed = guest.offered - guest.errors;
                (load.failed, load.completed) = (guest.errors, load.completed - guest.errors);
            }
        })
        .judged();
    let comparison = judged.comparison.as_ref().unwrap();
    assert_eq!(comparison.outcome, ComparisonOutcome::Worse, "{}", judged.sentence);
    assert!(
        judged.sentence.contains("repeats beyond the gate at 40 tiles: 100 % of B, 0 % of A"),
        "{}",
        judged.sentence
    );
}

#[test]
fn equal_sides_that_stall_at_random_are_not_called_different() {
    // One repeat in eight stalls, on either side: by chance one side often breaks the gate that the other holds.
    const TRIALS: u64 = 100;
    let called = (0..TRIALS).filter(|trial| {
        let mut random = StdRng::seed_from_u64(*trial);
        let mut run = open_loop(16, 1.0);
        for repeat in &mut run.repeats {
            let ms = if random.random_bool(0.125) { 3_000.0 } else { random.random_range(11.0..13.0) };
            repeat.loads.iter_mut().for_each(|load| with_requests(load, |_| (4_000, ms)));
        }
        let outcome = run.judged().comparison.unwrap().outcome;
        matches!(outcome, ComparisonOutcome::Better | ComparisonOutcome::Worse)
    });
    let called = called.count();
    assert!(called <= 4, "{called} of {TRIALS}; p < 0.01 is asked for");
}

#[test]
fn failures_of_one_run_are_one_value_however_many_repeats_it_has() {
    let mut b: Vec<Run> = (0..6).map(|_| run_of(12, &[1])).collect();
    b[2] = run_of(12, &[1]).at(1, failing(0.3));
    let a: Vec<Run> = (0..6).map(|_| run_of(12, &[1])).collect();
    let found = compared_runs(&a, &b);
    let sentence = &found.comparison.sentence;
    assert_eq!(found.comparison.outcome, ComparisonOutcome::CannotTell, "{sentence}");
    assert!(
        sentence.contains("errors of steady at 1 tile: 5 % of B, 0 % of A, which can be chance"),
        "{sentence}"
    );
}

#[test]
fn a_p99_that_scatters_is_never_excused_by_a_steady_median() {
    // The median is alike; p99 is 66 % worse, and scatters.
    let judged = open_loop(12, 1.0)
        .on(SideName::B, |repeat| {
            let scatter = 1.0 + 0.4 * f64::from(repeat.repeat % 3);
            for load in &mut repeat.loads {
                load.latency_ms.p99 = load.latency_ms.p99.map(|p99| 1.2 * scatter * p99);
            }
        })
        .judged();
    assert_ne!(judged.exit_verdict(0.03), ExitVerdict::NoWorse, "{}", judged.sentence);
    assert!(judged.sentence.contains("steady p99 at 1 tile"), "{}", judged.sentence);
    let wide = Tolerance { measures: 0.03, p99: 2.0 };
    assert_eq!(judged.exit_verdict(wide), ExitVerdict::NoWorse, "a tolerance of its own was given");
}

#[test]
fn one_side_that_loses_more_repeats_than_chance_takes_leaves_no_answer() {
    let judged = open_loop(14, 1.2)
        .on(SideName::B, |repeat| {
            if repeat.repeat <= 6 {
                repeat.host.processor.steal = 0.3;
            }
        })
        .judged();
    let comparison = judged.comparison.as_ref().unwrap();
    let voided = comparison.voided.unwrap();
    assert_eq!((voided.a, voided.of_a, voided.b, voided.of_b), (0, 14, 6, 14));
    assert!(voided.p < 0.05, "{}", voided.p);
    assert_eq!(comparison.outcome, ComparisonOutcome::CannotTell);
    assert!(
        judged.sentence.contains("0 of 14 repeats of A and 6 of 14 of B were discarded"),
        "{}",
        judged.sentence
    );
    assert_eq!(judged.exit_verdict(0.5), ExitVerdict::CannotTell);
}

#[test]
fn lateness_does_not_discard_fast_repeats_and_keep_slow_ones() {
    // 1.2 ms late; A answers within 11 to 13 ms, B within 1.2 times that.
    let late = |repeat: &mut RepeatSummary, factor: f64| {
        let p99 = factor * (11.0 + f64::from(repeat.repeat % 5) / 2.0);
        for load in &mut repeat.loads {
            load.latency_ms.p99 = Some(p99);
            load.send_lateness_us.p99 = Some(1_200.0);
        }
    };
    let judged = open_loop(12, 1.0)
        .on(SideName::A, |repeat| late(repeat, 1.0))
        .on(SideName::B, |repeat| late(repeat, 1.2))
        .judged();
    let comparison = judged.comparison.unwrap();
    let voided = comparison.voided.unwrap();
    assert_eq!((voided.a, voided.b), (0, 0), "the typical p99 of both sides is 13 ms");
    let tail = comparison.measures.iter().find(|measure| measure.name.contains("p99")).unwrap();
    assert!((tail.change.value - 0.2).abs() < 0.001, "{}", tail.change.value);
}

#[test]
fn sides_are_decided_at_the_largest_step_that_both_hold() {
    // At 4 tiles both break the gate, and there B looks twice as slow: a queue, and no property of B.
    let judged = sides_at(SCENARIO, &[1, 2, 4], 12, A, B)
        .at(4, all_slow(400.0))
        .on(SideName::B, |repeat| {
            if repeat.loads[0].guests.len() == 4 {
                all_slow(800.0)(repeat);
            }
        })
        .judged();
    let comparison = judged.comparison.unwrap();
    assert_eq!(comparison.outcome, ComparisonOutcome::NoDifference, "{}", comparison.sentence);
    for measure in &comparison.measures {
        assert_eq!(
            measure.primary,
            measure.name.ends_with("at 2 tiles") && !measure.name.contains("throughput")
        );
    }
    assert!(comparison.measures.iter().any(|measure| measure.name.ends_with("at 4 tiles")), "shown");
}

#[test]
fn what_a_user_set_is_the_one_thing_that_differs() {
    let a = ladder(&[Backend::Kvm], &[4]);
    let with = |from: &str, to: &str| {
        let b = of_scenario(&SCENARIO.replacen(from, to, 1), &[4]);
        let found = compare_records(&a.plan, &a.repeats, &b.plan, &b.repeats, Vec::new());
        let differences = found.comparison.differences.into_iter();
        differences.map(|found| format!("{}: {}, {}", found.key, found.a, found.b)).collect::<Vec<_>>()
    };
    assert_eq!(with("200/s", "300/s"), ["load.steady.rate: 200/s, 300/s"]);
    assert_eq!(with("[measure]", "[measure]\nwarmup = \"7s\""), ["measure.warmup: 3s, 7s"]);
    // Its addresses, and those of all guests after it, follow from that.
    let third = "    { name = \"more\", role = \"idle\" },\n]\nload = [";
    assert_eq!(with("]\nload = [", third), ["guest.more: not there, there"]);
    let other_ladder = of_scenario(&SCENARIO.replace("tiles = [1]", "tiles = [1, 2]"), &[2, 4]);
    let found = compare_records(&a.plan, &a.repeats, &other_ladder.plan, &other_ladder.repeats, Vec::new());
    assert_eq!(found.comparison.differences, [], "the step that is compared is the same");
}

#[test]
fn what_differs_in_every_guest_is_listed_once_for_each_guest_of_the_tile() {
    let a = ladder(&[Backend::Kvm], &[4]);
    let b = of_scenario(&SCENARIO.replace("role = \"web\"", "role = \"web\", memory = \"512MiB\""), &[4]);
    let found = compare_records(&a.plan, &a.repeats, &b.plan, &b.repeats, Vec::new());
    let keys: Vec<&str> = found.comparison.differences.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["guest.burst.memory", "guest.web.memory"]);
}

#[test]
fn records_of_different_backends_have_nothing_in_common() {
    let a = ladder(&[Backend::Kvm], &[1]);
    let b = ladder(&[Backend::Native], &[1]);
    let found = compare_records(&a.plan, &a.repeats, &b.plan, &b.repeats, Vec::new());
    assert_eq!(found.comparison.outcome, ComparisonOutcome::CannotTell);
    assert_eq!(found.verdict.status, VerdictStatus::CannotTell);
    assert!(found.verdict.reasons[0].contains("no step, value and backend in common"));
    assert_eq!(found.exit_verdict(0.05), ExitVerdict::CannotTell);
}

#[test]
fn emulated_sides_are_shown_and_never_decide() {
    let mut run = open_loop(12, 1.5);
    run.plan.points.iter_mut().for_each(|point| point.backend = Backend::Emulated);
    run.repeats.iter_mut().for_each(|repeat| repeat.backend = Backend::Emulated);
    decides_nothing(&run.judged());
}

#[test]
fn sides_on_an_emulated_host_never_decide() {
    let mut run = open_loop(12, 1.5);
    run.plan.host.hardware = Hardware::Emulated;
    decides_nothing(&run.judged());
}

fn decides_nothing(judged: &Judgement) {
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::CannotTell);
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::CannotTell);
}
