//! Guests in QEMU's translator: root, QEMU, the image and the agent are needed.

#![allow(missing_docs)]

mod common;

use common::{guest, in_namespaces, service};
use std::{sync::Arc, time::Duration};
use tilemark_guests::{Backend, RunNetwork, StartMode, describe, start_ready};
use tilemark_plan::scenario::Role;

const LIMIT: Duration = Duration::from_secs(120);

#[test]
fn an_emulated_guest_boots_and_serves() {
    in_namespaces("an_emulated_guest_boots_and_serves", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let backend = world.emulated(&network);
        let plan = guest(0, Role::Web);
        let ready = start_ready(&backend, &plan, &service(&plan), StartMode::Boot, LIMIT);
        let mut ready =
            ready.unwrap_or_else(|error| panic!("{error}\n{:?}", std::error::Error::source(&error)));
        println!("steps: {:?}", ready.steps);
        println!("{:?}", describe(&plan, &mut ready.session).unwrap());
        let processes = backend.processes(ready.id).unwrap();
        assert_eq!((processes.all.len(), processes.vcpu_threads.len()), (1, 1));
        backend.stop(ready.id).unwrap();
    });
}

#[test]
fn a_clone_is_ready_fast() {
    in_namespaces("a_clone_is_ready_fast", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let backend = world.emulated(&network);
        let plan = guest(0, Role::Idle);
        let start = std::time::Instant::now();
        let template = backend.template(&plan, &service(&plan)).unwrap_or_else(|error| panic!("{error}"));
        println!("template: {:?}", start.elapsed());
        for _ in 0..3 {
            let start = std::time::Instant::now();
            let ready = start_ready(&backend, &plan, &service(&plan), StartMode::Clone(template), LIMIT);
            let ready = ready.unwrap_or_else(|error| panic!("{error}"));
            println!("clone: {:?} {:?}", start.elapsed(), ready.steps);
            backend.stop(ready.id).unwrap();
        }
    });
}
