//! Running a program for `guests exec`, beside the conversation: the host may end it.

use crate::error::{AgentError, step};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};
use std::{
    fs::File,
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{ERROR_BYTES_MAX, Execute, OUTPUT_BYTES_MAX, Reply};
use tilemark_load::Stop;
use tilemark_sys::process::descriptor_of;

/// How long a program that is to end may take for it, and then what it printed to be read. The next `guests exec` waits for it.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// A program that runs. Dropping it ends the program and waits for its end.
pub(crate) struct RunningProgram {
    stop: Arc<Stop>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RunningProgram {
    /// Starts it. `send` gets how it ended, from a thread of its own.
    pub(crate) fn start(
        order: Execute,
        send: impl FnOnce(Result<Reply, AgentError>) + Send + 'static,
    ) -> io::Result<Self> {
        let stop = Arc::new(Stop::new()?);
        let its_stop = Arc::clone(&stop);
        let over = Arc::new(AtomicBool::new(false));
        let its_over = Arc::clone(&over);
        let work = move || {
            let ended = execute(&order, &its_stop);
            // Before the host reads it: it may ask for the next program at once.
            its_over.store(true, Ordering::Release);
            send(ended);
        };
        let thread = Some(thread::Builder::new().name("program".to_owned()).spawn(work)?);
        Ok(Self { stop, over, thread })
    }

    /// Ends it early; how it ended is still sent.
    pub(crate) fn end(&self) {
        self.stop.ask();
    }

    /// Whether how it ended was sent, or is being sent.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire) || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // A panic was printed by its thread; the agent goes on.
            let _ = thread.join();
        }
    }
}

/// Runs it in a process group of its own, which is ended when the time is over or a stop is asked.
fn execute(order: &Execute, stop: &Stop) -> Result<Reply, AgentError> {
    let (name, arguments) =
        order.arguments.split_first().ok_or(AgentError::Refused("no program was named"))?;
    let child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) => return not_started(name, error),
    };
    let watch = || step(format!("watch {name}"));
    let mut program = Program::of(child).map_err(watch())?;
    let until = Instant::now() + order.within.get();
    let how = program.follow(until, Some(stop)).map_err(watch())?;
    if how == How::Stopped {
        program.signal(Signal::TERM);
        program.follow(Instant::now() + ENDS_WITHIN, None).map_err(watch())?;
    }
    // Also after an orderly end: what it left in the background holds the pipes open.
    program.signal(Signal::KILL);
    program.has_ended = true;
    // What left the group holds them open still: after an orderly end it may, until it is to end.
    let (until, stop) = match how {
        How::Ended => (until, Some(stop)),
        How::Stopped | How::Late => (Instant::now() + ENDS_WITHIN, None),
    };
    program.follow(until, stop).map_err(watch())?;
    let status = program.child.wait().map_err(step(format!("wait for {name}")))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let Program { output, mut error, .. } = program;
    let why = match how {
        How::Ended => String::new(),
        How::Stopped => format!("\n{name} was ended because its caller has gone\n"),
        How::Late => format!("\n{name} was ended after {} s\n", order.within.as_seconds()),
    };
    error.bytes.extend_from_slice(why.as_bytes());
    Ok(Reply::Executed { code, output: output.bytes, error: error.bytes })
}

/// What a shell answers for a program that is not there or cannot be run (POSIX, "Exit Status for Commands"). Any other
/// reason is the guest's.
fn not_started(program: &str, error: io::Error) -> Result<Reply, AgentError> {
    let code = match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR) => 127,
        Some(Errno::ACCESS | Errno::PERM | Errno::NOEXEC | Errno::TOOBIG) => 126,
        _ => return Err(step(format!("start {program}"))(error)),
    };
    let error = format!("{program} does not start in this guest: {error}\n").into_bytes();
    Ok(Reply::Executed { code, output: Vec::new(), error })
}

/// How a program, or what it still prints, came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// By itself.
    Ended,
    /// A stop was asked.
    Stopped,
    /// Its time was over.
    Late,
}

/// A program with what it has printed.
struct Program {
    child: Child,
    pidfd: OwnedFd,
    output: BoundedOutput,
    error: BoundedOutput,
    /// Whether only what it printed is awaited.
    has_ended: bool,
}

impl Program {
    fn of(mut child: Child) -> io::Result<Self> {
        let output = OwnedFd::from(child.stdout.take().expect("it was piped"));
        let error = OwnedFd::from(child.stderr.take().expect("it was piped"));
        let pidfd = descriptor_of(child.id())?;
        let (output, error) =
            (BoundedOutput::of(output, OUTPUT_BYTES_MAX), BoundedOutput::of(error, ERROR_BYTES_MAX));
        Ok(Self { child, pidfd, output, error, has_ended: false })
    }

