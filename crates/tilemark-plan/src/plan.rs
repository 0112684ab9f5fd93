//! A plan: what will happen, fully resolved. It can be printed, stored and compared; it does nothing.

use crate::JsonSchema;
pub use crate::{
    backend::{Backend, Costs},
    facts::{AcceleratorVerdict, Hardware},
    network::{BRIDGE_ADDRESS, GUESTS_MAX, MacAddress, NETWORK_PREFIX, guest_address},
};
use crate::{
    host_settings::{HostSettings, ProfileSettings},
    interference::Together,
    left_out::is_default,
    own_bridge::{GuestNetwork, OwnBridge},
    own_disk::OwnDisk,
    place::{GuestPlace, HugePageSize, Topology},
    scenario::{
        Arrival, BrokerService, Disk, DiskAio, DiskCache, DiskMedium, Gate, Load, LoopKind, Measure, Net,
        QemuTable, Role, Scenario,
    },
    screening::{Screened, Screening},
    services::ServicePlan,
    sides::Sides,
    workload::{At, Better, InFlight, Place, Work},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};
use tilemark_units::{Bytes, Rate, Span};

/// The version of the plan format.
pub const PLAN_SCHEMA: u32 = 1;

/// What resolution needs to know of a host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    /// Its name.
    pub name: String,
    /// Running kernel.
    pub kernel: String,
    /// Processor model.
    pub processor: String,
    /// Ids of the threads that are online.
    pub threads: Vec<u32>,
    /// All memory.
    pub memory_total: Bytes,
    /// Memory that could be had now.
    pub memory_available: Bytes,
    /// Whether guests run at speed here: measured, with its reason.
    pub kvm: AcceleratorVerdict,
    /// Whether it is hardware, or a program that plays it. Hardware in older records, which do not have it.
    #[serde(default)]
    pub hardware: Hardware,
    /// Whether it counts the energy of its processors: its idle power is then measured before the first guest.
    #[serde(default)]
    pub counts_energy: bool,
    /// Its nodes, cores and huge pages. Empty in older records.
    #[serde(default)]
    pub topology: Topology,
    /// The user's own bridge through which guests are reached from outside. Nothing where the run has a network of its own only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_bridge: Option<OwnBridge>,
}

impl HostSummary {
    /// Whether times of a backend on this host are an emulator's and no hardware's: because its guests are emulated, or
    /// because the whole host is. They prove function and are no measure of anything.
    pub fn emulates(&self, backend: Backend) -> bool {
        backend == Backend::Emulated || self.hardware == Hardware::Emulated
    }

    /// The address of guest `index`: of the run network, or of the user's own bridge.
    pub fn guest_address(&self, index: u32) -> Ipv4Addr {
        self.own_bridge.as_ref().map_or_else(|| guest_address(index), |own| own.guest_address(index))
    }

    /// The hardware address of guest `index`.
    pub fn guest_mac(&self, index: u32) -> MacAddress {
        let own = |own: &OwnBridge| OwnBridge::mac_of(own.guest_address(index));
        self.own_bridge.as_ref().map_or_else(|| MacAddress::of_guest(index), own)
    }

    /// The most guests that a point may have: those that a run can hold, or that there are addresses for.
    pub fn guests_max(&self) -> u32 {
        self.own_bridge.as_ref().map_or(GUESTS_MAX, |own| own.guests_max().min(GUESTS_MAX))
    }
}

/// What will happen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Version of this format.
    pub schema: u32,
    /// The scenario with preset and settings applied.
    pub scenario: Scenario,
    /// What the scenario was asked for by: its name inside the program, or the path of its file. Empty in older plans.
    #[serde(default)]
    pub origin: String,
    /// The preset that was applied.
    pub preset: Option<String>,
    /// Settings given on the command line, by dotted key.
    pub settings: BTreeMap<String, String>,
    /// Settings of the two sides that are measured in turn, as they were typed. Absent where there are none, and in older plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sides: Option<Sides>,
    /// Seeds order, schedules and choices.
    pub seed: u64,
    /// The host it was made for.
    pub host: HostSummary,
    /// Who runs where.
    pub processors: Processors,
    /// Every step at every value of what varies, on each backend and side.
    pub points: Vec<Point>,
    /// Passes over the points in the order in which they happen: random within each block.
    pub passes: Vec<Pass>,
    /// Set when tile counts are searched for instead of taken from the ladder.
    pub search: Option<Search>,
    /// Set when settings of the host are screened: which pay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screening: Option<Screening>,
    /// Further blocks of repeats of the pairs of roles that look slow after the planned ones. 0 where roles are not measured in pairs, and
    /// in older plans.
    #[serde(default, skip_serializing_if = "is_default")]
    pub confirm_blocks: u32,
    /// It was asked to end within this: a ladder then ends after a whole block of repeats.
    #[serde(default)]
    pub within: Option<Span>,
    /// What it will need.
    pub expected: Expected,
}

