//! `result.json`: what a run found, for people's programs. Documented by `docs/schema/result.json`.
//!
//! What was not measured is null, with a reason in `missing`; never 0. MB is 10^6 bytes, MiB is 2^20.

use crate::JsonSchema;
use crate::clients::ClientComparison;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tilemark_plan::{
    plan::{Backend, SideName},
    scenario::{LoopKind, Role},
    screening::LeftOut,
};

/// The version of the format of `result.json`.
pub const RESULT_SCHEMA: u32 = 1;

/// The rule by which this program judges. 1: a point held where the mean of its repeats' p99s was within the gate. 2: where the
/// whole interval of the p99 of all its requests is.
pub const JUDGED_BY: u32 = 2;

const fn first_rule() -> u32 {
    1
}

/// All that a run found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// Version of this format.
    pub schema: u32,
    /// The rule by which it was judged; records without it are of rule 1.
    #[serde(default = "first_rule")]
    pub judged_by: u32,
    /// The run's id.
    pub run: String,
    /// The scenario's name.
    pub scenario: String,
    /// The preset, if one was applied.
    pub preset: Option<String>,
    /// Whether the figures can be trusted.
    pub verdict: Verdict,
    /// The answer to how many.
    pub answer: Answer,
    /// The answer in one or two sentences that can be copied whole.
    pub sentence: String,
    /// What virtualization costs here.
    pub cost: Option<Cost>,
    /// For two sides: how they differ.
    pub comparison: Option<Comparison>,
    /// Whether emulated guests work, where some were loaded. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<Function>,
    /// How throughput grows with tiles, where seven steps or more were measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scaling: Vec<ScalingFit>,
    /// How much roles of the tile slow each other down, where they were measured alone and in pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<Interference>,
    /// Which settings of the host pay, where they were screened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screening: Option<Screening>,
    /// Every point that was measured.
    pub points: Vec<PointResult>,
    /// Mean power of the processors' packages before the first guest, in watts; absent where the host counts no energy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_power_w: Option<f64>,
    /// Who measured, where, with what.
    pub provenance: Provenance,
    /// Figure by dotted name: why it is null.
    #[serde(default)]
    pub missing: BTreeMap<String, String>,
}

/// Whether emulated guests work, by what they answered; their times are no measure of anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Nine of ten requests were answered correctly, none wrongly, some by every guest, and no guest or service failed.
    pub proven: bool,
    /// Requests that were sent to them, or made in them, over all repeats: of web, disk, messages and orders together.
    pub asked: u64,
    /// Those that were answered correctly.
    pub right: u64,
    /// Those that were answered with the wrong bytes.
    pub wrong: u64,
    /// Those that failed, or had no answer when the load ended.
    pub failed: u64,
    /// What keeps it from being proven, the first found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

/// How much roles of a tile slow each other down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// Every loaded role beside every role, itself too.
    pub slowdowns: Vec<Slowdown>,
    /// The largest slowdown that is certain; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Slowdown>,
    /// Probability that any slowdown of the run is called certain where no role slows another down: what Holm's `p` of each is held
    /// against. Absent in older records, in which each had its own 95 % interval only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<f64>,
}

/// How many times as long a request of one role takes beside another role.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slowdown {
    /// The guest of the tile whose requests take longer.
    pub role: String,
    /// The guest of the tile beside it; its own name for a second one of its kind.
    pub beside: String,
    /// Time of a request beside it, divided by the time alone, in pairs of one block: of its mean latency in an open loop, of the inverse
    /// of its throughput in a closed one. Missing where it was not measured, and where requests failed: their times mean nothing.
    pub slowdown: Option<Figure>,
    /// Twice the smaller two-sided p of two t tests against no slowdown, corrected by Holm over all slowdowns of the run; 1 where the
    /// role is not slower (decision 0098). Where pairs that look slow are measured in further blocks, the smaller p of both looks, each
    /// divided by its part of the level (decision 0123). Absent where there is no interval, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Whether it is certain: `p` is below the level of the run, and the whole interval is above 1.01. Absent in older records, in
    /// which one was certain where its whole interval was above 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certain: Option<bool>,
    /// What the role fails at beside the other, and not alone. Absent where it does not fail, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<RoleFailure>,
}

