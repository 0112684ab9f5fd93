//! One repeat of one point in figures: what the judge judges. Stored as `summary.json` of the repeat.

use crate::JsonSchema;
use crate::{
    clients::ClientFigures,
    histogram::{self, BadHistogram},
    jobs::JobsFigures,
    placement::PlaceFigures,
    result::{Fairness, LatencyMs, LatenessUs, Measured},
    store::StoreFigures,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use hdrhistogram::{
    Histogram,
    serialization::{Serializer as _, V2DeflateSerializer},
};
use serde::{Deserialize, Serialize};
use tilemark_plan::{
    plan::Backend,
    scenario::{LoopKind, Role},
};

pub use tilemark_plan::workload::{Better, CommandFigure, IncidentKind};

/// One repeat of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RepeatSummary {
    /// The point, by its index in the plan.
    pub point: usize,
    /// Which repeat, counted from 1.
    pub repeat: u32,
    /// The block that it belongs to.
    pub block: u32,
    /// When its measurement began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// How its guests run.
    pub backend: Backend,
    /// Every load of the scenario, all its guests together.
    pub loads: Vec<LoadFigures>,
    /// The host while it was measured.
    pub host: HostFigures,
    /// What happened that makes figures doubtful and is no figure itself: a clock step, an OOM kill.
    pub incidents: Vec<Incident>,
    /// Memory of the guests, where it was read.
    pub memory: Option<MemoryFigures>,
    /// Seconds from the first start until all guests were ready; templates were ready before.
    #[serde(default)]
    pub ready_s: Option<f64>,
    /// The same of each guest, in percentiles over guests.
    #[serde(default)]
    pub seconds_to_ready: Option<SecondsToReady>,
    /// What the guests of a tile used while they were measured, by their names in the tile. Absent in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<GuestUse>,
    /// Errors that the host's kernel reported since the repeat before, in its words; the first of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernel_errors: Vec<String>,
    /// Settings of the host that any point of the plan sets, read back while it was measured. Absent where none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingRead>,
    /// Where its guests were while it was measured, where the plan puts any in a place. Absent otherwise, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<PlaceFigures>,
    /// Whether each thread of the load was on the processors that the plan gives it, where the load has threads of ours. Absent in older
    /// records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_load_in_place: Option<bool>,
    /// What it shares with other repeats and may differ beyond them; nothing in records from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
    /// The user's own commands that ran around its measured seconds. Absent where none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRun>,
    /// Client machines that sent loads. Absent where none did, and in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientFigures>,
}

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HookKind {
    /// `--hook-before`: it is started when the measured seconds begin.
    Before,
    /// `--hook-after`: it is started when they are over.
    After,
}

impl HookKind {
    /// Its name in files and in the environment.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// A command of the user's own that ran around the measured seconds. What it printed is in `hook-before.txt` or `hook-after.txt`
/// beside the summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HookRun {
    /// Which one.
    pub hook: HookKind,
    /// How long it ran, in seconds.
    pub seconds: f64,
    /// Why it failed, in words. Absent where it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A setting of the host while a repeat was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingRead {
    /// Its key.
    pub key: String,
    /// What was read: the key may mean several files.
    pub what: String,
    /// Where it is in force: `host`, `run-network` or `process`.
    pub place: String,
    /// The value that the repeat set; absent where its side leaves it as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Its value before the repeat.
    pub before: Option<String>,
    /// Its value while it was measured. Null where it could not be read.
    pub value: Option<String>,
    /// Of a vector of interrupts: the processors to which the kernel delivered it then. Absent of anything else, in older records, and
    /// where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<String>,
    /// Whether one of these is none of those that the repeat set.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_elsewhere: bool,
}

/// What guests with one name used, over all tiles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuestUse {
    /// Their name in the tile, such as `web`.
    pub guest: String,
    /// What they are for.
    pub role: Role,
    /// How many of them were read.
    pub guests: u32,
    /// Virtual processors of each.
    pub vcpus: u32,
    /// Processors that one of them used, on average over guests and time.
    pub processors: f64,
    /// Processors that the busiest of them used on average over time.
    pub processors_max: f64,
    /// Bytes a second that one of them read from and wrote to disks, on average.
    pub disk_bytes_per_s: Option<f64>,
    /// Bytes a second over the port of one of them in the run network, both ways, on average.
    pub network_bytes_per_s: Option<f64>,
}

