//! Whether the guests of a pass were what the plan wanted, and served to its end: what they were not makes the repeat doubtful.

use crate::{
    guests::services,
    guests::start::{origin_name, wanted_origin},
};
use std::time::{Duration, Instant};
use tilemark_agent_protocol::{Reply, Request};
use tilemark_guests::{GuestError, GuestManager, ReadyGuest};
use tilemark_plan::plan::Point;
use tilemark_record::summary::{Incident, IncidentKind};
use tilemark_sys::clock::realtime_ns;

/// Guests that were to be cloned and were not, or that are gone now.
pub(crate) fn origins_and_ends(
    manager: &dyn GuestManager,
    guests: &[ReadyGuest],
    point: &Point,
) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (guest, plan) in guests.iter().zip(&point.guests) {
        let mut note = |kind, what: String| {
            incidents.push(Incident { kind, what, guest: Some(plan.name.clone()) });
        };
        let wanted = wanted_origin(point, plan);
        if let Some(origin) = manager.origin(guest.id).ok().filter(|origin| *origin != wanted) {
            note(
                IncidentKind::Unproven,
                format!("it was to be {} and was {}", origin_name(wanted), origin_name(origin)),
            );
        }
        if let Ok(tilemark_guests::GuestState::Ended(how)) = manager.state(guest.id) {
            note(IncidentKind::GuestEnded, format!("it ended during the measurement: {how}"));
        }
    }
    incidents
}

/// What the clock of a guest showed, and when that was by the host's: the answer came between two readings.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    guest_ns: u64,
    asked_ns: u64,
    answered_ns: u64,
}

/// The clock of one guest.
#[derive(Debug, Clone, Copy)]
enum Clock {
    /// No load runs in its guest, or there was no time left to ask it.
    NotAsked,
    /// The guest gave no answer.
    Silent,
    Read(ClockReading),
}

/// The clocks of the guests in which loads run, at one moment.
pub(crate) struct Clocks(Vec<Clock>);

impl Clocks {
    /// Reads them: a load in a guest is measured by that guest's clock. Guests with an incident are asked nothing more.
    pub(crate) fn read(point: &Point, guests: &mut [ReadyGuest], known: &[Incident]) -> Self {
        let runs_load = |index: u32| point.loads.iter().any(|load| load.runs_in() == Some(index));
        let is_known = |name: &str| known.iter().any(|incident| incident.guest.as_deref() == Some(name));
        let until = Instant::now() + ASK_WITHIN;
        let read = (0..).zip(guests).zip(&point.guests).map(|((index, guest), plan)| {
            let left = until.saturating_duration_since(Instant::now()).min(ASK_EACH_MIN);
            if left.is_zero() || !runs_load(index) || is_known(&plan.name) {
                return Clock::NotAsked;
            }
            let asked_ns = realtime_ns();
            let Ok(Reply::Clock { realtime_ns: guest_ns }) =
                guest.session.ask(&Request::Clock { adjust_ns: 0 }, left)
            else {
                return Clock::Silent;
            };
            Clock::Read(ClockReading { guest_ns, asked_ns, answered_ns: realtime_ns() })
        });
        Self(read.collect())
    }

    /// Guests whose clocks went wrong from `before` to now, or are not known.
    pub(crate) fn wrong_since(&self, before: &Self, point: &Point) -> Vec<Incident> {
        let pairs = before.0.iter().zip(&self.0).zip(&point.guests);
        let wrong = pairs.filter_map(|((before, after), plan)| {
            let what = match (before, after) {
                (Clock::Read(before), Clock::Read(after)) => wrong_clock(off_by(before, after)?),
                (Clock::NotAsked, _) | (_, Clock::NotAsked) => return None,
                (Clock::Silent, _) | (_, Clock::Silent) => {
                    "it did not say what its clock showed, so nobody knows whether its times are right"
                        .to_owned()
                }
            };
            Some(Incident { kind: IncidentKind::Unproven, what, guest: Some(plan.name.clone()) })
        });
        wrong.collect()
    }
}

