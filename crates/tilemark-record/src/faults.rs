//! A disk that fills up at a chosen write, for tests: from then on every write of this thread fails and leaves half of
//! what was to be written. Nothing of it is in builds without the feature `faults`.

#[cfg(feature = "faults")]
use std::cell::Cell;
use std::{
    fs::File,
    io::{self, Write},
};

#[cfg(feature = "faults")]
thread_local! {
    static DONE: Cell<u64> = const { Cell::new(0) };
    static FULL_AT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Lets the disk be full from this write of this thread on (0: the first from now); `u64::MAX`: never.
#[cfg(feature = "faults")]
pub fn full_at(write: u64) {
    DONE.set(0);
    FULL_AT.set(write);
}

/// Writes of this thread since [`full_at`].
#[cfg(feature = "faults")]
pub fn writes() -> u64 {
    DONE.get()
}

/// One step that needs space: a file made, a name given, a folder made.
pub(crate) fn space() -> io::Result<()> {
    #[cfg(feature = "faults")]
    {
        let done = DONE.replace(DONE.get() + 1);
        if done >= FULL_AT.get() {
            return Err(io::ErrorKind::StorageFull.into());
        }
    }
    Ok(())
}

/// Writes all bytes; on a full disk half of them.
pub(crate) fn write_all(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    if let Err(full) = space() {
        file.write_all(&bytes[..bytes.len() / 2])?;
        return Err(full);
    }
    file.write_all(bytes)
}

/// A file whose every write needs space.
pub(crate) struct Checked(pub(crate) File);

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_all(&mut self.0, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
