//! What a host is: the facts a plan is resolved against and a record keeps.
//!
//! Pure data. Reading them is `tilemark-host`'s work; whoever resolves a plan or draws a report only sees these types.
//! What could not be read is [`Fact::Missing`] with the reason, never a zero, an empty text or a guess.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value that was read, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fact<T> {
    /// What was read.
    Value(T),
    /// Why it could not be read, as a lower-case fragment that names the file or device.
    Missing(String),
}

impl<T> Fact<T> {
    /// The value, where there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing(_) => None,
        }
    }

    /// Why there is no value; nothing where there is one.
    pub fn why_missing(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Missing(reason) => Some(reason),
        }
    }
}

/// Everything that was found out about one host, at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// The name the host calls itself. Left out of a report that is drawn with `--redact`.
    pub host_name: Fact<String>,
    /// Changes with every boot of the kernel.
    pub boot_id: Fact<String>,
    /// The running kernel.
    pub kernel: Kernel,
    /// The distribution's own name for itself (`PRETTY_NAME` of os-release).
    pub distribution: Fact<String>,
    /// Whether who asked is root: `run`, guests and image building need that.
    pub asked_by: Fact<AskedBy>,
    /// Whether this host is itself a guest.
    pub virtualisation: Fact<Virtualisation>,
    /// Processors and their threads.
    pub processors: Processors,
    /// What the kernel does against each processor weakness it knows.
    pub mitigations: Fact<Vec<Mitigation>>,
    /// NUMA nodes in the order of their numbers.
    pub numa_nodes: Fact<Vec<NumaNode>>,
    /// Memory, swap and page sizes.
    pub memory: Memory,
    /// Groups of devices that an IOMMU can hand to a guest.
    pub iommu: Fact<Iommu>,
    /// Kernel devices that backends and the run network need.
    pub devices: Devices,
    /// The version 2 control group tree.
    pub control_groups: Fact<ControlGroups>,
    /// Whether the kernel reports how long work waited (`/proc/pressure`).
    pub pressure: Fact<PressureFiles>,
    /// Share of all processor time since boot that the hypervisor above gave to others, 0 to 1.
    pub steal_fraction_since_boot: Fact<f64>,
    /// Who decides how fast the processors run.
    pub frequency: Frequency,
    /// Energy counters (RAPL) that can be read by who asked.
    pub energy_zones: Fact<Vec<String>>,
    /// Loop devices.
    pub loop_devices: Fact<LoopDevices>,
    /// Every tool that was looked for.
    pub tools: Vec<Tool>,
    /// Guests that already run here, started by anybody.
    pub running_guests: Fact<Vec<RunningGuest>>,
    /// What was found when guest work was timed.
    pub accelerators: Accelerators,
}

/// What carries out a host's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hardware {
    /// A processor.
    #[default]
    Real,
    /// A processor that a hypervisor shares out: neighbours are in every figure. Older records call it real.
    Virtual,
    /// QEMU's translator: what happens is real, how long it takes means nothing.
    Emulated,
}

/// The signature of QEMU's translator in the hypervisor leaf (`TCG_SIGNATURE`, target/i386/cpu.c in QEMU).
const TRANSLATOR_SIGNATURE: &str = "TCGTCGTCGTCG";

/// The name that people have for a hypervisor, by the signature in its leaf; the signature where it is not known here.
pub fn hypervisor_name(signature: &str) -> &str {
    match signature {
        "KVMKVMKVM" => "KVM",
        TRANSLATOR_SIGNATURE => "QEMU's translator",
        "VMwareVMware" => "VMware",
        "XenVMMXenVMM" => "Xen",
        // Its blank is no graphic character, and is left out.
        "MicrosoftHv" => "Hyper-V",
        other => other,
    }
}

impl HostFacts {
    /// Whether this host is hardware.
    pub fn hardware(&self) -> Hardware {
        self.virtualisation.value().map_or(Hardware::Real, Virtualisation::hardware)
    }
}

impl Virtualisation {
    /// Whether it is hardware that is virtualised, or is not. An emulator that hides is taken for hardware.
    pub fn hardware(&self) -> Hardware {
        match self {
            Self::Guest { hypervisor: Fact::Value(name) } if name == TRANSLATOR_SIGNATURE => {
                Hardware::Emulated
            }
            Self::Guest { .. } => Hardware::Virtual,
            Self::None => Hardware::Real,
        }
    }
}

/// Who asked for the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AskedBy {
    /// Effective user id 0.
    Root,
    /// Anybody else.
    User,
}

