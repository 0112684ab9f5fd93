//! From a ladder to the answer and its sentence.

use tilemark_plan::builtin::builtin;
use tilemark_plan::plan::{
    Backend::{Emulated, Kvm, Native},
    Hardware, MemoryEnd, Search, SideName,
};
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{Counts, GateMeasure, LatencyMs, LimitResource, PointResult, VerdictStatus};
use tilemark_record::summary::{Incident, IncidentKind, Quality, RepeatSummary};
use tilemark_statistics::judge::{Known, judge_run};
use tilemark_statistics::sentence::density;

use tilemark_units::Bytes;

use crate::interference::tile_of;
use crate::run::{
    CLOSED, Run, SCENARIO, all_slow, ladder, latency, of_scenario, of_scenario_on, roles, sides, slow,
};

/// The guests' processors are used up.
fn processors_full(repeat: &mut RepeatSummary) {
    repeat.host.guest_processors_busy = Some(0.97);
}

fn broken_at(tiles: &[u32], broken: u32) -> Run {
    ladder(&[Kvm], tiles).at(broken, slow(1, 80.0)).at(broken, processors_full)
}

#[test]
fn the_largest_step_held_with_all_below_it_held_and_the_smallest_that_broke_are_the_answer() {
    let judged = broken_at(&[1, 2, 3], 3).judged();
    let answer = &judged.answer;
    let broke = answer.breaks.as_ref().unwrap();
    assert_eq!((answer.backend, answer.holds, answer.untried), (Some(Kvm), Some(2), None));
    assert_eq!((broke.tiles, broke.measure, broke.load.as_str()), (3, GateMeasure::P99, "steady"));
    assert_eq!((broke.guest.as_deref(), broke.second), (Some("tile-001-web"), Some(11)));
    assert!(broke.low.unwrap() < 80.0 && 80.0 < broke.high.unwrap());
    // Two tiles of two guests of one vCPU on six threads: two of eight belong to the load.
    assert_eq!(answer.vcpus_per_thread, Some(4.0 / 6.0));
    assert_eq!(answer.limit.resource, LimitResource::Processor);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict.reasons);
    assert_eq!(
        judged.sentence,
        "This host carries 2 tiles: 4 guests, 0.67 vCPUs per hardware thread, 200 requests/s each. \
         Their p99 was 20 ms [20, 20], within the limit of 50 ms in 5 of 5 repeats. \
         3 tiles do not hold: the p99 of web in tile 1 was 80 ms [77, 83] in 5 repeats. The CPU was the first bottleneck."
    );
}

#[test]
fn counts_between_the_two_that_were_not_tried_are_listed_with_the_command() {
    let judged = broken_at(&[1, 4, 8], 8).judged();
    assert_eq!(judged.answer.untried, Some(Counts { from: 5, to: 7 }));
    assert!(
        judged.sentence.ends_with(
            "The CPU was the first bottleneck. 5 to 7 tiles were not tried. To try them: `tilemark capacity test`."
        ),
        "{}",
        judged.sentence
    );
    assert!(judged.sentence.contains("8 tiles do not hold: the p99 of web in tile 1 was 80 ms"));
}

#[test]
fn an_answer_is_a_lower_bound_where_nothing_broke() {
    let judged = ladder(&[Kvm], &[1, 2, 8]).judged();
    assert_eq!((judged.answer.holds, judged.answer.breaks.clone()), (Some(8), None));
    assert_eq!(judged.answer.limit.resource, LimitResource::Unknown);
    assert_eq!(judged.answer.limit.evidence, ["nothing broke up to 8 tiles"]);
    assert_eq!(
        judged.sentence,
        "This host carries at least 8 tiles, the most tried: 16 guests, 2.7 vCPUs per hardware thread, 200 requests/s each. \
         Their p99 was 20 ms [20, 20], within the limit of 50 ms in 5 of 5 repeats."
    );
}

/// It ended early, or was measured beside other work that was asked for: its repeats do not show that.
#[test]
fn a_doubt_of_the_run_itself_is_in_every_sentence_once() {
    let reason = "it ended before its plan was done: tile-003-web did not get ready";
    let doubt = format!(" Cannot tell: {reason}.");
    let (a, b) = ([("qemu.machine", "pc")], [("qemu.machine", "q35")]);
    let better = sides(CLOSED, 12, &a, &b).on(SideName::B, |repeat| repeat.loads[0].seconds /= 1.2);
    let few = sides(CLOSED, 1, &a, &b);
    let emulated = of_scenario_on(SCENARIO, &[Emulated], &[1]);
    for (run, begins) in [
        (ladder(&[Kvm], &[1, 2, 8]), "This host carries at least 8 tiles: 16 guests, "),
        (better, "B is better than A in disk throughput"),
        (few, "No answer: "),
        (emulated, "Emulated guests work: "),
        (roles(&tile_of(2), Native), "No pair of roles is known to slow each other down"),
    ] {
        let quiet = run.judged();
        assert!(!quiet.sentence.contains("Cannot tell: "), "{}", quiet.sentence);
        let judged = judge_run(&run.plan, &run.repeats, &[reason.to_owned()]);
        let sentence = &judged.sentence;
        assert!(sentence.starts_with(begins) && !sentence.contains("the most tried"), "{sentence}");
        assert!(sentence.ends_with(&doubt) && sentence.matches(reason).count() == 1, "{sentence}");
        assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
        assert_eq!(judged.verdict.reasons.last().map(String::as_str), Some(reason));
    }
}

