//! Who is at the other end of a socket.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// The user who connected this socket or made this pair, as the kernel noted at that moment. rustix has the same, and refuses a peer
/// whose process has no number in the caller's PID namespace, as all have that talk to an engine.
///
/// # Errors
/// What the kernel answered.
pub fn user_of(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = MaybeUninit::<libc::ucred>::uninit();
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of what is behind the pointer; both outlive the call.
    let answer = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            peer.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    if length as usize != size_of::<libc::ucred>() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: the kernel has written all of it, and any bytes are a valid value of its three numbers.
    Ok(unsafe { peer.assume_init() }.uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_user_who_connected_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let _asking = UnixStream::connect(&path).unwrap();
        let (stream, _) = listener.accept().unwrap();
        assert_eq!(user_of(&stream).unwrap(), rustix::process::geteuid().as_raw());
    }
}