/// A role that is beyond its gate beside another role, and not alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoleFailure {
    /// `errors`: requests failed. `achieved`: demand was not served, or no request was answered at all. Else a failure of the guest or its
    /// service, of a guest without a load, or of the whole host, such as memory that ran out: both roles fail by the last two.
    pub measure: GateMeasure,
    /// The part that failed or was not served beside the other role, 0 to 1: of the requests, of the demand, or of the repeats.
    pub beside: f64,
    /// The same part alone.
    pub alone: f64,
    /// What happened, and in how many repeats, where something else than requests or demand is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Slowdown {
    /// The slowdown; 0 where there is none.
    pub fn value(&self) -> f64 {
        self.slowdown.map_or(0.0, |figure| figure.value)
    }

    /// Whether it is certain, by the rule of the record's time: in older records, whether its whole interval is above 1.
    pub fn is_certain(&self) -> bool {
        let is_above_1 = || self.slowdown.and_then(|figure| figure.low).is_some_and(|low| low > 1.0);
        self.certain.unwrap_or_else(is_above_1)
    }
}

/// Which settings of the host pay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Screening {
    /// The profile that the settings come from.
    pub profile: String,
    /// Repeats of the design that count.
    pub repeats: u32,
    /// Probability that a setting which does nothing is taken for real by the design: what Holm's p of an effect is held against.
    pub level: f64,
    /// Each setting, in the order of the profile.
    pub settings: Vec<SettingEffect>,
    /// What all settings do together that paid by the design, in pairs with nothing set; absent where fewer than two did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<MeasureEffect>,
    /// The settings that `together` is of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together_of: Vec<String>,
    /// Settings of the profile that were not screened, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

impl Screening {
    /// The settings of one outcome.
    pub fn of(&self, outcome: SettingOutcome) -> impl Iterator<Item = &SettingEffect> {
        self.settings.iter().filter(move |setting| setting.outcome == outcome)
    }
}

/// What a setting of the host does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SettingEffect {
    /// Its key.
    pub key: String,
    /// The value that was tried.
    pub value: String,
    /// The value found on the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// What the profile says about its effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// Its effect on each measure by the design, in which all settings change.
    pub screened: Vec<MeasureEffect>,
    /// Its effect alone, in pairs with nothing set; absent where it did not look real by the design.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<MeasureEffect>,
    /// What fails more with it (B) than without (A), for sure or perhaps: alone, or else by the design. Failures decide before
    /// speed. Also the repeats that were discarded, where their shares differ by more than chance. Records before this field have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureComparison>,
    /// In a word.
    pub outcome: SettingOutcome,
}

impl SettingEffect {
    /// What is known best: confirmed alone, or else by the design.
    pub fn effects(&self) -> &[MeasureEffect] {
        if self.confirmed.is_empty() { &self.screened } else { &self.confirmed }
    }
}

/// The effect of a setting on one measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureEffect {
    /// `throughput`, `p50` or `p99`, of the headline load.
    pub measure: String,
    /// The figure with the setting over that without it, less 1: 0.05 is five in a hundred more. Null where it could not be read.
    pub change: Option<Figure>,
    /// Probability of an effect at least this large if there were none, corrected by Holm: by the design over all settings and
    /// measures, alone over the measures.
    pub p: Option<f64>,
    /// The smallest effect that would have been found 95 times of 100.
    pub resolution: Option<f64>,
    /// An effect within this does not matter: the whole interval must lie within for `no-effect`.
    pub margin: f64,
    /// Whether more is better, so that the sign can be read.
    pub more_is_better: bool,
}

impl MeasureEffect {
    /// The largest effect, either way, that its interval allows.
    pub fn none_above(&self) -> Option<f64> {
        let change = self.change?;
        Some(change.low?.abs().max(change.high?.abs()))
    }
}

/// What a setting does, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SettingOutcome {
    /// Confirmed alone: a measure is better and none is worse.
    Pays,
    /// Confirmed alone: a measure is worse, or the load fails more.
    Harms,
    /// The whole interval of every measure lies within its margin.
    NoEffect,
    /// There is not enough to say.
    CannotTell,
}

