//! The store's customers as a load: each stream is a run of `tilemark-store` on its own database. All begin together,
//! when the last one's connections are open; each is reported second by second and audited at its end.

mod found;
mod seconds;

use crate::{
    clocks::{BusySeconds, ThreadClocks},
    engine::LoadFailure,
    start_line::{StartLine, Starter},
    threads::start_all,
};
use seconds::Seconds;
use std::{
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Credentials, LoadEvent, LoadJob, Sender, Stream, StreamTotal};
use tilemark_load::{Start, Stop, pin};
use tilemark_plan::{
    plan,
    workload::{Details, StoreDatabase, StoreParameters, Work},
};
use tilemark_store::{
    DatabaseAddress, DatabaseKind, DatabaseTls, Demand, Endpoint, LoadResult, Pace, Secret, StoreError,
    run_observed_load,
};
use tilemark_units::Span;

/// The store's database in each server.
pub const DATABASE: &str = "store";
/// Where MariaDB listens inside its guest.
pub const MARIADB_SOCKET: &str = "/run/tilemark/mariadb.sock";
/// Errors that are reported in words.
const ERRORS_SHOWN: usize = 5;
/// Time between two looks at whether the load shall end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Which database a store's parameters name.
pub const fn database_kind_of(parameters: &StoreParameters) -> DatabaseKind {
    match parameters.database {
        StoreDatabase::Mariadb => DatabaseKind::Mariadb,
        StoreDatabase::Postgresql => DatabaseKind::Postgresql,
    }
}

/// What a stream's thread reports to the leading thread.
enum Message {
    /// Its connections are open.
    Ready,
    /// A second of it is over, or what else it found is known.
    Event(LoadEvent),
    /// It ended.
    Ended(Result<StreamTotal, StoreError>),
}

/// Whether all streams shall end, and what their clients use meanwhile.
#[derive(Default)]
struct Signals {
    end: AtomicBool,
    /// Of the clients of all streams.
    clocks: ThreadClocks,
}

/// The engine of `store`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let streams: Vec<StoreStream<'_>> = job
        .streams
        .iter()
        .map(|stream| StoreStream::of(stream).ok_or_else(|| LoadFailure::stray(stream)))
        .collect::<Result<_, _>>()?;
    run(job, &streams, stop, start, events).map_err(LoadFailure::with(StoreError::remedy))
}

