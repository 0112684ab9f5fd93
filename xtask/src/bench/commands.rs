//! The list of benches, and the command.

use super::{
    figure::Figure,
    fleet, guests, load, machine, messaging, sides, store,
    tools::{Bench, Named, Skipped, masked, named},
};
use crate::cargo::target;
use anyhow::{Result, bail};
use std::{path::PathBuf, time::Instant};

const ALL: [Named<Vec<Figure>>; 24] = [
    named("web", 1.5, load::web, "closed loop against wrk: rate, processor time per request"),
    named("web-tls", 1.5, load::web_tls, "the same over TLS, on connections that are kept"),
    named(
        "sessions",
        1.5,
        load::sessions,
        "pages of users with sessions against wrk: processor time per page",
    ),
    named("lateness", 3.0, load::lateness, "1,000/s and 5,000/s against a bare absolute sleep"),
    named("planted", 3.5, load::planted, "a planted service-time law; a server stopped for a third"),
    named("telemetry", 8.0, load::telemetry, "telemetry on against off, 32 guests"),
    named("telemetry-twins", 14.0, load::telemetry_of_twins, "telemetry on against off, 256 native twins"),
    named("clones", 3.0, guests::clones, "256 idle emulated clones: slowest ready, memory of each"),
    named("own-share", 3.0, guests::own_share, "one clone: Tilemark's own share of the time"),
    named(
        "twins",
        4.0,
        guests::twins,
        "256 native twins of `consolidation`: time until all are ready, memory",
    ),
    named("profile", 1.0, guests::profile, "a profile of 300 settings in files: applied and restored"),
    named("kill", 3.0, guests::kill, "after kill -9, until everything is gone"),
    named("quick", 6.0, guests::quick, "`tilemark quick`: time taken against time said before"),
    named("same", 90.0, sides::same, "native web compared with itself, 60 comparisons"),
    named("slower", 37.0, sides::planted, "a planted 5 % on native web, 20 comparisons"),
    named(
        "fleet-report",
        3.0,
        fleet::report,
        "one report of 1,000 hosts' records: time, memory, size of the page",
    ),
    named("broker", 2.0, messaging::broker, "the reference broker with our load, and what the load costs"),
    named("round-trip", 2.0, messaging::round_trip, "messages at 1,000/s against a bare relay"),
    named(
        "durable",
        1.5,
        messaging::durable,
        "durable and confirmed against RabbitMQ, and the flushes of both",
    ),
    named("perftest", 1.0, messaging::perftest, "our load against PerfTest on the same RabbitMQ"),
    named("data", 0.5, store::data, "the store's data to nowhere"),
    named("orders", 6.0, store::orders, "orders per minute on MariaDB, and what the clients cost beside it"),
    named("load-data", 15.0, store::load_data, "1 GB into each database against its own bulk loader"),
    named(
        "pristine",
        10.0,
        store::pristine,
        "a pristine 4 GB database again between repeats, without a copy",
    ),
];

const USAGE: &str = "usage: cargo xtask bench|soak [NAME…] [--list] [--json] [--n REPEATS]";

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    names: Vec<String>,
    pub(crate) list: bool,
    json: bool,
    pub(crate) n: Option<usize>,
}

impl Asked {
    /// Reads what comes after the command; `known` are the names that there are.
    pub(crate) fn parse(arguments: &[&str], known: &[&str]) -> Result<Self> {
        let mut asked = Self::default();
        let mut left = arguments.iter();
        while let Some(&argument) = left.next() {
            match argument {
                "--list" => asked.list = true,
                "--json" => asked.json = true,
                "--n" => match left.next().map(|text| text.parse()) {
                    Some(Ok(n)) if n > 0 => asked.n = Some(n),
                    _ => bail!("--n wants a whole number above 0; {USAGE}"),
                },
                name if known.contains(&name) => asked.names.push(name.to_owned()),
                other => bail!("no `{other}`; there are: {}; {USAGE}", known.join(", ")),
            }
        }
        Ok(asked)
    }

    /// Whether this one is wanted; all are where none is named.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|asked| asked == name)
    }
}

/// Runs the named benches, or all. A bench that cannot be done here says so and stops no other; one that fails makes the
/// command fail at the end. A figure that is not reached is not a failure: it is printed.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let names: Vec<&str> = ALL.iter().map(|bench| bench.name).collect();
    let asked = Asked::parse(arguments, &names)?;
    if asked.list {
        for bench in &ALL {
            println!("{:<12} about {:>4} min  {}", bench.name, bench.minutes, bench.about);
        }
        return Ok(());
    }
    let home = std::env::var_os("TILEMARK_HOME").map_or_else(|| target().join("bench-home"), PathBuf::from);
    let context = Bench { home, n: asked.n };
    let (mut failed, mut rows) = (Vec::new(), Vec::new());
    for bench in ALL.iter().filter(|bench| asked.wants(bench.name)) {
        let beside = machine::neighbours()?;
        eprintln!("\n== {}: {} ({beside})", bench.name, bench.about);
        let began = Instant::now();
        match (bench.run)(&context) {
            Ok(figures) => {
                let minutes = began.elapsed().as_secs_f64() / 60.0;
                for figure in &figures {
                    if !asked.json {
                        println!("{figure}");
                    }
                    let mut row = figure.json(bench.name);
                    row["machine"] = beside.clone().into();
                    rows.push(row);
                }
                eprintln!("{minutes:.1} min");
            }
            Err(error) if error.is::<Skipped>() => eprintln!("SKIPPED: {}: {error}", bench.name),
            Err(error) => {
                eprintln!("FAILED: {}: {}", bench.name, masked(&format!("{error:#}")));
                failed.push(bench.name);
            }
        }
    }
    if asked.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_and_what_is_not_there_is_named() {
        let parse = |arguments: &[&str]| Asked::parse(arguments, &["web", "kill"]);
        let asked = parse(&["web", "--n", "3", "--json"]).unwrap();
        assert_eq!((asked.n, asked.json, asked.list), (Some(3), true, false));
        assert!(asked.wants("web") && !asked.wants("kill"));
        assert!(parse(&[]).unwrap().wants("kill"));
        assert!(parse(&["wob"]).unwrap_err().to_string().contains("no `wob`; there are: web, kill"));
        assert!(parse(&["--n", "0"]).is_err());
    }
}