impl Plan {
    /// The command that does something else, such as `capacity`, with the same scenario, preset and settings. Where the run needs other
    /// machines or a bridge of the user's own it has `--site FILE`: a plan does not keep the path of the site file.
    pub fn command(&self, verb: &str) -> String {
        let scenario = if self.origin.is_empty() { &self.scenario.name } else { &self.origin };
        let mut words = vec!["tilemark".to_owned(), verb.to_owned(), scenario.clone()];
        words.extend(self.preset.iter().flat_map(|preset| ["--preset".to_owned(), preset.clone()]));
        let setting = |(key, value): (&String, &String)| ["--set".to_owned(), format!("{key}={value}")];
        words.extend(self.settings.iter().flat_map(setting));
        let needs_site =
            self.host.own_bridge.is_some() || self.scenario.load.iter().any(Load::is_from_clients);
        words.extend(["--site", "FILE"].into_iter().filter(|_| needs_site).map(str::to_owned));
        words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }

    /// What every load asks, in the scenario and at every point.
    pub fn works_mut(&mut self) -> impl Iterator<Item = &mut Work> {
        let points = self.points.iter_mut().flat_map(|point| &mut point.loads).map(|load| &mut load.work);
        self.scenario.load.iter_mut().map(|load| &mut load.work).chain(points)
    }

    /// Puts the settings of profiles into the points that name one. `read` reads a profile by its name or path.
    ///
    /// # Errors
    /// The first profile that cannot be read.
    pub fn expand_profiles<E>(
        &mut self,
        mut read: impl FnMut(&str) -> Result<ProfileSettings, E>,
    ) -> Result<(), E> {
        let mut known: BTreeMap<String, ProfileSettings> = BTreeMap::new();
        for Point { host, .. } in &mut self.points {
            let Some(name) = host.profile.clone() else { continue };
            if !known.contains_key(&name) {
                known.insert(name.clone(), read(&name)?);
            }
            host.expand(&known[&name]);
        }
        Ok(())
    }

    /// Whether any point sets something on the host.
    pub fn sets_host(&self) -> bool {
        self.points.iter().any(|point| !point.host.is_empty())
    }

    /// Ends the range at the last address that some point, or a search, can need: no other one is asked for or answered for.
    pub fn keep_needed_addresses(&mut self) {
        let points = self.points.iter().map(|point| point.guests.len() as u32);
        let searched = self.search.as_ref().map(|search| {
            search.limit.saturating_mul(u32::try_from(self.scenario.guest.len()).unwrap_or(u32::MAX))
        });
        let guests = points.chain(searched).max().unwrap_or(0);
        if let Some(own) = &mut self.host.own_bridge {
            own.keep_addresses_of(guests);
        }
    }

    /// Processors that are kept awake while it is carried out: those that an open loop has for itself. Waking late would
    /// make requests late; a closed loop has no time to miss.
    pub fn kept_awake(&self) -> &[u32] {
        let Processors { load, guests } = &self.processors;
        let mut loads = self.points.iter().flat_map(|point| &point.loads);
        let is_open = loads.any(|load| matches!(load.demand, Demand::Open { .. }));
        if is_open && !load.iter().any(|thread| guests.contains(thread)) { load } else { &[] }
    }
}

