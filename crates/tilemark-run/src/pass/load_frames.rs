//! What a load process's frames come to, without the process: the way of its bytes to the figures of a repeat. Only fuzzing uses it.

pub use crate::pass::load_listener::LoadSource;
use crate::{
    pass::load_figures::LoadReports,
    pass::load_jobs::{client_job, inside_job, outside_job, times_inside, times_outside},
    pass::report_check::{ReportCheck, Reporter},
};
use std::io::Read;
use tilemark_agent_protocol::{LoadEvent, Reply, read_frame};
use tilemark_plan::plan::{GuestPlan, Plan, Point};
use tilemark_record::summary::{Incident, LoadFigures};

/// Reads frames until the last event, the first that is broken or refused, or the end, and makes figures of what was heard.
///
/// # Errors
/// When the point has no load there, or a histogram does not decode; the text says why.
pub fn figures_of_frames(
    plan: &Plan,
    point: &Point,
    from: LoadSource,
    frames: &mut impl Read,
) -> Result<(Vec<LoadFigures>, Vec<Incident>), String> {
    let mut check = report_check(plan, point, from).ok_or("the point has no load there")?;
    let mut reports = LoadReports::default();
    while let Ok(reply) = read_frame::<Reply>(frames) {
        let Reply::Load(event) = reply else { continue };
        let Ok(event) = check.take(event) else { break };
        let is_last = matches!(event, LoadEvent::Done(_) | LoadEvent::Failed { .. });
        match from {
            LoadSource::Outside => reports.outside(event),
            LoadSource::Inside(place) => reports.inside(place, event),
            LoadSource::Client(place) => reports.client(place, event),
        }
        if is_last {
            break;
        }
    }
    let figures = reports.figures(point, 1).map_err(|error| error.to_string())?;
    let seconds = u32::try_from(point.measure.length.get().as_secs()).unwrap_or(u32::MAX);
    // A search reads these.
    for place in 0..point.loads.len() as u32 {
        let _ = reports.completed_by_second(place, seconds);
    }
    let incidents = reports.unaudited(point).chain(reports.findings(point)).collect();
    Ok((figures.loads, incidents))
}

/// As the engine listens to it; `None` where the point has no load there.
fn report_check(plan: &Plan, point: &Point, from: LoadSource) -> Option<ReportCheck> {
    let of_guest = |guest: &GuestPlan| vec![1; guest.services().len()];
    let ports: Vec<Vec<u16>> = point.guests.iter().map(of_guest).collect();
    Some(match from {
        LoadSource::Client(_) => {
            let tiles: Vec<u32> = (1..=point.tiles).collect();
            ReportCheck::of(
                &client_job(point, 1, &tiles, &ports)?,
                Reporter::Ours,
                times_outside(point).measured,
            )
        }
        LoadSource::Outside => {
            let job = outside_job(plan, point, 1, &ports)?;
            ReportCheck::of(&job, Reporter::Ours, times_outside(point).measured)
        }
        LoadSource::Inside(place) => {
            let load = point.loads.get(place as usize)?;
            ReportCheck::of(
                &inside_job(point, 1, load, &ports)?,
                Reporter::Guest,
                times_inside(point, load).measured,
            )
        }
    })
}
