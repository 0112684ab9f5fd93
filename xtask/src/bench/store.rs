//! The online store: data to nowhere, and orders and loads on databases that the bench starts itself.

use super::{
    figure::{Figure, Pair, Target},
    tools::{Bench, example, in_turn, json_of, need, need_root, number, number_after, text_of},
};
use anyhow::{Context, Result};
use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use tilemark_record::{Event, Events, RunDirectory};

/// 1 GB of CSV to nowhere.
pub(super) fn data(bench: &Bench) -> Result<Vec<Figure>> {
    let throughput = example("tilemark-store-data", "throughput")?;
    let (mut rates, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(7) {
        let printed = text_of(Command::new(&throughput).args(["1GB", "2", "1"]))?;
        rates.push(number_after(&printed, "median")?);
        memory.push(number_after(&printed, "VmHWM:")? / 1024.0);
    }
    Ok(vec![
        Figure::median_of("1 GB of CSV to nowhere, 2 threads", "MB/s", &rates, Target::AtLeast(400.0)),
        Figure::median_of("the same, most memory", "MiB", &memory, Target::AtMost(95.0)),
    ])
}

/// Orders on MariaDB with full durability, its data in memory and on this disk: 32 clients, closed loop, and what they cost.
pub(super) fn orders(bench: &Bench) -> Result<Vec<Figure>> {
    need(&["mariadbd", "mariadb", "mariadb-install-db"])?;
    let server = example("tilemark-store", "own_server")?;
    let mut figures = Vec::new();
    for (place, rate, part) in
        [("memory", Target::AtLeast(30_000.0), Target::AtMost(5.0)), ("disk", Target::None, Target::None)]
    {
        let (mut orders, mut costs, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..bench.times(5) {
            let printed = json_of(Command::new(&server).args(["orders", "mariadb", place, "32", "20"]))?;
            orders.push(number(&printed, "/orders_per_minute")?);
            costs.push(number(&printed, "/client_cpu_us_per_order")?);
            parts.push(100.0 * number(&printed, "/client_cpu_s")? / number(&printed, "/server_cpu_s")?);
        }
        let what = format!("orders per minute, 32 clients, 100 MB, MariaDB, {place}");
        figures.push(Figure::median_of(what, "/min", &orders, rate));
        let what = "the same, the clients' processor time as a part of the database's";
        figures.push(Figure::median_of(what, "%", &parts, part));
        let what = "the same, processor time of an order in the client";
        figures.push(Figure::median_of(what, "µs", &costs, Target::None));
    }
    Ok(figures)
}

/// From nothing to a loaded, indexed, checked database, against the database's own bulk loader on ready CSV.
pub(super) fn load_data(bench: &Bench) -> Result<Vec<Figure>> {
    need(&["mariadbd", "mariadb", "mariadb-install-db", "psql"])?;
    let server = example("tilemark-store", "own_server")?;
    let mut figures = Vec::new();
    for engine in ["mariadb", "postgresql"] {
        let mut pairs = Vec::new();
        for _ in 0..bench.times(3) {
            let seconds = |how: &str| {
                let printed = json_of(Command::new(&server).args([how, engine, "disk", "1GB"]))?;
                number(&printed, "/seconds")
            };
            let (ours, peer) = in_turn(|| seconds("load"), || seconds("bulk"))?;
            pairs.push(Pair { ours, peer });
        }
        let what = format!("from nothing to a checked 1 GB in {engine}, against its own loader");
        figures.push(Figure::ratio(what, &pairs, "s", Target::AtMost(1.15)));
    }
    Ok(figures)
}

/// A pristine 4 GB database between repeats: from the beginning of a pass until its guest serves, on a template that is
/// there. A native run of the scenario, so that the twin, its disks and its server are those that runs have.
pub(super) fn pristine(bench: &Bench) -> Result<Vec<Figure>> {
    need_root()?;
    need(&["mkfs.xfs"])?;
    // The first run makes the template where there is none.
    four_gb(bench, 1)?;
    let store = bench.home.join("cache/disks.xfs");
    let before = allocated_mb(&store)?;
    let (run, most) = while_watched(&store, || four_gb(bench, bench.times(5)))?;
    let took = between_repeats(&bench.home.join("runs").join(run))?;
    let of = |part: fn(&Took) -> f64| took.iter().map(part).collect::<Vec<f64>>();
    let (whole, cloned) = (of(|took| took.whole_s), of(|took| took.whole_s - took.ready_s));
    let what = "a pristine 4 GB database again, until it serves";
    Ok(vec![
        Figure::median_of(what, "s", &whole, Target::AtMost(5.0)),
        Figure::median_of("of that, before its server is started: disks cloned", "s", &cloned, Target::None),
        // The template has some 8,000: a copy would show. What is left is what servers write in their seconds of load.
        Figure::median_of(
            "the same, most taken of the disk beside the template",
            "MB",
            &[most - before],
            Target::AtMost(1_000.0),
        ),
    ])
}

/// A native run of one tile with 4 GB of data and few seconds of orders; says its id.
fn four_gb(bench: &Bench, repeats: usize) -> Result<String> {
    let repeats = format!("measure.repeats={repeats}");
    let mut command = bench.tilemark()?;
    command.args(["run", "oltp", "--preset", "published", "--on", "native", "--tiles", "1", "--json"]);
    for setting in ["measure.warmup=1s", "measure.length=5s", &repeats] {
        command.args(["--set", setting]);
    }
    let printed = json_of(&mut command)?;
    Ok(printed["run"].as_str().context("a run names its id")?.to_owned())
}

/// How long one repeat's database took to be there again.
struct Took {
    /// From the beginning of the pass until the measurement's.
    whole_s: f64,
    /// Of it, from the start of the guest until it served.
    ready_s: f64,
}

fn between_repeats(record: &Path) -> Result<Vec<Took>> {
    let mut began = BTreeMap::new();
    for event in Events::read(&record.join("events.ndjson"))? {
        if let Event::PassBegan { unix_ms, pass } = event {
            began.insert(pass.repeat, unix_ms);
        }
    }
    let mut all = Vec::new();
    for files in RunDirectory::at(record).repeats()? {
        let summary = files.summary()?;
        let began = began.get(&summary.repeat).context("a repeat has its pass")?;
        let ready_s = summary.ready_s.context("a guest became ready")?;
        all.push(Took { whole_s: summary.began_unix_ms.saturating_sub(*began) as f64 / 1e3, ready_s });
    }
    Ok(all)
}

/// What is done, and the most that a file took of the disk meanwhile, in MB.
fn while_watched<T>(file: &Path, work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut most = 0.0_f64;
            while !over.load(Ordering::Relaxed) {
                // It is there: asked for before this began.
                most = most.max(allocated_mb(file).unwrap_or(0.0));
                thread::sleep(Duration::from_millis(50));
            }
            most
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        let most = watching.join().expect("a reader of sizes does not panic");
        Ok((done?, most))
    })
}

/// What a sparse file takes of the disk. stat(2) counts in 512 bytes, whatever the file system.
fn allocated_mb(file: &Path) -> Result<f64> {
    let found = std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok((found.blocks() * 512) as f64 / 1e6)
}
