//! What is read from a host, as a specification, on trees of files.
#![allow(missing_docs, clippy::unwrap_used)]

mod fixture;

use fixture::{Server, usable};
use tilemark_host::{TreeHost, read_facts};
use tilemark_plan::{
    facts::{Fact, HostFacts, Smt, Turbo, Virtualisation},
    place::{FreeHugePages, Topology},
};
use tilemark_units::Bytes;

fn read(server: &Server) -> HostFacts {
    read_facts(&server.host(), usable())
}

#[test]
fn a_whole_server_is_read() {
    let facts = read(&Server::new());
    assert_eq!(facts.host_name, Fact::Value("alpha".into()));
    assert_eq!(facts.distribution, Fact::Value("Debian GNU/Linux 12 (bookworm)".into()));
    assert_eq!(facts.virtualisation, Fact::Value(Virtualisation::None));
    assert_eq!(facts.processors.model, Fact::Value("Model X".into()));
    assert_eq!(facts.processors.microcode, Some(Fact::Value("0xde".into())));
    assert_eq!(facts.processors.sockets, Fact::Value(2));
    assert_eq!(facts.processors.cores, Fact::Value(4));
    assert_eq!(facts.processors.threads_online, Fact::Value(8));
    assert_eq!(facts.processors.smt, Fact::Value(Smt::On));
    assert_eq!(facts.processors.threads[5].siblings, [1, 5]);
    assert_eq!(facts.processors.flags, ["vmx", "ept", "nonstop_tsc"]);
    let nodes = facts.numa_nodes.value().unwrap();
    assert_eq!(nodes[1].threads, [2, 3, 6, 7]);
    assert_eq!(nodes[1].memory_bytes, Fact::Value(8 << 20));
    assert_eq!(facts.memory.bytes_total, Fact::Value(32 << 30));
    assert_eq!(facts.memory.swap_bytes_used, Fact::Value(0));
    let pools = facts.memory.huge_pages.value().unwrap();
    assert_eq!((pools[0].page_bytes, pools[0].count_total, pools[0].count_free), (2 << 20, 64, 60));
    let iommu = facts.iommu.value().unwrap();
    assert_eq!((iommu.groups, iommu.kinds.len()), (3, 2));
    assert_eq!(facts.control_groups.value().unwrap().mount_point, "/sys/fs/cgroup");
    assert_eq!(facts.steal_fraction_since_boot, Fact::Value(0.001));
    assert_eq!(facts.frequency.governors, Fact::Value(vec!["performance".into()]));
    assert_eq!(facts.frequency.turbo, Fact::Value(Turbo::Off));
    assert_eq!(facts.energy_zones, Fact::Value(vec!["package-0".into()]));
    let loops = facts.loop_devices.value().unwrap();
    assert_eq!((loops.existing, loops.in_use), (2, 1));
    assert_eq!(facts.tools[0].version, Fact::Value("7.2.22".into()));
    assert_eq!(facts.running_guests, Fact::Value(vec![]));
}

#[test]
fn an_empty_host_has_a_reason_in_place_of_every_fact() {
    let folder = tempfile::tempdir().unwrap();
    let facts = read_facts(&TreeHost::new(folder.path()), usable());
    let reason = facts.memory.bytes_total.why_missing().unwrap();
    assert!(reason.contains("/proc/meminfo"), "{reason}");
    for missing in [
        facts.processors.threads_online.why_missing(),
        facts.processors.cores.why_missing(),
        facts.memory.swap_bytes_used.why_missing(),
        facts.steal_fraction_since_boot.why_missing(),
        facts.iommu.why_missing(),
        facts.numa_nodes.why_missing(),
        facts.running_guests.why_missing(),
        facts.devices.tun.why_missing(),
        facts.energy_zones.why_missing(),
        facts.frequency.turbo.why_missing(),
        facts.tools[0].path.why_missing(),
    ] {
        assert!(missing.is_some_and(|reason| !reason.is_empty()));
    }
}

#[test]
fn a_thread_without_topology_makes_cores_unknown_rather_than_fewer() {
    let facts = read(&Server::new().without("sys/devices/system/cpu/cpu3/topology"));
    assert_eq!(facts.processors.threads_online, Fact::Value(8));
    assert!(facts.processors.cores.value().is_none());
}

#[test]
fn offline_siblings_are_no_smt() {
    let facts = read(&Server::new().with("sys/devices/system/cpu/online", "0-3\n"));
    assert_eq!(facts.processors.smt, Fact::Value(Smt::Off));
    assert_eq!(facts.processors.threads_online, Fact::Value(4));
}

#[test]
fn qemu_is_found_under_the_name_that_red_hat_gives_it() {
    let server = Server::new();
    let host = TreeHost::new(server.root())
        .with_program("/usr/libexec/qemu-kvm", "QEMU emulator version 8.2.0 (qemu-kvm-8.2.0)\n");
    let qemu = read_facts(&host, usable()).tools.remove(0);
    assert_eq!(qemu.name, "qemu-system-x86_64");
    assert_eq!(qemu.path, Fact::Value("/usr/libexec/qemu-kvm".into()));
    assert_eq!(qemu.version, Fact::Value("8.2.0".into()));
}

#[test]
fn guests_that_already_run_are_found_by_their_command_lines() {
    let command_line = "/usr/bin/qemu-system-x86_64\0-name\0guest=db,debug-threads=on\0-m\x001G\0";
    let facts = read(&Server::new().with("proc/4242/cmdline", command_line));
    let guests = facts.running_guests.value().unwrap();
    assert_eq!(guests.len(), 1);
    assert_eq!((guests[0].pid, &guests[0].name), (4242, &Fact::Value("db".to_owned())));
}

#[test]
fn facts_survive_being_written_and_read() {
    let facts = read(&Server::new());
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<HostFacts>(&text).unwrap(), facts);
}

#[test]
fn nodes_cores_offline_threads_and_free_huge_pages_become_the_topology_of_a_plan() {
    let server = Server::new()
        .with("sys/devices/system/cpu/present", "0-9\n")
        .with("sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages", "40\n")
        .with("sys/devices/system/node/node1/hugepages/hugepages-2048kB/free_hugepages", "36\n");
    let topology = Topology::of(&read(&server));
    assert_eq!(topology.cores, [[0, 4], [1, 5], [2, 6], [3, 7]]);
    assert_eq!(topology.offline, [8, 9]);
    let [first, second] = topology.nodes.as_slice() else { panic!("{topology:?}") };
    assert_eq!((first.id, &*first.threads, first.memory), (0, &[0, 1, 4, 5][..], Some(Bytes::from_mib(16))));
    assert_eq!(first.huge_pages, []);
    assert_eq!(second.huge_pages, [FreeHugePages { size: Bytes::from_mib(2), free: 36, total: 40 }]);
    let none = Topology::of(&read(&Server::new().without("sys/devices/system/node")));
    assert_eq!((none.nodes, none.cores.len()), (vec![], 4));
}