#[test]
fn where_the_first_step_breaks_nothing_holds() {
    let judged = broken_at(&[1, 2], 1).at(2, slow(1, 90.0)).judged();
    assert_eq!((judged.answer.holds, judged.answer.vcpus_per_thread), (None, None));
    assert_eq!(judged.answer.breaks.as_ref().unwrap().tiles, 1);
    assert_eq!(
        judged.sentence,
        "This host does not carry 1 tile: the p99 of web in tile 1 was 80 ms [77, 83] in 5 repeats. The CPU was the first bottleneck."
    );
}

#[test]
fn a_higher_step_held_above_a_broken_one_cannot_tell() {
    let judged = broken_at(&[1, 2, 4], 2).judged();
    assert_eq!((judged.answer.holds, judged.answer.breaks.clone()), (Some(1), None));
    assert_eq!(judged.answer.undecided, Some(Counts { from: 2, to: 4 }), "all from what broke to what held");
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert!(
        judged.sentence.contains("Cannot tell: 2 tiles broke although 4 tiles held"),
        "{}",
        judged.sentence
    );
}

#[test]
fn a_saturated_load_is_never_called_the_hosts_limit() {
    let busy = |repeat: &mut RepeatSummary| {
        all_slow(400.0)(repeat);
        processors_full(repeat);
        repeat.loads[0].sender_busy.max_fraction = 0.95;
    };
    let judged = ladder(&[Kvm], &[1, 2, 4]).at(4, busy).judged();
    assert_eq!((judged.answer.holds, judged.answer.breaks.clone()), (Some(2), None));
    assert_eq!(judged.answer.limit.resource, LimitResource::LoadGenerator);
    assert!(judged.answer.limit.evidence[0].contains("used 95 % of its processor"));
    assert_eq!(judged.points[2].holds, None);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "at least 2 hold: nothing rests on 4");
    assert!(judged.sentence.contains("carries at least 2 tiles"), "{}", judged.sentence);
    assert!(
        judged
            .sentence
            .contains("Above 2 tiles the load generator was saturated. This is not a limit of the host."),
        "{}",
        judged.sentence
    );
    assert!(!judged.sentence.contains("the most tried"), "4 was tried");
}

#[test]
fn a_load_that_was_saturated_below_what_broke_or_at_the_first_step_is_not_trusted() {
    let busy = |repeat: &mut RepeatSummary| {
        all_slow(400.0)(repeat);
        repeat.loads[0].sender_busy.max_fraction = 0.95;
    };
    let below = broken_at(&[1, 2, 4], 4).at(2, busy).judged();
    assert_eq!((below.answer.holds, below.verdict.status), (Some(1), VerdictStatus::NotTrusted));
    let first = ladder(&[Kvm], &[1, 2]).at(1, busy).at(2, busy).judged();
    assert_eq!((first.answer.holds, first.verdict.status), (None, VerdictStatus::NotTrusted));
    // What others disturbed above is not known either way: it may hold, and it may break.
    let disturbed = ladder(&[Kvm], &[1, 2, 4]).at(4, |repeat| repeat.host.processor.steal = 0.4).judged();
    assert_eq!(disturbed.verdict.status, VerdictStatus::NotTrusted);
}

#[test]
fn a_late_load_can_still_show_that_a_step_holds_since_lateness_only_adds() {
    let busy = |repeat: &mut RepeatSummary| repeat.loads[0].sender_busy.max_fraction = 0.95;
    let judged = ladder(&[Kvm], &[1, 2]).at(1, busy).judged();
    assert_eq!((judged.points[0].repeats_kept, judged.points[0].holds), (0, Some(true)));
    assert_eq!(judged.points[0].p99_ms, None, "but its figures count for nothing");
    assert_eq!(judged.answer.holds, Some(2));
}

#[test]
fn a_spoiled_step_below_a_broken_one_is_neither_held_nor_untried() {
    let judged = broken_at(&[1, 2, 3], 3).at(2, |repeat| repeat.host.processor.steal = 0.4).judged();
    assert_eq!((judged.answer.holds, judged.answer.untried), (Some(1), None));
    assert_eq!(judged.answer.breaks.as_ref().unwrap().tiles, 3);
    assert_eq!(judged.verdict.status, VerdictStatus::NotTrusted);
    assert!(judged.verdict.reasons[0].contains("the hypervisor took 40.0 %"), "{:?}", judged.verdict.reasons);
}

#[test]
fn a_step_held_above_a_spoiled_one_is_not_held_with_all_below_it() {
    let judged = ladder(&[Kvm], &[1, 2, 4]).at(2, |repeat| repeat.host.processor.steal = 0.4).judged();
    assert_eq!((judged.answer.holds, judged.answer.breaks.clone()), (Some(1), None));
    assert_eq!(judged.verdict.status, VerdictStatus::NotTrusted);
    assert!(judged.sentence.starts_with("This host carries at least 1 tile: "), "{}", judged.sentence);
}

