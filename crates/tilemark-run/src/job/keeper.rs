//! The keeper: a process in its own session that outlives a crash of the command and takes everything away.
//!
//! ```text
//! command --starts--> keeper --starts--> init of new PID, mount and network namespaces --starts--> engine
//!    |  control socket   |   pidfd, and init dies with the keeper's thread                            |
//!    +---------------------------------- messages (a socket pair) -----------------------------------+
//! ```
//! The engine has a socket to the keeper too: it asks it to bind threads of the kernel, which have no number in its own namespace.
//!
//! The keeper makes the run's state folder and control group before anything else, so that nothing is there
//! without it. When the command ends (the control socket closes, `kill -9` included) the keeper ends init, and with it
//! every process, mount, loop device and tap of the run. Then it removes the run's control group, restores the settings that it
//! held, removes the state folder, says what came of that, and ends. For `guests up` the command hands over before it leaves. If the
//! keeper itself is killed, init dies with it; what remains are the folder, the control group and the settings, which `recover`
//! removes and restores.

use crate::job::state_folder::{Account, ActiveJob, StateFolder};
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{Mode, OFlags},
    process::Signal,
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::{fs::OpenOptionsExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Mutex, OnceLock, PoisonError},
    thread,
    time::Duration,
};
use tilemark_guests::processes_below;
use tilemark_host::{
    pin::{LiveProcesses, bind_kernel_threads},
    traces,
};
use tilemark_sys::{
    files::PRIVATE_FILE,
    namespace::{Namespaces, isolate_mounts, remount_proc},
    process::{Child, Ended, Spawn, SpawnError, init_loop, take_handed},
};

/// First argument of the processes that this program starts of itself.
pub(crate) const KEEPER: &str = "__keeper";
/// First argument of the init of a run's namespaces.
pub(crate) const INIT: &str = "__init";
/// First argument of the engine.
pub(crate) const ENGINE: &str = "__engine";

/// Descriptors by which keeper, init and engine are handed what they need.
const MESSAGES: i32 = 3;
/// Number of the descriptor of the keeper's socket in init and the engine.
const KEEPERS_END: i32 = 4;
/// Number of the descriptor of the host's `/proc` in the engine.
const HOST_PROC: i32 = 5;
const CONTROL: i32 = 4;
/// The first of the locks that the keeper holds.
const LOCKS: i32 = 5;

/// What the keeper sends the command when the state folder is there; a text without it is why it is not.
const STATE_IS_MADE: u8 = b'\n';
/// What it sends where another has made a folder of this name already.
const NAME_IS_TAKEN: u8 = b'\t';
/// What the command sends the keeper before it leaves `guests up` to it.
const HAND_OVER: u8 = b'h';

/// What the engine sends the keeper to have threads of the kernel bound, and the keeper's answer.
const BIND: u8 = b'b';

/// Which namespaces a job gets, besides processes and mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// One of its own: guests and load.
    Own,
    /// The host's: an image needs its mirror.
    Host,
}

/// A keeper and the engine that it keeps, as the command sees them.
#[derive(Debug)]
pub(crate) struct KeeperHandle {
    keeper: Child,
    control: UnixStream,
    /// Messages to and from the engine.
    pub(crate) messages: UnixStream,
}

impl KeeperHandle {
    /// Starts a keeper for a job whose state is in `state`. It holds `locks` for as long as it lives.
    pub(crate) fn start(state: &StateFolder, network: Network, locks: Vec<File>) -> Result<Self, SpawnError> {
        let before = |source| SpawnError::Prepare { program: KEEPER.to_owned(), source };
        let (messages, engines_end) = UnixStream::pair().map_err(before)?;
        let (control, keepers_end) = UnixStream::pair().map_err(before)?;
        let null = || File::options().read(true).write(true).open("/dev/null").map_err(before);
        let wanted = serde_json::to_string(&state.wanted()).expect("it has only text keys");
        let mut spawn = Spawn::this_program("tilemark-keeper")
            .and_then(|spawn| spawn.argument(KEEPER))
            .and_then(|spawn| spawn.argument(state.path()))
            .and_then(|spawn| spawn.argument(network.name()))
            .and_then(|spawn| spawn.argument(wanted))
            .map_err(before)?
            .own_session()
            .hand(null()?.into(), 0)
            .hand(null()?.into(), 1)
            .hand(null()?.into(), 2)
            .hand(engines_end.into(), MESSAGES)
            .hand(keepers_end.into(), CONTROL);
        for (number, lock) in (LOCKS..).zip(locks) {
            spawn = spawn.hand(lock.into(), number);
        }
        let mut handle = Self { keeper: spawn.start()?, control, messages };
        handle.wait_for_state().map_err(before)?;
        Ok(handle)
    }

    /// Waits until the keeper has made the state folder. One that could not says why.
    fn wait_for_state(&mut self) -> io::Result<()> {
        let mut answer = [0];
        if self.control.read(&mut answer)? == 1 && answer == [STATE_IS_MADE] {
            return Ok(());
        }
        if answer == [NAME_IS_TAKEN] {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another has just taken its name"));
        }
        let mut why = String::from_utf8_lossy(&answer).into_owned();
        self.control.read_to_string(&mut why)?;
        Err(io::Error::other(why.trim_matches('\0').to_owned()))
    }

