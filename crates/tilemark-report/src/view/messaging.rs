//! A broker's figures by message size: throughput in messages and in bytes, latency with its deviation, and what the
//! 2009 paper published beside them.

use super::groups::{View, backend_words, side_words};
use super::rows::load_p99;
use crate::number::counted;
use crate::published::{self, MessagingPaper};
use serde::Serialize;
use std::collections::BTreeMap;
use tilemark_plan::{
    plan::Point,
    workload::{MessagingMeasure, MessagingParameters, Work},
};
use tilemark_record::{
    result::PointResult,
    summary::{LoadFigures, RepeatSummary},
};

/// All of it; nothing where no broker was loaded.
#[derive(Serialize)]
pub(crate) struct Messaging {
    /// Sizes of messages in bytes, rising: ours and the paper's.
    pub(crate) sizes: Vec<u64>,
    /// One line for each backend, tile count and value of what varies beside the size.
    pub(crate) throughput: Vec<ThroughputLine>,
    /// The same.
    pub(crate) latency: Vec<LatencyLine>,
    /// What was published.
    pub(crate) paper: MessagingPaper,
    /// In what the paper's host and ours differ.
    pub(crate) differs: String,
}

/// Throughput by size.
#[derive(Serialize)]
pub(crate) struct ThroughputLine {
    /// Such as `2 tiles`.
    pub(crate) name: String,
    /// In rising size.
    pub(crate) points: Vec<ThroughputPoint>,
}

/// Throughput at one size.
#[derive(Serialize)]
pub(crate) struct ThroughputPoint {
    /// Bytes of a message.
    pub(crate) size: u64,
    /// Messages in and out a second: mean of the kept repeats.
    pub(crate) transfers: f64,
    /// The interval's ends.
    pub(crate) low: Option<f64>,
    /// The interval's ends.
    pub(crate) high: Option<f64>,
    /// Payload in and out, 10^6 bytes a second.
    pub(crate) megabytes: f64,
    /// As the paper takes it: all guests summed, the median of the repeats.
    pub(crate) median_of_sums: f64,
    /// Repeats behind it.
    pub(crate) repeats: u32,
    /// Not to be trusted.
    pub(crate) struck: bool,
}

/// Latency by size.
#[derive(Serialize)]
pub(crate) struct LatencyLine {
    /// Such as `2 tiles`.
    pub(crate) name: String,
    /// In rising size.
    pub(crate) points: Vec<LatencyPoint>,
}

/// Latency at one size, in milliseconds, of all requests of the kept repeats.
#[derive(Serialize)]
pub(crate) struct LatencyPoint {
    /// Bytes of a message.
    pub(crate) size: u64,
    /// Mean.
    pub(crate) mean: f64,
    /// Standard deviation of single messages.
    pub(crate) deviation: Option<f64>,
    /// 99th percentile, with its interval's ends.
    pub(crate) p99: Option<f64>,
    /// As the paper takes it: the repeat whose deviation is the median.
    pub(crate) median_run: Option<MedianRun>,
    /// Not to be trusted.
    pub(crate) struck: bool,
}

/// The repeat whose deviation of seconds is the median.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct MedianRun {
    /// Which.
    pub(crate) repeat: u32,
    /// Its mean.
    pub(crate) mean: f64,
    /// Standard deviation of its seconds' means.
    pub(crate) deviation_of_seconds: f64,
}

impl ThroughputLine {
    /// The figures of messages of so many bytes.
    pub(crate) fn at(&self, size: u64) -> Option<&ThroughputPoint> {
        self.points.iter().find(|point| point.size == size)
    }
}

impl LatencyLine {
    /// The figures of messages of so many bytes.
    pub(crate) fn at(&self, size: u64) -> Option<&LatencyPoint> {
        self.points.iter().find(|point| point.size == size)
    }
}

/// A broker's load at a point.
struct Loaded<'a> {
    result: &'a PointResult,
    name: &'a str,
    parameters: &'a MessagingParameters,
}