#[test]
fn steps_that_were_planned_and_not_reached_are_not_held_and_cannot_tell() {
    let judged = ladder(&[Kvm], &[1, 2, 4]).without(|_, point| point.tiles > 1).judged();
    assert_eq!(judged.answer.holds, Some(1));
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert!(judged.verdict.reasons.iter().any(|reason| reason.contains("it was not measured")));
    assert_eq!(judged.points[2].holds, None);
    assert!(judged.missing.contains_key("points.2.throughput"));
}

#[test]
fn nothing_measured_is_no_answer_and_no_number() {
    let judged = ladder(&[Kvm], &[1]).without(|_, _| true).judged();
    assert!(judged.answer.none_because.unwrap().starts_with("no repeat was measured; to fix: "));
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
}

#[test]
fn emulated_figures_enter_no_answer_and_no_cost() {
    let judged = ladder(&[Emulated], &[1, 2]).at(2, all_slow(900.0)).judged();
    assert_eq!(
        (judged.answer.backend, judged.answer.holds, judged.answer.breaks.clone()),
        (None, None, None)
    );
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert!(judged.sentence.contains(" No answer: all guests were emulated, and"), "{}", judged.sentence);
    assert!(judged.points[0].throughput.is_some(), "they are shown");
    let judged = ladder(&[Emulated, Native], &[1, 2]).backend(Emulated, all_slow(900.0)).judged();
    assert_eq!((judged.answer.backend, judged.answer.holds), (Some(Native), Some(2)));
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted);
    assert_eq!(judged.cost, None);
    assert!(judged.missing.contains_key("cost"));
}

/// The first load of a repeat answered so many correctly; the rest failed.
fn right(answered: u64) -> impl Fn(&mut RepeatSummary) {
    move |repeat| {
        let load = &mut repeat.loads[0];
        load.failed = load.offered - answered;
        load.completed = answered;
        load.errors = vec!["no answer until the end of the load".to_owned()];
    }
}

#[test]
fn emulated_guests_work_only_where_their_correct_answers_prove_it() {
    let emulated = || ladder(&[Emulated], &[1]);
    let all = emulated().judged();
    let proof = all.function.unwrap();
    assert!(proof.proven, "{proof:?}");
    let counted = format!("Emulated guests work: {0} of {0} requests were answered correctly.", proof.asked);
    assert!(all.sentence.starts_with(&counted), "{}", all.sentence);

    // Two in a hundred: what a run at the full rate once called living and serving.
    let few = emulated().at(1, right(80)).judged();
    assert!(!few.function.unwrap().proven);
    let start = "It is not proven that emulated guests work: ";
    assert!(few.sentence.starts_with(start), "{}", few.sentence);
    assert!(
        few.sentence.contains("the first error: no answer until the end of the load"),
        "{}",
        few.sentence
    );

    // A broker keeps messages that are consumed after the measurement; those that are lost have failed.
    let under_way = |repeat: &mut RepeatSummary| {
        let load = &mut repeat.loads[0];
        (load.loop_kind, load.completed) = (LoopKind::Closed, 80);
    };
    let kept = emulated().at(1, under_way).judged().function.unwrap();
    assert!(kept.proven, "{kept:?}");
    let lost = |repeat: &mut RepeatSummary| {
        under_way(repeat);
        repeat.loads[0].failed = repeat.loads[0].offered;
    };
    assert!(!emulated().at(1, lost).judged().function.unwrap().proven);

    let wrong = emulated().first(1, 1, |repeat| repeat.loads[0].wrong = 1).judged().function.unwrap();
    assert_eq!(wrong.why_not.as_deref(), Some("wrong answers: 1"));
    let silent = |repeat: &mut RepeatSummary| repeat.loads[0].guests[0].completed = 0;
    let silent = emulated().first(1, 1, silent).judged().function.unwrap();
    assert!(silent.why_not.unwrap().ends_with(" answered none of 4000"));
    let unasked = |repeat: &mut RepeatSummary| {
        let guest = &mut repeat.loads[0].guests[0];
        (guest.offered, guest.completed) = (0, 0);
    };
    let unasked = emulated().first(9, 1, unasked).judged().function.unwrap();
    assert!(unasked.why_not.unwrap().ends_with(" received no request while it was measured"));
    let ended = |repeat: &mut RepeatSummary| {
        repeat.incidents.push(Incident {
            kind: IncidentKind::GuestEnded,
            what: "it ended".to_owned(),
            guest: Some("tile-001-web".to_owned()),
        });
    };
    let ended = emulated().first(1, 1, ended).judged().function.unwrap();
    assert_eq!((ended.proven, ended.why_not.as_deref()), (false, Some("tile-001-web: it ended")));
    let none = emulated().without(|_, _| true).judged();
    assert!(none.sentence.starts_with("It is not known whether emulated guests work"), "{}", none.sentence);
}

#[test]
fn what_spoils_times_is_no_matter_for_what_emulated_guests_prove() {
    let busy = |repeat: &mut RepeatSummary| repeat.host.processor.other = 0.6;
    let judged = ladder(&[Emulated, Native], &[1]).backend(Emulated, busy).judged();
    assert!(judged.points.iter().any(|point| !point.repeats_voided.is_empty()), "they are discarded");
    assert!(judged.function.unwrap().proven);
    assert!(judged.sentence.starts_with("This host carries"), "{}", judged.sentence);
    assert!(judged.sentence.contains(" Emulated guests work: "), "{}", judged.sentence);
    assert_eq!(ladder(&[Native], &[1]).judged().function, None);
}

