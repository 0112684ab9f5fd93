//! The throughput load as a whole.

use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use crate::director::{Director, Undirected};
use crate::publisher::{Published, Publisher};
use crate::report::ThroughputReport;
use crate::settings::{acknowledging, size_bytes};
use crate::shared::{Shared, cpu_time, joined, random_run};
use crate::subscriber::{Finished, Subscriber};
use crate::topology::{QueueName, Shape, Topology};
use crate::{Ledger, LoadError, Session, ThroughputLoad};
use tilemark_plan::workload::MessagingMode as Mode;

/// Lost messages that are named in a report.
const NAMED: usize = 5;

/// Runs the load. All threads connect first; then all start together.
pub fn throughput(load: &ThroughputLoad) -> Result<ThroughputReport, LoadError> {
    throughput_under(load, &Undirected::default())
}

/// [`throughput`] as one of several loads, or with a way to end it.
pub fn throughput_under(
    load: &ThroughputLoad,
    director: &dyn Director,
) -> Result<ThroughputReport, LoadError> {
    load.check()?;
    let (name, run) = random_run();
    let shape = Shape {
        mode: load.messages.mode,
        groups: load.groups(),
        subscribers: load.subscribers(),
        durable: load.messages.durable,
    };
    let topology = Topology::declare(&load.broker, load.timeout, &name, shape)?;
    let shared = Shared::new(run, director, topology.queues.len());
    let outcome = std::thread::scope(|scope| run_threads(scope, load, &topology, &shared));
    let broken = shared.broken();
    match shared.into_error() {
        Some(error) => Err(error),
        None => {
            // Of a broker that ended or hangs, dropping it deletes what it can, and does not wait long.
            if broken.is_none() {
                topology.delete()?;
            }
            let mut report = outcome.report(load, director.is_over());
            report.errors.splice(0..0, broken.clone());
            report.ended_by_broker = broken;
            Ok(report)
        }
    }
}

/// What came back from the threads.
#[derive(Debug)]
struct Outcome {
    started: Instant,
    published: Vec<Published>,
    subscribers: Vec<Consumed>,
    queues: Vec<QueueName>,
}

#[derive(Debug)]
struct Consumed {
    queue: usize,
    finished: Finished,
    cpu_s: f64,
}

fn run_threads<'s>(
    scope: &'s Scope<'s, '_>,
    load: &'s ThroughputLoad,
    topology: &'s Topology,
    shared: &'s Shared<'_>,
) -> Outcome {
    let all_publishers = load.groups() * load.publishers();
    let publishers: Vec<ScopedJoinHandle<'_, Option<Published>>> = (0..all_publishers)
        .map_while(|number| {
            let destination = &topology.destinations[usize::from(number / load.publishers())];
            shared.spawn(scope, move || {
                shared.director.thread_begins();
                let prepared =
                    Publisher::prepare(load, shared, number, destination).map_err(|error| shared.fail(error));
                shared.wait_for_start();
                prepared.ok()?.run().map_err(|error| shared.fail(error)).ok()
            })
        })
        .collect();
    let consumers = topology.queues.iter().enumerate();
    let consumers = consumers.flat_map(|(queue, name)| (0..name.subscribers).map(move |_| (queue, name)));
    let subscribers: Vec<ScopedJoinHandle<'_, Option<Consumed>>> = consumers
        .map_while(|(queue, name)| {
            shared.spawn(scope, move || consume(load, shared, queue, &name.name, all_publishers))
        })
        .collect();
    let mut started = Instant::now();
    shared.start(|origin| started = origin);
    let published: Vec<Published> = publishers.into_iter().filter_map(joined).collect();
    for (queue, name) in topology.queues.iter().enumerate() {
        shared.expect(queue, expected_in(load, name, &published));
    }
    let subscribers = subscribers.into_iter().filter_map(joined).collect();
    Outcome { started, published, subscribers, queues: topology.queues.clone() }
}

/// The error where fewer messages were published than were asked for.
fn too_few_published(load: &ThroughputLoad, published: u64, is_ended: bool) -> Option<String> {
    let asked = load.count()?.saturating_mul(u64::from(load.groups()) * u64::from(load.publishers()));
    let why = if is_ended { "the load was ended" } else { "its time was over: give it more `seconds`" };
    (published < asked).then(|| format!("only {published} of {asked} messages were published when {why}"))
}

/// Messages that should come out of a queue.
fn expected_in(load: &ThroughputLoad, queue: &QueueName, published: &[Published]) -> u64 {
    senders_to(load, queue, published).map(|found| found.count - found.refused).sum()
}

fn senders_to<'p>(
    load: &ThroughputLoad,
    queue: &QueueName,
    published: &'p [Published],
) -> impl Iterator<Item = &'p Published> {
    let (group, publishers, everybody) = (queue.group, load.publishers(), load.messages.mode == Mode::Fanout);
    published.iter().filter(move |found| everybody || found.publisher / publishers == group)
}

