//! The state folder of something under way: who keeps it, where its record is, how it is found again.
//!
//! `STATE/ID/` holds `under-way.json`, the keeper's log and, for `guests up`, the socket by which other
//! commands reach the engine. The keeper makes it and removes it, so that a command can be killed at any
//! moment; if the keeper itself was killed, `recover` removes it.

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    time::Duration,
};
use tilemark_host::cgroup::{Group, mount_point};

/// What is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UnderWay {
    /// Its id.
    pub(crate) id: String,
    /// `run`, `guests` or `image`.
    pub(crate) kind: String,
    /// The boot of the host that it belongs to: after another boot nothing of it can live.
    pub(crate) boot_id: String,
    /// Where its record is.
    pub(crate) record: Option<PathBuf>,
    /// Its control group, where there is one.
    pub(crate) cgroup: Option<PathBuf>,
    /// The keeper, once it lives.
    pub(crate) keeper: Option<Keeper>,
}

/// A keeper, known by number and start time: a number alone may come to mean another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keeper {
    /// Its number.
    pub(crate) pid: u32,
    /// When it started, in clock ticks since the host's boot.
    pub(crate) start_ticks: u64,
}

impl Keeper {
    /// The one with this number, if it lives.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        start_ticks(pid).map(|start_ticks| Self { pid, start_ticks })
    }

    /// Whether it still lives.
    pub(crate) fn lives(&self) -> bool {
        let exists = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .is_some_and(|pid| test_kill_process(pid).is_ok());
        exists && start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// Field 22 of /proc/PID/stat; `None` for a process that is gone or only a zombie.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets and may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// One state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateFolder {
    path: PathBuf,
    /// What its keeper is to write into it.
    wanted: Option<UnderWay>,
}

/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);
const UNDER_WAY: &str = "under-way.json";

impl StateFolder {
    /// Says what one shall be. Only the folder of all of them is made now; its keeper makes the rest.
    pub(crate) fn create(states: &Path, id: &str, kind: &str, record: Option<&Path>) -> io::Result<Self> {
        fs::create_dir_all(states).map_err(|error| named(states, &error))?;
        let wanted = UnderWay {
            id: id.to_owned(),
            kind: kind.to_owned(),
            boot_id: boot_id()?,
            record: record.map(Path::to_owned),
            cgroup: None,
            keeper: None,
        };
        Ok(Self { path: states.join(id), wanted: Some(wanted) })
    }

    /// What its keeper is to write into it.
    pub(crate) fn wanted(&self) -> Option<&UnderWay> {
        self.wanted.as_ref()
    }

    /// The keeper's part: makes it, with a control group if the host has cgroup2.
    ///
    /// It is made aside, under a name that says whose it is, and appears whole: whoever finds a state folder finds its
    /// keeper in it. The group is written down before it is made, so that it is never there without a trace.
    pub(crate) fn make(&self, wanted: UnderWay) -> io::Result<()> {
        let keeper = Keeper::of(std::process::id());
        let aside = Self::at(&self.aside(keeper));
        fs::create_dir(&aside.path).map_err(|error| named(&self.path, &error))?;
        let group = format!("tilemark.{}", wanted.id);
        let cgroup = mount_point().ok().map(|tree| tree.join(&group));
        let under_way = UnderWay { cgroup, keeper, ..wanted };
        let appears = aside.write(&under_way).and_then(|()| fs::rename(&aside.path, &self.path));
        appears.map_err(|error| named(&self.path, &error)).inspect_err(|_| {
            // What is half made goes; the error that counts is the one above.
            let _ = fs::remove_dir_all(&aside.path);
        })?;
        if Group::create(&group).is_err() {
            self.write(&UnderWay { cgroup: None, ..under_way })?;
        }
        Ok(())
    }

