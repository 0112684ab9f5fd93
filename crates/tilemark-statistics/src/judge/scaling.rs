//! How throughput grows with tiles, as a law, where seven steps or more say so.

use std::collections::BTreeMap;

use tilemark_plan::{plan::Plan, scenario::LoopKind};
use tilemark_record::result::{ScalingFit, Throughput};

use super::measured::MeasuredPoint;
use crate::figure::Missing;
use crate::scaling::{FIT_STEPS_MIN, ScalingStep, fit_scaling_law};

/// The law of each line of points that has steps enough, by the headline load. An emulator's figures follow no law of a host,
/// and a load in an open loop is served what it asks for: its throughput is the demand's law and not the host's.
pub(crate) fn fits(
    plan: &Plan,
    measured: &[MeasuredPoint],
    missing: &mut BTreeMap<String, String>,
) -> Vec<ScalingFit> {
    let Some(headline) = plan.scenario.headline.as_deref() else { return Vec::new() };
    let mut lines: Vec<Vec<&MeasuredPoint>> = Vec::new();
    for point in measured.iter().filter(|point| point.counts && !point.load(headline).is_empty()) {
        match lines.iter_mut().find(|line| is_on_line(line[0], point)) {
            Some(line) => line.push(point),
            None => lines.push(vec![point]),
        }
    }
    lines.retain(|line| line.len() >= FIT_STEPS_MIN);
    let fits = lines.iter().map(|line| fit(line, headline, plan.seed));
    fits.filter_map(|fit| fit.map_err(|reason| missing.insert("scaling".to_owned(), reason.reason)).ok())
        .collect()
}

fn is_on_line(one: &MeasuredPoint, other: &MeasuredPoint) -> bool {
    let (one, other) = (one.point, other.point);
    one.backend == other.backend && one.side == other.side && one.vary == other.vary
}

fn fit(line: &[&MeasuredPoint], headline: &str, seed: u64) -> Result<ScalingFit, Missing> {
    let is_open =
        |point: &&MeasuredPoint| point.load(headline).iter().any(|load| load.loop_kind == LoopKind::Open);
    if line.iter().any(is_open) {
        return Err(Missing::because(format!(
            "{headline} is sent at a rate, so its throughput is what was asked and not what the host could serve; a scaling \
             law needs a load in a closed loop"
        )));
    }
    if line.iter().any(|point| point.load(headline).iter().any(|load| load.figure.is_some())) {
        return Err(Missing::because(format!(
            "{headline} has one figure and no throughput, which a scaling law is about"
        )));
    }
    let steps: Vec<ScalingStep> = line
        .iter()
        .map(|point| ScalingStep {
            count: point.point.tiles.into(),
            throughputs: point.load(headline).iter().map(|load| load.rate()).collect(),
        })
        .collect();
    let law = fit_scaling_law(&steps, seed)?;
    let peak_tiles = law.peak().ok();
    let (peak_low, peak_high) = law.peak_interval();
    let point = line[0].point;
    let unit = line[0].load(headline).first().map(|load| format!("{}/s", load.unit)).unwrap_or_default();
    Ok(ScalingFit {
        backend: point.backend,
        side: point.side,
        vary: point.vary.clone(),
        tiles: line.iter().map(|point| point.point.tiles).collect(),
        one_tile: Throughput { unit, figure: law.rate.into() },
        contention: law.contention.into(),
        coherence: law.coherence.into(),
        worst_deviation: law.worst_deviation,
        peak_tiles,
        peak_low: peak_low.filter(|_| peak_tiles.is_some()),
        peak_high: peak_high.filter(|_| peak_tiles.is_some()),
    })
}
