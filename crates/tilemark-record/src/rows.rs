//! The time lines of a repeat, one row a second: `seconds.csv`, `telemetry.csv` and `guests.csv`.

use serde::{Deserialize, Serialize};

/// One second of one load, all its guests together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondRow {
    /// The point, by its index in the plan.
    pub point: usize,
    /// Which repeat, counted from 1.
    pub repeat: u32,
    /// The load's name.
    pub load: String,
    /// Which second of the measurement, from 0.
    pub second: u32,
    /// Requests whose intended start lay in it.
    pub offered: u64,
    /// Of these, answered correctly.
    pub completed: u64,
    /// Of these, failed or answered wrongly.
    pub errors: u64,
    /// Median latency of these in milliseconds; empty without answers.
    pub p50_ms: Option<f64>,
    /// Their 99th percentile.
    pub p99_ms: Option<f64>,
    /// Their largest.
    pub max_ms: Option<f64>,
}

/// One second of the host. Processor fractions are parts of all threads, together 1.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TelemetryRow {
    /// The point, by its index in the plan.
    pub point: usize,
    /// Which repeat, counted from 1.
    pub repeat: u32,
    /// Which second of the measurement, from 0.
    pub second: u32,
    /// Work of guests.
    pub guest_work: f64,
    /// QEMU and the host's kernel on behalf of guests.
    pub guest_overhead: f64,
    /// The load.
    pub load: f64,
    /// Tilemark itself.
    pub tilemark: f64,
    /// Everybody else.
    pub other: f64,
    /// Taken by the hypervisor under this host.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
    /// Memory that could be had, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// Pressure: part of the second in which some task waited for a processor.
    pub pressure_cpu_some: Option<f64>,
    /// Pressure: part of the second in which some task waited for memory.
    pub pressure_memory_some: Option<f64>,
    /// Pressure: part of the second in which some task waited for a disk.
    pub pressure_io_some: Option<f64>,
    /// Busiest disk: part of the second with requests in flight.
    pub disk_busy_fraction: Option<f64>,
    /// Bytes over the run network in this second.
    pub network_bytes: Option<f64>,
    /// Part of the second in which guests' threads were ready and waited for a processor, per vCPU: the mean over guests.
    #[serde(default)]
    pub run_queue_wait_fraction: Option<f64>,
    /// Mean power of the processors' packages in watts.
    #[serde(default)]
    pub power_w: Option<f64>,
}

/// One second of one guest, seen from the host. What was not read is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestRow {
    /// The point, by its index in the plan.
    pub point: usize,
    /// Which repeat, counted from 1.
    pub repeat: u32,
    /// Which second of the measurement, from 0.
    pub second: u32,
    /// Its name, such as `tile-003-web`.
    pub guest: String,
    /// Processor seconds that its processes used.
    pub processor_s: Option<f64>,
    /// Of these, work of the guest itself.
    pub guest_work_s: Option<f64>,
    /// Part of the second in which its threads were ready and waited for a processor, per vCPU.
    pub run_queue_wait_fraction: Option<f64>,
    /// Resident memory of its processes, in bytes; pages shared with others count fully.
    pub resident_bytes: Option<u64>,
    /// Bytes that it read from disks.
    pub disk_read_bytes: Option<u64>,
    /// Bytes that it wrote to disks.
    pub disk_written_bytes: Option<u64>,
    /// Bytes over its port of the run network, both ways.
    pub network_bytes: Option<u64>,
}
