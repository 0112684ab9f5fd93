//! Transparent huge pages.

use super::request::Request;
use crate::error::HostError;
use crate::setting::{Form, Setting};

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";

/// The kernel raises what it keeps free where they are switched on.
pub(super) fn enabled(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let free = request.along("vm.min_free_kbytes", "/proc/sys/vm/min_free_kbytes");
    let enabled = request.choice(request.key, &format!("{FOLDER}/enabled"))?;
    Ok(free.into_iter().chain([enabled]).collect())
}

pub(super) fn defrag(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    Ok(vec![request.choice(request.key, &format!("{FOLDER}/defrag"))?])
}

pub(super) fn khugepaged(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    request.file(&format!("{FOLDER}/khugepaged/{}", request.name()), Form::Whole)
}
