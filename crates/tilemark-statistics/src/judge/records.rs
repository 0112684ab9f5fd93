//! Two sides that are records of their own: single runs, or sets of runs.

use std::collections::{BTreeMap, BTreeSet};

use tilemark_plan::plan::Plan;
use tilemark_record::result::{Comparison, Difference, Verdict};
use tilemark_record::summary::RepeatSummary;
use tilemark_units::counted;

use super::measured::MeasuredPoint;
use super::pairing::Pairing;
use super::side_step::SideStep;
use super::sides::{Ready, SIGNIFICANCE};
use super::validity::TypicalP99;
use super::{differences, verdict};
use crate::compare::{Asked, ExitVerdict, SideComparison, Tolerance, compare_many};

/// Fewest runs of each side with which the run is the unit. Fewer do not show how far runs of one thing lie apart.
pub const RUNS_MIN: usize = 3;

/// Two records, or two sets of them, compared.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordComparison {
    /// What differs and what that did.
    pub comparison: Comparison,
    /// Whether that can be trusted.
    pub verdict: Verdict,
    sides: SideComparison,
}

impl RecordComparison {
    /// What `--exit-verdict` says about B against A.
    pub fn exit_verdict(&self, tolerance: impl Into<Tolerance>) -> ExitVerdict {
        verdict::exit_verdict(&self.verdict, Some(&self.sides), tolerance.into())
    }
}

/// One run with its repeats.
#[derive(Clone, Copy, Debug)]
pub struct RunRepeats<'a> {
    /// Its plan.
    pub plan: &'a Plan,
    /// Its repeats.
    pub repeats: &'a [RepeatSummary],
}

/// Compares two records. Points are compared where step, values and backend are the same; a run of two sides is compared by
/// itself, not here. See [`compare_runs`].
pub fn compare_records(
    plan_a: &Plan,
    repeats_a: &[RepeatSummary],
    plan_b: &Plan,
    repeats_b: &[RepeatSummary],
    made_with: Vec<Difference>,
) -> RecordComparison {
    let a = RunRepeats { plan: plan_a, repeats: repeats_a };
    let b = RunRepeats { plan: plan_b, repeats: repeats_b };
    compare_runs(&[a], &[b], made_with, Vec::new())
}

/// Compares the runs of two sides. With [`RUNS_MIN`] runs of each side or more, the run is the unit: each gives one value, the
/// mean of its repeats. With one run a side the repeats are compared, and the outcome is at most "differs between these two runs":
/// two runs of the same thing differ too. With other numbers it cannot be known.
///
/// `made_with`: what differs between the programs that made the two sides. `unlike`: what differs among the runs of one side.
///
/// # Panics
/// When a side has no run.
pub fn compare_runs(
    a: &[RunRepeats],
    b: &[RunRepeats],
    made_with: Vec<Difference>,
    unlike: Vec<Difference>,
) -> RecordComparison {
    let only = compare_with_first(a, vec![OtherRuns { runs: b.to_vec(), made_with, unlike }]).pop();
    only.expect("each side is compared")
}

/// A side that is compared with the first one.
#[derive(Clone, Debug)]
pub struct OtherRuns<'a> {
    /// Its runs.
    pub runs: Vec<RunRepeats<'a>>,
    /// What differs between the programs that made it and those that made the first side.
    pub made_with: Vec<Difference>,
    /// What differs among the runs of either side.
    pub unlike: Vec<Difference>,
}

/// Compares any number of sides, each with the first one, as [`compare_runs`] does for one. p is corrected over all comparisons, as
/// over the measures of one.
///
/// # Panics
/// When a side has no run.
pub fn compare_with_first(a: &[RunRepeats], others: Vec<OtherRuns>) -> Vec<RecordComparison> {
    let points: Vec<_> =
        others.iter().map(|other| (measured(a, &other.runs), measured(&other.runs, a))).collect();
    let steps: Vec<Vec<SideStep>> = points.iter().map(|(of_a, of_b)| common_steps(of_a, of_b)).collect();
    let ready: Vec<Ready> =
        others.into_iter().zip(&steps).map(|(other, steps)| ready(a, other, steps)).collect();
    let asked: Vec<Asked> = ready.iter().map(Ready::asked).collect();
    let significance = ready.first().map_or(SIGNIFICANCE, |ready| ready.significance);
    let arithmetic = compare_many(&asked, significance, a[0].plan.seed);
    let comparisons = arithmetic.len();
    let judged = ready.iter().zip(arithmetic).map(|(ready, arithmetic)| {
        let judged = ready.judged(arithmetic, comparisons, &mut BTreeMap::new());
        let decides = |step: &&SideStep| judged.decided_by.first() == Some(&step.first().point.index);
        let touched = ready.steps.iter().filter(decides).flat_map(SideStep::all);
        let verdict = verdict::of_sides(touched, &judged);
        RecordComparison { comparison: judged.comparison, verdict, sides: judged.arithmetic }
    });
    judged.collect()
}

