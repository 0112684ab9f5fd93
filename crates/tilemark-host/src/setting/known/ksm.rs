//! Kernel samepage merging.

use super::request::Request;
use crate::error::HostError;
use crate::setting::{Form, Setting};

const FOLDER: &str = "/sys/kernel/mm/ksm";

pub(super) fn switch(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    request.file_with(&format!("{FOLDER}/run"), Form::Whole, if request.is_on() { "1" } else { "0" })
}

pub(super) fn parameter(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    request.file(&format!("{FOLDER}/{}", request.name()), Form::Whole)
}

/// The kernel refuses to change this where pages are merged, and so to restore it.
pub(super) fn one_way(setting: &Setting, all: &[Setting]) -> Option<&'static str> {
    if !setting.path.ends_with("ksm/merge_across_nodes") || setting.now().ok()? == setting.value {
        return None;
    }
    let run = setting.path.with_file_name("run");
    let wanted = all.iter().find(|other| other.path == run).map(|other| other.value.clone());
    let runs = wanted.or_else(|| std::fs::read_to_string(run).ok())?.trim() == "1";
    runs.then_some("KSM is on, and the kernel keeps this value while pages are merged")
}
