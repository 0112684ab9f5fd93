//! Sides whose loads have no answers that add up: one figure of a command, no latency, answers of several kinds, too few requests.

use tilemark_plan::plan::SideName;
use tilemark_record::result::{Comparison, ComparisonOutcome};
use tilemark_record::summary::RepeatSummary;
use tilemark_statistics::ExitVerdict;
use tilemark_statistics::judge::Judgement;

use crate::run::{CLOSED, COMMAND, Run, SCENARIO, latency, of_scenario, prints, sides};

fn two_sides(text: &str) -> Run {
    sides(text, 12, &[("qemu.machine", "pc")], &[("qemu.machine", "q35")])
}

fn outcome(judged: &Judgement) -> ComparisonOutcome {
    judged.comparison.as_ref().unwrap().outcome
}

fn primary(comparison: &Comparison) -> Vec<&str> {
    let primary = comparison.measures.iter().filter(|measure| measure.primary);
    primary.map(|measure| measure.name.as_str()).collect()
}

#[test]
fn a_command_is_compared_by_its_figure_alone_and_in_its_direction() {
    let faster = two_sides(COMMAND).on(SideName::B, prints(0.5)).judged();
    let comparison = faster.comparison.as_ref().unwrap();
    assert_eq!(comparison.outcome, ComparisonOutcome::Better, "{}", faster.sentence);
    assert_eq!(primary(comparison), ["job figure at 1 tile"]);
    assert_eq!(comparison.measures.len(), 1, "{:?}", comparison.measures);
    assert_eq!(comparison.measures[0].unit.as_deref(), Some("s"));
    let said = "B is better than A in job figure at 1 tile: −50.";
    assert!(faster.sentence.starts_with(said), "{}", faster.sentence);
    assert_eq!(faster.exit_verdict(0.03), ExitVerdict::NoWorse);
    let slower = two_sides(COMMAND).on(SideName::B, prints(1.2)).judged();
    assert_eq!(outcome(&slower), ComparisonOutcome::Worse, "{}", slower.sentence);
    assert_eq!(slower.exit_verdict(0.03), ExitVerdict::Worse);
    let equal = two_sides(COMMAND).judged();
    assert_eq!(outcome(&equal), ComparisonOutcome::NoDifference, "{}", equal.sentence);
    assert_eq!(equal.exit_verdict(0.03), ExitVerdict::NoWorse);
    let higher = COMMAND.replace("better = \"lower\"", "better = \"higher\"");
    let more = two_sides(&higher).on(SideName::B, prints(1.2)).judged();
    assert_eq!(outcome(&more), ComparisonOutcome::Better, "{}", more.sentence);
}

#[test]
fn the_direction_of_a_figure_is_not_that_of_a_repeat_in_which_the_command_failed() {
    let fails = |repeat: &mut RepeatSummary| {
        if repeat.repeat == 1 {
            let load = &mut repeat.loads[0];
            (load.figure, load.completed, load.failed) = (None, 0, 1);
        }
    };
    let judged = two_sides(COMMAND).on(SideName::A, fails).on(SideName::B, prints(0.5)).judged();
    let measure = &judged.comparison.as_ref().unwrap().measures[0];
    assert_eq!((measure.name.as_str(), measure.more_is_better), ("job figure at 1 tile", false));
    assert_eq!(measure.outcome, ComparisonOutcome::Better);
}

#[test]
fn a_figure_of_two_tiles_is_not_a_throughput_against_that_of_one() {
    let judged = of_scenario(COMMAND, &[1, 2]).judged();
    assert_eq!(judged.points[1].throughput_vs_one_tile, None);
    let reason = &judged.missing["points.1.throughput_vs_one_tile"];
    assert_eq!(reason, "its load has one figure in place of a throughput");
    assert_eq!(judged.points[1].throughput.as_ref().unwrap().unit, "s");
}