    /// To all of its group.
    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, signal);
        }
    }

    /// Keeps what it prints until it ends, or until all is read of one that has ended.
    fn follow(&mut self, until: Instant, stop: Option<&Stop>) -> io::Result<How> {
        loop {
            if self.has_ended && self.output.pipe.is_none() && self.error.pipe.is_none() {
                return Ok(How::Ended);
            }
            let left = until.saturating_duration_since(Instant::now());
            let ready = self.wait(left, stop)?;
            self.output.read_if(ready.contains(&Source::Output));
            self.error.read_if(ready.contains(&Source::Error));
            if ready.contains(&Source::Program) {
                self.has_ended = true;
                return Ok(How::Ended);
            }
            if ready.contains(&Source::Stop) {
                return Ok(How::Stopped);
            }
            if left.is_zero() {
                return Ok(How::Late);
            }
        }
    }

    /// Waits at most so long for what is awaited still, and returns what came.
    fn wait(&self, left: Duration, stop: Option<&Stop>) -> io::Result<Vec<Source>> {
        let sources = [
            (Source::Program, (!self.has_ended).then(|| self.pidfd.as_fd())),
            (Source::Stop, stop.map(Stop::descriptor)),
            (Source::Output, self.output.pipe.as_ref().map(File::as_fd)),
            (Source::Error, self.error.pipe.as_ref().map(File::as_fd)),
        ];
        let awaited: Vec<(Source, BorrowedFd<'_>)> =
            sources.into_iter().filter_map(|(source, descriptor)| Some((source, descriptor?))).collect();
        let polled =
            awaited.iter().map(|(_, descriptor)| PollFd::from_borrowed_fd(*descriptor, PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> = polled.collect();
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let came = polled.iter().zip(&awaited).filter(|(found, _)| !found.revents().is_empty());
        Ok(came.map(|(_, (source, _))| *source).collect())
    }
}

/// What is awaited of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// Its end.
    Program,
    /// That it is to end.
    Stop,
    /// What it prints.
    Output,
    /// Its errors.
    Error,
}

/// The beginning of what comes out of a pipe. The rest is read too: a program that talks without end is not stopped by a full pipe.
struct BoundedOutput {
    /// Nothing once it is closed.
    pipe: Option<File>,
    bytes: Vec<u8>,
    limit: usize,
}

impl BoundedOutput {
    fn of(pipe: OwnedFd, limit: usize) -> Self {
        Self { pipe: Some(pipe.into()), bytes: Vec::new(), limit }
    }

    /// Reads what is there, where something is.
    fn read_if(&mut self, is_ready: bool) {
        let Some(pipe) = self.pipe.as_mut().filter(|_| is_ready) else { return };
        let mut buffer = [0; 16 << 10];
        match pipe.read(&mut buffer) {
            Ok(length) if length > 0 => {
                let room = self.limit - self.bytes.len();
                self.bytes.extend_from_slice(&buffer[..length.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => self.pipe = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use tilemark_units::Span;

    fn order(command: &str, within: Span) -> Execute {
        Execute { arguments: ["/bin/sh", "-c", command].map(str::to_owned).to_vec(), within }
    }

    fn run(command: &str, within: Span) -> Reply {
        execute(&order(command, within), &Stop::new().unwrap()).unwrap()
    }

    /// The same, ended when it has run for 300 ms: its code, its output, and how long it took from then on.
    fn run_ended(command: &str) -> (i32, String, Duration) {
        let (report, reported) = mpsc::channel();
        let running = RunningProgram::start(order(command, Span::from_seconds(30)), move |ended| {
            report.send(ended).unwrap()
        })
        .unwrap();
        thread::sleep(Duration::from_millis(300));
        assert!(!running.is_over(), "{command} ended by itself");
        let began = Instant::now();
        running.end();
        let Ok(Reply::Executed { code, output, error }) = reported.recv().unwrap() else {
            panic!("another reply")
        };
        assert!(running.is_over());
        assert!(error.is_empty() || error.ends_with(b"was ended because its caller has gone\n"), "{error:?}");
        (code, String::from_utf8(output).unwrap(), began.elapsed())
    }

    #[test]
    fn output_error_and_code_come_back() {
        let reply = run("echo out; echo err >&2; exit 3", Span::from_seconds(20));
        assert_eq!(reply, Reply::Executed { code: 3, output: b"out\n".into(), error: b"err\n".into() });
    }

    #[test]
    fn a_program_that_does_not_start_has_the_exit_code_of_a_shell() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (program, expected) in [("/nowhere/program", 127), (file.path().to_str().unwrap(), 126)] {
            let order = Execute { arguments: vec![program.to_owned()], within: Span::from_seconds(20) };
            let Ok(Reply::Executed { code, error, .. }) = execute(&order, &Stop::new().unwrap()) else {
                panic!("another reply")
            };
            assert_eq!(code, expected);
            assert!(String::from_utf8(error).unwrap().starts_with(&format!("{program} does not start")));
        }
    }

    #[test]
    fn a_program_that_stays_is_ended_with_its_children() {
        let Reply::Executed { code, error, .. } = run("sleep 1000 & sleep 1000", Span::from_milliseconds(50))
        else {
            panic!("another reply")
        };
        assert_eq!(code, 128 + 9);
        assert!(String::from_utf8(error).unwrap().contains("was ended after 0.05 s"));
    }

    #[test]
    fn a_program_whose_caller_has_gone_is_ended_with_its_children_and_may_finish() {
        let (code, output, _) = run_ended("echo begun; sleep 1000 & sleep 1000");
        assert_eq!((code, output.as_str()), (128 + 15, "begun\n"));
        let (code, output, _) = run_ended("trap 'echo finished; exit 4' TERM; sleep 1000 & wait");
        assert_eq!((code, output.as_str()), (4, "finished\n"));
        // One that does not listen.
        let (code, _, took) = run_ended("trap '' TERM; sleep 1000");
        assert_eq!(code, 128 + 9);
        assert!(took >= ENDS_WITHIN, "{took:?}");
    }

    #[test]
    fn a_daemon_that_holds_the_output_does_not_hold_up_the_end() {
        let (code, output, took) = run_ended("setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.1");
        let daemon = Pid::from_raw(output.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(daemon, Signal::KILL).unwrap();
        assert_eq!(code, 0, "it had ended by itself");
        // Its own time is 30 s.
        assert!(took < Duration::from_secs(20), "{took:?}");
    }

    #[test]
    fn endless_output_is_cut_and_does_not_block() {
        let Reply::Executed { output, .. } = run("head -c 1000000 /dev/zero", Span::from_seconds(20)) else {
            panic!("another reply")
        };
        assert_eq!(output.len(), OUTPUT_BYTES_MAX);
    }
}
