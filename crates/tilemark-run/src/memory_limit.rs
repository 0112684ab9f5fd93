//! The engine's memory has a limit. What guests report is bounded where it is heard; this is the wall behind it, so that a
//! mistake there costs the run and not the host.

use crate::pass::report_check::BYTES_OF_A_SECOND;
use cap::Cap;
use std::alloc::System;
use tilemark_plan::plan::{Plan, Point};
use tilemark_units::Bytes;

/// Nobody else has a limit: reports and images are made by processes that hear no guest. Tests have the engine's least.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, if cfg!(test) { LEAST.get() as usize } else { usize::MAX });

/// What an engine has in any case.
pub(crate) const LEAST: Bytes = Bytes::from_mib(512);
/// For each guest: its totals and output, two threads, its rows of telemetry.
const OF_GUEST: Bytes = Bytes::from_mib(4);
/// For each guest in each repeat: its figures with their histogram, which the judge reads.
const OF_SUMMARY: Bytes = Bytes::from_kib(16);
/// Repeats that any plan may have: those of a search, and those that are retried, are not planned.
const REPEATS_MIN: u64 = 200;

/// Sets the limit for a run: the more guests and seconds were planned, the higher.
pub(crate) fn limit_for(plan: &Plan) {
    set(needed(plan));
}

/// Sets the limit for guests that are only kept.
pub(crate) fn limit_for_guests(point: &Point) {
    set(Bytes::new(OF_GUEST.get() * point.guests.len() as u64));
}

fn set(wanted: Bytes) {
    let limit = wanted.max(LEAST).get();
    // It says no where more is in use already, and then there is no lower limit to be had.
    let _ = MEMORY.set_limit(usize::try_from(limit).unwrap_or(usize::MAX));
}

fn needed(plan: &Plan) -> Bytes {
    let most = plan.search.as_ref().map_or(1, |search| u64::from(search.limit));
    let of_point = |point: &Point| {
        let copies = if plan.search.is_some() { most.div_ceil(u64::from(point.tiles.max(1))) } else { 1 };
        let guests = copies * point.guests.len() as u64;
        let streams = copies * point.loads.len() as u64;
        let seconds = point.measure.length.get().as_secs() + 1;
        let repeats = (plan.passes.len() as u64).max(REPEATS_MIN);
        OF_GUEST.get() * guests + OF_SUMMARY.get() * guests * repeats + BYTES_OF_A_SECOND * streams * seconds
    };
    Bytes::new(LEAST.get() + plan.points.iter().map(of_point).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use std::process::Command;

    const TOO_MUCH: &str = "TILEMARK_TEST_TOO_MUCH_MEMORY";

    #[test]
    fn more_than_the_limit_ends_the_process() {
        let name = "memory_limit::tests::more_than_the_limit_ends_the_process";
        if std::env::var_os(TOO_MUCH).is_some() {
            let plan = plan_of(TILE, &ladder());
            limit_for(&plan);
            let of = |bytes: Bytes| Vec::<u8>::with_capacity(bytes.get() as usize).capacity();
            eprintln!("the least could be had: {}", of(LEAST) as u64 >= LEAST.get());
            panic!("{} bytes could be had", of(needed(&plan)));
        }
        let itself = std::env::current_exe().unwrap();
        let ended =
            Command::new(itself).args([name, "--exact", "--nocapture"]).env(TOO_MUCH, "").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(said.contains("the least could be had: true"), "{said}");
        let refused =
            format!("memory allocation of {} bytes failed", needed(&plan_of(TILE, &ladder())).get());
        assert!(said.contains(&refused), "{said}");
    }

    #[test]
    fn a_larger_plan_may_use_more() {
        let small = plan_of(TILE, &ladder());
        let of =
            |tiles| plan_of(TILE, &tilemark_plan::resolve::Request { tiles: Some(vec![tiles]), ..ladder() });
        assert!(needed(&small) < Bytes::from_gib(1), "{}", needed(&small));
        assert!(needed(&of(100)) > needed(&small));
    }
}
