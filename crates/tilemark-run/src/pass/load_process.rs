//! The process that sends load from outside: its trait, and the agent that is one.

use crate::{
    failure::{Failure, FailureCode},
    pass::report_check::BYTES_OF_A_SECOND,
};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit};
use std::{
    fmt::Display,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tilemark_agent_protocol::{FrameError, LoadEvent, LoadJob, Reply, Request, Session, Stream, write_frame};
use tilemark_host::cgroup::Group;
use tilemark_plan::workload::At;
use tilemark_sys::{
    process::{Child, Ended, HasEnded, Spawn, program_in_memory},
    walls::Walls,
};
use tilemark_units::Bytes;

/// How long a killed program of the user's own may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(10);

/// The process that sends load from outside. It ends when it is dropped.
pub(crate) trait LoadProcess: Send {
    /// Has it make ready; it reports `Started` when it is.
    fn prepare(&mut self, job: &LoadJob) -> Result<(), Failure>;
    /// What was prepared begins, at once or as soon as it is ready.
    fn begin(&mut self) -> Result<(), Failure>;
    /// The load's next event; `None` if none arrives within this time.
    fn next(&mut self, within: Duration) -> Result<Option<LoadEvent>, Failure>;
    /// Its process.
    fn pid(&self) -> Option<u32>;
    /// The control group of only this process and the programs that it starts, where there is one.
    fn group(&self) -> Option<PathBuf> {
        None
    }
    /// A way to end it from another thread, so that `next` returns.
    fn ender(&self) -> Box<dyn Fn() + Send>;
}

/// The failure of a load process, whatever broke.
pub(crate) fn load_failed(error: impl Display) -> Failure {
    Failure::caused_by(
        &error,
        FailureCode::HostUnfit,
        "the load process cannot be used",
        "check that processes can be started and memory is left",
    )
}

/// What a load process may do beside sending. It reads what servers in guests answer, which is as hostile as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadPower {
    /// Give its threads a real-time priority.
    Priority,
    /// All that its caller may: it starts a program of the user's own.
    All,
}

/// The agent as a load process, spoken to over a socket.
pub(crate) struct AgentProcess {
    child: Arc<Child>,
    session: Session<UnixStream>,
    /// What it may have of memory that is its own.
    limit: Option<Bytes>,
    /// Its own control group.
    group: Option<Group>,
}

impl AgentProcess {
    /// Starts it in the caller's namespaces and says hello. A terminal's Ctrl-C is the caller's alone. Nothing of the caller's environment
    /// reaches it, which may have a password.
    pub(crate) fn start(agent: &[u8]) -> io::Result<Self> {
        let nothing: [String; 0] = [];
        Self::of(spawn(agent, LoadPower::Priority)?.environment(nothing)?)
    }

    /// The same, with the files of its load in a folder.
    pub(crate) fn start_in(agent: &[u8], folder: &Path, power: LoadPower) -> io::Result<Self> {
        Self::of(spawn(agent, power)?.environment([format!("TMPDIR={}", folder.display())])?)
    }

    /// The same for programs of the user's own, in a control group that counts the processor time of all of them.
    pub(crate) fn start_in_group(agent: &[u8], folder: &Path, group: &Group) -> io::Result<Self> {
        let spawn = spawn(agent, LoadPower::All)?.environment([format!("TMPDIR={}", folder.display())])?;
        let mut process = Self::of(spawn.in_cgroup(File::open(group.path())?.into()))?;
        process.group = Some(group.clone());
        Ok(process)
    }

    fn of(spawn: Spawn) -> io::Result<Self> {
        let (ours, its) = UnixStream::pair()?;
        let spawn = spawn
            .hand(OwnedFd::from(its.try_clone()?), 0)
            .hand(OwnedFd::from(its), 1)
            .own_session()
            .dies_with_thread(Signal::KILL);
        let child = spawn.start().map_err(io::Error::other)?;
        ours.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut nonce = [0; 8];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
        let session = Session::open(ours, u64::from_ne_bytes(nonce)).map_err(io::Error::other)?;
        Ok(Self { child: Arc::new(child), session, limit: None, group: None })
    }

    /// A way to end its load early from another thread: what was measured so far is reported all the same.
    pub(crate) fn stopper(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let mut stream = self.session.stream().try_clone()?;
        Ok(move || {
            // A load process that is gone is found to be so by who listens to it.
            let _ = write_frame(&mut stream, &Request::StopLoad);
        })
    }
}

fn spawn(agent: &[u8], power: LoadPower) -> io::Result<Spawn> {
    let spawn = Spawn::descriptor(program_in_memory("tilemark-load", agent)?, "tilemark-load")?;
    let walls = if power == LoadPower::Priority { Walls::of_load()? } else { None };
    let spawn = spawn.argument("load")?;
    Ok(match walls {
        Some(walls) => spawn.behind(walls),
        None => spawn,
    })
}

