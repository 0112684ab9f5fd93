//! Two sides in turn, and two records.

use tilemark_plan::plan::{Backend, Hardware, SideName};
use tilemark_record::result::{ComparisonOutcome, VerdictStatus};
use tilemark_record::summary::RepeatSummary;
use tilemark_statistics::ExitVerdict;
use tilemark_statistics::judge::{Judgement, compare_records};

use crate::run::{CLOSED, Run, SCENARIO, ladder, of_scenario, sides};

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
    let judged = open_loop(8, 1.061).judged();
    let comparison = judged.comparison.as_ref().unwrap();
    assert_eq!(comparison.outcome, ComparisonOutcome::Worse);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict.reasons);
    let keys: Vec<&str> = comparison.differences.iter().map(|difference| difference.key.as_str()).collect();
    assert_eq!(keys, ["qemu.machine"]);
    let median = &comparison.measures[0];
    assert!(median.primary && !median.more_is_better && median.name == "steady p50 at 1 tile");
    assert!((median.change.value - 0.061).abs() < 0.005 && median.change.n_repeats == 8);
    assert!(
        judged.sentence.starts_with("B is worse than A in steady p50 at 1 tile: +6."),
        "{}",
        judged.sentence
    );
    assert!(
        judged.sentence.ends_with(", 8 pairs. Only qemu.machine differs: pc (A), q35 (B)."),
        "{}",
        judged.sentence
    );
    assert_eq!(judged.exit_verdict(0.03), ExitVerdict::Worse);
    assert_eq!(judged.exit_verdict(0.10), ExitVerdict::NoWorse);
}

#[test]
fn a_faster_side_is_called_better() {
    let judged = open_loop(8, 0.9).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::Better);
    assert!(
        judged.sentence.starts_with("B is better than A in steady p50 at 1 tile: −10"),
        "{}",
        judged.sentence
    );
    assert_eq!(judged.exit_verdict(0.0), ExitVerdict::NoWorse);
}

#[test]
fn equal_sides_show_no_difference_and_say_what_would_have_been_seen() {
    let judged = open_loop(8, 1.0).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::NoDifference);
    assert!(judged.sentence.starts_with("No difference seen between A and B: steady p50 at 1 tile: "));
    assert!(judged.sentence.contains(" % would have been seen."), "{}", judged.sentence);
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::NoWorse);
}

#[test]
fn five_pairs_cannot_reach_one_in_a_hundred_and_say_so() {
    let judged = open_loop(5, 2.0).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::CannotTell);
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert!(judged.verdict.reasons[0].contains("cannot give p < 0.01"), "{:?}", judged.verdict.reasons);
    assert!(judged.sentence.starts_with("No answer: 5 repeats cannot tell"), "{}", judged.sentence);
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::CannotTell);
}

#[test]
fn a_block_that_lost_a_side_is_left_out_whole() {
    let run = open_loop(9, 1.2).on(SideName::A, |repeat| {
        if repeat.repeat == 4 {
            repeat.host.processor.steal = 0.5;
        }
    });
    let comparison = run.judged().comparison.unwrap();
    assert_eq!(comparison.measures[0].change.n_repeats, 8);
    assert_eq!(comparison.outcome, ComparisonOutcome::Worse);
}

#[test]
fn sides_whose_repeats_were_mostly_voided_neither_accuse_nor_acquit() {
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
fn a_closed_loop_is_compared_by_what_it_gets_done() {
    let run = sides(CLOSED, 8, A, B).on(SideName::B, |repeat| {
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
    let judged = sides(SCENARIO, 8, A, b).judged();
    assert_eq!(judged.comparison.as_ref().unwrap().differences.len(), 2);
    assert!(judged.sentence.contains("2 things differ, so no cause is named: "), "{}", judged.sentence);
}

#[test]
fn at_most_three_measures_decide_and_the_rest_is_corrected() {
    let comparison = open_loop(8, 1.0).judged().comparison.unwrap();
    let deciding: Vec<bool> = comparison.measures.iter().map(|measure| measure.primary).collect();
    assert_eq!(deciding, [true, true, true, false]);
}

#[test]
fn two_sides_are_no_capacity() {
    let judged = open_loop(8, 1.0).judged();
    assert_eq!(judged.answer.holds, None);
    assert!(judged.answer.none_because.as_ref().unwrap().contains("two sides"));
}

#[test]
fn two_records_are_compared_unpaired_where_step_and_backend_are_the_same() {
    let a = ladder(&[Backend::Kvm], &[1, 2]);
    let mut b = ladder(&[Backend::Kvm], &[2, 4]).at(2, slower(1.2));
    b.plan.host.kernel = "6.12".to_owned();
    let found = compare_records(&a.plan, &a.repeats, &b.plan, &b.repeats, Vec::new());
    assert_eq!(found.comparison.outcome, ComparisonOutcome::Worse, "{:?}", found.comparison.measures);
    assert!(found.comparison.measures.iter().all(|measure| measure.name.ends_with("at 2 tiles")));
    assert_eq!(found.verdict.status, VerdictStatus::Trusted, "{:?}", found.verdict.reasons);
    assert!(
        found
            .comparison
            .sentence
            .contains(", 5 repeats a side. Only host.kernel differs: 6.1 (A), 6.12 (B).")
    );
    assert_eq!(found.exit_verdict(0.05), ExitVerdict::Worse);
}

#[test]
fn what_differs_in_every_guest_is_told_once() {
    let a = ladder(&[Backend::Kvm], &[4]);
    let b = of_scenario(&SCENARIO.replace("role = \"web\"", "role = \"web\"\nmemory = \"512MiB\""), &[4]);
    let found = compare_records(&a.plan, &a.repeats, &b.plan, &b.repeats, Vec::new());
    let keys: Vec<&str> = found.comparison.differences.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["guests.memory"]);
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
    let mut run = open_loop(8, 1.5);
    run.plan.points.iter_mut().for_each(|point| point.backend = Backend::Emulated);
    run.repeats.iter_mut().for_each(|repeat| repeat.backend = Backend::Emulated);
    decides_nothing(&run.judged());
}

#[test]
fn sides_on_an_emulated_host_never_decide() {
    let mut run = open_loop(8, 1.5);
    run.plan.host.hardware = Hardware::Emulated;
    decides_nothing(&run.judged());
}

fn decides_nothing(judged: &Judgement) {
    assert_eq!(judged.comparison.as_ref().unwrap().outcome, ComparisonOutcome::CannotTell);
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert_eq!(judged.exit_verdict(0.05), ExitVerdict::CannotTell);
}
