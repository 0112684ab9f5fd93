//! Repeats that had not settled. They stay in every figure: what they say is that a longer warm-up might give another one.

use std::collections::BTreeMap;

use tilemark_record::summary::{Drift, DriftOf, LoadFigures, RepeatSummary};

/// In how many repeats some load had not settled.
pub(crate) fn drifting(kept: &[&RepeatSummary]) -> usize {
    kept.iter().filter(|repeat| repeat.loads.iter().any(|load| load.drift.is_some())).count()
}

/// What had not settled in how many repeats, load by load.
pub(crate) fn notes(kept: &[&RepeatSummary]) -> Vec<String> {
    if drifting(kept) == 0 {
        return Vec::new();
    }
    let mut found: BTreeMap<(&str, DriftOf), Vec<Drift>> = BTreeMap::new();
    let drift = |load: &LoadFigures| load.drift;
    for load in kept.iter().flat_map(|repeat| &repeat.loads) {
        if let Some(drift) = drift(load) {
            found.entry((&load.name, drift.what)).or_default().push(drift);
        }
    }
    found.into_iter().map(|((load, what), drifts)| note(load, what, &drifts, kept.len())).collect()
}

fn note(load: &str, what: DriftOf, drifts: &[Drift], repeats: usize) -> String {
    let name = match what {
        DriftOf::Latency => "latency",
        DriftOf::Throughput => "throughput",
    };
    let mut changes: Vec<f64> =
        drifts.iter().map(|drift| drift.second_half / drift.first_half - 1.0).collect();
    changes.sort_by(f64::total_cmp);
    let percent = 100.0 * crate::bootstrap::quantile(&changes, 0.5).abs();
    let moved = match (changes.first(), changes.last()) {
        (Some(least), _) if *least > 0.0 => format!("rose by {percent:.0} %"),
        (_, Some(most)) if *most < 0.0 => format!("fell by {percent:.0} %"),
        _ => "rose in some and fell in others".to_owned(),
    };
    format!(
        "{load}: {name} {moved} within {} of {repeats} repeats: it had not settled. A longer `measure.warmup` or \
         `measure.length` shows whether it does",
        drifts.len()
    )
}
