//! What each load of a point asks of its guest, and how long it may take.

use crate::guests::services::{EMULATED_HOST_FACTOR, credentials_of, hardware};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tilemark_agent_protocol::{LoadJob, Stream, Works};
use tilemark_plan::{
    facts::Hardware,
    plan::{Backend, LoadPlan, Plan, Point},
    workload::Work,
};
use tilemark_units::Span;

/// How long one load may take, by the host's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoadTimes {
    /// Until it is ready.
    pub(crate) ready: Duration,
    /// From its beginning to its totals.
    pub(crate) measured: Duration,
    /// How much of [`Self::measured`] is gone when it took as long to be ready.
    shared: Duration,
}

impl LoadTimes {
    /// From the beginning to the totals of a load that was ready after this time.
    pub(crate) fn after_ready_in(self, taken: Duration) -> Duration {
        self.measured.saturating_sub(taken.min(self.shared))
    }
}

/// How long a load inside a guest may take after its measurement. Many guests end their tools at once, which takes time on a full host.
fn afterwards_inside(point: &Point) -> Duration {
    let on_hardware = Duration::from_secs(8) + Duration::from_millis(200) * point.guests.len() as u32;
    match (point.backend, hardware()) {
        (Backend::Emulated, _) => Backend::Emulated.costs().afterwards,
        (Backend::Kvm, Hardware::Emulated) => EMULATED_HOST_FACTOR * on_hardware,
        (Backend::Native | Backend::Kvm, _) => on_hardware,
    }
}

/// From the beginning of a load to its last answers, without what the backend allows for them anyway.
fn planned(point: &Point) -> Duration {
    let longer = point.drain() - point.backend.costs().drain;
    point.measure.warmup.get() + point.measure.length.get() + longer
}

/// A load with a fixed number of messages gets one more second for each so many of them.
const SLOWEST_MESSAGES: f64 = 100.0;

/// How long the load from outside may take. A load with a fixed number of messages has no fixed length.
pub(crate) fn times_outside(point: &Point) -> LoadTimes {
    let counts = point.loads.iter().map(|load| load.work.facts().count());
    let for_messages = counts.max().unwrap_or(0) as f64 / SLOWEST_MESSAGES;
    let measured = planned(point) + point.backend.costs().afterwards;
    let measured_all = measured + Duration::from_secs_f64(for_messages);
    LoadTimes { ready: measured, measured: measured_all, shared: Duration::ZERO }
}

/// How long a load inside a guest may take.
pub(crate) fn times_inside(point: &Point, load: &LoadPlan) -> LoadTimes {
    // One that is sent to another guest may have to wait for that one's service.
    let service = load.from.map_or(Duration::ZERO, |_| point.backend.costs().afterwards);
    let ready = afterwards_inside(point).max(service);
    // What a guest may take beyond its plan it may take once, to be ready or to end; but one that waited for another's service has as long
    // to give up on that.
    LoadTimes { ready, measured: planned(point) + ready, shared: ready.saturating_sub(service) }
}

/// The job of the outside load process in one block, whose streams are numbered like the point's loads; `None` when
/// nothing is sent from outside.
pub(crate) fn outside_job(plan: &Plan, point: &Point, block: u32, ports: &[Vec<u16>]) -> Option<LoadJob> {
    let loads = (0..).zip(&point.loads).filter(|(_, load)| load.is_outside());
    let streams = streams(point, block, loads, ports);
    (!streams.is_empty()).then(|| job(point, streams, plan.processors.load.clone()))
}

/// The job of a client machine that sends the loads of these tiles, in one block, whose streams are numbered like the point's loads;
/// `None` when it has nothing to send. Each stream is the same as if another client sent it.
pub(crate) fn client_job(point: &Point, block: u32, tiles: &[u32], ports: &[Vec<u16>]) -> Option<LoadJob> {
    let its = |(_, load): &(u32, &LoadPlan)| load.from_clients && tiles.contains(&load.tile);
    let loads = (0..).zip(&point.loads).filter(its);
    let streams = streams(point, block, loads, ports);
    (!streams.is_empty()).then(|| job(point, streams, Vec::new()))
}

/// The job of a load that runs inside a guest, in one block; `None` for one that is sent from outside.
pub(crate) fn inside_job(point: &Point, block: u32, load: &LoadPlan, ports: &[Vec<u16>]) -> Option<LoadJob> {
    load.runs_in()?;
    Some(job(point, streams(point, block, [(0, load)], ports), Vec::new()))
}

