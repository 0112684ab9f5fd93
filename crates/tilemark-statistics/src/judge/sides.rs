//! Two sides, whether of one run or of records of their own: what failures and measures show.

use std::collections::BTreeMap;

use tilemark_plan::plan::{Plan, SideName};
use tilemark_record::result::{
    Comparison, ComparisonOutcome, Difference, FailureComparison, MeasureComparison, Voided, VoidedSides,
};

use super::differences;
use super::few_requests::FewRequests;
use super::measured::MeasuredPoint;
use super::pairing::Pairing;
use super::side_failures::{at_gates, at_step};
use super::side_measures::{ValueScale, measures};
use super::side_step::{SideStep, decisive};
use super::validity::busy_host;
use crate::compare::{Asked, BetterWhen, Change, Measure, Rank, SideComparison, SideVerdict, compare_many};
use crate::failures::{FailureChange, Failures};
use crate::fisher::fisher_exact;
use crate::moments::geometric_mean;
use crate::permutation::Block;
use crate::sentence::{self, LostSide, NoOutcome};

/// The significance of a comparison that has no step.
pub(crate) const SIGNIFICANCE: f64 = 0.01;

/// One side may lose more repeats than the other by chance in one comparison of so many (Fisher's exact test, two-sided).
pub(super) const VOIDED_P_MIN: f64 = 0.05;

/// Two sides compared, both as stored and as computed.
pub(crate) struct JudgedSides {
    pub(crate) comparison: Comparison,
    pub(crate) arithmetic: SideComparison,
    /// The tiles and values that decided, by index of point.
    pub(crate) decided_by: Vec<usize>,
}

/// The sides of one run; `None` where it has none.
pub(crate) fn of_plan(
    plan: &Plan,
    measured: &[MeasuredPoint],
    missing: &mut BTreeMap<String, String>,
) -> Option<JudgedSides> {
    let of_side = |side| measured.iter().filter(move |point| point.point.side == Some(side));
    let mut steps = Vec::new();
    for a in of_side(SideName::A) {
        let same = |b: &&MeasuredPoint| b.is_step_of(a) && b.point.backend == a.point.backend;
        steps.extend(of_side(SideName::B).find(same).map(|b| SideStep { a: vec![a], b: vec![b] }));
    }
    let first = steps.first()?;
    let differences = differences::of_sides(plan, first.a[0].point, first.b[0].point);
    let ready = Ready::of(plan, &steps, Pairing::Blocks, None, differences);
    let significance = ready.significance;
    let arithmetic = compare_many(&[ready.asked()], significance, plan.seed).pop();
    arithmetic.map(|arithmetic| ready.judged(arithmetic, 1, missing))
}

/// All that is asked of two sides, before anything is tested.
pub(crate) struct Ready<'s, 'm, 'a> {
    plan: &'s Plan,
    pub(crate) steps: &'s [SideStep<'m, 'a>],
    decisive: Option<&'s SideStep<'m, 'a>>,
    pairing: Pairing,
    blocked: Option<String>,
    differences: Vec<Difference>,
    pub(crate) significance: f64,
    failures: Vec<Failures>,
    /// Why the tail of the step that decides has no p99 of each repeat, where more requests would give it one.
    few_requests: Option<FewRequests<'a>>,
    measures: Vec<Measure>,
    /// The scale of the values of each measure.
    scales: Vec<ValueScale>,
}

