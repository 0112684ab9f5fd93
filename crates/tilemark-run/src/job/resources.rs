//! What a run will need of the host's disks and limits, held against what there is before anything of it is made: a run that would fail
//! in its last hour says so in its first second.

use crate::{
    failure::{Failure, FailureCode},
    guests::database_disks::{STORE_BYTES, store_file, template_kind},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use tilemark_plan::{
    plan::{Backend, GuestPlan, LoadPlan, Pass, Plan, Point},
    scenario::{DiskMedium, Role},
};
use tilemark_record::places::Places;
use tilemark_sys::limits::{raise_file_size, raise_open_files};
use tilemark_units::Bytes;

/// Disk space that must stay free on every disk that a run writes to.
pub(crate) const DISK_RESERVE: Bytes = Bytes::from_gib(2);

/// Stops when a plan needs more than there is: disk space, open files, or larger files than the caller's limit allows.
///
/// # Errors
/// [`FailureCode::HostUnfit`], with what is needed, what is there and how to get more.
pub(crate) fn enough(plan: &Plan, places: &Places, record: &Path) -> Result<(), Failure> {
    enough_files(&plan.points)?;
    large_enough_files(&plan.points, places)?;
    disks_suffice(&needs(plan, places, record), &free_on)
}

/// Something that takes disk space.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Need {
    what: &'static str,
    /// Where it is written; it need not exist.
    path: PathBuf,
    bytes: Bytes,
}

/// Free space of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Free {
    /// The same for all paths on one file system.
    disk: u64,
    bytes: Bytes,
    /// Of the whole file system. One of the kernel's own, such as /proc, has none.
    size: Bytes,
}

/// What a second of one guest or load takes in a record, roughly: rows, and a compressed histogram of each load.
const SECOND_OF_GUEST: Bytes = Bytes::new(160);
const SECOND_OF_LOAD: Bytes = Bytes::from_kib(3);
/// A guest's console in a repeat: a kernel that boots says some 30 KiB.
const CONSOLE: Bytes = Bytes::from_kib(128);
/// A database's own files beside its data: logs that it makes full length, and system tables.
const DATABASE_EMPTY: Bytes = Bytes::from_mib(512);
/// A database in files, with its indexes, for each byte of data as CSV.
const DATABASE_PER_DATA: u64 = 3;
/// What a clone of a database's disk writes in a repeat and no longer shares.
const DATABASE_WRITES: Bytes = Bytes::from_mib(256);

fn needs(plan: &Plan, places: &Places, record: &Path) -> Vec<Need> {
    let most = |of: fn(&Point) -> Bytes| plan.points.iter().map(of).max().unwrap_or_default();
    let of_passes: Bytes = plan.passes.iter().map(|pass| record_of(plan, pass)).sum();
    let databases: BTreeMap<String, Bytes> = plan.points.iter().flat_map(templates_of).collect();
    let all = [
        Need { what: "the record", path: record.to_owned(), bytes: of_passes },
        Need { what: "data disks", path: places.state.clone(), bytes: most(data_disks) },
        Need {
            what: "templates of databases",
            path: places.cache.clone(),
            bytes: databases.into_values().sum(),
        },
        Need { what: "what databases write", path: places.cache.clone(), bytes: most(database_writes) },
    ];
    all.into_iter().filter(|need| need.bytes > Bytes::default()).collect()
}

fn record_of(plan: &Plan, pass: &Pass) -> Bytes {
    let point = &plan.points[pass.point];
    let seconds = point.measure.length.get().as_secs();
    let (guests, loads) = (point.guests.len() as u64, point.loads.len() as u64);
    CONSOLE * guests + SECOND_OF_GUEST * (guests * seconds) + SECOND_OF_LOAD * (loads * seconds)
}

fn is_database(guest: &GuestPlan) -> bool {
    guest.serves(Role::Database)
}

