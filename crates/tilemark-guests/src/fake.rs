//! Fake guests, without processes: for specification tests without root, QEMU, network or time.

use crate::{
    console::{Console, ConsoleTail},
    conversation::{AgentConversation, AgentSession, SocketConversation},
    error::{GuestError, file},
    manager::{GuestId, GuestManager, GuestState, Origin, StartMode, TemplateId},
};
use std::{
    collections::{BTreeMap, VecDeque},
    io::{Read, Write},
    os::{fd::BorrowedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};
use tilemark_agent_protocol::{
    Description, HELLO_BYTES, Identity, LoadEvent, Reply, Request, Sender, Service, SessionError,
};
use tilemark_plan::plan::{self, GuestPlan};
use tilemark_sys::clock::realtime_ns;
use tilemark_units::Bytes;

/// What a fake guest does wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Its process is refused.
    NeverStarts,
    /// It runs and its agent never answers.
    NeverAnswers,
    /// Its kernel panics while it boots, and says so on the console.
    Panics,
    /// It returns another nonce.
    WrongNonce,
    /// It dies after so many requests.
    DiesAfter(u32),
    /// Its service does not start.
    ServiceFails,
    /// It has too little memory for its working set.
    NoMemory,
    /// Its agent cannot prepare a load.
    LoadFails,
    /// From the request for a load on its agent is hostile: it sends these pieces, each after so long, and then nothing more, with
    /// its end of the stream open.
    Hostile(Arc<[(Duration, Vec<u8>)]>),
    /// It cannot be stopped.
    Stays,
}

/// Time that passes only when it is advanced.
#[derive(Debug, Clone, Default)]
pub struct FakeClock(Arc<Mutex<Duration>>);

impl FakeClock {
    /// Time since the beginning.
    pub fn now(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }
}

/// The port that every fake service has.
pub const FAKE_PORT: u16 = 80;

/// A manager whose guests are entries in a table.
#[derive(Debug)]
pub struct FakeManager {
    backend: plan::Backend,
    clock: FakeClock,
    faults: BTreeMap<String, Fault>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    guests: BTreeMap<u64, FakeGuest>,
    templates: BTreeMap<u64, u64>,
    requests: Vec<Asked>,
}

/// One request that a fake guest got.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Who was asked.
    pub guest: String,
    /// What.
    pub request: Request,
}

#[derive(Debug, Clone)]
struct FakeGuest {
    plan: GuestPlan,
    ended: Option<String>,
    origin: Origin,
    boot_nonce: u64,
    identity: Option<Identity>,
    conversation: u64,
    answered: u32,
}

impl FakeManager {
    /// One without faults, of this backend.
    pub fn new(backend: plan::Backend) -> Self {
        Self { backend, clock: FakeClock::default(), faults: BTreeMap::new(), state: Arc::default() }
    }

    /// The same, where the guest of this name has a fault.
    #[must_use]
    pub fn where_guest(mut self, name: &str, fault: Fault) -> Self {
        self.faults.insert(name.to_owned(), fault);
        self
    }

    /// Its clock: waiting for a guest that never answers moves it on.
    pub fn clock(&self) -> FakeClock {
        self.clock.clone()
    }

    /// Names of the guests that run now, sorted: guests start side by side, in no order of theirs.
    pub fn running(&self) -> Vec<String> {
        let state = self.lock();
        let running = state.guests.values().filter(|guest| guest.ended.is_none());
        let mut names: Vec<String> = running.map(|guest| guest.plan.name.clone()).collect();
        names.sort();
        names
    }

    /// Every request in order.
    pub fn requests(&self) -> Vec<Asked> {
        self.lock().requests.clone()
    }

