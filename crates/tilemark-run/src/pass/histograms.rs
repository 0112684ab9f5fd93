//! Histograms of latency and lateness, and their percentiles. Pure.

use hdrhistogram::Histogram;
use tilemark_record::{
    histogram::BadHistogram,
    result::{LatencyMs, LatenessUs},
};
use tilemark_statistics::percentile_admissible;

/// Three digits: a value is kept within one part in a thousand.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three significant digits are allowed")
}

/// Adds a part to a sum.
pub(crate) fn add(sum: &mut Histogram<u64>, part: &Histogram<u64>) -> Result<(), BadHistogram> {
    sum.auto(true);
    sum.add(part).map_err(BadHistogram::because)
}

/// The latency at a quantile; nothing without requests.
pub(crate) fn ms_at(histogram: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_quantile(quantile) as f64 / 1e6)
}

/// Latency of a histogram in nanoseconds. Percentiles with fewer than 20 requests beyond them are left out.
pub(crate) fn latency_ms(histogram: &Histogram<u64>) -> LatencyMs {
    let at = |fraction| {
        percentile_admissible(histogram.len(), fraction).ok().and_then(|()| ms_at(histogram, fraction))
    };
    LatencyMs {
        n: histogram.len(),
        mean: (!histogram.is_empty()).then(|| histogram.mean() / 1e6),
        deviation: (histogram.len() > 1).then(|| histogram.stdev() / 1e6),
        deviation_of_seconds: None,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: (!histogram.is_empty()).then(|| histogram.max() as f64 / 1e6),
    }
}

/// Lateness of a histogram in nanoseconds. Percentiles with fewer than 20 requests beyond them are left out.
pub(crate) fn lateness_us(histogram: &Histogram<u64>) -> LatenessUs {
    let at = |fraction| {
        percentile_admissible(histogram.len(), fraction)
            .ok()
            .map(|()| histogram.value_at_quantile(fraction) as f64 / 1e3)
    };
    LatenessUs {
        p50: at(0.5),
        p99: at(0.99),
        p999: at(0.999),
        max: (!histogram.is_empty()).then(|| histogram.max() as f64 / 1e3),
    }
}
