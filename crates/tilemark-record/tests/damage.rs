//! A record is whole, or its reader says what is wrong with it.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use std::{collections::BTreeMap, fs, path::Path};
use tilemark_plan::{
    builtin::builtin,
    parse::Draft,
    plan::{AcceleratorVerdict, Backend, Hardware, HostSummary, Plan},
    resolve::{Request, resolve},
};
use tilemark_record::{RecordError, RunDirectory};
use tilemark_units::Bytes;

fn plan() -> Plan {
    let host = HostSummary {
        name: "testhost".to_owned(),
        kernel: "6.1".to_owned(),
        processor: "a processor".to_owned(),
        threads: vec![0, 1],
        memory_total: Bytes::from_gib(64),
        memory_available: Bytes::from_gib(64),
        kvm: AcceleratorVerdict::Absent,
        hardware: Hardware::Real,
    };
    let request = Request {
        preset: None,
        settings: BTreeMap::new(),
        backends: vec![Backend::Native],
        tiles: None,
        sides: None,
        search: false,
        within: None,
        demonstrate: None,
        seed: 1,
    };
    resolve(&Draft::from_toml(builtin("web").unwrap().text, "web").unwrap(), &request, &host).unwrap()
}

fn closed_record(folder: &Path) -> RunDirectory {
    let directory = RunDirectory::create(&folder.join("run"), &plan()).unwrap();
    directory.write_text("result.json", "{\"schema\": 1}").unwrap();
    directory.write_text("report.html", "<p>").unwrap();
    directory.close().unwrap();
    directory
}

#[test]
fn a_closed_record_verifies_and_its_plan_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let directory = closed_record(folder.path());
    directory.verify().unwrap();
    assert_eq!(directory.plan().unwrap(), plan());
}

#[test]
fn a_changed_byte_is_named_with_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let directory = closed_record(folder.path());
    fs::write(directory.path().join("result.json"), "{\"schema\": 2}").unwrap();
    let error = directory.verify().unwrap_err();
    assert!(matches!(&error, RecordError::Damaged { path, .. } if path.ends_with("result.json")), "{error}");
}

#[test]
fn a_report_drawn_again_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let directory = closed_record(folder.path());
    directory.write_text("report.html", "<p>drawn again").unwrap();
    directory.verify().unwrap();
}

#[test]
fn a_run_that_never_ended_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(&folder.path().join("run"), &plan()).unwrap();
    assert!(matches!(directory.verify(), Err(RecordError::Unfinished { .. })));
}

#[test]
fn nothing_is_written_where_something_is() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("theirs"), "theirs").unwrap();
    let error = RunDirectory::create(folder.path(), &plan()).unwrap_err();
    assert!(matches!(error, RecordError::Occupied { .. }));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_record_of_a_later_version_is_refused_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let directory = closed_record(folder.path());
    directory.write_text("result.json", "{\"schema\": 99}").unwrap();
    let error = directory.result().unwrap_err();
    assert!(matches!(error, RecordError::Newer { found: 99, known: 1, .. }), "{error}");
}
