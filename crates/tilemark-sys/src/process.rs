//! Starting processes with steps between clone and exec, and keeping them by descriptor.
//!
//! `std::process::Command` cannot make its child the first of a PID namespace (unshare only concerns later
//! children), cannot execute a program that is no file, and gives no pidfd without a race; so this module
//! calls clone3 itself. Everything that allocates is done before; the child only makes system calls.

use crate::{namespace::Namespaces, numa::NodeMask, walls::Walls};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{MemfdFlags, memfd_create},
    io::{Errno, FdFlags, fcntl_dupfd_cloexec},
    process::{
        Pid, PidfdFlags, Resource, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, getrlimit, pidfd_open,
        pidfd_send_signal, waitid,
    },
};
use std::{
    env,
    ffi::{CString, OsStr},
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Descriptors handed to a child get numbers below this; our own copies are above.
const FIRST_OWN_DESCRIPTOR: RawFd = 64;

/// The whole environment of a program that is to see nothing of ours, which may hold a password.
pub const CLEAN_ENVIRONMENT: [(&str, &str); 2] =
    [("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), ("LANG", "C.UTF-8")];

/// A program as a shell would find it.
pub fn on_path(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// What is executed.
#[derive(Debug)]
enum Program {
    Path(CString),
    Descriptor(OwnedFd),
}

/// A process to be started: what, in which namespaces, with which descriptors.
#[derive(Debug)]
pub struct Spawn {
    program: Program,
    arguments: Vec<CString>,
    environment: Option<Vec<CString>>,
    namespaces: Namespaces,
    descriptors: Vec<Handed>,
    death_signal: Option<Signal>,
    session: Session,
    huge_pages: HugePages,
    processors: Vec<u32>,
    memory: Option<NodeMask>,
    oom_score: Option<i16>,
    longest_file: Option<u64>,
    cgroup: Option<OwnedFd>,
    walls: Option<Walls>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HugePages {
    AsTheHostDoes,
    Never,
}

#[derive(Debug)]
struct Handed {
    source: OwnedFd,
    number: RawFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    Shared,
    Own,
}

/// A process that could not be started: which step of the child failed, and why.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Before there was a child.
    #[error("cannot prepare the start of {program}")]
    Prepare {
        /// What was to be executed.
        program: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The child itself could not go on.
    #[error("cannot start {program}: {step} failed")]
    Step {
        /// What was to be executed.
        program: String,
        /// Which step.
        step: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

impl SpawnError {
    /// The system's reason alone.
    pub fn into_source(self) -> io::Error {
        match self {
            Self::Prepare { source, .. } | Self::Step { source, .. } => source,
        }
    }
}

fn c_string(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::from)
}

impl Spawn {
    /// Executes the file at `path`. Arguments follow; the first, its own name, is `path`.
    pub fn path(path: &Path) -> io::Result<Self> {
        let name = c_string(path.as_os_str())?;
        Ok(Self::new(Program::Path(name.clone()), name))
    }

    /// Executes the program behind a descriptor, such as one made by [`program_in_memory`].
    /// It must be statically linked: there is no path that a loader could use.
    pub fn descriptor(program: OwnedFd, name: &str) -> io::Result<Self> {
        Ok(Self::new(Program::Descriptor(program), c_string(OsStr::new(name))?))
    }

    /// Executes this very program again, even if its file was replaced since.
    pub fn this_program(name: &str) -> io::Result<Self> {
        let mut spawn = Self::path(Path::new("/proc/self/exe"))?;
        spawn.arguments = vec![c_string(OsStr::new(name))?];
        Ok(spawn)
    }

    fn new(program: Program, name: CString) -> Self {
        Self {
            program,
            arguments: vec![name],
            environment: None,
            namespaces: Namespaces::NONE,
            descriptors: Vec::new(),
            death_signal: None,
            session: Session::Shared,
            huge_pages: HugePages::AsTheHostDoes,
            processors: Vec::new(),
            memory: None,
            oom_score: None,
            longest_file: None,
            cgroup: None,
            walls: None,
        }
    }

    /// One more argument.
    pub fn argument(mut self, argument: impl AsRef<OsStr>) -> io::Result<Self> {
        self.arguments.push(c_string(argument.as_ref())?);
        Ok(self)
    }

    /// More arguments.
    pub fn arguments<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> io::Result<Self> {
        for argument in arguments {
            self.arguments.push(c_string(argument.as_ref())?);
        }
        Ok(self)
    }

    /// Exactly these `NAME=value`, instead of the caller's environment.
    pub fn environment<S: AsRef<OsStr>>(
        mut self,
        variables: impl IntoIterator<Item = S>,
    ) -> io::Result<Self> {
        let variables: io::Result<Vec<_>> =
            variables.into_iter().map(|variable| c_string(variable.as_ref())).collect();
        self.environment = Some(variables?);
        Ok(self)
    }

    /// [`CLEAN_ENVIRONMENT`], instead of the caller's.
    pub fn clean_environment(self) -> io::Result<Self> {
        self.environment(CLEAN_ENVIRONMENT.map(|(name, value)| format!("{name}={value}")))
    }

    /// New namespaces for it. With [`Namespaces::PID`] it is the namespace's first process.
    pub fn namespaces(mut self, namespaces: Namespaces) -> Self {
        self.namespaces = namespaces;
        self
    }

    /// It has `descriptor` under `number` (0, 1 and 2 are its standard streams; at most 63). All others close.
    /// Without it, standard streams are the caller's.
    pub fn hand(mut self, descriptor: OwnedFd, number: RawFd) -> Self {
        assert!((0..FIRST_OWN_DESCRIPTOR).contains(&number), "handed descriptors are numbered below 64");
        self.descriptors.push(Handed { source: descriptor, number });
        self
    }

    /// It gets this signal when the *thread* that started it ends; so start it from one that stays.
    /// If that happened before the request took effect, it never begins.
    pub fn dies_with_thread(mut self, signal: Signal) -> Self {
        self.death_signal = Some(signal);
        self
    }

    /// It leads a session of its own, away from the terminal and its Ctrl-C.
    pub fn own_session(mut self) -> Self {
        self.session = Session::Own;
        self
    }

    /// The kernel gives it no transparent huge pages: memory that it touches a little of stays little.
    pub fn without_huge_pages(mut self) -> Self {
        self.huge_pages = HugePages::Never;
        self
    }

    /// Only these host threads; empty: as the caller.
    pub fn processors(mut self, processors: &[u32]) -> Self {
        self.processors = processors.to_vec();
        self
    }

    /// Its memory comes from these NUMA nodes only; empty: as the caller's. All that it starts inherits that.
    pub fn memory_of_nodes(mut self, nodes: &[u32]) -> Self {
        self.memory = NodeMask::of(nodes);
        self
    }

    /// Who is ended first when memory runs out: -1000 never, 1000 first.
    pub fn oom_score(mut self, score: i16) -> Self {
        self.oom_score = Some(score);
        self
    }

    /// It writes no file beyond so many bytes. It sets that itself: to limit a process of another user needs `CAP_SYS_RESOURCE`, which root
    /// does not have in every container.
    pub fn longest_file(mut self, bytes: u64) -> Self {
        self.longest_file = Some(bytes);
        self
    }

    /// It starts in this control group (a directory of cgroup2).
    pub fn in_cgroup(mut self, directory: OwnedFd) -> Self {
        self.cgroup = Some(directory);
        self
    }

    /// These walls are around it and all that it starts.
    pub fn behind(mut self, walls: Walls) -> Self {
        self.walls = Some(walls);
        self
    }

    fn name(&self) -> String {
        self.arguments.first().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Starts it, and returns once its program runs.
    pub fn start(self) -> Result<Child, SpawnError> {
        let program = self.name();
        let prepare = |source| SpawnError::Prepare { program: program.clone(), source };
        let prepared = Prepared::new(self).map_err(prepare)?;
        let (child, mut report) = prepared.clone_process().map_err(prepare)?;
        drop(prepared);
        let mut message = [0; 8];
        match report.read_exact(&mut message) {
            // Closed by exec: the program runs.
            Err(_) => Ok(child),
            Ok(()) => {
                let [s0, s1, s2, s3, e0, e1, e2, e3] = message;
                let step = Step::name_of(u32::from_ne_bytes([s0, s1, s2, s3]));
                let source = io::Error::from_raw_os_error(i32::from_ne_bytes([e0, e1, e2, e3]));
                let _ = child.wait();
                Err(SpawnError::Step { program, step, source })
            }
        }
    }
}

/// What the child does up to exec, in this order. The number of the one that failed comes back through the pipe.
#[derive(Debug, Clone, Copy)]
enum Step {
    DeathSignal,
    Session,
    HugePages,
    Processors,
    Memory,
    OomScore,
    FileSize,
    Descriptors,
    Starter,
    Walls,
    Program,
}

impl Step {
    const NAMES: [(Self, &'static str); 11] = [
        (Self::DeathSignal, "setting the signal that follows its parent"),
        (Self::Session, "starting a session"),
        (Self::HugePages, "doing without huge pages"),
        (Self::Processors, "choosing processors"),
        (Self::Memory, "choosing the NUMA nodes of its memory"),
        (Self::OomScore, "setting its order in memory shortage"),
        (Self::FileSize, "limiting the size of files"),
        (Self::Descriptors, "handing descriptors"),
        (Self::Starter, "finding its parent alive"),
        (Self::Walls, "giving up capabilities and system calls"),
        (Self::Program, "executing the program"),
    ];

    fn name_of(number: u32) -> &'static str {
        let found = Self::NAMES.into_iter().find(|(step, _)| *step as u32 == number);
        found.map_or("a step", |(_, name)| name)
    }
}

/// All that the child needs, allocated beforehand.
struct Prepared {
    program: Program,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    descriptors: Vec<Handed>,
    flags: u64,
    death_signal: libc::c_int,
    session: Session,
    huge_pages: HugePages,
    processors: Option<libc::cpu_set_t>,
    memory: Option<NodeMask>,
    oom_score: Option<Vec<u8>>,
    longest_file: Option<libc::rlimit>,
    cgroup: Option<OwnedFd>,
    walls: Option<Walls>,
    parent: OwnedFd,
    report_read: OwnedFd,
    report_write: OwnedFd,
    // What the pointers above point into.
    _strings: Vec<Vec<CString>>,
}

/// A limit of files' sizes, at most the caller's own.
fn file_size(bytes: u64) -> libc::rlimit {
    let most = getrlimit(Resource::Fsize).maximum.map_or(bytes, |own| own.min(bytes));
    libc::rlimit { rlim_cur: most, rlim_max: most }
}

fn high_copy(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(descriptor, FIRST_OWN_DESCRIPTOR)?)
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
}

fn inherited_environment() -> io::Result<Vec<CString>> {
    env::vars_os()
        .map(|(mut name, value)| {
            name.push("=");
            name.push(value);
            c_string(&name)
        })
        .collect()
}

impl Prepared {
    fn new(spawn: Spawn) -> io::Result<Self> {
        let environment = match spawn.environment {
            Some(environment) => environment,
            None => inherited_environment()?,
        };
        let (report_read, report_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let program = match spawn.program {
            Program::Path(path) => Program::Path(path),
            Program::Descriptor(descriptor) => Program::Descriptor(high_copy(descriptor)?),
        };
        let descriptors: io::Result<Vec<_>> = spawn
            .descriptors
            .iter()
            .map(|handed| Ok(Handed { source: high_copy(&handed.source)?, number: handed.number }))
            .collect();
        Ok(Self {
            program,
            arguments: pointers(&spawn.arguments),
            environment: pointers(&environment),
            descriptors: descriptors?,
            flags: spawn.namespaces.clone_flags(),
            death_signal: spawn.death_signal.map_or(0, Signal::as_raw),
            session: spawn.session,
            huge_pages: spawn.huge_pages,
            processors: processor_set(&spawn.processors),
            memory: spawn.memory,
            oom_score: spawn.oom_score.map(|score| score.to_string().into_bytes()),
            longest_file: spawn.longest_file.map(file_size),
            cgroup: spawn.cgroup,
            walls: spawn.walls,
            parent: high_copy(pidfd_open(getpid(), PidfdFlags::empty())?)?,
            report_read,
            report_write: high_copy(report_write)?,
            _strings: vec![spawn.arguments, environment],
        })
    }

    fn clone_process(&self) -> io::Result<(Child, File)> {
        let mut pidfd: RawFd = -1;
        let mut arguments = CloneArguments {
            flags: self.flags | libc::CLONE_PIDFD as u64,
            pidfd: &raw mut pidfd as u64,
            exit_signal: libc::SIGCHLD as u64,
            ..CloneArguments::default()
        };
        if let Some(cgroup) = &self.cgroup {
            arguments.flags |= CLONE_INTO_CGROUP;
            arguments.cgroup = cgroup.as_raw_fd() as u64;
        }
        let before = block_signals()?;
        // SAFETY: without CLONE_VM the child has its own copy of all memory and runs on a copy of this
        // stack, as after fork. It may be a copy of a process with other threads, so until exec it makes
        // system calls only: no allocation, no lock (`become_program`). All it uses is prepared above.
        // rustix and std offer no clone with namespaces.
        let result =
            unsafe { libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<CloneArguments>()) };
        if result == 0 {
            self.become_program();
        }
        let failure = io::Error::last_os_error();
        restore_signals(&before);
        if result < 0 {
            return Err(failure);
        }
        let pid =
            i32::try_from(result).ok().and_then(Pid::from_raw).expect("the kernel gives a positive pid");
        // SAFETY: CLONE_PIDFD stored a new descriptor there, which nobody else has.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let report = File::from(self.report_read.try_clone()?);
        // The child's copy must be the only writer, or its end would not be seen; ours is closed by
        // handing the whole preparation to `Spawn::start`, which drops it before reading.
        Ok((Child { pid, pidfd }, report))
    }

    /// The child, up to exec. System calls only; it never returns.
    fn become_program(&self) -> ! {
        let fail = |step: Step| -> ! {
            let mut message = [0_u8; 8];
            message[..4].copy_from_slice(&(step as u32).to_ne_bytes());
            message[4..].copy_from_slice(&errno().to_ne_bytes());
            // SAFETY: writes eight bytes of this frame to our own pipe, then ends the process without
            // running anything of the copied program's.
            unsafe {
                libc::write(self.report_write.as_raw_fd(), message.as_ptr().cast(), message.len());
                libc::_exit(127)
            }
        };
        // SAFETY: plain system calls with values prepared before the clone; see the comment there.
        unsafe {
            if self.death_signal != 0 && libc::prctl(libc::PR_SET_PDEATHSIG, self.death_signal) != 0 {
                fail(Step::DeathSignal);
            }
            if self.session == Session::Own && libc::setsid() < 0 {
                fail(Step::Session);
            }
            if self.huge_pages == HugePages::Never && libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0 {
                fail(Step::HugePages);
            }
            if let Some(set) = &self.processors
                && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) != 0
            {
                fail(Step::Processors);
            }
            if let Some(memory) = &self.memory
                && memory.bind() != 0
            {
                fail(Step::Memory);
            }
            if let Some(score) = &self.oom_score
                && write_file(c"/proc/self/oom_score_adj", score) != 0
            {
                fail(Step::OomScore);
            }
            if let Some(limit) = &self.longest_file
                && libc::setrlimit(libc::RLIMIT_FSIZE, limit) != 0
            {
                fail(Step::FileSize);
            }
            for handed in &self.descriptors {
                if libc::dup2(handed.source.as_raw_fd(), handed.number) < 0 {
                    fail(Step::Descriptors);
                }
            }
            if self.death_signal != 0 && has_ended(self.parent.as_raw_fd()) {
                fail(Step::Starter);
            }
            default_signals();
            if let Some(walls) = &self.walls
                && walls.raise() != 0
            {
                fail(Step::Walls);
            }
            match &self.program {
                Program::Path(path) => {
                    libc::execve(path.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr());
                }
                Program::Descriptor(descriptor) => {
                    libc::syscall(
                        libc::SYS_execveat,
                        descriptor.as_raw_fd(),
                        c"".as_ptr(),
                        self.arguments.as_ptr(),
                        self.environment.as_ptr(),
                        libc::AT_EMPTY_PATH,
                    );
                }
            }
            fail(Step::Program)
        }
    }
}

fn errno() -> i32 {
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() }
}

/// Writes a small file with system calls only; 0 when it worked.
///
/// # Safety
/// None beyond that of its system calls; marked so because it runs between clone and exec.
unsafe fn write_file(path: &std::ffi::CStr, bytes: &[u8]) -> libc::c_int {
    // SAFETY: a valid C string, and a buffer of its stated length.
    unsafe {
        let file = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return -1;
        }
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        libc::close(file);
        if written < 0 { -1 } else { 0 }
    }
}

/// Whether the process behind a pidfd has ended.
///
/// # Safety
/// `pidfd` must be open. Runs between clone and exec.
unsafe fn has_ended(pidfd: RawFd) -> bool {
    let mut poll = libc::pollfd { fd: pidfd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

/// Rust ignores SIGPIPE, and an ignored signal stays ignored over exec; the blocked set stays too.
///
/// # Safety
/// Changes the whole process's signals: only between clone and exec.
unsafe fn default_signals() {
    // SAFETY: sets dispositions and mask from zeroed, then initialised values.
    unsafe {
        for signal in 1..65 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Blocks all signals of this thread, so that no handler of ours runs in the copy before exec.
fn block_signals() -> io::Result<libc::sigset_t> {
    // SAFETY: both sets are ours, and filled before they are read.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        match libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before) {
            0 => Ok(before),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set that `block_signals` filled.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut());
    }
}

fn processor_set(processors: &[u32]) -> Option<libc::cpu_set_t> {
    if processors.is_empty() {
        return None;
    }
    // SAFETY: a cpu_set_t is an array of integers; all zero is the empty set, and CPU_SET stays inside
    // it for numbers below CPU_SETSIZE.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &processor in processors.iter().filter(|&&processor| processor < libc::CPU_SETSIZE as u32) {
            libc::CPU_SET(processor as usize, &mut set);
        }
        Some(set)
    }
}

/// `struct clone_args` of linux/sched.h, as of Linux 5.7.
#[repr(C)]
#[derive(Default)]
struct CloneArguments {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// From linux/sched.h; libc types it as an int, in which it does not fit.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// A child process, held by a descriptor: its number cannot come to mean another process.
/// Dropping it neither ends nor waits for it.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    pidfd: OwnedFd,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
}

impl Ended {
    /// As shells say it: the code, or 128 and the signal.
    pub const fn code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(signal) => 128 + signal,
        }
    }
}

impl Child {
    /// Its number in the caller's PID namespace.
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Readable when it has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Waits for its end.
    pub fn wait(&self) -> io::Result<Ended> {
        loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Ok(Some(status)) => return Ok(ended(status.exit_status(), status.terminating_signal())),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How it ended, if it has; never waits.
    pub fn try_wait(&self) -> io::Result<Option<Ended>> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), options)?;
        Ok(status.map(|status| ended(status.exit_status(), status.terminating_signal())))
    }

    /// Waits for its end at most so long. It stays a zombie until `wait` or `try_wait`.
    pub fn ends_within(&self, limit: Duration) -> io::Result<HasEnded> {
        ends_within(self.pidfd(), limit)
    }

    /// Sends a signal. One that has ended is no error.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        signal_by_descriptor(self.pidfd(), signal)
    }
}

