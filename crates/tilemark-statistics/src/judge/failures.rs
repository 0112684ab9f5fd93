//! What guests and services did wrong in a repeat. One failure is a finding: it breaks the point, discards nothing, and is not
//! measured again until it goes well.

use tilemark_plan::plan::Point;
use tilemark_record::result::{Break, GateMeasure};
use tilemark_record::summary::{IncidentKind, RepeatSummary};

/// Most pages swapped in a repeat before it is a failure: 1 MiB. A kernel that parks single pages of sleepers disturbs nobody.
pub const SWAPPED_PAGES_MAX: u64 = 256;

/// A failure in one repeat.
struct Failure {
    measure: GateMeasure,
    guest: Option<String>,
    what: String,
}

/// Whether something failed in a repeat.
pub(crate) fn has_failed(repeat: &RepeatSummary) -> bool {
    !of(repeat).is_empty()
}

fn of(repeat: &RepeatSummary) -> Vec<Failure> {
    let measure = |kind: IncidentKind| match kind {
        IncidentKind::GuestEnded => Some(GateMeasure::GuestEnded),
        IncidentKind::WrongAnswers => Some(GateMeasure::WrongAnswers),
        IncidentKind::ServiceErrors => Some(GateMeasure::ServiceErrors),
        IncidentKind::Refused | IncidentKind::Unproven => None,
    };
    let incidents = repeat.incidents.iter().filter_map(|incident| {
        Some(Failure {
            measure: measure(incident.kind)?,
            guest: incident.guest.clone(),
            what: incident.what.clone(),
        })
    });
    let of_host = |measure, what: String| Failure { measure, guest: None, what };
    let killed = repeat.host.oom_kills.filter(|killed| *killed > 0).map(|killed| {
        let what = format!("the kernel ended {killed} processes because memory ran out");
        of_host(GateMeasure::OutOfMemory, what)
    });
    let swapped = repeat
        .host
        .swapped_pages
        .filter(|pages| *pages > SWAPPED_PAGES_MAX)
        .map(|pages| of_host(GateMeasure::Swapping, format!("the host swapped {pages} pages")));
    incidents.chain(killed).chain(swapped).collect()
}

/// The first failure of a repeat, with its guest.
pub(crate) fn first(repeat: &RepeatSummary) -> Option<String> {
    let failure = of(repeat).into_iter().next()?;
    Some(match failure.guest {
        Some(guest) => format!("{guest}: {}", failure.what),
        None => failure.what,
    })
}

/// The failures of a point, those that happened in most repeats first; each with the part of the repeats that had it. Repeats in
/// which our own load was late count too: a guest that ended has ended.
pub(crate) fn breaks(point: &Point, kept: &[&RepeatSummary], saturated: &[&RepeatSummary]) -> Vec<Break> {
    let repeats: Vec<Vec<Failure>> = kept.iter().chain(saturated).map(|repeat| of(repeat)).collect();
    in_most_repeats_first(point, &repeats)
}

/// Those of the guests of one load; without a name, those of the whole host and of guests that have no load.
pub(crate) fn breaks_of(point: &Point, kept: &[&RepeatSummary], load: &str) -> Vec<Break> {
    let of_load = |repeat: &&RepeatSummary| -> Vec<Failure> {
        let is_of_load = |failure: &Failure| load_of(point, failure.guest.as_deref()) == load;
        of(repeat).into_iter().filter(is_of_load).collect()
    };
    let repeats: Vec<Vec<Failure>> = kept.iter().map(of_load).collect();
    in_most_repeats_first(point, &repeats)
}

/// Whether a guest ended in a repeat that is not of this load.
pub(crate) fn another_ended(point: &Point, repeat: &RepeatSummary, load: &str) -> bool {
    repeat.incidents.iter().any(|incident| {
        incident.kind == IncidentKind::GuestEnded && load_of(point, incident.guest.as_deref()) != load
    })
}

fn in_most_repeats_first(point: &Point, repeats: &[Vec<Failure>]) -> Vec<Break> {
    let mut found: Vec<Break> = Vec::new();
    for failure in repeats.iter().flatten() {
        if found.iter().any(|known| known.measure == failure.measure) {
            continue;
        }
        let had = repeats.iter().filter(|of| of.iter().any(|other| other.measure == failure.measure)).count();
        found.push(Break {
            tiles: point.tiles,
            measure: failure.measure,
            value: had as f64 / repeats.len() as f64,
            low: None,
            high: None,
            load: load_of(point, failure.guest.as_deref()).to_owned(),
            guest: failure.guest.clone(),
            second: None,
            detail: Some(format!("{} ({had} of {} repeats)", failure.what, repeats.len())),
        });
    }
    found.sort_by(|one, other| other.value.total_cmp(&one.value));
    found
}

/// The load of a guest, or nothing where it has none or the whole host is meant.
fn load_of<'p>(point: &'p Point, guest: Option<&str>) -> &'p str {
    let index = point.guests.iter().position(|other| Some(other.name.as_str()) == guest);
    let load = point.loads.iter().find(|load| Some(load.guest as usize) == index);
    load.map_or("", |load| load.name.as_str())
}