/// Whether figures can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// In a word.
    pub status: VerdictStatus,
    /// Why, unless trusted.
    pub reasons: Vec<String>,
}

impl Verdict {
    /// With further reasons, where there are some, of which each makes it "cannot tell" at best.
    #[must_use]
    pub fn doubted(mut self, reasons: &[String]) -> Self {
        if self.status == VerdictStatus::Trusted && !reasons.is_empty() {
            self.status = VerdictStatus::CannotTell;
        }
        self.reasons.extend_from_slice(reasons);
        self
    }
}

/// A verdict in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictStatus {
    /// The figures can be relied on.
    Trusted,
    /// Something is known to have spoiled them.
    NotTrusted,
    /// There is not enough to say.
    CannotTell,
}

/// How many tiles the host carries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The backend that it is about. Never `emulated`.
    pub backend: Option<Backend>,
    /// Largest measured count that holds: its whole interval lies within the gate, and so do all below it.
    pub holds: Option<u32>,
    /// Counts of which it cannot be said whether they hold: above `holds`, below `breaks`.
    #[serde(default)]
    pub undecided: Option<Counts>,
    /// Smallest measured count that breaks: its whole interval lies beyond the gate, or a guest or service failed.
    pub breaks: Option<Break>,
    /// Probability that the largest count that holds is one of `holds` to the one below `breaks`, by the law through all
    /// repeats near the gate.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// The largest number of tiles within the gate by that law, a fraction of a tile included, with its interval.
    #[serde(default)]
    pub capacity: Option<Figure>,
    /// What further measuring would decide, where the range is too wide to act on.
    #[serde(default)]
    pub more: Option<More>,
    /// Counts between the two that were not tried.
    pub untried: Option<Counts>,
    /// Virtual processors for each thread given to guests, at `holds`.
    pub vcpus_per_thread: Option<f64>,
    /// What ran out first.
    pub limit: Limit,
    /// Why there is no answer, where there is none.
    pub none_because: Option<String>,
}

impl Answer {
    /// How many tiles the host carries: 0 where one tile breaks already. `None` where that is not known.
    pub fn carries(&self) -> Option<u32> {
        self.holds.or_else(|| self.breaks.as_ref().filter(|broken| broken.tiles == 1).map(|_| 0))
    }
}

/// The smallest step that broke.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Break {
    /// How many tiles.
    pub tiles: u32,
    /// Which limit of the gate.
    pub measure: GateMeasure,
    /// The value that broke it: milliseconds for `p99`; for failures the part of the repeats in which they happened; otherwise
    /// a part of 1.
    pub value: f64,
    /// Its interval, where there is one.
    pub low: Option<f64>,
    /// Its interval, where there is one.
    pub high: Option<f64>,
    /// The load that broke.
    pub load: String,
    /// The guest that was worst.
    pub guest: Option<String>,
    /// Its worst second of the measurement, from 0.
    pub second: Option<u32>,
    /// What happened, in words, where it is a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// A limit of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GateMeasure {
    /// The 99th percentile of latency.
    P99,
    /// The part of the requests that failed.
    Errors,
    /// The part of the demand that was served.
    Achieved,
    /// The mean of latency.
    Mean,
    /// The part of the pages that were good.
    Good,
    /// The part of the pages that were tolerable.
    Tolerable,
    /// A guest ended while it was measured.
    GuestEnded,
    /// The kernel ended a process because memory ran out.
    OutOfMemory,
    /// The host swapped.
    Swapping,
    /// A service lost or invented what it had confirmed.
    WrongAnswers,
    /// A service answered with errors, or its clients gave up.
    ServiceErrors,
}

impl GateMeasure {
    /// Whether it is a failure, of which one is enough, and no limit with an interval.
    pub const fn is_failure(self) -> bool {
        match self {
            Self::P99 | Self::Errors | Self::Achieved | Self::Mean | Self::Good | Self::Tolerable => false,
            Self::GuestEnded
            | Self::OutOfMemory
            | Self::Swapping
            | Self::WrongAnswers
            | Self::ServiceErrors => true,
        }
    }
}

