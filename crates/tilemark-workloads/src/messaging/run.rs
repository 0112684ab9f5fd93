//! A job's messaging streams, all at the same time.
//!
//! ```text
//! each stream: connect, declare -> ready --(all ready)--> begin -> warm-up | second | second | … -> drained -> reported
//! ```

use super::{
    account::{self, FlatOut, Reading, StreamReport},
    stage::{Actor, Message, Part},
};
use crate::{
    clocks::BusySeconds,
    engine::LoadFailure,
    start_line::{StartLine, Starter},
    threads::NO_THREAD,
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Sender, Stream, StreamTotal};
use tilemark_amqp_load::{
    BrokerAddress, Director, LatencyLoad, LatencyReport, LoadError, ThroughputLoad, ThroughputReport,
    latency_under, throughput_under,
};
use tilemark_load::{Schedule, Scheduling, Start, Stop, pin};
use tilemark_plan::{
    plan::Demand,
    workload::{MessagingMeasure, Work},
};

/// A throughput load is ended when its last second was read; this much later it ends by itself.
const ENDS_BY_ITSELF: Duration = Duration::from_secs(5);

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
enum MessagingError {
    /// The stream is not one of this engine's, or lacks what it needs.
    #[error("stream {0} is not a messaging load that this load process can do")]
    NoMessaging(u32),
    /// A load failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A thread could not be started.
    #[error("a thread of the load cannot be started")]
    Thread(#[source] io::Error),
    /// A thread ended without a word.
    #[error("a thread of the load ended by a bug")]
    Lost,
}

impl MessagingError {
    /// What the reader should do.
    fn remedy(&self) -> &str {
        match self {
            Self::NoMessaging(_) => "use the agent that belongs to this tilemark",
            Self::Load(error) => error.remedy(),
            Self::Thread(_) => NO_THREAD,
            Self::Lost => "report it",
        }
    }
}

/// What a stream's load found.
enum Report {
    Throughput(ThroughputReport),
    Latency(LatencyReport),
}

/// One stream as a load.
enum Load {
    Throughput(ThroughputLoad),
    Latency(LatencyLoad),
}

/// The engine of `messaging`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    run(job, stop, start, events).map_err(LoadFailure::with(MessagingError::remedy))
}

/// Does the job's messaging streams.
fn run(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, MessagingError> {
    let loads: BTreeMap<u32, Load> = job
        .streams
        .iter()
        .map(|stream| Ok((stream.id, Load::of(job, stream)?)))
        .collect::<Result<_, MessagingError>>()?;
    // All threads of the loads inherit it: the guests' processors are never touched.
    let pinned = !job.processors.is_empty() && pin(&job.processors);
    let line = StartLine::default();
    let (say, messages) = mpsc::channel();
    let actors: BTreeMap<u32, Actor<'_>> =
        loads.iter().map(|(id, load)| (*id, Actor::new(stop, load.scheduling()))).collect();
    thread::scope(|scope| {
        for (id, load) in &loads {
            let part = Part { actor: &actors[id], starter: Starter(&line), say: Mutex::new(say.clone()) };
            let say = say.clone();
            let work = move || drop(say.send(Message::Ended(*id, load.run(&part))));
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, work) {
                return Err(MessagingError::Thread(error));
            }
        }
        drop(say);
        let mut running =
            RunningLoads { job, loads: &loads, actors: &actors, messages, ended: BTreeMap::new() };
        let totals = running.run(&line, pinned, start, events);
        // Whatever happened, nobody is left waiting or at work.
        line.give(None);
        actors.values().for_each(Actor::end);
        totals
    })
}

/// The loads under way, seen from the thread that leads.
struct RunningLoads<'a> {
    job: &'a LoadJob,
    loads: &'a BTreeMap<u32, Load>,
    actors: &'a BTreeMap<u32, Actor<'a>>,
    messages: mpsc::Receiver<Message<Report>>,
    ended: BTreeMap<u32, Report>,
}

