//! What every part of this crate asks of the program itself: what it carries, whether root runs it, where its folders are.

use crate::failure::{Failure, FailureCode};
use tilemark_record::places::Places;

/// What the program carries in itself.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// The agent: first process of a guest, init of a native twin, load process.
    pub agent: &'static [u8],
    /// Version of Tilemark.
    pub version: &'static str,
}

/// Whether root asks.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Stops with a remedy unless root asks.
pub fn need_root(what: &str) -> Result<(), Failure> {
    need_root_for(what, "it makes namespaces, mounts and network devices")
}

/// The same, with the reason.
pub(crate) fn need_root_for(what: &str, why: &str) -> Result<(), Failure> {
    if is_root() {
        return Ok(());
    }
    Err(Failure::new(
        FailureCode::HostUnfit,
        format!("{what} needs root: {why}"),
        "run the same command with sudo; `plan`, `report`, `compare`, `runs`, `load`, `doctor` and `host plan` need no root",
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
        return Err(Failure::new(
            FailureCode::BadInput,
            format!("{path:?} is a path {what}"),
            "set TILEMARK_HOME to another folder; commas, colons, spaces and quotes may be in its path",
        ));
    }
    Ok(())
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
