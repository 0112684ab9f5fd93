//! What the machine does beside a bench: a figure says whether it was alone.

use anyhow::{Context, Result};
use std::{fs, thread, time::Duration};

/// Above this part of all processors, what others do is printed as "busy".
const QUIET_MAX: f64 = 0.05;
const LOOKED_FOR: Duration = Duration::from_secs(2);

/// How much of the processors others use, in words: looked at before a bench begins, while we do nothing.
pub(crate) fn neighbours() -> Result<String> {
    let before = Ticks::now()?;
    thread::sleep(LOOKED_FOR);
    let after = Ticks::now()?;
    let all = (after.all - before.all).max(1) as f64;
    let busy = 1.0 - (after.idle - before.idle) as f64 / all;
    let stolen = (after.steal - before.steal) as f64 / all;
    let word = if busy > QUIET_MAX { "BUSY" } else { "quiet" };
    Ok(format!(
        "machine {word}: others use {:.0} % of its processors, {:.1} % of that time was stolen from it",
        busy * 100.0,
        stolen * 100.0
    ))
}

struct Ticks {
    all: u64,
    idle: u64,
    steal: u64,
}

impl Ticks {
    fn now() -> Result<Self> {
        let text = fs::read_to_string("/proc/stat")?;
        let line = text.lines().next().context("/proc/stat is empty")?;
        let fields: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        let at = |place: usize| fields.get(place).copied().unwrap_or(0);
        // The last two, of guests, are counted in the first two already.
        Ok(Self { all: fields.iter().take(8).sum(), idle: at(3) + at(4), steal: at(7) })
    }
}
