//! Client machines while a repeat was measured.

use crate::JsonSchema;
use crate::{result::Figure, summary::Busy};
use serde::{Deserialize, Serialize};

/// A client machine in one repeat: what it sent, how well its clock was known, and whether it had enough of everything itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientFigures {
    /// Its name in the site file.
    pub name: String,
    /// The tiles whose loads it sent.
    pub tiles: Vec<u32>,
    /// Processors that its agent may use.
    pub processors: u32,
    /// Threads that sent its loads; none where it did not come so far.
    pub workers: Option<u32>,
    /// Whether they had real-time priority: an agent without root has none.
    pub real_time: Option<bool>,
    /// Whether it runs on the measured host itself, by the kernel's boot id: then it takes processors from the guests, and what other
    /// programs do there is not judged twice.
    pub same_machine: bool,
    /// Its monotonic clock less that of the host before its loads: the true offset lies within.
    pub clock_before: ClockOffset,
    /// The same after them. Absent where it was lost before.
    pub clock_after: Option<ClockOffset>,
    /// How far the seconds of its loads may lie from those of the host, in milliseconds: the most that its offset may have differed, from
    /// before to after, from what its beginning was reckoned with.
    pub uncertainty_ms: Option<f64>,
    /// When its loads were to begin, in nanoseconds of its own monotonic clock.
    pub intended_begin_ns: Option<u64>,
    /// When they began, by the same clock.
    pub actual_begin_ns: Option<u64>,
    /// The busiest of its load threads, as a part of a processor, in its busiest second and on average.
    pub busy: Busy,
    /// Part of its processors that a hypervisor under it took.
    pub steal: Option<f64>,
    /// Part of its processors that other programs on it used.
    pub other: Option<f64>,
    /// Line rate of the device towards the guests, in Mbit/s. Absent where the device has none.
    pub line_mbit_per_s: Option<f64>,
    /// Part of the line rate that was used, in the busier direction, on average.
    pub line_used: Option<f64>,
    /// Median time of a TCP connection to the first of its guests before the loads, in milliseconds: the idle round trip of the path.
    pub idle_round_trip_ms: Option<f64>,
    /// Each load that it sent.
    pub loads: Vec<ClientLoad>,
    /// Why nothing of it counts, in words. Absent where it was there to the end.
    pub lost: Option<String>,
}

/// An interval that holds the offset of two clocks, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClockOffset {
    /// Its least value.
    pub least_ns: i64,
    /// Its greatest value.
    pub most_ns: i64,
}

impl ClockOffset {
    /// The value in the middle.
    pub fn middle_ns(&self) -> i64 {
        self.least_ns.saturating_add(self.most_ns.saturating_sub(self.least_ns) / 2)
    }

    /// The part that both hold; `None` where there is none: one of them was wrong.
    #[must_use]
    pub fn and(self, other: Self) -> Option<Self> {
        let both =
            Self { least_ns: self.least_ns.max(other.least_ns), most_ns: self.most_ns.min(other.most_ns) };
        (both.least_ns <= both.most_ns).then_some(both)
    }

    /// The most that the offset can have differed from the middle of `self`, in milliseconds, where it was in `self` first and in `later`
    /// then, and did not go beyond both.
    pub fn uncertainty_ms(&self, later: &Self) -> f64 {
        let middle = self.middle_ns();
        let above = self.most_ns.max(later.most_ns).saturating_sub(middle);
        let below = middle.saturating_sub(self.least_ns.min(later.least_ns));
        above.max(below) as f64 / 1e6
    }
}

/// One load of a client, over all guests that it sent it to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientLoad {
    /// Its name in the scenario.
    pub name: String,
    /// Requests whose intended start came.
    pub offered: u64,
    /// Those that were answered correctly.
    pub completed: u64,
    /// Median of their latency, in milliseconds. Absent in older records.
    #[serde(default)]
    pub p50_ms: Option<f64>,
    /// 99th percentile of their latency, in milliseconds.
    pub p99_ms: Option<f64>,
    /// 99th percentile of how late they were sent, in microseconds.
    pub send_lateness_p99_us: Option<f64>,
}

/// The client machines of a step beside each other: do the tiles of one of them take longer than those of the others?
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientComparison {
    /// The verdict about all of them.
    pub outcome: ClientOutcome,
    /// Names of those that differ. Of two that differ, both.
    pub named: Vec<String>,
    /// What was found, in a sentence.
    pub sentence: String,
    /// Why the clients, or one measure of them, could not be compared; null where everything was.
    pub why: Option<String>,
    /// Median and 99th percentile of the latency of each load.
    pub measures: Vec<ClientMeasure>,
}

/// One measure of the clients of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientMeasure {
    /// The load, by its name in the scenario.
    pub load: String,
    /// `p50` or `p99` of its latency.
    pub name: String,
    /// Median of the clients' means, in milliseconds.
    pub centre_ms: f64,
    /// A difference within this is none: 0.03 is 3 %.
    pub least_change: f64,
    /// Each client.
    pub clients: Vec<ClientChange>,
    /// The verdict about all of them.
    pub outcome: ClientOutcome,
    /// About how many repeats would decide, where the outcome is `cannot-tell`; null: it is decided, or more than 1,000.
    pub repeats_to_tell: Option<u32>,
}

/// A client beside the others, in one measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientChange {
    /// Its name in the site file.
    pub client: String,
    /// Geometric mean of its repeats, in milliseconds.
    pub value_ms: f64,
    /// Client over the median of all, less 1, with its 95 % interval. Of two clients: over the other one.
    pub change: Figure,
    /// The lower end of an interval that holds the truth of all clients, measures and steps together 95 times of 100.
    /// Null where the repeats scatter so much that the end is beyond all numbers.
    pub simultaneous_low: Option<f64>,
    /// Its upper end; null as the lower one.
    pub simultaneous_high: Option<f64>,
    /// Probability of a difference at least this large if there were none, after Holm's correction over all clients, measures and steps.
    pub p: f64,
    /// What that says.
    pub outcome: ClientOutcome,
}

/// What a comparison of clients says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientOutcome {
    /// It differs from the others, surely and by more than the least change; of all: at least one does.
    Differs,
    /// There is not enough to say.
    CannotTell,
    /// The whole interval lies within the least change; of all: that of each.
    Alike,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offset(least_ns: i64, most_ns: i64) -> ClockOffset {
        ClockOffset { least_ns, most_ns }
    }

    #[test]
    fn intervals_are_intersected_and_never_averaged() {
        assert_eq!(offset(0, 100).and(offset(90, 1_000_000)), Some(offset(90, 100)));
        assert_eq!(offset(0, 10).and(offset(11, 20)), None);
        assert_eq!(offset(-10, 20).middle_ns(), 5);
    }

    #[test]
    fn the_ends_of_an_offset_may_be_any_numbers() {
        let whole = offset(i64::MIN, i64::MAX);
        assert!(whole.uncertainty_ms(&whole).is_finite());
        let moved = offset(i64::MAX, i64::MAX).uncertainty_ms(&offset(i64::MIN, i64::MIN));
        assert_eq!(moved, i64::MAX as f64 / 1e6);
    }

    #[test]
    fn drift_adds_to_the_uncertainty() {
        let before = offset(1_000_000, 3_000_000);
        assert_eq!(before.uncertainty_ms(&before), 1.0);
        assert_eq!(before.uncertainty_ms(&offset(6_000_000, 7_000_000)), 5.0);
        assert_eq!(before.uncertainty_ms(&offset(-2_000_000, 2_500_000)), 4.0);
    }
}
