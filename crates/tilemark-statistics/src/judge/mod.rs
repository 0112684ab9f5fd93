//! The judge: from a plan and the figures of its repeats to verdict, answer, cost and comparison.
//!
//! ```text
//! repeats -validity-> kept | saturated | spoiled -gate-> holds | undecided | broke -survey-> Answer -> sentence
//!                       +-> points (figures)   +-> cost, sides      + law through all    +-> verdict
//! ```
//! Pure: an old record judged again gives the same words. What was discarded is counted and shown with its
//! reason and enters no figure.

mod blocks;
mod client_differences;
mod clients;
mod cost;
mod differences;
mod failures;
mod few_requests;
mod function;
mod gate;
mod guests;
mod hooks;
mod hosts;
mod interference;
mod kernel;
mod ladder;
mod law;
mod limit;
mod measured;
mod more;
mod notes;
mod one_tile;
mod pages;
mod pairing;
mod placement;
mod points;
mod records;
mod repeat_figures;
mod requests;
mod scaling;
mod screening;
mod search;
mod side_failures;
mod side_measures;
mod side_step;
mod sides;
mod steady;
mod surge;
mod survey;
mod tail;
mod uses;
mod validity;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};

use tilemark_plan::plan::{Plan, Point};
use tilemark_record::result::{
    Answer, Comparison, Cost, Function, Interference, PointResult, ScalingFit, Screening, Verdict,
};
use tilemark_record::summary::{IncidentKind, RepeatSummary};

use crate::compare::{ExitVerdict, SideComparison, Tolerance};
use crate::sentence;

pub use failures::SWAPPED_PAGES_MAX;
pub use hosts::{DecidingFigures, deciding_figures};
pub use interference::{SlowPair, pairs_to_confirm};
pub use pairing::Pairing;
pub use records::{
    OtherRuns, RUNS_MIN, RecordComparison, RunRepeats, compare_records, compare_runs, compare_with_first,
};
pub use screening::{ToConfirm, to_confirm};
pub use search::{CapacitySearch, Ended, Known, Next, SearchLeft};
pub use validity::{
    CLOCK_STEP_MS_MAX, FOREIGN_FRACTION_MAX, LATENESS_OF_GATE_MIN, LATENESS_OF_P99_MAX, SENDER_BUSY_MAX,
    STEAL_FRACTION_MAX, busy_host,
};

use ladder::Ladder;
use measured::MeasuredPoint;
use validity::{Soundness, TypicalP99};

/// All that the judge has to say about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Whether the figures can be trusted.
    pub verdict: Verdict,
    /// How many the host carries.
    pub answer: Answer,
    /// The answer, or the comparison of two sides, in one or two sentences.
    pub sentence: String,
    /// What virtualization costs, where guests and their native twin were measured at one step.
    pub cost: Option<Cost>,
    /// How two sides differ.
    pub comparison: Option<Comparison>,
    /// The arithmetic behind `comparison`.
    pub sides: Option<SideComparison>,
    /// Whether emulated guests work, where some were loaded.
    pub function: Option<Function>,
    /// How throughput grows with tiles, where enough steps were measured to say.
    pub scaling: Vec<ScalingFit>,
    /// How much roles slow each other down, where they were measured alone and in pairs.
    pub interference: Option<Interference>,
    /// Which settings of the host pay, where they were screened.
    pub screening: Option<Screening>,
    /// Every point of the plan, measured or not.
    pub points: Vec<PointResult>,
    /// Figure by dotted name: why it is null.
    pub missing: BTreeMap<String, String>,
}

impl Judgement {
    /// What `--exit-verdict` says about B against A: only figures that can be trusted accuse or acquit.
    pub fn exit_verdict(&self, tolerance: impl Into<Tolerance>) -> ExitVerdict {
        verdict::exit_verdict(&self.verdict, self.sides.as_ref(), tolerance.into())
    }
}

/// Judges repeats by themselves. `plan.points` holds every point, also those that a search added; repeats may come in any
/// order.
pub fn judge(plan: &Plan, repeats: &[RepeatSummary]) -> Judgement {
    judge_run(plan, repeats, &[])
}

