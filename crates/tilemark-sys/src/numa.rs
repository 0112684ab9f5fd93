//! From which NUMA nodes memory comes, for which no safe call exists.

use std::io;

/// Nodes as the kernel takes them: a bit for each of 1,024, as many as Linux can be built for (`NODES_SHIFT` is 10 at most).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeMask([libc::c_ulong; LONGS]);

const NODES_MAX: u32 = 1024;
const LONGS: usize = (NODES_MAX / libc::c_ulong::BITS) as usize;
/// `MPOL_BIND` of linux/mempolicy.h: memory comes from these nodes or not at all.
const BIND: libc::c_int = 2;

impl NodeMask {
    /// Of these nodes; nothing of none.
    pub(crate) fn of(nodes: &[u32]) -> Option<Self> {
        let mut mask = [0; LONGS];
        for node in nodes.iter().filter(|node| **node < NODES_MAX) {
            mask[(node / libc::c_ulong::BITS) as usize] |= 1 << (node % libc::c_ulong::BITS);
        }
        (mask != [0; LONGS]).then_some(Self(mask))
    }

    /// Binds what the calling thread, and all that it starts, allocates from now on. 0 when it worked. A system call only: it may be
    /// called between clone and exec.
    pub(crate) fn bind(&self) -> libc::c_long {
        // SAFETY: the mask has as many bits as the call's argument says; the kernel takes the last argument for one more than there are.
        // It changes nothing but the thread's own policy. Neither rustix nor nix has the call.
        unsafe {
            libc::syscall(libc::SYS_set_mempolicy, BIND, self.0.as_ptr(), libc::c_ulong::from(NODES_MAX) + 1)
        }
    }
}

/// Has all that the calling thread allocates from now on come from these nodes. It changes nothing for none.
///
/// # Errors
/// As the kernel gives it: `EINVAL` for a node that has no memory, or where the control group does not allow it.
pub fn bind_memory_of_this_thread(nodes: &[u32]) -> io::Result<()> {
    match NodeMask::of(nodes) {
        Some(mask) if mask.bind() != 0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, thread};

    #[test]
    fn a_mask_has_a_bit_for_each_node() {
        assert_eq!(NodeMask::of(&[]), None);
        let NodeMask(bits) = NodeMask::of(&[0, 3, 64, 5_000]).unwrap();
        assert_eq!(&bits[..3], [0b1001, 1, 0]);
    }

    #[test]
    fn a_thread_s_memory_is_bound_and_a_node_that_is_not_there_is_refused() {
        let maps = thread::spawn(|| {
            bind_memory_of_this_thread(&[0]).unwrap();
            fs::read_to_string("/proc/thread-self/numa_maps").unwrap()
        });
        let maps = maps.join().unwrap();
        assert!(maps.lines().any(|line| line.contains(" bind:0 ")), "{maps:.300}");
        let refused = thread::spawn(|| bind_memory_of_this_thread(&[1_023]).unwrap_err().raw_os_error());
        assert_eq!(refused.join().unwrap(), Some(libc::EINVAL));
    }
}
