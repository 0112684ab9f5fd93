//! The load: as a process of its own at the end of a pipe, and inside a guest.

mod clocks;
mod gate;
mod messaging;
mod mix;
mod perform;
mod running;
mod serve;
mod store;
mod store_seconds;
mod sysbench;

pub(crate) use running::RunningLoad;
pub(crate) use serve::serve;
pub(crate) use store::{DATABASE as STORE_DATABASE, engine_of as engine_of_store};
