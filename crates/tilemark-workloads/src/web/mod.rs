//! The workload `web`: nginx serves a mix of file sizes; GET requests come over kept-alive connections.

mod body;
mod chunks;
mod conversation;
mod factory;
pub(crate) mod response;
mod service;

use crate::{WorkloadError, engine::LoadFailure};
use tilemark_agent_protocol::{LoadEvent, LoadJob, StreamTotal};
use tilemark_load::{LoadError, Start, Stop};

pub use body::fill_body;
pub use factory::WebFactory;
pub(crate) use service::nginx_conf_with;
pub use service::{
    NGINX, PORT, ServiceFile, file_path, nginx_arguments, nginx_conf, ready_request, service_conf,
    service_files,
};

/// The engine of `web`.
pub(crate) fn run_job(
    job: &LoadJob,
    stop: &Stop,
    start: Start<'_>,
    events: &mut dyn FnMut(LoadEvent),
) -> Result<Vec<StreamTotal>, LoadFailure> {
    let factory = WebFactory::new(job).map_err(LoadFailure::with(WorkloadError::remedy))?;
    tilemark_load::run(job, &factory, stop, start, events).map_err(LoadFailure::with(LoadError::remedy))
}
