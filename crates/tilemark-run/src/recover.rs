//! `recover`: removes what a run left behind that was killed.
//!
//! A keeper takes everything else with it when it dies: processes, mounts, loop devices, network devices all
//! live in namespaces that end with it. What remains is the state folder and the control group. Only what
//! carries a run's identity is touched, and nothing whose keeper lives. Disks of guests with a database lie in the disk
//! store of the cache and remain where the engine was ended before it could remove them, whoever ended it.

use crate::{
    database_disks,
    measure::{record_failed, state_failed},
    state::{StateFolder, boot_id},
    wire::{Failure, FailureCode},
};
use serde::Serialize;
use tilemark_record::{RecordError, RunDirectory, Runs, places::Places};

/// What was found and done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Recovered {
    /// Removed: their keepers are dead.
    pub removed: Vec<String>,
    /// Left alone: their keepers live.
    pub under_way: Vec<String>,
    /// Records of which a continuation was killed: they are as before it.
    pub records: Vec<String>,
    /// Disks of guests that are gone, removed from the disk store.
    pub disks: Vec<String>,
}

/// Removes what dead keepers left.
pub fn recover(places: &Places) -> Result<Recovered, Failure> {
    crate::need_root("removing what a killed run left")?;
    let boot = boot_id().map_err(state_failed)?;
    let mut recovered = Recovered::default();
    for state in StateFolder::all(&places.state) {
        if lives(&state, &boot) {
            recovered.under_way.push(name_of(&state));
            continue;
        }
        remove(&state)?;
        recovered.removed.push(name_of(&state));
    }
    // Nothing was begun in these: they are no run that anybody knows.
    StateFolder::half_made(&places.state).iter().try_for_each(remove)?;
    let runs = Runs::new(&places.runs);
    for id in runs.ids() {
        let record = RunDirectory::at(&runs.path_of(&id));
        if !recovered.under_way.contains(&id) && restore_record(places, &record)? {
            recovered.records.push(id);
        }
    }
    recovered.disks = database_disks::remove_left(&places.cache)?;
    Ok(recovered)
}

/// Takes back what a session measured that continued a record and was killed. Returns whether there was one.
///
/// # Errors
/// When that session is still under way, or a file cannot be moved.
pub(crate) fn restore_record(places: &Places, record: &RunDirectory) -> Result<bool, Failure> {
    if !record.is_half_continued() {
        return Ok(false);
    }
    // The command may be dead while its engine still writes.
    let id = record.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    if under_way(places)?.contains(&id) {
        return Err(record_failed(RecordError::Busy { path: record.path().to_owned() }));
    }
    record.restore().map_err(record_failed)
}

/// What is under way: runs, guests and builds whose keepers live.
pub(crate) fn under_way(places: &Places) -> Result<Vec<String>, Failure> {
    let boot = boot_id().map_err(state_failed)?;
    let all = StateFolder::all(&places.state);
    Ok(all.iter().filter(|state| lives(state, &boot)).map(name_of).collect())
}

fn lives(state: &StateFolder, boot: &str) -> bool {
    state.under_way().is_ok_and(|under_way| {
        under_way.boot_id == boot && under_way.keeper.is_some_and(|keeper| keeper.lives())
    })
}

fn name_of(state: &StateFolder) -> String {
    state.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn remove(state: &StateFolder) -> Result<(), Failure> {
    state.remove_with_cgroup().map_err(|error| Failure {
        code: FailureCode::NotRestored,
        message: format!("cannot remove {}", state.path().display()),
        causes: vec![error.to_string()],
        remedy: "remove the folder and its control group by hand".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Keeper;
    use std::fs;

    #[test]
    fn a_folder_whose_keeper_is_dead_goes_and_one_whose_keeper_lives_stays() {
        if !rustix::process::geteuid().is_root() {
            return crate::skipped("recover needs root");
        }
        let home = tempfile::tempdir().unwrap();
        let places = Places {
            cache: home.path().join("c"),
            runs: home.path().join("r"),
            state: home.path().join("s"),
        };
        let alive = Keeper::of(std::process::id()).unwrap();
        let dead = Keeper { start_ticks: alive.start_ticks + 1, ..alive };
        for (name, keeper) in [("dead", dead), ("alive", alive)] {
            let folder = places.state.join(name);
            fs::create_dir_all(&folder).unwrap();
            let under_way = serde_json::json!({
                "id": name, "kind": "run", "boot_id": boot_id().unwrap(), "record": null, "cgroup": null,
                "keeper": keeper,
            });
            fs::write(folder.join("under-way.json"), under_way.to_string()).unwrap();
        }
        // A keeper that is just making its folder, and one that died doing that.
        let making = places.state.join(format!(".new.{}.{}", alive.pid, alive.start_ticks));
        let half_made = places.state.join(format!(".half.{}.{}", dead.pid, dead.start_ticks));
        fs::create_dir(&making).unwrap();
        fs::create_dir(&half_made).unwrap();
        let recovered = recover(&places).unwrap();
        assert_eq!(
            recovered,
            Recovered {
                records: Vec::new(),
                removed: vec!["dead".to_owned()],
                under_way: vec!["alive".to_owned()],
                disks: Vec::new()
            }
        );
        assert!(!places.state.join("dead").exists());
        assert!(places.state.join("alive").exists());
        assert!(making.exists() && !half_made.exists());
    }
}
