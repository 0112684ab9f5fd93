//! What a plan will need: time, memory, disk. Rough figures, said before and held against what was.

use crate::{
    interference::CONFIRMED_PAIRS_MAX,
    plan::{Backend, Expected, GuestPlan, HostSummary, LoadPlan, Pass, Plan, Point, Search},
    scenario::{DiskMedium, Measure, Role, Start},
    search::{FURTHER_MAX, expected_counts},
    workload::Work,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tilemark_units::{Bytes, Span};

/// Memory that no run may use: the greater of a tenth of the host's and 1 GiB.
pub fn memory_reserve(total: Bytes) -> Bytes {
    Bytes::new(total.get() / 10).max(Bytes::from_gib(1))
}

/// Most memory that the guests of a point may use.
pub fn memory_of(point: &Point) -> Bytes {
    point.guests.iter().map(|guest| memory_of_guest(point, guest) + memory_disks(guest)).sum()
}

/// QEMU's own memory beside the guest's, as measured for 7.2 with one disk and one network device: 25 MiB, 16 of them the translator's
/// buffer.
const QEMU_OVERHEAD: Bytes = Bytes::from_mib(32);

/// All memory of a clone that only idles, with its QEMU and its part of the template. Of 256 emulated ones 18.0 MiB each were
/// measured, of 24 19.6, and 500 took 18.5 MiB each of the host's memory. Under KVM it was not measured.
const IDLE_CLONE: Bytes = Bytes::from_mib(24);

/// The translator's buffer of an emulated guest with a database, with a broker that has a runtime of its own, or with a disk of the user's
/// own. What those run
/// fills it; the few MiB that other guests have would be emptied and filled again all the time.
pub const LARGE_TRANSLATION: Bytes = Bytes::from_mib(128);

/// A twin whose service holds no data of its own: nginx on files of the shared image, fio past the page cache, nothing at all.
const SMALL_TWIN: Bytes = Bytes::from_mib(48);

/// A database server that holds no rows: MariaDB took 95 MiB under a load on tables of 2 MB.
const DATABASE_TWIN: Bytes = Bytes::from_mib(128);
/// A server caches no more than its files have: rows, keys, and what a long run adds, for each byte of rows as CSV.
const CACHED_PER_DATA: u64 = 3;

/// Most memory of a twin, which has none of its own: its service takes what it needs, up to its guest's memory.
fn memory_of_twin(point: &Point, guest: &GuestPlan, written: Bytes) -> Bytes {
    // Nobody knows what a command takes.
    if guest.runs_command {
        return guest.memory;
    }
    let loads = || point.loads.iter().filter(|load| load.guest == guest.index);
    let of_role = |role: Role| match role {
        // Its queues can fill it, and nobody knows what a program of the user's own takes.
        Role::Broker | Role::Program => guest.memory,
        // A database whose files are in memory too can fill it with both.
        Role::Database if guest.disks.is_empty() => guest.memory,
        Role::Database => {
            let data = loads().find_map(|load| load.work.facts().data()).unwrap_or_default();
            DATABASE_TWIN + Bytes::new(data.get().saturating_mul(CACHED_PER_DATA))
        }
        Role::Idle | Role::Web | Role::Disk | Role::Compute | Role::Client | Role::Backend => {
            SMALL_TWIN + written
        }
    };
    let needed: Bytes = guest.services().iter().map(|service| of_role(service.role)).sum();
    needed.min(guest.memory)
}

pub(crate) fn memory_of_guest(point: &Point, guest: &GuestPlan) -> Bytes {
    let memory = guest.memory;
    let is_its_own = |load: &&LoadPlan| load.guest == guest.index || load.from == Some(guest.index);
    let loads = point.loads.iter().filter(is_its_own);
    let written: Bytes = loads.map(|load| load.work.facts().memory()).sum();
    let qemu = match point.backend {
        Backend::Emulated if guest.has_large_service() => QEMU_OVERHEAD + LARGE_TRANSLATION,
        Backend::Emulated | Backend::Kvm | Backend::Native => QEMU_OVERHEAD,
    };
    match (point.backend, start_of(guest, &point.measure)) {
        (Backend::Native, _) => memory_of_twin(point, guest, written),
        // Its memory is in the pool already, which is no part of what is available.
        (_, Start::Boot) if guest.hugepages.is_some() => qemu,
        (_, Start::Boot) => memory + qemu,
        (_, Start::Clone) if guest.only_idles() => IDLE_CLONE + guest.working_set,
        // A clone shares what it does not write. A loaded web guest writes little beyond its working set, into pages of it that are
        // free again.
        (_, Start::Clone) => Bytes::new(memory.get() / 2).max(guest.working_set).max(written) + qemu,
    }
}

/// How a guest starts where it is no native twin.
pub(crate) fn start_of(guest: &GuestPlan, measure: &Measure) -> Start {
    if guest.keeps_data() { Start::Boot } else { measure.start }
}

fn memory_disks(guest: &GuestPlan) -> Bytes {
    guest.disks.iter().filter(|disk| disk.on == DiskMedium::Memory).map(|disk| disk.size).sum()
}

fn disk_of(point: &Point) -> Bytes {
    let disks = point.guests.iter().flat_map(|guest| &guest.disks);
    disks.filter(|disk| disk.on == DiskMedium::Store).map(|disk| disk.size).sum()
}

/// Time of one pass: guests start, warm up, are measured and end.
pub fn time_of(point: &Point) -> Duration {
    time_with(point, point.guests.len() as f64)
}

fn time_with(point: &Point, guests: f64) -> Duration {
    point.measure.warmup.get() + point.measure.length.get() + time_of_starts(point, guests)
}

/// Further blocks of pairs that look slow take at most this or a third of the planned repeats, whichever is longer; one pair always has them.
const CONFIRM_TIME: Duration = Duration::from_secs(300);

/// How long further blocks of pairs that look slow may take, but for the first pair.
pub fn time_for_confirming(plan: &Plan) -> Duration {
    let planned: Duration = plan.passes.iter().map(|pass| time_of(&plan.points[pass.point])).sum();
    CONFIRM_TIME.max(planned / 3)
}

/// How long further blocks of these points take.
pub fn time_to_confirm<'p>(plan: &Plan, points: impl IntoIterator<Item = &'p Point>) -> Duration {
    points.into_iter().map(time_of).sum::<Duration>() * plan.confirm_blocks
}

