//! Where a guest is.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use tilemark_units::Bytes;

/// Where a guest is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GuestPlace {
    /// Host threads that each of its virtual processors may use, in their order. Of a native twin: one thread for each.
    pub vcpus: Vec<Vec<u32>>,
    /// Host threads for all else of it: QEMU's main loop and what does its input and output.
    pub emulator: Vec<u32>,
    /// NUMA nodes that its memory comes from. Empty: from any, as the kernel chooses.
    pub nodes: Vec<u32>,
    /// The NUMA nodes that it sees itself, each the mirror of a real one. Empty: one, which is not bound to a part of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_nodes: Vec<VirtualNode>,
}

/// A NUMA node of a guest, with the same processors and memory as a part of a real one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualNode {
    /// The real node.
    pub node: u32,
    /// The guest's first virtual processor in it.
    pub first_vcpu: u32,
    /// How many of them are in it.
    pub vcpus: u32,
    /// Its memory.
    pub memory: Bytes,
}

impl GuestPlace {
    /// All host threads that something of the guest may use, sorted.
    pub fn processors(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.vcpus.iter().flatten().chain(&self.emulator).copied().collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
