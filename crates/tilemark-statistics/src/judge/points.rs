//! A point's figures from its kept repeats. What is not known is null, with its reason in `missing`.

use std::collections::BTreeMap;

use tilemark_plan::{plan::Plan, scenario::LoopKind};
use tilemark_record::result::{
    Fairness, GuestResult, LatenessUs, LimitResource, LoadResult, PointResult, Throughput,
};
use tilemark_record::summary::{GuestFigures, LoadFigures, ProcessorFigures, RepeatSummary, SecondsToReady};
use tilemark_units::ranges;

use tilemark_units::{counted, median};

use super::gate::{GateFinding, achieved_fraction, by_guest, error_fraction, of_guest, of_load, seen};
use super::ladder::vcpus_per_thread;
use super::law::Seen;
use super::limit::limit;
use super::measured::{MeasuredPoint, load};
use super::notes::Notes;
use super::one_tile::{slowdown_vs_one_tile, throughput_vs_one_tile};
use super::survey::{Standing, Survey};
use super::tail::{Merged, RepeatLatency};
use super::{clients, hooks, kernel, placement, steady};
use crate::fairness::{Demanded, fairness_by_demand};
use crate::figure::{Missing, Scale};
use crate::interval::estimate;
use crate::moments::mean;
use crate::sentence;

pub(crate) fn point_result(
    plan: &Plan,
    measured: &MeasuredPoint,
    all: &[MeasuredPoint],
    survey: Option<&Survey>,
    missing: &mut BTreeMap<String, String>,
) -> PointResult {
    let point = measured.point;
    let prefix = format!("points.{}", point.index);
    let loads: Vec<LoadResult> = measured
        .load_names()
        .into_iter()
        .filter_map(|name| {
            let mut notes = Notes { name: format!("{prefix}.loads.{name}"), missing: &mut *missing };
            let slowdown = slowdown_vs_one_tile(measured, all, name, plan.seed);
            let slowdown_vs_one_tile =
                slowdown.and_then(|slowdown| notes.figure("slowdown_vs_one_tile", slowdown));
            let result = load_result(&load_of_any(measured, name), measured.load(name), plan.seed, notes)?;
            Some(LoadResult { slowdown_vs_one_tile, ..result })
        })
        .collect();
    let mut notes = Notes { name: prefix, missing };
    let headline = point.headline(&plan.scenario);
    let own = headline.and_then(|name| loads.iter().find(|load| load.name == name)).cloned();
    let holds = holds(measured, survey);
    if let Some(reason) = why_undecided(measured).filter(|_| holds.is_none()) {
        notes.missing.insert(format!("{}.holds", notes.name), reason);
    }
    if own.is_none() {
        notes.missing.insert(format!("{}.throughput", notes.name), no_headline(measured, headline));
    }
    let relative = notes.kept("throughput_vs_one_tile", throughput_vs_one_tile(measured, all, headline));
    let pss = measured.kept.iter().filter_map(|repeat| Some(repeat.memory.as_ref()?.pss_mib_per_guest));
    let pss = mean(&pss.collect::<Vec<f64>>()).ok_or_else(|| Missing::because("guests' memory was not read"));
    let ready_s = mean(&measured.kept.iter().filter_map(|repeat| repeat.ready_s).collect::<Vec<f64>>());
    let power_w = mean(&measured.kept.iter().filter_map(|repeat| repeat.host.power_w).collect::<Vec<f64>>());
    let resource = limit(measured).resource;
    PointResult {
        index: point.index,
        tiles: point.tiles,
        guests: u32::try_from(point.guests.len()).unwrap_or(u32::MAX),
        backend: point.backend,
        side: point.side,
        vary: point.vary.clone(),
        repeats_kept: u32::try_from(measured.kept.len()).unwrap_or(u32::MAX),
        repeats_voided: measured.voided.clone(),
        holds,
        repeats_within: repeats_within(measured),
        broke: measured.gate.breaks().to_vec(),
        across: match &measured.gate {
            GateFinding::Undecided(limits) => limits.clone(),
            GateFinding::Holds | GateFinding::Broke(_) | GateFinding::Unknown(_) => Vec::new(),
        },
        offered: own.as_ref().and_then(|load| load.offered),
        achieved_fraction: own.as_ref().and_then(|load| load.achieved_fraction),
        throughput: own.as_ref().and_then(|load| load.throughput.clone()),
        latency_ms: own.as_ref().map(|load| load.latency_ms).filter(|latency| latency.n > 0),
        p99_ms: own.as_ref().and_then(|load| load.p99_ms),
        errors: own.as_ref().and_then(|load| load.errors),
        fairness: own.and_then(|load| load.fairness),
        throughput_vs_one_tile: relative,
        vcpus_per_thread: vcpus_per_thread(plan, point),
        processor: processor(&measured.kept),
        pss_mib_per_guest: notes.kept("pss_mib_per_guest", pss),
        ready_s,
        power_w,
        seconds_to_ready: seconds_to_ready(&measured.kept),
        uses: super::uses::uses(&measured.kept),
        limit: (resource != LimitResource::Unknown).then_some(resource),
        notes: steady::notes(&measured.kept)
            .into_iter()
            .chain(heat_note(&measured.kept))
            .chain(kernel::note(&measured.kept))
            .chain(hooks::notes(&measured.kept))
            .chain(clients::notes(&measured.kept))
            .chain(memory_note(&measured.kept))
            .chain(placement::notes(&measured.kept))
            .chain(kernel_notes(measured))
            .chain(further_note(measured))
            .collect(),
        // All points are compared together, when all are known.
        clients: None,
        loads,
    }
}

