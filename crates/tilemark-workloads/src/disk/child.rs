//! fio as a child process.

use super::{Snapshot, Target, job_file, parse_snapshot};
use crate::WorkloadError;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};
use tilemark_agent_protocol::{Counts, LoadEvent, LoadJob, Sender, Stream, StreamSecond, StreamTotal};
use tilemark_load::{Stop, figures::encode};
use tilemark_plan::workload::DiskParameters;

/// The program.
const FIO: &str = "fio";
/// What is kept of fio's last words.
const SAID_BYTES_MAX: usize = 4096;

/// Does a disk stream flat out. The last event is `Done`; an error is not told.
pub(super) fn run(
    job: &LoadJob,
    stream: &Stream,
    parameters: &DiskParameters,
    targets: &[Target],
    stop: &Stop,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<(), WorkloadError> {
    let seconds = job.warmup.as_seconds() + job.length.as_seconds();
    let text = job_file(parameters, targets, seconds, stream.seed)?;
    let file = JobFile::write(&text)?;
    // The time that fio counts begins with its process.
    events(LoadEvent::Started(Sender { workers: 0, real_time: false, timer_slack_ns: 0, pinned: false }));
    let mut child = start(&file)?;
    let output = child.stdout.take().expect("it was piped");
    let errors = child.stderr.take().expect("it was piped");
    let is_over = AtomicBool::new(false);
    let mut account = DiskAccount::new(job, stream);
    let said = thread::scope(|scope| {
        let said = scope.spawn(|| last_words(errors));
        scope.spawn(|| end_when_asked(stop, &is_over, child.id()));
        let read = account.read(BufReader::new(output), events);
        is_over.store(true, Ordering::Release);
        if read.is_err() {
            interrupt(child.id());
        }
        read.map(|()| said.join().unwrap_or_default())
    });
    let status = child.wait().map_err(|source| WorkloadError::Program { program: FIO.to_owned(), source })?;
    let said = said?;
    // After a stop fio reports what it has and ends with a signal's code: that is no failure.
    if !status.success() && !stop.is_asked() {
        return Err(WorkloadError::FioFailed { code: status.to_string(), said });
    }
    events(LoadEvent::Done(vec![account.total()?]));
    Ok(())
}

fn start(file: &JobFile) -> Result<Child, WorkloadError> {
    Command::new(FIO)
        .args(["--output-format=json+", "--status-interval=1", "--eta=never"])
        .arg(&file.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| WorkloadError::Program { program: FIO.to_owned(), source })
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

fn last_words(mut errors: impl Read) -> String {
    let mut bytes = Vec::new();
    // What it said before a broken pipe is still worth telling.
    let _ = errors.read_to_end(&mut bytes);
    let from = bytes.len().saturating_sub(SAID_BYTES_MAX);
    String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
}

/// Waits for the stop and then asks fio to end, which it does with a last report.
fn end_when_asked(stop: &Stop, is_over: &AtomicBool, id: u32) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    // The end of fio is looked for ten times a second; a stop wakes at once.
    let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    while !is_over.load(Ordering::Acquire) {
        let descriptor = stop.descriptor();
        let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
        let _ = poll(&mut descriptors, Some(&pause));
        if stop.is_asked() {
            interrupt(id);
            return;
        }
    }
}

/// Asks fio to end. It was not waited for yet: the id is still its own.
fn interrupt(id: u32) {
    let pid = i32::try_from(id).ok().and_then(rustix::process::Pid::from_raw);
    pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::INT));
}

/// Makes seconds and a total of fio's growing counts.
struct DiskAccount<'a> {
    stream: &'a Stream,
    warmup_ms: u64,
    is_warmup: bool,
    /// The counts at the end of the warm-up.
    baseline: Snapshot,
    last: Snapshot,
    second: u32,
    /// Seconds of the measurement.
    seconds: u32,
    last_text: String,
}

impl<'a> DiskAccount<'a> {
    fn new(job: &LoadJob, stream: &'a Stream) -> Self {
        let warmup_ms = job.warmup.as_milliseconds() as u64;
        let (baseline, last) = (Snapshot::default(), Snapshot::default());
        Self {
            stream,
            warmup_ms,
            is_warmup: warmup_ms > 0,
            baseline,
            last,
            second: 0,
            seconds: job.length.as_seconds().ceil() as u32,
            last_text: String::new(),
        }
    }

    /// Reads report after report until fio's end.
    fn read(&mut self, output: impl BufRead, events: &mut dyn FnMut(LoadEvent)) -> Result<(), WorkloadError> {
        let mut text = String::new();
        for line in output.lines() {
            let line = line.map_err(|source| WorkloadError::Program { program: FIO.to_owned(), source })?;
            // Documents begin and end with a brace in the first column; what stands between is a warning.
            if line == "{" {
                text.clear();
            }
            text += &line;
            text.push('\n');
            if line == "}" {
                self.take(parse_snapshot(&text)?, events);
                self.last_text = std::mem::take(&mut text);
            }
        }
        Ok(())
    }

    fn take(&mut self, now: Snapshot, events: &mut dyn FnMut(LoadEvent)) {
        if self.is_warmup {
            // Reports come up to 200 ms before their second is full: the one nearest to the end counts.
            self.is_warmup = now.runtime_ms + 500 < self.warmup_ms;
            self.baseline = now.clone();
            self.last = now;
            return;
        }
        let since = now.since(&self.last);
        // The last report repeats the one before; what little is new stays for the total.
        // What ends after the measurement's last second is in the total too.
        if since.runtime_ms >= 500 && self.second < self.seconds {
            events(LoadEvent::Second(StreamSecond {
                id: self.stream.id,
                second: self.second,
                counts: counts(&since),
                latency: encode(&since.histogram()),
                lateness: Vec::new(),
            }));
            self.second += 1;
            self.last = now;
        }
    }

    fn total(&mut self) -> Result<StreamTotal, WorkloadError> {
        let end = parse_snapshot(&self.last_text)?;
        let measured = end.since(&self.baseline);
        let seconds = measured.runtime_ms as f64 / 1e3;
        let errors = if measured.errors == 0 {
            Vec::new()
        } else {
            vec![format!("{} of fio's jobs ended with an error", measured.errors)]
        };
        Ok(StreamTotal {
            id: self.stream.id,
            counts: counts(&measured),
            // fio counts what ends in its runtime.
            completed_in_time: counts(&measured).completed,
            seconds,
            client_cpu_s: 0.0,
            latency: encode(&measured.histogram()),
            lateness: Vec::new(),
            errors,
            wrong_answers: Vec::new(),
            tool_output: Some(std::mem::take(&mut self.last_text)),
        })
    }
}

fn counts(part: &Snapshot) -> Counts {
    // fio's counters are read while it works and differ by a request or two: the bins are what is told.
    let completed = part.bins.values().sum();
    Counts { offered: completed + part.errors, completed, failed: part.errors, wrong: 0, bytes: part.bytes }
}
