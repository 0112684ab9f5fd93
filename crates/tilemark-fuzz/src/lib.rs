//! What fuzzing calls: one function for each parser of foreign bytes, its first inputs, and random changes of them.
//!
//! Foreign bytes are those that a guest, an image, a record, a scenario, a server or the kernel gives us. A [`Target`] takes any bytes
//! and must return: a panic, an input that takes seconds, or memory that grows far beyond the input is a finding. `cargo xtask soak
//! fuzzing` runs each target under libFuzzer; `cargo test` runs its first inputs and a few thousand random changes of them.

mod agent;
mod amqp;
mod broker;
mod edit;
mod fleet;
mod image;
mod mutate;
mod own_disk;
mod profile;
mod record;
mod scenario;
mod server;
mod site;
mod store;
mod target;
mod telemetry;
mod tools;
mod web;

// One function a program of `fuzz/`, so that each program has its own parser and no other.
pub use agent::{take_events as events, take_frames as frames};
pub use amqp::{take_client as amqp_client, take_codec as amqp};
pub use broker::take_peers as broker;
pub use fleet::{
    take_answer as fleet_answer, take_archive as fleet_archive, take_fleet as fleet,
    take_site_file as fleet_site,
};
pub use image::{
    take_archive as image_archive, take_elf as elf, take_packages as packages,
    take_specification as image_specification,
};
pub use mutate::Mutator;
pub use own_disk::take_disk as own_disk;
pub use profile::take_profile as profile;
pub use record::{take_histogram as histogram, take_record as record};
pub use scenario::take_scenario as scenario;
pub use site::take_answers as site;
pub use store::{take_mariadb as mariadb, take_postgresql as postgresql};
pub use target::Target;
pub use telemetry::take_telemetry as telemetry;
pub use tools::take_fio as fio;
pub use web::{take_answers as web, take_requests as requests};

/// All targets.
pub const ALL: [Target; 25] = [
    agent::FRAMES,
    agent::EVENTS,
    record::RECORD,
    record::HISTOGRAM,
    scenario::SCENARIO,
    profile::PROFILE,
    image::ARCHIVE,
    image::SPECIFICATION,
    image::ELF,
    image::PACKAGES,
    own_disk::OWN_DISK,
    store::MARIADB,
    store::POSTGRESQL,
    amqp::CODEC,
    amqp::CLIENT,
    broker::BROKER,
    web::ANSWERS,
    web::REQUESTS,
    site::ANSWERS,
    fleet::SITE_FILE,
    fleet::FLEET,
    fleet::ANSWER,
    fleet::ARCHIVE,
    tools::FIO,
    telemetry::TELEMETRY,
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
