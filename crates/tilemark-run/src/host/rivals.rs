//! Programs that change settings of the host while it runs, and would change ours too.

use crate::host::plan::{Planned, Refusal, State};
use serde::Serialize;
use std::fs;
use tilemark_host::setting::known::Root;

/// A program that runs and changes the same settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rival {
    /// Its name.
    pub program: String,
    /// Its process.
    pub process: u32,
    /// Which of the profile's settings it changes.
    pub keys: Vec<String>,
}

/// Programs with the beginnings of the keys that they change; an empty one is every key.
const PROGRAMS: [(&str, &[&str]); 6] = [
    ("tuned", &["vm.", "kernel.", "net.", "thp", "cpu.", "block.", "ksm"]),
    ("irqbalance", &["irq."]),
    ("numad", &["kernel.numa_balancing", "ksm.merge_across_nodes", "thp.khugepaged."]),
    ("ksmtuned", &["ksm"]),
    ("power-profiles-", &["cpu."]),
    ("auto-cpufreq", &["cpu."]),
];

/// Those that run, unless the profile stops them itself.
pub(super) fn rivals(root: &Root, settings: &[Planned]) -> Vec<Rival> {
    let is_stopped = |program: &str| {
        settings.iter().any(|planned| {
            let service = planned.key.strip_prefix("service.").unwrap_or(&planned.key);
            planned.wanted == "stopped" && service.trim_end_matches(".service").starts_with(program)
        })
    };
    let entries = fs::read_dir(root.path("/proc")).into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<Rival> = processes
        .filter_map(|process| {
            let name = fs::read_to_string(root.path(&format!("/proc/{process}/comm"))).ok()?;
            // The kernel keeps 15 letters of a name.
            let (program, starts) = PROGRAMS.into_iter().find(|(program, _)| *program == name.trim())?;
            let keys = changed_by(starts, settings);
            let is_rival = !keys.is_empty() && !is_stopped(program.trim_end_matches('-'));
            is_rival.then(|| Rival { program: program.trim_end_matches('-').to_owned(), process, keys })
        })
        .collect();
    found.sort_by_key(|rival| rival.process);
    found.dedup_by(|one, other| one.program == other.program);
    found
}

/// Keys that would be changed and begin so, each once.
fn changed_by(starts: &[&str], settings: &[Planned]) -> Vec<String> {
    let changed = settings.iter().filter(|planned| planned.state == State::Changes);
    let mut keys: Vec<String> = changed
        .filter(|planned| starts.iter().any(|start| planned.key.starts_with(start)))
        .map(|planned| planned.key.clone())
        .collect();
    keys.dedup();
    keys
}

impl Rival {
    pub(super) fn refusal(&self) -> Refusal {
        let Self { program, process, keys } = self;
        Refusal {
            message: format!("{program} runs (process {process}) and changes {} too", keys.join(", ")),
            remedy: format!(
                "stop it for as long, with `systemctl stop {program}` or with `service.{program}` = \"stopped\" in the profile"
            ),
        }
    }
}
