//! Our loads against our broker over real sockets: everything is accounted for, and what is missing is noticed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tilemark_amqp::{FrameKind, Inbox, Method, PROTOCOL_HEADER, PublishArguments, put_frame};
use tilemark_amqp_load::{
    BrokerAddress, Director, Gauge, LatencyLoad, LoadError, MessagingMode, MessagingParameters, Session,
    ThroughputLoad, ThroughputReport, latency, latency_under, throughput, throughput_under,
};
use tilemark_broker::{Broker, Config, Reach, User, serve};
use tilemark_units::Bytes;

fn broker() -> Broker {
    serve(Config::new("127.0.0.1:0".parse().expect("an address"))).expect("a free port")
}

/// A run of so many messages, however long it takes.
fn load(address: SocketAddr, count: u64) -> ThroughputLoad {
    ThroughputLoad {
        messages: MessagingParameters { count, ..MessagingParameters::default() },
        seconds: Duration::from_secs(600),
        timeout: Duration::from_secs(30),
        ..ThroughputLoad::new(BrokerAddress::guest(address))
    }
}

/// The same with other messages.
fn with(base: &ThroughputLoad, change: impl FnOnce(&mut MessagingParameters)) -> ThroughputLoad {
    let mut load = base.clone();
    change(&mut load.messages);
    load
}

fn assert_complete(report: &ThroughputReport, published: u64, received: u64) {
    assert_eq!((report.published, report.received), (published, received), "{report:?}");
    let wrong = report.lost + report.duplicated + report.reordered + report.damaged + report.refused;
    assert_eq!((wrong, report.errors.len()), (0, 0), "{report:?}");
    assert!(report.messages_per_s > 0.0 && report.client_cpu_s > 0.0);
}

#[test]
fn of_ten_million_messages_none_is_lost() {
    let broker = broker();
    let report = throughput(&load(broker.address(), 10_000_000)).expect("a run");
    assert_complete(&report, 10_000_000, 10_000_000);
    let left = broker.stop().expect("a good end");
    assert_eq!((left.messages, left.queues, left.published), (0, 0, 10_000_000));
}

/// One that wants what was measured, as a load alone does.
#[derive(Default)]
struct Keeping(Gauge);

impl Director for Keeping {
    fn thread_begins(&self) {}

    fn ready(&self) -> Option<Instant> {
        Some(Instant::now())
    }

    fn is_over(&self) -> bool {
        false
    }

    fn gauge(&self) -> &Gauge {
        &self.0
    }

    fn keeps_what_was_measured(&self) -> bool {
        true
    }
}

/// Ends the broker once so many messages have come through.
fn ended_after<R: Send>(messages: u64, load: impl FnOnce(SocketAddr, &Keeping) -> R + Send) -> R {
    let (broker, director) = (broker(), Keeping::default());
    let address = broker.address();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| load(address, &director));
        while director.0.received() < messages {
            std::thread::sleep(Duration::from_millis(5));
        }
        broker.stop().expect("a good end");
        running.join().expect("no panic")
    })
}

#[test]
fn a_load_whose_broker_ends_reports_what_it_measured_and_why_it_is_short() {
    let report = ended_after(1000, |address, director| {
        throughput_under(&load(address, 1_000_000_000), director).expect("figures")
    });
    assert!(report.received >= 1000 && report.messages_per_s > 0.0, "{report:?}");
    assert!(report.errors[0].contains("the figures are of what was done until then"), "{report:?}");

    let report = ended_after(20, |address, director| {
        let load = LatencyLoad {
            rate: 200,
            seconds: Duration::from_secs(600),
            ..LatencyLoad::new(BrokerAddress::guest(address))
        };
        latency_under(&load, director).expect("figures")
    });
    assert!(report.received >= 20 && report.latency_ms.is_some(), "{report:?}");
    assert!(report.errors[0].contains("the figures are of what was done until then"), "{report:?}");
    // A load whose director does not keep it has failed, and nothing is reported.
    let broker = broker();
    let address = broker.address();
    let failed = std::thread::scope(|scope| {
        let running = scope.spawn(|| throughput(&load(address, 1_000_000_000)));
        std::thread::sleep(Duration::from_millis(200));
        broker.stop().expect("a good end");
        running.join().expect("no panic")
    });
    assert!(failed.is_err());
}