/// Further measuring that would narrow an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct More {
    /// About how many further repeats near the gate would decide.
    pub repeats: u32,
    /// About how many minutes they take.
    pub minutes: f64,
}

/// A range of tile counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// From this count.
    pub from: u32,
    /// To this count.
    pub to: u32,
}

/// What ran out first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// In a word.
    pub resource: LimitResource,
    /// The figures that say so.
    pub evidence: Vec<String>,
}

/// What can run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitResource {
    /// The guests' processors.
    Processor,
    /// Memory.
    Memory,
    /// A disk.
    Disk,
    /// The network.
    Network,
    /// Our own sender: no limit of the host.
    LoadGenerator,
    /// Nothing points at one.
    Unknown,
}

/// What virtualization costs: guests against their native twin at the same step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// The step that both were measured at.
    pub tiles: u32,
    /// Processor time of guests over that of the twin, for the same work.
    pub processor: Option<Figure>,
    /// p99 of guests over that of the twin.
    pub p99: Option<Figure>,
    /// Throughput of guests over that of the twin.
    pub throughput: Option<Figure>,
    /// The one figure of a command in guests over that in the twin. Absent of other loads, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Figure>,
    /// What could not be made equal.
    pub unequal: Vec<String>,
    /// The same in a sentence.
    pub sentence: String,
}

/// A figure with its interval over repeats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// Lower end of its 95 % interval; null below three repeats.
    pub low: Option<f64>,
    /// Upper end of its 95 % interval; null below three repeats.
    pub high: Option<f64>,
    /// Repeats behind it.
    pub n_repeats: u32,
}

/// Two sides measured in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// All that differs between the sides: key, value of A, value of B.
    pub differences: Vec<Difference>,
    /// Failures that at least one side had. They decide before any measure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailureComparison>,
    /// The primary measures first.
    pub measures: Vec<MeasureComparison>,
    /// Repeats that do not count, by side, at the step that decides. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voided: Option<VoidedSides>,
    /// In a word.
    pub outcome: ComparisonOutcome,
    /// In a sentence.
    pub sentence: String,
}

/// Something that differs between two sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What.
    pub key: String,
    /// Its value on side A.
    pub a: String,
    /// Its value on side B.
    pub b: String,
}

/// A kind of failure on two sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureComparison {
    /// Such as `errors of web at 1 tile`, `guest ended at 1 tile`, `repeats beyond the gate at 4 tiles`.
    pub name: String,
    /// Mean share over the repeats of A, 0 to 1.
    pub a: f64,
    /// Mean share over the repeats of B, 0 to 1.
    pub b: f64,
    /// Probability of a difference at least this large if there were none; null where no test was possible.
    pub p: Option<f64>,
    /// What B is by it.
    pub outcome: ComparisonOutcome,
}

/// Repeats that do not count, by side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VoidedSides {
    /// Of A.
    pub a: u32,
    /// All repeats of A.
    pub of_a: u32,
    /// Of B.
    pub b: u32,
    /// All repeats of B.
    pub of_b: u32,
    /// Two-sided p of Fisher's exact test that both sides lost the same share.
    pub p: f64,
}

/// One measure on two sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureComparison {
    /// Such as `web-steady p99`, with the step.
    pub name: String,
    /// The unit of `a` and `b`. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Its value on side A: the geometric mean over the repeats, or over the runs where each run is one value. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<f64>,
    /// Its value on side B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<f64>,
    /// B over A, less 1: 0.05 is five in a hundred more.
    pub change: Figure,
    /// Probability of a difference at least this large if there were none, corrected by Holm over the measures of its rank.
    pub p: Option<f64>,
    /// The smallest change that would have been found 95 times of 100, as a part of A.
    pub resolution: Option<f64>,
    /// A change within this, as a part of A, is no difference: the whole interval must lie within. Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// One of at most three that decide.
    pub primary: bool,
    /// Whether more is better, so that the sign can be read.
    pub more_is_better: bool,
    /// What it says.
    pub outcome: ComparisonOutcome,
}

