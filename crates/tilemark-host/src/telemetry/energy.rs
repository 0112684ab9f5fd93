//! Energy of the processors' packages, as the kernel's powercap counts it (RAPL).
//!
//! Read are the zones of whole packages: `intel-rapl:N` with the name `package-…`, on AMD's processors too. What lies below a
//! package (`core`, `uncore`) is contained in it; `intel-rapl-mmio` counts the same packages again; the platform's zone
//! (`psys`) contains them, and most machines have none. See docs/decisions/0041.

use std::fs;
use std::io;
use std::path::Path;

use super::files::{Buffer, OpenFile};
use super::parse::parse_number;

const ZONES: &str = "sys/class/powercap";
const PACKAGE_ZONE: &str = "intel-rapl:";
const PACKAGE_NAME: &str = "package";

/// The counter of one package.
#[derive(Debug)]
pub(super) struct Zone {
    energy: OpenFile,
    range_uj: Option<u64>,
}

/// Energy that one package took since some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EnergyCount {
    /// In microjoules.
    pub(super) energy_uj: u64,
    /// Beyond this it begins at 0 again.
    pub(super) range_uj: Option<u64>,
}

impl EnergyCount {
    /// Microjoules since `before`, in which the counter began again once at most: it takes minutes to do so. Nothing where it
    /// ran backwards and nobody says how far it counts.
    pub(super) fn since(self, before: Self) -> Option<u64> {
        let to_its_end = || self.range_uj?.checked_sub(before.energy_uj)?.checked_add(self.energy_uj);
        self.energy_uj.checked_sub(before.energy_uj).or_else(to_its_end)
    }
}

/// The counters of all packages.
///
/// # Errors
/// Where there is none, or one cannot be read (since CVE-2020-8694 only by root): the rest would be less than the host takes.
pub(super) fn open_zones(root: &Path) -> Result<Vec<Zone>, String> {
    let folder = root.join(ZONES);
    let entries = fs::read_dir(&folder).map_err(|error| format!("/{ZONES}: {error}"))?;
    let (mut zones, mut buffer) = (Vec::new(), Buffer::new());
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_package(&name, &entry.path()) {
            let zone = open_zone(&entry.path(), &mut buffer);
            zones.push(zone.map_err(|error| format!("/{ZONES}/{name}/energy_uj: {error}"))?);
        }
    }
    if zones.is_empty() { Err(format!("/{ZONES}: no zone of a processor's package")) } else { Ok(zones) }
}

fn is_package(name: &str, zone: &Path) -> bool {
    let is_whole = name
        .strip_prefix(PACKAGE_ZONE)
        .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    is_whole && fs::read_to_string(zone.join("name")).is_ok_and(|name| name.starts_with(PACKAGE_NAME))
}

fn open_zone(zone: &Path, buffer: &mut Buffer) -> io::Result<Zone> {
    let range = fs::read(zone.join("max_energy_range_uj")).ok();
    let energy = OpenFile::open(&zone.join("energy_uj"))?;
    // One that opens may still not be read.
    energy.read_small(buffer)?;
    Ok(Zone { energy, range_uj: range.and_then(|text| parse_number(&text)) })
}

/// Nothing where there is no counter, or one cannot be read.
pub(super) fn read_zones(zones: &[Zone], buffer: &mut Buffer) -> Option<Vec<EnergyCount>> {
    if zones.is_empty() {
        return None;
    }
    let read = |zone: &Zone| {
        let energy_uj = parse_number(zone.energy.read_small(buffer).ok()?)?;
        Some(EnergyCount { energy_uj, range_uj: zone.range_uj })
    };
    zones.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_wraps_is_followed() {
        let count = |energy_uj, range_uj| EnergyCount { energy_uj, range_uj };
        assert_eq!(count(700, Some(1_000)).since(count(200, Some(1_000))), Some(500));
        assert_eq!(count(50, Some(1_000)).since(count(900, Some(1_000))), Some(150));
        assert_eq!(count(50, None).since(count(900, None)), None, "nobody says where it ends");
        assert_eq!(count(50, Some(800)).since(count(900, Some(800))), None, "it was beyond its own end");
    }
}
