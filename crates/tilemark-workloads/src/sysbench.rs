//! sysbench's read-write transactions, by Debian's sysbench inside the database guest.
//!
//! A line each second gives the seconds' counts. Latencies come as one histogram at the end: they are reported with the last
//! second, since nothing says which second they belong to. The whole output stays in the record.

use crate::{
    WorkloadError,
    engine::{LoadFailure, only_stream},
    store::MARIADB_SOCKET,
    tool::{self, Counted, Last, Tool},
};
use hdrhistogram::Histogram;
use std::{process::Command, time::Duration};
use tilemark_agent_protocol::{Counts, LoadEvent, LoadJob, Stream, StreamTotal};
use tilemark_load::{Start, Stop, figures::histogram};
use tilemark_plan::{
    plan::Demand,
    workload::{SysbenchParameters, Work},
};
use tilemark_units::counted;

/// The engine of `sysbench`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let stream = only_stream(job)?;
    let Work::Sysbench(parameters) = &*stream.work else { return Err(LoadFailure::stray(stream)) };
    let times = Times { warmup: job.warmup.get().as_secs(), length: job.length.get().as_secs() };
    let bench = Sysbench { stream, parameters, times };
    tool::run(bench, job, stream, stop, start, events).map_err(LoadFailure::with(WorkloadError::remedy))
}

/// Makes its tables in the empty database `store`, on so many processors. The same seed makes the same rows.
pub(crate) fn prepare(parameters: &SysbenchParameters, processors: u32, seed: u64) -> Command {
    // It makes each table with one thread.
    let threads = processors.clamp(1, parameters.tables.max(1));
    let mut command = sysbench(Command::new(PROGRAM), parameters, seed);
    command.args([&format!("--threads={threads}"), "prepare"]);
    command
}

/// sysbench.
const PROGRAM: &str = "/usr/bin/sysbench";
/// It ends with an error where its threads have not connected by then.
const CONNECTS_WITHIN: Duration = Duration::from_secs(30);

/// A program like sysbench whose service may take so long. The time to connect is a constant of Debian's version, kept by an alarm: a
/// program that begins with SIGALRM blocked hears none. The host's deadline for the load ends one that never connects.
fn with_timeout(program: &str, timeout: Duration) -> Command {
    if timeout <= CONNECTS_WITHIN {
        return Command::new(program);
    }
    let mut command = Command::new("/usr/bin/env");
    command.args(["--block-signal=ALRM", program]);
    command
}

/// A command on the tables of a load.
fn sysbench(mut command: Command, parameters: &SysbenchParameters, seed: u64) -> Command {
    let SysbenchParameters { tables, rows, threads: _ } = parameters;
    command
        .args(["oltp_read_write", "--db-driver=mysql", "--mysql-user=root", "--mysql-db=store"])
        .arg(format!("--mysql-socket={MARIADB_SOCKET}"))
        .args([format!("--tables={tables}"), format!("--table-size={rows}")])
        .arg(format!("--rand-seed={}", seed % 0x7fff_ffff));
    command
}

/// Seconds of a run.
#[derive(Debug, Clone, Copy)]
struct Times {
    warmup: u64,
    length: u64,
}

struct Sysbench<'a> {
    stream: &'a Stream,
    parameters: &'a SysbenchParameters,
    times: Times,
}

impl Tool for Sysbench<'_> {
    const NAME: &'static str = "sysbench";

    fn command(&self) -> Command {
        let Times { warmup, length } = self.times;
        let rate = match &self.stream.demand {
            Demand::Open { rate, .. } => rate.get().round() as u64,
            Demand::Closed => 0,
        };
        let program = with_timeout(PROGRAM, self.stream.timeout.get());
        let mut command = sysbench(program, self.parameters, self.stream.seed);
        command
            .args([format!("--threads={}", self.parameters.threads), format!("--rate={rate}")])
            .args(["--report-interval=1", "--histogram=on", "--percentile=99"])
            .args([format!("--time={}", warmup + length), "run".to_owned()]);
        // One process from the warm-up on, whose counters begin again with the measurement.
        if warmup > 0 {
            command.arg(format!("--report-checkpoints={warmup}"));
        }
        command
    }

    /// How many transactions its seconds had is certain at its end only.
    fn line(&mut self, _text: &mut String) -> Result<Option<Counted>, WorkloadError> {
        Ok(None)
    }

    fn last(self, text: String) -> Result<Last, WorkloadError> {
        let report = Report::parse(&text, self.times)?;
        let error = report.repeated();
        let (counts, length_s) = (report.counts(), self.times.length as f64);
        Ok(Last { seconds: report.seconds(), counts, length_s, error, output: text })
    }
}

