//! What a worker reports to the account.

use crate::conversation::Verdict;

/// Samples that travel together: 20 KiB, so that a channel is touched once in 512 requests.
pub(crate) const SAMPLES_PER_CHUNK: usize = 512;

/// A lateness that was not measured: a closed loop has no intended time.
pub const NO_LATENESS: u64 = u64::MAX;

/// One ended request of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Place of its stream in the job.
    pub stream: u32,
    /// Second of the measurement in which it was intended to start.
    pub second: u32,
    /// From the intended start to the end, in nanoseconds.
    pub latency: u64,
    /// How long the sender itself held it up, in nanoseconds, or [`NO_LATENESS`].
    pub lateness: u64,
    /// Bytes of the answer's body.
    pub body_bytes: u64,
    /// How it ended.
    pub verdict: Verdict,
}

/// What a worker sends to the account.
#[derive(Debug)]
pub(crate) enum Message {
    /// All its connections are open, and this is what its thread got.
    Ready(crate::sender::Got),
    /// Requests that ended.
    Samples(Vec<Sample>),
    /// So many requests of a stream were intended in a second that is over.
    Offered { stream: u32, second: u32, count: u64 },
    /// Processor time of its thread in a second that is over, in nanoseconds, and the processor that it has to itself.
    Used { processor: Option<u32>, second: u32, cpu_ns: u64 },
    /// An error of a stream in words: only the first few are sent.
    Trouble { stream: u32, text: String },
    /// It is done: when its schedule ended, what was answered until then, and the processor time of its thread.
    Ended(Ended),
    /// It could not go on.
    Lost(crate::LoadError),
}

/// A worker's last word. Times in nanoseconds from the start of the measurement.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// When its schedule ended.
    pub(crate) schedule_ns: u64,
    /// What was answered in time, by stream.
    pub(crate) in_time: Vec<InTime>,
    /// Processor time of its thread.
    pub(crate) cpu_ns: u64,
}

/// What one worker had answered of a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InTime {
    /// Place of the stream in the job.
    pub(crate) stream: u32,
    /// Right answers that came within the measurement's time, also to requests of the warm-up.
    pub(crate) completed: u64,
}
