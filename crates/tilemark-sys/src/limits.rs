//! What the kernel lets this process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one: the usual 1,024 are few for hundreds of guests or connections. Returns how many
/// files this process may have open; `None` for no limit.
pub fn raise_open_files() -> Option<u64> {
    raise(Resource::Nofile)
}

/// Raises the soft limit of a file's size to the hard one. Returns the most bytes that a file may have; `None` for no limit.
pub fn raise_file_size() -> Option<u64> {
    raise(Resource::Fsize)
}

/// Raises a soft limit to the hard one; where that is refused, the soft one still holds.
fn raise(resource: Resource) -> Option<u64> {
    let mut limit = getrlimit(resource);
    limit.current = limit.maximum;
    let _ = setrlimit(resource, limit);
    getrlimit(resource).current
}

/// Has the kernel dump nothing where this process, or one that it starts, crashes: no file, and no start of the host's program for dumps, which
/// would be root and outside of all namespaces. A limit of 0 is ignored where the host has such a program; of exactly 1 the kernel starts none
/// (fs/coredump.c). One system call only, so it may run between clone and exec.
pub fn refuse_core_dumps() {
    let one = Some(1);
    // Refused only where the limit is 0 and the caller may not raise it: there is no file then either.
    let _ = setrlimit(Resource::Core, Rlimit { current: one, maximum: one });
}

/// Lets a write beyond the limit of a file's size fail with EFBIG, which names the file, and not end this process by SIGXFSZ. For the
/// whole process: to be called before there are threads.
pub fn report_large_files() {
    // SAFETY: this call touches no memory of ours, and no handler runs.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}
