//! Which processors and which memory guests get, on hosts of all shapes.

#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use tilemark_fixtures::{host, request};
use tilemark_plan::{
    parse::Draft,
    place::{FreeHugePages, GuestPlace, HostNode, Topology, in_words},
    plan::{Backend, GuestPlan, HostSummary, Plan},
    resolve::{Request, Sides, resolve},
};
use tilemark_units::{Bytes, ranges};

/// Guests of a tile, and the rest of a scenario.
fn scenario(guests: &str, rest: &str) -> String {
    format!("schema = 1\nname = \"m\"\nabout = \"m\"\n{guests}\n[ladder]\ntiles = [1]\n{rest}\n")
}

fn guest(vcpus: u32) -> String {
    format!("[[guest]]\nname = \"web\"\nrole = \"idle\"\nvcpus = {vcpus}\n")
}

/// A host with so many nodes of so many threads each, and 32 GiB on each node. `smt`: two threads of a core are half of a node apart.
fn nodes(sizes: &[u32], smt: bool) -> HostSummary {
    let mut topology = Topology::default();
    let mut next = 0;
    for (id, size) in (0..).zip(sizes) {
        let threads: Vec<u32> = (next..next + size).collect();
        next += size;
        let half = threads.len() / 2;
        let cores: Vec<Vec<u32>> = if smt {
            (0..half).map(|core| vec![threads[core], threads[core + half]]).collect()
        } else {
            threads.iter().map(|thread| vec![*thread]).collect()
        };
        topology.cores.extend(cores);
        let memory = Some(Bytes::from_gib(32));
        topology.nodes.push(HostNode { id, threads, memory, huge_pages: Vec::new() });
    }
    HostSummary { topology, ..host(next, Bytes::from_gib(32 * sizes.len() as u64)) }
}

/// The paper's: 8 nodes with 6 processors each, all of them for guests too.
fn paper() -> HostSummary {
    nodes(&[6; 8], false)
}

const SHARED: &str = "[host]\nload_processors = \"shared\"";

fn asked(tiles: u32) -> Request {
    Request { tiles: Some(vec![tiles]), ..request(&[Backend::Kvm]) }
}

fn planned(text: &str, request: &Request, host: &HostSummary) -> Plan {
    resolve(&Draft::from_toml(text, "test").unwrap(), request, host).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str, request: &Request, host: &HostSummary) -> String {
    let problems = match Draft::from_toml(text, "test").unwrap().finish() {
        Err(problems) => problems,
        Ok(_) => match resolve(&Draft::from_toml(text, "test").unwrap(), request, host) {
            Ok(_) => return String::new(),
            Err(problems) => problems,
        },
    };
    format!("{problems}; to fix: {}", problems.remedy())
}

fn with_rule(rule: &str, vcpus: u32, tiles: u32, host: &HostSummary) -> Plan {
    let rest = format!("{SHARED}\n[place]\n{rule}\n[measure]\nstart = \"boot\"");
    planned(&scenario(&guest(vcpus), &rest), &asked(tiles), host)
}

fn places(plan: &Plan) -> Vec<&GuestPlace> {
    plan.points[0].guests.iter().map(|guest| guest.place.as_ref().unwrap()).collect()
}

/// How many guests have their memory on each node.
fn guests_by_node(plan: &Plan) -> BTreeMap<Vec<u32>, usize> {
    let mut found = BTreeMap::new();
    for place in places(plan) {
        *found.entry(place.nodes.clone()).or_default() += 1;
    }
    found
}

fn vcpus(plan: &Plan) -> Vec<String> {
    let of = |place: &&GuestPlace| place.vcpus.iter().map(ranges).collect::<Vec<_>>().join(" ");
    places(plan).iter().map(of).collect()
}

#[test]
fn guests_stay_where_they_were_unless_a_place_is_asked_for() {
    let plan = planned(&scenario(&guest(2), ""), &asked(3), &paper());
    for guest in &plan.points[0].guests {
        assert_eq!((&guest.place, &guest.processors), (&None, &plan.processors.guests));
    }
    assert_eq!(in_words(&plan), Vec::<String>::new());
    let text = serde_json::to_string(&plan).unwrap();
    assert!(!text.contains("hugepages\":") && !text.contains("\"place\""), "{text}");
}

