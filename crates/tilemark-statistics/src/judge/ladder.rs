//! The Answer: from a ladder of points that hold or break to how many the host carries.

use tilemark_plan::plan::{Backend, Plan, Point};
use tilemark_record::result::{Answer, Break, Counts, GateMeasure, Limit, LimitResource};
use tilemark_units::{Bytes, counted};

use super::gate::GateFinding;
use super::limit::limit;
use super::measured::MeasuredPoint;
use super::survey::{Standing, Survey};

/// Virtual processors of a point for each thread given to guests.
pub(crate) fn vcpus_per_thread(plan: &Plan, point: &Point) -> f64 {
    let vcpus: f64 = point.guests.iter().map(|guest| f64::from(guest.vcpus)).sum();
    vcpus / plan.processors.guests.len().max(1) as f64
}

/// Why a run gives no answer to how many.
enum NoAnswer {
    NothingPlanned,
    Emulated,
    EmulatedHost,
    Sides,
    Roles,
    Settings,
    Varies(Vec<String>),
    NoLoad,
    NotMeasured,
    FirstStepUnknown { tiles: u32, reason: String, limit: LimitResource },
}

impl NoAnswer {
    fn reason(&self) -> String {
        match self {
            Self::NothingPlanned => "nothing was planned".to_owned(),
            Self::Emulated => {
                "all guests were emulated, and emulated guests do not show how fast this host is".to_owned()
            }
            Self::EmulatedHost => {
                "this host is itself emulated, so times measured on it mean nothing".to_owned()
            }
            Self::Sides => "two sides were compared, each with a ladder of its own".to_owned(),
            Self::Roles => "roles of the tile were measured alone and in pairs".to_owned(),
            Self::Settings => "settings of the host were screened at one step".to_owned(),
            Self::Varies(names) => {
                let verb = if names.len() == 1 { "varies" } else { "vary" };
                format!("{} {verb}, and each value has a ladder of its own", names.join(" and "))
            }
            Self::NoLoad => "this scenario has no load, so it measures a density, not a capacity".to_owned(),
            Self::NotMeasured => "no repeat was measured".to_owned(),
            Self::FirstStepUnknown { tiles, reason, .. } => {
                format!("at {} there is no answer: {reason}", counted(*tiles, "tile"))
            }
        }
    }

    /// What the reader should do.
    fn remedy(&self) -> &'static str {
        match self {
            Self::NothingPlanned => "give the ladder a step",
            Self::Emulated => "measure on a host with usable KVM, or natively with `--on native`",
            Self::EmulatedHost => "measure on real hardware; this host can only show that things work",
            Self::Sides => "read the comparison",
            Self::Roles => "read the slowdowns",
            Self::Settings => "read the table of settings",
            Self::Varies(_) => "read each point, or fix one value with `--set`",
            Self::NoLoad => "read the points: they have memory and time to ready",
            Self::NotMeasured => "run it again and let it finish one block of repeats",
            Self::FirstStepUnknown { limit: LimitResource::LoadGenerator, .. } => {
                "give the load more processors, or send it from another machine"
            }
            Self::FirstStepUnknown { .. } => "remove what disturbed it and run it again",
        }
    }
}

/// The ladder that the answer is about, or why there is not one.
pub(crate) struct Ladder<'m, 'a> {
    /// The backend that the answer is about.
    backend: Option<Backend>,
    climbed: Result<Climbed<'m, 'a>, NoAnswer>,
}

/// The steps of one ladder in rising order, with what is known of each.
struct Climbed<'m, 'a> {
    steps: Vec<&'m MeasuredPoint<'a>>,
    survey: Survey,
}

