//! What a process does that this program started of itself: the keeper, init, the engine, and the probe of the accelerator.

use crate::{engine, job::keeper, program::Program};
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
