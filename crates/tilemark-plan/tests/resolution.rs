//! What resolution promises, on hosts and scenarios made for it.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as such")]

use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use tilemark_fixtures::{self as fixtures, TILE_WITH_CLIENT as FROM_A_GUEST, host, settings};
use tilemark_plan::plan::Swell;
use tilemark_plan::{
    builtin::builtin,
    expect,
    own_bridge::OwnBridge,
    parse::Draft,
    plan::{Backend, Demand, GuestPlan, HostSummary, LoadPlan, Plan, Point, SideName},
    problem::Problems,
    resolve::{Request, Sides, resolve},
    scenario::Load,
    workload::Work,
};
use tilemark_units::{Bytes, Rate};

const TILE: &str = r#"
schema = 1
name = "t"
about = "a test"
headline = "web"
[[guest]]
name = "web"
role = "web"
[[guest]]
name = "idle"
role = "idle"
[[load]]
name = "web"
guest = "web"
rate = "10/s"
[load.web]
[ladder]
tiles = [1, 2, 4]
[measure]
repeats = 3
[preset.long]
"measure.length" = "60s"
"#;

fn asked() -> Request {
    fixtures::request(&[Backend::Native])
}

fn plan(text: &str, request: &Request) -> Result<Plan, Problems> {
    resolve(&Draft::from_toml(text, "test").unwrap(), request, &host(4, Bytes::from_gib(64)))
}

fn problem(text: &str, request: &Request) -> String {
    match Draft::from_toml(text, "test") {
        Err(problems) => problems.to_string(),
        Ok(draft) => resolve(&draft, request, &host(4, Bytes::from_gib(64))).unwrap_err().to_string(),
    }
}

#[test]
fn the_same_inputs_give_the_same_plan() {
    assert_eq!(plan(TILE, &asked()), plan(TILE, &asked()));
}

#[test]
fn every_block_holds_every_point_once_and_blocks_differ_in_order() {
    let plan = plan(TILE, &asked()).unwrap();
    let orders: Vec<Vec<usize>> = (1..=3)
        .map(|block| plan.passes.iter().filter(|pass| pass.block == block).map(|pass| pass.point).collect())
        .collect();
    for order in &orders {
        assert_eq!(order.iter().collect::<BTreeSet<_>>().len(), 3);
    }
    assert!(orders.windows(2).any(|pair| pair[0] != pair[1]), "{orders:?}");
}

/// In how many blocks the first of two points comes before the second.
fn first_in(plan: &Plan, first: &Point, second: &Point) -> usize {
    let place = |block: u32, point: &Point| {
        plan.passes.iter().position(|pass| pass.block == block && pass.point == point.index)
    };
    (1..=first.measure.repeats).filter(|&block| place(block, first) < place(block, second)).count()
}

#[test]
fn of_two_sides_each_comes_first_in_half_of_the_blocks_for_every_seed() {
    let mut orders = BTreeSet::new();
    for seed in 0..200 {
        for (repeats, allowed) in [("12", 6..=6), ("9", 4..=5)] {
            let sides = Sides {
                a: settings(&[("guest.web.memory", "96MiB")]),
                b: settings(&[("guest.web.memory", "128MiB")]),
            };
            let settings = settings(&[("measure.repeats", repeats)]);
            let backends = vec![Backend::Kvm, Backend::Native];
            let asked =
                Request { sides: Some(sides), settings, backends, tiles: Some(vec![1, 2]), seed, ..asked() };
            let plan = plan(TILE, &asked).unwrap();
            for one in &plan.points {
                let others = plan.points.iter().filter(|other| {
                    other.tiles == one.tiles
                        && (other.backend == one.backend) != (other.side == one.side)
                        && other.index > one.index
                });
                for other in others {
                    let first = first_in(&plan, one, other);
                    assert!(allowed.contains(&first), "seed {seed}: {first} of {repeats} blocks");
                }
            }
            orders.insert(plan.passes.iter().map(|pass| pass.point).collect::<Vec<_>>());
        }
    }
    assert_eq!(orders.len(), 400, "the order itself is drawn");
}

#[test]
fn guests_have_names_addresses_and_macs_of_their_own() {
    let plan = plan(TILE, &Request { tiles: Some(vec![300]), ..asked() }).unwrap();
    let guests = &plan.points[0].guests;
    assert_eq!(guests.len(), 600);
    let names: BTreeSet<_> = guests.iter().map(|guest| &guest.name).collect();
    let addresses: BTreeSet<_> = guests.iter().map(|guest| guest.address).collect();
    let macs: BTreeSet<_> = guests.iter().map(|guest| guest.mac.to_string()).collect();
    assert_eq!((names.len(), addresses.len(), macs.len()), (600, 600, 600));
    assert_eq!(guests[300].address.to_string(), "10.77.2.44");
    assert_eq!(guests[300].mac.to_string(), "52:54:00:00:01:2c");
}

#[test]
fn the_load_has_a_quarter_of_the_threads_to_itself() {
    for (threads, of_load) in [(2, 1), (4, 1), (8, 2), (64, 16)] {
        let plan = fixtures::plan(TILE, &asked(), &host(threads, Bytes::from_gib(64)));
        assert_eq!(plan.processors.load.len(), of_load);
        assert_eq!(plan.processors.load.len() + plan.processors.guests.len(), threads as usize);
        assert!(
            plan.points[0].guests.iter().all(|guest| !guest.processors.contains(&plan.processors.load[0]))
        );
    }
}

#[test]
fn each_kind_of_database_is_expected_to_be_loaded_once() {
    let text = |data: &str, on: &str| {
        format!(
            r#"
schema = 1
name = "shop"
about = "a test"
image = "database"
guest = [{{ name = "db", role = "database", memory = "512MiB", disk = [{{ size = "2GiB", on = "{on}" }}] }}]
load = [{{ name = "orders", guest = "db", loop = "closed", store = {{ data = "{data}" }} }}]
ladder.tiles = [1, 2]
"#
        )
    };
    let time = |data, on| {
        expect::time_of_database_templates(&plan(&text(data, on), &asked()).unwrap().points).as_secs_f64()
    };
    assert_eq!(time("30MB", "store"), 11.0);
    assert_eq!(time("300MB", "store"), 20.0);
    assert_eq!(time("300MB", "memory"), 0.0, "it begins empty in each guest");
    assert!(expect::time_of_database_templates(&plan(TILE, &asked()).unwrap().points).is_zero());
}

#[test]
fn a_third_party_broker_is_planned_with_its_runtime() {
    let planned = |broker: &str, backend, start: &str| {
        let text = format!(
            r#"
schema = 1
name = "t"
about = "a test"
guest = [{{ name = "broker", role = "broker", broker = "{broker}", memory = "1GiB" }}]
ladder.tiles = [1, 2]
measure.start = "{start}"
"#
        );
        let plan = plan(&text, &Request { backends: vec![backend], ..asked() }).unwrap();
        (plan.expected.time.as_seconds(), expect::memory_of(&plan.points[0]).as_mib())
    };
    for backend in [Backend::Native, Backend::Emulated] {
        for start in ["boot", "clone"] {
            let ours = planned("reference", backend, start);
            for broker in ["rabbitmq", "qpid-broker-j"] {
                let theirs = planned(broker, backend, start);
                // Every broker's queues may fill its twin.
                let is_larger = theirs.1 > ours.1 || (backend == Backend::Native && theirs.1 == ours.1);
                assert!(theirs.0 > ours.0 && is_larger, "{broker}, {backend:?}, {start}");
            }
        }
    }
    // The guest's own, QEMU's, and its translator's buffer.
    assert_eq!(planned("rabbitmq", Backend::Emulated, "boot").1, 1024.0 + 32.0 + 128.0);
    assert_eq!(planned("rabbitmq", Backend::Native, "boot").1, 1024.0);
}

