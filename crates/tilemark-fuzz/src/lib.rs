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
use target::target_of;
pub use telemetry::take_telemetry as telemetry;
pub use tools::take_fio as fio;
pub use web::{take_answers as web, take_requests as requests};

/// All targets.
pub const ALL: [Target; 25] = [
    target_of("frames", "an agent's end of a conversation: hello and replies", frames, agent::frames),
    target_of("events", "events of a load, up to the figures of a repeat", events, agent::events),
    target_of("record", "a record's folder: read, judged, compared and drawn", record, record::records),
    target_of(
        "histogram",
        "a histogram of a record or of a load, compressed or not",
        histogram,
        record::histograms,
    ),
    target_of("scenario", "a scenario file, up to the plan", scenario, scenario::scenarios),
    target_of(
        "profile",
        "a profile of host settings, one of tuned, a file of pins",
        profile,
        profile::profiles,
    ),
    target_of(
        "image-archive",
        "an exported image, up to its place in the cache",
        image_archive,
        image::archives,
    ),
    target_of("image-specification", "image.toml and image.lock", image_specification, image::specifications),
    target_of("elf", "a kernel or a module of an image", elf, image::elves),
    target_of(
        "packages",
        "sources of packages and records of packages, as apt has them",
        packages,
        image::packages,
    ),
    target_of(
        "own-disk",
        "a disk that a guest boots: its header, tables and the names of other files",
        own_disk,
        own_disk::disks,
    ),
    target_of("mariadb", "a server of MariaDB: log-in, orders, inspection, audit", mariadb, store::mariadb),
    target_of(
        "postgresql",
        "a server of PostgreSQL: log-in, orders, inspection, audit",
        postgresql,
        store::postgresql,
    ),
    target_of("amqp", "any peer's frames: the codec", amqp, amqp::streams),
    target_of("amqp-client", "a broker that the load talks to", amqp_client, amqp::brokers),
    target_of("broker", "peers of the reference broker", broker, broker::peers),
    target_of("web", "answers of a web server", web, web::answers),
    target_of("requests", "a file of requests of a web load", requests, web::requests),
    target_of("site", "answers of a site with sessions", site, site::answers),
    target_of("fleet-site", "a site file of a fleet", fleet_site, fleet::site_files),
    target_of(
        "fleet",
        "the folder of a fleet run: fleet.json and how an attempt ended, judged and drawn",
        fleet,
        fleet::fleets,
    ),
    target_of("fleet-answer", "what a host of a fleet answers", fleet_answer, fleet::answers),
    target_of(
        "fleet-archive",
        "the archive of an attempt, before it is compressed",
        fleet_archive,
        fleet::archives,
    ),
    target_of("fio", "fio's report on the disks of a guest", fio, tools::reports),
    target_of("telemetry", "files of /proc, /sys and control groups", telemetry, telemetry::files),
];

/// The target of this name.
pub fn target(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}
