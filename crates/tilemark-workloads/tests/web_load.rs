//! The web load against scripted servers on loopback: what is counted, and what is never missed.
//! Nothing here is about speed: an even schedule has as many requests as its length says, however long they take.

mod common;

use common::{Act, SIZE, answer_with, intended, job, open, right_answer, right_body, run, server};
use std::time::Duration;
use tilemark_agent_protocol::{Counts, LoadEvent, LoadJob};
use tilemark_load::{Limits, LoadError, Stop, figures::Gathered};
use tilemark_plan::{plan::Demand, scenario::Arrival};
use tilemark_units::Span;
use tilemark_workloads::web::WebFactory;

fn counts(gathered: &Gathered) -> Counts {
    gathered.counts(|id| id == 7)
}
fn lasting(job: LoadJob, milliseconds: u64) -> LoadJob {
    LoadJob { length: Span::from_milliseconds(milliseconds), ..job }
}

#[test]
fn every_request_of_an_open_loop_is_counted_once_and_seconds_sum_up() {
    let address = server(|_| Act::Send(right_answer()));
    for arrival in [Arrival::Even, Arrival::Poisson] {
        let job = lasting(job(address, open(2000.0, arrival), 4), 250);
        let count = intended(&job);
        let gathered = run(&job);
        let all =
            Counts { offered: count, completed: count, bytes: count * SIZE as u64, ..Counts::default() };
        assert_eq!(counts(&gathered), all, "{:?}", gathered.totals[0].errors);
        assert_eq!(gathered.latency(|_| true).unwrap().len(), count);
        assert_eq!(gathered.lateness(|_| true).unwrap().len(), count);
        let answered: u64 = gathered.seconds.iter().map(|second| second.counts.completed).sum();
        assert_eq!(answered, count);
    }
}

#[test]
fn a_closed_loop_sends_the_next_request_after_each_answer_and_has_no_lateness() {
    let address = server(|_| Act::Send(right_answer()));
    let gathered = run(&lasting(job(address, Demand::Closed, 3), 500));
    let Counts { offered, completed, .. } = counts(&gathered);
    assert!(completed > 3 && completed == offered, "{completed} of {offered}");
    assert_eq!(gathered.latency(|_| true).unwrap().len(), completed);
    assert!(gathered.lateness(|_| true).unwrap().is_empty());
}

#[test]
fn one_wrong_byte_is_counted_and_named() {
    let address = server(|request| {
        let mut body = right_body();
        if request == 3 {
            body[777] ^= 1;
        }
        Act::Send(answer_with(&body))
    });
    let gathered = run(&lasting(job(address, open(1000.0, Arrival::Even), 1), 20));
    assert_eq!((counts(&gathered).completed, counts(&gathered).wrong), (19, 1));
    assert_eq!(gathered.totals[0].errors, ["byte 777 of the answer's body is wrong"]);
}

#[test]
fn a_truncated_body_is_a_failure_and_the_connection_is_made_again() {
    let address = server(|request| match request {
        4 => Act::SendAndClose(right_answer()[..right_answer().len() - 1].to_vec()),
        _ => Act::Send(right_answer()),
    });
    let gathered = run(&lasting(job(address, open(1000.0, Arrival::Even), 1), 30));
    let counts = counts(&gathered);
    assert_eq!((counts.offered, counts.completed + counts.failed), (30, 30));
    assert_eq!(counts.failed, 6, "each connection fails at its fifth request");
    assert!(gathered.totals[0].errors.iter().all(|error| error.contains("before the answer was whole")));
    assert_eq!(gathered.totals[0].errors.len(), 5, "the first five errors are kept in words");
}

#[test]
fn a_server_that_closes_after_each_answer_and_says_so_is_followed() {
    let address = server(|_| {
        let text = String::from_utf8_lossy(&right_answer()[..right_answer().len() - SIZE]).into_owned();
        let mut bytes = text.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n").into_bytes();
        bytes.extend(right_body());
        Act::SendAndClose(bytes)
    });
    for demand in [open(500.0, Arrival::Poisson), Demand::Closed] {
        let gathered = run(&lasting(job(address, demand, 2), 120));
        let Counts { offered, completed, .. } = counts(&gathered);
        assert!(completed > 0 && completed == offered, "{:?}", gathered.totals[0].errors);
    }
}

