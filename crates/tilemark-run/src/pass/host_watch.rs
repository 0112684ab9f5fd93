//! The host while a repeat is measured: one reading a second, and what they come to.

use crate::job::quiet;
use std::{
    collections::HashMap,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};
use tilemark_guests::port_name;
use tilemark_host::telemetry::{Sampler, Second, Watched, WatchedSecond, difference};
use tilemark_plan::plan::Point;
use tilemark_record::{
    rows::{GuestRow, TelemetryRow},
    summary::{HostFigures, ProcessorFigures, ProgramUse},
};
use tilemark_sys::thread::ask_for_fifo;
use tilemark_units::mean;

/// The one who watches the host while a measurement lasts.
pub(crate) trait Watch: Sync {
    /// Reads the host once a second and returns what each second and all of them together were. `watched` returns, once the warm-up is over,
    /// whose processor time is read apart; `reading` is called at each reading. Ends early, with what it has,
    /// when `over` closes.
    fn watch(
        &self,
        watched: &dyn Fn() -> Vec<Watched>,
        reading: &dyn Fn(),
        times: Times,
        over: &Receiver<()>,
    ) -> HostRead;
}

/// What was read of the host while a measurement lasted.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct HostRead {
    /// Each second.
    pub(crate) seconds: Vec<Second>,
    /// From the first reading to the last. On a host that is too busy to be read in time, seconds are of different
    /// lengths and their parts do not belong together: no mean of them is what this is.
    pub(crate) whole: Option<Box<Second>>,
    /// Programs outside the run that used most over that time.
    pub(crate) others: Vec<ProgramUse>,
}

/// When a measurement happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// Its first counted moment: the warm-up is over.
    pub(crate) start: Instant,
    /// How many seconds it lasts.
    pub(crate) seconds: u32,
}

/// The host itself.
pub(crate) struct LiveWatch;

impl Watch for LiveWatch {
    fn watch(
        &self,
        watched: &dyn Fn() -> Vec<Watched>,
        reading: &dyn Fn(),
        times: Times,
        over: &Receiver<()>,
    ) -> HostRead {
        let mut read = HostRead::default();
        // On a host with hundreds of guests that all want to run, an ordinary thread would read too late. Refused without
        // root's rights, and done without.
        let _ = ask_for_fifo(FIFO_PRIORITY);
        // What runs inside guests has started its processes when the warm-up is over.
        if !lasts_until(times.start, over) {
            return read;
        }
        // Before the sampler: it opens some files for each of hundreds of guests.
        reading();
        // Without telemetry there is nothing to say about the host; the summary then has no seconds, which the
        // judge turns into "cannot tell".
        let Ok(mut sampler) = Sampler::new(&watched()) else { return read };
        let census_first = quiet::census();
        let first = sampler.sample();
        let mut before = first.clone();
        for second in 1..=times.seconds {
            let lasts = lasts_until(times.start + Duration::from_secs(second.into()), over);
            // A load that ends by its count may be done within its first second, which is then as long as there was of it.
            if !lasts && !read.seconds.is_empty() {
                break;
            }
            let after = sampler.sample();
            reading();
            read.seconds.push(difference(&before, &after));
            before = after;
            if !lasts {
                break;
            }
        }
        if read.seconds.is_empty() {
            return read;
        }
        let census = census_first.zip(quiet::census());
        let whole = difference(&first, &before);
        let all_ns = whole.seconds * 1e9 * whole.threads.len() as f64;
        // Kernel threads that cannot be seen are among the others.
        let kernel_ns = census.as_ref().and_then(|(first, last)| last.kernel_ns_since(first));
        read.others = census.map(|(first, last)| quiet::programs(&first, &last, all_ns)).unwrap_or_default();
        read.whole = Some(Box::new(match kernel_ns {
            Some(used_ns) => whole.with_kernel_threads(used_ns),
            None => whole,
        }));
        read
    }
}

/// That of the load's senders: none is interrupted for a reading.
const FIFO_PRIORITY: i32 = 1;