/// A word as a shell takes it for one.
pub fn shell_word(word: &str) -> String {
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,%@+".contains(c));
    if is_plain && !word.is_empty() { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Who runs where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Processors {
    /// Threads for load, telemetry and keeper.
    pub load: Vec<u32>,
    /// Threads for guests. The same as `load` when they share.
    pub guests: Vec<u32>,
}

/// One step at one value of everything that varies, on one backend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Its place in the plan's list.
    pub index: usize,
    /// How many tiles.
    pub tiles: u32,
    /// How its guests run.
    pub backend: Backend,
    /// `a` or `b` where two sides are compared.
    pub side: Option<SideName>,
    /// The values of what varies, by name.
    pub vary: BTreeMap<String, String>,
    /// The roles of the tile that are measured together, where roles are measured alone and in pairs. Its guests and loads are those of these
    /// roles only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// What it is in a screening of the host's settings, where it belongs to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub screened: Option<Screened>,
    /// Settings of the host that are applied before its guests start and restored after each repeat. None in older plans.
    #[serde(default, skip_serializing_if = "HostSettings::is_empty")]
    pub host: HostSettings,
    /// QEMU's part of the configuration.
    pub qemu: QemuTable,
    /// Its limits.
    pub gate: Gate,
    /// Its lengths and repeats.
    pub measure: Measure,
    /// Every guest.
    pub guests: Vec<GuestPlan>,
    /// Every load of every tile.
    pub loads: Vec<LoadPlan>,
}

impl Point {
    /// The load whose figures are the point's own: where roles are measured in pairs that of the role named first, else the scenario's
    /// headline load. `None` where nothing is sent.
    pub fn headline<'p>(&'p self, scenario: &'p Scenario) -> Option<&'p str> {
        let Some(together) = &self.together else { return scenario.headline.as_deref() };
        let of = |role: &String| scenario.load.iter().find(|load| load.guest == *role);
        let load = of(&together.first).or_else(|| of(together.second.as_ref()?));
        load.map(|load| load.name.as_str())
    }

    /// Of a load whose command prints one figure in place of a rate: its unit, and which way it is better.
    pub fn figure_of(&self, load: &str) -> Option<(&str, Better)> {
        let load = self.loads.iter().find(|planned| planned.name == load)?;
        load.work.command()?.printed_figure()
    }
}

/// The longest answer that loads wait for, whatever the limits.
const ANSWER_MAX: Duration = Duration::from_secs(600);

impl Point {
    /// How long its loads wait for their last answers after their end: twice the longest time that its limits let an answer take. An
    /// answer within the limits then counts, and one that comes later is slow and not missing. At least as long as the backend says, and
    /// at most 20 minutes: nobody waits for an hour after each repeat.
    pub fn drain(&self) -> Duration {
        let pages = self.loads.iter().filter_map(|load| load.work.facts().good_and_tolerable());
        let limits = [Some(self.gate.p99), self.gate.mean].into_iter().flatten();
        let longest = limits.chain(pages.flatten()).map(Span::get).max().unwrap_or_default();
        self.backend.costs().drain.max(2 * longest.min(ANSWER_MAX))
    }

    /// Whether one of its loads has a surge.
    pub fn has_surge(&self) -> bool {
        self.loads.iter().any(|load| matches!(load.demand, Demand::Open { surge: Some(_), .. }))
    }
}

/// One of two configurations measured in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SideName {
    /// The first.
    A,
    /// The second.
    B,
}

impl SideName {
    /// As texts name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

/// One guest, fully resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuestPlan {
    /// `tile-003-web`: unique in the point.
    pub name: String,
    /// Counted from 0 over all guests of the point; address and MAC follow from it.
    pub index: u32,
    /// The tile that it belongs to, counted from 1.
    pub tile: u32,
    /// What it is for: the first of its services.
    pub role: Role,
    /// Its services in the order of their start. Empty in older plans: then it has the one of its role. See [`GuestPlan::services`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServicePlan>,
    /// Which broker, if it is one.
    pub broker: BrokerService,
    /// Its processors.
    pub vcpus: u32,
    /// Its memory.
    pub memory: Bytes,
    /// Memory that it writes before the load's warm-up: a clone's working set. Nothing where it is no clone, and in older plans.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub working_set: Bytes,
    /// Its data disks.
    pub disks: Vec<DiskPlan>,
    /// Its network device. One queue of QEMU's where the scenario says nothing, and in older plans.
    #[serde(default, skip_serializing_if = "is_default")]
    pub net: Net,
    /// Its hardware address.
    pub mac: MacAddress,
    /// Its address in the run network 10.77.0.0/16, or in that of the user's own bridge.
    pub address: Ipv4Addr,
    /// Its network, where that is the user's own. Nothing where it is the run network, and in older plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<GuestNetwork>,
    /// Host threads that it may use.
    pub processors: Vec<u32>,
    /// Guests of the point that it exchanges frames with, by their indices: those that it sends a load to or asks, and those that send it one or
    /// ask it. All others are out of its reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reaches: Vec<u32>,
    /// Address of the back end that its dynamic pages ask. Nothing where it is in the guest itself, and in older plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asks: Option<Ipv4Addr>,
    /// Where it is put. Nothing where the scenario leaves that to the host, and in older plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<GuestPlace>,
    /// Size of its huge pages. Nothing where it has ordinary ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hugepages: Option<HugePageSize>,
    /// The disk of the user's own that it boots from. Nothing where it has the scenario's image, and in older plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<OwnDisk>,
    /// Whether a load's `command` runs in it. `false` in older plans.
    #[serde(default, skip_serializing_if = "is_default")]
    pub runs_command: bool,
}

