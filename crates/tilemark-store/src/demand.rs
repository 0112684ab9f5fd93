//! What the store's customers ask. The defaults are those of the classic kit's driver.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::error::StoreError;

/// How arrivals are spread when orders come at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// Independent customers: exponential gaps.
    Poisson,
    /// One every so often.
    Even,
}

/// When the next order begins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Each client begins when its last order is done: the more slowly the store answers, the less it is asked.
    Closed {
        /// Mean pause after an order; the pause is uniform from 0 to twice this. 0 is flat out.
        #[serde(rename = "think_time_s", serialize_with = "seconds")]
        think_time: Duration,
    },
    /// Orders begin at a rate, whatever the store does. Latency counts from the intended start.
    Open {
        /// Orders begun each second by all clients together.
        orders_per_second: f64,
        /// How they are spread.
        arrivals: Arrivals,
    },
}

/// A load on the store. "Mean n" is uniform over 1 to 2n - 1 everywhere, as in the classic driver.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Clients, each with one connection and one thread. In an open loop: the most orders that can be under way.
    pub clients: u32,
    /// Closed or open loop.
    pub pace: Pace,
    /// Time before measuring begins.
    #[serde(rename = "warmup_s", serialize_with = "seconds")]
    pub warmup: Duration,
    /// Measured time after it, whole seconds.
    #[serde(rename = "measure_s", serialize_with = "seconds")]
    pub measure: Duration,
    /// Length of the steady window that is reported, whole seconds; `None`: all that had settled.
    #[serde(rename = "window_s", serialize_with = "optional_seconds")]
    pub window: Option<Duration>,
    /// Orders of new customers, of 100.
    pub new_customer_percent: u32,
    /// Looks at the catalogue before an order, mean.
    pub searches_mean: u32,
    /// Rows asked for at each look, mean.
    pub search_rows_mean: u32,
    /// Lines of an order, mean.
    pub items_mean: u32,
    /// What all draws start from.
    pub seed: u64,
    /// How long after the measured time an order of an open loop that waits for a free client is still begun.
    #[serde(skip)]
    pub begun_until: Duration,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

fn optional_seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}

impl Default for Demand {
    fn default() -> Self {
        Self {
            clients: 1,
            pace: Pace::Closed { think_time: Duration::ZERO },
            warmup: Duration::from_secs(60),
            measure: Duration::from_secs(300),
            window: None,
            new_customer_percent: 20,
            searches_mean: 3,
            search_rows_mean: 5,
            items_mean: 5,
            seed: 1,
            begun_until: Duration::from_secs(2),
        }
    }
}

impl Demand {
    /// Most clients: each is a thread here and a connection there.
    pub const CLIENTS_MAX: u32 = 1_000;
    /// The longest time of anything: each client counts its orders by second.
    pub const TIME_MAX: Duration = Duration::from_secs(24 * 60 * 60);

    /// Orders a second that clients can begin.
    pub const RATES: RangeInclusive<f64> = 0.001..=100_000.0;

    /// Says what cannot be done.
    pub fn check(&self) -> Result<(), StoreError> {
        let window = self.window.unwrap_or(self.measure);
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        let means = [
            ("searches", 50, self.searches_mean),
            ("rows of a search", 500, self.search_rows_mean),
            ("lines of an order", 50, self.items_mean),
        ];
        let rules = [
            within(
                "clients must be 1 to 1000",
                1..=Self::CLIENTS_MAX,
                self.clients,
                self.clients.to_string(),
            ),
            within(
                "the measured time must be one second to a day",
                Duration::from_secs(1)..=Self::TIME_MAX,
                self.measure,
                seconds(self.measure),
            ),
            within(
                "the warm-up must be a day at most",
                Duration::ZERO..=Self::TIME_MAX,
                self.warmup,
                seconds(self.warmup),
            ),
            within(
                "the steady window must be one second to the measured time",
                Duration::from_secs(1)..=self.measure,
                window,
                seconds(window),
            ),
            within(
                "new customers must be 0 to 100 percent",
                0..=100,
                self.new_customer_percent,
                self.new_customer_percent.to_string(),
            ),
            self.check_pace(),
        ];
        let of_means = means.into_iter().map(|(what, most, mean)| {
            within(&format!("{what} must be 1 to {most} on average"), 1..=most, mean, mean.to_string())
        });
        rules.into_iter().chain(of_means).collect()
    }

    fn check_pace(&self) -> Result<(), StoreError> {
        match self.pace {
            Pace::Closed { think_time } => within(
                "the pause after an order must be a day at most",
                Duration::ZERO..=Self::TIME_MAX,
                think_time,
                format!("{} s", think_time.as_secs_f64()),
            ),
            Pace::Open { orders_per_second: rate, .. } => within(
                "the rate must be 0.001 to 100000 orders a second",
                Self::RATES,
                rate,
                rate.to_string(),
            ),
        }
    }
}

/// Whether a value lies in its range; if not, the rule and the value as it is shown.
fn within<T: PartialOrd>(
    rule: &str,
    range: RangeInclusive<T>,
    value: T,
    given: String,
) -> Result<(), StoreError> {
    if range.contains(&value) { Ok(()) } else { Err(StoreError::Demand(format!("{rule}, not {given}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_seconds() {
        let value = serde_json::to_value(Demand::default()).unwrap();
        assert_eq!((value["warmup_s"].as_f64(), value["measure_s"].as_f64()), (Some(60.0), Some(300.0)));
        assert!(value["window_s"].is_null());
        assert_eq!(value["pace"]["closed"]["think_time_s"].as_f64(), Some(0.0));
    }

    #[test]
    fn the_defaults_can_be_run_and_nonsense_is_named() {
        assert!(Demand::default().check().is_ok());
        let error = Demand { clients: 0, ..Demand::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "clients must be 1 to 1000, not 0");
        for rate in [f64::NAN, 0.0, 1e-30, 1e30] {
            let pace = Pace::Open { orders_per_second: rate, arrivals: Arrivals::Even };
            assert!(Demand { pace, ..Demand::default() }.check().is_err(), "{rate}");
        }
    }

    #[test]
    fn times_that_cannot_be_are_named_before_anything_is_sent() {
        let forever = Duration::from_secs(u64::MAX);
        let minute = Demand { measure: Duration::from_secs(60), ..Demand::default() };
        for (demand, wanted) in [
            (Demand { measure: forever, ..minute.clone() }, "the measured time must be one second to a day"),
            (Demand { measure: Duration::ZERO, ..minute.clone() }, "the measured time must be one second"),
            (Demand { warmup: forever, ..minute.clone() }, "the warm-up must be a day at most"),
            (
                Demand { pace: Pace::Closed { think_time: forever }, ..minute.clone() },
                "the pause after an order",
            ),
            (
                Demand { window: Some(Duration::from_secs(61)), ..minute.clone() },
                "the steady window must be one second to the measured time, not 61 s",
            ),
            (
                Demand { window: Some(Duration::ZERO), ..minute.clone() },
                "the steady window must be one second to the measured time, not 0 s",
            ),
        ] {
            let error = demand.check().unwrap_err().to_string();
            assert!(error.starts_with(wanted), "{error}");
        }
        assert!(Demand { window: Some(minute.measure), ..minute }.check().is_ok());
    }
}
