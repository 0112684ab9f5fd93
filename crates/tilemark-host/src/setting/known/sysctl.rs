//! Every sysctl, under its own name; those with a danger or a peculiarity have a line of their own.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    nearest,
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

const FOLDER: &str = "/proc/sys";
const VM: &str = "Documentation/admin-guide/sysctl/vm.rst";
const KERNEL: &str = "Documentation/admin-guide/sysctl/kernel.rst";
const FS: &str = "Documentation/admin-guide/sysctl/fs.rst";
const NET: &str = "Documentation/admin-guide/sysctl/net.rst";
const IP: &str = "Documentation/networking/ip-sysctl.rst";
const CONNTRACK: &str = "Documentation/networking/nf_conntrack-sysctl.rst";

const fn one(
    key: &'static str,
    about: &'static str,
    source: &'static str,
    danger: Danger,
    place: Place,
) -> Known {
    Known { key, about, source, danger, place, accepts: Accepts::Text, settings: sysctl }
}

/// Of the host, and nothing but speed.
const fn plain(key: &'static str, about: &'static str, source: &'static str) -> Known {
    one(key, about, source, Danger::None, Place::Host)
}

const fn risky(key: &'static str, about: &'static str, source: &'static str) -> Known {
    one(key, about, source, Danger::Stability, Place::Host)
}

const fn guard(key: &'static str, about: &'static str, source: &'static str) -> Known {
    one(key, about, source, Danger::Security, Place::Host)
}

const fn network(key: &'static str, about: &'static str, source: &'static str) -> Known {
    one(key, about, source, Danger::None, Place::RunNetwork)
}

const fn network_guard(key: &'static str, about: &'static str) -> Known {
    one(key, about, IP, Danger::Security, Place::RunNetwork)
}

/// The share of memory and the bytes of it that programs may fill with unwritten data: setting one sets the other to 0.
const fn dirty(key: &'static str, about: &'static str) -> Known {
    Known { settings: with_its_pair, ..plain(key, about, VM) }
}

/// The same of the memory that they may ask for.
const fn overcommit(key: &'static str, about: &'static str) -> Known {
    Known { settings: with_its_pair, ..risky(key, about, VM) }
}

const BRIDGE_ABOUT: &str = "whether frames that cross a bridge pass the rules of netfilter; where the host's firewall is to keep guests \
                            apart, switching it off opens it";

