//! The figures of one second. Fractions are of all processor threads unless said otherwise; 0 to 1.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sample::WatchedKind;

/// What happened between two readings. What was not measured is null, with a reason in `missing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// End of the second on CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns_end: u64,
    /// How long it was, in seconds: never exactly one.
    pub seconds: f64,
    /// How far CLOCK_REALTIME moved against CLOCK_MONOTONIC, in nanoseconds. NTP slews by at most 500,000 in a second.
    pub clock_step_ns: i64,
    /// How long the reading at its end took, in microseconds.
    pub reading_us: f64,
    /// Where the processors' time went.
    pub processor: Option<ProcessorSplit>,
    /// Each processor thread.
    pub threads: Vec<ThreadSecond>,
    /// Tasks that ran or waited to run at the end of the second, the reader included.
    pub runnable: Option<u64>,
    /// The kernel's mean of that over a minute, tasks waiting for disks included.
    pub load_1m: Option<f64>,
    /// Memory.
    pub memory: Option<MemorySecond>,
    /// How long work waited.
    pub pressure: PressureSecond,
    /// Thermal throttling events, summed over counters that may count the same event.
    pub throttles: Option<u64>,
    /// Mean power of the processors' packages together, in watts; null where the host does not count it.
    pub power_w: Option<f64>,
    /// Disks that had a request.
    pub disks: Vec<DiskSecond>,
    /// Network interfaces of the sampler's namespace.
    pub interfaces: Vec<InterfaceSecond>,
    /// Each watched set, in the order given.
    pub watched: Vec<WatchedSecond>,
    /// What is missing and why.
    pub missing: Vec<String>,
}

impl Second {
    /// The same with what the kernel's threads used, in nanoseconds, taken out of the others.
    #[must_use]
    pub fn with_kernel_threads(mut self, used_ns: u64) -> Self {
        let all_ns = self.seconds * 1e9 * self.threads.len() as f64;
        if let Some(split) = self.processor.as_mut().filter(|_| all_ns > 0.0) {
            let kernel = (used_ns as f64 / all_ns).min(split.other);
            split.kernel = Some(kernel);
            split.other -= kernel;
        }
        self
    }
}

/// Where the time of all processor threads went. The parts add up to 1 within the kernel's own accounting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessorSplit {
    /// Everything that guests' processes used.
    pub guests: f64,
    /// Of that, work of the guests themselves; null where some QEMU's threads could not be distinguished.
    pub guest_work: Option<f64>,
    /// Of that, QEMU and the host's kernel on behalf of guests; null likewise.
    pub host_for_guests: Option<f64>,
    /// The load.
    pub load: f64,
    /// Tilemark itself.
    pub tilemark: f64,
    /// The user's own hooks.
    #[serde(default)]
    pub hooks: f64,
    /// The kernel's own threads, which work for whoever uses the host. Read over a whole measurement only; absent in a second of
    /// it, where they are among the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<f64>,
    /// Every other process: foreign load.
    pub other: f64,
    /// Interrupts and deferred packet work that the kernel accounts to nobody. Much of it serves guests and load; it is kept
    /// apart so that it is never taken for foreign load.
    pub interrupts: f64,
    /// Idle, or waiting for a disk.
    pub idle: f64,
    /// Given to others by the hypervisor above this host.
    pub steal: f64,
}

/// One processor thread; fractions of that thread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadSecond {
    /// Its number.
    pub id: u32,
    /// Neither idle nor stolen.
    pub busy: f64,
    /// Stolen.
    pub steal: f64,
}

/// Memory at the end of the second and what happened to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemorySecond {
    /// Could be given without swapping.
    pub available_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
    /// Read from swap.
    pub swap_in_bytes: Option<u64>,
    /// Written to swap.
    pub swap_out_bytes: Option<u64>,
    /// Processes killed because memory ran out.
    pub oom_kills: Option<u64>,
}

/// Pressure of the whole host, or of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PressureSecond {
    /// For processors.
    pub cpu: Option<Pressure>,
    /// For memory.
    pub memory: Option<Pressure>,
    /// For disks.
    pub io: Option<Pressure>,
}

/// Fractions of the second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pressure {
    /// In which at least one task waited.
    pub some: f64,
    /// In which all waited.
    pub full: Option<f64>,
}

/// One disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DiskSecond {
    /// The kernel's name.
    pub name: String,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Fraction of the second with a request open.
    pub busy: f64,
    /// Mean number of open requests.
    pub queue: f64,
}

/// One network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InterfaceSecond {
    /// Its name.
    pub name: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets lost on the way in.
    pub received_drops: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets lost on the way out.
    pub sent_drops: u64,
}

/// One watched set. Processor figures are in threads: 1.0 is one processor thread used for the whole second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchedSecond {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: WatchedKind,
    /// All that its processes used.
    pub threads_used: Option<f64>,
    /// Of that, in the kernel.
    pub threads_used_kernel: Option<f64>,
    /// Work of the guest itself; null for what is no guest.
    pub guest_work: Option<f64>,
    /// QEMU and the host's kernel on behalf of the guest.
    pub host_for_guest: Option<f64>,
    /// Mean fraction of the second in which a thread that matters (a guest's virtual processors, each thread of anything
    /// else) could have run and had no processor: the host's own steal, as this set felt it.
    pub run_queue_wait: Option<f64>,
    /// Resident memory, in bytes; pages shared with others count fully.
    pub resident_bytes: Option<u64>,
    /// Bytes read from disks.
    pub read_bytes: Option<u64>,
    /// Bytes written to disks.
    pub written_bytes: Option<u64>,
    /// Pressure of its control group, where it has one.
    pub pressure: PressureSecond,
}
