//! Guests: how fast and how small clones are, what of that is ours, and how fast everything is gone.

use super::{
    figure::{Figure, Target},
    tools::{Bench, Skipped, json_lines, json_of, need, need_root, number, text_of},
};
use crate::cargo::{cargo_command, workspace};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path};

/// What guests that are up are.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Clones under QEMU's translator.
    Emulated,
    /// Native twins.
    Native,
}

/// Guests that are up; they go down with this.
pub(super) struct Up<'a> {
    bench: &'a Bench,
    id: String,
    printed: Value,
}

impl<'a> Up<'a> {
    /// So many idle guests.
    pub(super) fn start(bench: &'a Bench, kind: Kind, count: u32, flags: &[&str]) -> Result<Self> {
        need_root()?;
        let on = match kind {
            Kind::Emulated => {
                need(&["qemu-system-x86_64"])?;
                "emulated"
            }
            Kind::Native => "native",
        };
        bench.image()?;
        let arguments = ["guests", "up", &count.to_string(), "--on", on, "--offline", "--json"];
        let printed = json_of(bench.tilemark()?.args(arguments).args(flags))?;
        let id = printed["id"].as_str().context("`guests up` names no id")?.to_owned();
        Ok(Self { bench, id, printed })
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        let down =
            self.bench.tilemark().and_then(|mut command| text_of(command.args(["guests", "down", &self.id])));
        if let Err(error) = down {
            eprintln!("guests are left: {error:#}");
        }
    }
}

fn under_way(up: &Up<'_>) -> Result<Value> {
    let file = up.bench.home.join("state").join(&up.id).join("under-way.json");
    Ok(serde_json::from_slice(&fs::read(&file)?)?)
}

/// The control groups of some native twins.
pub(super) fn groups_of(up: &Up<'_>) -> Result<Vec<String>> {
    let under_way = under_way(up)?;
    let group = under_way["cgroup"].as_str().context("guests have a control group")?;
    let below = fs::read_dir(group)?.flatten().filter(|entry| entry.path().is_dir());
    let twins = below.filter(|entry| entry.file_name() != "engine");
    Ok(twins.map(|entry| entry.path().display().to_string()).collect())
}

