//! The list of benches, and the command.

use super::{
    figure::Figure,
    fleet, guests, load, machine, messaging, sides, store,
    tools::{Bench, Skipped, masked},
};
use crate::cargo::target;
use anyhow::{Result, bail};
use std::{path::PathBuf, time::Instant};

/// A bench by its name.
struct Named {
    name: &'static str,
    about: &'static str,
    /// About how long it takes with its own number of repeats, in minutes on two processors.
    minutes: f64,
    measure: fn(&Bench) -> Result<Vec<Figure>>,
}

const ALL: [Named; 24] = [
    Named {
        name: "web",
        about: "closed loop against wrk: rate, processor time per request",
        minutes: 1.5,
        measure: load::web,
    },
    Named {
        name: "web-tls",
        about: "the same over TLS, on connections that are kept",
        minutes: 1.5,
        measure: load::web_tls,
    },
    Named {
        name: "sessions",
        about: "pages of users with sessions against wrk: processor time per page",
        minutes: 1.5,
        measure: load::sessions,
    },
    Named {
        name: "lateness",
        about: "1,000/s and 5,000/s against a bare absolute sleep",
        minutes: 3.0,
        measure: load::lateness,
    },
    Named {
        name: "planted",
        about: "a planted service-time law; a server stopped for a third",
        minutes: 3.5,
        measure: load::planted,
    },
    Named {
        name: "telemetry",
        about: "telemetry on against off, 32 guests",
        minutes: 8.0,
        measure: load::telemetry,
    },
    Named {
        name: "telemetry-twins",
        about: "telemetry on against off, 256 native twins",
        minutes: 14.0,
        measure: load::telemetry_of_twins,
    },
    Named {
        name: "clones",
        about: "256 idle emulated clones: slowest ready, memory of each",
        minutes: 3.0,
        measure: guests::clones,
    },
    Named {
        name: "own-share",
        about: "one clone: Tilemark's own share of the time",
        minutes: 3.0,
        measure: guests::own_share,
    },
    Named {
        name: "twins",
        about: "256 native twins of `consolidation`: time until all are ready, memory",
        minutes: 4.0,
        measure: guests::twins,
    },
    Named {
        name: "profile",
        about: "a profile of 300 settings in files: applied and restored",
        minutes: 1.0,
        measure: guests::profile,
    },
    Named {
        name: "kill",
        about: "after kill -9, until everything is gone",
        minutes: 3.0,
        measure: guests::kill,
    },
    Named {
        name: "quick",
        about: "`tilemark quick`: time taken against time said before",
        minutes: 6.0,
        measure: guests::quick,
    },
    Named {
        name: "same",
        about: "native web compared with itself, 60 comparisons",
        minutes: 90.0,
        measure: sides::same,
    },
    Named {
        name: "slower",
        about: "a planted 5 % on native web, 20 comparisons",
        minutes: 37.0,
        measure: sides::planted,
    },
    Named {
        name: "fleet-report",
        about: "one report of 1,000 hosts' records: time, memory, size of the page",
        minutes: 3.0,
        measure: fleet::report,
    },
    Named {
        name: "broker",
        about: "the reference broker with our load, and what the load costs",
        minutes: 2.0,
        measure: messaging::broker,
    },
    Named {
        name: "round-trip",
        about: "messages at 1,000/s against a bare relay",
        minutes: 2.0,
        measure: messaging::round_trip,
    },
    Named {
        name: "durable",
        about: "durable and confirmed against RabbitMQ, and the flushes of both",
        minutes: 1.5,
        measure: messaging::durable,
    },
    Named {
        name: "perftest",
        about: "our load against PerfTest on the same RabbitMQ",
        minutes: 1.0,
        measure: messaging::perftest,
    },
    Named { name: "data", about: "the store's data to nowhere", minutes: 0.5, measure: store::data },
    Named {
        name: "orders",
        about: "orders per minute on MariaDB, and what the clients cost beside it",
        minutes: 6.0,
        measure: store::orders,
    },
    Named {
        name: "load-data",
        about: "1 GB into each database against its own bulk loader",
        minutes: 15.0,
        measure: store::load_data,
    },
    Named {
        name: "pristine",
        about: "a pristine 4 GB database again between repeats, without a copy",
        minutes: 10.0,
        measure: store::pristine,
    },
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
        match (bench.measure)(&context) {
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
