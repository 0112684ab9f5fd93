//! Walls around a process that shares the host's kernel: few capabilities, no way to more, no core dump, and a filter of system calls.
//!
//! They hold for the process and all that it starts, and nobody takes them down again.

use crate::{limits::refuse_core_dumps, users};
use rustix::{
    process::{Resource, Rlimit, getrlimit, setrlimit},
    thread::CapabilitySet,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Width, SeccompCmpOp as Is, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, sock_filter,
};
use std::{collections::BTreeMap, io};

/// What a service does with root's power: it gives its files to its own user and becomes it, ends its workers, listens on a
/// port below 1,024. Of the rest nothing, above all no mounts, devices, modules, clocks and foreign processes.
const OF_SERVICES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Calls that no service of a twin needs, and with which others have left their namespaces or reached the host's kernel:
/// mounts and roots, namespaces, foreign processes, modules, keys (which know no namespace), clocks, files by handle, swap,
/// accounting, and parts of the kernel that were broken into often (bpf, perf, userfaultfd).
const DENIED: &[libc::c_long] = &[
    libc::SYS_acct,
    libc::SYS_adjtimex,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS__sysctl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
];

/// Flags of clone that make namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Requests that put text into a terminal's input as if its user had typed it (asm-generic/ioctls.h: TIOCSTI, TIOCLINUX). A program of
/// an image that shares a terminal with a shell of the host would command that shell.
const TYPING: [u64; 2] = [0x5412, 0x541c];

/// Requests to loop devices (linux/loop.h: 0x4c00 to 0x4cff). Whoever may write a disk of its own could take from its loop device what
/// unbinds it with its last user, and it would outlive the run.
const LOOPS: (u64, u64) = (0xff00, 0x4c00);

/// Requests to trace a disk (linux/blktrace_api.h: BLKTRACESETUP, BLKTRACESTART, BLKTRACESTOP, BLKTRACETEARDOWN) by their type and number,
/// whatever size they give. The kernel asks for no capability: the buffers are as large as the caller says, count for no control group,
/// and outlive the run with the host's loop device; and all disks of the host are traced a little slower.
const TRACING: [u64; 4] = [0x1273, 0x1274, 0x1275, 0x1276];
const TYPE_AND_NUMBER: u64 = 0xffff;

/// Requests for which the kernel loads a module of the host without a look at any capability (asm-generic/ioctls.h, linux/sockios.h:
/// TIOCSETD, SIOCGIFBR, SIOCSIFBR, SIOCGIFVLAN, SIOCSIFVLAN, SIOCBRADDBR, SIOCBRDELBR, SIOCBRADDIF, SIOCBRDELIF).
const LOADING: [u64; 9] = [0x5423, 0x8940, 0x8941, 0x8982, 0x8983, 0x89a0, 0x89a1, 0x89a2, 0x89a3];

/// Protocols of IPv4 and IPv6 that services use: whatever the type has, TCP, UDP, and echo requests of either. For others the kernel
/// loads a module of the host (SCTP, DCCP, L2TP, SMC). Go's listeners ask for multipath TCP first, and do with TCP.
const PROTOCOLS: [libc::c_int; 5] =
    [0, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6];

/// Bits of a socket's type that streams (1), datagrams (2) and raw sockets (3) do not have: DCCP is found by its type too.
const OTHER_TYPES: [u64; 2] = [4, 8];

/// Protocols of netlink: routes and addresses, which C libraries read, and the audit, to which PAM reports logins. `ss` does without its own.
const NETLINKS: [libc::c_int; 2] = [libc::NETLINK_ROUTE, libc::NETLINK_AUDIT];

/// The kinds of sockets that services use. Others know no network namespace (vsock), or make the host load a module.
const SOCKETS: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// A monitor opens its files as root: its program, firmware and kernel may lie in a user's own folder. Before its guest begins it
/// takes an empty root and a user of its own, and has nothing of this any more.
const OF_MONITORS: CapabilitySet = CapabilitySet::DAC_READ_SEARCH
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SYS_CHROOT);

