//! pika (Debian: python3-pika), a client that others wrote, against the broker.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tilemark_broker::{Broker, Config, serve};

/// Whether pika is there; in CI it must be.
fn has_pika() -> bool {
    let found = Command::new("python3").args(["-c", "import pika"]).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return true;
    }
    assert!(std::env::var_os("TILEMARK_CI").is_none(), "python3-pika is missing and CI may not skip");
    eprintln!("skipped: python3-pika is not installed");
    false
}

fn scenario(address: SocketAddr, name: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pika_client.py");
    let output = Command::new("python3").arg(script).args([&address.port().to_string(), name]).output();
    let output = output.expect("python3 was found above");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

fn broker() -> Broker {
    serve(Config::new("127.0.0.1:0".parse().expect("an address"))).expect("a free port")
}

fn try_scenario(name: &str) {
    if has_pika() {
        let broker = broker();
        scenario(broker.address(), name);
        broker.stop().expect("a good end");
    }
}

#[test]
fn publish_and_consume() {
    try_scenario("publish_and_consume");
}

#[test]
fn confirm_and_return() {
    try_scenario("confirm_and_return");
}

#[test]
fn nack_and_requeue() {
    try_scenario("nack_and_requeue");
}

#[test]
fn transactions() {
    try_scenario("transactions");
}

#[test]
fn topics_and_fanout() {
    try_scenario("topics_and_fanout");
}

#[test]
fn errors() {
    try_scenario("errors");
}

const JOURNAL: &str = "TILEMARK_TEST_JOURNAL";

/// Not a test: the broker process that the test below kills. It is this program, started again.
#[test]
#[ignore = "started by what_was_confirmed_survives_a_kill"]
fn broker_process() {
    let Some(folder) = std::env::var_os(JOURNAL) else { return };
    let config =
        Config { journal: Some(folder.into()), ..Config::new("127.0.0.1:0".parse().expect("an address")) };
    let broker = serve(config).expect("a free port and a free journal");
    println!("\nlistening on {}", broker.address());
    broker.wait().expect("it is killed before it ends");
}

/// Ends with the test, also when it fails.
struct Process(Child, SocketAddr);

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("we run from a file"))
            .args(["--exact", "broker_process", "--ignored", "--nocapture"])
            .env(JOURNAL, folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let lines = BufReader::new(child.stdout.take().expect("piped above")).lines();
        let mut addresses =
            lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("listening on ")?.parse().ok());
        let address = addresses.next().expect("the broker says where it listens");
        Self(child, address)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // `kill` is SIGKILL; a process that is gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_was_confirmed_survives_a_kill() {
    if !has_pika() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let killed = Process::start(folder.path());
    scenario(killed.1, "store");
    drop(killed);
    let next = Process::start(folder.path());
    scenario(next.1, "recovered");
}
