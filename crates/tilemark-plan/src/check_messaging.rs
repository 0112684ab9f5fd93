//! What a messaging load must be to be done at all, said before anything starts.

use crate::{
    scenario::{Arrival, Guest, Load, LoopKind, Role, Scenario},
    workload::{BrokerService, MessagingMeasure, MessagingParameters},
};
use tilemark_units::Bytes;

/// A message carries run, publisher, sequence number and check in so many bytes.
const STAMP: Bytes = Bytes::new(16);
/// The largest message that common brokers take.
const SIZE_MAX: Bytes = Bytes::from_mib(16);
/// Each publisher and subscriber is a thread with a connection.
const THREADS_MAX: u32 = 4096;
/// RabbitMQ's runtime and Broker-J's Java need this beside their messages.
const FOREIGN_MEMORY: Bytes = Bytes::from_mib(512);

/// Says what is wrong with a messaging load.
pub(crate) fn check(scenario: &Scenario, load: &Load, say: &mut impl FnMut(String, &str)) {
    let Some(messaging) = &load.messaging else { return };
    let name = &load.name;
    if messaging.size < STAMP || messaging.size > SIZE_MAX {
        let remedy =
            "write 16B to 16MiB: a message carries run, publisher, sequence number and check in 16 bytes";
        say(format!("load `{name}`: messages of {} are not possible", messaging.size), remedy);
    }
    let MessagingParameters { queues, publishers, subscribers, .. } = messaging;
    for (what, count) in [("queues", queues), ("publishers", publishers), ("subscribers", subscribers)] {
        if *count == 0 {
            say(format!("load `{name}` has no {what}"), &format!("write `{what} = 1` or more"));
        }
    }
    let threads = queues.saturating_mul((*publishers).max(*subscribers));
    if threads > THREADS_MAX {
        let remedy = "each is a thread: lower `queues`, `publishers` or `subscribers`";
        say(format!("load `{name}` has {threads} publishers or subscribers"), remedy);
    }
    if messaging.confirms > 0 && messaging.transactions > 0 {
        say(
            format!("load `{name}` asks for confirms and transactions"),
            "a channel has one of them: leave out one",
        );
    }
    if messaging.prefetch > u32::from(u16::MAX) {
        say(format!("load `{name}`: `prefetch = {}`", messaging.prefetch), "AMQP counts to 65535");
    }
    if messaging.prefetch > 0 && messaging.acknowledge > messaging.prefetch {
        let remedy = "acknowledge at least once in each prefetch, or the broker waits for ever";
        say(format!("load `{name}` acknowledges more rarely than `prefetch` lets messages through"), remedy);
    }
    match messaging.measure {
        MessagingMeasure::Latency => {
            check_schedule(load, say);
            check_one_pair(name, messaging, say);
        }
        MessagingMeasure::Throughput => {
            if messaging.count > 0 && !scenario.measure.warmup.get().is_zero() {
                let remedy = "write `measure.warmup = \"0s\"`, or leave out `count`";
                say(format!("load `{name}` counts its messages and has a warm-up"), remedy);
            }
        }
    }
    if let Some(guest) = scenario.guest.iter().find(|guest| guest.name == load.guest) {
        check_broker(guest, messaging, say);
    }
}

fn check_schedule(load: &Load, say: &mut impl FnMut(String, &str)) {
    let name = &load.name;
    let rate = load.rate.map_or(0.0, |rate| rate.get());
    if load.loop_kind == LoopKind::Closed || rate < 1.0 || rate.fract() != 0.0 {
        let remedy = "write `rate = \"1000/s\"`: a whole number of messages a second";
        say(format!("load `{name}` measures latency and has no such rate"), remedy);
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
fn check_one_pair(name: &str, messaging: &MessagingParameters, say: &mut impl FnMut(String, &str)) {
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

/// Says of a guest that it is too small for its broker, loaded or not.
pub(crate) fn check_guest(guest: &Guest, say: &mut impl FnMut(String, &str)) {
    let is_foreign = guest.role == Role::Broker && guest.broker != BrokerService::Reference;
    if is_foreign && guest.memory < FOREIGN_MEMORY {
        let Guest { name, memory, broker, .. } = guest;
        let remedy = format!("write `--set guest.{name}.memory=1GiB`; {FOREIGN_MEMORY} is the least");
        let broker = broker.name();
        say(format!("guest `{name}` has {memory} of memory, and {broker} needs {FOREIGN_MEMORY}"), &remedy);
    }
}

fn check_broker(guest: &Guest, messaging: &MessagingParameters, say: &mut impl FnMut(String, &str)) {
    let (name, broker) = (&guest.name, guest.broker.name());
    match guest.broker {
        BrokerService::Reference | BrokerService::QpidBrokerJ if messaging.durable => {
            let remedy = "write `broker = \"rabbitmq\"`, or load one outside with `tilemark load messaging-throughput --durable`";
            say(format!("guest `{name}` ({broker}) keeps no message over a restart"), remedy);
        }
        BrokerService::Reference | BrokerService::Rabbitmq | BrokerService::QpidBrokerJ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    /// What is said of a scenario with these lines in its load, guest and measurement.
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
    fn what_cannot_be_done_is_said_before_anything_starts() {
        let latency = "measure = \"latency\"";
        let schedule = "rate = \"1000/s\"\narrival = \"even\"";
        for (load, messaging, guest, wanted) in [
            ("", "size = \"15B\"", "", "messages of 15B are not possible"),
            ("", "size = \"17MiB\"", "", "are not possible"),
            ("", "queues = 0", "", "has no queues"),
            ("", "queues = 100\nsubscribers = 100", "", "10000 publishers or subscribers"),
            ("", "confirms = 1\ntransactions = 1", "", "confirms and transactions"),
            ("", "prefetch = 10\nacknowledge = 11", "", "acknowledges more rarely"),
            ("", "prefetch = 65536", "", "prefetch = 65536"),
            ("", "count = 5", "", "has a warm-up"),
            ("", latency, "", "has no such rate"),
            ("rate = \"0.5/s\"\narrival = \"even\"", latency, "", "has no such rate"),
            ("rate = \"1000/s\"", latency, "", "arrival"),
            (schedule, "measure = \"latency\"\npublishers = 2", "", "knows no `publishers`"),
            (schedule, "measure = \"latency\"\nsubscribers = 2", "", "knows no `subscribers`"),
            (schedule, "measure = \"latency\"\nmode = \"topic\"", "", "knows no `mode`"),
            (schedule, "measure = \"latency\"\nconfirms = 1", "", "knows no `confirms`"),
            (schedule, "measure = \"latency\"\ntransactions = 1", "", "knows no `transactions`"),
            ("", "durable = true", "", "keeps no message over a restart"),
            ("", "durable = true", "broker = \"qpid-broker-j\"\nmemory = \"1GiB\"", "keeps no message"),
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
        assert_eq!(said("", "durable = true", "broker = \"rabbitmq\"\nmemory = \"1GiB\""), "");
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
