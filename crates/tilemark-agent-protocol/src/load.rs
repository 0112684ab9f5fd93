//! What a load process is told, and what it tells back.

use crate::message::Credentials;
use serde::{Deserialize, Serialize};
use std::{iter::Sum, net::SocketAddr, time::Duration};
use tilemark_plan::{
    plan::Demand,
    workload::{Details, Finding, Work},
};
use tilemark_units::Span;

/// All that one load process does: every load of every guest of a point, at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// One load on one guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stream {
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
    pub work: Work,
    /// Data disks of the guest.
    pub disks: u32,
    /// Who asks, where the guest's service knows users.
    pub credentials: Option<Credentials>,
    /// How long the service may leave the load waiting before it gives up.
    pub patience: Span,
    /// How long it waits at least for its last answers after its end; its engine may wait longer.
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

impl Stream {
    /// A stream with one connection, to a service that knows no users.
    pub const fn new(id: u32, target: SocketAddr, demand: Demand, work: Work) -> Self {
        let (patience, drain) = (Span::new(Duration::ZERO), Span::new(Duration::ZERO));
        let files = Vec::new();
        Self {
            id,
            target,
            demand,
            connections: 1,
            seed: 1,
            work,
            disks: 0,
            credentials: None,
            patience,
            drain,
            files,
        }
    }
}

/// What a load process tells while it works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LoadEvent {
    /// All connections stand, and whatever else it needs; the schedule begins when it is told to.
    Started(Sender),
    /// One second of one stream. Seconds count from the start of the measurement; warm-up is not told.
    Second(StreamSecond),
    /// How busy the sender was in one second.
    Busy {
        /// Which second.
        second: u32,
        /// The busiest worker's processor time as a part of the second, 0 to 1.
        fraction: f64,
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

/// What the sender's threads got of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sender {
    /// Worker threads.
    pub workers: u32,
    /// Whether they run under SCHED_FIFO.
    pub real_time: bool,
    /// Timer slack that the kernel reports for them, in nanoseconds.
    pub timer_slack_ns: u64,
    /// Whether each has its own processor.
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
    /// Answered, rightly.
    pub completed: u64,
    /// Failed: the connection broke or the answer was an error.
    pub failed: u64,
    /// Answered with the wrong bytes.
    pub wrong: u64,
    /// Bytes of the answers' bodies.
    pub bytes: u64,
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, counts| Self {
            offered: sum.offered + counts.offered,
            completed: sum.completed + counts.completed,
            failed: sum.failed + counts.failed,
            wrong: sum.wrong + counts.wrong,
            bytes: sum.bytes + counts.bytes,
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
