//! Two sides: better, worse, no difference seen, or cannot tell; and the exit verdict of `git bisect run`.

use crate::figure::{Figure, Interval, Missing};
use crate::holm::holm;
use crate::interval::{student_factor, student_quantile};
use crate::permutation::{Block, Design, permutation_test, total_weight};
use crate::ratio::{on_logarithms, ratio};
use crate::resolution::{FOUND_FRACTION, degrees_of_freedom, repeat_deviation, smallest_change_found};

/// Most measures that are judged by their own p; the rest share theirs (Holm).
pub const PRIMARY_MEASURES_MAX: usize = 3;

/// Which way a measure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetterWhen {
    /// Throughput.
    Higher,
    /// Latency, memory, processor time.
    Lower,
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
    /// As it stands in the report: `throughput`, `p99`.
    pub name: String,
    /// Which way it is better.
    pub better_when: BetterWhen,
    /// Whether it decides.
    pub rank: Rank,
    /// The interval of a change must lie wholly beyond this before it is called one (0.01 is 1 %): with enough
    /// repeats any two things differ, and a tail wanders more than a mean.
    pub least_change: f64,
    /// Its kept repeats, block by block; a block that lost a side is not among them.
    pub blocks: Vec<Block>,
}

/// What is said of a side against the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideVerdict {
    /// B is better than A.
    Better,
    /// B is worse than A.
    Worse,
    /// None was seen; what would have been seen stands beside it.
    NoDifferenceSeen,
    /// The repeats cannot answer.
    CannotTell,
}

/// One measure compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// As it stands in the report.
    pub measure: String,
    /// Which way it is better.
    pub better_when: BetterWhen,
    /// Whether it decided; a fourth primary measure was made secondary.
    pub rank: Rank,
    /// B divided by A.
    pub ratio: Result<Figure, Missing>,
    /// Of the permutation test; corrected by Holm where secondary.
    pub p: Result<f64, Missing>,
    /// The smallest change that would have been found, as a share of A (0.02 is 2 %).
    pub resolution: Result<f64, Missing>,
    /// What is said.
    pub verdict: SideVerdict,
}

/// Two sides compared.
#[derive(Clone, Debug, PartialEq)]
pub struct SideComparison {
    /// One entry per measure, in the order given.
    pub changes: Vec<Change>,
    /// By the primary measures: worse where one is worse, cannot tell where one cannot tell, better where one
    /// is better, else no difference seen.
    pub verdict: SideVerdict,
}

/// What `--exit-verdict` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitVerdict {
    /// 0: no primary measure can be worse by more than the tolerance.
    NoWorse,
    /// 1: a primary measure is worse by more than the tolerance.
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

/// Compares the sides measure by measure: a change needs a p below `significance` and an interval wholly beyond
/// the measure's least change. `seed` feeds drawn relabelings and bootstrap.
pub fn compare_sides(measures: &[Measure], significance: f64, seed: u64) -> SideComparison {
    let mut primaries = 0;
    let mut changes: Vec<Change> = measures
        .iter()
        .map(|measure| {
            let asked = measure.rank == Rank::Primary && primaries < PRIMARY_MEASURES_MAX;
            primaries += usize::from(asked);
            let rank = if asked { Rank::Primary } else { Rank::Secondary };
            change(measure, rank, significance, seed)
        })
        .collect();
    correct_secondaries(&mut changes);
    for (change, measure) in changes.iter_mut().zip(measures) {
        change.verdict = side_verdict(change, measure.least_change, significance);
    }
    let verdict = overall(&changes);
    SideComparison { changes, verdict }
}

fn change(measure: &Measure, rank: Rank, significance: f64, seed: u64) -> Change {
    let logs = on_logarithms(&measure.blocks);
    let test = logs.clone().and_then(|logs| permutation_test(&logs, seed));
    Change {
        measure: measure.name.clone(),
        better_when: measure.better_when,
        rank,
        ratio: ratio(&measure.blocks, seed),
        p: test.map(|test| test.p),
        resolution: logs.and_then(|logs| resolution(&logs, measure.least_change, significance)),
        verdict: SideVerdict::CannotTell,
    }
}

