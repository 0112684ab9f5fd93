//! A job: what the command has an engine do, and the keeper that takes everything of it away.
//!
//! The command starts a keeper (`command.rs`), which makes the state folder and starts the engine inside namespaces of the job's own
//! (`keeper.rs` draws it). After the job the command reads the host back (`read_back.rs`); what a killed keeper left, the next command removes
//! (`remains.rs`), or `recover.rs`.

pub(crate) mod command;
pub(crate) mod host_journal;
pub(crate) mod host_pids;
pub(crate) mod keeper;
pub mod lock;
pub(crate) mod messages;
pub(crate) mod quiet;
pub(crate) mod read_back;
pub mod recover;
pub(crate) mod remains;
pub(crate) mod resources;
pub(crate) mod state_folder;
pub mod types;
