//! The online store in guests, natively and for real: served by each database, audited, and not believed when the
//! database was killed. Root and the image `database` are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Line,
    real::{Process, Real},
    skipped, words,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{collections::BTreeSet, fs, path::Path};
use tilemark_record::{
    RunDirectory,
    result::GateMeasure,
    summary::{IncidentKind, RepeatSummary},
};

static RUN: Line = Line::new(|| {
    words(
        "run oltp --preset quick --on native --offline --not-alone --tiles 1 --set measure.repeats=1 \
         --set measure.warmup=1s --set load.orders.store.data=10MB --set load.orders.store.clients=4 --json --set",
    )
});

fn guests_are_ready(real: &Real) -> Option<()> {
    let run = fs::read_dir(real.home.path().join("runs")).ok()?.flatten().next()?;
    let events = fs::read_to_string(run.path().join("events.ndjson")).ok()?;
    events.contains("guests-ready").then_some(())
}

/// The server's process once it works for its clients: it has used half a second more than at its start.
fn server_under_load(processes: &BTreeSet<Process>, name: &str) -> Option<i32> {
    let server = processes.iter().find(|process| process.name.starts_with(name))?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", server.pid)).ok()?;
    let ticks: u64 =
        stat.rsplit(") ").next()?.split(' ').skip(11).take(2).filter_map(|at| at.parse::<u64>().ok()).sum();
    (ticks > 50).then_some(server.pid)
}

fn one_repeat(real: &Real, id: &str) -> (RunDirectory, RepeatSummary) {
    let record = real.record(id);
    let summary = record.repeats().unwrap()[0].summary().unwrap();
    (record, summary)
}

/// The random password of a run is 32 hexadecimal digits; nothing of that form may be where others can read it.
fn has_password(text: &str) -> bool {
    text.split(|sign: char| !sign.is_ascii_hexdigit()).any(|word| word.len() == 32)
}

fn a_store_is_served_and_audited(database: &str, process: &str) {
    let Some(real) = Real::with_image("database") else { return };
    let setting = format!("load.orders.store.database={database}");
    let (mut running, under_way) =
        real.begin(&[&RUN[..], &[&setting, "--set", "measure.length=3s"]].concat());
    running.until("guests", guests_are_ready);
    let processes = Process::descendants(running.child.id() as i32);
    assert!(processes.iter().any(|one| one.name.starts_with(process)), "{processes:#?}");
    for one in &processes {
        let arguments = fs::read(format!("/proc/{}/cmdline", one.pid)).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        assert!(!has_password(&arguments), "{arguments}");
    }
    let said = running.said();
    assert_eq!(said.code, Some(5), "beside other work it is at most `cannot tell`: {said:?}");
    let (record, summary) = one_repeat(&real, &under_way.id);
    let load = &summary.loads[0];
    assert!(load.completed > 0 && load.failed == 0, "{load:?}");
    assert_eq!(load.unit, "orders");
    let store = &load.store[0];
    assert_eq!(store.audit, "agrees");
    assert!(store.store.server.contains("MariaDB") == (database == "mariadb"), "{}", store.store.server);
    for step in ["login", "browse", "purchase", "order"] {
        assert!(store.latency_ms[step].mean > 0.0, "{step}");
    }
    assert_eq!(summary.incidents, []);
    let page = fs::read_to_string(record.path().join("report.html")).unwrap();
    assert!(page.contains("full durability"), "durability is shown beside the figures");
    for file in ["plan.json", "events.ndjson", "points/00/repeat-1/guests/tile-001-db/orders.json"] {
        let text = fs::read_to_string(record.path().join(file)).unwrap();
        assert!(!has_password(&text) && !text.contains("password"), "{file}");
    }
    let console =
        fs::read_to_string(record.path().join("points/00/repeat-1/guests/tile-001-db/console.log")).unwrap();
    assert!(!has_password(&console), "{console}");
    real.all_gone(&processes, under_way.cgroup.as_slice());
}

#[test]
fn mariadb_serves_a_store_that_is_audited() {
    a_store_is_served_and_audited("mariadb", "mariadbd");
}

#[test]
fn postgresql_serves_a_store_that_is_audited() {
    a_store_is_served_and_audited("postgresql", "postgres");
}

/// Both databases secure what is said to them with a certificate of their own start, and refuse who comes without: each order came
/// through it. Two sides may differ by that alone.
#[test]
fn a_store_is_served_over_tls_and_beside_one_without() {
    for database in ["mariadb", "postgresql"] {
        let Some(real) = Real::with_image("database") else { return };
        let setting = format!("load.orders.store.database={database}");
        let sides = ["--a", "load.orders.store.tls=true", "--b", "load.orders.store.tls=false"];
        let settings = [&setting, "--set", "measure.length=2s"];
        let ab = [&["ab"][..], &RUN[1..], &settings, &sides].concat();
        let result = real.home.says(&ab).ended(5).result();
        let record = real.record(&result.run);
        let plan = fs::read_to_string(record.path().join("plan.json")).unwrap();
        assert!(plan.contains("\"tls\":true") || plan.contains("\"tls\": true"), "a side has TLS");
        let repeats = record.repeats().unwrap();
        assert!(repeats.len() >= 2, "a pair at least");
        for repeat in repeats {
            let load = &repeat.summary().unwrap().loads[0];
            assert!(load.completed > 0 && load.failed == 0, "{database}: {load:?}");
            assert_eq!(load.store[0].audit, "agrees");
        }
    }
}