    /// Leaves everything to the keeper: it stays when this process ends.
    pub(crate) fn hand_over(mut self) -> io::Result<()> {
        self.control.write_all(&[HAND_OVER])
    }

    /// Lets the keeper end everything now, as if this process were gone.
    pub(crate) fn end_now(&self) -> io::Result<()> {
        self.control.shutdown(std::net::Shutdown::Write)
    }

    /// Waits until all is gone, and says how the engine ended.
    pub(crate) fn wait(&self) -> io::Result<Ended> {
        self.keeper.wait()
    }

    /// The keeper's last report; nothing where it was killed before.
    pub(crate) fn account(&mut self) -> Option<Account> {
        // It has ended: what it sent is there, and nobody sends more.
        self.control.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
        let mut account = Vec::new();
        self.control.read_to_end(&mut account).ok()?;
        serde_json::from_slice(&account).ok()
    }
}

impl Network {
    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own-network",
            Self::Host => "host-network",
        }
    }
}

/// The keeper's `main`.
pub(crate) fn keeper_main(arguments: &[String]) -> ExitCode {
    match keep(arguments) {
        Ok(ended) => ExitCode::from(u8::try_from(ended.code()).unwrap_or(1)),
        Err(error) => {
            eprintln!("keeper: {error}");
            ExitCode::from(1)
        }
    }
}

fn keep(arguments: &[String]) -> io::Result<Ended> {
    let [state, network, wanted] = arguments else {
        return Err(io::Error::other("the keeper is started by the command, not by hand"));
    };
    let state = StateFolder::at(Path::new(state));
    let messages = take_handed(MESSAGES)?;
    let mut control = UnixStream::from(take_handed(CONTROL)?);
    let (asked, engines_end) = UnixStream::pair()?;
    let made = serde_json::from_str(wanted).map_err(io::Error::from).and_then(|wanted| make(&state, wanted));
    if let Err(error) = made {
        let reason = error.to_string();
        // A command that is gone needs no reason.
        let _ = control.write_all(if is_taken(&error) { &[NAME_IS_TAKEN] } else { reason.as_bytes() });
        return Err(error);
    }
    let init = start_init(messages, engines_end.into(), network, &state);
    if let Ok(init) = &init {
        note_namespaces(init, &state);
        let pid = init.pid();
        let answering = thread::Builder::new().spawn(move || answer_engine(asked, pid));
        // Threads of the kernel stay where they are then, which is read back.
        answering.map(drop).unwrap_or_else(|error| eprintln!("keeper: cannot start a thread: {error}"));
    }
    // A command that is gone is found to be so below.
    let _ = control.write_all(&[STATE_IS_MADE]);
    let ended = match &init {
        Ok(init) => watch(init, &mut control),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    // Whatever happened: nothing of the run may stay.
    let account = state.take_away();
    let _ = control.write_all(&serde_json::to_vec(&account)?);
    match account.left() {
        left if left.is_empty() => ended,
        left => Err(io::Error::other(left.join("; "))),
    }
}

/// Notes which namespaces are the run's own, so that whoever reads back knows what must be gone.
fn note_namespaces(init: &Child, state: &StateFolder) {
    let noted = traces::of_process(init.pid()).and_then(|namespaces| state.note_namespaces(namespaces));
    // Without them the command says that it does not know.
    noted.unwrap_or_else(|error| eprintln!("keeper: namespaces: {error}"));
}

/// Whether another state folder is where one was to appear.
pub(crate) fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty)
}

/// Makes the state folder, writes into its log from now on, and holds the settings of the host.
fn make(state: &StateFolder, wanted: ActiveJob) -> io::Result<()> {
    state.make(wanted)?;
    let logged = || -> io::Result<()> {
        let log = File::options().create(true).append(true).mode(PRIVATE_FILE).open(state.log())?;
        rustix::stdio::dup2_stdout(&log)?;
        Ok(rustix::stdio::dup2_stderr(&log)?)
    };
    let held = logged().and_then(|()| state.hold());
    match held {
        Ok(refused) => {
            // The load's lateness shows it.
            refused.iter().for_each(|why| eprintln!("keeper: {why}"));
            Ok(())
        }
        Err(error) => {
            state.take_away();
            Err(error)
        }
    }
}

/// Binds threads of the kernel whenever the engine asks for it, until the engine is gone.
fn answer_engine(mut engine: UnixStream, init: u32) {
    let mut asked = [0];
    while engine.read_exact(&mut asked).is_ok() {
        // Where they are is read back in every repeat, and is a note.
        let refused = bind_kernel_threads(&LiveProcesses, &processes_below(init));
        refused.iter().for_each(|why| eprintln!("keeper: {why}"));
        if engine.write_all(&asked).is_err() {
            return;
        }
    }
}

