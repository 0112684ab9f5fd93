//! Our loads against RabbitMQ (Debian: rabbitmq-server), a third-party broker. The node is the test's own: its
//! folders, ports and name port mapper are, too, and all end with the test.

mod common;

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Group, accounts_for_everything, free_port, wait_until_it_serves};

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
        wait_until_it_serves(address);
        Self { _server: server, _ports: ports, _folder: folder, address }
    }
}

#[test]
fn every_load_accounts_for_all_messages_of_rabbitmq_too() {
    if !has_rabbitmq() {
        return;
    }
    let rabbit = RabbitMq::start();
    accounts_for_everything(rabbit.address, true);
    behaves_as_the_reference_broker_is_tested(rabbit.address);
}

/// The tests of the reference broker's dead letters, expiry and bindings ask nothing of it that RabbitMQ would not do.
fn behaves_as_the_reference_broker_is_tested(address: SocketAddr) {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tilemark-broker/tests/pika_client.py");
    let has_pika =
        Command::new("/usr/bin/python3").args(["-c", "import pika"]).stderr(Stdio::null()).status();
    if !has_pika.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("TILEMARK_CI").is_none(), "python3-pika is missing and CI may not skip");
        eprintln!("skipped: python3-pika is not installed");
        return;
    }
    for scenario in ["dead_letters", "keys_of_dead_letters", "expiry", "headers_and_exchanges"] {
        let mut command = Command::new("/usr/bin/python3");
        let output = command.arg(&client).arg(address.port().to_string()).arg(scenario).output();
        let output = output.expect("found above");
        assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