#[test]
fn a_twin_that_can_fill_its_guests_memory_is_counted_with_all_of_it() {
    let memory = |role: &str, more: &str| {
        let text = format!(
            "schema = 1\nname = \"t\"\nabout = \"t\"\n[[guest]]\nname = \"one\"\nrole = \"{role}\"\nmemory = \"1GiB\"\n{more}\n\
             [ladder]\ntiles = [1]\n"
        );
        expect::memory_of(&plan(&text, &asked()).unwrap().points[0]).as_mib()
    };
    assert_eq!(memory("broker", ""), 1024.0, "its queues are in memory");
    assert_eq!(memory("database", ""), 1024.0, "its files are in memory too");
    for small in ["web", "idle"] {
        assert_eq!(memory(small, ""), 48.0, "{small}");
    }
}

#[test]
fn a_guest_that_sends_a_load_is_counted_with_what_it_checks_answers_with() {
    let memory = |load: &str, from: &str| {
        let text = FROM_A_GUEST.replace("[load.web]\n[ladder]", &format!("[load.{load}]\n[ladder]"));
        let text = text.replace("from = \"client\"\n", from);
        expect::memory_of(&plan(&text, &asked()).unwrap().points[0]).get()
    };
    let (web, outside) = (memory("web", ""), memory("sessions", ""));
    let inside = memory("sessions", "from = \"client\"\n");
    assert!(outside > web, "the files of the site are in the guest's own files");
    assert_eq!(inside - outside, outside - web, "and in those of its sender");
}

#[test]
fn an_idle_guest_in_which_a_command_runs_is_not_counted_as_one_that_only_idles() {
    let guests = |from: &str, backend| {
        let text = format!(
            "schema = 1\nname = \"t\"\nabout = \"t\"\n[[guest]]\nname = \"other\"\nrole = \"idle\"\n[[guest]]\nname = \"one\"\n\
             role = \"idle\"\n[[load]]\nname = \"own\"\nguest = \"one\"\n[load.command]\nrun = [\"/bin/true\"]\n\
             from = \"{from}\"\nrate = '([0-9]+)'\n[ladder]\ntiles = [2]\n[measure]\nstart = \"clone\"\n"
        );
        let plan = plan(&text, &Request { backends: vec![backend], ..asked() }).unwrap();
        let point = &plan.points[0];
        (point.guests.iter().map(GuestPlan::only_idles).collect::<Vec<_>>(), expect::memory_of(point))
    };
    for backend in [Backend::Emulated, Backend::Kvm, Backend::Native] {
        let (inside, beside) = (guests("guest", backend), guests("host", backend));
        assert_eq!((&inside.0[..], &beside.0[..]), (&[true, false, true, false][..], &[true; 4][..]));
        assert!(inside.1 > beside.1, "{backend:?}: {inside:?} {beside:?}");
    }
}

#[test]
fn a_twin_with_a_database_is_counted_with_what_its_server_can_cache() {
    let memory = |data: &str, backend| {
        let text = tilemark_plan::builtin::builtin("oltp").unwrap().text;
        let settings = [("load.orders.store.data".to_owned(), data.to_owned())].into();
        let request = Request { backends: vec![backend], settings, ..asked() };
        let plan = plan(text, &request).unwrap();
        (expect::memory_of(&plan.points[0]).as_mib(), plan.points[0].guests[0].memory.as_mib())
    };
    let (small, of_guest) = memory("10MB", Backend::Native);
    assert!((156.0..157.0).contains(&small), "{small}");
    assert_eq!(memory("500MB", Backend::Native).0, of_guest, "more than all rows is not cached");
    assert_eq!(memory("10MB", Backend::Emulated).0, of_guest + 32.0 + 128.0, "a guest has its memory");
}

#[test]
fn only_guests_with_databases_are_expected_to_start_as_slowly_as_those() {
    let time = |web: u32| {
        let mut text = String::from("schema = 1\nname = \"t\"\nabout = \"t\"\n[ladder]\ntiles = [1]\n");
        text += "[[guest]]\nname = \"db\"\nrole = \"database\"\nmemory = \"512MiB\"\n[[guest.disk]]\nsize = \"1GiB\"\n";
        for number in 0..web {
            text += &format!("[[guest]]\nname = \"web{number}\"\nrole = \"web\"\nmemory = \"64MiB\"\n");
        }
        expect::time_to_ready(&plan(&text, &asked()).unwrap().points[0]).as_secs_f64()
    };
    assert!((time(0) - 2.6).abs() < 0.1 && (time(99) - time(0)) < 5.0, "{} {}", time(0), time(99));
}

#[test]
fn a_tile_of_eight_may_be_tried_32_times_as_twins_on_24_gib() {
    let text = tilemark_plan::builtin::builtin("consolidation").unwrap().text;
    let request = Request { tiles: Some(vec![32]), preset: Some("quick".to_owned()), ..asked() };
    let plan = fixtures::plan(text, &request, &host(2, Bytes::from_gib(24)));
    assert_eq!(plan.expected.guests, 256);
}

#[test]
fn a_first_look_may_try_64_tiles_of_twins_on_24_gib() {
    let text = tilemark_plan::builtin::builtin("first-look").unwrap().text;
    let request = Request { tiles: Some(vec![64]), ..asked() };
    let draft = Draft::from_toml(text, "first-look").unwrap();
    assert!(resolve(&draft, &request, &host(64, Bytes::from_gib(24))).is_ok());
}

/// A host with a bridge of the user's own and so many addresses on it.
fn with_addresses(count: u8) -> HostSummary {
    let own = OwnBridge {
        bridge: "br0".to_owned(),
        first: [192, 0, 2, 64].into(),
        last: [192, 0, 2, 63 + count].into(),
        prefix: 25,
    };
    HostSummary { own_bridge: Some(own), ..host(4, Bytes::from_gib(64)) }
}

#[test]
fn guests_on_the_users_bridge_have_its_addresses_and_hardware_addresses_of_their_own() {
    let mut plan = fixtures::plan(FROM_A_GUEST, &asked(), &with_addresses(100));
    let guests = &plan.points[0].guests;
    let found: Vec<String> =
        guests.iter().map(|guest| format!("{} {}", guest.address, guest.mac)).take(2).collect();
    assert_eq!(found, ["192.0.2.65 72:54:c0:00:02:41", "192.0.2.66 72:54:c0:00:02:42"]);
    let network = guests[0].network.unwrap();
    assert_eq!((network.prefix, network.host.to_string().as_str()), (25, "192.0.2.64"));
    let most = plan.points.iter().map(|point| point.guests.len() as u8).max().unwrap();
    plan.keep_needed_addresses();
    let own = plan.host.own_bridge.unwrap();
    assert_eq!(own.last.octets()[3], 64 + most, "addresses that no guest can have are nobody's of ours");
}

#[test]
fn too_few_addresses_are_named_with_both_counts_and_end_a_search() {
    let draft = Draft::from_toml(TILE, "test").unwrap();
    // Four tiles of two guests, and the run itself.
    assert!(resolve(&draft, &asked(), &with_addresses(9)).is_ok());
    let refused = resolve(&draft, &asked(), &with_addresses(8)).unwrap_err().to_string();
    let named = "4 tiles need 9 addresses, one for each guest and one for the run itself, and `network.addresses` has 8";
    assert!(refused.contains(named), "{refused}");
    let search = Request { search: true, ..asked() };
    let mut plan = resolve(&draft, &search, &with_addresses(8)).unwrap();
    assert_eq!(plan.search.unwrap().limit, 3, "tiles that there are addresses for");
    plan.keep_needed_addresses();
    assert_eq!(plan.host.own_bridge.unwrap().last.octets()[3], 64 + 6);
    assert!(resolve(&draft, &search, &with_addresses(2)).is_err());
}

