//! Lane and account against an invented server in invented time: what users felt is known exactly.

use crate::{
    account::Account,
    clock::SECOND_NS,
    conversation::Verdict,
    figures::{Percentiles, decode, percentiles_ms},
    lane::{Due, Lane},
    sample::{Ended, Sample},
    schedule::Schedule,
};
use hdrhistogram::Histogram;
use std::{cmp::Reverse, collections::BinaryHeap};
use tilemark_plan::{plan::Demand, scenario::Arrival};
use tilemark_units::{Rate, Span};

/// A server that takes so long for a request that it gets at this time.
type Server<'a> = &'a dyn Fn(u64) -> u64;

const CONNECTIONS: u32 = 4;

fn schedule(rate: f64, seconds: u64) -> Vec<u64> {
    let demand = Demand::Open {
        rate: Rate::per_second(rate).unwrap(),
        arrival: Arrival::Poisson,
        burst_every: Span::from_seconds(1),
        burst_length: Span::from_seconds(1),
    };
    let schedule = Schedule::new(&demand, 21, 0).unwrap().unwrap();
    schedule.take_while(|time| *time < seconds * SECOND_NS).collect()
}

/// Sends a schedule through lane and account. Ends of requests are events of a time that is only counted.
fn measured(intended: &[u64], server: Server) -> Percentiles {
    let mut lane = Lane::new(0, None, CONNECTIONS as usize);
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
    let totals = account.totals(&[Ended::default()], 0, &mut |_| ());
    assert_eq!(totals[0].counts.completed, intended.len() as u64);
    percentiles_ms(&decode(&totals[0].latency).unwrap()).unwrap()
}

/// What users felt, from the schedule alone: each request goes to the connection that is free first.
fn felt(intended: &[u64], server: Server) -> Percentiles {
    let mut free: BinaryHeap<Reverse<u64>> = (0..CONNECTIONS).map(|_| Reverse(0)).collect();
    let mut histogram: Histogram<u64> = Histogram::new(5).unwrap();
    for time in intended {
        let Reverse(free_at) = free.pop().unwrap();
        let begin = free_at.max(*time);
        let end = begin + server(begin);
        free.push(Reverse(end));
        histogram.record(end - time).unwrap();
    }
    percentiles_ms(&histogram).unwrap()
}

fn assert_same(server: Server, rate: f64) -> Percentiles {
    let intended = schedule(rate, 30);
    let (measured, felt) = (measured(&intended, server), felt(&intended, server));
    for (got, truth) in [
        (measured.mean, felt.mean),
        (measured.p50, felt.p50),
        (measured.p90, felt.p90),
        (measured.p99, felt.p99),
        (measured.p999, felt.p999),
        (measured.max, felt.max),
    ] {
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
    let felt = assert_same(&server, 500.0);
    // A third of the users waited 5 s on average: a load that leaves requests out would say a few milliseconds.
    assert!(felt.mean > 1_600.0 && felt.p99 > 9_500.0, "{felt:?}");
}

#[test]
fn an_overloaded_server_is_felt_as_a_growing_queue() {
    let felt = assert_same(&|_| 10_000_000, 800.0);
    assert!(felt.max > 10_000.0, "{felt:?}");
}
