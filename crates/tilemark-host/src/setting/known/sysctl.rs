//! Sysctls, under their own names.

use super::{
    nearest,
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

const FOLDER: &str = "/proc/sys";

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
pub(super) fn with_its_pair(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let mut settings = sysctl(request)?;
    let pair = settings[0].pair().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let other = format!("vm.{}", pair.unwrap_or_default());
    if request.value == "0" && request.key.ends_with("bytes") {
        return Err(request.bad(format!("a number above 0; to have no limit in bytes set {other}")));
    }
    settings.push(request.one(&other, &path_of(&other), Form::Words, "0")?);
    Ok(settings)
}

pub(super) fn bridge(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
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