#[test]
fn per_node_gives_each_guest_a_whole_node_in_turn() {
    let plan = with_rule("guests = \"per-node\"", 2, 16, &paper());
    assert_eq!(guests_by_node(&plan), (0..8).map(|node| (vec![node], 2)).collect());
    let third = places(&plan)[2];
    assert_eq!(third.vcpus, vec![vec![12, 13, 14, 15, 16, 17]; 2]);
    assert_eq!(third.emulator, [12, 13, 14, 15, 16, 17]);
    assert_eq!(plan.points[0].guests[2].processors, third.emulator);
}

#[test]
fn spread_gives_each_virtual_processor_one_and_none_two_before_all_have_one() {
    let host = paper();
    let plan = with_rule("guests = \"spread\"", 2, 24, &host);
    let mut users: BTreeMap<u32, u32> = BTreeMap::new();
    for set in places(&plan).iter().flat_map(|place| &place.vcpus) {
        let [id] = set.as_slice() else { panic!("{set:?}") };
        *users.entry(*id).or_default() += 1;
    }
    assert_eq!(users, host.threads.iter().map(|id| (*id, 1)).collect());
    assert_eq!(&vcpus(&plan)[..2], ["0 1", "6 7"]);
}

#[test]
fn pack_fills_a_node_before_the_next() {
    let plan = with_rule("guests = \"pack\"", 2, 5, &paper());
    assert_eq!(vcpus(&plan), ["0 1", "2 3", "4 5", "6 7", "8 9"]);
    // Four do not fit beside four on six: the node after it has them.
    let plan = with_rule("guests = \"pack\"", 4, 3, &paper());
    assert_eq!(vcpus(&plan), ["0 1 2 3", "6 7 8 9", "12 13 14 15"]);
}

#[test]
fn pairs_are_two_threads_of_a_core_or_neighbours() {
    let plan = with_rule("guests = \"pairs\"", 2, 4, &nodes(&[4, 4], false));
    assert_eq!(vcpus(&plan), ["0-1 0-1", "4-5 4-5", "2-3 2-3", "6-7 6-7"]);
    let plan = with_rule("guests = \"pairs\"", 2, 4, &nodes(&[4, 4], true));
    assert_eq!(vcpus(&plan), ["0,2 0,2", "4,6 4,6", "1,3 1,3", "5,7 5,7"]);
    let plan = with_rule("guests = \"pairs\"\nsiblings = \"apart\"", 2, 2, &nodes(&[4, 4], true));
    assert_eq!(vcpus(&plan), ["0-1 0-1", "4-5 4-5"]);
    // The odd one is in no pair, and of three virtual processors the third has a pair of its own.
    let plan = with_rule("guests = \"pairs\"", 3, 1, &nodes(&[5], false));
    assert_eq!(vcpus(&plan), ["0-1 0-1 2-3"]);
    let plan = with_rule("guests = \"pairs\"", 1, 2, &nodes(&[1], false));
    assert_eq!(vcpus(&plan), ["0", "0"]);
}

#[test]
fn threads_of_a_core_are_used_together_or_apart() {
    let host = nodes(&[8], true);
    let of = |rule: &str| vcpus(&with_rule(rule, 2, 2, &host));
    assert_eq!(of("guests = \"spread\""), ["0 1", "2 3"]);
    assert_eq!(of("guests = \"spread\"\nsiblings = \"together\""), ["0 4", "1 5"]);
    assert_eq!(of("guests = \"pack\""), ["0 4", "1 5"]);
    assert_eq!(of("guests = \"pack\"\nsiblings = \"apart\""), ["0 1", "2 3"]);
}

#[test]
fn a_larger_node_gets_more_guests_and_one_without_processors_none() {
    let plan = with_rule("guests = \"per-node\"", 1, 9, &nodes(&[4, 2, 0, 12], false));
    assert_eq!(guests_by_node(&plan), [(vec![0], 2), (vec![1], 1), (vec![3], 6)].into());
    // Memory fills a node as processors do.
    let mut host = nodes(&[4, 4], false);
    host.topology.nodes[1].memory = Some(Bytes::from_gib(2));
    let big = guest(1).replace("vcpus", "memory = \"1GiB\"\nvcpus");
    let rest = format!("{SHARED}\n[place]\nguests = \"per-node\"\n[measure]\nstart = \"boot\"");
    let plan = planned(&scenario(&big, &rest), &asked(4), &host);
    assert_eq!(guests_by_node(&plan), [(vec![0], 3), (vec![1], 1)].into());
}

