//! Client machines: loads that come from elsewhere.
//!
//! ```text
//! site file -> carrier (ssh, srun, a command): a shell there -> the agent, through the stream -> the protocol of a load process
//! ```
//! `bring.rs` is the shell's part, `line.rs` one client's stream with its signs of life, `reach.rs` all clients of a run, and
//! `look.rs` what `doctor --site` and `plan --site` say about them. What they do in one repeat is in `pass/client_repeat.rs`.

mod bring;
mod line;
pub mod look;
pub(crate) mod reach;

pub(crate) use line::{Brought, ClientLine, ClientLost};