/// Waits for a moment; says whether the measurement was not over before.
fn lasts_until(moment: Instant, over: &Receiver<()>) -> bool {
    let left = moment.saturating_duration_since(Instant::now());
    over.recv_timeout(left) == Err(RecvTimeoutError::Timeout)
}

/// The rows of `telemetry.csv`.
pub(crate) fn rows(point: usize, repeat: u32, seconds: &[Second]) -> Vec<TelemetryRow> {
    (0..).zip(seconds).map(|(second, read)| row(point, repeat, second, read)).collect()
}

fn row(point: usize, repeat: u32, second: u32, read: &Second) -> TelemetryRow {
    let processor = processor(read);
    TelemetryRow {
        point,
        repeat,
        second,
        guest_work: processor.guest_work,
        guest_overhead: processor.guest_overhead,
        load: processor.load,
        tilemark: processor.tilemark,
        // Kernel threads are not read each second: here they are among the others, and so are hooks.
        other: processor.other + processor.kernel + processor.hooks,
        steal: processor.steal,
        idle: processor.idle,
        memory_available_bytes: read.memory.map(|memory| memory.available_bytes),
        pressure_cpu_some: read.pressure.cpu.map(|pressure| pressure.some),
        pressure_memory_some: read.pressure.memory.map(|pressure| pressure.some),
        pressure_io_some: read.pressure.io.map(|pressure| pressure.some),
        disk_busy_fraction: disk_busy(read),
        network_bytes: network_bytes(read),
        run_queue_wait_fraction: run_queue_wait(read),
        power_w: read.power_w,
    }
}

/// The rows of `guests.csv`, made while they are written: a point may have a thousand guests for many minutes.
pub(crate) fn guest_rows(point: &Point, repeat: u32, seconds: &[Second]) -> impl Iterator<Item = GuestRow> {
    let ports: HashMap<&str, String> =
        point.guests.iter().map(|guest| (guest.name.as_str(), port_name(guest.index))).collect();
    (0..).zip(seconds).flat_map(move |(second, read)| {
        let moved: HashMap<&str, u64> = read
            .interfaces
            .iter()
            .map(|port| (port.name.as_str(), port.received_bytes + port.sent_bytes))
            .collect();
        let guests = read.watched.iter().filter(|watched| is_guest(watched.kind));
        let rows = guests.map(|guest| GuestRow {
            point: point.index,
            repeat,
            second,
            network_bytes: ports.get(guest.name.as_str()).and_then(|port| moved.get(port.as_str())).copied(),
            ..guest_row(guest, read.seconds)
        });
        rows.collect::<Vec<_>>()
    })
}

/// What was read of a guest's processes in so many seconds.
fn guest_row(guest: &WatchedSecond, seconds: f64) -> GuestRow {
    GuestRow {
        guest: guest.name.clone(),
        processor_s: guest.threads_used.map(|threads| threads * seconds),
        guest_work_s: guest.guest_work.map(|threads| threads * seconds),
        run_queue_wait_fraction: guest.run_queue_wait,
        resident_bytes: guest.resident_bytes,
        disk_read_bytes: guest.read_bytes,
        disk_written_bytes: guest.written_bytes,
        ..GuestRow::default()
    }
}

/// Where the processors went. What the kernel accounts to interrupts and to no process serves guests for
/// the most part, and is counted with the host's work for them.
fn processor(read: &Second) -> ProcessorFigures {
    let Some(split) = read.processor else { return ProcessorFigures::default() };
    ProcessorFigures {
        guest_work: split.guest_work.unwrap_or(split.guests),
        guest_overhead: split.host_for_guests.unwrap_or(0.0) + split.interrupts,
        load: split.load,
        tilemark: split.tilemark,
        hooks: split.hooks,
        kernel: split.kernel.unwrap_or(0.0),
        other: split.other,
        steal: split.steal,
        idle: split.idle,
    }
}

fn disk_busy(read: &Second) -> Option<f64> {
    // Loop devices are files on other disks or in memory and would be counted twice.
    let real = read.disks.iter().filter(|disk| !disk.name.starts_with("loop"));
    real.map(|disk| disk.busy).max_by(f64::total_cmp)
}

