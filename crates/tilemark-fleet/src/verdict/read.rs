//! Reads the folder of a fleet run. Whatever is damaged is named with its host; the rest is read on.

use super::{
    facts::{FactSheet, fact_sheet},
    threads,
};
use crate::{End, HostEnd, collect::ATTEMPTS_MAX};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};
use tilemark_plan::plan::{Backend, Plan};
use tilemark_record::{
    DOCUMENT_MAX, RepeatFiles, RunDirectory,
    result::{GateMeasure, PointResult, RunResult, Verdict, VerdictStatus},
    summary::RepeatSummary,
};
use tilemark_report::FleetCapacity;
use tilemark_statistics::INTERVAL_REPEATS_MIN;
use tilemark_sys::text_file::read_text_of_others;
use tilemark_units::{natural_key, with_causes};

/// Hosts of a fleet at most.
const HOSTS_MAX: usize = 20_000;
/// Bytes of `end.json` at most.
const END_MAX: u64 = 1 << 20;
/// Bytes of `fleet.json` at most.
const FLEET_MAX: u64 = 64 << 20;
/// Documents that are read of every record.
const DOCUMENTS: [&str; 4] = ["manifest.json", "plan.json", "result.json", "facts.json"];

/// A folder that holds no fleet run.
#[derive(Debug, thiserror::Error)]
pub enum VerdictError {
    /// There is nothing of a fleet run in it.
    #[error("{} is not a fleet run: it has neither fleet.json nor hosts", path.display())]
    NoFleet {
        /// The folder.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which file or folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A fleet run that cannot confirm another one.
    #[error("the fleet run {again} cannot confirm {first}: {why}")]
    NotAgain {
        /// The one whose suspects are to be confirmed.
        first: String,
        /// The other one.
        again: String,
        /// Why not.
        why: &'static str,
    },
    /// Two fleet runs of which the second is not a later one.
    #[error("the fleet run {after} cannot show what changed since {before}: {why}")]
    NotSince {
        /// The one that is to be the earlier.
        before: String,
        /// The other one.
        after: String,
        /// Why not.
        why: &'static str,
    },
    /// More hosts than any fleet has.
    #[error("{} names {found} hosts, and a fleet has at most {HOSTS_MAX}", path.display())]
    TooMany {
        /// The folder.
        path: PathBuf,
        /// How many.
        found: usize,
    },
}

/// A fleet run as it is on the disk.
pub(super) struct ReadFleet {
    /// Its id: the name of its folder.
    pub(super) id: String,
    /// Its folder, whichever path led to it.
    pub(super) folder: PathBuf,
    /// The id in `fleet.json`, which a copy keeps; none where it is not known.
    pub(super) written_id: Option<String>,
    /// When it was asked, in seconds since 1970; none where it is not known.
    pub(super) asked_unix_s: Option<u64>,
    /// Why it is not known which hosts were asked, where that is so.
    pub(super) asked_unknown: Option<String>,
    /// All hosts, by name.
    pub(super) hosts: Vec<ReadHost>,
}

impl ReadFleet {
    /// Whether both are one fleet run, or copies of one.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        let is_same_id = self.written_id.is_some() && self.written_id == other.written_id;
        is_same_id || self.folder == other.folder
    }
}

/// A host of it.
pub(super) struct ReadHost {
    pub(super) name: String,
    /// Folders of attempts.
    pub(super) attempts: usize,
    /// How the attempt ended that is used, or a newer one that did not restore the host; where none has a record, the newest; where there
    /// is none, what `fleet.json` says.
    pub(super) end: Option<HostEnd>,
    /// How far `fleet.json` says its work is, where no end is known.
    pub(super) step: Option<String>,
    /// Whether another host took its turn while it may have measured.
    pub(super) turn_passed_on: bool,
    /// The newest whole record.
    pub(super) record: Option<HostRecord>,
    /// What could not be read, and attempts that are not used.
    pub(super) problems: Vec<String>,
}

