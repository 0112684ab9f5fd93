//! `messaging`: messages through an AMQP broker.

use super::facts::{At, Facts, InFlight, LoadKeys, Place};
use crate::JsonSchema;
use crate::problem::{Fault, Say};
use crate::scenario::{
    broker::BrokerService,
    guest::Guest,
    measure::Measure,
    role::Role,
    timing::{Arrival, LoopKind},
};
use serde::{Deserialize, Serialize};
use tilemark_units::Bytes;

/// Frames for a message, besides those of its bytes.
const FRAMES_EACH: u64 = 64;

/// For role `broker`: messages over AMQP 0-9-1. Every message carries a stamp; one that is lost, doubled, out of order or
/// damaged is an error. User and password are made for each run and are in no output, record, argument or environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MessagingParameters {
    /// What is measured.
    pub measure: MessagingMeasure,
    /// Size of a message: at least `16B`, for the stamp.
    pub size: Bytes,
    /// Queues. In mode `fanout` all messages go through one exchange, whatever this says.
    pub queues: u32,
    /// Publishers of each queue. Each is a thread with a connection.
    pub publishers: u32,
    /// Subscribers of each queue. Each is a thread with a connection.
    pub subscribers: u32,
    /// Whether messages survive a restart of the broker. The reference broker needs a guest with a disk for it (`[[guest.disk]]`);
    /// `qpid-broker-j` refuses it.
    pub durable: bool,
    /// Maximum number of unconfirmed publishes; 0: publisher confirms are off.
    pub confirms: u32,
    /// A subscriber acknowledges after this many messages; 0: automatic acknowledgement.
    pub acknowledge: u32,
    /// Messages that a subscriber may hold unacknowledged; 0: no limit.
    pub prefetch: u32,
    /// Which subscribers get a message.
    pub mode: MessagingMode,
    /// Publishes in a transaction; 0: no transactions.
    pub transactions: u32,
    /// Messages of each publisher. After them a throughput load ends and is measured as a whole; this needs
    /// `measure.warmup = "0s"`. 0: the load ends by time alone.
    pub count: u64,
    /// Whether connections use TLS (1.3): the guest's broker makes a certificate when it starts, and any is accepted.
    /// `qpid-broker-j` refuses it.
    pub tls: bool,
}

/// What a messaging load measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessagingMeasure {
    /// As many messages a second as go through, whatever `rate` says.
    #[default]
    Throughput,
    /// How long a message takes at the load's `rate` (a whole number, with `arrival = "even"`), from one publisher through
    /// one queue to one subscriber, counted from the intended time of sending. It takes no `publishers`, `subscribers`,
    /// `mode`, `confirms` and `transactions`.
    Latency,
}

/// Which subscribers get a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessagingMode {
    /// Subscribers of a queue share its messages.
    #[default]
    Shared,
    /// Every subscriber gets every message.
    Fanout,
    /// Every subscriber of a topic gets each of its messages; `queues` is the number of topics.
    Topic,
}

impl Default for MessagingParameters {
    fn default() -> Self {
        Self {
            measure: MessagingMeasure::Throughput,
            size: Bytes::new(16),
            queues: 1,
            publishers: 1,
            subscribers: 1,
            durable: false,
            confirms: 0,
            acknowledge: 0,
            prefetch: 0,
            mode: MessagingMode::Shared,
            transactions: 0,
            count: 0,
            tls: false,
        }
    }
}

impl MessagingParameters {
    /// The smallest message: it carries run, publisher, sequence number and check in so many bytes.
    pub const SIZE_MIN: Bytes = Bytes::new(16);
    /// Most publishers, and most subscribers: each is a thread with a connection.
    const THREADS_MAX: u32 = 4096;
    /// The largest message that common brokers take: a body of this size still fits the limits of RabbitMQ 4.
    const SIZE_MAX: Bytes = Bytes::from_mib(16);

    /// Queues or topics that are used: fan-out has one exchange.
    pub fn groups(&self) -> u32 {
        match self.mode {
            MessagingMode::Fanout => 1,
            MessagingMode::Shared | MessagingMode::Topic => self.queues,
        }
    }