/// The memory that a load may have, many times what it needs; nothing for one that starts a program of the user's own. The kernel keeps the
/// limit: an allocator that counts would cost each request.
fn memory_limit(job: &LoadJob) -> Option<Bytes> {
    if job.streams.iter().any(|stream| stream.work.facts().starts_own_program()) {
        return None;
    }
    let seconds = u64::from(u32::try_from(job.length.get().as_secs()).unwrap_or(u32::MAX));
    let of_stream = |stream: &Stream| {
        let facts = stream.work.facts();
        // Other workloads than `web` have as many connections as they have clients, users, publishers and subscribers.
        let connections = facts.connections(At { connections: stream.connections, disks: 0 });
        let of_connection = OF_CONNECTION.get() + MESSAGES * facts.message().get();
        of_connection * u64::from(connections) + 2 * facts.memory().get() + BYTES_OF_A_SECOND * (seconds + 1)
    };
    Some(Bytes::new(OF_LOAD.get() + job.streams.iter().map(of_stream).sum::<u64>()))
}

/// Messages that a connection holds at most: the one that it sends or gets, as it is and encoded, and as much room to grow.
const MESSAGES: u64 = 4;
/// The agent, its threads for each processor, and what messages wait in.
const OF_LOAD: Bytes = Bytes::from_gib(2);
/// A thread of its own with its stack, its buffers, and those of TLS.
const OF_CONNECTION: Bytes = Bytes::from_mib(8);

/// Limits the memory of a process that runs. A lower limit that it has already stays.
fn limit_memory(child: &Child, limit: Bytes) -> io::Result<()> {
    let pid = i32::try_from(child.pid()).ok().and_then(Pid::from_raw);
    let most = getrlimit(Resource::Data).maximum.map_or(limit.get(), |own| own.min(limit.get()));
    prlimit(pid, Resource::Data, Rlimit { current: Some(most), maximum: Some(most) })?;
    Ok(())
}

impl AgentProcess {
    /// What is known of a load process that does not answer any more.
    fn lost(&self, error: &FrameError) -> Failure {
        // Its stream closes a moment before it has ended.
        if self.child.ends_within(ENDS_WITHIN).is_ok_and(|ended| ended == HasEnded::No) {
            return load_failed(error);
        }
        match (self.child.try_wait(), self.limit) {
            // Rust's programs abort where there is no memory, and by some bugs: which of them is only in what it printed.
            (Ok(Some(Ended::Signalled(ABORTED))), Some(limit)) => load_failed(format!(
                "it aborted, by a bug or because it reached its limit of memory, {limit}"
            )),
            (Ok(Some(ended)), _) => load_failed(format!("it ended with code {}", ended.code())),
            _ => load_failed(error),
        }
    }
}

/// A process whose stream is closed has ended by then.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// SIGABRT.
const ABORTED: i32 = Signal::ABORT.as_raw();

impl LoadProcess for AgentProcess {
    fn prepare(&mut self, job: &LoadJob) -> Result<(), Failure> {
        self.limit = memory_limit(job);
        if let Some(limit) = self.limit {
            limit_memory(&self.child, limit).map_err(load_failed)?;
        }
        self.session.send(&Request::PrepareLoad(Box::new(job.clone()))).map_err(load_failed)
    }

    fn begin(&mut self) -> Result<(), Failure> {
        self.session.send(&Request::BeginLoad).map_err(load_failed)
    }

