//! What one repeat is compared by: what it got done, how long that took, and the processor time that it took.

use tilemark_record::summary::{LoadFigures, RepeatSummary};

use super::gate::admissible_p99;

/// Processor time that guests took for one right answer, in parts of the host times seconds.
pub(crate) fn processor_per_answer(repeat: &RepeatSummary) -> Option<f64> {
    let processor = &repeat.host.processor;
    let rate: f64 = repeat.loads.iter().map(LoadFigures::rate).sum();
    positive((processor.guest_work + processor.guest_overhead) / rate)
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
