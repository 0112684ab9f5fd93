//! Sysctls and parameters of modules that open the host, that delay the writing of data, or that cannot be taken back.
//!
//! They come before the families with their general patterns.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    module,
    request::Request,
    sysctl,
};
use crate::error::HostError;
use crate::setting::Setting;

const SYSCTL: &str = "Documentation/admin-guide/sysctl";
const IP: &str = "Documentation/networking/ip-sysctl.rst";
const MODULE: &str = "modinfo(8) of the module";

type Make = fn(&Request<'_>) -> Result<Vec<Setting>, HostError>;

const fn security(key: &'static str, about: &'static str, source: &'static str, settings: Make) -> Known {
    Known {
        key,
        about,
        source,
        danger: Danger::Security,
        place: Place::Host,
        accepts: Accepts::Text,
        settings,
    }
}

const fn host(key: &'static str, about: &'static str) -> Known {
    security(key, about, SYSCTL, sysctl::sysctl)
}

/// One whose values cannot all be taken back.
const fn one_way(key: &'static str, about: &'static str) -> Known {
    security(key, about, SYSCTL, reversible)
}

const fn network(key: &'static str, about: &'static str) -> Known {
    Known { place: Place::RunNetwork, ..security(key, about, IP, sysctl::sysctl) }
}

const fn parameter(key: &'static str, about: &'static str) -> Known {
    security(key, about, MODULE, module::named)
}

const fn late(key: &'static str, about: &'static str) -> Known {
    Known { danger: Danger::DataLoss, ..host(key, about) }
}

const fn stability(key: &'static str, about: &'static str, settings: Make) -> Known {
    Known { danger: Danger::Stability, ..security(key, about, SYSCTL, settings) }
}

pub(super) const KNOWN: &[Known] = &[
    late(
        "vm.dirty_writeback_centisecs",
        "how often data that waits to be written is looked for; 0 never writes it by its age, and a power cut loses it",
    ),
    late(
        "vm.dirty_expire_centisecs",
        "the age at which data that waits is written; a power cut loses what is younger",
    ),
    late("vm.laptop_mode", "whether data waits to be written until the disk is used anyway"),
    host("vm.mmap_rnd_bits", "how random the addresses of programs are"),
    host("vm.mmap_rnd_compat_bits", "how random the addresses of programs of 32 bits are"),
    host(
        "vm.legacy_va_layout",
        "whether memory is mapped from the bottom, at addresses that are less random",
    ),
    host(
        "vm.unprivileged_userfaultfd",
        "whether ordinary users may hold the kernel in a page fault, as attacks on it do",
    ),
    host("vm.memfd_noexec", "whether files in memory can be executed"),
    host("vm.hugetlb_shm_group", "the group that may make shared memory of huge pages"),
    stability(
        "vm.drop_caches",
        "drops what files have in memory: a command, which has no value to restore",
        reversible,
    ),
    one_way("kernel.modules_disabled", "whether modules can no longer be loaded"),
    one_way("kernel.kexec_load_disabled", "whether another kernel can no longer be loaded"),
    one_way("kernel.kexec_load_limit_panic", "how often a kernel for a crash may still be loaded"),
    one_way("kernel.kexec_load_limit_reboot", "how often a kernel to boot may still be loaded"),
    one_way("kernel.unprivileged_bpf_disabled", "whether ordinary users may load BPF programs"),
    one_way("kernel.yama.ptrace_scope", "which processes may look into others"),
    stability("kernel.tainted", "what the kernel knows against itself", reversible),
    host("kernel.unprivileged_userns_clone", "whether ordinary users may make user namespaces"),
    host(
        "kernel.unprivileged_userns_apparmor_policy",
        "whether users may load rules of AppArmor for their own namespaces",
    ),
    host("kernel.apparmor_{name}", "what AppArmor keeps from ordinary users"),
    host("kernel.io_uring_disabled", "who may use io_uring"),
    host("kernel.io_uring_group", "the group that may use io_uring where others may not"),
    host("kernel.ftrace_enabled", "whether the kernel's functions can be traced and patched"),
    host("kernel.hotplug", "a program that the kernel runs as root for each new device"),
    host("kernel.poweroff_cmd", "a program that the kernel runs as root to switch the host off"),
    host("kernel.usermodehelper.{name}", "what programs that the kernel runs may do"),
    host("kernel.seccomp.{name}", "what of the rules for system calls is logged"),
    host("user.max_user_namespaces", "how many user namespaces a user may make; 0 forbids them"),
    host("fs.binfmt_misc.{name}", "which programs run files that are not programs themselves"),
    host("dev.tty.legacy_tiocsti", "whether a program may type into a terminal that others read"),
    host("dev.tty.ldisc_autoload", "whether ordinary users load modules by a terminal"),
    host("net.core.bpf_jit_{name}", "how BPF programs are compiled, and what users see of it"),
    network(
        "net.ipv4.conf.{device}.route_localnet",
        "whether packets from outside reach what listens on 127.0.0.1 only",
    ),
    network("net.ipv4.conf.{device}.accept_{name}", "what the host believes from others on the network"),
    network("net.ipv4.conf.{device}.send_redirects", "whether the host sends routes to others"),
    network("net.ipv4.conf.{device}.secure_redirects", "whether routes are taken from known routers alone"),
    network(
        "net.ipv4.conf.{device}.shared_media",
        "whether routes are taken for neighbours of other networks",
    ),
    network("net.ipv4.conf.{device}.proxy_arp", "whether the host answers in the name of others"),
    network("net.ipv4.conf.{device}.bc_forwarding", "whether broadcasts are passed on"),
    network("net.ipv4.conf.{device}.disable_policy", "whether a device is left out of the rules of IPsec"),
    network("net.ipv4.conf.{device}.disable_xfrm", "whether a device is left out of encryption by IPsec"),
    network("net.ipv4.icmp_echo_ignore_broadcasts", "whether a ping to everybody has no answer"),
    network("net.ipv4.ip_unprivileged_port_start", "the first port that ordinary users may listen on"),
    network("net.ipv4.ping_group_range", "the groups that may send pings"),
    network("net.ipv4.tcp_rfc1337", "whether late resets cannot end the wait of a closed connection"),
    network("net.ipv6.conf.{device}.forwarding", "whether packets from a device are passed on"),
    network("net.ipv6.conf.{device}.force_forwarding", "whether packets from a device are passed on"),
    network("net.ipv6.conf.{device}.mc_forwarding", "whether packets to groups are passed on"),
    network(
        "net.ipv6.conf.{device}.accept_{name}",
        "what the host believes from others on the network, such as routers and redirects",
    ),
    network("net.ipv6.conf.{device}.autoconf", "whether routers on the network give the host addresses"),
    network("net.ipv6.conf.{device}.proxy_ndp", "whether the host answers in the name of others"),
    network("net.ipv6.conf.{device}.seg6_{name}", "whether a sender may choose the route by segments"),
    network("net.ipv6.conf.{device}.rpl_seg_enabled", "whether a sender may choose the route by segments"),
    network("net.ipv6.conf.{device}.disable_policy", "whether a device is left out of the rules of IPsec"),
    network(
        "net.netfilter.nf_conntrack_helper",
        "whether connections open ports for others by what they carry",
    ),
    network(
        "net.netfilter.nf_conntrack_tcp_be_liberal",
        "whether packets outside the window of their connection pass the firewall",
    ),
    parameter(
        "module.kvm_intel.vmentry_l1d_flush",
        "whether the first cache is emptied before a guest runs, which keeps guests from reading the host's memory (L1TF)",
    ),
    parameter(
        "module.kvm.mitigate_smt_rsb",
        "whether a guest is kept from the branches of its hardware sibling",
    ),
    parameter(
        "module.vfio_iommu_type1.allow_unsafe_interrupts",
        "whether devices may be given to guests that could send any interrupt to the host",
    ),
    parameter(
        "module.iommufd.allow_unsafe_interrupts",
        "whether devices may be given to guests that could send any interrupt to the host",
    ),
    parameter(
        "module.vfio.enable_unsafe_noiommu_mode",
        "whether devices may be given away that can write all memory of the host",
    ),
    parameter("module.vfio_pci.disable_{parameter}", "which devices are kept from being given away"),
    parameter("module.apparmor.{parameter}", "what AppArmor does with what its rules refuse"),
    parameter("module.usbcore.authorized_default", "whether new USB devices are used without being allowed"),
    parameter("module.kgdboc.{parameter}", "which terminal debugs the kernel"),
    security(
        "module.module.sig_enforce",
        "whether only modules with a signature are loaded",
        MODULE,
        |request| match request.value {
            "0" | "off" | "n" | "N" => module::named(request),
            _ => Err(request.bad("off; on is one way: the kernel keeps it until the next boot")),
        },
    ),
];

/// Values that the kernel takes another one after; it keeps every other one until the next boot.
const REVERSIBLE: [(&str, &[&str]); 8] = [
    ("vm.drop_caches", &["0"]),
    ("kernel.modules_disabled", &["0"]),
    ("kernel.kexec_load_disabled", &["0"]),
    ("kernel.kexec_load_limit_panic", &["-1"]),
    ("kernel.kexec_load_limit_reboot", &["-1"]),
    ("kernel.unprivileged_bpf_disabled", &["0", "2"]),
    ("kernel.yama.ptrace_scope", &["0", "1", "2"]),
    ("kernel.tainted", &["0"]),
];

/// A value after which the old one could not be restored is refused, unless the host has it already.
fn reversible(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let settings = sysctl::sysctl(request)?;
    let known = REVERSIBLE.iter().find(|(key, _)| *key == request.key);
    let values = known.map(|(_, values)| *values).unwrap_or_default();
    let is_there = settings.iter().all(|setting| setting.now().is_ok_and(|now| now == setting.value));
    if is_there || values.contains(&request.value) {
        return Ok(settings);
    }
    let values = values.join(", ");
    Err(request
        .bad(format!("{values}; every other value is one way: the kernel does not take the old one again")))
}