#[test]
fn every_mode_and_every_way_to_acknowledge_accounts_for_all() {
    let broker = broker();
    let base = load(broker.address(), 3000);
    let runs = [
        (with(&base, |all| (all.queues, all.publishers, all.subscribers) = (3, 2, 2)), 18_000, 18_000),
        (
            with(&base, |all| {
                all.mode = MessagingMode::Fanout;
                (all.queues, all.publishers, all.subscribers) = (9, 2, 3);
            }),
            6_000,
            18_000,
        ),
        (
            with(&base, |all| {
                all.mode = MessagingMode::Topic;
                (all.queues, all.publishers, all.subscribers) = (2, 2, 2);
            }),
            12_000,
            24_000,
        ),
        (with(&base, |all| (all.confirms, all.acknowledge, all.prefetch) = (100, 50, 100)), 3000, 3000),
        (with(&base, |all| (all.confirms, all.acknowledge, all.prefetch) = (1, 1, 1)), 3000, 3000),
        (with(&base, |all| (all.transactions, all.acknowledge) = (70, 10)), 3000, 3000),
        (with(&base, |all| (all.size, all.count) = (Bytes::new(300_000), 100)), 100, 100),
        (with(&base, |all| (all.size, all.count) = (Bytes::new(131_064), 100)), 100, 100),
    ];
    for (load, published, received) in runs {
        let report = throughput(&load).unwrap_or_else(|error| panic!("{load:?}: {error}"));
        assert_complete(&report, published, received);
    }
    assert_eq!(broker.stop().expect("a good end").queues, 0);
}

#[test]
fn durable_runs_are_stored_and_leave_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = Config {
        journal: Some(folder.path().into()),
        ..Config::new("127.0.0.1:0".parse().expect("an address"))
    };
    let broker = serve(config.clone()).expect("a free port");
    for (confirms, transactions) in [(100, 0), (0, 50), (0, 0)] {
        let run = with(&load(broker.address(), 2000), |all| {
            (all.durable, all.acknowledge, all.size) = (true, 20, Bytes::new(1000));
            (all.confirms, all.transactions) = (confirms, transactions);
        });
        assert_complete(&throughput(&run).expect("a run"), 2000, 2000);
    }
    assert!(broker.stop().expect("a good end").journal_flushes > 0);
    let again = serve(config).expect("the journal is free again");
    let left = again.stop().expect("a good end");
    assert_eq!((left.queues, left.messages, left.journal_ignored_bytes), (0, 0, 0));
}

#[test]
fn the_latency_load_sends_its_whole_schedule() {
    let broker = broker();
    let settings = LatencyLoad {
        rate: 5000,
        seconds: Duration::from_millis(400),
        timeout: Duration::from_secs(30),
        ..LatencyLoad::new(BrokerAddress::guest(broker.address()))
    };
    let report = latency(&settings).expect("a run");
    assert_eq!((report.scheduled, report.published, report.received), (2000, 2000, 2000));
    assert_eq!((report.lost, report.duplicated, report.reordered, report.damaged), (0, 0, 0, 0));
    let latency = report.latency_ms.expect("messages came");
    assert!(latency.p50 > 0.0 && latency.max >= latency.p99);
    assert_eq!(report.seconds.iter().map(|second| second.received).sum::<u64>(), 2000);
    assert_eq!(broker.stop().expect("a good end").queues, 0);
}

/// One second of a schedule.
fn schedule(address: SocketAddr, rate: u64) -> LatencyLoad {
    LatencyLoad {
        rate,
        seconds: Duration::from_secs(1),
        timeout: Duration::from_secs(30),
        ..LatencyLoad::new(BrokerAddress::guest(address))
    }
}

#[test]
fn a_message_lost_by_schedule_is_named_and_counted_in_its_second() {
    let broker = broker();
    let relay = harmful(broker.address(), Harm::Drop(500));
    let settings = LatencyLoad { timeout: Duration::from_secs(5), ..schedule(relay, 1000) };
    let report = latency(&settings).expect("a run");
    assert_eq!((report.published, report.received, report.lost), (1000, 999, 1));
    assert_eq!(report.errors, ["message 499 was lost"]);
    assert_eq!(report.troubles.iter().map(|second| second.lost).collect::<Vec<_>>(), [1]);
}

#[test]
fn nothing_is_skipped_while_the_broker_stalls_and_the_latency_shows_it() {
    let broker = broker();
    // Large enough that the stall reaches back to the sender.
    let mut settings = schedule(harmful(broker.address(), Harm::Stall(600)), 2000);
    settings.messages.size = Bytes::new(16_384);
    let report = latency(&settings).expect("a run");
    assert_eq!((report.scheduled, report.published, report.received), (2000, 2000, 2000));
    assert_eq!((report.lost, report.duplicated, report.reordered, report.damaged), (0, 0, 0, 0));
    assert!(report.latency_ms.is_some_and(|latency| latency.max >= 500.0), "{:?}", report.latency_ms);
    // Everything that was due in the stall's first half waited for the other half at least.
    let waited: u64 =
        report.histograms.iter().map(|second| second.count_between(249_000_000, u64::MAX)).sum();
    assert!(waited >= 500, "{waited} messages waited");
    // It was not us who were late.
    let late: u64 =
        report.lateness_histograms.iter().map(|second| second.count_between(249_000_000, u64::MAX)).sum();
    assert!(late < waited / 4, "{late} of {waited} messages that waited are said to be sent late");
}