/// A monitor is handed all its sockets; what is left is for libraries that look something up and can do without.
const SOCKETS_OF_MONITORS: [libc::c_int; 1] = [libc::AF_UNIX];

/// The kernel's rings (io_uring): what is asked for in one passes no filter, and can be a socket of any kind.
const RINGS: [libc::c_long; 3] =
    [libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

/// What a reader's one file can need, whatever is in it: address space and seconds of a processor. It writes no file.
const LIMITS_OF_READERS: [(Resource, u64); 3] =
    [(Resource::As, 512 << 20), (Resource::Cpu, 10), (Resource::Fsize, 0)];

/// Whether a monitor may use the rings of io_uring(7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rings {
    /// Its events and its disks do without.
    Denied,
    /// A disk of its guest is read and written through one.
    Allowed,
}

/// The older forms of clone without a new thread.
#[cfg(target_arch = "x86_64")]
const FORKS: [libc::c_long; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: [libc::c_long; 0] = [];

/// On x86-64 the calls answer under numbers from here on too, with 32-bit pointers (asm/unistd.h, `__X32_SYSCALL_BIT`), and some of them,
/// such as ioctl and ptrace, under others than their own.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

/// Walls, ready to be put around a process.
#[derive(Debug, Default)]
pub struct Walls {
    kept: u64,
    /// Whether the set of capabilities that a program could get stays: the caller may not change it.
    keeps_bound: bool,
    /// Whom it becomes.
    user: Option<u32>,
    limits: Vec<(Resource, u64)>,
    filters: Vec<BpfProgram>,
}

/// Why there is no filter.
#[derive(Debug, thiserror::Error)]
#[error("the filter of system calls cannot be made")]
pub struct WallsError(#[from] seccompiler::BackendError);

impl Walls {
    /// Around the services of a native twin, and all that an image brings.
    ///
    /// Denied calls answer EPERM. clone3 answers ENOSYS, since a filter cannot read its flags; C libraries then use clone. Whoever sets the
    /// limit of core dumps gets the answer that it is set.
    pub fn of_services() -> Result<Self, WallsError> {
        Ok(Self {
            kept: OF_SERVICES.bits(),
            filters: vec![
                denied(NAMESPACES.map(is_set).to_vec(), &SOCKETS, &[libc::SYS_chroot])?,
                without_clone3()?,
                without_core_limit()?,
            ],
            ..Self::default()
        })
    }

    /// Around a virtual machine monitor: it may read files, take another root and become another user, has no other capability, opens
    /// no network but what its rings can, and starts threads only, no further process.
    pub fn of_monitor(rings: Rings) -> Result<Self, WallsError> {
        let no_thread = (Is::MaskedEq(libc::CLONE_THREAD.unsigned_abs().into()), 0);
        let mut further = FORKS.to_vec();
        if rings == Rings::Denied {
            further.extend(RINGS);
        }
        Ok(Self {
            kept: OF_MONITORS.bits(),
            filters: vec![
                denied(vec![no_thread], &SOCKETS_OF_MONITORS, &further)?,
                without_clone3()?,
                without_core_limit()?,
            ],
            ..Self::default()
        })
    }

    /// Around a program that reads a file of somebody else and prints what is in it: a user whom nobody else is, no capability, no socket, no
    /// further process, no file that it writes, limits of its memory and its time. It must be handed the file, and stays the caller's
    /// user where the caller may not become another.
    ///
    /// # Errors
    /// What the kernel answered, or when there is no filter.
    pub fn of_reader() -> io::Result<Self> {
        let power = CapabilitySet::SETGID | CapabilitySet::SETPCAP | CapabilitySet::SETUID;
        let may_change = rustix::thread::capabilities(None)?.effective.contains(power);
        let monitor = Self::of_monitor(Rings::Denied).map_err(io::Error::other)?;
        let mut filters = monitor.filters;
        filters.push(without_sockets().map_err(io::Error::other)?);
        Ok(Self {
            kept: 0,
            keeps_bound: !may_change,
            user: may_change.then(users::first_of_own).transpose()?,
            limits: LIMITS_OF_READERS.to_vec(),
            filters,
        })
    }

    /// Around a process that sends loads from the host: it may give its threads a real-time priority, as far as the caller may, and has no
    /// other capability. No filter, which every request would pass.
    ///
    /// # Errors
    /// What the kernel answered; none where the caller may not give up capabilities, and has none that would matter.
    pub fn of_load() -> io::Result<Option<Self>> {
        let own = rustix::thread::capabilities(None)?.permitted;
        let kept = (own & CapabilitySet::SYS_NICE).bits();
        Ok(own.contains(CapabilitySet::SETPCAP).then(|| Self { kept, ..Self::default() }))
    }

    /// Puts them around the calling process, for good. Negative where the kernel refuses; `errno` says why.
    ///
    /// # Safety
    /// It makes system calls only, so it may run between clone and exec; nowhere else is it meant to run.
    pub(crate) unsafe fn raise(&self) -> libc::c_int {
        // While it may raise the limit.
        refuse_core_dumps();
        // SAFETY: plain system calls; what they point to lives in this frame or in `self`.
        unsafe {
            let given_up = |number: &u32| !self.keeps_bound && self.kept & (1 << number) == 0;
            for capability in (0..u64::BITS).filter(given_up) {
                if libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) != 0
                    && *libc::__errno_location() != libc::EINVAL
                {
                    return -1;
                }
            }
            if let Some(user) = self.user
                && become_user(user) != 0
            {
                return -1;
            }
            for (resource, most) in &self.limits {
                // A caller that has less already keeps that.
                let most = getrlimit(*resource).maximum.map_or(*most, |hard| hard.min(*most));
                let limit = Rlimit { current: Some(most), maximum: Some(most) };
                if setrlimit(*resource, limit).is_err() {
                    return -1;
                }
            }
            let (low, high) = (self.kept as u32, (self.kept >> 32) as u32);
            let of = |kept| CapabilityData { effective: kept, permitted: kept, inheritable: 0 };
            let mut header = CapabilityHeader { version: CAPABILITY_VERSION, pid: 0 };
            let failed = libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0
                || libc::syscall(libc::SYS_capset, &raw mut header, [of(low), of(high)].as_ptr()) != 0
                || libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0;
            if failed {
                return -1;
            }
            for filter in &self.filters {
                let program = libc::sock_fprog {
                    len: filter.len() as libc::c_ushort,
                    filter: filter.as_ptr().cast_mut().cast(),
                };
                // Without the flag kernels before 5.16 slow every process that has a filter.
                let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
                if libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
                    != 0
                {
                    return -1;
                }
            }
        }
        0
    }
}

/// Makes the calling process a user in no other group. Other than 0 where the kernel refuses.
///
/// # Safety
/// Only between clone and exec. Not by the C library's own functions: they wait for all threads that its memory, a copy, knows.
unsafe fn become_user(user: u32) -> libc::c_long {
    let none = std::ptr::null::<libc::gid_t>();
    // SAFETY: plain system calls; a list of no groups needs no memory.
    unsafe {
        libc::syscall(libc::SYS_setgroups, 0, none)
            | libc::syscall(libc::SYS_setresgid, user, user, user)
            | libc::syscall(libc::SYS_setresuid, user, user, user)
    }
}

const _: () = assert!(size_of::<sock_filter>() == size_of::<libc::sock_filter>());

/// Always: no rule, so every such call is meant.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// How an argument is compared, and with what.
type Condition = (Is, u64);

fn is_set(flag: libc::c_int) -> Condition {
    let flag = u64::from(flag.unsigned_abs());
    (Is::MaskedEq(flag), flag)
}

/// An argument of a call, by its place.
fn argument(place: u8, (is, value): Condition) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(place, Width::Dword, is, value)
}