#[test]
fn a_host_that_counts_its_energy_is_left_to_itself_for_a_while() {
    let draft = Draft::from_toml(TILE, "test").unwrap();
    let within = Some("60s".parse().unwrap());
    let planned = |counts_energy| {
        let host = HostSummary { counts_energy, ..host(4, Bytes::from_gib(64)) };
        resolve(&draft, &Request { search: true, within, ..asked() }, &host).unwrap()
    };
    let (silent, counts) = (planned(false), planned(true));
    let seconds = |plan: &Plan| plan.search.unwrap().within.unwrap().as_seconds();
    assert_eq!((seconds(&silent), seconds(&counts)), (60.0, 55.0));
    let time = |counts_energy| {
        let host = HostSummary { counts_energy, ..host(4, Bytes::from_gib(64)) };
        resolve(&draft, &asked(), &host).unwrap().expected.time.as_seconds()
    };
    assert_eq!(time(true) - time(false), 5.0);
}

#[test]
fn a_guest_with_more_processors_than_the_host_is_named_with_the_setting() {
    let request = Request { settings: settings(&[("guest.web.vcpus", "5")]), ..asked() };
    let problems = plan(TILE, &request).unwrap_err().0;
    let [only] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(only.message, "guest `tile-001-web` has 5 processors and this host has 4 threads");
    assert!(only.remedy.contains("--set guest.web.vcpus=4"), "{only:?}");
}

#[test]
fn a_native_twin_has_as_many_threads_as_its_guest_has_processors() {
    let request = Request { settings: settings(&[("guest.web.vcpus", "2")]), ..asked() };
    let plan = plan(TILE, &request).unwrap();
    assert_eq!(plan.points[0].guests[0].processors.len(), 2);
    assert_eq!(plan.points[0].guests[1].processors.len(), 1);
}

#[test]
fn sides_and_backends_get_the_very_same_schedule() {
    let sides = Sides { a: settings(&[]), b: settings(&[("qemu.machine", "q35")]) };
    let request = Request {
        sides: Some(sides),
        backends: vec![Backend::Emulated, Backend::Native],
        tiles: Some(vec![1, 2]),
        ..asked()
    };
    let plan = plan(TILE, &request).unwrap();
    let of = |side| plan.points.iter().filter(move |point| point.side == Some(side) && point.tiles == 2);
    let seeds =
        |side| of(side).flat_map(|point| point.loads.iter().map(|load| load.seed)).collect::<Vec<_>>();
    assert_eq!(seeds(SideName::A), seeds(SideName::B));
    assert!(of(SideName::B).all(|point| point.qemu.machine.as_deref() == Some("q35")));
    assert!(of(SideName::A).all(|point| point.qemu.machine.is_none()));
}

#[test]
fn sides_are_compared_at_the_ladders_first_step_or_at_those_asked_for() {
    let sides = || Some(Sides { a: settings(&[]), b: settings(&[("qemu.machine", "q35")]) });
    let text = TILE.replace("[1, 2, 4]", "[2, 4]");
    let steps = |tiles| {
        let plan =
            plan(&text, &Request { sides: sides(), tiles, backends: vec![Backend::Emulated], ..asked() })
                .unwrap();
        plan.points.iter().map(|point| point.tiles).collect::<BTreeSet<_>>()
    };
    assert_eq!(steps(None), BTreeSet::from([2]));
    assert_eq!(steps(Some(vec![3, 5])), BTreeSet::from([3, 5]));
}

#[test]
fn tiles_of_one_point_get_schedules_of_their_own() {
    let plan = plan(TILE, &asked()).unwrap();
    let loads = &plan.points.iter().find(|point| point.tiles == 4).unwrap().loads;
    assert_eq!(loads.iter().map(|load| load.seed).collect::<BTreeSet<_>>().len(), 4);
}

#[test]
fn what_varies_is_measured_at_every_value() {
    let text = format!("{TILE}[vary.rate]\nkey = \"load.web.rate\"\nvalues = [\"5/s\", \"50/s\"]\n");
    let plan = plan(&text, &asked()).unwrap();
    assert_eq!(plan.points.len(), 6);
    let fast = plan.points.iter().find(|point| point.vary["rate"] == "50/s").unwrap();
    assert!(matches!(fast.loads[0].demand, Demand::Open { rate, .. } if rate.get() == 50.0));
}

#[test]
fn a_demonstration_is_one_tile_once() {
    let plan = plan(TILE, &Request { demonstrate: Some(Backend::Emulated), ..asked() }).unwrap();
    let shown: Vec<_> = plan.points.iter().filter(|point| point.backend == Backend::Emulated).collect();
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0].tiles, 1);
    assert_eq!(plan.passes.iter().filter(|pass| pass.point == shown[0].index).count(), 1);
}

/// What the guests of a point's first tile write before the warm-up, in MiB.
fn working_sets(text: &str, request: &Request) -> Vec<f64> {
    let plan = plan(text, request).unwrap();
    plan.points[0]
        .guests
        .iter()
        .filter(|guest| guest.tile == 1)
        .map(|guest| guest.working_set.as_mib())
        .collect()
}

#[test]
fn clones_of_a_tile_with_a_load_write_what_booted_guests_have_written_and_nobody_else_writes() {
    let on = |backend| Request { backends: vec![backend], ..asked() };
    let set = |pairs: &[(&str, &str)]| Request { settings: settings(pairs), ..on(Backend::Emulated) };
    for backend in [Backend::Kvm, Backend::Emulated] {
        assert_eq!(working_sets(TILE, &on(backend)), [100.0, 100.0], "an idle guest of a loaded tile too");
    }
    assert_eq!(working_sets(TILE, &on(Backend::Native)), [0.0, 0.0]);
    assert_eq!(working_sets(TILE, &set(&[("measure.start", "boot")])), [0.0, 0.0]);
    let small = [("guest.web.memory", "80MiB"), ("guest.idle.working_set", "7MiB")];
    assert_eq!(working_sets(TILE, &set(&small)), [32.0, 7.0]);
    let idle = builtin("density").unwrap().text;
    assert_eq!(working_sets(idle, &on(Backend::Emulated)), [0.0], "a density");
    let own = set(&[("guest.idle.working_set", "40MiB")]);
    assert_eq!(working_sets(idle, &own), [40.0], "unless the user says so");
    let database = builtin("oltp").unwrap().text.replace("start = \"boot\"", "start = \"clone\"");
    assert_eq!(working_sets(&database, &on(Backend::Emulated)), [0.0], "a database is booted");
}

#[test]
fn a_working_set_is_half_of_a_guests_memory_at_most_and_counts_in_what_a_plan_needs() {
    let text = TILE.replace("role = \"web\"", "role = \"web\"\nworking_set = \"129MiB\"");
    let said = problem(&text, &asked());
    assert!(said.contains("guest `web` has 256MiB of memory and is to write 129MiB of it"), "{said}");
    let needed = |size: &str| {
        let settings = settings(&[("guest.idle.working_set", size)]);
        let request =
            Request { settings, backends: vec![Backend::Emulated], tiles: Some(vec![1]), ..asked() };
        plan(TILE, &request).unwrap().expected.memory.as_mib()
    };
    assert_eq!(needed("100MiB") - needed("20MiB"), 80.0);
}

/// What the first load of a point is asked, and what the scenario asks instead where that is more.
fn asked_of(point: &Point) -> (f64, Option<f64>) {
    let Demand::Open { rate, .. } = point.loads[0].demand else { panic!("an open loop") };
    (rate.get(), point.loads[0].lowered_from.map(Rate::get))
}

