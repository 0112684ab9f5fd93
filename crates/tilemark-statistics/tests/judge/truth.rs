//! What the judge may not overlook, and what it may not claim.

use hdrhistogram::Histogram;
use tilemark_plan::plan::Backend::Kvm;
use tilemark_record::result::{Counts, GateMeasure, LimitResource, VerdictStatus};
use tilemark_record::summary::{EncodedHistogram, Incident, IncidentKind, LoadFigures, RepeatSummary};

use crate::run::{CLOSED, Run, all_slow, ladder, latency, of_scenario};

/// Every second repeat at a step.
fn every_second(change: impl Fn(&mut RepeatSummary)) -> impl Fn(&mut RepeatSummary) {
    move |repeat| {
        if repeat.repeat % 2 == 0 {
            change(repeat);
        }
    }
}

fn incident(kind: IncidentKind) -> impl Fn(&mut RepeatSummary) {
    move |repeat| {
        repeat.incidents.push(Incident {
            kind,
            what: "it went wrong".to_owned(),
            guest: Some("tile-001-web".to_owned()),
        });
    }
}

#[test]
fn a_failure_of_a_guest_breaks_the_point_and_discards_nothing() {
    type Change = Box<dyn Fn(&mut RepeatSummary)>;
    let cases: [(GateMeasure, Change); 5] = [
        (GateMeasure::GuestEnded, Box::new(incident(IncidentKind::GuestEnded))),
        (GateMeasure::WrongAnswers, Box::new(incident(IncidentKind::WrongAnswers))),
        (GateMeasure::ServiceErrors, Box::new(incident(IncidentKind::ServiceErrors))),
        (GateMeasure::OutOfMemory, Box::new(|repeat: &mut RepeatSummary| repeat.host.oom_kills = Some(1))),
        (
            GateMeasure::Swapping,
            Box::new(|repeat: &mut RepeatSummary| repeat.host.swapped_pages = Some(500_000)),
        ),
    ];
    for (measure, change) in cases {
        let judged = ladder(&[Kvm], &[1, 2]).at(2, every_second(change)).judged();
        let broke =
            judged.answer.breaks.as_ref().unwrap_or_else(|| panic!("{measure:?}: {}", judged.sentence));
        assert_eq!((judged.answer.holds, broke.tiles, broke.measure), (Some(1), 2, measure));
        assert_eq!(broke.value, 0.4, "two of five repeats");
        assert_eq!(
            (judged.points[1].repeats_kept, judged.points[1].repeats_voided.len()),
            (5, 0),
            "{measure:?}"
        );
        assert_eq!(
            judged.verdict.status,
            VerdictStatus::Trusted,
            "{measure:?}: {:?}",
            judged.verdict.reasons
        );
        assert!(judged.sentence.contains("(2 of 5 repeats)"), "{}", judged.sentence);
    }
}

#[test]
fn processors_that_slow_for_heat_discard_no_repeat() {
    let judged = ladder(&[Kvm], &[1]).at(1, |repeat| repeat.host.throttled = Some(900)).judged();
    assert_eq!((judged.points[0].repeats_kept, judged.points[0].holds), (5, Some(true)));
    assert!(
        judged.points[0].notes.iter().any(|note| note.contains("slowed for heat")),
        "{:?}",
        judged.points[0].notes
    );
}

/// Every load and guest of the repeats at a step has these p99s, repeat by repeat.
fn p99s(run: Run, tiles: u32, values: &'static [f64]) -> Run {
    run.at(tiles, move |repeat| all_slow(values[repeat.repeat as usize - 1])(repeat))
}

