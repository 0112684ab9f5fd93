//! What the tests against brokers of others share. Each starts a broker of its own, which ends with the test.

#![allow(unreachable_pub)]

use std::net::{SocketAddr, TcpListener};
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tilemark_amqp_load::{
    BrokerAddress, LatencyLoad, LoadError, MessagingMode, MessagingParameters, Session, ThroughputLoad,
    latency, throughput,
};
use tilemark_units::Bytes;

/// A process with all that it starts. Dropping it ends them.
pub struct Group(pub Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // A group that is gone already is as good.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.0.wait();
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound above").port()
}

/// The port is open before the broker behind it is ready, and Broker-J greets before it has a virtual host: it is when a
/// client can connect.
pub fn wait_until_it_serves(address: SocketAddr) {
    let mut refusals = Vec::new();
    for _ in 0..6_000 {
        match Session::open(&BrokerAddress::guest(address), Duration::from_secs(60)).and_then(Session::close)
        {
            Ok(()) => return,
            Err(refusal) => refusals.push(refusal.to_string()),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    refusals.dedup();
    panic!("the broker did not serve within ten minutes: {refusals:#?}");
}

/// The same with other messages.
fn with(base: &ThroughputLoad, change: impl FnOnce(&mut MessagingParameters)) -> ThroughputLoad {
    let mut load = base.clone();
    change(&mut load.messages);
    load
}

/// Every mode, and every way to acknowledge; `keeps_messages`: durable ones, too.
pub fn accounts_for_everything(address: SocketAddr, keeps_messages: bool) {
    let base = ThroughputLoad {
        messages: MessagingParameters { count: 2000, ..MessagingParameters::default() },
        seconds: Duration::from_secs(600),
        timeout: Duration::from_secs(60),
        ..ThroughputLoad::new(BrokerAddress::guest(address))
    };
    let mut runs = vec![
        (with(&base, |all| (all.queues, all.publishers, all.subscribers) = (2, 2, 2)), 8000, 8000),
        (with(&base, |all| (all.mode, all.subscribers) = (MessagingMode::Fanout, 3)), 2000, 6000),
        (
            with(&base, |all| (all.mode, all.queues, all.subscribers) = (MessagingMode::Topic, 2, 2)),
            4000,
            8000,
        ),
        (with(&base, |all| (all.confirms, all.acknowledge, all.prefetch) = (200, 50, 200)), 2000, 2000),
        (with(&base, |all| (all.transactions, all.acknowledge) = (70, 10)), 2000, 2000),
        (with(&base, |all| (all.size, all.count) = (Bytes::new(300_000), 50)), 50, 50),
    ];
    if keeps_messages {
        let durable = with(&base, |all| {
            (all.durable, all.confirms, all.acknowledge, all.size) = (true, 200, 50, Bytes::new(1000));
        });
        runs.push((durable, 2000, 2000));
    }
    for (load, published, received) in runs {
        let report = throughput(&load).unwrap_or_else(|error| panic!("{load:?}: {error}"));
        let wrong = report.lost + report.duplicated + report.reordered + report.damaged + report.refused;
        assert_eq!((report.published, report.received, wrong), (published, received, 0), "{report:?}");
    }
    let by_schedule = LatencyLoad {
        seconds: Duration::from_millis(500),
        timeout: Duration::from_secs(60),
        ..LatencyLoad::new(BrokerAddress::guest(address))
    };
    let report = latency(&by_schedule).expect("a run");
    assert_eq!((report.published, report.received, report.lost), (500, 500, 0));
    let stranger = BrokerAddress::guest(address).with_user("guest", "wrong");
    let refused = throughput(&ThroughputLoad { broker: stranger, ..base }).expect_err("a refusal");
    assert!(matches!(refused, LoadError::WrongPassword { .. }), "{refused}");
}
