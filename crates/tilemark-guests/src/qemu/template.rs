//! A frozen guest: its memory and its devices' state, both in anonymous memory that nobody can change any more.

use crate::error::{GuestError, file};
use rustix::{
    fs::{MemfdFlags, SealFlags, SeekFrom, fcntl_add_seals, fstat, ftruncate, memfd_create, seek},
    io::{Errno, pread, pwrite},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tilemark_plan::place::HugePageSize;
use tilemark_sys::numa::bind_memory_of_this_thread;
use tilemark_units::Bytes;

/// Far longer than the kernel needs to let go of a process's memory.
const FREE_WITHIN: Duration = Duration::from_secs(10);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// Memory and state of a template. They go with the last clone and this.
#[derive(Debug)]
pub(super) struct Frozen {
    memory: OwnedFd,
    state: OwnedFd,
    /// The nodes that its memory is on; none where the kernel chose.
    nodes: Vec<u32>,
    /// Copies of its memory on other nodes: what clones do not write is near them too.
    copies: Mutex<BTreeMap<Vec<u32>, OwnedFd>>,
}

/// The same before the template is frozen.
#[derive(Debug)]
pub(super) struct Thawed {
    memory: OwnedFd,
    state: OwnedFd,
}

/// Memory of huge pages as a file, from the host's pools.
pub(super) fn of_huge_pages(size: Bytes, pages: HugePageSize) -> Result<OwnedFd, GuestError> {
    let of_size = match pages {
        HugePageSize::TwoMebibytes => MemfdFlags::HUGE_2MB,
        HugePageSize::OneGibibyte => MemfdFlags::HUGE_1GB,
    };
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB | of_size;
    let name = "tilemark-huge-pages";
    let memory = memfd_create(name, flags).map_err(file("make memory of", Path::new("huge pages")))?;
    ftruncate(&memory, size.get()).map_err(file("size memory of", Path::new("huge pages")))?;
    Ok(memory)
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
    pub(super) fn freeze(self, nodes: &[u32]) -> Result<Frozen, GuestError> {
        for descriptor in [&self.memory, &self.state] {
            seal(descriptor)?;
        }
        let copies = Mutex::default();
        Ok(Frozen { memory: self.memory, state: self.state, nodes: nodes.to_vec(), copies })
    }
}

fn seal(descriptor: &OwnedFd) -> Result<(), GuestError> {
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    while_busy(|| fcntl_add_seals(descriptor, seals)).map_err(file("seal", Path::new("a template's memory")))
}

/// Tries again for a while what is busy. On a loaded host the kernel still holds pages of a QEMU that is gone, for longer than the fifth
/// of a second that it waits itself.
fn while_busy(mut attempt: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    let until = Instant::now() + FREE_WITHIN;
    loop {
        match attempt() {
            Err(Errno::BUSY) if Instant::now() < until => thread::sleep(BETWEEN_ATTEMPTS),
            ended => return ended,
        }
    }
}

/// Memory with the same bytes on other nodes, sealed. What was never written takes no memory there either.
fn copied(memory: &OwnedFd, nodes: &[u32]) -> Result<OwnedFd, GuestError> {
    let (action, what) = ("copy to another NUMA node", Path::new("a template's memory"));
    let size = fstat(memory).map_err(file(action, what))?.st_size.unsigned_abs();
    let copy = anonymous("tilemark-template-memory", size)?;
    let (from, to) = (opened_again(memory)?, opened_again(&copy)?);
    // The policy is a thread's own: this one ends with the copy.
    let wrote = thread::scope(|scope| {
        scope.spawn(|| bind_memory_of_this_thread(nodes).and_then(|()| copy_data(&from, &to, size))).join()
    });
    wrote
        .unwrap_or_else(|_| Err(io::Error::other("the thread that copied it panicked")))
        .map_err(file(action, what))?;
    seal(&copy)?;
    Ok(copy)
}

/// Bytes that are copied at a time.
const PIECE: usize = 1 << 20;

/// Copies all that a file of memory holds, hole by hole.
fn copy_data(from: &OwnedFd, to: &OwnedFd, size: u64) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    let mut at = 0;
    while at < size {
        let data = match seek(from, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole up to the end.
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, SeekFrom::Hole(data))?;
        at = data;
        while at < end {
            let piece = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
            let read = pread(from, &mut buffer[..piece], at)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut written = 0;
            while written < read {
                written += pwrite(to, &buffer[written..read], at + written as u64)?;
            }
            at += read as u64;
        }
    }
    Ok(())
}

