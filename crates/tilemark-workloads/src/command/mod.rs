//! A program of the user's own. What it prints is foreign text: lines, their number and their length are bounded, and what of it is
//! shown is printable.
//!
//! ```text
//! files in place, program found -> begin -> (a figure: the warm-up passes) -> program runs, in a process group of its own
//!   -> lines are read as they come -> it ends, or the plan does -> its group is ended -> seconds, totals
//! ```

mod error;
mod reading;

use crate::{engine::LoadFailure, threads::start_all};
use error::CommandError;
use reading::{Reading, Times};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    collections::VecDeque,
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tilemark_agent_protocol::{Counts, LoadEvent, LoadJob, Sender, Stream, StreamTotal};
use tilemark_load::{Start, Stop, pin};
use tilemark_plan::workload::{CommandFigure, CommandFrom, CommandParameters, Details, Work};
use tilemark_units::printable_line;

/// Bytes that a command may print.
const PRINTED_BYTES_MAX: usize = 16 << 20;
/// Bytes of its output that stay in the record.
const KEPT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a line; the rest is the next line.
const LINE_BYTES_MAX: u64 = 16 << 10;
/// Its last lines in an error, and characters of each.
const LAST_LINES: usize = 5;
const LAST_CHARACTERS: usize = 200;
/// A command that prints seconds has this long after the end for its last line.
const LAST_LINE_WITHIN: f64 = 1.5;
/// One with a figure at the end has this long.
const FIGURE_WITHIN: f64 = 5.0;
/// From the request to end to the end by force.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The engine of `command`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    run_on(&thread::Builder::new, job, stop, start, events)
}

/// The same on threads of these builders.
fn run_on(
    builder: &dyn Fn() -> thread::Builder,
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let prepared: Vec<Prepared> =
        job.streams.iter().map(|stream| Prepared::new(job, stream)).collect::<Result<_, _>>()?;
    // All programs inherit it: the guests' processors are never touched.
    let pinned = !job.processors.is_empty() && pin(&job.processors);
    let sender = Sender { workers: 0, real_time: false, timer_slack_ns: 0, pinned };
    if start(sender).is_none() {
        return Ok(Vec::new());
    }
    let began = Instant::now();
    let failed = LoadFailure::with(CommandError::remedy);
    let done = thread::scope(|scope| -> Result<Vec<Result<Done, CommandError>>, CommandError> {
        let works = prepared.iter().map(|one| move || one.run(began, stop));
        let threads = start_all(builder, scope, works, || stop.ask()).map_err(CommandError::NoThread)?;
        Ok(threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect())
    })
    .map_err(failed)?;
    let mut totals = Vec::new();
    for (one, done) in prepared.iter().zip(done) {
        let done = done.map_err(failed)?;
        totals.push(one.report(done, events));
    }
    Ok(totals)
}

/// A command that can begin.
struct Prepared<'a> {
    id: u32,
    parameters: &'a CommandParameters,
    program: PathBuf,
    words: Vec<String>,
    /// Removed with it.
    folder: TempDir,
    times: Times,
}

/// What a command did.
struct Done {
    reading: Reading,
    output: String,
}

impl<'a> Prepared<'a> {
    fn new(job: &LoadJob, stream: &'a Stream) -> Result<Self, LoadFailure> {
        let Work::Command(parameters) = &*stream.work else { return Err(LoadFailure::stray(stream)) };
        let prepare = || {
            let folder =
                tempfile::Builder::new().prefix("command-").tempdir().map_err(CommandError::Files)?;
            put_files(folder.path(), stream, parameters).map_err(CommandError::Files)?;
            let words: Vec<String> = parameters.run.iter().map(|word| filled(word, job, stream)).collect();
            let program = found(&words[0], folder.path())?;
            let times = Times { warmup: job.warmup.as_seconds(), length: job.length.as_seconds() };
            Reading::of(parameters, &words[0], times)?;
            Ok(Self { id: stream.id, parameters, program, words, folder, times })
        };
        prepare().map_err(LoadFailure::with(CommandError::remedy))
    }

