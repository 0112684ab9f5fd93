//! The server as QEMU's command line says it.

use super::materials::Materials;
use std::path::{Path, PathBuf};

/// Numbers under which QEMU is handed descriptors.
pub(super) mod number {
    pub(crate) const AGENT: i32 = 10;
    pub(crate) const OUTPUT: i32 = 11;
    pub(crate) const ERROR: i32 = 12;
    pub(crate) const CONSOLE: i32 = 13;
    pub(crate) const INITRAMFS: i32 = 14;
    pub(crate) const CACHE: i32 = 15;
    pub(crate) const DATA: i32 = 16;
}

/// Memory of each of the two NUMA nodes, in MiB. The host gives what is used.
const NODE_MIB: u32 = 2048;

/// `intel_iommu=on iommu=pt` as servers have it that hand devices to guests. `panic=-1` with `-no-reboot` makes a panic
/// end QEMU; so does a processor that gets nowhere for twice 30 s, or that a guest does not let go of for 90 s: both were
/// seen with a QEMU before 8.1 (docs/decisions/0135-one-thread-before-qemu-8.1.md).
/// `no_timer_check`: on a busy host the kernel's own trial of the timer is over before the emulated one ticks. `tsc=reliable`:
/// the kernel distrusts the counters of several AMD processors without `constant_tsc`. Under the translator they are one counter, the host's. Without
/// this the kernel reads an emulated clock, behind one lock for all processors. It is given that counter's frequency (`counter`), for a kernel that
/// measures it on a busy host is sometimes wrong (docs/decisions/0136-the-counter-of-emulated-guests.md). `mitigations=off`: nobody attacks this server, and the
/// translator would turn each return into several jumps. `nvme_core.multipath=N`: the controller of a newer QEMU could have several paths, and
/// its disk would have no queue of its own then.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 softlockup_panic=1 watchdog_thresh=30 sysctl.kernel.panic_on_rcu_stall=1 rcupdate.rcu_cpu_stall_timeout=90 no_timer_check tsc=reliable mitigations=off nvme_core.multipath=N random.trust_cpu=on net.ifnames=0 intel_iommu=on iommu=pt";

/// The word that gives the kernel the frequency of its counter, after a space; empty where it is not known.
fn counter() -> String {
    tilemark_sys::clock::tsc_khz().map(|khz| format!(" tsc_early_khz={khz}")).unwrap_or_default()
}

/// QEMU's command line, after the program.
pub(super) fn arguments(materials: &Materials) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
    add("-name", "tilemark-lab,debug-threads=on".into());
    add("-machine", "q35,kernel-irqchip=split".into());
    add("-accel", "tcg,thread=multi".into());
    // The translator has no feature by which a processor of AMD shows hardware threads, and KVM there is AMD's.
    let vendor = if materials.has_smt { ",vendor=GenuineIntel" } else { "" };
    add("-cpu", format!("EPYC-v3,+svm,+npt{vendor}"));
    let of_socket = if materials.has_smt { "cores=1,threads=2" } else { "cores=2,threads=1" };
    add("-smp", format!("4,sockets=2,{of_socket}"));
    add("-m", format!("{}M", 2 * NODE_MIB));
    for node in 0..2 {
        add("-object", format!("memory-backend-ram,id=node{node},size={NODE_MIB}M"));
        add("-numa", format!("node,nodeid={node},cpus={}-{},memdev=node{node}", 2 * node, 2 * node + 1));
    }
    add("-kernel", materials.vmlinux.display().to_string());
    add("-initrd", handed(number::INITRAMFS).display().to_string());
    add("-append", format!("{KERNEL_ARGUMENTS}{} {}", counter(), materials.append));
    // Before all others, or they are not behind it.
    add("-device", "intel-iommu,intremap=on,caching-mode=on".into());
    ports(&mut add);
    disk(&mut add, "root", &materials.root, Access::ReadOnly);
    for (index, program) in materials.programs.iter().enumerate() {
        disk(&mut add, &format!("program{index}"), &program.path, Access::ReadOnly);
    }
    disk(&mut add, "cache", &handed(number::CACHE), Access::ReadOnly);
    disk(&mut add, "data", &handed(number::DATA), Access::Writable);
    // Tests read its features and try to move its interrupts; its data does not matter.
    add("-blockdev", "driver=null-co,node-name=nvme,size=16777216,read-zeroes=on".into());
    add("-device", "nvme,drive=nvme,serial=tilemark-nvme".into());
    // The agent's own, and one to be handed on: Debian's kernel for clouds has no driver for it. No cable in either.
    add("-device", "virtio-net-pci,romfile=".into());
    add("-device", "e1000e,romfile=".into());
    all.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned));
    all.extend(["-display", "none"].map(str::to_owned));
    all
}

fn ports(add: &mut impl FnMut(&str, String)) {
    add("-chardev", format!("file,id=console,path=/proc/self/fd/{},append=on", number::CONSOLE));
    add("-serial", "chardev:console".into());
    add("-device", "virtio-serial-pci,max_ports=4".into());
    for (port, number) in [("tilemark", number::AGENT), ("output", number::OUTPUT), ("error", number::ERROR)]
    {
        add("-chardev", format!("socket,id={port},fd={number}"));
        add("-device", format!("virtserialport,chardev={port},name={port}"));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    ReadOnly,
    Writable,
}

fn handed(number: i32) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{number}"))
}

fn disk(add: &mut impl FnMut(&str, String), name: &str, file: &Path, access: Access) {
    // A comma in a file's name is written twice.
    let file = file.display().to_string().replace(',', ",,");
    let read_only = if access == Access::ReadOnly { "on" } else { "off" };
    add(
        "-blockdev",
        format!(
            "driver=raw,node-name={name},read-only={read_only},file.driver=file,file.locking=off,file.filename={file}"
        ),
    );
    add("-device", format!("virtio-blk-pci,drive={name},serial=tilemark-{name}"));
}
