//! What doctor says about a host, as a specification.
#![allow(missing_docs, clippy::unwrap_used)]

mod fixture;

use fixture::{Server, usable};
use tilemark_host::doctor::{DoctorReport, Finding, Severity, Style, diagnose, render_text, report};
use tilemark_host::read_facts;
use tilemark_plan::facts::{Accelerator, AcceleratorVerdict, AskedBy, Fact, HostFacts, Virtualisation};
use tilemark_plan::plan::Backend;

fn facts(server: &Server) -> HostFacts {
    read_facts(&server.host(), usable())
}

fn found<'f>(findings: &'f [Finding], key: &str) -> &'f Finding {
    findings
        .iter()
        .find(|finding| finding.key == key)
        .unwrap_or_else(|| panic!("no `{key}` in {findings:#?}"))
}

fn keys(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.key.as_str()).collect()
}

#[test]
fn nothing_is_short_on_a_good_server() {
    assert_eq!(keys(&diagnose(&facts(&Server::new()))), Vec::<&str>::new());
}

#[test]
fn mitigations_that_nobody_switched_off_are_not_to_be_switched_on() {
    let remedy = |line: &str| {
        let weak = ("sys/devices/system/cpu/vulnerabilities/l1tf", "Vulnerable\n");
        let server = Server::new().with(weak.0, weak.1).with("proc/cmdline", line);
        found(&diagnose(&facts(&server)), "mitigations-off").remedy.clone()
    };
    assert!(remedy("quiet mitigations=off\n").contains("without mitigations=off"));
    for line in ["quiet\n", "mitigations=auto,no_guest_host\n"] {
        assert!(remedy(line).contains("microcode"), "{line}");
    }
}

#[test]
fn a_slow_accelerator_blocks_its_backend_and_no_other() {
    for verdict in [AcceleratorVerdict::TooSlow, AcceleratorVerdict::Absent, AcceleratorVerdict::Unknown] {
        let mut facts = facts(&Server::new());
        facts.accelerators.kvm = Accelerator { verdict, reason: "3600 times slower".into(), figures: None };
        let findings = diagnose(&facts);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].blocks, [Backend::Kvm]);
        assert!(findings[0].what.contains("3600 times slower"));
    }
}

#[test]
fn every_shortfall_is_named_with_cost_and_remedy() {
    let without = [
        ("dev/net/tun", "no-tun", Severity::Blocks),
        ("dev/vhost-net", "no-vhost-net", Severity::Distorts),
        ("dev/loop-control", "no-loop", Severity::Limits),
        ("proc/self/mountinfo", "no-cgroup-2", Severity::Blocks),
        ("proc/pressure", "no-pressure", Severity::Limits),
        ("sys/kernel/iommu_groups", "no-iommu", Severity::NiceToHave),
        ("sys/class/powercap", "no-energy", Severity::NiceToHave),
    ];
    for (path, key, severity) in without {
        let findings = diagnose(&facts(&Server::new().without(path)));
        assert_eq!(keys(&findings), [key]);
        assert_eq!(findings[0].severity, severity);
        assert!(!findings[0].cost.is_empty() && !findings[0].remedy.is_empty());
    }
    let with = [
        ("sys/fs/cgroup/cgroup.controllers", "hugetlb\n", "cgroup-controllers"),
        ("sys/kernel/mm/ksm/run", "1\n", "same-page-merging"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n", "no-huge-pages"),
        ("sys/devices/system/cpu/cpufreq/policy4/scaling_governor", "powersave\n", "governor"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n", "turbo"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n", "slow-clock"),
        ("sys/devices/system/cpu/vulnerabilities/l1tf", "Vulnerable\n", "mitigations-off"),
        ("proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\n", "steal"),
        ("proc/77/cmdline", "qemu-system-x86_64\0-S\0", "guests-running"),
        ("proc/cpuinfo", "model name : M\nflags : fpu hypervisor\n", "virtual-host"),
        (
            "proc/meminfo",
            "MemTotal: 9 kB\nMemAvailable: 9 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
            "little-memory",
        ),
    ];
    for (path, text, key) in with {
        assert_eq!(keys(&diagnose(&facts(&Server::new().with(path, text)))), [key]);
    }
}

#[test]
fn a_twins_memory_is_said_to_be_without_limit_only_where_that_controller_lacks() {
    let cost = |controllers| {
        let server = Server::new().with("sys/fs/cgroup/cgroup.controllers", controllers);
        diagnose(&facts(&server))[0].cost.clone()
    };
    assert!(cost("cpu io\n").contains("its memory has no limit"));
    assert!(!cost("cpu memory\n").contains("memory"));
}

#[test]
fn tools_block_what_needs_them() {
    let server = Server::new();
    let host = tilemark_host::TreeHost::new(server.root());
    let findings = diagnose(&read_facts(&host, usable()));
    assert_eq!(keys(&findings), ["no-qemu", "no-mmdebstrap", "no-mkfs-erofs", "no-mkfs-xfs"]);
    assert_eq!(findings[0].blocks, [Backend::Kvm, Backend::Emulated]);
    let host = host.with_program("/usr/bin/qemu-system-x86_64", "QEMU emulator version 6.2.0\n");
    assert_eq!(keys(&diagnose(&read_facts(&host, usable())))[0], "old-qemu");
}

#[test]
fn an_ordinary_user_sees_what_needs_root() {
    let facts = HostFacts { asked_by: Fact::Value(AskedBy::User), ..facts(&Server::new()) };
    assert_eq!(found(&diagnose(&facts), "not-root").blocks, Backend::ALL);
}

#[test]
fn findings_come_worst_first() {
    let server =
        Server::new().without("sys/kernel/iommu_groups").without("dev/vhost-net").without("dev/net/tun");
    assert_eq!(keys(&diagnose(&facts(&server))), ["no-tun", "no-vhost-net", "no-iommu"]);
}

#[test]
fn the_verdict_is_at_the_top_of_the_json() {
    let facts = facts(&Server::new().without("dev/net/tun"));
    let findings = diagnose(&facts);
    let document = serde_json::to_value(report(facts, findings)).unwrap();
    assert_eq!(document["accelerators"]["kvm"]["verdict"], "usable");
    assert_eq!(document["backends"][0]["backend"], "kvm");
    assert_eq!(document["backends"][0]["blocked_by"][0], "no-tun");
    assert_eq!(document["backends"][2]["blocked_by"].as_array().unwrap().len(), 0);
    serde_json::from_value::<DoctorReport>(document).unwrap();
}

#[test]
fn the_text_fits_a_terminal_and_says_everything() {
    let folder = tempfile::tempdir().unwrap();
    let facts = read_facts(&tilemark_host::TreeHost::new(folder.path()), usable());
    let findings = diagnose(&facts);
    let text = render_text(&facts, &findings, Style::Plain);
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
        assert_eq!(line.trim_end(), line);
    }
    for finding in &findings {
        assert!(text.contains(&finding.key), "{} is missing", finding.key);
    }
    assert!(!text.contains('\x1b'));
    assert!(render_text(&facts, &findings, Style::Colour).contains('\x1b'));
}

