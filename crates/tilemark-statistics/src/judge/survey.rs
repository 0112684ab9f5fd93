//! What is known of every count of a ladder: by its own intervals, and by the law through all repeats.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use statrs::distribution::{ContinuousCDF, StudentsT};
use tilemark_plan::plan::Backend;
use tilemark_plan::search::width_allowed;
use tilemark_record::result::GateMeasure;

use super::gate::{GateFinding, seen};
use super::law::{Law, Observation, RUN_TO_RUN, Seen};
use super::measured::MeasuredPoint;
use super::tail::upper_half;
use crate::figure::Figure;
use crate::figure::INTERVAL_REPEATS_MIN;
use crate::interval::student_factor;
use crate::moments::{mean, sample_deviation};

/// Probability from which on the law alone decides of a count that has too few repeats for an interval of its own.
pub(crate) const SURE: f64 = 0.975;

/// Probability that the answer must have to be trusted, and at which a search ends.
pub(crate) const CONFIDENCE_MIN: f64 = 0.95;

/// What is said about a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Holds,
    Undecided,
    Breaks,
    /// It was not measured, or all its repeats were discarded.
    Unknown,
}

/// One count.
pub(crate) struct Step {
    pub(crate) standing: Standing,
    /// Repeats that say on which side of the gate it is, those that failed among them.
    pub(crate) repeats: u32,
    /// The same with those that were discarded.
    pub(crate) tries: u32,
    /// Mean of ln(p99 / limit) over its repeats: on which side of the gate it probably is.
    pub(crate) side: f64,
    /// Whether its own intervals decided, and not the law alone.
    pub(crate) is_measured: bool,
    /// Probability that it holds by its own repeats alone, in this run and in the next, whatever curve leads to it; nothing of fewer
    /// than an interval needs.
    own: Option<f64>,
    /// Whether a guest or service failed there.
    pub(crate) is_failure: bool,
}

/// All counts of one ladder.
pub(crate) struct Survey {
    pub(crate) backend: Backend,
    pub(crate) law: Option<Law>,
    pub(crate) steps: BTreeMap<u32, Step>,
}

/// Repeats at one end that no end is planned to need.
const REPEATS_OF_END_MAX: u32 = 40;

/// Half width of a 95 % interval over 3, 4, … repeats, in deviations of a repeat: Student's t over the root of the repeats.
static HALF_WIDTHS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let half = |repeats: u32| student_factor(f64::from(repeats) - 1.0) / f64::from(repeats).sqrt();
    (INTERVAL_REPEATS_MIN as u32..REPEATS_OF_END_MAX).map(half).collect()
});

/// By how far a repeat that missed the gate without a p99 is taken to lie beyond it.
const BEYOND: f64 = 0.7;

impl Survey {
    /// Of the points of one ladder: one backend, one side, one value of what varies.
    ///
    /// # Panics
    /// Of no points.
    pub(crate) fn of(points: &[&MeasuredPoint]) -> Self {
        let all: Vec<(u32, Vec<Seen>)> =
            points.iter().map(|point| (point.point.tiles, seen_at(point))).collect();
        let observations: Vec<Observation> = all
            .iter()
            .flat_map(|(tiles, seen)| seen.iter().map(|seen| Observation { tiles: *tiles, seen: *seen }))
            .collect();
        let law = Law::through(&observations);
        let step = |(point, (tiles, seen)): (&&MeasuredPoint, &(u32, Vec<Seen>))| {
            let probability = law.as_ref().map(|law| law.holds(f64::from(*tiles)));
            let sides: Vec<f64> = seen.iter().filter_map(|seen| side_of(*seen)).collect();
            let side = mean(&sides).unwrap_or(0.0);
            let standing = standing(point, probability, side);
            let is_measured = point.gate.holds().is_some();
            let step = Step {
                standing,
                repeats: seen.iter().filter(|seen| !matches!(seen, Seen::Nothing)).count() as u32,
                tries: (point.kept.len() + point.voided.len()) as u32,
                side,
                is_measured,
                own: holds_by_itself(seen),
                is_failure: point.gate.is_failure(),
            };
            (*tiles, step)
        };
        let steps = points.iter().zip(&all).filter(|(point, _)| point.tried()).map(step).collect();
        Self { backend: points[0].point.backend, law, steps }
    }

