//! A load that a program does as a child process. Its engine prepares what the program needs and implements [`Tool`]: the command
//! line, what a line of output means, and what the last report says. The child, its output and the events are here.

use crate::WorkloadError;
use hdrhistogram::Histogram;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process},
};
use std::{
    io::{self, BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Counts, LoadEvent, LoadJob, Sender, Stream, StreamSecond, StreamTotal};
use tilemark_load::{Start, Stop, figures::encode};

/// Bytes of output that an engine may leave untaken. The longest report is fio's, with the bins of 25 disks: 3 MB.
const TEXT_BYTES_MAX: usize = 16 << 20;
/// What is kept of a program's last words.
const WORDS_BYTES_MAX: usize = 4096;
/// A program that was asked to end may need this long for its last report; then it is killed.
const ENDS_WITHIN: Duration = Duration::from_secs(30);

/// How a program does a load.
pub(crate) trait Tool {
    /// Its name in messages.
    const NAME: &'static str;
    /// Starts its warm-up at once, and its measurement after that.
    fn command(&self) -> Command;
    /// Reads the output up to now, to which one line was added. What it takes out of the text is not passed again. Returns the next
    /// second of the measurement if that line completes one.
    fn line(&mut self, text: &mut String) -> Result<Option<Counted>, WorkloadError>;
    /// Reads the rest of the output when the program has ended.
    fn last(self, text: String) -> Result<Last, WorkloadError>;
}

/// What was counted in some time. Latencies are in nanoseconds.
pub(crate) struct Counted {
    pub(crate) counts: Counts,
    pub(crate) latency: Histogram<u64>,
}

impl Counted {
    /// A second of a stream. No program says how late its requests were.
    pub(crate) fn second(&self, id: u32, second: u32) -> LoadEvent {
        let (counts, latency, lateness) = (self.counts, encode(&self.latency), Vec::new());
        LoadEvent::Second(StreamSecond { id, second, counts, latency, lateness })
    }
}

/// What a program's last report says.
pub(crate) struct Last {
    /// The seconds that no line reported.
    pub(crate) seconds: Vec<Counted>,
    /// All that was counted in the measurement.
    pub(crate) counts: Counts,
    /// How long the measurement was, in seconds.
    pub(crate) length_s: f64,
    /// What failed, in words.
    pub(crate) error: Option<String>,
    /// The report for the record.
    pub(crate) output: String,
}

/// Does a stream with a program when `start` lets it begin. The time that the program counts begins with its process.
pub(crate) fn run<T: Tool>(
    mut tool: T,
    job: &LoadJob,
    stream: &Stream,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, WorkloadError> {
    let sender = Sender { workers: 0, real_time: false, timer_slack_ns: 0, pinned: false };
    if start(sender).is_none() {
        return Ok(Vec::new());
    }
    let (id, seconds) = (stream.id, job.length.as_seconds().ceil() as u32);
    let mut numbers = 0..seconds;
    // What ends after the measurement's last second is in the total only.
    let mut second = |counted: Counted| {
        numbers.next().map(|second| counted.second(id, second)).into_iter().for_each(&mut *events);
    };
    let text = run_program(T::NAME, &mut tool.command(), stop, &mut |text| {
        tool.line(text)?.into_iter().for_each(&mut second);
        Ok(())
    })?;
    let last = tool.last(text)?;
    last.seconds.into_iter().for_each(second);
    events(LoadEvent::Output { id, text: last.output });
    Ok(vec![StreamTotal {
        id,
        counts: last.counts,
        // A program counts what ends in its time.
        completed_in_time: last.counts.completed,
        seconds: last.length_s,
        errors: last.error.into_iter().collect(),
        ..StreamTotal::default()
    }])
}

/// Runs a program to its end and returns what `line` left of its output. A stop ends it sooner, which is no failure.
fn run_program(
    name: &'static str,
    command: &mut Command,
    stop: &Stop,
    line: &mut dyn FnMut(&mut String) -> Result<(), WorkloadError>,
) -> Result<String, WorkloadError> {
    let broken = |source| WorkloadError::Program { program: name.to_owned(), source };
    let mut child = Running::start(command).map_err(broken)?;
    let output = child.0.stdout.take().expect("it was piped");
    let errors = child.0.stderr.take().expect("it was piped");
    let (id, is_over) = (child.0.id(), AtomicBool::new(false));
    let (text, words) = thread::scope(|scope| {
        let words = scope.spawn(|| last_words(errors));
        scope.spawn(|| end_when_asked(id, ENDS_WITHIN, stop, &is_over));
        let text = read(name, BufReader::new(output), line);
        is_over.store(true, Ordering::Release);
        if text.is_err() {
            send(id, Signal::KILL);
        }
        (text, words.join().unwrap_or_default())
    });
    let text = text?;
    let status = child.0.wait().map_err(broken)?;
    if status.success() || stop.is_asked() {
        return Ok(text);
    }
    let words = if words.is_empty() { text } else { words };
    let mut said: Vec<&str> = words.lines().rev().take(5).collect();
    said.reverse();
    Err(WorkloadError::ProgramFailed { program: name, how: status.to_string(), said: said.join("; ") })
}

/// A child that does not outlive this.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map(Self)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that was waited for is gone, and its number is not used.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Adds line after line to the text, of which `line` takes what it has read.
fn read(
    name: &'static str,
    mut output: impl BufRead,
    line: &mut dyn FnMut(&mut String) -> Result<(), WorkloadError>,
) -> Result<String, WorkloadError> {
    let broken = |source| WorkloadError::Program { program: name.to_owned(), source };
    let mut text = String::new();
    loop {
        let Some(left) = TEXT_BYTES_MAX.checked_sub(text.len()).filter(|left| *left > 0) else {
            return Err(WorkloadError::BadReport { program: name, what: "end within 16 MiB" });
        };
        let mut bytes = Vec::new();
        if (&mut output).take(left as u64).read_until(b'\n', &mut bytes).map_err(broken)? == 0 {
            return Ok(text);
        }
        text += &String::from_utf8_lossy(&bytes);
        line(&mut text)?;
    }
}

/// The end of what it says beside its output.
fn last_words(mut errors: impl Read) -> String {
    let (mut kept, mut piece) = (Vec::new(), [0; WORDS_BYTES_MAX]);
    // What it said before a broken pipe still counts.
    while let Ok(length @ 1..) = errors.read(&mut piece) {
        kept.extend_from_slice(&piece[..length]);
        kept.drain(..kept.len().saturating_sub(WORDS_BYTES_MAX));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// Waits for the stop, then asks the program to end with a last report, and kills it if it has not ended `within`.
/// It was not waited for yet: the number is still its own.
fn end_when_asked(id: u32, within: Duration, stop: &Stop, is_over: &AtomicBool) {
    // Its own end is looked for ten times a second; a stop wakes at once.
    let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let mut asked: Option<Instant> = None;
    while !is_over.load(Ordering::Acquire) {
        let descriptor = stop.descriptor();
        let mut descriptors = [PollFd::new(&descriptor, PollFlags::IN)];
        let descriptors = if asked.is_none() { &mut descriptors[..] } else { &mut [] };
        let _ = poll(descriptors, Some(&pause));
        if !stop.is_asked() {
            continue;
        }
        match asked {
            // A program that a script started in the background may be deaf to an interrupt.
            None => send(id, Signal::TERM),
            Some(at) if at.elapsed() > within => send(id, Signal::KILL),
            Some(_) => {}
        }
        asked.get_or_insert_with(Instant::now);
    }
}

fn send(id: u32, signal: Signal) {
    // One that has ended needs no signal.
    let _ = i32::try_from(id).ok().and_then(Pid::from_raw).map(|pid| kill_process(pid, signal));
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_load::figures::Gathered;
    use tilemark_plan::{
        plan::Demand,
        workload::{DiskParameters, Work},
    };
    use tilemark_units::Span;

    /// Each line is a second with so many requests; the rest is in the last report.
    struct Shell(&'static str);

    fn counted(completed: u64) -> Counted {
        let mut latency = Histogram::new(3).unwrap();
        latency.record_n(1_000, completed).unwrap();
        Counted { counts: Counts { offered: completed, completed, ..Counts::default() }, latency }
    }

    impl Tool for Shell {
        const NAME: &'static str = "shell";
        fn command(&self) -> Command {
            shell(self.0)
        }
        fn line(&mut self, text: &mut String) -> Result<Option<Counted>, WorkloadError> {
            let count = text.trim_end().parse().ok();
            Ok(count.map(counted).inspect(|_| text.clear()))
        }
        fn last(self, text: String) -> Result<Last, WorkloadError> {
            let Counted { counts, .. } = counted(42);
            Ok(Last { seconds: vec![counted(7)], counts, length_s: 2.5, error: None, output: text })
        }
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    fn done(script: &'static str, seconds: u64) -> Gathered {
        let work = Work::Disk(DiskParameters::default());
        let job = LoadJob {
            streams: vec![Stream::new(4, "127.0.0.1:1".parse().unwrap(), Demand::Closed, work)],
            processors: Vec::new(),
            warmup: Span::default(),
            length: Span::from_seconds(seconds),
        };
        let stop = Stop::new().unwrap();
        Gathered::of(|start, events| run(Shell(script), &job, &job.streams[0], &stop, start, events)).unwrap()
    }

    fn run_shell(script: &str, stop: &Stop) -> Result<String, WorkloadError> {
        run_program("shell", &mut shell(script), stop, &mut |_| Ok(()))
    }

    #[test]
    fn lines_become_seconds_and_the_last_report_the_totals() {
        let gathered = done("echo warm; echo 3; echo end; echo \"\\033[0m\"", 3);
        let seconds: Vec<_> = gathered.seconds.iter().map(|one| (one.second, one.counts.completed)).collect();
        assert_eq!(seconds, [(0, 7)], "a line that is not understood stays with the next one");
        let gathered = done("echo 3; echo 5; echo end", 3);
        let seconds: Vec<_> = gathered.seconds.iter().map(|one| (one.second, one.counts.completed)).collect();
        assert_eq!(seconds, [(0, 3), (1, 5), (2, 7)]);
        let total = &gathered.totals[0];
        assert_eq!(
            (total.id, total.counts.completed, total.completed_in_time, total.seconds),
            (4, 42, 42, 2.5)
        );
        assert_eq!(gathered.latency(|id| id == 4).unwrap().len(), 15);
        assert_eq!(gathered.outputs[&4], "end\n");
        assert_eq!(done("echo 3; echo 5; echo 8", 2).seconds.len(), 2, "no more seconds than were planned");
    }

    #[test]
    fn a_program_that_fails_is_named_with_its_last_words() {
        let stop = Stop::new().unwrap();
        let said = |script| run_shell(script, &stop).unwrap_err().to_string();
        assert_eq!(said("echo out; echo no disk >&2; exit 3"), "shell ended with exit status: 3: no disk");
        assert_eq!(said("echo one; echo two; exit 3"), "shell ended with exit status: 3: one; two");
        assert_eq!(last_words(&[b'x'; 3 * WORDS_BYTES_MAX][..]).len(), WORDS_BYTES_MAX);
        let nowhere = run_program("nowhere", &mut Command::new("/nowhere/tool"), &stop, &mut |_| Ok(()));
        assert!(matches!(nowhere, Err(WorkloadError::Program { .. })));
    }

    #[test]
    fn a_line_without_end_and_a_report_that_is_refused_end_the_program() {
        let stop = Stop::new().unwrap();
        let endless = run_shell("exec cat /dev/zero", &stop);
        assert!(
            matches!(endless, Err(WorkloadError::BadReport { what: "end within 16 MiB", .. })),
            "{endless:?}"
        );
        let mut refuse = |_: &mut String| Err(WorkloadError::NoDisk);
        let refused = run_program("shell", &mut shell("echo 1; exec sleep 1000"), &stop, &mut refuse);
        assert!(matches!(refused, Err(WorkloadError::NoDisk)));
    }

    #[test]
    fn a_stop_lets_it_report_and_kills_it_if_it_does_not_end() {
        let stop = Stop::new().unwrap();
        let script = "trap 'echo last; exit 1' TERM; echo first; while :; do sleep 0.01; done";
        let text = run_program("shell", &mut shell(script), &stop, &mut |text| {
            stop.ask();
            assert!(text.starts_with("first"));
            Ok(())
        });
        assert_eq!(text.unwrap(), "first\nlast\n");
        let mut stubborn = Running::start(&mut shell("trap '' TERM; while :; do sleep 0.01; done")).unwrap();
        let (id, is_over) = (stubborn.0.id(), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| end_when_asked(id, Duration::ZERO, &stop, &is_over));
            assert!(!stubborn.0.wait().unwrap().success());
            is_over.store(true, Ordering::Release);
        });
    }
}
