//! Programs that change settings of the host while it runs, and would change ours too.

use crate::host::plan::{Planned, Refusal, State};
use serde::Serialize;
use std::{fs, path::Path};
use tilemark_host::setting::known::Root;
use tilemark_sys::files::read_kernel_text;

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
    let changed = settings.iter().filter(|planned| planned.state == State::Changes);
    let changed: Vec<&str> = changed.map(|planned| &*planned.key).collect();
    let stopped = settings.iter().filter(|planned| planned.wanted == STOPPED);
    let stopped: Vec<&str> = stopped.map(|planned| &*planned.key).collect();
    rivals_of(&root.path("/proc"), &changed, &stopped)
}

/// The value of a service that does not run.
pub(crate) const STOPPED: &str = "stopped";

/// Programs among the processes in `proc` that change some of these keys, but for those whose services are stopped.
pub(crate) fn rivals_of(proc: &Path, changed: &[&str], stopped: &[&str]) -> Vec<Rival> {
    let is_stopped = |program: &str| {
        stopped.iter().any(|key| {
            let service = key.strip_prefix("service.").unwrap_or(key);
            service.trim_end_matches(".service").starts_with(program)
        })
    };
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<Rival> = processes
        .filter_map(|process| {
            let name = fs::read_to_string(proc.join(format!("{process}/comm"))).ok()?;
            // The kernel keeps 15 letters of a name.
            let (program, starts) = PROGRAMS.into_iter().find(|(program, _)| *program == name.trim())?;
            let status = read_kernel_text(&proc.join(format!("{process}/status")));
            if status.is_ok_and(|status| !is_of_root(&status)) {
                return None;
            }
            let keys = changed_by(starts, changed);
            let is_rival = !keys.is_empty() && !is_stopped(program.trim_end_matches('-'));
            is_rival.then(|| Rival { program: program.trim_end_matches('-').to_owned(), process, keys })
        })
        .collect();
    found.sort_by_key(|rival| rival.process);
    found.dedup_by(|one, other| one.program == other.program);
    found
}

/// Whether it is a process of root's, by the real user in its status (proc_pid_status(5)). No other one can change settings, and any user
/// can call a program as those are called.
fn is_of_root(status: &str) -> bool {
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.and_then(|uids| uids.split_whitespace().next()) == Some("0")
}

/// Keys that would be changed and begin so, each once.
fn changed_by(starts: &[&str], changed: &[&str]) -> Vec<String> {
    let begins = |key: &&&str| starts.iter().any(|start| key.starts_with(start));
    let mut keys: Vec<String> = changed.iter().filter(begins).map(|key| (*key).to_owned()).collect();
    keys.dedup();
    keys
}

impl Rival {
    /// `tuned runs (process 17) and changes vm.swappiness too`.
    pub(crate) fn in_words(&self) -> String {
        let Self { program, process, keys } = self;
        format!("{program} runs (process {process}) and changes {} too", keys.join(", "))
    }

    pub(super) fn refusal(&self) -> Refusal {
        let program = &self.program;
        Refusal {
            message: self.in_words(),
            remedy: format!(
                "stop it for as long, with `systemctl stop {program}` or with `service.{program}` = \"stopped\" in the profile"
            ),
            is_mistake: false,
        }
    }
}
