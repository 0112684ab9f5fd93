//! A scripted HTTP server on loopback, and jobs for it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its part")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
};
use tilemark_agent_protocol::{LoadJob, Stream};
use tilemark_load::{Stop, figures::Gathered};
use tilemark_plan::{
    plan::Demand,
    scenario::Arrival,
    workload::{WebFile, WebParameters, Work},
};
use tilemark_units::{Bytes, Rate, Span};
use tilemark_workloads::web::{WebFactory, fill_body};

/// Size of the one file that these servers have.
pub const SIZE: usize = 1024;

/// What a server does with the request of this number (counted from 0 over all its connections).
pub enum Act {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Send these bytes and close.
    SendAndClose(Vec<u8>),
    /// Say nothing, for ever.
    Silence,
}

/// The right answer.
pub fn right_answer() -> Vec<u8> {
    answer_with(&right_body())
}
/// The right body.
pub fn right_body() -> Vec<u8> {
    let mut body = vec![0; SIZE];
    fill_body(&mut body);
    body
}
/// An answer with any body.
pub fn answer_with(body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A server with a thread for each connection; it lives as long as the test's process. `script` is asked
/// once for each request, with its number on this connection.
pub fn server(script: impl Fn(u64) -> Act + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let script = Arc::new(script);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let script = Arc::clone(&script);
            thread::spawn(move || serve(stream.unwrap(), &*script));
        }
    });
    address
}

fn serve(mut stream: TcpStream, script: &dyn Fn(u64) -> Act) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = [0; 4096];
    for request in 0.. {
        // A request of ours is one small segment.
        if !matches!(stream.read(&mut buffer), Ok(1..)) {
            return;
        }
        match script(request) {
            Act::Send(bytes) => {
                if stream.write_all(&bytes).is_err() {
                    return;
                }
            }
            Act::SendAndClose(bytes) => {
                let _ = stream.write_all(&bytes);
                return;
            }
            Act::Silence => {
                let _ = stream.read(&mut buffer);
                return;
            }
        }
    }
}

/// A job of one stream for the one file of [`SIZE`].
pub fn job(target: SocketAddr, demand: Demand, connections: u32) -> LoadJob {
    let files = vec![WebFile { size: Bytes::new(SIZE as u64), weight: 1 }];
    let work = Work::Web(WebParameters { files, ..WebParameters::default() });
    LoadJob {
        streams: vec![Stream { connections, seed: 42, ..Stream::new(7, target, demand, work) }],
        processors: Vec::new(),
        warmup: Span::from_milliseconds(0),
        length: Span::from_seconds(3600),
    }
}

/// An open loop.
pub fn open(rate: f64, arrival: Arrival) -> Demand {
    Demand::Open {
        rate: Rate::per_second(rate).unwrap(),
        arrival,
        burst_every: Span::from_seconds(5),
        burst_length: Span::from_seconds(1),
        surge: None,
    }
}

/// Requests in the schedule of the only stream.
pub fn intended(job: &LoadJob) -> u64 {
    let stream = &job.streams[0];
    let schedule = tilemark_load::Schedule::new(&stream.demand, stream.seed, stream.id).unwrap().unwrap();
    let end = job.length.get().as_nanos() as u64;
    schedule.take_while(|time| *time < end).count() as u64
}

/// Runs a job to its end.
pub fn run(job: &LoadJob) -> Gathered {
    let factory = WebFactory::new(job).unwrap();
    let stop = Stop::new().unwrap();
    Gathered::of(|start, events| tilemark_load::run(job, &factory, &stop, start, events)).unwrap()
}
