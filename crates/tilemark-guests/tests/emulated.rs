//! Guests in QEMU's translator: root, QEMU, the image and the agent are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{RunGroup, guest, in_namespaces, service};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Reply, Request};
use tilemark_guests::{
    CLOCK_BOUND, Expected, GuestError, GuestManager, Origin, QemuManager, QemuSettings, ReadyGuest,
    RunNetwork, StartMode, Wanted, describe, start_all_ready, start_ready, stop_all, write_working_sets,
};
use tilemark_plan::{
    place::GuestPlace,
    plan::{DiskPlan, GuestPlan},
    scenario::{DiskAio, DiskCache, DiskMedium, Role},
};
use tilemark_units::Bytes;

/// Far above what a step takes on a busy machine; a guest that hangs must end the test in the end.
const LIMIT: Duration = Duration::from_secs(900);

/// Starts clones of one template, as many as there are plans; the template's boot nonce is asked of the first.
fn clones(manager: &QemuManager, plans: &[GuestPlan]) -> Vec<ReadyGuest> {
    let service = service(&plans[0]);
    let template = manager.template(&plans[0], &service).unwrap_or_else(|error| panic!("{error:?}"));
    let mode = StartMode::Clone(template);
    let wanted: Vec<_> = plans.iter().map(|plan| Wanted { plan, mode, service: &service }).collect();
    start_all_ready(manager, &wanted, LIMIT, &|_| ()).unwrap_or_else(|error| panic!("{error:?}"))
}

/// A monitor that a guest has taken over is a user whom nobody else is, without power, files, processes and passwords.
fn is_in_sandbox(qemu: u32) {
    let status = fs::read_to_string(format!("/proc/{qemu}/status")).unwrap();
    let of = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim();
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(of(set), format!("{:016x}", 0), "{set}");
    }
    for kind in ["Uid:", "Gid:"] {
        let ids: Vec<u32> = of(kind).split_whitespace().map(|id| id.parse().unwrap()).collect();
        assert!(ids.iter().all(|id| (1_879_048_192..2_147_483_648).contains(id)), "{kind} {ids:?}");
    }
    assert_eq!(Some(of("Groups:")), of("Gid:").split_whitespace().next(), "further groups");
    assert_eq!(of("NSpid:").split_whitespace().last(), Some("1"), "it sees processes: {}", of("NSpid:"));
    assert_eq!((of("NoNewPrivs:"), of("Seccomp:")), ("1", "2"));
    let root = fs::read_dir(format!("/proc/{qemu}/root")).unwrap().count();
    assert_eq!(root, 0, "its root is not empty");
    let limits = fs::read_to_string(format!("/proc/{qemu}/limits")).unwrap();
    let limit = |name: &str| limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    // Of exactly 1 the kernel starts no program of the host for a dump.
    assert_eq!(limit("Max core file size").split_whitespace().collect::<Vec<_>>(), ["1", "1", "bytes"]);
    assert!(limit("Max file size").trim_start().starts_with("1073741824 "), "{limits}");
    let environment = fs::read(format!("/proc/{qemu}/environ")).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let names = environment.split_terminator('\0').map(|one| one.split('=').next().unwrap_or_default());
    assert_eq!(names.collect::<Vec<_>>(), ["PATH", "LANG"]);
}

/// Whether a process has a descriptor of io_uring.
fn has_ring(pid: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let mut named = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    named.any(|name| name.to_string_lossy().contains("io_uring"))
}

fn network_of(pid: &str) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/ns/net")).unwrap()
}

/// Where the run's group hands on the controllers, this group has the limits.
fn in_a_group_of_its_own(qemu: u32, run: &Path, plan: &GuestPlan) {
    let groups = fs::read_to_string(format!("/proc/{qemu}/cgroup")).unwrap();
    let own = run.file_name().unwrap().to_str().unwrap();
    assert!(groups.lines().any(|line| line.ends_with(&format!("/{own}/{}", plan.name))), "{groups}");
}

