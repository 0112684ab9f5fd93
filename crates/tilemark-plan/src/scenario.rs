//! A scenario as a person writes it: the tile, the ladder, the demand, the gate and what varies.
//!
//! Every field is checked when it is read; an unknown key is an error. A key that a scenario leaves out has
//! its default. Nothing here looks at a host.
//!
//! `docs/scenarios.md` is made from the comments of these types (`cargo xtask scenarios`). A key whose default is no
//! value says in a sentence of its own, which begins with `Default:`, what then happens.

pub use crate::guest_image::{ImageFile, ImageTable, ImageWish};
pub use crate::services::Ready;

use crate::JsonSchema;
use crate::{
    host_settings,
    place::{HugePageSize, PlaceWishes},
    workload::{self, BrokerService, Work},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tilemark_units::{Bytes, Fraction, Rate, Span};

/// The version of the scenario format.
pub const SCENARIO_SCHEMA: u32 = 1;

/// A whole scenario file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of this format: `1`.
    pub schema: u32,
    /// Short name, as in `tilemark run NAME`: at most 40 letters, digits and `-`.
    pub name: String,
    /// What it measures and why, in a sentence or two.
    pub about: String,
    /// Name of the main load: the p99 and throughput of a step are those of this load. Default: the only load. A scenario with several loads needs it.
    #[serde(default)]
    pub headline: Option<String>,
    /// The image that its guests boot: the name of one inside the program, the path of an `image.toml`, or a table `[image]`.
    #[serde(default = "default_image")]
    pub image: ImageWish,
    /// The guests of one tile.
    pub guest: Vec<Guest>,
    /// What is sent to them, or run in them.
    #[serde(default)]
    pub load: Vec<Load>,
    /// The tile counts to measure.
    pub ladder: Ladder,
    /// How long and how often to measure.
    #[serde(default)]
    pub measure: Measure,
    /// What users tolerate: the limits that a point must keep to hold.
    #[serde(default)]
    pub gate: Gate,
    /// Where loads and guests run.
    #[serde(default)]
    pub host: HostWishes,
    /// Which processors and which node's memory guests have. Default: the host chooses.
    #[serde(default, skip_serializing_if = "PlaceWishes::is_default")]
    pub place: PlaceWishes,
    /// Which QEMU runs the guests, and with which machine type and kernel.
    #[serde(default)]
    pub qemu: QemuWishes,
    /// Sizes of the same scenario, such as `quick`, `host` and `published`. Each maps dotted keys to values.
    #[serde(default)]
    pub preset: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// What varies. Each name maps to a dotted key and its values; every combination is measured, each with its own
    /// ladder.
    #[serde(default)]
    pub vary: BTreeMap<String, Vary>,
}

pub(crate) fn default_image() -> ImageWish {
    ImageWish::Named("first-look".to_owned())
}