impl<'s, 'm, 'a> Ready<'s, 'm, 'a> {
    pub(crate) fn of(
        plan: &'s Plan,
        steps: &'s [SideStep<'m, 'a>],
        pairing: Pairing,
        blocked: Option<String>,
        differences: Vec<Difference>,
    ) -> Self {
        let headline = plan.scenario.headline.as_deref().unwrap_or_default();
        let significance =
            steps.first().map_or(SIGNIFICANCE, |step| step.first().point.measure.significance.get());
        let decisive = decisive(steps);
        let decides = |step: &SideStep| decisive.is_some_and(|decisive| std::ptr::eq(decisive, step));
        let mut measures: Vec<(Measure, ValueScale)> =
            steps.iter().flat_map(|step| measures(step, headline, pairing, decides(step))).collect();
        // Stable: what decides comes first, step by step in the order above.
        measures.sort_by_key(|(measure, _)| measure.rank == Rank::Secondary);
        let (measures, scales) = measures.into_iter().unzip();
        let failures = decisive.map(|step| at_step(step, pairing)).unwrap_or_default();
        Self {
            plan,
            steps,
            decisive,
            pairing,
            blocked,
            differences,
            significance,
            failures,
            few_requests: decisive.and_then(|step| FewRequests::at(step, headline)),
            measures,
            scales,
        }
    }

    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked { failures: &self.failures, measures: &self.measures }
    }

    /// `comparisons`: of how many comparisons with one first side this is one.
    pub(crate) fn judged(
        &self,
        arithmetic: SideComparison,
        comparisons: usize,
        missing: &mut BTreeMap<String, String>,
    ) -> JudgedSides {
        let of_gates = self.significance / comparisons as f64;
        let gates = at_gates(self.steps, self.pairing, of_gates, self.plan.seed);
        let mut arithmetic = arithmetic.with_failures(gates);
        let voided = self.decisive.map(voided);
        let emulated = self.steps.iter().flat_map(SideStep::all).any(|point| !point.counts);
        arithmetic.blocked = if emulated {
            Some("an emulator proves function, not speed".to_owned())
        } else {
            self.blocked.clone().or_else(|| voided.and_then(|voided| unequal_discards(&voided)))
        };
        let mut comparison = Comparison {
            differences: self.differences.clone(),
            failures: arithmetic.failures.iter().map(failure_comparison).collect(),
            measures: self.stored(&arithmetic, missing),
            voided,
            outcome: overall_outcome(&arithmetic, self.pairing, emulated),
            sentence: String::new(),
        };
        // That there is one run a side is in the sentence already.
        let blocked = arithmetic.blocked.as_deref().filter(|_| self.pairing != Pairing::None || emulated);
        let lost = self.decisive.and_then(lost_side);
        let blocked = blocked.map(|reason| NoOutcome { reason: reason.to_owned(), remedy: None });
        let why = blocked.or_else(|| self.why_not(&arithmetic));
        comparison.sentence = sentence::sides(&comparison, self.pairing, why.as_ref(), lost.as_ref());
        let decided_by = self.decisive.map(|step| step.all().map(|point| point.point.index).collect());
        JudgedSides { comparison, arithmetic, decided_by: decided_by.unwrap_or_default() }
    }

    /// Why a primary measure has no answer at all, in the words of the arithmetic.
    fn why_not(&self, arithmetic: &SideComparison) -> Option<NoOutcome> {
        let primary = arithmetic.changes.iter().filter(|change| change.rank == Rank::Primary);
        primary.filter(|change| change.verdict == SideVerdict::CannotTell).find_map(|change| {
            let of_ratio = match &change.ratio {
                Ok(ratio) => ratio.interval.as_ref().err(),
                Err(reason) => Some(reason),
            };
            let reason = of_ratio.or(change.resolution.as_ref().err()).or(change.p.as_ref().err())?;
            let few = self.few_requests.as_ref().filter(|_| change.is_tail);
            Some(NoOutcome {
                reason: format!("{}: {}", change.measure, reason.reason),
                remedy: few.map(FewRequests::remedy),
            })
        })
    }

    /// The measures as they are stored; why one has no figure is missing's.
    fn stored(
        &self,
        arithmetic: &SideComparison,
        missing: &mut BTreeMap<String, String>,
    ) -> Vec<MeasureComparison> {
        let mut stored = Vec::new();
        for ((change, measure), scale) in arithmetic.changes.iter().zip(&self.measures).zip(&self.scales) {
            match measure_comparison(change, measure, scale) {
                Ok(measure) => stored.push(measure),
                Err(reason) => drop(missing.insert(format!("comparison.{}", change.measure), reason)),
            }
            if let Err(reason) = &change.resolution {
                missing.insert(format!("comparison.{}.resolution", change.measure), reason.reason.clone());
            }
        }
        stored
    }
}

