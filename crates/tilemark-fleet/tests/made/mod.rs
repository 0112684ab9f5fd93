//! Makes the folder of a fleet run: whole records of hosts that never were, with a known truth, judged by the real judge.
#![allow(dead_code, reason = "each file that includes this uses its own part of it")]

use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
    sync::{Arc, LazyLock, Mutex},
};
use tilemark_fleet::{End, HostEnd};
use tilemark_plan::{
    facts::HostFacts,
    plan::{Backend, Plan, Point},
    resolve::Request,
};
use tilemark_record::{
    RunDirectory,
    result::{Provenance, RESULT_SCHEMA, RunResult},
    summary::{EncodedHistogram, RepeatSummary},
};
use tilemark_units::Bytes;

/// One web guest a tile, at 200 requests a second for 20 s, in a ladder of two steps.
const SCENARIO: &str = r#"
schema = 1
name = "made"
about = "a scenario of records that were made"
headline = "web"
[[guest]]
name = "web"
role = "web"
[[load]]
name = "web"
guest = "web"
rate = "200/s"
[load.web]
[ladder]
tiles = [1, 4]
"#;

/// Requests of a guest in a repeat.
const REQUESTS: u64 = 4_000;

/// A host with its truth.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// Its median latency over that of a plain host.
    pub(crate) slow: f64,
    /// Standard deviation of its repeats, as a part.
    pub(crate) noise: f64,
    pub(crate) repeats: u32,
    /// Part of its requests that fail; where all do, it has no latency.
    pub(crate) errors: f64,
    /// Tiles from which on it is slow and fails; below it is like a plain host.
    pub(crate) from_tiles: u32,
    /// Feeds the noise, and the small spread between hosts.
    pub(crate) seed: u64,
    pub(crate) facts: Value,
    pub(crate) scenario: String,
    /// Those of `--set`.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) end: End,
    pub(crate) attempt: u32,
}

impl Host {
    pub(crate) fn new(number: u64) -> Self {
        Self {
            name: format!("h{number}"),
            slow: 1.0,
            noise: 0.006,
            repeats: 5,
            errors: 0.0,
            from_tiles: 1,
            seed: number,
            facts: facts(number),
            scenario: SCENARIO.to_owned(),
            settings: BTreeMap::new(),
            end: End::Trusted,
            attempt: 1,
        }
    }

    /// With a fact set to another value; `path` as in a JSON pointer.
    pub(crate) fn with(mut self, path: &str, value: Value) -> Self {
        *self.facts.pointer_mut(path).unwrap_or_else(|| panic!("no fact {path}")) = value;
        self
    }
}

/// So many hosts that are alike, `h1` the first.
pub(crate) fn hosts(count: u64) -> Vec<Host> {
    (1..=count).map(Host::new).collect()
}

/// Writes the folder of a fleet run in which hosts were asked that left no record: `also_asked`.
pub(crate) fn fleet(folder: &Path, hosts: &[Host], also_asked: &[&str]) {
    fs::create_dir_all(folder).unwrap();
    let names: Vec<&str> =
        hosts.iter().map(|host| host.name.as_str()).chain(also_asked.iter().copied()).collect();
    let document = json!({ "schema": 1, "scenario": "made", "seed": 1, "hosts": names });
    fs::write(folder.join("fleet.json"), document.to_string()).unwrap();
    for host in hosts {
        write_host(folder, host);
    }
}

/// The folder of a host's attempt.
pub(crate) fn attempt(folder: &Path, host: &str, attempt: u32) -> std::path::PathBuf {
    folder.join("hosts").join(host).join(format!("attempt-{attempt}"))
}

/// Writes how an attempt ended, and makes its folder.
pub(crate) fn write_end(folder: &Path, host: &str, number: u32, end: End, because: &str) {
    let folder = attempt(folder, host, number);
    fs::create_dir_all(&folder).unwrap();
    let exit_code = if end == End::Trusted { Some(0) } else { None };
    let end = HostEnd { end, exit_code, because: because.to_owned() };
    fs::write(folder.join("end.json"), serde_json::to_string(&end).unwrap()).unwrap();
}