fn consume(
    load: &ThroughputLoad,
    shared: &Shared<'_>,
    queue: usize,
    name: &str,
    publishers: u16,
) -> Option<Consumed> {
    shared.director.thread_begins();
    let (acknowledging, size_bytes) = (acknowledging(&load.messages), size_bytes(&load.messages));
    let started = Session::open(&load.broker, load.timeout).and_then(|session| {
        Subscriber::start(session, name, acknowledging, shared.run, Ledger::new(publishers), size_bytes)
    });
    let started = started.map_err(|error| shared.fail(error));
    shared.wait_for_start();
    let mut subscriber = started.ok()?;
    let cpu_before = cpu_time();
    let drained = drain(&mut subscriber, shared, queue, load.timeout);
    let cpu_s = cpu_time() - cpu_before;
    let finished = match drained {
        // A broker that hangs would be waited for once more.
        Ok(()) if shared.broken().is_some() => Ok(subscriber.finished()),
        Ok(()) => subscriber.finish(shared),
        Err(error) => shared.breaks(error).map(|()| subscriber.finished()),
    };
    let finished = finished.map_err(|error| shared.fail(error)).ok()?;
    Some(Consumed { queue, finished, cpu_s })
}

/// Receives until all that was published is here, or nothing has come for too long after the last publish.
pub(crate) fn drain(
    subscriber: &mut Subscriber,
    shared: &Shared<'_>,
    queue: usize,
    timeout: Duration,
) -> Result<(), LoadError> {
    let mut quiet_since = Instant::now();
    loop {
        subscriber.receive(|_, _| {})?;
        if subscriber.fresh.deliveries > 0 {
            shared.count_received(queue, subscriber.fresh);
            quiet_since = Instant::now();
        }
        if shared.is_drained(queue) {
            return Ok(());
        }
        shared.check_running()?;
        if subscriber.fresh.deliveries == 0 {
            if !shared.is_published(queue) {
                quiet_since = Instant::now();
            } else if quiet_since.elapsed() >= timeout {
                return Ok(());
            }
        }
    }
}

impl Outcome {
    #[allow(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn report(mut self, load: &ThroughputLoad, is_ended: bool) -> ThroughputReport {
        let last = self.subscribers.iter().filter_map(|found| found.finished.last_receipt).max();
        let elapsed_s = last.map_or(0.0, |last| (last - self.started).as_secs_f64());
        let published: u64 = self.published.iter().map(|found| found.count).sum();
        let publishers_cpu_s: f64 = self.published.iter().map(|found| found.cpu_s).sum();
        let subscribers_cpu_s: f64 = self.subscribers.iter().map(|found| found.cpu_s).sum();
        let blocked = self.published.iter().map(|found| found.blocked).max().unwrap_or_default();
        let mut report = ThroughputReport {
            published,
            elapsed_s,
            refused: self.published.iter().map(|found| found.refused).sum(),
            publishers_cpu_s,
            subscribers_cpu_s,
            client_cpu_s: publishers_cpu_s + subscribers_cpu_s,
            blocked_s: blocked.as_secs_f64(),
            ..ThroughputReport::default()
        };
        for queue in 0..self.queues.len() {
            self.account_for(queue, load, &mut report);
        }
        report.errors.extend(too_few_published(load, published, is_ended));
        if elapsed_s > 0.0 {
            let transfers = (report.published + report.received) as f64;
            report.messages_per_s = report.published as f64 / elapsed_s;
            report.transfers_per_s = transfers / elapsed_s;
            report.megabytes_per_s = transfers * size_bytes(&load.messages) as f64 / 1e6 / elapsed_s;
        }
        report
    }

    /// Adds what the subscribers of a queue have received, together.
    fn account_for(&mut self, queue: usize, load: &ThroughputLoad, report: &mut ThroughputReport) {
        let mut ledgers =
            self.subscribers.iter().filter(|found| found.queue == queue).map(|found| &found.finished);
        let Some(first) = ledgers.next() else { return };
        let mut all = first.ledger.clone();
        report.damaged += first.damaged;
        for other in ledgers {
            all.merge(&other.ledger);
            report.damaged += other.damaged;
        }
        report.received += all.received();
        report.duplicated += all.duplicated();
        report.reordered += all.reordered();
        for sender in senders_to(load, &self.queues[queue], &self.published) {
            let lost = all.lost(sender.publisher, sender.count).saturating_sub(sender.refused);
            report.lost += lost;
            if lost > 0 && report.errors.len() < NAMED {
                for missing in all.missing(sender.publisher, sender.count, NAMED - report.errors.len()) {
                    let crate::Missing { publisher, sequence } = missing;
                    report.errors.push(format!(
                        "message {sequence} of publisher {publisher} was lost in queue {queue}"
                    ));
                }
            }
        }
    }
}