fn wrong_clock(off: f64) -> String {
    format!(
        "its clock went {:.1} % {} than the host's while its load ran, so its times are wrong",
        100.0 * off.abs(),
        if off > 0.0 { "faster" } else { "slower" }
    )
}

/// A clock that is set in small steps by a time service may go so much faster or slower: Linux slews by 500 ppm at most.
const CLOCK_RATE_MAX: f64 = 0.001;

/// By which part a guest's clock certainly went faster than the host's, or slower if negative; `None` within what is right.
fn off_by(before: &ClockReading, after: &ClockReading) -> Option<f64> {
    let passed = |from: u64, to: u64| to as f64 - from as f64;
    let guest = passed(before.guest_ns, after.guest_ns);
    let least = passed(before.answered_ns, after.asked_ns);
    let most = passed(before.asked_ns, after.answered_ns);
    let off = if guest > most { guest / most - 1.0 } else { (guest / least - 1.0).min(0.0) };
    (off.abs() > CLOCK_RATE_MAX).then_some(off)
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
        let has_ended = |incident: &Incident| {
            incident.guest.as_ref() == Some(&plan.name) && incident.kind != IncidentKind::ServiceErrors
        };
        let left = until.saturating_duration_since(Instant::now()).min(each);
        if left.is_zero() || known.iter().any(has_ended) {
            continue;
        }
        let request = Request::StartService(Box::new(services::service(point, plan)));
        if let Err(GuestError::Refused { message, .. }) = guest.session.ask(&request, left) {
            let what = format!("its service ended during the measurement: {message}");
            ended.push(Incident { kind: IncidentKind::GuestEnded, what, guest: Some(plan.name.clone()) });
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ladder, plan_of};
    use tilemark_fixtures::TILE_WITH_CLIENT;

    /// A guest's clock at the end of ten seconds of the host's, each answer within a millisecond.
    fn after_ten_seconds(guest_ms: i64) -> Option<f64> {
        let reading = |host_ms: u64, guest_ms: u64| ClockReading {
            guest_ns: guest_ms * 1_000_000,
            asked_ns: host_ms * 1_000_000,
            answered_ns: (host_ms + 1) * 1_000_000,
        };
        off_by(&reading(50_000, 70_000), &reading(60_000, 70_000_u64.saturating_add_signed(guest_ms)))
    }

    #[test]
    fn a_guest_with_a_load_that_does_not_answer_has_an_unproven_clock() {
        let plan = plan_of(TILE_WITH_CLIENT, &ladder());
        let point = &plan.points[0];
        let reading = |at: u64| {
            let ns = at * 1_000_000_000;
            Clock::Read(ClockReading { guest_ns: ns, asked_ns: ns, answered_ns: ns })
        };
        let found = |before, after| {
            let clocks = |clock| Clocks(vec![clock; point.guests.len()]);
            let incidents = clocks(after).wrong_since(&clocks(before), point);
            incidents
                .iter()
                .all(|incident| incident.kind == IncidentKind::Unproven)
                .then_some(incidents.len())
        };
        let all = Some(point.guests.len());
        assert_eq!(found(reading(1), reading(2)), Some(0));
        assert_eq!(found(reading(1), Clock::Silent), all);
        assert_eq!(found(Clock::Silent, reading(2)), all);
        assert_eq!(found(reading(1), Clock::NotAsked), Some(0), "there was no time to ask it");
    }

    #[test]
    fn a_clock_that_goes_wrong_is_found_beyond_what_the_answers_leave_open() {
        for right in [9_999, 10_000, 10_001, 10_010, 9_990] {
            assert_eq!(after_ten_seconds(right), None, "{right}");
        }
        let faster = after_ten_seconds(10_100).unwrap();
        assert!((0.009..0.011).contains(&faster), "{faster}");
        let slower = after_ten_seconds(9_900).unwrap();
        assert!((-0.011..-0.009).contains(&slower), "{slower}");
        assert_eq!(after_ten_seconds(0), Some(-1.0), "it does not advance");
    }
}
