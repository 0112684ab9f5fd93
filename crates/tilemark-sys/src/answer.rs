//! What a program prints: as much as it may, within the time that it may take.

use crate::process::{HasEnded, Spawn, SpawnError, is_readable_by};
use rustix::{
    pipe::{PipeFlags, pipe_with},
    process::Signal,
};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

/// What an answer may take.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// Of standard output.
    pub bytes: usize,
    /// Until the program has ended.
    pub time: Duration,
}

/// Starts a program without input, and returns what it prints on standard output, however it ends.
///
/// # Errors
/// When it cannot be started, prints more, or takes longer, and is killed for that.
pub fn answer(spawn: Spawn, most: Most) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + most.time;
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    let spawn = spawn.hand(nothing()?, 0).hand(write, 1).hand(nothing()?, 2);
    let child = spawn.start().map_err(SpawnError::into_source)?;
    let printed = read_all(File::from(read), most, deadline);
    let left = deadline.saturating_duration_since(Instant::now());
    if printed.is_err() || child.ends_within(left)? == HasEnded::No {
        child.signal(Signal::KILL)?;
        child.wait()?;
        return printed.and(Err(late(most)));
    }
    child.wait()?;
    printed
}

fn nothing() -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().read(true).write(true).open("/dev/null")?.into())
}

fn late(most: Most) -> io::Error {
    io::Error::new(
        io::ErrorKind::TimedOut,
        format!("it did not end within {} s and was killed", most.time.as_secs()),
    )
}

fn read_all(mut pipe: File, most: Most, deadline: Instant) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        if !is_readable_by(pipe.as_fd(), deadline)? {
            return Err(late(most));
        }
        let length = pipe.read(&mut buffer)?;
        if length == 0 {
            return Ok(bytes);
        }
        if length > most.bytes - bytes.len() {
            let why = format!("it printed more than {} bytes", most.bytes);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        bytes.extend_from_slice(&buffer[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(script: &str, most: Most) -> Result<String, io::ErrorKind> {
        let shell = Spawn::path("/bin/sh".as_ref()).unwrap().arguments(["-c", script]).unwrap();
        let printed = answer(shell, most).map_err(|error| error.kind())?;
        Ok(String::from_utf8(printed).unwrap())
    }

    #[test]
    fn an_answer_has_an_end() {
        let most = Most { bytes: 100, time: Duration::from_secs(600) };
        assert_eq!(said("echo one; echo two >&2; cat; exit 3", most).as_deref(), Ok("one\n"));
        assert_eq!(said("while :; do echo more; done", most), Err(io::ErrorKind::FileTooLarge));
        let short = Most { time: Duration::from_millis(200), ..most };
        assert_eq!(said("exec sleep 600", short), Err(io::ErrorKind::TimedOut));
        // One that prints no more, and one that left the pipe to a process of its own.
        assert_eq!(said("exec sleep 600 >/dev/null", short), Err(io::ErrorKind::TimedOut));
        assert_eq!(said("sleep 1 & echo one", short), Err(io::ErrorKind::TimedOut));
    }
}