/// That an argument is none of these.
fn is_none_of(place: u8, values: &[libc::c_int]) -> Result<Vec<SeccompCondition>, seccompiler::BackendError> {
    values.iter().map(|value| argument(place, (Is::Ne, u64::from(value.unsigned_abs())))).collect()
}

/// Sockets that are denied: of other kinds than these, and of protocols that make the host load a module.
fn other_sockets(kinds: &[libc::c_int]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let is_kind = |kind: libc::c_int| argument(0, (Is::Eq, u64::from(kind.unsigned_abs())));
    let of_kind = |kind, mut also: Vec<SeccompCondition>| {
        also.push(is_kind(kind)?);
        SeccompRule::new(also)
    };
    let mut rules =
        vec![SeccompRule::new(is_none_of(0, kinds)?)?, of_kind(libc::AF_NETLINK, is_none_of(2, &NETLINKS)?)?];
    for kind in [libc::AF_INET, libc::AF_INET6] {
        rules.push(of_kind(kind, is_none_of(2, &PROTOCOLS)?)?);
        for bit in OTHER_TYPES {
            rules.push(of_kind(kind, vec![argument(1, (Is::MaskedEq(bit), bit))?])?);
        }
    }
    Ok(rules)
}

/// What is denied to all, clone with such flags, sockets of other kinds than these, further calls, and all of x32. One program: each
/// costs every call a little.
fn denied(
    clones: Vec<Condition>,
    sockets: &[libc::c_int],
    further: &[libc::c_long],
) -> Result<BpfProgram, WallsError> {
    let any_of = |place, conditions: Vec<Condition>| -> Result<Vec<SeccompRule>, _> {
        let rules =
            conditions.into_iter().map(|condition| SeccompRule::new(vec![argument(place, condition)?]));
        rules.collect()
    };
    let mut rules: Rules = DENIED.iter().chain(further).map(|&call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, any_of(0, clones)?);
    rules.insert(libc::SYS_socket, other_sockets(sockets)?);
    rules.insert(libc::SYS_socketpair, other_sockets(sockets)?);
    let requests = TYPING.into_iter().chain(LOADING).map(|request| (Is::Eq, request));
    let tracing = TRACING.map(|request| (Is::MaskedEq(TYPE_AND_NUMBER), request));
    let requests = requests.chain(tracing).chain([(Is::MaskedEq(LOOPS.0), LOOPS.1)]);
    rules.insert(libc::SYS_ioctl, any_of(1, requests.collect())?);
    let program = program(rules, libc::EPERM)?;
    #[cfg(target_arch = "x86_64")]
    let program = without_x32().into_iter().chain(program).collect();
    Ok(program)
}

