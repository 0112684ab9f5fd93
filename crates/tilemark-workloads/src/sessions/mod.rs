//! The workload `sessions`: users go from page to page of a site. nginx serves the files and PHP the pages, which ask a back end.
//!
//! ```text
//! user ══ wire 0: page, then files ══> nginx ──> PHP ──> back end: counts the pages of each session
//!      ══ wire 1: files ═════════════> nginx
//! ```

mod answer;
mod back_end;
mod service;
mod site;
mod user;

use crate::engine::LoadFailure;
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Stream, StreamTotal};
use tilemark_load::{Conversation, Factory, Limits, Start, Stop};
use tilemark_plan::workload::{Facts, SessionsParameters, Work};

pub use back_end::{BACK_END_PORT, BackEnd};
pub(crate) use service::tls_lines;
pub use service::{
    ASKS, PHP_FPM, READY_STATUS, certificate, php_arguments, php_conf, ready_request, site_conf, site_files,
    site_port,
};

use site::Visited;
use user::User;

/// The engine of `sessions`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let mut job = job.clone();
    let mut sites = BTreeMap::new();
    let mut limits = Limits::default();
    for stream in &mut job.streams {
        let Work::Sessions(parameters) = &*stream.work else { return Err(LoadFailure::stray(stream)) };
        stream.connections = parameters.users;
        let site = Visited::new(parameters, stream.target);
        // All streams connect at the same time, to guests that may share a thread.
        limits.connect += parameters.prepares_within();
        limits.drain = limits.drain.max(site.longest_answer());
        sites.insert(stream.id, Arc::new(site));
    }
    tilemark_load::run_within(&job, &Users { sites }, limits, stop, start, events)
        .map_err(|error| LoadFailure::new(&error, error.remedy()))
}

/// One user of a site at that address.
pub fn user(
    parameters: &SessionsParameters,
    target: SocketAddr,
    seed: u64,
    number: u32,
) -> Box<dyn Conversation> {
    Box::new(User::new(Arc::new(Visited::new(parameters, target)), seed, number))
}

/// Makes the users of a job's streams.
struct Users {
    sites: BTreeMap<u32, Arc<Visited>>,
}

impl Factory for Users {
    fn conversation(&self, stream: &Stream, connection: u32) -> Box<dyn Conversation> {
        let site = self.sites.get(&stream.id).expect("the sites were made from the same job");
        Box::new(User::new(Arc::clone(site), stream.seed, connection))
    }

    fn draws_connections(&self) -> bool {
        true
    }
}

/// The longest that a load waits for its last answers: the host waits a minute for its totals.
const DRAIN_MAX: Duration = Duration::from_secs(30);
