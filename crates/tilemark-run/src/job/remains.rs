//! What jobs and commands that were killed left on this host: whoever comes next removes and restores it.
//!
//! `recover` does nothing else. A run and `guests up` do it before they look at the host, and `host apply` and `host restore` before they touch
//! it: what a killed run had set would be measured, or journaled as a value of the host.

use crate::{
    failure::{Failure, FailureCode, state_failed},
    job::{
        host_journal::HostJournal,
        lock::{NotTaken, WhenBusy, take, take_for_run},
        state_folder::{StateFolder, boot_id, restore_shared},
    },
    progress::Listener,
};
use std::fs::File;
use tilemark_host::{
    HostError,
    cgroup::{Group, mount_point},
    setting::{Now, Outcome},
};
use tilemark_record::places::Places;

/// What was found, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// Jobs of which all is removed: their keepers are dead.
    pub(crate) removed: Vec<String>,
    /// Jobs left alone: their keepers live.
    pub(crate) under_way: Vec<String>,
    /// Each setting that a dead keeper had held.
    pub(crate) of_jobs: Vec<Outcome>,
    /// Each setting of a `host apply` that was killed before it was done, and those that runs shared.
    pub(crate) beside_jobs: Vec<Outcome>,
    /// What could not be looked at, and why.
    pub(crate) not_looked_at: Vec<String>,
    /// What could not be removed, in words.
    left: Vec<String>,
}

/// Whether the lock of measured runs is held already. Who applies a profile holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProfileLock {
    /// By the caller.
    Held,
    /// It is taken; a profile that another command is applying is left alone.
    Take,
}

impl Remains {
    /// Whether nothing is left.
    ///
    /// # Errors
    /// All that could not be removed or restored, by name.
    pub(crate) fn settled(&self) -> Result<(), Failure> {
        let unsettled = self.beside_jobs.iter().filter(|outcome| !outcome.is_settled());
        nothing_left(self.left.iter().cloned().chain(unsettled.map(ToString::to_string)).collect())
    }

    /// Settings that have their value from before again, in words.
    pub(crate) fn restored(&self) -> Vec<String> {
        self.words_of(&|now| *now == Now::AsFound)
    }

    /// Settings that another program has changed since, in words: they are left alone.
    pub(crate) fn changed_by_others(&self) -> Vec<String> {
        self.words_of(&|now| matches!(now, Now::Other(_)))
    }

    fn words_of(&self, is_one: &dyn Fn(&Now) -> bool) -> Vec<String> {
        let outcomes = self.of_jobs.iter().chain(&self.beside_jobs);
        outcomes.filter(|outcome| is_one(&outcome.now)).map(ToString::to_string).collect()
    }

    /// All that was done, each in a line.
    fn lines(&self) -> Vec<String> {
        let removed = self.removed.iter().map(|id| format!("removed what {id} had left, which was killed"));
        let restored = self.restored().into_iter().map(|setting| format!("restored: {setting}"));
        let others = self.changed_by_others().into_iter();
        let others =
            others.map(|setting| format!("not restored, because another program changed it: {setting}"));
        removed.chain(restored).chain(others).collect()
    }

    fn restore_half(&mut self, journal: &HostJournal) {
        match journal.restore_half() {
            Ok(outcomes) => self.beside_jobs.extend(outcomes),
            Err(error) => self.left.push(error.in_a_line()),
        }
    }
}

/// Removes and restores what dead keepers and a killed `host apply` left.
///
/// # Errors
/// Where states cannot be read, or are not to be trusted. What could not be restored is in [`Remains::settled`].
pub(crate) fn restore(places: &Places, lock: ProfileLock) -> Result<Remains, Failure> {
    let mut remains = of_jobs(places)?;
    remains.beside_jobs = shared(places, &mut remains.left);
    match lock {
        ProfileLock::Held => {
            let journal = HostJournal::of(&places.state).map_err(state_failed)?;
            remains.restore_half(&journal);
        }
        ProfileLock::Take => half_applied(places, &mut remains)?,
    }
    Ok(remains)
}

