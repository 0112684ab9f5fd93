//! One measured run at a time: locks that are held for as long as anything of the run lives.
//!
//! Two files: one in the home's state folder, which whoever removes images takes too, and one for the whole host in `/run/tilemark`.
//! A boot empties that folder, and only root can write it. An abstract socket would need no file, but any user could take its name
//! and keep every run away.

use crate::{
    failure::{Failure, FailureCode, place_distrusted},
    stop::interrupted,
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fmt,
    fs::File,
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};
use tilemark_sys::files::{make_private_folder, open_private};

/// What to do when another run is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// Stop, and name it.
    Stop,
    /// Wait until it is over.
    Wait,
}

/// Names another folder for the host's lock. For tests, which run beside each other and beside real runs.
const FOLDER_VARIABLE: &str = "TILEMARK_LOCK_FOLDER";
/// Where the host's lock is.
const FOLDER: &str = "/run/tilemark";

/// Why a lock was not taken.
#[derive(Debug)]
pub enum NotTaken {
    /// Another run, or command, holds it.
    Held(Failure),
    /// It cannot be made.
    CannotLock(Failure),
}

impl From<NotTaken> for Failure {
    fn from(not_taken: NotTaken) -> Self {
        match not_taken {
            NotTaken::Held(failure) | NotTaken::CannotLock(failure) => failure,
        }
    }
}

/// Takes the home's lock and the host's for the measured run `id`. They are released when the last copies of the descriptors
/// close: the keeper has some, so that a killed command does not let a second run in before the first is gone.
///
/// # Errors
/// When another run is under way, in this home or another, or a lock cannot be made.
pub fn take_for_run(states: &Path, id: &str, when_busy: WhenBusy) -> Result<Vec<File>, NotTaken> {
    take_both(states, &host_folder(), id, when_busy)
}

/// The folder of what holds for the whole host, whoever's home it comes from.
pub(crate) fn host_folder() -> PathBuf {
    let folder = std::env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    folder.map_or_else(|| PathBuf::from(FOLDER), PathBuf::from)
}

fn take_both(states: &Path, host: &Path, id: &str, when_busy: WhenBusy) -> Result<Vec<File>, NotTaken> {
    let of_home = take(states, id, when_busy)?;
    let remedy = "check that it can be written, as root can on every usual host";
    let holder = Holder { id, home: Some(states) };
    let of_host = take_in(host, holder, when_busy, remedy)?;
    Ok(vec![of_home, of_host])
}

/// Takes the lock of a home, so that no measured run begins in it.
///
/// # Errors
/// When a run is under way in it, or the lock cannot be made.
pub fn take(states: &Path, id: &str, when_busy: WhenBusy) -> Result<File, NotTaken> {
    take_in(
        states,
        Holder { id, home: None },
        when_busy,
        "check that the folder can be written, or set TILEMARK_HOME to one that can",
    )
}

/// Who takes a lock. The host's names the home too.
struct Holder<'h> {
    id: &'h str,
    home: Option<&'h Path>,
}

impl fmt::Display for Holder<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.id)?;
        self.home.map_or(Ok(()), |home| write!(out, "{OF}{}", home.display()))
    }
}

/// Between a holder's name and its home.
const OF: &str = " of ";

/// What takes a lock and is no run: its name in the lock, and the command. None of them has `--wait`.
const COMMANDS: [(&str, &str); 4] = [
    ("host-apply", "tilemark host apply"),
    ("host-restore", "tilemark host restore"),
    ("image-remove", "tilemark image remove"),
    ("recover", "tilemark recover"),
];

fn command(id: &str) -> Option<&'static str> {
    COMMANDS.iter().find(|(own, _)| *own == id).map(|(_, command)| *command)
}

fn take_in(folder: &Path, holder: Holder<'_>, when_busy: WhenBusy, remedy: &str) -> Result<File, NotTaken> {
    let path = folder.join("lock");
    let failed = |error| {
        let message = format!("cannot lock {}", path.display());
        let failure = place_distrusted(&error)
            .unwrap_or_else(|| Failure::caused_by(&error, FailureCode::HostUnfit, message, remedy));
        NotTaken::CannotLock(failure)
    };
    make_private_folder(folder).map_err(failed)?;
    let mut file = open_private(&path).map_err(failed)?;
    loop {
        // Never held up in the kernel, where Ctrl-C would not be heard.
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if when_busy == WhenBusy::Wait && !interrupted() => {
                thread::sleep(BETWEEN_TRIES);
            }
            Err(Errno::WOULDBLOCK) => return Err(NotTaken::Held(busy(&mut file, when_busy, holder.id))),
            Err(error) => return Err(failed(error.into())),
        }
    }
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{holder}")).map_err(failed)?;
    Ok(file)
}

/// How often one that waits looks again.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

const UNDER_WAY: &str = "is under way on this host";

