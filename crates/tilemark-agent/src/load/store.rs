//! The store's customers as a load: each stream is a run of `tilemark-store` on its own database. All begin together,
//! when the last one's connections stand; each is told second by second and audited at its end.

use super::store_seconds::Seconds;
use rustix::{
    thread::{CpuSet, sched_setaffinity},
    time::{ClockId, clock_gettime},
};
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{
    Credentials, LoadEvent, LoadJob, Sender, Stream, StreamSecond, StreamTotal, StreamWork,
};
use tilemark_load::Stop;
use tilemark_plan::{
    plan,
    scenario::Arrival,
    workload::{StoreDatabase, StoreParameters},
};
use tilemark_store::{
    Arrivals, DatabaseAddress, Demand, Endpoint, Engine, LoadResult, Pace, Secret, StoreError,
    run_observed_load,
};

/// The store's database in each server.
pub(crate) const DATABASE: &str = "store";
/// Errors that are told in words.
const ERRORS_TOLD: usize = 5;
/// Time between two looks at whether the load shall end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The engine of a store's parameters.
pub(crate) const fn engine_of(parameters: &StoreParameters) -> Engine {
    match parameters.database {
        StoreDatabase::Mariadb => Engine::Mariadb,
        StoreDatabase::Postgresql => Engine::Postgresql,
    }
}

/// What a stream's thread tells.
pub(super) enum Told {
    /// Its connections stand.
    Stands,
    /// A second of it is over.
    Second(StreamSecond),
    /// It ended.
    Ended(Result<StreamTotal, StoreError>),
}

/// When all streams begin, and whether they shall end.
#[derive(Default)]
pub(super) struct Signals {
    pub(super) go: AtomicBool,
    pub(super) end: AtomicBool,
}

/// Does all streams of a job; the last event is `Done`.
pub(super) fn perform(
    job: &LoadJob,
    stop: &Stop,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<(), StoreError> {
    let pinned = pin(&job.processors);
    let streams: Vec<StoreStream<'_>> = job.streams.iter().filter_map(StoreStream::of).collect();
    let workers = streams.iter().map(|stream| stream.parameters.clients).sum();
    let timer_slack_ns = rustix::thread::current_timer_slack().unwrap_or(50_000);
    let sender = Sender { workers, real_time: false, timer_slack_ns, pinned };
    let signals = Signals::default();
    let (teller, told) = mpsc::channel();
    let totals = thread::scope(|scope| {
        for stream in &streams {
            let (teller, signals) = (teller.clone(), &signals);
            scope.spawn(move || {
                let seconds = Seconds::new(stream.stream.id, teller.clone(), signals);
                let total = stream.run(job, &seconds, &signals.end);
                // Whoever listens does so until every stream has ended.
                let _ = teller.send(Told::Ended(total));
            });
        }
        Course { job, stop, signals: &signals, sender, streams: streams.len() }.follow(&told, events)
    })?;
    events(LoadEvent::Done(totals));
    Ok(())
}

/// Lets this thread, and so all that it starts, run on these processors only.
fn pin(processors: &[u32]) -> bool {
    let mut set = CpuSet::new();
    let known = processors.iter().filter(|processor| (**processor as usize) < CpuSet::MAX_CPU);
    known.for_each(|processor| set.set(*processor as usize));
    set.count() > 0 && sched_setaffinity(None, &set).is_ok()
}

/// All streams on their way.
struct Course<'a> {
    job: &'a LoadJob,
    stop: &'a Stop,
    signals: &'a Signals,
    sender: Sender,
    streams: usize,
}

impl Course<'_> {
    /// Follows them until all have ended. One that fails ends the others.
    fn follow(
        self,
        told: &Receiver<Told>,
        events: &mut dyn FnMut(LoadEvent),
    ) -> Result<Vec<StreamTotal>, StoreError> {
        let (mut stand, mut totals, mut failed) = (0, Vec::new(), None);
        let mut ended = 0;
        let mut busy: Option<BusySeconds> = None;
        while ended < self.streams {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(Told::Stands) => {
                    stand += 1;
                    if stand == self.streams {
                        events(LoadEvent::Started(self.sender.clone()));
                        busy = Some(BusySeconds::from_now(self.job));
                        self.signals.go.store(true, Ordering::Release);
                    }
                }
                Ok(Told::Second(second)) => events(LoadEvent::Second(second)),
                Ok(Told::Ended(Ok(total))) => {
                    ended += 1;
                    totals.push(total);
                }
                Ok(Told::Ended(Err(error))) => {
                    ended += 1;
                    failed.get_or_insert(error);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.stop.is_asked() || failed.is_some() {
                self.signals.end.store(true, Ordering::Relaxed);
            }
            busy.iter_mut().for_each(|busy| busy.tell(events));
        }
        totals.sort_by_key(|total| total.id);
        failed.map_or(Ok(totals), Err)
    }
}

