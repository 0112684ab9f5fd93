//! One module per workload: its load, its service where that is small, and what a right answer is.
//!
//! | workload | service | load | a right answer |
//! |---|---|---|---|
//! | [`web`] | nginx | GET over kept-alive connections, from outside | status 200 and every byte of the body |
//! | [`disk`] | none | fio, or an open loop of our own, on the data disks from inside | the kernel completed the request |
//! | `messaging` | a broker | AMQP publishers and subscribers, from outside | every message once, whole and in order |
//! | [`store`] | a database | an online store's customers, from outside | committed, and found by the audit |
//! | `sysbench` | MariaDB | Debian's sysbench, from inside | committed |
//! | [`sessions`] | nginx, PHP and a back end | users who go from page to page, from outside | every byte, and the back end's count of the session |
//! | `jobs` | none | small jobs of a mix, from inside | the result that is known by another way |
//! | `memory` | none | copies of blocks, from inside | every page of the copy is that of its source |
//! | `command` | any | a program of the user's, from inside or beside the load | what its lines say |
//!
//! A new workload is a module here and a line in `ENGINES`; `docs/adding-a-workload.md` lists all that it needs.

mod clocks;
mod command;
pub mod disk;
mod engine;
mod error;
pub mod jobs;
mod memory;
mod merge;
mod messaging;
pub mod pages;
pub mod sessions;
mod start_line;
pub mod store;
mod sysbench;
mod threads;
mod tool;
pub mod web;

pub use error::WorkloadError;

use engine::Engine;
use std::process::Command;
use tilemark_agent_protocol::{LoadEvent, LoadJob};
use tilemark_load::Stop;
use tilemark_plan::workload::Work;

/// Each workload by its name, with its engine.
const ENGINES: &[(&str, Engine)] = &[
    ("web", web::run_job),
    ("disk", disk::run_job),
    ("messaging", messaging::run_job),
    ("store", store::run_job),
    ("sysbench", sysbench::run_job),
    ("memory", memory::run_job),
    ("jobs", jobs::run_job),
    ("sessions", sessions::run_job),
    ("command", command::run_job),
];

/// The program that makes a workload's rows in the empty database `store`, and its name in messages; nothing where the service makes them,
/// or there are none. It runs on so many processors, and the same seed makes the same rows.
pub fn fills_database(work: &Work, processors: u32, seed: u64) -> Option<(Command, &'static str)> {
    match work {
        Work::Sysbench(parameters) => {
            Some((sysbench::prepare(parameters, processors, seed), "sysbench prepare"))
        }
        _ => None,
    }
}

/// Does a job to its end. All engines begin together, so that their schedules, warm-ups and seconds do; `events` may have the load wait
/// with its `Started`. The last event is `Done` or `Failed`.
pub fn run(job: &LoadJob, stop: &Stop, events: &mut dyn FnMut(LoadEvent)) {
    engine::run(ENGINES, job, stop, events);
}
