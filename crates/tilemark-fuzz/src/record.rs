//! Records: folders of documents that anybody may have written.

use crate::{edit::edit, scenario};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer as _, V2DeflateSerializer, V2Serializer},
};
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};
use tilemark_record::{
    Events, RepeatFiles, RunDirectory, TaggedSecond,
    rows::{GuestRow, SecondRow, TelemetryRow},
    summary::{EncodedHistogram, HostFigures, ProcessorFigures, RepeatSummary},
};
use tilemark_report::{Colour, Report, Style};
use tilemark_statistics::judge::{RunRepeats, compare_runs, judge};

/// No JSON and no CSV has this byte: it begins a file of the record, and the next byte says which.
const FILE: u8 = 0xff;
/// Files that are read of a record.
const FILES: [&str; 12] = [
    "plan.json",
    "result.json",
    "facts.json",
    "events.ndjson",
    "manifest.json",
    "points/00/repeat-1/summary.json",
    "points/00/repeat-1/seconds.csv",
    "points/00/repeat-1/telemetry.csv",
    "points/00/repeat-1/guests.csv",
    "points/00/repeat-2/summary.json",
    "points/01/repeat-1/summary.json",
    // Events without their checksums, which are added: no random change would hit on the right one.
    "events",
];

/// Takes the files of a record, or edits of one that is right.
pub fn take_record(bytes: &[u8]) {
    match bytes.first() {
        Some(&FILE) | None => take_files(bytes),
        Some(_) => take_files(&edited(bytes)),
    }
}

/// The files of a right record with these edits.
fn edited(edits: &[u8]) -> Vec<u8> {
    thread_local! {
        static RIGHT: Documents = Documents::right();
    }
    let Documents { mut documents, places, tables } = RIGHT.with(Documents::clone);
    edit(&mut documents, edits);
    let content = |document: &serde_json::Value| document.to_string().into_bytes();
    let files: Vec<(u8, Vec<u8>)> =
        places.into_iter().zip(&documents).map(|(place, document)| (place, content(document))).collect();
    // Its events, one a line, are the last document.
    let (mut files, events) = (files, documents.last().and_then(serde_json::Value::as_array));
    if let (Some(last), Some(events)) = (files.last_mut(), events) {
        last.1 = events.iter().map(content).collect::<Vec<_>>().join(&b'\n');
    }
    [parts(&files), tables].concat()
}

/// Documents of a right record, and which file each is.
#[derive(Clone)]
struct Documents {
    documents: Vec<serde_json::Value>,
    places: Vec<u8>,
    /// Files that are no documents, as an input has them.
    tables: Vec<u8>,
}

