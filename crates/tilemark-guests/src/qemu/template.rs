//! A frozen guest: its memory and its devices' state, both in anonymous memory that nobody can change any more.

use crate::error::{GuestError, file};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::{
    fs::File,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};
use tilemark_units::Bytes;

/// Memory and state of a template. They go with the last clone and this.
#[derive(Debug)]
pub(super) struct Frozen {
    memory: OwnedFd,
    state: OwnedFd,
}

/// The same before the template is frozen.
#[derive(Debug)]
pub(super) struct Thawed {
    memory: OwnedFd,
    state: OwnedFd,
}

fn anonymous(name: &str, size: u64) -> Result<OwnedFd, GuestError> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create(name, flags).map_err(file("make anonymous memory for", Path::new(name)))?;
    ftruncate(&memory, size).map_err(file("size anonymous memory for", Path::new(name)))?;
    Ok(memory)
}

/// A second descriptor with a position of its own.
fn opened_again(descriptor: &OwnedFd) -> Result<OwnedFd, GuestError> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let opened = File::options().read(true).write(true).open(&path);
    Ok(opened.map_err(file("open", Path::new(&path)))?.into())
}

impl Thawed {
    pub(super) fn new(size: Bytes) -> Result<Self, GuestError> {
        Ok(Self {
            memory: anonymous("tilemark-template-memory", size.get())?,
            state: anonymous("tilemark-template-state", 0)?,
        })
    }

    pub(super) fn memory(&self) -> Result<OwnedFd, GuestError> {
        opened_again(&self.memory)
    }

    pub(super) fn state(&self) -> Result<OwnedFd, GuestError> {
        opened_again(&self.state)
    }

    /// Seals both, once the template's QEMU is gone. A clone maps the memory privately; what it discards
    /// (a balloon, free page reports) would otherwise punch holes into the memory of all its siblings.
    pub(super) fn freeze(self) -> Result<Frozen, GuestError> {
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        for descriptor in [&self.memory, &self.state] {
            fcntl_add_seals(descriptor, seals).map_err(file("seal", Path::new("a template's memory")))?;
        }
        Ok(Frozen { memory: self.memory, state: self.state })
    }
}

impl Frozen {
    pub(super) fn memory(&self) -> Result<OwnedFd, GuestError> {
        opened_again(&self.memory)
    }

    pub(super) fn state(&self) -> Result<OwnedFd, GuestError> {
        opened_again(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, fallocate};

    #[test]
    fn a_frozen_templates_memory_can_be_neither_written_nor_punched() {
        let thawed = Thawed::new(Bytes::from_mib(1)).unwrap();
        rustix::io::pwrite(thawed.memory().unwrap(), b"template", 0).unwrap();
        let frozen = thawed.freeze().unwrap();
        let memory = frozen.memory().unwrap();
        assert!(rustix::io::pwrite(&memory, b"clone", 0).is_err());
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(fallocate(&memory, punch, 0, 4096).is_err());
        let mut bytes = [0; 8];
        rustix::io::pread(&memory, &mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"template");
    }

    #[test]
    fn each_reader_of_the_state_begins_at_its_beginning() {
        let thawed = Thawed::new(Bytes::from_mib(1)).unwrap();
        rustix::io::write(thawed.state().unwrap(), b"state").unwrap();
        let frozen = thawed.freeze().unwrap();
        for _ in 0..2 {
            let mut bytes = [0; 5];
            rustix::io::read(frozen.state().unwrap(), &mut bytes).unwrap();
            assert_eq!(&bytes, b"state");
        }
    }
}
