//! Sides of real runs: a thing compared with itself must not be called different, a planted 5 % must be found.
//!
//! One native web server under an open loop. What is planted: larger files on side B, so large that the processor
//! time of an answer rises by 5 %; how large that is, is found by comparisons with a much larger file first.

use super::{
    figure::{Figure, Target, median},
    tools::{Bench, json_of, number},
};
use anyhow::{Context, Result};
use serde_json::Value;

const SCENARIO: &str = r#"
schema = 1
name = "sides"
about = "One native web server, for comparing a thing with itself."
headline = "web"
[[guest]]
name = "web"
role = "web"
[[load]]
name = "web"
guest = "web"
rate = "30000/s"
connections = 32
[load.web]
files = [{ size = "1KiB", weight = 1 }]
[ladder]
tiles = [1]
[measure]
warmup = "1s"
length = "2s"
"#;

/// The measure in which the planted difference is made.
const MEASURE: &str = "processor time per answer";
const PLANTED: f64 = 0.05;
/// A file whose cost is far enough from that of 1 KiB to be measured well in a few comparisons.
const FAR_BYTES: f64 = 32_768.0;
const NEAR_BYTES: f64 = 1_024.0;

/// One comparison of two file sizes.
fn compare(bench: &Bench, b_bytes: f64, seed: usize) -> Result<Value> {
    let folder = bench.folder("sides")?;
    let (scenario, record) = (folder.join("sides.toml"), folder.join("record"));
    // That of a bench that was ended midway.
    if record.exists() {
        std::fs::remove_dir_all(&record).context("the record of an earlier comparison cannot be removed")?;
    }
    std::fs::write(&scenario, SCENARIO)?;
    let files = |bytes: f64| format!("load.web.web.files=[{{ size = \"{bytes:.0}B\", weight = 1 }}]");
    let mut command = bench.tilemark()?;
    command.arg("ab").arg(&scenario).args([
        "--on",
        "native",
        "--offline",
        "--json",
        "--seed",
        &seed.to_string(),
        "--set",
        "measure.repeats=16",
    ]);
    command.arg("--output").arg(&record);
    let printed = json_of(command.args(["--a", &files(NEAR_BYTES), "--b", &files(b_bytes)]))?;
    std::fs::remove_dir_all(&record).context("the record of a comparison is there")?;
    Ok(printed)
}

fn outcome(printed: &Value) -> &str {
    printed["comparison"]["outcome"].as_str().unwrap_or("none")
}

fn change(printed: &Value) -> Result<f64> {
    let measures = printed["comparison"]["measures"].as_array().context("measures were compared")?;
    let names =
        || measures.iter().filter_map(|measure| measure["name"].as_str()).collect::<Vec<_>>().join(", ");
    let measure =
        measures.iter().find(|measure| measure["name"].as_str().is_some_and(|name| name.contains(MEASURE)));
    number(measure.with_context(|| format!("`{MEASURE}` is not among: {}", names()))?, "/change/value")
}

/// Comparisons whose outcome is what is asked for, of all.
fn counted(
    bench: &Bench,
    b_bytes: f64,
    comparisons: usize,
    wanted: &[&str],
) -> Result<(f64, Vec<f64>, usize)> {
    let (mut found, mut changes, mut undecided) = (0.0, Vec::new(), 0);
    for number in 0..comparisons {
        let printed = compare(bench, b_bytes, number + 1)?;
        let outcome = outcome(&printed);
        eprintln!("{} of {comparisons}: {outcome}", number + 1);
        found += f64::from(u8::from(wanted.contains(&outcome)));
        undecided += usize::from(outcome == "cannot-tell" || outcome == "none");
        changes.extend(change(&printed).ok().map(|change| change * 100.0));
    }
    Ok((found, changes, undecided))
}

/// A thing compared with itself.
pub(super) fn same(bench: &Bench) -> Result<Vec<Figure>> {
    bench.image()?;
    let comparisons = bench.times(60);
    let (called, changes, undecided) = counted(bench, NEAR_BYTES, comparisons, &["better", "worse"])?;
    let what = "native web compared with itself: called better or worse";
    Ok(vec![
        Figure { n: comparisons, ..Figure::median_of(what, "", &[called], Target::AtMost(0.0)) }
            .noting(format!("{undecided} could not tell")),
        Figure::median_of(format!("the same: change of {MEASURE}"), "%", &changes, Target::None),
    ])
}

/// A planted 5 %.
pub(super) fn planted(bench: &Bench) -> Result<Vec<Figure>> {
    bench.image()?;
    let far = (0..3)
        .map(|number| compare(bench, FAR_BYTES, 1_000 + number).and_then(|printed| change(&printed)))
        .collect::<Result<Vec<f64>>>()?;
    let bytes = NEAR_BYTES + (FAR_BYTES - NEAR_BYTES) * PLANTED / median(&far);
    eprintln!("{FAR_BYTES} bytes cost {:+.1} %: 5 % are {bytes:.0} bytes", median(&far) * 100.0);
    let comparisons = bench.times(20);
    let (found, changes, undecided) = counted(bench, bytes, comparisons, &["worse"])?;
    let wanted = (comparisons as f64 * 0.95).floor();
    let what = "native web, side B made 5 % slower: called worse";
    Ok(vec![
        Figure { n: comparisons, ..Figure::median_of(what, "", &[found], Target::AtLeast(wanted)) }
            .noting(format!("files of {bytes:.0} instead of {NEAR_BYTES} bytes; {undecided} could not tell")),
        Figure::median_of(format!("the same: change of {MEASURE}"), "%", &changes, Target::None),
    ])
}
