//! Requests to an agent and its replies.

use crate::load::{LoadEvent, LoadJob};
use serde::{Deserialize, Serialize};
use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};
use tilemark_plan::{
    plan::MacAddress,
    scenario::{BrokerService, Ready, Role},
    workload::{Site, StoreParameters, WebParameters, Work},
};
use tilemark_units::{Bytes, Span};

/// What the host asks of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Answer with the same number: proof that this agent runs now.
    Ping(u64),
    /// Become this guest: reseed, set clock, host name, machine id, hardware address and address.
    Become(Box<Identity>),
    /// Move the real-time clock by so many nanoseconds (0: leave it) and say what it shows then.
    Clock {
        /// By how much, in nanoseconds.
        adjust_ns: i64,
    },
    /// Start the service, then those after it, each when the one before it answers from inside. The same ones again are answered at once.
    StartService(Box<Service>),
    /// End all services and wait until they are gone.
    StopService,
    /// Make ready to send load, or to work from inside. Progress comes as events: `Started` when all that it needs is ready,
    /// the last is `Done` or `Failed`.
    PrepareLoad(Box<LoadJob>),
    /// The load begins now, or as soon as all that it needs is ready. There is no reply.
    BeginLoad,
    /// End the load at once; what was measured up to now is still reported.
    StopLoad,
    /// Write so many bytes of memory, as a clone must before its load begins. They go back to the guest's kernel, and stay the guest's own
    /// on the host.
    TouchMemory(Bytes),
    /// So many bytes of the kernel's randomness, as seen inside.
    Random(u32),
    /// What the guest says about itself.
    Describe,
    /// Run a program, for `guests exec`. The reply comes when it has ended; other requests are answered meanwhile.
    Execute(Execute),
    /// End the program that runs: nobody waits for it any more. The reply is that to [`Request::Execute`].
    EndProgram,
    /// Finish in order. There is no reply.
    PowerOff,
    /// A sign of life: the host is still there. There is no reply. This one and those below are for the agent of a client machine.
    Alive,
    /// Say at once what the monotonic clock shows, with the same number.
    Monotonic(u64),
    /// The prepared load begins when this agent's monotonic clock shows so many nanoseconds. [`Reply::Began`] comes then.
    BeginLoadAt(u64),
    /// Say what this machine has and has done, with the network device over which an address is reached.
    DescribeClient {
        /// The address.
        towards: Option<Ipv4Addr>,
    },
    /// Connect over TCP so many times, one after the other, and say how long each took.
    Probe {
        /// To where.
        target: SocketAddr,
        /// How often, at most [`PROBES_MAX`].
        times: u32,
    },
}

/// The most connections of one [`Request::Probe`].
pub const PROBES_MAX: u32 = 100;

/// Who a guest is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Host name; the guest's name.
    pub host_name: String,
    /// 32 hexadecimal digits, fresh for each start.
    pub machine_id: String,
    /// Hardware address of the guest's network device.
    pub mac: MacAddress,
    /// Address in the run network.
    pub address: Ipv4Addr,
    /// Bits of its prefix.
    pub prefix: u8,
    /// The host's end of the run network.
    pub gateway: Ipv4Addr,
    /// Address of the back end that its dynamic pages ask; `None`: one in the guest itself.
    pub asks: Option<Ipv4Addr>,
    /// Randomness from the host, credited to the guest's kernel before anything else is done.
    pub entropy: Vec<u8>,
    /// The host's real-time clock when this was sent, in nanoseconds since 1970.
    pub realtime_ns: u64,
}

/// A service with its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Decides which.
    pub role: Role,
    /// Memory that the guest has: services size themselves by it.
    pub memory: Bytes,
    /// Processors that the guest has.
    pub vcpus: u32,
    /// Whether each of its instructions is translated: what starts in seconds elsewhere needs minutes there.
    pub is_emulated: bool,
    /// Which broker, when it is one.
    pub broker: Option<BrokerService>,
    /// Whether its load comes over TLS: it makes a certificate when it starts.
    pub tls: bool,
    /// What will be asked of it, where it must hold that.
    pub holds: Option<Work>,
    /// Who may use it, where a service knows users.
    pub credentials: Option<Credentials>,
    /// A program of the user's own with its arguments; empty for every other role.
    pub run: Vec<String>,
    /// When that program is ready.
    pub ready: Option<Ready>,
    /// The folder of the image with the pages of a web server.
    pub pages: Option<String>,
    /// The SQL file of the image that a database is made by.
    pub sql: Option<String>,
    /// Services that are started after it, in this order.
    pub then: Vec<Service>,
}

impl Service {
    /// A service of a role on its guest's memory and processors, without what only some services have.
    pub const fn new(role: Role, memory: Bytes, vcpus: u32) -> Self {
        Self {
            role,
            memory,
            vcpus,
            is_emulated: false,
            broker: None,
            tls: false,
            holds: None,
            credentials: None,
            run: Vec::new(),
            ready: None,
            pages: None,
            sql: None,
            then: Vec::new(),
        }
    }

    /// The files that its load asks for; those of the default where it has none.
    pub fn web(&self) -> WebParameters {
        match &self.holds {
            Some(Work::Web(web)) => web.clone(),
            _ => WebParameters::default(),
        }
    }

