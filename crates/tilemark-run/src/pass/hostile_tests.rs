//! A guest's agent that is hostile while its load runs: whatever it sends, the run ends, its own repeat is all that it costs, and
//! the engine's memory stays bounded. The whole test program has [`crate::memory_limit`]'s least limit.

use crate::{
    failure::FailureCode,
    fakes::{FakeWorld, Guests, REQUESTS, Ran, TILE, answered, ladder, plan_of, run},
    stop::StopSignal,
};
use flate2::{Compression, write::ZlibEncoder};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer, V2DeflateSerializer},
};
use std::{
    io::Write,
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{
    Counts, Hello, LoadEvent, PROTOCOL_VERSION, Reply, Sender, StreamSecond, StreamTotal, write_frame,
};
use tilemark_guests::fake::{FakeManager, Fault};
use tilemark_plan::{
    plan::{Backend, Plan},
    resolve::Request,
    workload::{Details, StoreFigures},
};
use tilemark_record::summary::IncidentKind;

const GUEST: &str = "tile-001-disk";

/// One tile, whose disk is worked from inside, measured once.
fn plan() -> Plan {
    let disk = "[[guest]]\nname = \"disk\"\nrole = \"disk\"\n[[guest.disk]]\nsize = \"64MiB\"\n[[load]]\nname = \"disk\"\n\
                guest = \"disk\"\nrate = \"50/s\"\n[load.disk]\n[ladder]";
    let scenario = TILE.replace("[ladder]", disk).replace("repeats = 3", "repeats = 1");
    plan_of(&scenario, &Request { tiles: Some(vec![1]), ..ladder() })
}

/// The form that is late twice.
const READY_LATE: &str = "silence after it was ready late";

type Pieces = Vec<(Duration, Vec<u8>)>;

/// Measures beside an agent that sends this.
fn beside(pieces: Pieces) -> Ran {
    let hostile = FakeManager::new(Backend::Native).where_guest(GUEST, Fault::Hostile(pieces.into()));
    let world = FakeWorld::new(|job, _| answered(job, 5)).with(Guests::of(hostile));
    run(&plan(), &world, &StopSignal::default())
}

/// The same, with how long it took.
fn timed(pieces: Pieces) -> (Duration, Ran) {
    let began = Instant::now();
    let ran = beside(pieces);
    (began.elapsed(), ran)
}

fn frame(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_frame(&mut bytes, reply).unwrap();
    bytes
}

fn event(event: LoadEvent) -> Vec<u8> {
    frame(&Reply::Load(event))
}

fn ready() -> Vec<u8> {
    event(LoadEvent::Started(Sender { workers: 0, real_time: false, timer_slack_ns: 0, pinned: false }))
}

fn second(number: u32) -> StreamSecond {
    let counts = Counts { offered: 1, completed: 1, ..Counts::default() };
    StreamSecond { id: 0, second: number, counts, latency: Vec::new(), lateness: Vec::new() }
}

fn with_latency(latency: Vec<u8>) -> Vec<u8> {
    event(LoadEvent::Second(StreamSecond { latency, ..second(0) }))
}

fn total() -> StreamTotal {
    StreamTotal {
        id: 0,
        counts: Counts { offered: 1, completed: 1, ..Counts::default() },
        completed_in_time: 1,
        seconds: 1.0,
        client_cpu_s: 0.0,
        errors: Vec::new(),
        findings: Vec::new(),
    }
}

fn done(totals: Vec<StreamTotal>) -> Vec<u8> {
    event(LoadEvent::Done(totals))
}

/// A histogram in its packed form, whose header says so many digits and so many bytes of payload.
fn packed(digits: u32, announced: u32, payload: &[u8]) -> Vec<u8> {
    let mut inner: Vec<u8> =
        [0x1c84_9313, announced, 0, digits].iter().flat_map(|number: &u32| number.to_be_bytes()).collect();
    inner.extend(1_u64.to_be_bytes());
    inner.extend((u64::MAX / 2).to_be_bytes());
    inner.extend(1_f64.to_be_bytes());
    inner.extend(payload);
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(&inner).unwrap();
    let zlib = zlib.finish().unwrap();
    [&0x1c84_9314_u32.to_be_bytes(), &(zlib.len() as u32).to_be_bytes(), &zlib[..]].concat()
}

fn of_time(nanoseconds: u64) -> Vec<u8> {
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    histogram.record(nanoseconds).unwrap();
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&histogram, &mut bytes).unwrap();
    bytes
}

