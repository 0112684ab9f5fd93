//! One function per thing that can be short. Limits that can move a verdict carry their source.

use super::finding::{Finding, Severity};
use tilemark_plan::{
    facts::{
        AcceleratorVerdict, AskedBy, Fact, Hardware, HostFacts, Tool, Turbo, Virtualisation, hypervisor_name,
    },
    plan::Backend::{self, Emulated, Kvm, Native},
};

/// The oldest QEMU whose template and clone we support.
const QEMU_OLDEST: [u32; 2] = [7, 2];
/// Steal since boot above which neighbours are no rumour. A single second is judged by telemetry, not here.
const STEAL_MAX: f64 = 0.005;
/// One exit from guest to QEMU takes 1 to 2 µs on bare metal; nested or trapped it takes tens.
const EXIT_NS_MAX: f64 = 10_000.0;
/// Under this the smallest tile of `first-look` (1 GiB) and the host's reserve of 1 GiB do not fit.
const MEMORY_BYTES_LEAST: u64 = 2 << 30;
/// Controllers that make a native twin's limits equal to a guest's.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "io"];

/// Every shortfall, worst first. Pure.
pub fn diagnose(facts: &HostFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = [
        accelerator(facts),
        nesting(facts),
        root(facts),
        tools(facts),
        devices(facts),
        control_groups(facts),
        memory(facts),
        processors(facts),
        frequency(facts),
        neighbours(facts),
        extras(facts),
    ]
    .into_iter()
    .flatten()
    .collect();
    findings.sort_by(|a, b| a.severity.cmp(&b.severity)); // stable: order of checks within one severity
    findings
}

/// What, cost and remedy of a finding.
struct Words<'w> {
    what: String,
    cost: &'w str,
    remedy: &'w str,
}

fn finding(key: &str, severity: Severity, words: Words<'_>) -> Finding {
    Finding {
        key: key.to_owned(),
        severity,
        blocks: Vec::new(),
        what: words.what,
        cost: words.cost.to_owned(),
        remedy: words.remedy.to_owned(),
    }
}

fn blocking(key: &str, blocks: &[Backend], words: Words<'_>) -> Finding {
    Finding { blocks: blocks.to_vec(), ..finding(key, Severity::Blocks, words) }
}

fn accelerator(facts: &HostFacts) -> Vec<Finding> {
    let kvm = &facts.accelerators.kvm;
    let cost = "no guest runs at hardware speed: there is no capacity of guests and no cost of virtualization. Native figures \
                remain, and emulated guests, which only show that things work";
    let what = |what: &str| format!("{what}: {}", kvm.reason);
    let inside = matches!(facts.virtualisation, Fact::Value(Virtualisation::Guest { .. }));
    let blocked = |key, text: &str, remedy| blocking(key, &[Kvm], Words { what: what(text), cost, remedy });
    match kvm.verdict {
        AcceleratorVerdict::Usable => Vec::new(),
        AcceleratorVerdict::TooSlow => vec![blocked(
            "kvm-too-slow",
            "KVM answers and runs guests far too slowly",
            "use a host with hardware virtualization (VT-x or AMD-V): bare metal, or a VM with nested virtualization; see \
             docs/decisions/0013 for what was timed",
        )],
        AcceleratorVerdict::Absent if inside => vec![blocked(
            "kvm-absent",
            "no KVM",
            "this host is itself a guest: its provider must switch on nested virtualization; or use bare metal",
        )],
        AcceleratorVerdict::Absent => vec![blocked(
            "kvm-absent",
            "no KVM",
            "switch on virtualization (VT-x, SVM) in the firmware and load the module: modprobe kvm_intel or kvm_amd",
        )],
        AcceleratorVerdict::Unknown => vec![blocked(
            "kvm-unknown",
            "whether KVM can be used could not be found out",
            "run it as root, or join the group `kvm`: sudo usermod -aG kvm $USER; then see the kernel's log",
        )],
    }
}

fn nesting(facts: &HostFacts) -> Vec<Finding> {
    let kvm = &facts.accelerators.kvm;
    let exit_ns = kvm.figures.as_ref().and_then(|figures| figures.exit_ns_p50.value().copied());
    match exit_ns {
        Some(ns) if kvm.verdict == AcceleratorVerdict::Usable && ns > EXIT_NS_MAX => vec![finding(
            "kvm-exits-slow",
            Severity::Distorts,
            Words {
                what: format!("an exit from a guest takes {:.0} µs, 1 to 2 µs on bare metal", ns / 1e3),
                cost: "disk and network of guests cost far more here than on hardware",
                remedy: "measure on bare metal, or compare only with hosts that are nested alike",
            },
        )],
        _ => Vec::new(),
    }
}

