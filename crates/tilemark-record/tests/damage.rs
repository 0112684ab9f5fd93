//! A record is whole, or its reader says what is wrong with it.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use std::{fs, path::Path};
use tilemark_fixtures as fixtures;
use tilemark_plan::plan::{Backend, Plan};
use tilemark_record::{
    NoAnswer, RecordError, RunDirectory, Runs,
    clients::{ClientFigures, ClockOffset},
    rows::{GuestRow, TelemetryRow},
    summary::RepeatSummary,
};
use tilemark_units::Bytes;

fn plan() -> Plan {
    let host = fixtures::host(2, Bytes::from_gib(64));
    fixtures::plan(fixtures::TILE, &fixtures::request(&[Backend::Native]), &host)
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
fn a_record_that_a_run_writes_is_neither_removed_nor_called_dead() {
    let (folder, plan) = (tempfile::tempdir().unwrap(), plan());
    let directory = RunDirectory::create(&folder.path().join("run"), &plan).unwrap();
    let held = directory.hold().unwrap();
    let listed = || Runs::new(folder.path()).list()[0].no_answer;
    assert_eq!(listed(), Some(NoAnswer::UnderWay));
    assert!(matches!(directory.clone().remove(), Err(RecordError::Busy { .. })));
    assert!(matches!(directory.verify(), Err(RecordError::Busy { .. })));
    drop(held);
    assert_eq!(listed(), Some(NoAnswer::Unfinished));
    assert!(matches!(directory.verify(), Err(RecordError::Unfinished { .. })));
    directory.clone().remove().unwrap();
    assert!(!directory.path().exists());
}

/// A session that continues it, with a repeat and another result, up to its end.
fn half_continued(directory: &RunDirectory) {
    let repeat = directory.repeat(0, 2).unwrap();
    fs::write(repeat.guest("web").unwrap().join("console.log"), "x").unwrap();
    directory.write_text("result.json", "{\"schema\": 1, \"sessions\": 2}").unwrap();
    fs::write(directory.path().join("events.ndjson"), "{}").unwrap();
}

#[test]
fn a_continued_record_is_one_sessions_alone_and_restored_it_is_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let directory = closed_record(folder.path());
    let reopened = directory.reopen().unwrap();
    half_continued(&directory);
    assert!(matches!(directory.reopen(), Err(RecordError::Busy { .. })));
    assert!(matches!(directory.restore(), Err(RecordError::Busy { .. })));
    assert!(matches!(directory.verify(), Err(RecordError::Busy { .. })));
    assert!(matches!(directory.clone().remove(), Err(RecordError::Busy { .. })));
    drop(reopened);
    assert!(matches!(directory.verify(), Err(RecordError::Unfinished { .. })));
    assert!(directory.is_half_continued());
    assert!(directory.restore().unwrap());
    directory.verify().unwrap();
    let mut left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["manifest.json", "plan.json", "report.html", "result.json"]);
    assert!(!directory.restore().unwrap(), "there is nothing to restore");
}

#[test]
fn a_restoring_that_was_itself_killed_goes_on_where_it_ended() {
    let folder = tempfile::tempdir().unwrap();
    let directory = closed_record(folder.path());
    drop(directory.reopen().unwrap());
    half_continued(&directory);
    let path = directory.path();
    fs::rename(path.join("before/plan.json"), path.join("plan.json")).unwrap();
    assert!(directory.restore().unwrap());
    directory.verify().unwrap();
}

#[test]
fn a_session_that_came_to_its_end_is_not_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let directory = closed_record(folder.path());
    let reopened = directory.reopen().unwrap();
    half_continued(&directory);
    directory.close().unwrap();
    drop(reopened);
    assert!(!directory.restore().unwrap());
    assert!(!directory.path().join("before").exists());
    directory.verify().unwrap();
    assert!(fs::read_to_string(directory.path().join("result.json")).unwrap().contains("sessions"));
    // A folder that stayed since the close was killed at its last step is no obstacle.
    fs::create_dir(directory.path().join("before")).unwrap();
    drop(directory.reopen().unwrap());
    assert!(directory.restore().unwrap());
    directory.verify().unwrap();
}

