//! The host's settings after a power cut in mid-apply: the lab is killed and booted again with the same disk.

use crate::bench::Bench;
use anyhow::{Context, Result, bail, ensure};
use std::{
    io::{BufRead, BufReader, Lines},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

const SCRIPT: &str = concat!(include_str!("host_profile.sh"), include_str!("host_cuts.sh"));
/// So often `host apply` is killed in each boot but the last: 5 for each of 20 cuts are 100.
const KILLS: usize = 5;
/// The cut comes within this after the first `host apply` began: an apply and a restore of these settings take 2 to 4 s there.
const CUT_WITHIN: Duration = Duration::from_secs(4);
/// So many keys of the profile must change in the lab, or the trial tries less than its name says.
const LEAST_KEYS: usize = 40;
/// Of so many cuts, one at least comes while settings are held, which is most of the time.
const CUTS_OF_WHICH_ONE_HITS: usize = 5;

/// What the lab printed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counted {
    /// Whether all was applied, verified and restored at once before anything was killed.
    whole: bool,
    /// Keys that the profile changes in the lab, and their number.
    changes: (usize, String),
    /// Those that the lab lacks.
    skipped: (usize, String),
    boots: usize,
    kills: usize,
    /// Kills that left some settings set and others not.
    parts: usize,
    /// Cuts that came while settings were held: a journal was left.
    hits: usize,
}

/// Cuts the power so many times, each time at another moment, and kills `host apply` in between.
pub(crate) fn run(bench: &Bench) -> Result<Vec<String>> {
    let cuts = bench.times(20);
    let disk = bench.folder("host-cuts")?.join(format!("disk-{}", std::process::id()));
    let mut counted = Counted::default();
    let outcome = (0..=cuts).try_for_each(|boot| {
        let part = (boot + 1) as f64 / cuts as f64;
        let (kills, after) = if boot == cuts { (0, 0.0) } else { (KILLS, part) };
        boot_and_cut(&disk, kills, CUT_WITHIN.mul_f64(after), &mut counted)
    });
    let _ = std::fs::remove_file(&disk);
    outcome?;
    counted.check(cuts)?;
    let Counted { changes, skipped, kills, parts, hits, .. } = counted;
    let lacking = if skipped.0 == 0 { String::new() } else { format!(" ({})", skipped.1) };
    Ok(vec![
        format!("{} keys set, and {} that the lab lacks{lacking}", changes.0, skipped.0),
        format!(
            "{cuts} power cuts and {kills} kills: byte-equal each time; {parts} kills left a part, and {hits} cuts came while \
             settings were held"
        ),
    ])
}

