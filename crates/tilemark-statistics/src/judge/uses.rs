//! What guests used at a point: means over its kept repeats.

use tilemark_record::summary::{GuestUse, RepeatSummary};

use crate::moments::mean;

/// In the order of the tile. The busiest guest is that of any repeat.
pub(crate) fn uses(kept: &[&RepeatSummary]) -> Vec<GuestUse> {
    let Some(first) = kept.first() else { return Vec::new() };
    first.uses.iter().filter_map(|like| use_of(kept, like)).collect()
}

fn use_of(kept: &[&RepeatSummary], like: &GuestUse) -> Option<GuestUse> {
    let own: Vec<&GuestUse> =
        kept.iter().flat_map(|repeat| &repeat.uses).filter(|use_| use_.guest == like.guest).collect();
    let known =
        |of: fn(&GuestUse) -> Option<f64>| mean(&own.iter().filter_map(|use_| of(use_)).collect::<Vec<_>>());
    Some(GuestUse {
        processors: known(|use_| Some(use_.processors))?,
        processors_max: own.iter().map(|use_| use_.processors_max).fold(0.0, f64::max),
        disk_bytes_per_s: known(|use_| use_.disk_bytes_per_s),
        network_bytes_per_s: known(|use_| use_.network_bytes_per_s),
        ..like.clone()
    })
}