/// Judges a run that is in doubt for reasons which its repeats do not show, such as other work beside it that was asked for: its verdict
/// is at best "cannot tell", and the sentence carries that.
pub fn judge_run(plan: &Plan, repeats: &[RepeatSummary], reasons: &[String]) -> Judgement {
    let measured: Vec<MeasuredPoint> =
        plan.points.iter().map(|point| MeasuredPoint::on(plan, point, repeats)).collect();
    let mut missing = BTreeMap::new();
    let ladder = Ladder::of(&measured);
    let mut points: Vec<PointResult> = measured
        .iter()
        .map(|point| points::point_result(plan, point, &measured, ladder.survey(), &mut missing))
        .collect();
    client_differences::compare(&measured, &mut points);
    surge::decide(&measured, &mut points);
    let mut answer = ladder.answer(plan);
    let scaling = scaling::fits(plan, &measured, &mut missing);
    let cost = cost::cost(plan, &measured, &answer, &mut missing);
    let sides = sides::of_plan(plan, &measured, &mut missing);
    let interference = interference::interference(plan, &measured, &mut missing);
    let screening = screening::screening(plan, &measured, &mut missing);
    let verdict = match &screening {
        Some(screening) => verdict::of_screening(&measured, screening),
        None => verdict::verdict(&measured, &answer, ladder.survey(), sides.as_ref()),
    };
    let of_sides = verdict.reasons.len();
    let verdict = interference::doubt(hooks::doubt(verdict, repeats), interference.as_ref(), &missing);
    answer.more = more::more(plan, &measured, ladder.survey(), &answer, &verdict);
    let verdict = verdict.doubted(reasons);
    let of_answer = || sentence::answer(plan, &answer, &points, &verdict);
    let sentence = match (&sides, &interference) {
        _ if screening.is_some() => {
            screening.as_ref().map(|found| sentence::screening(found, &verdict)).unwrap_or_default()
        }
        (Some(sides), _) => sentence::comparison(&sides.comparison, &verdict, of_sides),
        (None, Some(interference)) => sentence::interference(interference, &verdict),
        (None, None) if plan.points.iter().all(|point| point.loads.is_empty()) => {
            sentence::density(plan, &points, &verdict).unwrap_or_else(of_answer)
        }
        (None, None) if ladder.survey().is_none() => {
            sentence::messages(plan, &points, &answer, &verdict).unwrap_or_else(of_answer)
        }
        (None, None) => of_answer(),
    };
    let function = function::function(&measured);
    let sentence = match function.as_ref().map(sentence::function) {
        // Of guests that are no measure of the host, what they prove comes before what they cannot say.
        Some(proof) if answer.backend.is_none() => format!("{proof} {sentence}"),
        Some(proof) => format!("{sentence} {proof}"),
        None => sentence,
    };
    let (comparison, sides) = sides.map(|sides| (sides.comparison, sides.arithmetic)).unzip();
    Judgement {
        verdict,
        answer,
        sentence,
        cost,
        comparison,
        sides,
        function,
        scaling,
        interference,
        screening,
        points,
        missing,
    }
}

/// In how many blocks nothing is to be retried of points that are compared with each other: their repeats count, or a
/// guest failed in one, which is a finding and no disturbance, or was refused, which it would be again.
pub fn blocks_settled(points: &[&Point], repeats: &[RepeatSummary]) -> u32 {
    let typical = TypicalP99::of(
        repeats.iter().filter(|repeat| points.iter().any(|point| point.index == repeat.point)),
    );
    let settled = |point: &Point, repeat: &RepeatSummary| {
        failures::has_failed(repeat)
            || repeat.incidents.iter().any(|incident| incident.kind == IncidentKind::Refused)
            || validity::soundness(point, repeat, &typical) == Soundness::Sound
    };
    let blocks = |point: &&Point| -> BTreeSet<u32> {
        let own = repeats.iter().filter(|repeat| repeat.point == point.index);
        own.filter(|repeat| settled(point, repeat)).map(|repeat| repeat.block).collect()
    };
    let of_all = points.iter().map(blocks).reduce(|all, of_one| &all & &of_one).unwrap_or_default();
    u32::try_from(of_all.len()).unwrap_or(u32::MAX)
}