/// What is drawn of a broker; `None` where none was loaded.
pub(crate) fn messaging(view: &View) -> Option<Messaging> {
    let loaded: Vec<Loaded> = view
        .groups
        .iter()
        .flat_map(|group| group.points.iter())
        .flat_map(|point| of_point(view, point))
        .collect();
    if loaded.is_empty() {
        return None;
    }
    let mut throughput: BTreeMap<Key, ThroughputLine> = BTreeMap::new();
    let mut latency: BTreeMap<Key, LatencyLine> = BTreeMap::new();
    for one in &loaded {
        let others = others(view, one);
        let order = loaded.iter().position(|before| self::others(view, before) == others).unwrap_or(0);
        let (key, name) = (key(one, order), name(view, one, &others));
        let kept = kept(view, one);
        match one.parameters.measure {
            MessagingMeasure::Throughput => {
                let line = throughput.entry(key).or_insert(ThroughputLine { name, points: Vec::new() });
                line.points.extend(throughput_point(view, one, &kept));
            }
            MessagingMeasure::Latency => {
                let line = latency.entry(key).or_insert(LatencyLine { name, points: Vec::new() });
                line.points.extend(latency_point(view, one, &kept));
            }
        }
    }
    let paper = published::messaging();
    let mut sizes: Vec<u64> =
        loaded.iter().map(|one| one.parameters.size.get()).chain(paper.sizes()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut found = Messaging {
        sizes,
        throughput: throughput.into_values().collect(),
        latency: latency.into_values().collect(),
        differs: differs(view, &paper),
        paper,
    };
    for line in &mut found.throughput {
        line.points.sort_by_key(|point| point.size);
    }
    for line in &mut found.latency {
        line.points.sort_by_key(|point| point.size);
    }
    Some(found)
}

/// Lines stand in the order of backend, side, tiles and load, and then of the plan.
type Key = (tilemark_plan::plan::Backend, Option<tilemark_plan::plan::SideName>, u32, String, usize);

fn key(one: &Loaded, order: usize) -> Key {
    (one.result.backend, one.result.side, one.result.tiles, one.name.to_owned(), order)
}

/// What varies beside what a line shows itself: its load's sizes, and whether throughput or latency was measured.
fn others(view: &View, one: &Loaded) -> Vec<String> {
    let shown = ["size", "measure"].map(|setting| format!("load.{}.messaging.{setting}", one.name));
    let is_shown =
        |name: &str| view.report.plan.scenario.vary.get(name).is_some_and(|vary| shown.contains(&vary.key));
    let others = one.result.vary.iter().filter(|(name, _)| !is_shown(name));
    others.map(|(name, value)| format!("{name} {value}")).collect()
}

fn name(view: &View, one: &Loaded, others: &[String]) -> String {
    let mut name = counted(one.result.tiles.into(), "tile");
    if view.groups.iter().any(|group| group.backend != one.result.backend) {
        name = format!("{name}, {}", backend_words(one.result.backend));
    }
    if let Some(side) = one.result.side {
        name = format!("{name}, {}", side_words(side));
    }
    others.iter().fold(name, |name, other| format!("{name}, {other}"))
}

fn of_point<'a>(view: &View<'a>, point: &'a PointResult) -> Vec<Loaded<'a>> {
    let plan: Option<&Point> = view.report.plan.points.iter().find(|plan| plan.index == point.index);
    let first_tile = plan.into_iter().flat_map(|plan| &plan.loads).filter(|load| load.tile == 1);
    first_tile
        .filter_map(|load| match &load.work {
            Work::Messaging(parameters) => Some(Loaded { result: point, name: &load.name, parameters }),
            _ => None,
        })
        .collect()
}

/// The load's figures in each repeat that counts.
fn kept<'a>(view: &View<'a>, one: &Loaded) -> Vec<(&'a RepeatSummary, &'a LoadFigures)> {
    let voided = |repeat: u32| one.result.repeats_voided.iter().any(|void| void.repeat == repeat);
    let repeats = view.report.repeats.iter().filter(|repeat| repeat.point == one.result.index);
    repeats
        .filter(|repeat| !voided(repeat.repeat))
        .filter_map(|repeat| Some((repeat, repeat.loads.iter().find(|load| load.name == one.name)?)))
        .collect()
}

