//! The facts in their order, and those that need no more than one file.

use tilemark_plan::facts::{
    Accelerator, Accelerators, ControlGroups, Fact, Frequency, HostFacts, Kernel, Mitigation, PressureFiles,
    Turbo,
};

use tilemark_sys::mounts;

use super::list::{missing, number, selected, text};
use super::{devices, guests, memory, processors, tools};
use crate::cgroup::{self, CgroupMounts};
use crate::telemetry::parse::{HostProcessor, parse_stat};
use crate::view::HostView;

const MOUNTS: &str = "/proc/self/mountinfo";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities";

/// Reads what a host is. `kvm` is what timing guest work said ([`crate::accelerator`]): reading never runs guest code.
/// It takes some 100 ms, nearly all of it for tools to say their versions.
pub fn read_facts(host: &dyn HostView, kvm: Accelerator) -> HostFacts {
    HostFacts {
        host_name: text(host, "/proc/sys/kernel/hostname"),
        boot_id: text(host, "/proc/sys/kernel/random/boot_id"),
        kernel: Kernel {
            release: text(host, "/proc/sys/kernel/osrelease"),
            build: text(host, "/proc/sys/kernel/version"),
            command_line: text(host, "/proc/cmdline"),
            clock_source: text(host, "/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        },
        distribution: distribution(host),
        asked_by: host.asked_by(),
        virtualisation: host.virtualisation(),
        processors: processors::processors(host),
        mitigations: mitigations(host),
        numa_nodes: memory::numa_nodes(host),
        memory: memory::memory(host),
        iommu: devices::iommu(host),
        devices: devices::devices(host),
        control_groups: control_groups(host),
        pressure: pressure(host),
        steal_fraction_since_boot: steal(host),
        frequency: frequency(host),
        energy_zones: devices::energy_zones(host),
        loop_devices: devices::loop_devices(host),
        tools: tools::tools(host),
        running_guests: guests::running_guests(host),
        accelerators: Accelerators { kvm },
    }
}

fn distribution(host: &dyn HostView) -> Fact<String> {
    for path in ["/etc/os-release", "/usr/lib/os-release"] {
        let Ok(text) = host.read(path) else { continue };
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        if let Some(name) = name {
            return Fact::Value(name.trim_matches(['"', '\'']).to_owned());
        }
    }
    missing("/etc/os-release", "absent or without PRETTY_NAME")
}

fn mitigations(host: &dyn HostView) -> Fact<Vec<Mitigation>> {
    match host.list(VULNERABILITIES) {
        Err(error) => missing(VULNERABILITIES, error),
        Ok(names) => Fact::Value(
            names
                .into_iter()
                .filter_map(|weakness| {
                    let state = host.read(&format!("{VULNERABILITIES}/{weakness}")).ok()?;
                    Some(Mitigation { weakness, state: state.trim().to_owned() })
                })
                .collect(),
        ),
    }
}

fn control_groups(host: &dyn HostView) -> Fact<ControlGroups> {
    let mounts = match host.read(MOUNTS) {
        Err(error) => return missing(MOUNTS, error),
        Ok(text) => cgroup::control_groups(mounts::parse(text.as_bytes())),
    };
    let CgroupMounts { version_2: Some(mount_point), .. } = mounts else {
        return missing(MOUNTS, "no cgroup2 file system is mounted");
    };
    let path = format!("{mount_point}/cgroup.controllers");
    match host.read(&path) {
        Err(error) => missing(&path, error),
        Ok(text) => Fact::Value(ControlGroups {
            mount_point,
            controllers: text.split_whitespace().map(str::to_owned).collect(),
        }),
    }
}

fn pressure(host: &dyn HostView) -> Fact<PressureFiles> {
    let mut resources = Vec::new();
    let mut last_error = None;
    for resource in ["cpu", "memory", "io"] {
        match host.read(&format!("/proc/pressure/{resource}")) {
            Ok(_) => resources.push(resource.to_owned()),
            Err(error) => last_error = Some(error),
        }
    }
    match last_error {
        Some(error) if resources.is_empty() => missing("/proc/pressure", error),
        _ => Fact::Value(PressureFiles { resources }),
    }
}

fn steal(host: &dyn HostView) -> Fact<f64> {
    let path = "/proc/stat";
    match host.read(path) {
        Err(error) => missing(path, error),
        Ok(text) => match parse_stat(text.as_bytes()) {
            Some(HostProcessor { all, .. }) if all.total() > 0 => {
                Fact::Value(all.steal as f64 / all.total() as f64)
            }
            _ => missing(path, "no line `cpu`"),
        },
    }
}

fn frequency(host: &dyn HostView) -> Frequency {
    let policies = "/sys/devices/system/cpu/cpufreq";
    let names = host.list(policies).unwrap_or_else(|_| Vec::new());
    let mut governors: Vec<String> = names
        .iter()
        .filter(|name| name.starts_with("policy"))
        .filter_map(|name| text(host, &format!("{policies}/{name}/scaling_governor")).value().cloned())
        .collect();
    governors.sort_unstable();
    governors.dedup();
    Frequency {
        driver: text(host, &format!("{policies}/policy0/scaling_driver")),
        governors: if governors.is_empty() {
            missing(policies, "the kernel does not choose the frequency here")
        } else {
            Fact::Value(governors)
        },
        turbo: turbo(host),
    }
}

fn turbo(host: &dyn HostView) -> Fact<Turbo> {
    let by_intel: Fact<u32> = number(host, "/sys/devices/system/cpu/intel_pstate/no_turbo");
    let by_driver: Fact<u32> = number(host, "/sys/devices/system/cpu/cpufreq/boost");
    match (by_intel, by_driver) {
        (Fact::Value(0), _) | (_, Fact::Value(1)) => Fact::Value(Turbo::On),
        (Fact::Value(_), _) | (_, Fact::Value(_)) => Fact::Value(Turbo::Off),
        (Fact::Missing(_), Fact::Missing(_)) => {
            Fact::Missing("neither intel_pstate/no_turbo nor cpufreq/boost can be read".into())
        }
    }
}

/// Kept beside its callers: transparent huge pages and KSM are words in brackets or numbers.
pub(super) fn transparent_huge_pages(host: &dyn HostView) -> Fact<String> {
    selected(host, "/sys/kernel/mm/transparent_hugepage/enabled")
}
