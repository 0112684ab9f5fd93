//! What a guest of a point must serve, and what each load asks of it.

use crate::{credentials, listen::LoadTimes, prepare};
use std::{net::SocketAddr, time::Duration};
use tilemark_agent_protocol::{Credentials, LoadJob, Service, Stream};
use tilemark_plan::{
    facts::Hardware,
    plan::{Backend, GuestPlan, LoadPlan, Plan, Point},
    scenario::{Role, Start},
    workload::Place,
};
use tilemark_units::Span;

/// The service that runs in a guest of this point: it must hold what the guest's loads will ask for.
pub(crate) fn service(point: &Point, guest: &GuestPlan) -> Service {
    let mut loads = point.loads.iter().filter(|load| load.guest == guest.index);
    let shaping = loads.rfind(|load| load.work.facts().shapes_service());
    Service {
        role: guest.role,
        memory: guest.memory,
        vcpus: guest.vcpus,
        is_emulated: point.backend == Backend::Emulated,
        broker: (guest.role == Role::Broker).then_some(guest.broker),
        holds: shaping.map(|load| load.work.clone()),
        credentials: credentials_of(guest.role),
    }
}

/// Who may use a role's service, where it knows users.
fn credentials_of(role: Role) -> Option<Credentials> {
    has_users(role).then(|| credentials::of_this_run().clone())
}

/// Whether a role's service knows users.
const fn has_users(role: Role) -> bool {
    match role {
        Role::Broker | Role::Database => true,
        Role::Idle | Role::Web | Role::Disk | Role::Compute => false,
    }
}

/// How many times longer guests may take to get ready on a host that is emulated itself. Measured: two guests under the KVM
/// of such a host were ready after 47 s, and after 153 s where it shared one processor with another one.
const EMULATED_HOST_FACTOR: u32 = 5;

/// How long a step on the way to readiness may take on this host.
pub(crate) fn ready_within(point: &Point) -> Duration {
    ready_within_on(prepare::hardware(), point)
}

fn ready_within_on(hardware: Hardware, point: &Point) -> Duration {
    match hardware {
        Hardware::Emulated => EMULATED_HOST_FACTOR * ready_within_on_hardware(point),
        Hardware::Real | Hardware::Virtual => ready_within_on_hardware(point),
    }
}

/// How long the guests of a point may take together to write their working sets. One takes a second where it is emulated, less than a
/// tenth of that under KVM; a busy host takes many times as long.
pub(crate) fn working_sets_within(point: &Point) -> Duration {
    ready_within(point) + Duration::from_secs(2) * point.guests.len() as u32
}

/// An emulated boot of many guests on few threads is the slowest; a native start the fastest.
fn ready_within_on_hardware(point: &Point) -> Duration {
    let guests = point.guests.len() as u32;
    if let Some(broker) = point.guests.iter().find(|guest| guest.has_foreign_broker()) {
        return service(point, broker).answer_within();
    }
    let databases = point.guests.iter().filter(|guest| guest.role == Role::Database).count() as u32;
    let start = if databases > 0 { Start::Boot } else { point.measure.start };
    // A database reads its disk before it answers: emulated on a busy host, for minutes.
    let databases = match point.backend {
        Backend::Native => Duration::from_secs(20) * databases,
        Backend::Kvm | Backend::Emulated => Duration::from_secs(120) * databases,
    };
    databases
        + match (point.backend, start) {
            (Backend::Native, _) => Duration::from_secs(60),
            (_, Start::Clone) => Duration::from_secs(60) + Duration::from_millis(500) * guests,
            (_, Start::Boot) => Duration::from_secs(120) + Duration::from_secs(10) * guests,
        }
}

/// How long a service may leave its load waiting. When a load that goes as fast as it can has sent its last message, many
/// stand in buffers before the broker: an emulated one on a busy host needs a minute for them.
const fn patience(backend: Backend) -> Duration {
    match backend {
        Backend::Native | Backend::Kvm => Duration::from_secs(15),
        Backend::Emulated => Duration::from_secs(120),
    }
}

/// After its measurement a load from outside may take so long to hear the last answers and to tell its totals.
const fn afterwards(backend: Backend) -> Duration {
    match backend {
        Backend::Native | Backend::Kvm => Duration::from_secs(60),
        Backend::Emulated => Duration::from_secs(300),
    }
}

/// How long a load inside a guest may take after its measurement. Many guests end their tools at once, which takes time on a full host.
fn afterwards_inside(point: &Point) -> Duration {
    let on_hardware = Duration::from_secs(10) + Duration::from_millis(200) * point.guests.len() as u32;
    match (point.backend, prepare::hardware()) {
        (Backend::Emulated, _) => afterwards(Backend::Emulated),
        (Backend::Kvm, Hardware::Emulated) => EMULATED_HOST_FACTOR * on_hardware,
        (Backend::Native | Backend::Kvm, _) => on_hardware,
    }
}

