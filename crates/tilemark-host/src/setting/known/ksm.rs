//! Kernel samepage merging.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::Request,
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

const FOLDER: &str = "/sys/kernel/mm/ksm";

const fn known(
    key: &'static str,
    about: &'static str,
    danger: Danger,
    accepts: Accepts,
    settings: fn(&Request<'_>) -> Result<Vec<Setting>, HostError>,
) -> Known {
    let source = "Documentation/admin-guide/mm/ksm.rst";
    Known { key, about, source, danger, place: Place::Host, accepts, settings }
}

pub(super) const KNOWN: &[Known] = &[
    known(
        "ksm",
        "whether equal pages of guests are merged, at the cost of processor time; guests can find out what others have in memory. Pages \
         that were merged stay so when it is switched off, until they are written",
        // A guest that times its writes learns which pages others have.
        Danger::Stability,
        Accepts::SWITCH,
        |request| {
            request.file_with(&format!("{FOLDER}/run"), Form::Whole, if request.is_on() { "1" } else { "0" })
        },
    ),
    known(
        "ksm.pages_to_scan",
        "pages that are looked at in a round",
        Danger::None,
        Accepts::NUMBER,
        parameter,
    ),
    known("ksm.sleep_millisecs", "milliseconds between two rounds", Danger::None, Accepts::NUMBER, parameter),
    known(
        "ksm.merge_across_nodes",
        "whether pages of different NUMA nodes are merged; only where KSM is off, since the kernel keeps the value while pages are merged",
        Danger::None,
        Accepts::OneOf(&["0", "1"]),
        parameter,
    ),
];

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

fn parameter(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let name = request.key.rsplit('.').next().unwrap_or_default();
    request.file(&format!("{FOLDER}/{name}"), Form::Whole)
}
