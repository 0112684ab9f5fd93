//! Linux namespaces: which a new process gets, and the first steps inside them.

use rustix::{
    io,
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe},
};
use std::{ops::BitOr, os::fd::BorrowedFd};

/// Kinds of namespaces, as a set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Namespaces(u64);

impl Namespaces {
    /// No new namespace.
    pub const NONE: Self = Self(0);
    /// Processes: the new process is number 1, and all end with it.
    pub const PID: Self = Self(libc::CLONE_NEWPID as u64);
    /// Mounts.
    pub const MOUNT: Self = Self(libc::CLONE_NEWNS as u64);
    /// Network devices, addresses, routes.
    pub const NETWORK: Self = Self(libc::CLONE_NEWNET as u64);
    /// Host name.
    pub const UTS: Self = Self(libc::CLONE_NEWUTS as u64);
    /// System V and POSIX queues and shared memory.
    pub const IPC: Self = Self(libc::CLONE_NEWIPC as u64);

    /// The flags as clone3 takes them.
    pub(crate) const fn clone_flags(self) -> u64 {
        self.0
    }
}

impl BitOr for Namespaces {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Gives the calling thread mounts of its own: nobody else sees what it mounts, and all that ends with it.
pub fn own_mounts() -> io::Result<()> {
    // SAFETY: only a table of descriptors of its own could part a thread from what others opened, and it stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    isolate_mounts()
}

/// The calling thread, and what it starts, sees its own control group as the root of all: nothing beside or above it.
pub fn own_view_of_groups() -> io::Result<()> {
    // SAFETY: only a table of descriptors of its own could part a thread from what others opened, and it stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWCGROUP) }
}

/// Gives the calling thread a network of its own, with nothing but a loopback device that is off. It ends with the thread.
pub fn own_network() -> io::Result<()> {
    // SAFETY: only a table of descriptors of its own could part a thread from what others opened, and it stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
}

/// Has the calling thread see the network of another namespace from now on, such as that in `/proc/1/ns/net`: `/proc/sys/net` and sockets.
pub fn join_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
}

/// Ends the propagation of mounts to and from outside. First step in a new mount namespace.
pub fn isolate_mounts() -> io::Result<()> {
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
}

/// Mounts /proc over the old one, so that it shows this PID namespace.
pub fn remount_proc() -> io::Result<()> {
    mount("proc", "/proc", "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)
}
