//! Two sides: better, worse, no difference beyond a margin, or cannot tell; and the exit verdict of `git bisect run`.

use tilemark_record::summary::Better;

use crate::failures::{FailureChange, Failures, compare_failures};
use crate::figure::{Figure, Interval, Missing};
use crate::holm::holm;
use crate::permutation::{Block, Design, permutation_test};
use crate::ratio::{on_logarithms, ratio};
use crate::resolution::{repeat_deviation, smallest_change_found};

/// Most measures that decide; the rest is shown only.
pub const PRIMARY_MEASURES_MAX: usize = 3;

/// Least change of a throughput, a median or processor time that is called one: below, criterion.rs and we call
/// it noise.
pub const LEAST_CHANGE: f64 = 0.01;

/// Least change of a tail that is called one: Firecracker's A/B gate asks for as much.
pub const LEAST_CHANGE_OF_TAIL: f64 = 0.05;

/// Which way a measure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetterWhen {
    /// Throughput.
    Higher,
    /// Latency, memory, processor time.
    Lower,
}

impl From<Better> for BetterWhen {
    fn from(better: Better) -> Self {
        match better {
            Better::Higher => Self::Higher,
            Better::Lower => Self::Lower,
        }
    }
}

/// Whether a measure was named before the run as one that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Decides the comparison. Beyond [`PRIMARY_MEASURES_MAX`] a measure is treated as secondary.
    Primary,
    /// Shown, corrected, decides nothing.
    Secondary,
}

/// One measure of both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// As it is in the report: `throughput`, `p99`.
    pub name: String,
    /// Which way it is better.
    pub better_when: BetterWhen,
    /// Whether it decides.
    pub rank: Rank,
    /// Whether it is a tail of latency, for which a tolerance of its own may be given.
    pub is_tail: bool,
    /// The interval of a change must lie wholly beyond this before it is called one (0.01 is 1 %): with enough
    /// repeats any two things differ, and a tail wanders more than a mean.
    pub least_change: f64,
    /// A change within this is no difference that matters (0.03 is 3 %): the whole interval must lie within.
    pub margin: f64,
    /// Its kept repeats, block by block, or why it cannot be compared.
    pub blocks: Result<Vec<Block>, Missing>,
}

/// What is said about a side against the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideVerdict {
    /// B is better than A.
    Better,
    /// B is worse than A.
    Worse,
    /// The whole interval lies within the margin: the sides are equivalent.
    NoDifference,
    /// The repeats cannot answer.
    CannotTell,
}

/// One measure compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As it is in the report.
    pub measure: String,
    /// Which way it is better.
    pub better_when: BetterWhen,
    /// Whether it decided; a fourth primary measure was made secondary.
    pub rank: Rank,
    /// Whether it is a tail of latency.
    pub is_tail: bool,
    /// B divided by A.
    pub ratio: Result<Figure, Missing>,
    /// Of the permutation test; corrected by Holm over the measures of its rank.
    pub p: Result<f64, Missing>,
    /// The smallest change that would have been found, as a share of A (0.02 is 2 %).
    pub resolution: Result<f64, Missing>,
    /// The margin of equivalence, as a share of A.
    pub margin: f64,
    /// What is said.
    pub verdict: SideVerdict,
}

/// Two sides compared.
#[derive(Clone, Debug, PartialEq)]
pub struct SideComparison {
    /// Failures that at least one side had; they decide before speed does.
    pub failures: Vec<FailureChange>,
    /// One entry per measure, in the order given.
    pub changes: Vec<Change>,
    /// By failures, then by the primary measures. Worse where one is worse. Better where one is better and every other is known
    /// not to be worse by more than its margin. No difference where all are equivalent. Else cannot tell.
    pub verdict: SideVerdict,
    /// Why nothing may be said about the sides whatever their figures are: an emulator, one run a side.
    pub blocked: Option<String>,
}

/// Largest loss that still counts as no worse, as a share of A (0.05 is 5 %).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Of every measure but p99.
    pub measures: f64,
    /// Of p99, which scatters more.
    pub p99: f64,
}

impl From<f64> for Tolerance {
    fn from(same: f64) -> Self {
        Self { measures: same, p99: same }
    }
}

/// What `--exit-verdict` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitVerdict {
    /// 0: no primary measure can be worse by more than its tolerance.
    NoWorse,
    /// 1: a primary measure is worse by more than its tolerance, or B fails where A does not.
    Worse,
    /// 125: anything else; `git bisect run` skips the commit.
    CannotTell,
}

impl ExitVerdict {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::NoWorse => 0,
            Self::Worse => 1,
            Self::CannotTell => 125,
        }
    }
}

