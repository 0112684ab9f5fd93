//! What each workload may be told. Data only: how it is done stands in `tilemark-workloads`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tilemark_units::{Bytes, Fraction, Span};

/// The workload `web`: GET requests for files of a mix of sizes over kept-alive connections.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebParameters {
    /// The sizes asked for and how often each, relative to the others.
    pub files: Vec<WebFile>,
    /// Where requests begin, for a load against a server that is not ours; there only the status and the
    /// length are checked. `None`: our own files, whose every byte is known.
    pub path: Option<String>,
}

/// One file size of the mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebFile {
    /// Length of the body.
    pub size: Bytes,
    /// How often it is asked for, relative to the other files.
    pub weight: u32,
}

impl Default for WebParameters {
    /// Mostly small with a long tail, as served files are: half are 1 KiB, one in fifty is 256 KiB.
    fn default() -> Self {
        let file = |kib, weight| WebFile { size: Bytes::from_kib(kib), weight };
        Self { files: vec![file(1, 25), file(8, 18), file(64, 6), file(256, 1)], path: None }
    }
}

/// The workload `disk`: random, direct requests made in the guest. At a rate an open loop of our own; flat out (closed
/// loop, or `saturate`) fio with libaio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskParameters {
    /// Size of one request. Default 4 KiB.
    pub block_size: Bytes,
    /// Requests under way on each disk. Default 32.
    pub depth: u32,
    /// Part of the requests that read. Default 50 %.
    pub reads: Fraction,
    /// As fast as the disk goes, instead of the load's rate.
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
    /// Ours, so small that a run measures the host.
    #[default]
    Reference,
    /// RabbitMQ as Debian ships it.
    Rabbitmq,
    /// Apache Qpid Broker-J.
    QpidBrokerJ,
}

/// The workload `messaging`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MessagingParameters {
    /// Throughput (as fast as it goes) or latency (at the load's rate).
    pub measure: MessagingMeasure,
    /// Bytes of a message. Default 16.
    pub size: Bytes,
    /// Queues. Default 1.
    pub queues: u32,
    /// Publishers of each queue. Default 1.
    pub publishers: u32,
    /// Subscribers of each queue. Default 1.
    pub subscribers: u32,
    /// Messages survive a restart of the broker.
    pub durable: bool,
    /// Publishes that may wait for their confirm; 0: no confirms.
    pub confirms: u32,
    /// Acknowledge every so many; 0: automatic acknowledgement.
    pub acknowledge: u32,
    /// Messages a subscriber may hold unacknowledged; 0: no limit.
    pub prefetch: u32,
    /// How messages find their subscribers. Default `shared`.
    pub mode: MessagingMode,
    /// Publishes in a transaction; 0: none.
    pub transactions: u32,
    /// Messages of each publisher, after which the load ends; 0: it ends by time alone.
    pub count: u64,
}

/// What a messaging load measures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessagingMeasure {
    /// As many messages a second as go through.
    #[default]
    Throughput,
    /// How long a message takes at the load's rate.
    Latency,
}

/// How messages find their subscribers.
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

/// The workload `store`: an online store's customers at a database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StoreParameters {
    /// Which database serves it. Default `mariadb`.
    pub database: StoreDatabase,
    /// What a commit promises. Default `full`.
    pub durability: StoreDurability,
    /// Bytes of the database's data as CSV. Default 20 MB.
    pub data: Bytes,
    /// Customers at the same time. Default 32.
    pub clients: u32,
    /// Pause between the orders of a customer. Default none.
    pub think_time: Span,
    /// Length of the steady window that is told, in whole seconds. Default: all that had settled.
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

/// The workload `sysbench`: Debian's sysbench inside a database guest, read-write transactions on MariaDB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SysbenchParameters {
    /// Tables. Default 1, as sysbench's own.
    pub tables: u32,
    /// Rows of each. Default 10,000, as sysbench's own.
    pub rows: u32,
    /// Clients at the same time. Default 16.
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
    /// Each commit is on the disk before it is confirmed; torn pages are repaired.
    #[default]
    Full,
    /// A crash may lose the last second.
    Relaxed,
}
