//! Repeats with too few requests for a p99 of their own, and how long they would have to be measured.

use tilemark_record::summary::LoadFigures;

use super::repeat_figures::load_of;
use super::side_step::SideStep;
use crate::percentile::{P99_REQUESTS_MIN, P99_REQUESTS_PLANNED, percentile_admissible};

/// A load that had latencies in every repeat of a step, and in some of them too few for a p99.
pub(crate) struct FewRequests<'a> {
    /// The fewest of a repeat.
    fewest: u64,
    /// What they are called.
    unit: &'a str,
    /// Seconds of measurement that give each repeat enough.
    seconds: u64,
}

impl<'a> FewRequests<'a> {
    /// Of the repeats in which the load was served; nothing where each of them has enough.
    pub(crate) fn at(step: &SideStep<'_, 'a>, load: &str) -> Option<Self> {
        let served = step.served(load);
        let served: Vec<&LoadFigures> =
            served.into_iter().filter_map(|repeat| load_of(repeat, load)).collect();
        let least = served.iter().min_by_key(|figures| figures.latency_ms.n)?;
        let fewest = least.latency_ms.n;
        if fewest == 0 || percentile_admissible(fewest, 0.99).is_ok() {
            return None;
        }
        // Sides may be measured for different times, so the slowest is not always the one with the fewest.
        let each = served.iter().map(|figures| figures.seconds / figures.latency_ms.n as f64);
        let seconds = (each.fold(0.0, f64::max) * P99_REQUESTS_PLANNED as f64).ceil() as u64;
        Some(Self { fewest, unit: &least.unit, seconds })
    }

    /// Why there is no p99 of each repeat.
    pub(crate) fn reason(&self) -> String {
        let Self { fewest, unit, .. } = self;
        format!("the fewest {unit} of a repeat are {fewest}, and a p99 of its own needs {P99_REQUESTS_MIN}")
    }

    /// What gives every repeat one.
    pub(crate) fn remedy(&self) -> String {
        format!("measure longer (`--set measure.length={}s`)", self.seconds)
    }
}