impl RunningLoads<'_> {
    fn run(
        &mut self,
        line: &StartLine,
        pinned: bool,
        start: Start<'_>,
        events: &mut dyn FnMut(LoadEvent),
    ) -> Result<Vec<StreamTotal>, MessagingError> {
        for _ in 0..self.loads.len() {
            if let Message::Ended(_, ended) = self.messages.recv().map_err(|_| MessagingError::Lost)? {
                ended?;
                return Err(MessagingError::Lost);
            }
        }
        let Some(origin) = start(self.sender(pinned)) else { return Ok(Vec::new()) };
        line.give(Some(origin));
        let readings = self.read_each_second(origin, events)?;
        self.end_flat_out();
        while self.ended.len() < self.loads.len() {
            let message = self.messages.recv().map_err(|_| MessagingError::Lost)?;
            self.note(message)?;
        }
        let mut totals = Vec::new();
        for (id, report) in &self.ended {
            let StreamReport { seconds, total } = self.stream_report(*id, report, &readings);
            seconds.into_iter().for_each(|second| events(LoadEvent::Second(second)));
            totals.push(total);
        }
        Ok(totals)
    }

    /// What all threads got of the kernel: never more than the worst of them.
    fn sender(&self, pinned: bool) -> Sender {
        let got: Vec<tilemark_load::Got> = self
            .actors
            .values()
            .flat_map(|actor| actor.got.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect();
        Sender {
            workers: u32::try_from(got.len()).unwrap_or(u32::MAX),
            real_time: got.iter().all(|got| got.real_time),
            timer_slack_ns: got.iter().map(|got| got.timer_slack_ns).max().unwrap_or(0),
            pinned,
        }
    }

    /// Reads all streams when the warm-up is over and at the end of each second; ends sooner when all have.
    fn read_each_second(
        &mut self,
        origin: Instant,
        events: &mut dyn FnMut(LoadEvent),
    ) -> Result<BTreeMap<u32, FlatOut>, MessagingError> {
        let mut readings: BTreeMap<u32, FlatOut> = BTreeMap::new();
        let seconds = self.job.length.as_seconds().ceil() as u32;
        let mut busy = BusySeconds::of(self.job);
        for second in 0..=seconds {
            let due = origin + self.job.warmup.get() + Duration::from_secs(u64::from(second));
            self.listen_until(due)?;
            let now = Instant::now();
            let mut used = Vec::new();
            for (id, actor) in self.actors {
                let (of_stream, gauge) = (actor.clocks.read(), &actor.gauge);
                // Before the receipts that it is a part of.
                let wrong = gauge.wrong();
                readings.entry(*id).or_default().readings.push(Reading {
                    published: gauge.published(),
                    received: gauge.received(),
                    wrong,
                    refused: gauge.refused(),
                    cpu_ns: of_stream.iter().sum(),
                    at_s: now.duration_since(origin).as_secs_f64(),
                });
                used.extend(of_stream);
            }
            busy.take(now, used).into_iter().for_each(&mut *events);
            if self.ended.len() == self.loads.len() {
                break;
            }
        }
        Ok(readings)
    }

    /// Takes messages until a moment; returns sooner when all have ended.
    fn listen_until(&mut self, due: Instant) -> Result<(), MessagingError> {
        while self.ended.len() < self.loads.len() {
            let left = due.saturating_duration_since(Instant::now());
            match self.messages.recv_timeout(left) {
                Ok(message) => self.note(message)?,
                Err(mpsc::RecvTimeoutError::Timeout) => return Ok(()),
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(MessagingError::Lost),
            }
        }
        Ok(())
    }

    fn note(&mut self, message: Message<Report>) -> Result<(), MessagingError> {
        if let Message::Ended(id, report) = message {
            self.ended.insert(id, report?);
        }
        Ok(())
    }

    /// A flat-out load goes on until its last second was read, so that none is cut; a schedule ends by itself.
    fn end_flat_out(&self) {
        for (id, load) in self.loads {
            if matches!(load, Load::Throughput(_)) {
                self.actors[id].end();
            }
        }
    }

    fn stream_report(&self, id: u32, report: &Report, readings: &BTreeMap<u32, FlatOut>) -> StreamReport {
        let flat_out = &readings[&id];
        match (&self.loads[&id], report) {
            (Load::Latency(load), Report::Latency(report)) => {
                let cpu_ns = match flat_out.readings[..] {
                    [first, .., last] => last.cpu_ns - first.cpu_ns,
                    _ => 0,
                };
                account::by_schedule(id, load, cpu_ns as f64 / 1e9, report)
            }
            (Load::Throughput(load), Report::Throughput(report)) => flat_out.stream_report(id, load, report),
            _ => unreachable!("a load gives a report of its own kind"),
        }
    }
}