#[test]
fn emulated_guests_are_asked_what_they_can_serve_and_others_what_the_scenario_says() {
    let fast = TILE.replace("10/s", "900/s");
    let backends = vec![Backend::Emulated, Backend::Native];
    let plan = plan(&fast, &Request { backends, tiles: Some(vec![1, 8]), ..asked() }).unwrap();
    for point in &plan.points {
        let (rate, from) = asked_of(point);
        match point.backend {
            Backend::Native => assert_eq!((rate, from), (900.0, None)),
            _ => {
                assert_eq!(from, Some(900.0));
                assert!(rate * f64::from(point.tiles) < 200.0, "{rate}/s of {} guests", point.tiles);
            }
        }
    }
    assert_eq!(asked_of(&plan.point_at(&plan.points[0], 9, 1)), asked_of(&plan.points[0]));
}

/// What a number of tiles of emulated guests are refused for, on a host with two threads.
fn emulated_refused(text: &str, preset: Option<&str>, tiles: u32, length: &str) -> Option<String> {
    let request = Request {
        backends: vec![Backend::Emulated],
        tiles: Some(vec![tiles]),
        settings: settings(&[("measure.length", length)]),
        preset: preset.map(str::to_owned),
        ..asked()
    };
    let draft = Draft::from_toml(text, "test").unwrap();
    resolve(&draft, &request, &host(2, Bytes::from_gib(256)))
        .err()
        .map(|problems| format!("{problems}; {}", problems.remedy()))
}

fn consolidation_refused(tiles: u32, length: &str) -> Option<String> {
    emulated_refused(builtin("consolidation").unwrap().text, Some("quick"), tiles, length)
}