/// What is asked of one side against the other.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What the sides may have failed in.
    pub failures: &'a [Failures],
    /// Their measures.
    pub measures: &'a [Measure],
}

/// Compares the sides, failures first, then measure by measure: a change needs a corrected p below `significance` and an interval
/// wholly beyond the measure's least change. `seed` feeds drawn relabelings and bootstrap.
pub fn compare_sides(
    failures: &[Failures],
    measures: &[Measure],
    significance: f64,
    seed: u64,
) -> SideComparison {
    let only = compare_many(&[Asked { failures, measures }], significance, seed).pop();
    only.expect("each side that is asked about is compared")
}

/// Compares several sides, each with the same first one. p of a measure is corrected by Holm over the measures of its rank of *all*
/// comparisons, and that of a failure by their number: with many comparisons one of them must not find something by chance.
pub fn compare_many(asked: &[Asked], significance: f64, seed: u64) -> Vec<SideComparison> {
    let ranks: Vec<Vec<Rank>> = asked.iter().map(|asked| ranks(asked.measures)).collect();
    let alike = |rank: Rank| ranks.iter().flatten().filter(|other| **other == rank).count();
    let mut changes: Vec<Vec<Change>> = Vec::new();
    for (asked, ranks) in asked.iter().zip(&ranks) {
        let measures = asked.measures.iter().zip(ranks);
        let own = measures.map(|(measure, &rank)| change(measure, rank, alike(rank), significance, seed));
        changes.push(own.collect());
    }
    correct(changes.iter_mut().flatten(), Rank::Primary);
    correct(changes.iter_mut().flatten(), Rank::Secondary);
    let of_failures = significance / asked.len().max(1) as f64;
    asked
        .iter()
        .zip(changes)
        .map(|(asked, mut changes)| {
            for (change, measure) in changes.iter_mut().zip(asked.measures) {
                change.verdict = side_verdict(change, measure.least_change, significance);
            }
            let compared = |failures| compare_failures(failures, of_failures, seed);
            let failures: Vec<FailureChange> = asked.failures.iter().filter_map(compared).collect();
            let verdict = overall(&failures, &changes);
            SideComparison { failures, changes, verdict, blocked: None }
        })
        .collect()
}

/// The rank of each measure: of more than [`PRIMARY_MEASURES_MAX`] that are to decide, the first do.
fn ranks(measures: &[Measure]) -> Vec<Rank> {
    let mut primaries = 0;
    let rank = |measure: &Measure| {
        let decides = measure.rank == Rank::Primary && primaries < PRIMARY_MEASURES_MAX;
        primaries += usize::from(decides);
        if decides { Rank::Primary } else { Rank::Secondary }
    };
    measures.iter().map(rank).collect()
}

/// `alike`: over how many measures of its rank p is corrected.
fn change(measure: &Measure, rank: Rank, alike: usize, significance: f64, seed: u64) -> Change {
    let blocks = measure.blocks.as_ref().map_err(Clone::clone);
    let logs = blocks.clone().and_then(|blocks| on_logarithms(blocks));
    let test = logs.clone().and_then(|logs| permutation_test(&logs, seed));
    // Holm asks the smallest p of so many for this.
    let each = significance / alike as f64;
    Change {
        measure: measure.name.clone(),
        better_when: measure.better_when,
        rank,
        is_tail: measure.is_tail,
        ratio: blocks.and_then(|blocks| ratio(blocks, seed)),
        p: test.map(|test| test.p),
        resolution: logs.and_then(|logs| resolution(&logs, measure.least_change, each)),
        margin: measure.margin,
        verdict: SideVerdict::CannotTell,
    }
}

/// As a share: what test and interval would both have seen.
fn resolution(logs: &[Block], least_change: f64, significance: f64) -> Result<f64, Missing> {
    let deviation = repeat_deviation(logs)
        .ok_or_else(|| Missing::because("too few repeats to know how far they scatter"))?;
    smallest_change_found(&Design::behind(logs), deviation, least_change.ln_1p(), significance)
        .map(f64::exp_m1)
}

/// Corrects p by Holm over the measures of a rank.
fn correct<'c>(changes: impl Iterator<Item = &'c mut Change>, rank: Rank) {
    let mut of_rank: Vec<&mut f64> =
        changes.filter(|change| change.rank == rank).filter_map(|change| change.p.as_mut().ok()).collect();
    let p_values: Vec<f64> = of_rank.iter().map(|p| **p).collect();
    for (p, corrected) in of_rank.iter_mut().zip(holm(&p_values)) {
        **p = corrected;
    }
}

