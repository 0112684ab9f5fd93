//! Huge pages that a profile wants and that this host has no memory for: the kernel finds out only when it has reclaimed what it can.

use crate::host::plan::{Planned, Refusal, State};
use std::{fs, path::Path};
use tilemark_host::{setting::known::Root, telemetry::parse::parse_meminfo};
use tilemark_units::Bytes;

/// Refuses all further huge pages where they are more than the memory that is available.
pub(super) fn refuse_more_than_memory(root: &Root, settings: &mut [Planned]) {
    let Some(available) = available(root) else { return };
    let changes = || settings.iter().filter(|planned| planned.state == State::Changes).filter_map(change);
    let sum = |of: &dyn Fn(&Change) -> u64| changes().map(|change| of(&change)).fold(0, u64::saturating_add);
    let (more, fewer) = (sum(&|change| change.more), sum(&|change| change.fewer));
    if more <= available.get().saturating_add(fewer) {
        return;
    }
    let why = |name: &str| {
        Refusal {
        message: format!(
            "the profile needs {} more memory for huge pages (`{name}`), and {} is available",
            Bytes::new(more).rounded(),
            available.rounded()
        ),
        remedy: "ask for fewer pages, or end programs; `tilemark host show PROFILE > mine.toml` copies a profile to change".to_owned(),
        is_mistake: false,
    }
    };
    for planned in settings.iter_mut().filter(|planned| planned.state == State::Changes) {
        if change(planned).is_some_and(|change| change.more > 0) {
            planned.why = Some(why(&planned.name));
            planned.state = State::Refused;
        }
    }
}

/// What a count of huge pages takes of the memory that others have, or frees, in bytes.
struct Change {
    more: u64,
    fewer: u64,
}

/// None where it is another setting.
fn change(planned: &Planned) -> Option<Change> {
    let page = page_size(planned.path.as_deref()?)?;
    let (now, wanted): (u64, u64) = (planned.now.as_ref()?.parse().ok()?, planned.wanted.parse().ok()?);
    let bytes = |pages: u64| pages.saturating_mul(page);
    Some(Change { more: bytes(wanted.saturating_sub(now)), fewer: bytes(now.saturating_sub(wanted)) })
}

/// The size of the pages that a file counts: `…/hugepages-2048kB/nr_hugepages`.
fn page_size(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|_| path.ends_with("nr_hugepages"))?.file_name()?.to_str()?;
    let kib: u64 = folder.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The memory that the kernel could give to programs (`MemAvailable`).
fn available(root: &Root) -> Option<Bytes> {
    let memory = parse_meminfo(&fs::read(root.path("/proc/meminfo")).ok()?)?;
    Some(Bytes::new(memory.available_bytes))
}