/// What is kept of a whole record.
pub(super) struct HostRecord {
    pub(super) attempt: u32,
    pub(super) directory: RunDirectory,
    pub(super) run: String,
    pub(super) scenario: String,
    pub(super) headline: Option<String>,
    pub(super) verdict: Verdict,
    /// Whether its answer is to be trusted, and the host was restored.
    pub(super) trusted: bool,
    pub(super) sentence: String,
    pub(super) capacity: Option<FleetCapacity>,
    pub(super) steps: Vec<Step>,
    pub(super) facts: FactSheet,
}

/// A step that a host measured on a backend whose times mean something.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) key: StepKey,
    /// Its index among the points of the record.
    pub(super) index: usize,
    pub(super) kept: u32,
    /// Repeats that are discarded.
    pub(super) discarded: BTreeSet<u32>,
    pub(super) holds: Option<bool>,
    /// What failed, where failures or errors are among what broke the gate.
    pub(super) failed: Option<String>,
    /// Whether its times are no length of a queue: it holds, or it failed and was quick even so.
    pub(super) is_in_time: bool,
}

impl Step {
    /// Whether it has repeats enough to be compared.
    pub(super) fn is_measured(&self) -> bool {
        self.kept as usize >= INTERVAL_REPEATS_MIN
    }
}

impl HostRecord {
    /// The step, where the host is trusted enough and has repeats enough for it to count.
    pub(super) fn counting_step(&self, key: &StepKey) -> Option<&Step> {
        self.trusted_steps().find(|step| step.key == *key && step.is_measured())
    }

    /// Whether it holds a step, as far as it is trusted.
    pub(super) fn holds(&self, key: &StepKey) -> bool {
        self.trusted_steps().any(|step| step.key == *key && step.holds == Some(true))
    }

    fn trusted_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|_| self.verdict.status != VerdictStatus::NotTrusted)
    }
}

/// What two hosts must share to be compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StepKey {
    pub(super) tiles: u32,
    pub(super) backend: &'static str,
    pub(super) vary: BTreeMap<String, String>,
}

impl StepKey {
    /// `at 4 tiles on kvm`
    pub(super) fn words(&self) -> String {
        let tiles = if self.tiles == 1 { "1 tile".to_owned() } else { format!("{} tiles", self.tiles) };
        let vary = self.vary.iter().map(|(name, value)| format!(", {name} {value}"));
        format!("at {tiles} on {}{}", self.backend, vary.collect::<String>())
    }
}

/// Reads a fleet run.
pub(super) fn fleet(folder: &Path) -> Result<ReadFleet, VerdictError> {
    let folders = host_folders(folder)?;
    let path = folder.join("fleet.json");
    let (asked, asked_unknown) = match asked(&path) {
        Ok(asked) => (asked, None),
        Err(why) if folders.is_none() => {
            if path.exists() {
                let source = io::Error::other(why);
                return Err(VerdictError::Read { path, source });
            }
            return Err(VerdictError::NoFleet { path: folder.to_owned() });
        }
        Err(why) => (Asked::default(), Some(why)),
    };
    let Asked { id: written_id, unix_s: asked_unix_s, hosts: asked } = asked;
    let mut names: Vec<String> = asked.keys().cloned().chain(folders.into_iter().flatten()).collect();
    names.sort_by_cached_key(|name| natural_key(name));
    names.dedup();
    if names.len() > HOSTS_MAX {
        return Err(VerdictError::TooMany { path: folder.to_owned(), found: names.len() });
    }
    let hosts = threads::each(&names, |name| {
        let mut host = host(&folder.join("hosts").join(name), name);
        let asked = asked.get(name);
        host.end = host.end.or_else(|| asked?.end.clone());
        host.step = asked.and_then(|asked| asked.step.clone());
        host.turn_passed_on = asked.is_some_and(|asked| asked.turn_passed_on);
        host
    });
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(ReadFleet { id, folder, written_id, asked_unix_s, asked_unknown, hosts })
}