/// The guests of one tile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Guest {
    /// Its name, unique in the tile, such as `web`: 1 to 40 of `a` to `z`, `0` to `9` and `-`. Guests of a run are called `tile-003-NAME`.
    pub name: String,
    /// A disk of your own that it boots from: a cloud image, as a `qcow2` or raw file, by its path from the scenario's folder. It is never
    /// written to, and what runs in it is the disk's own. See [own-disks.md](own-disks.md). Default: none, the guest has the scenario's
    /// `image`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// With `from`: how long it may take until Tilemark's agent answers in it, at most `3600s`. Default: `600s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boots_within: Option<Span>,
    /// What it is for; this decides which service runs in it. Default: none. A guest needs `role`, `services`, `run` or `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The services that run in it, in the order in which they are started; each must answer before the next one starts. In place of
    /// `role`, which is the short form for one. Default: the one of `role`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Role>,
    /// Memory that each service sizes itself by, as in `{ database = "256MiB" }`. Default: an equal part of the guest's memory for each of
    /// its services.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub service_memory: BTreeMap<Role, Bytes>,
    /// A folder of the image with your own pages: the web server serves its files in place of ours, and PHP runs those that end in
    /// `.php`. A path that is not a file goes to its `index.php`. PHP reaches the guest's own MariaDB as `root` at `localhost`, without a
    /// password. Default: none. For a guest with the service `web`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<String>,
    /// An SQL file of the image: MariaDB runs it once, when the database is made. Default: none. For a guest with the service `database`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// A program of your own, with its arguments: it is started after the services, as root, and runs until the guest ends. Its output is in
    /// the guest's console. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run: Vec<String>,
    /// When `run` is ready; without `run`, in a guest with `from`: when a service of the disk's own is. Default: none. `run` needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Ready>,
    /// Virtual processors: at most as many as the host has threads.
    #[serde(default = "one")]
    pub vcpus: u32,
    /// Memory: at least `64MiB`.
    #[serde(default = "default_memory")]
    pub memory: Bytes,
    /// Memory that a clone writes before the load's warm-up. A clone shares memory with its template; a guest that boots has
    /// written this memory itself. Default: 40 % of its memory, at most 100 MiB, in a scenario with a load; nothing in one without, which
    /// measures a density.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<Bytes>,
    /// Data disks.
    #[serde(default)]
    pub disk: Vec<Disk>,
    /// Its network device. Default: one queue, served by QEMU.
    #[serde(default, skip_serializing_if = "is_default")]
    pub net: Net,
    /// Which broker runs in a guest with role `broker`. `rabbitmq` and `qpid-broker-j` need at least 512 MiB of memory,
    /// better 1 GiB, and the image `brokers`, which is used where a scenario names no other. In emulated guests they
    /// take minutes to start.
    #[serde(default)]
    pub broker: BrokerService,
    /// The guest of the tile with role `backend` that its dynamic pages ask. Default: a back end in the guest itself. For a guest with role
    /// `web`, which serves such pages for `load.sessions`. The two guests can then reach each other on the run network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<String>,
    /// Size of the huge pages that its memory consists of. Default: the kernel's ordinary pages. The host must have enough free ones
    /// before it starts, and it must be booted. A native twin has no memory of its own, and so none of these pages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<HugePageSize>,
}

fn one() -> u32 {
    1
}
fn default_memory() -> Bytes {
    Bytes::from_mib(256)
}

/// What a guest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Nothing but its operating system.
    Idle,
    /// A web server.
    Web,
    /// A guest whose data disks are read and written from inside.
    Disk,
    /// A message broker.
    Broker,
    /// A database.
    Database,
    /// A guest whose processors and memory work from inside, and files on its first data disk.
    Compute,
    /// A guest that sends a load to another one of its tile.
    Client,
    /// What the dynamic pages of web servers ask.
    Backend,
    /// A program of your own: `run`.
    Program,
}

impl Role {
    /// The name as it is written in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Web => "web",
            Self::Disk => "disk",
            Self::Broker => "broker",
            Self::Database => "database",
            Self::Compute => "compute",
            Self::Client => "client",
            Self::Backend => "backend",
            Self::Program => "program",
        }
    }
}

/// A data disk of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Its size.
    pub size: Bytes,
    /// Where its bytes are.
    #[serde(default)]
    pub on: DiskMedium,
    /// How QEMU caches it on the host, in QEMU's own words. A native twin's disk is always without the host's cache. Default: `"none"`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache: DiskCache,
    /// How QEMU reads and writes it: `native` (the kernel's asynchronous I/O), `threads` or `io_uring`. Default: `native` where the host
    /// does not cache it, `threads` where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aio: Option<DiskAio>,
    /// Whether a thread of QEMU's serves this disk alone, instead of the one that serves all devices. Default: `false`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub iothread: bool,
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// How QEMU caches a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskCache {
    /// The host does not cache it; the guest sees a write cache that it flushes.
    #[default]
    None,
    /// The host caches it; the guest flushes.
    Writeback,
    /// The host caches what is read; each write is on the disk before it is answered.
    Writethrough,
    /// The host does not cache it; each write is on the disk before it is answered.
    Directsync,
    /// The host caches it, and the guest's flushes do nothing: a crash of the host may lose all of it.
    Unsafe,
}

impl DiskCache {
    /// As scenarios write it, which is QEMU's own word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Writeback => "writeback",
            Self::Writethrough => "writethrough",
            Self::Directsync => "directsync",
            Self::Unsafe => "unsafe",
        }
    }

    /// Whether reads and writes pass by the host's cache.
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::None | Self::Directsync)
    }

    /// Whether the guest sees a write cache.
    pub const fn has_write_cache(self) -> bool {
        !matches!(self, Self::Writethrough | Self::Directsync)
    }
}

