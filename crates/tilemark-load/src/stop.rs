//! How a load is asked to end early.

use rustix::event::{EventfdFlags, eventfd};
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

/// Ends a load early; what was measured is still reported. Shared by reference or in an `Arc`.
#[derive(Debug)]
pub struct Stop {
    asked: AtomicBool,
    wake: OwnedFd,
}

impl Stop {
    /// A load that goes on until it is done.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { asked: AtomicBool::new(false), wake: eventfd(0, EventfdFlags::CLOEXEC)? })
    }
    /// Ends the load as soon as its senders see this, which they do at once.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        // It fails only when 2^64 stops were asked before; the flag is set anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
    /// Whether it was asked.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }
    /// Becomes readable, and stays so, when it was asked.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}