/// The hosts that have a folder; `None` where there is no folder of hosts.
fn host_folders(folder: &Path) -> Result<Option<Vec<String>>, VerdictError> {
    let path = folder.join("hosts");
    let entries = match no_link(&path).and_then(|()| fs::read_dir(&path)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(VerdictError::Read { path, source }),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|source| VerdictError::Read { path: path.clone(), source })?;
        // A link would lead to files that are not of this fleet.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(Some(names))
}

/// What `fleet.json` has.
#[derive(Default)]
struct Asked {
    id: Option<String>,
    unix_s: Option<u64>,
    hosts: BTreeMap<String, AskedHost>,
}

/// What `fleet.json` has about a host.
#[derive(Default, Deserialize)]
struct AskedHost {
    #[serde(default)]
    step: Option<String>,
    #[serde(default)]
    end: Option<HostEnd>,
    #[serde(default)]
    turn_passed_on: bool,
}

/// What `fleet.json` says was asked. Its hosts are names, or objects with a `name`.
fn asked(path: &Path) -> Result<Asked, String> {
    let text = read_text_of_others(path, FLEET_MAX)
        .map_err(|error| format!("fleet.json cannot be read: {error}"))?;
    let document: Value =
        serde_json::from_str(&text).map_err(|error| format!("fleet.json is damaged: {error}"))?;
    let host = |host: &Value| -> Option<(String, AskedHost)> {
        let name = host.as_str().or_else(|| host.get("name")?.as_str())?;
        // Of a step or an end that this program does not know nothing is said, and the host is asked even so.
        Some((name.to_owned(), AskedHost::deserialize(host).unwrap_or_default()))
    };
    let hosts: Option<BTreeMap<String, AskedHost>> =
        document.get("hosts").and_then(Value::as_array).and_then(|hosts| hosts.iter().map(host).collect());
    let hosts = hosts.ok_or_else(|| "fleet.json does not name its hosts".to_owned())?;
    match hosts.keys().find(|name| !is_plain(name)) {
        Some(odd) => Err(format!("fleet.json names the host {odd:?}, which can be no folder")),
        None => Ok(Asked {
            id: document.get("id").and_then(Value::as_str).map(str::to_owned),
            unix_s: document.get("asked_unix_s").and_then(Value::as_u64),
            hosts,
        }),
    }
}

/// Whether a name is that of a folder below another, and nothing else.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// Whether it is a folder itself. The fleet may be somebody else's, and a link would lead to files that only the reader may read.
fn no_link(folder: &Path) -> io::Result<()> {
    if fs::symlink_metadata(folder)?.is_dir() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::NotADirectory, "it is a link or a file, not a folder"))
}

/// Reads a host's attempts, the newest first, down to the first with a whole record.
fn host(folder: &Path, name: &str) -> ReadHost {
    let mut host = ReadHost {
        name: name.to_owned(),
        attempts: 0,
        end: None,
        step: None,
        turn_passed_on: false,
        record: None,
        problems: Vec::new(),
    };
    if let Err(error) = no_link(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        host.problems.push(format!("its folder is not read: {error}"));
        return host;
    }
    let attempts = attempts(folder);
    host.attempts = attempts.len();
    let mut newer = Vec::new();
    for attempt in attempts.into_iter().rev() {
        let path = folder.join(format!("attempt-{attempt}"));
        let end = match end_of(&path.join("end.json")) {
            Ok(end) => end,
            Err(why) => {
                host.problems.push(format!("attempt {attempt}: {why}"));
                None
            }
        };
        match whole_record(&path.join("record"), attempt) {
            Ok(Some(mut record)) => {
                let end = after(end, newer);
                record.trusted &= end.as_ref().is_none_or(|end| end.end == End::Trusted);
                host.problems.extend(other_kernel(folder, &record));
                host.record = Some(record);
                host.end = end;
                return host;
            }
            Ok(None) => {
                let why = end.as_ref().map_or("no record".to_owned(), said);
                host.problems.push(format!("attempt {attempt} left no record: {why}"));
            }
            Err(why) => host.problems.push(format!("attempt {attempt}: {why}")),
        }
        newer.extend(end.map(|end| (attempt, end)));
    }
    // Where no attempt has a record, the newest says how it ended.
    host.end = newer.into_iter().next().map(|(_, end)| end);
    host
}

