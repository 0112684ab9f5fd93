//! Where the kernel had guests and their load while a repeat was measured, beside where the plan puts them.

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
    /// The threads of this host that send load. Absent in older records, and where none do: the loads run in guests or on client machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadPlaceFigures>,
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

/// Where the load of this host was: threads that send it or count what was sent, and those of a program of the user's own that runs beside
/// it. Threads that pass on what these report are not among them, since they may run anywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadPlaceFigures {
    /// Its threads; those that are elsewhere first, then at most 64 others.
    pub threads: Vec<ThreadFigures>,
    /// How many threads it had.
    pub threads_count: u32,
    /// How many of them may run, or ran last, where the plan does not have them.
    pub threads_elsewhere: u32,
    /// Why something of it could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// One thread of a guest or of the load on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadFigures {
    /// Its name: `CPU 0/KVM` is the first virtual processor of a guest in QEMU, `load-0` the first sender of a load, and `load-store` one
    /// that works for the load `store`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_record_knows_no_threads_of_the_load_and_keeps_them_unknown() {
        let older = r#"{"took_ms":1.5,"guests":[]}"#;
        let read: PlaceFigures = serde_json::from_str(older).unwrap();
        assert_eq!(read.load, None);
        assert_eq!(serde_json::to_string(&read).unwrap(), older);
    }
}