#[test]
fn an_interval_across_the_gate_is_undecided_and_never_trusted() {
    for values in [
        &[20.0, 48.0, 120.0, 30.0, 44.0],
        &[20.0, 20.0, 20.0, 20.0, 900.0],
        &[20.0, 20.0, 20.0, 20.0, 8_000.0],
    ] {
        let judged = p99s(ladder(&[Kvm], &[1, 2]), 2, values).judged();
        assert_eq!(judged.points[1].holds, None, "{values:?}");
        assert_eq!(
            (judged.answer.holds, judged.answer.undecided),
            (Some(1), Some(Counts { from: 2, to: 2 }))
        );
        assert_ne!(judged.verdict.status, VerdictStatus::Trusted, "{}", judged.sentence);
        let within = values.iter().filter(|value| **value <= 50.0).count() as u32;
        assert_eq!(judged.points[1].repeats_within, Some(within));
        assert!(judged.sentence.contains("2 tiles are undecided"), "{}", judged.sentence);
    }
}

/// Near the limits of a real search: the law is sure of 20, and takes the only repeat there for a wild one.
#[test]
fn a_count_whose_only_repeat_missed_the_gate_is_not_called_one_that_holds() {
    let search = |only: &'static [f64]| {
        let run = ladder(&[Kvm], &[2, 8, 17, 18, 19, 20, 24]);
        let run = p99s(run, 17, &[11.3, 10.7, 11.0, 11.2, 10.9]);
        let run = p99s(run, 18, &[11.2, 14.8, 12.0, 13.0, 12.5]);
        let run = p99s(run, 19, &[15.3, 16.6, 16.3, 22.5, 17.0]);
        let run = p99s(p99s(run, 20, only), 24, &[140.0, 63.7, 0.0, 0.0, 0.0]);
        let kept = |tiles: u32| if tiles == 20 { 1 } else { 2 };
        run.without(|repeat, point| point.tiles >= 20 && repeat.repeat > kept(point.tiles)).judged()
    };
    let [within, missed] = [&[17.4; 5], &[113.0; 5]].map(|only| search(only));
    assert_eq!((within.points[5].repeats_within, within.points[5].holds), (Some(1), Some(true)));
    assert_eq!((missed.points[5].repeats_within, missed.points[5].holds), (Some(0), None));
    assert_eq!((within.answer.holds, missed.answer.holds), (Some(20), Some(19)), "{}", missed.sentence);
}

#[test]
fn a_count_that_a_guest_failed_at_is_no_end_of_the_capacity_by_p99() {
    let run = ladder(&[Kvm], &[1, 2, 4, 8, 16, 17]);
    let run = p99s(p99s(run, 8, &[9.0, 9.5, 10.0, 9.2, 9.8]), 16, &[27.0, 30.0, 33.0, 60.0, 61.0]);
    let judged = run.at(17, incident(IncidentKind::GuestEnded)).judged();
    let broke = judged.answer.breaks.as_ref().map(|broke| (broke.tiles, broke.measure));
    assert_eq!(broke, Some((17, GateMeasure::GuestEnded)), "{}", judged.sentence);
    assert_eq!(judged.answer.capacity, None);
}

#[test]
fn a_count_that_the_answer_leaves_open_is_open_in_its_row() {
    let run = p99s(ladder(&[Kvm], &[2, 17, 18, 19, 20, 23]), 17, &[11.3, 10.7, 11.0, 11.2, 10.9]);
    let run = p99s(run, 18, &[11.2, 11.8, 12.0, 11.0, 11.5]);
    let run = p99s(p99s(run, 19, &[11.3, 11.6, 12.3, 12.5, 12.0]), 20, &[12.4; 5]);
    let run = p99s(run, 23, &[60.0, 63.0, 66.0, 62.0, 64.0]);
    let few = |tiles: u32| [2, 20].contains(&tiles);
    let judged = run.without(|repeat, point| few(point.tiles) && repeat.repeat > 1).judged();
    assert_eq!((judged.answer.holds, judged.answer.undecided.map(|open| open.from)), (Some(19), Some(20)));
    assert_eq!(judged.points[4].holds, None, "{}", judged.sentence);
    assert_eq!(judged.points[0].holds, Some(true), "what lies below an end is not open: {}", judged.sentence);
}