#[test]
fn an_emulated_guest_boots_and_serves() {
    in_namespaces("an_emulated_guest_boots_and_serves", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        // Before the manager, so that it goes last.
        let run = RunGroup::create(world);
        let cgroup = run.as_ref().map(|run| run.0.clone());
        let settings = QemuSettings { cgroup, ..world.qemu_settings() };
        let manager = QemuManager::new(settings, Arc::clone(&network)).unwrap();
        let plan = guest(0, Role::Web);
        let ready = start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT);
        let ready = ready.unwrap_or_else(|error| panic!("{error:?}"));
        println!("steps: {:?}", ready.steps);
        assert_eq!(manager.origin(ready.id).unwrap(), Origin::Booted);
        let stream = std::net::TcpStream::connect((plan.address, ready.ports[0]));
        assert!(stream.is_ok(), "{stream:?}");
        let processes = manager.processes(ready.id).unwrap();
        assert_eq!(processes.len(), 1, "QEMU");
        is_in_sandbox(processes[0]);
        assert_eq!(
            network_of(&processes[0].to_string()),
            network_of("self"),
            "a network of its own costs time"
        );
        if let Some(run) = &run {
            in_a_group_of_its_own(processes[0], &run.0, &plan);
        }
        manager.stop(ready.id).unwrap();
        if let Some(run) = &run {
            assert!(!run.0.join(&plan.name).exists(), "its control group is left");
        }
        assert!(!common::exists("/sys/class/net/guest0".as_ref()), "its tap is left");
    });
}

#[test]
fn thirty_two_clones_are_thirty_two_guests_and_no_reboots() {
    in_namespaces("thirty_two_clones_are_thirty_two_guests_and_no_reboots", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let plans: Vec<_> = (0..32).map(|index| guest(index, Role::Idle)).collect();
        let mut ready = clones(&manager, &plans);
        let dropped = |guest: &ReadyGuest| manager.port_counts(guest.id).unwrap().dropped;
        let dropped_before: Vec<u64> = ready.iter().map(dropped).collect();
        let mut machine_ids = BTreeSet::new();
        let mut macs = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        let mut random = BTreeSet::new();
        let mut boot_nonces = BTreeSet::new();
        for (plan, ready) in plans.iter().zip(&mut ready) {
            let description = describe(plan, &mut ready.session).unwrap();
            assert_eq!((description.host_name, description.mac), (plan.name.clone(), plan.mac));
            machine_ids.insert(description.machine_id);
            macs.insert(description.mac.0);
            addresses.insert(description.address);
            boot_nonces.insert(description.boot_nonce);
            let Reply::Random(bytes) = ready.session.ask(&Request::Random(16), LIMIT).unwrap() else {
                panic!("no randomness")
            };
            random.insert(bytes);
            assert!(ready.clock_bound <= CLOCK_BOUND);
        }
        assert_eq!(
            [machine_ids.len(), macs.len(), addresses.len(), random.len()],
            [32; 4],
            "no two are the same"
        );
        assert_eq!(boot_nonces.len(), 1, "all continue the one boot of their template");
        let dropped_now: Vec<u64> = ready.iter().map(dropped).collect();
        assert_eq!(dropped_now, dropped_before, "a clone that behaves is not accused");
        // Nothing boots, so no console says anything.
        for guest in &ready {
            assert_eq!(fs::read_to_string(manager.console(guest.id).unwrap()).unwrap(), "");
        }
    });
}

/// Memory that belongs to a process alone and was written, in bytes.
/// The processors that each thread of a process may use, by the thread's name.
fn affinities(pid: u32) -> BTreeSet<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let of = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let of = |key: &str| {
            status.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim().to_owned())
        };
        Some((of("Name:")?, of("Cpus_allowed_list:")?))
    };
    tasks.filter_map(of).collect()
}

