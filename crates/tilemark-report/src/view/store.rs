//! The online store: orders a minute, against one tile and the paper; what a commit promised; time by step.

use super::{Cell, Group, Kind, Part, Row, Section, Table, View, given, measured, words};
use crate::number::{percent, three, whole};
use crate::published;
use std::collections::BTreeSet;
use tilemark_plan::plan::{LoadPlan, Point};
use tilemark_record::{
    result::{Figure, PointResult},
    store::{ServerSetting, SteadyWindow, StepLatency, StoreFigures},
};
use tilemark_units::mean;

const UNSETTLED: &str = "No steady window: the measured time was shorter than 20 s or than the `window` that was asked for, or the \
    rate never settled. Orders per minute are those of the whole measured time in every row.";
/// A step in the order in which a customer takes it.
const STEPS: [&str; 6] = ["login", "new_customer", "browse", "purchase", "restock", "order"];

/// The store's part of a report; nothing where the record has none.
pub(crate) fn store(view: &View) -> Option<Section> {
    let all: Vec<&StoreFigures> =
        view.report.repeats.iter().flat_map(|repeat| &repeat.loads).flat_map(|load| &load.store).collect();
    if all.is_empty() {
        return None;
    }
    let steps: Vec<Step> = view.points().map(|(group, point)| Step::of(view, group, point)).collect();
    let has_unsettled = steps.iter().any(Step::has_unsettled);
    let is_beside_paper = steps.iter().any(|step| step.paper.is_some());
    let times: Vec<Row> = steps.iter().filter_map(|step| step.times(view)).collect();
    let promises = distinct(all.iter().map(|store| promise(&store.store.settings)));
    let servers = distinct(all.iter().map(|store| store.store.server.clone()));
    let mut parts: Vec<Part> =
        promises.iter().map(|promise| Part::Text(format!("With {promise}."))).collect();
    parts.push(Part::Table(orders(view, &steps)));
    parts.extend(has_unsettled.then(|| Part::Text(UNSETTLED.to_owned())));
    parts.extend(is_beside_paper.then(|| Part::Text(difference(view))));
    parts.extend((!times.is_empty()).then(|| Part::Table(times_table(times))));
    parts.push(Part::Text(format!("Server: {}.", servers.join("; "))));
    Some(Section::new("store", "Orders", parts))
}

fn orders(view: &View, steps: &[Step]) -> Table {
    let columns = vec![
        measured("Step"),
        measured("Orders").unit("per minute, committed").short_unit("/min"),
        measured("Steady window").unit("orders per minute; where, repeats").short_unit("/min"),
        measured("Relative to one tile"),
        // What others measured is not in doubt.
        given("Published 2009").unit("relative to one tile").dispensable(1),
        measured("Rolled back").unit("no stock").dispensable(2),
        measured("Retried").unit("deadlocks").dispensable(3),
        measured("Client").unit("\u{b5}s of CPU per order").short_unit("\u{b5}s/order").dispensable(4),
        words("Audit"),
    ];
    Table::new(columns, steps.iter().map(|step| step.row(view)).collect())
}

fn times_table(rows: Vec<Row>) -> Table {
    let columns = vec![
        measured("Step"),
        words("What"),
        measured("Mean").unit("ms"),
        measured("Worst p99").unit("ms, any guest and repeat").short_unit("ms"),
        measured("Times"),
    ];
    Table { title: "Time by step of an order", ..Table::new(columns, rows) }
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
    let all: Vec<String> =
        settings.iter().map(|setting| format!("{} = {}", setting.name, readable(&setting.value))).collect();
    format!("{word}: {}", all.join(", "))
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
        "The paper's figures are of another machine: {}; here {}, {} threads, {}, guests of {}. Compare how they grow, not the values.",
        published::oltp_machine(),
        if provenance.processor.is_empty() { "processor not named" } else { &provenance.processor },
        provenance.threads,
        crate::number::bytes(provenance.memory_bytes),
        guests.join(" and "),
    )
}

/// One step, and its kept repeats with the figures of each database.
struct Step<'a> {
    group: &'a Group<'a>,
    point: &'a PointResult,
    repeats: Vec<Vec<&'a StoreFigures>>,
    /// What the paper had against one guest.
    paper: Option<f64>,
}

