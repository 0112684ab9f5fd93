//! The short run: each target takes its first inputs and random changes of them. `cargo xtask soak fuzzing` is the long one; without
//! cargo-fuzz `TILEMARK_TEST_FUZZ=record:60` makes this one take other inputs of one target for so many seconds.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use std::{
    fs,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tilemark_fuzz::{ALL, Mutator, Target};

/// No target gets more random changes than this, nor longer than [`LENGTH`]: slow ones get fewer.
const CHANGES: u64 = 4000;
/// Time of a target.
const LENGTH: Duration = Duration::from_millis(700);
/// One input that takes longer hangs: thousands of times what any takes.
const HANGS: Duration = Duration::from_secs(120);
/// No target may make the process so large, in bytes: that of the long run.
const MEMORY: u64 = 512 << 20;

/// The input under way, for whoever finds that it hangs or panics.
static UNDER_WAY: Mutex<(&str, Vec<u8>)> = Mutex::new(("", Vec::new()));
static INPUTS: AtomicU64 = AtomicU64::new(0);

#[test]
fn no_parser_of_foreign_bytes_panics_hangs_or_takes_memory_without_end() {
    watch_for_hangs();
    name_the_input_of_a_panic();
    let wanted = std::env::var("TILEMARK_TEST_FUZZ").ok();
    let wanted = wanted.as_deref().and_then(|wanted| wanted.split_once(':'));
    for target in &ALL {
        let length = match wanted {
            Some((name, seconds)) if name == target.name => Duration::from_secs(seconds.parse().unwrap()),
            Some(_) => continue,
            None => LENGTH,
        };
        let before = largest();
        let taken = run(target, length);
        println!("{:<20} {taken} inputs, largest {} MiB", target.name, largest() >> 20);
        assert!(largest() < MEMORY.max(before), "{} took {} MiB", target.name, largest() >> 20);
    }
}

fn run(target: &Target, length: Duration) -> u64 {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{}", target.name);
    let is_short = length == LENGTH;
    let mut mutator = Mutator::new(if is_short { 11 } else { u64::from(std::process::id()) });
    let began = Instant::now();
    seeds.iter().for_each(|seed| take(target, seed));
    let mut changes = 0;
    while began.elapsed() < length && (changes < CHANGES || !is_short) {
        take(target, &mutator.change(&seeds));
        changes += 1;
    }
    changes + seeds.len() as u64
}

fn take(target: &Target, bytes: &[u8]) {
    *UNDER_WAY.lock().unwrap() = (target.name, bytes.to_vec());
    INPUTS.fetch_add(1, Ordering::Relaxed);
    (target.take)(bytes);
}

fn watch_for_hangs() {
    thread::spawn(|| {
        let mut seen = 0;
        loop {
            thread::sleep(HANGS);
            let now = INPUTS.load(Ordering::Relaxed);
            if now == seen {
                eprintln!("an input hangs: {}", kept_input());
                std::process::abort();
            }
            seen = now;
        }
    });
}

fn name_the_input_of_a_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        usual(panic);
        eprintln!("the input: {}", kept_input());
    }));
}

/// Writes the input under way where a developer can replay it.
fn kept_input() -> String {
    let (name, bytes) = &*UNDER_WAY.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let file = std::env::temp_dir().join(format!("tilemark-fuzz-{name}-{}", std::process::id()));
    match fs::write(&file, bytes) {
        Ok(()) => format!("cargo run -p tilemark-fuzz -- replay {name} {}", file.display()),
        Err(error) => format!("{name}, {} bytes, not written: {error}", bytes.len()),
    }
}

/// The most memory that this process has had, in bytes.
fn largest() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
