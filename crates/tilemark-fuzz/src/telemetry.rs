//! What the kernel says about the host and about processes, which name themselves.

use tilemark_host::{parse_list, placement, telemetry::parse};

/// Takes a file of the kernel's.
pub fn take_telemetry(bytes: &[u8]) {
    if let Some(processor) = parse::parse_stat(bytes) {
        drop(format!("{processor:?}"));
    }
    let _ = (parse::parse_pressure(bytes), parse::parse_meminfo(bytes), parse::parse_vmstat(bytes));
    let _ = (parse::parse_loadavg(bytes), parse::parse_diskstats(bytes), parse::parse_net_dev(bytes));
    let _ = (parse::parse_task_stat(bytes), parse::parse_schedstat(bytes), parse::parse_statm(bytes));
    let _ = (parse::parse_process_io(bytes), parse::parse_smaps_rollup(bytes), parse::parse_cpu_stat(bytes));
    let _ = parse::parse_number(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = parse_list(text);
        let _ = (placement::parse_numa_maps(text), placement::parse_stat(text));
    }
}

pub(crate) fn files() -> Vec<Vec<u8>> {
    let files: [&str; 15] = [
        "cpu  10 1 5 100 2 0 1 0 3 0\ncpu0 10 1 5 100 2 0 1 0 3 0\nintr 1\nctxt 2\nprocs_running 3\nprocs_blocked 0\n",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\n",
        "MemTotal: 1024 kB\nMemFree: 512 kB\nMemAvailable: 700 kB\nDirty: 4 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
        "pgmajfault 3\npswpin 0\npswpout 0\noom_kill 0\nallocstall_normal 2\n",
        "0.10 0.20 0.30 2/345 6789\n",
        "   8       0 sda 100 2 300 4 500 6 700 8 9 10 11 0 0 0 0 3 4\n",
        "Inter-|   Receive\n face |bytes\n  lo: 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n",
        "7 (CPU 0/KVM) S 1 7 7 0 -1 4194560 10 0 2 0 30 40 0 0 20 0 4 0 1234 5 6 7\n",
        "123456 789 10\n",
        "1000 200 30 4 0 500 0\n",
        "rchar: 1\nwchar: 2\nread_bytes: 4096\nwrite_bytes: 8192\n",
        "00400000-7fff rollup\nRss: 100 kB\nPss: 50 kB\nPss_Anon: 20 kB\nPss_Shmem: 10 kB\n",
        "usage_usec 100\nuser_usec 60\nsystem_usec 40\nnr_throttled 0\nthrottled_usec 0\n",
        "0-3,8,10-11\n",
        "7f87 bind:1 file=/memfd:ram\\040(deleted) huge dirty=6 N1=6 kernelpagesize_kB=2048\n7f88 default heap anon=3 N0=3\n",
    ];
    files.iter().map(|file| file.as_bytes().to_vec()).collect()
}
