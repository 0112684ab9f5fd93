//! What a load has found out.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Figures of a throughput load. Times count from the start barrier to the last receipt.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ThroughputReport {
    /// Messages that publishers sent.
    pub published: u64,
    /// Different messages that subscribers received; in fan-out and topic each subscriber's count.
    pub received: u64,
    /// From the start barrier to the last receipt, s.
    pub elapsed_s: f64,
    /// Published messages a second.
    pub messages_per_s: f64,
    /// Messages in and messages out a second, as the paper counts.
    pub transfers_per_s: f64,
    /// Payload in and out, 10^6 bytes a second.
    pub megabytes_per_s: f64,
    /// Messages that never arrived at a subscriber that should have them.
    pub lost: u64,
    /// Receipts of a message that had arrived before.
    pub duplicated: u64,
    /// Receipts after a later message of the same publisher.
    pub reordered: u64,
    /// Receipts whose stamp or filling is not what was sent.
    pub damaged: u64,
    /// Publishes that the broker refused (`basic.nack`).
    pub refused: u64,
    /// Processor time of all publishers, s.
    pub publishers_cpu_s: f64,
    /// Processor time of all subscribers, s.
    pub subscribers_cpu_s: f64,
    /// Processor time of the whole load, s.
    pub client_cpu_s: f64,
    /// The longest time that a publisher was asked to wait (`connection.blocked`), s.
    pub blocked_s: f64,
    /// Not measured: a message that goes as fast as it can has no intended time of sending. [`crate::latency`] measures it.
    pub latency_ms: Option<LatencyFigures>,
    /// Not measured, for the same reason.
    pub send_lateness_us: Option<LatenessFigures>,
    /// What went wrong without ending the load, such as the names of the first lost messages.
    pub errors: Vec<String>,
    /// Why the broker ended the load before its end, where it did; it is the first of the errors too.
    #[serde(skip)]
    pub ended_by_broker: Option<String>,
}

/// Figures of a latency load.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LatencyReport {
    /// Messages in the schedule.
    pub scheduled: u64,
    /// Messages that were sent; fewer than scheduled only when the load was ended early.
    pub published: u64,
    /// Different messages that were received.
    pub received: u64,
    /// Messages a second that were asked for.
    pub offered_per_s: f64,
    /// Messages a second from the first intended time to the last receipt.
    pub messages_per_s: f64,
    /// Messages in and messages out a second, in the same time.
    pub transfers_per_s: f64,
    /// Payload in and out, 10^6 bytes a second.
    pub megabytes_per_s: f64,
    /// Intended time of sending to receipt; nothing when no message was received.
    pub latency_ms: Option<LatencyFigures>,
    /// Intended time of sending to sending: the load's own delay, contained in the latency. Nothing when none was sent.
    pub send_lateness_us: Option<LatenessFigures>,
    /// By second of the intended time of sending.
    pub seconds: Vec<SecondFigures>,
    /// Messages that never arrived.
    pub lost: u64,
    /// Receipts of a message that had arrived before.
    pub duplicated: u64,
    /// Receipts after a later message.
    pub reordered: u64,
    /// Receipts whose stamp or filling is not what was sent.
    pub damaged: u64,
    /// Processor time of the whole load, s.
    pub client_cpu_s: f64,
    /// What went wrong without ending the load.
    pub errors: Vec<String>,
    /// Why the broker ended the load before its end, where it did; it is the first of the errors too.
    #[serde(skip)]
    pub ended_by_broker: Option<String>,
    /// Right receipts that came within the measurement's time, also of messages of the warm-up.
    #[serde(skip)]
    pub received_in_time: u64,
    /// The distributions behind `seconds`, ns; merged they are the whole.
    #[serde(skip)]
    pub histograms: Vec<Histogram<u64>>,
    /// How late the messages of each second were sent, ns.
    #[serde(skip)]
    pub lateness_histograms: Vec<Histogram<u64>>,
    /// What went wrong with the messages of each second; what did in the warm-up is in none.
    #[serde(skip)]
    pub troubles: Vec<SecondTroubles>,
}

/// What went wrong with the messages that were to be sent in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SecondTroubles {
    /// Messages that never arrived.
    pub lost: u64,
    /// Receipts of a message that had arrived before.
    pub duplicated: u64,
    /// Receipts after a later message.
    pub reordered: u64,
    /// Receipts whose stamp or filling is not what was sent: by the second of the receipt, for nothing else is certain.
    pub damaged: u64,
}

/// A distribution of latencies, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the statistics")]
pub struct LatencyFigures {
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

/// A distribution of lateness, us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are the statistics")]
pub struct LatenessFigures {
    pub mean: f64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

/// One second of the time line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondFigures {
    /// Counts from 0, by intended time of sending.
    pub second: u64,
    /// Messages of that second that were received.
    pub received: u64,
    /// Mean latency, ms; like those below nothing when none was received.
    pub mean_ms: Option<f64>,
    /// Median latency, ms.
    pub p50_ms: Option<f64>,
    /// 99th percentile, ms.
    pub p99_ms: Option<f64>,
    /// The largest, ms.
    pub max_ms: Option<f64>,
}

const NS_PER_MS: f64 = 1e6;
const NS_PER_US: f64 = 1e3;

#[allow(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
fn quantile(histogram: &Histogram<u64>, quantile: f64, unit: f64) -> f64 {
    histogram.value_at_quantile(quantile) as f64 / unit
}

impl LatencyFigures {
    /// Of a histogram in ns; nothing of an empty one.
    #[allow(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            mean: histogram.mean() / NS_PER_MS,
            deviation: histogram.stdev() / NS_PER_MS,
            min: histogram.min() as f64 / NS_PER_MS,
            p50: quantile(histogram, 0.5, NS_PER_MS),
            p90: quantile(histogram, 0.9, NS_PER_MS),
            p99: quantile(histogram, 0.99, NS_PER_MS),
            p999: quantile(histogram, 0.999, NS_PER_MS),
            max: histogram.max() as f64 / NS_PER_MS,
        })
    }
}

impl LatenessFigures {
    /// Of a histogram in ns; nothing of an empty one.
    #[allow(clippy::cast_precision_loss, reason = "2^53 ns are 104 days")]
    pub fn of(histogram: &Histogram<u64>) -> Option<Self> {
        (!histogram.is_empty()).then(|| Self {
            mean: histogram.mean() / NS_PER_US,
            p50: quantile(histogram, 0.5, NS_PER_US),
            p99: quantile(histogram, 0.99, NS_PER_US),
            max: histogram.max() as f64 / NS_PER_US,
        })
    }
}

impl SecondFigures {
    /// Of the histogram of one second, in ns.
    pub fn of(second: u64, histogram: &Histogram<u64>) -> Self {
        let figures = LatencyFigures::of(histogram);
        Self {
            second,
            received: histogram.len(),
            mean_ms: figures.map(|figures| figures.mean),
            p50_ms: figures.map(|figures| figures.p50),
            p99_ms: figures.map(|figures| figures.p99),
            max_ms: figures.map(|figures| figures.max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_nothing_and_not_zero() {
        let mut histogram = Histogram::new(3).unwrap();
        assert_eq!((LatencyFigures::of(&histogram), LatenessFigures::of(&histogram)), (None, None));
        let second = SecondFigures::of(7, &histogram);
        assert_eq!((second.received, second.mean_ms, second.max_ms), (0, None, None));
        histogram.record(2_000_000).unwrap();
        assert!(LatencyFigures::of(&histogram).is_some_and(|figures| (figures.p50 - 2.0).abs() < 0.01));
    }
}
