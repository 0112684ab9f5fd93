//! Static huge pages, of the host or of one node.
//!
//! Of several nodes each has its own count, as the kernel keeps it: restoring only their sum could leave the pages on other nodes.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

const SOURCE: &str = "Documentation/admin-guide/mm/hugetlbpage.rst";

const fn known(
    key: &'static str,
    about: &'static str,
    settings: fn(&Request<'_>) -> Result<Vec<Setting>, HostError>,
) -> Known {
    Known {
        key,
        about,
        source: SOURCE,
        danger: Danger::Stability,
        place: Place::Host,
        accepts: Accepts::NUMBER,
        settings,
    }
}

pub(super) const KNOWN: &[Known] = &[
    known(
        "hugepages.2MiB.node{node}",
        "pages of 2 MiB that a node keeps for programs that ask for them; nothing else can use this memory",
        |request| on_node(request, "2048kB"),
    ),
    known(
        "hugepages.1GiB.node{node}",
        "pages of 1 GiB that a node keeps for programs that ask for them; after the boot they are rarely free",
        |request| on_node(request, "1048576kB"),
    ),
    known(
        "hugepages.2MiB",
        "pages of 2 MiB that the host keeps for programs that ask for them, spread evenly over its nodes",
        |request| spread(request, "2048kB"),
    ),
    known(
        "hugepages.1GiB",
        "pages of 1 GiB that the host keeps for programs that ask for them, spread evenly over its nodes",
        |request| spread(request, "1048576kB"),
    ),
    known(
        "vm.nr_hugepages",
        "huge pages of the default size that the host keeps for programs that ask for them, spread evenly over its nodes",
        |request| spread(request, &default_size(request)?),
    ),
];

/// As the folders of huge pages are named: `2048kB`.
fn default_size(request: &Request<'_>) -> Result<String, HostError> {
    let text = request.root.text("/proc/meminfo").unwrap_or_default();
    let size = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    let size = size.map(|size| size.split_whitespace().collect::<String>());
    size.ok_or_else(|| request.absent("its kernel has no huge pages", LEAVE_OUT))
}

fn on_node(request: &Request<'_>, size: &str) -> Result<Vec<Setting>, HostError> {
    let node = request.parts[0];
    let nodes = request.root.nodes();
    if !nodes.iter().any(|found| found.to_string() == node) {
        let nodes = crate::setting::list_of(&nodes);
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
