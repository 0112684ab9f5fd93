//! The latency load as a whole.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::thread::Scope;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::PollFlags;
use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::{Timespec, clock_gettime};
use tilemark_amqp::PublishBatch;

use crate::director::{Director, Undirected};
use crate::input::interpret;
use crate::publisher::Sample;
use crate::report::{LatencyFigures, LatencyReport, LatenessFigures, SecondFigures, SecondTroubles};
use crate::session::Moved;
use crate::settings::{acknowledging, size_bytes};
use crate::shared::{Shared, cpu_time, joined, random_run};
use crate::subscriber::{Finished, Subscriber};
use crate::topology::{Shape, Topology};
use crate::{LatencyLoad, Ledger, LoadError, Missing, Receipt, Session, Stamp};
use tilemark_plan::workload::MessagingMode as Mode;

/// Time between the barrier and the first message, so that nobody is late for it.
const LEAD: Duration = Duration::from_millis(20);
/// Three digits up to an hour; longer latencies grow the histogram.
const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Lost messages that are named in a report.
const NAMED: usize = 5;
/// Messages that are due together go in one write, up to this many and about so many bytes.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Intended times of sending. Multiplied out each time, so that nothing drifts and nothing is skipped. A schedule of `tilemark-load` gives
/// one time after the other; here the publisher asks how many are due, and the subscriber for the time of the message that it has.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    start_ns: u64,
    rate: u64,
    /// Messages of the warm-up, which come first and are in no figure.
    warmup: u64,
}

impl Schedule {
    /// That of a load whose threads passed the barrier at that time.
    fn of(load: &LatencyLoad, origin_ns: u64) -> Self {
        let lead_ns = u64::try_from(LEAD.as_nanos()).expect("20 ms");
        let phase_ns = (load.phase * 1e9 / load.rate as f64) as u64;
        Self { start_ns: origin_ns + lead_ns + phase_ns, rate: load.rate, warmup: load.warmup_count() }
    }

    #[inline]
    fn intended_ns(&self, sequence: u64) -> u64 {
        let offset = u128::from(sequence) * 1_000_000_000 / u128::from(self.rate);
        self.start_ns + u64::try_from(offset).unwrap_or(u64::MAX / 2)
    }

    /// Messages that are due at that time.
    fn due(&self, now_ns: u64) -> u64 {
        let Some(since) = now_ns.checked_sub(self.start_ns) else { return 0 };
        let whole = u128::from(since) * u128::from(self.rate) / 1_000_000_000;
        u64::try_from(whole).unwrap_or(u64::MAX - 1) + 1
    }

    /// The second of the measurement to which a message belongs; `None` in the warm-up.
    fn second_of(&self, sequence: u64) -> Option<usize> {
        let measured = sequence.checked_sub(self.warmup)?;
        Some(usize::try_from(measured / self.rate).unwrap_or(usize::MAX))
    }