impl<'a> Step<'a> {
    fn of(view: &'a View, group: &'a Group<'a>, point: &'a PointResult) -> Self {
        let kept = view.kept_repeats(point);
        let repeats = kept.map(|repeat| repeat.loads.iter().flat_map(|load| &load.store).collect::<Vec<_>>());
        let paper = (group.kind != Kind::Emulated).then(|| paper_had(view, point)).flatten();
        Self { group, point, repeats: repeats.filter(|stores| !stores.is_empty()).collect(), paper }
    }

    fn row(&self, view: &View) -> Row {
        let kept: Vec<&StoreFigures> = self.stores().collect();
        let own = orders_a_second(view, self.point);
        let against = |value: f64| format!("{value:.2}\u{d7}");
        let retries = (!kept.is_empty()).then(|| whole(kept.iter().map(|store| store.retries).sum()));
        let undone = mean(kept.iter().filter_map(|store| store.rollback_fraction));
        let client_us = mean(kept.iter().filter_map(|store| store.client_cpu_us_per_order));
        let cells = vec![
            Cell::figure(own.map(per_minute)),
            steady(&self.repeats),
            Cell::figure(against_one_tile(view, self.point, own).map(against)),
            Cell::figure(self.paper.map(against)),
            Cell::figure(undone.map(percent)),
            Cell::figure(retries),
            Cell::figure(client_us.map(three)),
            audit(&kept).into(),
        ];
        Row::of(view, self.point, view.head(self.group, self.point), vec![cells])
    }

    /// How long each step of an order took.
    fn times(&self, view: &View) -> Option<Row> {
        let kept: Vec<&StoreFigures> = self.stores().collect();
        let lines: Vec<Vec<Cell>> = STEPS.iter().filter_map(|name| times(name, &kept)).collect();
        let head = view.head(self.group, self.point);
        (!lines.is_empty()).then(|| Row::of(view, self.point, head, lines))
    }

    fn stores(&self) -> impl Iterator<Item = &'a StoreFigures> {
        self.repeats.iter().flatten().copied()
    }

    fn has_unsettled(&self) -> bool {
        self.stores().any(|store| store.steady.is_none())
    }
}

/// Orders a minute, with the interval where one load sends all orders.
fn per_minute(figure: Figure) -> String {
    let per_minute = |value: f64| whole((value * 60.0).round() as u64);
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => {
            format!("{} [{}, {}]", per_minute(figure.value), per_minute(low), per_minute(high))
        }
        _ => per_minute(figure.value),
    }
}

/// The loads of a point that order at a database.
fn store_loads<'a>(view: &View<'a>, point: &PointResult) -> impl Iterator<Item = &'a LoadPlan> {
    let plan: Option<&Point> = view.report.plan.points.iter().find(|plan| plan.index == point.index);
    plan.into_iter().flat_map(|plan| &plan.loads).filter(|load| load.work.store().is_some())
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

/// Orders a minute of all databases in their steady windows, as the mean of the repeats that have one; where the windows lie
/// and how many repeats have one. A repeat has one where all of its databases have.
fn steady(repeats: &[Vec<&StoreFigures>]) -> Cell {
    let windows: Vec<Vec<SteadyWindow>> =
        repeats.iter().filter_map(|stores| stores.iter().map(|store| store.steady).collect()).collect();
    let all = || windows.iter().flatten();
    let (Some(from), Some(to)) = (all().map(|one| one.from_s).min(), all().map(|one| one.to_s).max()) else {
        return Cell::figure((!repeats.is_empty()).then(|| "not found".to_owned()));
    };
    let mean = all().map(|one| one.orders_per_minute).sum::<f64>() / windows.len() as f64;
    let where_and_how_many = format!("(second {from} to {to}, {} of {})", windows.len(), repeats.len());
    Cell::from(whole(mean.round() as u64)).beside(Some(where_and_how_many))
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

/// A step of an order: its mean over all guests and kept repeats, and the largest p99 of any guest in any kept repeat, because
/// percentiles are not averaged.
fn times(name: &str, kept: &[&StoreFigures]) -> Option<Vec<Cell>> {
    let all: Vec<&StepLatency> = kept.iter().filter_map(|store| store.latency_ms.get(name)).collect();
    let count: u64 = all.iter().map(|step| step.count).sum();
    let sum: f64 = all.iter().map(|step| step.mean * step.count as f64).sum();
    let worst = all.iter().filter_map(|step| step.p99).reduce(f64::max);
    (count > 0).then(|| {
        vec![
            name.replace('_', " ").into(),
            three(sum / count as f64).into(),
            Cell::figure(worst.map(three)),
            whole(count).into(),
        ]
    })
}
