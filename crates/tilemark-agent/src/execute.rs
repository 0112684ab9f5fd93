//! Running a program for `guests exec`.

use crate::error::{AgentError, step};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    io::{self, Read},
    os::{fd::AsFd, unix::process::CommandExt, unix::process::ExitStatusExt},
    process::{Command, Stdio},
    thread,
};
use tilemark_agent_protocol::{ERROR_BYTES_MAX, Execute, OUTPUT_BYTES_MAX, Reply};
use tilemark_sys::process::{HasEnded, descriptor_of, ends_within};

/// Runs it in a process group of its own, which is killed when the time is over.
pub(crate) fn execute(order: &Execute) -> Result<Reply, AgentError> {
    let (program, arguments) =
        order.arguments.split_first().ok_or(AgentError::Refused("no program was named"))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return not_started(program, error),
    };
    let output = keep_beginning(child.stdout.take().expect("it was piped"), OUTPUT_BYTES_MAX);
    let error = keep_beginning(child.stderr.take().expect("it was piped"), ERROR_BYTES_MAX);
    let pidfd = descriptor_of(child.id()).map_err(step(format!("watch {program}")))?;
    let ended = ends_within(pidfd.as_fd(), order.within.get()).map_err(step(format!("watch {program}")))?;
    // Also after an orderly end: what it left in the background holds the pipes open.
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let status = child.wait().map_err(step(format!("wait for {program}")))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let output = output.join().unwrap_or_default();
    let mut error = error.join().unwrap_or_default();
    if ended == HasEnded::No {
        let seconds = order.within.as_seconds();
        error.extend_from_slice(format!("\n{program} was ended after {seconds} s\n").as_bytes());
    }
    Ok(Reply::Executed { code, output, error })
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

/// Reads to the end, keeps the beginning: a program that talks without end is not stopped by a full pipe.
fn keep_beginning(mut pipe: impl Read + Send + 'static, limit: usize) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = pipe.by_ref().take(limit as u64).read_to_end(&mut kept);
        let _ = io::copy(&mut pipe, &mut io::sink());
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_units::Span;

    fn run(command: &str, within: Span) -> Reply {
        let arguments = ["/bin/sh", "-c", command].map(str::to_owned).to_vec();
        execute(&Execute { arguments, within }).unwrap()
    }

    #[test]
    fn output_error_and_code_come_back() {
        let reply = run("echo out; echo err >&2; exit 3", Span::from_seconds(20));
        assert_eq!(reply, Reply::Executed { code: 3, output: b"out\n".into(), error: b"err\n".into() });
    }

    #[test]
    fn a_program_that_does_not_start_is_told_as_by_a_shell() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (program, expected) in [("/nowhere/program", 127), (file.path().to_str().unwrap(), 126)] {
            let order = Execute { arguments: vec![program.to_owned()], within: Span::from_seconds(20) };
            let Ok(Reply::Executed { code, error, .. }) = execute(&order) else { panic!("another reply") };
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
    fn endless_output_is_cut_and_does_not_block() {
        let Reply::Executed { output, .. } = run("head -c 1000000 /dev/zero", Span::from_seconds(20)) else {
            panic!("another reply")
        };
        assert_eq!(output.len(), OUTPUT_BYTES_MAX);
    }
}