pub(super) const KNOWN: &[Known] = &[
    plain(
        "vm.swappiness",
        "how readily memory of programs is swapped out instead of dropping files from the cache",
        VM,
    ),
    plain("vm.zone_reclaim_mode", "whether a node frees its own memory before it takes another node's", VM),
    dirty(
        "vm.dirty_ratio",
        "percentage of memory with unwritten data at which a program that writes has to wait",
    ),
    dirty("vm.dirty_background_ratio", "percentage of memory with unwritten data at which writing begins"),
    dirty("vm.dirty_bytes", "bytes of unwritten data at which a program that writes has to wait"),
    dirty("vm.dirty_background_bytes", "bytes of unwritten data at which writing begins"),
    risky("vm.overcommit_memory", "whether programs may ask for more memory than there is", VM),
    overcommit("vm.overcommit_ratio", "percentage of memory that programs may ask for"),
    overcommit("vm.overcommit_kbytes", "KiB of memory that programs may ask for"),
    risky("vm.min_free_kbytes", "KiB that are kept free", VM),
    guard("vm.mmap_min_addr", "the lowest address that a program may map", VM),
    risky("vm.{name}", "a value of memory management", VM),
    plain(
        "kernel.numa_balancing",
        "whether memory follows the processors that use it, at the cost of page faults",
        KERNEL,
    ),
    guard("kernel.randomize_va_space", "whether addresses of programs are random", KERNEL),
    guard("kernel.kptr_restrict", "whether the kernel shows its addresses", KERNEL),
    guard("kernel.dmesg_restrict", "whether every user may read the kernel's log", KERNEL),
    guard("kernel.perf_event_paranoid", "what ordinary users may measure with perf", KERNEL),
    guard(
        "kernel.core_pattern",
        "the file, or the program run as root, that gets the memory of a program that crashed",
        KERNEL,
    ),
    guard("kernel.modprobe", "the program that loads modules, as root", KERNEL),
    guard("kernel.sysrq", "which commands the keyboard gives to the kernel", KERNEL),
    risky("kernel.{name}", "a value of the kernel", KERNEL),
    guard("fs.protected_hardlinks", "whether users may link to files of others", FS),
    guard("fs.protected_symlinks", "whether links in folders of everybody are followed", FS),
    guard("fs.protected_fifos", "whether pipes in folders of everybody are opened", FS),
    guard("fs.protected_regular", "whether files in folders of everybody are opened", FS),
    guard("fs.suid_dumpable", "whether programs of root leave their memory in a file when they crash", FS),
    plain("fs.{name}", "a value of file systems", FS),
    Known {
        key: "net.bridge.{name}",
        about: BRIDGE_ABOUT,
        source: "Documentation/networking/bridge.rst",
        danger: Danger::Security,
        place: Place::RunNetwork,
        accepts: Accepts::Text,
        settings: bridge,
    },
    network_guard("net.ipv4.ip_forward", "whether the host passes packets on between networks"),
    network_guard(
        "net.ipv4.tcp_syncookies",
        "whether a flood of connection requests is answered without memory",
    ),
    network_guard(
        "net.ipv4.conf.{device}.rp_filter",
        "whether packets with a sender from another network are dropped",
    ),
    network_guard("net.ipv4.conf.{device}.forwarding", "whether packets from a device are passed on"),
    plain("net.ipv4.tcp_mem", "pages that all TCP sockets of the host may hold: little, pressure, most", IP),
    plain("net.ipv4.udp_mem", "pages that all UDP sockets of the host may hold: little, pressure, most", IP),
    plain("net.ipv4.tcp_max_orphans", "TCP connections of the host that no program holds any more", IP),
    plain("net.ipv4.inet_peer_{name}", "how long the host remembers other hosts", IP),
    plain("net.ipv4.neigh.default.gc_{name}", "how many neighbours the host remembers", IP),
    plain("net.ipv6.neigh.default.gc_{name}", "how many neighbours the host remembers", IP),
    plain(
        "net.ipv4.neigh.default.{name}",
        "how neighbours are looked for by devices that have no value yet",
        IP,
    ),
    plain(
        "net.ipv6.neigh.default.{name}",
        "how neighbours are looked for by devices that have no value yet",
        IP,
    ),
    plain("net.nf_conntrack_max", "connections that netfilter remembers, in all namespaces", CONNTRACK),
    plain(
        "net.netfilter.nf_conntrack_max",
        "connections that netfilter remembers, in all namespaces",
        CONNTRACK,
    ),
    plain(
        "net.netfilter.nf_conntrack_buckets",
        "buckets in which netfilter looks for a connection",
        CONNTRACK,
    ),
    plain("net.netfilter.nf_conntrack_expect_max", "connections that netfilter expects", CONNTRACK),
    plain(
        "net.netfilter.nf_log_all_netns",
        "whether packets of all namespaces may be in the kernel's log",
        CONNTRACK,
    ),
    plain("net.ipv4.route.max_size", "routes that the host remembers; it does nothing since 3.6", IP),
    plain("net.ipv4.route.gc_{name}", "when the host forgets routes", IP),
    plain("net.ipv4.route.error_{name}", "how often the host reports that there is no route", IP),
    plain("net.ipv4.route.redirect_{name}", "how often the host names a better route", IP),
    plain("net.ipv4.tcp_low_latency", "it does nothing since 4.14", IP),
    plain("net.ipv4.tcp_allowed_congestion_control", "congestion controls that every user may choose", IP),
    plain(
        "net.ipv4.fib_sync_mem",
        "bytes of changed routes after which the kernel waits for their readers",
        IP,
    ),
    plain("net.ipv4.ipfrag_secret_interval", "it does nothing since 3.17", IP),
    plain("net.ipv6.ip6frag_secret_interval", "it does nothing since 3.17", IP),
    plain("net.ipv6.mld_{name}", "how multicast groups are joined, in all namespaces", IP),
    plain("net.ipv4.cipso_{name}", "how security labels of packets are remembered and read", IP),
    plain("net.ipv6.calipso_{name}", "how security labels of packets are remembered", IP),
    network(
        "net.ipv4.tcp_congestion_control",
        "how TCP reacts to congestion; the kernel loads the module of one that it lacks, and keeps it",
        IP,
    ),
    network("net.core.somaxconn", "connections that may wait to be accepted", NET),
    network(
        "net.core.optmem_max",
        "bytes that a socket may have beside its data; before 6.8 one value is that of all namespaces, and a run has none of its own",
        NET,
    ),
    network("net.core.rps_default_mask", "processors that handle packets of devices that come", NET),
    network("net.core.txrehash", "whether a connection that stalls tries another way", NET),
    network("net.core.tstamp_allow_data", "whether every user may have packets with their timestamps", NET),
    network("net.core.xfrm_{name}", "a value of IPsec", "Documentation/networking/xfrm_sysctl.rst"),
    plain("net.core.{name}", "a value of the network that all namespaces share", NET),
    network("net.{name}", "a value of one network namespace", IP),
    risky("dev.{name}", "a value of a device", "Documentation/admin-guide/sysctl"),
    risky("debug.{name}", "a value for debugging", "Documentation/admin-guide/sysctl"),
    risky(
        "user.{name}",
        "how many namespaces and the like a user may have",
        "Documentation/admin-guide/sysctl/user.rst",
    ),
    risky(
        "abi.{name}",
        "how the kernel treats programs of another bitness or version",
        "Documentation/admin-guide/sysctl/abi.rst",
    ),
    guard(
        "crypto.{name}",
        "a value of the kernel's cryptography",
        "Documentation/admin-guide/sysctl/crypto.rst",
    ),
    risky("sunrpc.{name}", "a value of NFS", "Documentation/admin-guide/sysctl/sunrpc.rst"),
];