#[test]
fn what_is_written_or_restored_never_leaves_the_record_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let directory = closed_record(folder.path());
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("precious"), "precious").unwrap();
    let link = |name: &str, to: &Path| std::os::unix::fs::symlink(to, directory.path().join(name)).unwrap();
    // The name that a file had before it was renamed into its place: it could be known before.
    let aside = format!(".report.html.{}.aside", std::process::id());
    link(&aside, &outside.join("precious"));
    fs::remove_file(directory.path().join("report.html")).unwrap();
    link("report.html", &outside.join("precious"));
    directory.write_text("report.html", "<p>drawn again").unwrap();
    fs::remove_file(directory.path().join(aside)).unwrap();
    drop(directory.reopen().unwrap());
    link("points", &outside);
    assert!(directory.restore().unwrap());
    assert!(!directory.path().join("points").exists(), "the link went");
    assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "precious");
    fs::rename(directory.path().join("manifest.json"), outside.join("manifest.json")).unwrap();
    link("before", &outside);
    assert!(!directory.is_half_continued(), "the documents from before are of another folder");
}

#[test]
fn a_record_with_links_is_not_continued_and_nothing_behind_them_is_touched() {
    for name in ["before", "guests", "points/00", "console.log"] {
        let folder = tempfile::tempdir().unwrap();
        let directory = closed_record(folder.path());
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("precious"), "precious").unwrap();
        let link = directory.path().join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        let _ = fs::remove_dir_all(&link);
        std::os::unix::fs::symlink(&outside, &link).unwrap();
        let refused = directory.reopen().unwrap_err();
        assert!(refused.to_string().contains(name) && directory.is_closed(), "{refused}");
        // It is closed again by nobody; were it, nothing would go with the link.
        directory.close().unwrap_or_default();
        assert_eq!(fs::read_to_string(outside.join("precious")).unwrap(), "precious", "{name}");
    }
}

#[test]
fn links_pipes_and_names_outside_the_record_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("outside.json");
    fs::write(&outside, "{\"schema\": 1}").unwrap();
    let directory = closed_record(folder.path());
    let result = directory.path().join("result.json");
    fs::remove_file(&result).unwrap();
    std::os::unix::fs::symlink(&outside, &result).unwrap();
    assert!(matches!(directory.verify(), Err(RecordError::Read { .. })), "its hash would be right");
    assert!(matches!(directory.result(), Err(RecordError::Read { .. })));
    fs::remove_file(&result).unwrap();
    // A pipe that nobody writes to: reading it would wait for ever.
    rustix::fs::mknodat(rustix::fs::CWD, &result, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(directory.result(), Err(RecordError::Read { .. })));
    assert!(matches!(directory.verify(), Err(RecordError::Read { .. })));
    for name in ["/etc/hostname", "../outside.json", "points/../../outside.json"] {
        let manifest = format!("{{\"schema\": 1, \"files\": {{{name:?}: \"\"}}}}");
        fs::write(directory.path().join("manifest.json"), manifest).unwrap();
        let error = directory.verify().unwrap_err();
        assert!(error.to_string().contains("is not a file within the record"), "{error}");
    }
}

fn record_with_a_repeat(folder: &Path) -> RunDirectory {
    let directory = RunDirectory::create(&folder.join("run"), &plan()).unwrap();
    directory.repeat(0, 1).unwrap().write(&summary(), &[], &[], std::iter::empty(), &[]).unwrap();
    directory.close().unwrap();
    directory
}

#[test]
fn links_on_the_way_inside_a_record_are_refused() {
    for name in ["points", "points/00", "points/00/repeat-1"] {
        let folder = tempfile::tempdir().unwrap();
        let directory = record_with_a_repeat(folder.path());
        assert_eq!(directory.summaries().unwrap().len(), 1);
        let files = directory.repeats().unwrap().remove(0);
        // The same files, but elsewhere on the host.
        let (inside, outside) = (directory.path().join(name), folder.path().join("outside"));
        fs::rename(&inside, &outside).unwrap();
        std::os::unix::fs::symlink(&outside, &inside).unwrap();
        assert!(
            matches!(directory.verify(), Err(RecordError::Read { .. })),
            "{name}: its hashes would be right"
        );
        for error in [directory.repeats().unwrap_err(), directory.summaries().unwrap_err()] {
            assert!(error.to_string().contains(&format!("{name} is damaged: it is a link")), "{error}");
        }
        for read in [files.summary().err(), files.seconds().err(), files.telemetry().err()] {
            assert!(matches!(read, Some(RecordError::Read { .. })), "{name}: {read:?}");
        }
    }
}

