//! Where the kernel had guests while a repeat was measured, beside where the plan puts them.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where guests were about in the middle of a repeat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceFigures {
    /// How long it took to read all of it, in milliseconds.
    pub took_ms: f64,
    /// Each guest.
    pub guests: Vec<GuestPlaceFigures>,
    /// Which processors served interrupts of devices, from the start of the loads until then. Absent in older records, and where the
    /// kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupts: Option<InterruptFigures>,
}

/// Interrupts of devices, which stay where the host has them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InterruptFigures {
    /// How many were served on processors of guests.
    pub on_guests: u64,
    /// How many were served on processors that only the load uses.
    pub on_load: u64,
    /// How many were served on any other processor.
    pub elsewhere: u64,
}

/// Where one guest was.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuestPlaceFigures {
    /// Its name, such as `tile-003-web`.
    pub guest: String,
    /// Whether the plan puts it in a place: only then something of it can be elsewhere.
    pub is_planned: bool,
    /// Its threads on the host; those that are elsewhere first, then at most 64 others.
    pub threads: Vec<ThreadFigures>,
    /// How many threads it had.
    pub threads_count: u32,
    /// How many of them may run, or ran last, where the plan does not have them.
    pub threads_elsewhere: u32,
    /// Bytes of its memory by NUMA node.
    pub memory_bytes: BTreeMap<u32, u64>,
    /// How many of these bytes are on another node than the plan's.
    pub memory_bytes_elsewhere: u64,
    /// Why something of it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// One thread of a guest on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFigures {
    /// Its name: `CPU 0/KVM` is the first virtual processor of a guest in QEMU.
    pub name: String,
    /// Processors that the plan has it on, as the kernel lists them (`0-3,8`). Empty where it has it on no certain ones.
    pub planned: String,
    /// Processors that the kernel lets it use.
    pub allowed: String,
    /// The processor that it last ran on.
    pub ran_on: u32,
    /// Whether one of the two is none of the plan's.
    pub is_elsewhere: bool,
}
