//! Reads what a host is, times its accelerators, says what it lacks, watches it while it is loaded.
//!
//! [`read_facts`] turns `/proc` and `/sys` into the `HostFacts` that a plan is resolved against; [`accelerator`] times guest
//! work; [`doctor`] says what each shortfall costs and how to end it; [`telemetry`] reads processors, memory, disks and
//! processes each second; [`placement`] where threads and memory of a process are; [`KernelLog`] reads errors that the kernel reports;
//! [`cgroup`] groups processes so that they can be ended whole; [`setting`] holds values of the kernel at others for a while; [`pin`] binds
//! running guests; [`traces`] finds what is left of processes that are gone. It knows
//! processes, not guests.

pub mod accelerator;
pub mod cgroup;
pub mod doctor;
mod error;
pub mod exchange;
mod kernel_log;
pub mod pin;
pub mod placement;
mod read;
pub mod setting;
pub mod telemetry;
pub mod traces;
mod view;

/// For `derive(JsonSchema)`: schemars' own, or without the feature `schema` one that derives nothing.
#[cfg(feature = "schema")]
pub(crate) use schemars::JsonSchema;
#[cfg(not(feature = "schema"))]
pub(crate) use tilemark_schema::JsonSchema;

pub use error::HostError;
pub use kernel_log::KernelLog;
pub use read::{list::parse_list, read_facts};
pub use view::{HostView, LiveHost, TreeHost};
