//! Two sides: better, worse, no difference seen, or cannot tell; and the exit verdict of `git bisect run`.

use crate::figure::{Figure, Interval, Missing};
use crate::holm::holm;
use crate::permutation::{Block, Design, permutation_test};
use crate::ratio::{on_logarithms, ratio};
use crate::resolution::{repeat_deviation, smallest_change_found};

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
    /// Its kept repeats, block by block; a block that lost a side is not among them.
    pub blocks: Vec<Block>,
}

/// What must be true before a change is called one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// A change needs a p below this.
    pub p: f64,
    /// And must be at least this large (0.01 is 1 %): with enough repeats any two things differ.
    pub least_change: f64,
}

impl Default for Terms {
    /// p < 0.01 as Firecracker's A/B gate asks; 1 % because criterion.rs takes less for noise.
    fn default() -> Self {
        Self { p: 0.01, least_change: 0.01 }
    }
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

/// Compares the sides measure by measure. `seed` feeds drawn relabelings and bootstrap.
pub fn compare_sides(measures: &[Measure], terms: Terms, seed: u64) -> SideComparison {
    let mut primaries = 0;
    let mut changes: Vec<Change> = measures
        .iter()
        .map(|measure| {
            let asked = measure.rank == Rank::Primary && primaries < PRIMARY_MEASURES_MAX;
            primaries += usize::from(asked);
            let rank = if asked { Rank::Primary } else { Rank::Secondary };
            change(measure, rank, terms, seed)
        })
        .collect();
    correct_secondaries(&mut changes);
    for change in &mut changes {
        change.verdict = side_verdict(change, terms);
    }
    let verdict = overall(&changes);
    SideComparison { changes, verdict }
}

fn change(measure: &Measure, rank: Rank, terms: Terms, seed: u64) -> Change {
    let logs = on_logarithms(&measure.blocks);
    let test = logs.clone().and_then(|logs| permutation_test(&logs, seed));
    Change {
        measure: measure.name.clone(),
        better_when: measure.better_when,
        rank,
        ratio: ratio(&measure.blocks, seed),
        p: test.map(|test| test.p),
        resolution: logs.and_then(|logs| resolution(&logs, terms)),
        verdict: SideVerdict::CannotTell,
    }
}

/// As a share; never below the least change that is called one.
fn resolution(logs: &[Block], terms: Terms) -> Result<f64, Missing> {
    let deviation = repeat_deviation(logs)
        .ok_or_else(|| Missing::because("too few repeats to know how far they scatter"))?;
    let found = smallest_change_found(&Design::behind(logs), deviation, terms.p)?;
    Ok(found.exp_m1().max(terms.least_change))
}

fn correct_secondaries(changes: &mut [Change]) {
    let secondary = |change: &&mut Change| change.rank == Rank::Secondary && change.p.is_ok();
    let p_values: Vec<f64> =
        changes.iter_mut().filter(secondary).filter_map(|change| change.p.clone().ok()).collect();
    for (change, corrected) in changes.iter_mut().filter(secondary).zip(holm(&p_values)) {
        change.p = Ok(corrected);
    }
}

fn side_verdict(change: &Change, terms: Terms) -> SideVerdict {
    let (Ok(ratio), Ok(p), Ok(_)) = (&change.ratio, &change.p, &change.resolution) else {
        return SideVerdict::CannotTell;
    };
    // On logarithms, so that 1 % up and 1 % down are the same distance.
    if *p >= terms.p || ratio.value.ln().abs() < terms.least_change.ln_1p() {
        return SideVerdict::NoDifferenceSeen;
    }
    if (ratio.value > 1.0) == (change.better_when == BetterWhen::Higher) {
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
    /// The exit verdict for a tolerance (0.05 is 5 %): worse only where a primary measure is called worse and
    /// its whole interval lies beyond the tolerance; no worse only where every primary measure's whole
    /// interval lies within it. Not seeing a difference that could not have been seen is not "no worse".
    pub fn exit_verdict(&self, tolerance: f64) -> ExitVerdict {
        let primary = || self.changes.iter().filter(|change| change.rank == Rank::Primary);
        let beyond = |change: &Change| change.loss().is_some_and(|loss| loss.low > tolerance);
        let within = |change: &Change| change.loss().is_some_and(|loss| loss.high <= tolerance);
        if primary().any(|change| change.verdict == SideVerdict::Worse && beyond(change)) {
            return ExitVerdict::Worse;
        }
        let answered = primary().all(|change| change.verdict != SideVerdict::CannotTell && within(change));
        if answered && primary().next().is_some() { ExitVerdict::NoWorse } else { ExitVerdict::CannotTell }
    }
}
