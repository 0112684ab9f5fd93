//! The folder of a fleet run: what was asked, how far each host is, and what came back.

use crate::{end::HostEnd, error::FleetError};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tilemark_record::{places::Places, write_whole};
use tilemark_site::{Host, Site, SiteError};
use tilemark_sys::{
    files::{OPEN_FOLDER, make_folder},
    text_file::read_text,
};

/// The format of `fleet.json`.
const FLEET_SCHEMA: u32 = 1;
const FLEET: &str = "fleet.json";
/// Where this is, nothing more is submitted.
const CANCELLED: &str = "cancelled";
const FLEET_BYTES_MAX: u64 = 16 << 20;

/// What was asked, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    /// The version of this format.
    pub schema: u32,
    /// Its id: when it began and its scenario.
    pub id: String,
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's text, where it is a file of the submitting machine.
    pub scenario_text: Option<String>,
    /// The flags of `tilemark` on each host, the seed among them.
    pub flags: Vec<String>,
    /// The seed of all hosts.
    pub seed: u64,
    /// The version of Tilemark that asked.
    pub version: String,
    /// SHA-256 of the program that asked.
    pub program_sha256: String,
    /// When it was asked, in seconds since 1970.
    pub asked_unix_s: u64,
    /// How many hosts measure at the same time at most; none: all.
    pub at_once: Option<usize>,
    /// The site of that moment.
    pub site: Site,
    /// How far each host is, in the order of the site.
    pub hosts: Vec<HostWork>,
}

/// How far the work of a host is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostWork {
    /// Its name in the site.
    pub name: String,
    /// How far it is.
    pub step: Step,
    /// What the engine calls its job, where it has a name for it.
    pub job: Option<String>,
    /// When it was submitted, in seconds since 1970.
    pub submitted_unix_s: Option<u64>,
    /// How it ended where no attempt of it says so.
    pub end: Option<HostEnd>,
}

/// Steps of a host's work. Each is on disk before the next one is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Nothing was done yet.
    Waiting,
    /// It may have been submitted: the engine is asked before anything else.
    Submitting,
    /// The engine has it.
    Submitted,
    /// Its end is known.
    Over,
}

/// The folder of one fleet run.
#[derive(Debug, Clone)]
pub struct FleetFolder {
    path: PathBuf,
}

/// Nobody else changes the folder while this lives.
#[derive(Debug)]
pub struct FleetLock {
    _file: File,
}

/// Where the fleet runs of this user are.
pub fn fleets(places: &Places) -> PathBuf {
    places.runs.with_file_name("fleets")
}

impl FleetFolder {
    /// Makes the folder of a new fleet run, with what is asked.
    ///
    /// # Errors
    /// When it cannot be made or is there.
    pub fn create(fleets: &Path, fleet: &Fleet) -> Result<Self, FleetError> {
        let path = fleets.join(&fleet.id);
        let failed = |source| FleetError::File { path: path.clone(), source };
        // Everybody may read it, as a record, whatever the umask.
        make_folder(fleets, OPEN_FOLDER).map_err(failed)?;
        fs::create_dir(&path).map_err(failed)?;
        fs::set_permissions(&path, PermissionsExt::from_mode(OPEN_FOLDER)).map_err(failed)?;
        let folder = Self { path: path.clone() };
        folder.write(fleet)?;
        File::open(fleets).and_then(|fleets| fleets.sync_all()).map_err(failed)?;
        Ok(folder)
    }

