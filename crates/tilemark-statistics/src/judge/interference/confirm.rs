//! Which pairs of roles look slow after the planned repeats and are measured in further blocks: three repeats of each pair find large
//! slowdowns only.

use std::collections::BTreeMap;

use tilemark_plan::interference::CONFIRMED_PAIRS_MAX;
use tilemark_plan::plan::{Plan, Point};
use tilemark_record::result::Slowdown;
use tilemark_record::summary::RepeatSummary;

use super::interference;
use crate::figure::{INTERVAL_REPEATS_MIN, Missing};
use crate::judge::measured::MeasuredPoint;

/// A slowdown below this is not worth more repeats.
const WORTH_CONFIRMING: f64 = 1.05;

/// A pair of roles that looks slow and is not certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowPair {
    /// Its name, such as `web + files`.
    pub name: String,
    /// The indexes of its points: of the pair, and of its roles alone.
    pub points: Vec<usize>,
}

/// The pairs to confirm, those first whose slowdown is farthest from none on the scale of its interval; at most [`CONFIRMED_PAIRS_MAX`].
///
/// # Errors
/// Where no slowdown has an interval, so that none can look slow or quick.
pub fn pairs_to_confirm(plan: &Plan, repeats: &[RepeatSummary]) -> Result<Vec<SlowPair>, Missing> {
    let measured: Vec<MeasuredPoint> =
        plan.points.iter().map(|point| MeasuredPoint::on(plan, point, repeats)).collect();
    let found = interference(plan, &measured, &mut BTreeMap::new());
    let slowdowns = found.map_or_else(Vec::new, |found| found.slowdowns);
    let mut figures = slowdowns.iter().filter_map(|one| one.slowdown).peekable();
    if figures.peek().is_none() {
        return Err(Missing::because("no slowdown is known"));
    }
    if figures.all(|figure| figure.low.is_none()) {
        let reason = format!("no slowdown has an interval: it needs {INTERVAL_REPEATS_MIN} repeats");
        return Err(Missing::because(reason));
    }
    let mut slow: Vec<(f64, &Slowdown)> =
        slowdowns.iter().filter_map(|one| Some((distance(one)?, one))).collect();
    slow.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let mut pairs: Vec<SlowPair> = Vec::new();
    for pair in slow.iter().filter_map(|(_, one)| pair(plan, one)) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs.truncate(CONFIRMED_PAIRS_MAX);
    Ok(pairs)
}

/// By how many half widths of its interval a slowdown is above none; nothing where it is certain, too small or without an interval.
fn distance(one: &Slowdown) -> Option<f64> {
    let figure = one.slowdown.filter(|figure| !one.is_certain() && figure.value >= WORTH_CONFIRMING)?;
    let (low, high) = figure.low.zip(figure.high)?;
    Some(figure.value.ln() / ((high / low).ln() / 2.0)).filter(|distance| distance.is_finite())
}

fn pair(plan: &Plan, one: &Slowdown) -> Option<SlowPair> {
    let roles = [one.role.as_str(), one.beside.as_str()];
    let of_pair = plan.points.iter().find(|point| {
        let together = point.together.as_ref();
        let named = together.and_then(|of| Some([of.first.as_str(), of.second.as_deref()?]));
        named.is_some_and(|named| named == roles || named == [roles[1], roles[0]])
    })?;
    let is_alone = |point: &&Point| {
        let together = point.together.as_ref();
        together.is_some_and(|of| of.second.is_none() && roles.contains(&of.first.as_str()))
    };
    let alone = plan.points.iter().filter(is_alone).map(|point| point.index);
    let points = std::iter::once(of_pair.index).chain(alone).collect();
    Some(SlowPair { name: of_pair.together.as_ref()?.to_string(), points })
}
