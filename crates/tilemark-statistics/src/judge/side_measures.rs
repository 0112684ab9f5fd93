//! What two sides are compared by at one step. What a load cannot have is left out: a measure without a figure would keep the sides from
//! every outcome, and no number of repeats would give it one.

use tilemark_plan::scenario::LoopKind;
use tilemark_record::summary::LoadFigures;

use super::blocks::{FigureOf, RepeatBlock, figures, serves};
use super::few_requests::FewRequests;
use super::measured::MeasuredPoint;
use super::pairing::Pairing;
use super::repeat_figures::{
    adds_answers, load_of, p50, p99, processor_per_answer, reports_no_latency, throughput,
};
use super::side_step::SideStep;
use crate::compare::{BetterWhen, LEAST_CHANGE, LEAST_CHANGE_OF_TAIL, Measure, Rank};
use crate::figure::Missing;
use crate::moments::geometric_mean;
use crate::permutation::Block;

/// In which unit a measure's values are shown.
pub(crate) struct ValueScale {
    pub(crate) unit: String,
    /// How many of them a value of the judge is.
    pub(crate) factor: f64,
}

impl ValueScale {
    fn of(unit: impl Into<String>) -> Self {
        Self { unit: unit.into(), factor: 1.0 }
    }
}

/// The measures of a step. A closed loop shows a slower side by what it gets done, an open loop by how long it takes; then the tail, then
/// processor time. `decides`: whether they decide the comparison.
pub(crate) fn measures(
    step: &SideStep,
    headline: &str,
    pairing: Pairing,
    decides: bool,
) -> Vec<(Measure, ValueScale)> {
    let of = Compared { step, headline, pairing, decides };
    let served = step.served(headline);
    let loads: Vec<&LoadFigures> = served.iter().filter_map(|repeat| load_of(repeat, headline)).collect();
    let kept = step.all().find_map(|point| point.kept.first());
    let load = loads.first().copied().or_else(|| load_of(kept?, headline));
    let is_closed = load.is_some_and(|load| load.loop_kind == LoopKind::Closed);
    let has_latency = loads.is_empty() || !loads.iter().all(|load| reports_no_latency(load));
    let has_answers = served.iter().all(|repeat| adds_answers(repeat));
    let rate = Some(of.rate(load, is_closed));
    let median = has_latency.then(|| of.median(!is_closed));
    let tail = has_latency.then(|| of.tail());
    let processor = has_answers.then(|| of.processor());
    let (first, last) = if is_closed { (rate, median) } else { (median, rate) };
    [first, tail, processor, last].into_iter().flatten().collect()
}

/// What is compared, and where.
struct Compared<'s, 'm, 'a> {
    step: &'s SideStep<'m, 'a>,
    headline: &'s str,
    pairing: Pairing,
    decides: bool,
}

impl Compared<'_, '_, '_> {
    /// `is_first`: whether it is one of those that decide a comparison.
    fn measure(&self, name: &str, is_first: bool, better_when: BetterWhen, figure: FigureOf) -> Measure {
        Measure {
            name: format!("{name} {}", self.step.place()),
            better_when,
            rank: if is_first && self.decides { Rank::Primary } else { Rank::Secondary },
            is_tail: false,
            least_change: LEAST_CHANGE,
            margin: self.step.first().point.measure.margin.get(),
            blocks: blocks(self.step, self.headline, self.pairing, figure),
        }
    }

    /// What the load gets done, or the one figure of its command.
    fn rate(&self, load: Option<&LoadFigures>, is_first: bool) -> (Measure, ValueScale) {
        let figure = load.and_then(|load| load.figure.as_ref());
        let (what, better) =
            figure.map_or(("throughput", BetterWhen::Higher), |figure| ("figure", figure.better.into()));
        let name = format!("{} {what}", self.headline);
        let rate = self.measure(&name, is_first, better, &|repeat| throughput(repeat, self.headline));
        (rate, ValueScale::of(load.map(LoadFigures::unit_of_rate).unwrap_or_default()))
    }

    fn median(&self, is_first: bool) -> (Measure, ValueScale) {
        let name = format!("{} p50", self.headline);
        let median = self.measure(&name, is_first, BetterWhen::Lower, &|repeat| p50(repeat, self.headline));
        (median, ValueScale::of("ms"))
    }

    fn tail(&self) -> (Measure, ValueScale) {
        let name = format!("{} p99", self.headline);
        let all = self.measure(&name, true, BetterWhen::Lower, &|repeat| p99(repeat, self.headline));
        let why_none = |missing| {
            let few = FewRequests::at(self.step, self.headline);
            few.map_or(missing, |few| Missing::because(few.reason()))
        };
        let tail = Measure {
            is_tail: true,
            least_change: LEAST_CHANGE_OF_TAIL,
            margin: self.step.first().point.measure.margin_p99.get(),
            blocks: all.blocks.map_err(why_none),
            ..all
        };
        (tail, ValueScale::of("ms"))
    }

    fn processor(&self) -> (Measure, ValueScale) {
        let name = "processor time per answer";
        let processor = self.measure(name, true, BetterWhen::Lower, &processor_per_answer);
        (processor, ValueScale { unit: "ms of the host".to_owned(), factor: 1_000.0 })
    }
}

/// A figure of the repeats that served something; those that did not are counted among the failures.
fn blocks(
    step: &SideStep,
    headline: &str,
    pairing: Pairing,
    figure: FigureOf,
) -> Result<Vec<Block>, Missing> {
    if pairing == Pairing::Runs {
        return Ok(vec![Block {
            a: of_runs(&step.a, headline, figure)?,
            b: of_runs(&step.b, headline, figure)?,
        }]);
    }
    let whole = step.blocks(pairing, |point| point.kept.clone());
    let served: Vec<RepeatBlock> = whole.iter().filter_map(|block| block.served(headline)).collect();
    figures(&served, figure)
}

/// One value for each run: the mean of its repeats on logarithms.
fn of_runs(runs: &[&MeasuredPoint], headline: &str, figure: FigureOf) -> Result<Vec<f64>, Missing> {
    let of_run = |run: &&MeasuredPoint| {
        let served = run.kept.iter().filter(|repeat| serves(repeat, headline));
        let values: Option<Vec<f64>> = served.map(|repeat| figure(repeat)).collect();
        values.and_then(|values| geometric_mean(&values))
    };
    let values: Option<Vec<f64>> = runs.iter().map(of_run).collect();
    values.ok_or_else(|| Missing::because("a run does not have it in every repeat that counts"))
}
