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

/// Tells what of a load its workload can't do in this guest.
pub(crate) fn check_work(load: &Load, guest: &Guest, say: &mut impl FnMut(String, &str)) {
    if let Some(disk) = &load.disk {
        check_disk(load, disk, guest, say);
    }
    if let Some(store) = &load.store {
        check_store(load, store, say);
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
