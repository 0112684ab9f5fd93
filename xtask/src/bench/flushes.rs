//! How often a server flushes to disk, counted by strace on those of its threads that do.

use super::tools::{Bench, Skipped, need, need_root, number_after, text_of};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Calls that wait for the disk.
const FLUSHES: [&str; 2] = ["fsync", "fdatasync"];
/// Threads that write to disk, by a part of their name: of the reference broker's journal, and of Erlang's file access.
/// The others stay as fast as they are.
const WRITERS: [&str; 2] = ["broker-journal", "dirty_io"];

/// Does something while the flushes of the server at an address are counted. None at all is an error: what is durable
/// cannot do without.
pub(super) fn flushes<T>(
    bench: &Bench,
    server: SocketAddr,
    doing: impl FnOnce() -> Result<T>,
) -> Result<(T, u64)> {
    need_root()?;
    need(&["strace", "ss"])?;
    let pid = listening_at(server)?;
    let counts = bench.folder("strace")?.join("counts");
    let counting = Counting::start(pid, &counts)?;
    let done = doing();
    counting.end()?;
    let done = done?;
    let counted = sum_of_calls(&fs::read_to_string(&counts).context("strace writes its counts")?);
    fs::remove_file(&counts)?;
    if counted == 0 {
        bail!("no flush of process {pid} at {server} was counted");
    }
    Ok((done, counted))
}

/// The process that listens at an address.
fn listening_at(server: SocketAddr) -> Result<u32> {
    let port = format!("sport = :{}", server.port());
    let printed = text_of(
        Command::new("ss")
            .args(["--no-header", "--listening", "--tcp", "--numeric"])
            .args(["--processes", &port]),
    )?;
    match number_after(&printed, "pid=") {
        Ok(pid) => Ok(pid as u32),
        Err(_) => bail!(Skipped(format!("no process of this machine listens at {server}"))),
    }
}

/// The threads of a process that write to disk; all of them where none has a name that is known.
fn writers_of(pid: u32) -> Result<Vec<u32>> {
    let (mut all, mut writers) = (Vec::new(), Vec::new());
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = task?.path();
        let thread = path.file_name().and_then(|name| name.to_str()?.parse().ok()).context("a number")?;
        // One that has ended meanwhile writes no more.
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        all.push(thread);
        if WRITERS.iter().any(|writer| name.contains(writer)) {
            writers.push(thread);
        }
    }
    Ok(if writers.is_empty() { all } else { writers })
}

/// An strace at work; it ends with this, and its threads go on.
struct Counting(Child);

impl Counting {
    /// Starts one and waits until it is at every thread.
    fn start(pid: u32, counts: &Path) -> Result<Self> {
        let threads = writers_of(pid)?;
        let mut command = Command::new("strace");
        command.args(["-qq", "-c", "-e", &format!("trace={}", FLUSHES.join(","))]).arg("-o").arg(counts);
        command.args(threads.iter().flat_map(|thread| ["-p".to_owned(), thread.to_string()]));
        let child = command.stdin(Stdio::null()).spawn().context("strace does not start")?;
        let mut counting = Self(child);
        let until = Instant::now() + Duration::from_secs(30);
        while !threads.iter().all(|thread| is_traced(pid, *thread)) {
            if let Some(status) = counting.0.try_wait()? {
                bail!(Skipped(format!("strace may not look at process {pid}: it ended with {status}")));
            }
            if Instant::now() > until {
                bail!("strace did not reach every thread of process {pid}");
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(counting)
    }

    /// Lets go of the threads and writes the counts.
    fn end(mut self) -> Result<()> {
        kill_process(Pid::from_child(&self.0), Signal::INT)?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One that has ended need not be waited for.
fn is_traced(pid: u32, thread: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).unwrap_or_default();
    !status.contains("TracerPid:\t0\n")
}

/// Adds up the calls in the table of `strace -c`: share, seconds, microseconds a call, calls, perhaps errors, name.
fn sum_of_calls(table: &str) -> u64 {
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let calls = rows.filter(|row| row.last().is_some_and(|name| FLUSHES.contains(name)));
    calls.filter_map(|row| row.get(3)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_table_are_added_up() {
        let table = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 90.00    0.090000          90      1000           fdatasync
 10.00    0.010000         100       100         2 fsync
------ ----------- ----------- --------- --------- ----------------
100.00    0.100000          90      1100         2 total
";
        assert_eq!(sum_of_calls(table), 1100);
        assert_eq!(sum_of_calls(""), 0);
    }
}
