//! A second descriptor of a socket that a library keeps for itself, and descriptors that no child shall have.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Makes a second descriptor of the file that `owner` holds; a program that is started does not get it. For libraries that
/// return a descriptor's number only: what returns a `BorrowedFd` has a safe way.
///
/// # Errors
/// What the kernel answered: the number names no open file, or this process has as many as it may.
pub fn duplicate(owner: &impl AsRawFd) -> io::Result<OwnedFd> {
    // SAFETY: this call touches no memory of ours, and any number is a valid argument.
    let made = unsafe { libc::fcntl(owner.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 0) };
    if made == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor just now and gave its number to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// No program that this process starts gets a descriptor that is open now, beside its standard streams and what it is handed: whoever
/// started this process may have left locks and pipes open. To be called first of all.
///
/// # Errors
/// What the kernel answered, where neither way works.
pub fn keep_from_children() -> io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC;
    // SAFETY: this call touches no memory of ours; closed at exec, a descriptor stays valid in this process.
    let answer = unsafe { libc::syscall(libc::SYS_close_range, FIRST_OF_CALLER, libc::c_uint::MAX, flags) };
    // Before Linux 5.11 there is no such flag, before 5.9 no such call, and a filter of a container may deny it.
    if answer == 0 { Ok(()) } else { keep_each_from_children() }
}

/// The same, one by one.
fn keep_each_from_children() -> io::Result<()> {
    // All numbers are read before one is changed: the folder has a descriptor too.
    let names = fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name()));
    let names: io::Result<Vec<_>> = names.collect();
    let numbers = names?.into_iter().filter_map(|name| name.to_str()?.parse::<libc::c_int>().ok());
    for number in numbers.filter(|number| number.unsigned_abs() >= FIRST_OF_CALLER) {
        // SAFETY: this call touches no memory of ours; one that was closed meanwhile is refused, which is what is wanted.
        unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    Ok(())
}

/// 0, 1 and 2 are the standard streams.
const FIRST_OF_CALLER: libc::c_uint = 3;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_program_gets_no_descriptor_that_its_starter_inherited() {
        for keep in [keep_from_children, keep_each_from_children] {
            let file = std::fs::File::open("/dev/null").unwrap();
            rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
            keep().unwrap();
            let flags = rustix::io::fcntl_getfd(&file).unwrap();
            assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
            assert!(rustix::io::fcntl_getfd(std::io::stderr()).unwrap().is_empty());
        }
    }

    #[test]
    fn a_second_descriptor_outlives_the_first_and_a_wrong_number_is_refused() {
        let (first, mut peer) = UnixStream::pair().unwrap();
        let mut second = UnixStream::from(duplicate(&first).unwrap());
        drop(first);
        second.write_all(b"still here").unwrap();
        drop(second);
        let mut received = String::new();
        peer.read_to_string(&mut received).unwrap();
        assert_eq!(received, "still here");
        assert_eq!(duplicate(&-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