/// How QEMU reads and writes a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DiskAio {
    /// The kernel's asynchronous I/O.
    #[default]
    #[serde(rename = "native")]
    Native,
    /// Threads of QEMU that read and write.
    #[serde(rename = "threads")]
    Threads,
    /// The kernel's `io_uring`.
    #[serde(rename = "io_uring")]
    IoUring,
}

impl DiskAio {
    /// QEMU's own word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Threads => "threads",
            Self::IoUring => "io_uring",
        }
    }
}

/// A guest's network device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Net {
    /// Queues in each direction: at most as many as the guest has processors, and at most 16.
    pub queues: u32,
    /// Whether the host's kernel moves the frames (`vhost-net`) instead of QEMU. The host needs `/dev/vhost-net`.
    pub vhost: bool,
}

impl Default for Net {
    fn default() -> Self {
        Self { queues: 1, vhost: false }
    }
}

/// Where the bytes of a data disk are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskMedium {
    /// In the disk store, on the host's disk.
    #[default]
    Store,
    /// In the host's memory, behind a loop device with 512-byte sectors.
    Memory,
}

/// What is sent to the guests, or run in them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name, unique in the scenario, such as `web-steady`: 1 to 40 of `a` to `z`, `0` to `9` and `-`.
    pub name: String,
    /// The guest of the tile that it loads.
    pub guest: String,
    /// Who sends the load: the name of a guest of the tile with role `client` (the two guests can then reach each other on the run
    /// network), or `"clients"`: the machines of the site file (`--site FILE`), each for whole tiles; see [clients.md](clients.md).
    /// Default: the load process of the host, or the loaded guest itself for a workload that runs inside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// When requests are sent.
    #[serde(default, rename = "loop")]
    pub loop_kind: LoopKind,
    /// What the users of each guest ask, as in `"200/s"`. Default: none. An open loop needs it. Emulated guests are asked what they
    /// can serve, where that is less; `--set load.NAME.rate=RATE` asks for all of it.
    #[serde(default)]
    pub rate: Option<Rate>,
    /// How the requests of an open loop are spread in time.
    #[serde(default)]
    pub arrival: Arrival,
    /// With `arrival = "bursts"`: the period. A burst begins with each, and `measure.length` is a whole number of them.
    #[serde(default = "default_burst_every")]
    pub burst_every: Span,
    /// With `arrival = "bursts"`: the first part of each period. All requests of the period come in it.
    #[serde(default = "default_burst_length")]
    pub burst_length: Span,
    /// Connections to each guest. Only `web` uses it: other workloads have as many as their clients, users, publishers and subscribers, or
    /// run inside the guest.
    #[serde(default = "default_connections")]
    pub connections: u32,
    /// What is asked: exactly one of the workloads.
    #[serde(flatten, deserialize_with = "workload::one_work")]
    pub work: Work,
}

/// In place of a guest's name in `load.from`: the client machines of the site file.
pub const FROM_CLIENTS: &str = "clients";

impl Load {
    /// Its own keys, without those of the workloads.
    pub(crate) const KEYS: [&str; 9] =
        ["arrival", "burst_every", "burst_length", "connections", "from", "guest", "loop", "name", "rate"];

    /// Whether client machines send it.
    pub fn is_from_clients(&self) -> bool {
        self.from.as_deref() == Some(FROM_CLIENTS)
    }

    /// The guest of the tile that sends it, where one does.
    pub fn sender(&self) -> Option<&str> {
        self.from.as_deref().filter(|from| *from != FROM_CLIENTS)
    }
}

fn default_connections() -> u32 {
    4
}
fn default_burst_every() -> Span {
    Span::from_seconds(5)
}
fn default_burst_length() -> Span {
    Span::from_seconds(1)
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoopKind {
    /// At their intended times, whatever the answers do.
    #[default]
    Open,
    /// On each connection, the next one when the previous one is answered. It takes no `rate`.
    Closed,
}

/// How the requests of an open loop are spread in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// Independent users: exponential gaps.
    #[default]
    Poisson,
    /// Equal gaps.
    Even,
    /// Independent users who come together: the requests of a period come in its first part.
    Bursts,
}