impl Load {
    fn of(job: &LoadJob, stream: &Stream) -> Result<Self, MessagingError> {
        let (Work::Messaging(parameters), Some(credentials)) = (&*stream.work, &stream.credentials) else {
            return Err(MessagingError::NoMessaging(stream.id));
        };
        let timeout = stream.timeout.get();
        let broker =
            BrokerAddress::guest(stream.target).with_user(&*credentials.user, &*credentials.password);
        let broker = if parameters.tls { broker.secured() } else { broker };
        match (parameters.measure, &stream.demand) {
            (MessagingMeasure::Throughput, _) => Ok(Self::Throughput(ThroughputLoad {
                broker,
                messages: parameters.clone(),
                seconds: job.warmup.get() + job.length.get() + ENDS_BY_ITSELF,
                timeout,
            })),
            (MessagingMeasure::Latency, Demand::Open { rate, .. }) => Ok(Self::Latency(LatencyLoad {
                broker,
                messages: parameters.clone(),
                rate: (rate.get().round() as u64).max(1),
                phase: Schedule::phase(stream.seed),
                warmup: job.warmup.get(),
                seconds: job.length.get(),
                timeout,
            })),
            (MessagingMeasure::Latency, Demand::Closed) => Err(MessagingError::NoMessaging(stream.id)),
        }
    }

    const fn scheduling(&self) -> Scheduling {
        match self {
            Self::Latency(_) => Scheduling::RealTime,
            Self::Throughput(_) => Scheduling::Ordinary,
        }
    }

    fn run(&self, director: &dyn Director) -> Result<Report, LoadError> {
        match self {
            Self::Throughput(load) => throughput_under(load, director).map(Report::Throughput),
            Self::Latency(load) => latency_under(load, director).map(Report::Latency),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_agent_protocol::Credentials;
    use tilemark_plan::{scenario::Arrival, workload::MessagingParameters};
    use tilemark_units::{Rate, Span};

    fn job() -> LoadJob {
        LoadJob {
            streams: Vec::new(),
            processors: Vec::new(),
            warmup: Span::from_seconds(1),
            length: Span::from_seconds(1),
        }
    }

    fn phase_of(seed: u64) -> f64 {
        let job = job();
        let demand = Demand::Open {
            rate: Rate::per_second(100.0).unwrap(),
            arrival: Arrival::Even,
            burst_every: Span::from_seconds(5),
            burst_length: Span::from_seconds(1),
            surge: None,
        };
        let parameters =
            MessagingParameters { measure: MessagingMeasure::Latency, ..MessagingParameters::default() };
        let target = ([10, 77, 1, 0], 5672).into();
        let stream = Stream {
            seed,
            credentials: Some(Credentials { user: "a".into(), password: "b".into() }),
            ..Stream::new(0, target, demand, Work::Messaging(parameters))
        };
        match Load::of(&job, &stream) {
            Ok(Load::Latency(load)) => load.phase,
            _ => panic!("it is a load by a schedule"),
        }
    }

    #[test]
    fn threads_that_share_the_loads_processors_are_bound_all_the_same() {
        let (stop, loads) = (Stop::new().unwrap(), BTreeMap::new());
        let actor = Actor::new(&stop, Scheduling::Ordinary);
        let got = tilemark_load::Got { real_time: false, timer_slack_ns: 1, pinned: false };
        actor.got.lock().unwrap().extend([got; 3]);
        let actors = BTreeMap::from([(0, actor)]);
        let (_, messages) = mpsc::channel();
        let job = LoadJob { processors: vec![0], ..job() };
        let running =
            RunningLoads { job: &job, loads: &loads, actors: &actors, messages, ended: BTreeMap::new() };
        let bound = [true, false].map(|pinned| running.sender(pinned));
        assert_eq!(bound.map(|sender| (sender.workers, sender.pinned)), [(3, true), (3, false)]);
    }

    #[test]
    fn streams_of_one_rate_have_phases_of_their_own() {
        let phases: Vec<f64> = (1..=8).map(phase_of).collect();
        assert!(phases.iter().all(|phase| (0.0..1.0).contains(phase)), "{phases:?}");
        assert!(phases.iter().enumerate().all(|(at, phase)| !phases[..at].contains(phase)), "{phases:?}");
        assert_eq!(phase_of(3), phases[2], "a seed gives its phase again");
    }
}
