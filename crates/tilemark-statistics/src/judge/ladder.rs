//! The Answer: from a ladder of points that hold or break to how many the host carries.

use tilemark_plan::plan::{Backend, Plan, Point};
use tilemark_record::result::{Answer, Limit, LimitResource, Untried};

use super::counts;
use super::gate::GateFinding;
use super::limit::limit;
use super::measured::MeasuredPoint;

/// Virtual processors of a point for each thread given to guests.
pub(crate) fn vcpus_per_thread(plan: &Plan, point: &Point) -> f64 {
    let vcpus: u32 = point.guests.iter().map(|guest| guest.vcpus).sum();
    f64::from(vcpus) / plan.processors.guests.len().max(1) as f64
}

pub(crate) fn answer(plan: &Plan, measured: &[MeasuredPoint]) -> Answer {
    let backend = backend(measured);
    let steps = match steps(measured, backend) {
        Ok(steps) => steps,
        Err(reason) => return none(backend, reason),
    };
    if let Some(reason) = reversed(&steps) {
        return none(backend, reason);
    }
    let held = steps.iter().take_while(|step| step.gate == GateFinding::Holds).last().copied();
    let broken = steps.iter().find(|step| step.gate.holds() == Some(false)).copied();
    let breaks = broken.and_then(|step| match &step.gate {
        GateFinding::Broke(breaks) => breaks.first().cloned(),
        _ => None,
    });
    let stopped = steps.iter().find(|step| step.gate != GateFinding::Holds).copied();
    // A step that was tried and cannot be told stands in the way before the one that broke.
    let told = match stopped {
        Some(step) if step.gate.holds().is_none() => Some(unknown(step)),
        _ => None,
    };
    Answer {
        backend,
        holds: held.map(|step| step.point.tiles),
        untried: broken.and_then(|broken| untried(&steps, held, broken)),
        breaks,
        vcpus_per_thread: held.map(|step| vcpus_per_thread(plan, step.point)),
        limit: broken.or(stopped).map_or_else(nothing_broke(held), limit),
        none_because: told.filter(|_| held.is_none() && broken.is_none()),
    }
}

fn nothing_broke(held: Option<&MeasuredPoint>) -> impl FnOnce() -> Limit {
    let evidence = held.map(|step| format!("nothing broke up to {} tiles", step.point.tiles));
    || Limit { resource: LimitResource::Unknown, evidence: evidence.into_iter().collect() }
}

/// Whether there is one ladder that was climbed.
pub(crate) fn is_one(measured: &[MeasuredPoint]) -> bool {
    steps(measured, backend(measured)).is_ok()
}

/// The backend that the answer is about: guests before their twins, never emulated ones.
fn backend(measured: &[MeasuredPoint]) -> Option<Backend> {
    let has = |backend| measured.iter().any(|point| point.point.backend == backend);
    [Backend::Kvm, Backend::Native].into_iter().find(|backend| has(*backend))
}

/// The ladder in rising order, or why there is not one ladder.
fn steps<'m, 'a>(
    measured: &'m [MeasuredPoint<'a>],
    backend: Option<Backend>,
) -> Result<Vec<&'m MeasuredPoint<'a>>, String> {
    let Some(backend) = backend else {
        return Err(match measured.iter().any(|point| !counts(point.point.backend)) {
            true => {
                "emulated guests prove function, and their figures are no measure of this host".to_owned()
            }
            false => "nothing was planned".to_owned(),
        });
    };
    let mut steps: Vec<&MeasuredPoint> =
        measured.iter().filter(|point| point.point.backend == backend).collect();
    steps.sort_by_key(|step| step.point.tiles);
    if steps.iter().any(|step| step.point.side.is_some()) {
        return Err("two sides were compared, each with a ladder of its own".to_owned());
    }
    if steps.iter().any(|step| step.point.vary != steps[0].point.vary) {
        let names: Vec<&str> = steps[0].point.vary.keys().map(String::as_str).collect();
        return Err(format!("{} varies, and each value has a ladder of its own", names.join(" and ")));
    }
    if steps.iter().all(|step| step.point.loads.is_empty()) {
        return Err("this scenario has no load, so it counts a density and no capacity".to_owned());
    }
    steps.retain(|step| step.tried());
    if steps.is_empty() { Err("no repeat was measured".to_owned()) } else { Ok(steps) }
}

/// A higher step that held above one that broke.
fn reversed(steps: &[&MeasuredPoint]) -> Option<String> {
    let broken = steps.iter().find(|step| step.gate.holds() == Some(false))?;
    let above =
        steps.iter().find(|step| step.point.tiles > broken.point.tiles && step.gate == GateFinding::Holds)?;
    Some(format!("{} tiles broke and {} held", broken.point.tiles, above.point.tiles))
}

fn unknown(step: &MeasuredPoint) -> String {
    let reason = match &step.gate {
        GateFinding::Unknown(reason) => reason.as_str(),
        _ => "",
    };
    format!("at {} tiles it cannot be told: {reason}", step.point.tiles)
}

/// Counts between the last that held and the first that broke, unless one between was tried without a finding.
fn untried(
    steps: &[&MeasuredPoint],
    held: Option<&MeasuredPoint>,
    broken: &MeasuredPoint,
) -> Option<Untried> {
    let from = held.map_or(1, |held| held.point.tiles + 1);
    let to = broken.point.tiles.checked_sub(1)?;
    let tried = steps.iter().any(|step| (from..=to).contains(&step.point.tiles));
    (from <= to && !tried).then_some(Untried { from, to })
}

fn none(backend: Option<Backend>, reason: String) -> Answer {
    Answer {
        backend,
        holds: None,
        breaks: None,
        untried: None,
        vcpus_per_thread: None,
        limit: Limit { resource: LimitResource::Unknown, evidence: Vec::new() },
        none_because: Some(reason),
    }
}