/// The tile counts to measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ladder {
    /// Rising tile counts; at most 1,000 guests.
    pub tiles: Vec<u32>,
    /// The tile count at which `capacity` stops searching. It also stops at 1,000 guests.
    #[serde(default = "default_search_limit")]
    pub search_limit: u32,
}

fn default_search_limit() -> u32 {
    1024
}

/// How long and how often to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// How long the load runs before the measurement. This time is not counted. Whole seconds with `load.sysbench`, and with a
    /// `load.command` that uses `{total_seconds}`.
    pub warmup: Span,
    /// How long is measured, in whole seconds.
    pub length: Span,
    /// Passes over each step. With 3 or more, figures have intervals.
    pub repeats: u32,
    /// One tile's users ask much more for a quarter of the measurement. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surge: Option<Surge>,
    /// How guests are created.
    pub start: Start,
    /// The p-value that a difference between sides must reach.
    pub significance: Fraction,
    /// A change of throughput, p50 or processor time within this counts as no difference between sides.
    pub margin: Fraction,
    /// The same for p99.
    pub margin_p99: Fraction,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            warmup: Span::from_seconds(3),
            length: Span::from_seconds(10),
            repeats: 5,
            surge: None,
            start: Start::Clone,
            significance: Fraction::new(0.01).expect("one in a hundred is a part of a whole"),
            margin: Fraction::new(0.03).expect("three in a hundred are a part of a whole"),
            margin_p99: Fraction::new(0.1).expect("one in ten is a part of a whole"),
        }
    }
}

/// The users of one tile ask so many times as much of the headline load for a quarter of the measurement. Other tiles are measured before,
/// during and after it. A step without the tile, or without another one, has no surge; a plan in which none has it is refused. It needs a load
/// `web` or `sessions` with a rate, sent from outside, as the headline, a ladder with 2 tiles or more, and a measurement of 8 s or longer.
/// `interference` refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Surge {
    /// The tile, counted from 1.
    pub tile: u32,
    /// How many times as much.
    pub factor: u32,
    /// When it begins.
    #[serde(default)]
    pub at: SurgeAt,
}

impl Surge {
    /// The fewest tiles of a point that has it: those up to its own, and another one to feel it.
    pub fn least_tiles(&self) -> u32 {
        self.tile.max(2)
    }
}

/// When a surge begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SurgeAt {
    /// At half of the measurement. It ends after a quarter of it.
    #[default]
    Half,
}

impl Measure {
    /// The seconds of the measurement in which a surge lasts: from the first to the one after the last.
    pub fn surge_seconds(&self) -> std::ops::Range<u32> {
        let length = u32::try_from(self.length.get().as_secs()).unwrap_or(u32::MAX);
        length / 2..length / 2 + length / 4
    }
}

/// How guests are created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Each is cloned copy-on-write from a booted, warmed and frozen template of its role.
    #[default]
    Clone,
    /// Each is booted.
    Boot,
}

/// What users tolerate: the limits that a point must keep to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// 99 of 100 requests of every load must be answered within this.
    pub p99: Span,
    /// At most this part of the requests may fail.
    pub errors: Fraction,
    /// At least this part of the demand must be served (open loop).
    pub achieved: Fraction,
    /// The requests of every load must be answered within this on average. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Span>,
    /// At least this part of the pages of `load.sessions` must come within the time in which a page is good. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<Fraction>,
    /// At least this part of the pages of `load.sessions` must come within the time in which a page is tolerable. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerable: Option<Fraction>,
}

impl Default for Gate {
    fn default() -> Self {
        let fraction = |part| Fraction::new(part).expect("a literal between 0 and 1");
        Self {
            p99: Span::from_milliseconds(50),
            errors: fraction(0.001),
            achieved: fraction(0.99),
            mean: None,
            good: None,
            tolerable: None,
        }
    }
}

