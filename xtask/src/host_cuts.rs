//! The host's settings after a power cut in mid-apply: the lab is killed and booted again with the same disk.

use crate::bench::Bench;
use anyhow::{Context, Result, bail};
use std::{
    io::{BufRead, BufReader, Lines},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

const SCRIPT: &str = concat!(include_str!("host_profile.sh"), include_str!("host_cuts.sh"));
/// So often `host apply` is killed in each boot but the last: 5 for each of 20 cuts are 100.
const KILLS: u32 = 5;
/// What `recover` says where it had nothing to do.
const NOTHING: &str = "Nothing was left behind.";
/// The cut comes within this after the first `host apply` began: an apply and a restore of these settings take 2 to 4 s there.
const CUT_WITHIN: Duration = Duration::from_secs(4);

/// What the lab printed.
#[derive(Default)]
struct Counted {
    boots: usize,
    kills: usize,
    /// Boots after which `recover` had something to report.
    reported: usize,
}

/// Cuts the power so many times, each time at another moment, and kills `host apply` in between.
pub(crate) fn run(bench: &Bench) -> Result<Vec<String>> {
    let cuts = bench.times(20);
    let disk = bench.folder("host-cuts")?.join(format!("disk-{}", std::process::id()));
    let mut counted = Counted::default();
    let outcome = (0..=cuts).try_for_each(|boot| {
        let part = boot as f64 / cuts as f64;
        boot_and_cut(&disk, if boot == cuts { 0 } else { KILLS }, CUT_WITHIN.mul_f64(part), &mut counted)
    });
    let _ = std::fs::remove_file(&disk);
    outcome?;
    if counted.boots != cuts {
        bail!("{} of {cuts} boots after a cut were compared", counted.boots);
    }
    Ok(vec![format!(
        "{cuts} power cuts and {} kills: byte-equal each time; after {} cuts there was something to report",
        counted.kills, counted.reported
    )])
}

fn boot_and_cut(disk: &Path, kills: u32, after: Duration, counted: &mut Counted) -> Result<()> {
    let mut lab = Command::new(std::env::current_exe()?)
        .args(["lab", "--disk"])
        .arg(disk)
        .args(["--", "sh", "-c", SCRIPT, "sh", &kills.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .context("the lab does not start")?;
    let output = lab.stdout.take().context("the lab has no output")?;
    let read = read_until_applying(BufReader::new(output).lines(), counted);
    if read.is_ok() {
        thread::sleep(after);
    }
    end(&mut lab)?;
    read
}

/// Its QEMU dies with it, as a host without power.
fn end(lab: &mut Child) -> Result<()> {
    lab.kill()?;
    lab.wait()?;
    Ok(())
}

fn read_until_applying(lines: Lines<BufReader<ChildStdout>>, counted: &mut Counted) -> Result<()> {
    for line in lines {
        let line = line?;
        eprintln!("  {line}");
        match line.split_once(' ') {
            _ if line == "applying" => return Ok(()),
            Some(("boot", "same")) => counted.boots += 1,
            Some(("kill", "same")) => counted.kills += 1,
            Some(("boot", report)) if report.starts_with("reported") => {
                counted.reported += usize::from(!report.contains(NOTHING));
            }
            _ => bail!("{line}"),
        }
    }
    bail!("the lab ended before its settings were applied")
}
