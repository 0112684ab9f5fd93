//! The pipeline, the keeper, order and clean-up: the only crate that sees host, guests and load together.
//!
//! The command calls [`run::command::run`] and its siblings; they start a keeper, which starts an engine inside
//! namespaces of the job's own, which does the job (`job/keeper.rs` draws it).
//!
//! Each folder uses only those above it in this list, and `failure.rs`, `stop.rs`, `progress.rs` and `program.rs`, which use no folder.
//! `memory_limit.rs` uses `pass` and those above it; `engine.rs` uses all. `cargo xtask walls` checks it.
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
pub mod job;
mod memory_limit;
pub mod pass;
pub mod plan;
pub mod program;
pub mod progress;
pub mod run;
pub mod standalone;
pub mod stop;

/// The user's own bridge, as the command's flags name it.
pub use tilemark_guests::own_bridge::WantedBridge;

/// Words of the plan that the command's flags are turned into.
pub mod plan_words {
    pub use tilemark_plan::{
        plan::{Backend, shell_word},
        resolve::Sides,
        scenario::Arrival,
    };
    pub use tilemark_units::{Span, counted};
}

use job::keeper;
use program::Program;
use std::process::ExitCode;
use tilemark_sys::files::{set_common_umask, tighten_umask};

/// Does the work of a process that this program started of itself; `None` when a user started it. To be called first of all: from
/// here on no child gets a descriptor that whoever started this program left open.
pub fn internal_main(program: &Program, arguments: &[String]) -> Option<ExitCode> {
    // It fails only where there is no /proc, without which nothing else works either.
    let _ = tilemark_sys::descriptor::keep_from_children();
    tilemark_sys::limits::report_large_files();
    let is_internal = arguments
        .first()
        .is_some_and(|first| [keeper::KEEPER, keeper::INIT, keeper::ENGINE].contains(&first.as_str()));
    if is_internal {
        // Guests and services inherit it too: what they can read must not depend on the caller's umask.
        set_common_umask();
    } else {
        tighten_umask();
    }
    match arguments.split_first()? {
        (first, rest) if first == keeper::KEEPER => Some(keeper::keeper_main(rest)),
        (first, rest) if first == keeper::INIT => Some(keeper::init_main(rest)),
        (first, _) if first == keeper::ENGINE => Some(engine::engine_main(program)),
        (first, _) if first == tilemark_host::accelerator::PROBE_SUBCOMMAND => {
            Some(tilemark_host::accelerator::probe_child().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
        }
        _ => None,
    }
}

/// Says why a test cannot be; in CI that is a failure.
#[cfg(test)]
#[track_caller]
fn skipped(why: &str) {
    println!("skipped: {why}");
    assert!(std::env::var_os("TILEMARK_CI").is_none_or(|value| value != "1"), "skipped in CI: {why}");
}
