//! The settings of a load.

use std::time::Duration;

use tilemark_plan::workload::MessagingParameters;

use crate::{BrokerAddress, LoadError, STAMP_BYTES};

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
        let MessagingParameters { queues, publishers, subscribers, confirms, transactions, .. } =
            self.messages;
        for (setting, value) in [("queues", queues), ("publishers", publishers), ("subscribers", subscribers)]
        {
            at_least_one(setting, u64::from(value))?;
        }
        let groups = u64::from(self.messages.groups());
        let threads = "it must be at most 4096: each is a thread with a connection";
        at_most("publishers x queues", groups * u64::from(publishers), MAX_THREADS, threads)?;
        at_most("subscribers x queues", groups * u64::from(subscribers), MAX_THREADS, threads)?;
        check_time(self.seconds)?;
        at_least_one("seconds", u64::from(!self.seconds.is_zero()))?;
        if confirms > 0 && transactions > 0 {
            let rule = "a channel has confirms or transactions, not both: set one of them to 0";
            return Err(LoadError::Setting { setting: "transactions", value: transactions.into(), rule });
        }
        check_messages(&self.messages)
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
        let count = time.as_nanos() * u128::from(self.rate) / 1_000_000_000;
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    pub(crate) fn check(&self) -> Result<(), LoadError> {
        at_least_one("rate", self.rate)?;
        at_most("rate", self.rate, MAX_RATE, "it must be at most 10000000 messages a second")?;
        check_time(self.warmup.saturating_add(self.seconds))?;
        at_least_one("rate x seconds", self.intended_before(self.seconds))?;
        check_messages(&self.messages)
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

const MAX_THREADS: u64 = MessagingParameters::THREADS_MAX as u64;
const MAX_RATE: u64 = 10_000_000;
/// A histogram is kept for each second of a schedule.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

fn check_time(time: Duration) -> Result<(), LoadError> {
    at_most("seconds", time.as_secs(), MAX_TIME.as_secs(), "it must be at most 86400: a day")
}

fn check_messages(messages: &MessagingParameters) -> Result<(), LoadError> {
    let (size, ack, prefetch) = (messages.size.get(), messages.acknowledge, messages.prefetch);
    if size < STAMP_BYTES as u64 {
        let rule =
            "it must be at least 16: a message carries run, publisher, sequence number and check in 16 bytes";
        return Err(LoadError::Setting { setting: "size", value: size, rule });
    }
    at_most("size", size, MessagingParameters::SIZE_MAX.get(), "it must be at most 16777216: 16 MiB")?;
    at_most("prefetch", prefetch.into(), u16::MAX.into(), "it must be at most 65535")?;
    if prefetch > 0 && ack > prefetch {
        let rule =
            "it must not be more than prefetch, or the broker waits for an acknowledgement that never comes";
        return Err(LoadError::Setting { setting: "ack", value: u64::from(ack), rule });
    }
    Ok(())
}

fn at_least_one(setting: &'static str, value: u64) -> Result<(), LoadError> {
    if value == 0 {
        Err(LoadError::Setting { setting, value, rule: "it must be at least 1" })
    } else {
        Ok(())
    }
}

fn at_most(setting: &'static str, value: u64, limit: u64, rule: &'static str) -> Result<(), LoadError> {
    if value > limit {
        return Err(LoadError::Setting { setting, value, rule });
    }
    Ok(())
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
                "seconds is 18446744073709551615; it must be at most 86400: a day",
            ),
            (
                LatencyLoad { warmup: forever, ..scheduled.clone() }.check(),
                "seconds is 18446744073709551615; it must be at most 86400: a day",
            ),
            (
                ThroughputLoad { seconds: Duration::ZERO, ..flat_out.clone() }.check(),
                "seconds is 0; it must be at least 1",
            ),
            (
                ThroughputLoad {
                    messages: MessagingParameters { queues: 5000, ..sent() },
                    ..flat_out.clone()
                }
                .check(),
                "publishers x queues is 5000; it must be at most 4096: each is a thread with a connection",
            ),
            (
                ThroughputLoad {
                    messages: MessagingParameters { prefetch: 1 << 16, ..sent() },
                    ..flat_out.clone()
                }
                .check(),
                "prefetch is 65536; it must be at most 65535",
            ),
            (
                LatencyLoad {
                    messages: MessagingParameters { acknowledge: 11, prefetch: 10, ..sent() },
                    ..scheduled.clone()
                }
                .check(),
                "ack is 11; it must not be more than prefetch, or the broker waits for an acknowledgement that never comes",
            ),
        ] {
            assert_eq!(checked.unwrap_err().to_string(), reported);
        }
        assert!(flat_out.check().is_ok() && scheduled.check().is_ok());
    }
}
