//! fio as a child process.

use super::{Snapshot, Target, job_file, parse_snapshot};
use crate::{
    WorkloadError,
    tool::{self, Counted, Last, Tool},
};
use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};
use tilemark_agent_protocol::{Counts, LoadEvent, LoadJob, Stream, StreamTotal};
use tilemark_load::{Start, Stop};
use tilemark_plan::workload::DiskParameters;

/// Does a disk stream flat out.
pub(super) fn run(
    job: &LoadJob,
    stream: &Stream,
    parameters: &DiskParameters,
    targets: &[Target],
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, WorkloadError> {
    let seconds = job.warmup.as_seconds() + job.length.as_seconds();
    let text = job_file(parameters, targets, seconds, stream.seed)?;
    tool::run(Fio::of(job, JobFile::write(&text)?), job, stream, stop, start, events)
}

/// The job file; it goes away with this.
struct JobFile(PathBuf);

impl JobFile {
    fn write(text: &str) -> Result<Self, WorkloadError> {
        // Two loads of one process must not read each other's job.
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let name = format!("tilemark-disk-{}-{number}.fio", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text)
            .map_err(|source| WorkloadError::File { path: path.display().to_string(), source })?;
        Ok(Self(path))
    }
}

impl Drop for JobFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// fio with a job. Its counts grow from report to report.
struct Fio {
    file: JobFile,
    warmup_ms: u64,
    is_warmup: bool,
    /// The counts at the end of the warm-up.
    baseline: Snapshot,
    /// The counts at the end of the last second.
    last: Snapshot,
    /// The last report.
    report: String,
}

impl Fio {
    fn of(job: &LoadJob, file: JobFile) -> Self {
        let warmup_ms = job.warmup.as_milliseconds() as u64;
        let (baseline, last, report) = (Snapshot::default(), Snapshot::default(), String::new());
        Self { file, warmup_ms, is_warmup: warmup_ms > 0, baseline, last, report }
    }

    /// The second that ends with these counts.
    fn second(&mut self, now: Snapshot) -> Option<Counted> {
        if self.is_warmup {
            // Reports come up to 200 ms before their second is full: the one nearest to the end counts.
            self.is_warmup = now.runtime_ms + 500 < self.warmup_ms;
            self.baseline = now.clone();
            self.last = now;
            return None;
        }
        let since = now.since(&self.last);
        // The last report repeats the one before; what little is new stays for the total.
        (since.runtime_ms >= 500).then(|| {
            self.last = now;
            counted(&since)
        })
    }
}

impl Tool for Fio {
    const NAME: &'static str = "fio";

    fn command(&self) -> Command {
        let mut command = Command::new(Self::NAME);
        command.args(["--output-format=json+", "--status-interval=1", "--eta=never"]).arg(&self.file.0);
        command
    }

    fn line(&mut self, text: &mut String) -> Result<Option<Counted>, WorkloadError> {
        // Documents begin and end with a brace in the first column; what is between them is a warning.
        match text.lines().next_back() {
            Some("{") => "{\n".clone_into(text),
            Some("}") => {
                let now = parse_snapshot(text)?;
                self.report = std::mem::take(text);
                return Ok(self.second(now));
            }
            _ => {}
        }
        Ok(None)
    }

    fn last(self, _text: String) -> Result<Last, WorkloadError> {
        let measured = parse_snapshot(&self.report)?.since(&self.baseline);
        let error = match measured.errors {
            0 => None,
            errors => Some(format!("{errors} of fio's jobs ended with an error")),
        };
        let length_s = measured.runtime_ms as f64 / 1e3;
        let Counted { counts, .. } = counted(&measured);
        Ok(Last { seconds: Vec::new(), counts, length_s, error, output: self.report })
    }
}

fn counted(part: &Snapshot) -> Counted {
    // fio's counters are read while it works and differ by a request or two: the bins are what is reported.
    let completed = part.bins.values().sum();
    let counts = Counts {
        offered: completed + part.errors,
        completed,
        failed: part.errors,
        bytes: part.bytes,
        ..Counts::default()
    };
    Counted { counts, latency: part.histogram() }
}