/// By its own intervals; of a ladder, also by the law through all its repeats.
fn holds(measured: &MeasuredPoint, survey: Option<&Survey>) -> Option<bool> {
    let tiles = measured.point.tiles;
    let is_on_ladder =
        |survey: &&Survey| survey.backend == measured.point.backend && survey.steps.contains_key(&tiles);
    match survey.filter(is_on_ladder).map(|survey| survey.standing(tiles)) {
        Some(Standing::Holds) => Some(true),
        Some(Standing::Breaks) => Some(false),
        Some(Standing::Undecided | Standing::Unknown) => None,
        None => measured.gate.holds(),
    }
}

fn why_undecided(measured: &MeasuredPoint) -> Option<String> {
    match &measured.gate {
        GateFinding::Unknown(reason) => Some(reason.clone()),
        GateFinding::Undecided(limits) => limits.first().map(sentence::across),
        GateFinding::Holds | GateFinding::Broke(_) => None,
    }
}

/// In how many kept repeats every load and guest was within the gate by itself; nothing where a repeat does not say.
fn repeats_within(measured: &MeasuredPoint) -> Option<u32> {
    if measured.point.loads.is_empty() || measured.kept.is_empty() {
        return None;
    }
    let within: Vec<bool> =
        seen(measured.point, &measured.kept).iter().map(Seen::is_within).collect::<Option<_>>()?;
    u32::try_from(within.iter().filter(|within| **within).count()).ok()
}

fn no_headline(measured: &MeasuredPoint, headline: Option<&str>) -> String {
    match (&measured.gate, headline) {
        (_, None) => "this scenario has no load".to_owned(),
        (GateFinding::Unknown(reason), _) => reason.clone(),
        (_, Some(name)) => format!("load {name} has no kept repeat"),
    }
}

/// The load's figures of any repeat, kept or not: its name, role and kind are the same in all.
fn load_of_any<'a>(measured: &MeasuredPoint<'a>, name: &str) -> Vec<&'a LoadFigures> {
    let repeats: Vec<&RepeatSummary> =
        measured.kept.iter().chain(&measured.saturated).chain(&measured.spoiled).copied().collect();
    load(&repeats, name)
}

