//! Reads [`HostFacts`] from `/proc`, `/sys` and `/dev`.

mod devices;
mod guests;
pub(crate) mod list;
mod memory;
mod processors;
mod system;
mod tools;

pub use system::read_facts;