#[test]
fn the_interval_of_the_count_that_holds_lies_within_the_gate_in_every_trusted_answer() {
    let judged = p99s(ladder(&[Kvm], &[1, 2, 3]), 2, &[30.0, 33.0, 31.0, 29.0, 32.0]);
    let judged = p99s(judged, 3, &[88.0, 92.0, 90.0, 99.0, 80.0]).judged();
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{}", judged.sentence);
    assert_eq!(judged.answer.holds, Some(2));
    assert!(judged.answer.confidence.unwrap() >= 0.95);
    let p99 = judged.points[1].p99_ms.unwrap();
    assert!(p99.high.unwrap() <= 50.0);
    assert!(
        judged
            .sentence
            .contains(" Their p99 was 31 ms [29, 33], within the limit of 50 ms in 5 of 5 repeats."),
        "{}",
        judged.sentence
    );
}

#[test]
fn a_count_that_holds_just_within_the_gate_is_not_trusted_since_runs_differ_by_more() {
    let judged = p99s(ladder(&[Kvm], &[1, 2, 3]), 2, &[49.0, 49.2, 48.9, 49.1, 49.0]);
    let judged = p99s(judged, 3, &[88.0, 92.0, 90.0, 99.0, 80.0]).judged();
    assert_eq!(judged.answer.holds, Some(2));
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell, "{}", judged.sentence);
    assert!(
        judged.verdict.reasons[0].contains("the probability that 2 hold"),
        "{:?}",
        judged.verdict.reasons
    );
}

/// So many requests of this latency, and as many more in a hundred of another.
fn histogram(requests: u64, ms: f64) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    histogram.record_n((ms * 1e6) as u64, requests).unwrap();
    histogram
}

/// Gives the guests of the first load these requests, each of this latency, and the load all of them.
pub(crate) fn with_requests(load: &mut LoadFigures, of_guest: impl Fn(usize) -> (u64, f64)) {
    let mut all = Histogram::<u64>::new(3).unwrap();
    for (index, guest) in load.guests.iter_mut().enumerate() {
        let (requests, ms) = of_guest(index);
        let own = histogram(requests, ms);
        all.add(&own).unwrap();
        guest.latency_ms = latency(requests, ms);
        guest.latency_ms.p99 = (requests >= 2_000).then_some(ms);
        guest.latency_histogram = Some(EncodedHistogram::of(&own));
        (guest.offered, guest.completed) = (requests, requests);
    }
    load.latency_ms = latency(all.len(), all.value_at_quantile(0.99) as f64 / 1e6);
    load.latency_histogram = Some(EncodedHistogram::of(&all));
    (load.offered, load.completed) = (all.len(), all.len());
}

#[test]
fn no_guest_leaves_the_judgement_because_it_had_1999_requests() {
    for requests in [2_000, 1_999, 1_500] {
        let judged = ladder(&[Kvm], &[8]).at(8, |repeat| {
            let wobble = f64::from(repeat.repeat);
            with_requests(&mut repeat.loads[1], |guest| {
                (requests, if guest == 3 { 400.0 + wobble } else { 20.0 + wobble / 10.0 })
            });
        });
        let judged = judged.judged();
        assert_eq!(judged.points[0].holds, Some(false), "{requests} requests: {}", judged.sentence);
        assert_eq!(judged.answer.breaks.unwrap().guest.as_deref(), Some("tile-004-web"));
    }
}

#[test]
fn a_guest_of_a_closed_loop_that_crawls_in_two_of_five_repeats_is_not_overlooked() {
    let judged = of_scenario(CLOSED, &[8]).at(8, |repeat| {
        let crawls = repeat.repeat > 3;
        let wobble = f64::from(repeat.repeat) / 10.0;
        with_requests(&mut repeat.loads[0], |guest| {
            if crawls && guest == 2 { (100, 900.0) } else { (4_000, 20.0 + wobble) }
        });
    });
    let judged = judged.judged();
    assert_ne!(judged.points[0].holds, Some(true), "{}", judged.sentence);
    assert_ne!(judged.verdict.status, VerdictStatus::Trusted);
}

