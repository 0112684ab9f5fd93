//! What the host's kernel threads took beside the run.

use tilemark_record::summary::{ProcessorFigures, RepeatSummary};

use super::validity::FOREIGN_FRACTION_MAX;
use crate::moments::mean;

/// Says where kernel threads took as much of the host as would be foreign load of others, and more than the run itself: then it
/// may be somebody else whom they worked for.
pub(crate) fn note(kept: &[&RepeatSummary]) -> Option<String> {
    let of = |part: fn(&ProcessorFigures) -> f64| {
        mean(&kept.iter().map(|repeat| part(&repeat.host.processor)).collect::<Vec<f64>>())
    };
    let kernel = of(|parts| parts.kernel)?;
    let own = of(|parts| parts.guest_work + parts.guest_overhead + parts.load)?;
    (kernel > FOREIGN_FRACTION_MAX && kernel > own).then(|| {
        format!(
            "the host's kernel threads took {:.0} % of its processors, and guests and load {:.0} %: whether they worked for the \
             run cannot be known",
            100.0 * kernel,
            100.0 * own
        )
    })
}
