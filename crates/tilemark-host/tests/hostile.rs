//! Figures at the end of their type, and lists without end: nothing panics, wraps, or takes for ever.
#![allow(missing_docs, clippy::unwrap_used)]

mod fixture;

use fixture::Server;
use tilemark_host::{
    parse_list,
    telemetry::{Census, Sampler, Watched, WatchedKind, difference, parse},
};

const MOST: u64 = u64::MAX;

/// All files of a sampler's, with this in the place of every figure.
fn fill(server: &Server, figure: u64) {
    let many = |count: usize| vec![figure.to_string(); count].join(" ");
    server.put("proc/stat", &format!("cpu  {0}\ncpu0 {0}\ncpu1 {0}\n", many(10)));
    server.put("proc/loadavg", &format!("{figure} 1 1 {figure}/9 9\n"));
    let meminfo = ["MemTotal", "MemAvailable", "SwapTotal", "SwapFree"];
    server.put("proc/meminfo", &meminfo.map(|key| format!("{key}: {figure} kB\n")).concat());
    let vmstat = ["pswpin", "pswpout", "oom_kill"];
    server.put("proc/vmstat", &vmstat.map(|key| format!("{key} {figure}\n")).concat());
    server.put("proc/diskstats", &format!(" 8 0 sda {0}\n 8 16 sdb {0}\n", many(17)));
    server.put("proc/thread-self/net/dev", &format!("a\nb\n eth0: {0}\n", many(16)));
    for resource in ["cpu", "memory", "io"] {
        let text = format!("some avg10=0.00 total={figure}\nfull avg10=0.00 total={figure}\n");
        server.put(&format!("proc/pressure/{resource}"), &text);
        server.put(&format!("group/{resource}.pressure"), &text);
    }
    for processor in ["cpu0", "cpu1"] {
        let counter = format!("sys/devices/system/cpu/{processor}/thermal_throttle/core_throttle_count");
        server.put(&counter, &format!("{figure}\n"));
    }
    for zone in ["intel-rapl:0", "intel-rapl:1"] {
        server.put(&format!("sys/class/powercap/{zone}/name"), "package-0\n");
        server.put(&format!("sys/class/powercap/{zone}/energy_uj"), &format!("{figure}\n"));
        server.put(&format!("sys/class/powercap/{zone}/max_energy_range_uj"), &format!("{MOST}\n"));
    }
    for pid in [7, 8] {
        // The number of threads, field 20, stays; a zero makes the first reading list them.
        let stat = format!("{pid} (qemu) S 1 {} 2 0 {figure} {}\n", many(15), many(30));
        server.put(&format!("proc/{pid}/stat"), &stat);
        server.put(&format!("proc/{pid}/statm"), &many(7));
        server.put(&format!("proc/{pid}/io"), &format!("read_bytes: {figure}\nwrite_bytes: {figure}\n"));
        for thread in [0, 10] {
            let folder = format!("proc/{pid}/task/{}", pid + thread);
            server.put(&format!("{folder}/comm"), "CPU 0/KVM\n");
            server.put(&format!("{folder}/stat"), &stat);
            server.put(&format!("{folder}/schedstat"), &many(3));
        }
    }
    server.put("group/cgroup.procs", "7\n8\n");
    let group = ["usage_usec", "user_usec", "system_usec"];
    server.put("group/cpu.stat", &group.map(|key| format!("{key} {figure}\n")).concat());
    server.put("proc/2/comm", "kthreadd\n");
    for id in [20, 21] {
        server.put(&format!("proc/{id}/stat"), &format!("{id} (kworker) S 2 {}\n", many(48)));
    }
}

fn watched(server: &Server) -> [Watched; 2] {
    let qemu = WatchedKind::QemuGuest;
    [
        Watched { name: "alone".into(), kind: qemu, pids: vec![7, 8], group: None },
        Watched {
            name: "group".into(),
            kind: qemu,
            pids: Vec::new(),
            group: Some(server.root().join("group")),
        },
    ]
}

#[test]
fn no_figure_of_the_kernel_s_overflows_forward_or_backward() {
    // Small counters first, then the largest, halves of it and what wraps when it is multiplied; then all backward.
    let figures = [1, 1 << 40, 1 << 54, 1 << 55, MOST / 8, MOST / 2, MOST - 1, MOST];
    let figures: Vec<u64> = figures.iter().chain(figures.iter().rev()).copied().collect();
    let server = Server::new();
    fill(&server, figures[0]);
    let mut sampler = Sampler::at_root(server.root(), &watched(&server)).unwrap();
    let kernel = |server: &Server| Census::read(&server.root().join("proc")).unwrap();
    let (mut before, mut kernel_before) = (sampler.sample(), kernel(&server));
    for figure in figures {
        fill(&server, figure);
        let (after, kernel_after) = (sampler.sample(), kernel(&server));
        let used = kernel_after.kernel_ns_since(&kernel_before).unwrap();
        let second = difference(&before, &after).with_kernel_threads(used);
        if let Some(split) = second.processor {
            assert!((0.0..=1.0).contains(&split.idle) && (0.0..=1.0).contains(&split.other), "{split:?}");
        }
        (before, kernel_before) = (after, kernel_after);
    }
}

#[test]
fn a_figure_that_cannot_be_held_in_its_unit_is_missing_and_no_other_one() {
    let most = MOST.to_string();
    let meminfo = format!("MemAvailable: {most} kB\nSwapTotal: 1 kB\nSwapFree: 1 kB\n");
    assert_eq!(parse::parse_meminfo(meminfo.as_bytes()), None);
    assert_eq!(parse::parse_statm(format!("1 {most} 1\n").as_bytes()), None);
    assert_eq!(parse::parse_smaps_rollup(format!("Pss: {most} kB\n").as_bytes()), None);
    let disk = |sectors: &str| format!("8 0 sda 1 0 {sectors} 0 1 0 1 0 0 1 1\n");
    assert_eq!(parse::parse_diskstats(disk(&most).as_bytes()), []);
    assert_eq!(parse::parse_diskstats(disk("7").as_bytes())[0].read_bytes, 7 * 512);
    for word in ["inf", "NaN", "-inf"] {
        assert_eq!(parse::parse_loadavg(format!("{word} 0 0 1/2 3\n").as_bytes()), None);
    }
    let stat = |ticks: u64| format!("cpu  {0} 0 0 {0} 0 0 0 0 0 0\n", ticks);
    assert_eq!(parse::parse_stat(stat(MOST).as_bytes()), None);
    assert!(parse::parse_stat(stat(1 << 50).as_bytes()).is_some());
}

#[test]
fn a_list_names_no_more_processors_than_a_kernel_has() {
    assert_eq!(parse_list("0-8191").map(|list| list.len()), Some(8192));
    for text in
        ["0-4294967295", "0-8192", "4294967295-0", "3-1", "0-8191,0-8191", "-", "1--2", "99999999999", "0-"]
    {
        assert_eq!(parse_list(text), None, "{text}");
    }
    let long = vec!["0"; 1_000_000].join(",");
    assert_eq!(parse_list(&long), None);
    assert_eq!(parse_list("4294967290-4294967295").map(|list| list.len()), Some(6), "the last number is one");
}
