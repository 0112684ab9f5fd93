//! Processors, cores and threads.

use std::collections::BTreeSet;

use tilemark_plan::facts::{Fact, Processors, Smt, Thread};

use super::list::{missing, number, parse_list};
use crate::view::HostView;

const FOLDER: &str = "/sys/devices/system/cpu";
/// The flags that decide what guests can do and whether time can be trusted; the others are noise in a record.
const FLAGS: [&str; 13] = [
    "vmx",
    "svm",
    "ept",
    "npt",
    "vpid",
    "constant_tsc",
    "nonstop_tsc",
    "tsc_known_freq",
    "x2apic",
    "pdpe1gb",
    "aes",
    "avx2",
    "avx512f",
];

pub(super) fn processors(host: &dyn HostView) -> Processors {
    let cpuinfo = host.read("/proc/cpuinfo");
    let field = |wanted: &str| {
        let text = cpuinfo.as_ref().ok()?;
        let line =
            text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == wanted))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let flags = field("flags").map_or_else(Vec::new, |flags| {
        flags.split_whitespace().filter(|flag| FLAGS.contains(flag)).map(str::to_owned).collect()
    });
    let model = field("model name").map_or_else(|| missing("/proc/cpuinfo", "no `model name`"), Fact::Value);
    let microcode =
        field("microcode").map_or_else(|| missing("/proc/cpuinfo", "no `microcode`"), Fact::Value);
    let threads = threads(host);
    let online: Fact<u32> = match &threads {
        Fact::Missing(reason) => Fact::Missing(reason.clone()),
        Fact::Value(threads) => Fact::Value(threads.len() as u32),
    };
    let threads = match threads {
        Fact::Value(threads) => threads,
        Fact::Missing(_) => Vec::new(),
    };
    Processors {
        offline: offline(host, &threads),
        model,
        microcode: Some(microcode),
        sockets: count(&threads, |thread| thread.socket.value().copied()),
        cores: count(&threads, |thread| {
            Some((thread.socket.value().copied()?, thread.core.value().copied()?))
        }),
        threads_online: online,
        smt: smt(&threads),
        threads,
        flags,
    }
}

/// Threads that the kernel knows and does not run anything on.
fn offline(host: &dyn HostView, online: &[Thread]) -> Vec<u32> {
    let present = host.read(&format!("{FOLDER}/present")).ok().and_then(|text| parse_list(&text));
    let mut offline = present.unwrap_or_default();
    offline.retain(|id| online.iter().all(|thread| thread.id != *id));
    offline
}

fn threads(host: &dyn HostView) -> Fact<Vec<Thread>> {
    let path = format!("{FOLDER}/online");
    match host.read(&path) {
        Err(error) => missing(&path, error),
        Ok(text) => match parse_list(&text) {
            Some(ids) if !ids.is_empty() => Fact::Value(ids.into_iter().map(|id| thread(host, id)).collect()),
            _ => missing(&path, format!("`{}` is not a valid list of processors", text.trim())),
        },
    }
}

fn thread(host: &dyn HostView, id: u32) -> Thread {
    let topology = format!("{FOLDER}/cpu{id}/topology");
    let siblings =
        host.read(&format!("{topology}/thread_siblings_list")).ok().and_then(|text| parse_list(&text));
    Thread {
        id,
        socket: number(host, &format!("{topology}/physical_package_id")),
        core: number(host, &format!("{topology}/core_id")),
        siblings: siblings.unwrap_or_else(|| vec![id]),
    }
}

/// How many different values there are; missing as soon as one thread has none.
fn count<T: Ord>(threads: &[Thread], key: impl Fn(&Thread) -> Option<T>) -> Fact<u32> {
    let keys: Option<BTreeSet<T>> = threads.iter().map(key).collect();
    match keys {
        Some(keys) if !keys.is_empty() => Fact::Value(keys.len() as u32),
        _ => missing(FOLDER, "the topology of some thread cannot be read"),
    }
}

fn smt(threads: &[Thread]) -> Fact<Smt> {
    if threads.is_empty() {
        return missing(FOLDER, "no thread could be read");
    }
    let online: BTreeSet<u32> = threads.iter().map(|thread| thread.id).collect();
    let shared = threads
        .iter()
        .any(|thread| thread.siblings.iter().filter(|sibling| online.contains(sibling)).count() > 1);
    Fact::Value(if shared { Smt::On } else { Smt::Off })
}