/// Bytes without any order, the same in each run.
fn junk(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// One piece at once.
fn at_once(parts: &[Vec<u8>]) -> Pieces {
    vec![(Duration::ZERO, parts.concat())]
}

/// Pieces with a pause before each.
fn dripped(pieces: impl Iterator<Item = Vec<u8>>) -> Pieces {
    pieces.map(|piece| (Duration::from_millis(200), piece)).collect()
}

/// Each form, and a part of what the record says about it.
fn forms() -> Vec<(&'static str, Pieces, &'static str)> {
    let bomb = with_latency(packed(3, 50 << 20, &vec![0; 50 << 20]));
    let counts = |counts| event(LoadEvent::Second(StreamSecond { counts, ..second(0) }));
    let of_total = |total: StreamTotal| at_once(&[ready(), done(vec![total])]);
    let busy = |fraction| event(LoadEvent::busy(0, fraction));
    let details =
        event(LoadEvent::Details { id: 0, details: Box::new(Details::Store(StoreFigures::default())) });
    let output = || event(LoadEvent::Output { id: 0, text: "x".repeat(1 << 19) });
    let most = [0xff_u8; 9];
    let even = [0xfe_u8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
    let drip_of = |bytes: Vec<u8>| dripped(bytes.into_iter().map(|byte| vec![byte]));
    let many_bytes = drip_of(event(LoadEvent::Output { id: 0, text: "x".repeat(200) }));
    let mut half = done(vec![total()]);
    half.truncate(half.len() / 2);
    let hello = Hello { version: PROTOCOL_VERSION, nonce: 1 }.to_bytes().to_vec();
    let long = u32::MAX.to_be_bytes().to_vec();
    vec![
        ("silence", Vec::new(), "was not ready within"),
        ("silence after it was ready", at_once(&[ready()]), "did not end within"),
        (READY_LATE, vec![(Duration::from_secs(6), ready())], "did not end within"),
        ("a drip of bytes", many_bytes, "was not ready within"),
        ("a drip of events", dripped((0..70).map(|_| busy(0.5))), "busy seconds"),
        ("half a frame", at_once(&[ready(), half]), "did not end within"),
        ("a frame of 4 GiB", at_once(&[ready(), long]), "is longer than"),
        ("junk", at_once(&[junk(1 << 20)]), "broke off"),
        ("junk in a frame", at_once(&[vec![0, 0, 0, 200], vec![0xff; 200]]), "does not decode"),
        ("another hello", at_once(&[ready(), hello]), "is longer than"),
        ("an answer to nothing", at_once(&[frame(&Reply::Pong(7))]), "nobody had asked"),
        ("another answer to nothing", at_once(&[ready(), frame(&Reply::Done)]), "nobody had asked"),
        (
            "60,000 seconds",
            at_once(&[ready(), (0..60_000).flat_map(|at| event(LoadEvent::Second(second(at)))).collect()]),
            "second 2 of a measurement of 1 s",
        ),
        (
            "60,000 times the same second",
            at_once(&[ready(), (0..60_000).flat_map(|_| event(LoadEvent::Second(second(0)))).collect()]),
            "second 0 twice",
        ),
        ("the last second", at_once(&[ready(), event(LoadEvent::Second(second(u32::MAX)))]), "4294967295"),
        (
            "60,000 busy seconds",
            at_once(&[ready(), (0..60_000).flat_map(|_| busy(0.5)).collect()]),
            "busy seconds",
        ),
        (
            "40 bombs",
            at_once(&[ready(), (0..40).flat_map(|_| bomb.clone()).collect()]),
            "when it is unpacked",
        ),
        ("a histogram of 4 GiB", at_once(&[ready(), with_latency(packed(3, u32::MAX, &[2]))]), "cut off"),
        ("a histogram of five digits", at_once(&[ready(), with_latency(packed(5, 1, &[2]))]), "5 digits"),
        (
            "counts that overflow",
            at_once(&[ready(), with_latency(packed(3, 9, &even))]),
            "more than there can be",
        ),
        (
            "places that overflow",
            at_once(&[ready(), with_latency(packed(3, 9, &most))]),
            "more than there can be",
        ),
        ("a long histogram", at_once(&[ready(), with_latency(junk(900 << 10))]), "bytes in one histogram"),
        (
            "a time of 500 years",
            at_once(&[ready(), with_latency(of_time(u64::MAX / 2))]),
            "longer than it lasted",
        ),
        (
            "counts that wrap",
            at_once(&[ready(), counts(Counts { completed: u64::MAX, ..Counts::default() })]),
            "answers, which is impossible",
        ),
        (
            "bytes that wrap",
            at_once(&[ready(), counts(Counts { bytes: u64::MAX, ..Counts::default() })]),
            "thousand bytes, which is impossible",
        ),
        (
            "more good answers than answers",
            at_once(&[ready(), counts(Counts { completed: 1, good: 2, ..Counts::default() })]),
            "2 good or tolerable answers, which is impossible",
        ),
        ("seconds that are no number", of_total(StreamTotal { seconds: f64::NAN, ..total() }), "NaN as"),
        ("seconds without end", of_total(StreamTotal { seconds: f64::INFINITY, ..total() }), "inf as"),
        ("seconds below nothing", of_total(StreamTotal { seconds: -1.0, ..total() }), "-1 as"),
        (
            "a processor that is no number",
            of_total(StreamTotal { client_cpu_s: f64::NAN, ..total() }),
            "NaN as",
        ),
        (
            "seconds of a moment",
            of_total(StreamTotal { seconds: 1e-300, ..total() }),
            "seconds of its measurement",
        ),
        (
            "seconds of a minute",
            of_total(StreamTotal { seconds: 11.5, ..total() }),
            "seconds of its measurement",
        ),
        (
            "totals beyond the seconds",
            at_once(&[
                ready(),
                event(LoadEvent::Second(second(0))),
                done(vec![StreamTotal {
                    counts: Counts { offered: 9_000, completed: 9_000, ..Counts::default() },
                    ..total()
                }]),
            ]),
            "9000 answers in all, and 1 in its seconds",
        ),
        (
            "answers in time beyond the seconds",
            of_total(StreamTotal { completed_in_time: 9_000, ..total() }),
            "9000 answers in all, and 0 in its seconds",
        ),
        ("busy that is no number", at_once(&[ready(), busy(f64::NAN)]), "NaN as"),
        (
            "answers in time that wrap",
            of_total(StreamTotal { completed_in_time: u64::MAX, ..total() }),
            "answers in time, which is impossible",
        ),
        ("another's totals", of_total(StreamTotal { id: 7, ..total() }), "stream 7, which it does not have"),
        ("totals twice", at_once(&[ready(), done(vec![total(), total()])]), "totals of stream 0 twice"),
        (
            "another's second",
            at_once(&[ready(), event(LoadEvent::Second(StreamSecond { id: 9, ..second(0) }))]),
            "stream 9, which it does not have",
        ),
        ("a second too early", at_once(&[event(LoadEvent::Second(second(0)))]), "before it was ready"),
        ("totals too early", at_once(&[done(vec![total()])]), "before it was ready"),
        ("ready twice", at_once(&[ready(), ready()]), "twice that it was ready"),
        ("details of a disk", at_once(&[ready(), details]), "details of stream 0, which has none"),
        (
            "outputs without end",
            at_once(&[ready(), (0..200).flat_map(|_| output()).collect()]),
            "output of stream 0 twice",
        ),
    ]
}

#[test]
fn whatever_an_agent_sends_costs_its_own_repeat_and_nothing_more() {
    // Beside each other: those that say nothing last as long as they are waited for.
    let ran: Vec<(&str, &str, (Duration, Ran))> = thread::scope(|scope| {
        let all: Vec<_> = forms()
            .into_iter()
            .map(|(name, pieces, said)| (name, said, scope.spawn(move || timed(pieces))))
            .collect();
        all.into_iter().map(|(name, said, ran)| (name, said, ran.join().unwrap())).collect()
    });
    let longest = ran.iter().map(|(.., (took, _))| *took).max().unwrap_or_default();
    // For the page of figures: these runs last 2 s by their plan.
    println!("{{\"hostile_longest_s\":{:.1}}}", longest.as_secs_f64());
    assert_eq!(ran.len(), 44);
    for (name, said, (_, ran)) in ran {
        ran.outcome.as_ref().unwrap_or_else(|failure| panic!("{name}: {failure:?}"));
        let repeats = ran.repeats();
        assert_eq!(repeats.len(), 1, "{name}: it is not retried");
        let refused: Vec<_> =
            repeats[0].incidents.iter().filter(|incident| incident.kind == IncidentKind::Refused).collect();
        assert_eq!(refused.len(), 1, "{name}: {:?}", repeats[0].incidents);
        assert_eq!(refused[0].guest.as_deref(), Some(GUEST), "{name}");
        assert!(refused[0].what.contains(said), "{name}: {}", refused[0].what);
        // What it took to be ready is gone when it is to end.
        assert!(name != READY_LATE || !refused[0].what.contains("within 10 s"), "{}", refused[0].what);
        let of_web = repeats[0].loads.iter().find(|load| load.name == "web").unwrap();
        assert_eq!(of_web.completed, REQUESTS, "{name}: what others did still counts");
        let of_disk = repeats[0].loads.iter().find(|load| load.name == "disk").unwrap();
        assert_eq!((of_disk.offered, of_disk.latency_ms.n), (0, 0), "{name}");
        let judged = tilemark_statistics::judge::judge(&ran.plan(), &repeats);
        assert_eq!(judged.points[0].holds, None, "{name}");
        assert!(
            judged.verdict.reasons.iter().any(|reason| reason.contains(GUEST)),
            "{name}: {:?}",
            judged.verdict
        );
    }
}

#[test]
fn what_an_agent_says_in_words_is_cut() {
    let words = "\u{1b}[31m".repeat(100_000);
    let errors = vec![words.clone(); 2];
    let ran = beside(at_once(&[ready(), done(vec![StreamTotal { errors, ..total() }])]));
    ran.outcome.as_ref().unwrap();
    let of_disk =
        |ran: &Ran| ran.repeats()[0].loads.iter().find(|load| load.name == "disk").cloned().unwrap();
    let errors = of_disk(&ran).errors;
    assert_eq!(errors.len(), 2);
    assert!(errors.iter().all(|error| error.chars().count() < 1_100));
    let failed = event(LoadEvent::Failed { message: words.clone(), remedy: words.clone() });
    for (what, failed) in [
        ("its load failed", failed.clone()),
        (
            "it could not do what nobody had asked",
            frame(&Reply::Failed { message: words.clone(), remedy: words }),
        ),
    ] {
        let ran = beside(at_once(&[ready(), failed]));
        ran.outcome.as_ref().unwrap_or_else(|failure| panic!("{what}: {}", failure.code.name()));
        assert_eq!(ran.repeats()[0].incidents.len(), 1, "{what}");
        let incident = &ran.repeats()[0].incidents[0];
        assert_eq!((incident.kind, incident.guest.as_deref()), (IncidentKind::ServiceErrors, Some(GUEST)));
        assert!(incident.what.starts_with("its load failed: ") && incident.what.chars().count() < 1_100);
    }
    let ran = beside(at_once(&[failed]));
    assert_eq!(ran.failure().code, FailureCode::GuestFailed);
    assert!(ran.failure().message.starts_with("the load inside guest `tile-001-disk` failed: "));
    assert!(ran.failure().message.chars().count() < 1_100 && ran.failure().remedy.chars().count() < 1_100);
}

#[test]
fn a_load_that_fails_in_a_guest_costs_its_repeat_and_breaks_the_point() {
    let failed = LoadEvent::Failed { message: "fio ended".to_owned(), remedy: "read it".to_owned() };
    let ran = beside(at_once(&[ready(), event(failed)]));
    ran.outcome.as_ref().unwrap();
    let repeats = ran.repeats();
    assert_eq!(repeats.len(), 1, "a finding is not retried");
    let of = |name: &str| repeats[0].loads.iter().find(|load| load.name == name).unwrap().clone();
    assert_eq!(of("web").completed, REQUESTS, "what others did still counts");
    assert_eq!((of("disk").offered, of("disk").latency_ms.n), (0, 0));
    let judged = tilemark_statistics::judge::judge(&ran.plan(), &repeats);
    let broke = judged.answer.breaks.unwrap();
    assert_eq!((broke.tiles, broke.guest.as_deref()), (1, Some(GUEST)));
}
