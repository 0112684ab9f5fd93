//! The online store: orders a minute, against one tile and the paper; what a commit promised; time by step.

use super::{Group, Kind, View};
use crate::number::{percent, three, whole};
use crate::published;
use std::collections::BTreeSet;
use tilemark_plan::plan::{LoadPlan, Point};
use tilemark_record::{
    result::{Figure, PointResult},
    store::{ServerSetting, SteadyWindow, StepLatency, StoreFigures},
};

/// All that the report says of a store; nothing where the record has none.
pub(crate) struct StoreView {
    /// One row a step.
    pub(crate) rows: Vec<StoreRow>,
    /// What a commit promised, with the settings that say so.
    pub(crate) durability: Vec<String>,
    /// The servers.
    pub(crate) servers: Vec<String>,
    /// What stands beside the paper's figures; nothing where they may not stand beside these.
    pub(crate) difference: Option<String>,
    /// What a missing steady window means; nothing where every kept repeat has one.
    pub(crate) unsettled: Option<&'static str>,
}

/// One step of it.
pub(crate) struct StoreRow {
    /// The step with its group.
    pub(crate) step: String,
    /// Whether its figures are no measure of hardware.
    pub(crate) kind: Kind,
    /// Whether they are not trusted.
    pub(crate) struck: bool,
    /// Committed orders a minute of all databases, with the interval where one load sends all orders.
    pub(crate) orders_per_minute: String,
    /// The part of the measured time in which the rate had settled, and the orders a minute of all databases in it.
    pub(crate) steady: Steady,
    /// The same against one tile.
    pub(crate) against_one: String,
    /// What the paper had against one guest.
    pub(crate) published: String,
    /// Orders undone for want of stock.
    pub(crate) rolled_back: String,
    /// Steps that were done again.
    pub(crate) retries: String,
    /// Processor time of the clients for an order.
    pub(crate) client_us: String,
    /// What the audits said.
    pub(crate) audit: String,
    /// Each step of an order.
    pub(crate) times: Vec<StepTimes>,
}

/// The steady windows of a step's kept repeats.
pub(crate) struct Steady {
    /// Orders a minute of all databases in their windows, as the mean of the repeats that have one; or that none has.
    pub(crate) orders_per_minute: String,
    /// Where the windows lie and how many repeats have one; empty where none has.
    pub(crate) where_and_how_many: String,
    /// Whether a kept repeat has none.
    lacks: bool,
}

/// How long a step of an order took.
pub(crate) struct StepTimes {
    /// Its name.
    pub(crate) name: String,
    /// Arithmetic mean over all guests and kept repeats.
    pub(crate) mean: String,
    /// The largest p99 of any guest in any kept repeat: percentiles are not averaged.
    pub(crate) p99_worst: String,
    /// How many.
    pub(crate) count: String,
}

const NONE: &str = "\u{2013}";
const UNSETTLED: &str = "No steady window: the measured time was shorter than 20 s or than the `window` that was asked for, or the \
    rate never settled. Orders per minute are those of the whole measured time in every row.";
/// A step in the order in which a customer takes it.
const STEPS: [&str; 6] = ["login", "new_customer", "browse", "purchase", "restock", "order"];

/// The store's part of a report.
pub(crate) fn store(view: &View) -> Option<StoreView> {
    let all: Vec<&StoreFigures> =
        view.report.repeats.iter().flat_map(|repeat| &repeat.loads).flat_map(|load| &load.store).collect();
    if all.is_empty() {
        return None;
    }
    let mut rows = Vec::new();
    for (group, point) in
        view.groups.iter().flat_map(|group| group.points.iter().map(move |point| (group, *point)))
    {
        rows.push(row(view, group, point));
    }
    let real = rows.iter().any(|row| row.kind != Kind::Emulated);
    Some(StoreView {
        durability: distinct(all.iter().map(|store| promise(&store.store.settings))),
        servers: distinct(all.iter().map(|store| store.store.server.clone())),
        unsettled: rows.iter().any(|row| row.steady.lacks).then_some(UNSETTLED),
        difference: (real && rows.iter().any(|row| row.published != NONE)).then(|| difference(view)),
        rows,
    })
}

fn distinct(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut known: Vec<String> = texts.collect();
    known.sort();
    known.dedup();
    known
}

