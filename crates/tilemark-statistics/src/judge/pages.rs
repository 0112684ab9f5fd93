//! How many pages of a load were good and tolerable, over its kept repeats.

use tilemark_record::result::PagesResult;
use tilemark_record::summary::{LoadFigures, Quality};

use super::{gate::as_part, notes::Notes};
use crate::figure::Scale;
use crate::interval::estimate;

/// Nothing where the workload has no pages.
pub(crate) fn pages(kept: &[&LoadFigures], seed: u64, notes: &mut Notes) -> Option<PagesResult> {
    let qualities: Vec<Quality> = kept.iter().map(|load| load.quality).collect::<Option<_>>()?;
    let first = qualities.first()?;
    let mut part = |what: &str, of: fn(&Quality) -> u64| {
        let parts: Vec<f64> = qualities
            .iter()
            .filter(|quality| quality.of > 0)
            .map(|quality| of(quality) as f64 / quality.of as f64)
            .collect();
        notes.figure(what, estimate(&parts, Scale::Linear, seed).map(|figure| figure.map(as_part)))
    };
    Some(PagesResult {
        good: part("pages.good", |quality| quality.good),
        tolerable: part("pages.tolerable", |quality| quality.tolerable),
        good_ms: first.good_ms,
        tolerable_ms: first.tolerable_ms,
    })
}
