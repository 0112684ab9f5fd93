//! Our loads against RabbitMQ (Debian: rabbitmq-server), a broker that others wrote. The node is the test's own: its
//! folders, ports and name port mapper are, too, and all end with the test.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tilemark_amqp_load::{BrokerAddress, LatencyLoad, LoadError, Mode, ThroughputLoad, latency, throughput};

const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

/// Whether RabbitMQ is there; in CI it must be.
fn has_rabbitmq() -> bool {
    if Path::new(SERVER).exists() {
        return true;
    }
    assert!(std::env::var_os("TILEMARK_CI").is_none(), "rabbitmq-server is missing and CI may not skip");
    eprintln!("skipped: rabbitmq-server is not installed");
    false
}

/// A process with all that it starts. Dropping it ends them.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // A group that is gone already is as good.
        let _ = group.map(|group| kill_process_group(group, Signal::KILL));
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound above").port()
}

/// A node of RabbitMQ; fields end in this order.
struct RabbitMq {
    _server: Group,
    _ports: Group,
    _folder: tempfile::TempDir,
    address: SocketAddr,
}

impl RabbitMq {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (port, mapper, distribution) = (free_port(), free_port(), free_port());
        let command = |program: &str| {
            let mut command = Command::new(program);
            command
                .env("HOME", folder.path())
                .env("ERL_EPMD_ADDRESS", "127.0.0.1")
                .env("ERL_EPMD_PORT", mapper.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .process_group(0);
            command
        };
        // Started here, the port mapper is our child; otherwise RabbitMQ would leave one behind.
        let ports = Group(command("epmd").spawn().expect("epmd comes with Erlang"));
        let mut server = command(SERVER);
        server
            .env("RABBITMQ_NODENAME", format!("tilemark-{port}@localhost"))
            .env("RABBITMQ_MNESIA_BASE", folder.path())
            .env("RABBITMQ_LOG_BASE", folder.path())
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.path().join("plugins"))
            .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODE_PORT", port.to_string())
            .env("RABBITMQ_DIST_PORT", distribution.to_string());
        let server = Group(server.spawn().expect("found above"));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_until_it_speaks_amqp(address);
        Self { _server: server, _ports: ports, _folder: folder, address }
    }
}

/// The port is open before the broker behind it is ready: it is when it answers the protocol header.
fn wait_until_it_speaks_amqp(address: SocketAddr) {
    for _ in 0..600 {
        let answered = TcpStream::connect(address).and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            stream.write_all(&tilemark_amqp::PROTOCOL_HEADER)?;
            stream.read_exact(&mut [0; 8])
        });
        if answered.is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("RabbitMQ did not answer within a minute");
}

#[test]
fn every_load_accounts_for_all_messages_of_rabbitmq_too() {
    if !has_rabbitmq() {
        return;
    }
    let rabbit = RabbitMq::start();
    let base = ThroughputLoad {
        count: Some(2000),
        seconds: Duration::from_secs(600),
        patience: Duration::from_secs(60),
        ..ThroughputLoad::new(BrokerAddress::guest(rabbit.address))
    };
    let runs = [
        (ThroughputLoad { queues: 2, publishers: 2, subscribers: 2, ..base.clone() }, 8000, 8000),
        (ThroughputLoad { mode: Mode::Fanout, subscribers: 3, ..base.clone() }, 2000, 6000),
        (ThroughputLoad { mode: Mode::Topic, queues: 2, subscribers: 2, ..base.clone() }, 4000, 8000),
        (ThroughputLoad { confirms: 200, ack: 50, prefetch: 200, ..base.clone() }, 2000, 2000),
        (ThroughputLoad { transactions: 70, ack: 10, ..base.clone() }, 2000, 2000),
        (
            ThroughputLoad { durable: true, confirms: 200, ack: 50, size_bytes: 1000, ..base.clone() },
            2000,
            2000,
        ),
        (ThroughputLoad { size_bytes: 300_000, count: Some(50), ..base.clone() }, 50, 50),
    ];
    for (load, published, received) in runs {
        let report = throughput(&load).unwrap_or_else(|error| panic!("{load:?}: {error}"));
        let wrong = report.lost + report.duplicated + report.reordered + report.damaged + report.refused;
        assert_eq!((report.published, report.received, wrong), (published, received, 0), "{report:?}");
    }
    let by_schedule = LatencyLoad {
        seconds: Duration::from_millis(500),
        patience: Duration::from_secs(60),
        ..LatencyLoad::new(BrokerAddress::guest(rabbit.address))
    };
    let report = latency(&by_schedule).expect("a run");
    assert_eq!((report.published, report.received, report.lost), (500, 500, 0));
    let stranger = BrokerAddress::guest(rabbit.address).with_user("guest", "wrong");
    let refused = throughput(&ThroughputLoad { broker: stranger, ..base }).unwrap_err();
    assert!(matches!(refused, LoadError::WrongPassword { .. }), "{refused}");
}