    fn name(&self) -> String {
        printable_line(&self.words[0]).into_owned()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.words[1..])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{PATH}", self.folder.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    /// Runs it to its end, or to the plan's.
    fn run(&self, began: Instant, stop: &Stop) -> Result<Done, CommandError> {
        let mut reading = Reading::of(self.parameters, &self.words[0], self.times)?;
        if reading.is_figure() {
            while began.elapsed().as_secs_f64() < self.times.warmup && !stop.is_asked() {
                thread::sleep(PAUSE / 5);
            }
        }
        let broken = |source| CommandError::NotStarted { program: self.name(), source };
        let mut group = Group(self.command().spawn().map_err(broken)?);
        let (sender, words) = mpsc::sync_channel(256);
        listen(group.0.stderr.take().expect("it was piped"), sender.clone(), Printed::Error)?;
        listen(group.0.stdout.take().expect("it was piped"), sender, Printed::Line)?;
        let mut heard = Heard::default();
        let silence = self.parameters.silence().as_seconds();
        let grace = if reading.is_figure() { FIGURE_WITHIN } else { LAST_LINE_WITHIN };
        let mut was_ended = false;
        let status = loop {
            self.hear(&words, PAUSE, began, &mut heard, &mut reading)?;
            if let Some(status) = group.0.try_wait().map_err(broken)? {
                break status;
            }
            let now = began.elapsed().as_secs_f64();
            if stop.is_asked() || now > self.times.end() + grace {
                was_ended = true;
                if reading.is_figure() && !stop.is_asked() {
                    let seconds = now - self.times.warmup;
                    return Err(CommandError::Endless { program: self.name(), seconds });
                }
                break group.end().map_err(broken)?;
            }
            if !reading.is_figure() && now - reading.last > silence && now < self.times.end() {
                return Err(reading.nothing(now - reading.last, heard.last_lines()));
            }
        };
        let after = began.elapsed().as_secs_f64();
        // What it left in the background would hold the pipes.
        group.kill();
        let until = Instant::now() + ENDS_WITHIN;
        while Instant::now() < until && self.hear(&words, PAUSE, began, &mut heard, &mut reading)? {}
        if !was_ended && !status.success() {
            let last = heard.last_words();
            return Err(CommandError::Failed { program: self.name(), how: status.to_string(), last });
        }
        if !stop.is_asked() {
            reading.check(after, heard.last_lines())?;
        }
        Ok(Done { reading, output: heard.output })
    }

    /// Takes the next line, if one comes in time. Returns whether more can come.
    fn hear(
        &self,
        words: &Receiver<(Instant, Printed)>,
        within: Duration,
        began: Instant,
        heard: &mut Heard,
        reading: &mut Reading,
    ) -> Result<bool, CommandError> {
        let (at, printed) = match words.recv_timeout(within) {
            Ok(printed) => printed,
            Err(RecvTimeoutError::Timeout) => return Ok(true),
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(within / 5);
                return Ok(false);
            }
        };
        if heard.take(&printed) > PRINTED_BYTES_MAX {
            let (program, last) = (self.name(), heard.last_lines());
            return Err(CommandError::Flood { program, most: PRINTED_BYTES_MAX, last });
        }
        if let Printed::Line(line) = printed {
            reading.line(at.saturating_duration_since(began).as_secs_f64(), &line)?;
        }
        Ok(true)
    }

    fn report(&self, Done { reading, output }: Done, events: &mut dyn FnMut(LoadEvent)) -> StreamTotal {
        let id = self.id;
        let seconds = reading.seconds();
        (0..).zip(&seconds).for_each(|(second, counted)| events(counted.second(id, second)));
        events(LoadEvent::Output { id, text: output });
        if let (Some(value), Some(better)) = (reading.figure(), self.parameters.better) {
            let unit = self.parameters.unit.clone().unwrap_or_default();
            let details = Box::new(Details::Command(CommandFigure { value, unit, better }));
            events(LoadEvent::Details { id, details });
        }
        let counts: Counts = seconds.iter().map(|second| second.counts).sum();
        let completed_in_time = counts.completed;
        StreamTotal { id, counts, completed_in_time, seconds: self.times.length, ..StreamTotal::default() }
    }
}

/// A word of the command with its places filled.
fn filled(word: &str, job: &LoadJob, stream: &Stream) -> String {
    let (warmup, length) = (job.warmup.get().as_secs(), job.length.get().as_secs());
    let [address, port, seconds, total_seconds, seed] = CommandParameters::PLACES;
    [
        (address, stream.target.ip().to_string()),
        (port, stream.target.port().to_string()),
        (seconds, length.to_string()),
        (total_seconds, (warmup + length).to_string()),
        // Many programs take no more than 31 bits.
        (seed, (stream.seed % 0x7fff_ffff).to_string()),
    ]
    .iter()
    .fold(word.to_owned(), |word, (place, value)| word.replace(place, value))
}