#[test]
fn on_an_emulated_host_no_backend_answers_or_costs_anything() {
    let mut run = ladder(&[Kvm, Native], &[1, 2]).at(2, all_slow(900.0));
    run.plan.host.hardware = Hardware::Emulated;
    let judged = run.judged();
    let answer = &judged.answer;
    assert_eq!((answer.backend, answer.holds, answer.breaks.clone()), (None, None, None));
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert!(judged.sentence.starts_with("No answer: this host is itself emulated"), "{}", judged.sentence);
    assert_eq!(judged.cost, None);
    assert!(judged.points[0].throughput.is_some(), "they are shown");
}

#[test]
fn the_twin_is_not_the_answer_where_guests_were_measured() {
    let judged = ladder(&[Kvm, Native], &[1, 2, 3]).at(3, |repeat| {
        if repeat.backend == Kvm {
            slow(1, 80.0)(repeat);
        }
    });
    let answer = judged.judged().answer;
    assert_eq!((answer.backend, answer.holds), (Some(Kvm), Some(2)));
}

#[test]
fn the_mean_and_the_parts_of_good_and_tolerable_pages_have_limits_of_their_own() {
    let with_limits = SCENARIO
        .replace("[ladder]", "[gate]\nmean = \"40ms\"\ngood = \"95%\"\ntolerable = \"99%\"\n[ladder]");
    let with_limits = with_limits.replace("web = {}", "sessions = {}");
    let pages = |good: f64, tolerable: f64| {
        move |repeat: &mut RepeatSummary| {
            let at = load(repeat, "steady");
            let of = repeat.loads[at].completed;
            let part = |share: f64| (share * of as f64) as u64;
            let (good, tolerable) = (part(good), part(tolerable));
            let quality = Quality { good, tolerable, of, good_ms: 3_000.0, tolerable_ms: 5_000.0 };
            repeat.loads[at].quality = Some(quality);
        }
    };
    let judged =
        |change: &dyn Fn(&mut RepeatSummary)| of_scenario(&with_limits, &[1, 2]).at(2, change).judged();
    assert_eq!(judged(&pages(0.96, 0.995)).answer.holds, Some(2));
    let slow = |repeat: &mut RepeatSummary| {
        let at = load(repeat, "steady");
        repeat.loads[at].latency_ms.mean = Some(41.0);
    };
    for (broken, measure, said) in [
        (judged(&pages(0.94, 0.995)), GateMeasure::Good, "94 % of the pages of steady were good"),
        (judged(&pages(0.96, 0.98)), GateMeasure::Tolerable, "98 % of the pages of steady were tolerable"),
        (judged(&slow), GateMeasure::Mean, "steady took 41 ms on average"),
    ] {
        let broke =
            broken.answer.breaks.clone().unwrap_or_else(|| panic!("{measure:?}: {:?}", broken.points[1]));
        assert_eq!((broke.measure, broke.load.as_str()), (measure, "steady"));
        assert!(broken.sentence.contains(said), "{}", broken.sentence);
    }
}

/// One of 16 guests takes 4.9 s for a page, and all others 0.1 s.
fn one_slow_of_16(repeat: &mut RepeatSummary) {
    let at = load(repeat, "steady");
    let load = &mut repeat.loads[at];
    for guest in &mut load.guests {
        let (mean, p99) = if guest.tile == 5 { (4_900.0, 4_950.0) } else { (100.0, 500.0) };
        guest.latency_ms = LatencyMs { mean: Some(mean), ..latency(guest.completed, p99) };
    }
    load.latency_ms = LatencyMs { mean: Some(400.0), ..latency(load.completed, 4_930.0) };
}

#[test]
fn a_guest_that_is_slow_on_average_breaks_the_mean_however_many_are_beside_it() {
    let text = SCENARIO.replace("[ladder]", "[gate]\np99 = \"10s\"\nmean = \"1s\"\n[ladder]");
    let judged = of_scenario(&text, &[1, 16]).at(16, one_slow_of_16).judged();
    let broke = judged.answer.breaks.clone().unwrap_or_else(|| panic!("{:?}", judged.points[1]));
    assert_eq!((broke.measure, broke.guest.as_deref()), (GateMeasure::Mean, Some("tile-005-web")));
    let said = "web in tile 5 took 4900 ms on average";
    assert!(judged.sentence.contains(said), "{}", judged.sentence);
    assert_eq!((judged.points[1].holds, judged.points[1].repeats_within), (Some(false), Some(0)));
    // Among guests that are all alike none is judged by itself.
    let alike = |repeat: &mut RepeatSummary| {
        let at = load(repeat, "steady");
        repeat.loads[at].latency_ms.mean = Some(900.0);
        repeat.loads[at].guests.iter_mut().for_each(|guest| guest.latency_ms.mean = Some(900.0));
    };
    assert_eq!(of_scenario(&text, &[1, 16]).at(16, alike).judged().answer.holds, Some(16));
}