/// The levels above a repeat: repeats that share one share what chance gave it, so they are no independent witnesses of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Levels {
    /// Which session of the record, from 1: the first, and one for each `--more`.
    pub session: u32,
    /// The host's boot: the same word for the same boot, and nothing more. Part of the SHA-256 of the kernel's boot id.
    pub boot: String,
    /// The templates that its guests were cloned from, by their numbers within the session; none where guests were booted.
    pub templates: Vec<u64>,
}

/// Times until guests were ready, in seconds, over all guests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SecondsToReady {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The slowest.
    pub max: f64,
}

impl SecondsToReady {
    /// Of these times; `None` of none.
    pub fn of(mut seconds: Vec<f64>) -> Option<Self> {
        seconds.sort_by(f64::total_cmp);
        Some(Self { p50: rank(&seconds, 0.5)?, p99: rank(&seconds, 0.99)?, max: rank(&seconds, 1.0)? })
    }
}

/// The smallest value that so large a part of all values does not pass (nearest rank).
fn rank(sorted: &[f64], part: f64) -> Option<f64> {
    let place = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

/// A load over all guests that it was sent to, in one repeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadFigures {
    /// Its name in the scenario.
    pub name: String,
    /// What its guests are for.
    pub role: Role,
    /// Open or closed loop.
    #[serde(rename = "loop")]
    pub loop_kind: LoopKind,
    /// From where it was measured.
    pub measured: Measured,
    /// What is counted: `requests`, `messages`, `orders`.
    pub unit: String,
    /// Length of the measurement's schedule in seconds. In older records: until the last answer.
    pub seconds: f64,
    /// Requests whose intended start came.
    pub offered: u64,
    /// Requests answered correctly.
    pub completed: u64,
    /// Right answers that came within those seconds, also to requests of the warm-up: what a rate is made of. Absent in older
    /// records, whose `seconds` go to the last answer instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_in_time: Option<u64>,
    /// Requests that failed.
    pub failed: u64,
    /// Requests answered with the wrong bytes.
    pub wrong: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Latency over all guests, from merged histograms.
    pub latency_ms: LatencyMs,
    /// The histogram behind `latency_ms`, so that repeats can be merged. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<EncodedHistogram>,
    /// How many answers were good and how many tolerable, where the workload says within which times they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
    /// How late requests were sent.
    pub send_lateness_us: LatenessUs,
    /// Processor seconds that the load process used for it.
    pub client_cpu_s: f64,
    /// The busiest load thread, as a part of its processor, 0 to 1, in its busiest second and on average.
    pub sender_busy: Busy,
    /// Each guest.
    pub guests: Vec<GuestFigures>,
    /// Fairness over the guests by requests completed; absent with one guest.
    pub fairness: Option<Fairness>,
    /// The first errors in words.
    pub errors: Vec<String>,
    /// Where it had not settled in this repeat. Absent where it had, where too few seconds say so, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// What other tiles were served around a surge. Absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<AroundSurge>,
    /// What a store load also found, for each guest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub store: Vec<StoreFigures>,
    /// What a load of jobs also found, for each guest. Absent in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobsFigures>,
    /// The one figure of a command, the mean over its guests, in place of a rate. Absent of other loads, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<CommandFigure>,
}

/// The guests of a load in other tiles than the one with the surge, in whole seconds of the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AroundSurge {
    /// Until it began.
    pub before: SurgePart,
    /// While it lasted.
    pub during: SurgePart,
    /// From its end to the end of the measurement.
    pub after: SurgePart,
}

/// One of the three times around a surge, by the intended start of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SurgePart {
    /// Its length.
    pub seconds: u32,
    /// Requests whose intended start came.
    pub offered: u64,
    /// Those that were answered correctly.
    pub completed: u64,
    /// Those that failed or were answered with the wrong bytes.
    pub errors: u64,
    /// Mean latency in milliseconds. None in any part where a program reports its latencies at the end only.
    pub mean_ms: Option<f64>,
    /// 99th percentile of latency in milliseconds, where 20 requests or more lie beyond it.
    pub p99_ms: Option<f64>,
}

/// A load that had not settled: its seconds changed from the first half of the measurement to the second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// Which figure of a second.
    pub what: DriftOf,
    /// Geometric mean over the seconds of the first half: milliseconds, or answers a second.
    pub first_half: f64,
    /// The same of the second half.
    pub second_half: f64,
    /// The test's level: a repeat that had settled is said to drift at most so often.
    pub p: f64,
}

