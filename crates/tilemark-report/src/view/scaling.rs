//! How throughput grows with tiles, as a law, where enough steps were measured.

use super::{Cell, Group, Part, Row, Section, Table, View, given, measured};
use crate::number::{percent, three};
use std::collections::BTreeSet;
use tilemark_record::result::{Figure, ScalingFit};

/// Beyond this part a step lies too far off the curve for its parameters to say anything.
const DEVIATION_MAX: f64 = 0.1;

const ABOUT: &str = "The Universal Scalability Law, fitted to what the headline load was served at every step. Contention is \
    the share of work that is serialized, coherence the cost of keeping tiles consistent with each other; both are 0 where \
    twice the tiles serve twice as much.";

/// Every fit, or why there is none; nothing where too few steps were measured.
pub(crate) fn scaling(view: &View) -> Option<Section> {
    let result = &view.report.result;
    let parts = match (result.scaling.as_slice(), result.missing.get("scaling")) {
        ([], None) => return None,
        ([], Some(why)) => vec![Part::Text(format!("No scaling law was fitted: {why}."))],
        (fits, _) => {
            let columns = vec![
                measured("Steps"),
                measured("One tile").unit("95 % interval").short_unit(""),
                measured("Contention"),
                measured("Coherence"),
                measured("Peak at").unit("tiles"),
                given("Farthest step").unit("off the curve"),
            ];
            let rows = fits.iter().map(|fit| row(view, fit)).collect();
            let mut parts = vec![Part::Text(ABOUT.to_owned()), Part::Table(Table::new(columns, rows))];
            parts.extend(doubt(fits).map(Part::Text));
            parts
        }
    };
    Some(Section::new("scaling", "How throughput grows", parts))
}

/// What a reader must know where the law does not hold.
fn doubt(fits: &[ScalingFit]) -> Option<String> {
    let is_off = fits.iter().any(|fit| fit.worst_deviation > DEVIATION_MAX);
    is_off.then(|| {
        format!(
            "Where a step lies over {} off the curve, the law does not hold and its parameters mean nothing.",
            percent(DEVIATION_MAX)
        )
    })
}

fn row(view: &View, fit: &ScalingFit) -> Row {
    let of_fit = |group: &&Group| {
        let first = group.points.first();
        first.is_some_and(|point| {
            point.backend == fit.backend && point.side == fit.side && point.vary == fit.vary
        })
    };
    let group = view.groups.iter().find(of_fit);
    let mut fitted =
        group.into_iter().flat_map(|group| &group.points).filter(|point| fit.tiles.contains(&point.tiles));
    let struck = fitted.any(|point| view.struck(point)) || fit.worst_deviation > DEVIATION_MAX;
    let name = group.map(|group| group.name.as_str()).filter(|name| !name.is_empty());
    // A search tries them in no order.
    let tiles: BTreeSet<u32> = fit.tiles.iter().copied().collect();
    let most = tiles.last().copied().unwrap_or_default();
    let tiles: Vec<String> = tiles.iter().map(ToString::to_string).collect();
    let not_trusted = if struck { ", not trusted" } else { "" };
    let head = Cell::from(name.unwrap_or(super::backend_words(fit.backend)))
        .beside(Some(format!("{} tiles{not_trusted}", tiles.join(", "))));
    let cells = vec![
        format!("{} {}", with_interval(fit.one_tile.figure), fit.one_tile.unit).into(),
        with_interval(fit.contention).into(),
        with_interval(fit.coherence).into(),
        turns(fit, most).into(),
        percent(fit.worst_deviation).into(),
    ];
    Row { struck, ..Row::new(head, cells) }
}

/// Where throughput turns, with its interval where there is one.
fn turns(fit: &ScalingFit, most: u32) -> String {
    match (fit.peak_tiles, fit.peak_low, fit.peak_high) {
        (None, ..) => format!("none up to {}", 2 * most),
        (Some(peak), None, _) => three(peak),
        (Some(peak), Some(low), Some(high)) => format!("{} [{}, {}]", three(peak), three(low), three(high)),
        (Some(peak), Some(low), None) => format!("{} [{}, beyond {}]", three(peak), three(low), 2 * most),
    }
}

fn with_interval(figure: Figure) -> String {
    match (figure.low, figure.high) {
        (Some(low), Some(high)) => format!("{} [{}, {}]", three(figure.value), three(low), three(high)),
        _ => three(figure.value),
    }
}
