//! What a workload can't do is refused before guests are started for it.

use crate::{
    scenario::{Arrival, Disk, Guest, Load, LoopKind},
    workload::{DiskParameters, StoreDatabase, StoreParameters, SysbenchParameters, database_log},
};
use tilemark_units::{Bytes, Span};

/// `/dev/vda` is the image; its data disks are called vdb to vdz.
const DISKS_MAX: usize = 25;
/// Requests under way in a guest at a rate: each has a thread.
const UNDER_WAY_MAX: u64 = 1024;
/// Customers of one database.
const CLIENTS_MAX: u32 = 1000;
/// Room on the database's disk for each byte of CSV. Loaded with all keys, 400 MB of CSV were 1.8 times as much in MariaDB and
/// 2.2 times in PostgreSQL; the rest is for sorting while keys are made and for the orders of a long run.
const ROOM_FOR_DATA: u64 = 3;
/// What a database takes there without any row.
const ROOM_FOR_SERVER: Bytes = Bytes::from_mib(256);
/// What a file system takes of the disk of a log.
const ROOM_FOR_FILE_SYSTEM: Bytes = Bytes::from_mib(64);

/// What a row of sysbench takes, as CSV would.
const SYSBENCH_ROW: u64 = 200;

/// Tells what of a load its workload can't do in this guest, measured for so long.
pub(crate) fn check_work(load: &Load, guest: &Guest, length: Span, say: &mut impl FnMut(String, &str)) {
    if let Some(disk) = &load.disk {
        check_disk(load, disk, guest, say);
    }
    if let Some(store) = &load.store {
        check_store(load, store, length, say);
        check_database_fits(load, store.database, store.data, guest, say);
    }
    if let Some(sysbench) = &load.sysbench {
        check_sysbench(load, sysbench, say);
        let rows = u64::from(sysbench.tables).saturating_mul(u64::from(sysbench.rows));
        let data = Bytes::new(rows.saturating_mul(SYSBENCH_ROW));
        check_database_fits(load, StoreDatabase::Mariadb, data, guest, say);
    }
}

fn check_disk(load: &Load, disk: &DiskParameters, guest: &Guest, say: &mut impl FnMut(String, &str)) {
    let name = &load.name;
    let block = disk.block_size.get();
    if !(512..=16 << 20).contains(&block) || !block.is_multiple_of(512) {
        say(
            format!("load `{name}` has a `block_size` of {}", disk.block_size),
            "use whole sectors of 512B, at most 16MiB",
        );
    }
    if !(1..=4096).contains(&disk.depth) {
        say(format!("load `{name}` has a `depth` of {}", disk.depth), "use 1 to 4096");
    }
    let disks = guest.disk.len();
    if disks > DISKS_MAX {
        say(format!("guest `{}` has {disks} disks", guest.name), "give it at most 25");
    }
    let under_way = u64::from(disk.depth) * disks as u64;
    if load.loop_kind == LoopKind::Open && !disk.saturate && under_way > UNDER_WAY_MAX {
        let message = format!("load `{name}` may have {under_way} requests under way at its rate");
        say(message, "lower `depth` until all disks together have at most 1024, or write `saturate = true`");
    }
}

fn check_store(load: &Load, store: &StoreParameters, length: Span, say: &mut impl FnMut(String, &str)) {
    let name = &load.name;
    if !(1..=CLIENTS_MAX).contains(&store.clients) {
        say(format!("load `{name}` has {} clients", store.clients), "use 1 to 1000");
    }
    if !(Bytes::new(10_000_000)..=Bytes::new(100_000_000_000)).contains(&store.data) {
        say(format!("load `{name}` has {} of data", store.data), "use 10MB to 100GB");
    }
    if load.loop_kind == LoopKind::Open && load.arrival == Arrival::Bursts {
        let message = format!("load `{name}` has customers in bursts, which the store does not do");
        say(message, "write `arrival = \"poisson\"` or `arrival = \"even\"`");
    }
    if load.loop_kind == LoopKind::Open && !store.think_time.get().is_zero() {
        let message = format!("load `{name}` has a rate and a `think_time` of {}", store.think_time);
        say(message, "leave one out: customers who come at a rate do not wait for their last order");
    }
    if let Some(window) = store.window {
        let time = window.get();
        if time.is_zero() || time.subsec_nanos() > 0 || time > length.get() {
            let message = format!("load `{name}` has a `window` of {window} in a measurement of {length}");
            say(message, "write whole seconds up to `measure.length`, or leave it out");
        }
    }
}