    /// The values with which no load can run, in a scenario or alone.
    pub fn faults(&self) -> impl Iterator<Item = Fault> {
        let Self {
            size, queues, publishers, subscribers, confirms, transactions, acknowledge, prefetch, ..
        } = *self;
        let (of_publishers, of_subscribers) = match self.mode {
            MessagingMode::Fanout => ("publishers", "subscribers"),
            MessagingMode::Shared | MessagingMode::Topic => ("queues x publishers", "queues x subscribers"),
        };
        let at_least_one = |key, count| Fault::unless(count > 0, key, count, "use 1 or more");
        let threads = |key, each| {
            let (all, most) = (u64::from(self.groups()) * u64::from(each), u64::from(Self::THREADS_MAX));
            let remedy = format!("use {most} at most: each is a thread with a connection");
            Fault::unless(all <= most, key, all, remedy)
        };
        let (least, most) = (Self::SIZE_MIN, Self::SIZE_MAX);
        let in_size = format!(
            "use {least} to {most}: a message carries run, publisher, sequence number and check in {least}"
        );
        [
            Fault::unless((least..=most).contains(&size), "size", size, in_size),
            at_least_one("queues", queues),
            at_least_one("publishers", publishers),
            at_least_one("subscribers", subscribers),
            threads(of_publishers, publishers),
            threads(of_subscribers, subscribers),
            Fault::unless(
                confirms == 0 || transactions == 0,
                "transactions",
                format!("{transactions} and `confirms` is {confirms}"),
                "set one of them to 0: a channel has confirms or transactions",
            ),
            Fault::outside(0..=u32::from(u16::MAX), "prefetch", prefetch),
            Fault::unless(
                prefetch == 0 || acknowledge <= prefetch,
                "acknowledge",
                format!("{acknowledge} and `prefetch` is {prefetch}"),
                "acknowledge at least once in each prefetch, or the broker waits for ever",
            ),
        ]
        .into_iter()
        .flatten()
    }

    fn is_throughput(&self) -> bool {
        self.measure == MessagingMeasure::Throughput
    }
}

impl Facts for MessagingParameters {
    fn role(&self) -> Role {
        Role::Broker
    }

