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
        job.streams[0].work = Work::Web(parameters.clone()).into();
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
    job.streams[0].work = Work::Web(WebParameters { path: Some("/missing".to_owned()), ..parameters }).into();
    job.length = Span::from_milliseconds(3);
    let gathered = run(&job);
    assert_eq!(gathered.counts(|_| true).failed, 3);
    assert_eq!(gathered.totals[0].errors[0], "the answer's status is 404");
}

/// A server with TLS of a user's own, on one port of loopback, beside one without. Its certificate is for `shop.example`.
fn start_tls() -> (Nginx, SocketAddr, String) {
    let made = rcgen::generate_simple_self_signed(["shop.example".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (root, state) = (folder.path().join("root"), folder.path().join("state"));
    for path in [&root, &state] {
        std::fs::create_dir(path).unwrap();
    }
    let parameters = WebParameters::default();
    for file in service_files(&parameters).unwrap() {
        std::fs::write(root.join(&file.path), &file.contents).unwrap();
    }
    std::fs::write(state.join("crt"), made.cert.pem()).unwrap();
    std::fs::write(state.join("key"), made.signing_key.serialize_pem()).unwrap();
    // Both are held until both are known.
    let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [address, secure] = ports.map(|port| port.local_addr().unwrap());
    let state_path = state.display();
    let server = format!(
        "listen {} ssl;\nssl_protocols TLSv1.3;\nssl_certificate {state_path}/crt;\nssl_certificate_key {state_path}/key;\n\
         location = /moved {{ return 301 /1024.bin; }}\nlocation = /post {{ if ($request_method != POST) {{ return 405; }} \
         return 200 \"$http_host $http_x_mark $content_length\"; }}\n",
        secure.port()
    );
    let conf = nginx_conf(1, address.port(), &root, &state);
    let conf = conf.replace("        root ", &format!("{server}        root "));
    let path = folder.path().join("nginx.conf");
    std::fs::write(&path, conf).unwrap();
    let child = Command::new(NGINX).args(nginx_arguments(&path)).stdin(Stdio::null()).spawn().unwrap();
    let nginx = Nginx { child, address, _folder: folder };
    wait_until_ready(&nginx, &parameters);
    (nginx, secure, made.cert.pem())
}

/// A job of an even load of three requests.
fn three(target: SocketAddr, web: WebParameters) -> LoadJob {
    let mut job = common::job(target, open(1000.0, Arrival::Even), 1);
    job.streams[0].work = Work::Web(web).into();
    job.length = Span::from_milliseconds(3);
    job
}

fn refused(job: &LoadJob) -> String {
    let factory = tilemark_workloads::web::WebFactory::new(job).unwrap();
    let stop = tilemark_load::Stop::new().unwrap();
    let run = tilemark_load::figures::Gathered::of(|start, events| {
        tilemark_load::run(job, &factory, &stop, start, events)
    });
    let error = run.unwrap_err();
    assert!(matches!(error, tilemark_load::LoadError::WrongServer { .. }), "{error}");
    error.to_string()
}

#[test]
fn a_server_with_tls_is_asked_by_its_name_with_method_headers_and_body_and_its_certificate_is_checked() {
    if !is_possible() {
        return;
    }
    let (nginx, secure, ca) = start_tls();
    let text = |text: &str| Some(text.to_owned());
    let own = WebParameters {
        path: text("/post"),
        host: text("shop.example"),
        tls: true,
        ca: text(&ca),
        method: text("POST"),
        headers: [("X-Mark".to_owned(), "seen".to_owned())].into(),
        body: text("hello"),
        contains: text("shop.example seen 5"),
        ..WebParameters::default()
    };
    let gathered = run(&three(secure, own.clone()));
    assert_eq!(gathered.counts(|_| true).completed, 3, "{:?}", gathered.totals[0].errors);
    // The files of our own service over TLS: any certificate, every byte.
    let built_in = WebParameters { tls: true, ..WebParameters::default() };
    let gathered = run(&three(secure, built_in));
    assert_eq!(gathered.counts(|_| true).completed, 3, "{:?}", gathered.totals[0].errors);
    // A redirect is an error by name, unless it is expected.
    let moved =
        WebParameters { path: text("/moved"), method: None, body: None, contains: None, ..own.clone() };
    let gathered = run(&three(secure, moved.clone()));
    assert_eq!(gathered.counts(|_| true).failed, 3);
    assert!(gathered.totals[0].errors[0].contains("301: a redirect"), "{:?}", gathered.totals[0].errors);
    let gathered = run(&three(secure, WebParameters { expect_status: Some(301), ..moved }));
    assert_eq!(gathered.counts(|_| true).completed, 3, "{:?}", gathered.totals[0].errors);
    // What is wrong for good is named before the load begins.
    let said = refused(&three(secure, WebParameters { host: text("other.example"), ..own.clone() }));
    assert!(said.contains("the server's certificate is for another name"), "{said}");
    let other = rcgen::generate_simple_self_signed(["shop.example".to_owned()]).unwrap().cert.pem();
    let said = refused(&three(secure, WebParameters { ca: text(&other), ..own.clone() }));
    assert!(said.contains("certificate"), "{said}");
    let said = refused(&three(nginx.address, own));
    assert!(said.contains("does not speak TLS on this port"), "{said}");
}