    fn next(&mut self, within: Duration) -> Result<Option<LoadEvent>, Failure> {
        // No time at all would mean for ever.
        let within = within.max(Duration::from_millis(1));
        self.session.stream().set_read_timeout(Some(within)).map_err(load_failed)?;
        match self.session.receive() {
            Ok(Reply::Load(event)) => Ok(Some(event)),
            Ok(Reply::Failed { message, remedy }) => Ok(Some(LoadEvent::Failed { message, remedy })),
            Ok(other) => Err(load_failed(format!("unexpected answer {other:?}"))),
            Err(FrameError::Stream(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(self.lost(&error)),
        }
    }

    fn pid(&self) -> Option<u32> {
        Some(self.child.pid())
    }

    fn group(&self) -> Option<PathBuf> {
        self.group.as_ref().map(|group| group.path().to_owned())
    }

    fn ender(&self) -> Box<dyn Fn() + Send> {
        let child = Arc::clone(&self.child);
        Box::new(move || {
            // One that has ended already is what is wanted.
            let _ = child.signal(Signal::KILL);
        })
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        // Its work is over; one that has ended already is what is wanted.
        let _ = self.child.signal(Signal::KILL);
        let _ = self.child.wait();
        // A program of the user's own may have left others, which would be counted in the next repeat. The run's own end names what lives on.
        if let Some(group) = &self.group {
            let _ = group.end(GONE_WITHIN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, net::Ipv4Addr, process::Command};
    use tilemark_plan::{
        plan::Demand,
        workload::{CommandParameters, MessagingParameters, StoreParameters, WebParameters, Work},
    };
    use tilemark_units::Span;

    fn job(work: Work, connections: u32) -> LoadJob {
        let nowhere = (Ipv4Addr::LOCALHOST, 9).into();
        let stream = Stream { connections, ..Stream::new(0, nowhere, Demand::Closed, work) };
        let (warmup, length) = (Span::default(), Span::from_seconds(10));
        LoadJob { streams: vec![stream], processors: Vec::new(), warmup, length }
    }

    #[test]
    fn a_load_has_more_memory_the_more_it_sends_and_a_users_program_as_much_as_it_likes() {
        let web = |connections| memory_limit(&job(Work::Web(WebParameters::default()), connections)).unwrap();
        assert!(web(1) >= Bytes::from_gib(2) && web(1000) > web(1));
        assert_eq!(memory_limit(&job(Work::Command(CommandParameters::default()), 1)), None);
        // A thread for each publisher, subscriber and client, whatever the load says about connections.
        let size = Bytes::from_mib(16);
        let messaging = MessagingParameters {
            size,
            queues: 100,
            publishers: 2,
            subscribers: 3,
            ..MessagingParameters::default()
        };
        let of_messages = memory_limit(&job(Work::Messaging(messaging), 4)).unwrap();
        assert!(of_messages.get() > (500 * (8 + 4 * 16)) << 20, "{of_messages}");
        let store = StoreParameters { clients: 1000, ..StoreParameters::default() };
        assert!(memory_limit(&job(Work::Store(store), 4)).unwrap().get() > (1000 * 8) << 20);
    }

    const TIMEOUT: Duration = Duration::from_secs(60);
    const PASSWORD: &str = "TILEMARK_TEST_PASSWORD";

    #[test]
    fn a_load_process_has_no_password_no_power_and_ends_by_name_at_its_limit() {
        let name = "pass::load_process::tests::a_load_process_has_no_password_no_power_and_ends_by_name_at_its_limit";
        let Some(agent) = std::env::var_os("TILEMARK_TEST_AGENT") else {
            return tilemark_fixtures::skipped("set TILEMARK_TEST_AGENT to the statically linked agent");
        };
        if std::env::var_os(PASSWORD).is_none() {
            // Once more, in an environment with a password.
            let itself = std::env::current_exe().unwrap();
            let ended =
                Command::new(itself).args([name, "--exact"]).env(PASSWORD, "secret").output().unwrap();
            let printed = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success() && printed.contains("1 passed"), "{printed}");
            return;
        }
        let agent = fs::read(agent).unwrap();
        let alone = AgentProcess::start(&agent).unwrap();
        let environment = fs::read_to_string(format!("/proc/{}/environ", alone.child.pid())).unwrap();
        assert_eq!(environment, "");
        let folder = tempfile::tempdir().unwrap();
        let mut process = AgentProcess::start_in(&agent, folder.path(), LoadPower::Priority).unwrap();
        let pid = process.child.pid();
        let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
        assert_eq!(of("environ"), format!("TMPDIR={}\0", folder.path().display()));
        let status = || of("status");
        let field = |key: &str| {
            let status = status();
            status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim().to_owned()
        };
        if Walls::of_load().unwrap().is_some() {
            let priority = 1 << 23;
            assert_eq!(u64::from_str_radix(&field("CapEff:"), 16).unwrap() & !priority, 0);
            assert_eq!(field("NoNewPrivs:"), "1");
            let limits = of("limits");
            let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
            assert_eq!(core.split_whitespace().collect::<Vec<_>>(), ["1", "1", "bytes"]);
        }
        let web = |connections| job(Work::Web(WebParameters::default()), connections);
        process.prepare(&web(1)).unwrap();
        let limit = memory_limit(&web(1)).unwrap().get();
        let limits = of("limits");
        let line = limits.lines().find(|line| line.starts_with("Max data size")).unwrap();
        assert!(line.contains(&format!(" {limit} ")), "{line}");
        while !matches!(process.next(TIMEOUT).unwrap(), Some(LoadEvent::Failed { .. })) {}
        // A little more than it has by now, which is enough for a thread and not for so many connections.
        let has: u64 = field("VmData:").trim_end_matches(" kB").parse().unwrap();
        limit_memory(&process.child, Bytes::from_kib(has + (3 << 10))).unwrap();
        process.session.send(&Request::PrepareLoad(Box::new(web(20_000)))).unwrap();
        let failure = loop {
            match process.next(TIMEOUT) {
                Ok(event) => assert!(!matches!(event, Some(LoadEvent::Failed { .. })), "{event:?}"),
                Err(failure) => break failure,
            }
        };
        assert!(
            failure.causes[0]
                .starts_with("it aborted, by a bug or because it reached its limit of memory, 2"),
            "{failure:?}"
        );
    }
}