/// A figure of a second that can drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DriftOf {
    /// The median latency.
    Latency,
    /// What was answered, of a load in a closed loop.
    Throughput,
}

impl LoadFigures {
    /// Right answers a second: those that came within the schedule's time, over its length. Of a command with one figure: that.
    pub fn rate(&self) -> f64 {
        if let Some(figure) = &self.figure {
            return figure.value;
        }
        self.completed_in_time.unwrap_or(self.completed) as f64 / self.seconds
    }

    /// Whether a guest's load ended with its guest, before it reported what it did: that nothing was asked of the guest is then not known.
    /// Never of older records, which do not show it.
    pub fn has_lost(&self, guest: &GuestFigures) -> bool {
        let has_totals = |in_time: Option<u64>| in_time.is_some();
        has_totals(self.completed_in_time) && guest.offered == 0 && !has_totals(guest.completed_in_time)
    }
}

impl LoadFigures {
    /// The unit of its rate, or of its one figure.
    pub fn unit_of_rate(&self) -> String {
        self.figure.as_ref().map_or_else(|| format!("{}/s", self.unit), |figure| figure.unit.clone())
    }
}

/// A histogram of latencies in nanoseconds, as HdrHistogram writes it: V2, compressed, in base64, as in its log files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct EncodedHistogram(String);

impl EncodedHistogram {
    /// Encodes a histogram.
    ///
    /// # Panics
    /// Never: writing into memory cannot fail.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(histogram, &mut bytes)
            .expect("a histogram can be written into memory");
        Self(BASE64.encode(bytes))
    }

    /// Decodes it. A record may come from anywhere, so what it holds is checked.
    pub fn decode(&self) -> Result<Histogram<u64>, BadHistogram> {
        histogram::decode(&BASE64.decode(&self.0).map_err(BadHistogram::because)?)
    }
}

/// How busy a thread was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Busy {
    /// On average, 0 to 1.
    pub mean_fraction: f64,
    /// In the busiest second, 0 to 1.
    pub max_fraction: f64,
}

/// One guest of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuestFigures {
    /// Its name, such as `tile-003-web`.
    pub name: String,
    /// Its tile, counted from 1.
    pub tile: u32,
    /// Requests whose intended start came.
    pub offered: u64,
    /// Requests answered correctly.
    pub completed: u64,
    /// Right answers that came within the measurement's seconds, also to requests of the warm-up. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_in_time: Option<u64>,
    /// Requests that failed or were answered with the wrong bytes.
    pub errors: u64,
    /// Its latency.
    pub latency_ms: LatencyMs,
    /// The histogram behind `latency_ms`, so that repeats can be merged. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<EncodedHistogram>,
    /// The second in which its p99 was highest, with that p99 in milliseconds; seconds count from 0.
    pub worst_second: Option<WorstSecond>,
    /// How good its pages were. Absent where it has none, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quality: Option<Quality>,
}

/// How good the answers of a load were. In older records each answer with an error was taken off as if it had been quick: where errors were
/// slow, their counts are too low.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quality {
    /// Right answers within `good_ms`.
    pub good: u64,
    /// Right answers within `tolerable_ms`; those that are good are among them.
    pub tolerable: u64,
    /// All requests that ended.
    pub of: u64,
    /// An answer within this is good.
    pub good_ms: f64,
    /// An answer within this is tolerable.
    pub tolerable_ms: f64,
}

/// A guest's worst second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorstSecond {
    /// Which second of the measurement, from 0.
    pub second: u32,
    /// The 99th percentile in it, or the maximum where it had fewer than 100 requests.
    pub latency_ms: f64,
}