/// Writes a host's attempt with its record.
pub(crate) fn write_host(folder: &Path, host: &Host) {
    write_end(folder, &host.name, host.attempt, host.end, "");
    let place = attempt(folder, &host.name, host.attempt).join("record");
    let facts: HostFacts = serde_json::from_value(host.facts.clone()).unwrap();
    put(&place.join("facts.json"), &text(&facts));
    for (file, text) in &*measured(host) {
        put(&place.join(file), text);
    }
    RunDirectory::at(&place).close().unwrap();
}

/// Files of a record by their paths.
type Files = Arc<Vec<(String, String)>>;

/// What is measured of a host, and judged. Tests have many hosts in common, and each is made once.
fn measured(host: &Host) -> Files {
    static MADE: LazyLock<Mutex<HashMap<String, Files>>> = LazyLock::new(Mutex::default);
    // Neither its facts nor how it ended are in these files.
    let key = Host { facts: Value::Null, end: End::Trusted, attempt: 1, ..host.clone() };
    let key = format!("{key:?}");
    let known = MADE.lock().unwrap().get(&key).cloned();
    known.unwrap_or_else(|| {
        let files = Files::new(make(host));
        MADE.lock().unwrap().insert(key, files.clone());
        files
    })
}

fn make(host: &Host) -> Vec<(String, String)> {
    let summary = tilemark_fixtures::host(8, Bytes::from_gib(64));
    let request = Request { settings: host.settings.clone(), ..tilemark_fixtures::request(&[Backend::Kvm]) };
    let plan = tilemark_fixtures::plan(&host.scenario, &request, &summary);
    let mut files = vec![("plan.json".to_owned(), text(&plan))];
    let mut random = ChaCha8Rng::seed_from_u64(host.seed);
    let mut all = Vec::new();
    for point in &plan.points {
        for repeat in 1..=host.repeats {
            let summary = repeat_of(host, point, repeat, &mut random);
            let file = format!("points/{:02}/repeat-{repeat}/summary.json", point.index);
            files.push((file, text(&summary)));
            all.push(summary);
        }
    }
    files.push(("result.json".to_owned(), text(&result(host, &plan, &all))));
    files
}

fn text(document: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(document).unwrap()
}

/// Writes a document without waiting for the disk: a fleet has thousands.
fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn result(host: &Host, plan: &Plan, repeats: &[RepeatSummary]) -> RunResult {
    let judged = tilemark_statistics::judge::judge(plan, repeats);
    let hashes = [("tilemark", "3a"), ("image", "5d"), ("scenario", "c4")];
    RunResult {
        schema: RESULT_SCHEMA,
        judged_by: tilemark_record::result::JUDGED_BY,
        run: format!("20260115-093012-made-{}", host.name),
        scenario: plan.scenario.name.clone(),
        preset: None,
        verdict: judged.verdict,
        answer: judged.answer,
        sentence: judged.sentence,
        cost: judged.cost,
        comparison: judged.comparison,
        function: judged.function,
        scaling: judged.scaling,
        interference: judged.interference,
        screening: judged.screening,
        points: judged.points,
        idle_power_w: None,
        provenance: Provenance {
            tilemark: "0.1.0".to_owned(),
            host: host.name.clone(),
            began: "2026-01-15T09:30:12Z".to_owned(),
            hashes: hashes.map(|(name, byte)| (name.to_owned(), byte.repeat(32))).into(),
            ..Provenance::default()
        },
        missing: judged.missing,
    }
}

