//! The conversation: sessions come and go, requests are answered in order. A load and a program run beside it.

use crate::{
    channel::{Channel, Received},
    clock::{self, Owner},
    decoder::{Decoder, Incoming},
    describe,
    error::{AgentError, step},
    execute::RunningProgram,
    identity::{self, Place},
    load::RunningLoad,
    memory,
    service::Services,
};
use std::{
    io::Write,
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
};
use tilemark_agent_protocol::{Execute, Hello, LoadJob, PROTOCOL_VERSION, Reply, Request, write_frame};
use tilemark_units::with_causes;

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// At most so many random bytes are asked for at once.
const RANDOM_BYTES_MAX: u32 = 64 << 10;

/// The way back to the host, shared with a running load.
#[derive(Clone)]
pub(crate) struct Answers(Arc<Mutex<Box<dyn Write + Send>>>);

impl Answers {
    /// Sends one reply. A host that hung up is no error: the next session starts again.
    pub(crate) fn send(&self, reply: &Reply) {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = write_frame(&mut *writer, reply) {
            eprintln!("tilemark-agent: a reply was lost: {error}");
        }
    }

    fn hello(&self, nonce: u64) {
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hello = Hello { version: PROTOCOL_VERSION, nonce };
        let sent = writer.write_all(&hello.to_bytes()).and_then(|()| writer.flush());
        if let Err(error) = sent {
            eprintln!("tilemark-agent: a hello was lost: {error}");
        }
    }
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Request,
    End,
}

/// Serves until it is asked to power off, or until a twin's host is gone.
pub(crate) fn serve(mut channel: impl Channel + Owned) -> Result<(), AgentError> {
    let answers = Answers(Arc::new(Mutex::new(channel.writer().map_err(step("write to the host"))?)));
    let mut agent = Agent::new(channel.owner(), answers.clone())?;
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    println!("tilemark-agent: ready");
    loop {
        let length = match channel.receive(&mut buffer).map_err(step("read from the host"))? {
            Received::Bytes(length) => length,
            Received::HungUp => {
                decoder.reset();
                continue;
            }
            Received::Closed => return Ok(()),
        };
        for incoming in decoder.take(&buffer[..length]) {
            match incoming {
                Incoming::Hello(hello) => {
                    // A load belongs to its session, and so does a program.
                    (agent.load, agent.program) = (None, None);
                    answers.hello(hello.nonce);
                }
                Incoming::Frame(body) => match agent.answer(&body) {
                    Next::Request => {}
                    Next::End => return Ok(()),
                },
            }
        }
    }
}

/// Says whose kernel is at the other end of a channel.
pub(crate) trait Owned {
    fn owner(&self) -> Owner;
}
impl Owned for crate::channel::Port {
    fn owner(&self) -> Owner {
        Owner::Guest
    }
}
impl Owned for crate::channel::OfDisk {
    fn owner(&self) -> Owner {
        Owner::Disk
    }
}
impl Owned for crate::channel::Socket {
    fn owner(&self) -> Owner {
        Owner::Host
    }
}

/// What stays between requests.
struct Agent {
    owner: Owner,
    place: Place,
    boot_nonce: u64,
    address: Ipv4Addr,
    /// Its network device, once it is known.
    device: String,
    services: Services,
    load: Option<RunningLoad>,
    /// Of `guests exec`.
    program: Option<RunningProgram>,
    answers: Answers,
}

impl Agent {
    fn new(owner: Owner, answers: Answers) -> Result<Self, AgentError> {
        let bytes = random(8)?;
        let boot_nonce = u64::from_ne_bytes(bytes.try_into().expect("eight bytes were asked for"));
        let address = Ipv4Addr::UNSPECIFIED;
        let place = Place::prepare(owner)?;
        let device = identity::DEVICE.to_owned();
        Ok(Self {
            owner,
            place,
            boot_nonce,
            address,
            device,
            services: Services::default(),
            load: None,
            program: None,
            answers,
        })
    }

