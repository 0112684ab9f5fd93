//! The load engine: against wrk, against a bare sleep, against planted truth; and what telemetry costs a load.

use super::{
    figure::{Figure, Pair, Target},
    guests::{Kind, Up, groups_of, qemus_of},
    tools::{
        Bench, Priority, Server, children_s, example, free_address, in_turn, json_lines, json_of, need,
        need_root, number, number_after, pinned, text_of,
    },
};
use anyhow::{Context, Result};
use serde_json::Value;
use std::{
    fs::File,
    io::Write,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
};

/// The load has the last of two processors, the server the first.
const SERVER: u32 = 0;
const LOAD: u32 = 1;
const CONNECTIONS: &str = "32";
const SIZE: u32 = 1024;

/// nginx with one worker and one file of 1 KiB, on the first processor.
struct Nginx {
    address: SocketAddr,
    over: Over,
    web_bench: PathBuf,
    _server: Server,
}

/// What requests are carried by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Tcp,
    Tls,
}

impl Nginx {
    fn start(bench: &Bench, over: Over) -> Result<Self> {
        need_root()?;
        need(&["nginx", "taskset", "chrt"])?;
        let web_bench = example("tilemark-workloads", "web_bench")?;
        let address = free_address()?;
        let folder = bench.folder("nginx")?;
        let mut command = pinned(&web_bench, SERVER, Priority::Ordinary);
        let serve = if over == Over::Tls { "serve-tls" } else { "serve" };
        command.args([serve, &address.port().to_string()]).arg(&folder).arg(SIZE.to_string());
        Ok(Self { address, over, web_bench, _server: Server::start(&mut command, address)? })
    }

    /// Our load, every byte of every body checked.
    fn ours(&self, pace: &str, seconds: &str) -> Result<Value> {
        let mut command = Command::new(&self.web_bench);
        let scheme = if self.over == Over::Tls { "tls://" } else { "" };
        let address = format!("{scheme}{}", self.address);
        let printed = json_of(command.args([&address, pace, CONNECTIONS, seconds, &LOAD.to_string()]))?;
        anyhow::ensure!(printed["errors"] == 0, "answers were wrong: {printed}");
        Ok(printed)
    }
}

/// Closed loop against wrk: requests a second, and processor time for each request.
pub(super) fn web(bench: &Bench) -> Result<Vec<Figure>> {
    against_wrk(bench, Over::Tcp)
}

/// The same over TLS 1.3, on connections that are kept.
pub(super) fn web_tls(bench: &Bench) -> Result<Vec<Figure>> {
    against_wrk(bench, Over::Tls)
}