fn on_disk(guest: &GuestPlan) -> Bytes {
    guest.disks.iter().filter(|disk| disk.on == DiskMedium::Store).map(|disk| disk.size).sum()
}

/// A load may write all of a disk that begins empty.
fn data_disks(point: &Point) -> Bytes {
    point.guests.iter().filter(|guest| !is_database(guest)).map(on_disk).sum()
}

fn database_writes(point: &Point) -> Bytes {
    point
        .guests
        .iter()
        .filter(|guest| is_database(guest))
        .map(|guest| on_disk(guest).min(DATABASE_WRITES))
        .sum()
}

/// The templates of a point's databases, by what makes them differ.
fn templates_of(point: &Point) -> Vec<(String, Bytes)> {
    let of = |guest: &GuestPlan| {
        let mut loads = point.loads.iter().filter(|load| load.guest == guest.index);
        let data = loads.find_map(|load| load.work.facts().data()).unwrap_or_default();
        let bytes = (DATABASE_EMPTY + data * DATABASE_PER_DATA).min(on_disk(guest));
        (template_kind(point, guest), bytes)
    };
    point.guests.iter().filter(|guest| is_database(guest)).map(of).collect()
}

/// What is free where a path is or will be; `None` where the system does not say, or nothing can be written, as in a cache that several
/// hosts share: that cannot fill up.
fn free_on(path: &Path) -> Option<Free> {
    use std::os::unix::fs::MetadataExt;
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    let disk = rustix::fs::statvfs(existing).ok()?;
    let is_written = !disk.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    let [bytes, size] =
        [disk.f_bavail, disk.f_blocks].map(|blocks| Bytes::new(blocks.saturating_mul(disk.f_frsize)));
    is_written.then_some(Free { disk: existing.metadata().ok()?.dev(), bytes, size })
}

/// Adds up what lands on each disk and holds it against what is free there.
fn disks_suffice(needs: &[Need], free_on: &dyn Fn(&Path) -> Option<Free>) -> Result<(), Failure> {
    let mut disks: BTreeMap<u64, (Bytes, Vec<&Need>)> = BTreeMap::new();
    for need in needs {
        if let Some(free) = free_on(&need.path) {
            if free.size == Bytes::default() {
                return Err(keeps_no_files(need));
            }
            disks.entry(free.disk).or_insert((free.bytes, Vec::new())).1.push(need);
        }
    }
    for (free, needs) in disks.into_values() {
        let wanted: Bytes = needs.iter().map(|need| need.bytes).sum();
        if free.saturating_sub(wanted) >= DISK_RESERVE {
            continue;
        }
        let parts: Vec<String> = needs
            .iter()
            .map(|need| format!("{} for {} in {}", need.bytes.rounded(), need.what, need.path.display()))
            .collect();
        let message = format!(
            "only {} of disk space is left, {} must stay free and this needs {}",
            free.rounded(),
            DISK_RESERVE.rounded(),
            parts.join(", ")
        );
        let remedy =
            "free some space there, measure fewer tiles, or set TILEMARK_HOME or --output to a larger disk";
        return Err(Failure::new(FailureCode::HostUnfit, message, remedy));
    }
    Ok(())
}

fn keeps_no_files(need: &Need) -> Failure {
    Failure::new(
        FailureCode::HostUnfit,
        format!(
            "{} cannot be written in {}: the file system there keeps no files",
            need.what,
            need.path.display()
        ),
        "set TILEMARK_HOME or --output to a folder on a disk",
    )
}

/// Descriptors of the engine for itself, and for each guest: its process, conversation, monitor and disks. Natively 4 and in QEMU 7 of a
/// guest without disks were counted, while it starts twice as many.
const FILES_OF_ENGINE: u64 = 64;
const FILES_OF_GUEST: u64 = 14;
const FILES_OF_DISK: u64 = 2;
/// Of the load process for each load, beside its connections.
const FILES_OF_LOAD: u64 = 2;