    /// Ends a running guest from outside, as a crash would.
    pub fn crash(&self, name: &str, how: &str) {
        for guest in self.lock().guests.values_mut().filter(|guest| guest.plan.name == name) {
            guest.ended.get_or_insert_with(|| how.to_owned());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn guest(&self, guest: GuestId) -> Result<FakeGuest, GuestError> {
        self.lock().guests.get(&guest.0).cloned().ok_or(GuestError::Unknown(guest.0))
    }

    fn fault(&self, name: &str) -> Option<&Fault> {
        self.faults.get(name)
    }
}

fn console_path(name: &str) -> PathBuf {
    PathBuf::from(format!("{name}.console.log"))
}

fn console(name: &str, line: &str) -> ConsoleTail {
    ConsoleTail { path: console_path(name), lines: vec![line.to_owned()] }
}

impl GuestManager for FakeManager {
    fn backend(&self) -> plan::Backend {
        self.backend
    }

    fn template(&self, _: &GuestPlan, _: &Service) -> Result<TemplateId, GuestError> {
        let mut state = self.lock();
        state.next += 1;
        let number = state.next;
        state.templates.insert(number, number * 1000);
        Ok(TemplateId(number))
    }

    fn start(&self, plan: &GuestPlan, mode: StartMode) -> Result<GuestId, GuestError> {
        if self.fault(&plan.name) == Some(&Fault::NeverStarts) {
            return Err(GuestError::Spawn {
                guest: plan.name.clone(),
                source: tilemark_sys::process::SpawnError::Step {
                    program: "fake".to_owned(),
                    step: "executing the program",
                    source: std::io::ErrorKind::NotFound.into(),
                },
            });
        }
        let mut state = self.lock();
        state.next += 1;
        let number = state.next;
        let (origin, boot_nonce) = match (self.backend, mode) {
            (plan::Backend::Native, _) => (Origin::Namespaced, number),
            (_, StartMode::Boot) => (Origin::Booted, number),
            (_, StartMode::Clone(template)) => {
                let nonce = state.templates.get(&template.0).copied();
                (Origin::Cloned, nonce.ok_or(GuestError::UnknownTemplate(template.0))?)
            }
        };
        let guest = FakeGuest {
            plan: plan.clone(),
            ended: None,
            origin,
            boot_nonce,
            identity: None,
            conversation: 0,
            answered: 0,
        };
        state.guests.insert(number, guest);
        Ok(GuestId(number))
    }

    fn state(&self, guest: GuestId) -> Result<GuestState, GuestError> {
        Ok(self.guest(guest)?.ended.map_or(GuestState::Running, GuestState::Ended))
    }

    fn connect(&self, guest: GuestId, within: Duration) -> Result<AgentSession, GuestError> {
        let found = self.guest(guest)?;
        let name = found.plan.name.clone();
        if let Some(how) = found.ended {
            return Err(GuestError::Ended { guest: name.clone(), how, console: console(&name, "the end") });
        }
        match self.fault(&name) {
            Some(Fault::NeverAnswers) => {
                self.clock.advance(within);
                let console = console(&name, "login:");
                return Err(GuestError::Silent { guest: name, within, console });
            }
            Some(Fault::Panics) => {
                let how = "QEMU ended with code 0";
                self.crash(&name, how);
                let console = console(&name, "Kernel panic - not syncing: Attempted to kill init!");
                return Err(GuestError::Ended { guest: name, how: how.to_owned(), console });
            }
            Some(Fault::WrongNonce) => {
                let console = console(&name, "tilemark-agent: ready");
                return Err(GuestError::NoConversation {
                    guest: name,
                    console,
                    source: SessionError::WrongNonce { sent: 7 },
                });
            }
            _ => {}
        }
        let mut state = self.lock();
        let entry = state.guests.get_mut(&guest.0).ok_or(GuestError::Unknown(guest.0))?;
        entry.conversation += 1;
        Ok(Box::new(FakeConversation {
            id: guest.0,
            conversation: entry.conversation,
            name: name.clone(),
            fault: self.fault(&name).cloned(),
            state: Arc::clone(&self.state),
            clock: self.clock.clone(),
            replies: VecDeque::new(),
            hostile: None,
        }))
    }

    fn processes(&self, guest: GuestId) -> Result<Vec<u32>, GuestError> {
        self.guest(guest).map(|_| Vec::new())
    }

    fn disk_requests(&self, guest: GuestId) -> Result<Option<u64>, GuestError> {
        self.guest(guest).map(|_| None)
    }

    fn console(&self, guest: GuestId) -> Result<PathBuf, GuestError> {
        Ok(console_path(&self.guest(guest)?.plan.name))
    }

    fn origin(&self, guest: GuestId) -> Result<Origin, GuestError> {
        Ok(self.guest(guest)?.origin)
    }

    fn stop(&self, guest: GuestId) -> Result<(), GuestError> {
        let found = self.guest(guest)?;
        let name = found.plan.name;
        if self.fault(&name) == Some(&Fault::Stays) && found.ended.is_none() {
            return Err(file("end the guest in", name.as_ref())(std::io::ErrorKind::TimedOut));
        }
        self.crash(&name, "it was stopped");
        Ok(())
    }

    fn has_network(&self) -> bool {
        false
    }

    fn inequalities(&self) -> Vec<String> {
        vec!["these guests are not real".to_owned()]
    }
}

#[derive(Debug)]
struct FakeConversation {
    id: u64,
    conversation: u64,
    name: String,
    fault: Option<Fault>,
    state: Arc<Mutex<State>>,
    clock: FakeClock,
    replies: VecDeque<Reply>,
    /// A real conversation, over a socket, once the agent is hostile.
    hostile: Option<AgentSession>,
}

impl FakeConversation {
    fn answer(&mut self, request: &Request) -> Result<Option<Reply>, GuestError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.requests.push(Asked { guest: self.name.clone(), request: request.clone() });
        let name = &self.name;
        let guest = state.guests.get_mut(&self.id).ok_or(GuestError::Unknown(self.id))?;
        if let Some(Fault::DiesAfter(limit)) = self.fault
            && guest.answered >= limit
        {
            guest.ended.get_or_insert_with(|| "QEMU ended with code 1".to_owned());
        }
        guest.answered += 1;
        let broken =
            guest.ended.clone().or((guest.conversation != self.conversation)
                .then(|| "another conversation was begun".to_owned()));
        if let Some(how) = broken {
            return Err(GuestError::Ended { guest: name.clone(), how, console: console(name, "the end") });
        }
        Ok(reply_of(guest, request, self.fault.as_ref()))
    }
}

fn reply_of(guest: &mut FakeGuest, request: &Request, fault: Option<&Fault>) -> Option<Reply> {
    Some(match request {
        Request::Ping(number) => Reply::Pong(*number),
        Request::Become(identity) => {
            guest.identity = Some(identity.as_ref().clone());
            Reply::Done
        }
        Request::Clock { .. } => Reply::Clock { realtime_ns: realtime_ns() },
        Request::StartService(_) if fault == Some(&Fault::ServiceFails) => Reply::Failed {
            message: "the service did not start: nginx ended with code 1".to_owned(),
            remedy: "read the guest's console".to_owned(),
        },
        Request::StartService(service) => Reply::Serving { ports: vec![FAKE_PORT; 1 + service.then.len()] },
        Request::PrepareLoad(_) if fault == Some(&Fault::LoadFails) => Reply::Failed {
            message: "fio is not there".to_owned(),
            remedy: "use an image that has fio".to_owned(),
        },
        Request::PrepareLoad(_) => {
            let sender = Sender { workers: 0, real_time: false, timer_slack_ns: 0, pinned: false };
            Reply::Load(LoadEvent::Started(sender))
        }
        Request::BeginLoad => Reply::Load(LoadEvent::Done(Vec::new())),
        Request::Random(count) => {
            let identity = guest.identity.as_ref();
            let seed =
                identity.map_or(0, |identity| identity.entropy.iter().map(|&byte| u64::from(byte)).sum());
            Reply::Random((0..*count).map(|place| (seed + u64::from(place) % 251) as u8).collect())
        }
        Request::Describe => Reply::Description(description(guest)),
        Request::Execute(_) => Reply::Executed { code: 0, output: Vec::new(), error: Vec::new() },
        Request::TouchMemory(_) if fault == Some(&Fault::NoMemory) => Reply::Failed {
            message: "100 MiB of its memory were to be written and 30 MiB are available".to_owned(),
            remedy: "give the guest more memory".to_owned(),
        },
        Request::StopService | Request::StopLoad | Request::TouchMemory(_) => Reply::Done,
        Request::Alive
        | Request::Monotonic(_)
        | Request::BeginLoadAt(_)
        | Request::DescribeClient { .. }
        | Request::Probe { .. } => Reply::Failed {
            message: "this is the agent of a guest".to_owned(),
            remedy: "ask that of a client machine's agent".to_owned(),
        },
        Request::EndProgram => return None,
        Request::PowerOff => {
            guest.ended.get_or_insert_with(|| "it powered off".to_owned());
            return None;
        }
    })
}

fn description(guest: &FakeGuest) -> Description {
    let identity = guest.identity.as_ref();
    Description {
        host_name: identity.map(|identity| identity.host_name.clone()).unwrap_or_default(),
        machine_id: identity.map(|identity| identity.machine_id.clone()).unwrap_or_default(),
        kernel: "0.0.0-fake".to_owned(),
        mac: guest.plan.mac,
        address: guest.plan.address,
        processors: guest.plan.vcpus,
        memory: guest.plan.memory,
        memory_used: Bytes::from_mib(10),
        boot_nonce: guest.boot_nonce,
        realtime_ns: realtime_ns(),
    }
}

impl AgentConversation for FakeConversation {
    fn ask(&mut self, request: &Request, within: Duration) -> Result<Reply, GuestError> {
        self.send(request)?;
        self.receive(within)
    }

