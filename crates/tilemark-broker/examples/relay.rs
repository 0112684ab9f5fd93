//! A bare TCP relay to compare the broker's latency with: nothing but read and write.
//!
//! ```text
//! relay relay 127.0.0.1:7000            (takes a receiver, then a sender, and copies)
//! relay measure 127.0.0.1:7000 RATE SECONDS SIZE
//! ```
//!
//! `measure` sends by the same kind of schedule as the latency load, from a thread of its own, and prints the distribution of
//! intended time of sending to receipt.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroU64;

use rustix::thread::{ClockId, clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{Timespec, clock_gettime};

fn now_ns() -> u64 {
    let now = clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["relay", address] => relay(address),
        ["measure", address, rate, seconds, size] => {
            measure_latency(address, rate.parse()?, seconds.parse()?, size.parse()?)
        }
        _ => Err("usage: relay relay ADDRESS | relay measure ADDRESS RATE SECONDS SIZE".into()),
    }
}

fn relay(address: &str) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(address)?;
    loop {
        let (mut to, _) = listener.accept()?;
        let (mut from, _) = listener.accept()?;
        to.set_nodelay(true)?;
        let mut buffer = vec![0; 256 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            to.write_all(&buffer[..count])?;
        }
    }
}

fn measure_latency(address: &str, rate: u64, seconds: u64, size: usize) -> Result<(), Box<dyn Error>> {
    let mut receiver = TcpStream::connect(address)?;
    let mut sender = TcpStream::connect(address)?;
    sender.set_nodelay(true)?;
    let count = rate * seconds;
    let start_ns = now_ns() + 20_000_000;
    let receiving = std::thread::spawn(move || -> std::io::Result<Vec<u64>> {
        let mut latencies = Vec::new();
        let mut message = vec![0; size];
        for sequence in 0..count {
            receiver.read_exact(&mut message)?;
            latencies.push(now_ns() - (start_ns + sequence * 1_000_000_000 / rate));
        }
        Ok(latencies)
    });
    set_current_timer_slack(NonZeroU64::new(1))?;
    let message = vec![7; size];
    for sequence in 0..count {
        let at = start_ns + sequence * 1_000_000_000 / rate;
        let time = Timespec {
            tv_sec: (at / 1_000_000_000).cast_signed(),
            tv_nsec: (at % 1_000_000_000).cast_signed(),
        };
        while clock_nanosleep_absolute(ClockId::Monotonic, &time) == Err(rustix::io::Errno::INTR) {}
        sender.write_all(&message)?;
    }
    let mut latencies = receiving.join().map_err(|_| "the receiver panicked")??;
    latencies.sort_unstable();
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
    println!("p50 {:.1} us, p99 {:.1} us, p99.9 {:.1} us", at(0.5), at(0.99), at(0.999));
    Ok(())
}
