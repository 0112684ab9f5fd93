//! What discards a repeat, and that a discarded one enters no figure.

use tilemark_plan::plan::Backend;
use tilemark_record::result::VerdictStatus;
use tilemark_record::summary::{Drift, DriftOf, Incident, IncidentKind, RepeatSummary};

use crate::run::{all_slow, ladder, latency};

type Disturb = fn(&mut RepeatSummary);

#[test]
fn each_disturbance_discards_its_repeat_with_its_reason_and_a_little_less_does_not() {
    let rules: [(&str, Disturb, &str, Disturb); 11] = [
        (
            "steal",
            |r| r.host.processor.steal = 0.03,
            "the hypervisor took 3.0 % of the host as steal",
            |r| r.host.processor.steal = 0.019,
        ),
        (
            "foreign load",
            |r| r.host.processor.other = 0.06,
            "other programs used 6.0 % of the host",
            |r| r.host.processor.other = 0.049,
        ),
        ("foreign NaN", |r| r.host.processor.other = f64::NAN, "other programs used NaN %", |_| ()),
        (
            "clock step",
            |r| r.host.clock_step_ms_max = 40.0,
            "stepped by 40 ms",
            |r| r.host.clock_step_ms_max = 9.0,
        ),
        ("no telemetry", |r| r.host.seconds = 0, "not monitored", |r| r.host.seconds = 1),
        ("incident", |r| r.incidents.push(incident(None)), "the guest's clock jumped", |_| ()),
        (
            "guest's incident",
            |r| r.incidents.push(incident(Some("tile-001-web"))),
            "tile-001-web: the",
            |_| (),
        ),
        (
            "busy sender",
            |r| r.loads[0].sender_busy.max_fraction = 0.81,
            "used 81 %",
            |r| {
                r.loads[0].sender_busy.max_fraction = 0.8;
            },
        ),
        (
            "lateness",
            |r| r.loads[0].send_lateness_us.p99 = Some(2_200.0),
            "2.20 ms late",
            |r| {
                r.loads[0].send_lateness_us.p99 = Some(1_900.0);
            },
        ),
        ("lost load", |r| drop(r.loads.remove(0)), "load bursts gave no figures", |_| ()),
        ("silent load", |r| r.loads[1].offered = 0, "load steady asked nothing", |_| ()),
    ];
    for (name, disturb, reason, less) in rules {
        let point = &ladder(&[Backend::Kvm], &[1]).first(1, 1, disturb).judged().points[0];
        assert_eq!((point.repeats_kept, point.repeats_voided.len()), (4, 1), "{name}");
        assert!(
            point.repeats_voided[0].reason.contains(reason),
            "{name}: {}",
            point.repeats_voided[0].reason
        );
        let point = &ladder(&[Backend::Kvm], &[1]).first(1, 1, less).judged().points[0];
        assert_eq!((point.repeats_kept, point.repeats_voided.len()), (5, 0), "less than {name}");
    }
}

fn incident(guest: Option<&str>) -> Incident {
    Incident {
        kind: IncidentKind::Unproven,
        what: "the guest's clock jumped".to_owned(),
        guest: guest.map(str::to_owned),
    }
}

#[test]
fn a_discarded_repeat_enters_no_figure() {
    let clean = ladder(&[Backend::Kvm], &[1]).without(|repeat, _| repeat.repeat == 1).judged();
    let disturbed = ladder(&[Backend::Kvm], &[1]).at(1, |repeat| {
        if repeat.repeat == 1 {
            all_slow(9_000.0)(repeat);
            repeat.loads[0].completed = 1;
            repeat.host.processor.steal = 0.5;
        }
    });
    let disturbed = disturbed.judged();
    assert_eq!(disturbed.points[0].repeats_voided[0].repeat, 1);
    assert_eq!(disturbed.points[0].p99_ms, clean.points[0].p99_ms);
    assert_eq!(disturbed.points[0].throughput, clean.points[0].throughput);
    assert_eq!(disturbed.points[0].loads, clean.points[0].loads);
    assert_eq!(disturbed.points[0].processor, clean.points[0].processor);
}