/// The most time that further blocks of pairs that look slow may take: those of the longest points.
pub fn most_time_to_confirm(plan: &Plan) -> Duration {
    let longest = |is_alone: bool, count: usize| {
        let is_of_kind =
            |point: &&Point| point.together.as_ref().is_some_and(|of| of.second.is_none() == is_alone);
        let mut points: Vec<&Point> = plan.points.iter().filter(is_of_kind).collect();
        points.sort_by_key(|point| std::cmp::Reverse(time_of(point)));
        points.truncate(count);
        points
    };
    let of_pairs = |count: usize| {
        time_to_confirm(plan, longest(false, count).into_iter().chain(longest(true, 2 * count)))
    };
    of_pairs(CONFIRMED_PAIRS_MAX).min(time_for_confirming(plan).max(of_pairs(1)))
}

/// Time until the guests of a point are ready, with the templates that they are cloned from.
pub fn time_to_ready(point: &Point) -> Duration {
    time_of_templates(std::slice::from_ref(point)) + time_of_starts(point, point.guests.len() as f64)
}

fn time_of_starts(point: &Point, guests: f64) -> Duration {
    let start = point.backend.costs().start(point.measure.start);
    let own_disks = point.backend.costs().own_disk * share(point, |guest| guest.from.is_some());
    let each = start.each + database_start(point) + third_party_broker_start(point) + own_disks;
    Duration::from_secs_f64(start.once + each * guests)
}

/// Whether guests continue a template, where they are no databases.
fn is_cloned(point: &Point) -> bool {
    point.backend.costs().template.is_some() && point.measure.start == Start::Clone
}

/// The brokers' part of the start of each guest. Nothing for a clone: its broker runs already.
fn third_party_broker_start(point: &Point) -> f64 {
    let started = if is_cloned(point) { 0.0 } else { share(point, GuestPlan::has_third_party_broker) };
    point.backend.costs().third_party_broker * started
}

/// The databases' part of the start of each guest.
fn database_start(point: &Point) -> f64 {
    point.backend.costs().database * share(point, |guest| guest.serves(Role::Database))
}

