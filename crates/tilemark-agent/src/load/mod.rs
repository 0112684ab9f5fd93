//! The load: as a process of its own at the end of a pipe, and inside a guest.

mod running;
mod serve;

pub(crate) use running::RunningLoad;
pub(crate) use serve::serve;
