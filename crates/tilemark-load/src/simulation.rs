//! Lane and account against an invented server in invented time: what users felt is known exactly.

use crate::{
    account::Account,
    clock::SECOND_NS,
    conversation::Verdict,
    figures::{decode, histogram},
    lane::{Due, Lane},
    sample::{Ended, Sample},
    schedule::Schedule,
};
use hdrhistogram::Histogram;
use std::{cmp::Reverse, collections::BinaryHeap};
use tilemark_agent_protocol::LoadEvent;
use tilemark_plan::{plan::Demand, scenario::Arrival};
use tilemark_units::{Rate, Span};

/// A server that takes so long for a request that it gets at this time.
type Server<'a> = &'a dyn Fn(u64) -> u64;

/// A distribution in milliseconds: mean, percentiles 50, 90, 99 and 99.9, and the largest.
#[derive(Debug)]
struct Milliseconds([f64; 6]);

impl Milliseconds {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
        Self([histogram.mean() / 1e6, at(0.5), at(0.9), at(0.99), at(0.999), histogram.max() as f64 / 1e6])
    }
}

const CONNECTIONS: u32 = 4;

fn schedule(rate: f64, seconds: u64) -> Vec<u64> {
    let demand = Demand::Open {
        rate: Rate::per_second(rate).unwrap(),
        arrival: Arrival::Poisson,
        burst_every: Span::from_seconds(1),
        burst_length: Span::from_seconds(1),
        surge: None,
    };
    let schedule = Schedule::new(&demand, 21, 0).unwrap().unwrap();
    schedule.take_while(|time| *time < seconds * SECOND_NS).collect()
}

/// Sends a schedule through lane and account. Ends of requests are events of a time that is only counted.
fn measured(intended: &[u64], server: Server) -> Milliseconds {
    let mut lane = Lane::new(0, None, CONNECTIONS as usize, None);
    (0..CONNECTIONS).for_each(|connection| assert!(lane.freed(connection, 0, 0).is_none()));
    let mut account = Account::new([(0, 1)].into_iter(), 1);
    let mut ends: BinaryHeap<Reverse<(u64, u32, u64)>> = BinaryHeap::new();
    let mut due = intended.iter().copied().peekable();
    let mut offered = vec![0; (intended.last().unwrap() / SECOND_NS) as usize + 1];
    loop {
        let next_end = ends.peek().map_or(u64::MAX, |Reverse((time, ..))| *time);
        match due.peek().copied() {
            Some(time) if time <= next_end => {
                due.next();
                offered[(time / SECOND_NS) as usize] += 1;
                if let Some(connection) = lane.take_up(time, time) {
                    ends.push(Reverse((time + server(time), connection, time)));
                }
            }
            _ => {
                let Some(Reverse((now, connection, started))) = ends.pop() else { break };
                account.samples(&[Sample {
                    stream: 0,
                    second: (started / SECOND_NS) as u32,
                    latency: now - started,
                    lateness: 0,
                    body_bytes: 0,
                    verdict: Verdict::Right,
                }]);
                if let Some(Due { intended, lateness }) = lane.freed(connection, now, now) {
                    assert_eq!(lateness, 0, "waiting for the server is never our lateness");
                    ends.push(Reverse((now + server(now), connection, intended)));
                }
            }
        }
    }
    (0_u32..).zip(&offered).for_each(|(second, count)| account.offered(0, second, *count));
    let mut all = histogram();
    let totals = account.totals(&[Ended::default()], 0, &mut |event| match event {
        LoadEvent::Second(second) => all.add(decode(&second.latency).unwrap()).unwrap(),
        other => panic!("{other:?}"),
    });
    assert_eq!(totals[0].counts.completed, intended.len() as u64);
    Milliseconds::of(&all)
}

/// What users felt, from the schedule alone: each request goes to the connection that is free first.
fn felt(intended: &[u64], server: Server) -> Milliseconds {
    let mut free: BinaryHeap<Reverse<u64>> = (0..CONNECTIONS).map(|_| Reverse(0)).collect();
    let mut histogram: Histogram<u64> = Histogram::new(5).unwrap();
    for time in intended {
        let Reverse(free_at) = free.pop().unwrap();
        let begin = free_at.max(*time);
        let end = begin + server(begin);
        free.push(Reverse(end));
        histogram.record(end - time).unwrap();
    }
    Milliseconds::of(&histogram)
}

fn assert_same(server: Server, rate: f64) -> Milliseconds {
    let intended = schedule(rate, 30);
    let (measured, felt) = (measured(&intended, server), felt(&intended, server));
    for (got, truth) in measured.0.iter().zip(felt.0) {
        // Three significant digits.
        assert!((got / truth - 1.0).abs() < 0.0011, "{measured:?} is not {felt:?}");
    }
    measured
}

#[test]
fn a_planted_law_comes_back() {
    // 1 to 20 ms, spread by the time at which the request came.
    assert_same(&|time| 1_000_000 + time.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 19_000_000, 100.0);
}

#[test]
fn a_server_that_stops_for_a_third_is_felt_by_all_who_came_meanwhile() {
    let stop = 10 * SECOND_NS..20 * SECOND_NS;
    let server = |time: u64| if stop.contains(&time) { stop.end - time } else { 0 } + 1_000_000;
    let Milliseconds([mean, _, _, p99, ..]) = assert_same(&server, 500.0);
    // A third of the users waited 5 s on average: a load that leaves requests out would say a few milliseconds.
    assert!(mean > 1_600.0 && p99 > 9_500.0, "{mean} {p99}");
}

#[test]
fn an_overloaded_server_is_felt_as_a_growing_queue() {
    let Milliseconds([.., max]) = assert_same(&|_| 10_000_000, 800.0);
    assert!(max > 10_000.0, "{max}");
}
