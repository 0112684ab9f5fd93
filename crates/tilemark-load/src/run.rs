//! The public entry: workers, the account, and the order of a load.

use crate::{
    Factory, LoadError, Stop,
    account::Account,
    clock::{self, nanoseconds},
    connection::Connection,
    lane::{Lane, Part},
    sample::{Ended, Message, Sample},
    schedule::Schedule,
    sender::{Got, Scheduling, pin},
    worker::{Links, Thread, Timing, Worker},
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{LOAD_THREAD, LoadEvent, LoadJob, Sender, Stream, StreamTotal};

/// How long a load waits for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For every connection to be open, before the schedule begins.
    pub connect: Duration,
}

impl Default for Limits {
    /// 10 s until all are open.
    fn default() -> Self {
        Self { connect: Duration::from_secs(10) }
    }
}

/// Decides when a load begins that has all it needs. It gets what the load's threads got, and returns the moment from which all
/// times count; `None`: the load does not begin.
pub type Start<'a> = &'a mut dyn FnMut(Sender) -> Option<Instant>;

/// Does a job on the calling thread, which sleeps in between: makes all connections, waits for `start`, sends, and reports
/// each second to `events`. Returns the totals of all streams; none where it did not begin.
///
/// Every counted request is in the histograms once. One that failed is there with the time until it
/// was given up, which is the least that its user waited; one that was not answered [`Stream::drain`]
/// after the end failed.
pub fn run(
    job: &LoadJob,
    factory: &dyn Factory,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadError> {
    run_within(job, factory, Limits::default(), stop, start, events)
}

/// How long a job's streams wait for their last answers after its end.
pub(crate) fn longest_drain(job: &LoadJob) -> Duration {
    job.streams.iter().map(|stream| stream.drain.get()).max().unwrap_or_default()
}

/// [`run`] with other limits.
pub fn run_within(
    job: &LoadJob,
    factory: &dyn Factory,
    limits: Limits,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadError> {
    let before = rustix::thread::sched_getaffinity(None).ok();
    if !job.processors.is_empty() {
        // The account shares the load's processors: the guests' are never touched.
        pin(&job.processors);
    }
    let result = Load::new(job, limits, stop)?.run(factory, start, events);
    if let Some(before) = before {
        let _ = rustix::thread::sched_setaffinity(None, &before);
    }
    result
}

/// What draws the connections of a worker's part of a stream: other numbers than those of schedules and conversations.
fn connections_by_chance(seed: u64, worker: usize) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(u64::MAX - worker as u64);
    random
}

/// A load that is about to begin.
struct Load<'a> {
    job: &'a LoadJob,
    limits: Limits,
    stop: &'a Stop,
    schedules: Vec<Option<Schedule>>,
    workers: usize,
}

/// The account's ends of its channels to one worker.
struct ToWorker {
    /// The absolute start of the schedule. Dropped unused: there will be none.
    go: mpsc::Sender<u64>,
    /// Emptied chunks, to be filled again.
    recycle: mpsc::Sender<Vec<Sample>>,
}

impl<'a> Load<'a> {
    fn new(job: &'a LoadJob, limits: Limits, stop: &'a Stop) -> Result<Self, LoadError> {
        if job.streams.iter().all(|stream| stream.connections == 0) {
            return Err(LoadError::Nothing);
        }
        let schedules: Result<Vec<_>, _> =
            job.streams.iter().map(|stream| Schedule::new(&stream.demand, stream.seed, stream.id)).collect();
        let connections: usize = job.streams.iter().map(|stream| stream.connections as usize).sum();
        let workers = job.processors.len().clamp(1, connections);
        Ok(Self { job, limits, stop, schedules: schedules?, workers })
    }

    /// How many workers share a stream: several only where there are fewer streams than workers.
    fn parts(&self, stream: usize) -> usize {
        if self.job.streams.len() >= self.workers {
            return 1;
        }
        (self.job.streams[stream].connections as usize).clamp(1, self.workers)
    }

    fn run(
        &self,
        factory: &dyn Factory,
        start: Start<'_>,
        events: &mut dyn FnMut(LoadEvent),
    ) -> Result<Vec<StreamTotal>, LoadError> {
        let (tell, messages) = mpsc::channel();
        let workers: Vec<_> = (0..self.workers).map(|index| self.worker(index, factory)).collect();
        thread::scope(|scope| {
            let mut to_workers = Vec::new();
            for (index, mut worker) in workers.into_iter().enumerate() {
                let (go, wait) = mpsc::channel();
                let (recycle, recycled) = mpsc::channel();
                let links = Links { tell: tell.clone(), wait, recycled };
                to_workers.push(ToWorker { go, recycle });
                thread::Builder::new()
                    .name(format!("{LOAD_THREAD}{index}"))
                    .spawn_scoped(scope, move || worker.run(self.stop, links))
                    .map_err(LoadError::NoThread)?;
            }
            drop(tell);
            self.listen(&messages, &to_workers, start, events)
        })
    }

