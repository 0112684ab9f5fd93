//! The folder of a fleet run: what was asked, how far each host is, and what came back.

use crate::{carrier::random_bytes, end::HostEnd, error::FleetError};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tilemark_record::{lock_within, places::Places, write_whole};
use tilemark_site::{Host, Site, SiteEngine, SiteError};
use tilemark_sys::{
    files::{OPEN_FOLDER, make_folder, trusted},
    text_file::read_text,
};

/// The format of `fleet.json`.
const FLEET_SCHEMA: u32 = 1;
const FLEET: &str = "fleet.json";
/// Where this is, nothing more is submitted.
const CANCELLED: &str = "cancelled";
const FLEET_BYTES_MAX: u64 = 16 << 20;
/// So long a lock of a fleet's folder is waited for: a child that a killed command had just begun to start holds it until it runs its
/// program.
const LOCKED_WITHIN: Duration = Duration::from_secs(1);

/// What was asked, and how far it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    /// The version of this format.
    pub schema: u32,
    /// Its id: when it began, its scenario, and four random digits.
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
    /// The id of the fleet run whose suspects it measures again, where it does.
    #[serde(default)]
    pub confirms: Option<String>,
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
    /// Whether a queue has shown its job running: what is queued again then is a host that was lost.
    #[serde(default)]
    pub has_run: bool,
    /// How it ended where no attempt of it says so.
    pub end: Option<HostEnd>,
    /// Whether its turn passed on to another host while its work may have gone on.
    #[serde(default)]
    pub turn_passed_on: bool,
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
        let failed = FleetError::file(&path);
        // Everybody may read it, as a record, whatever the umask.
        make_folder(fleets, OPEN_FOLDER).map_err(failed)?;
        fs::create_dir(&path).map_err(failed)?;
        fs::set_permissions(&path, PermissionsExt::from_mode(OPEN_FOLDER)).map_err(failed)?;
        let folder = Self { path: path.clone() };
        folder.write(fleet)?;
        File::open(fleets).and_then(|fleets| fleets.sync_all()).map_err(failed)?;
        Ok(folder)
    }

    /// Finds one by its id, a unique beginning of it, `last`, or a path. The last one is the newest that does not confirm another one.
    ///
    /// # Errors
    /// When there is none or several.
    pub fn find(fleets: &Path, wanted: &str) -> Result<Self, FleetError> {
        if wanted.contains('/') && Path::new(wanted).join(FLEET).exists() {
            return Ok(Self { path: PathBuf::from(wanted) });
        }
        let ids = ids(fleets);
        let matching: Vec<&String> = match wanted {
            "last" => ids.iter().rev().find(|id| confirms(fleets, id).is_none()).into_iter().collect(),
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

    /// The fleet runs that measure the suspects of this one again, the newest first.
    pub fn confirming(&self, fleets: &Path) -> Vec<Self> {
        let Ok(Fleet { id, .. }) = self.read() else { return Vec::new() };
        let own = ids(fleets).into_iter().rev().filter(|other| confirms(fleets, other).as_ref() == Some(&id));
        own.map(|other| Self { path: fleets.join(other) }).collect()
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether only root and the caller can change it, what it names, and the folders of its hosts, and none of them is a link.
    ///
    /// # Errors
    /// [`Distrust`](tilemark_sys::files::Distrust); else what the kernel answered.
    pub fn can_be_trusted(&self) -> io::Result<()> {
        let hosts = self.path.join("hosts");
        let of_hosts = fs::read_dir(&hosts).into_iter().flatten().flatten().map(|entry| entry.path());
        trusted(&self.path)?;
        trusted(&self.path.join(FLEET))?;
        let mut parts = std::iter::once(hosts.clone()).chain(of_hosts);
        parts.try_for_each(|part| match trusted(&part) {
            // Nothing of it has come home.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        })
    }

    /// What was asked, and how far it is.
    ///
    /// # Errors
    /// When `fleet.json` cannot be read or is not of this format.
    pub fn read(&self) -> Result<Fleet, FleetError> {
        let path = self.path.join(FLEET);
        let text = read_text(&path, FLEET_BYTES_MAX).map_err(FleetError::file(&path))?;
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
            return Err(damaged("the name of a host is not a valid name of a folder".to_owned()));
        }
        // Folders of hosts are made and removed by it.
        if !is_name(&fleet.id) {
            return Err(damaged(format!("its id {:?} is not a valid name of a folder", fleet.id)));
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
    /// When that site, read from `path`, has not the same hosts, or would look for work in a queue that does not have it.
    pub fn reach_by(&self, path: &Path, site: Site) -> Result<(), FleetError> {
        let _lock = self.lock()?;
        let mut fleet = self.read()?;
        if let Some(host) =
            fleet.hosts.iter().find(|work| site.hosts.iter().all(|host| host.name != work.name))
        {
            let what = format!("it has no host {:?}, which is one of the fleet run {}", host.name, fleet.id);
            return Err(SiteError::Site { path: path.to_owned(), what }.into());
        }
        let is_queue = |site: &Site| matches!(site.engine, SiteEngine::Slurm { .. });
        let has_work = |work: &HostWork| matches!(work.step, Step::Submitting | Step::Submitted);
        if let Some(host) = fleet.hosts.iter().find(|work| has_work(work))
            && is_queue(&site) != is_queue(&fleet.site)
        {
            let of = |site| if is_queue(site) { "by Slurm" } else { "without a queue" };
            let (own, other) = (of(&fleet.site), of(&site));
            let what = format!(
                "its hosts are given work {other}, and {} has work of the fleet run {} that was given {own}",
                host.name, fleet.id
            );
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
        let failed = FleetError::file(&self.path);
        let file = File::open(&self.path).map_err(failed)?;
        match lock_within(&file, LOCKED_WITHIN) {
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

/// Which fleet run this one confirms; none where it confirms none or cannot be read.
fn confirms(fleets: &Path, id: &str) -> Option<String> {
    FleetFolder { path: fleets.join(id) }.read().ok()?.confirms
}

/// The beginning with four random digits: another submitter who begins in the same second has the same hosts do other work under another id. Behind
/// those of the same beginning in order, so that the newest is the last one.
fn new_id(begun: &str, taken: &[String]) -> String {
    let own =
        |id: &String| u16::from_str_radix(id.strip_prefix(begun)?.strip_prefix('-')?.get(..4)?, 16).ok();
    let least = taken.iter().filter_map(own).max().map_or(0, |last| last.saturating_add(1));
    let drawn = u32::from(u16::from_ne_bytes(random_bytes())) % (u32::from(u16::MAX - least) + 1);
    let first = format!("{begun}-{:04x}", u32::from(least) + drawn);
    let mut all = std::iter::once(first.clone()).chain((2..).map(|number: u32| format!("{first}-{number}")));
    all.find(|id| !taken.contains(id)).expect("there is always another number")
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
        let id = new_id(&begun, &ids(fleets));
        let waiting = |host: &Host| HostWork {
            name: host.name.clone(),
            step: Step::Waiting,
            job: None,
            submitted_unix_s: None,
            has_run: false,
            end: None,
            turn_passed_on: false,
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
            confirms: None,
            asked_unix_s: u64::try_from(now.as_second()).unwrap_or_default(),
            at_once: order.at_once,
            hosts: site.hosts.iter().map(waiting).collect(),
            site,
        }
    }

    /// The same work on some of its hosts, with another seed, to confirm what it found: a fleet run that nothing was done for yet.
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
        Self { confirms: Some(self.id.clone()), ..Self::new(order, site, fleets) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tilemark_site::Slurm;

    fn fleet(scenario: &str, fleets: &Path) -> Fleet {
        let host = Host { name: "n1".into(), address: "n1".into(), user: None, groups: vec![] };
        let site = Site {
            engine: SiteEngine::Ssh,
            program: "tilemark".into(),
            lost_after_s: 1,
            hosts: vec![host],
            clients: vec![],
            network: None,
        };
        let order = FleetOrder {
            scenario: scenario.into(),
            scenario_text: None,
            flags: vec!["run".into(), scenario.into()],
            seed: 7,
            version: "1".into(),
            program_sha256: String::new(),
            at_once: None,
        };
        Fleet::new(order, site, fleets)
    }

    #[test]
    fn ids_of_one_second_differ_between_submitters_and_are_in_order_for_one() {
        let ids: std::collections::BTreeSet<String> =
            (0..20).map(|_| new_id("20261125-101112-web", &[])).collect();
        assert!(ids.len() > 15, "{ids:?}");
        let mut taken = vec!["20261125-101112-web".to_owned(), "20261125-101112-web-fffd".to_owned()];
        for _ in 0..5 {
            let id = new_id("20261125-101112-web", &taken);
            assert!(taken.iter().all(|other| *other < id), "{id} is behind {taken:?}");
            taken.push(id);
        }
    }

    #[test]
    fn a_fleet_run_that_confirms_another_one_is_not_the_last_and_belongs_to_that() {
        let fleets = tempfile::tempdir().unwrap();
        let first = fleet("web", fleets.path());
        let folder = FleetFolder::create(fleets.path(), &first).unwrap();
        assert!(folder.confirming(fleets.path()).is_empty());
        let mut again = first.again(&["n1".to_owned()], 8, fleets.path());
        again.id = format!("2{}", again.id);
        FleetFolder::create(fleets.path(), &again).unwrap();
        let last = FleetFolder::find(fleets.path(), "last").unwrap();
        assert_eq!(last.path(), folder.path());
        let confirming = folder.confirming(fleets.path());
        let names: Vec<_> = confirming.iter().map(|one| one.read().unwrap().id).collect();
        assert_eq!(names, [again.id]);
        // One that an older program wrote.
        let path = folder.path().join(FLEET);
        let text = fs::read_to_string(&path).unwrap().replace("\"confirms\": null,", "");
        assert!(!text.contains("confirms"));
        fs::write(&path, text).unwrap();
        assert_eq!(folder.read().unwrap(), first);
    }

    #[test]
    fn a_lock_that_ends_soon_is_waited_for_and_one_that_does_not_is_named() {
        let fleets = tempfile::tempdir().unwrap();
        let folder = FleetFolder::create(fleets.path(), &fleet("web", fleets.path())).unwrap();
        let held = folder.lock().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(LOCKED_WITHIN / 20);
                drop(held);
            });
            assert!(folder.lock().is_ok());
        });
        let _held = folder.lock().unwrap();
        assert!(matches!(folder.lock(), Err(FleetError::Busy { .. })));
    }

    #[test]
    fn work_that_a_queue_has_is_not_looked_for_without_it() {
        let fleets = tempfile::tempdir().unwrap();
        let mut own = fleet("web", fleets.path());
        let folder = FleetFolder::create(fleets.path(), &own).unwrap();
        let mut site = own.site.clone();
        site.engine = SiteEngine::Slurm(Slurm { over_ssh: true, ..Slurm::default() });
        let path = Path::new("site.toml");
        for step in [Step::Submitting, Step::Submitted] {
            own.hosts[0].step = step;
            folder.write(&own).unwrap();
            let error = folder.reach_by(path, site.clone()).unwrap_err();
            assert!(error.to_string().contains("n1 has work of the fleet run"), "{error}");
            // Another way to the same host is no other place of its work.
            folder
                .reach_by(
                    path,
                    Site { engine: SiteEngine::Exec { command: vec!["sh".into()] }, ..site.clone() },
                )
                .unwrap();
        }
        own.hosts[0].step = Step::Over;
        folder.write(&own).unwrap();
        folder.reach_by(path, site.clone()).unwrap();
        assert_eq!(folder.read().unwrap().site.engine, site.engine);
    }
}