#[test]
fn a_file_that_would_fill_memory_is_refused_by_name_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let directory = record_with_a_repeat(folder.path());
    // Holes: it takes no room on the disk.
    fs::File::create(directory.path().join("result.json")).unwrap().set_len(1 << 30).unwrap();
    let error = directory.result().unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(error.to_string().ends_with("result.json"), "{error}");
    assert_eq!(why, "it has 1073741824 bytes, and such a file of a record has at most 67108864");
    let files = directory.repeats().unwrap().remove(0);
    fs::File::create(files.path().join("telemetry.csv")).unwrap().set_len((1 << 30) + 1).unwrap();
    assert!(matches!(files.telemetry(), Err(RecordError::Read { .. })));
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
    for name in ["result.json", "plan.json", "manifest.json"] {
        directory.write_text(name, "{\"schema\": 99, \"something\": \"else\"}").unwrap();
    }
    let errors = [
        directory.result().unwrap_err(),
        directory.plan().unwrap_err(),
        // The manifest says which files are whole: one that cannot be read vouches for nothing.
        directory.verify().unwrap_err(),
    ];
    for (error, name) in errors.iter().zip(["result.json", "plan.json", "manifest.json"]) {
        let RecordError::Newer { path, found: 99, known: 1 } = error else { panic!("{error}") };
        assert!(path.ends_with(name), "{error}");
        assert!(error.remedy().contains("a later one"), "{}", error.remedy());
    }
}

fn summary() -> RepeatSummary {
    fixtures::figures::repeat(&plan().points[0], 1, 1)
}

#[test]
fn clocks_of_client_machines_that_run_for_a_month_are_read_back() {
    let month_ns = 30 * 24 * 3_600 * 1_000_000_000_u64;
    let behind = -(month_ns as i64);
    let clock = ClockOffset { least_ns: behind, most_ns: behind + 1_000 };
    let client = ClientFigures {
        name: "c1".to_owned(),
        clock_before: clock,
        clock_after: Some(clock),
        intended_begin_ns: Some(month_ns),
        actual_begin_ns: Some(month_ns + 5),
        ..ClientFigures::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(&folder.path().join("run"), &plan()).unwrap();
    let written = RepeatSummary { clients: vec![client], ..summary() };
    let files = directory.repeat(0, 1).unwrap();
    files.write(&written, &[], &[], std::iter::empty(), &[]).unwrap();
    assert_eq!(directory.summaries().unwrap(), [written]);
}

#[test]
fn rows_of_guests_are_read_back_and_a_changed_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(&folder.path().join("run"), &plan()).unwrap();
    let row = |second, guest: &str| GuestRow {
        second,
        guest: guest.to_owned(),
        processor_s: Some(0.5),
        network_bytes: (second > 0).then_some(1_000),
        ..GuestRow::default()
    };
    let rows =
        [row(0, "tile-001-web"), row(0, "tile-002-web"), row(1, "tile-001-web"), row(1, "tile-002-web")];
    let files = directory.repeat(0, 1).unwrap();
    assert_eq!(files.guest_seconds().unwrap(), [], "a record from before they were kept has none");
    files.write(&summary(), &[], &[TelemetryRow::default()], rows.clone().into_iter(), &[]).unwrap();
    directory.close().unwrap();
    directory.verify().unwrap();
    assert_eq!(files.guest_seconds().unwrap(), rows);
    let path = files.path().join("guests.csv");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("0.5", "0.6", 1)).unwrap();
    let error = directory.verify().unwrap_err();
    assert!(matches!(&error, RecordError::Damaged { path, .. } if path.ends_with("guests.csv")), "{error}");
}

#[test]
fn telemetry_from_before_a_column_was_added_is_read_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let directory = RunDirectory::create(&folder.path().join("run"), &plan()).unwrap();
    let files = directory.repeat(0, 1).unwrap();
    let row =
        TelemetryRow { run_queue_wait_fraction: Some(0.25), power_w: Some(61.5), ..TelemetryRow::default() };
    files.write(&summary(), &[], &[row], std::iter::empty(), &[]).unwrap();
    let read = &files.telemetry().unwrap()[0];
    assert_eq!((read.run_queue_wait_fraction, read.power_w), (Some(0.25), Some(61.5)));
    let path = files.path().join("telemetry.csv");
    let text = fs::read_to_string(&path).unwrap();
    // They are the last ones.
    let older: Vec<&str> = text.lines().map(|line| line.rsplitn(3, ',').last().unwrap()).collect();
    assert!(!older[0].contains("run_queue_wait_fraction") && !older[0].contains("power_w"), "{text}");
    fs::write(&path, older.join("\n")).unwrap();
    assert_eq!(files.telemetry().unwrap(), [TelemetryRow::default()]);
}
