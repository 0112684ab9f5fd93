//! The Answer: from a ladder of points that hold or break to how many the host carries.

use tilemark_plan::plan::{Backend, Plan, Point};
use tilemark_record::result::{Answer, Counts, Limit, LimitResource};
use tilemark_units::counted;

use super::gate::GateFinding;
use super::limit::limit;
use super::measured::MeasuredPoint;

/// Virtual processors of a point for each thread given to guests.
pub(crate) fn vcpus_per_thread(plan: &Plan, point: &Point) -> f64 {
    let vcpus: u32 = point.guests.iter().map(|guest| guest.vcpus).sum();
    f64::from(vcpus) / plan.processors.guests.len().max(1) as f64
}

/// Why a run gives no answer to how many.
enum NoAnswer {
    NothingPlanned,
    Emulated,
    EmulatedHost,
    Sides,
    Varies(Vec<String>),
    NoLoad,
    NotMeasured,
    Reversed { broke: u32, held: u32 },
    FirstStepUnknown { tiles: u32, reason: String, limit: LimitResource },
}

impl NoAnswer {
    fn reason(&self) -> String {
        match self {
            Self::NothingPlanned => "nothing was planned".to_owned(),
            Self::Emulated => {
                "emulated guests prove function, and their figures are no measure of this host".to_owned()
            }
            Self::EmulatedHost => {
                "this host is itself emulated, and no time that it takes is a measure of anything".to_owned()
            }
            Self::Sides => "two sides were compared, each with a ladder of its own".to_owned(),
            Self::Varies(names) => {
                let verb = if names.len() == 1 { "varies" } else { "vary" };
                format!("{} {verb}, and each value has a ladder of its own", names.join(" and "))
            }
            Self::NoLoad => "this scenario has no load, so it counts a density and no capacity".to_owned(),
            Self::NotMeasured => "no repeat was measured".to_owned(),
            Self::Reversed { broke, held } => format!("{} broke and {held} held", counted(*broke, "tile")),
            Self::FirstStepUnknown { tiles, reason, .. } => {
                format!("at {} it cannot be told: {reason}", counted(*tiles, "tile"))
            }
        }
    }

    /// What the reader should do.
    fn remedy(&self) -> &'static str {
        match self {
            Self::NothingPlanned => "give the ladder a step",
            Self::Emulated => "measure on a host with usable KVM, or natively with `--on native`",
            Self::EmulatedHost => "measure on hardware; here only that things work can be seen",
            Self::Sides => "read the comparison",
            Self::Varies(_) => "read each point, or fix one value with `--set`",
            Self::NoLoad => "read the points: memory and time to ready stand there",
            Self::NotMeasured => "run it again and let one pass over the ladder end",
            Self::Reversed { .. } => "run it again with more repeats (`--set measure.repeats=…`)",
            Self::FirstStepUnknown { limit: LimitResource::LoadGenerator, .. } => {
                "give the load more processors, or send it from another machine"
            }
            Self::FirstStepUnknown { .. } => "remove what disturbed it and run it again",
        }
    }
}

pub(crate) fn answer(plan: &Plan, measured: &[MeasuredPoint]) -> Answer {
    let backend = backend(measured);
    match climbed(plan, measured, backend) {
        Ok(answer) => answer,
        Err(reason) => none(backend, &reason),
    }
}

fn climbed(plan: &Plan, measured: &[MeasuredPoint], backend: Option<Backend>) -> Result<Answer, NoAnswer> {
    let steps = steps(measured, backend)?;
    let held = steps.iter().take_while(|step| step.gate == GateFinding::Holds).last().copied();
    let broken = steps.iter().find(|step| step.gate.holds() == Some(false)).copied();
    reversed(&steps, broken)?;
    let breaks = broken.and_then(|step| match &step.gate {
        GateFinding::Broke(breaks) => breaks.first().cloned(),
        GateFinding::Holds | GateFinding::Unknown(_) => None,
    });
    let stopped = broken.or_else(|| steps.iter().find(|step| step.gate != GateFinding::Holds).copied());
    if let (None, None, Some(step)) = (held, broken, stopped) {
        return Err(unknown(step));
    }
    Ok(Answer {
        backend,
        holds: held.map(|step| step.point.tiles),
        undecided: None,
        confidence: None,
        capacity: None,
        more: None,
        untried: broken.and_then(|broken| untried(&steps, held, broken)),
        breaks,
        vcpus_per_thread: held.map(|step| vcpus_per_thread(plan, step.point)),
        limit: stopped.map_or_else(nothing_broke(held), limit),
        none_because: None,
    })
}