/// In a guest from the job; on the host they are there already.
fn put_files(folder: &Path, stream: &Stream, parameters: &CommandParameters) -> std::io::Result<()> {
    for file in &stream.files {
        let path = folder.join(Path::new(&file.name).file_name().unwrap_or_default());
        fs::write(&path, &file.bytes)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    if parameters.from == CommandFrom::Host {
        for (name, path) in &parameters.files {
            std::os::unix::fs::symlink(path, folder.join(name))?;
        }
    }
    Ok(())
}

/// The program: a file that was brought, a path, or one of the system's.
fn found(program: &str, folder: &Path) -> Result<PathBuf, CommandError> {
    let own = folder.join(program.strip_prefix("./").unwrap_or(program));
    let is_name = !program.trim_start_matches("./").contains('/');
    let systems = PATH.split(':').map(|place| Path::new(place).join(program));
    let candidates: Vec<PathBuf> = match is_name {
        true => std::iter::once(own).chain(systems).collect(),
        false => vec![PathBuf::from(program)],
    };
    let is_file = |path: &PathBuf| fs::metadata(path).is_ok_and(|found| found.is_file());
    let absent = || CommandError::Absent(printable_line(program).into_owned());
    candidates.into_iter().find(is_file).ok_or_else(absent)
}

/// A child with its process group, which does not outlive this.
struct Group(Child);

impl Group {
    fn signal(&self, signal: Signal) {
        // One that has ended needs no signal.
        let _ = i32::try_from(self.0.id())
            .ok()
            .and_then(Pid::from_raw)
            .map(|pid| kill_process_group(pid, signal));
    }
    fn kill(&self) {
        self.signal(Signal::KILL);
    }
    /// Asks it to end, then ends it.
    fn end(&mut self) -> std::io::Result<std::process::ExitStatus> {
        self.signal(Signal::TERM);
        let until = Instant::now() + ENDS_WITHIN;
        while Instant::now() < until {
            if let Some(status) = self.0.try_wait()? {
                return Ok(status);
            }
            thread::sleep(PAUSE / 5);
        }
        self.kill();
        self.0.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

/// What a command printed.
enum Printed {
    Line(String),
    Error(String),
}

/// Reads lines in a thread of its own, which ends with the pipe. It waits where nobody takes them, and so does the command.
fn listen(
    pipe: impl Read + Send + 'static,
    to: SyncSender<(Instant, Printed)>,
    printed: fn(String) -> Printed,
) -> Result<(), CommandError> {
    let read = move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while let Ok(1..) = (&mut pipe).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            let text = String::from_utf8_lossy(&line).into_owned();
            line.clear();
            if to.send((Instant::now(), printed(text))).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().spawn(read).map(drop).map_err(CommandError::NoThread)
}

/// What of its words is kept.
#[derive(Default)]
struct Heard {
    bytes: usize,
    output: String,
    lines: VecDeque<String>,
    errors: VecDeque<String>,
}

impl Heard {
    /// Returns how many bytes it printed up to now.
    fn take(&mut self, printed: &Printed) -> usize {
        let (text, last) = match printed {
            Printed::Line(text) => (text, &mut self.lines),
            Printed::Error(text) => (text, &mut self.errors),
        };
        self.bytes += text.len();
        if matches!(printed, Printed::Line(_)) && self.output.len() + text.len() <= KEPT_BYTES_MAX {
            self.output += text;
        }
        let short: String = text.trim_end().chars().take(LAST_CHARACTERS).collect();
        if !short.is_empty() {
            last.push_back(printable_line(&short).into_owned());
        }
        if last.len() > LAST_LINES {
            last.pop_front();
        }
        self.bytes
    }

    fn last_lines(&self) -> String {
        Vec::from_iter(self.lines.iter().map(String::as_str)).join("; ")
    }

    /// Of its errors, or of its output where it has none.
    fn last_words(&self) -> String {
        let errors = Vec::from_iter(self.errors.iter().map(String::as_str)).join("; ");
        if errors.is_empty() { self.last_lines() } else { errors }
    }
}

#[cfg(test)]
mod tests;