#[test]
fn fewer_messages_than_were_asked_for_are_an_error() {
    let broker = broker();
    let two = with(&load(broker.address(), 1_000_000_000), |all| all.publishers = 2);
    let asked = ThroughputLoad { seconds: Duration::from_millis(50), ..two };
    let report = throughput(&asked).expect("a run");
    let expected = format!(
        "only {} of 2000000000 messages were published when its time was over: give it more `seconds`",
        report.published
    );
    assert_eq!(report.errors, [expected]);
}

/// What a relay does to the stream of publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Drop(u64),
    Double(u64),
    Damage(u64),
    /// Half a second in which nothing of the publisher is taken.
    Stall(u64),
}

/// A relay in front of a broker that harms one message: a broker with a defect, to whoever connects to it.
fn harmful(broker: SocketAddr, harm: Harm) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound above");
    let published = Arc::new(AtomicU64::new(0));
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(broker).expect("the broker listens");
            let (from_server, to_client) =
                (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
            let published = Arc::clone(&published);
            std::thread::spawn(move || relay_publishes(client, server, harm, &published));
            std::thread::spawn(move || relay(from_server, to_client));
        }
    });
    address
}

fn relay(mut from: TcpStream, mut to: TcpStream) {
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}

fn relay_publishes(mut from: TcpStream, mut to: TcpStream, harm: Harm, published: &AtomicU64) {
    let mut header = PROTOCOL_HEADER;
    if from.read_exact(&mut header).and_then(|()| to.write_all(&header)).is_err() {
        return;
    }
    let mut inbox = Inbox::new(1 << 20, 1 << 18);
    let mut out = Vec::new();
    let mut number = 0;
    let mut copy = Vec::new();
    loop {
        match from.read(inbox.space()) {
            Ok(0) | Err(_) => break,
            Ok(count) => inbox.received(count),
        }
        while let Ok(Some(frame)) = inbox.next_frame() {
            if frame.kind == FrameKind::Method {
                let is_publish = frame.payload.starts_with(&PublishArguments::START);
                number = if is_publish { published.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
            }
            let is_body = frame.kind == FrameKind::Body;
            match harm {
                Harm::Drop(which) if which == number => {}
                Harm::Damage(which) if which == number && is_body => {
                    let mut payload = frame.payload.to_vec();
                    payload[5] ^= 1;
                    put_frame(&mut out, frame.kind, frame.channel, &payload);
                }
                Harm::Double(which) if which == number => {
                    put_frame(&mut copy, frame.kind, frame.channel, frame.payload);
                    if is_body {
                        out.extend(copy.repeat(2));
                    }
                }
                _ => put_frame(&mut out, frame.kind, frame.channel, frame.payload),
            }
            if harm == Harm::Stall(number) && is_body {
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        if to.write_all(&out).is_err() {
            break;
        }
        out.clear();
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}

#[test]
fn one_message_lost_in_ten_million_is_noticed_and_named() {
    let broker = broker();
    let relay = harmful(broker.address(), Harm::Drop(7_654_322));
    let settings = ThroughputLoad { timeout: Duration::from_secs(10), ..load(relay, 10_000_000) };
    let report = throughput(&settings).expect("a run");
    assert_eq!((report.lost, report.received), (1, 9_999_999));
    assert_eq!(report.errors, ["message 7654321 of publisher 0 was lost in queue 0"]);
}

#[test]
fn a_doubled_and_a_damaged_message_are_noticed() {
    let broker = broker();
    let report = throughput(&load(harmful(broker.address(), Harm::Double(500)), 1000)).expect("a run");
    assert_eq!((report.lost, report.duplicated, report.damaged), (0, 1, 0));
    let settings = |harm| {
        let few = load(harmful(broker.address(), harm), 1000);
        ThroughputLoad { timeout: Duration::from_secs(5), ..with(&few, |all| all.size = Bytes::new(64)) }
    };
    let report = throughput(&settings(Harm::Damage(500))).expect("a run");
    assert_eq!((report.lost, report.duplicated, report.damaged), (1, 0, 1));
}

/// All that was published has come when its copy still waits.
#[test]
fn a_copy_of_the_very_last_message_is_noticed_too() {
    let broker = broker();
    for (ack, prefetch) in [(0, 0), (1, 1), (7, 10)] {
        let all = load(harmful(broker.address(), Harm::Double(1000)), 1000);
        let settings = with(&all, |all| (all.acknowledge, all.prefetch) = (ack, prefetch));
        let report = throughput(&settings).expect("a run");
        assert_eq!((report.lost, report.duplicated), (0, 1), "{ack} {prefetch}");
    }
}

#[test]
fn what_users_do_wrong_is_named_with_its_remedy() {
    let broker = broker();
    let quick = ThroughputLoad { timeout: Duration::from_secs(5), ..load(broker.address(), 10) };
    let small = throughput(&with(&quick, |all| all.size = Bytes::new(15))).unwrap_err();
    assert_eq!(small.to_string(), "`size` is 15B");
    let address = BrokerAddress::guest(broker.address()).with_user("guest", "wrong");
    let wrong = throughput(&ThroughputLoad { broker: address, ..quick.clone() }).unwrap_err();
    assert!(matches!(wrong, LoadError::WrongPassword { .. }), "{wrong}");
    let durable = throughput(&with(&quick, |all| all.durable = true)).unwrap_err();
    assert!(
        matches!(&durable, LoadError::Closed { code: 540, text } if text.contains("journal")),
        "{durable}"
    );
    let free =
        TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let nobody = throughput(&load(free, 1)).unwrap_err();
    assert!(matches!(nobody, LoadError::Connect { .. }), "{nobody}");
    assert_eq!(broker.stop().expect("a good end").queues, 0);
}

#[test]
fn a_broker_that_ends_or_blocks_is_named_and_nothing_is_left() {
    let mut config = Config::new("127.0.0.1:0".parse().expect("an address"));
    config.memory_limit_bytes = 1 << 20;
    let blocking = serve(config).expect("a free port");
    // Nobody acknowledges: with this prefetch the broker fills up, blocks the publisher and stays so.
    let unacknowledged = |all: &mut MessagingParameters| {
        (all.acknowledge, all.prefetch, all.size) = (60_000, 60_000, Bytes::new(1000));
    };
    let many = ThroughputLoad { timeout: Duration::from_secs(1), ..load(blocking.address(), 50_000) };
    let stuck = with(&many, unacknowledged);
    let error = throughput(&stuck).unwrap_err();
    assert!(matches!(&error, LoadError::Blocked { reason, .. } if reason.contains("memory")), "{error}");
    // So few that all of them are on their way when the broker blocks: only its goodbye waits.
    let error = throughput(&with(&stuck, |all| all.count = 1400)).unwrap_err();
    assert!(matches!(&error, LoadError::Blocked { .. }), "{error}");
    let mut by_schedule =
        LatencyLoad { timeout: Duration::from_secs(1), ..schedule(blocking.address(), 2000) };
    unacknowledged(&mut by_schedule.messages);
    let error = latency(&by_schedule).unwrap_err();
    assert!(matches!(&error, LoadError::Blocked { reason, .. } if reason.contains("memory")), "{error}");
    assert_eq!(blocking.stop().expect("a good end").queues, 0);

    let ending = broker();
    let endless = load(ending.address(), u64::MAX);
    let running = std::thread::spawn(move || throughput(&endless));
    while ending.statistics().published == 0 {
        std::thread::yield_now();
    }
    ending.stop().expect("a good end");
    let error = running.join().expect("no panic").unwrap_err();
    let expected =
        matches!(&error, LoadError::Closed { code: 320, .. } | LoadError::Socket(_) | LoadError::HungUp);
    assert!(expected, "{error}");
}

#[test]
fn a_broker_that_is_asked_to_end_informs_its_peers() {
    let broker = broker();
    let timeout = Duration::from_secs(60);
    let mut session = Session::open(&BrokerAddress::guest(broker.address()), timeout).expect("admitted");
    broker.ender()();
    let select = Method::ConfirmSelect { no_wait: true };
    let error = session.call(&select, "say that it ends", |_| None::<()>).unwrap_err();
    assert!(matches!(error, LoadError::Closed { code: 320, .. }), "{error}");
    drop(session);
    broker.wait().expect("a good end");
}

#[test]
fn a_user_of_the_run_is_admitted_and_guest_is_not_there_unless_asked_for() {
    let users = vec![User::new("run", "p:ss@word", Reach::Anywhere)];
    let config = Config { users, ..Config::new("127.0.0.1:0".parse().expect("an address")) };
    let broker = serve(config).expect("a free port");
    let address = BrokerAddress::guest(broker.address());
    let timeout = Duration::from_secs(5);
    assert!(matches!(Session::open(&address, timeout), Err(LoadError::WrongPassword { .. })));
    Session::open(&address.with_user("run", "p:ss@word"), timeout)
        .expect("admitted")
        .close()
        .expect("a good end");
}

#[test]
fn one_journal_serves_one_broker() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = Config {
        journal: Some(folder.path().into()),
        ..Config::new("127.0.0.1:0".parse().expect("an address"))
    };
    let first = serve(config.clone()).expect("a free journal");
    assert!(matches!(serve(config), Err(tilemark_broker::BrokerError::JournalInUse { .. })));
    drop(first);
}