/// No latency is taken of messages flat out, or of a command that prints a rate.
#[test]
fn sides_of_a_load_without_latencies_have_an_outcome() {
    let with_rate = |factor: f64| {
        let without = |repeat: &mut RepeatSummary| repeat.loads[0].latency_ms = Default::default();
        let faster = move |repeat: &mut RepeatSummary| repeat.loads[0].seconds /= factor;
        two_sides(CLOSED).on(SideName::A, without).on(SideName::B, without).on(SideName::B, faster).judged()
    };
    let better = with_rate(1.2);
    assert_eq!(outcome(&better), ComparisonOutcome::Better, "{}", better.sentence);
    let measures = primary(better.comparison.as_ref().unwrap());
    assert_eq!(measures, ["disk throughput at 1 tile", "processor time per answer at 1 tile"]);
    let equal = with_rate(1.0);
    assert_eq!(outcome(&equal), ComparisonOutcome::NoDifference, "{}", equal.sentence);
    assert_eq!(equal.exit_verdict(0.03), ExitVerdict::NoWorse);
}

#[test]
fn where_one_side_has_latencies_and_the_other_has_none_the_tail_decides_too() {
    let without = |repeat: &mut RepeatSummary| repeat.loads[0].latency_ms = Default::default();
    let judged = two_sides(CLOSED).on(SideName::B, without).judged();
    assert_eq!(outcome(&judged), ComparisonOutcome::CannotTell);
    let why = "disk p99 at 1 tile: 12 of 24 repeats do not have it";
    assert!(judged.sentence.contains(why), "{}", judged.sentence);
}

#[test]
fn too_few_requests_for_a_p99_of_each_repeat_need_longer_repeats_and_not_more_of_them() {
    let few = |repeat: &mut RepeatSummary| {
        for load in &mut repeat.loads {
            (load.offered, load.completed) = (200, 200);
            load.latency_ms = latency(200, 20.0);
            load.latency_ms.p99 = None;
        }
    };
    let judged = two_sides(SCENARIO).on(SideName::A, few).on(SideName::B, few).judged();
    assert_eq!(outcome(&judged), ComparisonOutcome::CannotTell);
    let said = "No answer: steady p99 at 1 tile: the fewest requests of a repeat are 200, and a p99 of its own needs 2000; to fix: measure \
                longer (`--set measure.length=220s`). ";
    assert!(judged.sentence.starts_with(said), "{}", judged.sentence);
    let reasons = &judged.verdict.reasons;
    assert!(reasons.iter().any(|reason| reason.contains("a p99 of its own needs 2000")), "{reasons:?}");
}

/// A web guest under a rate, and a disk guest that is worked by this.
fn web_and_disk(disk: &str) -> String {
    format!(
        r#"
schema = 1
name = "mixed"
about = "two kinds of answers"
headline = "web"
guest = [
    {{ name = "web", role = "web" }},
    {{ name = "disk", role = "disk", disk = [{{ size = "64MiB" }}] }},
]
load = [
    {{ name = "web", guest = "web", rate = "200/s", web = {{}} }},
    {{ name = "disk", guest = "disk", {disk} }},
]
ladder.tiles = [1]
"#
    )
}

#[test]
fn another_mix_of_answers_is_not_another_cost_of_one() {
    // More of the dear answers: each costs what it did.
    let more_of_the_disk = |repeat: &mut RepeatSummary| {
        repeat.loads.iter_mut().filter(|load| load.name == "disk").for_each(|load| load.completed *= 2);
        repeat.host.processor.guest_work *= 1.8;
    };
    let flat_out = web_and_disk("loop = \"closed\", disk = { saturate = true }");
    let judged = two_sides(&flat_out).on(SideName::B, more_of_the_disk).judged();
    assert_eq!(outcome(&judged), ComparisonOutcome::NoDifference, "{}", judged.sentence);
    assert_eq!(primary(judged.comparison.as_ref().unwrap()), ["web p50 at 1 tile", "web p99 at 1 tile"]);
}

#[test]
fn answers_of_several_kinds_are_added_where_all_are_sent_at_a_rate() {
    let at_rates = web_and_disk("rate = \"50/s\", disk = {}");
    let dearer = |repeat: &mut RepeatSummary| repeat.host.processor.guest_work *= 1.2;
    let judged = two_sides(&at_rates).on(SideName::B, dearer).judged();
    assert_eq!(outcome(&judged), ComparisonOutcome::Worse, "{}", judged.sentence);
    let said = "worse than A in processor time per answer at 1 tile: +";
    assert!(judged.sentence.contains(said), "{}", judged.sentence);
}
