//! What client machines do to a repeat.

use tilemark_plan::plan::Backend;
use tilemark_record::{
    clients::{ClientFigures, ClientLoad},
    result::VerdictStatus,
    summary::{Busy, RepeatSummary},
};

use crate::run::ladder;

fn fit() -> ClientFigures {
    ClientFigures {
        name: "c2".to_owned(),
        tiles: vec![1],
        uncertainty_ms: Some(0.2),
        intended_begin_ns: Some(1_000_000_000),
        actual_begin_ns: Some(1_000_400_000),
        busy: Busy { mean_fraction: 0.2, max_fraction: 0.3 },
        steal: Some(0.0),
        other: Some(0.01),
        line_used: Some(0.5),
        loads: vec![ClientLoad {
            name: "steady".to_owned(),
            send_lateness_p99_us: Some(60.0),
            ..ClientLoad::default()
        }],
        ..ClientFigures::default()
    }
}

/// Why the first repeat was discarded, where its client is this one.
fn why_discarded(change: impl Fn(&mut ClientFigures)) -> Option<String> {
    let mut client = fit();
    change(&mut client);
    let with = |repeat: &mut RepeatSummary| repeat.clients = vec![client.clone()];
    let judged = ladder(&[Backend::Kvm], &[1]).first(1, 1, with).judged();
    judged.points[0].repeats_voided.first().map(|voided| voided.reason.clone())
}

#[test]
fn a_client_that_ran_out_of_something_is_named_with_it_and_discards_the_repeat() {
    type Change = fn(&mut ClientFigures);
    let cases: [(&str, Change); 10] = [
        ("client c2: a thread used 81 % of its processor", |client| client.busy.max_fraction = 0.81),
        ("client c2: steal 2.1 % of its processors", |client| client.steal = Some(0.021)),
        ("client c2: foreign load 5.1 % of its processors", |client| client.other = Some(0.051)),
        ("client c2: its network carried 81 % of its line rate", |client| client.line_used = Some(0.81)),
        ("client c2: requests of load steady were sent up to 3.00 ms late", |client| {
            client.loads[0].send_lateness_p99_us = Some(3_000.0);
        }),
        ("client c2: its clock was uncertain by 10.1 ms", |client| client.uncertainty_ms = Some(10.1)),
        ("client c2: its load began 10.5 ms late", |client| client.actual_begin_ns = Some(1_010_500_000)),
        ("client c2: it did not report when its load began", |client| client.actual_begin_ns = None),
        ("client c2: its clock was not read", |client| client.uncertainty_ms = None),
        ("client c2: a thread used NaN % of its processor", |client| client.busy.max_fraction = f64::NAN),
    ];
    for (wanted, change) in cases {
        let why = why_discarded(change);
        assert!(why.as_deref().is_some_and(|why| why.contains(wanted)), "{wanted}: {why:?}");
    }
}

#[test]
fn a_client_that_has_enough_of_everything_discards_nothing() {
    assert_eq!(why_discarded(|_| ()), None);
    // On the measured host itself the guests are others too.
    let here = |client: &mut ClientFigures| (client.same_machine, client.other) = (true, Some(0.9));
    assert_eq!(why_discarded(here), None);
    let judged = ladder(&[Backend::Kvm], &[1]).first(1, 1, |repeat| repeat.clients = vec![fit()]).judged();
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{:?}", judged.verdict.reasons);
}

#[test]
fn a_point_says_from_where_its_loads_came_and_how_far_that_is() {
    let far = || ClientFigures {
        name: "c1".to_owned(),
        idle_round_trip_ms: Some(0.25),
        intended_begin_ns: Some(1_000_000),
        actual_begin_ns: Some(1_400_000),
        ..fit()
    };
    let here = ClientFigures { same_machine: true, ..fit() };
    let judged = ladder(&[Backend::Kvm], &[1])
        .first(1, 1, |repeat| repeat.clients = vec![here.clone(), far()])
        .judged();
    let notes = &judged.points[0].notes;
    assert!(
        notes.iter().any(|note| note
            == "loads came from the client machines c1, c2; idle round trip up to 0.25 ms; clocks known within 0.20 ms; each began \
                within 0.40 ms of its time"),
        "{notes:?}"
    );
    assert!(notes.iter().any(|note| note.starts_with("this host itself is client c2")), "{notes:?}");
}
