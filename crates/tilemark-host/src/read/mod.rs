//! Reads [`HostFacts`] from `/proc`, `/sys` and `/dev`.

mod devices;
pub(crate) mod guests;
pub(crate) mod list;
pub(crate) mod memory;
mod processors;
mod system;
mod tools;

pub use system::read_facts;