fn against_wrk(bench: &Bench, over: Over) -> Result<Vec<Figure>> {
    need(&["wrk"])?;
    const SECONDS: &str = "2";
    let nginx = Nginx::start(bench, over)?;
    let (scheme, of) = if over == Over::Tls { ("https", ", over TLS") } else { ("http", "") };
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(11) {
        let peer = || -> Result<[f64; 2]> {
            let before = children_s()?;
            let url = format!("{scheme}://{}/{SIZE}.bin", nginx.address);
            let mut wrk = pinned("wrk".as_ref(), LOAD, Priority::RealTime);
            let printed =
                text_of(wrk.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{SECONDS}s"), &url]))?;
            anyhow::ensure!(!printed.contains("Non-2xx"), "wrk was refused: {printed}");
            let requests: f64 = printed
                .lines()
                .find_map(|line| {
                    line.trim().split_once(" requests in").and_then(|(count, _)| count.parse().ok())
                })
                .context("wrk counts no requests")?;
            Ok([number_after(&printed, "Requests/sec:")?, (children_s()? - before) * 1e6 / requests])
        };
        let our = || -> Result<[f64; 2]> {
            let printed = nginx.ours("closed", SECONDS)?;
            Ok([number(&printed, "/requests_per_s")?, number(&printed, "/processor_us_per_request")?])
        };
        let (ours, peer) = in_turn(our, peer)?;
        rates.push(Pair { ours: ours[0], peer: peer[0] });
        costs.push(Pair { ours: ours[1], peer: peer[1] });
    }
    Ok(vec![
        Figure::ratio(
            format!("requests/s against wrk -t1 -c32, 1 KiB, bodies checked{of}"),
            &rates,
            "requests/s",
            Target::AtLeast(0.95),
        ),
        Figure::ratio(
            format!("processor time per request against wrk, the same{of}"),
            &costs,
            "µs",
            Target::AtMost(1.2),
        ),
    ])
}

/// Pages of users with sessions against wrk, which fetches the same bytes without them: processor time for each page.
pub(super) fn sessions(bench: &Bench) -> Result<Vec<Figure>> {
    const SECONDS: &str = "3";
    const USERS: &str = "16";
    const PAGES: u32 = 5_000;
    need(&["wrk", "taskset", "chrt"])?;
    need_root()?;
    let sessions_bench = example("tilemark-workloads", "sessions_bench")?;
    let address = free_address()?;
    let mut server = pinned(&sessions_bench, SERVER, Priority::Ordinary);
    let _server = Server::start(server.args(["serve", &address.to_string()]), address)?;
    let script =
        text_of(Command::new(&sessions_bench).args(["script", &address.to_string(), &PAGES.to_string()]))?;
    let requests = number_after(script.lines().last().context("a script has lines")?, "--")?;
    let requests_per_page = requests / f64::from(PAGES);
    let file = bench.folder("sessions")?.join("pages.lua");
    std::fs::write(&file, &script)?;
    let mut costs = Vec::new();
    for _ in 0..bench.times(11) {
        let peer = || -> Result<f64> {
            let before = children_s()?;
            let mut wrk = pinned("wrk".as_ref(), LOAD, Priority::RealTime);
            wrk.args(["-t1", "-c32", &format!("-d{SECONDS}s"), "-s"])
                .arg(&file)
                .arg(format!("http://{address}/"));
            let printed = text_of(&mut wrk)?;
            let done = printed
                .lines()
                .find_map(|line| {
                    line.trim().split_once(" requests in").and_then(|(count, _)| count.parse::<f64>().ok())
                })
                .context("wrk counts no requests")?;
            Ok((children_s()? - before) * 1e6 / done * requests_per_page)
        };
        let our = || -> Result<f64> {
            let arguments = ["load", &address.to_string(), USERS, SECONDS, &LOAD.to_string()];
            let printed = json_of(Command::new(&sessions_bench).args(arguments))?;
            anyhow::ensure!(printed["errors"] == 0, "answers were wrong: {printed}");
            number(&printed, "/processor_us_per_page")
        };
        let (ours, peer) = in_turn(our, peer)?;
        costs.push(Pair { ours, peer });
    }
    let what =
        "processor time per page of users with sessions against wrk -t1 -c32, which fetches the same bytes";
    Ok(vec![Figure::ratio(what, &costs, "µs", Target::AtMost(1.5))])
}

/// How late requests are sent, against a bare loop of absolute sleeps.
pub(super) fn lateness(bench: &Bench) -> Result<Vec<Figure>> {
    const SECONDS: &str = "5";
    let nginx = Nginx::start(bench, Over::Tcp)?;
    let bare = example("tilemark-load", "bare_sleep")?;
    let mut figures = Vec::new();
    for rate in ["1000", "5000"] {
        let (mut p99, mut p999) = (Vec::new(), Vec::new());
        for _ in 0..bench.times(7) {
            let our = || -> Result<Value> {
                let printed = nginx.ours(rate, SECONDS)?;
                anyhow::ensure!(printed["sender"]["real_time"] == true, "the senders did not get SCHED_FIFO");
                Ok(printed)
            };
            let peer = || -> Result<Value> {
                let printed = json_of(Command::new(&bare).args([rate, SECONDS, &LOAD.to_string()]))?;
                anyhow::ensure!(printed["real_time"] == true, "the bare loop did not get SCHED_FIFO");
                Ok(printed)
            };
            let (ours, peer) = in_turn(our, peer)?;
            for (name, pairs) in [("p99", &mut p99), ("p999", &mut p999)] {
                pairs.push(Pair {
                    ours: number(&ours, &format!("/lateness_ms/{name}"))? * 1e3,
                    peer: number(&peer, &format!("/lateness_us/{name}"))?,
                });
            }
        }
        for (name, pairs) in [("p99", p99), ("p99.9", p999)] {
            let what = format!("lateness at {rate}/s against a bare absolute sleep, {name}");
            figures.push(Figure::ratio(what, &pairs, "µs", Target::AtMost(1.5)));
        }
    }
    Ok(figures)
}

/// A scripted server that answers by a planted law, and one that stops for a third of the run.
pub(super) fn planted(bench: &Bench) -> Result<Vec<Figure>> {
    need_root()?;
    let _awake = Awake::keep()?;
    let planted = example("tilemark-workloads", "planted")?;
    let mut figures = Vec::new();
    for (what, seconds, rate, target) in
        [("law", "30", "300", Target::Within(2.0)), ("stall", "30", "500", Target::Within(5.0))]
    {
        let mut by_name: Vec<(String, Vec<f64>)> = Vec::new();
        for _ in 0..bench.times(3) {
            let text = text_of(Command::new(&planted).args([what, seconds, rate, &LOAD.to_string()]))?;
            for line in json_lines(&text) {
                let name = line["what"].as_str().context("a comparison has a name")?.to_owned();
                let off = number(&line, "/off_percent")?;
                match by_name.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, values)) => values.push(off),
                    None => by_name.push((name, vec![off])),
                }
            }
        }
        let words =
            if what == "law" { "planted service-time law, open loop" } else { "server stopped for a third" };
        for (name, values) in by_name {
            // The furthest off is the figure: a median would hide a bad run.
            let worst = values.iter().copied().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(f64::NAN);
            let row = Figure::median_of(format!("{words}: {name}, furthest off"), "%", &values, target);
            figures.push(Figure { value: worst, ..row });
        }
    }
    Ok(figures)
}