/// How a host ended whose record is of an attempt that ended so, with newer attempts that left none. A host that one of them did not restore
/// is as it left it. That a guest failed in one says nothing against the record, and is said beside it.
fn after(end: Option<HostEnd>, newer: Vec<(u32, HostEnd)>) -> Option<HostEnd> {
    if let Some((_, left)) = newer.iter().find(|(_, end)| end.end == End::NotRestored) {
        return Some(left.clone());
    }
    let failed = newer.iter().filter(|(_, end)| end.end == End::GuestFailed);
    let failed = failed.map(|(attempt, end)| format!("attempt {attempt}: {}", said(end)));
    end.map(|HostEnd { end, exit_code, because }| {
        let because = Some(because).filter(|words| !words.is_empty()).into_iter().chain(failed);
        HostEnd { end, exit_code, because: because.collect::<Vec<_>>().join("; ") }
    })
}

/// An older attempt that another kernel ran: the host came back with it.
fn other_kernel(folder: &Path, record: &HostRecord) -> Option<String> {
    let of = |attempt: u32| -> Option<String> {
        let record = folder.join(format!("attempt-{attempt}/record"));
        no_link(&record).ok()?;
        let text = read_text_of_others(&record.join("facts.json"), DOCUMENT_MAX).ok()?;
        let facts: Value = serde_json::from_str(&text).ok()?;
        Some(facts.pointer("/kernel/release/value")?.as_str()?.to_owned())
    };
    let (attempt, kernel) = (record.attempt, record.facts.equal.get("kernel")?);
    let older = attempts(folder).into_iter().rev().filter(|older| *older < attempt);
    let mut older = older.filter_map(|older| Some((older, of(older)?)));
    let (older, before) = older.find(|(_, before)| before != kernel)?;
    Some(format!("attempt {attempt} had kernel {kernel}, attempt {older} had {before}"))
}

fn said(end: &HostEnd) -> String {
    let word = end.end.words();
    if end.because.is_empty() { word.to_owned() } else { format!("{word}: {}", end.because) }
}

/// The numbers of the attempts, in order.
fn attempts(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let number = |entry: fs::DirEntry| -> Option<u32> {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let name = entry.file_name();
        let number: u32 = name.to_str()?.strip_prefix("attempt-")?.parse().ok()?;
        (is_folder && number <= ATTEMPTS_MAX).then_some(number)
    };
    let mut found: Vec<u32> = entries.flatten().filter_map(number).collect();
    found.sort_unstable();
    found
}

fn end_of(path: &Path) -> Result<Option<HostEnd>, String> {
    let text = match read_text_of_others(path, END_MAX) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("end.json cannot be read: {error}")),
    };
    serde_json::from_str(&text).map(Some).map_err(|error| format!("end.json is damaged: {error}"))
}

/// Reads a record that came to its end; `None` where there is none.
fn whole_record(path: &Path, attempt: u32) -> Result<Option<HostRecord>, String> {
    if no_link(path).is_err() {
        return Ok(None);
    }
    let directory = RunDirectory::at(path);
    for name in DOCUMENTS {
        not_too_long(&path.join(name))?;
    }
    let read = || -> Result<HostRecord, tilemark_record::RecordError> {
        directory.verify_those(|name| DOCUMENTS.contains(&name))?;
        let (plan, result, facts) = (directory.plan()?, directory.result()?, directory.facts()?);
        Ok(kept(directory.clone(), attempt, &plan, result, &facts))
    };
    read().map(Some).map_err(|error| with_source(&error, path))
}

fn not_too_long(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.len() > DOCUMENT_MAX => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            Err(format!("{name} has {} bytes, and a record\u{2019}s has at most {DOCUMENT_MAX}", found.len()))
        }
        _ => Ok(()),
    }
}

