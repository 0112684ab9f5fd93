//! A sampler on trees of files, as a specification.
#![allow(missing_docs, clippy::unwrap_used)]

mod fixture;

use fixture::Server;
use tilemark_host::telemetry::{Sampler, Watched, WatchedKind, WatchedSecond, difference};

/// `/proc/PID/stat` of a process with some threads and time.
fn stat(threads: u32, user: u64, system: u64, guest: u64) -> String {
    format!(
        "7 (qemu) S 1 7 7 0 -1 0 0 0 0 0 {user} {system} 0 0 20 0 {threads} 0 99 1000 20 1 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 {guest} 0\n"
    )
}

fn put_guest(server: &Server, user: u64, system: u64, ran_ns: u64, waited_ns: u64) {
    server.put("proc/7/stat", &stat(2, user, system, 0));
    server.put("proc/7/statm", "1000 25 1 1 0 1 0\n");
    server.put("proc/7/io", "read_bytes: 4096\nwrite_bytes: 8192\n");
    server.put("proc/7/task/7/comm", "qemu-system-x86\n");
    server.put("proc/7/task/7/schedstat", "5 5 5\n");
    server.put("proc/7/task/8/comm", "CPU 0/TCG\n");
    server.put("proc/7/task/8/stat", &stat(2, user, system, 0));
    server.put("proc/7/task/8/schedstat", &format!("{ran_ns} {waited_ns} 1\n"));
}

fn guest() -> Watched {
    Watched { name: "web".into(), kind: WatchedKind::QemuGuest, pids: vec![7], group: None }
}

fn second_of(server: &Server, watched: Watched, then: impl Fn()) -> (WatchedSecond, Vec<String>) {
    let mut sampler = Sampler::at_root(server.root(), &[watched]).unwrap();
    let before = sampler.sample();
    then();
    let mut second = difference(&before, &sampler.sample());
    (second.watched.remove(0), second.missing)
}

#[test]
fn a_guest_is_read_from_its_process_and_its_virtual_processors() {
    let server = Server::new();
    put_guest(&server, 0, 0, 0, 0);
    let (web, missing) = second_of(&server, guest(), || put_guest(&server, 30, 10, 390_000_000, 50_000_000));
    // 400 ms used, 390 of them by the virtual processor, 100 of those in the kernel.
    let ratio = web.guest_work.unwrap() / web.threads_used.unwrap();
    assert!((ratio - 290.0 / 400.0).abs() < 1e-9, "{ratio}");
    let rest = web.host_for_guest.unwrap() / web.threads_used.unwrap();
    assert!((rest - 110.0 / 400.0).abs() < 1e-9, "{rest}");
    let wait = web.run_queue_wait.unwrap() / web.threads_used.unwrap();
    assert!((wait - 50.0 / 400.0).abs() < 1e-9, "{wait}");
    assert_eq!(web.resident_bytes, Some(25 * 4096));
    assert_eq!((web.read_bytes, web.written_bytes), (Some(0), Some(0)));
    assert!(!missing.iter().any(|reason| reason.starts_with("web")), "{missing:?}");
}

#[test]
fn a_guest_whose_threads_have_no_names_says_so() {
    let server = Server::new();
    put_guest(&server, 0, 0, 0, 0);
    server.put("proc/7/task/8/comm", "qemu-system-x86\n");
    let (web, missing) = second_of(&server, guest(), || ());
    assert_eq!(web.guest_work, None);
    assert!(missing.iter().any(|reason| reason.contains("debug-threads")), "{missing:?}");
}

#[test]
fn a_process_that_is_not_there_has_no_figures_and_a_reason() {
    let server = Server::new();
    let (web, missing) = second_of(&server, guest(), || ());
    assert_eq!((web.threads_used, web.resident_bytes, web.run_queue_wait), (None, None, None));
    assert!(missing.iter().any(|reason| reason.contains("process 7")), "{missing:?}");
}

#[test]
fn a_group_is_followed_as_its_processes_come_and_go() {
    let server = Server::new();
    put_guest(&server, 0, 0, 0, 0);
    server.put("group/cgroup.procs", "7\n");
    server.put("group/cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0\n");
    server.put("group/cpu.pressure", "some avg10=0.00 total=0\nfull avg10=0.00 total=0\n");
    let group = Some(server.root().join("group"));
    let twin = Watched { name: "twin".into(), kind: WatchedKind::NativeGuest, pids: vec![], group };
    let (twin, _) = second_of(&server, twin, || {
        server.put("proc/9/stat", &stat(1, 0, 0, 0));
        server.put("proc/9/statm", "1000 5 1 1 0 1 0\n");
        server.put("proc/9/task/9/schedstat", "0 0 0\n");
        server.put("group/cgroup.procs", "7\n9\n0\n");
        server.put("group/cpu.stat", "usage_usec 300\nuser_usec 100\nsystem_usec 200\n");
    });
    assert_eq!(twin.resident_bytes, Some(30 * 4096));
    let kernel = twin.threads_used_kernel.unwrap() / twin.threads_used.unwrap();
    assert!((kernel - 2.0 / 3.0).abs() < 1e-9, "{kernel}");
    assert_eq!(twin.guest_work, twin.threads_used);
    assert_eq!(twin.run_queue_wait, None); // other threads than before
    assert!(twin.pressure.cpu.is_some() && twin.pressure.io.is_none());
}

