//! What a load process is asked for, and what it reports.

use crate::message::Credentials;
use serde::{Deserialize, Serialize};
use std::{iter::Sum, net::SocketAddr, sync::Arc};
use tilemark_plan::{
    plan::{Backend, Demand},
    workload::{Details, Finding, Work},
};
use tilemark_units::Span;

/// All that one load process does: every load of every guest of a point, at the same time. What several streams ask is sent once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SentJob", into = "SentJob")]
pub struct LoadJob {
    /// What is sent where.
    pub streams: Vec<Stream>,
    /// Worker threads, one on each of these host threads; empty: one, unpinned.
    pub processors: Vec<u32>,
    /// Load that is sent and not counted.
    pub warmup: Span,
    /// The measurement.
    pub length: Span,
}

/// A job as it is sent: streams have the places of what they ask.
#[derive(Serialize, Deserialize)]
struct SentJob {
    works: Vec<Work>,
    streams: Vec<Stream<u32>>,
    processors: Vec<u32>,
    warmup: Span,
    length: Span,
}

impl From<LoadJob> for SentJob {
    fn from(LoadJob { streams, processors, warmup, length }: LoadJob) -> Self {
        let mut works = Works::default();
        let streams = streams
            .into_iter()
            .map(|stream| {
                let place = works.place(&stream.work);
                stream.with_work(place)
            })
            .collect();
        let works = works.0.into_iter().map(Arc::unwrap_or_clone).collect();
        Self { works, streams, processors, warmup, length }
    }
}

impl TryFrom<SentJob> for LoadJob {
    type Error = &'static str;

    fn try_from(sent: SentJob) -> Result<Self, Self::Error> {
        let works: Vec<Arc<Work>> = sent.works.into_iter().map(Arc::new).collect();
        let with_work = |stream: Stream<u32>| {
            let work = works.get(stream.work as usize).ok_or("a stream asks what its job does not have")?;
            Ok(stream.with_work(Arc::clone(work)))
        };
        let streams = sent.streams.into_iter().map(with_work).collect::<Result<_, Self::Error>>()?;
        Ok(Self { streams, processors: sent.processors, warmup: sent.warmup, length: sent.length })
    }
}

/// What the streams of a job ask, each once. A list of requests may have half a MiB, and hundreds of guests are asked the same.
#[derive(Debug, Default)]
pub struct Works(Vec<Arc<Work>>);

impl Works {
    /// The one that equals it, which it becomes itself where there is none.
    pub fn shared(&mut self, work: &Work) -> Arc<Work> {
        let known = self.0.iter().find(|known| ***known == *work);
        known.cloned().unwrap_or_else(|| {
            self.0.push(Arc::new(work.clone()));
            Arc::clone(&self.0[self.0.len() - 1])
        })
    }

    /// The place of the one that equals it.
    fn place(&mut self, work: &Arc<Work>) -> u32 {
        // The same one needs no comparison of all its requests.
        let known = self.0.iter().position(|known| Arc::ptr_eq(known, work) || known == work);
        known.unwrap_or_else(|| {
            self.0.push(Arc::clone(work));
            self.0.len() - 1
        }) as u32
    }
}

/// One load on one guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream<W = Arc<Work>> {
    /// Number by which events speak of it: its place in `LoadJob::streams`.
    pub id: u32,
    /// Where it is sent. Unused by work from inside.
    pub target: SocketAddr,
    /// When requests are sent.
    pub demand: Demand,
    /// Connections.
    pub connections: u32,
    /// Seeds its schedule and choices.
    pub seed: u64,
    /// What is asked.
    pub work: W,
    /// Data disks of the guest.
    pub disks: u32,
    /// Who asks, where the guest's service knows users.
    pub credentials: Option<Credentials>,
    /// How long the service may leave the load waiting before it gives up.
    pub timeout: Span,
    /// How long it waits for its last answers after its end. Its engine waits longer where what it does may take longer.
    pub drain: Span,
    /// Files that a command in a guest brings along.
    pub files: Vec<BroughtFile>,
}

/// A file that a command brings along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BroughtFile {
    /// Its name in the command's folder.
    pub name: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Bytes of all files of a command: with the rest of the job they fit a frame.
pub const BROUGHT_BYTES_MAX: usize = 512 << 10;

impl<W> Stream<W> {
    fn with_work<V>(self, work: V) -> Stream<V> {
        let Self {
            id,
            target,
            demand,
            connections,
            seed,
            work: _,
            disks,
            credentials,
            timeout,
            drain,
            files,
        } = self;
        Stream { id, target, demand, connections, seed, work, disks, credentials, timeout, drain, files }
    }
}

impl Stream {
    /// A stream with one connection, to a service that knows no users.
    pub fn new(id: u32, target: SocketAddr, demand: Demand, work: Work) -> Self {
        let (timeout, drain) = (Span::default(), Span::new(Backend::Native.costs().drain));
        let files = Vec::new();
        Self {
            id,
            target,
            demand,
            connections: 1,
            seed: 1,
            work: Arc::new(work),
            disks: 0,
            credentials: None,
            timeout,
            drain,
            files,
        }
    }
}

