//! What each side failed in: errors, demand that was not served, guests that ended, a gate that broke. It decides before speed.

use tilemark_record::result::GateMeasure;
use tilemark_record::summary::{IncidentKind, LoadFigures, RepeatSummary};

use super::blocks::RepeatBlock;
use super::gate::{GateFinding, achieved_fraction, error_fraction};
use super::measured::MeasuredPoint;
use super::sides::{Pairing, SideStep, held};
use crate::compare::SideVerdict;
use crate::failures::{FailureChange, Failures};
use crate::figure::Missing;
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
    let kept = step.blocks(pairing, |point| point.kept.clone());
    // A guest that ended is a finding even where its repeat was voided for it.
    let all = step.blocks(pairing, MeasuredPoint::all);
    let mut found = Vec::new();
    for load in first.load_names() {
        let mut of = |name: &str, tolerance: f64, is_never: bool, share: fn(&LoadFigures) -> Option<f64>| {
            let share = |repeat: &RepeatSummary| {
                repeat.loads.iter().find(|figures| figures.name == load).and_then(share)
            };
            found.push(Failures {
                name: format!("{name} of {load} {place}"),
                blocks: shares(&kept, share),
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
    found.extend(INCIDENTS.map(|(kind, name)| Failures {
        name: format!("{name} {place}"),
        blocks: shares(&all, |repeat| {
            let has = repeat.incidents.iter().any(|incident| incident.kind == kind);
            Some(f64::from(u8::from(has)))
        }),
        tolerance: 0.0,
        is_never: true,
    }));
    found
}

/// The shares of whole blocks; a closed loop has no demand to fall short of.
fn shares(blocks: &[RepeatBlock], share: impl Fn(&RepeatSummary) -> Option<f64>) -> Vec<Block> {
    let of = |repeats: &[&RepeatSummary]| repeats.iter().filter_map(|repeat| share(repeat)).collect();
    let shares = blocks.iter().map(|block| Block { a: of(&block.a), b: of(&block.b) });
    shares.filter(|block| !block.a.is_empty() && !block.b.is_empty()).collect()
}

/// Steps at which one side holds the gate and the other breaks it.
pub(crate) fn at_gates(steps: &[SideStep]) -> Vec<FailureChange> {
    steps.iter().filter_map(at_gate).collect()
}

fn at_gate(step: &SideStep) -> Option<FailureChange> {
    let (verdict, broken) = match (held(&step.a), held(&step.b)) {
        (Some(true), Some(false)) => (SideVerdict::Worse, &step.b),
        (Some(false), Some(true)) => (SideVerdict::Better, &step.a),
        _ => return None,
    };
    // Of a guest that ended one is enough for the gate; whether it was chance is another question.
    let is_limit = |measure: &GateMeasure| !measure.is_failure();
    let is_certain = broken.iter().all(|point| match &point.gate {
        GateFinding::Broke(breaks) => breaks.iter().any(|found| is_limit(&found.measure)),
        _ => false,
    });
    let share = |side: SideVerdict| f64::from(u8::from(verdict == side));
    Some(FailureChange {
        name: format!("the gate {}", step.place()),
        a: share(SideVerdict::Better),
        b: share(SideVerdict::Worse),
        n_repeats: step.a.len().min(step.b.len()),
        p: Err(Missing::because("the gate compares each side with its limits")),
        verdict,
        is_certain,
    })
}