/// What a commit promised, in a word and in the server's own settings.
fn promise(settings: &[ServerSetting]) -> String {
    let value = |name: &str| {
        settings.iter().find(|setting| setting.name == name).map(|setting| setting.value.as_str())
    };
    let is_full = match value("innodb_flush_log_at_trx_commit") {
        Some(flush) => flush == "1" && matches!(value("innodb_doublewrite"), Some("ON" | "1")),
        None => {
            ["fsync", "synchronous_commit", "full_page_writes"].iter().all(|name| value(name) == Some("on"))
        }
    };
    let word = if is_full {
        "full durability (each commit is on the disk before it is confirmed, torn pages are repaired)"
    } else {
        "relaxed durability (a crash may lose what was confirmed)"
    };
    let told: Vec<String> =
        settings.iter().map(|setting| format!("{} = {}", setting.name, readable(&setting.value))).collect();
    format!("{word}: {}", told.join(", "))
}

/// MariaDB prints sizes in bytes.
fn readable(value: &str) -> String {
    match value.parse::<u64>() {
        Ok(size) if size >= 1 << 20 => crate::number::bytes(size),
        _ => value.to_owned(),
    }
}

/// What the paper's host and guests were, and these are.
fn difference(view: &View) -> String {
    let provenance = &view.report.result.provenance;
    let guests: Vec<String> = view
        .report
        .plan
        .scenario
        .guest
        .iter()
        .map(|guest| format!("{} vCPU, {}", guest.vcpus, guest.memory))
        .collect();
    format!(
        "The paper's figures are of another machine: {}; here {}, {} threads, {}, guests of {}. Only how they grow may be compared.",
        published::oltp_machine(),
        if provenance.processor.is_empty() { "processor not named" } else { &provenance.processor },
        provenance.threads,
        crate::number::bytes(provenance.memory_bytes),
        guests.join(" and "),
    )
}

fn row(view: &View, group: &Group, point: &PointResult) -> StoreRow {
    let voided: Vec<u32> = point.repeats_voided.iter().map(|void| void.repeat).collect();
    let of_point = |repeat: &&tilemark_record::summary::RepeatSummary| {
        repeat.point == point.index && !voided.contains(&repeat.repeat)
    };
    let repeats: Vec<Vec<&StoreFigures>> = view
        .report
        .repeats
        .iter()
        .filter(of_point)
        .map(|repeat| repeat.loads.iter().flat_map(|load| &load.store).collect())
        .filter(|stores: &Vec<_>| !stores.is_empty())
        .collect();
    let kept: Vec<&StoreFigures> = repeats.iter().flatten().copied().collect();
    let per_minute = |value: f64| whole((value * 60.0).round() as u64);
    let orders_a_second = orders_a_second(view, point);
    let orders_per_minute = orders_a_second.map_or_else(
        || NONE.to_owned(),
        |figure| match (figure.low, figure.high) {
            (Some(low), Some(high)) => {
                format!("{} [{}, {}]", per_minute(figure.value), per_minute(low), per_minute(high))
            }
            _ => per_minute(figure.value),
        },
    );
    let paper = (group.kind != Kind::Emulated).then(|| paper_had(view, point)).flatten();
    let mean =
        |values: Vec<f64>| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let told = |value: Option<f64>, write: fn(f64) -> String| value.map_or_else(|| NONE.to_owned(), write);
    StoreRow {
        step: if group.name.is_empty() {
            view.step(point)
        } else {
            format!("{}, {}", view.step(point), group.name)
        },
        kind: group.kind,
        struck: view.struck(point),
        orders_per_minute,
        steady: steady(&repeats),
        against_one: told(against_one_tile(view, point, orders_a_second), |value| {
            format!("{value:.2}\u{d7}")
        }),
        published: told(paper, |value| format!("{value:.2}\u{d7}")),
        rolled_back: told(mean(kept.iter().filter_map(|store| store.rollback_fraction).collect()), percent),
        retries: if kept.is_empty() {
            NONE.to_owned()
        } else {
            whole(kept.iter().map(|store| store.retries).sum())
        },
        client_us: told(mean(kept.iter().filter_map(|store| store.client_cpu_us_per_order).collect()), three),
        audit: audit(&kept),
        times: STEPS.iter().filter_map(|name| times(name, &kept)).collect(),
    }
}

