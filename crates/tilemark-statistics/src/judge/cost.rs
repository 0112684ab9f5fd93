//! What virtualization costs: guests over their native twin, in the same blocks, at the same step.

use std::collections::BTreeMap;

use tilemark_plan::plan::{Backend, Plan, Point};
use tilemark_record::result::Cost;
use tilemark_record::summary::{LoadFigures, RepeatSummary};

use super::gate::admissible_p99;
use super::measured::MeasuredPoint;
use super::points::Notes;
use crate::figure::Missing;
use crate::permutation::Block;
use crate::ratio::ratio;
use crate::sentence;

/// What no twin can be made equal in.
const UNEQUAL: [&str; 2] = [
    "all twins share the host's one kernel and page cache, where each guest has its own",
    "a twin's memory is limited only where the kernel offers a memory controller",
];

/// The cost at the largest step that guests and twins were both measured at; of a search, at its answer: what broke was
/// overloaded. Only for kvm: what an emulator costs says nothing about virtualization.
pub(crate) fn cost(
    plan: &Plan,
    measured: &[MeasuredPoint],
    holds: Option<u32>,
    missing: &mut BTreeMap<String, String>,
) -> Option<Cost> {
    let headline = plan.scenario.headline.as_deref()?;
    let is_wanted = |point: &Point| plan.search.is_none() || Some(point.tiles) == holds;
    let guests = measured
        .iter()
        .filter(|point| point.counts && point.point.backend == Backend::Kvm && is_wanted(point.point));
    let pairs = guests.filter_map(|point| {
        let twin = measured.iter().find(|other| other.is_twin_of(point, Backend::Native))?;
        (!point.kept.is_empty() && !twin.kept.is_empty()).then_some(Pair { twin, guests: point })
    });
    let Some(pair) = pairs.max_by_key(|pair| pair.guests.point.tiles) else {
        missing.insert(
            "cost".to_owned(),
            "guests and their native twin were not measured at one step".to_owned(),
        );
        return None;
    };
    let mut notes = Notes { name: "cost".to_owned(), missing };
    let mut of = |what: &str, figure: &dyn Fn(&RepeatSummary) -> Option<f64>| {
        let blocks = in_blocks(&pair.twin.kept, &pair.guests.kept, figure);
        notes.kept(what, blocks.and_then(|blocks| ratio(&blocks, plan.seed))).map(Into::into)
    };
    let mut cost = Cost {
        tiles: pair.guests.point.tiles,
        processor: of("processor", &processor_per_answer),
        p99: of("p99", &|repeat| p99(repeat, headline)),
        throughput: of("throughput", &|repeat| throughput(repeat, headline)),
        unequal: UNEQUAL.map(str::to_owned).to_vec(),
        sentence: String::new(),
    };
    cost.sentence = sentence::cost(&cost);
    Some(cost)
}

struct Pair<'m, 'a> {
    twin: &'m MeasuredPoint<'a>,
    guests: &'m MeasuredPoint<'a>,
}

/// Repeats of both, block by block; a block that lost one of the two is left out.
pub(crate) fn in_blocks(
    a: &[&RepeatSummary],
    b: &[&RepeatSummary],
    figure: &dyn Fn(&RepeatSummary) -> Option<f64>,
) -> Result<Vec<Block>, Missing> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    for repeat in a {
        blocks.entry(repeat.block).or_default().a.extend(figure(repeat));
    }
    for repeat in b {
        blocks.entry(repeat.block).or_default().b.extend(figure(repeat));
    }
    let whole: Vec<Block> =
        blocks.into_values().filter(|block| !block.a.is_empty() && !block.b.is_empty()).collect();
    if whole.is_empty() { Err(Missing::because("no block has this figure of both")) } else { Ok(whole) }
}

/// Processor time that guests took for one right answer, in parts of the host times seconds.
pub(crate) fn processor_per_answer(repeat: &RepeatSummary) -> Option<f64> {
    let processor = &repeat.host.processor;
    let rates = repeat.loads.iter().map(LoadFigures::rate);
    positive((processor.guest_work + processor.guest_overhead) / rates.sum::<f64>())
}

pub(crate) fn p99(repeat: &RepeatSummary, load: &str) -> Option<f64> {
    repeat
        .loads
        .iter()
        .find(|figures| figures.name == load)
        .and_then(|figures| admissible_p99(&figures.latency_ms))
}

pub(crate) fn p50(repeat: &RepeatSummary, load: &str) -> Option<f64> {
    repeat.loads.iter().find(|figures| figures.name == load)?.latency_ms.p50
}

pub(crate) fn throughput(repeat: &RepeatSummary, load: &str) -> Option<f64> {
    let figures = repeat.loads.iter().find(|figures| figures.name == load)?;
    positive(figures.rate())
}

fn positive(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then_some(value)
}