/// An error with its causes, and paths from the record on: a page needs no folder of the collecting machine.
fn with_source(error: &dyn std::error::Error, record: &Path) -> String {
    with_causes(error)
        .replace(&format!("{}/", record.display()), "")
        .replace(&*record.display().to_string(), "record")
}

fn kept(
    directory: RunDirectory,
    attempt: u32,
    plan: &Plan,
    result: RunResult,
    facts: &tilemark_plan::facts::HostFacts,
) -> HostRecord {
    let is_real = |point: &&PointResult| point.side.is_none() && !plan.host.emulates(point.backend);
    let steps: Vec<Step> = result.points.iter().filter(is_real).map(|point| step(plan, point)).collect();
    let backends: BTreeSet<&str> = steps.iter().map(|step| step.key.backend).collect();
    let backends = backends.into_iter().collect::<Vec<_>>().join(", ");
    HostRecord {
        attempt,
        directory,
        capacity: FleetCapacity::of(&result.answer),
        headline: plan.scenario.headline.clone(),
        facts: fact_sheet(facts, &result, &plan.settings, backends),
        run: result.run,
        scenario: result.scenario,
        trusted: result.verdict.status == VerdictStatus::Trusted,
        verdict: result.verdict,
        sentence: result.sentence,
        steps,
    }
}

fn step(plan: &Plan, point: &PointResult) -> Step {
    let failed = point.broke.iter().find(|broke| is_failure(broke.measure));
    let failed = failed.map(|broke| match &broke.detail {
        Some(detail) => format!("{}: {detail}", broke.load),
        None => format!("errors of {}: {:.1} %", broke.load, broke.value * 100.0),
    });
    Step {
        key: StepKey { tiles: point.tiles, backend: Backend::name(point.backend), vary: point.vary.clone() },
        index: point.index,
        kept: point.repeats_kept,
        discarded: point.repeats_voided.iter().map(|voided| voided.repeat).collect(),
        holds: point.holds,
        is_in_time: point.holds == Some(true) || (failed.is_some() && is_quick(plan, point)),
        failed,
    }
}

fn is_failure(measure: GateMeasure) -> bool {
    measure.is_failure() || measure == GateMeasure::Errors
}

/// Whether a step broke by failures alone. The gate looks no further where something failed, so the p99 is compared here; without an answer
/// there is none, and no queue either.
fn is_quick(plan: &Plan, point: &PointResult) -> bool {
    // A request that failed was not served: what was achieved is less too.
    let by_failures = |measure: GateMeasure| is_failure(measure) || measure == GateMeasure::Achieved;
    let limit = plan.points.iter().find(|planned| planned.index == point.index);
    let limit = limit.map(|planned| planned.gate.p99.as_milliseconds());
    let is_within = point.p99_ms.zip(limit).is_none_or(|(p99, limit)| p99.value <= limit);
    is_within && point.broke.iter().all(|broke| by_failures(broke.measure))
}

/// The repeats of a step that count.
pub(super) fn repeats(record: &HostRecord, step: &Step) -> Result<Vec<RepeatSummary>, String> {
    let path = record.directory.path();
    let folder = format!("points/{:02}/", step.index);
    let of_step = |name: &str| name.starts_with(&folder) && name.ends_with("/summary.json");
    let read = || -> Result<Vec<RepeatSummary>, tilemark_record::RecordError> {
        record.directory.verify_those(of_step)?;
        let own = record
            .directory
            .repeats()?
            .into_iter()
            .filter(|files| files.path().strip_prefix(path).is_ok_and(|name| name.starts_with(&folder)));
        let all: Vec<RepeatSummary> =
            own.map(|files| RepeatFiles::summary(&files)).collect::<Result<_, _>>()?;
        let counts =
            |repeat: &RepeatSummary| repeat.point == step.index && !step.discarded.contains(&repeat.repeat);
        Ok(all.into_iter().filter(counts).collect())
    };
    read().map_err(|error| with_source(&error, path))
}
