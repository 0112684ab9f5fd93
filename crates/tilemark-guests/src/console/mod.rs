//! Consoles of guests: read by us, kept in bounds, fit to be shown.
//!
//! A guest writes into a pipe. One thread reads all pipes of a manager and keeps the first and the last MiB of each console
//! in a file. Who writes faster than that thread reads waits: a pipe that is full blocks a native twin's process, and QEMU
//! leaves the guest's serial port busy until there is room. Nothing is lost in the pipe; what is left out of the file is counted
//! there.

mod excerpt;
mod reader;
mod tail;

pub(crate) use reader::{Console, Consoles};
pub use tail::ConsoleTail;