/// Files that the engine or the load process has open at once at a point, whichever has more.
fn open_files_of(point: &Point) -> u64 {
    let disks: u64 = point.guests.iter().map(|guest| guest.disks.len() as u64).sum();
    let engine = FILES_OF_GUEST * point.guests.len() as u64 + FILES_OF_DISK * disks;
    let connections = |load: &LoadPlan| load.connections_to(&point.guests[load.guest as usize]);
    let outside = point.loads.iter().filter(|load| load.is_outside());
    let load: u64 = outside.map(|load| u64::from(connections(load)) + FILES_OF_LOAD).sum();
    FILES_OF_ENGINE + engine.max(load)
}

/// Stops when one of these points needs more open files than the caller's limit allows, or its own `limit.nofile`.
///
/// # Errors
/// [`FailureCode::HostUnfit`] for the first, [`FailureCode::BadInput`] for the second, with both numbers.
pub(crate) fn enough_files(points: &[Point]) -> Result<(), Failure> {
    let wanted = points.iter().map(open_files_of).max().unwrap_or(0);
    match raise_open_files() {
        Some(limit) if limit < wanted => Err(Failure::new(
            FailureCode::HostUnfit,
            format!("this needs up to {wanted} open files in one process, and the limit is {limit}"),
            format!(
                "raise the hard limit in the shell that starts it, `ulimit -Hn {wanted}`, or measure fewer tiles"
            ),
        )),
        _ => points.iter().try_for_each(own_limit_suffices),
    }
}

/// The key of the limit that a point gives what it starts, and the engine with it.
const OPEN_FILES: &str = "limit.nofile";

fn own_limit_suffices(point: &Point) -> Result<(), Failure> {
    let wanted = open_files_of(point);
    let own = point.host.setting.get(OPEN_FILES).and_then(|limit| limit.parse::<u64>().ok());
    match own {
        Some(limit) if limit < wanted => Err(Failure::new(
            FailureCode::BadInput,
            format!("this needs up to {wanted} open files in one process, and {OPEN_FILES} is {limit}"),
            format!("give {OPEN_FILES} at least {wanted}, leave it out, or measure fewer tiles"),
        )),
        _ => Ok(()),
    }
}

/// The largest file that all runs write: the agent and the initramfs, in memory, and the figures of a repeat.
const ANY_FILE: Bytes = Bytes::from_mib(256);

fn largest_file(point: &Point, store_exists: bool) -> Bytes {
    let of_guest = |guest: &GuestPlan| {
        let disk = guest.disks.iter().map(|disk| disk.size).max().unwrap_or_default();
        let store =
            if is_database(guest) && !store_exists { Bytes::new(STORE_BYTES) } else { Bytes::default() };
        // The memory of guests in QEMU is a file without a name.
        let memory = if point.backend == Backend::Native { Bytes::default() } else { guest.memory };
        disk.max(store).max(memory)
    };
    point.guests.iter().map(of_guest).max().unwrap_or_default().max(ANY_FILE)
}

