//! What a workload can't do is refused before guests are started for it.

use crate::{
    scenario::{Arrival, Guest, Load, LoopKind},
    workload::{DiskParameters, StoreParameters},
};
use tilemark_units::Bytes;

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

/// Tells what of a load its workload can't do in this guest.
pub(crate) fn check_work(load: &Load, guest: &Guest, say: &mut impl FnMut(String, &str)) {
    if let Some(disk) = &load.disk {
        check_disk(load, disk, guest, say);
    }
    if let Some(store) = &load.store {
        check_store(load, store, say);
        check_store_fits(load, store, guest, say);
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

fn check_store(load: &Load, store: &StoreParameters, say: &mut impl FnMut(String, &str)) {
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
}

/// The first disk holds the database. A guest without disks keeps it in its memory.
fn check_store_fits(load: &Load, store: &StoreParameters, guest: &Guest, say: &mut impl FnMut(String, &str)) {
    let Some(disk) = guest.disk.first() else { return };
    let needed = Bytes::new(store.data.get().saturating_mul(ROOM_FOR_DATA)) + ROOM_FOR_SERVER;
    if disk.size < needed {
        let (load, guest) = (&load.name, &guest.name);
        let message = format!(
            "load `{load}` has {} MB of data, and the first disk of guest `{guest}` has {}: the database needs about {}",
            store.data.get() / 1_000_000,
            disk.size,
            needed.rounded()
        );
        let gib = needed.get().div_ceil(1 << 30);
        say(message, &format!("give that disk a `size` of \"{gib}GiB\", or lower `data`"));
    }
}
