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
        at_most("publishers x queues", u64::from(self.groups()) * u64::from(self.publishers), MAX_THREADS)?;
        at_most("subscribers x queues", u64::from(self.groups()) * u64::from(self.subscribers), MAX_THREADS)?;
        if self.confirms > 0 && self.transactions > 0 {
            let rule = "a channel has confirms or transactions, not both: set one of them to 0";
            return Err(LoadError::Setting {
                setting: "transactions",
                value: u64::from(self.transactions),
                rule,
            });
        }
        if self.prefetch > 0 && self.ack > u32::from(self.prefetch) {
            let rule = "it must not be more than prefetch, or the broker waits for an acknowledgement that never comes";
            return Err(LoadError::Setting { setting: "ack", value: u64::from(self.ack), rule });
        }
        Ok(())
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
        at_least_one("rate x seconds", self.intended_before(self.seconds))?;
        at_most("rate", self.rate, 10_000_000)
    }
}

/// Each is a thread with a connection.
const MAX_THREADS: u64 = 4096;
/// A body of this size still fits the limits of common brokers (16 MiB in RabbitMQ 4).
const MAX_SIZE_BYTES: usize = 16 << 20;

fn check_size(size_bytes: usize) -> Result<(), LoadError> {
    if size_bytes < STAMP_BYTES {
        let rule =
            "it must be at least 16: a message carries run, publisher, sequence number and check in 16 bytes";
        return Err(LoadError::Setting { setting: "size", value: size_bytes as u64, rule });
    }
    at_most("size", size_bytes as u64, MAX_SIZE_BYTES as u64)
}

fn at_least_one(setting: &'static str, value: u64) -> Result<(), LoadError> {
    if value == 0 {
        Err(LoadError::Setting { setting, value, rule: "it must be at least 1" })
    } else {
        Ok(())
    }
}

fn at_most(setting: &'static str, value: u64, limit: u64) -> Result<(), LoadError> {
    if value > limit {
        return Err(LoadError::Setting { setting, value, rule: "it is beyond what this load can do" });
    }
    Ok(())
}