fn check_sysbench(load: &Load, sysbench: &SysbenchParameters, say: &mut impl FnMut(String, &str)) {
    let name = &load.name;
    let SysbenchParameters { tables, rows, threads } = *sysbench;
    for (what, count, most) in
        [("threads", threads, CLIENTS_MAX), ("tables", tables, 1_000), ("rows", rows, 1_000_000_000)]
    {
        if !(1..=most).contains(&count) {
            say(format!("load `{name}` has {count} {what}"), &format!("use 1 to {most}"));
        }
    }
    let rate = load.rate.map_or(0.0, |rate| rate.get());
    let is_whole = rate >= 1.0 && rate.fract() == 0.0;
    if load.loop_kind == LoopKind::Open && (!is_whole || load.arrival != Arrival::Poisson) {
        let message = format!("load `{name}` has a rate or an `arrival` that sysbench does not do");
        say(
            message,
            "write a whole number such as `rate = \"100/s\"` and `arrival = \"poisson\"`, or `loop = \"closed\"`",
        );
    }
}

/// The first disk holds the database, the second its log; an only disk holds both. A guest without disks keeps them in its
/// memory.
fn check_database_fits(
    load: &Load,
    database: StoreDatabase,
    data: Bytes,
    guest: &Guest,
    say: &mut impl FnMut(String, &str),
) {
    let for_data = Bytes::new(data.get().saturating_mul(ROOM_FOR_DATA)) + ROOM_FOR_SERVER;
    let for_log = room_for_log(database, guest.memory);
    match guest.disk.as_slice() {
        [] => {}
        [both] => check_data_fits(load, data, guest, (both, for_data + for_log), say),
        [first, second, ..] => {
            check_data_fits(load, data, guest, (first, for_data), say);
            check_log_fits(guest, (second, for_log), say);
        }
    }
}

fn check_data_fits(
    load: &Load,
    data: Bytes,
    guest: &Guest,
    (disk, needed): (&Disk, Bytes),
    say: &mut impl FnMut(String, &str),
) {
    if disk.size < needed {
        let (load_has_rows, load, guest) = (load.sysbench.is_some(), &load.name, &guest.name);
        let message = format!(
            "load `{load}` has {} MB of data, and the first disk of guest `{guest}` has {}: the database needs about {}",
            data.get() / 1_000_000,
            disk.size,
            needed.rounded()
        );
        let gib = needed.get().div_ceil(1 << 30);
        let lower = if load_has_rows { "rows" } else { "data" };
        say(message, &format!("give that disk a `size` of \"{gib}GiB\", or lower `{lower}`"));
    }
}

fn check_log_fits(guest: &Guest, (disk, needed): (&Disk, Bytes), say: &mut impl FnMut(String, &str)) {
    if disk.size < needed {
        let message = format!(
            "the second disk of guest `{}` has {}: with {} of memory the database's log needs about {}",
            guest.name,
            disk.size,
            guest.memory,
            needed.rounded()
        );
        let mib = needed.get().div_ceil(1 << 20);
        say(message, &format!("give that disk a `size` of \"{mib}MiB\", or lower the guest's `memory`"));
    }
}

/// MariaDB's log has one length. PostgreSQL's grows beyond its own while rows are loaded faster than a checkpoint writes them.
fn room_for_log(database: StoreDatabase, memory: Bytes) -> Bytes {
    let log = database_log(memory);
    let most = match database {
        StoreDatabase::Mariadb => log,
        StoreDatabase::Postgresql => Bytes::new(2 * log.get()),
    };
    most + ROOM_FOR_FILE_SYSTEM
}
