//! From a scenario, what was asked for and what the host is, to a [`Plan`]. A pure function: the same
//! inputs give the same plan.

use crate::{
    emulated, expect,
    host_settings::HostSettings,
    interference::{self, Together},
    own_bridge::OwnBridge,
    own_disk,
    parse::Draft,
    place::{self, Made},
    plan::{
        Backend, Demand, DiskPlan, GuestPlan, HostSummary, LoadPlan, PLAN_SCHEMA, Plan, Point, Processors,
        Search, SideName, Swell,
    },
    problem::{Problem, Problems},
    qemu_keys,
    scenario::{BrokerService, Guest, ImageWish, Load, LoadProcessors, LoopKind, Role, Scenario, Start},
    screening::{self, SETTINGS_MAX, Screened, Screening},
    seed::mixed,
    vary,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tilemark_units::{Bytes, Span, counted};

pub use crate::{
    order::passes,
    request::{HOST_PRESET, Request, Sides},
};

/// The image of guests whose broker is not our own, which is in the agent.
const BROKERS_IMAGE: &str = "brokers";

/// The scenario with preset, settings and tiles in their places: all that needs no host.
pub fn as_asked(
    draft: &Draft,
    preset: Option<&str>,
    settings: &BTreeMap<String, String>,
    tiles: Option<&[u32]>,
) -> Result<Draft, Problems> {
    let mut asked = draft.clone();
    if let Some(preset) = preset.filter(|preset| !fits_host(draft, preset)) {
        asked.apply_preset(preset)?;
    }
    asked.apply_settings(settings)?;
    if let Some(tiles) = tiles {
        asked.set("ladder.tiles", serde_json::json!(tiles))?;
    }
    Ok(asked)
}

/// Whether a preset is the one that every scenario has, and not one of its own.
fn fits_host(draft: &Draft, preset: &str) -> bool {
    preset == HOST_PRESET && !draft.has_preset(HOST_PRESET)
}

/// Resolves everything; tells all problems at once.
pub fn resolve(draft: &Draft, request: &Request, host: &HostSummary) -> Result<Plan, Problems> {
    let preset = request.preset.as_deref();
    let mut draft = as_asked(draft, preset, &request.settings, request.tiles.as_deref())?;
    let mut scenario = draft.finish()?;
    let processors = split_processors(host, scenario.host.load_processors);
    if preset.is_some_and(|preset| fits_host(&draft, preset)) && request.tiles.is_none() {
        let tiles = ladder_of_host(&scenario, request, host, &processors);
        draft.set("ladder.tiles", serde_json::json!(tiles))?;
        scenario = draft.finish()?;
    }
    let variants = match &request.screening {
        Some(screening) => screened(&scenario, screening, request)?,
        None if request.interference => roles_together(&scenario, request)?,
        None => variants(&draft, &scenario, request)?,
    };

    // Sides are compared at one step unless more are asked for: each repeat of each costs as much as a step.
    let is_one_step =
        request.search || request.screening.is_some() || (request.sides.is_some() && request.tiles.is_none());
    let tiles = if is_one_step { &scenario.ladder.tiles[..1] } else { &scenario.ladder.tiles[..] };
    // What varies may name brokers that the scenario itself does not.
    let foreign = |guest: &Guest| guest.serves(Role::Broker) && guest.broker != BrokerService::Reference;
    if scenario.image == crate::scenario::default_image()
        && variants.iter().any(|variant| variant.scenario.guest.iter().any(foreign))
    {
        scenario.image = ImageWish::Named(BROKERS_IMAGE.to_owned());
    }
    let mut points = Vec::new();
    // Which points are of which variant.
    let mut ranges = Vec::new();
    // Where the twin of a search is measured is known when the search has its answer.
    let backends =
        if request.search { request.backends.get(..1).unwrap_or_default() } else { &request.backends[..] };
    for variant in &variants {
        let first = points.len();
        for &backend in backends {
            let of_roles = variant.together.as_ref().map(|together| [together.tiles()]);
            for &tiles in of_roles.as_ref().map_or(tiles, |tiles| &tiles[..]) {
                points.push(variant.point(
                    points.len(),
                    tiles,
                    backend,
                    On { host, processors: &processors },
                    request.seed,
                ));
            }
        }
        ranges.push(first..points.len());
    }
    if let (Some(backend), [variant, ..]) = (request.demonstrate, variants.as_slice()) {
        let mut point =
            variant.point(points.len(), 1, backend, On { host, processors: &processors }, request.seed);
        point.measure.repeats = 1;
        points.push(point);
    }
    let mut problems = qemu_keys::ignored(request, &scenario);
    problems.extend(own_disk::twins(request, variants.iter().map(|variant| &variant.scenario)));
    for (variant, range) in variants.iter().zip(&ranges) {
        problems.extend(swells_nothing(&variant.scenario, &points[range.clone()], request, host));
    }
    problems.dedup();
    problems.extend(unfit(&points, host, request));
    problems.extend(emulated::problems(&points, processors.guests.len()));
    if problems.is_empty() {
        let made = variants.iter().zip(ranges).map(|(variant, range)| Made {
            scenario: &variant.scenario,
            points: points[range].iter().collect(),
        });
        let on = On { host, processors: &processors };
        let whole = request.interference.then_some(&scenario);
        problems.extend(unplaced(&made.collect::<Vec<_>>(), whole, request, on));
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let passes = passes(&points, request.seed);
    let search = request.search.then(|| {
        let search = Search {
            from: scenario.ladder.tiles[0],
            limit: search_limit(&scenario, host),
            guess: scenario.ladder.tiles.iter().max().map_or(1, |tiles| tiles.div_ceil(2)),
            within: None,
            twin: request.backends.len() > 1,
            memory_end: None,
        };
        // What is shown besides must end within the same time, and the twin too.
        let left = |within| expect::less_what_is_besides(within, host, &points, &search);
        Search { within: request.within.map(left), ..search }
    });
    let expected = expect::of(host, &points, &passes, search.as_ref());
    Ok(Plan {
        schema: PLAN_SCHEMA,
        scenario,
        origin: draft.origin().to_owned(),
        preset: request.preset.clone(),
        settings: request.settings.clone(),
        seed: request.seed,
        host: host.clone(),
        processors,
        points,
        passes,
        search,
        screening: request.screening.clone(),
        within: request.within,
        expected,
    })
}

impl Plan {
    /// A point at another tile count than those that were planned, for a search.
    pub fn point_at(&self, like: &Point, index: usize, tiles: u32) -> Point {
        let variant = Variant {
            scenario: self.scenario.clone(),
            side: like.side,
            vary: like.vary.clone(),
            together: None,
            screened: like.screened.clone(),
            host: like.host.clone(),
            chosen: self.settings.keys().cloned().collect(),
        };
        let on = On { host: &self.host, processors: &self.processors };
        variant.point(index, tiles, like.backend, on, self.seed)
    }

    /// A point that confirms what a screening found, beside those that were planned.
    pub fn point_to_confirm(
        &self,
        index: usize,
        screened: Screened,
        host: HostSettings,
        pairs: u32,
    ) -> Point {
        let like = Point { screened: Some(screened.clone()), host, ..self.points[0].clone() };
        let mut point = self.point_at(&like, index, like.tiles);
        point.vary = [(screening::SETTINGS.to_owned(), screened.to_string())].into();
        point.measure.repeats = pairs;
        point
    }
}

/// Where points are to be measured.
#[derive(Clone, Copy)]
struct On<'a> {
    host: &'a HostSummary,
    processors: &'a Processors,
}

/// The scenario at one value of everything that varies, on one side.
struct Variant {
    scenario: Scenario,
    side: Option<SideName>,
    vary: BTreeMap<String, String>,
    /// The roles that it is a part of the scenario for.
    together: Option<Together>,
    /// What it is in a screening.
    screened: Option<Screened>,
    /// What is set on the host.
    host: HostSettings,
    /// Dotted keys that the user set, or that vary.
    chosen: BTreeSet<String>,
}

fn variants(draft: &Draft, scenario: &Scenario, request: &Request) -> Result<Vec<Variant>, Problems> {
    let problems = request.sides.as_ref().map(|sides| vary::check_sides(scenario, sides)).unwrap_or_default();
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let none = BTreeMap::new();
    let sides: Vec<(Option<SideName>, &BTreeMap<String, String>)> = match &request.sides {
        None => vec![(None, &none)],
        Some(sides) => vec![(Some(SideName::A), &sides.a), (Some(SideName::B), &sides.b)],
    };
    // What the user chose for one side is as deliberate on the other.
    let of_sides = sides.iter().flat_map(|(_, settings)| settings.keys());
    let chosen: BTreeSet<String> = request.settings.keys().chain(of_sides).cloned().collect();
    let mut variants = Vec::new();
    for combination in combinations(scenario) {
        for (side, settings) in &sides {
            let mut draft = draft.clone();
            let mut vary = BTreeMap::new();
            let mut chosen = chosen.clone();
            for (name, key, value) in &combination {
                draft.set(key, value.clone())?;
                chosen.insert(key.clone());
                vary.insert(name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            }
            draft.apply_typed(if *side == Some(SideName::B) { "--b" } else { "--a" }, settings)?;
            // There may be a thousand: what no point needs is left out.
            let scenario = Scenario { preset: BTreeMap::new(), vary: BTreeMap::new(), ..draft.finish()? };
            let host = host_settings(&scenario);
            variants.push(Variant {
                scenario,
                side: *side,
                vary,
                together: None,
                screened: None,
                host,
                chosen,
            });
        }
    }
    let of_first_side = variants.iter().filter(|variant| variant.side == variants[0].side);
    match vary::same(of_first_side.map(|variant| (&variant.vary, &variant.scenario))) {
        Some(problem) => Err(problem.into()),
        None => Ok(variants),
    }
}

/// The parts of the scenario whose roles are measured alone and together.
fn roles_together(scenario: &Scenario, request: &Request) -> Result<Vec<Variant>, Problems> {
    let roles = interference::roles(scenario);
    if roles.len() < 2 || scenario.load.is_empty() {
        let message =
            format!("scenario `{}` has no two roles that could slow each other down", scenario.name);
        return Err(Problem::new(message, "use a scenario with a load and two guests or more").into());
    }
    if !scenario.vary.is_empty() {
        let remedy = "leave out `vary` in a copy of the scenario";
        return Err(
            Problem::new("roles are measured in pairs, and this scenario varies something", remedy).into()
        );
    }
    if request.backends.contains(&Backend::Emulated) {
        let message = "times of emulated guests mean nothing, and a slowdown is a ratio of times";
        return Err(Problem::new(message, "measure with `--on native` or `--on kvm`").into());
    }
    let variant = |together: Together| Variant {
        scenario: interference::part(scenario, &together),
        side: None,
        vary: [(interference::ROLES.to_owned(), together.to_string())].into(),
        together: Some(together),
        screened: None,
        host: host_settings(scenario),
        chosen: request.settings.keys().cloned().collect(),
    };
    Ok(interference::all(scenario).into_iter().map(variant).collect())
}

fn host_settings(scenario: &Scenario) -> HostSettings {
    HostSettings::asked(scenario.host.profile.as_ref(), &scenario.host.setting)
}

/// The scenario once for each row of a screening's design and its mirror image.
fn screened(scenario: &Scenario, screening: &Screening, request: &Request) -> Result<Vec<Variant>, Problems> {
    let mut problems = Vec::new();
    let settings = screening.settings.len();
    if settings == 0 {
        let message =
            format!("no setting of the profile `{}` can be screened on this host", screening.profile);
        problems.push(Problem::new(message, "see why with `tilemark host plan`, or give another profile"));
    }
    if settings > SETTINGS_MAX {
        let message =
            format!("{settings} settings are more than the {SETTINGS_MAX} that one screening has room for");
        problems.push(Problem::new(message, "make a profile of the settings that matter most"));
    }
    if !scenario.vary.is_empty() || !scenario.host.setting.is_empty() || scenario.host.profile.is_some() {
        let message = "a screening sets the host itself, and this scenario varies something or sets the host";
        problems.push(Problem::new(
            message,
            "leave out `vary`, `host.profile` and `host.setting` in a copy of the scenario",
        ));
    }
    if scenario.load.is_empty() {
        let message = format!("scenario `{}` has no load that a setting could speed up", scenario.name);
        problems.push(Problem::new(message, "use a scenario with a load"));
    }
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let variant = |(screened, host): (Screened, HostSettings)| Variant {
        scenario: Scenario { preset: BTreeMap::new(), ..scenario.clone() },
        side: None,
        vary: [(screening::SETTINGS.to_owned(), screened.to_string())].into(),
        together: None,
        screened: Some(screened),
        host,
        chosen: request.settings.keys().cloned().collect(),
    };
    Ok(screening.of_design().into_iter().map(variant).collect())
}

type Setting = (String, String, serde_json::Value);

fn combinations(scenario: &Scenario) -> Vec<Vec<Setting>> {
    scenario.vary.iter().fold(vec![Vec::new()], |combinations, (name, vary)| {
        let with = |value: &serde_json::Value, mut so_far: Vec<Setting>| {
            so_far.push((name.clone(), vary.key.clone(), value.clone()));
            so_far
        };
        let of =
            |so_far: Vec<Setting>| vary.values.iter().map(move |value| with(value, so_far.clone())).collect();
        combinations.into_iter().flat_map(|so_far| -> Vec<Vec<Setting>> { of(so_far) }).collect()
    })
}

impl Variant {
    fn point(&self, index: usize, tiles: u32, backend: Backend, on: On<'_>, seed: u64) -> Point {
        let (scenario, processors) = (&self.scenario, on.processors);
        let mut guests = Vec::new();
        let mut loads = Vec::new();
        let mut vcpus = 0_u32;
        for tile in 1..=tiles {
            let first = guests.len() as u32;
            for guest in &scenario.guest {
                let may_use = processors.of_guest(vcpus, guest.vcpus, backend);
                let plan = guest_plan(guest, guests.len() as u32, tile, may_use, on.host);
                guests.push(GuestPlan { working_set: self.working_set(guest, &plan, backend), ..plan });
                // Too many are refused later, with their guest's name.
                vcpus = guest.vcpus.saturating_add(vcpus);
            }
            let place_of = |name: &str| {
                let place = scenario.guest.iter().position(|guest| guest.name == name);
                first + place.expect("checked when the scenario was read") as u32
            };
            for guest in &scenario.guest {
                if let Some(asked) = guest.asks.as_deref().map(place_of) {
                    let place = place_of(&guest.name);
                    guests[place as usize].asks = Some(on.host.guest_address(asked));
                    join(&mut guests, place, asked);
                }
            }
            for load in &scenario.load {
                let plan = load_plan(load, tile, place_of(&load.guest), seed);
                loads.push(LoadPlan { from: load.sender().map(place_of), ..plan });
            }
        }
        if self.together.is_none() {
            swell(&mut loads, scenario, tiles);
        }
        connect(&mut guests, &loads);
        place::place(&mut guests, &scenario.place, backend, on.host, processors);
        if backend == Backend::Emulated {
            let is_chosen = |load: &LoadPlan| {
                ["rate", "loop"].iter().any(|key| self.chosen.contains(&format!("load.{}.{key}", load.name)))
            };
            emulated::lower(&mut loads, processors.guests.len(), scenario.measure.length, is_chosen);
        }
        Point {
            index,
            tiles,
            backend,
            side: self.side,
            vary: self.vary.clone(),
            together: self.together.clone(),
            screened: self.screened.clone(),
            host: self.host.clone(),
            qemu: scenario.qemu.clone(),
            gate: scenario.gate.clone(),
            measure: scenario.measure.clone(),
            guests,
            loads,
        }
    }
}

/// What an emulated guest of 256 MiB has written when it has booted and a clone of it has not, with its service and without: 99 to
/// 102 MiB of each role were measured. A smaller guest has written nearly all of its memory by then, which a clone cannot do without
/// taking what its service needs.
const WRITTEN_BY_A_BOOT: Bytes = Bytes::from_mib(100);

impl Variant {
    /// What a guest writes before the warm-up: clones do. A native twin shares no memory with anybody and has no kernel whose
    /// memory it could want.
    fn working_set(&self, guest: &Guest, planned: &GuestPlan, backend: Backend) -> Bytes {
        let is_cloned =
            backend != Backend::Native && expect::start_of(planned, &self.scenario.measure) == Start::Clone;
        if !is_cloned {
            return Bytes::default();
        }
        let usual = || WRITTEN_BY_A_BOOT.min(Bytes::new(guest.memory.get() / 5 * 2));
        let is_loaded = !self.scenario.load.is_empty();
        guest.working_set.unwrap_or_else(|| if is_loaded { usual() } else { Bytes::default() })
    }
}

impl Processors {
    /// Threads of a guest with so many processors, where the guests before it have so many together. A native twin
    /// may run on as many threads as its guest has processors, the next ones in turn; a guest's own processors
    /// are threads of the host, which the scheduler may place on any of the guests' threads.
    fn of_guest(&self, before: u32, vcpus: u32, backend: Backend) -> Vec<u32> {
        let threads = &self.guests;
        match backend {
            Backend::Native => {
                let count = (vcpus as usize).min(threads.len());
                threads.iter().cycle().skip(before as usize % threads.len()).take(count).copied().collect()
            }
            Backend::Kvm | Backend::Emulated => threads.clone(),
        }
    }
}

/// Lets guests that send a load and those that they load reach each other.
fn connect(guests: &mut [GuestPlan], loads: &[LoadPlan]) {
    for (from, to) in loads.iter().filter_map(|load| Some((load.from?, load.guest))) {
        join(guests, from, to);
    }
}

/// Lets two guests reach each other.
fn join(guests: &mut [GuestPlan], one: u32, other: u32) {
    for (one, other) in [(one, other), (other, one)] {
        let reaches = &mut guests[one as usize].reaches;
        if !reaches.contains(&other) {
            reaches.push(other);
        }
    }
}

fn guest_plan(guest: &Guest, index: u32, tile: u32, processors: Vec<u32>, host: &HostSummary) -> GuestPlan {
    GuestPlan {
        name: format!("tile-{tile:03}-{}", guest.name),
        index,
        tile,
        role: guest.roles().first().copied().unwrap_or(Role::Idle),
        services: guest.service_plans(),
        broker: guest.broker,
        vcpus: guest.vcpus,
        memory: guest.memory,
        working_set: Bytes::default(),
        disks: guest.disk.iter().map(DiskPlan::from).collect(),
        net: guest.net,
        mac: host.guest_mac(index),
        address: host.guest_address(index),
        network: host.own_bridge.as_ref().map(OwnBridge::guest_network),
        processors,
        reaches: Vec::new(),
        asks: None,
        place: None,
        hugepages: guest.hugepages,
        from: guest.own_disk(),
    }
}

/// The headline load of one tile is more for a while, where other tiles are there to feel it.
fn swell(loads: &mut [LoadPlan], scenario: &Scenario, tiles: u32) {
    let measure = &scenario.measure;
    let Some(surge) = measure.surge.filter(|surge| surge.least_tiles() <= tiles) else { return };
    let seconds = measure.surge_seconds();
    let own = loads
        .iter_mut()
        .filter(|load| load.tile == surge.tile && Some(&load.name) == scenario.headline.as_ref());
    for load in own {
        if let Demand::Open { surge: swell, .. } = &mut load.demand {
            *swell = Some(Swell {
                from: Span::new(measure.warmup.get() + Duration::from_secs(seconds.start.into())),
                length: Span::from_seconds(seconds.len() as u64),
                factor: surge.factor,
            });
        }
    }
}

/// A surge that none of a variant's points has.
fn swells_nothing(
    scenario: &Scenario,
    points: &[Point],
    request: &Request,
    host: &HostSummary,
) -> Option<Problem> {
    let surge = scenario.measure.surge?;
    let (tile, least) = (surge.tile, surge.least_tiles());
    let leave_out = "leave out `measure.surge`";
    if request.interference {
        let message = "roles are measured in pairs, without a surge, and this scenario has one";
        return Some(Problem::new(message, format!("{leave_out} in a copy of the scenario")));
    }
    if request.search {
        let limit = search_limit(scenario, host);
        let message = format!(
            "the surge of tile {tile} is in none of the counts: the search ends at {}",
            counted(limit, "tile")
        );
        let remedy = format!("raise `ladder.search_limit` to {least} or more, or {leave_out}");
        return (limit < least).then(|| Problem::new(message, remedy));
    }
    if points.is_empty() || points.iter().any(Point::has_surge) {
        return None;
    }
    let counts: BTreeSet<u32> = points.iter().map(|point| point.tiles).collect();
    let most = counts.last().copied().unwrap_or(0);
    let message =
        format!("the surge of tile {tile} is in none of the points: they have {}", counted(most, "tile"));
    Some(Problem::new(message, format!("give `--tiles {least}`, or more of them, or {leave_out}")))
}

/// The count at which a search stops.
fn search_limit(scenario: &Scenario, host: &HostSummary) -> u32 {
    scenario.ladder.search_limit.min(host.guests_max() / scenario.guest.len() as u32)
}

fn load_plan(load: &Load, tile: u32, guest: u32, seed: u64) -> LoadPlan {
    let demand = match (load.loop_kind, load.rate) {
        _ if load.work.facts().is_flat_out() => Demand::Closed,
        (LoopKind::Open, Some(rate)) => Demand::Open {
            rate,
            arrival: load.arrival,
            burst_every: load.burst_every,
            burst_length: load.burst_length,
            surge: None,
        },
        (LoopKind::Open, None) | (LoopKind::Closed, _) => Demand::Closed,
    };
    let work = load.work.clone();
    let seed = mixed(seed, &[load.name.as_str(), &tile.to_string()]);
    LoadPlan {
        name: load.name.clone(),
        tile,
        guest,
        from: None,
        from_clients: load.is_from_clients(),
        demand,
        lowered_from: None,
        paced: false,
        connections: load.connections,
        work,
        seed,
    }
}

/// More processors of guests than this for each thread are no sizing any more. A host that holds them is
/// asked by a search.
const VCPUS_PER_THREAD_MAX: usize = 64;

/// From the scenario's smallest step in doublings for as long as the host has memory and threads for it.
fn ladder_of_host(
    scenario: &Scenario,
    request: &Request,
    host: &HostSummary,
    processors: &Processors,
) -> Vec<u32> {
    let variant = Variant {
        scenario: scenario.clone(),
        side: None,
        vary: BTreeMap::new(),
        together: None,
        screened: None,
        host: HostSettings::default(),
        chosen: BTreeSet::new(),
    };
    let free = host.memory_available.saturating_sub(expect::memory_reserve(host.memory_total));
    let guests_max = processors.guests.len() * VCPUS_PER_THREAD_MAX;
    let fits = |tiles: u32| {
        request.backends.iter().all(|&backend| {
            let point = variant.point(0, tiles, backend, On { host, processors }, request.seed);
            let vcpus: usize = point.guests.iter().map(|guest| guest.vcpus as usize).sum();
            expect::memory_of(&point) <= free && vcpus <= guests_max
        })
    };
    let most = host.guests_max() / scenario.guest.len() as u32;
    let first = scenario.ladder.tiles[0];
    let doublings = std::iter::successors(Some(first), |tiles| Some(tiles.saturating_mul(2)));
    // One that does not fit is refused later, with its figures.
    doublings.take_while(|&tiles| tiles == first || (tiles <= most && fits(tiles))).collect()
}

/// A quarter of the threads for the load, at least one; all for both where there is only one, or where
/// the scenario says that they share. Where cores have several threads, a quarter of the cores: a guest beside the load on one core
/// would slow both.
fn split_processors(host: &HostSummary, wish: LoadProcessors) -> Processors {
    let threads = &host.threads;
    let cores = &host.topology.cores;
    match wish {
        LoadProcessors::Own if cores.len() > 1 && cores.iter().any(|core| core.len() > 1) => {
            let load: BTreeSet<u32> = cores[..(cores.len() / 4).max(1)].iter().flatten().copied().collect();
            let (load, guests) = threads.iter().copied().partition(|id| load.contains(id));
            Processors { load, guests }
        }
        LoadProcessors::Own if threads.len() > 1 => {
            let (load, guests) = threads.split_at((threads.len() / 4).max(1));
            Processors { load: load.to_vec(), guests: guests.to_vec() }
        }
        LoadProcessors::Own | LoadProcessors::Shared => {
            Processors { load: threads.clone(), guests: threads.clone() }
        }
    }
}

/// Names the steps whose points all fit, where there are some.
fn memory_remedy(points: &[Point], free: Bytes) -> String {
    let fits = |tiles: u32| {
        points.iter().filter(|point| point.tiles == tiles).all(|point| expect::memory_of(point) <= free)
    };
    let fitting: BTreeSet<u32> =
        points.iter().map(|point| point.tiles).filter(|tiles| fits(*tiles)).collect();
    let steps: Vec<String> = fitting.iter().map(u32::to_string).collect();
    // Tiles are alike.
    let most = points
        .iter()
        .map(|point| free.get().saturating_mul(point.tiles.into()) / expect::memory_of(point).get().max(1))
        .min();
    match steps.as_slice() {
        [] => match most.unwrap_or(0) {
            0 => "lower the guests' `memory`".to_owned(),
            most => format!("give `--tiles {most}`, or lower the guests' `memory`"),
        },
        steps => {
            format!("give `--tiles {}`: these steps fit; or lower the guests' `memory`", steps.join(","))
        }
    }
}

/// What of the wanted placement this host cannot do, and sides that would be placed alike. `whole` is the scenario that parts were made
/// of: an entry of the map may be for a guest that a part does not have.
fn unplaced(made: &[Made<'_>], whole: Option<&Scenario>, request: &Request, on: On<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let most_tiles = |made: &[Made<'_>]| {
        made.iter().flat_map(|made| &made.points).map(|point| point.tiles).max().unwrap_or(0)
    };
    for one in made {
        let scenario = whole.unwrap_or(one.scenario);
        let planned = most_tiles(if whole.is_some() { made } else { std::slice::from_ref(one) });
        let largest = if request.search { scenario.ladder.search_limit } else { planned };
        let largest = largest.min(on.host.guests_max() / scenario.guest.len().max(1) as u32);
        problems.extend(place::check_host(scenario, &one.points, largest, on.host, on.processors));
    }
    if problems.is_empty() {
        problems.extend(place::alike(made, on.host));
    }
    problems.dedup();
    problems
}

/// A range of the user's own bridge that is too small for the largest step.
fn too_few_addresses(points: &[Point], host: &HostSummary) -> Option<Problem> {
    let own = host.own_bridge.as_ref()?;
    let largest = points.iter().max_by_key(|point| point.guests.len())?;
    let (guests, addresses) = (largest.guests.len() as u64, u64::from(own.guests_max()) + 1);
    if guests < addresses {
        return None;
    }
    let message = format!(
        "{} need {} addresses, one for each guest and one for the run itself, and `network.addresses` has {addresses}: {}-{}",
        counted(largest.tiles, "tile"),
        guests + 1,
        own.first,
        own.last
    );
    let remedy = "give a longer range in the site file, or measure fewer tiles (`--tiles`)";
    Some(Problem::new(message, remedy))
}

fn unfit(points: &[Point], host: &HostSummary, request: &Request) -> Vec<Problem> {
    let mut problems = Vec::new();
    let reserve = expect::memory_reserve(host.memory_total);
    let free = host.memory_available.saturating_sub(reserve);
    for point in points {
        let needed = expect::memory_of(point);
        if needed > free {
            let message = format!(
                "{} on {} need {} of memory; this host has {} available, and {} of it must stay available",
                counted(point.tiles, "tile"),
                point.backend.name(),
                needed.rounded(),
                host.memory_available.rounded(),
                reserve.rounded(),
            );
            problems.push(Problem::new(message, memory_remedy(points, free)));
        }
        // A twin may use less than it is allowed; no host can keep a promise of more than it has.
        if let Some(guest) = point.guests.iter().find(|guest| guest.memory > host.memory_total) {
            let message = format!(
                "guest `{}` has {} of memory and this host has {}",
                guest.name,
                guest.memory.rounded(),
                host.memory_total.rounded()
            );
            let own = guest.name_in_tile();
            problems.push(Problem::new(
                message,
                format!("lower its `memory`, as with `--set guest.{own}.memory=1GiB`"),
            ));
        }
        let threads = host.threads.len();
        if let Some(guest) = point.guests.iter().find(|guest| guest.vcpus as usize > threads) {
            let GuestPlan { name, vcpus, .. } = guest;
            let message =
                format!("guest `{name}` has {vcpus} processors and this host has {threads} threads");
            let own = guest.name_in_tile();
            let remedy = format!("lower its `vcpus`, as with `--set guest.{own}.vcpus={threads}`");
            problems.push(Problem::new(message, remedy));
        }
    }
    problems.extend(too_few_addresses(points, host));
    problems.dedup();
    if request.search && points.iter().any(|point| !point.vary.is_empty()) {
        let remedy = "leave out `vary` in a copy of the scenario, or use `run`";
        problems.push(Problem::new("a search has one answer, and this scenario varies something", remedy));
    }
    if request.backends.is_empty() {
        problems
            .push(Problem::new("no backend was chosen", "say `--on native`, `--on emulated` or `--on kvm`"));
    }
    problems
}