fn root(facts: &HostFacts) -> Vec<Finding> {
    match facts.asked_by {
        Fact::Value(AskedBy::User) => vec![blocking(
            "not-root",
            &[Kvm, Emulated, Native],
            Words {
                what: "run as an ordinary user".into(),
                cost: "run, guests, image build and recover need root; plan, report and load do not",
                remedy: "run the same command with sudo",
            },
        )],
        Fact::Value(AskedBy::Root) | Fact::Missing(_) => Vec::new(),
    }
}

/// A tool without which something stops.
struct Needed {
    name: &'static str,
    key: &'static str,
    blocks: &'static [Backend],
    cost: &'static str,
    remedy: &'static str,
}

const NEEDED: [Needed; 4] = [
    Needed {
        name: "qemu-system-x86_64",
        key: "no-qemu",
        blocks: &[Kvm, Emulated],
        cost: "no guests, neither accelerated nor emulated",
        remedy: "install QEMU 7.2 or newer: apt-get install qemu-system-x86, or dnf install qemu-kvm",
    },
    Needed {
        name: "mmdebstrap",
        key: "no-mmdebstrap",
        blocks: &[],
        cost: "no guest image can be built; one that was exported elsewhere can be imported",
        remedy: "apt-get install mmdebstrap",
    },
    Needed {
        name: "mkfs.erofs",
        key: "no-mkfs-erofs",
        blocks: &[],
        cost: "no guest image can be built; one that was exported elsewhere can be imported",
        remedy: "install erofs-utils 1.5 or newer: apt-get install erofs-utils",
    },
    Needed {
        name: "mkfs.xfs",
        key: "no-mkfs-xfs",
        blocks: &[],
        cost: "no disk store: workloads with data disks cannot run",
        remedy: "apt-get install xfsprogs",
    },
];

fn tools(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for needed in NEEDED {
        let Some(tool) = facts.tools.iter().find(|tool| tool.name == needed.name) else { continue };
        if let Some(reason) = tool.path.why_missing() {
            let words = Words {
                what: format!("{}: {reason}", needed.name),
                cost: needed.cost,
                remedy: needed.remedy,
            };
            findings.push(if needed.blocks.is_empty() {
                finding(needed.key, Severity::Limits, words)
            } else {
                blocking(needed.key, needed.blocks, words)
            });
        } else if needed.key == "no-qemu" {
            findings.extend(qemu_age(tool));
        }
    }
    findings
}

fn qemu_age(tool: &Tool) -> Option<Finding> {
    let version = tool.version.value()?;
    let mut numbers = version.split('.').map(|part| part.parse::<u32>());
    let found = [numbers.next()?.ok()?, numbers.next()?.ok()?];
    (found < QEMU_OLDEST).then(|| {
        blocking(
            "old-qemu",
            &[Kvm, Emulated],
            Words {
                what: format!("QEMU {version}, and 7.2 is the oldest that is supported"),
                cost: "templates and clones need what 7.2 brought",
                remedy: "install QEMU 7.2 or newer (Debian 12 and its like have it)",
            },
        )
    })
}

fn devices(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(reason) = facts.devices.tun.why_missing() {
        findings.push(blocking(
            "no-tun",
            &[Kvm, Emulated],
            Words {
                what: format!("no taps: {reason}"),
                cost: "guests cannot be reached over a bridge",
                remedy: "modprobe tun; or run doctor as root",
            },
        ));
    }
    if let Some(reason) = facts.devices.vhost_net.why_missing() {
        findings.push(finding(
            "no-vhost-net",
            Severity::Distorts,
            Words {
                what: format!("no vhost-net: {reason}"),
                cost: "QEMU moves each packet itself: network costs more processor time than on most hosts",
                remedy: "modprobe vhost_net",
            },
        ));
    }
    if let Some(reason) = facts.loop_devices.why_missing() {
        findings.push(finding(
            "no-loop",
            Severity::Limits,
            Words {
                what: format!("no loop devices: {reason}"),
                cost: "no native twin (it mounts the image) and no disk store",
                remedy: "modprobe loop; or run doctor as root",
            },
        ));
    }
    findings
}