/// Process ids of the QEMUs below the keeper of some guests.
pub(super) fn qemus_of(up: &Up<'_>) -> Result<Vec<u32>> {
    let state = under_way(up)?;
    let keeper = state["keeper"]["pid"].as_u64().context("guests have a keeper")?;
    let mut family = BTreeSet::from([u32::try_from(keeper)?]);
    let all: Vec<(u32, u32, String)> = fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (head, tail) = text.rsplit_once(')')?;
            let parent = tail.split_whitespace().nth(1)?.parse().ok()?;
            Some((pid, parent, head.split_once('(')?.1.to_owned()))
        })
        .collect();
    loop {
        let before = family.len();
        family.extend(
            all.iter()
                .filter(|(_, parent, _)| family.contains(parent))
                .map(|(pid, ..)| *pid)
                .collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    let of_family = all.into_iter().filter(|(pid, ..)| family.contains(pid));
    Ok(of_family.filter(|(_, _, name)| name.starts_with("qemu-system")).map(|(pid, ..)| pid).collect())
}

/// So many emulated clones, up and down again: what `guests up` printed of them, once nobody was found to be there twice.
pub(crate) fn up_and_distinct(bench: &Bench, count: u32, flags: &[&str]) -> Result<Value> {
    let up = Up::start(bench, Kind::Emulated, count, flags)?;
    for key in ["mac", "address", "machine_id", "random_hex"] {
        let guests = up.printed["guests"].as_array().context("guests are listed")?;
        let different: BTreeSet<&str> = guests.iter().filter_map(|guest| guest[key].as_str()).collect();
        anyhow::ensure!(different.len() == count as usize, "{} different {key} of {count}", different.len());
    }
    Ok(up.printed.clone())
}

/// 256 idle emulated clones of 96 MiB: the slowest ready after the template, and memory of each.
pub(super) fn clones(bench: &Bench) -> Result<Vec<Figure>> {
    const COUNT: u32 = 256;
    let (mut slowest, mut memory, mut templates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.times(3) {
        let printed = up_and_distinct(bench, COUNT, &[])?;
        slowest.push(number(&printed, "/seconds_to_ready/max")?);
        memory.push(number(&printed, "/pss_mib_per_guest")?);
        templates.push(number(&printed, "/template_seconds")?);
    }
    Ok(vec![
        Figure::median_of(
            "256 idle emulated clones: the slowest ready after the template",
            "s",
            &slowest,
            Target::AtMost(16.0),
        ),
        Figure::median_of(
            "the same, PSS of each after 10 idle seconds",
            "MiB",
            &memory,
            Target::AtMost(18.0),
        )
        .noting("machine id, random bytes, MAC and address: no two are the same"),
        Figure::median_of("the same, until the template was ready", "s", &templates, Target::None),
    ])
}

/// Runs one test of a crate in release and gives what it prints: measurements that need the inside of a crate are there.
pub(crate) fn measurement(
    bench: &Bench,
    crate_arguments: &[&str],
    name: &str,
    settings: &[(&str, String)],
) -> Result<Vec<Value>> {
    let said = test_with_guests(bench, crate_arguments, &["--exact", "--nocapture", name], settings)?;
    let lines = json_lines(&said);
    if lines.is_empty() { bail!("`{name}` printed no figure") } else { Ok(lines) }
}

/// Runs tests of a crate in release, those that are ignored too, with all that tests with guests need; gives what they print.
pub(crate) fn test_with_guests(
    bench: &Bench,
    crate_arguments: &[&str],
    test_arguments: &[&str],
    settings: &[(&str, String)],
) -> Result<String> {
    need_root()?;
    let image = bench.image()?;
    let mut cargo = cargo_command(&["test", "--release", "--quiet", "--locked"]);
    cargo.args(crate_arguments).args(["--", "--include-ignored"]).args(test_arguments);
    cargo.env("TILEMARK_CI", "1").env("TILEMARK_TEST_IMAGE", &image);
    cargo.env("TILEMARK_TEST_CACHE", cache_of(&image)?);
    // The program's build puts it there, wherever else things are built.
    let agent = "target/agent/x86_64-unknown-linux-gnu/release/tilemark-agent";
    cargo.env("TILEMARK_TEST_AGENT", workspace().join(agent));
    cargo.envs(settings.iter().map(|(name, value)| (name, value)));
    text_of(&mut cargo)
}

/// CACHE of CACHE/images/NAME.
fn cache_of(image: &Path) -> Result<&Path> {
    image.ancestors().nth(2).context("an image is in a cache")
}

/// What of one clone's way to being ready is Tilemark's own. Defined where it is measured.
pub(super) fn own_share(bench: &Bench) -> Result<Vec<Figure>> {
    need(&["qemu-system-x86_64"])?;
    let settings = [("TILEMARK_TEST_CLONES", bench.times(100).to_string())];
    let arguments = ["-p", "tilemark-guests", "--features", "fake", "--test", "emulated"];
    let lines = measurement(bench, &arguments, "own_share_of_a_clone", &settings)?;
    let of = |name: &str| lines.iter().filter_map(|line| line[name].as_f64()).collect::<Vec<f64>>();
    let own = of("own_ms");
    Ok(vec![
        Figure::median_of(
            "one clone, Tilemark's own share of the time, p50",
            "ms",
            &own,
            Target::AtMost(20.0),
        ),
        Figure::at(0.99, "the same, p99", "ms", &own, Target::AtMost(40.0)),
        Figure::median_of(
            "the same, processor time of our thread alone",
            "ms",
            &of("processor_ms"),
            Target::None,
        ),
        Figure::median_of("the same, wall time of `start` alone", "ms", &of("start_ms"), Target::None),
        Figure::median_of("one clone, until it was ready, all shares", "ms", &of("ready_ms"), Target::None),
    ])
}

/// 256 native twins, 32 tiles of `consolidation`, seven of eight guests loaded: until all are ready, and their memory.
pub(super) fn twins(bench: &Bench) -> Result<Vec<Figure>> {
    need_root()?;
    let run = "run consolidation --on native --preset quick --tiles 32 --not-alone --json --set measure.repeats=1 \
               --set measure.warmup=1s --set measure.length=5s";
    let (mut ready, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(3) {
        let printed = json_of(bench.tilemark()?.args(run.split_whitespace()))?;
        let record = bench.home.join("runs").join(printed["run"].as_str().context("a run has an id")?);
        let summary = fs::read(record.join("points/00/repeat-1/summary.json"))?;
        let summary: Value = serde_json::from_slice(&summary)?;
        ready.push(number(&summary, "/ready_s")?);
        memory.push(number(&summary, "/memory/own_mib")? / 1024.0);
    }
    Ok(vec![
        Figure::median_of(
            "256 native twins, 32 of them databases: all ready",
            "s",
            &ready,
            Target::AtMost(60.0),
        )
        .noting("templates of disks and image are there"),
        Figure::median_of("the same, memory of all under load", "GiB", &memory, Target::AtMost(12.0)),
    ])
}

/// Seconds from `kill -9` of the command until nothing is left, at points of native and of emulated runs.
pub(super) fn kill(bench: &Bench) -> Result<Vec<Figure>> {
    need(&["qemu-system-x86_64", "nginx"])?;
    let settings = [("TILEMARK_TEST_KILLS", bench.times(10).to_string())];
    let mut figures = Vec::new();
    for (what, test, name) in [
        ("native", "native", "a_killed_command_leaves_nothing_at_any_moment"),
        ("emulated", "emulated", "a_killed_command_leaves_nothing_of_emulated_guests"),
    ] {
        let lines = measurement(bench, &["-p", "tilemark", "--test", test], name, &settings)?;
        let gone: Vec<f64> = lines.iter().filter_map(|line| line["gone_after_s"].as_f64()).collect();
        let what = format!("after kill -9 of a run of {what} guests, everything gone, slowest");
        figures.push(Figure::at(1.0, what, "s", &gone, Target::AtMost(10.0)));
    }
    Ok(figures)
}

/// `tilemark quick`: how long it takes, beside what it said before.
pub(super) fn quick(bench: &Bench) -> Result<Vec<Figure>> {
    bench.image()?;
    let (mut off, mut took) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(1) {
        let printed = json_of(bench.tilemark()?.args(["quick", "--offline", "--json"]))?;
        let (seconds, expected) =
            (number(&printed, "/provenance/seconds")?, number(&printed, "/provenance/expected_seconds")?);
        if expected <= 0.0 {
            bail!(Skipped("the record says no expected time".to_owned()));
        }
        took.push(seconds / 60.0);
        off.push((seconds / expected - 1.0) * 100.0);
    }
    Ok(vec![
        Figure::median_of("`tilemark quick`, image cached", "min", &took, Target::AtMost(5.0)),
        Figure::median_of("the same: time taken against time said before", "%", &off, Target::Within(20.0)),
    ])
}

/// The journal's own time for a profile of 300 settings, in files that play a host: what the kernel takes for each comes on top.
pub(super) fn profile(bench: &Bench) -> Result<Vec<Figure>> {
    let name = "host::tests::times_of_a_large_profile";
    let lines = measurement(bench, &["-p", "tilemark-run", "--lib"], name, &[])?;
    let of = |key: &str| lines.iter().filter_map(|line| line[key].as_f64()).collect::<Vec<f64>>();
    Ok(vec![
        Figure::median_of(
            "a profile of 300 settings in files: applied",
            "s",
            &of("apply_s"),
            Target::AtMost(1.0),
        ),
        Figure::median_of("the same: restored", "s", &of("restore_s"), Target::AtMost(1.0)),
    ])
}