/// The running kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// As `uname -r` prints it.
    pub release: Fact<String>,
    /// As `uname -v` prints it: build number and options.
    pub build: Fact<String>,
    /// What the boot loader passed.
    pub command_line: Fact<String>,
    /// The clock the kernel counts time by (`tsc`, `kvm-clock`, `hpet`, …).
    pub clock_source: Fact<String>,
}

/// Whether the host is itself a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Virtualisation {
    /// The processor shows no hypervisor leaf.
    None,
    /// The processor shows a hypervisor leaf.
    Guest {
        /// Its signature (`KVMKVMKVM`, `VMwareVMware`, `TCGTCGTCGTCG`, …), where it could be read.
        hypervisor: Fact<String>,
    },
}

/// Processors and their threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Processors {
    /// Model name as the processor gives it.
    pub model: Fact<String>,
    /// The revision of its microcode (`0xde`). Absent in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<Fact<String>>,
    /// Sockets with at least one thread online.
    pub sockets: Fact<u32>,
    /// Physical cores with at least one thread online.
    pub cores: Fact<u32>,
    /// Threads online: what `vcpus_per_thread` divides by.
    pub threads_online: Fact<u32>,
    /// Each thread online, in the order of its number.
    pub threads: Vec<Thread>,
    /// Threads that exist and are offline. Nothing in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offline: Vec<u32>,
    /// Whether two threads of one core are online anywhere.
    pub smt: Fact<Smt>,
    /// Processor flags that decide what guests can do: `vmx`, `svm`, `ept`, `npt`, `constant_tsc`, `nonstop_tsc`, …
    pub flags: Vec<String>,
}

/// One processor thread that is online.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// The kernel's number for it, as affinity takes it.
    pub id: u32,
    /// Its socket.
    pub socket: Fact<u32>,
    /// Its core, unique only together with the socket.
    pub core: Fact<u32>,
    /// The threads of its core, itself included.
    pub siblings: Vec<u32>,
}

/// Whether cores run two threads at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Smt {
    /// At least one core has two threads online.
    On,
    /// Every core has one thread online.
    Off,
}

/// What the kernel does against one processor weakness.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mitigation {
    /// The kernel's name for the weakness (`spectre_v2`).
    pub weakness: String,
    /// The kernel's own words (`Not affected`, `Mitigation: …`, `Vulnerable`).
    pub state: String,
}

/// One NUMA node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NumaNode {
    /// Its number.
    pub id: u32,
    /// Threads that are near this node's memory.
    pub threads: Vec<u32>,
    /// Its memory in bytes.
    pub memory_bytes: Fact<u64>,
    /// Its pools of huge pages, smallest page first. Nothing in older records.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub huge_pages: Vec<HugePages>,
}

/// Memory, swap and page sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// All memory that the kernel uses, in bytes.
    pub bytes_total: Fact<u64>,
    /// What the kernel believes it could give without swapping, in bytes (`MemAvailable`).
    pub bytes_available: Fact<u64>,
    /// All swap space, in bytes; 0 is a host without swap.
    pub swap_bytes_total: Fact<u64>,
    /// Swap in use, in bytes.
    pub swap_bytes_used: Fact<u64>,
    /// Pools of huge pages, smallest page first.
    pub huge_pages: Fact<Vec<HugePages>>,
    /// The selected word of transparent huge pages (`always`, `madvise`, `never`).
    pub transparent_huge_pages: Fact<String>,
    /// Whether the kernel merges equal pages (KSM).
    pub same_page_merging: Fact<String>,
}

/// One pool of huge pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HugePages {
    /// Size of one page in bytes.
    pub page_bytes: u64,
    /// Pages in the pool.
    pub count_total: u64,
    /// Pages in the pool that nobody uses.
    pub count_free: u64,
}

/// Groups of devices that an IOMMU can hand to a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Iommu {
    /// How many groups there are.
    pub groups: u32,
    /// The kinds of translation in use with their counts (`DMA`, `DMA-FQ`, `identity`), in the order of their names.
    pub kinds: Vec<IommuKind>,
}

/// One kind of translation and how many groups have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IommuKind {
    /// The kernel's word for it.
    pub kind: String,
    /// Groups of that kind.
    pub groups: u32,
}