    /// Where a keeper makes it: `.ID.PID.START`.
    fn aside(&self, keeper: Option<Keeper>) -> PathBuf {
        let id = self.path.file_name().unwrap_or_default().to_string_lossy();
        let keeper = keeper.unwrap_or(Keeper { pid: std::process::id(), start_ticks: 0 });
        self.path.with_file_name(format!(".{id}.{}.{}", keeper.pid, keeper.start_ticks))
    }

    /// Folders that a keeper began to make and did not finish before it died.
    pub(crate) fn half_made(states: &Path) -> Vec<Self> {
        let maker = |name: &str| -> Option<Keeper> {
            let mut parts = name.strip_prefix('.')?.rsplit('.');
            let start_ticks = parts.next()?.parse().ok()?;
            Some(Keeper { pid: parts.next()?.parse().ok()?, start_ticks })
        };
        let entries = fs::read_dir(states).into_iter().flatten().flatten();
        let dead = entries.filter(|entry| {
            maker(&entry.file_name().to_string_lossy()).is_some_and(|keeper| !keeper.lives())
        });
        dead.map(|entry| Self { path: entry.path(), wanted: None }).collect()
    }

    /// Takes up one that exists.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), wanted: None }
    }

    /// All that exist, but for those that are being made.
    pub(crate) fn all(states: &Path) -> Vec<Self> {
        let Ok(entries) = fs::read_dir(states) else { return Vec::new() };
        let made = entries.flatten().filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
        let folders = made.map(|entry| entry.path()).filter(|path| path.is_dir());
        folders.map(|path| Self { path, wanted: None }).collect()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where keeper, init and engine write what nobody reads unless they fail.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("keeper.log")
    }

    /// Where commands reach the engine of `guests up`.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("engine.sock")
    }

    /// What is under way.
    pub(crate) fn under_way(&self) -> io::Result<UnderWay> {
        let text = fs::read(self.path.join(UNDER_WAY))?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn write(&self, under_way: &UnderWay) -> io::Result<()> {
        let aside = self.path.join(".under-way.aside");
        fs::write(&aside, serde_json::to_vec_pretty(under_way)?)?;
        File::open(&aside)?.sync_all()?;
        fs::rename(aside, self.path.join(UNDER_WAY))
    }

    /// Its control group, to start processes in.
    pub(crate) fn open_cgroup(&self) -> Option<OwnedFd> {
        let path = self.under_way().ok()?.cgroup?;
        File::open(path).ok().map(OwnedFd::from)
    }

    /// Removes the control group, with whatever still lives in it, and then the folder.
    pub(crate) fn remove_with_cgroup(&self) -> io::Result<()> {
        let cgroup = self.under_way().ok().and_then(|under_way| under_way.cgroup);
        if let Some(path) = cgroup.filter(|path| path.exists()) {
            Group::at(&path).end(PATIENCE).map_err(io::Error::other)?;
        }
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The system's reason does not name the path.
fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The boot of this host.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_being_made_is_nobodys_and_one_half_made_is_found_when_its_maker_is_dead() {
        let states = tempfile::tempdir().unwrap();
        let state = StateFolder::at(&states.path().join("guests-1"));
        let maker = Keeper::of(std::process::id()).unwrap();
        fs::create_dir(state.aside(Some(maker))).unwrap();
        assert_eq!(StateFolder::all(states.path()).len(), 0);
        assert_eq!(StateFolder::half_made(states.path()).len(), 0, "its maker lives");
        let dead = state.aside(Some(Keeper { start_ticks: maker.start_ticks + 1, ..maker }));
        fs::create_dir(&dead).unwrap();
        let found = StateFolder::half_made(states.path());
        assert_eq!(found.iter().map(StateFolder::path).collect::<Vec<_>>(), [dead.as_path()]);
    }

    #[test]
    fn this_process_lives_and_one_with_its_number_and_another_start_does_not() {
        let keeper = Keeper::of(std::process::id()).unwrap();
        assert!(keeper.lives());
        assert!(!Keeper { start_ticks: keeper.start_ticks + 1, ..keeper }.lives());
    }
}
