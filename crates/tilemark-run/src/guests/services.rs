//! What a guest of a point must serve, and how long it may take until it does.

use crate::guests::credentials;
use std::time::Duration;
use tilemark_agent_protocol::{Credentials, Service};
use tilemark_host::{HostView, LiveHost};
use tilemark_plan::{
    facts::{Hardware, Virtualisation},
    plan::{Backend, GuestPlan, Point},
    scenario::{Role, Start},
    services::ServicePlan,
};

/// The service that runs in a guest of this point: it must hold what the guest's loads will ask for.
pub(crate) fn service(point: &Point, guest: &GuestPlan) -> Service {
    let mut services = guest.services().into_iter().map(|planned| one_service(point, guest, planned));
    let first = services.next().expect("a guest has a service");
    Service { then: services.collect(), ..first }
}

/// The database of a guest alone: what its frozen disks are made by.
pub(crate) fn database(point: &Point, guest: &GuestPlan) -> Service {
    let planned = guest.services().into_iter().find(|planned| planned.role == Role::Database);
    one_service(point, guest, planned.expect("asked of a guest with a database"))
}

fn one_service(point: &Point, guest: &GuestPlan, planned: ServicePlan) -> Service {
    let ServicePlan { role, memory, run, ready, pages, sql } = planned;
    let mut loads = point.loads.iter().filter(|load| load.guest == guest.index);
    let shaping = loads.rfind(|load| {
        let facts = load.work.facts();
        facts.shapes_service() && facts.role() == role
    });
    let mut of_role =
        point.loads.iter().filter(|load| load.guest == guest.index && load.work.facts().role() == role);
    let tls = of_role.any(|load| load.work.facts().service_has_tls());
    Service {
        is_emulated: point.backend == Backend::Emulated,
        broker: (role == Role::Broker).then_some(guest.broker),
        tls,
        holds: shaping.map(|load| load.work.clone()),
        credentials: credentials_of(role),
        run,
        ready,
        pages,
        sql,
        ..Service::new(role, memory, guest.vcpus)
    }
}

/// Who may use a role's service, where it knows users.
pub(crate) fn credentials_of(role: Role) -> Option<Credentials> {
    has_users(role).then(|| credentials::of_this_run().clone())
}

/// Whether a role's service knows users.
const fn has_users(role: Role) -> bool {
    match role {
        Role::Broker | Role::Database => true,
        Role::Idle
        | Role::Web
        | Role::Disk
        | Role::Compute
        | Role::Client
        | Role::Backend
        | Role::Program => false,
    }
}

/// Whether times on this host are those of hardware.
pub(crate) fn hardware() -> Hardware {
    LiveHost.virtualisation().value().map_or(Hardware::Real, Virtualisation::hardware)
}

/// How many times longer guests may take to get ready on a host that is emulated itself. Measured: two guests under the KVM
/// of such a host were ready after 47 s, and after 153 s where it shared one processor with another one.
pub(crate) const EMULATED_HOST_FACTOR: u32 = 5;

/// How long a step on the way to readiness may take on this host.
pub(crate) fn ready_within(point: &Point) -> Duration {
    ready_within_on(hardware(), point)
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
    if let Some(broker) = point.guests.iter().find(|guest| guest.has_third_party_broker()) {
        return service(point, broker).answer_within();
    }
    let databases = point.guests.iter().filter(|guest| guest.serves(Role::Database)).count() as u32;
    let boots = point.guests.iter().any(GuestPlan::keeps_data);
    let start = if boots { Start::Boot } else { point.measure.start };
    // What a template holds is there already, but disks in memory begin empty. All guests prepare at the same time.
    let prepares = point.loads.iter().map(|load| load.work.facts().prepares_within()).max();
    let programs = point.guests.iter().flat_map(GuestPlan::services).filter_map(|service| service.ready);
    let program = programs.map(|ready| ready.within.get()).max().unwrap_or_default();
    program
        + point.backend.costs().database_within * databases
        + prepares.unwrap_or_default()
        + match (point.backend, start) {
            (Backend::Native, _) => Duration::from_secs(60),
            (_, Start::Clone) => Duration::from_secs(60) + Duration::from_millis(500) * guests,
            (_, Start::Boot) => Duration::from_secs(120) + Duration::from_secs(10) * guests,
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
guest = [{ name = "broker", role = "broker", broker = "qpid-broker-j", memory = "1GiB" }]
ladder.tiles = [1]
"#;

    #[test]
    fn a_third_party_broker_can_report_that_it_was_too_slow_and_has_longer_where_it_is_emulated() {
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
}