impl<'m, 'a> Ladder<'m, 'a> {
    pub(crate) fn of(measured: &'m [MeasuredPoint<'a>]) -> Self {
        let backend = backend(measured);
        let climbed = steps(measured, backend).map(|steps| Climbed { survey: Survey::of(&steps), steps });
        Self { backend, climbed }
    }

    /// What is known of its counts, where there is one ladder.
    pub(crate) fn survey(&self) -> Option<&Survey> {
        self.climbed.as_ref().ok().map(|climbed| &climbed.survey)
    }

    pub(crate) fn answer(&self, plan: &Plan) -> Answer {
        match &self.climbed {
            Ok(climbed) => {
                answer(plan, self.backend, climbed).unwrap_or_else(|reason| none(self.backend, &reason))
            }
            Err(reason) => none(self.backend, reason),
        }
    }
}

fn answer(plan: &Plan, backend: Option<Backend>, climbed: &Climbed) -> Result<Answer, NoAnswer> {
    let Climbed { steps, survey } = climbed;
    let standing = |step: &&&MeasuredPoint| survey.standing(step.point.tiles);
    let climb = Climb::of(steps, survey, plan.search.is_some());
    let broken = climb.broke.and_then(|tiles| steps.iter().find(|step| step.point.tiles == tiles)).copied();
    let held = climb.held.and_then(|tiles| steps.iter().find(|step| step.point.tiles == tiles)).copied();
    let stopped = broken.or_else(|| steps.iter().find(|step| standing(step) != Standing::Holds).copied());
    if let (None, None, None, Some(step)) = (held, broken, climb.undecided, stopped) {
        return Err(unknown(step));
    }
    let by_failure = broken.is_some_and(|step| step.gate.is_failure());
    Ok(Answer {
        backend,
        holds: climb.held,
        undecided: climb.undecided,
        untried: climb
            .undecided
            .map_or_else(|| broken.and_then(|broken| untried(steps, held, broken)), |_| None),
        breaks: broken.and_then(|step| broke_by(step, survey)),
        confidence: survey.confidence(climb.held, climb.broke, by_failure),
        // The law knows p99, and not where a guest or a service fails.
        capacity: broken
            .filter(|_| !by_failure)
            .and_then(|broken| survey.capacity_between(climb.held, broken.point.tiles))
            .map(Into::into),
        more: None,
        vcpus_per_thread: held.map(|step| vcpus_per_thread(plan, step.point)),
        limit: match (&stopped, memory_ended(plan, held)) {
            (None, Some(limit)) => limit,
            (None, None) => nothing_broke(held)(),
            // Nothing is known to have run out there.
            (Some(step), _) if standing(&step) == Standing::Undecided => {
                Limit { resource: LimitResource::Unknown, evidence: Vec::new() }
            }
            (Some(step), _) => limit(step),
        },
        none_because: None,
    })
}

/// Which counts of a ladder hold, which break, and which lie between.
struct Climb {
    held: Option<u32>,
    broke: Option<u32>,
    undecided: Option<Counts>,
}

impl Climb {
    /// The largest that holds with none below it broken or unknown, and the smallest that breaks with none above it held. A count
    /// that is undecided below one that holds is no obstacle: more tiles are never easier.
    /// In a search every count between is open; in a ladder, one that was not asked for is untried.
    fn of(steps: &[&MeasuredPoint], survey: &Survey, is_search: bool) -> Self {
        let standing = |step: &&MeasuredPoint| (step.point.tiles, survey.standing(step.point.tiles));
        let standings: Vec<(u32, Standing)> = steps.iter().map(standing).collect();
        let known = standings
            .iter()
            .take_while(|(_, standing)| !matches!(standing, Standing::Breaks | Standing::Unknown));
        let held = known.filter(|(_, standing)| *standing == Standing::Holds).map(|(tiles, _)| *tiles).last();
        let last_held =
            standings.iter().rfind(|(_, standing)| *standing == Standing::Holds).map(|(tiles, _)| *tiles);
        let broke = standings
            .iter()
            .find(|(tiles, standing)| *standing == Standing::Breaks && Some(*tiles) > last_held)
            .map(|(tiles, _)| *tiles);
        let from = held.map_or(1, |held| held.saturating_add(1));
        let below = broke.map_or(u32::MAX, |broke| broke);
        let between = || standings.iter().filter(|(tiles, _)| (from..below).contains(tiles));
        let is_open = is_search && broke.is_some()
            || between().any(|(_, standing)| matches!(standing, Standing::Undecided | Standing::Breaks));
        let to = broke
            .map_or_else(|| between().map(|(tiles, _)| *tiles).next_back(), |broke| broke.checked_sub(1));
        let undecided = to.filter(|to| is_open && from <= *to).map(|to| Counts { from, to });
        Self { held, broke, undecided }
    }
}

