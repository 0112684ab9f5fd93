//! How long a processor may take to wake: the load's own processors are kept from sleeping (decision 0030).

use std::path::Path;

use super::{Form, Held, Setting};

/// Where processors are.
pub const PROCESSORS: &str = "/sys/devices/system/cpu";
/// No time to wake is borne. A `0` would say that any is (sysfs-devices-power, `pm_qos_resume_latency_us`).
pub(super) const AWAKE: &str = "n/a";

/// Keeps these processors awake, where the host has limits for them.
pub fn awake(processors: &[u32]) -> Vec<Setting> {
    let settings = processors.iter().map(|processor| awake_below(Path::new(PROCESSORS), *processor));
    settings.filter(|setting| setting.path.exists()).collect()
}

/// One processor kept awake, whose folder is in this one.
pub fn awake_below(folder: &Path, processor: u32) -> Setting {
    limited(folder, processor, AWAKE)
}

/// The same with a limit in microseconds, or [`AWAKE`].
pub(super) fn limited(folder: &Path, processor: u32, limit: &str) -> Setting {
    let name = format!("wake-up latency limit (PM QoS) of CPU {processor}");
    let file = folder.join(format!("cpu{processor}/power/pm_qos_resume_latency_us"));
    Setting::file(name, file, Form::Whole, limit)
}

/// What a run of an older version noted of a processor that it kept awake: the limit that it found.
pub fn noted(folder: &Path, processor: u32, limit: &str) -> Held {
    Held { setting: awake_below(folder, processor), found: limit.to_owned(), network: None, is_whole: false }
}