fn network_bytes(read: &Second) -> Option<f64> {
    let bridge = read.interfaces.iter().find(|interface| interface.name.starts_with("tilemark"))?;
    Some((bridge.received_bytes + bridge.sent_bytes) as f64)
}

/// What the readings of a repeat come to.
pub(crate) fn figures(read: &HostRead, memory_total: u64, guest_threads: &[u32]) -> HostFigures {
    let seconds = &read.seconds;
    let whole = read.whole.as_deref();
    let pressure = |of: fn(&Second) -> Option<f64>| whole.and_then(of);
    let swapped = |read: &Second| {
        let memory = read.memory?;
        Some((memory.swap_in_bytes? + memory.swap_out_bytes?) / PAGE_BYTES)
    };
    HostFigures {
        seconds: u32::try_from(seconds.len()).unwrap_or(u32::MAX),
        processor: whole.map(processor).unwrap_or_default(),
        guest_processors_busy: whole.and_then(|read| busy_of(read, guest_threads)),
        run_queue_wait_fraction: weighted_mean(seconds, run_queue_wait),
        memory_available_min: seconds.iter().filter_map(|read| Some(read.memory?.available_bytes)).min(),
        memory_total,
        swapped_pages: sum_of(seconds, swapped),
        oom_kills: sum_of(seconds, |read| read.memory?.oom_kills),
        throttled: sum_of(seconds, |read| read.throttles),
        clock_step_ms_max: seconds
            .iter()
            .map(|read| read.clock_step_ns.unsigned_abs() as f64 / 1e6)
            .fold(0.0, f64::max),
        disk_busy_fraction: whole.and_then(disk_busy),
        pressure_cpu_some: pressure(|read| read.pressure.cpu.map(|pressure| pressure.some)),
        pressure_memory_some: pressure(|read| read.pressure.memory.map(|pressure| pressure.some)),
        pressure_io_some: pressure(|read| read.pressure.io.map(|pressure| pressure.some)),
        network_bytes_per_s: whole.and_then(|read| Some(network_bytes(read)? / read.seconds)),
        // Not of the whole, in which counters may begin again more than once.
        power_w: weighted_mean(seconds, |read| read.power_w),
        others: read.others.clone(),
    }
}

/// Linux on x86-64.
const PAGE_BYTES: u64 = 4096;

fn busy_of(read: &Second, threads: &[u32]) -> Option<f64> {
    mean(read.threads.iter().filter(|thread| threads.contains(&thread.id)).map(|thread| thread.busy))
}

/// Over the seconds of which it is known, each by its length: a server whose threads come and go is known in many
/// seconds and never over the whole time.
fn weighted_mean(seconds: &[Second], of: impl Fn(&Second) -> Option<f64>) -> Option<f64> {
    let known = seconds.iter().filter_map(|read| Some((of(read)?, read.seconds)));
    let (sum, length) =
        known.fold((0.0, 0.0), |(sum, length), (value, seconds)| (sum + value * seconds, length + seconds));
    (length > 0.0).then(|| sum / length)
}

fn run_queue_wait(read: &Second) -> Option<f64> {
    mean(
        read.watched
            .iter()
            .filter(|watched| is_guest(watched.kind))
            .filter_map(|watched| watched.run_queue_wait),
    )
}

fn is_guest(kind: tilemark_host::telemetry::WatchedKind) -> bool {
    use tilemark_host::telemetry::WatchedKind;
    matches!(kind, WatchedKind::QemuGuest | WatchedKind::NativeGuest)
}

