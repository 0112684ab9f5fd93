//! The parameters of each workload. Data only: `tilemark-workloads` has the code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tilemark_units::{Bytes, Fraction, Span};

/// For role `web`: GET requests for files of a mix of sizes, over kept-alive connections. Status, length and every byte
/// are checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebParameters {
    /// The mix of files.
    pub files: Vec<WebFile>,
    /// The path (or whole `http://` URL) to request from a server that is not ours; only status and length are checked
    /// then. Default: the files of our own service.
    pub path: Option<String>,
}

/// One file of the mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebFile {
    /// Length of the body.
    pub size: Bytes,
    /// How often it is requested, relative to the other files.
    pub weight: u32,
}

impl Default for WebParameters {
    /// Mostly small with a long tail, as served files are: half are 1 KiB, one in fifty is 256 KiB.
    fn default() -> Self {
        let file = |kib, weight| WebFile { size: Bytes::from_kib(kib), weight };
        Self { files: vec![file(1, 25), file(8, 18), file(64, 6), file(256, 1)], path: None }
    }
}

/// For role `disk`: random, direct requests, made and measured inside the guest. At a `rate`, an open loop of our own makes
/// them. As fast as possible (`saturate`, or `loop = "closed"`), fio makes them with libaio, one job a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskParameters {
    /// Size of one request.
    pub block_size: Bytes,
    /// Requests under way on each disk.
    pub depth: u32,
    /// Part of the requests that read; the others write.
    pub reads: Fraction,
    /// As fast as the disk goes, instead of at the load's `rate`.
    pub saturate: bool,
}

impl Default for DiskParameters {
    fn default() -> Self {
        Self {
            block_size: Bytes::from_kib(4),
            depth: 32,
            reads: Fraction::new(0.5).expect("a half is a part of a whole"),
            saturate: false,
        }
    }
}

/// Which broker runs in a guest with role `broker`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BrokerService {
    /// The reference broker, in the agent: so small that a run measures the host.
    #[default]
    Reference,
    /// RabbitMQ as Debian ships it.
    Rabbitmq,
    /// Apache Qpid Broker-J from Maven Central, by version and hash, with its memory store.
    QpidBrokerJ,
}

/// For role `broker`: messages over AMQP 0-9-1. Every message carries a stamp; one that is lost, doubled, out of order or
/// damaged is an error. User and password are made for each run and are in no output, record, argument or environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MessagingParameters {
    /// What is measured.
    pub measure: MessagingMeasure,
    /// Size of a message: at least `16B`, for the stamp.
    pub size: Bytes,
    /// Queues.
    pub queues: u32,
    /// Publishers of each queue. Each is a thread with a connection.
    pub publishers: u32,
    /// Subscribers of each queue. Each is a thread with a connection.
    pub subscribers: u32,
    /// Whether messages survive a restart of the broker. In runs only with `broker = "rabbitmq"`.
    pub durable: bool,
    /// Publishes that may wait for their confirm; 0: no confirms.
    pub confirms: u32,
    /// A subscriber acknowledges after this many messages; 0: automatic acknowledgement.
    pub acknowledge: u32,
    /// Messages that a subscriber may hold unacknowledged; 0: no limit.
    pub prefetch: u32,
    /// Which subscribers get a message.
    pub mode: MessagingMode,
    /// Publishes in a transaction; 0: no transactions.
    pub transactions: u32,
    /// Messages of each publisher. After them a throughput load ends and is measured as a whole; this needs
    /// `measure.warmup = "0s"`. 0: the load ends by time alone.
    pub count: u64,
}

/// What a messaging load measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessagingMeasure {
    /// As many messages a second as go through, whatever `rate` says.
    #[default]
    Throughput,
    /// How long a message takes at the load's `rate` (a whole number, with `arrival = "even"`), from one publisher through
    /// one queue to one subscriber, counted from the intended time of sending. It takes no `publishers`, `subscribers`,
    /// `mode`, `confirms` and `transactions`.
    Latency,
}

