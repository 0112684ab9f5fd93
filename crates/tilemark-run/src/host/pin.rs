//! Running third-party guests are bound to nodes or processors by a file, and their old binding is restored.

use crate::{
    failure::{Failure, FailureCode, place_distrusted, state_failed},
    host::binders::binders,
    job::state_folder::boot_id,
    progress::Listener,
    stop::interrupted,
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fs::{File, TryLockError},
    io::{Read, Seek, Write},
    path::Path,
    thread,
    time::{Duration, Instant},
};
use tilemark_host::{
    pin::{
        Followed, LiveProcesses, Machine, PinError, PinJournal, PinMap, PinReport, Processes, pin, pin_again,
        unpin,
    },
    setting::known::Root,
};
use tilemark_record::{lock_within, places::Places};
use tilemark_sys::{
    files::{make_private_folder, open_private},
    text_file::read_text,
};
use tilemark_units::counted;

pub use super::binders::Binder;
pub use tilemark_host::pin::{Pinned, ThreadBinding, Unpinned};

/// Largest file of globs that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The journal and the lock, in the state folder.
const JOURNAL: &str = "pins.json";
const LOCK: &str = "pins.lock";
/// Who has just left it may still hold it: a process that is being started holds copies of all open files for a moment.
const LOCKED_WITHIN: Duration = Duration::from_secs(1);
/// How often new guests are looked for.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// How soon Ctrl-C is heard.
const BETWEEN_INTERRUPT_LOOKS: Duration = Duration::from_millis(50);

/// How long guests are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looking {
    /// Guests that run now.
    Once,
    /// Until Ctrl-C, guests that are started later too.
    UntilInterrupted,
}

/// What was done.
#[derive(Debug, Serialize)]
pub struct PinsDone {
    /// Each guest that runs.
    #[serde(flatten)]
    pub report: PinReport,
    /// Programs that run and bind guests too.
    pub binders: Vec<Binder>,
}

/// What was undone.
#[derive(Debug, Serialize)]
pub struct Undone {
    /// Each guest that still runs.
    pub guests: Vec<Unpinned>,
}

impl Undone {
    /// Whether every thread that was ours has what it had.
    pub fn is_whole(&self) -> bool {
        self.guests.iter().all(|guest| guest.left_alone.is_empty() && guest.failed.is_empty())
    }
}

/// Binds the running guests that the file names; they stay bound until [`undo`], or until they end.
///
/// # Errors
/// Where the file cannot be followed on this host, no running guest is named in it (unless they are waited for), another one is at it, or
/// the journal cannot be written.
pub fn pin_guests(
    places: &Places,
    file: &Path,
    looking: Looking,
    listener: &mut dyn Listener,
) -> Result<PinsDone, Failure> {
    let map = read_map(file)?;
    let _lock = lock(&places.state)?;
    let journal = journal(&places.state)?;
    match looking {
        Looking::Once => {
            let report = pin(&LiveProcesses, &journal, &map).map_err(failed)?;
            if report.pinned.is_empty() && report.refused.is_empty() {
                return Err(no_guest(file, &report));
            }
            Ok(PinsDone { report, binders: binders(&Root::real()) })
        }
        Looking::UntilInterrupted => watch(&journal, &map, listener),
    }
}

/// Gives all guests that were bound and still run what they had.
///
/// # Errors
/// Where another one is at it, or the journal cannot be read or written.
pub fn undo(places: &Places) -> Result<Undone, Failure> {
    let _lock = lock(&places.state)?;
    let guests = unpin(&LiveProcesses, &journal(&places.state)?).map_err(failed)?;
    Ok(Undone { guests })
}

fn read_map(file: &Path) -> Result<PinMap, Failure> {
    let text = read_text(file, FILE_BYTES_MAX).map_err(|error| {
        let message = format!("cannot read {}", file.display());
        Failure::caused_by(&error, FailureCode::BadInput, message, "check the path")
    })?;
    PinMap::parse(&text, &Machine::of(LiveProcesses.host())).map_err(|error| match error {
        PinError::Map { problems } => Failure {
            causes: problems,
            ..Failure::new(
                FailureCode::BadInput,
                format!("{} cannot be followed on this host", file.display()),
                "write one guest a line: a name, in which * and ? are wildcards, then nodes (`web-* 0-1`) or processors (`db cpus 4-7`)",
            )
        },
        other => failed(other),
    })
}

fn watch(journal: &PinJournal, map: &PinMap, listener: &mut dyn Listener) -> Result<PinsDone, Failure> {
    let mut shown: BTreeMap<u32, String> = BTreeMap::new();
    listener.note(
        "Looking for guests until Ctrl-C. They stay where they are then: `tilemark host unpin` undoes it.",
    );
    let mut followed = Followed::new();
    loop {
        let report = pin_again(&LiveProcesses, journal, map, &mut followed).map_err(failed)?;
        let pinned = report.pinned.iter().map(|guest| (guest.pid, in_words(guest)));
        let refused = report.refused.iter().map(|guest| {
            (
                guest.pid,
                format!("{} (process {}): {}. To fix: {}", guest.name, guest.pid, guest.why, guest.remedy),
            )
        });
        let binders = binders(&Root::real());
        let of_binders = binders.iter().map(|binder| (binder.process, binder.in_words()));
        let now: BTreeMap<u32, String> = pinned.chain(refused).chain(of_binders).collect();
        for (pid, words) in &now {
            if shown.get(pid) != Some(words) {
                listener.note(words);
            }
        }
        shown = now;
        let looked = Instant::now();
        while looked.elapsed() < BETWEEN_LOOKS {
            if interrupted() {
                return Ok(PinsDone { report, binders });
            }
            thread::sleep(BETWEEN_INTERRUPT_LOOKS);
        }
    }
}