/// The host during one repeat, averaged over its seconds unless said otherwise. Fractions are parts of all
/// of the host's threads. `None`: the host does not report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFigures {
    /// Seconds that were sampled.
    pub seconds: u32,
    /// Where the processors went.
    pub processor: ProcessorFigures,
    /// Guest threads only: part of the guests' processors that was in use, by anybody.
    pub guest_processors_busy: Option<f64>,
    /// Part of the time in which guests' threads were ready and waited for a processor, per vCPU.
    pub run_queue_wait_fraction: Option<f64>,
    /// Least memory that could be had in any second, in bytes.
    pub memory_available_min: Option<u64>,
    /// All memory, in bytes.
    pub memory_total: u64,
    /// Pages swapped in and out.
    pub swapped_pages: Option<u64>,
    /// Processes that the kernel ended because memory ran out.
    pub oom_kills: Option<u64>,
    /// Times a processor was slowed for heat.
    pub throttled: Option<u64>,
    /// Largest step of the real-time clock against the monotonic clock in a second, in milliseconds.
    pub clock_step_ms_max: f64,
    /// Busiest disk: part of the time with requests in flight.
    pub disk_busy_fraction: Option<f64>,
    /// Pressure: part of the time in which some task waited for a processor.
    pub pressure_cpu_some: Option<f64>,
    /// Pressure: part of the time in which some task waited for memory.
    pub pressure_memory_some: Option<f64>,
    /// Pressure: part of the time in which some task waited for a disk.
    pub pressure_io_some: Option<f64>,
    /// Bytes a second over the run network.
    pub network_bytes_per_s: Option<f64>,
    /// Mean power of the processors' packages, in watts.
    #[serde(default)]
    pub power_w: Option<f64>,
    /// Programs outside the run that used most, the most first. Absent where none used much, and in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ProgramUse>,
}

/// What all processes outside a run that have one name used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramUse {
    /// Their name, which programs choose themselves; `children of NAME` for processes that ended meanwhile.
    pub program: String,
    /// How many processes.
    pub processes: u32,
    /// Part of all of the host's threads.
    pub fraction: f64,
}

/// `cc1 (4 processes) 41.2 %, chrome 3.0 %`; nothing where no program is known.
pub fn programs_in_words(programs: &[ProgramUse]) -> Option<String> {
    let one = |found: &ProgramUse| {
        let ProgramUse { program, processes, fraction } = found;
        let several = if *processes > 1 { format!(" ({processes} processes)") } else { String::new() };
        format!("{program}{several} {:.1} %", 100.0 * fraction)
    };
    let words: Vec<String> = programs.iter().map(one).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Where the processors went: parts of all threads, together 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessorFigures {
    /// Work of guests: vCPU threads in guest mode; for native twins all that they do.
    pub guest_work: f64,
    /// QEMU and the host's kernel on behalf of guests.
    pub guest_overhead: f64,
    /// The load.
    pub load: f64,
    /// Tilemark itself: telemetry, keeper, pipeline.
    pub tilemark: f64,
    /// The user's own hooks, such as a profiler. Absent where none used any.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hooks: f64,
    /// The host's kernel threads, which work for whoever uses the host: packets, writes to disks, memory. In older records 0: they are
    /// in `other`.
    #[serde(default)]
    pub kernel: f64,
    /// Everybody else.
    pub other: f64,
    /// Taken by the hypervisor under this host.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
}

fn is_zero(part: &f64) -> bool {
    *part == 0.0
}

/// What happened apart from the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Incident {
    /// What kind of thing it is: some are what the guests did, others what was done to them.
    #[serde(default)]
    pub kind: IncidentKind,
    /// In words.
    pub what: String,
    /// The guest that it touches; `None`: all.
    pub guest: Option<String>,
}

/// Memory of guests after the measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFigures {
    /// Proportional set size, mean over guests, in MiB.
    pub pss_mib_per_guest: f64,
    /// Largest.
    pub pss_mib_max: f64,
    /// What all guests together have in addition to the memory of their templates, which was there before them: proportional set
    /// sizes without shared memory, in MiB.
    #[serde(default)]
    pub own_mib: Option<f64>,
    /// By how much the memory that the host could give fell from before the guests were started until then, in MiB. Absent for
    /// native twins: no process of theirs holds a guest's memory.
    #[serde(default)]
    pub available_fell_mib: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_an_older_record_says_nothing_of_where_a_vector_was_delivered() {
        let older =
            r#"{"key":"irq.eth0.affinity","what":"it","place":"host","set":"1","before":"0","value":"1"}"#;
        let read: SettingRead = serde_json::from_str(older).unwrap();
        assert_eq!((&read.effective, read.is_elsewhere), (&None, false));
        assert_eq!(serde_json::to_string(&read).unwrap(), older);
    }

    #[test]
    fn percentiles_of_times_to_ready_are_by_nearest_rank() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(SecondsToReady::of(hundred), Some(SecondsToReady { p50: 50.0, p99: 99.0, max: 100.0 }));
        assert_eq!(SecondsToReady::of(vec![2.0]), Some(SecondsToReady { p50: 2.0, p99: 2.0, max: 2.0 }));
        assert_eq!(SecondsToReady::of(Vec::new()), None);
    }
}
