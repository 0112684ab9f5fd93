//! A web load alone, as people use it: against a server of this test, to its end and until Ctrl-C.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

const FAILURE: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";

/// Answers every request alike for as long as the test's process lives.
struct Server {
    address: SocketAddr,
    answered: Arc<AtomicU64>,
}

impl Server {
    /// One that answers correctly.
    fn start() -> Self {
        Self::failing_each(u64::MAX)
    }

    /// One of whose answers each so manieth says that it failed.
    fn failing_each(number: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&answered);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = Arc::clone(&counted);
                thread::spawn(move || answer_all(stream, &counted, number));
            }
        });
        Self { address, answered }
    }

    fn url(&self) -> String {
        format!("http://{}/index.html", self.address)
    }
}

/// A connection has one small request at a time: each read is one.
fn answer_all(mut stream: TcpStream, answered: &AtomicU64, failing_each: u64) {
    let mut request = [0; 4096];
    while matches!(stream.read(&mut request), Ok(1..)) {
        let number = 1 + answered.fetch_add(1, Ordering::Relaxed);
        let answer = if number.is_multiple_of(failing_each) { FAILURE } else { ANSWER };
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// A failure may come far sooner than an answer, and its time is among the latencies.
#[test]
fn a_web_load_is_not_trusted_where_more_requests_failed_than_a_gate_lets_pass() {
    let home = Home::new();
    for (failing_each, is_said) in [(20, true), (u64::MAX, false)] {
        let server = Server::failing_each(failing_each);
        let said =
            home.says(&["load", "web", &server.url(), "--connections", "4", "--seconds", "1", "--json"]);
        let document = said.json();
        let reasons = document["verdict"]["reasons"].to_string();
        assert_eq!(reasons.contains("failed or were answered wrongly"), is_said, "{document}");
        assert_eq!(document["errors"].as_u64().unwrap() > 0, is_said, "{document}");
    }
}

#[test]
fn a_web_load_prints_every_figure_that_it_promises() {
    let server = Server::start();
    let home = Home::new();
    let (url, open) = (server.url(), ["--rate", "200", "--arrival", "even"]);
    for (kind, more) in [("open", &open[..]), ("closed", &[])] {
        let common = ["load", "web", &url, "--connections", "4", "--seconds", "1", "--json"];
        let said = home.says(&[&common[..], more].concat());
        let document = said.json();
        for key in ["requests_per_s", "errors", "client_cpu_s", "latency_ms", "send_lateness_us", "verdict"] {
            assert!(document.get(key).is_some(), "no {key} in {document}");
        }
        assert_eq!(document["loop"], kind);
        assert_eq!((&document["errors"], &document["offered"]), (&0.into(), &document["completed"]));
        assert!(document["requests_per_s"].as_f64().unwrap() > 0.0, "{document}");
        assert!(document["client_cpu_s"].as_f64().unwrap() > 0.0, "{document}");
        assert!(document["latency_ms"]["p50"].as_f64().unwrap() > 0.0, "{document}");
        // What goes as fast as it can has no intended time to be late for.
        assert_eq!(document["send_lateness_us"]["p50"].is_number(), kind == "open", "{document}");
        let trusted = document["verdict"]["status"] == "trusted";
        assert_eq!(said.code, Some(if trusted { 0 } else { 5 }), "{document}");
    }
}

/// A terminal sends it to all processes in the foreground, so to whatever the command has started too.
#[test]
fn ctrl_c_ends_a_web_load_whose_figures_are_still_printed() {
    let server = Server::start();
    let mut command = Command::new(TILEMARK);
    command.args(["load", "web", &server.url(), "--rate", "500", "--seconds", "3600", "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().unwrap();
    let group = Pid::from_raw(child.id() as i32).unwrap();
    let until = Instant::now() + Duration::from_secs(600);
    // Twice as many as there are before the measurement begins.
    while server.answered.load(Ordering::Relaxed) < 500 && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    kill_process_group(group, Signal::INT).unwrap();
    let document = Said::of(&child.wait_with_output().unwrap()).ended(5).json();
    assert!(document["completed"].as_u64().unwrap() > 0, "{document}");
    assert!(document["requests_per_s"].as_f64().unwrap() > 0.0, "{document}");
    assert_eq!(document["verdict"]["status"], "not-trusted");
    let reasons = document["verdict"]["reasons"].as_array().unwrap();
    let is_said = |reason: &serde_json::Value| reason.as_str().unwrap().contains("stopped by Ctrl-C after");
    assert!(reasons.iter().any(is_said), "{document}");
}