impl Documents {
    fn right() -> Self {
        let whole = records().remove(0);
        let (mut documents, mut places, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        let mut events = Vec::new();
        for part in whole.split(|byte| *byte == FILE).skip(1) {
            let Some((place, content)) = part.split_first() else { continue };
            if usize::from(*place) == FILES.len() - 1 {
                let lines = content.split(|byte| *byte == b'\n');
                events = lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
            } else if let Ok(document) = serde_json::from_slice(content) {
                documents.push(document);
                places.push(*place);
            } else {
                tables.push((*place, content.to_vec()));
            }
        }
        documents.push(serde_json::Value::Array(events));
        places.push(FILES.len() as u8 - 1);
        Self { documents, places, tables: parts(&tables) }
    }
}

/// Repeats of a record.
const REPEATS: [&str; 3] = ["points/00/repeat-1", "points/00/repeat-2", "points/01/repeat-1"];

fn take_files(bytes: &[u8]) {
    let folder = folder_of(bytes);
    let record = RunDirectory::at(folder.path());
    let _ = record.verify();
    let _ = record.is_half_continued();
    if !record.is_closed() {
        let _ = record.close();
        let _ = record.verify();
    }
    for files in record.repeats().unwrap_or_default() {
        let _ = (files.seconds(), files.telemetry(), files.guest_seconds());
    }
    let _ = Events::read(&folder.path().join("events.ndjson"));
    let _ = tilemark_record::Runs::new(folder.path()).list();
    show(&record);
}

fn folder_of(bytes: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(memory_folder()).expect("a folder can be made");
    for part in bytes.split(|byte| *byte == FILE).skip(1) {
        if let Some((place, content)) = part.split_first() {
            put(folder.path(), FILES[usize::from(*place) % FILES.len()], content);
        }
    }
    folder
}

/// Draws it as `report` does, and compares it with itself as `compare` does.
fn show(record: &RunDirectory) {
    let plan = tilemark_run::run::record::plan_as_run(record);
    let repeats = record.summaries();
    if let (Ok(plan), Ok(repeats)) = (&plan, &repeats) {
        let _ = judge(plan, repeats);
        let run = RunRepeats { plan, repeats };
        let _ = compare_runs(&[run], &[run], Vec::new(), Vec::new());
    }
    if let Ok(mut report) = tilemark_run::run::record::report_of(record) {
        draw(&report);
        tilemark_report::redact(&mut report);
        draw(&report);
    }
}

fn draw(report: &Report) {
    let _ = tilemark_report::html(report);
    let _ = tilemark_report::csv(report);
    let _ = tilemark_report::terminal(report, Style { colour: Colour::Plain, width: 80 });
}

fn put(folder: &Path, name: &str, content: &[u8]) {
    let (name, content) = match name {
        "events" => ("events.ndjson", with_checksums(content)),
        name => (name, content.to_vec()),
    };
    // Every repeat has tables; one set of them is enough of an input.
    let places = match name.strip_prefix("points/00/repeat-1/").filter(|file| file.ends_with(".csv")) {
        Some(file) => REPEATS.map(|repeat| folder.join(repeat).join(file)).to_vec(),
        None => vec![folder.join(name)],
    };
    for path in places {
        fs::create_dir_all(path.parent().expect("it is below the folder")).expect("a folder can be made");
        fs::write(path, &content).expect("a file can be written");
    }
}

fn with_checksums(events: &[u8]) -> Vec<u8> {
    let mut lines = Vec::new();
    for event in events.split(|byte| *byte == b'\n').filter(|event| !event.is_empty()) {
        let sum = crc32fast::hash(event);
        write!(lines, "{{\"crc32\":\"{sum:08x}\",\"event\":").expect("memory takes it");
        lines.extend_from_slice(event);
        lines.extend_from_slice(b"}\n");
    }
    lines
}

/// A folder in memory, where there is one: thousands of records a minute are no work for a disk.
pub(crate) fn memory_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

pub(crate) fn records() -> Vec<Vec<u8>> {
    let plan = scenario::plan_of(&format!("{}{MEASURE}", tilemark_fixtures::TILE));
    let provenance = serde_json::json!({
        "tilemark": "0.1.0", "host": "rack7", "processor": "a processor", "threads": 8, "memory_bytes": 1,
        "kernel": "6.12", "qemu": null, "image": null, "guest_kernel": null, "began": "2026-01-15T09:30:12Z",
        "seconds": 10.0, "expected_seconds": 10.0, "command": "tilemark run t", "hashes": {}
    });
    let repeats = [repeat(0, 1), repeat(0, 2), repeat(1, 1)];
    let judged = judge(&plan, &repeats);
    let result = serde_json::json!({
        "schema": tilemark_record::result::RESULT_SCHEMA, "judged_by": tilemark_record::result::JUDGED_BY,
        "run": "2026-01-15-0930-k7f2", "scenario": "t", "preset": null, "verdict": judged.verdict,
        "answer": judged.answer, "sentence": judged.sentence, "cost": judged.cost,
        "comparison": judged.comparison, "scaling": judged.scaling, "points": judged.points,
        "provenance": provenance, "missing": judged.missing
    });
    let text = |value: &serde_json::Value| value.to_string().into_bytes();
    let whole = parts(&[
        (0, serde_json::to_vec(&plan).expect("a plan is JSON")),
        (1, text(&result)),
        (11, EVENTS.to_vec()),
        (5, serde_json::to_vec(&repeats[0]).expect("a summary is JSON")),
        (9, serde_json::to_vec(&repeats[1]).expect("a summary is JSON")),
        (10, serde_json::to_vec(&repeats[2]).expect("a summary is JSON")),
        (6, rows("seconds.csv")),
        (7, rows("telemetry.csv")),
        (8, rows("guests.csv")),
    ]);
    let small = parts(&[(0, serde_json::to_vec(&plan).expect("a plan is JSON")), (11, EVENTS.to_vec())]);
    let broken = parts(&[(4, br#"{"schema":1,"files":{"plan.json":"00"}}"#.to_vec())]);
    let edits =
        (0..6_u8).map(|document| (0..8_u8).flat_map(|what| [document, what, what * 31, what * 3]).collect());
    [whole, small, broken].into_iter().chain(edits).collect()
}

fn parts(files: &[(u8, Vec<u8>)]) -> Vec<u8> {
    files.iter().flat_map(|(place, content)| [&[FILE, *place][..], content].concat()).collect()
}

const EVENTS: &[u8] = br#"{"event":"began","unix_ms":1,"run":"r"}
{"event":"pass-began","unix_ms":2,"pass":{"block":1,"point":0,"repeat":1}}
{"event":"does-not-fit","end":{"tiles":4,"backend":"kvm","needed":"1GiB","free":"512MiB","reserve":"1GiB"}}
{"event":"interrupted"}
{"event":"ended","unix_ms":3}"#;

const MEASURE: &str = "[measure]\nrepeats = 2\nlength = \"3s\"\n";

/// A repeat in figures, from the smallest document that reads.
fn repeat(point: usize, repeat: u32) -> RepeatSummary {
    let mut histogram = Histogram::<u64>::new(3).expect("three digits are allowed");
    (1..=100_u64).for_each(|ms| histogram.record(ms * 500_000).expect("it grows with its values"));
    let latency = serde_json::json!({
        "n": 100, "mean": 25.0, "deviation": 3.0, "p50": 25.0, "p90": 45.0, "p99": 49.0, "p999": null, "max": 50.0
    });
    let encoded = EncodedHistogram::of(&histogram);
    let guest = serde_json::json!({
        "name": "tile-001-web", "tile": 1, "offered": 30, "completed": 30, "completed_in_time": 30, "errors": 0,
        "latency_ms": latency, "latency_histogram": encoded, "worst_second": {"second": 1, "latency_ms": 50.0}
    });
    let load = serde_json::json!({
        "name": "web", "role": "web", "loop": "open", "measured": "outside", "unit": "requests", "seconds": 3.0,
        "offered": 30, "completed": 30, "completed_in_time": 30, "failed": 0, "wrong": 0, "bytes": 1000,
        "latency_ms": latency, "latency_histogram": encoded,
        "send_lateness_us": {"p50": 1.0, "p99": 2.0, "p999": null, "max": 3.0}, "client_cpu_s": 0.1,
        "sender_busy": {"mean_fraction": 0.1, "max_fraction": 0.2}, "guests": [guest], "fairness": null,
        "errors": [], "drift": null, "store": []
    });
    let host = HostFigures {
        seconds: 3,
        processor: ProcessorFigures { guest_work: 0.4, idle: 0.6, ..ProcessorFigures::default() },
        memory_total: 1 << 34,
        memory_available_min: Some(1 << 33),
        guest_processors_busy: Some(0.5),
        ..HostFigures::default()
    };
    let place = serde_json::json!({"took_ms": 1.0, "guests": [{
        "guest": "tile-001-web", "is_planned": true, "threads_count": 2, "threads_elsewhere": 1,
        "threads": [{"name": "CPU 0/KVM", "planned": "1", "allowed": "0-1", "ran_on": 0, "is_elsewhere": true}],
        "memory_bytes": {"0": 4096, "1": 8192}, "memory_bytes_elsewhere": 4096, "unread": "denied"
    }]});
    let document = serde_json::json!({
        "point": point, "repeat": repeat, "block": repeat, "began_unix_ms": 1_700_000_000_000_u64,
        "backend": "kvm", "loads": [load], "host": host, "incidents": [], "memory": null, "place": place
    });
    serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document}"))
}

/// A table of a repeat, as the record writes it.
fn rows(name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let record = RunDirectory::at(folder.path());
    let files: RepeatFiles = record.repeat(0, 1).expect("a folder can be made");
    let second = |second| SecondRow {
        point: 0,
        repeat: 1,
        load: "web".to_owned(),
        second,
        offered: 10,
        completed: 10,
        errors: 0,
        p50_ms: Some(25.0),
        p99_ms: None,
        max_ms: Some(50.0),
    };
    let telemetry = TelemetryRow { second: 1, ..TelemetryRow::default() };
    let guests = [GuestRow::default()].into_iter();
    let latency: [TaggedSecond; 0] = [];
    files
        .write(&repeat(0, 1), &[second(0), second(1)], &[telemetry], guests, &latency)
        .expect("a repeat can be written");
    fs::read(files.path().join(name)).expect("it was written")
}

/// Takes a histogram.
pub fn take_histogram(bytes: &[u8]) {
    for encoded in [BASE64.encode(bytes), String::from_utf8_lossy(bytes).into_owned()] {
        let text = serde_json::Value::String(encoded);
        if let Ok(encoded) = serde_json::from_value::<EncodedHistogram>(text)
            && let Ok(histogram) = encoded.decode()
        {
            use_histogram(&histogram);
        }
    }
    if let Ok(histogram) = tilemark_record::histogram::decode(bytes) {
        use_histogram(&histogram);
    }
}

fn use_histogram(histogram: &Histogram<u64>) {
    let mut sum = Histogram::<u64>::new(3).expect("three digits are allowed");
    sum.auto(true);
    let _ = sum.add(histogram);
    let _ = (histogram.value_at_quantile(0.99), histogram.mean(), histogram.stdev());
    let _ = EncodedHistogram::of(histogram);
}

pub(crate) fn histograms() -> Vec<Vec<u8>> {
    let mut histogram = Histogram::<u64>::new(3).expect("three digits are allowed");
    (1..=1000_u64).for_each(|value| histogram.record(value * value).expect("it grows with its values"));
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    V2Serializer::new().serialize(&histogram, &mut plain).expect("memory takes it");
    V2DeflateSerializer::new().serialize(&histogram, &mut packed).expect("memory takes it");
    vec![BASE64.encode(&packed).into_bytes(), plain, packed]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_input_and_one_without_edits_are_whole_records() {
        for bytes in [records().remove(0), edited(&[])] {
            let folder = folder_of(&bytes);
            let record = RunDirectory::at(folder.path());
            record.close().unwrap();
            record.verify().unwrap();
            let report =
                tilemark_run::run::record::report_of(&record).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((report.repeats.len(), report.result.points.len() > 1), (3, true));
            let read = Events::read(&folder.path().join("events.ndjson")).unwrap();
            assert_eq!(read.len(), 5);
        }
    }
}