    /// The second of the measurement at that time; `None` in the warm-up.
    fn second_at(&self, now_ns: u64) -> Option<usize> {
        self.second_of(self.due(now_ns).checked_sub(1)?)
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn histogram() -> Histogram<u64> {
    let mut histogram =
        Histogram::new_with_bounds(1, HIGHEST_NS, 3).expect("bounds and digits that the crate allows");
    histogram.auto(true);
    histogram
}

/// Runs the load: one queue, one publisher by the schedule, one subscriber.
pub fn latency(load: &LatencyLoad) -> Result<LatencyReport, LoadError> {
    latency_under(load, &Undirected::default())
}

/// [`latency`] as one of several loads, or with a way to end it.
pub fn latency_under(load: &LatencyLoad, director: &dyn Director) -> Result<LatencyReport, LoadError> {
    load.check()?;
    let (name, run) = random_run();
    let shape = Shape { mode: Mode::Shared, groups: 1, subscribers: 1, durable: load.messages.durable };
    let topology = Topology::declare(&load.broker, load.timeout, &name, shape)?;
    let shared = Shared::new(run, director, 1);
    let schedule = OnceLock::new();
    let outcome = std::thread::scope(|scope| run_threads(scope, load, &topology, &shared, &schedule));
    let broken = shared.broken();
    match (shared.into_error(), outcome) {
        (Some(error), _) => Err(error),
        (None, None) => Err(LoadError::Aborted),
        (None, Some((sent, seen))) => {
            // Of a broker that ended or hangs, dropping it deletes what it can, and does not wait long.
            if broken.is_none() {
                topology.delete()?;
            }
            let schedule = *schedule.get().expect("what was sent was sent by it");
            let mut report = report(load, schedule, sent, seen);
            report.errors.splice(0..0, broken.clone());
            report.ended_by_broker = broken;
            Ok(report)
        }
    }
}

#[derive(Debug)]
struct Sent {
    count: u64,
    lateness: Vec<Histogram<u64>>,
    cpu_s: f64,
}

#[derive(Debug)]
struct Seen {
    finished: Finished,
    seconds: Vec<Histogram<u64>>,
    /// What went wrong in each, but for losses.
    troubles: Vec<SecondTroubles>,
    /// Right receipts within the measurement's time.
    in_time: u64,
    elapsed_s: f64,
    cpu_s: f64,
}

fn run_threads<'s>(
    scope: &'s Scope<'s, '_>,
    load: &'s LatencyLoad,
    topology: &'s Topology,
    shared: &'s Shared<'_>,
    schedule: &'s OnceLock<Schedule>,
) -> Option<(Sent, Seen)> {
    let publisher = shared.spawn(scope, move || {
        shared.director.thread_begins();
        let prepared = Sender::prepare(load, shared, topology).map_err(|error| shared.fail(error));
        shared.wait_for_start();
        prepared.ok()?.run(*schedule.get()?).map_err(|error| shared.fail(error)).ok()
    });
    let subscriber = shared.spawn(scope, move || {
        shared.director.thread_begins();
        let started = subscribe(load, shared, topology).map_err(|error| shared.fail(error));
        shared.wait_for_start();
        observe(started.ok()?, load, shared, *schedule.get()?).map_err(|error| shared.fail(error)).ok()
    });
    shared.start(|origin| {
        let since = u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let _ = schedule.set(Schedule::of(load, now_ns().saturating_sub(since)));
    });
    let sent = publisher.and_then(joined);
    shared.expect(0, sent.as_ref().map_or(0, |sent| sent.count));
    let seen = subscriber.and_then(joined);
    sent.zip(seen)
}

/// The publisher.
struct Sender<'a> {
    load: &'a LatencyLoad,
    shared: &'a Shared<'a>,
    session: Session,
    batch: PublishBatch,
    /// By second of the measurement: how late we sent, without the time in which the broker did not read.
    lateness: Vec<Histogram<u64>>,
    blocked: Blocked,
}

/// When the broker did not read: times of that delay are not ours.
#[derive(Default)]
struct Blocked {
    /// From and to, oldest first; only those that a message still to be recorded may have waited in.
    spans_ns: VecDeque<(u64, u64)>,
    sum_ns: u64,
}

impl Blocked {
    fn add(&mut self, from_ns: u64, to_ns: u64) {
        self.spans_ns.push_back((from_ns, to_ns));
        self.sum_ns += to_ns.saturating_sub(from_ns);
    }

    /// How long it did not read since then. Moments are asked for in their order.
    fn since(&mut self, moment_ns: u64) -> u64 {
        while let Some((from, to)) = self.spans_ns.front().copied().filter(|(_, to)| *to <= moment_ns) {
            self.sum_ns -= to.saturating_sub(from);
            self.spans_ns.pop_front();
        }
        let before = self.spans_ns.front().map_or(0, |(from, _)| moment_ns.saturating_sub(*from));
        self.sum_ns - before
    }
}

impl<'a> Sender<'a> {
    fn prepare(
        load: &'a LatencyLoad,
        shared: &'a Shared<'a>,
        topology: &Topology,
    ) -> Result<Self, LoadError> {
        let session = Session::open(&load.broker, load.timeout)?;
        let destination = &topology.destinations[0];
        let message =
            Sample { destination, durable: load.messages.durable, size_bytes: size_bytes(&load.messages) };
        let batch = message.batch(session.frame_max, |stride| (BATCH_BYTES / stride).min(BATCH));
        Ok(Self { load, shared, session, batch, lateness: by_second(load), blocked: Blocked::default() })
    }