/// A sum over seconds is known only if every second is.
fn sum_of(seconds: &[Second], of: impl Fn(&Second) -> Option<u64>) -> Option<u64> {
    if seconds.is_empty() {
        return None;
    }
    seconds.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of, quiet_guest, quiet_second};
    use std::sync::mpsc;
    use tilemark_host::telemetry::{InterfaceSecond, ProcessorSplit, WatchedKind};

    #[test]
    fn a_watch_ends_at_once_when_the_measurement_is_over() {
        let (going_on, over) = mpsc::channel();
        drop(going_on);
        let times = Times { start: Instant::now() + Duration::from_secs(3600), seconds: 3600 };
        assert_eq!(
            LiveWatch.watch(&|| panic!("nobody is looked up"), &|| (), times, &over),
            HostRead::default()
        );
        let times = Times { start: Instant::now(), ..times };
        assert_eq!(LiveWatch.watch(&Vec::new, &|| (), times, &over), HostRead::default());
    }

    #[test]
    fn a_measurement_that_ends_within_its_first_second_has_one_reading() {
        let (going_on, over) = mpsc::channel::<()>();
        let going_on = std::cell::RefCell::new(Some(going_on));
        let times = Times { start: Instant::now(), seconds: 3600 };
        // Over as soon as the watch has begun.
        let read = LiveWatch.watch(&Vec::new, &|| drop(going_on.take()), times, &over);
        assert_eq!((read.seconds.len(), read.whole.is_some()), (1, true));
    }

    #[test]
    fn a_host_too_busy_to_be_read_in_time_has_figures_of_the_whole_time() {
        let with = |seconds, other| {
            let quiet = quiet_second();
            let split = quiet.processor.map(|split| ProcessorSplit { other, ..split });
            Second { seconds, processor: split, ..quiet }
        };
        // The reading that came late left a moment in which somebody had one tick.
        let seconds = vec![with(1.96, 0.0), with(0.04, 1.0)];
        let read = HostRead { seconds, whole: Some(Box::new(with(2.0, 0.02))), others: Vec::new() };
        let figures = figures(&read, 1 << 30, &[]);
        assert_eq!((figures.seconds, figures.processor.other), (2, 0.02));
    }

    #[test]
    fn power_is_the_mean_of_the_seconds_by_their_length() {
        let with = |seconds, power_w| Second { seconds, power_w, ..quiet_second() };
        let seconds = vec![with(1.0, Some(100.0)), with(3.0, Some(60.0)), with(1.0, None)];
        let power: Vec<_> = rows(0, 1, &seconds).iter().map(|row| row.power_w).collect();
        assert_eq!(power, [Some(100.0), Some(60.0), None]);
        let whole = Some(Box::new(with(5.0, Some(1.0))));
        assert_eq!(
            figures(&HostRead { seconds, whole, ..HostRead::default() }, 1 << 30, &[]).power_w,
            Some(70.0)
        );
        let silent = HostRead { seconds: vec![with(1.0, None)], ..HostRead::default() };
        assert_eq!(figures(&silent, 1 << 30, &[]).power_w, None);
    }

    #[test]
    fn each_guest_has_a_row_with_what_went_through_its_own_port() {
        let point = plan_of(TILE, &ladder()).points[0].clone();
        let port = |index, received_bytes, sent_bytes| InterfaceSecond {
            name: port_name(index),
            received_bytes,
            received_packets: 0,
            received_drops: 0,
            sent_bytes,
            sent_packets: 0,
            sent_drops: 0,
        };
        let guest = |name: &str, kind| WatchedSecond { kind, ..quiet_guest(name) };
        let read = Second {
            seconds: 1.5,
            interfaces: vec![port(1, 5, 6), port(0, 100, 20)],
            watched: vec![
                guest("tile-001-web", WatchedKind::QemuGuest),
                guest("tile-001-idle", WatchedKind::QemuGuest),
                guest("load", WatchedKind::Load),
            ],
            ..quiet_second()
        };
        let rows: Vec<GuestRow> = guest_rows(&point, 2, &[read.clone(), read]).collect();
        let found: Vec<_> = rows.iter().map(|row| (row.second, &*row.guest, row.network_bytes)).collect();
        let of = |second| [(second, "tile-001-web", Some(120)), (second, "tile-001-idle", Some(11))];
        assert_eq!(found, [of(0), of(1)].concat());
        assert_eq!((rows[0].point, rows[0].repeat), (point.index, 2));
        // Half a thread for one and a half seconds.
        assert_eq!((rows[0].processor_s, rows[0].run_queue_wait_fraction), (Some(0.75), Some(0.125)));
    }
}
