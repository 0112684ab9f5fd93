//! What guests sent on the run network that no load asked for: frames under foreign addresses, and floods.
//!
//! The host counts at each guest's port, from when all guests are ready to the end of the load.

use crate::pass::load_figures::LoadReports;
use std::time::{Duration, Instant};
use tilemark_guests::{GuestManager, PortCounts, ReadyGuest};
use tilemark_plan::plan::{LoadPlan, Point};
use tilemark_record::summary::{Incident, IncidentKind};
use tilemark_units::counted;

/// A guest may send so many frames a second that nobody asked for.
const FREE_PER_SECOND: f64 = 5_000.0;
/// Frames for each that it was sent. A receiver acknowledges every second large one; a stream of very small messages
/// less often.
const FOR_EACH_RECEIVED: u64 = 50;
/// Bytes of an answer in one frame, at least.
const BYTES_OF_A_FRAME: u64 = 500;

/// The counters of all ports, read at one moment.
pub(crate) struct Ports {
    at: Instant,
    counts: Vec<Option<PortCounts>>,
}

impl Ports {
    /// Reads them, in the order of the guests.
    pub(crate) fn read(manager: &dyn GuestManager, guests: &[ReadyGuest]) -> Self {
        let counts = guests.iter().map(|guest| manager.port_counts(guest.id)).collect();
        Self { at: Instant::now(), counts }
    }

    /// Who sent what it should not since `before`, with figures.
    pub(crate) fn offences(&self, before: &Self, point: &Point, reports: &LoadReports) -> Vec<Incident> {
        let took = self.at.saturating_duration_since(before.at);
        let mut all = Vec::new();
        for (place, guest) in (0..).zip(&point.guests) {
            let counts = |ports: &Self| ports.counts.get(place as usize).copied().flatten();
            let (Some(old), Some(new)) = (counts(before), counts(self)) else { continue };
            let passed = PortCounts {
                sent: new.sent.saturating_sub(old.sent),
                received: new.received.saturating_sub(old.received),
                dropped: new.dropped.saturating_sub(old.dropped),
            };
            let asked = asked_of(place, point, reports, took);
            all.extend(offences_of(passed, asked, took).into_iter().map(|what| Incident {
                // As a report that is refused: it would do so again.
                kind: IncidentKind::Refused,
                what,
                guest: Some(guest.name.clone()),
            }));
        }
        all
    }
}

/// How many frames a guest may have sent for its loads in this time, warm-up and all.
fn asked_of(guest: u32, point: &Point, reports: &LoadReports, took: Duration) -> u64 {
    let measured = point.measure.length.get().as_secs_f64().max(1.0);
    let of = |(place, load): (u32, &LoadPlan)| {
        let counts = reports.counts(place);
        let facts = load.work.facts();
        counts.offered.saturating_mul(facts.frames_each()).saturating_add(counts.bytes / BYTES_OF_A_FRAME)
    };
    // One that runs in the guest that it loads puts nothing on the network.
    let is_on_network = |load: &LoadPlan| load.runs_in() != Some(load.guest);
    let address = point.guests.iter().find(|own| own.index == guest).map(|own| own.address);
    let asks_it = |other: u32| {
        let other = point.guests.iter().find(|own| own.index == other);
        other.is_some_and(|other| other.asks.is_some() && other.asks == address)
    };
    let is_of_guest =
        |load: &LoadPlan| load.guest == guest || load.from == Some(guest) || asks_it(load.guest);
    let loads = (0..).zip(&point.loads).filter(|(_, load)| is_on_network(load) && is_of_guest(load));
    let asked = loads.map(of).fold(0, u64::saturating_add);
    (asked as f64 * (took.as_secs_f64() / measured).max(1.0)) as u64
}

/// What is wrong with what passed a port, in sentences.
fn offences_of(passed: PortCounts, asked: u64, took: Duration) -> Vec<String> {
    let mut all = Vec::new();
    if passed.dropped > 0 {
        all.push(format!(
            "it sent {} under addresses that are not its own, to guests that it may not reach, or of an unknown kind; all were dropped",
            counted(passed.dropped, "frame")
        ));
    }
    let free = (FREE_PER_SECOND * took.as_secs_f64()) as u64;
    let unanswered = passed.sent > passed.received.saturating_mul(FOR_EACH_RECEIVED);
    if passed.sent > free && (unanswered || passed.sent - free > asked) {
        all.push(format!(
            "it flooded the run network: it sent {} in {:.1} s and received {}, more than its loads need",
            counted(passed.sent, "frame"),
            took.as_secs_f64(),
            passed.received
        ));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ladder, plan_of};
    use tilemark_agent_protocol::{Counts, LoadEvent, StreamTotal};

    /// Frames for a request to a web server.
    const OF_A_REQUEST: u64 = 64;
    const TEN: Duration = Duration::from_secs(10);

    #[test]
    fn a_guest_that_sends_a_load_may_send_as_much_as_the_one_that_answers_it() {
        let plan = plan_of(tilemark_fixtures::TILE_WITH_CLIENT, &ladder());
        let (point, mut reports) = (&plan.points[0], LoadReports::default());
        let counts = Counts { offered: 1_000, bytes: 500_000, ..Counts::default() };
        reports.inside(1, LoadEvent::Done(vec![StreamTotal { counts, ..StreamTotal::default() }]));
        let asked = [0, 1, 2].map(|guest| asked_of(guest, point, &reports, Duration::ZERO));
        let of_load = 1_000 * OF_A_REQUEST + 1_000;
        assert_eq!(asked, [0, of_load, of_load]);
    }

    fn offences([sent, received, dropped]: [u64; 3], asked: u64) -> Vec<String> {
        offences_of(PortCounts { sent, received, dropped }, asked, TEN)
    }

    #[test]
    fn a_spoofing_guest_is_named_with_the_number_of_its_frames() {
        assert_eq!(
            offences([10, 9, 3], 0),
            [
                "it sent 3 frames under addresses that are not its own, to guests that it may not reach, or of an unknown kind; all were dropped"
            ]
        );
    }

    #[test]
    fn an_unanswered_flood_is_named_whatever_its_load_asked_and_an_answered_one_only_beyond_that() {
        let is_named = |frames| {
            let (found, text) = (offences(frames, 1_000_000_000), "it flooded the run network: ");
            found.iter().any(|what| what.starts_with(text))
        };
        assert!(is_named([2_000_000, 1_000, 0]));
        assert!(!is_named([2_000_000, 2_000_000, 0]));
        assert_eq!(
            offences([2_000_000, 2_000_000, 0], 1_000),
            [
                "it flooded the run network: it sent 2000000 frames in 10.0 s and received 2000000, more than its loads need"
            ]
        );
    }

    #[test]
    fn a_guest_that_does_its_work_is_not_named() {
        for (frames, asked) in [
            // Idle, with an echo now and then.
            ([12, 12, 0], 0),
            // A web server flat out: two frames an answer.
            ([1_200_000, 600_000, 0], 600_000 * OF_A_REQUEST),
            // A broker that pushes small messages.
            ([3_000_000, 150_000, 0], 3_000_000 * OF_A_REQUEST),
            // Noise below what anybody may send.
            ([40_000, 1, 0], 0),
        ] {
            assert_eq!(offences(frames, asked), Vec::<String>::new(), "{frames:?}");
        }
    }
}