fn job(point: &Point, streams: Vec<Stream>, processors: Vec<u32>) -> LoadJob {
    let (warmup, length) = (point.measure.warmup, point.measure.length);
    LoadJob { streams, processors, warmup, length }
}

/// The streams of some loads with their numbers. Those that ask the same share it.
fn streams<'l>(
    point: &Point,
    block: u32,
    loads: impl IntoIterator<Item = (u32, &'l LoadPlan)>,
    ports: &[Vec<u16>],
) -> Vec<Stream> {
    let mut works = Works::default();
    let stream =
        |(id, load): (u32, &LoadPlan)| stream(point, block, id, load, works.shared(&load.work), ports);
    loads.into_iter().map(stream).collect()
}

fn stream(
    point: &Point,
    block: u32,
    id: u32,
    load: &LoadPlan,
    work: Arc<Work>,
    ports: &[Vec<u16>],
) -> Stream {
    let guest = &point.guests[load.guest as usize];
    let asked = guest.service_asked(&load.work);
    let port = load.work.facts().port().unwrap_or(ports[load.guest as usize][asked]);
    Stream {
        id,
        target: SocketAddr::from((guest.address, port)),
        demand: load.demand.clone(),
        connections: load.connections,
        seed: load.seed_of_block(block),
        work,
        disks: guest.disks.len() as u32,
        credentials: credentials_of(guest.services()[asked].role),
        timeout: Span::new(point.backend.costs().timeout),
        drain: Span::new(point.drain()),
        files: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ladder, plan_of};
    use tilemark_fixtures::TILE_WITH_CLIENT;
    use tilemark_plan::resolve::Request;

    /// What users of a site have to connect beside twice the timeout.
    const CONNECTS_MIN: Duration = Duration::from_secs(10);

    #[test]
    fn a_load_gives_up_on_its_broker_before_its_host_gives_up_on_the_load() {
        for backend in Backend::ALL {
            let costs = backend.costs();
            assert!(costs.afterwards > CONNECTS_MIN + 2 * costs.timeout, "{backend:?}");
            assert!(costs.afterwards > 2 * costs.drain, "{backend:?}");
        }
        assert!(Backend::Emulated.costs().timeout > Backend::Native.costs().timeout);
    }

    #[test]
    fn what_a_guest_took_to_be_ready_is_gone_from_what_it_may_take_to_end_unless_it_waited_for_another() {
        let plan = plan_of(TILE_WITH_CLIENT, &ladder());
        let point = &plan.points[0];
        let (sent, own) = (|load: &&LoadPlan| load.from.is_some(), |load: &&LoadPlan| load.from.is_none());
        let sent = times_inside(point, point.loads.iter().find(sent).unwrap());
        let own = times_inside(point, point.loads.iter().find(own).unwrap());
        let second = Duration::from_secs(1);
        assert_eq!(own.after_ready_in(second), own.measured - second);
        assert_eq!(own.after_ready_in(100 * own.measured), planned(point));
        assert_eq!(sent.after_ready_in(second), sent.measured);
        assert_eq!(times_outside(point).after_ready_in(second), times_outside(point).measured);
    }

    #[test]
    fn the_host_waits_as_much_longer_for_a_load_with_slow_limits_as_the_load_takes() {
        let [quick, slow] = ["50ms", "20s"].map(|limit| {
            let settings = [("gate.p99".to_owned(), limit.to_owned())].into();
            let plan = plan_of(TILE_WITH_CLIENT, &Request { settings, ..ladder() });
            let point = &plan.points[0];
            let sent = point.loads.iter().find(|load| load.from.is_some()).unwrap();
            [times_outside(point).measured, times_inside(point, sent).measured, point.drain()]
        });
        assert_eq!(quick[2], Backend::Native.costs().drain);
        for time in 0..3 {
            assert_eq!(slow[time] - quick[time], Duration::from_secs(38));
        }
    }

    #[test]
    fn a_load_that_a_guest_sends_has_as_long_to_connect_as_one_from_outside_has_after_its_measurement() {
        for backend in [Backend::Native, Backend::Emulated] {
            let plan = plan_of(TILE_WITH_CLIENT, &Request { backends: vec![backend], ..ladder() });
            let point = &plan.points[0];
            let sent = point.loads.iter().find(|load| load.from.is_some()).unwrap();
            assert!(times_inside(point, sent).ready >= backend.costs().afterwards, "{backend:?}");
        }
    }
}