/// Stops when a run writes a larger file than the caller's limit allows.
fn large_enough_files(points: &[Point], places: &Places) -> Result<(), Failure> {
    let store_exists = store_file(&places.cache).exists();
    let wanted = points.iter().map(|point| largest_file(point, store_exists)).max().unwrap_or(ANY_FILE);
    match raise_file_size().map(Bytes::new) {
        Some(limit) if limit < wanted => Err(Failure::new(
            FailureCode::HostUnfit,
            format!(
                "this writes files of up to {}, and the limit of a file's size is {}",
                wanted.rounded(),
                limit.rounded()
            ),
            "lift the limit in the shell that starts it: `ulimit -f unlimited`",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ladder, plan_of};

    const TILE: &str = r#"
schema = 1
name = "disk"
about = "A disk and a web server."
guest = [
    { name = "disk", role = "disk", disk = [{ size = "4GiB", on = "store" }] },
    { name = "web", role = "web" },
]
load = [{ name = "web", guest = "web", rate = "10/s", connections = 1000, web = {} }]
ladder.tiles = [1, 3]
measure = { length = "10s", repeats = 3 }
"#;

    fn places() -> Places {
        Places { cache: "/cache".into(), runs: "/runs".into(), state: "/state".into() }
    }

    #[test]
    fn a_disk_that_what_is_written_to_it_fills_is_named_with_its_parts() {
        let plan = plan_of(TILE, &ladder());
        let all = needs(&plan, &places(), Path::new("/runs/run-1"));
        let disks = all.iter().find(|need| need.what == "data disks").unwrap();
        assert_eq!(disks.bytes, Bytes::from_gib(12), "those of the largest step");
        let record = all.iter().find(|need| need.what == "the record").unwrap();
        assert!(record.bytes > Bytes::from_mib(1) && record.bytes < Bytes::from_gib(1), "{record:?}");
        // Alone each fits; on one disk they don't.
        let on = |disk: fn(&Path) -> u64, gib: u64| {
            move |path: &Path| {
                Some(Free { disk: disk(path), bytes: Bytes::from_gib(gib), size: Bytes::from_gib(64) })
            }
        };
        let apart = |path: &Path| u64::from(path.starts_with("/state"));
        disks_suffice(&all, &on(apart, 14)).unwrap();
        let failure = disks_suffice(&all, &on(|_| 0, 14)).unwrap_err();
        assert_eq!(failure.code, FailureCode::HostUnfit);
        for part in [
            "only 14 GiB of disk space is left",
            "12 GiB for data disks in /state",
            "the record in /runs/run-1",
        ] {
            assert!(failure.message.contains(part), "{failure:?}");
        }
        disks_suffice(&all, &on(|_| 0, 15)).unwrap();
        // What the system does not report refuses nothing.
        disks_suffice(&all, &|_| None).unwrap();
    }

    #[test]
    fn a_place_that_keeps_no_files_is_named() {
        let need = Need { what: "the record", path: "/proc/x".into(), bytes: Bytes::from_mib(1) };
        let failure = disks_suffice(&[need], &free_on).unwrap_err();
        assert_eq!(failure.code, FailureCode::HostUnfit);
        assert!(failure.message.starts_with("the record cannot be written in /proc/x: "), "{failure:?}");
        assert!(failure.remedy.contains("--output to a folder on a disk"), "{failure:?}");
    }

    #[test]
    fn connections_and_guests_need_open_files() {
        let plan = plan_of(TILE, &ladder());
        let (one, three) = (open_files_of(&plan.points[0]), open_files_of(&plan.points[1]));
        assert!(one > 1000 && three > 3000 && three < 4000, "{one} {three}");
    }

    #[test]
    fn a_limit_of_the_scenario_s_own_that_a_point_exceeds_is_named_with_both_numbers() {
        let mut points = plan_of(TILE, &ladder()).points;
        let limited = |point: &mut Point, limit: u64| {
            point.host.setting = [(OPEN_FILES.to_owned(), limit.to_string())].into();
        };
        let wanted = open_files_of(&points[1]);
        limited(&mut points[1], wanted);
        own_limit_suffices(&points[1]).unwrap();
        limited(&mut points[1], wanted - 1);
        let failure = own_limit_suffices(&points[1]).unwrap_err();
        assert_eq!(failure.code, FailureCode::BadInput);
        assert_eq!(
            failure.message,
            format!(
                "this needs up to {wanted} open files in one process, and limit.nofile is {}",
                wanted - 1
            )
        );
        assert!(failure.remedy.contains(&format!("at least {wanted}")), "{failure:?}");
        // The smaller point needs less.
        limited(&mut points[0], wanted - 1);
        own_limit_suffices(&points[0]).unwrap();
    }
}