fn busy(file: &mut File, when_busy: WhenBusy, asker: &str) -> Failure {
    let mut holder = String::new();
    // Without its name the message is poorer, and still right.
    let _ = file.read_to_string(&mut holder);
    let holder = holder.trim();
    let (id, home) = holder.split_at(holder.find(OF).unwrap_or(holder.len()));
    let under_way = match command(id) {
        Some(command) => format!("`{command}`{home} {UNDER_WAY}"),
        None => format!("the run {holder} {UNDER_WAY}"),
    };
    match when_busy {
        WhenBusy::Stop if command(asker).is_some() => Failure::new(
            FailureCode::HostUnfit,
            under_way,
            "try again when it is over; `tilemark runs` lists the runs that are under way",
        ),
        WhenBusy::Stop => Failure::new(
            FailureCode::HostUnfit,
            under_way,
            "wait for it with `--wait`, or look at it with `tilemark runs`; one run at a time, so that none \
             spoils another's figures",
        ),
        WhenBusy::Wait => Failure::new(
            FailureCode::Interrupted,
            format!("ended while it waited: {under_way}"),
            "nothing to do: nothing was begun",
        ),
    }
}

/// What dropping it does, also where a process that is being started holds a copy of the open file at this moment.
pub(crate) fn release(lock: File) {
    // Nothing can be wrong with a lock that is held.
    let _ = flock(&lock, FlockOperation::Unlock);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn held<T: fmt::Debug>(taken: Result<T, NotTaken>) -> Failure {
        let Err(NotTaken::Held(failure)) = taken else { panic!("{taken:?}") };
        failure
    }

    #[track_caller]
    fn cannot_lock<T: fmt::Debug>(taken: Result<T, NotTaken>) -> Failure {
        let Err(NotTaken::CannotLock(failure)) = taken else { panic!("{taken:?}") };
        failure
    }

    #[test]
    fn a_second_run_is_refused_with_the_name_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = take(folder.path(), "first", WhenBusy::Stop).unwrap();
        let failure = held(take(folder.path(), "second", WhenBusy::Stop));
        assert_eq!(failure.message, "the run first is under way on this host");
        assert_eq!(failure.code.exit_code(), 3);
        release(first);
        take(folder.path(), "third", WhenBusy::Stop).unwrap();
    }

    #[test]
    fn a_command_that_is_no_run_is_named_and_has_a_remedy_that_it_knows() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other, host] = ["one", "other", "host"].map(|name| folder.path().join(name));
        let _first = take_both(&one, &host, "host-apply", WhenBusy::Stop).unwrap();
        let failure = held(take_both(&one, &host, "host-restore", WhenBusy::Stop));
        assert_eq!(failure.message, "`tilemark host apply` is under way on this host");
        assert!(!failure.remedy.contains("--wait"), "{failure:?}");
        let failure = held(take_both(&other, &host, "a-run", WhenBusy::Stop));
        let named = format!("`tilemark host apply` of {} is under way on this host", one.display());
        assert_eq!(failure.message, named);
        assert!(failure.remedy.contains("--wait"), "{failure:?}");
    }

    #[test]
    fn a_second_run_in_another_home_is_refused_with_name_and_home_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other, host] = ["one", "other", "host"].map(|name| folder.path().join(name));
        let first = take_both(&one, &host, "first", WhenBusy::Stop).unwrap();
        let failure = held(take_both(&other, &host, "second", WhenBusy::Stop));
        assert_eq!(failure.message, format!("the run first of {} is under way on this host", one.display()));
        assert_eq!(failure.code.exit_code(), 3);
        // What was refused holds nothing.
        release(take(&other, "image-remove", WhenBusy::Stop).unwrap());
        first.into_iter().for_each(release);
        take_both(&other, &host, "third", WhenBusy::Stop).unwrap();
    }

    #[test]
    fn a_lock_is_written_through_no_link_and_in_no_folder_that_others_may_write() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        let states = folder.path().join("states");
        std::fs::create_dir(&states).unwrap();
        std::os::unix::fs::symlink(&precious, states.join("lock")).unwrap();
        let failure = cannot_lock(take(&states, "run", WhenBusy::Stop));
        assert!(failure.message.contains("states/lock is neither"), "{failure:?}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
        std::fs::remove_file(states.join("lock")).unwrap();
        std::fs::set_permissions(&states, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let failure = cannot_lock(take(&states, "run", WhenBusy::Stop));
        assert!(failure.remedy.contains("chmod -R go-w"), "{failure:?}");
        assert!(!states.join("lock").exists());
    }

    #[test]
    fn one_that_waits_has_its_turn_when_the_first_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let first = take(folder.path(), "first", WhenBusy::Stop).unwrap();
        let waiting = thread::scope(|scope| {
            let waiting = scope.spawn(|| take(folder.path(), "second", WhenBusy::Wait));
            thread::sleep(3 * BETWEEN_TRIES);
            assert!(!waiting.is_finished(), "the first is not over");
            drop(first);
            waiting.join().unwrap()
        });
        let _second = waiting.unwrap();
        let failure = held(take(folder.path(), "third", WhenBusy::Stop));
        assert_eq!(failure.message, "the run second is under way on this host");
    }
}
