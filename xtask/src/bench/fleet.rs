//! The report of a fleet of a thousand hosts that never were.

use super::{
    figure::{Figure, Target},
    tools::{Bench, example, json_of, number},
};
use anyhow::{Context, Result, ensure};
use std::process::Command;

const HOSTS: &str = "1000";

/// One report of 1,000 hosts' records: time, memory and size of the page.
pub(super) fn report(bench: &Bench) -> Result<Vec<Figure>> {
    let program = example("tilemark-fleet", "fleet_report")?;
    let folder = bench.folder("fleet-report")?;
    let (fleet, page) = (folder.join("fleet"), folder.join("page.html"));
    if fleet.exists() {
        // That of a bench that was ended midway.
        std::fs::remove_dir_all(&fleet).context("the records of an earlier bench cannot be removed")?;
    }
    let made = Command::new(&program).arg("make").arg(&fleet).arg(HOSTS).status()?;
    ensure!(made.success(), "the records could not be made");
    let (mut seconds, mut memory, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.times(5) {
        let found = json_of(Command::new(&program).arg("draw").arg(&fleet).arg(&page))?;
        seconds.push(number(&found, "/seconds")?);
        memory.push(number(&found, "/memory_bytes")? / f64::from(1_u32 << 20));
        bytes.push(number(&found, "/page_bytes")? / 1e6);
    }
    std::fs::remove_dir_all(&fleet).context("the records cannot be removed")?;
    let what = |of: &str| format!("report of 1,000 hosts in two groups, made records: {of}");
    Ok(vec![
        Figure::median_of(what("time"), "s", &seconds, Target::AtMost(30.0)),
        Figure::median_of(what("most memory"), "MiB", &memory, Target::AtMost(1024.0)),
        Figure::median_of(what("page"), "MB", &bytes, Target::AtMost(5.0)),
    ])
}
