//! Two readings make a second. Pure.
//!
//! A counter that ran backwards (a disk that left and came again, other processes under the same name) gives nothing.

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
    let watched: Vec<WatchedSecond> =
        after.watched.iter().map(|now| watched_second(before, now, elapsed_ns, &mut missing)).collect();
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
        clock_step_ns: after.clock_offset_ns - before.clock_offset_ns,
        reading_us: after.took_ns as f64 / 1e3,
        processor,
        threads: threads(before, after),
        runnable: after.run_queue.map(|queue| queue.runnable),
        load_1m: after.run_queue.map(|queue| queue.load_1m),
        memory: memory(before, after),
        pressure: pressures(&before.pressure, &after.pressure, elapsed_ns),
        throttles: counted(before.throttles, after.throttles),
        disks: disks(before, after, elapsed_ns),
        interfaces: interfaces(before, after),
        watched,
        missing,
    }
}

/// How far a counter moved; nothing where it is not there or ran backwards.
fn counted(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
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
        watched.iter().filter(|set| wanted(set)).filter_map(|set| set.threads_used).sum::<f64>() / count
    };
    let guests: Vec<&WatchedSecond> = watched.iter().filter(|set| is_guest(set.kind)).collect();
    let of_guests = |part: fn(&WatchedSecond) -> Option<f64>| -> Option<f64> {
        guests.iter().map(|set| part(set)).sum::<Option<f64>>().map(|sum| sum / count)
    };
    let (guest, load) = (used(&|set| is_guest(set.kind)), used(&|set| set.kind == WatchedKind::Load));
    let tilemark = used(&|set| set.kind == WatchedKind::Tilemark);
    let (mine, steal) = (guest + load + tilemark, of_all(whole.steal));
    let other = (of_all(whole.processes()) - mine).max(0.0);
    let busy = of_all(whole.processes() + whole.irq + whole.softirq);
    let interrupts = (busy - mine - other).max(0.0);
    Some(ProcessorSplit {
        guests: guest,
        guest_work: of_guests(|set| set.guest_work),
        host_for_guests: of_guests(|set| set.host_for_guest),
        load,
        tilemark,
        other,
        interrupts,
        idle: (1.0 - steal - mine - other - interrupts).max(0.0),
        steal,
    })
}

fn is_guest(kind: WatchedKind) -> bool {
    match kind {
        WatchedKind::QemuGuest | WatchedKind::NativeGuest => true,
        WatchedKind::Load | WatchedKind::Tilemark => false,
    }
}

fn threads(before: &Sample, after: &Sample) -> Vec<ThreadSecond> {
    let (Some(before), Some(after)) = (&before.processor, &after.processor) else { return Vec::new() };
    let one = |to: &super::parse::ThreadTicks| {
        let from = before.threads.iter().find(|from| from.id == to.id)?;
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
        swap_in_bytes: moved(|events| Some(events.swap_in_pages * PAGE_BYTES)),
        swap_out_bytes: moved(|events| Some(events.swap_out_pages * PAGE_BYTES)),
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
    let one = |to: &DiskCounts| {
        let from = before.disks.iter().find(|from| from.name == to.name);
        // A disk without a request so far is not among the counts: it stood at zero.
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
        .filter(|disk| disk.reads + disk.writes > 0 || disk.queue > 0.0)
        .collect()
}

fn interfaces(before: &Sample, after: &Sample) -> Vec<InterfaceSecond> {
    let one = |to: &InterfaceCounts| {
        let from = before.interfaces.iter().find(|from| from.name == to.name)?;
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
    before: &Sample,
    now: &WatchedSample,
    elapsed_ns: u64,
    missing: &mut Vec<String>,
) -> WatchedSecond {
    missing.extend(now.missing.iter().map(|reason| format!("{}: {reason}", now.name)));
    let then = before.watched.iter().find(|then| then.name == now.name && elapsed_ns > 0);
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
    Some(Used {
        user_ns: after.user_ns.checked_sub(before.user_ns)?,
        system_ns: after.system_ns.checked_sub(before.system_ns)?,
    })
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
        WatchedKind::Load | WatchedKind::Tilemark => None,
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
