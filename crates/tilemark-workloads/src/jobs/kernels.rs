//! The jobs. Each computes something whose right result is known by another way, and says what was wrong.
//!
//! The sizes make a job of scale 1 take 10 to 100 ms of one processor of 2 to 4 GHz (`cargo test -p tilemark-workloads -- --ignored
//! --nocapture times_of_jobs` prints them).

use std::{
    fs::{self, File},
    hint::black_box,
    io::{self, Read, Write},
    os::unix::net::UnixDatagram,
    path::Path,
};
use tilemark_plan::workload::JobKind;

/// A size of 1 is so much of each: see [`JobKind`].
const INTEGERS: u64 = 18_000_000;
const TERMS: u64 = 7_000_000;
const SYSTEMS: u32 = 270;
const BLOCKS: u32 = 240;
const SIEVES: u32 = 13;
const NUMBERS: u64 = 270_000;
const FILES: u32 = 100;
const PIPED: u32 = 20_000;
const MESSAGES: u32 = 9_000;

const PAGE: usize = 4096;
/// A file of the mix `compute` has 100 KB (reaim's FILESIZE), read and written in blocks of 1 KiB.
const FILE_BYTES: usize = 100 << 10;
const FILE_BLOCK: usize = 1 << 10;
/// Unknowns of a system of equations.
const UNKNOWNS: usize = 64;

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

/// Does one job of a kind, so many times as large. Files go into `folder`, which is the user's own.
pub(super) fn run(kind: JobKind, scale: u32, folder: &Path) -> Result<(), BadJob> {
    let times = u64::from(scale);
    match kind {
        JobKind::Integer => integer(INTEGERS * times),
        JobKind::Float => float(TERMS * times),
        JobKind::Linear => repeated(SYSTEMS * scale, linear),
        JobKind::Memory => repeated(BLOCKS * scale, memory),
        JobKind::Sieve => repeated(SIEVES * scale, |_| sieve()),
        JobKind::Text => text(NUMBERS * times),
        JobKind::Read => read(&folder.join("read"), FILES * scale),
        JobKind::Write => repeated(FILES * scale, |number| write(&folder.join("write"), number)),
        JobKind::Pipe => pipe(PIPED * scale),
        JobKind::Datagram => datagram(MESSAGES * scale),
    }
}

fn repeated(times: u32, job: impl Fn(u32) -> Result<(), BadJob>) -> Result<(), BadJob> {
    (0..times).try_for_each(job)
}

/// The result, if it is what it must be.
fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, right: T) -> Result<(), BadJob> {
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
        let (quotient, rest) = (value / step, value % step);
        bad += u64::from(quotient.wrapping_mul(step).wrapping_add(rest) != value);
    }
    expect("the number of wrong divisions", bad, 0)?;
    expect("the last of a sequence", value, jumped(steps))
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

/// What byte `place` of a file is.
fn byte_of(place: usize) -> u8 {
    (place % 251) as u8
}

fn contents() -> Vec<u8> {
    (0..FILE_BYTES).map(byte_of).collect()
}

/// Reads a file so many times, in blocks; the first job of a user makes it.
fn read(path: &Path, times: u32) -> Result<(), BadJob> {
    if !path.exists() {
        fs::write(path, contents())?;
    }
    let mut block = [0; FILE_BLOCK];
    for _ in 0..times {
        let mut file = File::open(path)?;
        for start in (0..FILE_BYTES).step_by(FILE_BLOCK) {
            file.read_exact(&mut block)?;
            let wrong = block.iter().zip(start..).filter(|(byte, place)| **byte != byte_of(*place)).count();
            expect("the number of wrong bytes in a file", wrong, 0)?;
        }
    }
    Ok(())
}

fn write(path: &Path, number: u32) -> Result<(), BadJob> {
    let block: Vec<u8> = (0..FILE_BLOCK).map(|place| byte_of(place + number as usize)).collect();
    let mut file = File::create(path)?;
    for _ in 0..FILE_BYTES / FILE_BLOCK {
        file.write_all(&block)?;
    }
    drop(file);
    let found = fs::read(path)?;
    fs::remove_file(path)?;
    expect("the length of a file", found.len(), FILE_BYTES)?;
    let wrong = found.chunks(FILE_BLOCK).filter(|part| *part != block).count();
    expect("the number of wrong blocks in a file", wrong, 0)
}

fn pipe(blocks: u32) -> Result<(), BadJob> {
    let (mut reader, mut writer) = io::pipe()?;
    let (mut sent, mut received) = ([0_u8; PAGE], [0_u8; PAGE]);
    for number in 0..blocks {
        sent[..4].copy_from_slice(&number.to_ne_bytes());
        sent[PAGE - 1] = number as u8;
        writer.write_all(&sent)?;
        reader.read_exact(&mut received)?;
        expect("a block from a pipe", received == sent, true)?;
    }
    Ok(())
}

fn datagram(messages: u32) -> Result<(), BadJob> {
    let (sender, receiver) = UnixDatagram::pair()?;
    let (mut sent, mut received) = ([0_u8; 512], [0_u8; 512]);
    for number in 0..messages {
        sent[..4].copy_from_slice(&number.to_ne_bytes());
        sender.send(&sent)?;
        let length = receiver.recv(&mut received)?;
        expect("the length of a message", length, sent.len())?;
        expect("a message", received == sent, true)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const ALL: [JobKind; 10] = [
        JobKind::Integer,
        JobKind::Float,
        JobKind::Linear,
        JobKind::Memory,
        JobKind::Sieve,
        JobKind::Text,
        JobKind::Read,
        JobKind::Write,
        JobKind::Pipe,
        JobKind::Datagram,
    ];

    #[test]
    fn every_job_has_its_known_result_at_every_scale() {
        let folder = tempfile::tempdir().unwrap();
        for (kind, scale) in ALL.into_iter().flat_map(|kind| [(kind, 1), (kind, 2)]) {
            run(kind, scale, folder.path()).unwrap_or_else(|error| panic!("{kind:?} {scale}: {error:?}"));
        }
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().flatten().map(|file| file.file_name()).collect();
        assert_eq!(left, ["read"], "written files are removed");
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
        let folder = tempfile::tempdir().unwrap();
        for kind in ALL {
            let mut times: Vec<f64> = (0..21)
                .map(|_| {
                    let began = Instant::now();
                    run(kind, 1, folder.path()).unwrap();
                    1e3 * began.elapsed().as_secs_f64()
                })
                .collect();
            times.sort_by(f64::total_cmp);
            println!("{kind:?}: p10 {:.1} ms, median {:.1} ms, p90 {:.1} ms", times[2], times[10], times[18]);
        }
    }
}
