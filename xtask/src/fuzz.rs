//! The long fuzzing: each target of `crates/tilemark-fuzz` under libFuzzer, one after the other.

use crate::cargo::{cargo_command, target};
use anyhow::{Context, Result, bail, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Seconds of a target where nobody asks for others.
pub(crate) const SECONDS: u32 = 60;
/// Memory of a target's process, in MiB: more is a finding.
const MEMORY_MIB: u32 = 512;
/// Seconds of one input: more is a finding.
const INPUT_SECONDS: u32 = 10;
/// The sanitizer keeps freed memory to find who uses it: little of it, or that alone would pass the limit.
const SANITIZER: &str = "quarantine_size_mb=16:detect_leaks=0";

/// How long, and which.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Seconds of each target.
    pub(crate) seconds: Option<u32>,
    /// Names of targets; none: all.
    pub(crate) only: Vec<String>,
}

/// Runs the wanted targets. Every one is run, whatever the others found.
///
/// # Errors
/// When a tool is missing, a target is not known or does not build, or one has found something.
pub(crate) fn run(wanted: &Wanted) -> Result<Vec<String>> {
    need_tools()?;
    let names = names()?;
    if let Some(unknown) = wanted.only.iter().find(|name| !names.contains(name)) {
        bail!("no fuzz target `{unknown}`; there are: {}", names.join(", "));
    }
    let chosen: Vec<&String> =
        names.iter().filter(|name| wanted.only.is_empty() || wanted.only.contains(name)).collect();
    build(&wanted.only)?;
    let (mut lines, mut found) = (Vec::new(), Vec::new());
    for name in chosen {
        let outcome = one(name, wanted.seconds.unwrap_or(SECONDS))?;
        eprintln!("{outcome}");
        found.extend(outcome.finding.map(|finding| format!("{name}: {finding}")));
        lines.push(format!("{name} {} inputs", outcome.executions));
    }
    if found.is_empty() { Ok(lines) } else { bail!("{}", found.join("; ")) }
}

/// What came of a target.
struct Outcome {
    name: String,
    seconds: u32,
    executions: String,
    coverage: String,
    peak_mib: String,
    /// What was found, with how to see it again.
    finding: Option<String>,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, seconds, executions, coverage, peak_mib, finding } = self;
        let verdict =
            finding.as_ref().map_or_else(|| "passed".to_owned(), |finding| format!("FOUND {finding}"));
        write!(
            formatter,
            "{name:<20} {seconds:>5} s {executions:>11} inputs {coverage:>6} edges {peak_mib:>4} MiB  {verdict}"
        )
    }
}

/// A command of cargo whose compiler, the stable one too, takes the flags of the address sanitizer.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = cargo_command(arguments);
    command.env("RUSTC_BOOTSTRAP", "1").env_remove("CARGO_TARGET_DIR");
    command
}

