//! Transparent huge pages.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::Request,
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

const FOLDER: &str = "/sys/kernel/mm/transparent_hugepage";
const SOURCE: &str = "Documentation/admin-guide/mm/transhuge.rst";

const fn known(
    key: &'static str,
    about: &'static str,
    accepts: Accepts,
    settings: fn(&Request<'_>) -> Result<Vec<Setting>, HostError>,
) -> Known {
    Known { key, about, source: SOURCE, danger: Danger::None, place: Place::Host, accepts, settings }
}

pub(super) const KNOWN: &[Known] = &[
    known(
        "thp",
        "whether memory is given in huge pages unasked: always, only where a program advises it (QEMU does), or never",
        Accepts::OneOf(&["always", "madvise", "never"]),
        enabled,
    ),
    known(
        "thp.defrag",
        "how hard a page fault tries to make a huge page free",
        Accepts::OneOf(&["always", "defer", "defer+madvise", "madvise", "never"]),
        |request| Ok(vec![request.choice(request.key, &format!("{FOLDER}/defrag"))?]),
    ),
    known(
        "thp.khugepaged.defrag",
        "whether khugepaged moves memory to make huge pages free",
        Accepts::OneOf(&["0", "1"]),
        khugepaged,
    ),
    known(
        "thp.khugepaged.pages_to_scan",
        "pages that khugepaged looks at in a round",
        Accepts::NUMBER,
        khugepaged,
    ),
    known(
        "thp.khugepaged.scan_sleep_millisecs",
        "milliseconds between two rounds of khugepaged",
        Accepts::NUMBER,
        khugepaged,
    ),
];

/// The kernel raises what it keeps free where they are switched on.
fn enabled(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let free = request.along("vm.min_free_kbytes", "/proc/sys/vm/min_free_kbytes");
    let enabled = request.choice(request.key, &format!("{FOLDER}/enabled"))?;
    Ok(free.into_iter().chain([enabled]).collect())
}

fn khugepaged(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let name = request.key.rsplit('.').next().unwrap_or_default();
    request.file(&format!("{FOLDER}/khugepaged/{name}"), Form::Whole)
}
