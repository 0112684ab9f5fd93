//! Settings of the host that Tilemark holds at another value for a while.
//!
//! ```text
//! read -> journal (text found, boot; synced) -> write -> read back          refused: what was written so far is restored
//!                     |                                    |
//!                     +------ killed at any moment --------+---> restore: ours -> write the text found -> read back
//!                                                                         as found -> nothing to do
//!                                                                         another value -> left alone, named with all three
//! ```
//! A setting is where it is read and written ([`Reach`], mostly a file), how its text is read ([`Form`]) and the value it is to have. A
//! journal holds all that restoring needs, so `recover` restores what another version changed. [`known`] is the catalogue of the
//! settings that a user may name.

mod journal;
mod kernel_value;
pub mod known;
pub mod memory_controller;
mod reach;
pub mod wake_limit;

pub use journal::{Held, Journal, Now, Outcome};
pub use kernel_value::{Form, Setting};
pub use reach::{LibvirtLimit, Limit, NicValue, NvmeCoalescing, Reach};
