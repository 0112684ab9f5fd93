//! `recover`: removes what a run left behind that was killed.
//!
//! A keeper takes everything else with it when it dies: processes, mounts, loop devices, network devices all
//! live in namespaces that end with it. What remains is the state folder, the control group and the settings of the host that it
//! held. Only what carries a run's identity is touched, and nothing whose keeper lives. Disks of guests with a database lie in the disk
//! store of the cache and remain where the engine was ended before it could remove them, whoever ended it.

use crate::{
    failure::{Failure, state_failed},
    guests::database_disks,
    job::{
        remains::{self, ProfileLock, lives},
        state_folder::{StateFolder, boot_id},
    },
    program::need_root_for,
};
use serde::Serialize;
use tilemark_host::setting::Now;
use tilemark_record::{RecordError, RunDirectory, Runs, places::Places};
use tilemark_sys::files::trusted;

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
    /// Settings that were restored: of a `host apply` that was killed before it was done, and those that runs shared.
    pub settings: Vec<String>,
    /// Settings that somebody else changed since a run did, in words: they are left alone.
    pub changed_by_others: Vec<String>,
    /// Settings whose device or file does not exist any more, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
    /// What could not be looked at, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_looked_at: Vec<String>,
}

/// Why root is needed.
const REMOVES: &str = "it removes files and control groups of root, and restores settings of the host";

/// Removes what dead keepers left.
pub fn recover(places: &Places) -> Result<Recovered, Failure> {
    need_root_for("removing what a killed run left", REMOVES)?;
    let remains = remains::restore(places, ProfileLock::Take)?;
    remains.settled()?;
    let beside_jobs = |is_one: &dyn Fn(&Now) -> bool| -> Vec<String> {
        let some = remains.beside_jobs.iter().filter(|outcome| is_one(&outcome.now));
        some.map(ToString::to_string).collect()
    };
    let mut recovered = Recovered {
        settings: beside_jobs(&|now| *now == Now::AsFound),
        gone: beside_jobs(&|now| matches!(now, Now::Gone(_))),
        changed_by_others: remains.changed_by_others(),
        removed: remains.removed,
        under_way: remains.under_way,
        not_looked_at: remains.not_looked_at,
        ..Recovered::default()
    };
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
    // What it names would be removed and moved.
    trusted(record.path()).map_err(state_failed)?;
    // The command may be dead while its engine still writes.
    let id = record.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    if under_way(places)?.contains(&id) {
        return Err(RecordError::Busy { path: record.path().to_owned() }.into());
    }
    Ok(record.restore()?)
}

/// What is under way: runs, guests and builds whose keepers live.
pub(crate) fn under_way(places: &Places) -> Result<Vec<String>, Failure> {
    let boot = boot_id().map_err(state_failed)?;
    let all = StateFolder::all(&places.state).map_err(state_failed)?;
    Ok(all.iter().filter(|state| lives(state, &boot)).map(StateFolder::id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        failure::FailureCode,
        fakes::places_in,
        job::{
            host_journal::HostJournal,
            lock::{WhenBusy, take},
            state_folder::Keeper,
        },
    };
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};

    #[test]
    fn a_folder_whose_keeper_is_dead_is_removed_and_one_whose_keeper_lives_stays() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("recover needs root");
        }
        let home = tempfile::tempdir().unwrap();
        let places = places_in(home.path());
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
                ..Recovered::default()
            }
        );
        assert!(!places.state.join("dead").exists());
        assert!(places.state.join("alive").exists());
        assert!(making.exists() && !half_made.exists());
    }

    #[test]
    fn a_profile_applied_in_part_that_another_command_keeps_from_recover_is_named() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("recover needs root");
        }
        let home = tempfile::tempdir().unwrap();
        let places = places_in(home.path());
        let value = home.path().join("value");
        fs::write(&value, "1\n").unwrap();
        let journal = HostJournal::of(&places.state).unwrap();
        let setting =
            tilemark_host::setting::Setting::file("value", &value, tilemark_host::setting::Form::Whole, "2");
        journal.apply("mine", std::slice::from_ref(&setting)).unwrap();
        let journals = places.state.join(".host");
        fs::rename(journals.join("applied.json"), journals.join("applying.json")).unwrap();
        let run = take(&places.state, "a-run", WhenBusy::Stop).unwrap();
        let recovered = recover(&places).unwrap();
        let [named] = &recovered.not_looked_at[..] else { panic!("{recovered:?}") };
        assert!(named.contains("`mine`") && named.contains("a-run"), "{named}");
        drop(run);
        let recovered = recover(&places).unwrap();
        assert_eq!((recovered.settings.len(), recovered.not_looked_at.len()), (1, 0), "{recovered:?}");
        assert_eq!(fs::read_to_string(&value).unwrap(), "1\n");
        // With nothing applied in part there is nothing that could not be looked at.
        let _run = take(&places.state, "a-run", WhenBusy::Stop).unwrap();
        assert_eq!(recover(&places).unwrap().not_looked_at, Vec::<String>::new());
    }

    #[test]
    fn a_journal_that_another_user_wrote_or_could_write_is_refused_by_name_and_nothing_is_done() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("recover needs root");
        }
        let forge = |spoil: &dyn Fn(&Path)| {
            let home = tempfile::tempdir().unwrap();
            let places = places_in(home.path());
            let folder = places.state.join("run-1");
            let group = home.path().join("group");
            fs::create_dir_all(&folder).unwrap();
            fs::create_dir_all(&group).unwrap();
            fs::write(group.join("cgroup.kill"), "").unwrap();
            let under_way = serde_json::json!({
                "id": "run-1", "kind": "run", "boot_id": boot_id().unwrap(), "record": null,
                "cgroup": group, "keeper": null,
            });
            fs::write(folder.join("under-way.json"), under_way.to_string()).unwrap();
            spoil(&folder);
            let failure = recover(&places).unwrap_err();
            assert_eq!(failure.code, FailureCode::HostUnfit, "{failure:?}");
            assert_eq!(fs::read_to_string(group.join("cgroup.kill")).unwrap(), "", "its group was ended");
            assert!(folder.symlink_metadata().is_ok(), "it was removed");
            (failure, folder)
        };
        let nobody = 65534;
        let chown = |path: &Path| std::os::unix::fs::lchown(path, Some(nobody), None).unwrap();
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        let (failure, folder) = forge(&|folder| chown(folder));
        assert_eq!(failure.message, format!("{} belongs to user {nobody}: it is not used", folder.display()));
        let (failure, folder) = forge(&|folder| chown(&folder.join("under-way.json")));
        assert!(
            failure.message.starts_with(&format!("{}/under-way.json belongs", folder.display())),
            "{failure:?}"
        );
        let (failure, folder) = forge(&|folder| open(folder.parent().unwrap()));
        let states = folder.parent().unwrap().display().to_string();
        assert!(failure.message.contains(&states) && failure.remedy.contains("chmod"), "{failure:?}");
        forge(&|folder| open(folder));
        forge(&|folder| open(&folder.join("under-way.json")));
        // A folder of the attacker's, by a link.
        forge(&|folder| {
            let theirs = folder.with_file_name("theirs");
            fs::rename(folder, &theirs).unwrap();
            std::os::unix::fs::symlink(&theirs, folder).unwrap();
        });
    }
}