fn is_nothing(size: &Bytes) -> bool {
    size.get() == 0
}

impl GuestPlan {
    /// Its name in the tile: `web` of `tile-003-web`.
    pub fn name_in_tile(&self) -> &str {
        self.name.splitn(3, '-').last().unwrap_or(&self.name)
    }

    /// Its services in the order of their start.
    pub fn services(&self) -> Vec<ServicePlan> {
        match &self.services[..] {
            [] => vec![ServicePlan::of(self.role, self.memory)],
            services => services.to_vec(),
        }
    }

    /// Whether one of its services is of that role.
    pub fn serves(&self, role: Role) -> bool {
        self.role == role || self.services.iter().any(|service| service.role == role)
    }

    /// The service that a load asks, by its place in the order of their start.
    pub fn service_asked(&self, work: &Work) -> usize {
        let roles: Vec<Role> = self.services().iter().map(|service| service.role).collect();
        let (facts, own) = (work.facts(), work.facts().role());
        let exact = roles.iter().position(|role| *role == own);
        exact.or_else(|| roles.iter().position(|role| facts.fits(*role))).unwrap_or(0)
    }

    /// Whether its service is a third-party broker, with a runtime of its own: Erlang's, or Java's.
    pub fn has_third_party_broker(&self) -> bool {
        self.serves(Role::Broker) && self.broker != BrokerService::Reference
    }

    /// Whether it keeps data on disks: a database; the reference broker or jobs in a guest with a disk; a disk of the user's own. What it
    /// has in memory belongs to what is on them, so it is never cloned.
    pub fn keeps_data(&self) -> bool {
        let is_reference = self.serves(Role::Broker) && self.broker == BrokerService::Reference;
        let has_files = is_reference || self.serves(Role::Compute);
        self.from.is_some() || self.serves(Role::Database) || (has_files && !self.disks.is_empty())
    }

    /// Whether nothing runs in it but its kernel and the agent.
    pub fn only_idles(&self) -> bool {
        !self.runs_command && self.services().iter().all(|service| service.role == Role::Idle)
    }

    /// Whether what it runs over and over is more than the translator's usual buffer holds.
    pub fn has_large_service(&self) -> bool {
        self.from.is_some() || self.serves(Role::Database) || self.has_third_party_broker()
    }
}

/// A data disk of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskPlan {
    /// Its size.
    pub size: Bytes,
    /// Where its bytes are.
    pub on: DiskMedium,
    /// How QEMU caches it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cache: DiskCache,
    /// How QEMU reads and writes it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub aio: DiskAio,
    /// Whether a thread of QEMU's serves it alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub iothread: bool,
}

impl DiskPlan {
    /// One that the scenario says nothing else about.
    pub fn new(size: Bytes, on: DiskMedium) -> Self {
        Self { size, on, cache: DiskCache::default(), aio: DiskAio::default(), iothread: false }
    }
}

impl From<&Disk> for DiskPlan {
    fn from(disk: &Disk) -> Self {
        let usual = if disk.cache.is_direct() { DiskAio::Native } else { DiskAio::Threads };
        let aio = disk.aio.unwrap_or(usual);
        Self { cache: disk.cache, aio, iothread: disk.iothread, ..Self::new(disk.size, disk.on) }
    }
}

