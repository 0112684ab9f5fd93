//! The pipeline, the keeper, order and clean-up: the only crate that sees host, guests and load together.
//!
//! The command calls [`measure::run`] and its siblings; they start a keeper, which starts an engine inside
//! namespaces of the job's own, which does the job (`keeper.rs` draws it).

pub mod alone;
pub mod conduct;
mod credentials;
pub mod data;
mod database_disks;
pub mod diagnosis;
mod disk_check;
mod drive;
mod engine;
#[cfg(test)]
mod fakes;
mod figures;
pub mod guests;
mod guests_job;
mod hearing;
#[cfg(test)]
mod hostile_tests;
pub mod image_job;
pub mod images;
pub mod job;
pub mod judge;
mod keeper;
mod listen;
pub mod lock;
pub mod measure;
mod memory;
mod memory_limit;
pub mod messaging;
pub mod more;
mod network_check;
mod of_load;
pub mod password;
mod pipeline;
#[cfg(test)]
mod pipeline_tests;
pub mod plan_text;
mod power;
pub mod prepare;
mod read_back;
pub mod recover;
mod room;
mod run_job;
#[cfg(test)]
mod search_tests;
mod services;
mod state;
pub mod store;
pub mod told;
mod watch;
pub mod wire;
mod world;

/// Words of the plan that the command's flags are turned into.
pub mod plan_words {
    pub use tilemark_plan::{
        plan::{Backend, shell_word},
        resolve::Sides,
        scenario::Arrival,
    };
    pub use tilemark_units::{Span, counted};
}

use sha2::{Digest, Sha256};
use std::process::ExitCode;
use tilemark_record::places::Places;
use tilemark_sys::files::{set_common_umask, tighten_umask};
use wire::{Failure, FailureCode};

/// What the program carries in itself.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The agent: first process of a guest, init of a native twin, load process.
    pub agent: &'static [u8],
    /// Version of Tilemark.
    pub version: &'static str,
}

/// Does the work of a process that this program started of itself; `None` when a user started it. To be called first of all: from
/// here on no child gets a descriptor that whoever started this program left open.
pub fn internal_main(program: &Program, arguments: &[String]) -> Option<ExitCode> {
    // On kernels before 5.11 this does nothing.
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

/// Whether root asks.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Stops with a remedy unless root asks.
pub fn need_root(what: &str) -> Result<(), Failure> {
    if is_root() {
        return Ok(());
    }
    Err(Failure::told(
        FailureCode::HostUnfit,
        format!("{what} needs root: it makes namespaces, mounts and network devices"),
        "run the same command with sudo; `plan`, `report`, `compare`, `runs`, `load` and `doctor` need no root",
    ))
}

/// Refuses folders for our things whose paths cannot be handed on to other processes, or printed, as they are.
///
/// # Errors
/// When a path is not UTF-8, or holds a character that is not printed, such as the end of a line.
pub fn check_places(places: &Places) -> Result<(), Failure> {
    for path in [&places.cache, &places.runs, &places.state] {
        let what = match path.to_str() {
            None => "that is not UTF-8",
            Some(text) if text.contains(char::is_control) => "with a character that is not printed",
            Some(_) => continue,
        };
        return Err(Failure::told(
            FailureCode::BadInput,
            format!("{path:?} is a path {what}"),
            "set TILEMARK_HOME to another folder; commas, colons, spaces and quotes may be in its path",
        ));
    }
    Ok(())
}

/// SHA-256 of bytes, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Says why a test cannot be; in CI that is a failure.
#[cfg(test)]
#[track_caller]
fn skipped(why: &str) {
    println!("skipped: {why}");
    assert!(std::env::var_os("TILEMARK_CI").is_none_or(|value| value != "1"), "skipped in CI: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

    #[test]
    fn a_home_that_cannot_be_handed_on_is_refused_by_name() {
        let places = |home: &[u8]| {
            let home = Path::new(OsStr::from_bytes(home));
            Places { cache: home.join("cache"), runs: home.join("runs"), state: home.join("state") }
        };
        check_places(&places(b"/a,b:c d'\"%\\")).unwrap();
        for (home, named) in
            [(&b"/a\nb"[..], "\"/a\\nb/cache\""), (b"/a\x1b[2J", "\\u{1b}"), (b"/a\xff", "\\xFF")]
        {
            let refused = check_places(&places(home)).unwrap_err();
            assert!(refused.message.contains(named), "{refused:?}");
            assert_eq!(refused.code, FailureCode::BadInput);
        }
    }
}