/// Denies every number of x32, before anything else is looked at: no service and no monitor is built for it, and rules by number would
/// miss the calls that have another number there.
#[cfg(target_arch = "x86_64")]
fn without_x32() -> [sock_filter; 3] {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let is_at_least = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let number = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    [
        sock_filter { code: load, jt: 0, jf: 0, k: number },
        sock_filter { code: is_at_least, jt: 0, jf: 1, k: X32 },
        sock_filter { code: answer, jt: 0, jf: 0, k: denied },
    ]
}

fn without_clone3() -> Result<BpfProgram, WallsError> {
    program(Rules::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)
}

fn without_sockets() -> Result<BpfProgram, WallsError> {
    program(Rules::from([(libc::SYS_socket, Vec::new()), (libc::SYS_socketpair, Vec::new())]), libc::EPERM)
}

/// Keeps what [`refuse_core_dumps`] has set: another limit would have the kernel start the host's program for dumps again. Setting it succeeds and
/// changes nothing, since programs that keep secrets, such as GnuPG, end where they cannot set it to 0.
fn without_core_limit() -> Result<BpfProgram, WallsError> {
    let is_core = |place| argument(place, (Is::Eq, u64::from(libc::RLIMIT_CORE)));
    // Without a new limit the call only reads.
    let sets = SeccompCondition::new(2, Width::Qword, Is::Ne, 0)?;
    let rules = Rules::from([
        (libc::SYS_setrlimit, vec![SeccompRule::new(vec![is_core(0)?])?]),
        (libc::SYS_prlimit64, vec![SeccompRule::new(vec![is_core(1)?, sets])?]),
    ]);
    program(rules, 0)
}

