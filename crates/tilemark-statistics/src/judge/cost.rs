//! What virtualization costs: guests over their native twin, in the same blocks, at the same step.

use std::collections::BTreeMap;

use tilemark_plan::plan::{Backend, Plan, Point};
use tilemark_record::result::{Answer, Cost};

use super::blocks::{FigureOf, RepeatBlock, figures, whole_blocks};
use super::gate::achieved_fraction;
use super::measured::MeasuredPoint;
use super::notes::Notes;
use super::repeat_figures::{
    NO_ANSWERS, NO_LATENCY, ONE_FIGURE, adds_answers, load_of, p99, processor_per_answer, reports_no_latency,
    throughput,
};
use super::side_step::{SideStep, decisive};
use crate::figure::Missing;
use crate::ratio::ratio;
use crate::sentence::{self, CostStep};
use tilemark_units::counted;

/// What no twin can be made equal in.
const UNEQUAL: [&str; 2] = [
    "all twins share the host's one kernel and page cache, where each guest has its own",
    "a twin's memory is limited only where the kernel offers a memory controller",
];

/// Why a ratio of throughputs would show no cost.
const FULL_RATE: &str = "both served the full rate, so throughput shows no cost";

/// Why the p99 ratio at the answer of a search is no constant of virtualization.
const EDGE: &str = "the guests are at their capacity and the twin is far from its own, so the ratio of p99 also shows how close each is to its limit";

/// The cost at the largest step that guests and twins both hold, else at the smallest that both were measured at; of a search, at its
/// answer. Beyond what holds, a ratio is that of two queues. Only for kvm: what an emulator costs says nothing about virtualization.
pub(crate) fn cost(
    plan: &Plan,
    measured: &[MeasuredPoint],
    answer: &Answer,
    missing: &mut BTreeMap<String, String>,
) -> Option<Cost> {
    let headline = plan.scenario.headline.as_deref()?;
    let steps = match steps(plan, measured, answer) {
        Ok(steps) => steps,
        Err(reason) => {
            missing.insert("cost".to_owned(), reason);
            return None;
        }
    };
    let pair = decisive(&steps).map(|step| Pair { twin: step.a[0], guests: step.b[0] })?;
    let whole = whole_blocks(&pair.twin.kept, &pair.guests.kept);
    let served: Vec<RepeatBlock> = whole.iter().filter_map(|block| block.served(headline)).collect();
    let load = served.first().and_then(|block| load_of(block.b[0], headline));
    let has_answers = served.iter().flat_map(|block| block.a.iter().chain(&block.b)).all(|r| adds_answers(r));
    let mut notes = Notes { name: "cost".to_owned(), missing };
    let mut of = |what: &str, none: Option<&str>, figure: FigureOf| {
        let blocks = none.map_or_else(|| figures(&served, figure), |reason| Err(Missing::because(reason)));
        notes.kept(what, blocks.and_then(|blocks| ratio(&blocks, plan.seed))).map(Into::into)
    };
    let no_answers = (!has_answers).then_some(NO_ANSWERS);
    let no_latency = load.filter(|load| reports_no_latency(load)).map(|_| NO_LATENCY);
    let printed = load.and_then(|load| load.figure.as_ref());
    let full_rate = pair.served_what_was_asked(headline).then_some(FULL_RATE);
    let of_command = printed.map(|_| ONE_FIGURE);
    let mut cost = Cost {
        tiles: pair.guests.point.tiles,
        processor: of("processor", no_answers, &processor_per_answer),
        p99: of("p99", no_latency, &|repeat| p99(repeat, headline)),
        throughput: of("throughput", of_command.or(full_rate), &|repeat| throughput(repeat, headline)),
        figure: printed.and_then(|_| of("figure", None, &|repeat| throughput(repeat, headline))),
        unequal: UNEQUAL.map(str::to_owned).to_vec(),
        sentence: String::new(),
    };
    let lost = whole.len() - served.len();
    if lost > 0 {
        cost.unequal.push(format!(
            "in {} one of the two served nothing: they are not in the ratios",
            counted(u32::try_from(lost).unwrap_or(u32::MAX), "block")
        ));
    }
    let step = pair.step(plan, answer);
    if step == CostStep::AtCapacity {
        cost.unequal.push(EDGE.to_owned());
    }
    cost.sentence = sentence::cost(&cost, step, printed.map(|figure| figure.better));
    Some(cost)
}

/// The steps that guests and their twin were both measured at, or why there is no cost.
fn steps<'m, 'a>(
    plan: &Plan,
    measured: &'m [MeasuredPoint<'a>],
    answer: &Answer,
) -> Result<Vec<SideStep<'m, 'a>>, String> {
    let is_wanted = |point: &Point| plan.search.is_none() || Some(point.tiles) == answer.holds;
    let guests = measured
        .iter()
        .filter(|point| point.counts && point.point.backend == Backend::Kvm && is_wanted(point.point));
    let steps = guests.filter_map(|point| {
        let twin = measured.iter().find(|other| other.is_twin_of(point, Backend::Native))?;
        let is_measured = !point.kept.is_empty() && !twin.kept.is_empty();
        is_measured.then(|| SideStep { a: vec![twin], b: vec![point] })
    });
    let steps: Vec<SideStep> = steps.collect();
    let Some(first) = steps.first() else {
        return Err("guests and their native twin were not measured at one step".to_owned());
    };
    let varied: Vec<&str> = first.first().point.vary.keys().map(String::as_str).collect();
    if varied.is_empty() {
        return Ok(steps);
    }
    let verb = if varied.len() == 1 { "varies" } else { "vary" };
    Err(format!(
        "{} {verb}, and each value has a cost of its own: read each point, or fix one value with `--set`",
        varied.join(" and ")
    ))
}

struct Pair<'m, 'a> {
    twin: &'m MeasuredPoint<'a>,
    guests: &'m MeasuredPoint<'a>,
}

impl Pair<'_, '_> {
    /// Where this is on the ladders of both.
    fn step(&self, plan: &Plan, answer: &Answer) -> CostStep {
        if plan.search.is_some() {
            // One that ended for another reason compared them where the guests may be far from their limit.
            return if answer.breaks.is_some() { CostStep::AtCapacity } else { CostStep::Held };
        }
        match (self.guests.gate.holds(), self.twin.gate.holds()) {
            (Some(true), Some(true)) => CostStep::Held,
            (Some(false), Some(false)) => CostStep::BothBreak,
            (Some(false), _) => CostStep::GuestsBreak,
            (_, Some(false)) => CostStep::TwinsBreak,
            _ => CostStep::Unknown,
        }
    }

    /// Whether both were asked at a rate and served what was asked. Their throughput is then that rate, whatever they cost.
    fn served_what_was_asked(&self, headline: &str) -> bool {
        let all_served = |of: &MeasuredPoint| {
            let asked = of.point.gate.achieved.get();
            of.load(headline).iter().all(|load| achieved_fraction(load).is_some_and(|part| part >= asked))
        };
        all_served(self.twin) && all_served(self.guests)
    }
}
