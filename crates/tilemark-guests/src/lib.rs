//! Guests of each backend (kvm, emulated, native): who manages them, templates, clones and the run network.
//!
//! Everything here happens inside a run's own PID, mount and network namespaces, as root: whatever this crate
//! makes ends with them, also when nothing of it gets to clean up. It starts guests and talks to their agents; what
//! their users ask of them is no matter of this crate.

mod console;
mod conversation;
mod disks;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod gone;
mod group;
mod manager;
mod native;
mod network;
pub mod own_bridge;
mod own_disk;
mod process_tree;
mod qemu;
mod ready;
#[cfg(feature = "fake")]
#[allow(clippy::unwrap_used, clippy::missing_panics_doc)]
pub mod specification;

pub use console::ConsoleTail;
pub use conversation::{AgentConversation, AgentSession};
pub use disks::{DiskFolders, disk_file_name, is_data_disk};
pub use error::GuestError;
pub use manager::{GuestId, GuestManager, GuestState, Origin, StartMode, TemplateId};
pub use native::{NativeManager, NativeSettings};
pub use network::{
    BRIDGE, GUESTS_MAX, RunNetwork, Uplink, is_named_as_ours, missing_wall, port_name, remove_uplink,
    uplink_name,
};
pub use process_tree::processes_below;
pub use qemu::{
    Accelerator, BootFiles, QEMU_ARGUMENTS, QemuLists, QemuManager, QemuSettings, QemuVersion,
    USUAL_FIRMWARE, USUAL_MACHINE, find_firmware, find_qemu, loads_kernels,
};
pub use ready::{
    CLOCK_BOUND, Expected, ReadyGuest, ReadySteps, StartEvent, Wanted, describe, make_ready, start_all_ready,
    start_all_ready_while, start_ready, stop_all, write_working_sets,
};
pub use tilemark_netlink::PortCounts;