/// The number in a text after these words.
fn number(said: &str, after: &str) -> u32 {
    let (_, rest) = said.split_once(after).unwrap_or_else(|| panic!("{said}"));
    rest.split(|other: char| !other.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn more_emulated_guests_than_can_serve_the_least_are_refused_with_the_number_and_the_length_that_can() {
    let said = consolidation_refused(8, "20s").unwrap();
    let (most, enough) = (number(&said, "--tiles "), number(&said, "measure.length="));
    assert!((1..8).contains(&most), "{said}");
    assert_eq!(consolidation_refused(most, "20s"), None);
    assert!(consolidation_refused(most + 1, "20s").is_some(), "{said}");
    assert_eq!(consolidation_refused(8, &format!("{enough}s")), None);
    assert!(consolidation_refused(8, &format!("{}s", enough / 3)).is_some(), "{said}");
    // sysbench asks for a transaction a second at least, so no length is enough for thirty of them.
    let said = consolidation_refused(30, "20s").unwrap();
    assert!(!said.contains("measure.length="), "{said}");
    assert_eq!(consolidation_refused(number(&said, "--tiles "), "600s"), None);
}

/// Requests of the web server take so little that it is asked more than the least; jobs take long.
const WEB_AND_JOBS: &str = r#"
schema = 1
name = "t"
about = "a test"
headline = "web"
guest = [
    { name = "web", role = "web" },
    { name = "compute", role = "compute" },
]
load = [
    { name = "web", guest = "web", rate = "900/s", web = { files = [{ size = "1KiB", weight = 1 }] } },
    { name = "compute", guest = "compute", loop = "closed", jobs = {} },
]
ladder.tiles = [1]
"#;

#[test]
fn the_tiles_and_the_length_of_a_refusal_are_accepted_where_a_load_is_asked_more_than_the_least() {
    let refused = |tiles, length: &str| emulated_refused(WEB_AND_JOBS, None, tiles, length);
    for tiles in [100, 60, 50] {
        let said = refused(tiles, "60s").unwrap();
        let (most, enough) = (number(&said, "--tiles "), number(&said, "measure.length="));
        assert_eq!(refused(most, "60s"), None, "{said}");
        assert!(refused(most + 1, "60s").is_some(), "{said}");
        assert_eq!(refused(tiles, &format!("{enough}s")), None, "{said}");
        assert!(refused(tiles, &format!("{}s", enough - 1)).is_some(), "{said}");
    }
    // 100 times 3 jobs of 0.45 s, and a twentieth of the thread for the web servers.
    let said = refused(100, "60s").unwrap();
    assert!(
        said.contains("about 138 s of a thread") && said.contains(": 30 s in a measurement of 1m"),
        "{said}"
    );
}

#[test]
fn a_rate_that_the_user_sets_is_asked_of_emulated_guests_too() {
    let rates = |request: Request| -> BTreeSet<String> {
        let plan = plan(TILE, &Request { backends: vec![Backend::Emulated], ..request }).unwrap();
        plan.points.iter().map(|point| format!("{:?}", asked_of(point))).collect()
    };
    let set = settings(&[("load.web.rate", "700/s")]);
    assert_eq!(
        rates(Request { settings: set.clone(), ..asked() }),
        BTreeSet::from(["(700.0, None)".to_owned()])
    );
    // Of two sides, what one is set to is not measured beside less of the other.
    let sides = Some(Sides { a: settings(&[]), b: set });
    assert_eq!(
        rates(Request { sides, ..asked() }),
        BTreeSet::from(["(10.0, None)".to_owned(), "(700.0, None)".to_owned()])
    );
    let text = format!("{TILE}[vary.rate]\nkey = \"load.web.rate\"\nvalues = [\"600/s\"]\n");
    let varied = plan(&text, &Request { backends: vec![Backend::Emulated], ..asked() }).unwrap();
    assert_eq!(asked_of(&varied.points[0]), (600.0, None));
}

#[test]
fn a_preset_is_applied_before_settings() {
    let with = |settings| Request { preset: Some("long".to_owned()), settings, ..asked() };
    let plain = plan(TILE, &with(settings(&[]))).unwrap();
    assert_eq!(plain.points[0].measure.length.to_string(), "1m");
    let set = plan(TILE, &with(settings(&[("measure.length", "7s")]))).unwrap();
    assert_eq!(set.points[0].measure.length.to_string(), "7s");
}

#[test]
fn a_clone_count_that_does_not_fit_is_refused_with_its_figures() {
    let draft = Draft::from_toml(TILE, "test").unwrap();
    let request = Request { backends: vec![Backend::Emulated], tiles: Some(vec![400]), ..asked() };
    let problems = |request: &Request| resolve(&draft, request, &host(4, Bytes::from_gib(8))).unwrap_err();
    let error = problems(&request).to_string();
    assert!(
        error.starts_with("400 tiles on emulated need 110.9 GiB of memory; this host has 8 GiB available"),
        "{error}"
    );
    // A tenth and at least 1 GiB stays free.
    assert_eq!(problems(&request).remedy(), "give `--tiles 25`, or lower the guests' `memory`");
    resolve(&draft, &Request { tiles: Some(vec![25]), ..request.clone() }, &host(4, Bytes::from_gib(8)))
        .unwrap();
    let large = settings(&[("guest.web.memory", "15GiB")]);
    let one = Request { settings: large, tiles: Some(vec![1]), backends: vec![Backend::Kvm], ..asked() };
    let large = problems(&one);
    let report = format!("{large} ({})", large.remedy());
    assert!(report.contains("(lower the guests' `memory`"), "{report}");
    let remedy = problems(&Request { tiles: Some(vec![1, 2, 400]), ..request }).remedy();
    assert_eq!(remedy, "give `--tiles 1,2`: these steps fit; or lower the guests' `memory`");
}

#[test]
fn the_memory_of_256_idle_clones_is_there_on_a_host_of_8_gib() {
    let draft = Draft::from_toml(builtin("density").unwrap().text, "density").unwrap();
    let request = Request { backends: vec![Backend::Emulated], tiles: Some(vec![256]), ..asked() };
    let planned = |gib| resolve(&draft, &request, &host(2, Bytes::from_gib(gib)));
    assert_eq!(planned(8).unwrap().points[0].tiles, 256);
    assert!(planned(6).unwrap_err().to_string().contains("need 6 GiB"));
}

#[test]
fn time_until_guests_are_ready_grows_with_them_and_holds_the_template_of_clones() {
    let seconds = |tiles: u32, start: &str| {
        let settings = settings(&[("measure.start", start)]);
        let backends = vec![Backend::Emulated];
        let request = Request { backends, settings, tiles: Some(vec![tiles]), ..asked() };
        let planned = plan(TILE, &request).unwrap();
        let point = &planned.points[0];
        let ready = expect::time_to_ready(point);
        let templates =
            ready + point.measure.warmup.get() + point.measure.length.get() - expect::time_of(point);
        (ready.as_secs_f64(), templates.as_secs_f64())
    };
    let ((few, of_few), (many, of_many)) = (seconds(1, "clone"), seconds(9, "clone"));
    assert!(many > few + 3.0 && of_few > 1.0, "{few} {many} {of_few}");
    assert!((of_few - of_many).abs() < 0.01, "templates are made once: {of_few} {of_many}");
    let (_, of_booted) = seconds(1, "boot");
    assert!(of_booted.abs() < 0.01, "{of_booted}");
}

proptest! {
    #[test]
    fn no_plan_exceeds_the_memory_that_the_host_has(tiles in 1_u32..300, gib in 2_u64..64) {
        let draft = Draft::from_toml(TILE, "test").unwrap();
        let host = host(4, Bytes::from_gib(gib));
        let request = Request { backends: vec![Backend::Kvm], tiles: Some(vec![tiles]), ..asked() };
        if let Ok(plan) = resolve(&draft, &request, &host) {
            let most = host.memory_available.saturating_sub(expect::memory_reserve(host.memory_total));
            prop_assert!(plan.points.iter().all(|point| expect::memory_of(point) <= most));
        }
    }
}

#[test]
fn bad_scenarios_are_named_with_what_is_wrong() {
    let cases = [
        ("an unknown key", TILE.replace("rate =", "rte ="), "there is no key `rte`. Did you mean `rate`?"),
        ("an unknown unit", TILE.replace("10/s", "10/day"), "`10/day` is not a rate such as `200/s`"),
        (
            "a load for nobody",
            TILE.replace("guest = \"web\"", "guest = \"wob\""),
            "which the tile does not have",
        ),
        (
            "a load on the wrong role",
            TILE.replace("guest = \"web\"", "guest = \"idle\""),
            "needs a guest with role `web`",
        ),
        (
            "a ladder that falls",
            TILE.replace("[1, 2, 4]", "[4, 2]"),
            "`ladder.tiles = [4, 2]` is not a valid ladder",
        ),
        ("no repeats", TILE.replace("repeats = 3", "repeats = 0"), "`measure.repeats = 0` measures nothing"),
        (
            "a headline that is no load",
            TILE.replace("headline = \"web\"", "headline = \"wab\""),
            "names no load",
        ),
        (
            "an open loop without a rate",
            TILE.replace("rate = \"10/s\"", ""),
            "is an open loop without a rate",
        ),
        ("too many guests", TILE.replace("[1, 2, 4]", "[600]"), "600 tiles are 1200 guests"),
        ("no TOML", TILE.replace("[ladder]", "[ladder"), "test, line "),
    ];
    for (what, text, wanted) in cases {
        let message = problem(&text, &asked());
        assert!(message.contains(wanted), "{what}: {message}");
    }
}

/// The tile with a surge in its third tile.
fn with_surge(surge: &str, length: &str) -> String {
    TILE.replace(
        "repeats = 3",
        &format!("repeats = 3\nwarmup = \"3s\"\nlength = \"{length}\"\nsurge = {surge}"),
    )
}

#[test]
fn a_surge_swells_the_headline_load_of_its_tile_where_others_are_beside_it() {
    let swollen = plan(&with_surge("{ tile = 2, factor = 16, at = \"half\" }", "21s"), &asked()).unwrap();
    for point in &swollen.points {
        for load in &point.loads {
            let Demand::Open { surge, .. } = &load.demand else { panic!("{load:?}") };
            let wanted = (load.tile == 2).then_some(Swell {
                // Second 10 of the measurement, after 3 s of warm-up, for a quarter of it.
                from: tilemark_units::Span::from_seconds(13),
                length: tilemark_units::Span::from_seconds(5),
                factor: 16,
            });
            assert_eq!(*surge, wanted, "{} tiles: {}", point.tiles, load.tile);
        }
    }
    let alone = TILE.replace("[1, 2, 4]", "[1, 2]");
    let alone = alone.replace("repeats = 3", "repeats = 3\nsurge = { tile = 1, factor = 2 }");
    let plan = plan(&alone, &asked()).unwrap();
    let has_surge = |tiles: u32| {
        let point = plan.points.iter().find(|point| point.tiles == tiles).unwrap();
        point.loads.iter().any(|load| matches!(load.demand, Demand::Open { surge: Some(_), .. }))
    };
    assert_eq!([1, 2].map(has_surge), [false, true], "one tile has nobody beside it");
}

#[test]
fn the_only_load_is_the_headline_and_one_of_several_must_be_named() {
    let only = TILE.replace("headline = \"web\"\n", "");
    assert_ne!(only, TILE);
    assert_eq!(plan(&only, &asked()).unwrap().scenario.headline.as_deref(), Some("web"));
    let two = only.clone()
        + "[[load]]\nname = \"more\"\nguest = \"web\"\nconnections = 1\nrate = \"1/s\"\nweb = {}\n";
    assert!(problem(&two, &asked()).contains("there are loads and no `headline`"));
}

#[test]
fn what_lacks_is_said_by_its_path_with_an_example() {
    let without = TILE.replace("[ladder]\ntiles = [1, 2, 4]\n", "");
    assert_ne!(without, TILE);
    let problems = plan(&without, &asked()).unwrap_err();
    assert_eq!(problems.to_string(), "`ladder` is missing");
    assert!(problems.remedy().starts_with("add `ladder = { "), "{}", problems.remedy());
    let nobody = TILE.replace("guest = \"web\"\n", "");
    assert_ne!(nobody, TILE);
    assert_eq!(problem(&nobody, &asked()), "`load.web.guest` is missing");
}

#[test]
fn a_surge_that_nobody_can_feel_or_send_is_refused() {
    let web = "{ tile = 1, factor = 16 }";
    let cases = [
        (with_surge("{ tile = 5, factor = 16 }", "20s"), "no other tiles beside it in a ladder up to 4"),
        (with_surge("{ tile = 0, factor = 16 }", "20s"), "no other tiles beside it"),
        (with_surge("{ tile = 1, factor = 1 }", "20s"), "is not a valid factor"),
        (with_surge("{ tile = 1, factor = 1001 }", "20s"), "is not a valid factor"),
        (with_surge(web, "7s"), "is too short for a surge"),
        (with_surge(web, "20s").replace("10/s", "900000/s"), "over 10000000 requests a second"),
        (with_surge(web, "20s").replace("rate = \"10/s\"", "loop = \"closed\""), "a closed loop"),
        (with_surge("{ tile = 1, factor = 16, at = \"end\" }", "20s"), "there is no value `end`"),
    ];
    for (text, wanted) in cases {
        let message = problem(&text, &asked());
        assert!(message.contains(wanted), "{wanted}: {message}");
    }
}

#[test]
fn a_surge_may_be_of_sessions_from_outside_and_swells_the_tile_of_eight() {
    let request = Request {
        settings: settings(&[("measure.surge", "{ tile = 1, factor = 16 }")]),
        tiles: Some(vec![2]),
        ..asked()
    };
    let plan = plan(builtin("consolidation").unwrap().text, &request).unwrap();
    let is_swollen = |load: &&LoadPlan| matches!(load.demand, Demand::Open { surge: Some(_), .. });
    let swollen: Vec<(&str, u32)> =
        plan.points[0].loads.iter().filter(is_swollen).map(|load| (load.name.as_str(), load.tile)).collect();
    assert_eq!(swollen, [("web", 1)]);
    let inside = FROM_A_GUEST.replace("headline = \"web\"", "headline = \"inside\"").replace(
        "tiles = [2]",
        "tiles = [2]\n[measure]\nlength = \"20s\"\nsurge = { tile = 1, factor = 16 }",
    );
    let said = problem(&inside, &asked());
    assert!(said.contains("load `inside`, which is not a load `web` or `sessions` from outside"), "{said}");
}

#[test]
fn a_surge_that_emulated_guests_cannot_serve_is_refused() {
    let surge = |factor| with_surge(&format!("{{ tile = 1, factor = {factor} }}"), "20s");
    let text = |factor| {
        surge(factor).replace("[load.web]", "[load.web]\nfiles = [{ size = \"16MiB\", weight = 1 }]")
    };
    assert_eq!(emulated_refused(&text(2), None, 2, "20s"), None);
    let said = emulated_refused(&text(1_000), None, 2, "20s").unwrap();
    assert!(said.contains("2 tiles of emulated guests cannot serve what they are asked"), "{said}");
}

#[test]
fn a_search_over_what_varies_is_refused() {
    let text = format!("{TILE}[vary.rate]\nkey = \"load.web.rate\"\nvalues = [\"5/s\", \"50/s\"]\n");
    let request = Request { search: true, ..asked() };
    assert!(problem(&text, &request).starts_with("a search has one answer"));
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = TILE.replace("[1, 2, 4]", "[]").replace("repeats = 3", "repeats = 0");
    let message = problem(&text, &asked());
    assert!(message.starts_with("2 problems:"), "{message}");
}

#[test]
fn a_load_asks_for_one_workload_and_older_records_name_the_others_as_null() {
    let read = |works: serde_json::Value| {
        let mut load = serde_json::json!({ "name": "l", "guest": "g", "connections": 2 });
        load.as_object_mut().unwrap().extend(works.as_object().unwrap().clone());
        serde_json::from_value::<Load>(load).map_err(|error| error.to_string())
    };
    let older = read(serde_json::json!({ "web": null, "disk": { "depth": 7 }, "store": null })).unwrap();
    assert_eq!(older, read(serde_json::json!({ "disk": { "depth": 7 } })).unwrap());
    assert!(matches!(&older.work, Work::Disk(disk) if disk.depth == 7), "{older:?}");
    let written = serde_json::to_value(&older).unwrap();
    assert_eq!(serde_json::from_value::<Load>(written).unwrap(), older);
    for works in [serde_json::json!({}), serde_json::json!({ "web": {}, "disk": {} })] {
        let message = read(works).unwrap_err();
        assert!(message.contains("exactly one of `web`, `disk`"), "{message}");
    }
    assert!(read(serde_json::json!({ "wob": {} , "web": {} })).unwrap_err().contains("unknown field `wob`"));
}

#[test]
fn all_that_cannot_be_read_is_reported_at_once_with_its_place() {
    let text = TILE
        .replace("rate =", "rte =")
        .replace("repeats = 3", "repeats = \"three\"")
        .replace("tiles = [1, 2, 4]", "tiles = \"many\"")
        + "[gat]\n";
    let problems = plan(&text, &asked()).unwrap_err();
    assert!(problems.remedy().contains("docs/scenarios.md has every key"), "{}", problems.remedy());
    let message = problems.to_string();
    for wanted in [
        "`load.web`: there is no key `rte`. Did you mean `rate`? There are: ",
        "`measure.repeats`: it is the text \"three\", and a whole number from 0 is meant (write it like `repeats = ",
        "`ladder.tiles`: it is the text \"many\", and a list in brackets is meant (write it like `tiles = [1, 2",
        "the scenario: there is no key `gat`. Did you mean `gate`?",
    ] {
        assert!(message.contains(wanted), "{wanted}: {message}");
    }
    // What was taken out to read on is no second mistake.
    assert!(!message.contains("is missing"), "{message}");
    assert!(message.starts_with("4 problems:"), "{message}");
    let request =
        Request { settings: settings(&[("load.wob.rate", "1/s"), ("guest.wub.vcpus", "1")]), ..asked() };
    let message = problem(TILE, &request);
    assert!(message.contains("no `wob`") && message.contains("no `wub`"), "{message}");
}

#[test]
fn a_command_names_the_scenario_as_it_was_asked_for_with_preset_and_settings() {
    let text = TILE.replace("name = \"t\"", "name = \"shop\"");
    let draft = Draft::from_toml(&text, "./my shop.toml").unwrap();
    let request = Request {
        preset: Some("long".to_owned()),
        settings: settings(&[
            ("gate.p99", "20ms"),
            ("load.web.web.files", "[{ size = \"1KiB\", weight = 1 }]"),
        ]),
        ..asked()
    };
    let plan = resolve(&draft, &request, &host(4, Bytes::from_gib(64))).unwrap();
    assert_eq!(
        plan.command("capacity"),
        "tilemark capacity './my shop.toml' --preset long --set gate.p99=20ms \
         --set 'load.web.web.files=[{ size = \"1KiB\", weight = 1 }]'"
    );
    let old = Plan { origin: String::new(), preset: None, settings: BTreeMap::new(), ..plan };
    assert_eq!(old.command("run"), "tilemark run shop");
}

#[test]
fn a_command_asks_for_the_site_file_where_the_run_cannot_be_without_one() {
    let from_clients = TILE.replace("guest = \"web\"\n", "guest = \"web\"\nfrom = \"clients\"\n");
    let plan = |text: &str, host: &HostSummary| {
        resolve(&Draft::from_toml(text, "shop").unwrap(), &asked(), host).unwrap()
    };
    let plain = host(4, Bytes::from_gib(64));
    assert_eq!(plan(TILE, &plain).command("run"), "tilemark run shop");
    assert_eq!(plan(&from_clients, &plain).command("run"), "tilemark run shop --site FILE");
    assert_eq!(plan(TILE, &with_addresses(100)).command("capacity"), "tilemark capacity shop --site FILE");
}

#[test]
fn every_scenario_has_a_preset_that_fits_the_host() {
    let request = Request { preset: Some("host".to_owned()), ..asked() };
    let tiles = |threads, memory| -> Vec<u32> {
        let plan = fixtures::plan(TILE, &request, &host(threads, memory));
        plan.points.iter().map(|point| point.tiles).collect()
    };
    // The reserve is 1 GiB, and a native tile of two guests is taken for 96 MiB.
    assert_eq!(tiles(64, Bytes::from_gib(2)), [1, 2, 4, 8]);
    assert_eq!(tiles(2, Bytes::from_gib(1024)).last(), Some(&32), "64 processors for the guests' thread");
    assert!(tiles(64, Bytes::from_gib(1024)).last() > Some(&64));
    let own = format!("{TILE}[preset.host]\n\"ladder.tiles\" = [3]\n");
    let planned = plan(&own, &request).unwrap();
    assert_eq!(
        planned.points.iter().map(|point| point.tiles).collect::<Vec<_>>(),
        [3],
        "its own comes first"
    );
}

#[test]
fn an_unknown_preset_is_refused_with_those_that_exist() {
    let request = Request { preset: Some("quik".to_owned()), ..asked() };
    let problems = plan(TILE, &request).unwrap_err();
    assert_eq!(problems.to_string(), "no preset `quik`");
    assert_eq!(problems.remedy(), "this scenario has: long, host");
}

#[test]
fn twins_take_the_guests_threads_in_turn_whatever_their_sizes() {
    let text = TILE.replacen("role = \"web\"", "role = \"web\"\nvcpus = 2", 1);
    let request = Request { tiles: Some(vec![2]), ..asked() };
    let planned = fixtures::plan(&text, &request, &host(8, Bytes::from_gib(64)));
    // Of eight threads two are the load's. A tile is a guest of two processors and one of one.
    let threads: Vec<&[u32]> =
        planned.points[0].guests.iter().map(|guest| guest.processors.as_slice()).collect();
    assert_eq!(threads, [&[2, 3][..], &[4], &[5, 6], &[7]]);
}

#[test]
fn what_a_workload_cannot_do_is_refused_before_a_guest_is_started() {
    let written = |role: &str, text: &str| {
        TILE.replacen("role = \"web\"", &format!("role = \"{role}\"\n[[guest.disk]]\nsize = \"1GiB\""), 1)
            .replace("[load.web]", text)
    };
    let work = |role: &str, text: &str| problem(&written(role, text), &asked());
    let said = work("disk", "[load.disk]\nblock_size = \"1000B\"\ndepth = 2000");
    assert!(said.contains("has a `block_size` of 1kB"), "{said}");
    assert!(said.contains("may have 2000 requests in flight at its rate"), "{said}");
    let said = work("database", "arrival = \"bursts\"\n[load.store]\nclients = 0\ndata = \"1MB\"");
    for wanted in ["`clients` is 0", "has 1MB of data", "`arrival` is bursts"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let said = work("database", "[load.store]\nthink_time = \"1s\"\nwindow = \"2h\"");
    for wanted in ["has a rate and a `think_time` of 1s", "`window` is 2h in a measurement of"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let said = work("database", "[load.sysbench]\nthreads = 0\nrows = 2000000000\ntables = 0");
    for wanted in ["has 0 threads", "has 0 tables", "has 2000000000 rows"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let said = work("database", "arrival = \"even\"\n[load.sysbench]\nrows = 10000000");
    for wanted in ["an `arrival` that sysbench does not do", "2000 MB of data, and the first disk"] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let second = "[[load]]\nname = \"b\"\nguest = \"web\"\nrate = \"1/s\"\n[load.sysbench]";
    let said = work("database", &format!("[load.store]\n{second}"));
    assert!(said.contains("guest `web` has two loads on its database"), "{said}");
    let stored =
        |data: &str| plan(&written("database", &format!("[load.store]\ndata = \"{data}\"")), &asked());
    let too_much = stored("20GB").unwrap_err();
    let said = too_much.to_string();
    assert!(said.contains("20000 MB of data, and the first disk of guest `web` has 1GiB"), "{said}");
    assert_eq!(too_much.remedy(), "give that disk a `size` of \"57GiB\", or lower `data`");
    let fits = stored("200MB").map_or_else(|problems| problems.to_string(), |_| String::new());
    assert!(!fits.contains("of data"), "{fits}");
}

#[test]
fn a_database_whose_log_does_not_fit_its_disk_is_refused_before_a_guest_is_started() {
    let text = |memory: &str, disks: &[&str], store: &str| {
        let disks: Vec<String> =
            disks.iter().map(|size| format!("[[guest.disk]]\nsize = \"{size}\"\n")).collect();
        TILE.replacen(
            "role = \"web\"",
            &format!("role = \"database\"\nmemory = \"{memory}\"\n{}", disks.concat()),
            1,
        )
        .replace("[load.web]", store)
    };
    let problems = |memory: &str, disks: &[&str], store: &str| {
        let planned = plan(&text(memory, disks, store), &asked());
        planned.map_or_else(|problems| format!("{problems} {}", problems.remedy()), |_| String::new())
    };
    let log = "the database's log needs about";
    // A quarter of the memory, and the file system.
    let said = problems("4GiB", &["4GiB", "1GiB"], "[load.store]\ndata = \"20MB\"");
    assert!(said.contains("the second disk of guest `web` has 1GiB: with 4GiB of memory"), "{said}");
    assert!(said.contains("give that disk a `size` of \"1088MiB\""), "{said}");
    let said = problems("4GiB", &["4GiB", "1088MiB"], "[load.store]\ndata = \"20MB\"");
    assert!(!said.contains(log), "{said}");
    // PostgreSQL's may grow to twice that.
    let said =
        problems("4GiB", &["4GiB", "2GiB"], "[load.store]\ndata = \"20MB\"\ndatabase = \"postgresql\"");
    assert!(said.contains("\"2112MiB\""), "{said}");
    let said = problems("1GiB", &["4GiB", "256MiB"], "[load.sysbench]");
    assert!(said.contains("\"320MiB\""), "sysbench's server has a log too: {said}");
    // Both on one: 60 MB and 256 MiB for the data, 1 GiB and 64 MiB for the log.
    let said = problems("4GiB", &["1GiB"], "[load.store]\ndata = \"20MB\"");
    assert!(said.contains("the first disk of guest `web` has 1GiB") && said.contains("\"2GiB\""), "{said}");
    assert!(!problems("1GiB", &["1GiB"], "[load.store]\ndata = \"20MB\"").contains("the first disk"));
}

#[test]
fn numbers_at_the_ends_of_their_types_are_refused_and_no_panic() {
    let two = |memory: &str, vcpus: &str| {
        let guest = |name: &str| {
            format!(
                "[[guest]]\nname = \"{name}\"\nrole = \"idle\"\nmemory = \"{memory}\"\nvcpus = {vcpus}\n\
                 [[guest.disk]]\nsize = \"{memory}\"\non = \"memory\"\n[[guest.disk]]\nsize = \"{memory}\"\n"
            )
        };
        let head = "schema = 1\nname = \"t\"\nabout = \"a test\"\n[ladder]\ntiles = [1, 2]\nsearch_limit = 4294967295\n";
        format!("{head}{}{}", guest("one"), guest("two"))
    };
    for start in ["clone", "boot"] {
        for (memory, vcpus) in [("16777215TiB", "1"), ("99999999999999TiB", "1"), ("256MiB", "4294967295")] {
            let request = Request { settings: settings(&[("measure.start", start)]), ..asked() };
            for backends in [vec![Backend::Native], vec![Backend::Kvm], vec![Backend::Emulated]] {
                for (search, preset) in [(false, None), (true, None), (false, Some("host".to_owned()))] {
                    let request = Request { backends: backends.clone(), search, preset, ..request.clone() };
                    assert!(!problem(&two(memory, vcpus), &request).is_empty(), "{memory} {vcpus}");
                }
            }
        }
    }
}

#[test]
fn a_load_that_a_guest_sends_runs_in_it_and_only_the_two_reach_each_other() {
    let plan = plan(FROM_A_GUEST, &asked()).unwrap();
    let point = &plan.points[0];
    let reaches: Vec<&[u32]> = point.guests.iter().map(|guest| guest.reaches.as_slice()).collect();
    assert_eq!(reaches, [&[][..], &[2], &[1], &[], &[5], &[4]]);
    let places: Vec<_> = point.loads.iter().map(|load| (load.guest, load.from, load.runs_in())).collect();
    assert_eq!(places[..2], [(0, None, None), (1, Some(2), Some(2))]);
    assert_eq!(places[2..], [(3, None, None), (4, Some(5), Some(5))]);
    let outside: Vec<bool> = point.loads.iter().map(LoadPlan::is_outside).collect();
    assert_eq!(outside, [true, false, true, false]);
    let of_client = LoadPlan { from_clients: true, ..point.loads[0].clone() };
    assert!(!of_client.is_outside() && of_client.runs_in().is_none());
}

#[test]
fn a_sender_that_cannot_send_is_refused_by_name() {
    for (from, to, wanted) in [
        ("from = \"client\"", "from = \"clint\"", "guest `clint`, which the tile does not have"),
        ("from = \"client\"", "from = \"web\"", "sent from guest `web`, whose role is `web`"),
        ("from = \"client\"", "from = \"web-inside\"", "whose role is `web`"),
        (
            "guest = \"web-inside\"",
            "guest = \"client\"",
            "needs a guest with role `web`, `client` is `client`",
        ),
        (
            "guest = \"web\"\nrate",
            "guest = \"web\"\nfrom = \"client\"\nrate",
            "guest `client` has two loads that run inside it",
        ),
    ] {
        let text = FROM_A_GUEST.replace(from, to);
        assert_ne!(text, FROM_A_GUEST, "{from}");
        assert!(problem(&text, &asked()).contains(wanted), "{wanted}: {}", problem(&text, &asked()));
    }
    let site = FROM_A_GUEST.replace(
        "[load.web]\n[ladder]",
        "[load.sessions]\nfirst = \"a\"\n[load.sessions.page.a]\nbytes = \"1KiB\"\nfiles = [{ size = \"60MiB\", count = 1 }]\n[ladder]",
    );
    assert!(plan(&site, &asked()).is_ok(), "both have the memory");
    let said = problem(&site.replace("name = \"client\"", "name = \"client\"\nmemory = \"64MiB\""), &asked());
    assert!(
        said.contains("60 MiB that its sender holds too, and guest `client` has 64MiB of memory"),
        "{said}"
    );
    let disk = FROM_A_GUEST.replace("[load.web]\n[ladder]", "[load.memory]\n[ladder]");
    let said = problem(&disk, &asked());
    assert!(said.contains("`memory` runs inside the guest that it loads"), "{said}");
}

/// The points of a scenario whose roles are measured alone and together: the roles, the tiles and the names of the guests.
fn together(text: &str) -> Vec<(String, u32, Vec<String>)> {
    let plan = plan(text, &Request { interference: true, ..asked() }).unwrap();
    let of = |point: &Point| {
        let guests = point.guests.iter().map(|guest| guest.name.clone()).collect();
        (point.together.as_ref().unwrap().to_string(), point.tiles, guests)
    };
    plan.points.iter().map(of).collect()
}

#[test]
fn each_role_is_measured_alone_with_itself_and_beside_every_other_one() {
    let points = together(FROM_A_GUEST);
    let names: Vec<&str> = points.iter().map(|(roles, ..)| roles.as_str()).collect();
    assert_eq!(
        names,
        ["web alone", "web-inside alone", "web + web", "web + web-inside", "web-inside + web-inside"],
        "a client is no role of its own"
    );
    assert_eq!(points[0].2, ["tile-001-web"]);
    assert_eq!(points[1].2, ["tile-001-web-inside", "tile-001-client"], "it goes with what it loads");
    assert_eq!(
        (points[2].1, &points[2].2[..]),
        (2, &["tile-001-web".to_owned(), "tile-002-web".to_owned()][..])
    );
    assert_eq!(points[3].2.len(), 3);
    let alone = plan(FROM_A_GUEST, &Request { interference: true, ..asked() }).unwrap();
    assert_eq!(alone.points[1].loads.len(), 1);
    assert_eq!(alone.points[1].loads[0].runs_in(), Some(1));
    let names: Vec<String> = together(TILE).into_iter().map(|(roles, ..)| roles).collect();
    assert_eq!(
        names,
        ["web alone", "web + web", "web + idle"],
        "a guest without a load is beside others only"
    );
}

#[test]
fn one_role_and_what_varies_cannot_be_measured_in_pairs() {
    let interference = Request { interference: true, ..asked() };
    let one = TILE.replace("[[guest]]\nname = \"idle\"\nrole = \"idle\"\n", "");
    assert!(problem(&one, &interference).contains("no two roles"), "{}", problem(&one, &interference));
    let varies = format!("{TILE}[vary.rate]\nkey = \"load.web.rate\"\nvalues = [\"10/s\", \"20/s\"]\n");
    assert!(
        problem(&varies, &interference).contains("varies something"),
        "{}",
        problem(&varies, &interference)
    );
}

#[test]
fn further_blocks_take_what_three_pairs_take_at_most_and_no_more_than_their_limit_but_for_the_first_pair() {
    let most = |length: &str, blocks: u32| {
        let settings = [("measure.length".to_owned(), length.to_owned())].into();
        let request = Request { interference: true, confirm_blocks: blocks, settings, ..asked() };
        let planned = plan(TILE, &request).unwrap();
        let all = expect::time_to_confirm(&planned, &planned.points);
        (expect::most_time_to_confirm(&planned), all, expect::time_for_confirming(&planned))
    };
    let (none, ..) = most("1s", 0);
    assert_eq!(none, Duration::ZERO);
    let (short, all, limit) = most("1s", 2);
    assert!(short > Duration::ZERO && short <= all && all < limit, "{short:?} {all:?} {limit:?}");
    // Two blocks of a pair and its roles alone are longer than a third of three blocks of every point.
    let (long, all, limit) = most("600s", 6);
    assert!(long > limit && long <= all, "one pair has its blocks: {long:?} {all:?} {limit:?}");
}

#[test]
fn roles_are_not_measured_where_times_mean_nothing() {
    let on = |backend| Request { backends: vec![backend], interference: true, ..asked() };
    let refused = plan(TILE, &on(Backend::Emulated)).unwrap_err();
    assert!(refused.to_string().contains("times of emulated guests mean nothing"), "{refused}");
    assert!(refused.remedy().contains("`--on native` or `--on kvm`"), "{}", refused.remedy());
    assert!(plan(TILE, &on(Backend::Native)).is_ok() && plan(TILE, &on(Backend::Kvm)).is_ok());
}

#[test]
fn an_entry_of_the_map_for_one_guest_places_it_where_its_role_is_measured() {
    let with_map = |map: &str| format!("{TILE}[place]\nmap = {map}\n");
    let interference = Request { interference: true, ..asked() };
    for pattern in ["tile-001-idle", "tile-002-web"] {
        let planned = plan(&with_map(&format!("{{ {pattern} = \"cpus:2\" }}")), &interference).unwrap();
        let all = planned.points.iter().flat_map(|point| &point.guests);
        let processors: BTreeSet<_> =
            all.filter(|guest| guest.name == pattern).map(|guest| guest.processors.clone()).collect();
        assert_eq!(processors, [vec![2]].into(), "{pattern}");
    }
    for (map, wanted) in [
        ("{ tile-003-web = \"cpus:2\" }", "is the name of no guest"),
        ("{ tile-001-idle = \"cpus:9\" }", "processor 9 does not exist"),
        ("{ \"*-idle\" = \"cpus:2\", \"tile-001-*\" = \"cpus:3\" }", "puts guest `tile-001-idle` on"),
    ] {
        let said = problem(&with_map(map), &interference);
        assert!(said.contains(wanted), "{map}: {said}");
        assert_eq!(said.matches("place.map").count(), 1, "once: {said}");
    }
}

#[test]
fn a_load_waits_for_its_last_answers_for_as_long_as_an_answer_may_take_within_the_limits() {
    let drain = |changes: &[(&str, &str)]| {
        let asked = Request { settings: settings(changes), ..asked() };
        plan(TILE, &asked).unwrap().points[0].drain().as_secs()
    };
    assert_eq!(drain(&[]), 2, "the backend's own");
    assert_eq!(drain(&[("gate.p99", "5s")]), 10);
    assert_eq!(drain(&[("gate.mean", "8s")]), 16);
    let pages = plan(builtin("consolidation").unwrap().text, &asked()).unwrap();
    assert!(pages.points[0].drain().as_secs() >= 10, "its pages are tolerable within 5 s");
    assert_eq!(drain(&[("gate.p99", "1h")]), 20 * 60, "and nobody waits for hours");
}