    fn place(&self) -> Place {
        Place::Outside
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    /// What waits in the broker is its own: publishers do not wait for subscribers.
    fn in_flight(&self, _at: At) -> InFlight {
        let publishers = if self.is_throughput() { self.groups().saturating_mul(self.publishers) } else { 1 };
        InFlight { count: publishers.into(), noun: "publisher", state: "sending", is_steady: true }
    }

    fn connections(&self, _at: At) -> u32 {
        if self.is_throughput() {
            self.groups().saturating_mul(self.publishers.saturating_add(self.subscribers))
        } else {
            2
        }
    }

    fn is_flat_out(&self) -> bool {
        self.is_throughput()
    }

    /// Latency has a check of its own for its rate.
    fn needs_rate(&self) -> bool {
        false
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, measure: &Measure, say: &mut Say<'_>) {
        check(self, load, guest, measure, say);
    }

    fn service_has_tls(&self) -> bool {
        self.tls
    }

    fn count(&self) -> u64 {
        if self.is_throughput() { self.count } else { 0 }
    }

    fn message(&self) -> Bytes {
        self.size
    }

    fn frames_each(&self) -> u64 {
        FRAMES_EACH
    }

    /// At a rate: flat out, many messages go at once and cost a thirtieth of that.
    fn emulated_seconds(&self) -> Option<f64> {
        Some(0.33e-3 + 52e-9 * self.size.get() as f64)
    }
}

fn check(
    messaging: &MessagingParameters,
    load: &LoadKeys<'_>,
    guest: &Guest,
    measure: &Measure,
    say: &mut Say<'_>,
) {
    let name = load.name;
    for fault in messaging.faults() {
        say(format!("load `{name}`: {fault}"), &fault.remedy);
    }
    match messaging.measure {
        MessagingMeasure::Latency => {
            check_schedule(load, say);
            check_one_pair(name, messaging, say);
        }
        MessagingMeasure::Throughput => {
            if messaging.count > 0 && !measure.warmup.get().is_zero() {
                let remedy = "write `measure.warmup = \"0s\"`, or leave out `count`";
                say(format!("load `{name}` counts its messages and has a warm-up"), remedy);
            }
        }
    }
    check_broker(guest, messaging, say);
}

fn check_schedule(load: &LoadKeys<'_>, say: &mut Say<'_>) {
    let name = load.name;
    let rate = load.rate.map_or(0.0, |rate| rate.get());
    if load.loop_kind == LoopKind::Closed || rate < 1.0 || rate.fract() != 0.0 {
        let remedy = "write `rate = \"1000/s\"`: a whole number of messages a second";
        say(format!("load `{name}` measures latency and needs a rate of whole messages a second"), remedy);
    }
    if load.arrival != Arrival::Even {
        say(
            format!("load `{name}` measures latency of messages at an `arrival` that is not even"),
            "write `arrival = \"even\"`: its schedule is even",
        );
    }
}

/// Latency has one publisher and one subscriber at one queue. `queues` and `count` are passed over, so that a scenario may
/// measure both ways.
fn check_one_pair(name: &str, messaging: &MessagingParameters, say: &mut Say<'_>) {
    let as_default = MessagingParameters::default();
    let asked = [
        ("publishers", messaging.publishers != as_default.publishers),
        ("subscribers", messaging.subscribers != as_default.subscribers),
        ("mode", messaging.mode != as_default.mode),
        ("confirms", messaging.confirms != as_default.confirms),
        ("transactions", messaging.transactions != as_default.transactions),
    ];
    for (setting, _) in asked.iter().filter(|(_, is_asked)| *is_asked) {
        say(
            format!("load `{name}` measures latency, which knows no `{setting}`"),
            "leave it out, or measure throughput only: where a scenario varies `measure`, write `vary.measure.values = [\"throughput\"]`",
        );
    }
}

fn check_broker(guest: &Guest, messaging: &MessagingParameters, say: &mut Say<'_>) {
    if messaging.tls && guest.broker == BrokerService::QpidBrokerJ {
        let message = format!("guest `{}` ({}) has no TLS here", guest.name, guest.broker.name());
        say(message, "write `broker = \"rabbitmq\"` or `broker = \"reference\"`, or leave out `tls`");
    }
    if !messaging.durable {
        return;
    }
    let (name, broker) = (&guest.name, guest.broker.name());
    match guest.broker {
        BrokerService::Reference if guest.disk.is_empty() => {
            let remedy = format!(
                "write `[[guest.disk]]` with `size = \"1GiB\"` below the guest `{name}`, or `broker = \"rabbitmq\"`"
            );
            say(format!("guest `{name}` ({broker}) has no disk for durable messages"), &remedy);
        }
        BrokerService::QpidBrokerJ => {
            let remedy = "write `broker = \"rabbitmq\"`, or `broker = \"reference\"` with a disk";
            say(format!("guest `{name}` ({broker}) keeps its messages in memory: none is durable"), remedy);
        }
        BrokerService::Reference | BrokerService::Rabbitmq => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{At, Facts, MessagingMode, MessagingParameters};
    use crate::parse::Draft;

    /// What is said about a scenario with these lines in its load, guest and measurement.
    fn said(load: &str, messaging: &str, guest: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"m\"\nabout = \"m\"\nheadline = \"m\"\n[[guest]]\nname = \"b\"\nrole = \"broker\"\n{guest}\n\
             [[load]]\nname = \"m\"\nguest = \"b\"\n{load}\n[load.messaging]\n{messaging}\n[ladder]\ntiles = [1]\n"
        );
        match Draft::from_toml(&text, "test").unwrap().finish() {
            Ok(_) => String::new(),
            Err(problems) => problems.to_string(),
        }
    }

    #[test]
    fn fan_out_has_one_exchange_whatever_queues_says() {
        let of = |mode| {
            let many =
                MessagingParameters { mode, queues: 4, subscribers: 3, ..MessagingParameters::default() };
            let at = At { connections: 1, disks: 0 };
            (many.in_flight(at).count, many.connections(at))
        };
        assert_eq!(of(MessagingMode::Fanout), (1, 4));
        assert_eq!(of(MessagingMode::Topic), (4, 16));
        assert_eq!(said("", "mode = \"fanout\"\nqueues = 100\nsubscribers = 100", ""), "");
    }

    #[test]
    fn what_cannot_be_done_is_said_before_anything_starts() {
        let latency = "measure = \"latency\"";
        let schedule = "rate = \"1000/s\"\narrival = \"even\"";
        for (load, messaging, guest, wanted) in [
            ("", "size = \"15B\"", "", "load `m`: `size` is 15B"),
            ("", "size = \"17MiB\"", "", "`size` is 17MiB"),
            ("", "queues = 0", "", "`queues` is 0"),
            ("", "publishers = 0", "", "`publishers` is 0"),
            ("", "subscribers = 0", "", "`subscribers` is 0"),
            ("", "queues = 100\nsubscribers = 100", "", "`queues x subscribers` is 10000"),
            ("", "queues = 100\npublishers = 100", "", "`queues x publishers` is 10000"),
            ("", "mode = \"fanout\"\nqueues = 2\npublishers = 4097", "", "`publishers` is 4097"),
            ("", "confirms = 1\ntransactions = 1", "", "`transactions` is 1 and `confirms` is 1"),
            ("", "prefetch = 10\nacknowledge = 11", "", "`acknowledge` is 11 and `prefetch` is 10"),
            ("", "prefetch = 65536", "", "`prefetch` is 65536"),
            ("", "count = 5", "", "has a warm-up"),
            ("", latency, "", "needs a rate of whole messages a second"),
            ("rate = \"0.5/s\"\narrival = \"even\"", latency, "", "needs a rate of whole messages a second"),
            ("rate = \"1000/s\"", latency, "", "arrival"),
            (schedule, "measure = \"latency\"\npublishers = 2", "", "knows no `publishers`"),
            (schedule, "measure = \"latency\"\nsubscribers = 2", "", "knows no `subscribers`"),
            (schedule, "measure = \"latency\"\nmode = \"topic\"", "", "knows no `mode`"),
            (schedule, "measure = \"latency\"\nconfirms = 1", "", "knows no `confirms`"),
            (schedule, "measure = \"latency\"\ntransactions = 1", "", "knows no `transactions`"),
            ("", "durable = true", "", "guest `b` (reference) has no disk for durable messages"),
            ("", "durable = true", "broker = \"qpid-broker-j\"\nmemory = \"1GiB\"", "none is durable"),
            (
                "",
                "tls = true",
                "broker = \"qpid-broker-j\"\nmemory = \"1GiB\"",
                "(qpid-broker-j) has no TLS here",
            ),
            ("", "", "broker = \"rabbitmq\"", "has 256MiB of memory, and rabbitmq needs 512MiB"),
        ] {
            let found = said(load, messaging, guest);
            assert!(found.contains(wanted), "{messaging}: {found}");
        }
        assert_eq!(said("", "", ""), "");
        assert_eq!(said(schedule, latency, ""), "");
        assert_eq!(
            said(schedule, "measure = \"latency\"\nqueues = 4\ncount = 5\nacknowledge = 1\nprefetch = 2", ""),
            ""
        );
        assert_eq!(said("", "durable = true\ntls = true", "broker = \"rabbitmq\"\nmemory = \"1GiB\""), "");
        assert_eq!(said("", "tls = true", ""), "");
        assert_eq!(said("", "durable = true", "[[guest.disk]]\nsize = \"1GiB\""), "");
    }

    #[test]
    fn a_broker_serves_its_loads_in_one_way() {
        let said = |second: &str| {
            let text = format!(
                "schema = 1\nname = \"m\"\nabout = \"m\"\nheadline = \"m\"\n[[guest]]\nname = \"b\"\nrole = \"broker\"\n\
                 [[load]]\nname = \"m\"\nguest = \"b\"\n[load.messaging]\ntls = true\n\
                 [[load]]\nname = \"n\"\nguest = \"b\"\n[load.messaging]\nsize = \"1KiB\"\n{second}\n[ladder]\ntiles = [1]\n"
            );
            match Draft::from_toml(&text, "test").unwrap().finish() {
                Ok(_) => String::new(),
                Err(problems) => problems.to_string(),
            }
        };
        assert!(
            said("").contains("would have to serve load `m` with TLS and load `n` without"),
            "{}",
            said("")
        );
        assert_eq!(said("tls = true"), "");
    }

    #[test]
    fn a_guest_too_small_for_its_broker_is_refused_with_and_without_a_load() {
        let said = |guest: &str| {
            let text = format!(
                "schema = 1\nname = \"m\"\nabout = \"m\"\n[[guest]]\nname = \"b\"\n{guest}\n[ladder]\ntiles = [1]\n"
            );
            match Draft::from_toml(&text, "test").unwrap().finish() {
                Ok(_) => String::new(),
                Err(problems) => {
                    problems.0.iter().map(|one| format!("{}: {}", one.message, one.remedy)).collect()
                }
            }
        };
        for broker in ["rabbitmq", "qpid-broker-j"] {
            let small = said(&format!("role = \"broker\"\nbroker = \"{broker}\"\nmemory = \"511MiB\""));
            assert!(small.contains(&format!("has 511MiB of memory, and {broker} needs 512MiB")), "{small}");
            assert!(small.contains("--set guest.b.memory=1GiB"), "{small}");
            assert_eq!(said(&format!("role = \"broker\"\nbroker = \"{broker}\"\nmemory = \"512MiB\"")), "");
            assert_eq!(said(&format!("role = \"web\"\nbroker = \"{broker}\"")), "", "no broker runs there");
        }
    }
}