fn load_result(
    any: &[&LoadFigures],
    kept: Vec<&LoadFigures>,
    seed: u64,
    mut notes: Notes,
) -> Option<LoadResult> {
    let like = any.first()?;
    let rates: Vec<f64> = kept.iter().map(|load| load.rate()).collect();
    let offered: Vec<f64> = kept.iter().map(|load| load.offered as f64 / load.seconds).collect();
    let achieved: Vec<f64> = kept.iter().filter_map(|load| achieved_fraction(load)).collect();
    let errors: Vec<f64> = kept.iter().filter_map(|load| error_fraction(load)).collect();
    let throughput = notes.figure("throughput", estimate(&rates, Scale::Logarithmic, seed));
    let repeats: Vec<RepeatLatency> = kept.iter().map(|load| of_load(load)).collect();
    let merged = Merged::of(&repeats);
    let p99_ms = notes.figure("p99_ms", merged.p99());
    let mut latency_ms = merged.latency();
    // One p99 on a page: that of all requests together, which the interval belongs to.
    latency_ms.p99 = p99_ms.map(|figure| figure.value);
    Some(LoadResult {
        name: like.name.clone(),
        role: like.role,
        loop_kind: like.loop_kind,
        measured: like.measured,
        offered: mean(&offered),
        achieved_fraction: mean(&achieved),
        throughput: throughput.map(|figure| Throughput { unit: like.unit_of_rate(), figure }),
        latency_ms,
        p99_ms,
        errors: mean(&errors),
        send_lateness_us: lateness(&kept),
        fairness: notes.kept("fairness", fairness_of(&kept)),
        slowdown_vs_one_tile: None,
        surge: super::surge::surge(&kept, seed, &mut notes),
        pages: super::pages::pages(&kept, seed, &mut notes),
        guests: guests(&kept),
    })
}

fn lateness(kept: &[&LoadFigures]) -> LatenessUs {
    let of = |figure: fn(&LatenessUs) -> Option<f64>| {
        median(kept.iter().filter_map(|load| figure(&load.send_lateness_us)).collect())
    };
    LatenessUs {
        p50: of(|lateness| lateness.p50),
        p99: of(|lateness| lateness.p99),
        p999: of(|lateness| lateness.p999),
        max: kept.iter().filter_map(|load| load.send_lateness_us.max).reduce(f64::max),
    }
}

/// How evenly guests were served over all kept repeats.
fn fairness_of(kept: &[&LoadFigures]) -> Result<Fairness, Missing> {
    let sum = |repeats: &[&GuestFigures], of: fn(&GuestFigures) -> u64| {
        repeats.iter().map(|guest| of(guest)).sum::<u64>()
    };
    let count = |repeats: usize| u32::try_from(repeats).unwrap_or(u32::MAX);
    let is_lost = |load: &LoadFigures, name: &str| {
        load.guests.iter().any(|guest| guest.name == name && load.has_lost(guest))
    };
    let guests: Vec<Demanded> = by_guest(kept)
        .iter()
        .map(|(name, repeats)| Demanded {
            guest: (*name).to_owned(),
            offered: sum(repeats, |guest| guest.offered),
            completed: sum(repeats, |guest| guest.completed),
            repeats: count(repeats.len()),
            lost: count(kept.iter().filter(|load| is_lost(load, name)).count()),
        })
        .collect();
    fairness_by_demand(&guests, kept.first().map_or(LoopKind::Closed, |load| load.loop_kind))
}

fn guests(kept: &[&LoadFigures]) -> Vec<GuestResult> {
    let seconds: f64 = kept.iter().map(|load| load.seconds).sum();
    let of_guest = |name: &str, repeats: &[&GuestFigures]| {
        let latencies: Vec<RepeatLatency> = repeats.iter().map(|guest| of_guest(guest)).collect();
        let completed: u64 = repeats.iter().map(|guest| guest.completed).sum();
        let in_time: u64 =
            repeats.iter().map(|guest| guest.completed_in_time.unwrap_or(guest.completed)).sum();
        let errors: u64 = repeats.iter().map(|guest| guest.errors).sum();
        GuestResult {
            name: name.to_owned(),
            tile: repeats[0].tile,
            // Where a load was lost in every repeat, nothing was measured for no time at all.
            throughput: if seconds > 0.0 { in_time as f64 / seconds } else { 0.0 },
            latency_ms: Merged::of(&latencies).latency(),
            errors: errors as f64 / (completed + errors).max(1) as f64,
        }
    };
    by_guest(kept).iter().map(|(name, repeats)| of_guest(name, repeats)).collect()
}

/// Guests' own memory and the fall of what is available may be so far apart, as a part of the former, before it is said:
/// a figure of memory per guest that two ways of counting do not share is no promise.
const MEMORY_APART_MAX: f64 = 0.05;