/// Does all streams of a job.
fn run(
    job: &LoadJob,
    streams: &[StoreStream<'_>],
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, StoreError> {
    // All that this thread starts inherits it.
    let pinned = !job.processors.is_empty() && pin(&job.processors);
    let workers = streams.iter().map(|stream| stream.parameters.clients).sum();
    let timer_slack_ns = rustix::thread::current_timer_slack().unwrap_or(50_000);
    let sender = Sender { workers, real_time: false, timer_slack_ns, pinned };
    let signals = Signals::default();
    let (to_leader, messages) = mpsc::channel();
    let line = StartLine::default();
    thread::scope(|scope| {
        let works = streams.iter().map(|stream| {
            let (to_leader, signals, starter) = (to_leader.clone(), &signals, Starter(&line));
            move || {
                let seconds = Seconds::new(stream.stream.id, to_leader.clone(), signals, starter);
                let total = stream.run(job, &seconds, &signals.end, &to_leader);
                // Whoever listens does so until every stream has ended.
                let _ = to_leader.send(Message::Ended(total));
            }
        });
        // The starter of one without a thread is gone: those that have one do not begin.
        start_all(&thread::Builder::new, scope, works, || signals.end.store(true, Ordering::Relaxed))
            .map_err(StoreError::Thread)?;
        let mut start = || {
            let origin = start(sender.clone());
            line.give(origin);
            origin
        };
        RunningStreams { job, stop, signals: &signals, streams: streams.len() }
            .follow(&mut start, &messages, events)
    })
}

/// All streams on their way.
struct RunningStreams<'a> {
    job: &'a LoadJob,
    stop: &'a Stop,
    signals: &'a Signals,
    streams: usize,
}

impl RunningStreams<'_> {
    /// Follows them until all have ended. One that fails ends the others.
    fn follow(
        self,
        start: &mut dyn FnMut() -> Option<Instant>,
        messages: &Receiver<Message>,
        events: &mut dyn FnMut(LoadEvent),
    ) -> Result<Vec<StreamTotal>, StoreError> {
        let (mut ready, mut ended, mut totals, mut failed) = (0, 0, Vec::new(), None);
        let mut busy: Option<BusyWatch> = None;
        while ended < self.streams {
            match messages.recv_timeout(LOOK_EVERY) {
                Ok(Message::Ready) => {
                    ready += 1;
                    if ready == self.streams {
                        busy = start().map(|origin| BusyWatch::beginning(self.job, origin));
                    }
                }
                Ok(Message::Event(event)) => events(event),
                Ok(Message::Ended(Ok(total))) => {
                    ended += 1;
                    totals.push(total);
                }
                Ok(Message::Ended(Err(error))) => {
                    ended += 1;
                    failed.get_or_insert(error);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.stop.is_asked() || failed.is_some() {
                self.signals.end.store(true, Ordering::Relaxed);
            }
            let read = || self.signals.clocks.read();
            busy.iter_mut().filter_map(|busy| busy.look(Instant::now(), read)).for_each(&mut *events);
        }
        totals.sort_by_key(|total| total.id);
        failed.map_or(Ok(totals), Err)
    }
}

/// Reads how busy the clients' threads are, in each second of the measurement.
struct BusyWatch {
    /// When to read them next.
    due: Instant,
    end: Instant,
    busy: BusySeconds,
}

impl BusyWatch {
    fn beginning(job: &LoadJob, origin: Instant) -> Self {
        let due = origin + job.warmup.get();
        let end = due + Duration::from_secs(job.length.get().as_secs());
        Self { due, end, busy: BusySeconds::of(job) }
    }

    /// How busy the second was that is over now, if one is. `read` gives the nanoseconds that each thread has used.
    fn look(&mut self, now: Instant, read: impl FnOnce() -> Vec<u64>) -> Option<LoadEvent> {
        if now < self.due || self.due > self.end {
            return None;
        }
        self.due += Duration::from_secs(1);
        self.busy.take(now, read())
    }
}

/// A stream whose work is the store's, with the user of its database.
struct StoreStream<'a> {
    stream: &'a Stream,
    parameters: &'a StoreParameters,
    credentials: &'a Credentials,
}

impl<'a> StoreStream<'a> {
    fn of(stream: &'a Stream) -> Option<Self> {
        match &*stream.work {
            Work::Store(parameters) => {
                Some(Self { stream, parameters, credentials: stream.credentials.as_ref()? })
            }
            _ => None,
        }
    }

    fn address(&self) -> DatabaseAddress {
        let target = self.stream.target;
        DatabaseAddress {
            kind: database_kind_of(self.parameters),
            endpoint: Endpoint::Tcp { host: target.ip().to_string(), port: target.port() },
            user: self.credentials.user.clone(),
            password: Some(Secret::new(&self.credentials.password)),
            database: DATABASE.to_owned(),
            tls: self.parameters.tls.then(DatabaseTls::of_any_certificate),
        }
    }

    fn demand(&self, job: &LoadJob) -> Demand {
        let pace = match &self.stream.demand {
            plan::Demand::Closed => Pace::Closed { think_time: self.parameters.think_time.get() },
            plan::Demand::Open { rate, arrival, .. } => {
                Pace::Open { orders_per_second: rate.get(), arrivals: *arrival }
            }
        };
        Demand {
            clients: self.parameters.clients,
            pace,
            warmup: job.warmup.get(),
            measure: job.length.get(),
            window: self.parameters.window.map(Span::get),
            seed: self.stream.seed,
            begun_until: Demand::default().begun_until.max(self.stream.drain.get()),
            ..Demand::default()
        }
    }

    fn run(
        &self,
        job: &LoadJob,
        seconds: &Seconds<'_>,
        end: &AtomicBool,
        to_leader: &mpsc::Sender<Message>,
    ) -> Result<StreamTotal, StoreError> {
        let result = run_observed_load(&self.address(), &self.demand(job), seconds, end)?;
        let (id, counts, figures) = (self.stream.id, seconds.finish(), found::figures(&result));
        let findings = figures.verdict.findings.clone();
        let text = serde_json::to_string(&result).expect("all its keys are texts");
        for event in [
            LoadEvent::Details { id, details: Box::new(Details::Store(figures)) },
            LoadEvent::Output { id, text },
        ] {
            // Whoever listens does so until the stream has ended.
            let _ = to_leader.send(Message::Event(event));
        }
        Ok(StreamTotal {
            id,
            counts,
            // The store counts an order in the second in which it was committed.
            completed_in_time: result.orders,
            // Clients that gave up early served nothing in what was left.
            seconds: job.length.as_seconds(),
            client_cpu_s: result.client_cpu_s,
            errors: shown_errors(&result),
            findings,
        })
    }
}

fn shown_errors(result: &LoadResult) -> Vec<String> {
    let kinds = result.error_kinds.iter().take(ERRORS_SHOWN);
    kinds.map(|(message, count)| format!("{message} ({count} times)")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_that_fills_its_processor_shows_beside_idle_ones() {
        let start = Instant::now();
        let job = LoadJob {
            streams: Vec::new(),
            processors: (0..8).collect(),
            warmup: Span::from_seconds(3),
            length: Span::from_seconds(2),
        };
        let mut busy = BusyWatch::beginning(&job, start);
        let mut look = |after_ms: u64, used_ms: &[u64]| {
            let used = used_ms.iter().map(|ms| ms * 1_000_000).collect();
            match busy.look(start + Duration::from_millis(after_ms), || used) {
                Some(LoadEvent::Busy { second, fraction, .. }) => Some((second, (fraction * 1e3).round())),
                _ => None,
            }
        };
        assert_eq!(look(2_990, &[700, 10]), None, "the warm-up is not reported");
        assert_eq!(look(3_010, &[700, 10]), None);
        assert_eq!(look(3_900, &[1_500, 10]), None);
        assert_eq!(look(4_010, &[1_600, 20]), Some((0, 900.0)));
        assert_eq!(look(5_010, &[1_700, 40, 30]), Some((1, 100.0)));
        assert_eq!(look(6_010, &[2_700, 40, 30]), None, "the measurement is over");
    }
}