fn start_init(
    messages: OwnedFd,
    keeper: OwnedFd,
    network: &str,
    state: &StateFolder,
) -> Result<Child, SpawnError> {
    let before = |source| SpawnError::Prepare { program: INIT.to_owned(), source };
    let mut namespaces = Namespaces::PID | Namespaces::MOUNT | Namespaces::IPC;
    if network == Network::Own.name() {
        namespaces = namespaces | Namespaces::NETWORK;
    }
    let mut spawn = Spawn::this_program("tilemark-init")
        .and_then(|spawn| spawn.argument(INIT))
        .and_then(|spawn| spawn.argument(state.path()))
        .map_err(before)?
        .namespaces(namespaces)
        .dies_with_thread(Signal::KILL)
        .hand(messages, MESSAGES)
        .hand(keeper, KEEPERS_END);
    if let Some(cgroup) = state.open_cgroup() {
        spawn = spawn.in_cgroup(cgroup);
    }
    spawn.start()
}

/// Waits until init ends; ends it when the command is gone without a hand-over.
fn watch(init: &Child, control: &mut UnixStream) -> io::Result<Ended> {
    let mut commanded = true;
    loop {
        let mut waited = vec![PollFd::from_borrowed_fd(init.pidfd(), PollFlags::IN)];
        let control_fd = control.as_fd();
        if commanded {
            waited.push(PollFd::from_borrowed_fd(control_fd, PollFlags::IN));
        }
        match poll(&mut waited, None) {
            Err(rustix::io::Errno::INTR) => continue,
            result => result?,
        };
        if waited.get(1).is_some_and(|fd| !fd.revents().is_empty()) {
            let mut byte = [0];
            match control.read(&mut byte) {
                Ok(1) if byte[0] == HAND_OVER => commanded = false,
                // The command is gone.
                _ => {
                    init.signal(Signal::KILL)?;
                    commanded = false;
                }
            }
        }
        if let Some(ended) = init.try_wait()? {
            return Ok(ended);
        }
    }
}

/// Init's `main`: it starts the engine and reaps, and everything ends with it.
pub(crate) fn init_main(arguments: &[String]) -> ExitCode {
    let run = || -> io::Result<Ended> {
        isolate_mounts()?;
        // The one of this namespace is about to cover it, and shows no kernel thread.
        let host_proc =
            rustix::fs::open("/proc", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        remount_proc()?;
        let messages = take_handed(MESSAGES)?;
        let engine = Spawn::this_program("tilemark-engine")?
            .argument(ENGINE)?
            .arguments(arguments)?
            .dies_with_thread(Signal::KILL)
            .hand(messages, MESSAGES)
            .hand(take_handed(KEEPERS_END)?, KEEPERS_END)
            .hand(host_proc, HOST_PROC)
            .start()
            .map_err(|error| io::Error::other(error.to_string()))?;
        init_loop(&engine)
    };
    match run() {
        Ok(ended) => ExitCode::from(u8::try_from(ended.code()).unwrap_or(1)),
        Err(error) => {
            eprintln!("init: {error}");
            ExitCode::from(1)
        }
    }
}

/// The engine's end of the messages. Takes the host's `/proc` too, for [`host_proc`], and the keeper's socket, for [`bind_in_host`].
pub(crate) fn messages_of_engine() -> io::Result<UnixStream> {
    let _ = ENGINES_KEEPER.set(Mutex::new(take_handed(KEEPERS_END)?.into()));
    let _ = ENGINES_HOST_PROC.set(take_handed(HOST_PROC)?);
    Ok(UnixStream::from(take_handed(MESSAGES)?))
}

/// Closed for every process that the engine starts: nobody else in the namespaces sees the host's processes.
static ENGINES_HOST_PROC: OnceLock<OwnedFd> = OnceLock::new();

/// The `/proc` of the host's own processes and kernel threads, also in an engine, whose `/proc` shows those of the run.
pub(crate) fn host_proc() -> PathBuf {
    let own = || PathBuf::from("/proc");
    ENGINES_HOST_PROC.get().map_or_else(own, |proc| format!("/proc/self/fd/{}", proc.as_raw_fd()).into())
}

/// Closed for every process that the engine starts: nobody else may ask the keeper.
static ENGINES_KEEPER: OnceLock<Mutex<UnixStream>> = OnceLock::new();

/// Has the keeper put the kernel's threads of all guests beside their QEMU, and waits until it has. They have no number in the engine's PID
/// namespace. Nothing is done outside of an engine.
pub(crate) fn bind_in_host() {
    let Some(keeper) = ENGINES_KEEPER.get() else { return };
    let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
    // A keeper that is gone takes the engine with it.
    let _ = keeper.write_all(&[BIND]).and_then(|()| keeper.read_exact(&mut [0]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_is_answered_each_time_and_its_end_is_the_end_of_it() {
        let (mut engine, asked) = UnixStream::pair().unwrap();
        // A missing answer fails and does not hang.
        engine.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let answering = thread::spawn(move || answer_engine(asked, std::process::id()));
        for _ in 0..2 {
            let mut answer = [0];
            engine.write_all(&[BIND]).unwrap();
            engine.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [BIND]);
        }
        drop(engine);
        answering.join().unwrap();
    }
}