/// Says where what guests have by their own count and what the host has less are far apart, over kept repeats.
fn memory_note(kept: &[&RepeatSummary]) -> Option<String> {
    let memories = || kept.iter().filter_map(|repeat| repeat.memory.as_ref());
    let own = mean(&memories().map(|memory| memory.own_mib).collect::<Option<Vec<f64>>>()?)?;
    let fell = mean(&memories().map(|memory| memory.available_fell_mib).collect::<Option<Vec<f64>>>()?)?;
    let apart = (fell - own).abs() / own;
    (apart > MEMORY_APART_MAX).then(|| {
        format!(
            "guests have {own:.0} MiB of their own by their proportional set sizes, and the memory available on the host fell by \
             {fell:.0} MiB: {:.1} % apart. The host's kernel, disks in memory and other programs count in the second only",
            100.0 * apart
        )
    })
}

/// Says where processors were slowed for heat. Load makes heat, so that is the host's own limit and no disturbance.
fn heat_note(kept: &[&RepeatSummary]) -> Option<String> {
    let slowed = kept.iter().filter(|repeat| repeat.host.throttled.is_some_and(|times| times > 0)).count();
    (slowed > 0).then(|| {
        format!("processors were slowed for heat in {slowed} of {}", counted(kept.len() as u64, "repeat"))
    })
}

/// What the host's kernel reported, once for all repeats in which it was the same. Whether that disturbed anybody cannot be known from it.
fn kernel_notes(measured: &MeasuredPoint) -> Vec<String> {
    let all = measured.kept.iter().chain(&measured.saturated).chain(&measured.spoiled);
    let mut reporting: Vec<&RepeatSummary> =
        all.copied().filter(|repeat| !repeat.kernel_errors.is_empty()).collect();
    reporting.sort_by_key(|repeat| (repeat.block, repeat.repeat));
    let mut reports: Vec<(&[String], Vec<u32>)> = Vec::new();
    for repeat in reporting {
        match reports.iter_mut().find(|(errors, _)| *errors == repeat.kernel_errors) {
            Some((_, repeats)) => repeats.push(repeat.repeat),
            None => reports.push((&repeat.kernel_errors, vec![repeat.repeat])),
        }
    }
    let note = |(errors, repeats): (&[String], Vec<u32>)| {
        let (word, were) = if repeats.len() == 1 { ("repeat", "was") } else { ("repeats", "were") };
        let (repeats, errors) = (ranges(&repeats), errors.join("; "));
        format!("while {word} {repeats} {were} measured the host's kernel reported: {errors}")
    };
    reports.into_iter().map(note).collect()
}

/// Repeats of further blocks that were discarded: the planned ones count all the same.
fn further_note(measured: &MeasuredPoint) -> Option<String> {
    let discarded = measured.discarded_further();
    let first = &measured.voided[measured.voided.len() - discarded..].first()?.reason;
    let (repeats, were) = (counted(discarded as u64, "repeat"), if discarded == 1 { "was" } else { "were" });
    Some(format!(
        "{repeats} of the blocks that confirm what looked slow {were} discarded, the first because: {first}"
    ))
}

/// Each percentile's mean over kept repeats; nothing where one of them has none.
fn seconds_to_ready(kept: &[&RepeatSummary]) -> Option<SecondsToReady> {
    let all: Vec<SecondsToReady> =
        kept.iter().map(|repeat| repeat.seconds_to_ready).collect::<Option<_>>()?;
    let of = |time: fn(&SecondsToReady) -> f64| mean(&all.iter().map(time).collect::<Vec<f64>>());
    Some(SecondsToReady {
        p50: of(|ready| ready.p50)?,
        p99: of(|ready| ready.p99)?,
        max: of(|ready| ready.max)?,
    })
}

fn processor(kept: &[&RepeatSummary]) -> Option<ProcessorFigures> {
    let of = |part: fn(&ProcessorFigures) -> f64| {
        mean(&kept.iter().map(|repeat| part(&repeat.host.processor)).collect::<Vec<f64>>())
    };
    Some(ProcessorFigures {
        guest_work: of(|parts| parts.guest_work)?,
        guest_overhead: of(|parts| parts.guest_overhead)?,
        load: of(|parts| parts.load)?,
        tilemark: of(|parts| parts.tilemark)?,
        hooks: of(|parts| parts.hooks)?,
        kernel: of(|parts| parts.kernel)?,
        other: of(|parts| parts.other)?,
        steal: of(|parts| parts.steal)?,
        idle: of(|parts| parts.idle)?,
    })
}