#[test]
fn means_and_parts_that_scatter_widely_have_intervals_of_what_can_be() {
    let text = SCENARIO.replace("[ladder]", "[gate]\np99 = \"10s\"\nmean = \"1s\"\n[ladder]");
    let scattered = |repeat: &mut RepeatSummary| {
        let at = load(repeat, "steady");
        let (load, repeat) = (&mut repeat.loads[at], repeat.repeat);
        load.latency_ms.mean = Some([100.0, 200.0, 2_000.0][repeat as usize % 3]);
        let of = load.completed;
        let good = if repeat == 2 { of * 9 / 10 } else { of };
        load.quality = Some(Quality { good, tolerable: of, of, good_ms: 3e3, tolerable_ms: 5e3 });
    };
    let judged = of_scenario(&text, &[1, 2]).at(2, scattered).judged();
    assert!(judged.sentence.contains("ms on average [0, "), "{}", judged.sentence);
    let steady = judged.points[1].loads.iter().find(|load| load.name == "steady").unwrap();
    let good = steady.pages.as_ref().unwrap().good.as_ref().unwrap();
    assert_eq!(good.high, Some(1.0), "{good:?}");
    assert!(good.value < 1.0 && good.low.is_some_and(|low| low < good.value), "{good:?}");
}

#[test]
fn a_guest_with_few_good_pages_breaks_the_gate_however_many_are_beside_it() {
    let text = SCENARIO.replace("[ladder]", "[gate]\ngood = \"90%\"\n[ladder]");
    let text = text.replace("web = {}", "sessions = {}");
    let pages =
        |good: u64, of: u64| Some(Quality { good, tolerable: of, of, good_ms: 3e3, tolerable_ms: 5e3 });
    let with_few = |repeat: &mut RepeatSummary| {
        let at = load(repeat, "steady");
        let load = &mut repeat.loads[at];
        for guest in &mut load.guests {
            let good = if guest.tile == 5 { 800 } else { 4_000 };
            guest.quality = pages(good, guest.completed);
        }
        load.quality = pages(60_800, load.completed);
    };
    let judged = of_scenario(&text, &[1, 16]).at(16, with_few).judged();
    let broke = judged.answer.breaks.clone().unwrap_or_else(|| panic!("{:?}", judged.points[1]));
    assert_eq!((broke.measure, broke.guest.as_deref()), (GateMeasure::Good, Some("tile-005-web")));
    assert!((broke.value - 0.2).abs() < 1e-9, "{broke:?}");
    assert_eq!(judged.points[1].repeats_within, Some(0));
    // An older record has the pages of all guests together.
    let older = of_scenario(&text, &[1, 16]).at(16, with_few).at(16, |repeat| {
        let guests = repeat.loads.iter_mut().flat_map(|load| &mut load.guests);
        guests.for_each(|guest| guest.quality = None);
    });
    assert_eq!(older.judged().answer.holds, Some(16));
}

#[test]
fn a_native_answer_says_that_it_is_native() {
    let sentence = ladder(&[Native], &[1]).judged().sentence;
    let wanted = "This host carries at least 1 tile, the most tried: 2 services measured without VMs, ";
    assert!(sentence.starts_with(wanted), "{sentence}");
}

#[test]
fn where_a_tile_is_one_guest_guests_are_counted() {
    let mut run = broken_at(&[1, 2, 4], 4);
    run.plan.scenario.guest.truncate(1);
    let sentence = run.judged().sentence;
    assert!(sentence.starts_with("This host carries 2 of these guests: "), "{sentence}");
    assert!(sentence.contains("4 guests do not hold"), "{sentence}");
    let mut run = ladder(&[Native], &[1]);
    run.plan.scenario.guest.truncate(1);
    let sentence = run.judged().sentence;
    let wanted = "This host carries at least 1 of these services measured without VMs, the most tried: ";
    assert!(sentence.starts_with(wanted), "{sentence}");
}

type Change = fn(&mut RepeatSummary);

fn load(repeat: &mut RepeatSummary, name: &str) -> usize {
    repeat.loads.iter().position(|load| load.name == name).unwrap()
}

#[test]
fn every_limit_of_the_gate_breaks_for_every_load_and_for_one_guest_alone() {
    let cases: [(&str, Change, GateMeasure, &str, Option<&str>); 6] = [
        (
            "p99 of another load",
            |r| {
                let at = load(r, "bursts");
                r.loads[at].guests[1].latency_ms.p99 = Some(51.0);
            },
            GateMeasure::P99,
            "bursts",
            Some("tile-002-burst"),
        ),
        (
            "p99 of the whole load, which is that of no guest",
            |r| {
                let at = load(r, "steady");
                r.loads[at].latency_ms.p99 = Some(51.0);
                r.loads[at].guests[1].worst_second.as_mut().unwrap().latency_ms = 99.0;
            },
            GateMeasure::P99,
            "steady",
            None,
        ),
        (
            "errors of one guest",
            |r| {
                let at = load(r, "steady");
                r.loads[at].guests[0].errors = 8;
            },
            GateMeasure::Errors,
            "steady",
            Some("tile-001-web"),
        ),
        (
            "wrong bytes",
            |r| {
                let at = load(r, "steady");
                r.loads[at].wrong = 20;
            },
            GateMeasure::Errors,
            "steady",
            None,
        ),
        (
            "one guest starved",
            |r| {
                let at = load(r, "bursts");
                r.loads[at].guests[1].completed = 3_900;
            },
            GateMeasure::Achieved,
            "bursts",
            Some("tile-002-burst"),
        ),
        (
            "a load behind its demand",
            |r| {
                let at = load(r, "bursts");
                r.loads[at].completed = 7_900;
            },
            GateMeasure::Achieved,
            "bursts",
            None,
        ),
    ];
    for (name, change, measure, of_load, guest) in cases {
        let judged = ladder(&[Kvm], &[1, 2]).at(2, change).judged();
        let broke = judged.answer.breaks.clone().unwrap_or_else(|| panic!("{name}: {:?}", judged.points[1]));
        assert_eq!(
            (broke.measure, broke.load.as_str(), broke.guest.as_deref()),
            (measure, of_load, guest),
            "{name}"
        );
        assert_eq!(judged.points[1].holds, Some(false), "{name}");
    }
}

