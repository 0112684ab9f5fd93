//! sysbench's read-write transactions, by Debian's sysbench inside the database guest.
//!
//! A line each second gives the seconds' counts. Latencies come as one histogram at the end: they are told with the last
//! second, since nothing says which second they belong to. The whole output stays in the record.

use crate::{engine::LoadFailure, store::MARIADB_SOCKET};
use hdrhistogram::Histogram;
use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};
use tilemark_agent_protocol::{Counts, LoadEvent, LoadJob, Sender, Stream, StreamSecond, StreamTotal};
use tilemark_load::{Stop, figures::encode};
use tilemark_plan::{
    plan::Demand,
    workload::{SysbenchParameters, Work},
};

const PROGRAM: &str = "/usr/bin/sysbench";
/// Time between two looks at whether the load shall end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why sysbench gave no figures.
#[derive(Debug, thiserror::Error)]
enum SysbenchError {
    /// It did not start or could not be read.
    #[error("sysbench cannot be run")]
    Run(#[from] std::io::Error),
    /// It failed.
    #[error("sysbench {what} ended with {how}: {said}")]
    Failed { what: &'static str, how: String, said: String },
    /// Its report lacks something.
    #[error("sysbench's report has no {0}")]
    Report(&'static str),
    /// Not one stream of this work.
    #[error("a guest runs one sysbench load at a time")]
    Job,
}

impl SysbenchError {
    fn remedy(&self) -> &'static str {
        match self {
            Self::Run(_) => "use an image that has sysbench, such as `image = \"database\"`",
            Self::Failed { .. } | Self::Report(_) => "read what it said, and the guest's console",
            Self::Job => "give the guest one load",
        }
    }
}

/// The engine of `sysbench`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<(), LoadFailure> {
    run(job, stop, events).map_err(|error| LoadFailure::new(&error, error.remedy()))
}

/// Does the job's only stream. The last event is `Done`.
fn run(job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) -> Result<(), SysbenchError> {
    let [stream @ Stream { work: Work::Sysbench(parameters), .. }] = &job.streams[..] else {
        return Err(SysbenchError::Job);
    };
    let bench = Bench { stream, parameters };
    bench.to_end("prepare", stop)?;
    events(LoadEvent::Started(Sender { workers: 0, real_time: false, timer_slack_ns: 0, pinned: false }));
    let times = Times { warmup: job.warmup.get().as_secs(), length: job.length.get().as_secs() };
    let mut child = bench.command("run", Some(times)).spawn()?;
    let output = child.stdout.take().expect("it was piped");
    let text = thread::scope(|scope| {
        let read = scope.spawn(|| told(output));
        let ended = await_end(&mut child, stop);
        let text = read.join().unwrap_or_default();
        let status = ended?;
        if status.success() || stop.is_asked() { Ok(text) } else { Err(failed("run", status, &text)) }
    })?;
    let report = Report::parse(&text, times)?;
    report.seconds(stream.id).into_iter().for_each(|second| events(LoadEvent::Second(second)));
    let errors = if report.errors == 0 {
        Vec::new()
    } else {
        vec![format!("{} errors of the database", report.errors)]
    };
    events(LoadEvent::Done(vec![StreamTotal {
        id: stream.id,
        counts: report.counts(),
        // It tells no ends: at most one transaction of each thread came after the last second.
        completed_in_time: report.transactions,
        seconds: report.seconds_measured,
        client_cpu_s: 0.0,
        latency: encode(&report.latency),
        lateness: Vec::new(),
        errors,
        wrong_answers: Vec::new(),
        tool_output: Some(text),
    }]));
    Ok(())
}

fn told(output: impl Read) -> String {
    let mut text = String::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        text += &line;
        text.push('\n');
    }
    text
}

/// Waits for its end; a stop ends it at once.
fn await_end(child: &mut Child, stop: &Stop) -> Result<ExitStatus, SysbenchError> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.is_asked() {
            let _ = child.kill();
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Seconds of a run.
#[derive(Debug, Clone, Copy)]
struct Times {
    warmup: u64,
    length: u64,
}

struct Bench<'a> {
    stream: &'a Stream,
    parameters: &'a SysbenchParameters,
}

