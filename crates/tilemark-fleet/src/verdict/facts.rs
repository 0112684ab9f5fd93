//! A host's facts as words that can be compared: those that make hosts equal, and all others.

use std::collections::{BTreeMap, BTreeSet};
use tilemark_plan::facts::{Fact, HostFacts, Virtualisation, hypervisor_name};
use tilemark_record::result::RunResult;
use tilemark_units::Sha256Hash;

/// Characters of a value at most: a kernel's command line may be long, and a page has many of them.
const VALUE_MAX: usize = 300;
/// Words of a kernel's command line that name disks or the host, and say nothing of how it runs.
const OF_THIS_HOST: [&str; 9] =
    ["BOOT_IMAGE=", "root=", "resume=", "initrd=", "rd.", "ip=", "hostname=", "systemd.hostname=", "osid="];

/// A host's facts in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FactSheet {
    /// Facts that hosts of one group share; memory is apart, since equal hosts have not the same number of bytes.
    pub(super) equal: BTreeMap<String, String>,
    /// All memory in bytes.
    pub(super) memory: Option<u64>,
    /// What was measured. Hosts that differ in it are never put together.
    pub(super) work: BTreeMap<String, String>,
    /// All facts, those above included.
    pub(super) all: BTreeMap<String, String>,
}

impl FactSheet {
    /// The names of what was measured that another host or run has otherwise; none where the work is the same.
    pub(super) fn other_work(&self, other: &Self) -> Option<String> {
        let keys: BTreeSet<&String> = self.work.keys().chain(other.work.keys()).collect();
        let differ = keys.into_iter().filter(|key| self.work.get(*key) != other.work.get(*key));
        let differ: Vec<&str> = differ.map(String::as_str).collect();
        (!differ.is_empty()).then(|| differ.join(", "))
    }
}

/// The facts of a host and of the program that measured it. `settings`: those of the command line. `backends`: those that it measured on.
pub(super) fn fact_sheet(
    facts: &HostFacts,
    result: &RunResult,
    settings: &BTreeMap<String, String>,
    backends: String,
) -> FactSheet {
    let equal = equal_facts(facts, result);
    let work = run_facts(result, settings, backends);
    let mut all = others(facts, result);
    all.extend(equal.clone());
    all.extend(work.clone());
    let memory = facts.memory.bytes_total.value().copied();
    all.insert("memory".to_owned(), memory.map_or_else(|| "not known".to_owned(), memory_words));
    for value in all.values_mut() {
        shorten(value);
    }
    FactSheet { equal, memory, work, all }
}

/// `125.5 GiB`
pub(super) fn memory_words(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1_u32 << 30))
}

fn shorten(value: &mut String) {
    if let Some((end, _)) = value.char_indices().nth(VALUE_MAX) {
        value.truncate(end);
        value.push('\u{2026}');
    }
}

fn words<T: ToString>(fact: &Fact<T>) -> String {
    fact.value().map_or_else(|| "not known".to_owned(), ToString::to_string)
}

fn put(into: &mut BTreeMap<String, String>, key: &str, value: impl Into<String>) {
    into.insert(key.to_owned(), value.into());
}

/// Processor, microcode, kernel, QEMU, mitigations.
fn equal_facts(facts: &HostFacts, result: &RunResult) -> BTreeMap<String, String> {
    let processors = &facts.processors;
    let mut equal = BTreeMap::new();
    put(&mut equal, "processor", words(&processors.model));
    let counts = [
        ("sockets", words(&processors.sockets)),
        ("cores", words(&processors.cores)),
        ("threads", words(&processors.threads_online)),
    ];
    let counts = counts.map(|(what, count)| format!("{count} {what}"));
    put(&mut equal, "processors", counts.join(", "));
    put(&mut equal, "microcode", processors.microcode.as_ref().map_or_else(|| "not known".to_owned(), words));
    put(&mut equal, "kernel", words(&facts.kernel.release));
    let tool = facts.tools.iter().find(|tool| tool.name.starts_with("qemu-system"));
    let qemu = tool.and_then(|tool| tool.version.value().cloned()).or_else(|| result.provenance.qemu.clone());
    put(&mut equal, "qemu", qemu.unwrap_or_else(|| "none".to_owned()));
    let under = match facts.virtualisation.value() {
        None => "not known".to_owned(),
        Some(Virtualisation::None) => "hardware".to_owned(),
        Some(Virtualisation::Guest { hypervisor }) => {
            let name = hypervisor.value().map_or("a hypervisor", |signature| hypervisor_name(signature));
            format!("guest of {name}")
        }
    };
    put(&mut equal, "runs on", under);
    for mitigation in facts.mitigations.value().into_iter().flatten() {
        equal.insert(format!("mitigation of {}", mitigation.weakness), mitigation.state.clone());
    }
    for value in equal.values_mut() {
        shorten(value);
    }
    equal
}