/// What a comparison says about B against A.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ComparisonOutcome {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// The whole interval of every primary measure lies within its margin. In older records: none was seen.
    NoDifference,
    /// There is not enough to say.
    CannotTell,
    /// Two single runs differ. Whether A and B do cannot be known: two runs of the same thing differ too.
    DiffersBetweenRuns,
}

impl ComparisonOutcome {
    /// The same for a person.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::NoDifference => "no difference",
            Self::CannotTell => "cannot tell",
            Self::DiffersBetweenRuns => "differs between these two runs",
        }
    }
}

/// The headline load's throughput against tiles, at one value of what varies, on one backend and side, by the Universal
/// Scalability Law: throughput(N) = one tile's × N / (1 + contention × (N − 1) + coherence × N × (N − 1)).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScalingFit {
    /// How its guests run.
    pub backend: Backend,
    /// `a` or `b` where two sides are compared.
    pub side: Option<SideName>,
    /// The values of what varies.
    pub vary: BTreeMap<String, String>,
    /// Tile counts that it was fitted to.
    pub tiles: Vec<u32>,
    /// One tile's throughput by the fit, with its interval; the unit beside.
    pub one_tile: Throughput,
    /// What waits in line.
    pub contention: Figure,
    /// What must be agreed on between all.
    pub coherence: Figure,
    /// Largest part by which a step lies off the curve. Where it is large, the law does not hold here and its parameters mean
    /// nothing.
    pub worst_deviation: f64,
    /// Tiles at which throughput turns; null where it does not within twice the most tiles that were measured.
    pub peak_tiles: Option<f64>,
    /// Lower end of its 95 % interval; null where there is no `peak_tiles`, and in older records.
    #[serde(default)]
    pub peak_low: Option<f64>,
    /// Upper end of its 95 % interval; null where it lies beyond twice the most tiles, too.
    #[serde(default)]
    pub peak_high: Option<f64>,
}

/// One step at one value of what varies, on one backend and side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointResult {
    /// Its index in the plan.
    pub index: usize,
    /// How many tiles.
    pub tiles: u32,
    /// How many guests.
    pub guests: u32,
    /// How they run.
    pub backend: Backend,
    /// `a` or `b` where two sides are compared.
    pub side: Option<SideName>,
    /// The values of what varies.
    pub vary: BTreeMap<String, String>,
    /// Repeats behind the figures.
    pub repeats_kept: u32,
    /// Repeats that are not, each with its reason.
    pub repeats_voided: Vec<Voided>,
    /// Whether it kept the gate; null when that can't be said.
    pub holds: Option<bool>,
    /// In how many of the kept repeats every load and guest was within the gate by itself.
    #[serde(default)]
    pub repeats_within: Option<u32>,
    /// What the gate found, load by load, where it broke.
    pub broke: Vec<Break>,
    /// Limits that intervals lie across, where it is undecided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub across: Vec<Break>,
    /// Requests a second that were asked.
    pub offered: Option<f64>,
    /// Part of the demand that was served, 0 to 1.
    pub achieved_fraction: Option<f64>,
    /// Headline load: what was served a second.
    pub throughput: Option<Throughput>,
    /// Headline load: latency over all kept repeats.
    pub latency_ms: Option<LatencyMs>,
    /// Headline load: p99 with its interval over repeats.
    pub p99_ms: Option<Figure>,
    /// Headline load: part of the requests that failed, 0 to 1.
    pub errors: Option<f64>,
    /// Headline load: how evenly guests were served.
    pub fairness: Option<Fairness>,
    /// Throughput over that of one tile.
    pub throughput_vs_one_tile: Option<f64>,
    /// Virtual processors for each thread given to guests.
    pub vcpus_per_thread: f64,
    /// Where the processors went, over kept repeats.
    pub processor: Option<crate::summary::ProcessorFigures>,
    /// Proportional memory of a loaded guest in MiB.
    pub pss_mib_per_guest: Option<f64>,
    /// Seconds from the first start until all guests were ready, mean over kept repeats; templates were ready before.
    #[serde(default)]
    pub ready_s: Option<f64>,
    /// Mean power of the processors' packages over kept repeats, in watts; absent where the host counts no energy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// The same of each guest: percentiles over guests, each a mean over kept repeats.
    #[serde(default)]
    pub seconds_to_ready: Option<crate::summary::SecondsToReady>,
    /// What the guests of a tile used, by their names in the tile: means over kept repeats. Absent in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<crate::summary::GuestUse>,
    /// What limits at this step.
    pub limit: Option<LimitResource>,
    /// What is worth knowing of its figures and discards none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Its client machines beside each other. Absent where fewer than two sent loads, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientComparison>,
    /// Every load.
    pub loads: Vec<LoadResult>,
}