#[test]
fn the_load_keeps_its_processors() {
    let rest = "[place]\nguests = \"pack\"\n[measure]\nstart = \"boot\"";
    let plan = planned(&scenario(&guest(2), rest), &asked(30), &paper());
    assert_eq!(plan.processors.load, (0..12).collect::<Vec<u32>>());
    for guest in &plan.points[0].guests {
        assert!(guest.processors.iter().all(|id| !plan.processors.load.contains(id)), "{guest:?}");
    }
    assert_eq!(guests_by_node(&plan).len(), 6, "nodes 0 and 1 are the load's");
}

#[test]
fn a_guest_wider_than_a_node_sees_nodes_of_its_own() {
    let wide = guest(16).replace("vcpus", "memory = \"4GiB\"\nvcpus");
    let rest = format!("{SHARED}\n[place]\nguests = \"per-node\"\n[measure]\nstart = \"boot\"");
    let plan = planned(&scenario(&wide, &rest), &asked(2), &paper());
    let place = places(&plan)[0];
    assert_eq!(place.nodes, [0, 1, 2]);
    let seen: Vec<_> =
        place.virtual_nodes.iter().map(|node| (node.node, node.first_vcpu, node.vcpus)).collect();
    assert_eq!(seen, [(0, 0, 6), (1, 6, 5), (2, 11, 5)]);
    assert_eq!(place.virtual_nodes.iter().map(|node| node.memory.get()).sum::<u64>(), 4 << 30);
    assert!(place.virtual_nodes.iter().all(|node| node.memory.get() % (1 << 20) == 0));
    assert_eq!(place.vcpus[6], [6, 7, 8, 9, 10, 11]);
    assert_eq!(places(&plan)[1].nodes, [3, 4, 5], "the emptier ones");
    let cloned = scenario(&wide, &format!("{SHARED}\n[place]\nguests = \"per-node\""));
    let said = refused(&cloned, &asked(1), &paper());
    assert!(
        said.contains("guest `web` is wider than a NUMA node") && said.contains("`measure.start = \"boot\"`"),
        "{said}"
    );
}

#[test]
fn a_twin_has_one_processor_for_each_virtual_one_where_its_guest_is() {
    let native = Request { backends: vec![Backend::Native], ..asked(4) };
    let rest = format!("{SHARED}\n[place]\nguests = \"per-node\"");
    let plan = planned(&scenario(&guest(2), &rest), &native, &nodes(&[4, 4], false));
    assert_eq!(vcpus(&plan), ["0 1", "4 5", "2 3", "6 7"]);
    assert_eq!(guests_by_node(&plan), [(vec![0], 2), (vec![1], 2)].into());
    let with_pages = guest(1) + "hugepages = \"2MiB\"\n";
    let plan = planned(&scenario(&with_pages, ""), &native, &paper());
    assert!(plan.points[0].guests.iter().all(|guest| guest.hugepages.is_none()));
}

const TWO: &str =
    "[[guest]]\nname = \"web\"\nrole = \"idle\"\n[[guest]]\nname = \"database\"\nrole = \"idle\"\n";

#[test]
fn a_map_puts_guests_by_name_and_the_rule_those_that_it_does_not_name() {
    let map = "[place.map]\n\"tile-00*-web\" = \"node:1\"\n\"*-database\" = \"cpus:2-3,40\"";
    let plan = planned(&scenario(TWO, &format!("{SHARED}\n{map}")), &asked(2), &paper());
    let place = |name: &str| {
        let of = |guest: &&GuestPlan| guest.name == name;
        plan.points[0].guests.iter().find(of).unwrap().place.clone().unwrap()
    };
    assert_eq!(
        (place("tile-001-web").vcpus, place("tile-002-web").nodes),
        (vec![(6..12).collect()], vec![1])
    );
    assert_eq!(
        (place("tile-001-database").vcpus, place("tile-002-database").nodes),
        (vec![vec![2, 3, 40]], vec![0, 6])
    );
    let rest = format!("{SHARED}\n[place]\nguests = \"pack\"\n[place.map]\n\"*-database\" = \"node:7\"");
    let plan = planned(&scenario(TWO, &rest), &asked(1), &paper());
    assert_eq!(vcpus(&plan), ["0", "42-47"]);
}