/// Where loads and guests run, and what is set on the host meanwhile.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostWishes {
    /// Which processors the load has.
    pub load_processors: LoadProcessors,
    /// Settings of the host that are applied before the guests of a repeat start and restored after it: the name of a profile inside the
    /// program, the path of a profile, or `"none"`. Default: `"none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Single settings of the host, over those of the profile: `host.setting.KEY = VALUE`, as in `host.setting.vm.swappiness = 10` or
    /// `host.setting.ksm = "off"`. A value is text, a number, or `true` and `false` for 1 and 0. Default: none.
    #[serde(deserialize_with = "host_settings::texts", skip_serializing_if = "BTreeMap::is_empty")]
    pub setting: BTreeMap<String, String>,
}

/// Which processors the load has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadProcessors {
    /// A quarter of the threads, at least one, which no guest uses. Where cores have several threads: a quarter of the cores.
    #[default]
    Own,
    /// Load and guests share all.
    Shared,
}

/// Which QEMU runs the guests, and with which machine type and kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QemuWishes {
    /// Path of the QEMU program. Default: the first that is found.
    pub binary: Option<String>,
    /// Machine type, such as `pc` or `q35`, with options of its own after a comma, such as `q35,hpet=off`. Default: `"pc"`.
    pub machine: Option<String>,
    /// Processor model, with options of its own after a comma, such as `Nehalem` or `max,-avx2`. Default: `"host,migratable=on"` with kvm,
    /// `"qemu64,+rdrand"` for emulated guests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Further arguments of QEMU, each a text of its own, such as `["-device", "virtio-rng-pci"]`. What Tilemark sets itself, and what would open
    /// the sandbox, is refused. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Firmware of the machine: the path of an image, or a name that QEMU knows, such as `bios-256k.bin` (SeaBIOS) or `qboot.rom`. UEFI
    /// (`/usr/share/ovmf/OVMF.fd`) only where every guest has `from`: it loads no kernel of an image. Default: what the machine type has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Another kernel for the guests: the path of an ELF `vmlinux`. Default: the image's.
    pub kernel: Option<String>,
    /// Whether QEMU runs in a sandbox: as a user of its own without capabilities, with a filter of system calls, in an
    /// empty root. Default: `"on"`.
    #[serde(skip_serializing_if = "QemuWalls::are_on")]
    pub walls: QemuWalls,
}

/// Whether QEMU runs in a sandbox.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QemuWalls {
    /// QEMU runs in the sandbox.
    #[default]
    On,
    /// QEMU runs as root without the sandbox, to measure what it costs. A guest that breaks out of QEMU then has the host.
    Off,
}

impl QemuWalls {
    /// Whether they are on.
    pub const fn are_on(&self) -> bool {
        matches!(self, Self::On)
    }
}

/// One key that varies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Vary {
    /// The dotted key that is set, such as `load.web-steady.rate`: one of `guest`, `load`, `gate`, `measure`, `place`, `qemu` and
    /// `host.setting`, or `host.profile`. All others are the same in the whole plan. No key varies twice, nor do its parts.
    pub key: String,
    /// Its values, in order, each once.
    pub values: Vec<serde_json::Value>,
}

#[cfg(all(test, feature = "schema"))]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_a_loads_keys_is_complete() {
        let schema = schemars::schema_for!(Load);
        let keys: Vec<&str> =
            schema.get("properties").unwrap().as_object().unwrap().keys().map(String::as_str).collect();
        let mut keys: Vec<&str> = keys.into_iter().filter(|key| !Work::NAMES.contains(key)).collect();
        keys.sort_unstable();
        assert_eq!(keys, Load::KEYS);
    }

    #[test]
    fn names_are_as_scenarios_write_them() {
        use crate::workload::StoreDurability;
        let caches = [
            DiskCache::None,
            DiskCache::Writeback,
            DiskCache::Writethrough,
            DiskCache::Directsync,
            DiskCache::Unsafe,
        ];
        for cache in caches {
            assert_eq!(serde_json::to_value(cache).unwrap(), cache.name());
        }
        for aio in [DiskAio::Native, DiskAio::Threads, DiskAio::IoUring] {
            assert_eq!(serde_json::to_value(aio).unwrap(), aio.name());
        }
        for durability in [StoreDurability::Full, StoreDurability::Relaxed] {
            assert_eq!(serde_json::to_value(durability).unwrap(), durability.name());
        }
    }
}
