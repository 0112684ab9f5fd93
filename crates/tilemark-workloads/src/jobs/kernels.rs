//! The jobs. Each computes something whose right result is known by another way, and says what was wrong.
//!
//! The sizes make a job of scale 1 take 10 to 100 ms of one processor of 2 to 4 GHz (`cargo test --release -p tilemark-workloads --
//! --ignored --nocapture times_of_jobs` prints them). Whoever changes what a job of size 1 does counts [`JobKind::SET`] up.

use super::{
    calls::{datagram, jump, pipe, signal, system, tcp},
    files::{Order, Source, Sync, UserFiles, Writing},
};
use std::{hint::black_box, io};
use tilemark_plan::workload::JobKind;

/// A size of 1 is so much of each: see [`JobKind`].
const INTEGERS: u64 = 6_000_000;
const TERMS: u64 = 7_000_000;
const SYSTEMS: u32 = 1_300;
const BLOCKS: u32 = 240;
const SIEVES: u32 = 13;
const TEXTS: u32 = 20;
const SORTS: u32 = 30;
const PIPED: u32 = 20_000;
const MESSAGES: u32 = 9_000;
const TCP_MESSAGES: u32 = 5_000;
const SIGNALS: u32 = 16_000;
const JUMPS: u32 = 10_000;
const CALLS: u32 = 40_000;
/// Blocks of 1 KiB: 10 MB, as much as a file of AIM7's `fserver` has.
const WRITTEN: u64 = 10_000;
/// Reading alone is quicker.
const READ: u64 = 40_000;
const SEARCHES: u32 = 120;
const CREATIONS: u32 = 40;
const FOLDERS: u32 = 40;
const LINKS: u32 = 160;

/// Numbers of a text: more would not be in the memory that the plan has for a job.
const NUMBERS: u64 = 27_000;
/// Numbers that are sorted at once: 512 KiB.
const SORTED: usize = 1 << 16;
/// Unknowns of a system of equations: 19 KB. With 64 it had 33 KB, a little more than a first cache of 32 KiB, so that a job's time was
/// at the mercy of what else was in it.
const UNKNOWNS: usize = 48;

/// Why a job's result is not right.
#[derive(Debug)]
pub(super) enum BadJob {
    /// It could not be done.
    Failed(io::Error),
    /// Its result is wrong.
    Wrong(String),
}

impl From<io::Error> for BadJob {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Does one job of a kind, so many times as large, with the files of its user.
pub(super) fn run(kind: JobKind, size: f64, files: &UserFiles) -> Result<(), BadJob> {
    // However small it is, it is done.
    let many = |count: u64| ((count as f64 * size).round() as u64).max(1);
    let few = |count: u32| u32::try_from(many(count.into())).unwrap_or(u32::MAX);
    let write = |source, order, sync| files.write(many(WRITTEN), Writing { source, order, sync });
    match kind {
        JobKind::Integer => integer(many(INTEGERS)),
        JobKind::Float => float(many(TERMS)),
        JobKind::Linear => repeated(few(SYSTEMS), linear),
        JobKind::Memory => repeated(few(BLOCKS), memory),
        JobKind::Sieve => repeated(few(SIEVES), |_| sieve()),
        JobKind::Text => repeated(few(TEXTS), |_| text(NUMBERS)),
        JobKind::Sort => repeated(few(SORTS), sort),
        JobKind::Pipe => pipe(few(PIPED)),
        JobKind::Datagram => datagram(few(MESSAGES)),
        JobKind::Tcp => tcp(few(TCP_MESSAGES)),
        JobKind::Signal => signal(few(SIGNALS)),
        JobKind::Jump => jump(few(JUMPS)),
        JobKind::System => system(few(CALLS)),
        JobKind::Read => files.read(many(READ)),
        JobKind::RandomRead => files.random_read(many(READ)),
        JobKind::Write => write(Source::Memory, Order::Sequential, Sync::Never),
        JobKind::RandomWrite => write(Source::Memory, Order::Random, Sync::Never),
        JobKind::Copy => write(Source::File, Order::Sequential, Sync::Never),
        JobKind::SyncWrite => write(Source::Memory, Order::Sequential, Sync::EachMib),
        JobKind::SyncRandomWrite => write(Source::Memory, Order::Random, Sync::EachMib),
        JobKind::SyncCopy => write(Source::File, Order::Sequential, Sync::EachMib),
        JobKind::Search => repeated(few(SEARCHES), |_| files.search()),
        JobKind::Create => repeated(few(CREATIONS), |_| files.create()),
        JobKind::Folders => repeated(few(FOLDERS), |_| files.folders()),
        JobKind::Links => repeated(few(LINKS), |_| files.links()),
    }
}

fn repeated(times: u32, job: impl Fn(u32) -> Result<(), BadJob>) -> Result<(), BadJob> {
    (0..times).try_for_each(job)
}

/// The result, if it is what it must be.
pub(super) fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, right: T) -> Result<(), BadJob> {
    if found == right {
        Ok(())
    } else {
        Err(BadJob::Wrong(format!("{what} is {found:?} and must be {right:?}")))
    }
}

