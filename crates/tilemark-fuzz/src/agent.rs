//! What agents send: frames, and the events of a load.

use std::{
    io::{self, Cursor, Read, Write},
    net::Ipv4Addr,
};
use tilemark_agent_protocol::{
    Counts, Description, Hello, LoadEvent, PROTOCOL_VERSION, Reply, Request, Sender, Session, StreamSecond,
    StreamTotal, write_frame,
};
use tilemark_plan::{
    plan::{MacAddress, Plan},
    workload::{Details, Finding, IncidentKind, JobKind, JobTimes, JobsFigures, StoreFigures},
};
use tilemark_run::pass::load_frames::{LoadSource, figures_of_frames};
use tilemark_units::Bytes;

/// The host draws it at random; an agent that was not asked cannot know it.
const NONCE: u64 = 7;
/// Replies that are read of one conversation.
const REPLIES: usize = 1000;

/// A stream that gives these bytes and takes all.
struct Scripted<'b>(Cursor<&'b [u8]>);

impl Read for Scripted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Scripted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes an agent's end of a conversation.
pub fn take_frames(bytes: &[u8]) {
    // Most inputs have a broken hello: what comes behind it is read in any case.
    for whole in [bytes.to_vec(), [&hello()[..], bytes].concat()] {
        let Ok(mut session) = Session::open(Scripted(Cursor::new(&whole)), NONCE) else { continue };
        for _ in 0..REPLIES {
            match session.ask(&Request::Describe) {
                Ok(reply) => drop(format!("{reply:?}")),
                Err(error) => {
                    let _ = error.to_string();
                    break;
                }
            }
        }
    }
}

fn hello() -> Vec<u8> {
    Hello { version: PROTOCOL_VERSION, nonce: NONCE }.to_bytes().to_vec()
}

fn framed(replies: &[Reply]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for reply in replies {
        write_frame(&mut bytes, reply).expect("it is short and memory takes it");
    }
    bytes
}

pub(crate) fn frames() -> Vec<Vec<u8>> {
    let description = Description {
        host_name: "tile-001-web".to_owned(),
        machine_id: "0123456789abcdef".repeat(2),
        kernel: "6.1.0-32-cloud-amd64".to_owned(),
        mac: MacAddress::of_guest(1),
        address: Ipv4Addr::new(10, 77, 1, 1),
        processors: 1,
        memory: Bytes::from_mib(256),
        memory_used: Bytes::from_mib(60),
        boot_nonce: 9,
        realtime_ns: 1_700_000_000_000_000_000,
    };
    let failed = Reply::Failed { message: "no disk".to_owned(), remedy: "give it one".to_owned() };
    let replies = [
        Reply::Pong(7),
        Reply::Done,
        Reply::Serving { ports: vec![80, 9000] },
        Reply::Clock { realtime_ns: 1 },
        Reply::Random(vec![1, 2, 3]),
        Reply::Description(description),
        Reply::Executed { code: 0, output: b"out".to_vec(), error: b"error".to_vec() },
        failed,
    ];
    let with_hello = [hello(), framed(&replies)].concat();
    let mut seeds = vec![with_hello, framed(&load_events()), framed(&replies)];
    seeds.extend(replies.into_iter().map(|reply| framed(&[reply])));
    seeds
}

/// Takes events of a load. The first byte says whether the load ran outside or inside of a guest.
pub fn take_events(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let place = if first % 2 == 0 { LoadSource::Outside } else { LoadSource::Inside(1) };
    let plan = plan();
    let _ = figures_of_frames(&plan, &plan.points[0], place, &mut &rest[..]);
}

/// A plan with loads from outside and from inside.
fn plan() -> Plan {
    thread_local! {
        static PLAN: Plan = crate::scenario::plan_of(MIXED);
    }
    PLAN.with(Clone::clone)
}

/// A web server, disks and a database: every way in which loads report their figures.
const MIXED: &str = r#"
schema = 1
name = "mixed"
about = "every way in which loads report"
headline = "web"
[[guest]]
name = "web"
role = "web"
[[guest]]
name = "disk"
role = "disk"
[[guest.disk]]
size = "1GiB"
[[guest]]
name = "db"
role = "database"
memory = "1GiB"
[[guest.disk]]
size = "8GiB"
[[load]]
name = "web"
guest = "web"
rate = "10/s"
web = {}
[[load]]
name = "disk"
guest = "disk"
loop = "closed"
[load.disk]
[[load]]
name = "shop"
guest = "db"
loop = "closed"
[load.store]
[ladder]
tiles = [1]
[measure]
repeats = 1
length = "3s"
"#;

fn histogram(values: &[u64]) -> Vec<u8> {
    let mut histogram = hdrhistogram::Histogram::<u64>::new(3).expect("three digits are allowed");
    values.iter().for_each(|value| histogram.record(*value).expect("it grows with its values"));
    tilemark_load::figures::encode(&histogram)
}

fn load_events() -> Vec<Reply> {
    let counts = Counts { offered: 30, completed: 29, failed: 1, bytes: 29_000, ..Counts::default() };
    let second = |id, second| {
        LoadEvent::Second(StreamSecond {
            id,
            second,
            counts,
            latency: histogram(&[1_000_000, 2_000_000, 3_000_000]),
            lateness: histogram(&[1_000]),
        })
    };
    let total = |id| StreamTotal {
        id,
        counts,
        completed_in_time: 29,
        seconds: 3.0,
        client_cpu_s: 0.1,
        errors: vec!["connection reset".to_owned()],
        findings: vec![Finding { kind: IncidentKind::WrongAnswers, what: "one order is lost".to_owned() }],
    };
    let sender = Sender { workers: 1, real_time: true, timer_slack_ns: 1, pinned: true };
    let details = Box::new(Details::Store(StoreFigures::default()));
    let times = JobTimes { count: 50, mean_ms: Some(20.0), p50_ms: Some(18.0), ..JobTimes::default() };
    let jobs =
        JobsFigures { jti: Some(0.98), kinds: [(JobKind::Sort, times)].into(), ..JobsFigures::default() };
    let events = [
        LoadEvent::Started(sender),
        second(0, 0),
        second(0, 1),
        second(0, 2),
        second(2, 0),
        LoadEvent::busy(0, 0.5),
        LoadEvent::Output { id: 2, text: "{}".to_owned() },
        LoadEvent::Details { id: 2, details },
        LoadEvent::Details { id: 0, details: Box::new(Details::Jobs(jobs)) },
        LoadEvent::Done(vec![total(0), total(2)]),
    ];
    events.into_iter().map(Reply::Load).collect()
}

pub(crate) fn events() -> Vec<Vec<u8>> {
    let all = load_events();
    let mut seeds = vec![[&[0][..], &framed(&all)].concat(), [&[1][..], &framed(&all)].concat()];
    seeds.extend(all.into_iter().map(|event| [&[0][..], &framed(&[event])].concat()));
    seeds
}
