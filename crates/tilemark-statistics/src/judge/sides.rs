//! Two sides, in turn within one run, or as two records: which measures decide and what they say.

use std::collections::BTreeMap;

use tilemark_plan::plan::{Plan, SideName};
use tilemark_plan::scenario::LoopKind;
use tilemark_record::result::{Comparison, ComparisonOutcome, Difference, MeasureComparison, Verdict};
use tilemark_record::summary::RepeatSummary;
use tilemark_units::counted;

use super::cost::{in_blocks, p50, p99, processor_per_answer, throughput};
use super::measured::MeasuredPoint;
use super::{differences, verdict};
use crate::compare::{
    BetterWhen, Change, ExitVerdict, Measure, Rank, SideComparison, SideVerdict, compare_sides,
};
use crate::permutation::Block;
use crate::sentence;

/// Least change of a throughput, a median or processor time that is called one: below, criterion.rs and we call
/// it noise.
const LEAST_CHANGE: f64 = 0.01;

/// Least change of a tail that is called one: Firecracker's A/B gate asks for as much.
const LEAST_CHANGE_OF_TAIL: f64 = 0.05;

/// Two sides compared, as it is stored and as it was computed.
pub(crate) struct JudgedSides {
    pub(crate) comparison: Comparison,
    pub(crate) arithmetic: SideComparison,
}

/// Two records compared.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordComparison {
    /// What differs and what that did.
    pub comparison: Comparison,
    /// Whether that can be trusted.
    pub verdict: Verdict,
    sides: SideComparison,
}

impl RecordComparison {
    /// What `--exit-verdict` says of B against A.
    pub fn exit_verdict(&self, tolerance: f64) -> ExitVerdict {
        verdict::exit_verdict(&self.verdict, Some(&self.sides), tolerance)
    }
}

/// How repeats of the sides belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// By the block that both ran in.
    Blocks,
    /// Not at all: two runs at different times.
    None,
}

struct SidePair<'m, 'a> {
    a: &'m MeasuredPoint<'a>,
    b: &'m MeasuredPoint<'a>,
}

/// The sides of one run; `None` where it has none.
pub(crate) fn of_plan(
    plan: &Plan,
    measured: &[MeasuredPoint],
    missing: &mut BTreeMap<String, String>,
) -> Option<JudgedSides> {
    let of_side = |side| measured.iter().filter(move |point| point.point.side == Some(side));
    let mut pairs = Vec::new();
    for a in of_side(SideName::A) {
        let same = |b: &&MeasuredPoint| b.is_step_of(a) && b.point.backend == a.point.backend;
        pairs.extend(of_side(SideName::B).find(same).map(|b| SidePair { a, b }));
    }
    let first = pairs.first()?;
    let differences = differences::of_points(first.a.point, first.b.point);
    Some(compared(plan, &pairs, Pairing::Blocks, differences, missing))
}

/// Compares two records: `a` and `b` are the plans with their repeats, `made_with` what differs between the programs that
/// made them. Points are compared where step, values and backend are the same; a run of two sides is compared by
/// itself, not here.
pub fn compare_records(
    plan_a: &Plan,
    repeats_a: &[RepeatSummary],
    plan_b: &Plan,
    repeats_b: &[RepeatSummary],
    made_with: Vec<Difference>,
) -> RecordComparison {
    let of_a: Vec<MeasuredPoint> =
        plan_a.points.iter().map(|point| MeasuredPoint::on(&plan_a.host, point, repeats_a)).collect();
    let of_b: Vec<MeasuredPoint> =
        plan_b.points.iter().map(|point| MeasuredPoint::on(&plan_b.host, point, repeats_b)).collect();
    let mut pairs = Vec::new();
    for a in of_a.iter().filter(|a| a.point.side.is_none() && a.tried()) {
        let same = |b: &&MeasuredPoint| {
            b.is_step_of(a) && b.point.backend == a.point.backend && b.point.side.is_none() && b.tried()
        };
        pairs.extend(of_b.iter().find(same).map(|b| SidePair { a, b }));
    }
    let mut differences = differences::of_hosts(&plan_a.host, &plan_b.host);
    differences.extend(made_with);
    if let Some(pair) = pairs.first() {
        differences.extend(differences::of_points(pair.a.point, pair.b.point));
    }
    let judged = compared(plan_a, &pairs, Pairing::None, differences, &mut BTreeMap::new());
    let touched = pairs.iter().flat_map(|pair| [pair.a, pair.b]);
    let verdict = verdict::of_sides(touched, &judged.arithmetic);
    RecordComparison { comparison: judged.comparison, verdict, sides: judged.arithmetic }
}