/// One load on one guest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadPlan {
    /// Its name in the scenario, the same in every tile.
    pub name: String,
    /// The tile, counted from 1.
    pub tile: u32,
    /// The guest that it loads, by its place in the point's list.
    pub guest: u32,
    /// The guest that sends it, by its place in the point's list. Nothing where it is sent from outside or runs inside the guest that it
    /// loads, and in older plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// Whether client machines send it: those of the site file, each for whole tiles.
    #[serde(default, skip_serializing_if = "is_default")]
    pub from_clients: bool,
    /// When requests are sent.
    pub demand: Demand,
    /// The scenario's rate, where an emulated guest is asked less than that, since it could not serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowered_from: Option<Rate>,
    /// Whether the scenario's closed loop has a rate here: flat out in an emulated guest it would take the threads of those that are asked
    /// at a rate.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paced: bool,
    /// Connections to the guest.
    pub connections: u32,
    /// What is asked.
    pub work: Work,
    /// Seeds its schedule and choices; each block has its own, see [`LoadPlan::seed_of_block`].
    pub seed: u64,
}

impl LoadPlan {
    /// How much is in flight at the guest, which is one of the point's.
    pub fn in_flight(&self, guest: &GuestPlan) -> InFlight {
        self.work.facts().in_flight(self.at(guest))
    }

    /// The guest in which it runs and is measured, by its place in the point's list; `None`: outside, in the load process or on a client
    /// machine.
    pub fn runs_in(&self) -> Option<u32> {
        match self.work.facts().place() {
            Place::Inside => Some(self.guest),
            Place::Outside => self.from,
        }
    }

    /// Whether the load process of the host sends it.
    pub fn is_outside(&self) -> bool {
        self.runs_in().is_none() && !self.from_clients
    }

    /// Connections that the load process has to the guest.
    pub fn connections_to(&self, guest: &GuestPlan) -> u32 {
        self.work.facts().connections(self.at(guest))
    }

    fn at(&self, guest: &GuestPlan) -> At {
        At { connections: self.connections, disks: guest.disks.len() }
    }

    /// The seed of its schedule and choices in one block. Repeats of a point are in different blocks, so each is a draw of its
    /// own; sides and native twin of one block get the same requests at the same times.
    pub fn seed_of_block(&self, block: u32) -> u64 {
        crate::seed::mixed(self.seed, &["block", &block.to_string()])
    }
}

/// When requests are sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Demand {
    /// At intended times, whatever the answers do.
    Open {
        /// Mean requests a second.
        rate: Rate,
        /// How they are spread.
        arrival: Arrival,
        /// Period of bursts.
        burst_every: Span,
        /// Length of a burst.
        burst_length: Span,
        /// A time in which it is more; absent in older plans. Always written: agents read frames whose fields have no names.
        #[serde(default)]
        surge: Option<Swell>,
    },
    /// The next request after the answer.
    Closed,
}

/// A time of a schedule in which its rate is higher.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Swell {
    /// When it begins, from the start of the warm-up.
    pub from: Span,
    /// How long it lasts.
    pub length: Span,
    /// How many times as high.
    pub factor: u32,
}

impl Demand {
    /// Which loop it is.
    pub const fn loop_kind(&self) -> LoopKind {
        match self {
            Self::Open { .. } => LoopKind::Open,
            Self::Closed => LoopKind::Closed,
        }
    }
}

/// One pass over one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pass {
    /// Passes of one block are compared with each other.
    pub block: u32,
    /// The point, by its index.
    pub point: usize,
    /// Which repeat of the point, counted from 1.
    pub repeat: u32,
}

/// A search for the largest tile count that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// The count that it begins with.
    pub from: u32,
    /// The count that it never passes.
    pub limit: u32,
    /// Where the boundary is taken to be before anything is known, to say how long the search will take: half
    /// of the largest count of the scenario's ladder.
    #[serde(default)]
    pub guess: u32,
    /// It stops in time to end within this.
    pub within: Option<Span>,
    /// When it has its answer, the count that holds is measured again, each repeat beside one of its native twin.
    #[serde(default)]
    pub twin: bool,
    /// The count that did not fit into memory, where one ended the search. Known when it was carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_end: Option<MemoryEnd>,
}

/// A count that does not fit into the host's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryEnd {
    /// How many tiles.
    pub tiles: u32,
    /// Memory that they need.
    pub needed: Bytes,
    /// Memory that was free.
    pub free: Bytes,
    /// Memory that must stay free.
    pub reserve: Bytes,
}

/// What a plan will need.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
    /// Time from the first guest to the last.
    pub time: Span,
    /// Most memory that all guests of a point may use.
    pub memory: Bytes,
    /// Most disk space.
    pub disk: Bytes,
    /// Most guests at once.
    pub guests: u32,
}
