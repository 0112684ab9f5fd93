//! The online store: orders a minute, against one tile and the paper; what a commit promised; time by step.

use super::{Group, Kind, View};
use crate::number::{percent, three, whole};
use crate::published;
use tilemark_record::{
    result::PointResult,
    store::{ServerSetting, StepLatency, StoreFigures},
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
}

/// One step of it.
pub(crate) struct StoreRow {
    /// The step with its group.
    pub(crate) step: String,
    /// Whether its figures are no measure of hardware.
    pub(crate) kind: Kind,
    /// Whether they are not trusted.
    pub(crate) struck: bool,
    /// Committed orders a minute of all guests, with the interval.
    pub(crate) orders_per_minute: String,
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
    let kept: Vec<&StoreFigures> = view
        .report
        .repeats
        .iter()
        .filter(of_point)
        .flat_map(|repeat| &repeat.loads)
        .flat_map(|load| &load.store)
        .collect();
    let throughput = point.throughput.as_ref().map(|throughput| throughput.figure);
    let per_minute = |value: f64| whole((value * 60.0).round() as u64);
    let orders_per_minute = throughput.map_or_else(
        || NONE.to_owned(),
        |figure| match (figure.low, figure.high) {
            (Some(low), Some(high)) => {
                format!("{} [{}, {}]", per_minute(figure.value), per_minute(low), per_minute(high))
            }
            _ => per_minute(figure.value),
        },
    );
    let paper = (group.kind != Kind::Emulated).then(|| published::oltp_relative(point.tiles)).flatten();
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
        against_one: told(point.throughput_vs_one_tile, |value| format!("{value:.2}\u{d7}")),
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