/// As a share: what both the test and the interval would have seen.
fn resolution(logs: &[Block], least_change: f64, significance: f64) -> Result<f64, Missing> {
    let too_few = || Missing::because("too few repeats to know how far they scatter");
    let design = Design::behind(logs);
    let deviation = repeat_deviation(logs).ok_or_else(too_few)?;
    let degrees = degrees_of_freedom(&design).ok_or_else(too_few)?;
    let by_test = smallest_change_found(&design, deviation, significance)?;
    // The interval ends `student_factor` standard errors off, and chance takes some more 19 times of 20.
    let errors = student_factor(degrees) + student_quantile(FOUND_FRACTION, degrees);
    let by_interval = least_change.ln_1p() + errors * deviation / total_weight(logs).sqrt();
    Ok(by_test.max(by_interval).exp_m1())
}

fn correct_secondaries(changes: &mut [Change]) {
    let secondary = |change: &&mut Change| change.rank == Rank::Secondary && change.p.is_ok();
    let p_values: Vec<f64> =
        changes.iter_mut().filter(secondary).filter_map(|change| change.p.clone().ok()).collect();
    for (change, corrected) in changes.iter_mut().filter(secondary).zip(holm(&p_values)) {
        change.p = Ok(corrected);
    }
}

fn side_verdict(change: &Change, least_change: f64, significance: f64) -> SideVerdict {
    let (Ok(ratio), Ok(p), Ok(_)) = (&change.ratio, &change.p, &change.resolution) else {
        return SideVerdict::CannotTell;
    };
    let Ok(interval) = &ratio.interval else { return SideVerdict::CannotTell };
    // On factors, so that 1 % up and 1 % down are the same distance.
    let (more, less) = (interval.low > 1.0 + least_change, interval.high < 1.0 / (1.0 + least_change));
    if *p >= significance || !(more || less) {
        SideVerdict::NoDifferenceSeen
    } else if more == (change.better_when == BetterWhen::Higher) {
        SideVerdict::Better
    } else {
        SideVerdict::Worse
    }
}

fn overall(changes: &[Change]) -> SideVerdict {
    let primary = || changes.iter().filter(|change| change.rank == Rank::Primary);
    let any = |verdict| primary().any(|change| change.verdict == verdict);
    if primary().next().is_none() {
        return SideVerdict::CannotTell;
    }
    [SideVerdict::Worse, SideVerdict::CannotTell, SideVerdict::Better]
        .into_iter()
        .find(|verdict| any(*verdict))
        .unwrap_or(SideVerdict::NoDifferenceSeen)
}

impl Change {
    /// By what share B may be worse than A, best and worst case by the interval; negative where B is better.
    fn loss(&self) -> Option<Interval> {
        let interval = self.ratio.as_ref().ok()?.interval.as_ref().ok()?;
        Some(match self.better_when {
            BetterWhen::Higher => Interval { low: 1.0 - interval.high, high: 1.0 - interval.low },
            BetterWhen::Lower => Interval { low: interval.low - 1.0, high: interval.high - 1.0 },
        })
    }
}

impl SideComparison {
    /// The exit verdict for a tolerance (0.05 is 5 %). Worse where a primary measure is called worse and its
    /// whole interval lies beyond the tolerance. No worse only where the first primary measure's whole
    /// interval lies within it and no other primary measure is worse or cannot tell: not seeing a difference
    /// that could not have been seen is not "no worse".
    pub fn exit_verdict(&self, tolerance: f64) -> ExitVerdict {
        let primary = || self.changes.iter().filter(|change| change.rank == Rank::Primary);
        let beyond = |change: &Change| change.loss().is_some_and(|loss| loss.low > tolerance);
        let within = |change: &Change| change.loss().is_some_and(|loss| loss.high <= tolerance);
        if primary().any(|change| change.verdict == SideVerdict::Worse && beyond(change)) {
            return ExitVerdict::Worse;
        }
        let excused = |change: &Change| match change.verdict {
            SideVerdict::Better | SideVerdict::NoDifferenceSeen => true,
            SideVerdict::Worse => within(change),
            SideVerdict::CannotTell => false,
        };
        match primary().next() {
            Some(first) if within(first) && primary().all(excused) => ExitVerdict::NoWorse,
            _ => ExitVerdict::CannotTell,
        }
    }
}