/// The same of dead keepers alone: who applies a profile sees to that of another one.
///
/// # Errors
/// As [`restore`].
pub(crate) fn of_jobs(places: &Places) -> Result<Remains, Failure> {
    let boot = boot_id().map_err(state_failed)?;
    let mut remains = Remains::default();
    for state in StateFolder::all(&places.state).map_err(state_failed)? {
        if lives(&state, &boot) {
            remains.under_way.push(state.id());
            continue;
        }
        // Its keeper has removed it meanwhile.
        if !state.path().exists() {
            continue;
        }
        let account = state.take_away();
        remains.of_jobs.extend(account.outcomes().cloned());
        match account.left() {
            none if none.is_empty() => remains.removed.push(state.id()),
            some => remains.left.extend(some),
        }
    }
    // Nothing was begun in these: they are no run that anybody knows.
    let half_made = StateFolder::half_made(&places.state);
    remains.left.extend(half_made.iter().flat_map(|state| state.take_away().left()));
    Ok(remains)
}

/// Does it for a job that is about to look at this host, and shows what was done. Without locks of its own the job takes them for as long;
/// where another run holds them, nothing is restored below that one. Returns whether anything was restored.
///
/// # Errors
/// Where states cannot be read, or something could not be restored.
pub(crate) fn restore_first(
    places: &Places,
    locks: &[File],
    listener: &mut dyn Listener,
) -> Result<bool, Failure> {
    if !is_any(places)? {
        return Ok(false);
    }
    let _own = match locks {
        [] => match take_for_run(&places.state, "recover", WhenBusy::Stop) {
            Ok(taken) => taken,
            Err(NotTaken::Held(busy)) => {
                listener.note(&format!("what a killed command left is not restored yet: {}", busy.message));
                return Ok(false);
            }
            Err(failed @ NotTaken::CannotLock(_)) => return Err(failed.into()),
        },
        _ => Vec::new(),
    };
    let remains = restore(places, ProfileLock::Held)?;
    remains.lines().iter().for_each(|line| listener.note(line));
    remains.settled()?;
    Ok(true)
}

/// Whether a keeper is dead whose state is there, or a profile is applied in part. Nothing is touched.
fn is_any(places: &Places) -> Result<bool, Failure> {
    let boot = boot_id().map_err(state_failed)?;
    let states = StateFolder::all(&places.state).map_err(state_failed)?;
    if states.iter().any(|state| !lives(state, &boot) && state.path().exists()) {
        return Ok(true);
    }
    let journal = HostJournal::of(&places.state).map_err(state_failed)?;
    // One that cannot be read is an error where it is restored.
    Ok(journal.applied_in_part().map_or(true, |applied| applied.is_some()))
}

/// Whether the keeper of a state lives, in this boot.
pub(crate) fn lives(state: &StateFolder, boot: &str) -> bool {
    state.under_way().is_ok_and(|under_way| {
        under_way.boot_id == boot && under_way.keeper.is_some_and(|keeper| keeper.lives())
    })
}

/// Restores what runs shared and no run needs: the last of them may have been killed, or refused.
fn shared(places: &Places, left: &mut Vec<String>) -> Vec<Outcome> {
    if !places.state.is_dir() {
        return Vec::new();
    }
    let tree = match mount_point() {
        Ok(tree) => tree,
        Err(HostError::NoControlGroups) => return Vec::new(),
        Err(error) => {
            left.push(error.in_a_line());
            return Vec::new();
        }
    };
    restore_shared(&places.state, &Group::at(tree)).unwrap_or_else(|error| {
        left.push(error.in_a_line());
        Vec::new()
    })
}

/// Restores what a killed `host apply` had set in part. What one applied as a whole stays until `host restore`.
fn half_applied(places: &Places, remains: &mut Remains) -> Result<(), Failure> {
    if !places.state.is_dir() {
        return Ok(());
    }
    // One that is applying now holds the lock of measured runs.
    let lock = take(&places.state, "recover", WhenBusy::Stop);
    let journal = HostJournal::of(&places.state).map_err(state_failed)?;
    let busy = match lock {
        Ok(_lock) => {
            remains.restore_half(&journal);
            return Ok(());
        }
        Err(busy) => busy,
    };
    let what = match journal.applied_in_part() {
        Ok(None) => return Ok(()),
        Ok(Some(applied)) => format!("the profile `{}`, which is applied in part", applied.profile),
        Err(error) => error.in_a_line(),
    };
    remains.not_looked_at.push(format!("{what}: {}", Failure::from(busy).message));
    Ok(())
}

