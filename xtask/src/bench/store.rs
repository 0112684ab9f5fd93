//! The online store: data to nowhere, and orders on a database that the caller started.

use super::{
    figure::{Figure, Target},
    tools::{Bench, Skipped, example, json_of, number, number_after, text_of},
};
use anyhow::{Result, bail};
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

/// Orders on a loaded database, 32 clients, closed loop.
pub(super) fn orders(bench: &Bench) -> Result<Vec<Figure>> {
    let Ok(address) = std::env::var("TILEMARK_DATABASE") else {
        bail!(Skipped("needs TILEMARK_DATABASE, the address of a running, empty database".to_owned()))
    };
    let store = example("tilemark-store", "store")?;
    text_of(Command::new(&store).args(["load", &address, "100MB"]))?;
    let (mut orders, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(5) {
        let told = json_of(Command::new(&store).args(["run", &address, "32", "20"]))?;
        orders.push(number(&told, "/orders_per_minute")?);
        costs.push(number(&told, "/client_cpu_us_per_order")?);
    }
    Ok(vec![
        Figure::median_of(
            "orders per minute, 32 clients, 100 MB",
            "/min",
            &orders,
            Target::AtLeast(30_000.0),
        ),
        Figure::median_of("the same, processor time of an order in the client", "µs", &costs, Target::None),
    ])
}