/// Which part of a point's guests is of a kind.
fn share(point: &Point, is_of_it: impl Fn(&GuestPlan) -> bool) -> f64 {
    let of_it = point.guests.iter().filter(|guest| is_of_it(guest)).count();
    of_it as f64 / point.guests.len().max(1) as f64
}

/// Time of one repeat with so many tiles of a point.
pub fn time_with_tiles(point: &Point, tiles: u32) -> Duration {
    time_with(point, guests_per_tile(point) * f64::from(tiles))
}

/// One template for each role and for each third-party broker, booted and warmed once in a run.
pub fn time_of_templates(points: &[Point]) -> Duration {
    let templates: BTreeSet<(Backend, Role, Option<&str>)> = points
        .iter()
        .filter(|point| is_cloned(point))
        .flat_map(|point| point.guests.iter().map(|guest| (point.backend, guest)))
        .filter(|(_, guest)| !guest.keeps_data())
        .map(|(backend, guest)| {
            (backend, guest.role, guest.has_third_party_broker().then_some(guest.broker.name()))
        })
        .collect();
    let seconds = |(backend, _, third_party): &(Backend, Role, Option<&str>)| {
        let costs = backend.costs();
        costs.template.unwrap_or_default() + third_party.map_or(0.0, |_| costs.third_party_broker)
    };
    Duration::from_secs_f64(templates.iter().map(seconds).sum())
}

/// A fresh database server of either kind is ready after this time.
const DATABASE_READY: Duration = Duration::from_secs(10);
/// Bytes per second of a store's data that a native twin loads into it, on two processors and a common disk.
const DATABASE_LOADS: f64 = 30e6;

/// Time to make the templates of all databases, once: they stay in the cache, so most runs find them made. Whether this
/// one does is not known before its disk store is mounted, so [`of`] leaves it out.
pub fn time_of_database_templates(points: &[Point]) -> Duration {
    let of_point = |point: &Point| -> Vec<_> {
        point.guests.iter().filter_map(|guest| database_template(point, guest)).collect()
    };
    let kinds: BTreeMap<DatabaseTemplate, Bytes> = points.iter().flat_map(of_point).collect();
    let time = |data: Bytes| DATABASE_READY + Duration::from_secs_f64(data.get() as f64 / DATABASE_LOADS);
    kinds.into_values().map(time).sum()
}

/// What distinguishes the template of a database: its workload, the server and what its commits promise where it is a store, how
/// much is loaded, the memory of its guest, and the sizes of its disks.
type DatabaseTemplate = (Option<&'static str>, Option<[&'static str; 2]>, Bytes, Bytes, Vec<Bytes>);

/// The template of a database, and how much is loaded into it; `None` where the guest's disks begin empty.
fn database_template(point: &Point, guest: &GuestPlan) -> Option<(DatabaseTemplate, Bytes)> {
    let is_cloned = guest.serves(Role::Database)
        && !guest.disks.is_empty()
        && guest.disks.iter().all(|disk| disk.on == DiskMedium::Store);
    let mut loads = point.loads.iter().filter(|load| load.guest == guest.index);
    let held = loads.find(|load| load.work.facts().data().is_some()).map(|load| &load.work);
    let store = held.and_then(|work| work.store());
    let data = held.and_then(|work| work.facts().data()).unwrap_or_default();
    let loaded = store.map(|store| [store.database.name(), store.durability.name()]);
    let sizes: Vec<Bytes> = guest.disks.iter().map(|disk| disk.size).collect();
    is_cloned.then_some(((held.map(Work::name), loaded, data, guest.memory, sizes), data))
}

/// The host is left to itself for so long before the first guest, to know what it takes idle.
const IDLE_POWER: Duration = Duration::from_secs(5);

/// Time in which a host's idle power is measured; none where it counts no energy.
pub fn time_of_idle_power(host: &HostSummary) -> Duration {
    if host.counts_energy { IDLE_POWER } else { Duration::ZERO }
}

