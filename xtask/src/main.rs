//! Every developer command: `cargo xtask ci` is the whole CI, the same on a laptop.

mod attacks;
mod bench;
mod cargo;
mod ci;
mod circles;
mod decisions;
mod figures;
mod fleet_lab;
mod fuzz;
mod host_cuts;
mod idle;
mod lab;
mod notices;
mod profiles;
mod promises;
mod scenarios;
mod schema;
mod soak;
mod sources;
mod supply;
mod test_pool;
mod unused;
mod walls;
mod words;

use anyhow::{Result, bail};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask ci | bench | decisions | figures | fleet-lab | lab | notices | profiles | promises | scenarios | schema | soak | supply | walls | words
  ci      format, lints, walls, promises, schemas, build, image, tests of all layers, documents; reports every failure
  bench   the figures that the project set out to reach, against their peers in turn; `bench --list` names them
  decisions
          write the list of docs/decisions
  figures write docs/benchmarks.md from docs/benchmarks
  fleet-lab [--program FILE] -- COMMAND
          run a command beside three hosts with Slurm and ssh, in namespaces; its output and exit code are the command's
  lab [--program FILE] [--with FILE]… [--image NAME] -- COMMAND
          run a command on an emulated server with NUMA, an IOMMU and KVM; its output and exit code are the command's
  notices write THIRD-PARTY-NOTICES.txt
  profiles
          write docs/host-settings.md from the profiles
  promises [--list]
          check that every test which PROMISES.md or SECURITY.md names is there; or print the names of all tests as sentences
  scenarios
          write docs/scenarios.md from the types' comments
  schema  write docs/schema from the types
  soak [--seconds N] [--only TARGET]… [TRIAL]…
          the trials of tests in their long sizes, the fuzzing (60 s a target, or N) and the attacks on the walls; `soak --list`
          names them, --only names fuzz targets
  supply  check licences, versions, sources and shared features of all crates, by deny.toml, and that
          our crates use all their dependencies
  walls   check which crate depends on which and how they are drawn, that no more than three files of a crate use each other in a
          circle, and in how many files the code names a workload
  words [--list | --lower]
          check documents, help and messages for the words that docs/writing.md rules out; list those that are left in messages,
          or lower their number in xtask/words-left.toml";

fn main() -> ExitCode {
    // Without the backtrace that anyhow prints where `RUST_BACKTRACE` is set: the end of a log must show what failed.
    run().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn run() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [command, rest @ ..] = arguments.as_slice()
        && command == "lab"
    {
        return Ok(lab::run(rest));
    }
    if let [command, rest @ ..] = arguments.as_slice()
        && command == "fleet-lab"
    {
        return Ok(fleet_lab::run(rest));
    }
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ci"] => ci::run(),
        ["bench", asked @ ..] => bench::run(asked),
        ["decisions"] => decisions::write(),
        ["figures"] => figures::write(),
        ["soak", asked @ ..] => soak::run(asked),
        ["schema"] => schema::write(),
        ["scenarios"] => scenarios::write(),
        ["supply"] => supply::check(),
        ["notices"] => notices::write(),
        ["profiles"] => profiles::write(),
        ["walls"] => walls::check(),
        ["words"] => words::check(),
        ["words", "--list"] => words::list(),
        ["words", "--lower"] => words::lower(),
        ["promises"] => promises::check(),
        ["promises", "--list"] => promises::list(),
        _ => bail!("{USAGE}"),
    }
    .map(|()| ExitCode::SUCCESS)
}