fn control_groups(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    match &facts.control_groups {
        Fact::Missing(reason) => findings.push(blocking(
            "no-cgroup-2",
            &[Kvm, Emulated, Native],
            Words {
                what: format!("no control groups of version 2: {reason}"),
                cost: "a run's processes could not be ended whole",
                remedy: "mount -t cgroup2 none /sys/fs/cgroup, or boot with systemd.unified_cgroup_hierarchy=1",
            },
        )),
        Fact::Value(groups) => {
            let lacking: Vec<&str> =
                CONTROLLERS.into_iter().filter(|wanted| !groups.controllers.iter().any(|c| c == wanted)).collect();
            if !lacking.is_empty() {
                let cost = if lacking.contains(&"memory") {
                    "a native twin is held to its processors by affinity; its memory has no limit"
                } else {
                    "a native twin is held to its processors by affinity"
                };
                findings.push(finding(
                    "cgroup-controllers",
                    Severity::Distorts,
                    Words {
                        what: format!("control groups of version 2 without {}", lacking.join(", ")),
                        cost,
                        remedy: "boot with systemd.unified_cgroup_hierarchy=1, so that version 1 holds no controller",
                    },
                ));
            }
        }
    }
    if let Some(reason) = facts.pressure.why_missing() {
        findings.push(finding(
            "no-pressure",
            Severity::Limits,
            Words {
                what: format!("no pressure figures: {reason}"),
                cost: "there is less evidence for the first bottleneck",
                remedy: "boot with psi=1",
            },
        ));
    }
    findings
}

fn memory(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let memory = &facts.memory;
    if let Fact::Value(bytes) = memory.bytes_available
        && bytes < MEMORY_BYTES_LEAST
    {
        findings.push(finding(
            "little-memory",
            Severity::Limits,
            Words {
                what: format!("{} MiB of memory are available", bytes >> 20),
                cost: "not one tile of first-look fits beside the host's reserve",
                remedy: "end what uses memory, or use a larger host",
            },
        ));
    }
    if let Fact::Value(bytes @ 1..) = memory.swap_bytes_used {
        findings.push(finding(
            "swap-in-use",
            Severity::Distorts,
            Words {
                what: format!("{} MiB of swap are in use", (bytes >> 20).max(1)),
                cost: "pages that are swapped in make some seconds slow, and swapping during a repeat breaks its tile count",
                remedy: "swapoff -a && swapon -a, when memory allows",
            },
        ));
    }
    if memory.same_page_merging == Fact::Value("on".into()) {
        findings.push(finding(
            "same-page-merging",
            Severity::Distorts,
            Words {
                what: "the kernel merges equal pages (KSM)".into(),
                cost: "memory per guest looks smaller with time, and merging takes processor time",
                remedy: "echo 2 > /sys/kernel/mm/ksm/run",
            },
        ));
    }
    if memory.transparent_huge_pages == Fact::Value("never".into()) {
        findings.push(finding(
            "no-huge-pages",
            Severity::Distorts,
            Words {
                what: "transparent huge pages are off".into(),
                cost: "guests with much memory walk longer page tables, by some per cent",
                remedy: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            },
        ));
    }
    findings
}

fn processors(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.processors.threads_online == Fact::Value(1) {
        findings.push(finding(
            "one-thread",
            Severity::Distorts,
            Words {
                what: "one processor thread".into(),
                cost: "load and guests share it: the load is in every figure",
                remedy: "use a host with two threads at least, or send the load from another machine",
            },
        ));
    }
    if let Fact::Value(clock) = &facts.kernel.clock_source
        && (clock == "hpet" || clock == "acpi_pm" || clock == "jiffies")
    {
        findings.push(finding(
            "slow-clock",
            Severity::Distorts,
            Words {
                what: format!("the kernel counts time by {clock}"),
                cost: "each reading of the clock takes about a microsecond instead of 20 ns: latencies grow by it",
                remedy: "see in the kernel's log why the TSC was given up",
            },
        ));
    }
    let vulnerable: Vec<&str> = facts
        .mitigations
        .value()
        .into_iter()
        .flatten()
        .filter(|mitigation| mitigation.state.starts_with("Vulnerable"))
        .map(|mitigation| mitigation.weakness.as_str())
        .collect();
    if !vulnerable.is_empty() {
        let asked_for = facts.kernel.command_line.value().is_some_and(|line| {
            line.split_whitespace().any(|word| word.starts_with("mitigations=") && word.contains("off"))
        });
        findings.push(finding(
            "mitigations-off",
            Severity::NiceToHave,
            Words {
                what: format!("no mitigation against {}", vulnerable.join(", ")),
                cost: "exits are cheaper than on a host that has them: compare only like with like",
                remedy: match asked_for {
                    true => "boot without mitigations=off, or keep it and say so",
                    false => {
                        "look in /proc/cmdline for what switches it off (spectre_v2=off, nopti); else install the processor's microcode, or ask \
                         who runs this host's hypervisor"
                    }
                },
            },
        ));
    }
    findings
}

