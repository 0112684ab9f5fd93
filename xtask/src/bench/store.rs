//! The online store: data to nowhere, and orders and loads on databases that the bench starts itself.

use super::{
    figure::{Figure, Pair, Target},
    tools::{Bench, example, in_turn, json_of, need, number, number_after, text_of},
};
use anyhow::Result;
use std::process::Command;

/// 1 GB of CSV to nowhere.
pub(super) fn data(bench: &Bench) -> Result<Vec<Figure>> {
    let throughput = example("tilemark-store-data", "throughput")?;
    let (mut rates, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(7) {
        let told = text_of(Command::new(&throughput).args(["1GB", "2", "1"]))?;
        rates.push(number_after(&told, "median")?);
        memory.push(number_after(&told, "VmHWM:")? / 1024.0);
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
            let told = json_of(Command::new(&server).args(["orders", "mariadb", place, "32", "20"]))?;
            orders.push(number(&told, "/orders_per_minute")?);
            costs.push(number(&told, "/client_cpu_us_per_order")?);
            parts.push(100.0 * number(&told, "/client_cpu_s")? / number(&told, "/server_cpu_s")?);
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
                let told = json_of(Command::new(&server).args([how, engine, "disk", "1GB"]))?;
                number(&told, "/seconds")
            };
            let (ours, peer) = in_turn(|| seconds("load"), || seconds("bulk"))?;
            pairs.push(Pair { ours, peer });
        }
        let what = format!("from nothing to a checked 1 GB in {engine}, against its own loader");
        figures.push(Figure::ratio(what, &pairs, "s", Target::AtMost(1.15)));
    }
    Ok(figures)
}
