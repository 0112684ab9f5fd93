//! Whether the guests of a pass were what the plan wanted, and served to its end: what they were not makes the repeat doubtful.

use crate::{
    guests::services,
    guests::start::{origin_name, wanted_origin},
};
use std::time::{Duration, Instant};
use tilemark_agent_protocol::Request;
use tilemark_guests::{Backend, GuestError, ReadyGuest};
use tilemark_plan::plan::Point;
use tilemark_record::summary::{Incident, IncidentKind};

/// Guests that were to be cloned and were not, or that are gone now.
pub(crate) fn origins_and_ends(backend: &dyn Backend, guests: &[ReadyGuest], point: &Point) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (guest, plan) in guests.iter().zip(&point.guests) {
        let mut note = |kind, what: String| {
            incidents.push(Incident { kind, what, guest: Some(plan.name.clone()) });
        };
        let wanted = wanted_origin(point, plan);
        if let Some(origin) = backend.origin(guest.id).ok().filter(|origin| *origin != wanted) {
            note(
                IncidentKind::Unproven,
                format!("it was to be {} and was {}", origin_name(wanted), origin_name(origin)),
            );
        }
        if let Ok(tilemark_guests::GuestState::Ended(how)) = backend.state(guest.id) {
            note(IncidentKind::GuestEnded, format!("it ended during the measurement: {how}"));
        }
    }
    incidents
}

/// All guests of a point answer within this, or are not asked further: what they would say is known by their figures then.
const ASK_WITHIN: Duration = Duration::from_secs(10);
/// Each has at least this, however many there are.
const ASK_EACH_MIN: Duration = Duration::from_secs(1);

/// Guests that live and whose service has ended: asked to start it once more, an agent says so.
pub(crate) fn services_ended(point: &Point, guests: &mut [ReadyGuest], known: &[Incident]) -> Vec<Incident> {
    let (until, mut ended) = (Instant::now() + ASK_WITHIN, Vec::new());
    // One that says nothing does not use up the time of the others.
    let each = (ASK_WITHIN / u32::try_from(guests.len()).unwrap_or(u32::MAX).max(1)).max(ASK_EACH_MIN);
    for (guest, plan) in guests.iter_mut().zip(&point.guests) {
        let has_ended = |incident: &Incident| incident.guest.as_ref() == Some(&plan.name);
        let left = until.saturating_duration_since(Instant::now()).min(each);
        if left.is_zero() || known.iter().any(has_ended) {
            continue;
        }
        let request = Request::StartService(services::service(point, plan));
        if let Err(GuestError::Refused { message, .. }) = guest.session.ask(&request, left) {
            let what = format!("its service ended during the measurement: {message}");
            ended.push(Incident { kind: IncidentKind::GuestEnded, what, guest: Some(plan.name.clone()) });
        }
    }
    ended
}