/// Kernel devices; the value is the device's path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Devices {
    /// `/dev/net/tun`: taps for guests.
    pub tun: Fact<String>,
    /// `/dev/vhost-net`: a guest's packets moved by the kernel instead of by QEMU.
    pub vhost_net: Fact<String>,
    /// `/dev/vhost-vsock`: sockets between host and guest.
    pub vhost_vsock: Fact<String>,
    /// `/dev/vfio/vfio`: devices passed through to guests.
    pub vfio: Fact<String>,
    /// `/dev/kvm`: that it is there says nothing about its use, see [`Accelerators`].
    pub kvm: Fact<String>,
}

/// The version 2 control group tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlGroups {
    /// Where it is mounted.
    pub mount_point: String,
    /// Controllers that this tree can give; those that version 1 holds are not among them.
    pub controllers: Vec<String>,
}

/// Which pressure files can be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PressureFiles {
    /// Of `cpu`, `memory`, `io`.
    pub resources: Vec<String>,
}

/// Who decides how fast the processors run. Virtual machines mostly show none of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Frequency {
    /// `intel_pstate`, `amd-pstate-epp`, `acpi-cpufreq`, …
    pub driver: Fact<String>,
    /// The governors in use, each once.
    pub governors: Fact<Vec<String>>,
    /// Whether a processor may run above its nominal frequency.
    pub turbo: Fact<Turbo>,
}

/// Whether a processor may run above its nominal frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Turbo {
    /// It may.
    On,
    /// It may not.
    Off,
}

impl Turbo {
    /// The word for it in the facts and in what hosts are compared by: `on` or `off`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// Loop devices, through which disk files become disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoopDevices {
    /// Loop devices that exist now; the kernel makes more on demand.
    pub existing: u32,
    /// Of these, with a file behind them.
    pub in_use: u32,
}

/// A program that Tilemark can call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// What it is called (`qemu-system-x86_64`).
    pub name: String,
    /// Where it was found, or where it was looked for and not found.
    pub path: Fact<String>,
    /// What it says its version is.
    pub version: Fact<String>,
}

/// A guest that somebody runs on this host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunningGuest {
    /// Process id.
    pub pid: u32,
    /// The program's file name.
    pub program: String,
    /// The guest's own name (`-name`), where its command line says one.
    pub name: Fact<String>,
}

/// Accelerators that QEMU could use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Accelerators {
    /// The kernel's own.
    pub kvm: Accelerator,
}

/// What timing guest work on an accelerator said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// The outcome in a word.
    pub verdict: AcceleratorVerdict,
    /// Why, in one sentence with its figures.
    pub reason: String,
    /// What was measured; nothing where no guest code could be run.
    pub figures: Option<ProbeFigures>,
}

/// Whether an accelerator is worth using.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AcceleratorVerdict {
    /// Guest kernel-mode work runs at about the host's own speed.
    Usable,
    /// It runs, and far slower than the host.
    TooSlow,
    /// The host has none.
    Absent,
    /// It could not be found out.
    Unknown,
}

/// What the probe measured. Each is a median or a fastest round as said; missing where that part failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeFigures {
    /// Host time for one turn of a loop of 8 plain instructions, in nanoseconds, fastest round.
    pub plain_host_ns: f64,
    /// The same machine code in a guest's kernel mode, fastest round.
    pub plain_guest_ns: Fact<f64>,
    /// Host time for one change of a page's protection by its own kernel with one access, in nanoseconds, fastest round.
    pub tables_host_ns: f64,
    /// Guest kernel mode: one page-table write, one reload of CR3 and one checked access, in nanoseconds, fastest round.
    pub tables_guest_ns: Fact<f64>,
    /// Host time for one `cmpxchg16b`, in nanoseconds, fastest round.
    pub exchange_host_ns: f64,
    /// The same in a guest's kernel mode. An interpreting host may not know this instruction: then missing.
    pub exchange_guest_ns: Fact<f64>,
    /// First touch of a 4 KiB page of guest memory, in nanoseconds, mean.
    pub touch_guest_ns: Fact<f64>,
    /// One I/O port write from the guest to this program and back, in nanoseconds, median.
    pub exit_ns_p50: Fact<f64>,
    /// The same, 99th percentile: a long tail speaks of nesting.
    pub exit_ns_p99: Fact<f64>,
    /// How many such exits were timed.
    pub exits: u64,
    /// Guest instructions that were run in the plain loop, roughly.
    pub instructions: u64,
    /// How long the probe took, in seconds.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turbo_is_called_as_in_the_facts() {
        for turbo in [Turbo::On, Turbo::Off] {
            assert_eq!(serde_json::to_value(turbo).unwrap(), turbo.name());
        }
    }
}
