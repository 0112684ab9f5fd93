//! What the store's customers ask. The defaults are those of the classic kit's driver.

use std::time::Duration;

use serde::{Serialize, Serializer};
use tilemark_plan::{
    problem::Fault,
    scenario::{Arrival, Measure},
    workload::StoreParameters,
};
use tilemark_units::Span;

use crate::error::StoreError;

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
        /// How they are spread. [`Demand::check`] refuses bursts.
        arrivals: Arrival,
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
    /// Refuses what cannot be done with [`StoreError::Demand`], which names the value as `tilemark load store` does: a scenario's was checked
    /// with its plan.
    pub fn check(&self) -> Result<(), StoreError> {
        let (measure, warmup, most) = (Span::new(self.measure), Span::new(self.warmup), Measure::LENGTH_MAX);
        let own = [
            Fault::outside(Span::from_seconds(1)..=most, "seconds", measure),
            Fault::outside(Span::default()..=most, "warmup", warmup),
            Fault::outside(0..=100, "new-customers", self.new_customer_percent),
            Fault::outside(1..=50, "searches", self.searches_mean),
            Fault::outside(1..=500, "search-rows", self.search_rows_mean),
            Fault::outside(1..=50, "items", self.items_mean),
        ];
        let (think_time, open) = match self.pace {
            Pace::Closed { think_time } => (Span::new(think_time), None),
            Pace::Open { orders_per_second, arrivals } => {
                (Span::default(), Some((orders_per_second, arrivals)))
            }
        };
        let (clients, window) = (self.clients, self.window.map(Span::new));
        let shared = StoreParameters { clients, think_time, window, ..StoreParameters::default() };
        let mut faults = own.into_iter().flatten().chain(shared.faults(open, measure));
        faults.next().map_or(Ok(()), |fault| Err(StoreError::Demand(as_option(fault))))
    }
}

/// The options of `tilemark load store` are the keys of a scenario with dashes.
fn as_option(fault: Fault) -> Fault {
    let key = if fault.key == "think_time" { "think-time" } else { fault.key };
    Fault { key, ..fault }
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
        assert_eq!(error.to_string(), "`clients` is 0");
        let pace = Pace::Open { orders_per_second: 1.0, arrivals: Arrival::Bursts };
        let error = Demand { pace, ..Demand::default() }.check().unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.remedy()),
            (
                "`arrival` is bursts, which the store does not do",
                "write `arrival = \"poisson\"` or `arrival = \"even\"`"
            )
        );
        for rate in [f64::NAN, 0.0, 1e-30, 1e30] {
            let pace = Pace::Open { orders_per_second: rate, arrivals: Arrival::Even };
            assert!(Demand { pace, ..Demand::default() }.check().is_err(), "{rate}");
        }
    }

    #[test]
    fn times_that_cannot_be_are_named_before_anything_is_sent() {
        let forever = Duration::from_secs(u64::MAX);
        let minute = Demand { measure: Duration::from_secs(60), ..Demand::default() };
        for (demand, wanted) in [
            (
                Demand { measure: forever, ..minute.clone() },
                "`seconds` is 18446744073709551615s: use 1s to 24h",
            ),
            (Demand { measure: Duration::ZERO, ..minute.clone() }, "`seconds` is 0s: use 1s to 24h"),
            (
                Demand { warmup: forever, ..minute.clone() },
                "`warmup` is 18446744073709551615s: use 0s to 24h",
            ),
            (
                Demand { pace: Pace::Closed { think_time: forever }, ..minute.clone() },
                "`think-time` is 18446744073709551615s: use 0s to 24h",
            ),
            (
                Demand { window: Some(Duration::from_secs(61)), ..minute.clone() },
                "`window` is 61s in a measurement of 1m: use whole seconds up to the measured time",
            ),
            (
                Demand { window: Some(Duration::ZERO), ..minute.clone() },
                "`window` is 0s in a measurement of 1m: use whole seconds up to the measured time",
            ),
        ] {
            let error = demand.check().unwrap_err();
            let error = format!("{error}: {}", error.remedy());
            assert!(error.starts_with(wanted), "{error}");
        }
        assert!(Demand { window: Some(minute.measure), ..minute }.check().is_ok());
    }
}