    fn run(mut self, schedule: Schedule) -> Result<Sent, LoadError> {
        // Without it the kernel may wake us 50 us late; where it is refused, lateness shows it.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let cpu_before = cpu_time();
        let mut sent = 0;
        let is_whole = match self.send_all(schedule, &mut sent) {
            Ok(()) => true,
            Err(error) => {
                self.shared.breaks(error)?;
                false
            }
        };
        let cpu_s = cpu_time() - cpu_before;
        if is_whole {
            self.session.close().or_else(|error| self.shared.breaks(error))?;
        }
        Ok(Sent { count: sent, lateness: self.lateness, cpu_s })
    }

    /// Sends by the schedule to its end, and counts what is sent.
    fn send_all(&mut self, schedule: Schedule, sent: &mut u64) -> Result<(), LoadError> {
        let count = self.load.count();
        while *sent < count && !self.shared.director.is_over() {
            sleep_until(schedule.intended_ns(*sent));
            self.shared.check_running()?;
            let due = schedule.due(now_ns()).min(count).saturating_sub(*sent);
            let batch = due.clamp(1, self.batch.capacity() as u64);
            self.send(*sent, batch, schedule)?;
            *sent += batch;
            self.shared.director.gauge().count_published(batch);
            self.look_for_complaints()?;
        }
        Ok(())
    }

    /// Sends what is due. When the broker does not read, this waits, and what becomes due meanwhile is not skipped: that it waited is in
    /// its latency, and not in our lateness.
    fn send(&mut self, first: u64, count: u64, schedule: Schedule) -> Result<(), LoadError> {
        for (index, sequence) in (first..first + count).enumerate() {
            Stamp { run: self.shared.run, publisher: 0, sequence }.write(self.batch.body_mut(index));
        }
        let count = usize::try_from(count).expect("at most a batch");
        let mut done = 0;
        let mut recorded = 0;
        let mut deadline = Instant::now() + self.load.timeout;
        while done < count * self.batch.stride() {
            match self.session.try_send(&self.batch.bytes(count)[done..])? {
                Moved::Bytes(bytes) => {
                    done += bytes;
                    let now = now_ns();
                    let whole = (done / self.batch.stride()) as u64;
                    for sequence in first + recorded..first + whole {
                        let intended = schedule.intended_ns(sequence);
                        let own = now.saturating_sub(intended).saturating_sub(self.blocked.since(intended));
                        if let Some(second) = second_mut(&mut self.lateness, schedule, sequence) {
                            second.saturating_record(own.max(1));
                        }
                    }
                    recorded = whole;
                    deadline = Instant::now() + self.load.timeout;
                }
                Moved::WouldBlock if Instant::now() >= deadline => {
                    return Err(self.session.blockade.error("read", self.load.timeout));
                }
                Moved::WouldBlock => {
                    let from = now_ns();
                    self.session.wait(PollFlags::IN | PollFlags::OUT, Duration::from_millis(100))?;
                    self.blocked.add(from, now_ns());
                    self.look_for_complaints()?;
                    self.shared.check_running()?;
                }
            }
        }
        Ok(())
    }

    fn look_for_complaints(&mut self) -> Result<(), LoadError> {
        if self.session.receive()? == Moved::WouldBlock {
            return Ok(());
        }
        while let Some(frame) = self.session.inbox.next_frame().map_err(LoadError::Malformed)? {
            self.session.blockade.hear(&interpret(&frame)?);
        }
        Ok(())
    }
}

fn sleep_until(time_ns: u64) {
    let time = Timespec {
        tv_sec: (time_ns / 1_000_000_000).cast_signed(),
        tv_nsec: (time_ns % 1_000_000_000).cast_signed(),
    };
    // An interrupted sleep ends early, and a message would be sent early: sleep again.
    while clock_nanosleep_absolute(ClockId::Monotonic, &time) == Err(rustix::io::Errno::INTR) {}
}

fn subscribe(load: &LatencyLoad, shared: &Shared<'_>, topology: &Topology) -> Result<Subscriber, LoadError> {
    let session = Session::open(&load.broker, load.timeout)?;
    Subscriber::start(
        session,
        &topology.queues[0].name,
        acknowledging(&load.messages),
        shared.run,
        Ledger::new(1),
        size_bytes(&load.messages),
    )
}

