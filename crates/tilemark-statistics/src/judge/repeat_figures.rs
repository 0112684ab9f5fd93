//! What one repeat is compared by: what it got done, how long that took, and the processor time that it took.

use tilemark_plan::scenario::LoopKind;
use tilemark_record::summary::{LoadFigures, RepeatSummary};

use super::gate::{admissible_p99, is_without_latency};

/// Why there is no processor time per answer.
pub(crate) const NO_ANSWERS: &str =
    "the answers of its loads are of several kinds, or one figure of a command, and are not added";

/// Why there is no throughput.
pub(crate) const ONE_FIGURE: &str = "its load has one figure in place of a throughput";

/// Why there is no percentile.
pub(crate) const NO_LATENCY: &str = "its load reports no latency";

/// Processor time that guests took for one right answer, in parts of the host times seconds. Nothing where answers do not add up.
pub(crate) fn processor_per_answer(repeat: &RepeatSummary) -> Option<f64> {
    let processor = &repeat.host.processor;
    let rate: f64 = repeat.loads.iter().map(LoadFigures::rate).sum();
    positive((processor.guest_work + processor.guest_overhead) / rate).filter(|_| adds_answers(repeat))
}

/// Whether the answers of all loads add up to a number that processor time can be divided by. The one figure of a command counts none.
/// Answers of several kinds cost more or less each, so that another mix of them would look like another cost: only loads that are all
/// sent at a rate have the mix that was planned.
pub(crate) fn adds_answers(repeat: &RepeatSummary) -> bool {
    let loads = &repeat.loads;
    let is_one_kind = loads.windows(2).all(|two| (two[0].role, &two[0].unit) == (two[1].role, &two[1].unit));
    let is_planned_mix = loads.iter().all(|load| load.loop_kind == LoopKind::Open);
    (is_one_kind || is_planned_mix) && loads.iter().all(|load| load.figure.is_none())
}

pub(crate) fn p99(repeat: &RepeatSummary, load: &str) -> Option<f64> {
    admissible_p99(&load_of(repeat, load)?.latency_ms)
}

pub(crate) fn p50(repeat: &RepeatSummary, load: &str) -> Option<f64> {
    load_of(repeat, load)?.latency_ms.p50
}

/// The rate of its right answers, or the one figure of its command.
pub(crate) fn throughput(repeat: &RepeatSummary, load: &str) -> Option<f64> {
    positive(load_of(repeat, load)?.rate())
}

/// Whether a load that was served reports no latency: then it has no percentile, however long it is measured.
pub(crate) fn reports_no_latency(load: &LoadFigures) -> bool {
    load.figure.is_some() || is_without_latency(load)
}

pub(crate) fn load_of<'r>(repeat: &'r RepeatSummary, load: &str) -> Option<&'r LoadFigures> {
    repeat.loads.iter().find(|figures| figures.name == load)
}

fn positive(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then_some(value)
}