/// Knuth's multiplier and increment for 64 bits (MMIX).
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// Steps of a linear congruential generator, each divided with its remainder. The last value is known: a generator can jump ahead
/// (F. Brown, Random number generation with arbitrary strides, 1994).
fn integer(steps: u64) -> Result<(), BadJob> {
    let (mut value, mut bad) = (1_u64, 0_u64);
    for step in 1..=steps {
        value = black_box(value).wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        // The compiler knows that a division is right, and would do none.
        let (quotient, rest) = (black_box(value / step), black_box(value % step));
        bad += u64::from(is_wrong(value, step, quotient, rest));
    }
    expect("the number of wrong divisions", bad, 0)?;
    expect("the last of a sequence", value, jumped(steps))
}

fn is_wrong(value: u64, step: u64, quotient: u64, rest: u64) -> bool {
    rest >= step || quotient.wrapping_mul(step).wrapping_add(rest) != value
}

/// The value after so many steps from 1.
fn jumped(mut steps: u64) -> u64 {
    let (mut multiplier, mut increment) = (MULTIPLIER, INCREMENT);
    let (mut all_multiplier, mut all_increment) = (1_u64, 0_u64);
    while steps > 0 {
        if steps & 1 == 1 {
            all_multiplier = all_multiplier.wrapping_mul(multiplier);
            all_increment = all_increment.wrapping_mul(multiplier).wrapping_add(increment);
        }
        increment = multiplier.wrapping_add(1).wrapping_mul(increment);
        multiplier = multiplier.wrapping_mul(multiplier);
        steps >>= 1;
    }
    all_multiplier.wrapping_add(all_increment)
}

/// The sum of 1/k^2 is pi^2/6 less 1/n - 1/(2n^2) and terms of the third order (Euler and Maclaurin); every sine and cosine lie
/// on a circle.
fn float(terms: u64) -> Result<(), BadJob> {
    let (mut sum, mut off_circle) = (0.0_f64, 0.0_f64);
    for term in (1..=terms).rev() {
        let number = black_box(term as f64);
        sum += 1.0 / (number * number);
        if term % 8 == 0 {
            let (sine, cosine) = number.sin_cos();
            off_circle = off_circle.max((sine * sine + cosine * cosine - 1.0).abs());
        }
    }
    let count = terms as f64;
    let right = std::f64::consts::PI.powi(2) / 6.0 - 1.0 / count + 0.5 / (count * count);
    if (sum - right).abs() > 1e-9 || off_circle > 1e-12 {
        return Err(BadJob::Wrong(format!(
            "a sum is {sum} and must be {right}; off the circle by {off_circle}"
        )));
    }
    Ok(())
}