#[test]
fn a_map_that_cannot_be_kept_is_refused_with_what_to_do() {
    let mut host = paper();
    host.topology.offline = vec![48, 49];
    for (map, message, remedy) in [
        (
            "\"*-webb\" = \"node:0\"",
            "\"*-webb\" is the name of no guest",
            "guests are called as `tile-001-web`",
        ),
        (
            "\"*\" = \"node:8\"",
            "node 8 does not exist or is offline; this host has 0-7",
            "name a node of this host",
        ),
        ("\"*\" = \"cpus:50\"", "processor 50 does not exist; online are 0-47", "which are 12-47"),
        ("\"*\" = \"cpus:49\"", "processor 49 is offline", "which are 12-47"),
        ("\"*\" = \"cpus:3\"", "processor 3 is the load's", "`host.load_processors = \"shared\"`"),
        (
            "\"*\" = \"node:0\"",
            "all processors of node 0 are the load's",
            "`host.load_processors = \"shared\"`",
        ),
        ("\"*\" = \"socket:0\"", "\"socket:0\" is not a valid place", "write `\"node:0\"` or `\"cpus:2-3\"`"),
        (
            "\"*-web\" = \"node:3\"\n\"tile-001-*\" = \"node:4\"",
            "puts guest `tile-001-web` on node:3 by \"*-web\" and on node:4 by \"tile-001-*\"",
            "change one of the two patterns so that it does not match",
        ),
    ] {
        let said = refused(&scenario(TWO, &format!("[place.map]\n{map}")), &asked(2), &host);
        assert!(said.contains(message) && said.contains(remedy), "{map}: {said}");
    }
    // The same place by two patterns is no contradiction.
    let same = "[place.map]\n\"*-web\" = \"node:3\"\n\"tile-001-*\" = \"node:3\"";
    planned(&scenario(TWO, same), &asked(1), &host);
    let blind = HostSummary { topology: Topology::default(), ..paper() };
    let said = refused(&scenario(TWO, "[place.map]\n\"*\" = \"node:0\""), &asked(1), &blind);
    assert!(said.contains("shows no NUMA nodes"), "{said}");
    let said =
        refused(&scenario(TWO, "[place]\nguests = \"per-node\"\nsiblings = \"apart\""), &asked(1), &host);
    assert!(said.contains("`place.siblings` does nothing with `place.guests = \"per-node\"`"), "{said}");
}

#[test]
fn a_name_that_only_a_later_count_of_a_search_has_is_no_mistake() {
    let text = scenario(TWO, "[place.map]\n\"tile-007-web\" = \"node:3\"");
    assert!(refused(&text, &asked(2), &paper()).contains("is the name of no guest"));
    planned(&text, &Request { search: true, tiles: None, ..asked(1) }, &paper());
}

#[test]
fn huge_pages_must_be_free_where_the_guest_is() {
    let mut host = nodes(&[4, 4], false);
    let pools = |small, large| {
        vec![
            FreeHugePages { size: Bytes::from_mib(2), free: small, total: small },
            FreeHugePages { size: Bytes::from_gib(1), free: large, total: large },
        ]
    };
    host.topology.nodes[0].huge_pages = pools(256, 0);
    host.topology.nodes[1].huge_pages = pools(128, 1);
    let text = |pages: &str, rest: &str| {
        let guest = guest(1) + &format!("hugepages = \"{pages}\"\n");
        scenario(&guest, &format!("{SHARED}\n[measure]\nstart = \"boot\"\n{rest}"))
    };
    let per_node = "[place]\nguests = \"per-node\"";
    // 256 MiB are 128 pages of 2 MiB.
    planned(&text("2MiB", per_node), &asked(2), &host);
    planned(&text("2MiB", ""), &asked(3), &host);
    let said = refused(&text("2MiB", per_node), &asked(4), &host);
    assert!(
        said.contains("4 tiles on kvm need 256 huge pages of 2MiB of node 1, and 128 are free"),
        "{said}"
    );
    assert!(
        said.contains(
            "reserve 128 more: raise /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
        ),
        "{said}"
    );
    let said = refused(&text("2MiB", ""), &asked(4), &host);
    assert!(said.contains("need 512 huge pages of 2MiB, and 384 are free"), "{said}");
    let said = refused(&text("1GiB", ""), &asked(1), &host);
    assert!(
        said.contains("guest `web` has 256MiB of memory, which is not a whole number of pages of 1GiB"),
        "{said}"
    );
    let cloned = scenario(&(guest(1) + "hugepages = \"2MiB\"\n"), SHARED);
    let said = refused(&cloned, &asked(1), &host);
    assert!(
        said.contains("would copy 2MiB for every byte") && said.contains("`measure.start = \"boot\"`"),
        "{said}"
    );
}