#[test]
fn a_database_that_is_killed_breaks_the_point_and_has_no_figure() {
    let Some(real) = Real::with_image("database") else { return };
    // Killed in its warm-up: no second that is measured has an answer.
    let long = ["measure.warmup=15s", "--set", "measure.length=10s"];
    let (mut running, under_way) = real.begin(&[&RUN[..], &long].concat());
    running.until("guests", guests_are_ready);
    let id = running.child.id() as i32;
    let server = running.until("a load", |_| server_under_load(&Process::descendants(id), "mariadbd"));
    kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    let said = running.said().ended(4);
    let result = said.result();
    let (_, summary) = one_repeat(&real, &under_way.id);
    for what in ["the connection to the database was lost", "clients gave up"] {
        let found = summary.incidents.iter().find(|incident| incident.what.contains(what));
        let found = found.map(|incident| (incident.kind, incident.guest.as_deref()));
        assert_eq!(found, Some((IncidentKind::ServiceErrors, Some("tile-001-db"))), "{what}: {summary:?}");
    }
    let point = &result.points[0];
    assert_eq!((point.repeats_kept, point.repeats_voided.len()), (1, 0), "a failure is a finding");
    assert!(point.throughput.is_none(), "no figure replaces a failure");
    assert_eq!(result.answer.holds, None);
    let broke = result.answer.breaks.unwrap();
    assert_eq!((broke.tiles, broke.measure), (1, GateMeasure::GuestEnded));
    assert_eq!(broke.guest.as_deref(), Some("tile-001-db"));
    // It was measured beside other work.
    assert_eq!(said.json()["verdict"]["status"], "cannot-tell");
}

/// The process of this name in the group of a guest.
fn in_guest(cgroup: &Path, guest: &str, name: &str) -> Option<i32> {
    let processes = fs::read_to_string(cgroup.join(guest).join("cgroup.procs")).ok()?;
    let is_it = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
    };
    processes.lines().find(is_it)?.parse().ok()
}

/// sysbench cannot go on without its server: it fails in its guest, and the other guests and repeats are measured.
#[test]
fn a_database_that_dies_in_one_of_several_guests_is_named_and_costs_that_repeat() {
    let Some(real) = Real::with_image("database") else { return };
    let run = "run sysbench --preset quick --on native --offline --not-alone --tiles 3 --json --set measure.repeats=2 \
               --set measure.warmup=1s --set measure.length=4s --set load.transactions.sysbench.threads=1";
    let (mut running, under_way) = real.begin(&words(run));
    let Some(cgroup) = under_way.cgroup.clone() else { return skipped("this host has no cgroup2") };
    running.until("guests", guests_are_ready);
    running.until("a load", |_| in_guest(&cgroup, "tile-002-db", "sysbench"));
    let server = running.until("a server", |_| in_guest(&cgroup, "tile-002-db", "mariadbd"));
    kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    let said = running.said().ended(4);
    assert!(said.error.contains("guest `tile-002-db` failed in repeat 1"), "{said:?}");
    assert_eq!(said.error.matches("2 MB of rows in mariadb, once").count(), 1, "one template: {said:?}");
    let (record, first) = one_repeat(&real, &under_way.id);
    let kinds: Vec<_> =
        first.incidents.iter().map(|incident| (incident.kind, incident.guest.as_deref())).collect();
    let guest = Some("tile-002-db");
    assert_eq!(kinds, [(IncidentKind::ServiceErrors, guest), (IncidentKind::GuestEnded, guest)]);
    let other = record.repeats().unwrap()[1].summary().unwrap();
    assert_eq!(other.incidents, []);
    assert!(other.loads[0].completed > 0 && other.loads[0].failed == 0, "{:?}", other.loads[0]);
    let result = said.result();
    assert_eq!(result.answer.breaks.unwrap().guest.as_deref(), guest);
    real.all_gone(&BTreeSet::new(), &[cgroup]);
}

/// It is killed while the database's template is made, or while a guest has its clone: either leaves disks.
#[test]
fn disks_of_a_killed_run_are_removed_and_named_by_recover() {
    let Some(real) = Real::with_image("database") else { return };
    real.home.says(&["recover", "--json"]).ended(0);
    let (mut running, under_way) = real.begin(&[&RUN[..], &["measure.length=60s"]].concat());
    let id = running.child.id() as i32;
    let is_server = |process: &Process| process.name.starts_with("mariadb");
    running.until("a server", |_| Process::descendants(id).iter().any(is_server).then_some(()));
    let processes = Process::descendants(id);
    running.signal(Signal::KILL);
    running.child.wait().unwrap();
    real.all_gone(&processes, under_way.cgroup.as_slice());
    let recovered = real.home.says(&["recover", "--json"]).json();
    let disks: Vec<&str> =
        recovered["disks"].as_array().unwrap().iter().map(|disk| disk.as_str().unwrap()).collect();
    let of_guests = ["template-maker-0.disk", "tile-001-db-0.disk"];
    assert!(of_guests.iter().any(|disk| disks.contains(disk)), "{recovered}");
    assert_eq!(real.home.says(&["recover"]).out, "Nothing was left behind.\n");
}
