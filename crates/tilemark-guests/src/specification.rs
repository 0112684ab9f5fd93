//! What the manager of every backend keeps. Run on the fake without anything, and on each real one in its layer of tests.

use crate::{
    error::GuestError,
    manager::{GuestManager, GuestState, Origin, StartMode},
    ready::{StartEvent, Wanted, describe, start_all_ready, start_ready},
};
use std::{collections::BTreeSet, sync::Mutex, time::Duration};
use tilemark_agent_protocol::{Execute, Reply, Request, Service};
use tilemark_plan::plan::{self, GuestPlan};
use tilemark_units::Span;

/// One manager with guests to try it on.
pub struct Subject<'a> {
    /// It.
    pub manager: &'a dyn GuestManager,
    /// At least two guests, with different names and indices.
    pub guests: Vec<GuestPlan>,
    /// What runs in them.
    pub service: Service,
    /// How long a step may take.
    pub within: Duration,
}

/// Every rule in turn; panics at the first that is broken.
pub fn keeps_all(subject: &Subject<'_>) {
    a_ready_guest_has_its_planned_identity(subject, StartMode::Boot);
    let template = subject.manager.template(&subject.guests[0], &subject.service).expect("a template");
    a_ready_guest_has_its_planned_identity(subject, StartMode::Clone(template));
    no_two_guests_are_the_same(subject, StartMode::Clone(template));
    a_clone_continues_its_template_and_a_boot_does_not(subject, StartMode::Clone(template));
    a_new_conversation_replaces_the_old_one(subject, StartMode::Clone(template));
    a_program_ends_when_it_is_to_end(subject, StartMode::Clone(template));
    stopping_is_final_and_can_be_repeated(subject);
    a_stopped_guests_place_can_be_taken_again(subject, StartMode::Clone(template));
}

fn a_ready_guest_has_its_planned_identity(subject: &Subject<'_>, mode: StartMode) {
    let plan = &subject.guests[0];
    let mut ready = start_ready(subject.manager, plan, &subject.service, mode, subject.within)
        .unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(subject.manager.state(ready.id).unwrap(), GuestState::Running);
    let description = describe(plan, &mut ready.session).unwrap();
    assert_eq!(description.host_name, plan.name);
    assert_eq!(description.machine_id, ready.machine_id);
    assert_eq!((description.mac, description.address), (plan.mac, plan.address));
    let number = 0x0123_4567_89ab_cdef;
    assert_eq!(ready.session.ask(&Request::Ping(number), subject.within).unwrap(), Reply::Pong(number));
    subject.manager.stop(ready.id).unwrap();
}

fn no_two_guests_are_the_same(subject: &Subject<'_>, mode: StartMode) {
    let wanted: Vec<_> =
        subject.guests.iter().map(|plan| Wanted { plan, mode, service: &subject.service }).collect();
    let ids = Mutex::new(Vec::new());
    let hear = |event| {
        if let StartEvent::Exists(id) = event {
            ids.lock().unwrap().push(id);
        }
    };
    let mut machine_ids = BTreeSet::new();
    let mut random = BTreeSet::new();
    let all = start_all_ready(subject.manager, &wanted, subject.within, &hear);
    for mut ready in all.unwrap_or_else(|error| panic!("{error:?}")) {
        machine_ids.insert(ready.machine_id.clone());
        let Reply::Random(bytes) = ready.session.ask(&Request::Random(16), subject.within).unwrap() else {
            panic!("no randomness came")
        };
        assert_eq!(bytes.len(), 16);
        random.insert(bytes);
    }
    let ids = ids.into_inner().unwrap();
    assert_eq!(ids.len(), subject.guests.len(), "each that was started is listed");
    assert_eq!((machine_ids.len(), random.len()), (ids.len(), ids.len()), "no two are the same");
    ids.iter().for_each(|&id| subject.manager.stop(id).unwrap());
}

