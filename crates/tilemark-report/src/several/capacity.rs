//! A run in the few words that a table of several has room for.

use crate::number::counted;
use tilemark_record::result::{Answer, Figure, VerdictStatus};

/// How many tiles a run found, the largest count that holds first: `12 tiles (13 to 16 undecided)`.
pub(crate) fn words(answer: &Answer) -> String {
    let undecided = answer.undecided.map(|range| match range.from == range.to {
        true => format!(" ({} undecided)", range.from),
        false => format!(" ({} to {} undecided)", range.from, range.to),
    });
    let holds = match (answer.holds, &answer.breaks) {
        (Some(holds), Some(_)) => counted(holds.into(), "tile"),
        (Some(holds), None) => format!("at least {}", counted(holds.into(), "tile")),
        (None, Some(broken)) => format!("less than {}", counted(broken.tiles.into(), "tile")),
        (None, None) => "no answer".to_owned(),
    };
    format!("{holds}{}", undecided.unwrap_or_default())
}

/// The estimate by the law through all repeats, a fraction of a tile included: `12.4 [11.8, 13.1]`.
pub(crate) fn estimate(capacity: &Figure) -> String {
    let interval = capacity.low.zip(capacity.high).map(|(low, high)| format!(" [{low:.1}, {high:.1}]"));
    format!("{:.1}{}", capacity.value, interval.unwrap_or_default())
}

/// The day and the minute of an RFC 3339 time, in the zone in which it was written.
pub(crate) fn minute(began: &str) -> String {
    began.chars().take(16).map(|each| if each == 'T' { ' ' } else { each }).collect()
}

/// The day of an RFC 3339 time, in the zone in which it was written.
pub(crate) fn day(began: &str) -> String {
    began.chars().take(10).collect()
}

/// A host's name.
pub(crate) fn host(name: &str) -> String {
    if name.is_empty() { "not named".to_owned() } else { name.to_owned() }
}

/// A verdict in two words.
pub(crate) const fn verdict(status: VerdictStatus) -> &'static str {
    match status {
        VerdictStatus::Trusted => "trusted",
        VerdictStatus::NotTrusted => "not trusted",
        VerdictStatus::CannotTell => "cannot tell",
    }
}
