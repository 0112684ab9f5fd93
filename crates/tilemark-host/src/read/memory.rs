//! Memory, swap, page sizes and NUMA nodes.

use tilemark_plan::facts::{Fact, HugePages, Memory, NumaNode};

use super::list::{missing, number, parse_list};
use super::system::transparent_huge_pages;
use crate::view::HostView;

const NODES: &str = "/sys/devices/system/node";
const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

pub(super) fn memory(host: &dyn HostView) -> Memory {
    let path = "/proc/meminfo";
    let text = host.read(path);
    let bytes = |key: &str| match &text {
        Err(error) => missing(path, error),
        Ok(text) => meminfo(text, key).map_or_else(|| missing(path, format!("no `{key}`")), Fact::Value),
    };
    let swap_bytes_total = bytes("SwapTotal");
    let swap_bytes_used = match (&swap_bytes_total, bytes("SwapFree")) {
        (Fact::Value(total), Fact::Value(free)) => Fact::Value(total.saturating_sub(free)),
        (Fact::Missing(reason), _) => Fact::Missing(reason.clone()),
        (_, Fact::Missing(reason)) => Fact::Missing(reason),
    };
    Memory {
        bytes_total: bytes("MemTotal"),
        bytes_available: bytes("MemAvailable"),
        swap_bytes_total,
        swap_bytes_used,
        huge_pages: huge_pages(host),
        transparent_huge_pages: transparent_huge_pages(host),
        same_page_merging: match number::<u32>(host, "/sys/kernel/mm/ksm/run") {
            Fact::Missing(reason) => Fact::Missing(reason),
            Fact::Value(1) => Fact::Value("on".into()),
            Fact::Value(_) => Fact::Value("off".into()),
        },
    }
}

/// A field of meminfo in bytes; the file counts in KiB though it writes kB. The node's file puts `Node N` in front.
fn meminfo(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let name = name.split_whitespace().next_back()?;
        let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
        (name == key).then_some(kib)?.checked_mul(1024)
    })
}

fn huge_pages(host: &dyn HostView) -> Fact<Vec<HugePages>> {
    match pools(host, HUGE_PAGES) {
        Err(error) => missing(HUGE_PAGES, error),
        Ok(pools) => Fact::Value(pools),
    }
}

/// The pools in a folder, of the host or of one node, smallest page first.
fn pools(host: &dyn HostView, folder: &str) -> std::io::Result<Vec<HugePages>> {
    let names = host.list(folder)?;
    let mut pools: Vec<HugePages> = names.iter().filter_map(|name| pool(host, folder, name)).collect();
    pools.sort_unstable_by_key(|pool| pool.page_bytes);
    Ok(pools)
}

fn pool(host: &dyn HostView, folder: &str, name: &str) -> Option<HugePages> {
    let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    let count = |file: &str| number(host, &format!("{folder}/{name}/{file}")).value().copied();
    Some(HugePages {
        page_bytes: kib.checked_mul(1024)?,
        count_total: count("nr_hugepages")?,
        count_free: count("free_hugepages")?,
    })
}

pub(crate) fn numa_nodes(host: &dyn HostView) -> Fact<Vec<NumaNode>> {
    let path = format!("{NODES}/online");
    let ids = match host.read(&path) {
        Err(error) => return missing(&path, error),
        Ok(text) => match parse_list(&text) {
            Some(ids) => ids,
            None => return missing(&path, format!("`{}` is not a valid list of nodes", text.trim())),
        },
    };
    Fact::Value(ids.into_iter().map(|id| node(host, id)).collect())
}

fn node(host: &dyn HostView, id: u32) -> NumaNode {
    let path = format!("{NODES}/node{id}/meminfo");
    let threads = host.read(&format!("{NODES}/node{id}/cpulist")).ok().and_then(|text| parse_list(&text));
    NumaNode {
        id,
        // A kernel without huge pages has no such folder.
        huge_pages: pools(host, &format!("{NODES}/node{id}/hugepages")).unwrap_or_default(),
        threads: threads.unwrap_or_else(Vec::new), // a node without processors has an empty list, too
        memory_bytes: match host.read(&path) {
            Err(error) => missing(&path, error),
            Ok(text) => {
                meminfo(&text, "MemTotal").map_or_else(|| missing(&path, "no `MemTotal`"), Fact::Value)
            }
        },
    }
}