#[test]
fn just_within_every_limit_holds() {
    let within: [Change; 3] = [
        |r| r.loads[0].guests[0].latency_ms.p99 = Some(49.9),
        |r| r.loads[0].guests[0].errors = 4, // 4 of 4004: under one in a thousand
        |r| r.loads[0].guests[0].completed = 3_961,
    ];
    for change in within {
        assert_eq!(ladder(&[Kvm], &[1]).at(1, change).judged().points[0].holds, Some(true));
    }
}

#[test]
fn the_sentence_says_errors_and_demand_in_percent() {
    let failing: Change = |r| {
        let at = load(r, "steady");
        r.loads[at].guests[0].errors = 400;
    };
    let sentence = ladder(&[Kvm], &[1, 2]).at(2, failing).judged().sentence;
    assert!(
        sentence.contains(
            "2 tiles do not hold: web in tile 1 failed 9.1 % of its requests [9.1, 9.1] in 5 repeats."
        ),
        "{sentence}"
    );
    let starved: Change = |r| {
        let at = load(r, "bursts");
        r.loads[at].guests[1].completed = 3_600;
    };
    let sentence = ladder(&[Kvm], &[1, 2]).at(2, starved).judged().sentence;
    assert!(
        sentence.contains(
            "2 tiles do not hold: burst in tile 2 was served 90 % of its demand [90, 90] in 5 repeats."
        ),
        "{sentence}"
    );
}

#[test]
fn a_points_own_figures_are_those_of_the_headline_load() {
    let judged = ladder(&[Kvm], &[1]).at(1, |repeat| {
        let at = load(repeat, "bursts");
        repeat.loads[at].latency_ms.p99 = Some(45.0);
    });
    let point = &judged.judged().points[0];
    assert!(point.p99_ms.unwrap().value < 21.0);
    assert!((point.throughput.as_ref().unwrap().figure.value - 200.0).abs() < 1e-9);
    assert_eq!(point.throughput.as_ref().unwrap().unit, "requests/s");
    assert_eq!(point.loads.len(), 2);
}

#[test]
fn throughput_is_what_came_within_the_schedules_time() {
    let of = |in_time: Option<u64>| {
        let late = |repeat: &mut RepeatSummary| {
            let at = load(repeat, "steady");
            repeat.loads[at].completed_in_time = in_time;
            repeat.loads[at].guests[0].completed_in_time = in_time;
        };
        let judged = ladder(&[Kvm], &[1]).at(1, late).judged();
        let load = judged.points[0].loads.iter().find(|load| load.name == "steady").unwrap();
        (load.throughput.as_ref().unwrap().figure.value, load.guests[0].throughput)
    };
    // 4,000 were answered, 1,000 of them after the 20 s of the schedule.
    let close = |(whole, guest): (f64, f64), wanted: f64| {
        assert!((whole - wanted).abs() < 1e-9 && (guest - wanted).abs() < 1e-9, "{whole} {guest}");
    };
    close(of(Some(3_000)), 150.0);
    // An older record does not say when they came.
    close(of(None), 200.0);
}

#[test]
fn one_starved_guest_of_a_load_is_named() {
    let judged = ladder(&[Kvm], &[1, 8]).at(8, |repeat| {
        let at = load(repeat, "steady");
        repeat.loads[at].guests[5].completed = 400;
    });
    let judged = judged.judged();
    let fairness = judged.points[1].fairness.as_ref().unwrap();
    assert_eq!(fairness.least_served.guest, "tile-006-web");
    assert!(fairness.least_served.of_mean < 0.2 && fairness.jain < 0.95);
    assert_eq!(judged.points[0].fairness, None, "fairness needs at least two guests");
}

#[test]
fn a_guest_whose_load_ended_with_it_is_the_least_served() {
    let judged = ladder(&[Kvm], &[4]).at(4, |repeat| {
        let at = load(repeat, "steady");
        let load = &mut repeat.loads[at];
        load.completed_in_time = Some(load.completed);
        load.guests.iter_mut().for_each(|guest| guest.completed_in_time = Some(guest.completed));
        let died = &mut load.guests[2];
        (died.offered, died.completed, died.completed_in_time) = (0, 0, None);
    });
    let fairness = judged.judged().points[0].fairness.clone().unwrap();
    assert_eq!((fairness.jain, fairness.least_served.guest.as_str()), (0.75, "tile-003-web"));
}