#[test]
fn guests_and_clones_have_their_threads_and_memory_where_the_plan_has_them() {
    in_namespaces("guests_and_clones_have_their_threads_and_memory_where_the_plan_has_them", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let online = rustix::thread::sched_getaffinity(None).unwrap();
        let last = (0..1024).rev().find(|id| online.is_set(*id)).unwrap() as u32;
        let placed = |index, vcpus: Vec<Vec<u32>>| {
            let place = GuestPlace { vcpus, emulator: vec![last], nodes: vec![0], ..GuestPlace::default() };
            let processors = place.processors();
            GuestPlan { vcpus: 2, processors, place: Some(place), ..guest(index, Role::Idle) }
        };
        let plans = [placed(0, vec![vec![0], vec![last]]), placed(1, vec![vec![last], vec![0]])];
        let booted = start_ready(&manager, &plans[0], &service(&plans[0]), StartMode::Boot, LIMIT);
        let booted = booted.unwrap_or_else(|error| panic!("{error:?}"));
        let cloned = clones(&manager, &plans[1..]);
        for (ready, plan) in [(&booted, &plans[0]), (&cloned[0], &plans[1])] {
            let [qemu] = manager.processes(ready.id).unwrap()[..] else { panic!("one process") };
            let found = affinities(qemu);
            let name = &plan.name;
            for (number, wanted) in plan.place.as_ref().unwrap().vcpus.iter().enumerate() {
                let is_its = |(name, _): &&(String, String)| name.starts_with(&format!("CPU {number}/"));
                let (_, allowed) = found.iter().find(is_its).unwrap_or_else(|| panic!("{name}: {found:?}"));
                assert_eq!(*allowed, wanted[0].to_string(), "{name}: {found:?}");
            }
            let others = found.iter().filter(|(name, _)| !name.starts_with("CPU "));
            for (thread, allowed) in others {
                assert_eq!(*allowed, last.to_string(), "{name}: {thread}: {found:?}");
            }
            let maps = fs::read_to_string(format!("/proc/{qemu}/numa_maps")).unwrap();
            assert!(maps.lines().all(|line| line.contains(" bind:0")), "{name}: {maps:.2000}");
        }
        stop_all(&manager, &[booted.id, cloned[0].id]).into_iter().for_each(|stopped| stopped.unwrap());
    });
}

fn private_memory(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Private_Dirty:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn what_a_clone_writes_is_its_own_from_then_on() {
    in_namespaces("what_a_clone_writes_is_its_own_from_then_on", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let size = Bytes::from_mib(64);
        let plans: Vec<GuestPlan> = [size, Bytes::default()]
            .into_iter()
            .zip(0..)
            .map(|(working_set, index)| GuestPlan {
                memory: Bytes::from_mib(256),
                working_set,
                ..guest(index, Role::Idle)
            })
            .collect();
        let mut ready = clones(&manager, &plans);
        let of = |guest: &ReadyGuest| private_memory(manager.processes(guest.id).unwrap()[0]) as f64;
        let before: Vec<f64> = ready.iter().map(of).collect();
        write_working_sets(&mut ready, &plans, LIMIT).unwrap_or_else(|error| panic!("{error:?}"));
        let grew: Vec<f64> = ready
            .iter()
            .zip(before)
            .map(|(guest, before)| (of(guest) - before) / size.get() as f64)
            .collect();
        println!("grew by {grew:.3?} of its working set");
        assert!((0.9..1.3).contains(&grew[0]), "{grew:?}");
        assert!(grew[1] < 0.2, "the other one was not asked: {grew:?}");
        // It is free again in the guest, and not on the host.
        let description = describe(&plans[0], &mut ready[0].session).unwrap();
        assert!(description.memory_used < Bytes::from_mib(128), "{description:?}");

        // More than it has is refused, and harms nobody.
        let too_much = [GuestPlan { working_set: Bytes::from_mib(255), ..plans[0].clone() }];
        let error = write_working_sets(&mut ready[..1], &too_much, LIMIT).expect_err("so much is not there");
        assert!(error.to_string().contains("255 MiB of its memory were to be written"), "{error}");
        assert!(describe(&plans[0], &mut ready[0].session).is_ok());
    });
}

#[test]
fn a_clones_clock_is_the_hosts() {
    in_namespaces("a_clones_clock_is_the_hosts", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let plan = guest(0, Role::Idle);
        let mut ready = clones(&manager, std::slice::from_ref(&plan));
        let off = clock_off(&mut ready[0]);
        assert!(off <= 50_000_000, "the guest's clock is at least {} ms off", off / 1_000_000);
    });
}

