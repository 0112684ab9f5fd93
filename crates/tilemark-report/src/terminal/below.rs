//! What stands below the table of steps: how throughput grows, and what is worth knowing of points.

use super::labelled;
use super::paint::Paint;
use crate::view::{self, ScalingRow, View};

pub(super) fn below(view: &View, paint: &Paint, width: usize) -> String {
    let fits = view::scaling(view).into_iter().map(|fit| ("Grows", law(&fit)));
    let doubt = view::scaling_doubt(view).map(|doubt| ("", doubt));
    let missing = view::scaling_missing(view).map(|why| ("Grows", format!("no scaling law: {why}")));
    let notes = view.notes().into_iter().map(|note| ("Note", note));
    let mut out = String::new();
    for (label, text) in fits.chain(doubt).chain(missing).chain(notes) {
        if out.is_empty() {
            out.push('\n');
        }
        labelled(&mut out, paint, width, label, &text);
    }
    out
}

/// The Universal Scalability Law's parameters in a sentence.
fn law(fit: &ScalingRow) -> String {
    let ScalingRow { name, tiles, one_tile, contention, coherence, turns, deviation, struck } = fit;
    let struck = if *struck { " (not trusted)" } else { "" };
    format!(
        "{name} ({tiles}), by the Universal Scalability Law: one tile {one_tile}, contention {contention}, \
         coherence {coherence}; turns at tiles: {turns}; the farthest step lies {deviation} off the curve{struck}"
    )
}
