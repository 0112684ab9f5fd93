//! What the store's customers ask. The defaults are those of the classic kit's driver.

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
    /// Length of the steady window that is told, whole seconds; `None`: all that had settled.
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
        }
    }
}

impl Demand {
    /// Most clients: each is a thread here and a connection there.
    pub const CLIENTS_MAX: u32 = 1_000;

    /// Says what cannot be done.
    pub fn check(&self) -> Result<(), StoreError> {
        let rules = [
            ((1..=Self::CLIENTS_MAX).contains(&self.clients), "clients must be 1 to 1000"),
            (self.measure.as_secs() >= 1, "the measured time must be at least one second"),
            (self.new_customer_percent <= 100, "new customers must be 0 to 100 percent"),
            ((1..=50).contains(&self.searches_mean), "searches must be 1 to 50 on average"),
            ((1..=500).contains(&self.search_rows_mean), "rows of a search must be 1 to 500 on average"),
            ((1..=50).contains(&self.items_mean), "lines of an order must be 1 to 50 on average"),
            (self.rate_is_sensible(), "the rate must be above 0 and at most 100000 orders a second"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(StoreError::Demand(what)))
    }

    fn rate_is_sensible(&self) -> bool {
        match self.pace {
            Pace::Closed { .. } => true,
            Pace::Open { orders_per_second, .. } => orders_per_second > 0.0 && orders_per_second <= 100_000.0,
        }
    }
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
        assert_eq!(error.to_string(), "clients must be 1 to 1000");
        let pace = Pace::Open { orders_per_second: f64::NAN, arrivals: Arrivals::Even };
        assert!(Demand { pace, ..Demand::default() }.check().is_err());
    }
}