impl Bench<'_> {
    fn command(&self, verb: &str, times: Option<Times>) -> Command {
        let SysbenchParameters { tables, rows, threads } = self.parameters;
        let rate = match &self.stream.demand {
            Demand::Open { rate, .. } => rate.get().round() as u64,
            Demand::Closed => 0,
        };
        let mut command = Command::new(PROGRAM);
        command
            .args(["oltp_read_write", "--db-driver=mysql", "--mysql-user=root", "--mysql-db=store"])
            .arg(format!("--mysql-socket={MARIADB_SOCKET}"))
            .args([
                format!("--tables={tables}"),
                format!("--table-size={rows}"),
                format!("--threads={threads}"),
            ])
            .args([format!("--rate={rate}"), format!("--rand-seed={}", self.stream.seed % 0x7fff_ffff)])
            .args(["--report-interval=1", "--histogram=on", "--percentile=99", verb])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        if let Some(Times { warmup, length }) = times {
            command.arg(format!("--time={}", warmup + length));
            // One process from the warm-up on, whose counters begin again with the measurement.
            if warmup > 0 {
                command.arg(format!("--report-checkpoints={warmup}"));
            }
        }
        command
    }

    /// A verb of which only success matters.
    fn to_end(&self, verb: &'static str, stop: &Stop) -> Result<(), SysbenchError> {
        let mut child = self.command(verb, None).spawn()?;
        let output = child.stdout.take().expect("it was piped");
        let read = thread::spawn(move || told(output));
        let status = await_end(&mut child, stop)?;
        let text = read.join().unwrap_or_default();
        if status.success() || stop.is_asked() {
            return Ok(());
        }
        Err(failed(verb, status, &text))
    }
}

fn failed(what: &'static str, status: ExitStatus, text: &str) -> SysbenchError {
    let said: Vec<&str> = text.lines().rev().take(3).collect();
    SysbenchError::Failed { what, how: status.to_string(), said: said.join("; ") }
}

/// What sysbench reports.
struct Report {
    /// Transactions in each second.
    by_second: Vec<f64>,
    transactions: u64,
    errors: u64,
    seconds_measured: f64,
    latency: Histogram<u64>,
}

impl Report {
    fn parse(text: &str, times: Times) -> Result<Self, SysbenchError> {
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
        let mut latency = Histogram::new(3).expect("three digits are allowed");
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
            transactions: number("transactions:").ok_or(SysbenchError::Report("number of transactions"))?
                as u64,
            errors: number("ignored errors:").ok_or(SysbenchError::Report("number of errors"))? as u64,
            seconds_measured: times.length as f64,
            latency,
        })
    }

    fn counts(&self) -> Counts {
        Counts {
            offered: self.transactions + self.errors,
            completed: self.transactions,
            failed: self.errors,
            ..Counts::default()
        }
    }

    /// The seconds; what rounding and the start left over belongs to the last one, which has the latencies too.
    fn seconds(&self, id: u32) -> Vec<StreamSecond> {
        let last = self.by_second.len().saturating_sub(1);
        let mut left = self.counts();
        let mut seconds = Vec::new();
        for (second, tps) in self.by_second.iter().enumerate().take(last) {
            let completed = (tps.round() as u64).min(left.completed);
            left.completed -= completed;
            left.offered -= completed;
            let counts = Counts { offered: completed, completed, ..Counts::default() };
            seconds.push(StreamSecond {
                id,
                second: second as u32,
                counts,
                latency: Vec::new(),
                lateness: Vec::new(),
            });
        }
        let latency = encode(&self.latency);
        seconds.push(StreamSecond { id, second: last as u32, counts: left, latency, lateness: Vec::new() });
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
    fn its_report_is_read_whole() {
        let report = Report::parse(SAID, Times { warmup: 3, length: 2 }).unwrap();
        assert_eq!((report.transactions, report.errors, report.latency.len()), (223, 1, 223));
        assert!((report.seconds_measured - 2.0).abs() < 1e-9);
        let seconds = report.seconds(5);
        let completed: Vec<u64> = seconds.iter().map(|second| second.counts.completed).collect();
        assert_eq!(completed, [101, 122], "all of them are told");
        assert_eq!((seconds[1].counts.failed, seconds[1].id), (1, 5));
        assert!(Report::parse("FATAL: unable to connect", Times { warmup: 0, length: 1 }).is_err());
    }
}