    /// One worker with its lanes and connections.
    fn worker(&self, index: usize, factory: &dyn Factory) -> Worker {
        let mut lanes = Vec::new();
        let mut connections = Vec::new();
        for (place, stream) in self.job.streams.iter().enumerate() {
            let parts = self.parts(place);
            // Streams go round the workers; a shared one begins at its own place too.
            let part = (index + self.workers - place % self.workers) % self.workers;
            if part >= parts || stream.connections == 0 {
                continue;
            }
            let mine: Vec<u32> = (0..stream.connections).skip(part).step_by(parts).collect();
            let schedule =
                self.schedules[place].as_ref().map(|schedule| Part::new(schedule.clone(), part, parts));
            for connection in &mine {
                let conversation = factory.conversation(stream, *connection);
                connections.push(Connection::new(connections.len(), lanes.len(), stream, conversation));
            }
            let drawn = factory.draws_connections().then(|| connections_by_chance(stream.seed, index));
            lanes.push(Lane::new(place as u32, schedule, mine.len(), drawn));
        }
        let is_open = |lane: &Lane| !lane.is_closed_loop();
        let scheduling = if lanes.iter().any(is_open) { Scheduling::RealTime } else { Scheduling::Ordinary };
        let timing = Timing {
            warmup_ns: nanoseconds(self.job.warmup.get()),
            length_ns: nanoseconds(self.job.length.get()),
            connect_ns: nanoseconds(self.limits.connect),
            drain_ns: nanoseconds(longest_drain(self.job)),
        };
        let processor = self.job.processors.get(index).copied();
        Worker::new(lanes, connections, timing, Thread { processor, scheduling })
    }

    /// Makes events of what the workers say.
    fn listen(
        &self,
        messages: &mpsc::Receiver<Message>,
        to_workers: &[ToWorker],
        start: Start<'_>,
        events: &mut dyn FnMut(LoadEvent),
    ) -> Result<Vec<StreamTotal>, LoadError> {
        let parts = |(place, stream): (usize, &Stream)| {
            (stream.id, if stream.connections == 0 { 0 } else { self.parts(place) })
        };
        let mut account = Account::new(self.job.streams.iter().enumerate().map(parts), self.workers);
        for (place, stream) in self.job.streams.iter().enumerate() {
            let times = stream.work.facts().good_and_tolerable();
            times.into_iter().for_each(|times| account.good_and_tolerable(place, times));
        }
        let Some(origin) = start(self.wait_until_ready(messages, &mut account)?) else {
            return Ok(Vec::new());
        };
        // Time for every thread to wake: none begins late.
        let origin = clock::at(origin) + 2_000_000;
        for worker in to_workers {
            worker.go.send(origin).map_err(|_| LoadError::SenderLost)?;
        }
        let warmup = nanoseconds(self.job.warmup.get());
        let mut own_cpu_before = clock::thread_cpu();
        let mut is_measuring = false;
        let mut ended: Vec<Ended> = Vec::new();
        let mut turn = 0;
        while ended.len() < self.workers {
            match messages.recv().map_err(|_| LoadError::SenderLost)? {
                Message::Samples(mut samples) => {
                    account.samples(&samples);
                    samples.clear();
                    // Chunks are alike: any worker may fill it again. One that ended needs none.
                    let _ = to_workers[turn % self.workers].recycle.send(samples);
                    turn += 1;
                }
                Message::Offered { stream, second, count } => account.offered(stream, second, count),
                Message::Trouble { stream, text } => account.trouble(stream, text),
                Message::Used { processor, second, cpu_ns } => {
                    account.close_ready(events);
                    let place = self.job.processors.iter().position(|of_job| Some(*of_job) == processor);
                    account.used(second, place, cpu_ns).into_iter().for_each(&mut *events);
                }
                Message::Ended(end) => ended.push(end),
                Message::Ready(_) => {}
                Message::Lost(error) => return Err(error),
            }
            if !is_measuring && clock::now() >= origin + warmup {
                is_measuring = true;
                own_cpu_before = clock::thread_cpu();
            }
        }
        account.close_ready(events);
        let own = clock::thread_cpu() - own_cpu_before;
        let cpu_ns = own + ended.iter().map(|ended| ended.cpu_ns).sum::<u64>();
        Ok(account.totals(&ended, cpu_ns, events))
    }

    /// Waits until all connections of all workers are open.
    fn wait_until_ready(
        &self,
        messages: &mpsc::Receiver<Message>,
        account: &mut Account,
    ) -> Result<Sender, LoadError> {
        let mut got: Vec<Got> = Vec::new();
        while got.len() < self.workers {
            match messages.recv().map_err(|_| LoadError::SenderLost)? {
                Message::Ready(one) => got.push(one),
                Message::Lost(error) => return Err(error),
                Message::Trouble { stream, text } => account.trouble(stream, text),
                other => unreachable!("{other:?} comes after the start"),
            }
        }
        Ok(Sender {
            workers: self.workers as u32,
            real_time: got.iter().all(|got| got.real_time),
            timer_slack_ns: got.iter().map(|got| got.timer_slack_ns).max().unwrap_or(0),
            pinned: got.iter().all(|got| got.pinned),
        })
    }
}