    fn send(&mut self, request: &Request) -> Result<(), GuestError> {
        if let (Request::PrepareLoad(_), Some(Fault::Hostile(pieces))) = (request, &self.fault) {
            self.hostile = Some(hostile_session(&self.name, Arc::clone(pieces))?);
        }
        if let Some(hostile) = &mut self.hostile {
            return hostile.send(request);
        }
        let reply = self.answer(request)?;
        self.replies.extend(reply);
        Ok(())
    }

    fn receive(&mut self, within: Duration) -> Result<Reply, GuestError> {
        if let Some(hostile) = &mut self.hostile {
            return hostile.receive(within);
        }
        let name = &self.name;
        match self.replies.pop_front() {
            Some(Reply::Failed { message, remedy }) => Err(GuestError::Refused {
                guest: name.clone(),
                message,
                remedy,
                console: console(name, "nginx:"),
            }),
            Some(reply) => Ok(reply),
            None => {
                self.clock.advance(within);
                Err(GuestError::Silent { guest: name.clone(), within, console: console(name, "") })
            }
        }
    }

    fn is_abandoned(&mut self, _: BorrowedFd<'_>, _: Duration) -> Result<bool, GuestError> {
        // It answers at once.
        Ok(false)
    }
}

/// A conversation with a thread that says hello as an agent does, and then sends its pieces.
fn hostile_session(name: &str, pieces: Arc<[(Duration, Vec<u8>)]>) -> Result<AgentSession, GuestError> {
    let sockets = Path::new("a pair of sockets");
    let (ours, mut its) = UnixStream::pair().map_err(file("make", sockets))?;
    let mut hears = its.try_clone().map_err(file("make", sockets))?;
    let (hello_heard, hello) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = [0; HELLO_BYTES];
        if hears.read_exact(&mut bytes).is_ok() {
            let _ = hello_heard.send(bytes);
        }
        // The rest is read and not answered, until the host hangs up.
        let _ = std::io::copy(&mut hears, &mut std::io::sink());
    });
    std::thread::spawn(move || {
        let Ok(bytes) = hello.recv() else { return };
        let first = (Duration::ZERO, bytes.to_vec());
        for (after, piece) in std::iter::once(&first).chain(pieces.iter()) {
            std::thread::sleep(*after);
            if its.write_all(piece).is_err() {
                return;
            }
        }
    });
    let console = Console::of_file(&console_path(name));
    let conversation = SocketConversation::open(name, console, ours, Duration::from_secs(60))?;
    Ok(Box::new(conversation))
}