#[test]
fn the_p99_of_a_point_is_that_of_all_its_requests_and_no_mean_of_p99s() {
    // Four repeats of 20 ms and one of 40 ms: a fifth of all requests took 40 ms, so that is the p99 of all.
    let judged = ladder(&[Kvm], &[1]).at(1, |repeat| {
        let ms = if repeat.repeat == 5 { 40.0 } else { 20.0 };
        with_requests(&mut repeat.loads[1], |_| (4_000, ms));
    });
    let p99 = judged.judged().points[0].p99_ms.unwrap();
    assert!((p99.value - 40.0).abs() < 0.1, "{p99:?}");
    assert!(p99.low.unwrap() < 20.0 && p99.high.unwrap() > 40.0, "{p99:?}");
}

#[test]
fn repeats_that_are_discarded_only_under_load_may_be_discarded_because_of_it() {
    let run = ladder(&[Kvm], &[1, 2, 3]).at(3, |repeat| all_slow(90.0 + f64::from(repeat.repeat))(repeat));
    let judged = run.first(2, 2, |repeat| repeat.host.processor.steal = 0.1).judged();
    assert_eq!(judged.answer.holds, Some(2));
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
    assert!(
        judged.verdict.reasons[0].contains("the load itself may be the cause"),
        "{:?}",
        judged.verdict.reasons
    );
    assert!(judged.sentence.contains("2 more repeats at this count were discarded"), "{}", judged.sentence);
}

#[test]
fn a_guest_that_died_in_a_disturbed_repeat_has_died() {
    let judged = ladder(&[Kvm], &[1, 2]).at(2, |repeat| {
        if repeat.repeat == 1 {
            incident(IncidentKind::GuestEnded)(repeat);
            repeat.host.processor.steal = 0.3;
        }
    });
    let judged = judged.judged();
    let broke = judged.answer.breaks.as_ref().unwrap_or_else(|| panic!("{}", judged.sentence));
    assert_eq!((broke.tiles, broke.measure), (2, GateMeasure::GuestEnded));
}

#[test]
fn a_slow_guest_with_too_few_requests_for_a_p99_leaves_its_point_undecided() {
    let judged = ladder(&[Kvm], &[8]).at(8, |repeat| {
        let wobble = f64::from(repeat.repeat);
        with_requests(&mut repeat.loads[1], |guest| {
            if guest == 3 { (200, 400.0 + wobble) } else { (8_000, 20.0 + wobble / 10.0) }
        });
    });
    let judged = judged.judged();
    assert_eq!(judged.points[0].holds, None, "{}", judged.sentence);
    assert_ne!(judged.verdict.status, VerdictStatus::Trusted, "{}", judged.sentence);
}

#[test]
fn a_starved_guest_hides_no_other_guest_that_is_slow() {
    let judged = of_scenario(CLOSED, &[8]).at(8, |repeat| {
        let wobble = f64::from(repeat.repeat) / 10.0;
        with_requests(&mut repeat.loads[0], |guest| match guest {
            2 => (50, 20.0 + wobble),
            // Beside 24,000 requests of the others it has too few to be the p99 of all.
            5 => (200, 400.0 + wobble),
            _ => (4_000, 20.0 + wobble),
        });
    });
    let judged = judged.judged();
    assert_ne!(judged.points[0].holds, Some(true), "{}", judged.sentence);
    assert_ne!(judged.verdict.status, VerdictStatus::Trusted);
}

#[test]
fn where_nothing_is_known_to_break_nothing_is_said_to_have_run_out() {
    let across = &[20.0, 48.0, 120.0, 30.0, 44.0];
    let busy = |repeat: &mut RepeatSummary| repeat.host.guest_processors_busy = Some(0.99);
    let undecided = p99s(ladder(&[Kvm], &[1, 2]), 2, across).at(2, busy).judged();
    assert_eq!(undecided.answer.limit.resource, LimitResource::Unknown, "{}", undecided.sentence);
    assert!(!undecided.sentence.contains("first bottleneck"), "{}", undecided.sentence);
    let broke = ladder(&[Kvm], &[1, 2]).at(2, all_slow(90.0)).at(2, busy).judged();
    assert_eq!(broke.answer.limit.resource, LimitResource::Processor, "{}", broke.sentence);
}
