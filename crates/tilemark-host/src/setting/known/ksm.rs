//! Kernel samepage merging.

use super::{Accepts, Danger, Known, Place, request::Request};
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
        "whether pages of different NUMA nodes are merged; the kernel refuses it while pages are merged",
        Danger::None,
        Accepts::OneOf(&["0", "1"]),
        parameter,
    ),
];

fn parameter(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let name = request.key.rsplit('.').next().unwrap_or_default();
    request.file(&format!("{FOLDER}/{name}"), Form::Whole)
}
