//! A run: one execution of a plan, from the command that asks for it to the closed record.
//!
//! `command.rs` is the command's side and `engine.rs` the engine's. `pipeline.rs` decides which pass is next: those that were planned,
//! those of a search (`search.rs`), those that
//! confirm a screening (`screening.rs`), and repeats that were discarded and are
//! retried. `keep.rs` writes what paid as a profile.

pub mod command;
pub mod compare;
pub mod continue_record;
pub(crate) mod engine;
mod idle_power;
mod interference;
mod job_sizes;
pub mod keep;
mod limits;
pub(crate) mod pipeline;
#[cfg(test)]
mod pipeline_tests;
pub mod record;
pub mod result;
mod screening;
mod search;
#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod settings_tests;
#[cfg(test)]
mod several_tests;
pub mod trend;
