//! Two sides, whether of one run or of records of their own: which measures decide and what they say.

use std::collections::BTreeMap;

use tilemark_plan::plan::{Plan, SideName};
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{
    Comparison, ComparisonOutcome, Difference, FailureComparison, MeasureComparison, Voided, VoidedSides,
};
use tilemark_record::summary::Better;

use super::blocks::{FigureOf, RepeatBlock, figures, serves};
use super::differences;
use super::measured::MeasuredPoint;
use super::pairing::Pairing;
use super::repeat_figures::{p50, p99, processor_per_answer, throughput};
use super::side_failures::{at_gates, at_step};
use super::side_step::SideStep;
use super::validity::busy_host;
use crate::compare::{
    Asked, BetterWhen, Change, LEAST_CHANGE, LEAST_CHANGE_OF_TAIL, Measure, Rank, SideComparison,
    SideVerdict, compare_many,
};
use crate::failures::{FailureChange, Failures};
use crate::figure::Missing;
use crate::fisher::fisher_exact;
use crate::moments::geometric_mean;
use crate::permutation::Block;
use crate::sentence::{self, LostSide};

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

/// The step that decides: the largest that both sides hold. Beyond, speed is the length of a queue. Where there is none, the
/// smallest that was measured.
fn decisive<'s, 'm, 'a>(steps: &[&'s SideStep<'m, 'a>]) -> Option<&'s SideStep<'m, 'a>> {
    // In the order given, so that of several values at one count the first decides.
    let held = steps.iter().filter(|step| step.holds());
    let largest = held.rev().max_by_key(|step| step.first().point.tiles);
    let measured = || steps.iter().filter(|step| step.is_measured());
    largest.or_else(|| measured().min_by_key(|step| step.first().point.tiles)).or(steps.first()).copied()
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
    measures: Vec<Measure>,
    /// The scale of the values of each measure.
    scales: Vec<ValueScale>,
}

/// In which unit a measure's values are shown.
struct ValueScale {
    unit: String,
    /// How many of them a value of the judge is.
    factor: f64,
}

impl ValueScale {
    fn of(unit: impl Into<String>) -> Self {
        Self { unit: unit.into(), factor: 1.0 }
    }
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
        let in_order: Vec<&SideStep> = steps.iter().collect();
        let decisive = decisive(&in_order);
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
        comparison.sentence = sentence::sides(
            &comparison,
            self.pairing,
            blocked,
            why_not(&arithmetic).as_deref(),
            lost.as_ref(),
        );
        let decided_by = self.decisive.map(|step| step.all().map(|point| point.point.index).collect());
        JudgedSides { comparison, arithmetic, decided_by: decided_by.unwrap_or_default() }
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

/// Why a primary measure has no answer at all, in the words of the arithmetic.
fn why_not(arithmetic: &SideComparison) -> Option<String> {
    let primary = arithmetic.changes.iter().filter(|change| change.rank == Rank::Primary);
    primary.filter(|change| change.verdict == SideVerdict::CannotTell).find_map(|change| {
        let reason = change.ratio.as_ref().err().or(change.ratio.as_ref().ok()?.interval.as_ref().err());
        let reason = reason.or(change.resolution.as_ref().err()).or(change.p.as_ref().err())?;
        Some(format!("{}: {}", change.measure, reason.reason))
    })
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

/// What is compared at one step. A closed loop shows a slower side by what it gets done, an open loop by how
/// long it takes; then the tail, then processor time.
fn measures(step: &SideStep, headline: &str, pairing: Pairing, decides: bool) -> Vec<(Measure, ValueScale)> {
    let kept = step.all().find_map(|point| point.kept.first());
    let load = kept.and_then(|repeat| repeat.loads.iter().find(|load| load.name == headline));
    let closed = load.is_some_and(|load| load.loop_kind == LoopKind::Closed);
    let (place, plan) = (step.place(), &step.first().point.measure);
    let measure = |name: String, ranked: bool, better_when, figure: FigureOf| Measure {
        name: format!("{name} {place}"),
        better_when,
        rank: if ranked && decides { Rank::Primary } else { Rank::Secondary },
        is_tail: false,
        least_change: LEAST_CHANGE,
        margin: plan.margin.get(),
        blocks: blocks(step, headline, pairing, figure),
    };
    let figure = load.and_then(|load| load.figure.as_ref());
    let what = if figure.is_some() { "figure" } else { "throughput" };
    let better = match figure.map(|figure| figure.better) {
        Some(Better::Lower) => BetterWhen::Lower,
        Some(Better::Higher) | None => BetterWhen::Higher,
    };
    let rate = measure(format!("{headline} {what}"), closed, better, &|repeat| throughput(repeat, headline));
    let median =
        measure(format!("{headline} p50"), !closed, BetterWhen::Lower, &|repeat| p50(repeat, headline));
    let tail = Measure {
        is_tail: true,
        least_change: LEAST_CHANGE_OF_TAIL,
        margin: plan.margin_p99.get(),
        ..measure(format!("{headline} p99"), true, BetterWhen::Lower, &|repeat| p99(repeat, headline))
    };
    let processor =
        measure("processor time per answer".to_owned(), true, BetterWhen::Lower, &processor_per_answer);
    let rate = (rate, ValueScale::of(load.map(|load| load.unit_of_rate()).unwrap_or_default()));
    let [median, tail] = [median, tail].map(|latency| (latency, ValueScale::of("ms")));
    let processor = (processor, ValueScale { unit: "ms of the host".to_owned(), factor: 1_000.0 });
    if closed { vec![rate, tail, processor, median] } else { vec![median, tail, processor, rate] }
}

/// A figure of the repeats that served something; those that did not are counted among the failures.
fn blocks(
    step: &SideStep,
    headline: &str,
    pairing: Pairing,
    figure: FigureOf,
) -> Result<Vec<Block>, Missing> {
    if pairing == Pairing::Runs {
        return Ok(vec![Block {
            a: of_runs(&step.a, headline, figure)?,
            b: of_runs(&step.b, headline, figure)?,
        }]);
    }
    let whole = step.blocks(pairing, |point| point.kept.clone());
    let served: Vec<RepeatBlock> = whole.iter().filter_map(|block| block.served(headline)).collect();
    figures(&served, figure)
}

/// One value for each run: the mean of its repeats on logarithms.
fn of_runs(runs: &[&MeasuredPoint], headline: &str, figure: FigureOf) -> Result<Vec<f64>, Missing> {
    let of_run = |run: &&MeasuredPoint| {
        let served = run.kept.iter().filter(|repeat| serves(repeat, headline));
        let values: Option<Vec<f64>> = served.map(|repeat| figure(repeat)).collect();
        values.and_then(|values| geometric_mean(&values))
    };
    let values: Option<Vec<f64>> = runs.iter().map(of_run).collect();
    values.ok_or_else(|| Missing::because("a run does not have it in every repeat that counts"))
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