fn nothing_broke(held: Option<&MeasuredPoint>) -> impl FnOnce() -> Limit {
    let evidence = held.map(|step| format!("nothing broke up to {}", counted(step.point.tiles, "tile")));
    || Limit { resource: LimitResource::Unknown, evidence: evidence.into_iter().collect() }
}

/// Whether there is one ladder that was climbed.
pub(crate) fn is_one(measured: &[MeasuredPoint]) -> bool {
    steps(measured, backend(measured)).is_ok()
}

/// The backend that the answer is about: guests before their twins, never emulated ones.
fn backend(measured: &[MeasuredPoint]) -> Option<Backend> {
    let has = |backend| measured.iter().any(|point| point.counts && point.point.backend == backend);
    [Backend::Kvm, Backend::Native].into_iter().find(|backend| has(*backend))
}

/// The ladder in rising order, or why there is not one ladder.
fn steps<'m, 'a>(
    measured: &'m [MeasuredPoint<'a>],
    backend: Option<Backend>,
) -> Result<Vec<&'m MeasuredPoint<'a>>, NoAnswer> {
    let Some(backend) = backend else {
        let none_counts = |point: &&MeasuredPoint| !point.counts;
        return Err(match measured.iter().find(none_counts).map(|point| point.point.backend) {
            Some(Backend::Emulated) => NoAnswer::Emulated,
            Some(Backend::Kvm | Backend::Native) => NoAnswer::EmulatedHost,
            None => NoAnswer::NothingPlanned,
        });
    };
    let mut steps: Vec<&MeasuredPoint> =
        measured.iter().filter(|point| point.point.backend == backend).collect();
    steps.sort_by_key(|step| step.point.tiles);
    if steps.iter().any(|step| step.point.side.is_some()) {
        return Err(NoAnswer::Sides);
    }
    if steps.iter().any(|step| step.point.vary != steps[0].point.vary) {
        return Err(NoAnswer::Varies(steps[0].point.vary.keys().cloned().collect()));
    }
    if steps.iter().all(|step| step.point.loads.is_empty()) {
        return Err(NoAnswer::NoLoad);
    }
    steps.retain(|step| step.tried());
    if steps.is_empty() { Err(NoAnswer::NotMeasured) } else { Ok(steps) }
}

/// Refuses a higher step that held above one that broke.
fn reversed(steps: &[&MeasuredPoint], broken: Option<&MeasuredPoint>) -> Result<(), NoAnswer> {
    let Some(broke) = broken.map(|step| step.point.tiles) else { return Ok(()) };
    let above = steps.iter().find(|step| step.point.tiles > broke && step.gate == GateFinding::Holds);
    above.map_or(Ok(()), |step| Err(NoAnswer::Reversed { broke, held: step.point.tiles }))
}

fn unknown(step: &MeasuredPoint) -> NoAnswer {
    let reason = match &step.gate {
        GateFinding::Unknown(reason) => reason.clone(),
        GateFinding::Holds | GateFinding::Broke(_) => String::new(),
    };
    NoAnswer::FirstStepUnknown { tiles: step.point.tiles, reason, limit: limit(step).resource }
}

/// Counts between the last that held and the first that broke, unless one between was tried without a finding.
fn untried(steps: &[&MeasuredPoint], held: Option<&MeasuredPoint>, broken: &MeasuredPoint) -> Option<Counts> {
    let from = held.map_or(1, |held| held.point.tiles + 1);
    let to = broken.point.tiles.checked_sub(1)?;
    let tried = steps.iter().any(|step| (from..=to).contains(&step.point.tiles));
    (from <= to && !tried).then_some(Counts { from, to })
}

fn none(backend: Option<Backend>, reason: &NoAnswer) -> Answer {
    let resource = match reason {
        NoAnswer::FirstStepUnknown { limit, .. } => *limit,
        _ => LimitResource::Unknown,
    };
    Answer {
        backend,
        holds: None,
        breaks: None,
        undecided: None,
        confidence: None,
        capacity: None,
        more: None,
        untried: None,
        vcpus_per_thread: None,
        limit: Limit { resource, evidence: Vec::new() },
        none_because: Some(format!("{}; to fix: {}", reason.reason(), reason.remedy())),
    }
}
