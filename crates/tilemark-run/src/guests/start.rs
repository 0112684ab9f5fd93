//! Guests are created here: cloned from a template, booted, or made as a native twin. They end when they are dropped.

use crate::{failure::Failure, guests::services, stop::StopSignal};
use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::Service;
use tilemark_guests::{
    GuestId, GuestManager, Origin, ReadyGuest, StartEvent, StartMode, TemplateId, Wanted,
    start_all_ready_while, stop_all,
};
use tilemark_plan::{
    plan::{self, DiskPlan, GuestPlan, Point},
    scenario::Start,
};

/// Guests that were started; all of them end with it.
pub(crate) struct StartedGuests<'a> {
    manager: &'a dyn GuestManager,
    ids: Vec<GuestId>,
}

/// The templates of a point: what those of its guests are cloned from that are not booted.
#[derive(Default)]
pub(crate) struct Templates {
    of: Vec<TemplateOf>,
    /// How long it took to make them, or to find them made.
    pub(crate) took: Duration,
}

/// One template. Guests share it where they have the same service, with all that it holds, on the same disks.
struct TemplateOf {
    service: Service,
    disks: Vec<DiskPlan>,
    id: TemplateId,
}

impl Templates {
    /// How long they took; nothing where no guest is cloned.
    pub(crate) fn seconds(&self) -> Option<f64> {
        (!self.of.is_empty()).then_some(self.took.as_secs_f64())
    }

    /// Their numbers within the session, sorted.
    pub(crate) fn numbers(&self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.of.iter().map(|template| template.id.number()).collect();
        numbers.sort_unstable();
        numbers
    }

    fn find(&self, guest: &GuestPlan, service: &Service) -> Option<TemplateId> {
        let is_its = |template: &&TemplateOf| template.service == *service && template.disks == guest.disks;
        self.of.iter().find(is_its).map(|template| template.id)
    }
}

impl<'a> StartedGuests<'a> {
    /// None yet, of this manager.
    pub(crate) fn new(manager: &'a dyn GuestManager) -> Self {
        Self { manager, ids: Vec::new() }
    }

    /// Makes the templates that a point's guests are cloned from, or finds them made.
    pub(crate) fn templates(&self, point: &Point) -> Result<Templates, Failure> {
        let began = Instant::now();
        let mut templates = Templates::default();
        for guest in point.guests.iter().filter(|guest| wanted_origin(point, guest) == Origin::Cloned) {
            let service = services::service(point, guest);
            let id = match templates.find(guest, &service) {
                Some(id) => id,
                None => {
                    let id = self.manager.template(guest, &service)?;
                    templates.of.push(TemplateOf { service, disks: guest.disks.clone(), id });
                    id
                }
            };
            self.manager.near(id, guest)?;
        }
        templates.took = began.elapsed();
        Ok(templates)
    }

    /// Clones or boots all guests of a point and waits until they are ready. `one_more` is called whenever one more is. Nothing
    /// where it is to end meanwhile.
    pub(crate) fn start(
        &mut self,
        point: &Point,
        templates: &Templates,
        stop: &StopSignal,
        one_more: &(dyn Fn() + Sync),
    ) -> Result<Option<Vec<ReadyGuest>>, Failure> {
        let services: Vec<_> = point.guests.iter().map(|guest| services::service(point, guest)).collect();
        let wanted = |(plan, service)| {
            let mode = templates.find(plan, service).map_or(StartMode::Boot, StartMode::Clone);
            Wanted { plan, mode, service }
        };
        let wanted: Vec<Wanted<'_>> = point.guests.iter().zip(&services).map(wanted).collect();
        let started = Mutex::new(&mut self.ids);
        let hear = |what| match what {
            StartEvent::Exists(id) => started.lock().unwrap_or_else(PoisonError::into_inner).push(id),
            StartEvent::Ready => one_more(),
        };
        let (within, are_wanted) = (services::ready_within(point), || !stop.is_requested());
        Ok(start_all_ready_while(&are_wanted, self.manager, &wanted, within, &hear)?)
    }

    /// Ends all of them.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        self.stop_all()
    }

    fn stop_all(&mut self) -> Result<(), Failure> {
        let ids = std::mem::take(&mut self.ids);
        Ok(stop_all(self.manager, &ids).into_iter().collect::<Result<(), _>>()?)
    }
}

impl Drop for StartedGuests<'_> {
    fn drop(&mut self) {
        // The failure that led here is the one to report.
        let _ = self.stop_all();
    }
}

/// How the plan wants a guest of a point to be created.
pub(crate) fn wanted_origin(point: &Point, guest: &GuestPlan) -> Origin {
    match (point.backend, point.measure.start) {
        (plan::Backend::Native, _) => Origin::Namespaced,
        (_, Start::Clone) if !guest.keeps_data() => Origin::Cloned,
        (_, Start::Clone | Start::Boot) => Origin::Booted,
    }
}

/// How a guest was created, in a word.
pub(crate) const fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Booted => "booted",
        Origin::Cloned => "cloned",
        Origin::Namespaced => "native",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use tilemark_plan::resolve::Request;

    #[test]
    fn guests_whose_jobs_have_files_on_a_disk_are_booted_and_others_cloned() {
        let origin = |disk: &str| {
            let guest = format!("[[guest]]\nname = \"jobs\"\nrole = \"compute\"\n{disk}\n[ladder]");
            let plan =
                plan_of(&TILE.replace("[ladder]", &guest), &Request { tiles: Some(vec![1]), ..ladder() });
            let mut point = plan.points[0].clone();
            (point.backend, point.measure.start) = (plan::Backend::Kvm, Start::Clone);
            let guest = point.guests.iter().find(|guest| guest.name.ends_with("jobs")).unwrap();
            wanted_origin(&point, guest)
        };
        assert_eq!(origin(""), Origin::Cloned);
        assert_eq!(origin("[[guest.disk]]\nsize = \"64MiB\""), Origin::Booted);
    }
}
