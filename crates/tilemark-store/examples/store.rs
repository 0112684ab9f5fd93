//! Loads or drives a store: `store load ADDRESS SIZE` or `store run ADDRESS CLIENTS SECONDS [ORDERS_PER_SECOND]`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tilemark_store::{
    Arrivals, DatabaseAddress, Demand, LoadProgress, Pace, StoreError, load_database, run_load,
};
use tilemark_store_data::{Generator, Store};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match texts.as_slice() {
        ["load", address, size] => load(address, size),
        ["run", address, clients, seconds] => run(address, number(clients), number(seconds), None),
        ["run", address, clients, seconds, rate] => {
            run(address, number(clients), number(seconds), Some(number(rate)))
        }
        _ => panic!("usage: store load ADDRESS SIZE | store run ADDRESS CLIENTS SECONDS [ORDERS_PER_SECOND]"),
    };
    if let Err(error) = done {
        eprintln!("error: {}\n  to fix: {}", error.with_causes(), error.remedy());
        std::process::exit(3);
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a whole number")
}

fn load(address: &str, size: &str) -> Result<(), StoreError> {
    let address: DatabaseAddress = address.parse()?;
    let generator = Arc::new(Generator::new(Store::of_size(size.parse()?, 7), 1)?);
    let start = Instant::now();
    let mut rows_s = 0.0;
    let loaded = load_database(&address, &generator, &mut |progress| {
        if progress == LoadProgress::Checking {
            rows_s = start.elapsed().as_secs_f64();
        }
    })?;
    let bytes: u64 = loaded.tables.iter().map(|table| table.sum.bytes).sum();
    println!(
        "{bytes} bytes into {} in {:.2} s, rows and keys after {rows_s:.2} s",
        loaded.server,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn run(address: &str, clients: u32, seconds: u32, rate: Option<u32>) -> Result<(), StoreError> {
    let pace = match rate {
        Some(rate) => Pace::Open { orders_per_second: f64::from(rate), arrivals: Arrivals::Poisson },
        None => Pace::Closed { think_time: Duration::ZERO },
    };
    let measure = Duration::from_secs(u64::from(seconds));
    let demand = Demand { clients, pace, warmup: Duration::from_secs(5), measure, ..Demand::default() };
    let result = run_load(&address.parse()?, &demand, &AtomicBool::new(false))?;
    println!("{}", serde_json::to_string_pretty(&result).expect("a result has only plain values"));
    Ok(())
}
