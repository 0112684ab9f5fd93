//! One reading of all counters.

use std::path::PathBuf;
use std::sync::Arc;

use super::energy::EnergyCount;
use super::parse::{
    DiskCounts, HostProcessor, InterfaceCounts, MemoryEvents, MemoryNow, PressureTotals, ProcessIo, RunQueue,
};

/// A set of processes that is watched under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Its name in every figure.
    pub name: String,
    /// What it is, which decides where its processor time is counted.
    pub kind: WatchedKind,
    /// Its processes. Where there are none, the members of `group` are taken, again at each reading.
    pub pids: Vec<u32>,
    /// Its version 2 control group, where it has one of its own: exact time, all children, pressure.
    pub group: Option<PathBuf>,
}

/// What a set of processes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, crate::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WatchedKind {
    /// A guest under QEMU: threads named `CPU n/KVM` or `CPU n/TCG` are its virtual processors. QEMU names them only when
    /// it is started with `-name NAME,debug-threads=on`.
    QemuGuest,
    /// A native twin: all it does is guest work.
    NativeGuest,
    /// What is sent to guests.
    Load,
    /// Tilemark itself: main process, keeper, telemetry.
    Tilemark,
    /// Commands of the user's own that run beside the load, such as a profiler.
    Hooks,
}

/// Processor time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) user_ns: u64,
    pub(super) system_ns: u64,
}

/// Whose time was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsedSource {
    /// The control group's: all that ever was in it.
    Group,
    /// The sum over the processes.
    Processes,
}

/// How QEMU runs a virtual processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VcpuKind {
    Kvm,
    Tcg,
}

/// One virtual processor's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VcpuTime {
    pub(super) kind: VcpuKind,
    pub(super) ran_ns: u64,
    pub(super) waited_ns: u64,
    pub(super) system_ns: u64,
    pub(super) guest_ns: u64,
}

/// Threads whose waiting was read: a QEMU guest's virtual processors, all threads of anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) waited_ns: u64,
    pub(super) threads: u64,
}

/// Counters of one watched set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WatchedSample {
    pub(super) name: Arc<str>,
    pub(super) kind: WatchedKind,
    /// Whose time `used` is.
    pub(super) source: UsedSource,
    /// Which processes these counters are of: counters of others must not be subtracted.
    pub(super) processes: u64,
    /// Which threads of these are read.
    pub(super) threads: u64,
    pub(super) used: Option<Used>,
    /// The virtual processors, summed; nothing where no thread has the name of one.
    pub(super) vcpus: Option<VcpuTime>,
    pub(super) waits: Option<Waits>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) io: Option<ProcessIo>,
    pub(super) pressure: [Option<PressureTotals>; 3],
    pub(super) missing: Vec<String>,
}

/// One reading of all counters, for [`super::difference`].
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// CLOCK_MONOTONIC at the reading of the processors, in nanoseconds.
    pub(super) monotonic_ns: u64,
    /// CLOCK_REALTIME less CLOCK_MONOTONIC, in nanoseconds: changes only where the clock is set or slewed.
    pub(super) clock_offset_ns: i64,
    pub(super) processor: Option<HostProcessor>,
    pub(super) run_queue: Option<RunQueue>,
    pub(super) memory: Option<MemoryNow>,
    pub(super) events: Option<MemoryEvents>,
    pub(super) disks: Vec<DiskCounts>,
    pub(super) interfaces: Vec<InterfaceCounts>,
    /// Of cpu, memory, io.
    pub(super) pressure: [Option<PressureTotals>; 3],
    pub(super) throttles: Option<u64>,
    /// Of each package of processors.
    pub(super) energy: Option<Vec<EnergyCount>>,
    pub(super) watched: Vec<WatchedSample>,
    pub(super) took_ns: u64,
    pub(super) missing: Vec<String>,
}

impl Sample {
    /// How long the reading took, in nanoseconds.
    pub fn took_ns(&self) -> u64 {
        self.took_ns
    }
}