fn ended(code: Option<i32>, signal: Option<i32>) -> Ended {
    match (code, signal) {
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => Ended::Signalled(signal.unwrap_or(libc::SIGKILL)),
    }
}

/// Whether a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HasEnded {
    /// It has.
    Yes,
    /// Not yet.
    No,
}

/// Waits at most so long for the end of the process behind a pidfd.
pub fn ends_within(pidfd: BorrowedFd<'_>, limit: Duration) -> io::Result<HasEnded> {
    Ok(if is_readable_by(pidfd, Instant::now() + limit)? { HasEnded::Yes } else { HasEnded::No })
}

/// Waits until there is something to read, or the other end is closed, but no longer than to the deadline.
pub(crate) fn is_readable_by(descriptor: BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A descriptor of a process that is known by number. Compare its start time before trusting it.
pub fn descriptor_of(pid: u32) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Sends a signal to the process behind a pidfd. One that has ended is no error.
pub fn signal_by_descriptor(pidfd: BorrowedFd<'_>, signal: Signal) -> io::Result<()> {
    match pidfd_send_signal(pidfd, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Puts a program's bytes into anonymous memory, to be executed by descriptor.
pub fn program_in_memory(name: &str, program: &[u8]) -> io::Result<OwnedFd> {
    let memory = memfd_create(name, MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    file.write_all(program)?;
    // Executing a file that is open for writing fails with ETXTBSY, and another thread's child may hold a
    // copy of this descriptor: open it again for reading only.
    let readable = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(readable.into())
}

/// Reaps every child until `main` ends, and says how it ended: the work of a first process.
/// Children of others are reaped too, so nobody else in this process may wait for one.
pub fn init_loop(main: &Child) -> io::Result<Ended> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == main.pid => {
                return Ok(ended(status.exit_status(), status.terminating_signal()));
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Takes a descriptor that was handed to this process at its start under `number`.
///
/// Call it once for each number, early: it takes ownership.
pub fn take_handed(number: RawFd) -> io::Result<OwnedFd> {
    assert!((3..FIRST_OWN_DESCRIPTOR).contains(&number), "handed descriptors are numbered 3 to 63");
    // SAFETY: only borrowed for one call that fails when it is not open.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and by the contract of `Spawn::hand` it was opened for us; std and the
    // libraries here open none with a fixed number.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(spawn: Spawn) -> (Ended, String) {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let child = spawn.hand(write, 1).start().unwrap();
        let mut text = String::new();
        File::from(read).read_to_string(&mut text).unwrap();
        (child.wait().unwrap(), text)
    }

    fn shell(command: &str) -> Spawn {
        Spawn::path(Path::new("/bin/sh")).unwrap().arguments(["-c", command]).unwrap()
    }

    #[test]
    fn a_program_runs_and_its_end_is_known() {
        assert_eq!(output(shell("echo hi; exit 3")), (Ended::Exited(3), "hi\n".to_owned()));
    }

    #[test]
    fn a_missing_program_is_named_with_its_step() {
        let error = Spawn::path(Path::new("/nowhere/qemu")).unwrap().start().unwrap_err();
        assert_eq!(error.to_string(), "cannot start /nowhere/qemu: executing the program failed");
    }

    #[test]
    fn handed_descriptors_arrive_even_when_numbers_overlap() {
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        File::from(write).write_all(b"seven").unwrap();
        let (ended, text) = output(shell("cat <&7").hand(read, 7));
        assert_eq!((ended, text.as_str()), (Ended::Exited(0), "seven"));
    }

    #[test]
    fn a_program_in_memory_is_executed_without_a_file() {
        // A script would need a path for its interpreter: take a real program's bytes.
        let bytes = std::fs::read("/bin/true").unwrap();
        let program = program_in_memory("true", &bytes).unwrap();
        let child = Spawn::descriptor(program, "true").unwrap().start().unwrap();
        assert_eq!(child.wait().unwrap(), Ended::Exited(0));
    }

    #[test]
    fn signals_that_are_ignored_here_are_not_ignored_there() {
        // Rust ignores SIGPIPE (bit 13 - 1); the child must not.
        let (_, text) = output(shell("grep SigIgn /proc/self/status"));
        let mask = u64::from_str_radix(text.split_whitespace().nth(1).unwrap(), 16).unwrap();
        assert_eq!(mask & (1 << 12), 0);
    }

    #[test]
    fn a_signal_to_one_that_ended_is_no_error() {
        let child = shell("exit 0").start().unwrap();
        child.wait().unwrap();
        child.signal(Signal::KILL).unwrap();
    }

    #[test]
    fn the_size_of_files_is_limited_and_never_above_the_callers_own_limit() {
        let limits = |spawn: Spawn| {
            output(spawn).1.split_whitespace().skip(3).take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        let shown = || shell("grep 'Max file size' /proc/self/limits");
        assert_eq!(limits(shown().longest_file(1 << 20)), ["1048576", "1048576"]);
        assert_eq!(limits(shown().longest_file(u64::MAX)), limits(shown()));
    }

    #[test]
    fn orders_of_processors_and_environment_reach_the_program() {
        let spawn = shell("echo $A; grep Cpus_allowed_list /proc/self/status")
            .environment(["A=b"])
            .unwrap()
            .processors(&[0]);
        assert_eq!(output(spawn).1, "b\nCpus_allowed_list:\t0\n");
    }
}