fn need_tools() -> Result<()> {
    let found = cargo(&["fuzz", "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ensure!(
        found.is_ok_and(|status| status.success()),
        "fuzzing needs cargo-fuzz\n  to fix: cargo install cargo-fuzz --locked"
    );
    Ok(())
}

fn fuzz_program() -> Command {
    cargo_command(&["run", "--quiet", "--locked", "-p", "tilemark-fuzz", "--"])
}

fn names() -> Result<Vec<String>> {
    let listed = crate::bench::text_of(fuzz_program().arg("list"))?;
    Ok(listed.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect())
}

/// Where cargo-fuzz builds.
fn folder() -> PathBuf {
    target().join("fuzz")
}

fn build(only: &[String]) -> Result<()> {
    let mut cargo = cargo(&["fuzz", "build", "--fuzz-dir", "fuzz"]);
    cargo.arg("--target-dir").arg(folder());
    // cargo-fuzz takes one name or builds all.
    if let [name] = only {
        cargo.arg(name);
    }
    let status = cargo.status().context("cargo-fuzz does not start")?;
    ensure!(status.success(), "the fuzz targets did not build");
    Ok(())
}

fn one(name: &str, seconds: u32) -> Result<Outcome> {
    // What one run finds, the next need not begin with: the first inputs are enough, and a run does not depend on runs before.
    let corpus = tempfile::tempdir().context("a folder for inputs")?;
    crate::bench::text_of(fuzz_program().args(["seeds", name]).arg(corpus.path()))?;
    let findings = folder().join("findings");
    fs::create_dir_all(&findings)?;
    let program = folder().join("x86_64-unknown-linux-gnu/release").join(name);
    let output = Command::new(&program)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-rss_limit_mb={MEMORY_MIB}"))
        .arg(format!("-timeout={INPUT_SECONDS}"))
        .arg(format!("-artifact_prefix={}/{name}-", findings.display()))
        .args(["-print_final_stats=1", "-verbosity=1"])
        .arg(corpus.path())
        .env("ASAN_OPTIONS", SANITIZER)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .with_context(|| format!("{} does not start", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    fs::write(findings.join(format!("{name}.log")), said.as_bytes())?;
    Ok(Outcome {
        name: name.to_owned(),
        seconds,
        executions: statistic(&said, "stat::number_of_executed_units:").unwrap_or("?").to_owned(),
        coverage: said.lines().rev().find_map(|line| after(line, "cov:")).unwrap_or("?").to_owned(),
        peak_mib: statistic(&said, "stat::peak_rss_mb:").unwrap_or("?").to_owned(),
        finding: (!output.status.success()).then(|| finding(&said, name, &findings)),
    })
}

/// What libFuzzer says about a finding, and where its input is.
fn finding(said: &str, name: &str, findings: &Path) -> String {
    let is_reason =
        |line: &&str| line.contains("panicked at") || line.contains("ERROR:") || line.contains("SUMMARY:");
    let reason = said.lines().find(is_reason).unwrap_or("it ended").trim();
    let written = said.lines().find_map(|line| line.split_once("Test unit written to "));
    match written {
        Some((_, file)) => {
            let file = file.trim();
            format!("{reason} (input {file}; to see it: cargo run -p tilemark-fuzz -- replay {name} {file})")
        }
        None => {
            format!("{reason} (no input was written; see {})", findings.join(format!("{name}.log")).display())
        }
    }
}

fn statistic<'s>(said: &'s str, name: &str) -> Option<&'s str> {
    said.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The word after another.
fn after<'s>(line: &'s str, word: &str) -> Option<&'s str> {
    let mut words = line.split_whitespace();
    words.by_ref().find(|found| *found == word)?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cargo::workspace;

    const SAID: &str = "\
#2	INITED cov: 90 ft: 91 corp: 1/1b exec/s: 0 rss: 40Mb
#8	NEW    cov: 104 ft: 105 corp: 2/2b lim: 4 exec/s: 0 rss: 41Mb
thread '<unnamed>' panicked at crates/x/src/y.rs:7:9:
SUMMARY: libFuzzer: deadly signal
artifact_prefix='./'; Test unit written to /tmp/frames-crash-0a
stat::number_of_executed_units: 8
stat::peak_rss_mb:              42
";

    #[test]
    fn figures_and_findings_are_read_from_what_libfuzzer_prints() {
        assert_eq!(statistic(SAID, "stat::number_of_executed_units:"), Some("8"));
        assert_eq!(statistic(SAID, "stat::peak_rss_mb:"), Some("42"));
        assert_eq!(SAID.lines().rev().find_map(|line| after(line, "cov:")), Some("104"));
        let found = finding(SAID, "frames", Path::new("/f"));
        assert!(
            found.contains("y.rs:7:9") && found.contains("replay frames /tmp/frames-crash-0a"),
            "{found}"
        );
        assert!(finding("killed", "frames", Path::new("/f")).contains("/f/frames.log"));
    }

    #[test]
    fn every_target_has_its_program() {
        let manifest = fs::read_to_string(workspace().join("fuzz/Cargo.toml")).unwrap();
        let source = fs::read_to_string(workspace().join("crates/tilemark-fuzz/src/lib.rs")).unwrap();
        let programs: Vec<&str> = manifest
            .lines()
            .filter_map(|line| line.strip_prefix("path = \"targets/")?.strip_suffix(".rs\""))
            .collect();
        for program in &programs {
            let text = fs::read_to_string(workspace().join(format!("fuzz/targets/{program}.rs"))).unwrap();
            assert!(
                text.contains(&format!("tilemark_fuzz::{}(bytes)", program.replace('-', "_"))),
                "{program}"
            );
        }
        let list =
            source.split_once("pub const ALL").and_then(|(_, rest)| rest.split_once("\n];")).unwrap().0;
        let targets = list.matches("    target_of(").count();
        assert_eq!(programs.len(), targets, "fuzz/Cargo.toml and tilemark_fuzz::ALL differ");
    }
}