fn frequency(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Fact::Value(governors) = &facts.frequency.governors
        && governors.iter().any(|governor| governor != "performance")
    {
        findings.push(finding(
            "governor",
            Severity::Distorts,
            Words {
                what: format!("processor frequency is governed by {}", governors.join(", ")),
                cost: "light steps look slower than they would be, because the processor slows down between requests",
                remedy: "cpupower frequency-set -g performance",
            },
        ));
    }
    if facts.frequency.turbo == Fact::Value(Turbo::On) {
        findings.push(finding(
            "turbo",
            Severity::NiceToHave,
            Words {
                what: "turbo is on".into(),
                cost: "few guests run faster than many: part of the loss with each tile is the processor's own",
                remedy: "keep it to know this host; switch it off to compare software",
            },
        ));
    }
    findings
}

fn itself_a_guest(facts: &HostFacts) -> Option<Finding> {
    let Fact::Value(Virtualisation::Guest { hypervisor }) = &facts.virtualisation else { return None };
    let under = hypervisor
        .value()
        .map_or_else(String::new, |signature| format!(" of {}", hypervisor_name(signature)));
    Some(match facts.hardware() {
        Hardware::Emulated => finding(
            "emulated-host",
            Severity::Distorts,
            Words {
                what: "this host is itself emulated, by QEMU's translator".into(),
                cost: "it shows that things work; the times mean nothing, and no figure enters an answer",
                remedy: "measure on real hardware; this host can only show that things work",
            },
        ),
        Hardware::Virtual | Hardware::Real => finding(
            "virtual-host",
            Severity::Distorts,
            Words {
                what: format!("this host is itself a guest{under}"),
                cost: "its neighbours and its hypervisor affect every figure, and change from hour to hour",
                remedy: "measure on bare metal; otherwise use more repeats, and compare only with `tilemark ab`",
            },
        ),
    })
}

fn neighbours(facts: &HostFacts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = itself_a_guest(facts).into_iter().collect();
    if let Fact::Value(fraction) = facts.steal_fraction_since_boot
        && fraction > STEAL_MAX
    {
        findings.push(finding(
            "steal",
            Severity::Distorts,
            Words {
                what: format!("{:.1} % of CPU time since boot was stolen (steal time)", fraction * 100.0),
                cost: "repeats with more than 2 % steal are discarded",
                remedy: "use a host with processors of its own",
            },
        ));
    }
    if let Fact::Value(guests) = &facts.running_guests
        && !guests.is_empty()
    {
        let pids: Vec<String> = guests.iter().take(5).map(|guest| guest.pid.to_string()).collect();
        let more = if guests.len() > 5 { ", …" } else { "" };
        findings.push(finding(
            "guests-running",
            Severity::Distorts,
            Words {
                what: format!("{} guests already run (process {}{more})", guests.len(), pids.join(", ")),
                cost: "what they use is not available to the run; repeats in which they use more than 5 % of the host are discarded",
                remedy: "stop them for the time of the measurement",
            },
        ));
    }
    findings
}

fn extras(facts: &HostFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.iommu.value().is_none_or(|iommu| iommu.groups == 0) {
        findings.push(finding(
            "no-iommu",
            Severity::NiceToHave,
            Words {
                what: "no IOMMU groups".into(),
                cost: "no device can be passed through to a guest",
                remedy: "switch on VT-d or AMD-Vi in the firmware; on Intel boot with intel_iommu=on iommu=pt",
            },
        ));
    }
    if let Some(reason) = facts.energy_zones.why_missing() {
        findings.push(finding(
            "no-energy",
            Severity::NiceToHave,
            Words {
                what: format!("no energy counters: {reason}"),
                cost: "no idle power, and nothing per joule",
                remedy: "run doctor as root on bare metal; VMs have no energy counters",
            },
        ));
    }
    findings
}