fn planned(point: &Point) -> Duration {
    point.measure.warmup.get() + point.measure.length.get()
}

/// A load with a fixed number of messages gets one more second for each so many of them.
const SLOWEST_MESSAGES: f64 = 100.0;

/// How long the load from outside may take. A load with a fixed number of messages has no fixed length.
pub(crate) fn times_outside(point: &Point) -> LoadTimes {
    let counts = point.loads.iter().map(|load| load.work.facts().count());
    let for_messages = counts.max().unwrap_or(0) as f64 / SLOWEST_MESSAGES;
    let measured = planned(point) + afterwards(point.backend);
    LoadTimes { ready: measured, measured: measured + Duration::from_secs_f64(for_messages) }
}

/// How long a load inside a guest may take.
pub(crate) fn times_inside(point: &Point, load: &LoadPlan) -> LoadTimes {
    let measured = planned(point) + afterwards_inside(point);
    LoadTimes { ready: afterwards_inside(point) + load.work.facts().prepares_within(), measured }
}

/// The job of the outside load process in one block, whose streams are numbered like the point's loads; `None` when
/// nothing is sent from outside.
pub(crate) fn outside_job(plan: &Plan, point: &Point, block: u32, ports: &[u16]) -> Option<LoadJob> {
    let outside = |(_, load): &(u32, &LoadPlan)| load.work.facts().place() == Place::Outside;
    let loads = (0..).zip(&point.loads).filter(outside);
    let streams: Vec<Stream> =
        loads.map(|(id, load)| stream(point, block, id, load, ports[load.guest as usize])).collect();
    (!streams.is_empty()).then(|| job(point, streams, plan.processors.load.clone()))
}

/// The job of a load that runs inside its guest, in one block; `None` for one that is sent from outside.
pub(crate) fn inside_job(point: &Point, block: u32, load: &LoadPlan) -> Option<LoadJob> {
    let is_inside = load.work.facts().place() == Place::Inside;
    is_inside.then(|| job(point, vec![stream(point, block, 0, load, 0)], Vec::new()))
}

fn job(point: &Point, streams: Vec<Stream>, processors: Vec<u32>) -> LoadJob {
    let (warmup, length) = (point.measure.warmup, point.measure.length);
    LoadJob { streams, processors, warmup, length }
}

fn stream(point: &Point, block: u32, id: u32, load: &LoadPlan, port: u16) -> Stream {
    let guest = &point.guests[load.guest as usize];
    Stream {
        id,
        target: SocketAddr::from((guest.address, port)),
        demand: load.demand.clone(),
        connections: load.connections,
        seed: load.seed_of_block(block),
        work: load.work.clone(),
        disks: guest.disks.len() as u32,
        credentials: credentials_of(guest.role),
        patience: Span::new(patience(point.backend)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ladder, plan_of};
    use tilemark_plan::resolve::Request;

    const BROKER: &str = r#"
schema = 1
name = "t"
about = "a test"
[[guest]]
name = "broker"
role = "broker"
broker = "qpid-broker-j"
memory = "1GiB"
[ladder]
tiles = [1]
"#;

    #[test]
    fn a_broker_that_others_wrote_can_say_itself_that_it_was_too_slow_and_has_longer_where_it_is_emulated() {
        let waits = [Backend::Native, Backend::Emulated].map(|backend| {
            let plan = plan_of(BROKER, &Request { backends: vec![backend], ..ladder() });
            let point = &plan.points[0];
            let agent = service(point, &point.guests[0]).foreign_broker_within();
            assert!(ready_within(point) > agent, "{backend:?}");
            agent
        });
        assert!(waits[0] < waits[1], "{waits:?}");
    }

    #[test]
    fn guests_of_an_emulated_host_have_longer_to_get_ready() {
        let plan = plan_of(BROKER, &Request { backends: vec![Backend::Kvm], ..ladder() });
        let within = [Hardware::Real, Hardware::Emulated].map(|of| ready_within_on(of, &plan.points[0]));
        assert!(within[0] < within[1], "{within:?}");
    }

    #[test]
    fn a_load_gives_up_on_its_broker_before_its_host_gives_up_on_the_load() {
        for backend in [Backend::Native, Backend::Kvm, Backend::Emulated] {
            assert!(afterwards(backend) > 2 * patience(backend), "{backend:?}");
        }
        assert!(patience(Backend::Emulated) > patience(Backend::Native));
    }
}