    /// What the answer says about a count of this ladder. Where two counts close enough to each other were measured often enough for
    /// intervals of their own, they are the ends of the answer: what the law alone says about those between leaves them open. Where the ends
    /// are far apart, the law knows more.
    pub(crate) fn standing(&self, tiles: u32) -> Standing {
        match self.steps[&tiles] {
            Step { standing: Standing::Holds | Standing::Breaks, is_measured: false, .. }
                if self.ends().is_some_and(|(held, broke)| held.unwrap_or(0) < tiles && tiles < broke) =>
            {
                Standing::Undecided
            }
            Step { standing, .. } => standing,
        }
    }

    /// The largest count that holds and the smallest that breaks by intervals of their own, where they lie close enough to each other.
    fn ends(&self) -> Option<(Option<u32>, u32)> {
        let measured = |standing: Standing| {
            let is_one = move |(_, step): &(&u32, &Step)| step.is_measured && step.standing == standing;
            self.steps.iter().filter(is_one).map(|(tiles, _)| *tiles)
        };
        let (held, broke) = (measured(Standing::Holds).next_back(), measured(Standing::Breaks).next()?);
        (held.is_none_or(|held| held < broke) && is_narrow(held, broke)).then_some((held, broke))
    }

    /// Probability that the largest count that holds is one from `held` to the one below `broke`: by the law, or by the repeats of these
    /// two counts alone. A host may run into a wall that no curve of the law has, and two counts that were measured need none.
    pub(crate) fn confidence(&self, held: Option<u32>, broke: Option<u32>, by_failure: bool) -> Option<f64> {
        let broke = broke.filter(|_| !by_failure);
        let by_law = self.law.as_ref().map(|law| law.between(held, broke))?;
        Some(self.confidence_of_ends(held, broke).map_or(by_law, |by_ends| by_law.max(by_ends)))
    }

    /// Nothing where one of them is not decided by its own intervals.
    fn confidence_of_ends(&self, held: Option<u32>, broke: Option<u32>) -> Option<f64> {
        let own = |tiles: u32| self.steps.get(&tiles).filter(|step| step.is_measured)?.own;
        let holds = held.map_or(Some(1.0), own)?;
        let breaks = broke.map_or(Some(1.0), |tiles| own(tiles).map(|holds| 1.0 - holds))?;
        // Bonferroni: both are right at least so often, however they depend on each other.
        Some((holds + breaks - 1.0).max(0.0))
    }

    /// Whether a guest or service failed at a count.
    pub(crate) fn is_failure(&self, tiles: u32) -> bool {
        self.steps.get(&tiles).is_some_and(|step| step.is_failure)
    }

    /// Repeats that a count will need so that its own interval lies on one side of the gate, if it scatters as the law says.
    pub(crate) fn repeats_needed(&self, tiles: u32) -> u32 {
        if self.is_failure(tiles) {
            return 1;
        }
        let Some(law) = &self.law else { return INTERVAL_REPEATS_MIN as u32 };
        let level = self.level(law, tiles);
        let is_decided = |half: &f64| {
            let half = half * law.scatter();
            if level < 0.0 { upper_half(half) <= -level } else { half <= level }
        };
        let enough = HALF_WIDTHS.iter().position(is_decided);
        enough.map_or(REPEATS_OF_END_MAX, |index| (index + INTERVAL_REPEATS_MIN) as u32)
    }

    /// The same beyond those that it has.
    pub(crate) fn repeats_lacking(&self, tiles: u32) -> u32 {
        let had = self.steps.get(&tiles).map_or(0, |step| step.repeats);
        self.repeats_needed(tiles).saturating_sub(had)
    }

    /// ln(p99 / limit) at a count: by the law, or by its own repeats where they lie further off on the same side. The law takes what is
    /// far only for far.
    fn level(&self, law: &Law, tiles: u32) -> f64 {
        let by_law = law.level(f64::from(tiles));
        let own = self.steps.get(&tiles).filter(|step| step.repeats > 0).map_or(0.0, |step| step.side);
        if own * by_law > 0.0 && own.abs() > by_law.abs() { own } else { by_law }
    }

