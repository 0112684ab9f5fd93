//! A program that reads or writes settings, such as systemctl(1): away from the terminal, and gone with whoever waits for it.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Signal;
use tilemark_sys::process::{Ended, HasEnded, Spawn, on_path};

/// How long a question may take: a daemon that hangs does not answer at all.
pub(super) const TO_ANSWER: Duration = Duration::from_secs(30);

/// Runs it to its end, and returns what it printed. It is killed where it takes longer than `limit`.
///
/// Ctrl-C is not for it: the command that waits for it restores what it has begun. And of a command that was killed nothing may be written later,
/// when what it left is restored already.
///
/// # Errors
/// Where it is not there, fails, or takes too long. Without it nothing is known of a setting: that is no setting which does not exist.
pub(super) fn run(program: &str, arguments: &[&str], limit: Duration) -> io::Result<String> {
    let failed = |why: String| io::Error::other(format!("{program}: {why}"));
    let path = on_path(program).ok_or_else(|| failed("it is not on the PATH".to_owned()))?;
    let [mut out, mut error] = [memory()?, memory()?];
    let spawn = Spawn::path(&path)?.arguments(arguments)?;
    let spawn = spawn
        .hand(File::open("/dev/null")?.into(), 0)
        .hand(out.try_clone()?.into(), 1)
        .hand(error.try_clone()?.into(), 2);
    let started = spawn.own_session().dies_with_thread(Signal::KILL).start();
    let child = started.map_err(|error| failed(error.into_source().to_string()))?;
    let of_call = |why: String| io::Error::other(format!("{program} {}: {why}", arguments.join(" ")));
    if child.ends_within(limit)? == HasEnded::No {
        child.signal(Signal::KILL)?;
        child.wait()?;
        return Err(of_call(format!("no answer in {} s", limit.as_secs_f64())));
    }
    match child.wait()? {
        Ended::Exited(0) => text(&mut out),
        _ => Err(of_call(in_a_line(&text(&mut error)?))),
    }
}

/// The lines of a text, one after another.
fn in_a_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}

/// A file without a name. It holds all of an output: a pipe that nobody reads yet would stop the program.
fn memory() -> io::Result<File> {
    Ok(memfd_create("output", MemfdFlags::CLOEXEC)?.into())
}

fn text(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        thread,
        time::{Duration, Instant},
    };

    #[test]
    fn a_program_has_a_session_of_its_own() {
        let shown = run("sh", &["-c", "echo $$; cat /proc/self/stat"], TO_ANSWER).unwrap();
        let (own, stat) = shown.split_once('\n').unwrap();
        let session = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap();
        assert_eq!(session, own, "Ctrl-C would reach it: {shown}");
    }

    /// In the environment of a process that waits for a program: for how long that one sleeps.
    const SLEEPS: &str = "TILEMARK_TEST_SLEEPS";

    /// Whether a program sleeps for so long.
    fn sleeps(seconds: &str) -> bool {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
        lines.any(|line| line.ends_with(format!("sleep\0{seconds}\0").as_bytes()))
    }

    fn within_ten_seconds(is_done: impl Fn() -> bool) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        while !is_done() && Instant::now() < until {
            thread::sleep(Duration::from_millis(10));
        }
        is_done()
    }

    /// A thread that is not waited for ends with its process only: so another process waits for the program, and is killed.
    #[test]
    fn a_program_ends_with_the_thread_that_waits_for_it() {
        if let Ok(seconds) = std::env::var(SLEEPS) {
            let _ = run("sleep", &[&seconds], TO_ANSWER);
            return;
        }
        let seconds = format!("60.{}", std::process::id());
        let test = "setting::reach::program::tests::a_program_ends_with_the_thread_that_waits_for_it";
        let mut waiting = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(SLEEPS, &seconds)
            .spawn()
            .unwrap();
        let was_started = within_ten_seconds(|| sleeps(&seconds));
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        assert!(was_started, "it was not started");
        assert!(within_ten_seconds(|| !sleeps(&seconds)), "it outlived the process that waited for it");
    }

    /// As virt-admin does where its daemon is stopped.
    #[test]
    fn a_program_that_takes_too_long_is_killed_and_named_with_its_time() {
        let seconds = format!("61.{}", std::process::id());
        let failed = run("sleep", &[&seconds], Duration::from_millis(50)).unwrap_err();
        assert_eq!(failed.to_string(), format!("sleep {seconds}: no answer in 0.05 s"));
        assert!(!sleeps(&seconds), "it was left running");
    }

    #[test]
    fn what_a_program_said_is_the_reason_of_its_failure() {
        let shell = |script: &str| run("sh", &["-c", script], TO_ANSWER);
        assert_eq!(shell("echo shown; echo hidden >&2").unwrap(), "shown\n");
        let failed = shell("echo busy >&2; exit 1").unwrap_err();
        assert!(failed.to_string().ends_with(": busy"), "{failed}");
        let failed = shell("printf 'one\n\n two\n' >&2; exit 1").unwrap_err();
        assert!(failed.to_string().ends_with(": one; two"), "{failed}");
        let absent = run("no-such-program", &[], TO_ANSWER).unwrap_err();
        assert_eq!(
            (absent.kind(), absent.to_string().as_str()),
            (io::ErrorKind::Other, "no-such-program: it is not on the PATH")
        );
    }
}