/// A clone of a template that is an hour old has the clock of an hour ago; so has one whose clock somebody set.
#[test]
fn a_clock_an_hour_off_either_way_is_set_right_before_anything_counts() {
    in_namespaces("a_clock_an_hour_off_either_way_is_set_right_before_anything_counts", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let plan = guest(0, Role::Idle);
        let service = service(&plan);
        let mut ready = clones(&manager, std::slice::from_ref(&plan)).remove(0);
        const HOUR_NS: i64 = 3_600_000_000_000;
        for shift_ns in [-HOUR_NS, HOUR_NS] {
            let Reply::Clock { realtime_ns } =
                ready.session.ask(&Request::Clock { adjust_ns: shift_ns }, LIMIT).unwrap()
            else {
                panic!("no clock")
            };
            let off = i128::from(realtime_ns) - now_ns();
            assert!(
                (off - i128::from(shift_ns)).abs() < i128::from(HOUR_NS) / 2,
                "it was not shifted: {off}"
            );
            let expected = Expected { plan: &plan, id: ready.id, service: &service };
            ready = tilemark_guests::make_ready(&manager, expected, LIMIT).unwrap();
            assert!(ready.clock_bound <= CLOCK_BOUND);
            let off = clock_off(&mut ready);
            assert!(off <= CLOCK_BOUND.as_nanos() as i128, "the clock is at least {off} ns off");
        }
    });
}

fn now_ns() -> i128 {
    tilemark_sys::clock::realtime_ns().into()
}

/// How far a guest's clock is off at least: the narrowest of some questions bounds it from both sides.
fn clock_off(ready: &mut ReadyGuest) -> i128 {
    let mut ask = || {
        let before = now_ns();
        let Reply::Clock { realtime_ns } =
            ready.session.ask(&Request::Clock { adjust_ns: 0 }, LIMIT).unwrap()
        else {
            panic!("no clock")
        };
        let (after, guest) = (now_ns(), i128::from(realtime_ns));
        (before - guest).max(guest - after).max(0)
    };
    (0..20).map(|_| ask()).min().unwrap()
}

/// A guest whose first process only waits: the kernel is up, and nobody answers.
#[test]
fn a_guest_that_never_answers_is_named_with_its_console() {
    in_namespaces("a_guest_that_never_answers_is_named_with_its_console", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = QemuManager::new(world.settings_with_agent(&waiting_program()), network).unwrap();
        let plan = guest(0, Role::Idle);
        let within = Duration::from_secs(8);
        let error =
            start_ready(&manager, &plan, &service(&plan), StartMode::Boot, within).expect_err("it is silent");
        assert!(matches!(error, GuestError::Silent { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with("guest `tile-000-idle` did not answer within 8 s"), "{text}");
        assert!(error.remedy().ends_with("console.log"), "{}", error.remedy());
    });
}

/// A guest whose first process ends at once: its kernel panics.
#[test]
fn a_guest_that_panics_shows_the_last_lines_of_its_console() {
    in_namespaces("a_guest_that_panics_shows_the_last_lines_of_its_console", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = QemuManager::new(world.settings_with_agent(b"no program"), network).unwrap();
        let plan = guest(0, Role::Idle);
        let error =
            start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).expect_err("it panics");
        assert!(matches!(error, GuestError::Ended { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("Kernel panic - not syncing"), "{text}");
        assert!(text.contains("code 0 because the guest reset its machine"), "{text}");
        assert!(error.remedy().ends_with("console.log"), "{}", error.remedy());
    });
}

/// The smallest kernel for QEMU's own loader (an ELF file with a note of type 18, XEN_ELFNOTE_PHYS32_ENTRY): it forgets its table
/// of exceptions and causes one. A processor resets then, before anything can be printed.
fn resetting_kernel() -> Vec<u8> {
    const BASE: u64 = 0x10_0000;
    const NOTE: u64 = 64 + 2 * 56;
    const CODE: u64 = NOTE + 24;
    // lidt from the six zeros behind it; ud2.
    let table = (BASE + CODE + 16) as u32;
    let mut code = vec![0x0f, 0x01, 0x1d];
    code.extend(table.to_le_bytes());
    code.extend([0x0f, 0x0b]);
    code.resize(32, 0);
    let size = CODE + code.len() as u64;
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 62, 0, 1, 0, 0, 0];
    for word in [BASE + CODE, 64, 0] {
        elf.extend(u64::to_le_bytes(word));
    }
    // Flags; sizes of this header, of a program header; two of these; no sections.
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    // To be loaded, readable, writable and executable: the whole file.
    elf.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    for word in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(u64::to_le_bytes(word));
    }
    // The note.
    elf.extend([4, 0, 0, 0, 4, 0, 0, 0]);
    for word in [NOTE, BASE + NOTE, BASE + NOTE, 24, 24, 4] {
        elf.extend(u64::to_le_bytes(word));
    }
    elf.extend([4, 0, 0, 0, 8, 0, 0, 0, 18, 0, 0, 0, b'X', b'e', b'n', 0]);
    elf.extend((BASE + CODE).to_le_bytes());
    elf.extend(code);
    elf
}