#[test]
fn kept_and_discarded_repeats_are_all_that_were_started() {
    let run = ladder(&[Backend::Kvm], &[1, 2]).first(2, 2, |repeat| repeat.host.processor.steal = 0.5);
    for point in run.judged().points {
        assert_eq!(point.repeats_kept as usize + point.repeats_voided.len(), 5);
    }
}

#[test]
fn all_reasons_are_given_at_once() {
    let run = ladder(&[Backend::Kvm], &[1]).first(1, 1, |repeat| {
        repeat.host.processor.steal = 0.1;
        repeat.host.clock_step_ms_max = 40.0;
    });
    let reason = run.judged().points[0].repeats_voided[0].reason.clone();
    assert!(reason.contains("steal") && reason.contains("; the clock stepped"), "{reason}");
}

#[test]
fn lateness_that_is_small_against_the_gate_is_no_saturated_load() {
    // 0.3 ms late where 0.5 ms are reported: over 10 %, yet nothing beside a gate of 50 ms.
    let run = ladder(&[Backend::Kvm], &[1]).at(1, |repeat| {
        all_slow(0.5)(repeat);
        repeat.loads[0].send_lateness_us.p99 = Some(300.0);
    });
    assert_eq!(run.judged().points[0].repeats_kept, 5);
}

#[test]
fn figures_of_another_backend_than_planned_are_never_averaged_in() {
    let run = ladder(&[Backend::Kvm], &[1]).first(1, 1, |repeat| repeat.backend = Backend::Native);
    let point = &run.judged().points[0];
    assert_eq!(point.repeats_kept, 4);
    assert!(point.repeats_voided[0].reason.contains("native where the plan says kvm"));
}

#[test]
fn points_of_two_backends_have_each_their_own_figures() {
    let run = ladder(&[Backend::Kvm, Backend::Native], &[1]).backend(Backend::Native, all_slow(2.0));
    let points = run.judged().points;
    let p99 = |backend| points.iter().find(|point| point.backend == backend).unwrap().p99_ms.unwrap();
    assert!((p99(Backend::Kvm).value - 20.0).abs() < 0.5);
    assert!((p99(Backend::Native).value - 2.0).abs() < 0.1);
    assert_eq!(p99(Backend::Kvm).n_repeats, 5);
}

#[test]
fn a_few_discarded_repeats_leave_the_verdict_trusted_and_most_do_not() {
    let disturb: Disturb = |repeat| repeat.host.processor.steal = 0.2;
    for (voided, status) in [
        (0, VerdictStatus::Trusted),
        (2, VerdictStatus::Trusted),
        (3, VerdictStatus::NotTrusted),
        (5, VerdictStatus::NotTrusted),
    ] {
        let verdict = ladder(&[Backend::Kvm], &[1]).first(voided, 1, disturb).judged().verdict;
        assert_eq!(verdict.status, status, "{voided} voided: {:?}", verdict.reasons);
        assert_eq!(verdict.reasons.is_empty(), status == VerdictStatus::Trusted);
    }
}

#[test]
fn two_repeats_have_figures_without_interval_and_cannot_tell() {
    let judged = ladder(&[Backend::Kvm], &[1]).without(|repeat, _| repeat.repeat > 2).judged();
    let p99 = judged.points[0].p99_ms.unwrap();
    assert_eq!((p99.low, p99.high, p99.n_repeats), (None, None, 2));
    assert!(
        judged.missing["points.0.loads.steady.p99_ms.low"]
            .contains("only 2 repeats, and an interval needs 3")
    );
    assert_eq!(judged.verdict.status, VerdictStatus::CannotTell);
}