#[test]
fn what_a_host_does_not_report_is_noted_once() {
    let server = Server::new().without("proc/pressure");
    let sampler = Sampler::at_root(server.root(), &[]).unwrap();
    for wanted in ["/proc/pressure/cpu", "/proc/vmstat", "thermal_throttle"] {
        assert!(sampler.missing().iter().any(|reason| reason.contains(wanted)), "{:?}", sampler.missing());
    }
    assert!(Sampler::at_root(server.without("proc/stat").root(), &[]).is_err());
}

/// Two packages that took so much in all, with zones that count the same again.
fn put_energy(server: &Server, first_uj: u64, second_uj: u64) {
    let zones = [
        ("intel-rapl:0", "package-0", first_uj),
        ("intel-rapl:0:0", "core", first_uj),
        ("intel-rapl:0:1", "dram", 77 * first_uj),
        ("intel-rapl:1", "package-1", second_uj),
        ("intel-rapl:2", "psys", first_uj + second_uj),
        ("intel-rapl-mmio:0", "package-0", first_uj),
    ];
    for (zone, name, energy_uj) in zones {
        let folder = format!("sys/class/powercap/{zone}");
        server.put(&format!("{folder}/name"), &format!("{name}\n"));
        server.put(&format!("{folder}/energy_uj"), &format!("{energy_uj}\n"));
        server.put(&format!("{folder}/max_energy_range_uj"), "262143328850\n");
    }
}

/// What a host took from one reading to the next, in microjoules.
fn energy_taken_uj(server: &Server, then: impl Fn()) -> Option<f64> {
    let mut sampler = Sampler::at_root(server.root(), &[]).unwrap();
    let before = sampler.sample();
    then();
    let second = difference(&before, &sampler.sample());
    Some((second.power_w? * second.seconds * 1e6).round())
}

#[test]
fn the_energy_of_all_packages_is_summed_and_none_is_counted_twice() {
    let server = Server::new();
    put_energy(&server, 1_000_000, 5_000_000);
    let taken = energy_taken_uj(&server, || put_energy(&server, 1_250_000, 5_500_000));
    assert_eq!(taken, Some(750_000.0));
    put_energy(&server, 262_143_328_000, 10);
    let taken = energy_taken_uj(&server, || put_energy(&server, 150, 110));
    assert_eq!(taken, Some(1_100.0), "850 to the end of the first, 150 from 0, and 100 of the second");
}

#[test]
fn energy_that_cannot_be_read_of_every_package_is_not_reported() {
    let server = Server::new();
    put_energy(&server, 10, 10);
    // What root cannot read either: a folder in the file's place.
    let server = server.without("sys/class/powercap/intel-rapl:1/energy_uj");
    server.put("sys/class/powercap/intel-rapl:1/energy_uj/x", "");
    assert_eq!(energy_taken_uj(&server, || ()), None);
    let reasons = |server: &Server| {
        let sampler = Sampler::at_root(server.root(), &[]).unwrap();
        assert!(!sampler.counts_energy());
        let reasons = sampler.missing().iter().filter(|reason| reason.contains("powercap"));
        reasons.cloned().collect::<Vec<_>>()
    };
    assert!(reasons(&server)[0].contains("intel-rapl:1/energy_uj: "), "{:?}", reasons(&server));
    let server = server.without("sys/class/powercap");
    assert_eq!(reasons(&server).len(), 1);
    server.put("sys/class/powercap/intel-rapl:0/name", "psys\n");
    assert_eq!(reasons(&server), ["/sys/class/powercap: no zone of a processor's package"]);
}

#[test]
fn this_very_process_is_watched() {
    let own = Watched {
        name: "own".into(),
        kind: WatchedKind::Tilemark,
        pids: vec![std::process::id()],
        group: None,
    };
    let mut sampler = Sampler::new(&[own]).unwrap();
    let before = sampler.sample();
    let second = difference(&before, &sampler.sample());
    assert!(second.watched[0].resident_bytes.unwrap() > 0);
    assert!(second.watched[0].threads_used.is_some());
    assert!(second.memory.unwrap().available_bytes > 0);
    serde_json::to_string(&second).unwrap();
}
