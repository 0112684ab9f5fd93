//! The service and the load together: nginx as configured here serves the files that the load expects.
//! Skipped, loudly, where nginx is missing.

#![allow(clippy::unwrap_used, reason = "test helpers fail their test")]

mod common;

use common::{open, run};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
};
use tilemark_agent_protocol::LoadJob;
use tilemark_plan::{
    plan::Demand,
    scenario::Arrival,
    workload::{WebParameters, Work},
};
use tilemark_units::Span;
use tilemark_workloads::web::{NGINX, nginx_arguments, nginx_conf, ready_request, service_files};

/// nginx on a port of loopback; it ends with this.
struct Nginx {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // SIGQUIT would wait for kept-alive connections: TERM.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn is_possible() -> bool {
    let is_there = Path::new(NGINX).exists();
    let is_root = rustix::process::geteuid().is_root();
    let is_ci = std::env::var("TILEMARK_CI").is_ok_and(|value| value == "1");
    let possible = is_there && is_root;
    assert!(possible || !is_ci, "needs root and {NGINX}, and TILEMARK_CI=1 allows no skipped test");
    if !possible {
        println!("skipped: needs root and {NGINX}");
    }
    possible
}

fn start(parameters: &WebParameters) -> Nginx {
    let folder = tempfile::tempdir().unwrap();
    let (root, state) = (folder.path().join("root"), folder.path().join("state"));
    for path in [&root, &state] {
        std::fs::create_dir(path).unwrap();
    }
    for file in service_files(parameters).unwrap() {
        std::fs::write(root.join(&file.path), &file.contents).unwrap();
    }
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let conf = folder.path().join("nginx.conf");
    std::fs::write(&conf, nginx_conf(1, address.port(), &root, &state)).unwrap();
    let child = Command::new(NGINX).args(nginx_arguments(&conf)).stdin(Stdio::null()).spawn().unwrap();
    let nginx = Nginx { child, address, _folder: folder };
    wait_until_ready(&nginx, parameters);
    nginx
}

/// As the agent does it: asks until it answers.
fn wait_until_ready(nginx: &Nginx, parameters: &WebParameters) {
    for _ in 0..60_000 {
        if let Ok(mut stream) = TcpStream::connect(nginx.address) {
            stream.write_all(&ready_request(parameters).unwrap()).unwrap();
            let mut start = [0; 12];
            stream.read_exact(&mut start).unwrap();
            assert_eq!(&start, b"HTTP/1.1 200");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("nginx did not answer within 10 min");
}

#[test]
fn nginx_serves_the_default_mix_and_every_byte_is_right() {
    if !is_possible() {
        return;
    }
    let parameters = WebParameters::default();
    let nginx = start(&parameters);
    for demand in [Demand::Closed, open(1000.0, Arrival::Poisson)] {
        let mut job: LoadJob = common::job(nginx.address, demand, 4);
        job.streams[0].work = Work::Web(parameters.clone());
        job.length = Span::from_seconds(1);
        let gathered = run(&job);
        let counts = gathered.counts(|_| true);
        assert!(
            counts.completed > 0 && counts.completed == counts.offered,
            "{:?}",
            gathered.totals[0].errors
        );
    }
    // A file that is not there is an error, not a wrong answer.
    let mut job = common::job(nginx.address, open(1000.0, Arrival::Even), 1);
    job.streams[0].work = Work::Web(WebParameters { path: Some("/missing".to_owned()), ..parameters });
    job.length = Span::from_milliseconds(3);
    let gathered = run(&job);
    assert_eq!(gathered.counts(|_| true).failed, 3);
    assert_eq!(gathered.totals[0].errors[0], "the answer's status is 404");
}
