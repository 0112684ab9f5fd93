//! What a load process's frames come to, without the process: the way of its bytes to the figures of a repeat.

use crate::figures::Told;
use std::io::Read;
use tilemark_agent_protocol::{LoadEvent, Reply, read_frame};
use tilemark_plan::plan::Point;
use tilemark_record::summary::{Incident, LoadFigures};

/// Where a load process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// On the host: its events name loads by their places in the point's list.
    Outside,
    /// Inside of the guest of the load at this place.
    Inside(u32),
}

/// Reads frames until the last event, the first that is broken, or the end, and makes figures of what they report.
///
/// # Errors
/// When a histogram does not decode; the text says why.
pub fn figures_of_frames(
    point: &Point,
    from: From,
    frames: &mut impl Read,
) -> Result<(Vec<LoadFigures>, Vec<Incident>), String> {
    let mut told = Told::default();
    while let Ok(reply) = read_frame::<Reply>(frames) {
        let Reply::Load(event) = reply else { continue };
        let is_last = matches!(event, LoadEvent::Done(_) | LoadEvent::Failed { .. });
        match from {
            From::Outside => told.outside(event),
            From::Inside(place) => told.inside(place, event),
        }
        if is_last {
            break;
        }
    }
    let figures = told.figures(point, 1).map_err(|error| error.to_string())?;
    let seconds = u32::try_from(point.measure.length.get().as_secs()).unwrap_or(u32::MAX);
    for place in 0..point.loads.len() as u32 {
        let _ = told.completed_by_second(place, seconds);
    }
    let incidents = told.unaudited(point).chain(told.wrong_answers(point)).collect();
    Ok((figures.loads, incidents))
}