/// Which subscribers get a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessagingMode {
    /// Subscribers of a queue share its messages.
    #[default]
    Shared,
    /// Every subscriber gets every message.
    Fanout,
    /// Every subscriber of a topic gets each of its messages; `queues` is the number of topics.
    Topic,
}

impl BrokerService {
    /// The name as a scenario writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Rabbitmq => "rabbitmq",
            Self::QpidBrokerJ => "qpid-broker-j",
        }
    }
}

impl Default for MessagingParameters {
    fn default() -> Self {
        Self {
            measure: MessagingMeasure::Throughput,
            size: Bytes::new(16),
            queues: 1,
            publishers: 1,
            subscribers: 1,
            durable: false,
            confirms: 0,
            acknowledge: 0,
            prefetch: 0,
            mode: MessagingMode::Shared,
            transactions: 0,
            count: 0,
        }
    }
}

/// For role `database`: customers of an online store log in, look around and buy; afterwards the database is audited.
///
/// The guest's first data disk holds the database, the second its log; an only disk holds both. They are loaded and frozen
/// once, and cloned before each repeat. A database is always booted, never cloned with its memory. The scenario's image must
/// have the server (`image = "database"`).
///
/// An order that found too little stock and was undone counts neither as an order nor as an error; the record counts them
/// separately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreParameters {
    /// Which database serves it.
    pub database: StoreDatabase,
    /// What a commit promises.
    pub durability: StoreDurability,
    /// Size of the data as CSV: 10 MB to 100 GB. The first disk needs three times as much and 256 MiB. The log needs a
    /// quarter of the guest's memory (16 MiB to 2 GiB; PostgreSQL twice that) and 64 MiB, on the second disk or beside the
    /// data.
    pub data: Bytes,
    /// Customers at the same time, each with a connection.
    pub clients: u32,
    /// Mean pause between the orders of a customer; in a closed loop only.
    pub think_time: Span,
    /// Length of the steady window that the report shows beside the whole measured time: its last seconds, at most
    /// `measure.length`, in whole seconds. Default: all seconds after the load had settled.
    pub window: Option<Span>,
}

impl Default for StoreParameters {
    fn default() -> Self {
        Self {
            database: StoreDatabase::default(),
            durability: StoreDurability::default(),
            data: Bytes::new(20_000_000),
            clients: 32,
            think_time: Span::default(),
            window: None,
        }
    }
}

/// For role `database`: sysbench's read-write transactions on MariaDB, run and measured inside the guest by Debian's sysbench.
/// Its output stays in the record. Its tables are made before the warm-up. A `rate` is a whole number, its arrivals are
/// `poisson`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SysbenchParameters {
    /// Tables. The default is sysbench's own.
    pub tables: u32,
    /// Rows of each table. The default is sysbench's own.
    pub rows: u32,
    /// Clients at the same time.
    pub threads: u32,
}

impl Default for SysbenchParameters {
    fn default() -> Self {
        Self { tables: 1, rows: 10_000, threads: 16 }
    }
}

/// Which database serves the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreDatabase {
    /// MariaDB as Debian ships it, InnoDB tables.
    #[default]
    Mariadb,
    /// PostgreSQL as Debian ships it.
    Postgresql,
}

/// How large a database's log is in a guest with this memory: a third of what it caches, which is three quarters of the
/// memory, but 16 MiB to 2 GiB. The server is started with this (`server_settings` of `tilemark-store`).
pub fn database_log(memory: Bytes) -> Bytes {
    Bytes::new(memory.get() / 4).clamp(Bytes::from_mib(16), Bytes::from_gib(2))
}

impl StoreDatabase {
    /// The name as a scenario writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb",
            Self::Postgresql => "postgresql",
        }
    }
}

/// What a commit promises.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StoreDurability {
    /// Each commit is on the disk before it is confirmed, and torn pages are repaired.
    #[default]
    Full,
    /// A crash may lose the last second.
    Relaxed,
}
