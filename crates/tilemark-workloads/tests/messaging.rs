//! Messaging streams on real brokers: one broker that ends costs its own stream.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use std::net::SocketAddr;
use tilemark_agent_protocol::{Credentials, LoadEvent, LoadJob, Stream};
use tilemark_broker::{Broker, Config, serve};
use tilemark_load::Stop;
use tilemark_plan::{
    plan::Demand,
    workload::{IncidentKind, MessagingParameters, Work},
};
use tilemark_units::Span;

fn stream(id: u32, target: SocketAddr) -> Stream {
    let credentials = Credentials { user: "guest".to_owned(), password: "guest".to_owned() };
    Stream {
        credentials: Some(credentials),
        timeout: Span::from_seconds(30),
        ..Stream::new(id, target, Demand::Closed, Work::Messaging(MessagingParameters::default()))
    }
}

#[test]
fn a_broker_that_ends_is_named_and_the_stream_of_another_is_measured_to_its_end() {
    let config = || Config::new("127.0.0.1:0".parse().unwrap());
    let [ends, lives]: [Broker; 2] = [(); 2].map(|()| serve(config()).unwrap());
    let job = LoadJob {
        streams: vec![stream(0, ends.address()), stream(1, lives.address())],
        processors: Vec::new(),
        warmup: Span::from_milliseconds(100),
        length: Span::from_seconds(3),
    };
    let (mut ends, mut last, mut seconds) = (Some(ends), None, [0, 0]);
    tilemark_workloads::run(&job, &Stop::new().unwrap(), &mut |event| match event {
        // The load goes on meanwhile, and ends no stream before this returns.
        LoadEvent::Busy { second: 0, .. } => drop(ends.take().unwrap().stop().unwrap()),
        LoadEvent::Second(second) => seconds[second.id as usize] += 1,
        LoadEvent::Done(_) | LoadEvent::Failed { .. } => last = Some(event),
        _ => {}
    });
    let Some(LoadEvent::Done(totals)) = last else { panic!("the load failed: {last:?}") };
    let [of_ended, of_other] = &totals[..] else { panic!("two totals: {totals:?}") };
    assert!(of_ended.findings.iter().any(|found| found.kind == IncidentKind::ServiceErrors), "{of_ended:?}");
    assert!(of_ended.counts.completed > 0, "what came through before counts: {of_ended:?}");
    assert_eq!((of_other.findings.len(), of_other.errors.len()), (0, 0), "{of_other:?}");
    assert!(of_other.counts.completed > 0 && seconds[1] == 3, "{seconds:?} {of_other:?}");
}