/// How busy this process is, in each second of the measurement: its processor time as a part of what its processors have.
struct BusySeconds {
    start: Instant,
    processors: f64,
    seconds: u32,
    next: u32,
    cpu_before: Option<Duration>,
}

impl BusySeconds {
    fn from_now(job: &LoadJob) -> Self {
        let all = thread::available_parallelism().map_or(1, usize::from);
        let processors = if job.processors.is_empty() { all } else { job.processors.len() };
        Self {
            start: Instant::now() + job.warmup.get(),
            processors: processors as f64,
            seconds: u32::try_from(job.length.get().as_secs()).unwrap_or(u32::MAX),
            next: 0,
            cpu_before: None,
        }
    }

    fn tell(&mut self, events: &mut dyn FnMut(LoadEvent)) {
        let Some(since) = Instant::now().checked_duration_since(self.start) else { return };
        let now = process_cpu();
        let Some(before) = self.cpu_before else {
            self.cpu_before = Some(now);
            return;
        };
        if since < Duration::from_secs(u64::from(self.next) + 1) || self.next >= self.seconds {
            return;
        }
        let fraction = now.saturating_sub(before).as_secs_f64() / self.processors;
        events(LoadEvent::Busy { second: self.next, fraction: fraction.min(1.0) });
        self.next += 1;
        self.cpu_before = Some(now);
    }
}

fn process_cpu() -> Duration {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32)
}

/// A stream whose work is the store's.
struct StoreStream<'a> {
    stream: &'a Stream,
    parameters: &'a StoreParameters,
    credentials: &'a Credentials,
}

impl<'a> StoreStream<'a> {
    fn of(stream: &'a Stream) -> Option<Self> {
        match &stream.work {
            StreamWork::Store { parameters, credentials } => Some(Self { stream, parameters, credentials }),
            _ => None,
        }
    }

    fn address(&self) -> DatabaseAddress {
        let target = self.stream.target;
        DatabaseAddress {
            engine: engine_of(self.parameters),
            endpoint: Endpoint::Tcp { host: target.ip().to_string(), port: target.port() },
            user: self.credentials.user.clone(),
            password: Some(Secret::new(&self.credentials.password)),
            database: DATABASE.to_owned(),
        }
    }

    fn demand(&self, job: &LoadJob) -> Demand {
        let pace = match &self.stream.demand {
            plan::Demand::Closed => Pace::Closed { think_time: self.parameters.think_time.get() },
            plan::Demand::Open { rate, arrival, .. } => Pace::Open {
                orders_per_second: rate.get(),
                arrivals: match arrival {
                    Arrival::Even => Arrivals::Even,
                    Arrival::Poisson | Arrival::Bursts => Arrivals::Poisson,
                },
            },
        };
        Demand {
            clients: self.parameters.clients,
            pace,
            warmup: job.warmup.get(),
            measure: job.length.get(),
            seed: self.stream.seed,
            ..Demand::default()
        }
    }

    fn run(&self, job: &LoadJob, seconds: &Seconds<'_>, end: &AtomicBool) -> Result<StreamTotal, StoreError> {
        let result = run_observed_load(&self.address(), &self.demand(job), seconds, end)?;
        let all = seconds.finish();
        Ok(StreamTotal {
            id: self.stream.id,
            counts: all.counts,
            seconds: all.last_end.max(Duration::from_secs_f64(result.measured_s)).as_secs_f64(),
            client_cpu_s: result.client_cpu_s,
            latency: all.latency,
            lateness: all.lateness,
            errors: told_errors(&result),
            tool_output: serde_json::to_string(&result).ok(),
        })
    }
}

fn told_errors(result: &LoadResult) -> Vec<String> {
    let kinds = result.error_kinds.iter().take(ERRORS_TOLD);
    kinds.map(|(message, count)| format!("{message} ({count} times)")).collect()
}
