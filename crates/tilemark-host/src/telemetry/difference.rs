//! Two readings make a second. Pure.
//!
//! A counter that ran backwards (a disk that left and came again, other processes under the same name) gives nothing.

use std::collections::HashMap;

use super::parse::{
    DiskCounts, HostProcessor, InterfaceCounts, MemoryEvents, PAGE_BYTES, PressureTotals, ProcessorTicks,
};
use super::sample::{Sample, Used, UsedSource, VcpuKind, WatchedKind, WatchedSample};
use super::second::{
    DiskSecond, InterfaceSecond, MemorySecond, Pressure, PressureSecond, ProcessorSplit, Second,
    ThreadSecond, WatchedSecond,
};

/// What happened from `before` to `after`, two samples of one sampler.
pub fn difference(before: &Sample, after: &Sample) -> Second {
    let elapsed_ns = after.monotonic_ns.saturating_sub(before.monotonic_ns);
    let mut missing = after.missing.clone();
    let were = by(&before.watched, |then| &*then.name);
    let then = |now: &WatchedSample| were.get(&*now.name).copied().filter(|_| elapsed_ns > 0);
    let watched: Vec<WatchedSecond> =
        after.watched.iter().map(|now| watched_second(then(now), now, elapsed_ns, &mut missing)).collect();
    let processor = match (&before.processor, &after.processor) {
        (Some(from), Some(to)) => split(from, to, &watched),
        _ => None,
    };
    if processor.is_none() {
        missing.push("processor: /proc/stat could not be read twice, or did not count".into());
    }
    Second {
        monotonic_ns_end: after.monotonic_ns,
        seconds: elapsed_ns as f64 / 1e9,
        clock_step_ns: after.clock_offset_ns.saturating_sub(before.clock_offset_ns),
        reading_us: after.took_ns as f64 / 1e3,
        processor,
        threads: threads(before, after),
        runnable: after.run_queue.map(|queue| queue.runnable),
        load_1m: after.run_queue.map(|queue| queue.load_1m),
        memory: memory(before, after),
        pressure: pressures(&before.pressure, &after.pressure, elapsed_ns),
        throttles: counted(before.throttles, after.throttles),
        power_w: power(before, after, elapsed_ns),
        disks: disks(before, after, elapsed_ns),
        interfaces: interfaces(before, after),
        watched,
        missing,
    }
}

