//! How fast data is made: `throughput SIZE THREADS [REPEATS]` makes it to nowhere and prints MB/s for each repeat, the
//! median, and the largest memory that the process held.

use std::io;
use std::time::Instant;

use tilemark_store_data::{DataSize, Generator, Store};
use tilemark_units::median;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let size: DataSize = arguments.first().map_or("1GB", String::as_str).parse().expect("SIZE such as 1GB");
    let threads = arguments.get(1).map_or(2, |text| text.parse().expect("THREADS"));
    let repeats = arguments.get(2).map_or(5, |text| text.parse().expect("REPEATS"));
    let store = Store::of_size(size, 7);
    println!("{size}: {store:?}");
    let rates: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            let generator = Generator::new(store, threads).expect("threads above 0");
            let sums = generator.write_all(|_| Ok(io::sink()), |_| {}).expect("nowhere never fails");
            let bytes: u64 = sums.iter().map(|(_, sum)| sum.bytes).sum();
            let rate = bytes as f64 / start.elapsed().as_secs_f64() / 1e6;
            println!("{bytes} bytes, {rate:.0} MB/s");
            rate
        })
        .collect();
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let memory = status.lines().find(|line| line.starts_with("VmHWM")).expect("a process has memory");
    let median = median(rates).expect("REPEATS above 0");
    println!("median {median:.0} MB/s with {threads} threads; {memory}");
}
