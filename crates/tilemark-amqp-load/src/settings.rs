//! What a load is told before it starts.

use std::time::Duration;

use crate::{BrokerAddress, LoadError, STAMP_BYTES};

/// How messages find their subscribers; the three shapes of qpid-perftest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Subscribers of a queue share its messages.
    Shared,
    /// Every subscriber gets every message; there is one exchange whatever `queues` says.
    Fanout,
    /// Every subscriber of a topic gets each of its messages; `queues` is the number of topics.
    Topic,
}

/// As many messages as the broker takes.
#[derive(Clone, Debug)]
pub struct ThroughputLoad {
    /// The broker.
    pub broker: BrokerAddress,
    /// Body, bytes; at least [`STAMP_BYTES`].
    pub size_bytes: usize,
    /// Queues or topics.
    pub queues: u16,
    /// Publishers for each of them.
    pub publishers: u16,
    /// Subscribers for each of them.
    pub subscribers: u16,
    /// How messages find their subscribers.
    pub mode: Mode,
    /// Durable queues and persistent messages.
    pub durable: bool,
    /// Most publishes without a confirm; 0 asks for none.
    pub confirms: u32,
    /// One acknowledgement for so many deliveries; 0 is automatic acknowledgement.
    pub ack: u32,
    /// Most deliveries without an acknowledgement; 0 is no limit.
    pub prefetch: u16,
    /// Publishes in a transaction; 0 uses none.
    pub transactions: u32,
    /// Messages of each publisher; `None` goes by time alone.
    pub count: Option<u64>,
    /// For how long to publish.
    pub seconds: Duration,
    /// For how long nothing may move before the load gives up.
    pub patience: Duration,
}

impl ThroughputLoad {
    /// The standard run: 16 bytes, one queue, publisher and subscriber, transient, automatic acknowledgement, 10 s.
    pub fn new(broker: BrokerAddress) -> Self {
        Self {
            broker,
            size_bytes: STAMP_BYTES,
            queues: 1,
            publishers: 1,
            subscribers: 1,
            mode: Mode::Shared,
            durable: false,
            confirms: 0,
            ack: 0,
            prefetch: 0,
            transactions: 0,
            count: None,
            seconds: Duration::from_secs(10),
            patience: Duration::from_secs(15),
        }
    }

    /// Queues or topics as they are used: fan-out has one.
    pub(crate) const fn groups(&self) -> u16 {
        match self.mode {
            Mode::Fanout => 1,
            Mode::Shared | Mode::Topic => self.queues,
        }
    }

    pub(crate) fn check(&self) -> Result<(), LoadError> {
        check_size(self.size_bytes)?;
        let counts =
            [("queues", self.queues), ("publishers", self.publishers), ("subscribers", self.subscribers)];
        for (setting, value) in counts {
            at_least_one(setting, u64::from(value))?;
        }
        let groups = u64::from(self.groups());
        let threads = "it must be at most 4096: each is a thread with a connection";
        at_most("publishers x queues", groups * u64::from(self.publishers), MAX_THREADS, threads)?;
        at_most("subscribers x queues", groups * u64::from(self.subscribers), MAX_THREADS, threads)?;
        check_time(self.seconds)?;
        at_least_one("seconds", u64::from(!self.seconds.is_zero()))?;
        at_least_one("count", self.count.unwrap_or(1))?;
        if self.confirms > 0 && self.transactions > 0 {
            let rule = "a channel has confirms or transactions, not both: set one of them to 0";
            return Err(LoadError::Setting {
                setting: "transactions",
                value: u64::from(self.transactions),
                rule,
            });
        }
        check_acknowledging(self.ack, self.prefetch)
    }
}

/// Messages by a schedule.
#[derive(Clone, Debug)]
pub struct LatencyLoad {
    /// The broker.
    pub broker: BrokerAddress,
    /// Body, bytes; at least [`STAMP_BYTES`].
    pub size_bytes: usize,
    /// Messages a second, evenly spaced.
    pub rate: u64,
    /// Sent like all others and not in the figures: what is intended in the first so much time.
    pub warmup: Duration,
    /// Durable queue and persistent messages.
    pub durable: bool,
    /// One acknowledgement for so many deliveries; 0 is automatic acknowledgement.
    pub ack: u32,
    /// Most deliveries without an acknowledgement; 0 is no limit.
    pub prefetch: u16,
    /// For how long to publish after the warm-up.
    pub seconds: Duration,
    /// For how long nothing may move before the load gives up.
    pub patience: Duration,
}

impl LatencyLoad {
    /// 1,000 messages of 16 bytes a second for 10 s, transient, automatic acknowledgement.
    pub fn new(broker: BrokerAddress) -> Self {
        Self {
            broker,
            size_bytes: STAMP_BYTES,
            rate: 1000,
            warmup: Duration::ZERO,
            durable: false,
            ack: 0,
            prefetch: 0,
            seconds: Duration::from_secs(10),
            patience: Duration::from_secs(15),
        }
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
        check_size(self.size_bytes)?;
        at_least_one("rate", self.rate)?;
        at_most("rate", self.rate, MAX_RATE, "it must be at most 10000000 messages a second")?;
        check_time(self.warmup.saturating_add(self.seconds))?;
        at_least_one("rate x seconds", self.intended_before(self.seconds))?;
        check_acknowledging(self.ack, self.prefetch)
    }
}

/// Each is a thread with a connection.
const MAX_THREADS: u64 = 4096;
/// A body of this size still fits the limits of common brokers (16 MiB in RabbitMQ 4).
const MAX_SIZE_BYTES: usize = 16 << 20;
const MAX_RATE: u64 = 10_000_000;
/// A histogram is kept for each second of a schedule.
const MAX_TIME: Duration = Duration::from_secs(24 * 60 * 60);

fn check_size(size_bytes: usize) -> Result<(), LoadError> {
    if size_bytes < STAMP_BYTES {
        let rule =
            "it must be at least 16: a message carries run, publisher, sequence number and check in 16 bytes";
        return Err(LoadError::Setting { setting: "size", value: size_bytes as u64, rule });
    }
    at_most("size", size_bytes as u64, MAX_SIZE_BYTES as u64, "it must be at most 16777216: 16 MiB")
}

fn check_time(time: Duration) -> Result<(), LoadError> {
    at_most("seconds", time.as_secs(), MAX_TIME.as_secs(), "it must be at most 86400: a day")
}

fn check_acknowledging(ack: u32, prefetch: u16) -> Result<(), LoadError> {
    if prefetch > 0 && ack > u32::from(prefetch) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_load_cannot_do_is_named_with_its_limit() {
        let broker = BrokerAddress::guest("127.0.0.1:1".parse().unwrap());
        let (flat_out, scheduled) = (ThroughputLoad::new(broker.clone()), LatencyLoad::new(broker));
        let forever = Duration::from_secs(u64::MAX);
        for (checked, told) in [
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
                ThroughputLoad { count: Some(0), ..flat_out.clone() }.check(),
                "count is 0; it must be at least 1",
            ),
            (
                ThroughputLoad { queues: 5000, ..flat_out.clone() }.check(),
                "publishers x queues is 5000; it must be at most 4096: each is a thread with a connection",
            ),
            (
                LatencyLoad { ack: 11, prefetch: 10, ..scheduled.clone() }.check(),
                "ack is 11; it must not be more than prefetch, or the broker waits for an acknowledgement that never comes",
            ),
        ] {
            assert_eq!(checked.unwrap_err().to_string(), told);
        }
        assert!(flat_out.check().is_ok() && scheduled.check().is_ok());
    }
}