    /// The capacity by the law, where repeats lie on both sides of the gate.
    pub(crate) fn capacity(&self) -> Option<Figure> {
        let on_both = self.steps.values().any(|step| step.side > 0.0)
            && self.steps.values().any(|step| step.side <= 0.0);
        self.law.as_ref().filter(|_| on_both).map(Law::capacity)
    }

    /// The same between the ends of an answer: one outside them is that of a curve which does not fit this host.
    pub(crate) fn capacity_between(&self, held: Option<u32>, broke: u32) -> Option<Figure> {
        let ends = f64::from(held.unwrap_or(0))..=f64::from(broke);
        self.capacity().filter(|capacity| ends.contains(&capacity.value))
    }
}

/// What the repeats of a count say about the gate. Where a guest alone broke it by errors or by demand that was not served, its p99 says
/// nothing of that.
fn seen_at(point: &MeasuredPoint) -> Vec<Seen> {
    let seen = seen(point.point, &point.kept);
    let is_by_latency = point.gate.breaks().first().is_none_or(|first| first.measure == GateMeasure::P99);
    if is_by_latency { seen } else { seen.into_iter().map(|_| Seen::Over).collect() }
}

/// Nothing where a repeat says only on which side it lies.
///
/// Student's t of the mean of ln(p99 / limit), with what may differ from run to run. That is taken as known, so the degrees of freedom are those of Welch
/// and Satterthwaite for one variance that is estimated and one that is not.
fn holds_by_itself(seen: &[Seen]) -> Option<f64> {
    let ratio = |seen: &Seen| if let Seen::Ratio(ratio) = seen { Some(*ratio) } else { None };
    let ratios: Vec<f64> = seen.iter().map(ratio).collect::<Option<_>>()?;
    let (mean, deviation) = (mean(&ratios)?, sample_deviation(&ratios)?);
    let repeats = ratios.len() as f64;
    let of_mean = deviation.powi(2) / repeats;
    let all = of_mean + RUN_TO_RUN.powi(2);
    let degrees = (repeats - 1.0) * (all / of_mean.max(1e-6)).powi(2);
    let student = StudentsT::new(0.0, 1.0, degrees).ok()?;
    (ratios.len() >= INTERVAL_REPEATS_MIN).then(|| student.cdf(-mean / all.sqrt()))
}

fn side_of(seen: Seen) -> Option<f64> {
    match seen {
        Seen::Ratio(ratio) => Some(ratio),
        Seen::Over => Some(BEYOND),
        Seen::Within => Some(-BEYOND),
        Seen::Nothing => None,
    }
}

/// The own intervals of a count decide, and a failure breaks it. Where its repeats are too few for an interval, the law through all
/// repeats decides if it is sure and they lie on the same side: the law takes one that is wild for chance, and no count is called by
/// the opposite of all that was measured there.
fn standing(point: &MeasuredPoint, probability: Option<f64>, side: f64) -> Standing {
    match &point.gate {
        GateFinding::Broke(_) => Standing::Breaks,
        GateFinding::Holds => Standing::Holds,
        GateFinding::Undecided(_) => Standing::Undecided,
        GateFinding::Unknown(_) if point.kept.is_empty() => Standing::Unknown,
        GateFinding::Unknown(_) if point.kept.len() >= INTERVAL_REPEATS_MIN => Standing::Undecided,
        GateFinding::Unknown(_) => match probability {
            Some(probability) if probability >= SURE && side <= 0.0 => Standing::Holds,
            Some(probability) if probability <= 1.0 - SURE && side >= 0.0 => Standing::Breaks,
            Some(_) => Standing::Undecided,
            None => Standing::Unknown,
        },
    }
}

/// Whether so few counts lie from what holds to what breaks that one can act on it.
pub(crate) fn is_narrow(held: Option<u32>, broke: u32) -> bool {
    let held = held.unwrap_or(0);
    broke.saturating_sub(held + 1) <= width_allowed(held, broke)
}
