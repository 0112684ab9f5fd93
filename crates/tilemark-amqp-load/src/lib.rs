//! The messaging loads: publishers and subscribers that account for every message.
//!
//! [`throughput`] sends as fast as the broker takes it; [`latency`] sends by a schedule and measures from the intended time
//! of sending to receipt. Both work against any AMQP 0-9-1 broker, over a codec of our own, with one thread and one
//! connection for each publisher and subscriber. Each message carries a stamp, so that every one that is lost, doubled, out
//! of order or damaged is counted. What is declared on the broker has a name that nobody else has, and is deleted at the
//! end, also after an error.

mod address;
mod director;
mod error;
mod input;
mod latency;
mod ledger;
mod publisher;
mod report;
mod secured;
mod session;
mod settings;
mod shared;
mod stamp;
mod subscriber;
mod throughput;
mod topology;

pub use address::BrokerAddress;
pub use director::{Director, Gauge};
pub use error::LoadError;
pub use latency::{latency, latency_under};
pub use ledger::{Ledger, Missing, Receipt};
pub use report::{
    LatencyFigures, LatencyReport, LatenessFigures, SecondFigures, SecondTroubles, ThroughputReport,
};
pub use session::Session;
pub use settings::{LatencyLoad, ThroughputLoad};
pub use stamp::{STAMP_BYTES, Stamp};
pub use throughput::{throughput, throughput_under};
pub use tilemark_plan::workload::{MessagingMode, MessagingParameters};