#[test]
fn a_guest_that_resets_before_it_prints_anything_is_reported_as_reset() {
    in_namespaces("a_guest_that_resets_before_it_prints_anything_is_reported_as_reset", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let mut settings = world.qemu_settings();
        let image = settings.image.as_mut().unwrap();
        image.vmlinux = world.folder.join("vmlinux");
        fs::write(&image.vmlinux, resetting_kernel()).unwrap();
        let manager = QemuManager::new(settings, network).unwrap();
        let plan = guest(0, Role::Idle);
        let error =
            start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).expect_err("it resets");
        assert!(matches!(error, GuestError::Ended { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("code 0 because the guest reset its machine"), "{text}");
        assert!(text.ends_with("console.log is empty"), "{text}");
    });
}

/// The smallest program that waits for ever: an ELF header, one program header, `pause` in a loop.
fn waiting_program() -> Vec<u8> {
    const CODE: [u8; 9] = [0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7];
    const BASE: u64 = 0x40_0000;
    const HEADERS: u64 = 64 + 56;
    let mut elf = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    // An executable for x86-64, of the first version.
    elf.extend([2, 0, 62, 0, 1, 0, 0, 0]);
    for word in [BASE + HEADERS, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    // Flags; sizes of this header, of a program header; one of these; no sections.
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0]);
    // To be loaded, readable and executable: the whole file.
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    let size = HEADERS + CODE.len() as u64;
    for word in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(CODE);
    elf
}

#[test]
fn a_guest_without_a_root_says_so_on_its_console() {
    in_namespaces("a_guest_without_a_root_says_so_on_its_console", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let mut settings = world.qemu_settings();
        let image = settings.image.as_mut().unwrap();
        image.root_erofs = world.folder.join("not-erofs");
        fs::write(&image.root_erofs, vec![0; 1 << 20]).unwrap();
        let manager = QemuManager::new(settings, network).unwrap();
        let plan = guest(0, Role::Idle);
        let error =
            start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).expect_err("no root");
        assert!(matches!(error, GuestError::Ended { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("guest `tile-000-idle` ended: QEMU ended with code 0"), "{text}");
        assert!(text.contains("cannot mount erofs on /lower"), "{text}");
        assert!(error.remedy().ends_with("console.log"), "{}", error.remedy());
    });
}

#[test]
fn a_qemu_that_refuses_its_command_line_is_quoted() {
    in_namespaces("a_qemu_that_refuses_its_command_line_is_quoted", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let mut settings = world.qemu_settings();
        settings.machine = "no-such-machine".to_owned();
        let manager = QemuManager::new(settings, network).unwrap();
        let plan = guest(0, Role::Idle);
        let error =
            start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).expect_err("no machine");
        assert!(error.to_string().contains("unsupported machine type"), "{error}");
    });
}