/// Guests that are watched while a load runs.
const WATCHED: u32 = 32;
const TWINS: u32 = 256;

/// No processor sleeps while this is held, as a run keeps the load's from sleeping. The kernel lets them when the file
/// is closed, however that comes about (Documentation/power/pm_qos_interface.rst).
struct Awake {
    _limit: File,
}

impl Awake {
    fn keep() -> Result<Self> {
        let path = "/dev/cpu_dma_latency";
        let mut limit = File::options().write(true).open(path).with_context(|| path.to_owned())?;
        limit.write_all(&0_i32.to_ne_bytes()).with_context(|| path.to_owned())?;
        Ok(Self { _limit: limit })
    }
}

/// A closed-loop web load beside 32 idle emulated guests, with telemetry on and off in turn: the interval of the change.
pub(super) fn telemetry(bench: &Bench) -> Result<Vec<Figure>> {
    let up = Up::start(bench, Kind::Emulated, WATCHED, &["--no-memory"])?;
    let guests = qemus_of(&up)?;
    anyhow::ensure!(
        guests.len() == WATCHED as usize,
        "{} QEMU processes of {WATCHED} are found",
        guests.len()
    );
    let guests: Vec<String> = guests.iter().map(u32::to_string).collect();
    effect_of_telemetry(bench, &guests, "32 guests")
}

/// The same beside 256 idle native twins, each watched by its control group.
pub(super) fn telemetry_of_twins(bench: &Bench) -> Result<Vec<Figure>> {
    let up = Up::start(bench, Kind::Native, TWINS, &["--no-memory"])?;
    let groups = groups_of(&up)?;
    anyhow::ensure!(
        groups.len() == TWINS as usize,
        "{} control groups of {TWINS} twins are found",
        groups.len()
    );
    effect_of_telemetry(bench, &groups, "256 twins")
}

fn effect_of_telemetry(bench: &Bench, guests: &[String], beside: &str) -> Result<Vec<Figure>> {
    // Short turns: what drifts over minutes is the same for both.
    const SECONDS: &str = "1";
    let sampler = example("tilemark-host", "telemetry")?;
    let nginx = Nginx::start(bench, Over::Tcp)?;
    let (mut changes, mut costs, mut own) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.times(320) {
        let off = || nginx.ours("closed", SECONDS);
        let on = || -> Result<Value> {
            let mut telemetry =
                Command::new(&sampler).args(guests).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let printed = nginx.ours("closed", SECONDS);
            // The end of its input ends it; then it says what it cost.
            drop(telemetry.stdin.take());
            let cost: Value = serde_json::from_slice(&telemetry.wait_with_output()?.stdout)?;
            let mut printed = printed?;
            printed["telemetry"] = cost;
            Ok(printed)
        };
        let (on, off) = in_turn(on, off)?;
        let ratio = |path: &str| -> Result<f64> { Ok(number(&on, path)? / number(&off, path)?) };
        changes.push(ratio("/requests_per_s")?.ln());
        costs.push(ratio("/processor_us_per_request")?.ln());
        own.push(number(&on, "/telemetry/processor_fraction")? * 100.0);
    }
    let row = |what: &str, logs: &[f64]| {
        let interval = mean_interval(logs).map(|bound| (bound.exp() - 1.0) * 100.0);
        let [low, mean, high] = interval;
        let furthest = low.abs().max(high.abs());
        let row = Figure::median_of(what, "%", logs, Target::Within(0.5));
        Figure { value: furthest, least: low, most: high, ..row }
            .noting(format!("mean change {mean:+.2} %, 95 % interval {low:+.2} to {high:+.2} %"))
    };
    Ok(vec![
        row(&format!("telemetry on against off, {beside}: change of requests/s, furthest end"), &changes),
        row("the same: change of processor time per request, furthest end", &costs),
        Figure::median_of("the same: telemetry's own part of one processor", "%", &own, Target::None),
    ])
}

/// Low end, mean and high end of the 95 % interval of the mean, by Student's t.
fn mean_interval(values: &[f64]) -> [f64; 3] {
    let n = values.len() as f64;
    let mean = tilemark_statistics::mean(values).unwrap_or(f64::NAN);
    let deviation = tilemark_statistics::sample_deviation(values).unwrap_or(f64::NAN);
    let half = tilemark_statistics::student_quantile(0.975, n - 1.0) * deviation / n.sqrt();
    [mean - half, mean, mean + half]
}