fn throughput_point(
    view: &View,
    one: &Loaded,
    kept: &[(&RepeatSummary, &LoadFigures)],
) -> Option<ThroughputPoint> {
    let sums: Vec<f64> = kept
        .iter()
        .map(|(_, load)| load.offered as f64 / load.seconds + load.rate())
        .filter(|rate| rate.is_finite())
        .collect();
    if sums.is_empty() {
        return None;
    }
    let transfers = sums.iter().sum::<f64>() / sums.len() as f64;
    let result = one.result.loads.iter().find(|load| load.name == one.name);
    let figure = result.and_then(|load| load.throughput.as_ref()).map(|throughput| throughput.figure);
    // The interval of messages out, at the scale of messages in and out.
    let scaled = |end: Option<f64>| Some(end? * transfers / figure?.value);
    let size = one.parameters.size.get();
    Some(ThroughputPoint {
        size,
        transfers,
        low: scaled(figure.and_then(|figure| figure.low)),
        high: scaled(figure.and_then(|figure| figure.high)),
        megabytes: transfers * size as f64 / 1e6,
        median_of_sums: median(sums.clone())?,
        repeats: u32::try_from(sums.len()).unwrap_or(u32::MAX),
        struck: view.struck(one.result),
    })
}

fn latency_point(view: &View, one: &Loaded, kept: &[(&RepeatSummary, &LoadFigures)]) -> Option<LatencyPoint> {
    let result = one.result.loads.iter().find(|load| load.name == one.name)?;
    Some(LatencyPoint {
        size: one.parameters.size.get(),
        mean: result.latency_ms.mean?,
        deviation: result.latency_ms.deviation,
        p99: load_p99(result).map(|figure| figure.value),
        median_run: median_run(kept),
        struck: view.struck(one.result),
    })
}

/// The repeat in the middle by deviation: of an even count the lower one, since it must be a run that was.
fn median_run(kept: &[(&RepeatSummary, &LoadFigures)]) -> Option<MedianRun> {
    let mut runs: Vec<MedianRun> = kept
        .iter()
        .filter_map(|(repeat, load)| {
            Some(MedianRun {
                repeat: repeat.repeat,
                mean: load.latency_ms.mean?,
                deviation_of_seconds: load.latency_ms.deviation_of_seconds?,
            })
        })
        .collect();
    runs.sort_by(|one, other| one.deviation_of_seconds.total_cmp(&other.deviation_of_seconds));
    runs.get(runs.len().saturating_sub(1) / 2).copied()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Said plainly: no curve of the paper is a mark to reach.
fn differs(view: &View, paper: &MessagingPaper) -> String {
    let host = &view.report.result.provenance;
    format!(
        "Published by {} in {}: {}; each guest {}; the load on a second machine over 10 GbE; Apache Qpid's C++ broker. Here: \
         {}, {} threads, {}; the load on the same machine, no network card between; {}. The curves are side by side \
         to show their shape: hardware, broker and way of loading differ, so their distance says nothing about \
         virtualization.",
        paper.publisher,
        paper.year,
        paper.host,
        paper.guest,
        host.processor,
        host.threads,
        view.backends(),
        brokers(view),
    )
}

fn brokers(view: &View) -> String {
    let of_scenario = view.report.plan.scenario.guest.iter();
    let mut names: Vec<&str> = of_scenario
        .filter(|guest| guest.role == tilemark_plan::scenario::Role::Broker)
        .map(|guest| match guest.broker {
            tilemark_plan::workload::BrokerService::Reference => "Tilemark's reference broker",
            tilemark_plan::workload::BrokerService::Rabbitmq => "RabbitMQ",
            tilemark_plan::workload::BrokerService::QpidBrokerJ => "Apache Qpid Broker-J",
        })
        .collect();
    names.dedup();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_count_lies_between_and_of_nothing_is_none() {
        assert_eq!(median(vec![4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
