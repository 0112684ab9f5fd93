//! What placement needs to know of a host.

use crate::JsonSchema;
use crate::facts::HostFacts;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use tilemark_units::Bytes;

/// Nodes, cores and free huge pages of a host. All empty in records from before they were kept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Topology {
    /// Its NUMA nodes by their numbers. Empty where the kernel shows none.
    pub nodes: Vec<HostNode>,
    /// The threads of each core that are online: one, or two and more with SMT.
    pub cores: Vec<Vec<u32>>,
    /// Threads that exist and are offline.
    pub offline: Vec<u32>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostNode {
    /// Its number.
    pub id: u32,
    /// Its threads that are online.
    pub threads: Vec<u32>,
    /// Its memory, where it could be read.
    pub memory: Option<Bytes>,
    /// Its huge pages that nobody uses, by size.
    pub huge_pages: Vec<FreeHugePages>,
}

/// Huge pages of one size that nobody uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FreeHugePages {
    /// Size of one page.
    pub size: Bytes,
    /// How many there are.
    pub free: u64,
    /// How many the pool has, used or not. 0 in older records.
    #[serde(default)]
    pub total: u64,
}

impl HostNode {
    /// Its memory that is in pools of huge pages.
    pub(super) fn in_pools(&self) -> Bytes {
        self.huge_pages.iter().map(|pool| Bytes::new(pool.size.get().saturating_mul(pool.total))).sum()
    }
}

impl Topology {
    /// From what was read of a host.
    pub fn of(facts: &HostFacts) -> Self {
        let online: BTreeSet<u32> = facts.processors.threads.iter().map(|thread| thread.id).collect();
        let core = |siblings: &[u32]| {
            let mut threads: Vec<u32> = siblings.iter().copied().filter(|id| online.contains(id)).collect();
            threads.sort_unstable();
            threads
        };
        let cores: BTreeSet<Vec<u32>> =
            facts.processors.threads.iter().map(|thread| core(&thread.siblings)).collect();
        let node = |node: &crate::facts::NumaNode| HostNode {
            id: node.id,
            threads: node.threads.iter().copied().filter(|id| online.contains(id)).collect(),
            memory: node.memory_bytes.value().map(|bytes| Bytes::new(*bytes)),
            huge_pages: node
                .huge_pages
                .iter()
                .map(|pool| FreeHugePages {
                    size: Bytes::new(pool.page_bytes),
                    free: pool.count_free,
                    total: pool.count_total,
                })
                .collect(),
        };
        Self {
            nodes: facts.numa_nodes.value().map_or_else(Vec::new, |nodes| nodes.iter().map(node).collect()),
            cores: cores.into_iter().filter(|threads| !threads.is_empty()).collect(),
            offline: facts.processors.offline.clone(),
        }
    }

    /// Huge pages of a size that nobody uses, on one node or on all.
    pub(super) fn free_huge_pages(&self, size: Bytes, node: Option<u32>) -> u64 {
        let nodes = self.nodes.iter().filter(|known| node.is_none_or(|id| known.id == id));
        nodes.flat_map(|node| &node.huge_pages).filter(|pool| pool.size == size).map(|pool| pool.free).sum()
    }
}