#[test]
fn what_is_never_answered_fails_with_its_wait_in_the_histogram() {
    let address = server(|request| if request < 5 { Act::Send(right_answer()) } else { Act::Silence });
    let mut job = lasting(job(address, open(1000.0, Arrival::Even), 2), 40);
    job.streams[0].drain = Span::from_seconds(1);
    let gathered = run(&job);
    let counts = counts(&gathered);
    assert_eq!((counts.offered, counts.completed, counts.failed), (40, 10, 30));
    let latency = gathered.latency(|_| true).unwrap();
    assert_eq!(latency.len(), 40);
    // They waited at least through the whole drain.
    assert!(latency.value_at_quantile(0.3) >= 1_000_000_000 * 999 / 1000, "{latency:?}");
    assert!(gathered.totals[0].errors[0].contains("no answer"));
}

#[test]
fn a_stream_that_waits_longer_for_its_last_answers_gets_them() {
    let address = server(|_| {
        std::thread::sleep(Duration::from_millis(300));
        Act::Send(right_answer())
    });
    let mut job = lasting(job(address, open(1000.0, Arrival::Even), 2), 5);
    job.streams[0].drain = Span::from_seconds(60);
    let counts = counts(&run(&job));
    assert_eq!((counts.offered, counts.completed, counts.failed), (5, 5, 0));
}

#[test]
fn nobody_there_is_an_error_with_the_address() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let job = job(address, Demand::Closed, 1);
    let factory = WebFactory::new(&job).unwrap();
    let limits = Limits { connect: Duration::from_secs(1) };
    let stop = Stop::new().unwrap();
    let run =
        Gathered::of(|start, events| tilemark_load::run_within(&job, &factory, limits, &stop, start, events));
    let error = run.unwrap_err();
    assert!(matches!(error, LoadError::Unreachable { .. }));
    assert!(error.to_string().contains(&address.to_string()) && error.to_string().contains("refused"));
}

#[test]
fn a_stop_ends_the_load_and_keeps_what_was_measured() {
    let address = server(|_| Act::Send(right_answer()));
    let job = job(address, open(1000.0, Arrival::Poisson), 4);
    let factory = WebFactory::new(&job).unwrap();
    let stop = Stop::new().unwrap();
    // The job would last an hour; it is stopped when its first second is reported.
    let gathered = Gathered::of(|start, events| {
        tilemark_load::run(&job, &factory, &stop, start, &mut |event| {
            if matches!(event, LoadEvent::Second(_)) {
                stop.ask();
            }
            events(event);
        })
    })
    .unwrap();
    let counts = counts(&gathered);
    assert!(counts.completed > 0 && counts.completed == counts.offered, "{counts:?}");
    assert!(gathered.totals[0].seconds >= 1.0);
}

#[test]
fn warmup_is_sent_and_not_counted() {
    let address = server(|_| Act::Send(right_answer()));
    let mut job = job(address, open(1000.0, Arrival::Even), 2);
    job.warmup = Span::from_milliseconds(100);
    job.length = Span::from_milliseconds(50);
    let counts = counts(&run(&job));
    assert_eq!((counts.offered, counts.completed), (50, 50));
}

#[test]
fn many_streams_over_several_workers_are_distinguished() {
    let address = server(|_| Act::Send(right_answer()));
    let mut job = job(address, open(200.0, Arrival::Poisson), 3);
    let first = job.streams[0].clone();
    // More streams than workers, then fewer: a stream that two workers share has one schedule.
    for streams in [5, 1] {
        job.streams = (0..streams)
            .map(|id| tilemark_agent_protocol::Stream { id, seed: u64::from(id), ..first.clone() })
            .collect();
        job.processors = vec![0, 0];
        job.length = Span::from_milliseconds(1500);
        let gathered = run(&job);
        assert_eq!(gathered.sender.as_ref().unwrap().workers, 2);
        for id in 0..streams {
            let expected =
                intended(&LoadJob { streams: vec![job.streams[id as usize].clone()], ..job.clone() });
            let counts = gathered.counts(|other| other == id);
            assert_eq!((counts.offered, counts.completed), (expected, expected));
            assert_eq!(gathered.latency(|other| other == id).unwrap().len(), expected);
        }
    }
}
