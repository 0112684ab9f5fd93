//! Memory: how much is available, and pages of other processes moved between nodes.

use std::fs;
use std::io;

/// Memory that the kernel could give to programs without swapping, in bytes (`MemAvailable`, proc_meminfo(5)); `None` where it does not
/// report that.
pub fn available_bytes() -> Option<u64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<u64> {
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    kib.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Bits of a mask of nodes: as many nodes as Linux can be built for (`NODES_SHIFT`, 10).
const NODES_MAX: usize = 1024;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

type Nodes = [libc::c_ulong; NODES_MAX / WORD_BITS];

/// Moves the pages of a process that are on the nodes `from` to the nodes `to`, and returns how many pages could not be moved. Where its
/// next pages come from is unchanged.
///
/// # Errors
/// EINVAL for a node that does not exist, EPERM for a process of somebody else, ESRCH for one that is gone, ENOSYS on a kernel without
/// NUMA.
pub fn move_between_nodes(pid: u32, from: &[u32], to: &[u32]) -> io::Result<u64> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let (from, to) = (mask(from)?, mask(to)?);
    // The kernel takes one bit less than it is given (get_nodes, mm/mempolicy.c).
    let bits: libc::c_ulong = NODES_MAX as libc::c_ulong + 1;
    // SAFETY: both masks outlive the call and have as many bits as it is said. No safe call exists in rustix or nix.
    let left = unsafe { libc::syscall(libc::SYS_migrate_pages, pid, bits, from.as_ptr(), to.as_ptr()) };
    u64::try_from(left).map_err(|_| io::Error::last_os_error())
}

fn mask(nodes: &[u32]) -> io::Result<Nodes> {
    let mut mask = Nodes::default();
    for node in nodes {
        let node = *node as usize;
        let word =
            mask.get_mut(node / WORD_BITS).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        *word |= 1 << (node % WORD_BITS);
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_read_in_bytes() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    8 kB\nSwapTotal: 5 kB\n"), Some(8 << 10));
        for without in
            ["MemTotal: 9 kB\n", "MemAvailable: much kB\n", "MemAvailable: 18446744073709551615 kB\n"]
        {
            assert_eq!(available(without), None, "{without}");
        }
    }

    #[test]
    fn a_mask_has_a_bit_for_each_node() {
        let mask = mask(&[0, 3, 65]).unwrap();
        assert_eq!((mask[0], mask[1], mask[2]), (0b1001, 0b10, 0));
        assert!(super::mask(&[1024]).is_err());
    }

    #[test]
    fn memory_that_is_in_its_place_stays() {
        match move_between_nodes(std::process::id(), &[0], &[0]) {
            Ok(left) => assert_eq!(left, 0),
            // A kernel without NUMA, or a container that is refused the call.
            Err(error) => {
                assert!(matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)), "{error}")
            }
        }
    }

    #[test]
    fn a_process_that_is_gone_is_said_to_be() {
        let error = move_between_nodes(u32::MAX, &[0], &[0]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }
}
