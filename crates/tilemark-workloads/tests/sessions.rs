//! Users with sessions against a site in memory, through the engine: several wires, slow lines, connections that break.

#![allow(missing_docs, clippy::unwrap_used)]

#[path = "common/site.rs"]
mod site;

use site::Manners;
use std::{collections::BTreeMap, net::TcpListener, thread};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Stream, StreamTotal};
use tilemark_load::Stop;
use tilemark_plan::{
    plan::{Demand, Swell},
    scenario::Arrival,
    workload::{SessionFiles, SessionPage, SessionsParameters, Work},
};
use tilemark_units::{Bytes, Rate, Span};

/// Bytes of a page and its files.
const PAGE: u64 = 40_000;

fn parameters() -> SessionsParameters {
    let files = vec![SessionFiles { size: Bytes::new(10_000), count: 3, kept: 0.0 }];
    let page = SessionPage { bytes: Bytes::new(10_000), files, next: BTreeMap::new() };
    SessionsParameters {
        first: Some("a".to_owned()),
        page: BTreeMap::from([("a".to_owned(), page)]),
        users: 4,
        tls: Some(false),
        ..SessionsParameters::default()
    }
}

/// A second of a closed loop against such a site.
fn measured(parameters: SessionsParameters, manners: Manners) -> StreamTotal {
    asked(Demand::Closed, parameters, manners)
}

/// A second of such a demand.
fn asked(demand: Demand, parameters: SessionsParameters, manners: Manners) -> StreamTotal {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (target, site) = (listener.local_addr().unwrap(), parameters.site());
    thread::spawn(move || site::serve(&listener, &site, manners));
    let connections = parameters.users;
    let stream = Stream::new(0, target, demand, Work::Sessions(parameters));
    let job = LoadJob {
        streams: vec![Stream { connections, seed: 1, ..stream }],
        processors: Vec::new(),
        warmup: Span::from_seconds(0),
        length: Span::from_seconds(1),
    };
    let mut totals = Vec::new();
    tilemark_workloads::run(&job, &Stop::new().unwrap(), &mut |event| match event {
        LoadEvent::Done(all) => totals = all,
        LoadEvent::Failed { message, .. } => panic!("{message}"),
        _ => {}
    });
    totals.remove(0)
}

#[test]
fn pages_with_their_files_come_over_several_wires_and_every_byte_is_right() {
    for parallel in [1, 2, 5] {
        let total = measured(SessionsParameters { parallel, ..parameters() }, Manners::default());
        let counts = total.counts;
        assert!(counts.completed > 0 && counts.failed + counts.wrong == 0, "{parallel} wires: {counts:?}");
        // The first lines of pages are a little more.
        assert!(counts.bytes > counts.completed * PAGE, "{counts:?}");
    }
}

#[test]
fn a_slow_line_takes_as_long_as_its_bytes_and_not_less() {
    let receive = Some(Bytes::new(200_000));
    let total = measured(SessionsParameters { receive, parallel: 1, ..parameters() }, Manners::default());
    let counts = total.counts;
    assert!(counts.failed + counts.wrong == 0, "{counts:?}");
    // 40 kB at 200 kB/s are 0.2 s: 5 pages a second and user, and one more that was begun before the end.
    assert!((1..=24).contains(&counts.completed), "{counts:?}");
}

#[test]
fn pages_come_as_often_as_a_surge_of_their_rate_has_it() {
    let demand = |surge| Demand::Open {
        rate: Rate::per_second(100.0).unwrap(),
        arrival: Arrival::Even,
        burst_every: Span::from_seconds(5),
        burst_length: Span::from_seconds(1),
        surge,
    };
    let (from, length) = (Span::from_milliseconds(500), Span::from_milliseconds(250));
    for (surge, wanted) in [(None, 100), (Some(Swell { from, length, factor: 16 }), 475)] {
        let counts = asked(demand(surge), parameters(), Manners::default()).counts;
        // The phase of an even schedule is drawn: a page more or less is at the end of each part.
        assert!(counts.offered.abs_diff(wanted) <= 2, "{counts:?}");
        assert!(counts.completed > 0 && counts.wrong == 0, "{counts:?}");
    }
}

#[test]
fn a_page_that_breaks_off_fails_and_its_user_goes_on() {
    let total = measured(parameters(), Manners { cut_each: 7 });
    let counts = total.counts;
    assert!(counts.failed > 4, "each user has met several: {counts:?}");
    assert!(counts.completed > 4 && counts.wrong == 0, "{counts:?}");
}