/// What a load process reports while it works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LoadEvent {
    /// All connections are open, and all else is ready; the schedule begins on request.
    Started(Sender),
    /// One second of one stream. Seconds count from the start of the measurement; warm-up is not reported.
    Second(StreamSecond),
    /// How busy the sender was in one second.
    Busy {
        /// Which second.
        second: u32,
        /// The busiest worker's processor time as a part of the second, 0 to 1.
        fraction: f64,
        /// The same for each of the job's processors: how much of it the sender used. Empty where that is not known. It does not leave the
        /// load's process, whose engines share the processors.
        #[serde(skip)]
        parts: Vec<f64>,
    },
    /// The output of the tool or engine that did a stream's work, before `Done`: in the totals it might not fit a
    /// frame.
    Output {
        /// Which stream.
        id: u32,
        /// Its words, at most as many as fit a frame.
        text: String,
    },
    /// What only loads of a stream's workload find, before `Done`.
    Details {
        /// Which stream.
        id: u32,
        /// What it found.
        details: Box<Details>,
    },
    /// It ended: the totals of every stream.
    Done(Vec<StreamTotal>),
    /// It could not be done, or broke off.
    Failed {
        /// What failed, as a fragment in lower case.
        message: String,
        /// What to do about it.
        remedy: String,
    },
}

impl LoadEvent {
    /// How busy a sender was of whose processors nothing more is known.
    pub const fn busy(second: u32, fraction: f64) -> Self {
        Self::Busy { second, fraction, parts: Vec::new() }
    }
}

/// The names of threads of a load process that send, or count what was sent, begin with it. These threads are on the job's processors. The
/// others pass on what these report, and may run anywhere.
pub const LOAD_THREAD: &str = "load-";

/// What the sender's threads got of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// Worker threads.
    pub workers: u32,
    /// Whether they run under SCHED_FIFO.
    pub real_time: bool,
    /// Timer slack that the kernel reports for them, in nanoseconds.
    pub timer_slack_ns: u64,
    /// Whether each is bound to processors of the job: one of its own, or all of them.
    pub pinned: bool,
}

/// One second of one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamSecond {
    /// Which stream.
    pub id: u32,
    /// Which second of the measurement, counted from 0. A request belongs to the second of its intended start.
    pub second: u32,
    /// Counts.
    pub counts: Counts,
    /// Latencies in nanoseconds: an HdrHistogram in its compressed V2 form.
    pub latency: Vec<u8>,
    /// Latenesses in nanoseconds, in the same form.
    pub lateness: Vec<u8>,
}

/// Counts of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Whose intended start came.
    pub offered: u64,
    /// Answered correctly.
    pub completed: u64,
    /// Failed: the connection broke or the answer was an error.
    pub failed: u64,
    /// Answered with the wrong bytes.
    pub wrong: u64,
    /// Bytes of the answers' bodies.
    pub bytes: u64,
    /// Those that were answered correctly within the time that the work calls good; 0 where it names none.
    pub good: u64,
    /// The same of the time that the work calls tolerable.
    pub tolerable: u64,
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, counts| Self {
            offered: sum.offered + counts.offered,
            completed: sum.completed + counts.completed,
            failed: sum.failed + counts.failed,
            wrong: sum.wrong + counts.wrong,
            bytes: sum.bytes + counts.bytes,
            good: sum.good + counts.good,
            tolerable: sum.tolerable + counts.tolerable,
        })
    }
}

/// The whole measurement of one stream. Its latencies are those of its seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamTotal {
    /// Which stream.
    pub id: u32,
    /// Counts.
    pub counts: Counts,
    /// Right answers that came within the measurement's time, also to requests of the warm-up. Late answers are in `counts` only.
    pub completed_in_time: u64,
    /// Length of the measurement, from its first intended start to the end of its schedule, in seconds. A load of so many messages
    /// counts to its last receipt.
    pub seconds: f64,
    /// Processor time that the load process used for it, in seconds; shared time is split evenly.
    pub client_cpu_s: f64,
    /// The first errors in words, at most five.
    pub errors: Vec<String>,
    /// What the load's own account found beside failed requests.
    pub findings: Vec<Finding>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FRAME_BYTES_MAX, read_frame, write_frame};
    use tilemark_plan::workload::{WebParameters, WebRequest};

    fn job(guests: u32, requests: &[usize]) -> LoadJob {
        let request = |number: usize| WebRequest::of(format!("/page?number={number}"));
        let web = |count: usize| WebParameters {
            request: (0..count).map(request).collect(),
            ..WebParameters::default()
        };
        let mut works = Works::default();
        let mut streams = Vec::new();
        for id in 0..guests {
            let work = works.shared(&Work::Web(web(requests[id as usize % requests.len()])));
            let target = ([10, 77, 1, 0], 80).into();
            streams.push(Stream::new(id, target, Demand::Closed, Work::Web(web(0))).with_work(work));
        }
        LoadJob { streams, processors: vec![1], warmup: Span::from_seconds(1), length: Span::from_seconds(2) }
    }

    #[test]
    fn requests_that_hundreds_of_guests_are_asked_are_sent_and_kept_once() {
        let job = job(256, &[5_000, 3]);
        let mut frame = Vec::new();
        write_frame(&mut frame, &job).unwrap();
        assert!(frame.len() < FRAME_BYTES_MAX / 2, "{}", frame.len());
        let read: LoadJob = read_frame(&mut frame.as_slice()).unwrap();
        assert_eq!(read, job);
        assert!(Arc::ptr_eq(&read.streams[0].work, &read.streams[254].work));
        assert!(!Arc::ptr_eq(&read.streams[0].work, &read.streams[1].work));
    }

    #[test]
    fn a_stream_that_asks_what_its_job_does_not_have_is_refused() {
        let mut sent = SentJob::from(job(2, &[1]));
        sent.works.clear();
        let bytes = postcard::to_stdvec(&sent).unwrap();
        assert!(postcard::from_bytes::<LoadJob>(&bytes).is_err());
    }
}
