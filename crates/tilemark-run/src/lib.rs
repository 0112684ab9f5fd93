//! The pipeline, the keeper, order and clean-up: the only crate that sees host, guests and load together.
//!
//! The command calls [`run::command::run`] and its siblings; they start a keeper, which starts an engine inside
//! namespaces of the job's own, which does the job (`job/keeper.rs` draws it).
//!
//! Each folder uses only those above it in this list, and `failure.rs`, `stop.rs`, `progress.rs` and `program.rs`, which use no folder.
//! `memory_limit.rs` uses `pass` and those above it; `engine.rs` uses all, and `internal.rs` starts it. `cargo xtask walls` checks it.
//!
//! ```text
//! guests      what guests serve; how they are cloned, booted or made as twins
//! job         command, keeper and engine of a job; its state, its lock, its disk space; what is left of it
//! host        the host's settings by profile; running guests bound to nodes
//! plan        from what was asked to a plan
//! clients     client machines: their agents are brought, heard and asked
//! pass        one repeat of one point: guests, loads, the host watched, figures
//! image       images: built, listed, moved
//! run         one execution of a plan: which pass is next, the record, its result
//! guests_up   guests that stay
//! standalone  loads and data without a keeper
//! ```

pub mod clients;
mod engine;
pub mod failure;
#[cfg(test)]
mod fakes;
mod guests;
pub mod guests_up;
pub mod host;
pub mod image;
mod internal;
pub mod job;
mod memory_limit;
pub mod pass;
pub mod plan;
pub mod program;
pub mod progress;
pub mod run;
pub mod standalone;
pub mod stop;
#[cfg(test)]
mod test_needs;

pub use internal::internal_main;
/// The user's own bridge, as the command's flags name it.
pub use tilemark_guests::own_bridge::WantedBridge;

/// Words of the plan that the command's flags are turned into.
pub mod plan_words {
    pub use tilemark_plan::{
        interference::CONFIRM_BLOCKS,
        plan::{Backend, shell_word},
        resolve::Sides,
        scenario::Arrival,
    };
    pub use tilemark_units::{Span, counted};
}