/// Latencies whose median is `level` milliseconds: an exponential law by its quantiles, so that no request is drawn.
fn latencies(level: f64) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).unwrap();
    const PARTS: u64 = 400;
    for part in 0..PARTS {
        let quantile = (part as f64 + 0.5) / PARTS as f64;
        let ms = level * -(1.0 - quantile).ln() / std::f64::consts::LN_2;
        histogram.record_n((ms * 1e6) as u64 + 1, REQUESTS / PARTS).unwrap();
    }
    histogram
}

fn latency(histogram: &Histogram<u64>) -> Value {
    if histogram.is_empty() {
        return json!({
            "n": 0, "mean": null, "deviation": null, "p50": null, "p90": null, "p99": null, "p999": null, "max": null,
        });
    }
    let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64 / 1e6;
    json!({
        "n": histogram.len(), "mean": histogram.mean() / 1e6, "deviation": histogram.stdev() / 1e6,
        "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": null, "max": histogram.max() as f64 / 1e6,
    })
}

fn repeat_of(host: &Host, point: &Point, repeat: u32, random: &mut ChaCha8Rng) -> RepeatSummary {
    let noise = Normal::new(0.0, host.noise).unwrap();
    let (slow, errors) = if point.tiles < host.from_tiles { (1.0, 0.0) } else { (host.slow, host.errors) };
    let level = 2.0 * f64::from(point.tiles).powf(0.3) * slow * f64::exp(noise.sample(random));
    let own = if errors < 1.0 { latencies(level) } else { Histogram::new(3).unwrap() };
    let (own_latency, own_histogram) = (latency(&own), EncodedHistogram::of(&own));
    let mut merged = own.clone();
    let failed = (REQUESTS as f64 * errors) as u64;
    let mut guests = Vec::new();
    for load in &point.loads {
        if !guests.is_empty() {
            merged.add(&own).unwrap();
        }
        guests.push(json!({
            "name": point.guests[load.guest as usize].name, "tile": load.tile, "offered": REQUESTS,
            "completed": REQUESTS - failed, "completed_in_time": REQUESTS - failed, "errors": failed,
            "latency_ms": own_latency, "latency_histogram": own_histogram,
            "worst_second": { "second": random.random_range(0..20), "latency_ms": level * 7.0 },
        }));
    }
    let count = guests.len() as u64;
    let load = json!({
        "name": "web", "role": "web", "loop": "open", "measured": "outside", "unit": "requests", "seconds": 20.0,
        "offered": REQUESTS * count, "completed": (REQUESTS - failed) * count,
        "completed_in_time": (REQUESTS - failed) * count, "failed": failed * count, "wrong": 0, "bytes": 1024,
        "latency_ms": latency(&merged), "latency_histogram": EncodedHistogram::of(&merged),
        "send_lateness_us": { "p50": 20.0, "p99": 60.0, "p999": 90.0, "max": 120.0 },
        "client_cpu_s": 0.4, "sender_busy": { "mean_fraction": 0.1, "max_fraction": 0.2 },
        "guests": guests, "fairness": null, "errors": [],
    });
    let summary = json!({
        "point": point.index, "repeat": repeat, "block": repeat, "began_unix_ms": 1_768_469_412_000_u64,
        "backend": point.backend, "loads": [load],
        "host": {
            "seconds": 20,
            "processor": {
                "guest_work": 0.3, "guest_overhead": 0.05, "load": 0.1, "tilemark": 0.001, "kernel": 0.01,
                "other": 0.005, "steal": 0.0, "idle": 0.534,
            },
            "guest_processors_busy": 0.4, "run_queue_wait_fraction": 0.01,
            "memory_available_min": 40_000_000_000_u64, "memory_total": 64_000_000_000_u64, "swapped_pages": 0,
            "oom_kills": 0, "throttled": 0, "clock_step_ms_max": 0.0, "disk_busy_fraction": 0.0,
            "pressure_cpu_some": 0.0, "pressure_memory_some": 0.0, "pressure_io_some": 0.0,
            "network_bytes_per_s": 1000.0,
        },
        "incidents": [], "memory": { "pss_mib_per_guest": 80.0, "pss_mib_max": 81.0 }, "ready_s": 1.0,
    });
    serde_json::from_value(summary).unwrap()
}