/// A repeat whose figures don't count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Voided {
    /// Which repeat, counted from 1.
    pub repeat: u32,
    /// Why.
    pub reason: String,
}

impl Voided {
    /// Why a point has no figures, where none of its repeats counts: `all 3 repeats were discarded: foreign load`. `None` where it has no
    /// repeat.
    pub fn every_one(voided: &[Self]) -> Option<String> {
        let which = match voided.len() {
            1 => "the only repeat was".to_owned(),
            count => format!("all {count} repeats were"),
        };
        voided.first().map(|first| format!("{which} discarded: {}", first.reason))
    }
}

/// A rate with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Such as `requests/s`.
    pub unit: String,
    /// The figure with its interval: `value`, `low`, `high`, `n_repeats` beside the unit.
    #[serde(flatten)]
    pub figure: Figure,
}

/// Latency in milliseconds. A percentile with fewer than 20 requests beyond it is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyMs {
    /// Requests behind it.
    pub n: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// Standard deviation of single requests.
    #[serde(default)]
    pub deviation: Option<f64>,
    /// Standard deviation of the means of seconds, which is what load tools that print a mean a second can show.
    #[serde(default)]
    pub deviation_of_seconds: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

/// How late requests were sent, in microseconds: our fault, kept apart from latency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatenessUs {
    /// Median.
    pub p50: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Largest.
    pub max: Option<f64>,
}

/// How evenly guests were served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    /// Jain's index: 1 when all got the same, 1/n when one got all.
    pub jain: f64,
    /// The guest that was served least, with its part of the mean.
    pub least_served: Served,
    /// The guest that was served most, with its part of the mean.
    pub most_served: Served,
}

/// A guest with what it got.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// Its name.
    pub guest: String,
    /// What it got over what guests got on average.
    pub of_mean: f64,
}

/// From where a load was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measured {
    /// By the load process.
    Outside,
    /// In the guest, by its own clock.
    Inside,
}

/// A load at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadResult {
    /// Its name in the scenario.
    pub name: String,
    /// What its guests are for.
    pub role: Role,
    /// Open or closed loop.
    #[serde(rename = "loop")]
    pub loop_kind: LoopKind,
    /// From where it was measured.
    pub measured: Measured,
    /// Requests a second that were asked.
    pub offered: Option<f64>,
    /// Part of the demand that was served, 0 to 1.
    pub achieved_fraction: Option<f64>,
    /// What was served a second.
    pub throughput: Option<Throughput>,
    /// Latency over all kept repeats.
    pub latency_ms: LatencyMs,
    /// p99 with its interval over repeats.
    pub p99_ms: Option<Figure>,
    /// Part of the requests that failed, 0 to 1.
    pub errors: Option<f64>,
    /// How late requests were sent.
    pub send_lateness_us: LatenessUs,
    /// How evenly guests were served.
    pub fairness: Option<Fairness>,
    /// How many times as long its requests take as with one tile, in pairs of one block: by mean latency in an open loop, by the inverse
    /// of a guest's throughput in a closed one. Absent where one tile was not measured beside it, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown_vs_one_tile: Option<Figure>,
    /// What its guests in other tiles felt of a surge. Absent where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge: Option<SurgeResult>,
    /// How many of its pages were good and tolerable. Absent where the workload has no pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<PagesResult>,
    /// Each guest over all kept repeats.
    pub guests: Vec<GuestResult>,
}