    /// The site that its users visit; `None`: it serves files only.
    pub fn site(&self) -> Option<Site> {
        match &self.holds {
            Some(Work::Sessions(sessions)) => Some(sessions.site()),
            _ => None,
        }
    }

    /// The store that its load asks; `None`: it holds nothing.
    pub fn store(&self) -> Option<&StoreParameters> {
        self.holds.as_ref().and_then(|work| work.store())
    }

    /// How long a third-party broker may take until it serves its user: it starts a runtime of its own first. On a
    /// host that is busy with other work each of these times is ten times what it takes on a quiet one.
    pub const fn foreign_broker_within(&self) -> Duration {
        Duration::from_secs(if self.is_emulated { 900 } else { 400 })
    }

    /// How long the host waits for the answer to [`Request::StartService`]: a little longer than the agent waits for the
    /// service, so that the agent can say itself what is wrong.
    pub fn answer_within(&self) -> Duration {
        let after: Duration = self.then.iter().map(Self::answer_within).sum();
        self.foreign_broker_within() + Duration::from_secs(30) + after
    }
}

/// A user made for one run. No output, log or record has it: not even its debug form shows the password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Its name.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// So much of a program's standard output comes back.
pub const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// So much of a program's standard error comes back, and what the agent adds.
pub const ERROR_BYTES_MAX: usize = 64 << 10;

/// A program to run in a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execute {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// It is ended after this.
    pub within: Span,
}

/// What an agent answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The number that was sent.
    Pong(u64),
    /// Done.
    Done,
    /// The services answer on these ports.
    Serving {
        /// The TCP port of each, 0 where its role serves nobody.
        ports: Vec<u16>,
    },
    /// What the real-time clock shows, in nanoseconds since 1970.
    Clock {
        /// Nanoseconds since 1970.
        realtime_ns: u64,
    },
    /// Randomness.
    Random(Vec<u8>),
    /// The guest as it sees itself.
    Description(Description),
    /// A program ended.
    Executed {
        /// Its exit code, or 128 and the signal that ended it; 127 where it is not there, 126 where it cannot be run.
        code: i32,
        /// The beginning of its standard output, at most [`OUTPUT_BYTES_MAX`].
        output: Vec<u8>,
        /// The beginning of its standard error, at most [`ERROR_BYTES_MAX`].
        error: Vec<u8>,
    },
    /// Something happened in a load.
    Load(LoadEvent),
    /// It could not be done.
    Failed {
        /// What failed, as a fragment in lower case.
        message: String,
        /// What to do about it.
        remedy: String,
    },
    /// A sign of life of a client's agent, each second.
    Alive,
    /// What the monotonic clock shows.
    Monotonic {
        /// The number that was sent.
        number: u64,
        /// Nanoseconds.
        ns: u64,
    },
    /// A load began that [`Request::BeginLoadAt`] was for.
    Began {
        /// When it was to begin, in nanoseconds of the monotonic clock.
        intended_ns: u64,
        /// When it did, by the same clock.
        actual_ns: u64,
    },
    /// A client machine as it sees itself.
    Client(ClientDescription),
    /// How long connections took.
    Probed {
        /// Each of them, in nanoseconds.
        ns: Vec<u64>,
        /// Why one of them failed, which was the last.
        failed: Option<String>,
    },
}

/// A client machine as it sees itself. Times count from its boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientDescription {
    /// Kernel release.
    pub kernel: String,
    /// The kernel's boot id: two agents with the same one run on the same machine.
    pub boot_id: String,
    /// Processors that the agent may use, by their numbers.
    pub processors: Vec<u32>,
    /// Processors online.
    pub online: u32,
    /// Monotonic clock, in nanoseconds.
    pub monotonic_ns: u64,
    /// Processor time of programs and the kernel for them, without interrupts, of all processors, in nanoseconds.
    pub busy_ns: u64,
    /// Processor time that a hypervisor under it took, of all processors, in nanoseconds.
    pub stolen_ns: u64,
    /// Processor time of the agent itself, in nanoseconds.
    pub own_ns: u64,
    /// The network device, where one was asked for and found.
    pub device: Option<DeviceDescription>,
}

/// A network device of a client machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceDescription {
    /// Its name.
    pub name: String,
    /// Its line rate in Mbit/s, where it has one.
    pub mbit_per_s: Option<u32>,
    /// Bytes that it received.
    pub received: u64,
    /// Bytes that it sent.
    pub sent: u64,
}

/// A guest as it sees itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Host name.
    pub host_name: String,
    /// Contents of `/etc/machine-id`.
    pub machine_id: String,
    /// Kernel release.
    pub kernel: String,
    /// Hardware address.
    pub mac: MacAddress,
    /// Address.
    pub address: Ipv4Addr,
    /// Processors online.
    pub processors: u32,
    /// All memory.
    pub memory: Bytes,
    /// Memory in use.
    pub memory_used: Bytes,
    /// Made when the agent started and kept in its memory only: the same in a template and its clones,
    /// another one after a boot.
    pub boot_nonce: u64,
    /// Its real-time clock, in nanoseconds since 1970.
    pub realtime_ns: u64,
}