impl Frozen {
    /// Its memory on these nodes, copied there if it was not; on any where they are none.
    pub(super) fn memory(&self, nodes: &[u32]) -> Result<OwnedFd, GuestError> {
        if nodes.is_empty() || *nodes == *self.nodes {
            return opened_again(&self.memory);
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if !copies.contains_key(nodes) {
            copies.insert(nodes.to_vec(), copied(&self.memory, nodes)?);
        }
        opened_again(&copies[nodes])
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
        let frozen = thawed.freeze(&[]).unwrap();
        let memory = frozen.memory(&[]).unwrap();
        assert!(rustix::io::pwrite(&memory, b"clone", 0).is_err());
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(fallocate(&memory, punch, 0, 4096).is_err());
        let mut bytes = [0; 8];
        rustix::io::pread(&memory, &mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"template");
    }

    #[test]
    fn memory_that_the_kernel_still_holds_is_sealed_once_it_is_free() {
        let mut left = vec![Ok(()), Err(Errno::BUSY), Err(Errno::BUSY)];
        assert_eq!(while_busy(|| left.pop().unwrap()), Ok(()));
        assert!(left.is_empty());
        assert_eq!(while_busy(|| Err(Errno::PERM)), Err(Errno::PERM));
    }

    #[test]
    fn a_copy_on_a_node_has_the_same_bytes_and_holes_and_is_made_once() {
        let size = Bytes::from_mib(8);
        let thawed = Thawed::new(size).unwrap();
        rustix::io::pwrite(thawed.memory().unwrap(), b"template", (3 << 20) - 4).unwrap();
        rustix::io::pwrite(thawed.memory().unwrap(), b"end", (8 << 20) - 3).unwrap();
        let frozen = thawed.freeze(&[]).unwrap();
        let copy = frozen.memory(&[0]).unwrap();
        let read = |memory: &OwnedFd| {
            let mut bytes = vec![1; 8 << 20];
            assert_eq!(rustix::io::pread(memory, &mut bytes, 0).unwrap(), 8 << 20);
            bytes
        };
        assert!(read(&copy) == read(&frozen.memory(&[]).unwrap()));
        let found = fstat(&copy).unwrap();
        assert!(found.st_blocks * 512 < 1 << 20, "{} blocks: holes stay holes", found.st_blocks);
        assert!(rustix::io::pwrite(&copy, b"clone", 0).is_err(), "it is sealed");
        assert_eq!(fstat(frozen.memory(&[0]).unwrap()).unwrap().st_ino, found.st_ino);
        let elsewhere = frozen.memory(&[900]).unwrap_err().to_string();
        assert_eq!(elsewhere, "cannot copy to another NUMA node a template's memory");
    }

    #[test]
    fn each_reader_of_the_state_begins_at_its_beginning() {
        let thawed = Thawed::new(Bytes::from_mib(1)).unwrap();
        rustix::io::write(thawed.state().unwrap(), b"state").unwrap();
        let frozen = thawed.freeze(&[]).unwrap();
        for _ in 0..2 {
            let mut bytes = [0; 5];
            rustix::io::read(frozen.state().unwrap(), &mut bytes).unwrap();
            assert_eq!(&bytes, b"state");
        }
    }
}
