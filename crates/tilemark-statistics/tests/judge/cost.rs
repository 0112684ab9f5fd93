//! What virtualization costs: at which step it is taken, and of which measures.

use tilemark_plan::plan::{
    Backend::{self, Emulated, Kvm, Native},
    Search,
};
use tilemark_record::result::Cost;
use tilemark_record::summary::RepeatSummary;
use tilemark_statistics::judge::Judgement;

use crate::run::{COMMAND, Run, SCENARIO, all_slow, ladder, of_scenario_on, prints};

/// Guests that take 1.25 times the twin's processor time and 1.5 times its p99.
fn with_twin(guests: Backend) -> Judgement {
    let run = ladder(&[guests, Native], &[1, 2]).backend(Native, |repeat| {
        repeat.host.processor.guest_work = 0.36;
        repeat.host.processor.guest_overhead = 0.0;
        all_slow(20.0 / 1.5)(repeat);
    });
    run.judged()
}

#[test]
fn the_cost_is_the_ratio_of_guests_to_their_twin_at_the_largest_common_step() {
    let cost = with_twin(Kvm).cost.unwrap();
    let (processor, p99) = (cost.processor.unwrap(), cost.p99.unwrap());
    assert_eq!(cost.tiles, 2);
    assert!((processor.value - 1.25).abs() < 1e-9 && processor.n_repeats == 5);
    assert!((p99.value - 1.5).abs() < 0.01 && p99.low.unwrap() < p99.high.unwrap());
    assert!(!cost.unequal.is_empty());
    assert!(
        cost.sentence.starts_with(
            "At 2 tiles, compared with their native twins: guests use 1.25 times [1.25, 1.25] the CPU time"
        ),
        "{}",
        cost.sentence
    );
}

#[test]
fn only_where_a_count_broke_are_guests_said_to_be_at_their_capacity() {
    let said = |third: f64| {
        let mut run = ladder(&[Kvm, Native], &[1, 2, 3]).at(3, all_slow(third));
        let search = Search { from: 1, limit: 3, guess: 2, within: None, twin: true, memory_end: None };
        run.plan.search = Some(search);
        run.judged().cost.unwrap().sentence
    };
    let edge = "the guests are at their capacity";
    assert!(said(90.0).contains(edge), "{}", said(90.0));
    assert!(!said(20.0).contains(edge), "{}", said(20.0));
}

#[test]
fn what_an_emulator_costs_is_not_the_cost_of_virtualization() {
    assert_eq!(with_twin(Emulated).cost, None);
}

/// Guests and twins at three steps, of which only those change that are named.
fn three_steps(changed: &[(u32, Backend)], change: impl Fn(&mut RepeatSummary)) -> Run {
    let mut run = ladder(&[Kvm, Native], &[1, 2, 3]);
    let points = &run.plan.points;
    let is_changed =
        |repeat: &&mut RepeatSummary| changed.contains(&(points[repeat.point].tiles, repeat.backend));
    run.repeats.iter_mut().filter(is_changed).for_each(change);
    run
}

#[test]
fn the_cost_is_taken_at_the_largest_step_that_guests_and_twins_both_hold() {
    let cost = |changed: &[(u32, Backend)]| three_steps(changed, all_slow(900.0)).judged().cost.unwrap();
    let held = cost(&[(3, Kvm)]);
    assert_eq!(held.tiles, 2, "{}", held.sentence);
    assert!(!held.sentence.contains("gate") && held.p99.unwrap().value < 1.1, "{}", held.sentence);
    assert_eq!(cost(&[(2, Kvm), (3, Native)]).tiles, 1);
    assert_eq!(cost(&[]).tiles, 3);
}

#[test]
fn a_cost_at_a_step_that_does_not_hold_says_so() {
    let sentence = |changed: &[(u32, Backend)]| {
        let cost = three_steps(changed, all_slow(900.0)).judged().cost.unwrap();
        assert_eq!(cost.tiles, 1, "the smallest: {}", cost.sentence);
        cost.sentence
    };
    let end = ": the ratios also show overload or failures, and are not a fixed cost of virtualization.";
    let guests = sentence(&[(1, Kvm), (2, Kvm), (3, Kvm)]);
    assert!(guests.ends_with(&format!(" Here the guests do not hold the gate{end}")), "{guests}");
    let twins = sentence(&[(1, Native), (2, Native), (3, Native)]);
    assert!(twins.ends_with(&format!(" Here the twins do not hold the gate{end}")), "{twins}");
    let both = [(1, Kvm), (2, Kvm), (3, Kvm), (1, Native), (2, Native), (3, Native)];
    let both = sentence(&both);
    assert!(both.ends_with(&format!(" Here neither the guests nor the twins hold the gate{end}")), "{both}");
}

#[test]
fn with_too_few_repeats_for_the_gate_the_cost_says_that_it_is_not_known_whether_both_hold() {
    let run = ladder(&[Kvm, Native], &[1, 2]).without(|repeat, _| repeat.repeat > 2);
    let cost = run.judged().cost.unwrap();
    let end = " It is not known whether guests and twins both hold the gate here.";
    assert!(cost.tiles == 1 && cost.sentence.ends_with(end), "{}", cost.sentence);
}

#[test]
fn where_values_vary_there_is_no_one_cost() {
    let vary = "[vary.size]\nkey = \"load.steady.connections\"\nvalues = [2, 4]\n";
    let judged = of_scenario_on(&format!("{SCENARIO}{vary}"), &[Kvm, Native], &[1, 2]).judged();
    assert_eq!(judged.cost, None);
    let reason = &judged.missing["cost"];
    assert!(reason.starts_with("size varies, and each value has a cost of its own"), "{reason}");
}

#[test]
fn the_cost_of_a_command_is_that_of_its_figure_and_a_record_without_it_is_read() {
    let judged = of_scenario_on(COMMAND, &[Kvm, Native], &[1]).backend(Kvm, prints(1.3)).judged();
    let cost = judged.cost.unwrap();
    assert!((cost.figure.unwrap().value - 1.3).abs() < 0.01);
    assert_eq!((cost.processor, cost.p99, cost.throughput), (None, None, None));
    let said = ["their figure is 1.30 times [", "] as high (lower is better)."];
    assert!(said.iter().all(|part| cost.sentence.contains(part)), "{}", cost.sentence);
    for figure in ["processor", "p99", "throughput"] {
        assert!(judged.missing.contains_key(&format!("cost.{figure}")), "{figure}: {:?}", judged.missing);
    }
    let mut older = serde_json::to_value(&cost).unwrap();
    older.as_object_mut().unwrap().remove("figure").unwrap();
    assert_eq!(serde_json::from_value::<Cost>(older).unwrap(), Cost { figure: None, ..cost });
}
