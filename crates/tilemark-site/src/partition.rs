//! How long a job of a partition of Slurm's may last. Slurm refuses a job that asks for more.

use std::{collections::BTreeMap, env, process::Command, sync::Mutex, time::Duration};

/// What Slurm answered, by partition: it is asked once.
static KNOWN: Mutex<BTreeMap<String, Option<Duration>>> = Mutex::new(BTreeMap::new());

/// The longest time of a job in this partition; without a name, in the one that `srun` takes then. None where there is no limit, and where
/// Slurm does not answer: then it says itself what it refuses.
pub fn longest_job(partition: Option<&str>) -> Option<Duration> {
    let named = partition.map(str::to_owned).or_else(|| env::var("SLURM_PARTITION").ok()).unwrap_or_default();
    if let Some(longest) = KNOWN.lock().ok()?.get(&named) {
        return *longest;
    }
    let mut command = Command::new("sinfo");
    command.args(["--noheader", "--format=%P|%l"]).env_remove("SINFO_PARTITION");
    if !named.is_empty() {
        command.arg(format!("--partition={named}"));
    }
    let output = command.output().ok().filter(|output| output.status.success())?;
    let longest = shortest_limit(&String::from_utf8_lossy(&output.stdout), !named.is_empty());
    KNOWN.lock().ok()?.insert(named, longest);
    longest
}

/// The least of all limits that are listed: several partitions may be named. Without a name only the default one counts, which has a star.
fn shortest_limit(listed: &str, is_named: bool) -> Option<Duration> {
    let limit = |line: &str| {
        let (name, limit) = line.trim().split_once('|')?;
        (is_named || name.ends_with('*')).then(|| limit_of(limit))?
    };
    listed.lines().filter_map(limit).min()
}

/// `30:00`, `1:00:00` or `7-00:00:00`; none of `infinite`.
fn limit_of(text: &str) -> Option<Duration> {
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds: u64 = 0;
    for part in rest.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let days = days.parse::<u64>().ok()?.checked_mul(24 * 3600)?;
    Some(Duration::from_secs(days.checked_add(seconds)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_partition_is_read_as_sinfo_prints_it() {
        let minutes = |minutes: u64| Some(Duration::from_secs(minutes * 60));
        let listed = "debug|30:00\nhosts*|7-12:00:00\nlong|infinite\nodd\n";
        assert_eq!(shortest_limit(listed, false), minutes((7 * 24 + 12) * 60));
        assert_eq!(shortest_limit(listed, true), minutes(30));
        assert_eq!(shortest_limit("hosts*|1:00:00\n", false), minutes(60));
        for without in ["hosts*|infinite\n", "hosts*|n/a\n", "debug|30:00\n", ""] {
            assert_eq!(shortest_limit(without, false), None, "{without:?}");
        }
    }
}