fn program(rules: Rules, answer: libc::c_int) -> Result<BpfProgram, WallsError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    let answer = SeccompAction::Errno(answer.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, answer, architecture)?;
    Ok(filter.try_into()?)
}

/// `struct __user_cap_header_struct` of linux/capability.h.
#[repr(C)]
struct CapabilityHeader {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct` of linux/capability.h: 32 of 64 capabilities.
#[repr(C)]
struct CapabilityData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// `_LINUX_CAPABILITY_VERSION_3`: 64 capabilities in two halves.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Ended, Spawn};

    fn shell(script: &str) -> Spawn {
        Spawn::path("/bin/sh".as_ref()).unwrap().arguments(["-c", script]).unwrap()
    }

    fn behind(walls: Walls, script: &str) -> Option<Ended> {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            tilemark_fixtures::skipped("only root has capabilities to give up");
        }
        is_root.then(|| shell(script).behind(walls).start().unwrap().wait().unwrap())
    }

    #[test]
    fn a_monitor_starts_no_process_and_a_service_does() {
        // The shell forks, since something follows; `dash` ends with 2 where it cannot.
        let script = "/bin/true; exit 7";
        if let Some(ended) = behind(Walls::of_monitor(Rings::Denied).unwrap(), script) {
            assert_eq!(ended, Ended::Exited(2));
        }
        if let Some(ended) = behind(Walls::of_services().unwrap(), script) {
            assert_eq!(ended, Ended::Exited(7));
        }
    }

    /// Ends with 7 where each of these calls, as perl writes them, answers EPERM behind both walls.
    fn denied_to_all(calls: &[&str]) {
        for call in calls {
            let script = format!("exec perl -e 'syscall({call}); exit($! == 1 ? 7 : 8)' </dev/null");
            for walls in [Walls::of_services(), Walls::of_monitor(Rings::Denied)] {
                if let Some(ended) = behind(walls.unwrap(), &script) {
                    assert_eq!(ended, Ended::Exited(7), "{call}");
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_sandboxed_process_cannot_make_a_pair_of_sockets_of_another_kind() {
        // TIPC, whose module the host would load, and vsock; elsewhere the answer is that there is no such kind or no such pair.
        denied_to_all(&["53, 30, 1, 0, my $pair = \"x\" x 8", "53, 40, 1, 0, my $pair = \"x\" x 8"]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_sandboxed_process_cannot_make_the_host_load_a_module() {
        denied_to_all(&[
            // SCTP, DCCP by protocol and by type, L2TP, SMC, multipath TCP; SCTP of IPv6 that is closed at exec; a pair.
            "41, 2, 5, 132",
            "41, 2, 1, 132",
            "41, 2, 6, 33",
            "41, 2, 6, 0",
            "41, 2, 2, 115",
            "41, 2, 1, 256",
            "41, 2, 1, 262",
            "41, 10, 1 | 0x80000, 132",
            "41, 10, 6 | 0x80000, 0",
            "53, 2, 5, 132, my $pair = \"x\" x 8",
            // Netlink of sockets, net filters and families by name.
            "41, 16, 3, 4",
            "41, 16, 3, 12",
            "41, 16, 3, 16",
            // A line discipline of a terminal; the module of virtual networks.
            "16, 0, 0x5423, my $number = pack(\"i\", 3)",
            "16, 0, 0x8983, my $request = \"x\" x 64",
        ]);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_monitor_has_a_ring_only_where_a_disk_of_its_guest_needs_one() {
        // Whether io_uring_setup answers EPERM, as it also does where the host keeps it from all.
        let script = "exec perl -e 'exit(syscall(425, 2, my $wanted = \"\\0\" x 120) < 0 && $! == 1 ? 7 : 8)' </dev/null";
        let Some(denied) = behind(Walls::of_monitor(Rings::Denied).unwrap(), script) else { return };
        assert_eq!(denied, Ended::Exited(7));
        let without_walls = shell(script).start().unwrap().wait().unwrap();
        assert_eq!(behind(Walls::of_monitor(Rings::Allowed).unwrap(), script), Some(without_walls));
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_host_starts_no_program_for_a_core_dump() {
        let limits = |set: &str| {
            format!(
                "exec perl -e '{set} open(my $own, \"<\", \"/proc/self/limits\"); \
                 exit(grep(/^Max core file size +1 +1 /, <$own>) ? 7 : 8)' </dev/null"
            )
        };
        // setrlimit and prlimit64; a program that keeps secrets ends where they fail. The last one only reads.
        let set = "my ($less, $has) = (pack(\"QQ\", 0, 0), \"x\" x 16); \
                   syscall(160, 4, $less) == 0 && syscall(302, 0, 4, $less, 0) == 0 or exit 9; \
                   syscall(302, 0, 4, 0, $has) == 0 && $has eq pack(\"QQ\", 1, 1) or exit 10;";
        for walls in [Walls::of_services(), Walls::of_monitor(Rings::Denied)] {
            if let Some(ended) = behind(walls.unwrap(), &limits(set)) {
                assert_eq!(ended, Ended::Exited(7));
            }
        }
        let Some(walls) = Walls::of_load().unwrap() else { return };
        if let Some(ended) = behind(walls, &limits("")) {
            assert_eq!(ended, Ended::Exited(7));
        }
    }

    #[test]
    fn a_service_makes_the_sockets_that_services_use() {
        // TCP and UDP of both families, by name and not; the way to routes, and to the audit.
        let kinds = "[2, 1, 0], [2, 1, 6], [2, 2, 17], [2, 2, 0], [10, 1 | 0x80800, 6], [10, 2, 17], [1, 5, 0], [16, 3, 0], [16, 3, 9]";
        // Where the kernel has no IPv6 or no audit: EAFNOSUPPORT, EPROTONOSUPPORT. The wall says EPERM.
        let script = format!(
            "exec perl -MSocket -e 'for ({kinds}) {{ socket(my $made, $_->[0], $_->[1], $_->[2]) or $! != 1 or exit 8 }} exit 7'"
        );
        if let Some(ended) = behind(Walls::of_services().unwrap(), &script) {
            assert_eq!(ended, Ended::Exited(7));
        }
    }

    #[test]
    fn a_load_may_give_its_threads_priority_and_nothing_else() {
        let Some(walls) = Walls::of_load().unwrap() else { return };
        // The priority, where this test has it.
        let own = rustix::thread::capabilities(None).unwrap().permitted & CapabilitySet::SYS_NICE;
        let script = format!(
            "while read -r key value; do case $key in CapEff:|CapPrm:) [ $value = {:016x} ] || exit 8 ;; \
             CapBnd:) [ $((0x$value & ~0x800000)) = 0 ] || exit 9 ;; \
             NoNewPrivs:) [ $value = 1 ] || exit 10 ;; esac; done </proc/self/status; exit 7",
            own.bits()
        );
        if let Some(ended) = behind(walls, &script) {
            assert_eq!(ended, Ended::Exited(7));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_sandboxed_process_cannot_make_a_call_by_a_number_of_x32() {
        // getpid, ioctl, ptrace, kexec_load, process_vm_readv and process_vm_writev; the last number that there can be.
        let numbers = [39, 514, 521, 528, 539, 540, 0x3fff_ffff];
        let calls = numbers.map(|number| format!("0x40000000 | {number}, 0, 0, 0, 0"));
        denied_to_all(&calls.each_ref().map(String::as_str));
    }

    #[test]
    fn a_reader_makes_no_socket_and_starts_no_process() {
        for (script, ended) in [
            // Its standard error may be a file, which it may not write.
            ("exec 2>/dev/null; /bin/true; exit 7", 2),
            ("exec perl -e 'exit(socket(my $made, 1, 1, 0) ? 8 : $! == 1 ? 7 : 9)' </dev/null", 7),
            (
                "exec perl -e 'exit(socketpair(my $one, my $other, 1, 1, 0) ? 8 : $! == 1 ? 7 : 9)' </dev/null",
                7,
            ),
        ] {
            let reader = shell(script).behind(Walls::of_reader().unwrap());
            assert_eq!(reader.start().unwrap().wait().unwrap(), Ended::Exited(ended), "{script}");
        }
    }

    #[test]
    fn a_sandboxed_process_may_make_a_pair_of_local_sockets() {
        let script = "exec perl -MSocket -e 'exit(socketpair(A, B, AF_UNIX, SOCK_STREAM, 0) ? 7 : 8)'";
        for walls in [Walls::of_services(), Walls::of_monitor(Rings::Denied)] {
            if let Some(ended) = behind(walls.unwrap(), script) {
                assert_eq!(ended, Ended::Exited(7));
            }
        }
    }

    #[test]
    fn a_sandboxed_process_cannot_type_into_a_terminal() {
        // Elsewhere the answer would be that this is no terminal.
        let script = "perl -e 'ioctl(STDIN, 0x5412, my $letter = \"a\"); exit($! == 1 ? 7 : 8)' </dev/null";
        if let Some(ended) = behind(Walls::of_services().unwrap(), script) {
            assert_eq!(ended, Ended::Exited(7));
        }
    }

    #[test]
    fn a_sandboxed_process_cannot_change_a_loop_device() {
        // Elsewhere the answer would be that this is no such device (LOOP_SET_STATUS64, LOOP_CLR_FD, LOOP_CONFIGURE).
        for request in ["0x4c04", "0x4c01", "0x4c0a"] {
            let script =
                format!("perl -e 'ioctl(STDIN, {request}, my $flags = 0); exit($! == 1 ? 7 : 8)' </dev/null");
            for walls in [Walls::of_services(), Walls::of_monitor(Rings::Denied)] {
                if let Some(ended) = behind(walls.unwrap(), &format!("exec {script}")) {
                    assert_eq!(ended, Ended::Exited(7), "{request}");
                }
            }
        }
    }

    #[test]
    fn a_sandboxed_process_cannot_trace_a_disk_and_may_ask_for_its_size() {
        // Elsewhere the answers would be that this is no disk. The last one is BLKGETSIZE64.
        for (request, answer) in
            [("0xc0481273", 1), ("0x1274", 1), ("0x1275", 1), ("0x1276", 1), ("0x80081272", 25)]
        {
            let script = format!(
                "perl -e 'ioctl(STDIN, {request}, my $setup = \"x\" x 72); exit($! == {answer} ? 7 : 8)' </dev/null"
            );
            for walls in [Walls::of_services(), Walls::of_monitor(Rings::Denied)] {
                if let Some(ended) = behind(walls.unwrap(), &format!("exec {script}")) {
                    assert_eq!(ended, Ended::Exited(7), "{request}");
                }
            }
        }
    }

    #[test]
    fn a_service_may_do_eight_things_with_roots_power_and_a_monitor_four() {
        for (walls, expected) in [
            (Walls::of_services(), "00000000000004fb"),
            (Walls::of_monitor(Rings::Denied), "00000000000400c4"),
        ] {
            let script = format!(
                "while read -r key value; do [ $key = CapEff: ] && [ $value = {expected} ] && exit 7; done </proc/self/status"
            );
            if let Some(ended) = behind(walls.unwrap(), &script) {
                assert_eq!(ended, Ended::Exited(7), "{expected}");
            }
        }
    }
}
