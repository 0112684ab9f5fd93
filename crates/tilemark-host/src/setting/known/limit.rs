//! Limits of what Tilemark starts.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::Request,
};
use crate::setting::{Limit, Reach, Setting};

const fn known(
    key: &'static str,
    about: &'static str,
    settings: fn(&Request<'_>) -> Result<Vec<Setting>, crate::HostError>,
) -> Known {
    Known {
        key,
        about,
        source: "getrlimit(2)",
        danger: Danger::None,
        place: Place::Process,
        accepts: Accepts::Text,
        settings,
    }
}

pub(super) const KNOWN: &[Known] = &[
    known("limit.nofile", "files that a process may have open", |request| limit(request, Limit::OpenFiles)),
    known("limit.memlock", "bytes of memory that a process may lock", |request| {
        limit(request, Limit::LockedMemory)
    }),
    known("limit.nproc", "processes and threads that the user may have", |request| {
        limit(request, Limit::Processes)
    }),
];

fn limit(request: &Request<'_>, limit: Limit) -> Result<Vec<Setting>, crate::HostError> {
    if request.value != "unlimited" && request.value.parse::<u64>().is_err() {
        return Err(request.bad("a whole number, or unlimited"));
    }
    Ok(vec![Setting::by(request.key, Reach::Limit(limit), request.value)])
}