#[test]
fn huge_pages_that_a_run_reserves_itself_count() {
    let mut host = nodes(&[4, 4], false);
    let pool = || vec![FreeHugePages { size: Bytes::from_mib(2), free: 10, total: 30 }];
    host.topology.nodes[0].huge_pages = pool();
    host.topology.nodes[1].huge_pages = pool();
    let text = |settings: &str, rest: &str| {
        let guest = guest(1) + "hugepages = \"2MiB\"\n";
        scenario(
            &guest,
            &format!("{SHARED}\n[host.setting]\n{settings}\n[measure]\nstart = \"boot\"\n{rest}"),
        )
    };
    // 256 MiB are 128 pages of 2 MiB. 20 of each node are in use, and stay so.
    planned(&text("\"hugepages.2MiB\" = 168", ""), &asked(1), &host);
    let said = refused(&text("\"hugepages.2MiB\" = 160", ""), &asked(1), &host);
    assert!(said.contains("need 128 huge pages of 2MiB, and 120 are free"), "{said}");
    planned(&text("\"vm.nr_hugepages\" = 168", ""), &asked(1), &host);
    let said = refused(&text("\"vm.nr_hugepages\" = 40000", ""), &asked(1), &host);
    assert!(said.contains("huge pages that `host.setting` reserves need"), "{said}");
    let per_node = "[place]\nguests = \"per-node\"";
    planned(&text("\"hugepages.2MiB.node0\" = 148", per_node), &asked(1), &host);
    let said = refused(&text("\"hugepages.2MiB.node1\" = 148", per_node), &asked(1), &host);
    assert!(said.contains("of node 0, and 10 are free"), "{said}");
    // What a pool holds is no memory for others: two nodes of 32 GiB, and half of that in pages.
    let said = refused(&text("\"hugepages.2MiB\" = 40000", ""), &asked(1), &host);
    assert!(said.contains("huge pages that `host.setting` reserves need"), "{said}");
    let ordinary = |settings: &str| {
        let memory = guest(1) + "memory = \"20GiB\"\n";
        let map = "[place.map]\n\"*\" = \"node:0\"";
        scenario(
            &memory,
            &format!("{SHARED}\n[host.setting]\n{settings}\n[measure]\nstart = \"boot\"\n{map}"),
        )
    };
    planned(&ordinary(""), &asked(1), &host);
    let said = refused(&ordinary("\"hugepages.2MiB.node0\" = 8192"), &asked(1), &host);
    assert!(said.contains("of the memory of node 0, which has 16"), "{said}");
    host.topology.nodes[0].huge_pages[0].total = 8192;
    assert!(refused(&ordinary(""), &asked(1), &host).contains("which has 16"), "it is there already");
}

#[test]
fn a_setting_that_leaves_something_without_a_processor_is_refused() {
    let host = nodes(&[8], true);
    let text = |setting: &str, rest: &str| {
        scenario(
            &guest(2),
            &format!("{SHARED}\n[host.setting]\n{setting}\n[measure]\nstart = \"boot\"\n{rest}"),
        )
    };
    // Threads 4 to 7 are the second ones of cores 0 to 3.
    let siblings = "[place]\nguests = \"spread\"\nsiblings = \"together\"";
    let said = refused(&text("smt = \"off\"", siblings), &asked(1), &host);
    assert!(
        said.contains(
            "`host.setting.smt` = off takes away 4-7, and guest `tile-001-web` has no processor but 4"
        ),
        "{said}"
    );
    planned(&text("smt = \"off\"", ""), &asked(1), &host);
    planned(&text("smt = \"on\"", siblings), &asked(1), &host);
    let map = "[place.map]\n\"*\" = \"cpus:2-3\"";
    planned(&text("\"cpuset.isolated\" = \"3\"", map), &asked(1), &host);
    let said = refused(&text("\"cpuset.isolated\" = \"2-4\"", map), &asked(1), &host);
    assert!(said.contains("`host.setting.cpuset.isolated` = 2-4 takes away 2-4, and guest"), "{said}");
    let own = scenario(&guest(1), "[host.setting]\n\"cpuset.isolated\" = \"0,4\"");
    assert!(refused(&own, &asked(1), &host).contains("the load has no processor but 0,4"));
}

