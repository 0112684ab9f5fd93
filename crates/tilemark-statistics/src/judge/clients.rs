//! The note about the client machines that sent the loads of a point.

use tilemark_record::{clients::ClientFigures, summary::RepeatSummary};

/// From where its loads came, how far that is, and how well their seconds belong together. Nothing where no client sent any.
pub(crate) fn notes(kept: &[&RepeatSummary]) -> Vec<String> {
    let all: Vec<&ClientFigures> = kept.iter().flat_map(|repeat| &repeat.clients).collect();
    if all.is_empty() {
        return Vec::new();
    }
    let mut names: Vec<&str> = all.iter().map(|client| client.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let most = |of: &dyn Fn(&ClientFigures) -> Option<f64>| {
        all.iter().filter_map(|client| of(client)).reduce(f64::max)
    };
    let mut words = vec![format!("loads came from the client machines {}", names.join(", "))];
    let round_trip = most(&|client| client.idle_round_trip_ms);
    words.extend(round_trip.map(|ms| format!("idle round trip up to {ms:.2} ms")));
    words.extend(most(&|client| client.uncertainty_ms).map(|ms| format!("clocks known within {ms:.2} ms")));
    let late = |client: &ClientFigures| {
        let late = client.actual_begin_ns?.saturating_sub(client.intended_begin_ns?);
        Some(late as f64 / 1e6)
    };
    words.extend(most(&late).map(|ms| format!("each began within {ms:.2} ms of its time")));
    let mut notes = vec![words.join("; ")];
    let mut here: Vec<&str> =
        all.iter().filter(|client| client.same_machine).map(|client| client.name.as_str()).collect();
    here.sort_unstable();
    here.dedup();
    if !here.is_empty() {
        let here = here.join(", ");
        notes.push(format!("this host itself is client {here}: it took processors from the guests"));
    }
    notes
}