/// What sysbench reports.
struct Report {
    /// Transactions in each second.
    by_second: Vec<f64>,
    transactions: u64,
    /// Attempts that the database refused, for a deadlock most of all. sysbench repeats a transaction until it succeeds and counts it then, so
    /// none of them is a request that failed: its latency is that of all its attempts.
    refused: u64,
    /// Transactions of a rate that came due and were not begun, beyond those that already waited when the measurement began.
    queued: u64,
    latency: Histogram<u64>,
}

/// How many transactions wait for a thread at the end of a second: `[ 5s ] queue length: 2, concurrency: 1`, with a rate only.
fn queue_length(line: &str) -> Option<(u64, u64)> {
    let (at, rest) = line.strip_prefix("[ ")?.split_once("s ] queue length: ")?;
    Some((at.parse().ok()?, rest.split(',').next()?.parse().ok()?))
}

impl Report {
    fn parse(text: &str, times: Times) -> Result<Self, WorkloadError> {
        let missing = |what| WorkloadError::BadReport { program: "sysbench", what };
        let number = |head: &'static str| {
            let line = text.lines().rev().find_map(|line| line.trim().strip_prefix(head))?;
            line.split_whitespace().next()?.trim_end_matches('s').parse::<f64>().ok()
        };
        let by_second = text.lines().filter_map(|line| {
            let (at, rest) = line.strip_prefix("[ ")?.split_once("s ]")?;
            let measured = at.parse::<u64>().ok()? > times.warmup;
            let rest = rest.split_once("tps: ")?.1;
            rest.split_whitespace().next()?.parse().ok().filter(|_: &f64| measured)
        });
        let queue_by = |second: u64| {
            let until = text.lines().filter_map(queue_length).take_while(|(at, _)| *at <= second);
            until.last().map_or(0, |(_, waiting)| waiting)
        };
        let queued = queue_by(times.warmup + times.length).saturating_sub(queue_by(times.warmup));
        let mut latency = histogram();
        // The report at the end of the warm-up has one of its own.
        let last = text.rfind("Latency histogram").unwrap_or(0);
        for line in text[last..].lines() {
            // `       2.861 |**                 41`
            let Some((value, rest)) = line.split_once(" |") else { continue };
            let count = rest.trim_start_matches('*').trim().parse::<u64>();
            if let (Ok(ms), Ok(count)) = (value.trim().parse::<f64>(), count) {
                latency.record_n((ms * 1e6) as u64, count).expect("it grows with its values");
            }
        }
        Ok(Self {
            // It goes on counting while its last transactions end: what they are is in its total.
            by_second: by_second.take(times.length as usize).collect(),
            transactions: number("transactions:").ok_or(missing("number of transactions"))? as u64,
            refused: number("ignored errors:").ok_or(missing("number of errors"))? as u64,
            queued,
            latency,
        })
    }

    fn counts(&self) -> Counts {
        Counts { offered: self.transactions + self.queued, completed: self.transactions, ..Counts::default() }
    }

    /// How many attempts were repeated, in words.
    fn repeated(&self) -> Option<String> {
        let times = counted(self.refused, "time");
        let refused = || {
            format!("the database refused an attempt {times}, such as for a deadlock; sysbench repeated it")
        };
        (self.refused > 0).then(refused)
    }

    /// The seconds; what rounding and the start left over belongs to the last one, which has the latencies too.
    fn seconds(self) -> Vec<Counted> {
        let mut left = self.counts();
        let (_, before) = self.by_second.split_last().unwrap_or((&0.0, &[]));
        let mut seconds = Vec::new();
        for tps in before {
            let completed = (tps.round() as u64).min(left.completed);
            left.completed -= completed;
            left.offered -= completed;
            let counts = Counts { offered: completed, completed, ..Counts::default() };
            seconds.push(Counted { counts, latency: histogram() });
        }
        seconds.push(Counted { counts: left, latency: self.latency });
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
Threads started!

[ 3s ] thds: 4 tps: 999.00 qps: 2041.19 (r/w/o: 1432.73/404.64/203.82) lat (ms,99%): 61.08 err/s: 0.00 reconn/s: 0.00
[ 3s ] Checkpoint report:
Latency histogram (values are in milliseconds)
       5.090 |****************************************    2997
    transactions:                        2997   (999.00 per sec.)
    ignored errors:                      7      (0.50 per sec.)
[ 4s ] thds: 4 tps: 100.60 qps: 2041.19 (r/w/o: 1432.73/404.64/203.82) lat (ms,99%): 61.08 err/s: 0.00 reconn/s: 0.00
[ 5s ] thds: 4 tps: 120.00 qps: 2400.00 (r/w/o: 1680.00/480.00/240.00) lat (ms,99%): 59.99 err/s: 1.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
      10.090 |****************************************    200
      25.740 |****                                        23
 
SQL statistics:
    queries performed:
        read:                            3122
    transactions:                        223    (111.40 per sec.)
    queries:                             4441   (2218.00 per sec.)
    ignored errors:                      1      (0.50 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          2.0017s
    total number of events:              223
";

    #[test]
    fn its_alarm_is_blocked_where_its_service_may_take_longer_than_that() {
        let blocked = |seconds| {
            let mut command = with_timeout("/bin/cat", Duration::from_secs(seconds));
            let status = command.arg("/proc/self/status").output().unwrap().stdout;
            let status = String::from_utf8(status).unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
            u64::from_str_radix(mask.trim(), 16).unwrap()
                & (1 << (rustix::process::Signal::ALARM.as_raw() - 1))
                != 0
        };
        assert!(!blocked(15) && blocked(120));
    }

    #[test]
    fn what_still_waits_at_the_end_was_asked_and_not_served() {
        let said = SAID
            .replace("[ 4s ] thds", "[ 3s ] queue length: 40, concurrency: 4\n[ 4s ] thds")
            .replace("\nSQL statistics", "\n[ 5s ] queue length: 240, concurrency: 4\nSQL statistics");
        let counts = |said: &str| Report::parse(said, Times { warmup: 3, length: 2 }).unwrap().counts();
        assert_eq!((counts(SAID).offered, counts(&said).offered), (223, 423));
        assert_eq!((counts(&said).completed, counts(&said).failed), (223, 0));
        let seconds = Report::parse(&said, Times { warmup: 3, length: 2 }).unwrap().seconds();
        assert_eq!(seconds.iter().map(|second| second.counts.offered).sum::<u64>(), 423);
    }

    #[test]
    fn an_attempt_that_it_repeated_is_neither_a_failure_nor_further_demand_and_has_words() {
        let report = |said: &str| Report::parse(said, Times { warmup: 3, length: 2 }).unwrap();
        let words = "the database refused an attempt 1 time, such as for a deadlock; sysbench repeated it";
        assert_eq!(report(SAID).repeated().as_deref(), Some(words));
        let counts = Counts { offered: 223, completed: 223, ..Counts::default() };
        assert_eq!(report(SAID).counts(), counts);
        assert_eq!(
            report(&SAID.replace("errors:                      1 ", "errors:       0 ")).repeated(),
            None
        );
    }

    #[test]
    fn its_report_is_read_whole() {
        let report = Report::parse(SAID, Times { warmup: 3, length: 2 }).unwrap();
        assert_eq!((report.transactions, report.refused, report.latency.len()), (223, 1, 223));
        let seconds = report.seconds();
        let completed: Vec<u64> = seconds.iter().map(|second| second.counts.completed).collect();
        assert_eq!(completed, [101, 122], "all of them are reported");
        assert_eq!((seconds[1].counts.failed, seconds[1].latency.len()), (0, 223));
        assert!(Report::parse("FATAL: unable to connect", Times { warmup: 0, length: 1 }).is_err());
    }
}
