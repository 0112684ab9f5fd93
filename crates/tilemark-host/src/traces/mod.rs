//! What processes that are gone may have left on a host: mounts, loop devices, network devices, namespaces that somebody holds.
//!
//! Nothing here is changed or judged: a caller knows what was there before, and what is its own.

mod loops;
mod namespaces;
mod network_devices;
mod process;

pub use loops::{LoopDevice, loop_devices};
pub use namespaces::{Holder, holders, loop_devices_in, of_process};
pub use network_devices::network_devices;
pub(crate) use process::Stat;
pub use process::{Process, start_ticks};