fn compared(
    plan: &Plan,
    pairs: &[SidePair],
    pairing: Pairing,
    differences: Vec<Difference>,
    missing: &mut BTreeMap<String, String>,
) -> JudgedSides {
    let headline = plan.scenario.headline.as_deref().unwrap_or_default();
    let significance = pairs.first().map_or(0.01, |pair| pair.a.point.measure.significance.get());
    // The highest step first: that is where a difference is felt.
    let mut ordered: Vec<&SidePair> = pairs.iter().collect();
    ordered.sort_by_key(|pair| std::cmp::Reverse(pair.a.point.tiles));
    let mut measures: Vec<Measure> =
        ordered.iter().flat_map(|pair| measures(pair, headline, pairing)).collect();
    // Stable: what decides comes first, step by step in the order above.
    measures.sort_by_key(|measure| measure.rank == Rank::Secondary);
    let arithmetic = compare_sides(&measures, significance, plan.seed);
    let mut stored = Vec::new();
    for change in &arithmetic.changes {
        match measure_comparison(change) {
            Ok(measure) => stored.push(measure),
            Err(reason) => drop(missing.insert(format!("comparison.{}", change.measure), reason)),
        }
        if let Err(reason) = &change.resolution {
            missing.insert(format!("comparison.{}.resolution", change.measure), reason.reason.clone());
        }
    }
    let emulated = pairs.iter().any(|pair| !pair.a.counts || !pair.b.counts);
    let outcome = if emulated { ComparisonOutcome::CannotTell } else { outcome(arithmetic.verdict) };
    let mut comparison = Comparison { differences, measures: stored, outcome, sentence: String::new() };
    comparison.sentence = sentence::sides(&comparison, pairing);
    JudgedSides { comparison, arithmetic }
}

/// What is compared at one step. A closed loop shows a slower side by what it gets done, an open loop by how
/// long it takes; then the tail, then processor time.
fn measures(pair: &SidePair, headline: &str, pairing: Pairing) -> Vec<Measure> {
    let first = pair.a.kept.first().and_then(|repeat| repeat.loads.iter().find(|load| load.name == headline));
    let closed = first.is_some_and(|load| load.loop_kind == LoopKind::Closed);
    let by_rate = |closed: bool| if closed { Rank::Primary } else { Rank::Secondary };
    let place = place(pair);
    let measure =
        |name: String, rank, least_change, better_when, figure: &dyn Fn(&RepeatSummary) -> Option<f64>| {
            Measure {
                name: format!("{name} {place}"),
                better_when,
                rank,
                least_change,
                blocks: blocks(pair, pairing, figure),
            }
        };
    let throughput = measure(
        format!("{headline} throughput"),
        by_rate(closed),
        LEAST_CHANGE,
        BetterWhen::Higher,
        &|repeat| throughput(repeat, headline),
    );
    let median =
        measure(format!("{headline} p50"), by_rate(!closed), LEAST_CHANGE, BetterWhen::Lower, &|repeat| {
            p50(repeat, headline)
        });
    let tail = measure(
        format!("{headline} p99"),
        Rank::Primary,
        LEAST_CHANGE_OF_TAIL,
        BetterWhen::Lower,
        &|repeat| p99(repeat, headline),
    );
    let processor = measure(
        "processor time per answer".to_owned(),
        Rank::Primary,
        LEAST_CHANGE,
        BetterWhen::Lower,
        &processor_per_answer,
    );
    if closed { vec![throughput, tail, processor, median] } else { vec![median, tail, processor, throughput] }
}

fn place(pair: &SidePair) -> String {
    let point = pair.a.point;
    let tiles = format!("at {}", counted(point.tiles, "tile"));
    point.vary.iter().fold(tiles, |text, (name, value)| format!("{text}, {name} {value}"))
}

fn blocks(pair: &SidePair, pairing: Pairing, figure: &dyn Fn(&RepeatSummary) -> Option<f64>) -> Vec<Block> {
    match pairing {
        Pairing::Blocks => in_blocks(&pair.a.kept, &pair.b.kept, figure).unwrap_or_default(),
        Pairing::None => {
            let of =
                |repeats: &[&RepeatSummary]| repeats.iter().filter_map(|repeat| figure(repeat)).collect();
            vec![Block { a: of(&pair.a.kept), b: of(&pair.b.kept) }]
        }
    }
}

fn outcome(verdict: SideVerdict) -> ComparisonOutcome {
    match verdict {
        SideVerdict::Better => ComparisonOutcome::Better,
        SideVerdict::Worse => ComparisonOutcome::Worse,
        SideVerdict::NoDifferenceSeen => ComparisonOutcome::NoDifference,
        SideVerdict::CannotTell => ComparisonOutcome::CannotTell,
    }
}

/// A change as it is stored: B over A, less 1.
fn measure_comparison(change: &Change) -> Result<MeasureComparison, String> {
    let ratio = change.ratio.clone().map_err(|reason| reason.reason)?;
    Ok(MeasureComparison {
        name: change.measure.clone(),
        change: ratio.map(|ratio| ratio - 1.0).into(),
        p: change.p.clone().ok(),
        resolution: change.resolution.clone().ok(),
        primary: change.rank == Rank::Primary,
        more_is_better: change.better_when == BetterWhen::Higher,
        outcome: outcome(change.verdict),
    })
}
