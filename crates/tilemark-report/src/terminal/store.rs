//! The online store's lines.

use super::labelled;
use super::paint::Paint;
use crate::view::{self, View};

/// Orders a minute at each step, what a commit promised, the time of each step of an order.
pub(super) fn store(view: &View, paint: &Paint, width: usize) -> String {
    let Some(store) = view::store(view) else { return String::new() };
    let mut out = String::from("\n");
    let mut label = "Orders";
    for row in &store.rows {
        let paper =
            if row.published == "\u{2013}" { String::new() } else { format!(", paper {}", row.published) };
        let struck = if row.struck { " (not trusted)" } else { "" };
        let steady = &row.steady;
        let settled = match steady.where_and_how_many.as_str() {
            "" => steady.orders_per_minute.clone(),
            place => format!("{} a minute ({place})", steady.orders_per_minute),
        };
        let text = format!(
            "{}: {} a minute{struck}; {} of one tile{paper}; steady window: {settled}; {} undone because stock ran out; audit: {}",
            row.step, row.orders_per_minute, row.against_one, row.rolled_back, row.audit
        );
        labelled(&mut out, paint, width, label, &text);
        label = "";
        let steps: Vec<String> = row
            .times
            .iter()
            .map(|step| format!("{} {} (p99 {})", step.name, step.mean, step.p99_worst))
            .collect();
        if !steps.is_empty() {
            labelled(&mut out, paint, width, "", &format!("  mean ms by step: {}", steps.join(", ")));
        }
    }
    for promise in &store.durability {
        labelled(&mut out, paint, width, "", &format!("With {promise}."));
    }
    store.unsettled.iter().for_each(|text| labelled(&mut out, paint, width, "", text));
    store.difference.iter().for_each(|text| labelled(&mut out, paint, width, "", text));
    out
}