/// What a host is. Its memory differs a little from host to host, as that of real hosts does, and its disks have names of their own.
fn facts(number: u64) -> Value {
    let memory = 134_931_000_000_u64 + 4096 * (number % 7) * 1000;
    let threads: Vec<Value> = (0..8)
        .map(|id| json!({ "id": id, "socket": { "value": 0 }, "core": { "value": id }, "siblings": [id] }))
        .collect();
    let mitigation = |weakness: &str, state: &str| json!({ "weakness": weakness, "state": state });
    json!({
        "host_name": { "value": format!("h{number}") },
        "boot_id": { "value": format!("45ac1c53-61cc-4858-bd81-{number:012}") },
        "kernel": {
            "release": { "value": "6.12.9-amd64" }, "build": { "value": "#1 SMP Debian 6.12.9-1" },
            "command_line": { "value": format!("BOOT_IMAGE=/vmlinuz root=UUID=0000-{number:08} quiet") },
            "clock_source": { "value": "tsc" },
        },
        "distribution": { "value": "Debian GNU/Linux 13 (trixie)" },
        "asked_by": { "value": "root" },
        "virtualisation": { "value": "none" },
        "processors": {
            "model": { "value": "AMD EPYC 7313P 16-Core Processor" }, "microcode": { "value": "0xa0011d5" },
            "sockets": { "value": 1 }, "cores": { "value": 8 }, "threads_online": { "value": 8 },
            "threads": threads, "smt": { "value": "off" }, "flags": ["svm", "npt", "constant_tsc"],
        },
        "mitigations": { "value": [
            mitigation("spectre_v1", "Mitigation: usercopy/swapgs barriers and __user pointer sanitization"),
            mitigation("spectre_v2", "Mitigation: Retpolines; STIBP: disabled; RSB filling"),
            mitigation("meltdown", "Not affected"), mitigation("l1tf", "Not affected"),
            mitigation("retbleed", "Not affected"), mitigation("srso", "Mitigation: Safe RET"),
        ] },
        "numa_nodes": { "value": [] },
        "memory": {
            "bytes_total": { "value": memory }, "bytes_available": { "value": memory - 3_000_000_000 },
            "swap_bytes_total": { "value": 0 }, "swap_bytes_used": { "value": 0 }, "huge_pages": { "value": [] },
            "transparent_huge_pages": { "value": "madvise" }, "same_page_merging": { "value": "off" },
        },
        "iommu": { "value": { "groups": 0, "kinds": [] } },
        "devices": {
            "tun": { "value": "/dev/net/tun" }, "vhost_net": { "value": "/dev/vhost-net" },
            "vhost_vsock": { "value": "/dev/vhost-vsock" }, "vfio": { "missing": "/dev/vfio/vfio: not there" },
            "kvm": { "value": "/dev/kvm" },
        },
        "control_groups": { "value": { "mount_point": "/sys/fs/cgroup", "controllers": ["cpu", "memory"] } },
        "pressure": { "value": { "resources": ["cpu", "memory", "io"] } },
        "steal_fraction_since_boot": { "value": 0.0 },
        "frequency": {
            "driver": { "value": "acpi-cpufreq" }, "governors": { "value": ["performance"] }, "turbo": { "value": "on" },
        },
        "energy_zones": { "missing": "/sys/class/powercap: not there" },
        "loop_devices": { "value": { "existing": 8, "in_use": 0 } },
        "tools": [{
            "name": "qemu-system-x86_64", "path": { "value": "/usr/bin/qemu-system-x86_64" },
            "version": { "value": "10.0.2" },
        }],
        "running_guests": { "value": [] },
        "accelerators": { "kvm": { "verdict": "usable", "reason": "made", "figures": null } },
    })
}
