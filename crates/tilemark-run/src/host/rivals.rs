//! Programs that change settings of the host while it runs, and would change ours too.

use crate::host::plan::{Planned, Refusal, State};
use serde::Serialize;
use std::{fs, path::Path};
use tilemark_host::setting::known::Root;
use tilemark_sys::files::read_kernel_text;

/// A program that runs and changes the same settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rival {
    /// Its name, which is that of its service.
    pub program: String,
    /// Its process.
    pub process: u32,
    /// Which of the profile's settings it changes.
    pub keys: Vec<String>,
}

/// A program that changes settings while it runs.
struct Program {
    /// The name of its process, of which the kernel keeps 15 letters.
    comm: &'static str,
    /// Its service.
    service: &'static str,
    /// The beginnings of the keys that it changes.
    keys: &'static [&'static str],
}

const fn program(service: &'static str, keys: &'static [&'static str]) -> Program {
    Program { comm: service, service, keys }
}

/// What its plugins set: sysctl, vm, scheduler, cpu, disk, net, irq, modules, and sysfs.
const TUNED: &[&str] = &[
    "vm.",
    "kernel.",
    "fs.",
    "net.",
    "thp",
    "hugepages.",
    "ksm",
    "sched.",
    "cpu.",
    "workqueue.",
    "block.",
    "nic.",
    "irq.",
    "module.",
    "kvm.",
];

const PROGRAMS: [Program; 6] = [
    program("tuned", TUNED),
    program("irqbalance", &["irq."]),
    program("numad", &["kernel.numa_balancing", "ksm.merge_across_nodes", "thp.khugepaged."]),
    program("ksmtuned", &["ksm"]),
    Program { comm: "power-profiles-", ..program("power-profiles-daemon", &["cpu."]) },
    program("auto-cpufreq", &["cpu."]),
];

/// Those that run, unless the profile stops them itself.
pub(super) fn rivals(root: &Root, settings: &[Planned]) -> Vec<Rival> {
    let changed = settings.iter().filter(|planned| planned.state == State::Changes);
    let changed: Vec<&str> = changed.map(|planned| &*planned.key).collect();
    // One that this host lacks, or cannot stop, goes on.
    let is_stopped = |planned: &&Planned| {
        planned.wanted == STOPPED && matches!(planned.state, State::Changes | State::AsWanted)
    };
    let stopped = settings.iter().filter(is_stopped);
    let stopped: Vec<&str> = stopped.map(|planned| &*planned.key).collect();
    rivals_of(&root.path("/proc"), &changed, &stopped)
}

/// The value of a service that does not run.
pub(crate) const STOPPED: &str = "stopped";

/// Programs among the processes in `proc` that change some of these keys, but for those whose services are stopped.
pub(crate) fn rivals_of(proc: &Path, changed: &[&str], stopped: &[&str]) -> Vec<Rival> {
    let is_stopped = |service: &str| {
        stopped
            .iter()
            .any(|key| key.strip_prefix("service.").unwrap_or(key).trim_end_matches(".service") == service)
    };
    let is_known = |name: &str| PROGRAMS.iter().any(|program| program.comm == name);
    let mut found: Vec<Rival> = processes_of_root(proc, is_known)
        .into_iter()
        .filter_map(|(process, name)| {
            let Program { service, keys, .. } = PROGRAMS.into_iter().find(|program| program.comm == name)?;
            let keys = changed_by(keys, changed);
            let is_rival = !keys.is_empty() && !is_stopped(service);
            is_rival.then(|| Rival { program: service.to_owned(), process, keys })
        })
        .collect();
    found.sort_by_key(|rival| rival.process);
    found.dedup_by(|one, other| one.program == other.program);
    found
}

/// Root's processes among those in `proc` whose names are wanted, each with its name. No other user's can change settings, and any user can
/// call a program as those are called.
pub(super) fn processes_of_root(proc: &Path, is_wanted: impl Fn(&str) -> bool) -> Vec<(u32, String)> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_root = processes.filter_map(|process| {
        let name = fs::read_to_string(proc.join(format!("{process}/comm"))).ok()?.trim().to_owned();
        if !is_wanted(&name) {
            return None;
        }
        let status = read_kernel_text(&proc.join(format!("{process}/status")));
        status.map_or(true, |status| is_of_root(&status)).then_some((process, name))
    });
    of_root.collect()
}

/// Whether it is a process of root's, by the real user in its status (proc_pid_status(5)).
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The names and keys of programs that run under these names, where two settings change and these services are stopped.
    fn found(comms: &[&str], stopped: &[&str]) -> Vec<String> {
        found_for(&["vm.swappiness", "cpu.governor"], comms, stopped)
    }

    fn found_for(changed: &[&str], comms: &[&str], stopped: &[&str]) -> Vec<String> {
        let proc = tempfile::tempdir().unwrap();
        for (process, comm) in (17..).zip(comms) {
            let folder = proc.path().join(process.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("comm"), format!("{comm}\n")).unwrap();
        }
        let rivals = rivals_of(proc.path(), changed, stopped);
        rivals.iter().map(|rival| format!("{}: {}", rival.program, rival.keys.join(" "))).collect()
    }

    #[test]
    fn a_program_whose_name_the_kernel_cuts_is_named_by_its_service() {
        assert_eq!(found(&["power-profiles-"], &[]), ["power-profiles-daemon: cpu.governor"]);
        assert_eq!(found(&["power-profiles-"], &["service.power-profiles-daemon"]), [""; 0]);
    }

    #[test]
    fn tuned_changes_what_its_plugins_set_and_no_service_or_limit() {
        for key in [
            "fs.aio-max-nr",
            "hugepages.2MiB",
            "sched.base_slice_ns",
            "workqueue.cpumask",
            "block.sda.scheduler",
            "nic.eth0.rx_ring",
            "irq.default",
            "module.kvm_intel.nested",
            "kvm.halt_poll_ns",
        ] {
            assert_eq!(found_for(&[key], &["tuned"], &[]), [format!("tuned: {key}")]);
        }
        for key in ["service.ksm", "limit.nofile", "libvirt.max_clients"] {
            assert_eq!(found_for(&[key], &["tuned"], &[]), [""; 0]);
        }
    }

    #[test]
    fn irqbalance_changes_interrupts_and_numad_what_it_sets_when_it_starts() {
        assert_eq!(found_for(&["irq.default"], &["irqbalance"], &[]), ["irqbalance: irq.default"]);
        assert_eq!(found_for(&["irq.default"], &["irqbalance"], &["irqbalance"]), [""; 0]);
        assert_eq!(found_for(&["kernel.numa_balancing"], &["numad"], &[]), ["numad: kernel.numa_balancing"]);
        assert_eq!(found_for(&["vm.swappiness"], &["irqbalance", "numad"], &[]), [""; 0]);
    }

    #[test]
    fn only_the_service_itself_stops_a_program() {
        let tuned = ["tuned: vm.swappiness cpu.governor"];
        assert_eq!(found(&["tuned"], &["service.tuned-ppd"]), tuned);
        assert_eq!(found(&["tuned"], &["service.tuned.service"]), [""; 0]);
        assert_eq!(found(&["tuned", "irqbalance"], &["irqbalance"]), tuned);
    }
}
