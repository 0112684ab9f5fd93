//! Telemetry alone, as a run has it, until standard input ends; then one JSON line of what it cost: `telemetry GUEST… < PIPE`.
//! A guest is the process id of a QEMU, or the control group of a native twin. `cargo xtask bench telemetry` turns it on and off
//! beside a load.

use std::{
    io::Read,
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};
use tilemark_host::telemetry::{Sampler, Watched, WatchedKind, difference};

fn main() {
    let guests: Vec<Watched> = std::env::args()
        .skip(1)
        .map(|guest| match guest.parse() {
            Ok(pid) => watched(&guest, WatchedKind::QemuGuest, vec![pid], None),
            Err(_) => watched(&guest, WatchedKind::NativeGuest, Vec::new(), Some((&guest).into())),
        })
        .collect();
    let (sender, over) = mpsc::channel::<()>();
    std::thread::spawn(move || {
        // Whatever is read, only the end counts.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(sender);
    });
    let mut sampler = Sampler::new(&guests).expect("this host has /proc");
    let mut before = sampler.sample();
    let (start, mut seconds, mut readings) = (Instant::now(), 0, Vec::new());
    loop {
        seconds += 1;
        let left = (start + Duration::from_secs(seconds)).saturating_duration_since(Instant::now());
        if over.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
            break;
        }
        let after = sampler.sample();
        readings.push(difference(&before, &after).reading_us);
        before = after;
    }
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used =
        Duration::new(used.tv_sec.cast_unsigned(), u32::try_from(used.tv_nsec).expect("below a second"));
    println!(
        "{{\"watched\":{},\"reading_us\":{},\"processor_fraction\":{}}}",
        guests.len(),
        tilemark_units::median(readings).unwrap_or_default(),
        used.as_secs_f64() / start.elapsed().as_secs_f64()
    );
}

fn watched(name: &str, kind: WatchedKind, pids: Vec<u32>, group: Option<PathBuf>) -> Watched {
    Watched { name: format!("guest-{name}"), kind, pids, group }
}
