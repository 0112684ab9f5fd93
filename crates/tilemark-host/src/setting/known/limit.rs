//! Limits of what Tilemark starts.

use super::request::Request;
use crate::error::HostError;
use crate::setting::{Limit, Reach, Setting};

const LIMITS: [(&str, Limit); 3] =
    [("nofile", Limit::OpenFiles), ("memlock", Limit::LockedMemory), ("nproc", Limit::Processes)];

pub(super) fn limit(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let limit = request.looked_up(&LIMITS)?;
    if request.value != "unlimited" && request.value.parse::<u64>().is_err() {
        return Err(request.bad("a whole number, or unlimited"));
    }
    Ok(vec![Setting::by(request.key, Reach::Limit(limit), request.value)])
}