    /// Finds one by its id, a unique beginning of it, `last`, or a path.
    ///
    /// # Errors
    /// When there is none or several.
    pub fn find(fleets: &Path, wanted: &str) -> Result<Self, FleetError> {
        if wanted.contains('/') && Path::new(wanted).join(FLEET).exists() {
            return Ok(Self { path: PathBuf::from(wanted) });
        }
        let ids = ids(fleets);
        let matching: Vec<&String> = match wanted {
            "last" => ids.last().into_iter().collect(),
            _ => ids.iter().filter(|id| id.starts_with(wanted)).collect(),
        };
        match matching.as_slice() {
            [only] => Ok(Self { path: fleets.join(only) }),
            _ if ids.iter().any(|id| id == wanted) => Ok(Self { path: fleets.join(wanted) }),
            _ => Err(FleetError::NoFleet {
                wanted: wanted.to_owned(),
                known: ids.into_iter().rev().take(3).collect(),
            }),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was asked, and how far it is.
    ///
    /// # Errors
    /// When `fleet.json` cannot be read or is not of this format.
    pub fn read(&self) -> Result<Fleet, FleetError> {
        let path = self.path.join(FLEET);
        let text = read_text(&path, FLEET_BYTES_MAX)
            .map_err(|source| FleetError::File { path: path.clone(), source })?;
        let damaged = |what: String| FleetError::Damaged { path: path.clone(), what };
        let fleet: Fleet = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        if fleet.schema != FLEET_SCHEMA {
            return Err(damaged(format!(
                "it has format {}, and this program knows {FLEET_SCHEMA}",
                fleet.schema
            )));
        }
        let named = |host: &Host| fleet.hosts.iter().any(|work| work.name == host.name);
        let is_name = |name: &str| !name.is_empty() && !name.starts_with('.') && !name.contains('/');
        if fleet.hosts.len() != fleet.site.hosts.len() || !fleet.site.hosts.iter().all(named) {
            return Err(damaged("its hosts are not those of its site".to_owned()));
        }
        if !fleet.hosts.iter().all(|work| is_name(&work.name)) {
            return Err(damaged("the name of a host is no name of a folder".to_owned()));
        }
        // Folders of hosts are made and removed by it.
        if !is_name(&fleet.id) {
            return Err(damaged(format!("its id {:?} is no name of a folder", fleet.id)));
        }
        Ok(fleet)
    }

    /// From now on nothing of it is submitted, by whichever command.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn mark_cancelled(&self) -> Result<(), FleetError> {
        Ok(write_whole(&self.path.join(CANCELLED), b"")?)
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.path.join(CANCELLED).exists()
    }

    /// Writes it, synced and whole.
    pub fn write(&self, fleet: &Fleet) -> Result<(), FleetError> {
        let text = serde_json::to_vec_pretty(fleet).expect("documents have only text keys");
        Ok(write_whole(&self.path.join(FLEET), &text)?)
    }

    /// From now on its hosts are reached as another site has them.
    ///
    /// # Errors
    /// When that site, read from `path`, has not the same hosts.
    pub fn reach_by(&self, path: &Path, site: Site) -> Result<(), FleetError> {
        let _lock = self.lock()?;
        let mut fleet = self.read()?;
        if let Some(host) =
            fleet.hosts.iter().find(|work| site.hosts.iter().all(|host| host.name != work.name))
        {
            let what = format!("it has no host {:?}, which is one of the fleet run {}", host.name, fleet.id);
            return Err(SiteError::Site { path: path.to_owned(), what }.into());
        }
        let hosts =
            site.hosts.into_iter().filter(|host| fleet.hosts.iter().any(|work| work.name == host.name));
        fleet.site = Site { hosts: hosts.collect(), ..site };
        self.write(&fleet)
    }

    /// One command at a time submits and collects.
    ///
    /// # Errors
    /// When another one does at this moment.
    pub fn lock(&self) -> Result<FleetLock, FleetError> {
        let failed = |source: io::Error| FleetError::File { path: self.path.clone(), source };
        let file = File::open(&self.path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(FleetLock { _file: file }),
            Err(fs::TryLockError::WouldBlock) => Err(FleetError::Busy {
                id: self.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            }),
            Err(fs::TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Where an attempt of a host is.
    pub fn attempt(&self, host: &str, number: u32) -> PathBuf {
        self.path.join("hosts").join(host).join(format!("attempt-{number}"))
    }

    /// Attempts of a host that were collected, oldest first.
    pub fn attempts(&self, host: &str) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(self.path.join("hosts").join(host)) else { return Vec::new() };
        let number = |name: &str| name.strip_prefix("attempt-")?.parse().ok();
        let mut numbers: Vec<u32> =
            entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect();
        numbers.sort_unstable();
        numbers
    }

    /// How an attempt ended.
    pub fn end(&self, host: &str, number: u32) -> Option<HostEnd> {
        let text = read_text(&self.attempt(host, number).join("end.json"), 1 << 20).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// Ids of all fleet runs, oldest first.
pub fn ids(fleets: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(fleets) else { return Vec::new() };
    let mut ids: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().join(FLEET).exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    ids.sort();
    ids
}

/// What is asked of a fleet.
#[derive(Debug, Clone)]
pub struct FleetOrder {
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's text, where it is a file.
    pub scenario_text: Option<String>,
    /// The flags of `tilemark` on each host, without the seed.
    pub flags: Vec<String>,
    /// The seed of all hosts.
    pub seed: u64,
    /// This program's version.
    pub version: String,
    /// SHA-256 of this program.
    pub program_sha256: String,
    /// How many hosts measure at the same time at most.
    pub at_once: Option<usize>,
}

impl Fleet {
    /// A fleet run that nothing was done for yet.
    pub fn new(order: FleetOrder, site: Site, fleets: &Path) -> Self {
        let now = jiff::Timestamp::now();
        let begun = format!("{}-{}", now.strftime("%Y%m%d-%H%M%S"), order.scenario);
        let taken = ids(fleets);
        let id = (1..).map(|number| if number == 1 { begun.clone() } else { format!("{begun}-{number}") });
        let id = id.into_iter().find(|id| !taken.contains(id)).expect("there is always another number");
        let waiting = |host: &Host| HostWork {
            name: host.name.clone(),
            step: Step::Waiting,
            job: None,
            submitted_unix_s: None,
            end: None,
        };
        let flags = order.flags.into_iter().chain(["--seed".to_owned(), order.seed.to_string()]);
        Self {
            schema: FLEET_SCHEMA,
            id,
            scenario: order.scenario,
            scenario_text: order.scenario_text,
            flags: flags.collect(),
            seed: order.seed,
            version: order.version,
            program_sha256: order.program_sha256,
            asked_unix_s: u64::try_from(now.as_second()).unwrap_or_default(),
            at_once: order.at_once,
            hosts: site.hosts.iter().map(waiting).collect(),
            site,
        }
    }

    /// The same work on some of its hosts, with another seed: a fleet run that nothing was done for yet.
    pub fn again(&self, names: &[String], seed: u64, fleets: &Path) -> Self {
        let mut site = self.site.clone();
        site.hosts.retain(|host| names.contains(&host.name));
        // The seed is the last flag.
        let flags = self.flags[..self.flags.len().saturating_sub(2)].to_vec();
        let order = FleetOrder {
            scenario: self.scenario.clone(),
            scenario_text: self.scenario_text.clone(),
            flags,
            seed,
            version: self.version.clone(),
            program_sha256: self.program_sha256.clone(),
            at_once: self.at_once,
        };
        Self::new(order, site, fleets)
    }
}