    fn answer(&mut self, body: &[u8]) -> Next {
        let reply = match postcard::from_bytes::<Request>(body) {
            Ok(Request::PowerOff) => return Next::End,
            Ok(Request::StopLoad) if self.is_loading() => {
                // The load's last event is the reply.
                self.load.iter().for_each(RunningLoad::stop);
                return Next::Request;
            }
            Ok(Request::BeginLoad) => {
                self.load.iter().for_each(RunningLoad::begin);
                return Next::Request;
            }
            Ok(Request::PrepareLoad(job)) if !self.is_loading() => match self.prepare_load(*job) {
                Ok(()) => return Next::Request,
                Err(error) => failed(&error),
            },
            Ok(Request::Execute(order)) if !self.is_executing() => match self.start_program(order) {
                Ok(()) => return Next::Request,
                Err(error) => failed(&error),
            },
            Ok(Request::EndProgram) => {
                // The reply is the program's, which may be on its way.
                self.program.iter().for_each(RunningProgram::end);
                return Next::Request;
            }
            Ok(request) => self.execute(request).unwrap_or_else(|error| failed(&error)),
            Err(error) => Reply::Failed {
                message: format!("a request does not decode: {error}"),
                remedy: "use the agent that belongs to this tilemark".to_owned(),
            },
        };
        self.answers.send(&reply);
        Next::Request
    }

    fn is_loading(&self) -> bool {
        self.load.as_ref().is_some_and(|load| !load.is_over())
    }

    fn prepare_load(&mut self, job: LoadJob) -> Result<(), AgentError> {
        let answers = self.answers.clone();
        let prepared = RunningLoad::prepare(job, move |event| answers.send(&Reply::Load(event)));
        self.load = Some(prepared.map_err(step("start the load"))?);
        Ok(())
    }

    fn is_executing(&self) -> bool {
        self.program.as_ref().is_some_and(|program| !program.is_over())
    }

    fn start_program(&mut self, order: Execute) -> Result<(), AgentError> {
        let answers = self.answers.clone();
        let send = move |ended: Result<Reply, AgentError>| {
            answers.send(&ended.unwrap_or_else(|error| failed(&error)));
        };
        self.program = Some(RunningProgram::start(order, send).map_err(step("start the program"))?);
        Ok(())
    }

    fn execute(&mut self, request: Request) -> Result<Reply, AgentError> {
        match request {
            Request::Ping(number) => return Ok(Reply::Pong(number)),
            Request::Become(identity) => {
                self.place.become_guest(&identity)?;
                self.address = identity.address;
                if self.owner == Owner::Disk {
                    self.device = identity::device_of(identity.mac)?;
                }
            }
            Request::Clock { adjust_ns } => {
                clock::adjust(adjust_ns, self.owner)?;
                return Ok(Reply::Clock { realtime_ns: clock::realtime_ns() });
            }
            Request::StartService(service) => {
                return Ok(Reply::Serving { ports: self.services.start(&service, self.place.power())? });
            }
            Request::StopService => self.services.stop(self.place.power())?,
            Request::PrepareLoad(_) => return Err(AgentError::Refused("a load runs already")),
            // None runs, or it would have been asked to end.
            Request::StopLoad | Request::BeginLoad => {}
            Request::TouchMemory(size) => memory::touch(size)?,
            Request::Random(count) => return Ok(Reply::Random(random(count)?)),
            Request::Describe => {
                return Ok(Reply::Description(describe::describe(
                    self.boot_nonce,
                    self.address,
                    &self.device,
                )?));
            }
            Request::Execute(_) => return Err(AgentError::Refused("a program runs already")),
            Request::EndProgram | Request::PowerOff | Request::Alive => {}
            Request::Monotonic(_)
            | Request::BeginLoadAt(_)
            | Request::DescribeClient { .. }
            | Request::Probe { .. } => {
                return Err(AgentError::Refused("this is the agent of a guest, not of a client machine"));
            }
        }
        Ok(Reply::Done)
    }
}

fn failed(error: &AgentError) -> Reply {
    Reply::Failed { message: with_causes(error), remedy: error.remedy().to_owned() }
}

fn random(count: u32) -> Result<Vec<u8>, AgentError> {
    let mut bytes = vec![0; count.min(RANDOM_BYTES_MAX) as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags).map_err(step("read randomness"))?;
    }
    Ok(bytes)
}