/// Scenario, preset, settings and backends.
fn run_facts(
    result: &RunResult,
    settings: &BTreeMap<String, String>,
    backends: String,
) -> BTreeMap<String, String> {
    let mut work = BTreeMap::new();
    let hash = result.provenance.hashes.get("scenario").map_or("unknown", String::as_str);
    let hash: String = hash.chars().take(12).collect();
    put(&mut work, "scenario", format!("{} (SHA-256 {hash})", result.scenario));
    put(&mut work, "preset", result.preset.clone().unwrap_or_else(|| "none".to_owned()));
    put(&mut work, "settings", settings_words(settings));
    put(&mut work, "backends", backends);
    work
}

/// The keys that were set, and a hash of them with their values: `gate.p99 (SHA-256 0a1b2c3d4e5f)`. The hash of the scenario is that of its
/// text, and knows of no `--set`.
fn settings_words(settings: &BTreeMap<String, String>) -> String {
    if settings.is_empty() {
        return "none".to_owned();
    }
    let keys: Vec<&str> = settings.keys().map(String::as_str).collect();
    let lines: String = settings.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    let hash: String = Sha256Hash::of(lines.as_bytes()).to_string().chars().take(12).collect();
    format!("{} (SHA-256 {hash})", keys.join(", "))
}

/// All that may differ within a group, and is worth a look where a host does.
fn others(facts: &HostFacts, result: &RunResult) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    put(&mut all, "distribution", words(&facts.distribution));
    put(&mut all, "kernel build", words(&facts.kernel.build));
    put(&mut all, "kernel command line", words(&facts.kernel.command_line.clone().shared()));
    put(&mut all, "clock source", words(&facts.kernel.clock_source));
    put(&mut all, "threads offline", facts.processors.offline.len().to_string());
    put(&mut all, "processor flags", facts.processors.flags.join(" "));
    let nodes =
        facts.numa_nodes.value().map_or_else(|| "not known".to_owned(), |nodes| nodes.len().to_string());
    put(&mut all, "NUMA nodes", nodes);
    let memory = &facts.memory;
    put(
        &mut all,
        "swap",
        memory.swap_bytes_total.value().map_or_else(|| "not known".to_owned(), |b| memory_words(*b)),
    );
    put(&mut all, "transparent huge pages", words(&memory.transparent_huge_pages));
    put(&mut all, "same-page merging", words(&memory.same_page_merging));
    for pool in memory.huge_pages.value().into_iter().flatten() {
        all.insert(format!("huge pages of {} KiB", pool.page_bytes >> 10), pool.count_total.to_string());
    }
    let frequency = &facts.frequency;
    put(&mut all, "frequency driver", words(&frequency.driver));
    let governors = frequency.governors.value().map_or_else(|| "not known".to_owned(), |all| all.join(", "));
    put(&mut all, "governor", governors);
    put(
        &mut all,
        "turbo",
        frequency.turbo.value().map_or_else(|| "not known".to_owned(), |turbo| turbo.name().to_owned()),
    );
    let running =
        facts.running_guests.value().map_or_else(|| "not known".to_owned(), |all| all.len().to_string());
    put(&mut all, "guests already running", running);
    let hash = |name: &str| -> String {
        result.provenance.hashes.get(name).map_or("unknown", String::as_str).chars().take(12).collect()
    };
    put(&mut all, "tilemark", format!("{} (SHA-256 {})", result.provenance.tilemark, hash("tilemark")));
    put(&mut all, "image", result.provenance.image.clone().unwrap_or_else(|| "none".to_owned()));
    put(
        &mut all,
        "guest kernel",
        result.provenance.guest_kernel.clone().unwrap_or_else(|| "none".to_owned()),
    );
    all
}

/// What of a fact may be compared between hosts.
trait Shared {
    fn shared(self) -> Self;
}

impl Shared for Fact<String> {
    /// A kernel's command line without the words that are of this host alone.
    fn shared(self) -> Self {
        match self {
            Self::Value(line) => {
                let is_own = |word: &str| OF_THIS_HOST.iter().any(|own| word.starts_with(own));
                let words: Vec<&str> = line.split_whitespace().filter(|word| !is_own(word)).collect();
                Self::Value(words.join(" "))
            }
            missing @ Self::Missing(_) => missing,
        }
    }
}