/// Solves a system whose solution is 1, 2, 3 and so on, by Gauss's elimination. Its diagonal dominates, so that no pivot is needed.
fn linear(number: u32) -> Result<(), BadJob> {
    let mut value = u64::from(number) + 1;
    let mut rows = [[0.0_f64; UNKNOWNS + 1]; UNKNOWNS];
    for (place, row) in rows.iter_mut().enumerate() {
        for factor in &mut row[..UNKNOWNS] {
            value = value.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            *factor = (value >> 40) as f64 / f64::from(1 << 24);
        }
        row[place] += UNKNOWNS as f64;
        row[UNKNOWNS] = (0..UNKNOWNS).map(|column| row[column] * (column + 1) as f64).sum();
    }
    for pivot in 0..UNKNOWNS {
        let (above, below) = rows.split_at_mut(pivot + 1);
        for row in below {
            let factor = row[pivot] / above[pivot][pivot];
            for column in pivot..=UNKNOWNS {
                row[column] -= factor * above[pivot][column];
            }
        }
    }
    let mut solution = [0.0_f64; UNKNOWNS];
    for place in (0..UNKNOWNS).rev() {
        let known: f64 = (place + 1..UNKNOWNS).map(|column| rows[place][column] * solution[column]).sum();
        solution[place] = (rows[place][UNKNOWNS] - known) / rows[place][place];
    }
    let off = (0..UNKNOWNS).map(|place| (solution[place] - (place + 1) as f64).abs()).fold(0.0, f64::max);
    if off > 1e-6 { Err(BadJob::Wrong(format!("a solution is off by {off}"))) } else { Ok(()) }
}

fn memory(number: u32) -> Result<(), BadJob> {
    let byte = number as u8;
    let blocks: Vec<Vec<u8>> = (4..17).map(|power| vec![byte; 1 << power]).collect();
    let copies = black_box(blocks.clone());
    let different = blocks.iter().zip(&copies).filter(|(block, copy)| block != copy).count();
    expect("the number of copies that differ", different, 0)?;
    let bytes = copies.iter().flatten().filter(|found| **found == byte).count();
    expect("the number of right bytes", bytes, (1 << 17) - (1 << 4))
}

/// There are 78,498 primes below a million.
fn sieve() -> Result<(), BadJob> {
    const END: usize = 1_000_000;
    let mut is_composite = black_box(vec![false; END]);
    for number in 2..1000 {
        if !is_composite[number] {
            (number * number..END).step_by(number).for_each(|multiple| is_composite[multiple] = true);
        }
    }
    let primes = is_composite[2..].iter().filter(|composite| !**composite).count();
    expect("the number of primes below a million", primes, 78_498)
}

fn text(numbers: u64) -> Result<(), BadJob> {
    let words: Vec<String> = (1..=numbers).map(|number| number.to_string()).collect();
    let all = black_box(words.join(" "));
    let sum: u64 = all.split(' ').filter_map(|word| word.parse::<u64>().ok()).sum();
    expect("the sum of the numbers", sum, numbers * (numbers + 1) / 2)
}

/// Each number below `count` once, in an order that jumps: a congruential generator of full period (Hull and Dobell, 1962) over the
/// next power of two.
pub(super) fn each_once(count: usize, start: usize) -> impl Iterator<Item = usize> {
    let mask = count.next_power_of_two() - 1;
    let next = move |number: &usize| Some(number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223) & mask);
    std::iter::successors(Some(start & mask), next).filter(move |number| *number < count).take(count)
}

