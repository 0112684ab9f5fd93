//! The specification of backends on the fake, and what the fake itself promises to tests of others.

#![cfg(feature = "fake")]
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{guest, service};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use tilemark_guests::{
    GuestManager, GuestState, StartEvent, StartMode, Wanted,
    fake::{FakeManager, Fault},
    specification::{Subject, keeps_all},
    start_all_ready, start_all_ready_while, start_ready,
};
use tilemark_plan::{plan, scenario::Role};

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn the_fake_keeps_the_rules_of_every_backend() {
    for kind in [plan::Backend::Kvm, plan::Backend::Emulated, plan::Backend::Native] {
        let manager = FakeManager::new(kind);
        let guests = vec![guest(0, Role::Web), guest(1, Role::Web)];
        let service = service(&guests[0]);
        keeps_all(&Subject { manager: &manager, guests, service, within: LIMIT });
        assert!(manager.running().is_empty());
    }
}

fn fails_with(fault: Fault, role: Role) -> (FakeManager, String, String) {
    let plan = guest(0, role);
    let manager = FakeManager::new(plan::Backend::Kvm).where_guest(&plan.name, fault);
    let error = start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).unwrap_err();
    (manager, error.to_string(), error.remedy())
}

#[test]
fn a_guest_that_never_answers_is_named_with_its_console() {
    let (manager, message, remedy) = fails_with(Fault::NeverAnswers, Role::Web);
    assert!(message.starts_with("guest `tile-000-web` did not answer within 120 s"), "{message}");
    assert_eq!(remedy, "read tile-000-web.console.log");
    assert_eq!(manager.clock().now(), LIMIT, "two minutes passed, without a wait");
}

#[test]
fn where_a_guest_fails_no_further_one_is_begun() {
    let plans: Vec<_> = (0..1000).map(|index| guest(index, Role::Idle)).collect();
    let manager = plans.iter().fold(FakeManager::new(plan::Backend::Kvm), |manager, plan| {
        manager.where_guest(&plan.name, Fault::NeverAnswers)
    });
    let service = service(&plans[0]);
    let wanted: Vec<_> =
        plans.iter().map(|plan| Wanted { plan, mode: StartMode::Boot, service: &service }).collect();
    let begun = AtomicUsize::new(0);
    let hear = |event| {
        assert!(matches!(event, StartEvent::Exists(_)), "none of them is ready: {event:?}");
        begun.fetch_add(1, Ordering::Relaxed);
    };
    let error = start_all_ready(&manager, &wanted, LIMIT, &hear).unwrap_err();
    assert!(error.to_string().contains("did not answer within 120 s"), "{error}");
    // Each thread that starts guests ends with its own failure.
    let at_once = 4 * std::thread::available_parallelism().unwrap().get();
    assert!((1..=at_once).contains(&begun.into_inner()), "of {at_once} at once");
}

#[test]
fn where_guests_are_no_longer_wanted_no_further_one_is_begun() {
    let plans: Vec<_> = (0..1000).map(|index| guest(index, Role::Idle)).collect();
    let manager = FakeManager::new(plan::Backend::Kvm);
    let service = service(&plans[0]);
    let wanted: Vec<_> =
        plans.iter().map(|plan| Wanted { plan, mode: StartMode::Boot, service: &service }).collect();
    let (begun, ready) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let hear = |event| {
        let counter = if event == StartEvent::Ready { &ready } else { &begun };
        counter.fetch_add(1, Ordering::Relaxed);
    };
    let until = |most: usize| {
        let are_wanted = || begun.load(Ordering::Relaxed) < most;
        start_all_ready_while(&are_wanted, &manager, &wanted, LIMIT, &hear).unwrap()
    };
    assert!(until(10).is_none(), "some of them are not there");
    let (begun_first, ready_first) = (begun.load(Ordering::Relaxed), ready.load(Ordering::Relaxed));
    assert_eq!(ready_first, begun_first, "those that began are made ready");
    // Each thread that starts guests may have begun one more.
    let at_once = 4 * std::thread::available_parallelism().unwrap().get();
    assert!((10..10 + at_once).contains(&begun_first), "{begun_first} with {at_once} at once");
    assert_eq!(until(usize::MAX).unwrap().len(), plans.len());
}

#[test]
fn a_guest_that_panics_shows_its_last_lines() {
    let (_, message, _) = fails_with(Fault::Panics, Role::Idle);
    assert!(message.contains("ended: QEMU ended with code 0"), "{message}");
    assert!(message.contains("\n    Kernel panic - not syncing"), "{message}");
}

#[test]
fn each_other_fault_is_reported_in_its_own_words() {
    assert!(fails_with(Fault::WrongNonce, Role::Web).1.contains("did not begin a conversation"));
    assert!(fails_with(Fault::NeverStarts, Role::Web).1.contains("cannot be started"));
    assert!(fails_with(Fault::ServiceFails, Role::Web).1.contains("nginx ended with code 1"));
    assert!(fails_with(Fault::DiesAfter(1), Role::Web).1.contains("QEMU ended with code 1"));
}

#[test]
fn a_guest_that_stays_is_not_said_to_be_gone() {
    let plan = guest(0, Role::Idle);
    let manager = FakeManager::new(plan::Backend::Emulated).where_guest(&plan.name, Fault::Stays);
    let id = manager.start(&plan, StartMode::Boot).unwrap();
    assert!(manager.stop(id).is_err());
    assert_eq!(manager.state(id).unwrap(), GuestState::Running);
}