fn nothing_left(mut left: Vec<String>) -> Result<(), Failure> {
    left.sort();
    left.dedup();
    let message = match left.as_slice() {
        [] => return Ok(()),
        [only] => format!("not everything could be taken away: {only}"),
        several => format!("{} things could not be taken away", several.len()),
    };
    Err(Failure {
        code: FailureCode::NotRestored,
        message,
        causes: if left.len() > 1 { left } else { Vec::new() },
        remedy: "fix each by hand: write the value found back into a setting's file, remove a folder or group by its path; then \
                 `tilemark recover` again"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fakes::places_in,
        job::{lock::WhenBusy, state_folder::Keeper},
        progress::Progress,
    };
    use std::{fs, path::Path};
    use tilemark_host::setting::{Form, Setting};

    #[derive(Default)]
    struct Notes(Vec<String>);

    impl Listener for Notes {
        fn progress(&mut self, _: &Progress) {}

        fn note(&mut self, text: &str) {
            self.0.push(text.to_owned());
        }
    }

    /// What a run leaves that held a value when its keeper was killed.
    fn held_by_a_dead_keeper(places: &Places, file: &Path, value: &str) {
        let alive = Keeper::of(std::process::id()).unwrap();
        let keeper = Keeper { start_ticks: alive.start_ticks + 1, ..alive };
        let state = StateFolder::create(&places.state, "run-1", "run", None).unwrap();
        fs::create_dir(state.path()).unwrap();
        let under_way = serde_json::json!({
            "id": "run-1", "kind": "run", "boot_id": boot_id().unwrap(), "record": null, "cgroup": null, "keeper": keeper,
        });
        fs::write(state.path().join("under-way.json"), under_way.to_string()).unwrap();
        state.journal().unwrap().hold(&[Setting::file("value", file, Form::Whole, value)]).unwrap();
    }

    #[test]
    fn what_a_killed_run_and_a_killed_profile_had_set_is_restored_and_named_before_the_next_job() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("recover needs root");
        }
        let home = tempfile::tempdir().unwrap();
        let places = places_in(home.path());
        let [of_run, of_profile] = ["of_run", "of_profile"].map(|name| home.path().join(name));
        let read = || [&of_run, &of_profile].map(|file| fs::read_to_string(file).unwrap());
        fs::write(&of_run, "1\n").unwrap();
        fs::write(&of_profile, "1\n").unwrap();
        let mut notes = Notes::default();
        let run = take(&places.state, "a-run", WhenBusy::Stop).unwrap();
        assert!(!restore_first(&places, &[], &mut notes).unwrap() && notes.0.is_empty());
        held_by_a_dead_keeper(&places, &of_run, "2");
        let journal = HostJournal::of(&places.state).unwrap();
        journal.apply("mine", &[Setting::file("value", &of_profile, Form::Whole, "2")]).unwrap();
        let journals = places.state.join(".host");
        fs::rename(journals.join("applied.json"), journals.join("applying.json")).unwrap();
        // Below a run that goes on nothing is changed.
        assert!(!restore_first(&places, &[], &mut notes).unwrap());
        assert!(notes.0[0].contains("not restored yet") && notes.0[0].contains("a-run"), "{:?}", notes.0);
        assert_eq!(read(), ["2", "2"]);
        notes.0.clear();
        // Whoever holds the locks restores all.
        assert!(restore_first(&places, &[run], &mut notes).unwrap());
        assert_eq!(read(), ["1\n", "1\n"]);
        let [removed, run, profile] = &notes.0[..] else { panic!("{:?}", notes.0) };
        assert_eq!(removed, "removed what run-1 had left, which was killed");
        assert!(
            run.contains("of_run") && run.contains("it was 1, Tilemark set 2, and it is 1 again"),
            "{run}"
        );
        assert!(profile.starts_with("restored: value") && profile.contains("of_profile"), "{profile}");
        assert!(!restore_first(&places, &[], &mut Notes::default()).unwrap(), "once");
    }

    #[test]
    fn what_cannot_be_restored_keeps_the_next_job_away_with_exit_6() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("recover needs root");
        }
        let home = tempfile::tempdir().unwrap();
        let places = places_in(home.path());
        let value = home.path().join("value");
        fs::write(&value, "1\n").unwrap();
        held_by_a_dead_keeper(&places, &value, "2");
        fs::remove_file(&value).unwrap();
        // Root may write every file, but no folder.
        fs::create_dir(&value).unwrap();
        let held = take(&places.state, "a-run", WhenBusy::Stop).unwrap();
        let failure = restore_first(&places, &[held], &mut Notes::default()).unwrap_err();
        assert_eq!(failure.code, FailureCode::NotRestored);
        assert!(failure.remedy.contains("tilemark recover"), "{failure:?}");
    }
}
