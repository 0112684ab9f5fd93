//! The settings of a load.

use std::time::Duration;

use tilemark_plan::{
    problem::Fault,
    scenario::{Load, Measure},
    workload::MessagingParameters,
};
use tilemark_units::Span;

use crate::{BrokerAddress, LoadError};

/// As many messages as the broker takes.
#[derive(Clone, Debug)]
pub struct ThroughputLoad {
    /// The broker.
    pub broker: BrokerAddress,
    /// What is sent, and how it is taken. There is one exchange for fan-out, however many `queues` are asked for.
    pub messages: MessagingParameters,
    /// For how long to publish.
    pub seconds: Duration,
    /// For how long nothing may move before the load gives up.
    pub timeout: Duration,
}

impl ThroughputLoad {
    /// The standard run: 16 bytes, one queue, publisher and subscriber, transient, automatic acknowledgement, 10 s.
    pub fn new(broker: BrokerAddress) -> Self {
        let (seconds, timeout) = (Duration::from_secs(10), Duration::from_secs(15));
        Self { broker, messages: MessagingParameters::default(), seconds, timeout }
    }

    /// Messages of each publisher; `None` goes by time alone.
    pub fn count(&self) -> Option<u64> {
        (self.messages.count > 0).then_some(self.messages.count)
    }

    /// Queues or topics as they are used: fan-out has one.
    pub(crate) fn groups(&self) -> u16 {
        narrowed(self.messages.groups())
    }

    /// Publishers of each of them.
    pub(crate) fn publishers(&self) -> u16 {
        narrowed(self.messages.publishers)
    }

    /// Subscribers of each of them.
    pub(crate) fn subscribers(&self) -> u16 {
        narrowed(self.messages.subscribers)
    }

    pub(crate) fn check(&self) -> Result<(), LoadError> {
        refuse_first(time_fault(self.seconds).into_iter().chain(self.messages.faults()))
    }
}

/// Messages by a schedule.
#[derive(Clone, Debug)]
pub struct LatencyLoad {
    /// The broker.
    pub broker: BrokerAddress,
    /// What is sent, and how it is taken, from one publisher through one queue to one subscriber.
    pub messages: MessagingParameters,
    /// Messages a second, evenly spaced.
    pub rate: u64,
    /// When the first one comes, in parts of the time between two: from 0 up to, not including, 1. Loads of the same rate on many brokers
    /// would otherwise all send at the same instants.
    pub phase: f64,
    /// Sent like all others and not in the figures: what is intended in the first so much time.
    pub warmup: Duration,
    /// For how long to publish after the warm-up.
    pub seconds: Duration,
    /// For how long nothing may move before the load gives up.
    pub timeout: Duration,
}

impl LatencyLoad {
    /// 1,000 messages of 16 bytes a second for 10 s, transient, automatic acknowledgement.
    pub fn new(broker: BrokerAddress) -> Self {
        let (seconds, timeout) = (Duration::from_secs(10), Duration::from_secs(15));
        let messages = MessagingParameters::default();
        Self { broker, messages, rate: 1000, phase: 0.0, warmup: Duration::ZERO, seconds, timeout }
    }

    /// Messages in the whole schedule, those of the warm-up too.
    pub(crate) fn count(&self) -> u64 {
        self.intended_before(self.warmup + self.seconds)
    }

    /// Messages of the warm-up.
    pub(crate) fn warmup_count(&self) -> u64 {
        self.intended_before(self.warmup)
    }

    fn intended_before(&self, time: Duration) -> u64 {
        let count = time.as_nanos().saturating_mul(u128::from(self.rate)) / 1_000_000_000;
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    pub(crate) fn check(&self) -> Result<(), LoadError> {
        let own = [
            Fault::outside(1..=Load::RATE_MAX, "rate", self.rate),
            time_fault(self.warmup.saturating_add(self.seconds)),
            Fault::unless(self.intended_before(self.seconds) > 0, "rate x seconds", 0, "use 1 or more"),
        ];
        refuse_first(own.into_iter().flatten().chain(self.messages.faults()))
    }
}

/// Bytes of a message's body.
pub(crate) fn size_bytes(messages: &MessagingParameters) -> usize {
    usize::try_from(messages.size.get()).unwrap_or(usize::MAX)
}

/// When subscribers acknowledge.
pub(crate) fn acknowledging(messages: &MessagingParameters) -> Acknowledging {
    Acknowledging { every: messages.acknowledge, prefetch: narrowed(messages.prefetch) }
}

/// What is beyond 16 bits is beyond what the protocol or a host can do, and was refused.
fn narrowed(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// A histogram is kept for each second of a schedule.
fn time_fault(time: Duration) -> Option<Fault> {
    let most = Measure::LENGTH_MAX;
    let is_possible = !time.is_zero() && time <= most.get();
    Fault::unless(is_possible, "seconds", Span::from_seconds(time.as_secs()), format!("use 1s to {most}"))
}

/// `tilemark load` has an option with the name of each key. For `acknowledge` it is `--ack`.
fn refuse_first(mut faults: impl Iterator<Item = Fault>) -> Result<(), LoadError> {
    let Some(fault) = faults.next() else { return Ok(()) };
    let key = if fault.key == "acknowledge" { "ack" } else { fault.key };
    Err(LoadError::Setting(Fault { key, ..fault }))
}

/// How a subscriber acknowledges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledging {
    /// One acknowledgement for so many deliveries; 0 is automatic acknowledgement.
    pub(crate) every: u32,
    /// 0 is no limit.
    pub(crate) prefetch: u16,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_load_cannot_do_is_named_with_its_limit() {
        let broker = BrokerAddress::guest("127.0.0.1:1".parse().unwrap());
        let (flat_out, scheduled) = (ThroughputLoad::new(broker.clone()), LatencyLoad::new(broker));
        let sent = MessagingParameters::default;
        let forever = Duration::from_secs(u64::MAX);
        for (checked, reported) in [
            (
                ThroughputLoad { seconds: forever, ..flat_out.clone() }.check(),
                "`seconds` is 18446744073709551615s; use 1s to 24h",
            ),
            (
                LatencyLoad { warmup: forever, ..scheduled.clone() }.check(),
                "`seconds` is 18446744073709551615s; use 1s to 24h",
            ),
            (
                ThroughputLoad { seconds: Duration::ZERO, ..flat_out.clone() }.check(),
                "`seconds` is 0s; use 1s to 24h",
            ),
            (
                ThroughputLoad {
                    messages: MessagingParameters { queues: 5000, ..sent() },
                    ..flat_out.clone()
                }
                .check(),
                "`queues x publishers` is 5000; use 4096 at most: each is a thread with a connection",
            ),
            (
                ThroughputLoad {
                    messages: MessagingParameters { prefetch: 1 << 16, ..sent() },
                    ..flat_out.clone()
                }
                .check(),
                "`prefetch` is 65536; use 0 to 65535",
            ),
            (
                LatencyLoad {
                    messages: MessagingParameters { acknowledge: 11, prefetch: 10, ..sent() },
                    ..scheduled.clone()
                }
                .check(),
                "`ack` is 11 and `prefetch` is 10; acknowledge at least once in each prefetch, or the broker waits for ever",
            ),
        ] {
            let error = checked.unwrap_err();
            assert_eq!(format!("{error}; {}", error.remedy()), reported);
        }
        assert!(flat_out.check().is_ok() && scheduled.check().is_ok());
    }
}