#[test]
fn a_host_that_is_itself_emulated_is_distinguished_from_one_that_is_virtual() {
    let guest_of = |signature: &str| HostFacts {
        virtualisation: Fact::Value(Virtualisation::Guest { hypervisor: Fact::Value(signature.to_owned()) }),
        ..facts(&Server::new())
    };
    assert_eq!(keys(&diagnose(&guest_of("TCGTCGTCGTCG"))), ["emulated-host"]);
    let under = diagnose(&guest_of("KVMKVMKVM"));
    assert_eq!(
        (keys(&under), under[0].what.as_str()),
        (vec!["virtual-host"], "this host is itself a guest of KVM")
    );
    let page = render_text(&guest_of("KVMKVMKVM"), &under, Style::Plain);
    assert!(page.contains("runs on            a hypervisor: KVM\n"), "{page}");
}

#[test]
fn libvirt_is_checked_where_it_is_installed() {
    let found = |server: &Server| tilemark_host::doctor::libvirt(&server.host());
    assert_eq!(found(&Server::new()), []);
    let server =
        Server::new().with("etc/libvirt/libvirtd.conf", "#max_workers = 20\nmax_client_requests = 300\n");
    let [finding] = found(&server).try_into().unwrap();
    assert_eq!(finding.key, "libvirtd-limits");
    assert_eq!(finding.what, "libvirtd has max_workers = 20 (/etc/libvirt/libvirtd.conf)");
    assert!(
        finding.remedy.contains("for 256 write max_workers = 300 into /etc/libvirt/libvirtd.conf"),
        "{}",
        finding.remedy
    );
    assert!(finding.blocks.is_empty());
    let raised = "max_clients = 300\nmax_workers = 300\nmax_client_requests = 300\n";
    assert_eq!(found(&server.with("etc/libvirt/libvirtd.conf", raised)), []);
}

#[test]
fn of_two_daemons_of_libvirt_the_one_that_runs_is_checked() {
    let server = Server::new().with("etc/libvirt/libvirtd.conf", "").with("etc/libvirt/virtqemud.conf", "");
    let keys = |server: &Server| -> Vec<String> {
        tilemark_host::doctor::libvirt(&server.host()).into_iter().map(|finding| finding.key).collect()
    };
    assert_eq!(keys(&server), ["virtqemud-limits", "libvirtd-limits"]);
    assert_eq!(keys(&server.with("run/virtqemud.pid", "12\n")), ["virtqemud-limits"]);
}
