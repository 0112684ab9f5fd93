//! Programs and tables of the kernel's BPF, as far as a filter of a network device needs them. rustix has no wrapper for bpf(2).

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

/// One instruction: `struct bpf_insn` of linux/bpf.h.
pub type Instruction = [u8; 8];

/// Commands of bpf(2).
const MAP_CREATE: libc::c_long = 0;
const PROG_LOAD: libc::c_long = 5;
/// BPF_MAP_TYPE_LRU_HASH.
const TABLE_THAT_FORGETS: u32 = 9;
/// BPF_PROG_TYPE_SCHED_CLS.
const CLASSIFIER: u32 = 3;

/// What bpf(2) takes to make a table, as far as it is used.
#[repr(C)]
struct MapAttributes {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

/// What bpf(2) takes to load a program, as far as it is used.
#[repr(C)]
struct ProgramAttributes {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
}

/// Makes a table of keys with four bytes each that forgets the entry that was used longest ago when it is full. It is gone when nobody
/// holds it: no descriptor and no program.
///
/// # Errors
/// What the kernel answered: without the right, or without BPF.
pub fn create_forgetting_table(key_bytes: u32, entries_max: u32) -> io::Result<OwnedFd> {
    let attributes =
        MapAttributes { kind: TABLE_THAT_FORGETS, key_bytes, value_bytes: 4, entries_max, flags: 0 };
    // SAFETY: the kernel reads as many bytes as it is given the size of.
    unsafe { bpf(MAP_CREATE, &raw const attributes) }
}

/// Has the kernel check and take a program for a filter of traffic control. It is gone when nobody holds it.
///
/// # Errors
/// What the kernel answered; where its verifier refused the program, with the last line of what that said.
pub fn load_classifier(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let count = u32::try_from(instructions.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let license = c"Apache-2.0";
    let mut log = vec![0_u8; 64 * 1024];
    let attributes = ProgramAttributes {
        kind: CLASSIFIER,
        count,
        instructions: instructions.as_ptr() as u64,
        license: license.as_ptr() as u64,
        log_level: 1,
        log_bytes: log.len() as u32,
        log: log.as_mut_ptr() as u64,
    };
    // SAFETY: instructions, license and log outlive the call; the kernel reads `count` instructions of eight bytes and writes at most
    // `log_bytes`.
    let loaded = unsafe { bpf(PROG_LOAD, &raw const attributes) };
    loaded.map_err(|error| {
        let text = String::from_utf8_lossy(&log);
        let mut lines = text.trim_matches('\0').trim().lines().filter(|line| !line.starts_with("processed "));
        match lines.next_back() {
            Some(last) => io::Error::new(error.kind(), format!("{error}: {last}")),
            None => error,
        }
    })
}

/// # Safety
/// What `attributes` points to holds for the command.
unsafe fn bpf<T>(command: libc::c_long, attributes: *const T) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise; the size is that of what is behind the pointer.
    let made = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size_of::<T>()) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    let number = i32::try_from(made).map_err(|_| io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel has just made it, for us alone. BPF descriptors are closed at exec.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
