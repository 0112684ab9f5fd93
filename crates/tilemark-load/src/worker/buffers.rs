//! What every wait and every read uses again.

use crate::{
    LoadError,
    clock::{self, SECOND_NS},
};
use rustix::{
    event::{
        Timespec,
        epoll::{self, Event},
    },
    io::Errno,
};
use std::os::fd::OwnedFd;

/// Bytes read at once: fits the second-level cache; a longer body takes several reads.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Events taken at once.
const EVENTS_AT_ONCE: usize = 128;

/// What every wait and every read uses again.
pub(super) struct Buffers {
    pub(super) events: Vec<Event>,
    pub(super) received: Vec<u8>,
    /// What was received, without TLS.
    pub(super) plain: Vec<u8>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            events: Vec::with_capacity(EVENTS_AT_ONCE),
            received: vec![0; RECEIVE_BYTES],
            plain: Vec::new(),
        }
    }

    /// Sleeps until something happens or the absolute time `wake` comes.
    pub(super) fn wait(&mut self, epoll: &OwnedFd, wake: u64) -> Result<(), LoadError> {
        self.events.clear();
        let left = wake.saturating_sub(clock::now());
        // At most an hour at once: an absolute end far away must not overflow the kernel's clock.
        let left = left.min(3600 * SECOND_NS);
        let timeout = Timespec { tv_sec: (left / SECOND_NS) as i64, tv_nsec: (left % SECOND_NS) as i64 };
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(LoadError::Kernel { doing: "wait for its sockets", source: errno.into() }),
        }
    }
}