#[test]
fn data_disks_are_there_in_booted_guests_and_in_clones() {
    in_namespaces("data_disks_are_there_in_booted_guests_and_in_clones", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let mut plan = guest(0, Role::Disk);
        let disk = DiskPlan::new(Bytes::from_mib(16), DiskMedium::Memory);
        plan.disks = vec![disk.clone(), disk];
        let service = service(&plan);
        let template = manager.template(&plan, &service).unwrap_or_else(|error| panic!("{error:?}"));
        for mode in [StartMode::Boot, StartMode::Clone(template)] {
            let mut ready =
                start_ready(&manager, &plan, &service, mode, LIMIT).unwrap_or_else(|e| panic!("{e}"));
            let script = "cat /sys/block/vdb/size /sys/block/vdc/size /sys/block/vdb/queue/logical_block_size; \
                          head -c 16 /dev/vdc | tr '\\0' z; printf fresh | dd of=/dev/vdc conv=fsync 2>/dev/null";
            let order = tilemark_agent_protocol::Execute {
                arguments: ["sh", "-c", script].map(str::to_owned).to_vec(),
                within: tilemark_units::Span::from_seconds(60),
            };
            let Reply::Executed { code, output, error } =
                ready.session.ask(&Request::Execute(order), LIMIT).unwrap()
            else {
                panic!("it did not run")
            };
            let text = String::from_utf8(output).unwrap();
            assert_eq!((code, text.as_str()), (0, "32768\n32768\n512\nzzzzzzzzzzzzzzzz"), "{error:?}");
            manager.stop(ready.id).unwrap();
        }
    });
}

#[test]
fn a_qemu_whose_disk_uses_io_uring_reaches_no_network() {
    in_namespaces("a_qemu_whose_disk_uses_io_uring_reaches_no_network", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let mut plan = guest(0, Role::Disk);
        let disk = DiskPlan::new(Bytes::from_mib(16), DiskMedium::Memory);
        plan.disks = vec![DiskPlan { aio: DiskAio::IoUring, cache: DiskCache::Writeback, ..disk }];
        // A ready guest has answered a ping: the tap that its QEMU was handed works all the same.
        let ready = start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT);
        let ready = ready.unwrap_or_else(|error| panic!("{error:?}"));
        let qemu = manager.processes(ready.id).unwrap()[0];
        assert!(has_ring(qemu), "its disk needs one");
        assert_ne!(network_of(&qemu.to_string()), network_of("self"), "a ring opens sockets where this is");
        let devices = fs::read_to_string(format!("/proc/{qemu}/net/dev")).unwrap();
        let names = devices.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim());
        assert_eq!(names.collect::<Vec<_>>(), ["lo"]);
    });
}

#[cfg(feature = "fake")]
#[test]
fn the_emulated_backend_keeps_the_rules_of_every_backend() {
    use tilemark_guests::specification::{Subject, keeps_all};
    in_namespaces("the_emulated_backend_keeps_the_rules_of_every_backend", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let guests = vec![guest(0, Role::Idle), guest(1, Role::Idle)];
        let service = service(&guests[0]);
        keeps_all(&Subject { manager: &manager, guests, service, within: LIMIT });
    });
}

/// Not a test of time: what of one clone's way to being ready is ours, for `cargo xtask bench own-share`. Each clone is alone,
/// and one thread does all of it. Ours are
/// - the whole wall time of `start`: tap, sockets, monitor, the process with its descriptors until QEMU's program runs;
/// - from there on the processor time of that thread (system calls included): identity, entropy, clock, service, ping.
///   The rest of the time it waits for what QEMU or the guest have not answered yet.
#[test]
#[ignore = "a measurement; `cargo xtask bench own-share` runs it, alone"]
fn own_share_of_a_clone() {
    in_namespaces("own_share_of_a_clone", |world| {
        let count: u32 = std::env::var("TILEMARK_TEST_CLONES").map_or(100, |count| count.parse().unwrap());
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.emulated(&network);
        let plan = guest(0, Role::Idle);
        let service = service(&plan);
        let template = manager.template(&plan, &service).unwrap_or_else(|error| panic!("{error:?}"));
        let own_processor = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        for _ in 0..count {
            let (begun, processor) = (Instant::now(), own_processor());
            let id = manager.start(&plan, StartMode::Clone(template)).unwrap();
            let (started, started_processor) = (begun.elapsed(), own_processor());
            let expected = Expected { plan: &plan, id, service: &service };
            tilemark_guests::make_ready(&manager, expected, LIMIT).unwrap();
            let (ready, end_processor) = (begun.elapsed(), own_processor());
            println!(
                "{{\"own_ms\":{:.3},\"start_ms\":{:.3},\"processor_ms\":{:.3},\"ready_ms\":{:.3}}}",
                ms(started + (end_processor - started_processor)),
                ms(started),
                ms(end_processor - processor),
                ms(ready),
            );
            manager.stop(id).unwrap();
        }
    });
}
