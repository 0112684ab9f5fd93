//! Static huge pages, of the host or of one node.
//!
//! Of several nodes each has its own count, as the kernel keeps it: restoring only their sum could leave the pages on other nodes.

use super::{
    accepts::Accepts,
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

pub(super) fn pages(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let size: &str = match request.key.split('.').nth(1) {
        Some("2MiB") => "2048kB",
        Some("1GiB") => "1048576kB",
        _ => &default_size(request)?,
    };
    match request.parts.first() {
        Some(node) => on_node(request, node, size),
        None => spread(request, size),
    }
}

/// As the folders of huge pages are named: `2048kB`.
fn default_size(request: &Request<'_>) -> Result<String, HostError> {
    let text = request.root.text("/proc/meminfo").unwrap_or_default();
    let size = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    let size = size.map(|size| size.split_whitespace().collect::<String>());
    size.ok_or_else(|| request.absent("its kernel has no huge pages", LEAVE_OUT))
}

fn on_node(request: &Request<'_>, node: &str, size: &str) -> Result<Vec<Setting>, HostError> {
    let nodes = request.root.nodes();
    if !nodes.iter().any(|found| found.to_string() == node) {
        let nodes = tilemark_units::ranges(&nodes);
        return Err(
            request.absent(format!("there is no node {node} with memory; its nodes are {nodes}"), LEAVE_OUT)
        );
    }
    request.file(&of_node(node, size), Form::Whole)
}

fn spread(request: &Request<'_>, size: &str) -> Result<Vec<Setting>, HostError> {
    let nodes = request.root.nodes();
    if nodes.len() < 2 {
        return request.file(&format!("/sys/kernel/mm/hugepages/hugepages-{size}/nr_hugepages"), Form::Whole);
    }
    let pages: u64 = request.value.parse().map_err(|_| request.bad(Accepts::NUMBER))?;
    let (share, rest) = (pages / nodes.len() as u64, pages % nodes.len() as u64);
    let of = |(place, node): (usize, &u32)| {
        let count = share + u64::from((place as u64) < rest);
        let name = format!("{} on node {node}", request.key);
        request.one(&name, &of_node(&node.to_string(), size), Form::Whole, &count.to_string())
    };
    nodes.iter().enumerate().map(of).collect()
}

fn of_node(node: &str, size: &str) -> String {
    format!("/sys/devices/system/node/node{node}/hugepages/hugepages-{size}/nr_hugepages")
}