/// The outcome, as far as the arrangement allows it.
fn overall_outcome(arithmetic: &SideComparison, pairing: Pairing, emulated: bool) -> ComparisonOutcome {
    let is_difference = matches!(arithmetic.verdict, SideVerdict::Better | SideVerdict::Worse)
        || arithmetic.changes.iter().any(|change| {
            change.rank == Rank::Primary && matches!(change.verdict, SideVerdict::Better | SideVerdict::Worse)
        });
    match &arithmetic.blocked {
        None => outcome(arithmetic.verdict),
        Some(_) if pairing == Pairing::None && is_difference && !emulated => {
            ComparisonOutcome::DiffersBetweenRuns
        }
        Some(_) => ComparisonOutcome::CannotTell,
    }
}

pub(super) fn voided(step: &SideStep) -> VoidedSides {
    let count = |side: &[&MeasuredPoint]| {
        let lost: usize = side.iter().map(|point| point.voided.len()).sum();
        let kept: usize = side.iter().map(|point| point.kept.len()).sum();
        (lost as u64, (lost + kept) as u64)
    };
    let ((a, of_a), (b, of_b)) = (count(&step.a), count(&step.b));
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    VoidedSides {
        a: small(a),
        of_a: small(of_a),
        b: small(b),
        of_b: small(of_b),
        p: fisher_exact(a, of_a, b, of_b),
    }
}

/// A side of a step of which no repeat is left.
fn lost_side(step: &SideStep) -> Option<LostSide> {
    [("A", &step.a), ("B", &step.b)].into_iter().find_map(|(name, side)| {
        if side.iter().any(|point| !point.kept.is_empty()) {
            return None;
        }
        let voided: Vec<&Voided> = side.iter().flat_map(|point| &point.voided).collect();
        let all = side.iter().flat_map(|point| point.all());
        let first = voided.first()?;
        Some(LostSide {
            reason: format!(
                "{} of {name} {} discarded, the first because: {}",
                if voided.len() == 1 {
                    "the only repeat".to_owned()
                } else {
                    format!("all {} repeats", voided.len())
                },
                if voided.len() == 1 { "was" } else { "were" },
                first.reason
            ),
            by_busy_host: all
                .map(|repeat| repeat.host.processor)
                .all(|used| busy_host(used.steal, used.other).next().is_some()),
        })
    })
}

/// Why the repeats that are left are no fair choice.
fn unequal_discards(voided: &VoidedSides) -> Option<String> {
    let VoidedSides { a, of_a, b, of_b, p } = voided;
    (*p < VOIDED_P_MIN).then(|| {
        format!(
            "{a} of {of_a} repeats of A and {b} of {of_b} of B were discarded, which is more than chance (p = {p:.3}): one side may be the cause"
        )
    })
}

fn outcome(verdict: SideVerdict) -> ComparisonOutcome {
    match verdict {
        SideVerdict::Better => ComparisonOutcome::Better,
        SideVerdict::Worse => ComparisonOutcome::Worse,
        SideVerdict::NoDifference => ComparisonOutcome::NoDifference,
        SideVerdict::CannotTell => ComparisonOutcome::CannotTell,
    }
}

/// A change as it is stored: B over A, less 1, and the values of both.
fn measure_comparison(
    change: &Change,
    measure: &Measure,
    scale: &ValueScale,
) -> Result<MeasureComparison, String> {
    let ratio = change.ratio.clone().map_err(|reason| reason.reason)?;
    let value = |side: fn(&Block) -> &Vec<f64>| {
        let values: Vec<f64> = measure.blocks.iter().flatten().flat_map(side).copied().collect();
        geometric_mean(&values).map(|value| value * scale.factor)
    };
    Ok(MeasureComparison {
        name: change.measure.clone(),
        unit: Some(scale.unit.clone()),
        a: value(|block| &block.a),
        b: value(|block| &block.b),
        change: ratio.map(|ratio| ratio - 1.0).into(),
        p: change.p.clone().ok(),
        resolution: change.resolution.clone().ok(),
        margin: Some(change.margin),
        primary: change.rank == Rank::Primary,
        more_is_better: change.better_when == BetterWhen::Higher,
        outcome: outcome(change.verdict),
    })
}

pub(super) fn failure_comparison(failure: &FailureChange) -> FailureComparison {
    FailureComparison {
        name: failure.name.clone(),
        a: failure.a,
        b: failure.b,
        p: failure.p.clone().ok(),
        outcome: outcome(failure.verdict),
    }
}