fn side_verdict(change: &Change, least_change: f64, significance: f64) -> SideVerdict {
    let Some(interval) = change.interval() else { return SideVerdict::CannotTell };
    // On factors, so that 1 % up and 1 % down are the same distance.
    let (more, less) = (interval.low > 1.0 + least_change, interval.high < 1.0 / (1.0 + least_change));
    let is_certain = change.p.as_ref().is_ok_and(|p| *p < significance);
    if is_certain && (more || less) {
        let is_gain = more == (change.better_when == BetterWhen::Higher);
        return if is_gain { SideVerdict::Better } else { SideVerdict::Worse };
    }
    let margin = 1.0 + change.margin;
    let is_equivalent = interval.high <= margin && interval.low >= 1.0 / margin;
    if is_equivalent { SideVerdict::NoDifference } else { SideVerdict::CannotTell }
}

fn overall(failures: &[FailureChange], changes: &[Change]) -> SideVerdict {
    let failed = |verdict| failures.iter().any(|failure| failure.verdict == verdict);
    let primary = || changes.iter().filter(|change| change.rank == Rank::Primary);
    let any = |verdict| primary().any(|change| change.verdict == verdict);
    if failed(SideVerdict::Worse) {
        return SideVerdict::Worse;
    }
    if failed(SideVerdict::Better) && !failed(SideVerdict::CannotTell) {
        // Which of the two counts more, nobody but the reader knows.
        let is_slower = any(SideVerdict::Worse);
        return if is_slower { SideVerdict::CannotTell } else { SideVerdict::Better };
    }
    if any(SideVerdict::Worse) {
        return SideVerdict::Worse;
    }
    if failed(SideVerdict::CannotTell) || primary().next().is_none() {
        return SideVerdict::CannotTell;
    }
    let is_no_worse = |change: &Change| match change.verdict {
        SideVerdict::Better | SideVerdict::NoDifference => true,
        SideVerdict::Worse => false,
        SideVerdict::CannotTell => change.loss().is_some_and(|loss| loss.high <= change.margin),
    };
    if any(SideVerdict::Better) && primary().all(is_no_worse) {
        SideVerdict::Better
    } else if primary().all(|change| change.verdict == SideVerdict::NoDifference) {
        SideVerdict::NoDifference
    } else {
        SideVerdict::CannotTell
    }
}

impl Change {
    /// The interval of the ratio, where there is one.
    pub fn interval(&self) -> Option<Interval> {
        self.ratio.as_ref().ok()?.interval.as_ref().ok().copied()
    }

    /// By what share B may be worse than A, best and worst case by the interval; negative where B is better.
    pub fn loss(&self) -> Option<Interval> {
        let interval = self.interval()?;
        Some(match self.better_when {
            BetterWhen::Higher => Interval { low: 1.0 - interval.high, high: 1.0 - interval.low },
            BetterWhen::Lower => Interval { low: interval.low - 1.0, high: interval.high - 1.0 },
        })
    }
}

impl SideComparison {
    /// With failures that were found otherwise.
    pub fn with_failures(mut self, found: Vec<FailureChange>) -> Self {
        self.failures.extend(found);
        self.verdict = overall(&self.failures, &self.changes);
        self
    }

    /// The exit verdict. Worse where B certainly fails more than A, or where a primary measure is called worse and its whole
    /// interval lies beyond the tolerance. No worse only where B fails no more than A and the whole interval of **every** primary
    /// measure lies within its tolerance: a loss that was not seen is not a loss that is excluded.
    pub fn exit_verdict(&self, tolerance: impl Into<Tolerance>) -> ExitVerdict {
        let tolerance = tolerance.into();
        if self.blocked.is_some() {
            return ExitVerdict::CannotTell;
        }
        let of = |change: &Change| if change.is_tail { tolerance.p99 } else { tolerance.measures };
        let primary = || self.changes.iter().filter(|change| change.rank == Rank::Primary);
        let beyond = |change: &Change| change.loss().is_some_and(|loss| loss.low > of(change));
        let within = |change: &Change| change.loss().is_some_and(|loss| loss.high <= of(change));
        let fails = |verdict| self.failures.iter().filter(move |failure| failure.verdict == verdict);
        if fails(SideVerdict::Worse).any(|failure| failure.is_certain)
            || primary().any(|change| change.verdict == SideVerdict::Worse && beyond(change))
        {
            return ExitVerdict::Worse;
        }
        let fails_more = fails(SideVerdict::Worse).chain(fails(SideVerdict::CannotTell)).next().is_some();
        if !fails_more && primary().next().is_some() && primary().all(within) {
            ExitVerdict::NoWorse
        } else {
            ExitVerdict::CannotTell
        }
    }
}
