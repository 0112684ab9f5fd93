//! How much further measuring would narrow an answer that is too wide to act on.

use tilemark_plan::expect;
use tilemark_plan::plan::Plan;
use tilemark_plan::search::width_allowed;
use tilemark_record::result::{Answer, More, Verdict, VerdictStatus};

use super::law::RUN_TO_RUN;
use super::measured::MeasuredPoint;
use super::survey::{SURE, Survey, is_narrow};
use crate::figure::Figure;
use crate::figure::INTERVAL_REPEATS_MIN;

/// More repeats than this nobody measures for one answer: the scenario or the host needs a change.
const REPEATS_MAX: f64 = 200.0;

/// Repeats that make the range as narrow as is allowed, and their time. Nothing where the answer needs none, or where no number of
/// repeats would do, since runs differ by more.
pub(crate) fn more(
    plan: &Plan,
    measured: &[MeasuredPoint],
    survey: Option<&Survey>,
    answer: &Answer,
    verdict: &Verdict,
) -> Option<More> {
    if verdict.status != VerdictStatus::CannotTell {
        return None;
    }
    let survey = survey?;
    let capacity = survey.capacity()?;
    let repeats = by_width(survey, &capacity)?.max(of_ends(survey, answer));
    if repeats < 1.0 {
        return None;
    }
    let near = capacity.value.round().max(1.0);
    let point = measured
        .iter()
        .filter(|point| point.counts && point.point.backend == survey.backend)
        .min_by_key(|point| (f64::from(point.point.tiles) - near).abs() as u32)?;
    let each = expect::time_of(&plan.point_at(point.point, point.point.index, near as u32));
    Some(More { repeats: repeats as u32, minutes: repeats * each.as_secs_f64() / 60.0 })
}

/// Repeats that the ends of a narrow enough answer lack until their own intervals are likely to decide: those of the answer, or where
/// they lie too far apart the counts that the law is sure of.
fn of_ends(survey: &Survey, answer: &Answer) -> f64 {
    let broke = answer.breaks.as_ref().map(|found| found.tiles);
    let of_law = || {
        let law = survey.law.as_ref()?;
        let (held, broke) = (law.quantile(SURE).floor() as u32, law.quantile(1.0 - SURE).ceil() as u32);
        Some([Some(held).filter(|held| *held > 0), Some(broke)])
    };
    let ends = match broke {
        Some(tiles) if is_narrow(answer.holds, tiles) => [answer.holds, broke],
        _ => of_law().unwrap_or([answer.holds, broke]),
    };
    ends.into_iter().flatten().map(|tiles| f64::from(survey.repeats_lacking(tiles))).sum()
}

/// Standard errors fall with the root of the repeats; what differs between runs does not fall.
fn by_width(survey: &Survey, capacity: &Figure) -> Option<f64> {
    let law = survey.law.as_ref()?;
    let interval = capacity.interval.as_ref().ok()?;
    let tiles = capacity.value;
    let allowed = f64::from(width_allowed(tiles.floor() as u32, tiles.ceil() as u32)) + 1.0;
    let slope = (law.level(tiles * 1.02) - law.level(tiles * 0.98)) / (0.04 * tiles);
    let of_runs = 2.0 * 1.96 * RUN_TO_RUN / slope.max(1e-6);
    let width = interval.high - interval.low;
    let room = allowed.powi(2) - of_runs.powi(2);
    let of_repeats = (width.powi(2) - of_runs.powi(2)).max(0.0);
    let factor = (of_repeats / room - 1.0).max(0.0);
    let repeats = (factor * capacity.n_repeats.max(INTERVAL_REPEATS_MIN) as f64).ceil();
    (room > 0.0 && repeats <= REPEATS_MAX).then_some(repeats)
}