fn boot_and_cut(disk: &Path, kills: usize, after: Duration, counted: &mut Counted) -> Result<()> {
    let mut lab = Command::new(std::env::current_exe()?)
        .args(["lab", "--disk"])
        .arg(disk)
        .args(["--", "sh", "-c", SCRIPT, "sh", &kills.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .context("the lab does not start")?;
    let output = lab.stdout.take().context("the lab has no output")?;
    let mut lines = BufReader::new(output).lines();
    let read = read_until_applying(&mut lines, counted);
    if read.is_ok() {
        thread::sleep(after);
    }
    end(&mut lab)?;
    read?;
    // An apply that failed before the cut printed why.
    lines.try_for_each(|line| counted.note(&line?).map(|_| ()))
}

/// Its QEMU dies with it, as a host without power.
fn end(lab: &mut Child) -> Result<()> {
    lab.kill()?;
    lab.wait()?;
    Ok(())
}

fn read_until_applying(lines: &mut Lines<BufReader<ChildStdout>>, counted: &mut Counted) -> Result<()> {
    for line in lines {
        if counted.note(&line?)? == Next::Cut {
            return Ok(());
        }
    }
    bail!("the lab ended before its settings were applied")
}

/// What comes after a line.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Read,
    Cut,
}

impl Counted {
    /// Counts what a line of the script reports; every line that reports a fault is an error.
    fn note(&mut self, line: &str) -> Result<Next> {
        eprintln!("  {line}");
        match line.split_once(' ') {
            None if line == "applying" => return Ok(Next::Cut),
            Some(("whole", "same")) => self.whole = true,
            Some(("changes", keys)) => self.changes = numbered(keys)?,
            Some(("skipped", keys)) => self.skipped = numbered(keys)?,
            Some(("boot", "same")) => self.boots += 1,
            Some(("boot", found)) if found.starts_with("found ") => {
                self.hits += usize::from(found != "found 0 journals");
            }
            Some(("kill", "same")) => self.kills += 1,
            Some(("kill", left)) if left.starts_with("left ") => self.parts += usize::from(is_part(left)?),
            _ => bail!("{line}"),
        }
        Ok(Next::Read)
    }

    /// Whether all that was to be tried was tried: what the script skipped printed no fault.
    fn check(&self, cuts: usize) -> Result<()> {
        let Self { whole, changes, boots, kills, parts, hits, .. } = self;
        ensure!(*whole, "the profile was never applied whole");
        ensure!(
            changes.0 >= LEAST_KEYS,
            "the profile changed {} keys, and {LEAST_KEYS} are wanted",
            changes.0
        );
        ensure!(*boots == cuts, "{boots} of {cuts} boots after a cut were compared");
        ensure!(*kills == cuts * KILLS, "{kills} of {} kills were compared", cuts * KILLS);
        ensure!(*parts > 0, "none of {kills} kills left a part of the settings: nothing was recovered");
        let must_hit = cuts >= CUTS_OF_WHICH_ONE_HITS;
        ensure!(*hits > 0 || !must_hit, "none of {cuts} cuts came while settings were held");
        Ok(())
    }
}

/// `2: thp ksm`.
fn numbered(keys: &str) -> Result<(usize, String)> {
    let (number, keys) = keys.split_once(':').context("no number of keys")?;
    Ok((number.parse()?, keys.trim().to_owned()))
}

/// `left 3 of 60`: lines that differ, of those that a whole apply changes.
fn is_part(left: &str) -> Result<bool> {
    let numbers = left.strip_prefix("left ").and_then(|rest| rest.split_once(" of "));
    let (left, whole) = numbers.context("no numbers of settings")?;
    let (left, whole): (usize, usize) = (left.parse()?, whole.parse()?);
    Ok(left > 0 && left < whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [&str; 11] = [
        "changes 41: thp ksm",
        "skipped 1: smt",
        "whole same",
        "kill left 0 of 60",
        "kill left 60 of 60",
        "kill left 7 of 60",
        "kill same",
        "boot same",
        "boot found 0 journals",
        "boot found 1 journals",
        "applying",
    ];

    fn counted() -> Counted {
        let mut counted = Counted::default();
        let nexts: Vec<Next> = GOOD.iter().map(|line| counted.note(line).unwrap()).collect();
        assert_eq!(nexts.iter().position(|next| *next == Next::Cut), Some(GOOD.len() - 1));
        counted
    }

    #[test]
    fn what_the_lab_prints_is_counted_and_a_fault_ends_the_trial() {
        let expected = Counted {
            whole: true,
            changes: (41, "thp ksm".to_owned()),
            skipped: (1, "smt".to_owned()),
            boots: 1,
            kills: 1,
            parts: 1,
            hits: 1,
        };
        assert_eq!(counted(), expected);
        for fault in [
            "failed: host apply ended with 3: refused",
            "kill differs: /proc/sys/vm/swappiness:11",
            "whole differs: x",
            "kill left nothing",
            "sh: not found",
        ] {
            assert!(counted().note(fault).is_err(), "{fault}");
        }
    }

    #[test]
    fn a_trial_in_which_nothing_was_applied_or_nothing_was_left_fails() {
        let good = |cuts: usize| Counted { boots: cuts, kills: cuts * KILLS, ..counted() };
        good(1).check(1).unwrap();
        good(20).check(20).unwrap();
        Counted { hits: 0, ..good(1) }.check(1).unwrap();
        for (bad, why) in [
            (Counted { whole: false, ..good(20) }, "never applied whole"),
            (Counted { changes: (0, String::new()), ..good(20) }, "changed 0 keys"),
            (Counted { boots: 19, ..good(20) }, "19 of 20 boots"),
            (Counted { kills: 99, ..good(20) }, "99 of 100 kills"),
            (Counted { parts: 0, ..good(20) }, "left a part"),
            (Counted { hits: 0, ..good(20) }, "while settings were held"),
        ] {
            let said = bad.check(20).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