/// Sorts each number below a limit, from an order that jumps: then each is at its own place.
fn sort(start: u32) -> Result<(), BadJob> {
    let mut numbers = black_box(each_once(SORTED, start as usize).collect::<Vec<_>>());
    numbers.sort_unstable();
    let misplaced = numbers.iter().enumerate().filter(|(place, number)| place != *number).count();
    expect("the number of misplaced numbers", misplaced + SORTED - numbers.len(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, time::Instant};
    use tempfile::TempDir;

    fn files(folder: &TempDir) -> UserFiles {
        UserFiles { folder: folder.path().to_owned(), bytes: 100 << 10 }
    }

    #[test]
    fn every_job_has_its_known_result_at_every_size() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = [0.000_1, 0.3, 1.0, 2.0];
        for (kind, size) in JobKind::ALL.iter().flat_map(|kind| sizes.map(|size| (*kind, size))) {
            run(kind, size, &files(&folder)).unwrap_or_else(|error| panic!("{kind:?} {size}: {error:?}"));
        }
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.file_name()).collect();
        left.sort();
        assert_eq!(left, ["read", "tree"], "written files are removed");
    }

    #[test]
    fn each_number_comes_once_and_neighbours_are_apart() {
        for count in [1, 2, 3, 100, 1_000, 1 << 16] {
            let numbers: Vec<usize> = each_once(count, 5).collect();
            let mut sorted = numbers.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..count).collect::<Vec<_>>(), "{count}");
            let next_to = numbers.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            assert!(next_to <= 1 + count / 50, "{count}: {next_to}");
        }
    }

    #[test]
    fn a_wrong_quotient_and_a_wrong_rest_are_found() {
        for (value, step) in [(0, 1), (17, 5), (u64::MAX, 1), (u64::MAX, 6_000_000), (MULTIPLIER, 3)] {
            let (quotient, rest) = (value / step, value % step);
            assert!(!is_wrong(value, step, quotient, rest), "{value} / {step}");
            assert!(is_wrong(value, step, quotient.wrapping_add(1), rest), "{value} / {step}");
            assert!(is_wrong(value, step, quotient, rest + 1), "{value} / {step}");
            assert!(is_wrong(value, step, quotient.wrapping_sub(1), rest + step), "{value} / {step}");
        }
    }

    #[test]
    fn a_generator_that_jumps_ahead_is_where_one_that_walks_is() {
        let walked =
            |steps| (0..steps).fold(1_u64, |value, _| value.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT));
        for steps in [0, 1, 2, 3, 64, 1_000] {
            assert_eq!(jumped(steps), walked(steps), "{steps}");
        }
        assert_ne!(jumped(1_000), walked(1_001));
    }

    #[test]
    #[ignore = "prints times: for whoever sets the sizes"]
    fn times_of_jobs() {
        // On the file system of TMPDIR. Files of the size that AIM7 suggests for its file server.
        let folder = tempfile::tempdir().unwrap();
        let files = UserFiles { folder: folder.path().to_owned(), bytes: 10 << 20 };
        for kind in JobKind::ALL {
            let timed = |size| {
                let (began, used) = (Instant::now(), thread_seconds());
                run(*kind, size, &files).unwrap();
                [began.elapsed().as_secs_f64(), thread_seconds() - used].map(|seconds| 1e3 * seconds)
            };
            // The first one pages its code in and makes the files that are read.
            timed(1.0);
            // A run changes a size so too.
            let [_, at_size_1] = timed(1.0);
            let size = if (10.0..=100.0).contains(&at_size_1) { 1.0 } else { 30.0 / at_size_1 };
            let mut times: Vec<[f64; 2]> = (0..21).map(|_| timed(size)).collect();
            let mut column = |number: usize| {
                times.sort_by(|one, other| one[number].total_cmp(&other[number]));
                [2, 10, 18].map(|place| times[place][number])
            };
            let ([p10, p50, p90], [own_p10, own, own_p90]) = (column(0), column(1));
            println!(
                "{:18} size {size:5.2}: p50 {p50:6.1} ms, p90/p10 {:.2}; of a processor {own:6.1} ms, p90/p10 {:.2}",
                kind.name(),
                p90 / p10,
                own_p90 / own_p10
            );
        }
    }

    fn thread_seconds() -> f64 {
        tilemark_sys::clock::thread_ns() as f64 / 1e9
    }
}
