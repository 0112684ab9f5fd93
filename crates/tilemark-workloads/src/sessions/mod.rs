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
use tilemark_load::{Conversation, Factory, Limits, LoadError, Start, Stop};
use tilemark_plan::workload::{SessionsParameters, Work};
use tilemark_units::Span;

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
    let limits = Limits { connect: connects_within(&job) };
    for stream in &mut job.streams {
        let Work::Sessions(parameters) = &*stream.work else { return Err(LoadFailure::stray(stream)) };
        stream.connections = parameters.users;
        let site = Visited::new(parameters, stream.target);
        stream.drain = stream.drain.max(Span::new(site.longest_answer()));
        sites.insert(stream.id, Arc::new(site));
    }
    tilemark_load::run_within(&job, &Users { sites }, limits, stop, start, events)
        .map_err(LoadFailure::with(LoadError::remedy))
}

/// How long all users of a job may take to connect. They connect at the same time, to guests that may share a thread where they are
/// emulated, so that their times add up. Twice the timeout is less than the host waits, and short where guests are not emulated.
fn connects_within(job: &LoadJob) -> Duration {
    let needed: Duration = job.streams.iter().map(|stream| stream.work.facts().prepares_within()).sum();
    let timeout = job.streams.iter().map(|stream| stream.timeout.get()).max().unwrap_or_default();
    Limits::default().connect + needed.min(2 * timeout)
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

/// The longest that a site's users make a load wait for its last answers. The host waits longer for its totals, on each backend. Streams of
/// emulated guests have a longer time of their own, [`Stream::drain`].
const DRAIN_MAX: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::plan::Demand;

    /// 200 connections over TLS to each of so many guests: 40 s each.
    fn job(guests: u32, timeout: u64) -> LoadJob {
        let parameters =
            SessionsParameters { users: 100, parallel: 2, tls: Some(true), ..SessionsParameters::default() };
        let target = SocketAddr::from(([127, 0, 0, 1], 443));
        let stream = |id| Stream {
            timeout: Span::from_seconds(timeout),
            ..Stream::new(id, target, Demand::Closed, Work::Sessions(parameters.clone()))
        };
        let (warmup, length) = (Span::from_seconds(1), Span::from_seconds(10));
        LoadJob { streams: (0..guests).map(stream).collect(), processors: Vec::new(), warmup, length }
    }

    #[test]
    fn users_of_many_guests_have_the_time_of_all_of_them_but_less_than_the_host_waits() {
        let seconds = |guests, timeout| connects_within(&job(guests, timeout)).as_secs();
        assert_eq!([1, 4, 100].map(|guests| seconds(guests, 120)), [50, 170, 250]);
        assert_eq!([1, 4, 100].map(|guests| seconds(guests, 15)), [40, 40, 40]);
    }
}