#[test]
fn throughput_is_compared_with_one_tile_where_that_was_measured() {
    let points = ladder(&[Kvm], &[1, 4]).judged().points;
    assert!((points[1].throughput_vs_one_tile.unwrap() - 4.0).abs() < 1e-9);
    let judged = ladder(&[Kvm], &[2, 4]).judged();
    assert_eq!(judged.points[1].throughput_vs_one_tile, None);
    assert_eq!(judged.missing["points.1.throughput_vs_one_tile"], "one tile was not measured");
}

#[test]
fn the_limit_is_named_by_what_the_host_shows_and_unknown_else() {
    let cases: [(&str, Change, LimitResource); 7] = [
        ("idle host", |_| (), LimitResource::Unknown),
        ("busy", |r| r.host.guest_processors_busy = Some(0.95), LimitResource::Processor),
        ("waiting", |r| r.host.run_queue_wait_fraction = Some(0.3), LimitResource::Processor),
        ("disk", |r| r.host.disk_busy_fraction = Some(0.99), LimitResource::Disk),
        (
            "both",
            |r| {
                r.host.disk_busy_fraction = Some(0.99);
                r.host.guest_processors_busy = Some(0.95);
            },
            LimitResource::Processor,
        ),
        ("memory pressure", |r| r.host.pressure_memory_some = Some(0.2), LimitResource::Memory),
        ("no memory left", |r| r.host.memory_available_min = Some(1 << 30), LimitResource::Memory),
    ];
    for (name, change, resource) in cases {
        let judged = ladder(&[Kvm], &[1, 2]).at(2, slow(1, 80.0)).at(2, change).judged();
        assert_eq!(judged.answer.limit.resource, resource, "{name}");
        assert_eq!(judged.answer.limit.evidence.is_empty(), resource == LimitResource::Unknown, "{name}");
    }
}

#[test]
fn a_step_at_which_the_host_swaps_breaks_and_memory_ran_out() {
    let judged = ladder(&[Kvm], &[1, 2]).at(2, |repeat| repeat.host.swapped_pages = Some(90_000)).judged();
    let broke = judged.answer.breaks.as_ref().unwrap();
    assert_eq!((judged.answer.holds, broke.tiles, broke.measure), (Some(1), 2, GateMeasure::Swapping));
    assert_eq!(judged.answer.limit.resource, LimitResource::Memory);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict.reasons);
    assert!(
        judged
            .sentence
            .contains("2 tiles do not hold: the host swapped 90000 pages (5 of 5 repeats). Memory was the first bottleneck."),
        "{}",
        judged.sentence
    );
}

#[test]
fn a_closed_loop_has_no_demand_to_fall_short_of() {
    let judged = of_scenario(CLOSED, &[1]).at(1, |repeat| repeat.loads[0].offered *= 2).judged();
    assert_eq!(judged.points[0].holds, Some(true));
    assert_eq!(judged.points[0].achieved_fraction, None);
    assert!(judged.sentence.contains("with 32 requests always in flight at each"), "{}", judged.sentence);
}

#[test]
fn a_closed_loop_says_what_is_under_way_in_the_unit_of_its_workload() {
    let disks = "[[guest.disk]]\nsize = \"1GiB\"\n".repeat(2);
    for (role, disks, work, wanted) in [
        ("web", "", "connections = 6\n[load.web]", "with 6 requests always in flight at each"),
        ("disk", &disks[..], "[load.disk]\ndepth = 16", "with 32 requests always in flight at each"),
        ("database", "", "[load.store]\nclients = 16", "with 16 orders always in flight at each"),
        (
            "database",
            "",
            "[load.store]\nclients = 16\nthink_time = \"1s\"",
            "with at most 16 orders in flight at each",
        ),
        ("database", "", "[load.sysbench]\nthreads = 8", "with 8 transactions always in flight at each"),
    ] {
        let text = format!(
            "schema = 1\nname = \"t\"\nabout = \"t\"\nheadline = \"l\"\n\
             [[guest]]\nname = \"g\"\nrole = \"{role}\"\n{disks}\
             [[load]]\nname = \"l\"\nguest = \"g\"\nloop = \"closed\"\n{work}\n[ladder]\ntiles = [1]\n"
        );
        let sentence = of_scenario(&text, &[1]).judged().sentence;
        assert!(sentence.contains(wanted), "{wanted}: {sentence}");
    }
}

#[test]
fn what_varies_has_a_ladder_for_each_value_and_no_single_answer() {
    let text =
        format!("{SCENARIO}\n[vary.rate]\nkey = \"load.steady.rate\"\nvalues = [\"100/s\", \"200/s\"]\n");
    let judged = of_scenario(&text, &[1, 2]).judged();
    assert_eq!(judged.points.len(), 4);
    assert!(judged.answer.none_because.as_ref().unwrap().contains("rate varies"));
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict.reasons);
}