/// What broke at a step; the law alone names no guest.
fn broke_by(step: &MeasuredPoint, survey: &Survey) -> Option<Break> {
    if let Some(first) = step.gate.breaks().first() {
        return Some(first.clone());
    }
    let limit_ms = step.point.gate.p99.as_milliseconds();
    Some(Break {
        tiles: step.point.tiles,
        measure: GateMeasure::P99,
        value: limit_ms * survey.steps[&step.point.tiles].side.exp(),
        low: None,
        high: None,
        load: step.load_names().first().map(|name| (*name).to_owned()).unwrap_or_default(),
        guest: None,
        second: None,
        detail: Some(
            "all repeats together give a probability of over 97 % that this count breaks".to_owned(),
        ),
    })
}

/// The search ended because the next count did not fit into memory: that is what ran out.
fn memory_ended(plan: &Plan, held: Option<&MeasuredPoint>) -> Option<Limit> {
    let end = plan.search.as_ref()?.memory_end?;
    // Else the search ended for another reason, and more may fit.
    let held = held.filter(|held| held.point.tiles.checked_add(1) == Some(end.tiles))?;
    let mut evidence = vec![format!(
        "{} need {} of memory; {} was free, and {} must stay free",
        counted(end.tiles, "tile"),
        end.needed.rounded(),
        end.free.rounded(),
        end.reserve.rounded(),
    )];
    let sizes = held.kept.iter().filter_map(|repeat| Some(repeat.memory.as_ref()?.pss_mib_per_guest));
    if let Some(each) = crate::moments::mean(&sizes.collect::<Vec<f64>>()) {
        evidence.push(format!("a guest took {each:.0} MiB at {}", counted(held.point.tiles, "tile")));
    }
    let left = held.kept.iter().filter_map(|repeat| repeat.host.memory_available_min).min();
    evidence.extend(left.map(|left| {
        format!("{} was left at {}", Bytes::new(left).rounded(), counted(held.point.tiles, "tile"))
    }));
    Some(Limit { resource: LimitResource::Memory, evidence })
}

fn nothing_broke(held: Option<&MeasuredPoint>) -> impl FnOnce() -> Limit {
    let evidence = held.map(|step| format!("nothing broke up to {}", counted(step.point.tiles, "tile")));
    || Limit { resource: LimitResource::Unknown, evidence: evidence.into_iter().collect() }
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
    if steps.iter().any(|step| step.point.screened.is_some()) {
        return Err(NoAnswer::Settings);
    }
    if steps.iter().any(|step| step.point.together.is_some()) {
        return Err(NoAnswer::Roles);
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

fn unknown(step: &MeasuredPoint) -> NoAnswer {
    let reason = match &step.gate {
        GateFinding::Unknown(reason) => reason.clone(),
        GateFinding::Holds | GateFinding::Undecided(_) | GateFinding::Broke(_) => String::new(),
    };
    NoAnswer::FirstStepUnknown { tiles: step.point.tiles, reason, limit: limit(step).resource }
}

/// Counts between the last that holds and the first that breaks, unless one between was tried without a finding.
fn untried(steps: &[&MeasuredPoint], held: Option<&MeasuredPoint>, broken: &MeasuredPoint) -> Option<Counts> {
    let from = held.map_or(1, |held| held.point.tiles.saturating_add(1));
    let to = broken.point.tiles.checked_sub(1)?;
    let was_tried = steps.iter().any(|step| (from..=to).contains(&step.point.tiles));
    (from <= to && !was_tried).then_some(Counts { from, to })
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