/// Names that kernels had once, and what became of them.
const GONE: &[(&str, &str)] = &[
    (
        "kernel.sched_min_granularity_ns",
        "5.13 moved it to debugfs, and 6.6 replaced it; see `sched.base_slice_ns`",
    ),
    ("kernel.sched_wakeup_granularity_ns", "5.13 moved it to debugfs, and 6.6 removed it"),
    ("kernel.sched_latency_ns", "5.13 moved it to debugfs, and 6.6 removed it"),
    ("kernel.sched_migration_cost_ns", "5.13 moved it to debugfs: use `sched.migration_cost_ns`"),
    ("kernel.sched_nr_migrate", "5.13 moved it to debugfs: use `sched.nr_migrate`"),
    ("kernel.sched_tunable_scaling", "5.13 moved it to debugfs"),
    ("kernel.sched_child_runs_first", "6.6 removed it"),
    ("kernel.sched_compat_yield", "2.6.38 removed it"),
    ("kernel.sched_features", "it is in debugfs, and no sysctl"),
    ("net.ipv4.tcp_tw_recycle", "4.12 removed it, since it broke clients behind one address"),
    ("net.ipv4.tcp_fack", "4.15 made it do nothing, and later kernels removed it"),
    ("vm.nr_pdflush_threads", "2.6.32 gave each device its own thread for writing"),
    ("vm.block_dump", "5.13 removed it"),
];

/// What became of a name that kernels had once.
pub(super) fn became(key: &str) -> Option<&'static str> {
    GONE.iter().find(|(gone, _)| *gone == key).map(|(_, became)| *became)
}

/// The sum of all nodes' huge pages, which the policy of whoever writes it spreads.
const PAGES_BY_POLICY: &str = "/proc/sys/vm/nr_hugepages_mempolicy";

pub(super) fn sysctl(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let path = path_of(request.key);
    if path == PAGES_BY_POLICY {
        return Err(
            request.bad("nothing here, because a sum of nodes cannot be restored: use vm.nr_hugepages")
        );
    }
    if !is_below_its_folder(&path) || !request.root.path(&path).is_file() {
        return Err(absent(request, &path));
    }
    let mut settings = along(request, &path);
    settings.extend(request.file(&path, Form::Words)?);
    Ok(settings)
}

/// How TCP reacts to congestion.
const CONGESTION: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
/// Which ways every user may choose: the kernel adds whatever becomes the default, and leaves it there (`tcp_set_default_congestion_control`).
const CONGESTIONS_OF_USERS: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Values of IPv6 that the kernel gives to every device, and to those that will come, when that of all is written.
const OF_EVERY_DEVICE: [&str; 5] =
    ["forwarding", "force_forwarding", "addr_gen_mode", "ignore_routes_with_linkdown", "disable_ipv6"];

