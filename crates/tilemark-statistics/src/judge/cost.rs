//! What virtualization costs: guests over their native twin, in the same blocks, at the same step.

use std::collections::BTreeMap;

use tilemark_plan::plan::{Backend, Plan, Point};
use tilemark_record::result::{Answer, Cost};

use super::blocks::{FigureOf, RepeatBlock, figures, whole_blocks};
use super::gate::achieved_fraction;
use super::measured::MeasuredPoint;
use super::notes::Notes;
use super::repeat_figures::{p99, processor_per_answer, throughput};
use crate::ratio::ratio;
use crate::sentence;
use tilemark_units::counted;

/// What no twin can be made equal in.
const UNEQUAL: [&str; 2] = [
    "all twins share the host's one kernel and page cache, where each guest has its own",
    "a twin's memory is limited only where the kernel offers a memory controller",
];

/// Why the p99 ratio at the answer of a search is no constant of virtualization.
const EDGE: &str = "the guests are at their capacity and the twin is far from its own, so the ratio of p99 also shows how close each is to its limit";

/// The cost at the largest step that guests and twins were both measured at; of a search, at its answer: what broke was
/// overloaded. Only for kvm: what an emulator costs says nothing about virtualization.
pub(crate) fn cost(
    plan: &Plan,
    measured: &[MeasuredPoint],
    answer: &Answer,
    missing: &mut BTreeMap<String, String>,
) -> Option<Cost> {
    let headline = plan.scenario.headline.as_deref()?;
    let is_wanted = |point: &Point| plan.search.is_none() || Some(point.tiles) == answer.holds;
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
    let whole = whole_blocks(&pair.twin.kept, &pair.guests.kept);
    let served: Vec<RepeatBlock> = whole.iter().filter_map(|block| block.served(headline)).collect();
    let mut notes = Notes { name: "cost".to_owned(), missing };
    let mut of = |what: &str, figure: FigureOf| {
        let found = figures(&served, figure).and_then(|blocks| ratio(&blocks, plan.seed));
        notes.kept(what, found).map(Into::into)
    };
    let mut cost = Cost {
        tiles: pair.guests.point.tiles,
        processor: of("processor", &processor_per_answer),
        p99: of("p99", &|repeat| p99(repeat, headline)),
        throughput: None,
        unequal: UNEQUAL.map(str::to_owned).to_vec(),
        sentence: String::new(),
    };
    if !pair.served_what_was_asked(headline) {
        cost.throughput = of("throughput", &|repeat| throughput(repeat, headline));
    } else {
        let why = "both served the full rate, so throughput shows no cost";
        missing.insert("cost.throughput".to_owned(), why.to_owned());
    }
    let lost = whole.len() - served.len();
    if lost > 0 {
        cost.unequal.push(format!(
            "in {} one of the two served nothing: they are not in the ratios",
            counted(u32::try_from(lost).unwrap_or(u32::MAX), "block")
        ));
    }
    // A search that ended for another reason compared them where the guests may be far from their limit.
    let at_capacity = plan.search.is_some() && answer.breaks.is_some();
    if at_capacity {
        cost.unequal.push(EDGE.to_owned());
    }
    cost.sentence = sentence::cost(&cost, at_capacity);
    Some(cost)
}

struct Pair<'m, 'a> {
    twin: &'m MeasuredPoint<'a>,
    guests: &'m MeasuredPoint<'a>,
}

impl Pair<'_, '_> {
    /// Whether both were asked at a rate and served what was asked. Their throughput is then that rate, whatever they cost.
    fn served_what_was_asked(&self, headline: &str) -> bool {
        let all_served = |of: &MeasuredPoint| {
            let asked = of.point.gate.achieved.get();
            of.load(headline).iter().all(|load| achieved_fraction(load).is_some_and(|part| part >= asked))
        };
        all_served(self.twin) && all_served(self.guests)
    }
}