/// A side with all that is asked of it against the first one.
fn ready<'s, 'm, 'a>(
    a: &'s [RunRepeats<'a>],
    other: OtherRuns<'a>,
    steps: &'s [SideStep<'m, 'a>],
) -> Ready<'s, 'm, 'a> {
    let b = &other.runs;
    let mut differences = differences::of_plans(a[0].plan, b[0].plan);
    differences.extend(other.made_with);
    // Without a step in common, what differs is why there is none.
    let planned = || Some([a[0].plan.points.first()?, b[0].plan.points.first()?]);
    let compared = steps.first().map(|step| [step.a[0].point, step.b[0].point]).or_else(planned);
    let plans = [a[0].plan, b[0].plan];
    differences.extend(compared.into_iter().flat_map(|points| differences::of_compared(plans, points)));
    let pairing = if a.len().max(b.len()) == 1 { Pairing::None } else { Pairing::Runs };
    let blocked = blocked_by_runs(a, b).or_else(|| why_unlike(a, b, steps.first(), other.unlike));
    Ready::of(a[0].plan, steps, pairing, blocked, differences)
}

/// Why so few runs can say nothing of the sides themselves.
fn blocked_by_runs(a: &[RunRepeats], b: &[RunRepeats]) -> Option<String> {
    let fewest = a.len().min(b.len());
    (fewest < RUNS_MIN).then(|| {
        format!(
            "{} a side: at least {RUNS_MIN} are needed, because two runs of the same thing differ too",
            counted(u32::try_from(fewest).unwrap_or(u32::MAX), "run")
        )
    })
}

/// Why runs of one side are no repetitions of each other.
fn why_unlike(
    a: &[RunRepeats],
    b: &[RunRepeats],
    step: Option<&SideStep>,
    mut unlike: Vec<Difference>,
) -> Option<String> {
    for side in [a, b] {
        for run in &side[1..] {
            unlike.extend(differences::of_hosts(&side[0].plan.host, &run.plan.host));
        }
    }
    for side in step.into_iter().flat_map(|step| [&step.a, &step.b]) {
        for point in &side[1..] {
            unlike.extend(differences::of_points(side[0].point, point.point));
        }
    }
    let keys: BTreeSet<&str> = unlike.iter().map(|found| found.key.as_str()).collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    (!keys.is_empty()).then(|| format!("the runs of one side are not alike: {} differ", keys.join(", ")))
}

/// The points of every run of a side, that were tried. What is late is judged by the runs of both sides.
fn measured<'a>(side: &[RunRepeats<'a>], other: &[RunRepeats<'a>]) -> Vec<Vec<MeasuredPoint<'a>>> {
    let of_run = |run: &RunRepeats<'a>| {
        let own = |point: &&tilemark_plan::plan::Point| point.side.is_none();
        let points = run.plan.points.iter().filter(own);
        let judged = points.map(|point| {
            let is_compared = |run: &RunRepeats<'a>, repeat: &RepeatSummary| {
                run.plan.points.get(repeat.point).is_some_and(|other| {
                    other.tiles == point.tiles && other.vary == point.vary && other.backend == point.backend
                })
            };
            let typical = TypicalP99::of(
                side.iter()
                    .chain(other)
                    .flat_map(|run| run.repeats.iter().filter(move |repeat| is_compared(run, repeat))),
            );
            let counts = !run.plan.host.emulates(point.backend);
            MeasuredPoint { counts, ..MeasuredPoint::beside(point, run.repeats, &typical) }
        });
        judged.filter(MeasuredPoint::tried).collect()
    };
    side.iter().map(of_run).collect()
}

/// Steps that every run of both sides has.
fn common_steps<'m, 'a>(
    a: &'m [Vec<MeasuredPoint<'a>>],
    b: &'m [Vec<MeasuredPoint<'a>>],
) -> Vec<SideStep<'m, 'a>> {
    let of_first = a.first().into_iter().flatten();
    let step = |first: &'m MeasuredPoint<'a>| {
        let same =
            |other: &&MeasuredPoint| other.is_step_of(first) && other.point.backend == first.point.backend;
        let of = |side: &'m [Vec<MeasuredPoint<'a>>]| -> Option<Vec<&'m MeasuredPoint<'a>>> {
            side.iter().map(|run| run.iter().find(same)).collect()
        };
        Some(SideStep { a: of(a)?, b: of(b)? })
    };
    of_first.filter_map(step).collect()
}