#[test]
fn messages_are_reported_by_the_ends_of_their_curves() {
    let judged = of_scenario(builtin("messaging").unwrap().text, &[1, 2]).judged();
    let said = &judged.sentence;
    assert!(said.starts_with("Carries 200 messages/s of 16 B and 200 of 4096 B at 1 tile. "), "{said}");
    assert!(
        said.contains(" At 1000 messages/s a message of 16 B takes ")
            && said.ends_with(" ms. These are curves, not a capacity."),
        "{said}"
    );
    assert!(judged.answer.none_because.unwrap().contains("measure and size vary"));
    let queues = "[vary.queues]\nkey = \"load.messages.messaging.queues\"\nvalues = [1, 2]\n";
    let several = of_scenario(&format!("{}\n{queues}", builtin("messaging").unwrap().text), &[1]).judged();
    assert!(several.sentence.starts_with("No answer: measure"), "{}", several.sentence);
    // A step is not reported if most of its repeats were discarded.
    let spoiled = of_scenario(builtin("messaging").unwrap().text, &[1, 2]);
    let said = spoiled
        .at(1, |repeat| repeat.host.processor.steal = if repeat.repeat > 1 { 0.3 } else { 0.0 })
        .judged()
        .sentence;
    assert!(said.contains(" at 2 tiles. ") && said.contains(" Not trusted: "), "{said}");
}

#[test]
fn a_scenario_without_load_is_a_density_and_no_capacity() {
    let text = "schema = 1\nname = \"density\"\nabout = \"idle\"\n[[guest]]\nname = \"idle\"\nrole = \"idle\"\n\
                [ladder]\ntiles = [1]\n[measure]\nrepeats = 1\n";
    let judged = of_scenario(text, &[16]).judged();
    assert!(judged.answer.none_because.as_ref().unwrap().contains("a density, not a capacity"));
    assert_eq!((judged.points[0].pss_mib_per_guest, judged.points[0].ready_s), (Some(90.0), Some(2.0)));
    assert_eq!(judged.points[0].seconds_to_ready.map(|ready| (ready.p50, ready.max)), Some((1.0, 2.0)));
    let sentence = "16 idle guests were ready in 2.0 s and take 90.0 MiB and ";
    assert!(judged.sentence.starts_with(sentence), "{}", judged.sentence);
    assert!(
        judged.sentence.ends_with("% of a processor each. This is a density, not a capacity."),
        "{}",
        judged.sentence
    );
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict.reasons);
    let stolen = of_scenario(&text.replace("repeats = 1", "repeats = 3"), &[16]);
    let stolen = stolen.at(16, |repeat| repeat.host.processor.steal = 0.3 * f64::from(repeat.repeat - 1));
    let sentence = stolen.judged().sentence;
    assert!(sentence.contains(" This is a density, not a capacity. Not trusted: "), "{sentence}");

    let (run, verdict) = (of_scenario(text, &[16]), &judged.verdict);
    let without = PointResult { pss_mib_per_guest: None, processor: None, ..judged.points[0].clone() };
    let said = |point: PointResult| density(&run.plan, &[point], verdict).unwrap();
    let end = "This is a density, not a capacity.";
    assert_eq!(said(without.clone()), format!("16 idle guests were ready in 2.0 s. {end}"));
    assert_eq!(
        said(PointResult { ready_s: None, ..without }),
        format!("16 idle guests were measured. {end}")
    );
}

#[test]
fn power_of_a_point_is_the_mean_of_its_kept_repeats_and_absent_where_nobody_counts_it() {
    let run =
        ladder(&[Kvm], &[1, 2]).at(1, |repeat| repeat.host.power_w = Some(60.0 + f64::from(repeat.repeat)));
    let run = run.first(1, 1, |repeat| {
        repeat.host.power_w = Some(900.0);
        repeat.host.processor.steal = 0.5;
    });
    let points = run.judged().points;
    assert_eq!(points[0].repeats_voided.len(), 1);
    assert_eq!((points[0].power_w, points[1].power_w), (Some(63.5), None), "of repeats 2 to 5");
}

#[test]
fn a_search_can_ask_about_one_point_at_any_time() {
    let run = broken_at(&[1, 2], 2);
    let known = Known::of(&run.plan.points.iter().collect::<Vec<_>>(), &run.repeats);
    assert_eq!((known.word(1), known.word(2), known.word(3)), (Some("holds"), Some("breaks"), None));
}

#[test]
fn memory_ends_an_answer_only_where_the_next_count_did_not_fit() {
    let said = |tiles: u32| {
        let mut run = ladder(&[Kvm], &[1, 2, 3]).at(3, |repeat| repeat.host.processor.steal = 0.3);
        run = run.at(3, |repeat| repeat.host.memory_available_min = Some(1 << 20));
        let size = Bytes::from_gib(1);
        let memory_end = Some(MemoryEnd { tiles, needed: size, free: size, reserve: size });
        run.plan.search = Some(Search { from: 1, limit: 9, guess: 2, within: None, twin: false, memory_end });
        run.judged().sentence
    };
    let fit = "2 tiles, the most that fit into its memory";
    assert!(said(3).contains(fit), "{}", said(3));
    assert!(!said(4).contains("fit into its memory"), "{}", said(4));
}

#[test]
fn processors_and_tiles_at_the_ends_of_their_numbers_are_judged() {
    let mut run = ladder(&[Kvm], &[1, 2]);
    for (point, tiles) in run.plan.points.iter_mut().zip([u32::MAX - 1, u32::MAX]) {
        point.tiles = tiles;
        point.guests.iter_mut().for_each(|guest| guest.vcpus = u32::MAX);
    }
    let answer = run.judged().answer;
    assert_eq!(answer.holds, Some(u32::MAX));
    assert!(answer.vcpus_per_thread.unwrap() > 1e9);
}