/// What the passes over the points will need on this host.
pub fn of(host: &HostSummary, points: &[Point], passes: &[Pass], search: Option<&Search>) -> Expected {
    let time_of_pass = |pass: &Pass| time_of(&points[pass.point]);
    let time: Duration = match (search, points.first()) {
        (Some(search), Some(first)) => {
            let others = passes.iter().filter(|pass| points[pass.point].backend != first.backend);
            time_of_search(first, search)
                + time_beside_twin(first, search)
                + others.map(time_of_pass).sum::<Duration>()
        }
        _ => passes.iter().map(time_of_pass).sum(),
    };
    let time = time + time_of_templates(points) + time_of_idle_power(host);
    Expected {
        time: Span::from_milliseconds(time.as_millis() as u64),
        memory: points.iter().map(memory_of).max().unwrap_or_default(),
        disk: points.iter().map(disk_of).max().unwrap_or_default(),
        guests: points.iter().map(|point| point.guests.len() as u32).max().unwrap_or(0),
    }
}

/// Whole blocks of repeats that end within a time, if all takes as long as is expected.
pub fn blocks_within(plan: &Plan, within: Span) -> usize {
    ends_of_blocks(plan).take_while(|end| *end <= within).count()
}

/// When each whole block of repeats ends, if all takes as long as is expected.
pub fn ends_of_blocks(plan: &Plan) -> impl Iterator<Item = Span> {
    let before = time_of_idle_power(&plan.host) + time_of_templates(&plan.points);
    let blocks = plan.passes.chunk_by(|one, next| one.block == next.block);
    blocks.scan(before, |end, block| {
        *end += block.iter().map(|pass| time_of(&plan.points[pass.point])).sum::<Duration>();
        Some(Span::new(*end))
    })
}

/// What is left of a search's time when points on other backends have had theirs, and the twin at most a quarter.
pub fn less_other_points(within: Span, host: &HostSummary, points: &[Point], search: &Search) -> Span {
    let Some(first) = points.first() else { return within };
    let others = points.iter().filter(|point| point.backend != first.backend);
    let taken: Duration = others.map(|point| time_of(point) * point.measure.repeats).sum();
    let taken = taken + time_of_templates(points) + time_of_idle_power(host);
    let left = within.get().saturating_sub(taken);
    // The answer comes first: a twin for which this is too little has fewer repeats, or none.
    Span::new(left - time_beside_twin(first, search).min(left / 4))
}

/// All that a search measures if the boundary lies where it is guessed, and if one count next to it turns when it is
/// confirmed, as real boundaries do. `within` caps it.
fn time_of_search(first: &Point, search: &Search) -> Duration {
    let (per_tile, guess) = (guests_per_tile(first), guess_of(search));
    let counts = expected_counts(search.from, search.limit, guess, first.measure.repeats);
    let time = |tiles: u32| time_with(first, per_tile * f64::from(tiles));
    let time = counts.into_iter().map(time).sum::<Duration>() + time(guess) * first.measure.repeats;
    search.within.map_or(time, |within| time.min(within.get()))
}

/// The tiles that a search is taken to end near, and the most time that it takes where it does: with every repeat that it may measure
/// and, where a twin was asked for, every pair. Nothing for a search that has a time to end within.
pub fn most_of_search(plan: &Plan) -> Option<(u32, Span)> {
    let (search, first) = (plan.search.as_ref()?, plan.points.first()?);
    if search.within.is_some() || plan.within.is_some() {
        return None;
    }
    let guess = guess_of(search);
    let further = time_with_tiles(first, guess + 1) * (FURTHER_MAX * first.measure.repeats);
    Some((guess, Span::new(plan.expected.time.get() + further + time_beside_twin(first, search))))
}

/// Every repeat of the count that holds once more and one of its native twin, if the boundary lies where it is guessed.
fn time_beside_twin(first: &Point, search: &Search) -> Duration {
    if !search.twin {
        return Duration::ZERO;
    }
    let twin = Point { backend: Backend::Native, ..first.clone() };
    let guests = guests_per_tile(first) * f64::from(guess_of(search));
    (time_with(first, guests) + time_with(&twin, guests)) * first.measure.repeats
}

fn guests_per_tile(point: &Point) -> f64 {
    point.guests.len() as f64 / f64::from(point.tiles.max(1))
}

fn guess_of(search: &Search) -> u32 {
    search.guess.clamp(1, search.limit.max(1))
}
