//! How throughput grows with tiles, as a law, where enough steps were measured.

use super::{Group, View, backend_words};
use crate::number::{percent, three};
use std::collections::BTreeSet;
use tilemark_record::result::{Figure, ScalingFit};

/// Beyond this part a step lies too far off the curve for its parameters to say anything.
const DEVIATION_MAX: f64 = 0.1;

/// One fit, in words.
pub(crate) struct ScalingRow {
    /// Of which points.
    pub(crate) name: String,
    /// The tiles that it was fitted to.
    pub(crate) tiles: String,
    /// One tile's throughput by the fit, with interval and unit.
    pub(crate) one_tile: String,
    /// What waits in line.
    pub(crate) contention: String,
    /// What must be agreed on between all.
    pub(crate) coherence: String,
    /// Tiles at which throughput turns.
    pub(crate) turns: String,
    /// How far the farthest step lies off the curve.
    pub(crate) deviation: String,
    /// Whether its parameters are not to be believed.
    pub(crate) struck: bool,
}

/// Every fit.
pub(crate) fn scaling(view: &View) -> Vec<ScalingRow> {
    view.report.result.scaling.iter().map(|fit| row(view, fit)).collect()
}

/// What is to be said where the law does not hold; `None` where it holds everywhere.
pub(crate) fn scaling_doubt(view: &View) -> Option<String> {
    let is_off = view.report.result.scaling.iter().any(|fit| fit.worst_deviation > DEVIATION_MAX);
    is_off.then(|| {
        format!(
            "Where a step lies over {} off the curve, the law does not hold and its parameters mean nothing.",
            percent(DEVIATION_MAX)
        )
    })
}

fn row(view: &View, fit: &ScalingFit) -> ScalingRow {
    let of_fit = |group: &&Group| {
        let first = group.points.first();
        first.is_some_and(|point| {
            point.backend == fit.backend && point.side == fit.side && point.vary == fit.vary
        })
    };
    let group = view.groups.iter().find(of_fit);
    let mut fitted =
        group.into_iter().flat_map(|group| &group.points).filter(|point| fit.tiles.contains(&point.tiles));
    let in_doubt = fitted.any(|point| view.struck(point));
    let name = group.map(|group| group.name.as_str()).filter(|name| !name.is_empty());
    // A search tries them in no order.
    let tiles: BTreeSet<u32> = fit.tiles.iter().copied().collect();
    let most = tiles.last().copied().unwrap_or_default();
    let tiles: Vec<String> = tiles.iter().map(ToString::to_string).collect();
    ScalingRow {
        name: name.map_or_else(|| backend_words(fit.backend).to_owned(), str::to_owned),
        tiles: format!("{} tiles", tiles.join(", ")),
        one_tile: format!("{} {}", with_interval(fit.one_tile.figure), fit.one_tile.unit),
        contention: with_interval(fit.contention),
        coherence: with_interval(fit.coherence),
        turns: turns(fit, most),
        deviation: percent(fit.worst_deviation),
        struck: in_doubt || fit.worst_deviation > DEVIATION_MAX,
    }
}

/// Where throughput turns, with its interval where there is one.
fn turns(fit: &ScalingFit, most: u32) -> String {
    match (fit.peak_tiles, fit.peak_low, fit.peak_high) {
        (None, ..) => format!("not up to {}", 2 * most),
        (Some(peak), None, _) => three(peak),
        (Some(peak), Some(low), Some(high)) => format!("{} [{}, {}]", three(peak), three(low), three(high)),
        (Some(peak), Some(low), None) => format!("{} [{}, beyond {}]", three(peak), three(low), 2 * most),
    }
}

/// Why there is no law where steps enough were measured.
pub(crate) fn scaling_missing<'a>(view: &View<'a>) -> Option<&'a str> {
    view.report.result.missing.get("scaling").map(String::as_str)
}

fn with_interval(figure: Figure) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!("{} [{}, {}]", three(figure.value), three(low), three(high)),
        _ => three(figure.value),
    }
}