/// `web-1 (process 4242): 12 threads on processors 0-3 of node 0`.
pub fn in_words(guest: &Pinned) -> String {
    let Pinned { name, pid, processors, nodes, threads, notes, .. } = guest;
    let threads = counted(*threads as u64, "thread");
    let notes: String = notes.iter().map(|note| format!("; {note}")).collect();
    format!("{name} (process {pid}): {threads} on processors {processors} of node {nodes}{notes}")
}

fn no_guest(file: &Path, report: &PinReport) -> Failure {
    let message = format!("no running guest is named in {}", file.display());
    let remedy = match report.left_alone.as_slice() {
        [] => "no guest with a name runs: start one, or wait for them with --watch".to_owned(),
        names => {
            format!("write lines for guests that run ({}), or wait for others with --watch", names.join(", "))
        }
    };
    Failure::new(FailureCode::BadInput, message, remedy)
}

fn journal(state: &Path) -> Result<PinJournal, Failure> {
    Ok(PinJournal::at(state.join(JOURNAL), boot_id().map_err(state_failed)?))
}

/// One at a time: the journal is whole, and who undoes is not overtaken by who watches.
fn lock(state: &Path) -> Result<File, Failure> {
    let path = state.join(LOCK);
    let failed = |error: std::io::Error| {
        let message = format!("cannot lock {}", path.display());
        let remedy = "check that the folder can be written, or set TILEMARK_HOME to one that can";
        place_distrusted(&error)
            .unwrap_or_else(|| Failure::caused_by(&error, FailureCode::HostUnfit, message, remedy))
    };
    make_private_folder(state).map_err(failed)?;
    let mut file = open_private(&path).map_err(failed)?;
    match lock_within(&file, LOCKED_WITHIN) {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Without its number the message is poorer, and still right.
            let _ = file.read_to_string(&mut holder);
            let message = format!("process {} is pinning or unpinning guests", holder.trim());
            return Err(Failure::new(
                FailureCode::HostUnfit,
                message,
                "wait for it, or end its --watch with Ctrl-C",
            ));
        }
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(failed)?;
    Ok(file)
}

fn failed(error: PinError) -> Failure {
    let code = match &error {
        PinError::Map { .. } => FailureCode::BadInput,
        PinError::Processes(_) | PinError::Journal { .. } => FailureCode::HostUnfit,
    };
    Failure::from_error(code, &error, error.remedy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(folder: &Path) -> Places {
        let below = |name: &str| folder.join(name);
        Places { cache: below("cache"), runs: below("runs"), state: below("state") }
    }

    struct Silent;

    impl Listener for Silent {
        fn progress(&mut self, _progress: &crate::progress::Progress) {}
        fn note(&mut self, _text: &str) {}
    }

    fn refused(folder: &Path, file: &str) -> Failure {
        let path = folder.join("pins");
        std::fs::write(&path, file).unwrap();
        pin_guests(&places(folder), &path, Looking::Once, &mut Silent).unwrap_err()
    }

    #[test]
    fn a_file_that_cannot_be_followed_is_bad_input_with_every_line() {
        let folder = tempfile::tempdir().unwrap();
        let failure = refused(folder.path(), "a 999\nb cpus 9999\n");
        assert_eq!(failure.code, FailureCode::BadInput);
        assert!(failure.causes[0].starts_with("line 1: there is no node 999"), "{:?}", failure.causes);
        assert!(
            failure.causes[1].starts_with("line 2: processor 9999 does not exist"),
            "{:?}",
            failure.causes
        );
        let missing =
            pin_guests(&places(folder.path()), &folder.path().join("none"), Looking::Once, &mut Silent);
        assert_eq!(missing.unwrap_err().code, FailureCode::BadInput);
    }

    #[test]
    fn that_no_guest_is_named_is_said_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let failure = refused(folder.path(), &format!("nobody-is-called-{} cpus 0\n", std::process::id()));
        assert!(failure.message.starts_with("no running guest is named in "), "{failure:?}");
        assert!(failure.remedy.contains("--watch"), "{failure:?}");
    }

    #[test]
    fn a_second_one_is_refused_and_names_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let held = lock(&places(folder.path()).state).unwrap();
        let failure = undo(&places(folder.path())).unwrap_err();
        let own = std::process::id();
        assert_eq!(failure.message, format!("process {own} is pinning or unpinning guests"));
        drop(held);
        assert!(undo(&places(folder.path())).unwrap().is_whole());
    }
}