/// All by their keys: a host with a thousand guests has a thousand of each.
fn by<'s, T, K: Eq + std::hash::Hash>(all: &'s [T], key: impl Fn(&'s T) -> K) -> HashMap<K, &'s T> {
    all.iter().map(|one| (key(one), one)).collect()
}

/// How far a counter moved; nothing where it is not there or ran backwards.
fn counted(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

/// Mean power of all packages in watts; nothing unless each was read twice.
fn power(before: &Sample, after: &Sample, elapsed_ns: u64) -> Option<f64> {
    let counts = before.energy.as_ref()?.iter().zip(after.energy.as_ref()?);
    let mut moved = counts.map(|(from, to)| to.since(*from));
    let moved_uj = moved.try_fold(0_u64, |sum, moved| sum.checked_add(moved?))?;
    // A microjoule in a nanosecond is a kilowatt.
    (elapsed_ns > 0).then(|| moved_uj as f64 * 1e3 / elapsed_ns as f64)
}

fn ticks(before: &ProcessorTicks, after: &ProcessorTicks) -> ProcessorTicks {
    // The kernel lets idle and iowait run backwards (proc(5)): that is nothing happened.
    ProcessorTicks {
        user: after.user.saturating_sub(before.user),
        nice: after.nice.saturating_sub(before.nice),
        system: after.system.saturating_sub(before.system),
        idle: after.idle.saturating_sub(before.idle),
        iowait: after.iowait.saturating_sub(before.iowait),
        irq: after.irq.saturating_sub(before.irq),
        softirq: after.softirq.saturating_sub(before.softirq),
        steal: after.steal.saturating_sub(before.steal),
    }
}

/// The parts of the whole. Watched time is exact where `/proc/stat` may be sampled by ticks, so what is watched is taken as
/// it is and the rest makes room: other processes, then interrupts, then idle.
fn split(before: &HostProcessor, after: &HostProcessor, watched: &[WatchedSecond]) -> Option<ProcessorSplit> {
    let whole = ticks(&before.all, &after.all);
    if whole.total() == 0 {
        return None;
    }
    let of_all = |ticks: u64| ticks as f64 / whole.total() as f64;
    let count = after.threads.len().max(1) as f64;
    let used = |wanted: &dyn Fn(&WatchedSecond) -> bool| -> f64 {
        watched
            .iter()
            .filter(|set| wanted(set))
            .filter_map(|set| set.threads_used)
            .fold(0.0, |sum, used| sum + used)
            / count
    };
    let guests: Vec<&WatchedSecond> = watched.iter().filter(|set| is_guest(set.kind)).collect();
    let of_guests = |part: fn(&WatchedSecond) -> Option<f64>| -> Option<f64> {
        let sum = guests.iter().try_fold(0.0, |sum, set| Some(sum + part(set)?));
        sum.map(|sum| sum / count)
    };
    let (guest, load) = (used(&|set| is_guest(set.kind)), used(&|set| set.kind == WatchedKind::Load));
    let tilemark = used(&|set| set.kind == WatchedKind::Tilemark);
    let hooks = used(&|set| set.kind == WatchedKind::Hooks);
    let (mine, steal) = (guest + load + tilemark + hooks, of_all(whole.steal));
    let other = (of_all(whole.processes()) - mine).max(0.0);
    let busy = of_all(whole.processes() + whole.irq + whole.softirq);
    let interrupts = (busy - mine - other).max(0.0);
    // The rest of the whole, not a sum of rests: processes count in ticks of 10 ms, and rests below 0 would be lost one by one.
    let guest_work = of_guests(|set| set.guest_work);
    Some(ProcessorSplit {
        guests: guest,
        guest_work,
        host_for_guests: guest_work.map(|work| (guest - work).max(0.0)),
        load,
        tilemark,
        hooks,
        kernel: None,
        other,
        interrupts,
        idle: (1.0 - steal - mine - other - interrupts).max(0.0),
        steal,
    })
}

fn is_guest(kind: WatchedKind) -> bool {
    match kind {
        WatchedKind::QemuGuest | WatchedKind::NativeGuest => true,
        WatchedKind::Load | WatchedKind::Tilemark | WatchedKind::Hooks => false,
    }
}

fn threads(before: &Sample, after: &Sample) -> Vec<ThreadSecond> {
    let (Some(before), Some(after)) = (&before.processor, &after.processor) else { return Vec::new() };
    let were = by(&before.threads, |thread| thread.id);
    let one = |to: &super::parse::ThreadTicks| {
        let from = were.get(&to.id)?;
        let whole = ticks(&from.ticks, &to.ticks);
        let total = whole.total();
        (total > 0).then(|| ThreadSecond {
            id: to.id,
            busy: (whole.processes() + whole.irq + whole.softirq) as f64 / total as f64,
            steal: whole.steal as f64 / total as f64,
        })
    };
    after.threads.iter().filter_map(one).collect()
}

fn memory(before: &Sample, after: &Sample) -> Option<MemorySecond> {
    let now = after.memory?;
    let moved = |of: fn(&MemoryEvents) -> Option<u64>| {
        counted(before.events.as_ref().and_then(of), after.events.as_ref().and_then(of))
    };
    Some(MemorySecond {
        available_bytes: now.available_bytes,
        swap_used_bytes: now.swap_used_bytes,
        swap_in_bytes: moved(|events| events.swap_in_pages.checked_mul(PAGE_BYTES)),
        swap_out_bytes: moved(|events| events.swap_out_pages.checked_mul(PAGE_BYTES)),
        oom_kills: moved(|events| events.oom_kills),
    })
}

fn pressures(
    before: &[Option<PressureTotals>; 3],
    after: &[Option<PressureTotals>; 3],
    elapsed_ns: u64,
) -> PressureSecond {
    let part = |before: u64, after: u64| {
        let waited_us = after.checked_sub(before)?;
        (elapsed_ns > 0).then(|| (waited_us as f64 * 1e3 / elapsed_ns as f64).min(1.0))
    };
    let pressure = |index: usize| {
        let (from, to) = (before[index]?, after[index]?);
        let full = from.full_us.zip(to.full_us).and_then(|(from, to)| part(from, to));
        Some(Pressure { some: part(from.some_us, to.some_us)?, full })
    };
    PressureSecond { cpu: pressure(0), memory: pressure(1), io: pressure(2) }
}

fn disks(before: &Sample, after: &Sample, elapsed_ns: u64) -> Vec<DiskSecond> {
    let were = by(&before.disks, |disk| disk.name.as_str());
    let one = |to: &DiskCounts| {
        let from = were.get(to.name.as_str()).copied();
        // A disk without a request so far is not among the counts: it was at zero.
        let moved = |of: fn(&DiskCounts) -> u64| of(to).checked_sub(from.map_or(0, of));
        let share = |ms: u64| ms as f64 * 1e6 / elapsed_ns as f64;
        (elapsed_ns > 0).then_some(())?;
        Some(DiskSecond {
            name: to.name.clone(),
            reads: moved(|disk| disk.reads)?,
            read_bytes: moved(|disk| disk.read_bytes)?,
            writes: moved(|disk| disk.writes)?,
            written_bytes: moved(|disk| disk.written_bytes)?,
            busy: share(moved(|disk| disk.busy_ms)?).min(1.0),
            queue: share(moved(|disk| disk.waited_ms)?),
        })
    };
    after
        .disks
        .iter()
        .filter_map(one)
        .filter(|disk| disk.reads > 0 || disk.writes > 0 || disk.queue > 0.0)
        .collect()
}

fn interfaces(before: &Sample, after: &Sample) -> Vec<InterfaceSecond> {
    let were = by(&before.interfaces, |interface| interface.name.as_str());
    let one = |to: &InterfaceCounts| {
        let from = were.get(to.name.as_str())?;
        Some(InterfaceSecond {
            name: to.name.clone(),
            received_bytes: to.received_bytes.checked_sub(from.received_bytes)?,
            received_packets: to.received_packets.checked_sub(from.received_packets)?,
            received_drops: to.received_drops.checked_sub(from.received_drops)?,
            sent_bytes: to.sent_bytes.checked_sub(from.sent_bytes)?,
            sent_packets: to.sent_packets.checked_sub(from.sent_packets)?,
            sent_drops: to.sent_drops.checked_sub(from.sent_drops)?,
        })
    };
    after.interfaces.iter().filter_map(one).collect()
}

fn watched_second(
    then: Option<&WatchedSample>,
    now: &WatchedSample,
    elapsed_ns: u64,
    missing: &mut Vec<String>,
) -> WatchedSecond {
    missing.extend(now.missing.iter().map(|reason| format!("{}: {reason}", now.name)));
    let processes = then.filter(|then| then.processes == now.processes);
    let threads = processes.filter(|then| then.threads == now.threads);
    let spent = then.filter(|then| {
        then.source == now.source && (now.source == UsedSource::Group || then.processes == now.processes)
    });
    let share = |ns: u64| ns as f64 / elapsed_ns as f64;
    let used = spent.and_then(|then| used(then.used?, now.used?));
    if used.is_none() {
        missing.push(format!("{}: its processor time was not read twice of the same processes", now.name));
    }
    let parts = then.zip(used).and_then(|(then, used)| guest_parts(then, now, used));
    WatchedSecond {
        name: now.name.to_string(),
        kind: now.kind,
        threads_used: used.map(|used| share(used.user_ns + used.system_ns)),
        threads_used_kernel: used.map(|used| share(used.system_ns)),
        guest_work: parts.map(|parts| share(parts.guest_work_ns)),
        host_for_guest: parts.map(|parts| share(parts.host_ns)),
        run_queue_wait: threads.and_then(|then| {
            let (from, to) = (then.waits?, now.waits?);
            let waited_ns = to.waited_ns.checked_sub(from.waited_ns)?;
            (from.threads == to.threads && to.threads > 0).then(|| share(waited_ns) / to.threads as f64)
        }),
        resident_bytes: now.resident_bytes,
        read_bytes: processes.and_then(|then| now.io?.read_bytes.checked_sub(then.io?.read_bytes)),
        written_bytes: processes.and_then(|then| now.io?.written_bytes.checked_sub(then.io?.written_bytes)),
        pressure: then.map_or_else(PressureSecond::default, |then| {
            pressures(&then.pressure, &now.pressure, elapsed_ns)
        }),
    }
}

fn used(before: Used, after: Used) -> Option<Used> {
    let user_ns = after.user_ns.checked_sub(before.user_ns)?;
    let system_ns = after.system_ns.checked_sub(before.system_ns)?;
    // Both are added up below.
    user_ns.checked_add(system_ns).map(|_| Used { user_ns, system_ns })
}

#[derive(Clone, Copy)]
struct GuestParts {
    guest_work_ns: u64,
    host_ns: u64,
}

/// What of a guest's time was its own work. Under KVM the kernel counts guest mode apart; under TCG all user time of a virtual
/// processor's thread is the guest's work in translation. A native twin is all guest work.
fn guest_parts(then: &WatchedSample, now: &WatchedSample, used: Used) -> Option<GuestParts> {
    let all_ns = used.user_ns + used.system_ns;
    match now.kind {
        WatchedKind::Load | WatchedKind::Tilemark | WatchedKind::Hooks => None,
        WatchedKind::NativeGuest => Some(GuestParts { guest_work_ns: all_ns, host_ns: 0 }),
        WatchedKind::QemuGuest => {
            let same = then.processes == now.processes && then.threads == now.threads;
            let (from, to) = same.then_some(then.vcpus?).zip(now.vcpus)?;
            let ran_ns = to.ran_ns.checked_sub(from.ran_ns)?;
            let guest_work_ns = match to.kind {
                VcpuKind::Kvm => to.guest_ns.checked_sub(from.guest_ns)?.min(ran_ns),
                VcpuKind::Tcg => ran_ns.saturating_sub(to.system_ns.checked_sub(from.system_ns)?),
            };
            Some(GuestParts { guest_work_ns, host_ns: all_ns.saturating_sub(guest_work_ns) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::{MemoryNow, ThreadTicks};
    use super::super::sample::{VcpuTime, Waits};
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn sample(monotonic_ns: u64, ticks: ProcessorTicks, watched: Vec<WatchedSample>) -> Sample {
        let threads = (0..2).map(|id| ThreadTicks { id, ticks }).collect();
        Sample {
            monotonic_ns,
            clock_offset_ns: 0,
            processor: Some(HostProcessor { all: ticks, threads }),
            run_queue: None,
            memory: None,
            events: None,
            disks: Vec::new(),
            interfaces: Vec::new(),
            pressure: [None; 3],
            throttles: None,
            energy: None,
            watched,
            took_ns: 0,
            missing: Vec::new(),
        }
    }

    fn set(name: &str, kind: WatchedKind, user_ns: u64) -> WatchedSample {
        WatchedSample {
            name: name.into(),
            kind,
            source: UsedSource::Processes,
            processes: 1,
            threads: 1,
            used: Some(Used { user_ns, system_ns: 0 }),
            vcpus: None,
            waits: None,
            resident_bytes: None,
            io: None,
            pressure: [None; 3],
            missing: Vec::new(),
        }
    }

    fn vcpus(kind: VcpuKind, ran_ns: u64, system_ns: u64, guest_ns: u64) -> Option<VcpuTime> {
        Some(VcpuTime { kind, ran_ns, waited_ns: 0, system_ns, guest_ns })
    }

    /// Two threads for a second: 200 ticks.
    fn busy(user: u64, softirq: u64, steal: u64) -> ProcessorTicks {
        ProcessorTicks { user, softirq, steal, idle: 200 - user - softirq - steal, ..Default::default() }
    }

    fn split_of(now: ProcessorTicks, sets: impl Fn(u64) -> Vec<WatchedSample>) -> ProcessorSplit {
        let before = sample(0, ProcessorTicks::default(), sets(0));
        let after = sample(SECOND_NS, now, sets(SECOND_NS / 4));
        difference(&before, &after).processor.unwrap()
    }

    fn close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found} is not {wanted}");
    }

    #[test]
    fn every_share_of_the_processors_has_its_place_and_they_make_one() {
        let split = split_of(busy(120, 20, 10), |ns| {
            vec![
                set("twin", WatchedKind::NativeGuest, ns),
                set("load", WatchedKind::Load, ns),
                set("main", WatchedKind::Tilemark, ns),
                set("hooks", WatchedKind::Hooks, ns / 2),
            ]
        });
        close(split.hooks, 0.0625);
        close(split.guests, 0.125);
        close(split.guest_work.unwrap(), 0.125);
        close(split.host_for_guests.unwrap(), 0.0);
        close(split.load, 0.125);
        close(split.tilemark, 0.125);
        close(split.other, 0.6 - 0.375 - 0.0625);
        close(split.interrupts, 0.1);
        close(split.steal, 0.05);
        close(split.idle, 0.25);
    }

    #[test]
    fn kernel_threads_are_no_foreign_load_and_the_parts_still_make_one() {
        let of = |used_ns| {
            let before = sample(0, ProcessorTicks::default(), vec![set("a", WatchedKind::Load, 0)]);
            let now = vec![set("a", WatchedKind::Load, SECOND_NS / 4)];
            let whole = difference(&before, &sample(SECOND_NS, busy(120, 20, 10), now));
            whole.with_kernel_threads(used_ns).processor.unwrap()
        };
        // Two threads for a second, 0.6 of them in processes, of which the load has 0.125.
        let split = of(SECOND_NS / 2);
        close(split.kernel.unwrap(), 0.25);
        close(split.other, 0.6 - 0.125 - 0.25);
        let sum = |split: ProcessorSplit| {
            split.load + split.kernel.unwrap() + split.other + split.interrupts + split.idle + split.steal
        };
        close(sum(split), 1.0);
        // Kernel threads whose time /proc/stat has not in its processes cannot make the others negative.
        let most = of(3 * SECOND_NS);
        close(most.other, 0.0);
        close(sum(most), 1.0);
    }

    #[test]
    fn packets_served_in_interrupts_are_no_foreign_load() {
        let split = split_of(busy(50, 100, 0), |ns| {
            vec![set("a", WatchedKind::NativeGuest, ns), set("b", WatchedKind::Load, ns)]
        });
        close(split.other, 0.0);
        close(split.interrupts, 0.5);
    }

    #[test]
    fn watched_time_that_ticks_did_not_see_makes_room_for_itself() {
        let split = split_of(busy(10, 20, 0), |ns| {
            vec![set("a", WatchedKind::NativeGuest, ns), set("b", WatchedKind::Load, ns)]
        });
        close(split.other, 0.0);
        close(split.interrupts, 0.0);
        let sum = split.guests + split.load + split.other + split.interrupts + split.idle + split.steal;
        close(sum, 1.0);
    }

    fn guest(kind: VcpuKind, ran_ns: u64, system_ns: u64, guest_ns: u64) -> WatchedSecond {
        let with = |used_ns, vcpus| WatchedSample { vcpus, ..set("web", WatchedKind::QemuGuest, used_ns) };
        let before = sample(0, ProcessorTicks::default(), vec![with(0, vcpus(kind, 0, 0, 0))]);
        let now = with(SECOND_NS, vcpus(kind, ran_ns, system_ns, guest_ns));
        difference(&before, &sample(SECOND_NS, busy(100, 0, 0), vec![now])).watched.remove(0)
    }

    #[test]
    fn under_kvm_guest_mode_is_guest_work() {
        let second = guest(VcpuKind::Kvm, SECOND_NS * 8 / 10, SECOND_NS / 10, SECOND_NS * 6 / 10);
        close(second.guest_work.unwrap(), 0.6);
        close(second.host_for_guest.unwrap(), 0.4);
    }

    #[test]
    fn under_tcg_user_time_of_virtual_processors_is_guest_work() {
        let second = guest(VcpuKind::Tcg, SECOND_NS * 8 / 10, SECOND_NS / 10, 0);
        close(second.guest_work.unwrap(), 0.7);
        close(second.host_for_guest.unwrap(), 0.3);
    }

    #[test]
    fn a_qemu_whose_threads_have_no_names_leaves_the_split_open() {
        let sets =
            |ns| vec![set("web", WatchedKind::QemuGuest, ns), set("twin", WatchedKind::NativeGuest, ns)];
        let split = split_of(busy(120, 0, 0), sets);
        close(split.guests, 0.25);
        assert_eq!(split.guest_work, None);
        assert_eq!(split.host_for_guests, None);
    }

    #[test]
    fn time_of_other_processes_under_the_same_name_is_not_subtracted() {
        let before = sample(0, ProcessorTicks::default(), vec![set("web", WatchedKind::Load, 500)]);
        let other = WatchedSample { processes: 2, ..set("web", WatchedKind::Load, 900) };
        let second = difference(&before, &sample(SECOND_NS, busy(1, 0, 0), vec![other]));
        assert_eq!(second.watched[0].threads_used, None);
        assert!(second.missing.iter().any(|reason| reason.starts_with("web: ")), "{:?}", second.missing);
    }

    #[test]
    fn sets_disks_and_interfaces_are_matched_by_their_names_and_not_by_their_places() {
        let port = |name: &str, received_bytes| InterfaceCounts {
            name: name.into(),
            received_bytes,
            received_packets: 0,
            received_drops: 0,
            sent_bytes: 0,
            sent_packets: 0,
            sent_drops: 0,
        };
        let disk = |name: &str, reads| DiskCounts {
            name: name.into(),
            reads,
            read_bytes: 0,
            writes: 0,
            written_bytes: 0,
            busy_ms: 0,
            waited_ms: 0,
        };
        let none = ProcessorTicks::default();
        let before = Sample {
            disks: vec![disk("one", 1), disk("two", 10)],
            interfaces: vec![port("one", 100), port("two", 1000)],
            ..sample(
                0,
                none,
                vec![set("one", WatchedKind::Load, 0), set("two", WatchedKind::Load, SECOND_NS)],
            )
        };
        let after = Sample {
            disks: vec![disk("two", 12), disk("one", 2)],
            interfaces: vec![port("new", 5), port("two", 1002), port("one", 101)],
            ..sample(
                SECOND_NS,
                none,
                vec![set("two", WatchedKind::Load, 3 * SECOND_NS), set("one", WatchedKind::Load, SECOND_NS)],
            )
        };
        let second = difference(&before, &after);
        let disks: Vec<_> = second.disks.iter().map(|disk| (&*disk.name, disk.reads)).collect();
        assert_eq!(disks, [("two", 2), ("one", 1)]);
        let ports: Vec<_> = second.interfaces.iter().map(|port| (&*port.name, port.received_bytes)).collect();
        assert_eq!(ports, [("two", 2), ("one", 1)]);
        close(second.watched[0].threads_used.unwrap(), 2.0);
        close(second.watched[1].threads_used.unwrap(), 1.0);
    }

    #[test]
    fn a_control_group_keeps_the_time_of_processes_that_came_and_went() {
        let of_group = |processes, user_ns| WatchedSample {
            processes,
            source: UsedSource::Group,
            ..set("web", WatchedKind::NativeGuest, user_ns)
        };
        let before = sample(0, ProcessorTicks::default(), vec![of_group(1, 0)]);
        let second =
            difference(&before, &sample(SECOND_NS, busy(100, 0, 0), vec![of_group(2, SECOND_NS / 2)]));
        close(second.watched[0].threads_used.unwrap(), 0.5);
    }

    #[test]
    fn waiting_is_a_mean_over_threads() {
        let with = |waited_ns| WatchedSample {
            waits: Some(Waits { waited_ns, threads: 4 }),
            ..set("web", WatchedKind::Load, 0)
        };
        let before = sample(0, ProcessorTicks::default(), vec![with(0)]);
        let second = difference(&before, &sample(SECOND_NS, busy(1, 0, 0), vec![with(SECOND_NS)]));
        close(second.watched[0].run_queue_wait.unwrap(), 0.25);
    }

    #[test]
    fn a_step_of_the_clock_is_seen() {
        let before = sample(0, ProcessorTicks::default(), Vec::new());
        let after = Sample { clock_offset_ns: -5_000_000, ..sample(SECOND_NS, busy(1, 0, 0), Vec::new()) };
        assert_eq!(difference(&before, &after).clock_step_ns, -5_000_000);
    }

    #[test]
    fn a_disk_that_had_its_first_request_counts_from_zero_and_one_that_ran_backwards_not() {
        let disk = |name: &str, reads| DiskCounts {
            name: name.into(),
            reads,
            read_bytes: reads * 512,
            writes: 0,
            written_bytes: 0,
            busy_ms: 250,
            waited_ms: 2000,
        };
        let none = ProcessorTicks::default();
        let before = Sample { disks: vec![disk("old", 10)], ..sample(0, none, Vec::new()) };
        let now =
            Sample { disks: vec![disk("old", 3), disk("new", 7)], ..sample(SECOND_NS, none, Vec::new()) };
        let disks = difference(&before, &now).disks;
        assert_eq!(disks.len(), 1);
        assert_eq!((disks[0].name.as_str(), disks[0].reads), ("new", 7));
        close(disks[0].busy, 0.25);
        close(disks[0].queue, 2.0);
    }

    #[test]
    fn memory_without_events_has_no_zero_in_their_place() {
        let memory = Some(MemoryNow { available_bytes: 5, swap_used_bytes: 6 });
        let none = ProcessorTicks::default();
        let before = sample(0, none, Vec::new());
        let after = Sample { memory, ..sample(SECOND_NS, none, Vec::new()) };
        let second = difference(&before, &after);
        assert_eq!(second.memory.unwrap().oom_kills, None);
        assert_eq!(second.throttles, None);
        assert_eq!(second.processor, None);
        assert!(second.missing.iter().any(|reason| reason.starts_with("processor: ")));
    }
}
