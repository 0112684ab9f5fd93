//! One measured run at a time: a lock that is held for as long as anything of the run lives.

use crate::{
    conduct,
    wire::{Failure, FailureCode},
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use std::{
    fs::{self, File},
    io::{Read, Seek, Write},
    path::Path,
    thread,
    time::Duration,
};

/// What to do when another run is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenBusy {
    /// Stop, and name it.
    Stop,
    /// Wait until it is over.
    Wait,
}

/// Takes the lock for the run `id`. It is let go when the last copy of the descriptor closes: the keeper
/// has one, so that a killed command does not let a second run in before the first is gone.
pub fn take(states: &Path, id: &str, when_busy: WhenBusy) -> Result<File, Failure> {
    let path = states.join("lock");
    let failed = |error: std::io::Error| Failure {
        code: FailureCode::HostUnfit,
        message: format!("cannot lock {}", path.display()),
        causes: vec![error.to_string()],
        remedy: "check that the folder may be written, or set TILEMARK_HOME to one that may".to_owned(),
    };
    fs::create_dir_all(states).map_err(failed)?;
    let mut file =
        File::options().create(true).truncate(false).read(true).write(true).open(&path).map_err(failed)?;
    loop {
        // Never held up in the kernel, where Ctrl-C would not be heard.
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(Errno::WOULDBLOCK) if when_busy == WhenBusy::Wait && !conduct::interrupted() => {
                thread::sleep(BETWEEN_TRIES);
            }
            Err(Errno::WOULDBLOCK) => return Err(busy(&mut file, when_busy)),
            Err(error) => return Err(failed(error.into())),
        }
    }
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{id}")).map_err(failed)?;
    Ok(file)
}

/// How often one that waits looks again.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

fn busy(file: &mut File, when_busy: WhenBusy) -> Failure {
    let mut holder = String::new();
    // Without its name the message is poorer, and still right.
    let _ = file.read_to_string(&mut holder);
    let under_way = format!("the run {} is under way on this host", holder.trim());
    match when_busy {
        WhenBusy::Stop => Failure::told(
            FailureCode::HostUnfit,
            under_way,
            "wait for it with `--wait`, or look at it with `tilemark runs`; one run at a time, so that none \
             spoils another's figures",
        ),
        WhenBusy::Wait => Failure::told(
            FailureCode::Interrupted,
            format!("ended while it waited: {under_way}"),
            "nothing is to be done: nothing was begun",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_told_the_name_of_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = take(folder.path(), "first", WhenBusy::Stop).unwrap();
        let failure = take(folder.path(), "second", WhenBusy::Stop).unwrap_err();
        assert_eq!(failure.message, "the run first is under way on this host");
        assert_eq!(failure.code.exit_code(), 3);
        drop(first);
        take(folder.path(), "third", WhenBusy::Stop).unwrap();
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
        let failure = take(folder.path(), "third", WhenBusy::Stop).unwrap_err();
        assert_eq!(failure.message, "the run second is under way on this host");
    }
}
