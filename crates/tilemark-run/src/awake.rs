//! The load's processors, kept from sleeping while a run is under way.
//!
//! A processor with nothing to do sleeps, and waking takes it tens to hundreds of microseconds. That would make requests
//! late, and be told as the latency of guests. Only processors that the load has for itself are kept awake: how those of
//! the guests sleep is part of what is measured.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// How long each processor may take to wake, as the kernel writes it: what a run found, and gives back.
pub(crate) type WakeLimits = BTreeMap<u32, String>;

/// Where processors are.
const PROCESSORS: &str = "/sys/devices/system/cpu";
/// No time to wake is borne. A `0` would say that any is (sysfs-devices-power, `pm_qos_resume_latency_us`).
const AWAKE: &str = "n/a";

/// The limits of these processors that may sleep now. A host without such limits has none to keep awake, and neither has
/// one on which another run keeps them so.
pub(crate) fn that_sleep(processors: &[u32]) -> WakeLimits {
    sleeping_below(Path::new(PROCESSORS), processors)
}

/// Lets them sleep no more. A host that refuses has them sleep, which the load's lateness shows.
pub(crate) fn keep_awake(limits: &WakeLimits) {
    write_below(Path::new(PROCESSORS), limits.keys().map(|processor| (*processor, AWAKE)));
}

/// Lets them sleep as they did.
pub(crate) fn give_back(limits: &WakeLimits) {
    write_below(Path::new(PROCESSORS), limits.iter().map(|(processor, limit)| (*processor, limit.as_str())));
}

fn limit_of(processors: &Path, processor: u32) -> PathBuf {
    processors.join(format!("cpu{processor}/power/pm_qos_resume_latency_us"))
}

fn sleeping_below(folder: &Path, processors: &[u32]) -> WakeLimits {
    let read = |processor: &u32| {
        let limit = fs::read_to_string(limit_of(folder, *processor)).ok()?;
        let limit = limit.trim().to_owned();
        (limit != AWAKE).then_some((*processor, limit))
    };
    processors.iter().filter_map(read).collect()
}

fn write_below<'a>(folder: &Path, limits: impl Iterator<Item = (u32, &'a str)>) {
    for (processor, limit) in limits {
        // Refused where a container sees its host's settings only to read.
        let _ = fs::write(limit_of(folder, processor), limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_kept_awake_and_sleep_afterwards_as_they_did() {
        let folder = tempfile::tempdir().unwrap();
        let limit = |processor| fs::read_to_string(limit_of(folder.path(), processor)).unwrap();
        for (processor, found) in [(0, "0\n"), (1, "20\n"), (2, "n/a\n"), (3, "0\n")] {
            let path = limit_of(folder.path(), processor);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, found).unwrap();
        }
        // The third is kept awake by somebody else, and there is no fifth.
        let found = sleeping_below(folder.path(), &[0, 1, 2, 4]);
        assert_eq!(found, [(0, "0".to_owned()), (1, "20".to_owned())].into());
        write_below(folder.path(), found.keys().map(|processor| (*processor, AWAKE)));
        assert_eq!([0, 1, 2, 3].map(limit), ["n/a", "n/a", "n/a\n", "0\n"]);
        write_below(folder.path(), found.iter().map(|(processor, limit)| (*processor, limit.as_str())));
        assert_eq!([0, 1, 2, 3].map(limit), ["0", "20", "n/a\n", "0\n"]);
    }
}