fn observe(
    mut subscriber: Subscriber,
    load: &LatencyLoad,
    shared: &Shared<'_>,
    schedule: Schedule,
) -> Result<Seen, LoadError> {
    let cpu_before = cpu_time();
    let mut seconds = by_second(load);
    let mut quiet_since = Instant::now();
    let mut last_ns = schedule.start_ns;
    let mut troubles = vec![SecondTroubles::default(); seconds.len()];
    let measured = schedule.intended_ns(schedule.warmup)..schedule.intended_ns(load.count());
    let mut in_time = 0;
    let mut is_broken = false;
    while !shared.is_drained(0) {
        let received = subscriber.receive(|stamp, receipt| {
            let now = now_ns();
            last_ns = now;
            in_time += u64::from(receipt == Receipt::InOrder && measured.contains(&now));
            let Some(second) = schedule.second_of(stamp.sequence).filter(|second| *second < seconds.len())
            else {
                return;
            };
            match receipt {
                Receipt::Again => {
                    troubles[second].duplicated += 1;
                    return;
                }
                Receipt::Late => troubles[second].reordered += 1,
                Receipt::InOrder => {}
            }
            let latency_ns = now.saturating_sub(schedule.intended_ns(stamp.sequence));
            seconds[second].saturating_record(latency_ns.max(1));
        });
        if let Err(error) = received {
            shared.breaks(error)?;
            is_broken = true;
            break;
        }
        shared.check_running()?;
        if subscriber.fresh.damaged > 0 {
            note_damaged(&mut troubles, schedule.second_at(now_ns()), subscriber.fresh.damaged);
        }
        if subscriber.fresh.deliveries > 0 || !shared.is_published(0) {
            shared.count_received(0, subscriber.fresh);
            quiet_since = Instant::now();
        } else if quiet_since.elapsed() >= load.timeout {
            break;
        }
    }
    let cpu_s = cpu_time() - cpu_before;
    let began_ns = schedule.intended_ns(schedule.warmup);
    let elapsed_s = Duration::from_nanos(last_ns.saturating_sub(began_ns)).as_secs_f64();
    // A broker that hangs would be waited for once more.
    let is_over = is_broken || shared.broken().is_some();
    let finished = if is_over { subscriber.finished() } else { subscriber.finish(shared)? };
    Ok(Seen { finished, seconds, troubles, in_time, elapsed_s, cpu_s })
}

/// What comes after the last second belongs to it.
fn note_damaged(troubles: &mut [SecondTroubles], second: Option<usize>, count: u64) {
    let last = troubles.len().saturating_sub(1);
    if let Some(troubles) = second.and_then(|second| troubles.get_mut(second.min(last))) {
        troubles.damaged += count;
    }
}

/// Adds the messages that never arrived to the seconds in which they were to be sent.
fn note_lost(troubles: &mut [SecondTroubles], schedule: Schedule, lost: &[Missing]) {
    for missing in lost {
        let second = schedule.second_of(missing.sequence);
        if let Some(troubles) = second.and_then(|second| troubles.get_mut(second)) {
            troubles.lost += 1;
        }
    }
}

/// An empty histogram for each second of the measurement.
fn by_second(load: &LatencyLoad) -> Vec<Histogram<u64>> {
    let measured = load.count() - load.warmup_count();
    (0..measured.div_ceil(load.rate)).map(|_| histogram()).collect()
}

fn second_mut(
    seconds: &mut [Histogram<u64>],
    schedule: Schedule,
    sequence: u64,
) -> Option<&mut Histogram<u64>> {
    schedule.second_of(sequence).and_then(|second| seconds.get_mut(second))
}

fn merged(seconds: &[Histogram<u64>]) -> Histogram<u64> {
    let mut whole = histogram();
    for second in seconds {
        whole.add(second).expect("the same bounds, and they may grow");
    }
    whole
}