/// The loads of a point that order at a database.
fn store_loads<'a>(view: &View<'a>, point: &PointResult) -> impl Iterator<Item = &'a LoadPlan> {
    let plan: Option<&Point> = view.report.plan.points.iter().find(|plan| plan.index == point.index);
    plan.into_iter().flat_map(|plan| &plan.loads).filter(|load| load.work.facts().store().is_some())
}

/// Committed orders a second of all databases, whichever load is the headline. Intervals do not add up: where several
/// loads send orders, there is none.
fn orders_a_second(view: &View, point: &PointResult) -> Option<Figure> {
    let names: BTreeSet<&str> = store_loads(view, point).map(|load| load.name.as_str()).collect();
    let loads = point.loads.iter().filter(|load| names.contains(load.name.as_str()));
    let figures: Option<Vec<Figure>> =
        loads.map(|load| load.throughput.as_ref().map(|throughput| throughput.figure)).collect();
    figures?.into_iter().reduce(|all, one| Figure {
        value: all.value + one.value,
        low: None,
        high: None,
        n_repeats: all.n_repeats.min(one.n_repeats),
    })
}

fn against_one_tile(view: &View, point: &PointResult, own: Option<Figure>) -> Option<f64> {
    let is_one = |one: &&PointResult| {
        one.tiles == 1 && one.backend == point.backend && one.side == point.side && one.vary == point.vary
    };
    let one = orders_a_second(view, view.report.result.points.iter().find(is_one)?)?;
    (one.value > 0.0).then_some(own?.value / one.value)
}

/// What the paper had with as many databases, against as many as one tile has.
fn paper_had(view: &View, point: &PointResult) -> Option<f64> {
    let databases = |of_tile: &dyn Fn(u32) -> bool| {
        let guests: BTreeSet<u32> =
            store_loads(view, point).filter(|load| of_tile(load.tile)).map(|load| load.guest).collect();
        u32::try_from(guests.len()).ok()
    };
    let (all, of_one_tile) = (databases(&|_| true)?, databases(&|tile| tile == 1)?);
    Some(published::oltp_relative(all)? / published::oltp_relative(of_one_tile)?)
}

/// A repeat has a steady window where all of its databases have one.
fn steady(repeats: &[Vec<&StoreFigures>]) -> Steady {
    let windows: Vec<Vec<SteadyWindow>> =
        repeats.iter().filter_map(|stores| stores.iter().map(|store| store.steady).collect()).collect();
    let all = || windows.iter().flatten();
    let (Some(from), Some(to)) = (all().map(|one| one.from_s).min(), all().map(|one| one.to_s).max()) else {
        let orders_per_minute = if repeats.is_empty() { NONE } else { "not found" }.to_owned();
        let lacks = !repeats.is_empty();
        return Steady { orders_per_minute, where_and_how_many: String::new(), lacks };
    };
    let mean = all().map(|one| one.orders_per_minute).sum::<f64>() / windows.len() as f64;
    Steady {
        orders_per_minute: whole(mean.round() as u64),
        where_and_how_many: format!("second {from} to {to}, {} of {}", windows.len(), repeats.len()),
        lacks: windows.len() < repeats.len(),
    }
}

fn audit(kept: &[&StoreFigures]) -> String {
    match kept {
        [] => "no repeat was kept".to_owned(),
        kept if kept.iter().all(|store| store.audit == "agrees") => {
            format!("agrees ({} of {})", kept.len(), kept.len())
        }
        kept => {
            distinct(kept.iter().filter(|store| store.audit != "agrees").map(|store| store.audit.clone()))
                .join("; ")
        }
    }
}

fn times(name: &str, kept: &[&StoreFigures]) -> Option<StepTimes> {
    let all: Vec<&StepLatency> = kept.iter().filter_map(|store| store.latency_ms.get(name)).collect();
    let count: u64 = all.iter().map(|step| step.count).sum();
    let sum: f64 = all.iter().map(|step| step.mean * step.count as f64).sum();
    let worst = all.iter().filter_map(|step| step.p99).reduce(f64::max);
    (count > 0).then(|| StepTimes {
        name: name.replace('_', " "),
        mean: three(sum / count as f64),
        p99_worst: worst.map_or_else(|| NONE.to_owned(), three),
        count: whole(count),
    })
}