/// What the kernel changes along with a value of all devices: that of each, and with forwarding whether routers may change the routes.
fn along(request: &Request<'_>, path: &str) -> Vec<Setting> {
    const IP4: &str = "/proc/sys/net/ipv4/conf";
    const IP6: &str = "/proc/sys/net/ipv6/conf";
    if path == CONGESTION {
        return request.along(CONGESTIONS_OF_USERS, CONGESTIONS_OF_USERS).into_iter().collect();
    }
    let of_all = path.strip_prefix(IP6).and_then(|rest| rest.strip_prefix("/all/"));
    let (folder, name, further) = match (path, of_all) {
        ("/proc/sys/net/ipv4/ip_forward" | "/proc/sys/net/ipv4/conf/all/forwarding", _) => {
            (IP4, "forwarding", &["all/accept_redirects"][..])
        }
        (_, Some(name)) if OF_EVERY_DEVICE.contains(&name) => (IP6, name, &[][..]),
        _ => return Vec::new(),
    };
    let devices = request.root.names(folder).into_iter().filter(|device| device != "all");
    let files = devices.map(|device| format!("{device}/{name}"));
    let one = |file: String| request.along(&format!("{folder}/{file}"), &format!("{folder}/{file}"));
    files.chain(further.iter().map(ToString::to_string)).filter_map(one).collect()
}

/// IPv6 that is switched off takes the addresses and routes of its devices along.
pub(super) fn one_way(setting: &Setting) -> Option<&'static str> {
    let is_switch = setting.path.ends_with("disable_ipv6") && setting.value != "0";
    let is_lossy = is_switch && setting.now().is_ok_and(|now| now == "0");
    is_lossy.then_some(
        "the kernel drops the IPv6 addresses and routes of the devices, and does not bring them back",
    )
}

/// Whether a path leads to one file by one way only.
fn is_below_its_folder(path: &str) -> bool {
    path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."))
}

/// Both of the pair are held, so that restoring works whichever of the two was in force: the kernel does not take a 0 in bytes, and has it
/// when the ratio is written.
fn with_its_pair(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let mut settings = sysctl(request)?;
    let pair = settings[0].pair().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let other = format!("vm.{}", pair.unwrap_or_default());
    if request.value == "0" && request.key.ends_with("bytes") {
        return Err(request.bad(format!("a number above 0; to have no limit in bytes set {other}")));
    }
    settings.push(request.one(&other, &path_of(&other), Form::Words, "0")?);
    Ok(settings)
}

fn bridge(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let path = path_of(request.key);
    if !is_below_its_folder(&path) {
        return Err(absent(request, &path));
    }
    if !request.root.path(&path).is_file() {
        let why = "the module br_netfilter is not loaded, so no frame on a bridge passes netfilter";
        return Err(request.absent(why, "modprobe br_netfilter, or leave the setting out"));
    }
    request.file(&path, Form::Words)
}

/// Dots part its folders, and a slash is a dot in a name (sysctl(8)); where a slash comes first, it is the other way round.
fn path_of(key: &str) -> String {
    let key = match key.find(['.', '/']) {
        Some(first) if key.as_bytes()[first] == b'.' => key
            .chars()
            .map(|letter| match letter {
                '.' => '/',
                '/' => '.',
                other => other,
            })
            .collect(),
        _ => key.to_owned(),
    };
    format!("{FOLDER}/{key}")
}

/// The key of a file, with its dots and slashes as [`path_of`] takes them.
fn key_of(path: &str) -> String {
    let parts = path.strip_prefix(FOLDER).unwrap_or(path).split('/').filter(|part| !part.is_empty());
    parts.map(|part| part.replace('.', "/")).collect::<Vec<_>>().join(".")
}

/// Where the kernel has a folder of such sysctls, the name is wrong; else a module or a device may be what is not there.
fn absent(request: &Request<'_>, path: &str) -> HostError {
    let (folder, name) = path.rsplit_once('/').unwrap_or((FOLDER, path));
    let there = request.root.names(folder);
    if there.is_empty() {
        return request.absent(format!("there is no {path}"), LEAVE_OUT);
    }
    let near = nearest::among(name, there.iter().map(String::as_str));
    let nearest = near.iter().map(|name| key_of(&format!("{folder}/{name}"))).collect();
    HostError::UnknownSysctl { key: request.key.to_owned(), path: path.to_owned(), nearest }
}