fn a_clone_continues_its_template_and_a_boot_does_not(subject: &Subject<'_>, clone: StartMode) {
    let nonce = |mode, plan: &GuestPlan| {
        let mut ready = start_ready(subject.manager, plan, &subject.service, mode, subject.within).unwrap();
        let origin = subject.manager.origin(ready.id).unwrap();
        let nonce = describe(plan, &mut ready.session).unwrap().boot_nonce;
        subject.manager.stop(ready.id).unwrap();
        (origin, nonce)
    };
    let (first, second) = (nonce(clone, &subject.guests[0]), nonce(clone, &subject.guests[1]));
    let booted = nonce(StartMode::Boot, &subject.guests[0]);
    if subject.manager.backend() == plan::Backend::Native {
        assert_eq!([first.0, second.0, booted.0], [Origin::Namespaced; 3]);
        return;
    }
    assert_eq!([first.0, second.0, booted.0], [Origin::Cloned, Origin::Cloned, Origin::Booted]);
    assert_eq!(first.1, second.1, "clones of one template did not boot by themselves");
    assert_ne!(first.1, booted.1);
}

fn a_new_conversation_replaces_the_old_one(subject: &Subject<'_>, mode: StartMode) {
    let plan = &subject.guests[0];
    let ready = start_ready(subject.manager, plan, &subject.service, mode, subject.within).unwrap();
    drop(ready.session);
    for number in 0..3 {
        let mut session = subject.manager.connect(ready.id, subject.within).unwrap();
        assert_eq!(session.ask(&Request::Ping(number), subject.within).unwrap(), Reply::Pong(number));
        // Half a conversation stays behind: a reply that nobody fetches.
        session.send(&Request::Random(1000)).unwrap();
    }
    subject.manager.stop(ready.id).unwrap();
}

fn a_program_ends_when_it_is_to_end(subject: &Subject<'_>, mode: StartMode) {
    let plan = &subject.guests[0];
    let mut ready = start_ready(subject.manager, plan, &subject.service, mode, subject.within).unwrap();
    let order = |script: &str| {
        let arguments = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
        Request::Execute(Execute { arguments, within: Span::from_seconds(3600) })
    };
    ready.session.send(&order("sleep 1000 & sleep 1000")).unwrap();
    ready.session.send(&Request::EndProgram).unwrap();
    // The next one is not kept waiting, and gets an answer of its own.
    let replies =
        [ready.session.receive(subject.within), ready.session.ask(&order("exit 0"), subject.within)];
    for reply in replies {
        assert!(matches!(reply, Ok(Reply::Executed { .. })), "{reply:?}");
    }
    // None runs: it has no reply.
    ready.session.send(&Request::EndProgram).unwrap();
    assert_eq!(ready.session.ask(&Request::Ping(1), subject.within).unwrap(), Reply::Pong(1));
    subject.manager.stop(ready.id).unwrap();
}

fn stopping_is_final_and_can_be_repeated(subject: &Subject<'_>) {
    let plan = &subject.guests[0];
    let id = subject.manager.start(plan, StartMode::Boot).unwrap();
    let processes = subject.manager.processes(id).unwrap();
    subject.manager.stop(id).unwrap();
    subject.manager.stop(id).unwrap();
    assert!(matches!(subject.manager.state(id).unwrap(), GuestState::Ended(_)));
    let error = subject.manager.connect(id, subject.within).expect_err("nobody is there");
    assert!(matches!(error, GuestError::Ended { .. }), "{error}");
    for pid in processes {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left");
    }
}

fn a_stopped_guests_place_can_be_taken_again(subject: &Subject<'_>, clone: StartMode) {
    let plan = &subject.guests[0];
    for mode in [StartMode::Boot, clone, clone] {
        let ready = start_ready(subject.manager, plan, &subject.service, mode, subject.within).unwrap();
        subject.manager.stop(ready.id).unwrap();
    }
}
