//! What ran out at a step, by the host's own figures; unknown where nothing points at one thing.

use tilemark_plan::expect::memory_reserve;
use tilemark_plan::scenario::Role;
use tilemark_record::result::{Limit, LimitResource};
use tilemark_record::summary::{HostFigures, RepeatSummary};
use tilemark_units::Bytes;

use super::gate::GateFinding;
use super::measured::MeasuredPoint;

/// From here on a queue grows faster than it is served: at 90 % busy, one waits nine times one's own service.
const BUSY_MIN: f64 = 0.9;

/// Part of the time that guests' threads wait for a processor, from which on waiting is felt.
const WAIT_MIN: f64 = 0.1;

/// Part of the time in which some task waited for memory, from which on memory is short.
const MEMORY_PRESSURE_MIN: f64 = 0.1;

/// What limits at this point. The network is never named: the run's bridge is worked by processors and has no
/// line rate to reach.
pub(crate) fn limit(measured: &MeasuredPoint) -> Limit {
    let unknown = matches!(measured.gate, GateFinding::Unknown(_));
    if unknown && measured.kept.is_empty() && !measured.saturated.is_empty() {
        let evidence = measured.voided.first().map(|voided| voided.reason.clone()).into_iter().collect();
        return Limit { resource: LimitResource::LoadGenerator, evidence };
    }
    // Swapping and kills are failures, whatever else a repeat was worth.
    let everything: Vec<&RepeatSummary> =
        measured.kept.iter().chain(&measured.saturated).chain(&measured.spoiled).copied().collect();
    let memory = memory(&everything);
    if !memory.is_empty() {
        return Limit { resource: LimitResource::Memory, evidence: memory };
    }
    let (processor, disk) = (processor(&measured.kept), disk(&measured.kept));
    let disk_first = broke_on_disk(measured) && !disk.is_empty();
    if disk_first || (processor.is_empty() && !disk.is_empty()) {
        return Limit { resource: LimitResource::Disk, evidence: disk };
    }
    if !processor.is_empty() {
        return Limit { resource: LimitResource::Processor, evidence: processor };
    }
    Limit { resource: LimitResource::Unknown, evidence: Vec::new() }
}

fn broke_on_disk(measured: &MeasuredPoint) -> bool {
    let first = measured.gate.breaks().first().map(|found| found.load.as_str());
    measured
        .kept
        .iter()
        .flat_map(|repeat| &repeat.loads)
        .any(|load| Some(load.name.as_str()) == first && load.role == Role::Disk)
}

/// Mean of a host figure over the repeats that have it.
fn mean_of(repeats: &[&RepeatSummary], figure: impl Fn(&HostFigures) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = repeats.iter().filter_map(|repeat| figure(&repeat.host)).collect();
    crate::moments::mean(&values)
}

fn evidence(value: Option<f64>, bar: f64, what: &str) -> Option<String> {
    value.filter(|value| *value >= bar).map(|value| format!("{what} {:.0} % of the time", 100.0 * value))
}

fn processor(repeats: &[&RepeatSummary]) -> Vec<String> {
    let busy = mean_of(repeats, |host| host.guest_processors_busy);
    let wait = mean_of(repeats, |host| host.run_queue_wait_fraction);
    [
        evidence(busy, BUSY_MIN, "guests' processors were busy"),
        evidence(wait, WAIT_MIN, "a vCPU was ready and waited for a processor"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn disk(repeats: &[&RepeatSummary]) -> Vec<String> {
    evidence(
        mean_of(repeats, |host| host.disk_busy_fraction),
        BUSY_MIN,
        "the busiest disk had requests in flight",
    )
    .into_iter()
    .collect()
}

fn memory(repeats: &[&RepeatSummary]) -> Vec<String> {
    let sum = |figure: fn(&HostFigures) -> Option<u64>| {
        repeats.iter().filter_map(|repeat| figure(&repeat.host)).sum()
    };
    let beyond = |host: &HostFigures| host.swapped_pages.filter(|pages| *pages > super::SWAPPED_PAGES_MAX);
    let (killed, swapped): (u64, u64) = (sum(|host| host.oom_kills), sum(beyond));
    let mut found = Vec::new();
    if killed > 0 {
        found.push(format!("the kernel ended {killed} processes because memory ran out"));
    }
    if swapped > 0 {
        found.push(format!("{swapped} pages were swapped"));
    }
    let least = repeats.iter().filter_map(|repeat| {
        let least = repeat.host.memory_available_min?;
        (least < memory_reserve(Bytes::new(repeat.host.memory_total)).get()).then_some(least)
    });
    found.extend(
        least.min().map(|least| format!("only {} of memory could still be had", Bytes::new(least).rounded())),
    );
    let pressure = mean_of(repeats, |host| host.pressure_memory_some);
    found.extend(evidence(pressure, MEMORY_PRESSURE_MIN, "some task waited for memory"));
    found
}
