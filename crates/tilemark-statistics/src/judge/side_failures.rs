//! What each side failed in: errors, demand that was not served, guests that ended, a gate that broke. It decides before speed.

use tilemark_plan::plan::Point;
use tilemark_record::summary::{Incident, IncidentKind, LoadFigures, RepeatSummary};

use super::blocks::FigureOf;
use super::gate::{achieved_fraction, error_fraction, seen};
use super::measured::MeasuredPoint;
use super::pairing::Pairing;
use super::side_step::{SideStep, held};
use crate::compare::SideVerdict;
use crate::failures::{FailureChange, Failures, compare_failures};
use crate::figure::Missing;
use crate::moments::mean;
use crate::permutation::Block;

/// Incidents that are the doing of guests, with their names.
const INCIDENTS: [(IncidentKind, &str); 3] = [
    (IncidentKind::GuestEnded, "guest ended"),
    (IncidentKind::WrongAnswers, "wrong answers"),
    (IncidentKind::ServiceErrors, "service errors"),
];

/// Failures of every kind at a step, of every load.
pub(crate) fn at_step(step: &SideStep, pairing: Pairing) -> Vec<Failures> {
    let Some(first) = step.all().next() else { return Vec::new() };
    let (gate, place) = (&first.point.gate, step.place());
    let mut found = Vec::new();
    for load in first.load_names() {
        let mut of = |name: &str, tolerance: f64, is_never: bool, share: fn(&LoadFigures) -> Option<f64>| {
            let share = |repeat: &RepeatSummary| {
                repeat.loads.iter().find(|figures| figures.name == load).and_then(share)
            };
            found.push(Failures {
                name: format!("{name} of {load} {place}"),
                blocks: shares(step, pairing, kept, &share),
                tolerance,
                is_never,
            });
        };
        of("errors", gate.errors.get(), false, error_fraction);
        of("demand not served", 1.0 - gate.achieved.get(), false, |load| {
            achieved_fraction(load).map(|part| 1.0 - part)
        });
        of("nothing served", 0.0, true, |load| Some(f64::from(u8::from(load.completed == 0))));
    }
    found.extend(INCIDENTS.map(|(kind, name)| {
        let has = |repeat: &RepeatSummary| {
            let has = repeat.incidents.iter().any(|incident| incident.kind == kind);
            Some(f64::from(u8::from(has)))
        };
        Failures {
            name: format!("{name} {place}"),
            // A guest that ended is a finding even where its repeat was discarded for it.
            blocks: shares(step, pairing, MeasuredPoint::all, &has),
            tolerance: 0.0,
            is_never: true,
        }
    }));
    found
}

/// Whether a repeat fails in what the gate limits other than speed, or in what never happens on a sound side.
pub(super) fn fails(point: &Point, repeat: &RepeatSummary) -> bool {
    let gate = &point.gate;
    let by_load = |load: &LoadFigures| {
        error_fraction(load).is_some_and(|part| part > gate.errors.get())
            || achieved_fraction(load).is_some_and(|part| part < gate.achieved.get())
            || load.completed == 0
    };
    let is_known = |incident: &Incident| INCIDENTS.iter().any(|(kind, _)| *kind == incident.kind);
    repeat.loads.iter().any(by_load) || repeat.incidents.iter().any(is_known)
}

/// Each step that one side holds by the gate and the other breaks, by the repeats that were beyond the gate by themselves. A few bad
/// repeats are enough to break a gate; whether they are the side's or chance's is to be tested.
pub(crate) fn at_gates(
    steps: &[SideStep],
    pairing: Pairing,
    significance: f64,
    seed: u64,
) -> Vec<FailureChange> {
    steps.iter().filter_map(|step| at_gate(step, pairing, significance, seed)).collect()
}

fn at_gate(step: &SideStep, pairing: Pairing, significance: f64, seed: u64) -> Option<FailureChange> {
    let by_gate = match (held(&step.a), held(&step.b)) {
        (Some(true), Some(false)) => SideVerdict::Worse,
        (Some(false), Some(true)) => SideVerdict::Better,
        _ => return None,
    };
    let open = |change| FailureChange { verdict: SideVerdict::CannotTell, is_certain: false, ..change };
    Some(match compare_failures(&beyond_the_gate(step, pairing), significance, seed) {
        Some(change) if change.verdict == by_gate => change,
        Some(change) => open(change),
        None => FailureChange {
            name: format!("the gate {}: all repeats together break it, no single repeat does", step.place()),
            a: 0.0,
            b: 0.0,
            n_repeats: 0,
            p: Err(Missing::because("no repeat is beyond the gate by itself")),
            verdict: SideVerdict::CannotTell,
            is_certain: false,
        },
    })
}

fn beyond_the_gate(step: &SideStep, pairing: Pairing) -> Failures {
    let beyond: Vec<(&RepeatSummary, Option<bool>)> = step.all().flat_map(beyond_by_itself).collect();
    let share = |repeat: &RepeatSummary| {
        let own = beyond.iter().find(|(other, _)| std::ptr::eq(*other, repeat));
        own.and_then(|(_, is_beyond)| *is_beyond).map(|is_beyond| f64::from(u8::from(is_beyond)))
    };
    Failures {
        name: format!("repeats beyond the gate {}", step.place()),
        blocks: shares(step, pairing, kept, &share),
        tolerance: 0.0,
        is_never: false,
    }
}

fn beyond_by_itself<'a>(point: &MeasuredPoint<'a>) -> Vec<(&'a RepeatSummary, Option<bool>)> {
    let seen = seen(point.point, &point.kept);
    point.kept.iter().copied().zip(seen.iter().map(|seen| seen.is_within().map(|within| !within))).collect()
}

fn kept<'a>(point: &MeasuredPoint<'a>) -> Vec<&'a RepeatSummary> {
    point.kept.clone()
}

/// The shares of whole blocks; a closed loop has no demand to fall short of. Where runs are compared, each is one value.
fn shares<'a>(
    step: &SideStep<'_, 'a>,
    pairing: Pairing,
    repeats: fn(&MeasuredPoint<'a>) -> Vec<&'a RepeatSummary>,
    share: FigureOf,
) -> Vec<Block> {
    let of = |repeats: &[&RepeatSummary]| -> Vec<f64> {
        repeats.iter().filter_map(|repeat| share(repeat)).collect()
    };
    let shares: Vec<Block> = if pairing == Pairing::Runs {
        let of_runs =
            |runs: &[&MeasuredPoint<'a>]| runs.iter().filter_map(|run| mean(&of(&repeats(run)))).collect();
        vec![Block { a: of_runs(&step.a), b: of_runs(&step.b) }]
    } else {
        let blocks = step.blocks(pairing, repeats);
        blocks.iter().map(|block| Block { a: of(&block.a), b: of(&block.b) }).collect()
    };
    shares.into_iter().filter(|block| !block.a.is_empty() && !block.b.is_empty()).collect()
}
