//! The load: as a process of its own at the end of a pipe, inside a guest, and on a client machine.

mod client;
mod client_machine;
mod running;
mod serve;

pub(crate) use client::serve_client;
pub(crate) use running::RunningLoad;
pub(crate) use serve::serve;
