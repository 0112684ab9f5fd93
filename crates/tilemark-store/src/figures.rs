//! Times and counts of one client, and of all of them together.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Steps whose time is kept. `Order` is the whole visit, from its intended start, without the pause after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    Login,
    NewCustomer,
    Browse,
    Purchase,
    Restock,
    Order,
}

impl Step {
    const ALL: [Step; 6] =
        [Step::Login, Step::NewCustomer, Step::Browse, Step::Purchase, Step::Restock, Step::Order];

    fn name(self) -> &'static str {
        match self {
            Step::Login => "login",
            Step::NewCustomer => "new_customer",
            Step::Browse => "browse",
            Step::Purchase => "purchase",
            Step::Restock => "restock",
            Step::Order => "order",
        }
    }
}

/// Longest time that is distinguished; a longer one counts as this.
const LONGEST_US: u64 = 3_600_000_000;

/// A histogram of microseconds with three exact digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, 3).expect("fixed bounds are valid")
}

/// What one client measured after the warm-up. Nothing here allocates while it is recorded.
pub(crate) struct Figures {
    steps: [Histogram<u64>; 6],
    lateness: Histogram<u64>,
    /// Committed orders by the second in which they ended.
    pub(crate) committed: Vec<u32>,
    pub(crate) orders: u64,
    pub(crate) rollbacks: u64,
    pub(crate) retries: u64,
    pub(crate) errors: BTreeMap<String, u64>,
}

impl Figures {
    pub(crate) fn new(measured_s: u64) -> Self {
        Self {
            steps: std::array::from_fn(|_| histogram()),
            lateness: histogram(),
            committed: vec![0; measured_s as usize],
            orders: 0,
            rollbacks: 0,
            retries: 0,
            errors: BTreeMap::new(),
        }
    }

    pub(crate) fn time(&mut self, step: Step, took: Duration) {
        self.steps[step as usize].saturating_record(micros(took));
    }

    pub(crate) fn late(&mut self, by: Duration) {
        self.lateness.saturating_record(micros(by));
    }

    pub(crate) fn error(&mut self, message: String) {
        *self.errors.entry(message).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: &Figures) {
        for (mine, theirs) in
            self.steps.iter_mut().chain([&mut self.lateness]).zip(other.steps.iter().chain([&other.lateness]))
        {
            mine.add(theirs).expect("both histograms have the same bounds");
        }
        for (mine, theirs) in self.committed.iter_mut().zip(&other.committed) {
            *mine += theirs;
        }
        self.orders += other.orders;
        self.rollbacks += other.rollbacks;
        self.retries += other.retries;
        for (message, count) in &other.errors {
            *self.errors.entry(message.clone()).or_default() += count;
        }
    }

    /// Latencies of all steps that happened, in milliseconds.
    pub(crate) fn latency_ms(&self) -> BTreeMap<&'static str, Latency> {
        let steps = Step::ALL.iter().zip(&self.steps);
        steps.filter_map(|(step, times)| Some((step.name(), Latency::of(times, 1_000.0)?))).collect()
    }

    /// How late orders were begun, in microseconds.
    pub(crate) fn lateness_us(&self) -> Option<Latency> {
        Latency::of(&self.lateness, 1.0)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(LONGEST_US).max(1)
}

/// A distribution in short. A percentile with fewer than 20 values beyond it is not given.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Values.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Half are below.
    pub p50: Option<f64>,
    /// 90 % are below.
    pub p90: Option<f64>,
    /// 99 % are below.
    pub p99: Option<f64>,
    /// 99.9 % are below.
    pub p999: Option<f64>,
    /// The largest.
    pub max: f64,
}

impl Latency {
    fn of(times: &Histogram<u64>, divisor: f64) -> Option<Self> {
        let count = times.len();
        let quantile = |beyond: f64, q: f64| {
            (count as f64 * beyond >= 20.0).then(|| times.value_at_quantile(q) as f64 / divisor)
        };
        (count > 0).then(|| Self {
            count,
            mean: times.mean() / divisor,
            p50: quantile(0.5, 0.5),
            p90: quantile(0.1, 0.9),
            p99: quantile(0.01, 0.99),
            p999: quantile(0.001, 0.999),
            max: times.max() as f64 / divisor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_figures_equal_those_of_all() {
        let (mut first, mut second, mut all) = (Figures::new(2), Figures::new(2), Figures::new(2));
        for ms in 1..=100_u64 {
            let part = if ms % 2 == 0 { &mut first } else { &mut second };
            for figures in [part, &mut all] {
                figures.time(Step::Browse, Duration::from_millis(ms));
                figures.committed[(ms % 2) as usize] += 1;
            }
        }
        first.merge(&second);
        assert_eq!(first.latency_ms(), all.latency_ms());
        assert_eq!(first.committed, [50, 50]);
        let browse = first.latency_ms()["browse"];
        assert_eq!((browse.count, browse.p99, browse.max.round()), (100, None, 100.0));
        assert!((browse.p50.unwrap() - 50.0).abs() < 0.1);
    }
}