#[allow(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn report(load: &LatencyLoad, schedule: Schedule, sent: Sent, seen: Seen) -> LatencyReport {
    let whole = merged(&seen.seconds);
    let ledger = &seen.finished.ledger;
    let missing = ledger.missing(0, sent.count, usize::MAX);
    let mut troubles = seen.troubles;
    note_lost(&mut troubles, schedule, &missing);
    let seconds =
        (0..).zip(&seen.seconds).map(|(second, histogram)| SecondFigures::of(second, histogram)).collect();
    let messages_per_s = if seen.elapsed_s > 0.0 { whole.len() as f64 / seen.elapsed_s } else { 0.0 };
    LatencyReport {
        scheduled: load.count(),
        published: sent.count,
        received: ledger.received(),
        offered_per_s: load.rate as f64,
        messages_per_s,
        transfers_per_s: 2.0 * messages_per_s,
        megabytes_per_s: 2.0 * messages_per_s * size_bytes(&load.messages) as f64 / 1e6,
        latency_ms: LatencyFigures::of(&whole),
        send_lateness_us: LatenessFigures::of(&merged(&sent.lateness)),
        seconds,
        lost: ledger.lost(0, sent.count),
        duplicated: ledger.duplicated(),
        reordered: ledger.reordered(),
        damaged: seen.finished.damaged,
        client_cpu_s: sent.cpu_s + seen.cpu_s,
        ended_by_broker: None,
        errors: missing
            .iter()
            .take(NAMED)
            .map(|missing| format!("message {} was lost", missing.sequence))
            .collect(),
        received_in_time: seen.in_time,
        histograms: seen.seconds,
        lateness_histograms: sent.lateness,
        troubles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_is_due_at_its_intended_time_and_none_before() {
        for rate in [1, 3, 1000, 333_333] {
            let schedule = Schedule { start_ns: 5_000, rate, warmup: 0 };
            assert_eq!(schedule.due(4_999), 0);
            for sequence in [0, 1, 2, 10, 999_999_999] {
                let intended = schedule.intended_ns(sequence);
                assert!(schedule.due(intended + 1) >= sequence, "{rate} {sequence}");
                assert!(schedule.due(intended.saturating_sub(1)) <= sequence + 1, "{rate} {sequence}");
            }
        }
    }

    #[test]
    fn loads_of_one_rate_and_other_phases_send_at_other_instants() {
        let broker = crate::BrokerAddress::guest(([127, 0, 0, 1], 5672).into());
        let first = |phase| {
            let load = LatencyLoad { phase, rate: 100, ..LatencyLoad::new(broker.clone()) };
            Schedule::of(&load, 7).intended_ns(0)
        };
        assert_eq!(first(0.0), 20_000_007);
        assert_eq!(first(0.25), 22_500_007, "a quarter of 10 ms later");
    }

    #[test]
    fn only_what_the_broker_did_not_read_is_taken_from_our_lateness() {
        let mut blocked = Blocked::default();
        assert_eq!(blocked.since(5), 0);
        blocked.add(100, 110);
        blocked.add(120, 150);
        // A message that was due at 0 and is sent at 160 was late by 160, 40 of them by the broker.
        assert_eq!(blocked.since(0), 40);
        assert_eq!(blocked.since(105), 35);
        assert_eq!(blocked.since(115), 30);
        assert_eq!(blocked.since(130), 20);
        assert_eq!(blocked.since(150), 0);
    }

    #[test]
    fn what_went_wrong_belongs_to_its_second_and_in_the_warm_up_to_none() {
        let schedule = Schedule { start_ns: 1_000_000_000, rate: 10, warmup: 20 };
        let mut troubles = vec![SecondTroubles::default(); 3];
        let lost = [0, 19, 20, 29, 30, 49].map(|sequence| Missing { publisher: 0, sequence });
        note_lost(&mut troubles, schedule, &lost);
        assert_eq!(troubles.iter().map(|second| second.lost).collect::<Vec<_>>(), [2, 1, 1]);
        for (at_ms, count) in [(2_900, 1), (3_001, 2), (5_999, 4), (9_000, 8)] {
            note_damaged(&mut troubles, schedule.second_at(at_ms * 1_000_000), count);
        }
        assert_eq!(troubles.iter().map(|second| second.damaged).collect::<Vec<_>>(), [2, 0, 12]);
    }
}
