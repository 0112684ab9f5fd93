//! Writes a store as CSV files: `write_store SIZE SEED THREADS FOLDER`. Shows how progress and time left are had.

use std::path::Path;
use std::time::Instant;

use tilemark_store_data::{Generator, Progress, Store, StoreDataError, write_files};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [size, seed, threads, folder] = arguments.as_slice() else {
        eprintln!("usage: write_store SIZE SEED THREADS FOLDER");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u64>().expect("SEED and THREADS are numbers");
    if let Err(error) = write(size, number(seed), number(threads) as usize, Path::new(folder)) {
        eprintln!("error: {error}\n  to fix: {}", error.remedy());
        std::process::exit(3);
    }
}

fn write(size: &str, seed: u64, threads: usize, folder: &Path) -> Result<(), StoreDataError> {
    let store = Store::of_size(size.parse()?, seed);
    let expected = store.expected_bytes();
    let start = Instant::now();
    let (mut tables_done, mut last): (u64, Option<Progress>) = (0, None);
    let manifest = write_files(&Generator::new(store, threads)?, folder, |progress: Progress| {
        if let Some(before) = last.filter(|before| before.table != progress.table) {
            tables_done += before.bytes;
            if let Some(left) = Progress::time_left(start.elapsed(), tables_done, expected) {
                eprintln!("{} begins, {:.1} s left", progress.table, left.as_secs_f64());
            }
        }
        last = Some(progress);
    })?;
    for table in manifest.tables {
        println!(
            "{} rows {} bytes {} crc32 {:08x}",
            table.file, table.sum.rows, table.sum.bytes, table.sum.crc32
        );
    }
    Ok(())
}