#[test]
fn no_guest_is_on_a_sibling_of_the_load() {
    let plan = planned(&scenario(&guest(1), ""), &asked(1), &nodes(&[8, 8], true));
    assert_eq!(plan.processors.load, [0, 1, 4, 5]);
    assert_eq!(plan.processors.guests, [2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    // One core has nothing to part, and cores of one thread are parted as threads.
    assert_eq!(planned(&scenario(&guest(1), ""), &asked(1), &nodes(&[2], true)).processors.load, [0]);
    assert_eq!(planned(&scenario(&guest(1), ""), &asked(1), &nodes(&[8], false)).processors.load, [0, 1]);
}

#[test]
fn memory_that_a_node_does_not_have_is_not_bound_to_it() {
    let mut host = nodes(&[4, 4], false);
    host.topology.nodes[1].memory = Some(Bytes::from_gib(1));
    let text = scenario(
        &guest(1),
        &format!("{SHARED}\n[place.map]\n\"*\" = \"node:1\"\n[measure]\nstart = \"boot\""),
    );
    planned(&text, &asked(3), &host);
    let said = refused(&text, &asked(4), &host);
    assert!(said.contains("of the memory of node 1, which has 1"), "{said}");
}

#[test]
fn a_guest_wider_than_a_node_needs_of_each_what_its_virtual_node_has() {
    let host = nodes(&[8, 4], false);
    let text = |memory: &str| {
        let wide = guest(12).replace("vcpus", &format!("memory = {memory:?}\nvcpus"));
        scenario(&wide, &format!("{SHARED}\n[place]\nguests = \"per-node\"\n[measure]\nstart = \"boot\""))
    };
    // Two thirds of its processors, and so of its memory, are on node 0.
    let said = refused(&text("54GiB"), &asked(1), &host);
    assert!(said.contains("of the memory of node 0, which has 32"), "{said}");
    let plan = planned(&text("40GiB"), &asked(1), &host);
    let shares: Vec<u64> =
        places(&plan)[0].virtual_nodes.iter().map(|node| node.memory.get() >> 30).collect();
    assert_eq!(shares, [26, 13]);
}

#[test]
fn sides_that_a_host_places_alike_are_refused() {
    let sides = |a: &str, b: &str| {
        let side = |value: &str| BTreeMap::from([("place.guests".to_owned(), value.to_owned())]);
        Request { sides: Some(Sides { a: side(a), b: side(b) }), tiles: None, ..asked(1) }
    };
    let text = scenario(&guest(1), SHARED);
    let one_node = nodes(&[2], false);
    let said = refused(&text, &sides("none", "per-node"), &one_node);
    assert!(
        said.contains("`none` and `per-node` put every guest in the same place on this host with 1 NUMA node and 2 threads"),
        "{said}"
    );
    assert_eq!(refused(&text, &sides("none", "spread"), &one_node), "");
    assert_eq!(refused(&text, &sides("none", "per-node"), &nodes(&[2, 2], false)), "");
    let vary = format!(
        "{text}\n[vary.place]\nkey = \"place.guests\"\nvalues = [\"none\", \"spread\", \"per-node\"]"
    );
    assert!(refused(&vary, &asked(1), &one_node).contains("nothing to compare"));
    assert_eq!(refused(&vary, &asked(1), &nodes(&[2, 2], false)), "");
    // Sides that differ in something else may be in the same places.
    let both = scenario(&guest(1), &format!("{SHARED}\n[place]\nguests = \"per-node\""));
    let side = |value: &str| BTreeMap::from([("qemu.machine".to_owned(), value.to_owned())]);
    let machines = Request { sides: Some(Sides { a: side("pc"), b: side("q35") }), tiles: None, ..asked(1) };
    assert_eq!(refused(&both, &machines, &one_node), "");
}

#[test]
fn a_plan_says_in_a_few_lines_where_guests_are() {
    let plan = with_rule("guests = \"per-node\"", 2, 16, &nodes(&[6, 6], false));
    assert_eq!(
        in_words(&plan),
        [
            "8 guests (tile-001-web, …) on processors 0-5, memory on node 0; 8 guests (tile-002-web, …) on processors 6-11, memory on \
             node 1"
        ]
    );
    let many = with_rule("guests = \"spread\"", 2, 24, &paper());
    let words = in_words(&many).concat();
    assert!(words.ends_with("; 20 more places") && words.len() < 400, "{words}");
}

#[test]
fn an_older_plan_has_no_topology_and_no_places() {
    let mut plan = serde_json::to_value(with_rule("guests = \"spread\"", 1, 1, &paper())).unwrap();
    plan["host"].as_object_mut().unwrap().remove("topology");
    plan["points"][0]["guests"][0].as_object_mut().unwrap().remove("place");
    let plan: Plan = serde_json::from_value(plan).unwrap();
    assert_eq!((plan.host.topology.nodes.len(), &plan.points[0].guests[0].place), (0, &None));
}