/// How good the pages of a load were.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PagesResult {
    /// The part of pages that were right and within `good_ms`, 0 to 1.
    pub good: Option<Figure>,
    /// The part of pages that were right and within `tolerable_ms`; those that are good are among them.
    pub tolerable: Option<Figure>,
    /// A page within this is good.
    pub good_ms: f64,
    /// A page within this is tolerable.
    pub tolerable_ms: f64,
}

/// A guest at one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuestResult {
    /// Its name.
    pub name: String,
    /// Its tile, counted from 1.
    pub tile: u32,
    /// Answers a second.
    pub throughput: f64,
    /// Latency: the median over kept repeats of each figure.
    pub latency_ms: LatencyMs,
    /// Part of its requests that failed, 0 to 1.
    pub errors: f64,
}

/// What guests of one load felt of a surge in another tile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SurgeResult {
    /// Until it began.
    pub before: SurgeTime,
    /// While it lasted.
    pub during: SurgeTime,
    /// After its end.
    pub after: SurgeTime,
    /// How many times as long their requests took while it lasted as before, in pairs of one repeat: by mean latency in an open loop, by
    /// the inverse of throughput in a closed one.
    pub slowdown_during: Option<Figure>,
    /// The same of the time after its end, over the time before.
    pub slowdown_after: Option<Figure>,
    /// Twice the smaller two-sided p of two t tests against no slowdown while it lasted, corrected by Holm over all loads of the run that
    /// have one; 1 where they were not slower (decision 0112). Absent where there is no interval, and in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// Whether the slowdown while it lasted is certain: `p` is below 5 %, and the whole interval is above 1.01. Absent in older records, in
    /// which one was certain where its whole interval was above 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certain: Option<bool>,
}

/// The errors while a surge lasted are at least so many times those before it where they are called what others felt of it.
const ERRORS_OF_SURGE: f64 = 2.0;

impl SurgeResult {
    /// Whether others failed by it: their errors passed the gate while it lasted and were clearly more than before, or nothing of theirs was
    /// answered meanwhile.
    pub fn fails(&self, errors_max: f64) -> bool {
        let during = self.during.errors.unwrap_or(0.0);
        let more = during >= ERRORS_OF_SURGE * self.before.errors.unwrap_or(0.0);
        (during > errors_max && more) || self.is_unanswered()
    }

    /// Whether nothing was answered while it lasted, and something was before it. A closed loop has no errors then: it waits.
    pub fn is_unanswered(&self) -> bool {
        self.before.throughput.is_some_and(|rate| rate > 0.0) && self.during.throughput == Some(0.0)
    }

    /// Whether the times of a part, while it lasted or after it, are compared with those before: not where the errors of one of the two passed
    /// the gate. A request that fails may end early or late.
    pub fn compares_times(&self, part: &SurgeTime, errors_max: f64) -> bool {
        [&self.before, part].iter().all(|time| time.errors.is_none_or(|errors| errors <= errors_max))
    }

    /// Whether the slowdown is certain, by the rule of the record's time: in older records, whether its whole interval is above 1.
    pub fn is_certain(&self) -> bool {
        let is_above_1 = || self.slowdown_during.and_then(|figure| figure.low).is_some_and(|low| low > 1.0);
        self.certain.unwrap_or_else(is_above_1)
    }
}

/// One of the times around a surge, each figure the mean over kept repeats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SurgeTime {
    /// Correct answers a second.
    pub throughput: Option<f64>,
    /// Mean latency in milliseconds.
    pub mean_ms: Option<f64>,
    /// 99th percentile of latency in milliseconds.
    pub p99_ms: Option<f64>,
    /// Part of the requests that failed, 0 to 1.
    pub errors: Option<f64>,
}

