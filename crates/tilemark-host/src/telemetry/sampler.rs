//! Keeps files open and reads them all at once.

use std::fs;
use std::path::{Path, PathBuf};

use tilemark_sys::clock::{monotonic_ns, realtime_ns};

use super::energy::{Zone, open_zones, read_zones};
use super::files::{Buffer, OpenFile};
use super::parse::{
    parse_diskstats, parse_loadavg, parse_meminfo, parse_net_dev, parse_number, parse_pressure, parse_stat,
    parse_vmstat,
};
use super::process::Tracked;
use super::sample::{Sample, Watched};
use crate::error::HostError;

/// Reads the counters of the host and of watched processes; meant for once a second. One reading of 32 guests took half a
/// millisecond (docs/decisions/0014).
#[derive(Debug)]
pub struct Sampler {
    root: PathBuf,
    buffer: Buffer,
    stat: OpenFile,
    run_queue: Option<OpenFile>,
    memory: Option<OpenFile>,
    events: Option<OpenFile>,
    disks: Option<OpenFile>,
    interfaces: Option<OpenFile>,
    pressure: [Option<OpenFile>; 3],
    throttles: Vec<OpenFile>,
    energy: Vec<Zone>,
    watched: Vec<Tracked>,
    missing: Vec<String>,
}

impl Sampler {
    /// Opens the files of this host; a guest takes about five. The caller raises the limit of open files: what
    /// could not be opened is missing with its reason.
    ///
    /// # Errors
    /// Where `/proc/stat` cannot be opened: without it there is no telemetry.
    pub fn new(watched: &[Watched]) -> Result<Self, HostError> {
        Self::at_root(Path::new("/"), watched)
    }

    /// The same for a tree of files that represents a host.
    ///
    /// # Errors
    /// Where its `proc/stat` cannot be opened.
    pub fn at_root(root: &Path, watched: &[Watched]) -> Result<Self, HostError> {
        let stat = root.join("proc/stat");
        let mut missing = Vec::new();
        let mut open = |path: &str| match OpenFile::open(&root.join(path)) {
            Ok(file) => Some(file),
            Err(error) => {
                missing.push(format!("/{path}: {error}"));
                None
            }
        };
        Ok(Self {
            run_queue: open("proc/loadavg"),
            memory: open("proc/meminfo"),
            events: open("proc/vmstat"),
            disks: open("proc/diskstats"),
            // Of the network namespace in which the sampler was made, and stays so.
            interfaces: open("proc/thread-self/net/dev"),
            pressure: ["proc/pressure/cpu", "proc/pressure/memory", "proc/pressure/io"].map(&mut open),
            throttles: throttle_files(root, &mut missing),
            energy: open_zones(root).unwrap_or_else(|reason| {
                missing.push(reason);
                Vec::new()
            }),
            stat: OpenFile::open(&stat).map_err(|source| HostError::Telemetry { path: stat, source })?,
            buffer: Buffer::new(),
            watched: watched.iter().map(|watched| Tracked::new(root, watched)).collect(),
            root: root.to_owned(),
            missing,
        })
    }

    /// Watches other processes from now on.
    pub fn watch(&mut self, watched: &[Watched]) {
        self.watched = watched.iter().map(|watched| Tracked::new(&self.root, watched)).collect();
    }

    /// What this host does not report at all, so that each second need not say it.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Whether the host counts the energy of its processors, and lets it be read.
    pub fn counts_energy(&self) -> bool {
        !self.energy.is_empty()
    }

    /// Reads everything once. What cannot be read is missing in the sample.
    pub fn sample(&mut self) -> Sample {
        let start_ns = monotonic_ns();
        let clock_offset_ns = clock_offset_ns();
        let buffer = &mut self.buffer;
        let processor = self.stat.read_whole(buffer).ok().and_then(parse_stat);
        let watched = self.watched.iter_mut().map(|tracked| tracked.sample(buffer)).collect();
        let mut pressure = [None; 3];
        for (slot, file) in pressure.iter_mut().zip(&self.pressure) {
            *slot = read(file.as_ref(), buffer).and_then(parse_pressure);
        }
        let run_queue = read(self.run_queue.as_ref(), buffer).and_then(parse_loadavg);
        let memory = read(self.memory.as_ref(), buffer).and_then(parse_meminfo);
        let events = read(self.events.as_ref(), buffer).and_then(parse_vmstat);
        let disks = read(self.disks.as_ref(), buffer).map_or_else(Vec::new, parse_diskstats);
        let interfaces = read(self.interfaces.as_ref(), buffer).map_or_else(Vec::new, parse_net_dev);
        let throttles = sum(&self.throttles, buffer);
        let energy = read_zones(&self.energy, buffer);
        let took_ns = monotonic_ns().saturating_sub(start_ns);
        Sample {
            monotonic_ns: start_ns,
            clock_offset_ns,
            processor,
            run_queue,
            memory,
            events,
            disks,
            interfaces,
            pressure,
            throttles,
            energy,
            watched,
            took_ns,
            missing: Vec::new(),
        }
    }
}

fn read<'b>(file: Option<&OpenFile>, buffer: &'b mut Buffer) -> Option<&'b [u8]> {
    file?.read_whole(buffer).ok()
}

/// Nothing where there is no counter at all, or one cannot be read.
fn sum(files: &[OpenFile], buffer: &mut Buffer) -> Option<u64> {
    if files.is_empty() {
        return None;
    }
    files.iter().try_fold(0_u64, |sum, file| sum.checked_add(parse_number(file.read_small(buffer).ok()?)?))
}

/// Counters of thermal throttling, which only Intel's bare metal shows (thermal_throttle in the kernel's x86 code).
fn throttle_files(root: &Path, missing: &mut Vec<String>) -> Vec<OpenFile> {
    let processors = root.join("sys/devices/system/cpu");
    let mut files = Vec::new();
    for entry in fs::read_dir(&processors).into_iter().flatten().flatten() {
        let folder = entry.path().join("thermal_throttle");
        for counter in ["core_throttle_count", "package_throttle_count"] {
            files.extend(OpenFile::open(&folder.join(counter)).ok());
        }
    }
    if files.is_empty() {
        missing.push("/sys/devices/system/cpu/cpu*/thermal_throttle: no counter".into());
    }
    files
}

/// Realtime less monotonic; the monotonic clock is read on both sides, and of three tries the tightest counts.
fn clock_offset_ns() -> i64 {
    let mut tightest = u64::MAX;
    let mut offset = 0;
    for _ in 0..3 {
        let before = monotonic_ns();
        let realtime = realtime_ns();
        let width = monotonic_ns().saturating_sub(before);
        if width < tightest {
            tightest = width;
            offset = realtime.cast_signed() - (before + width / 2).cast_signed();
        }
    }
    offset
}