#[test]
fn a_failure_has_no_number_in_its_place() {
    let run = ladder(&[Backend::Kvm], &[1]).at(1, |repeat| {
        let load = repeat.loads.iter_mut().find(|load| load.name == "steady").unwrap();
        (load.completed, load.failed) = (0, load.offered);
        load.latency_ms = Default::default();
        for guest in &mut load.guests {
            (guest.completed, guest.errors, guest.latency_ms) = (0, guest.offered, Default::default());
        }
    });
    let judged = run.judged();
    let point = &judged.points[0];
    assert_eq!((point.throughput.clone(), point.p99_ms, point.latency_ms), (None, None, None));
    assert_eq!(point.errors, Some(1.0));
    assert_eq!(point.fairness, None);
    for name in ["throughput", "p99_ms", "fairness"] {
        assert!(judged.missing.contains_key(&format!("points.0.loads.steady.{name}")), "{name}");
    }
    assert_eq!(point.holds, Some(false));
}

#[test]
fn a_percentile_with_too_few_requests_beyond_it_is_missing_with_its_reason() {
    let run = ladder(&[Backend::Kvm], &[1]).at(1, |repeat| {
        for load in &mut repeat.loads {
            load.latency_ms.n = 1_500;
            load.guests.iter_mut().for_each(|guest| guest.latency_ms.n = 1_500);
        }
    });
    let judged = run.judged();
    let latency = judged.points[0].latency_ms.unwrap();
    assert_eq!((latency.p99, latency.p999), (None, None));
    assert!(latency.p90.is_some());
    assert!(judged.missing["points.0.loads.steady.p99_ms"].contains("15 of the 20 requests that p99 needs"));
}

#[test]
fn without_a_p99_a_point_holds_when_even_its_slowest_request_did_and_is_unknown_else() {
    for (p99, holds) in [(20.0, Some(true)), (30.0, None)] {
        // The slowest takes twice the p99: 40 ms and 60 ms against a gate of 50 ms.
        let run = ladder(&[Backend::Kvm], &[1]).at(1, |repeat| {
            for load in &mut repeat.loads {
                load.latency_ms = latency(500, p99);
                load.guests.iter_mut().for_each(|guest| guest.latency_ms = latency(500, p99));
            }
        });
        assert_eq!(run.judged().points[0].holds, holds, "p99 {p99}");
    }
}

#[test]
fn the_same_repeats_in_any_order_are_judged_alike() {
    let run = ladder(&[Backend::Kvm, Backend::Native], &[1, 2, 4]);
    let mut turned = ladder(&[Backend::Kvm, Backend::Native], &[1, 2, 4]);
    turned.repeats.reverse();
    assert_eq!(run.judged(), turned.judged());
}

#[test]
fn a_load_that_had_not_settled_stays_and_is_noted() {
    let drift = |second_half| Some(Drift { what: DriftOf::Latency, first_half: 2.0, second_half, p: 0.01 });
    let run = ladder(&[Backend::Kvm], &[1]).first(3, 1, |repeat| repeat.loads[0].drift = drift(2.8));
    let point = &run.judged().points[0];
    assert_eq!((point.repeats_kept, point.holds), (5, Some(true)));
    let said = "bursts: latency rose by 40 % within 3 of 5 repeats: it had not settled.";
    assert!(point.notes[0].starts_with(said), "{:?}", point.notes);
}

#[test]
fn kernel_threads_are_no_foreign_load_and_are_noted_where_the_run_is_small() {
    let with = |kernel, guest_work| {
        ladder(&[Backend::Kvm], &[1]).at(1, move |repeat| {
            let parts = &mut repeat.host.processor;
            (parts.kernel, parts.guest_work, parts.idle) = (kernel, guest_work, 0.0);
        })
    };
    let judged = with(0.3, 0.4).judged();
    assert_eq!((judged.points[0].repeats_kept, judged.points[0].notes.len()), (5, 0));
    assert_eq!(judged.points[0].processor.unwrap().kernel, 0.3);
    let judged = with(0.3, 0.01).judged();
    assert_eq!(judged.points[0].repeats_kept, 5);
    assert!(judged.points[0].notes[0].contains("kernel threads took 30 %"), "{:?}", judged.points[0].notes);
}