/// Who measured, where, with what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// Version of Tilemark.
    pub tilemark: String,
    /// The host's name; empty when redacted.
    pub host: String,
    /// Its processor.
    pub processor: String,
    /// Its threads.
    pub threads: u32,
    /// Its memory in bytes.
    pub memory_bytes: u64,
    /// Its kernel.
    pub kernel: String,
    /// QEMU, where it was used.
    pub qemu: Option<String>,
    /// The image's name.
    pub image: Option<String>,
    /// Kernel of the guests.
    pub guest_kernel: Option<String>,
    /// When the run began, RFC 3339.
    pub began: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// How long it was expected to take, in seconds.
    pub expected_seconds: f64,
    /// In how many sessions it was measured: the first, and one for each `--more`. Times above are sums over all of them.
    #[serde(default = "one_session")]
    pub sessions: u32,
    /// Whether the host was restored: what the run could have left was looked for after it, and nothing was found. Records of older
    /// versions looked for the run's own folder only.
    pub as_it_was: Option<bool>,
    /// What was found of the run after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<LeftOver>,
    /// Settings that the run held and somebody else changed meanwhile: left alone, in words with all three values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_by_others: Vec<String>,
    /// The command that repeats it.
    pub command: String,
    /// The user's own commands around the measured seconds of each repeat. Absent where there were none.
    #[serde(default, skip_serializing_if = "Hooks::is_empty")]
    pub hooks: Hooks,
    /// SHA-256 by name: `tilemark`, `agent`, `image`, `scenario`.
    pub hashes: BTreeMap<String, String>,
    /// Disks of the user's own that guests booted, with the files that back them. None in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<GuestDisk>,
}

/// A file of a disk of the user's own that a guest booted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestDisk {
    /// The guest, by its name in the tile.
    pub guest: String,
    /// The file's name.
    pub file: String,
    /// `qcow2` or `raw`.
    pub format: String,
    /// The file's length in bytes.
    pub bytes: u64,
    /// By what it is known again: `sha256 HASH`, or, where it has more than 4 GiB, when it was changed and the hash of its beginning.
    pub mark: String,
    /// Kernel that the guest's agent reported.
    #[serde(default)]
    pub kernel: Option<String>,
}

/// Shell commands of the user's own, as typed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hooks {
    /// `--hook-before`: started when the measured seconds begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// `--hook-after`: started when they are over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

impl Hooks {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }
}

/// Something of a run that was found on the host after it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftOver {
    /// What and where.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

const fn one_session() -> u32 {
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_that_is_the_only_one_is_not_called_all_of_them() {
        let voided = |repeat| Voided { repeat, reason: "foreign load".to_owned() };
        assert_eq!(Voided::every_one(&[]), None);
        let of_one = Voided::every_one(&[voided(1)]);
        assert_eq!(of_one.as_deref(), Some("the only repeat was discarded: foreign load"));
        let of_two = Voided::every_one(&[voided(1), voided(2)]);
        assert_eq!(of_two.as_deref(), Some("all 2 repeats were discarded: foreign load"));
    }

    #[test]
    fn a_slowdown_of_an_older_record_is_certain_by_its_interval_and_a_newer_one_by_what_was_decided() {
        let figure = serde_json::json!({ "value": 1.1, "low": 1.02, "high": 1.2, "n_repeats": 3 });
        let mut record = serde_json::json!({ "role": "db", "beside": "files", "slowdown": figure });
        let read =
            |record: &serde_json::Value| -> Slowdown { serde_json::from_value(record.clone()).unwrap() };
        assert!(read(&record).is_certain());
        assert_eq!(serde_json::to_value(read(&record)).unwrap(), record, "nothing is added to it");
        record["certain"] = false.into();
        assert!(!read(&record).is_certain());
    }

    #[test]
    fn a_record_from_before_left_things_were_named_is_read_and_one_that_left_nothing_is_written_so() {
        let mut older =
            serde_json::to_value(Provenance { as_it_was: Some(false), ..Provenance::default() }).unwrap();
        assert!(older.get("left").is_none() && older.get("changed_by_others").is_none(), "{older}");
        let read: Provenance = serde_json::from_value(older.clone()).unwrap();
        assert_eq!((read.as_it_was, read.left.len()), (Some(false), 0));
        older["left"] = serde_json::json!([{ "what": "a mount", "remedy": "unmount it" }]);
        let read: Provenance = serde_json::from_value(older).unwrap();
        assert_eq!(read.left, [LeftOver { what: "a mount".to_owned(), remedy: "unmount it".to_owned() }]);
    }
}
