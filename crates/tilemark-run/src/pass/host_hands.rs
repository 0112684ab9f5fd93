//! The host itself, as an engine changes it: from inside of the run's namespaces, through a thread in the host's network.

use crate::{
    failure::{Failure, FailureCode},
    host::rivals::{Rival, rivals_of},
    job::keeper::host_proc,
    job::state_folder::{StateFolder, boot_id},
    pass::host_settings::Hands,
};
use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Mutex,
    thread,
};
use tilemark_host::{
    HostError,
    setting::{
        Journal, Now, Outcome, Setting,
        known::{self, Place, Root},
    },
};
use tilemark_plan::host_settings::HostSettings;
use tilemark_record::summary::SettingRead;
use tilemark_sys::namespace::join_network;

/// The hands of an engine.
pub(crate) struct HostHands {
    root: Root,
    state: StateFolder,
    /// For what ends with the run: in its own memory.
    own_journal: PathBuf,
    /// What the point under way has to do with the host.
    held: Mutex<Vec<OneSetting>>,
}

/// One file, or what is no file, of one key.
#[derive(Debug, Clone)]
struct OneSetting {
    key: String,
    place: Place,
    setting: Setting,
    is_set: bool,
}

impl HostHands {
    /// Of a run with this state folder, which has its memory mounted in `memory`.
    pub(crate) fn new(state: &Path, memory: &Path) -> Self {
        Self {
            root: Root::real(),
            state: StateFolder::at(state),
            own_journal: memory.join("settings.json"),
            held: Mutex::default(),
        }
    }

    /// The settings of a key at a value, as this host has them; none where it lacks them and may.
    fn resolved(
        &self,
        key: &str,
        value: &str,
        asked: &HostSettings,
    ) -> Result<Vec<(Place, Setting)>, HostError> {
        let found = known::find(key).and_then(|known| {
            let found = self.at(known.place, || known::resolve(&self.root, key, value))??;
            Ok(found.into_iter().map(|setting| (known.place, setting)).collect())
        });
        match found {
            Err(error) if asked.optional.contains(key) && error.is_skipped_where_optional() => Ok(Vec::new()),
            found => found,
        }
    }

    /// Does something where a place is.
    fn at<T: Send>(&self, place: Place, work: impl FnOnce() -> T + Send) -> Result<T, HostError> {
        match place {
            Place::Host => in_hosts_network(self.state.keeper(), work).map_err(|source| HostError::Setting {
                verb: "reach",
                name: "network of the host".to_owned(),
                path: "/proc".into(),
                source,
            }),
            Place::RunNetwork | Place::Process => Ok(work()),
        }
    }

    fn journals(&self) -> io::Result<[(bool, Journal); 2]> {
        Ok([(true, self.state.journal()?), (false, Journal::at(&self.own_journal, boot_id()?))])
    }

    /// What the run itself holds: processors of the load that are kept awake. A point leaves those as they are.
    fn is_runs_own(&self, setting: &Setting) -> bool {
        self.state
            .under_way()
            .is_ok_and(|under_way| under_way.settings.iter().any(|own| own.is_same_as(setting)))
    }

    /// Sets all of these or none. Returns the vectors that the kernel does not let anybody move.
    fn hold(&self, all: &[OneSetting]) -> Result<Vec<Setting>, HostError> {
        let failed = HostError::journal("use", self.state.path());
        let mut immovable = Vec::new();
        for (is_hosts, journal) in self.journals().map_err(failed)? {
            let place = if is_hosts { Place::Host } else { Place::RunNetwork };
            let of_journal = all.iter().filter(|one| one.is_set && (one.place == Place::Host) == is_hosts);
            let settings: Vec<Setting> = of_journal.map(|one| one.setting.clone()).collect();
            immovable.extend(self.at(place, || journal.hold(&settings))??);
        }
        Ok(immovable)
    }

    fn restored(&self, all: &[OneSetting]) -> Result<Vec<Outcome>, HostError> {
        let failed = HostError::journal("use", self.state.path());
        let mut outcomes = Vec::new();
        for (is_hosts, journal) in self.journals().map_err(failed)? {
            let place = if is_hosts { Place::Host } else { Place::RunNetwork };
            let ours =
                |setting: &Setting| all.iter().any(|one| one.is_set && one.setting.is_same_as(setting));
            outcomes.extend(self.at(place, || journal.restore_unless(&|held| !ours(&held.setting)))??);
        }
        Ok(outcomes)
    }
}

impl Hands for HostHands {
    fn apply(&self, wanted: &HostSettings, of_plan: &HostSettings) -> Result<Vec<SettingRead>, Failure> {
        let mut all = Vec::new();
        for (key, other) in &of_plan.setting {
            let own = wanted.setting.get(key);
            let found =
                self.resolved(key, own.unwrap_or(other), of_plan).map_err(|error| refused(key, &error))?;
            let found = found.into_iter().filter(|(_, setting)| !self.is_runs_own(setting));
            all.extend(found.map(|(place, setting)| OneSetting {
                key: key.clone(),
                place,
                setting,
                is_set: own.is_some(),
            }));
        }
        let before = self.values(&all);
        drop_idle_followers(&mut all, &before);
        let immovable = match self.hold(&all) {
            Ok(immovable) => immovable,
            Err(error) => {
                // What was held of the other journal goes as well.
                let _ = self.restored(&all);
                return Err(refused(&named_by(&error, &all), &error));
            }
        };
        if let Some(key) = leave_out(&mut all, &immovable) {
            let _ = self.restored(&all);
            let message = format!(
                "the setting {key} of the host could not be applied: the kernel spreads all of its interrupts itself"
            );
            return Err(Failure::new(FailureCode::HostUnfit, message, "leave it out"));
        }
        let found = reads(&all, before, self.values(&all));
        *self.held.lock().expect("nobody panics while it is held") = all;
        Ok(found)
    }

    fn read(&self) -> Vec<Option<String>> {
        self.values(&self.held.lock().expect("nobody panics while it is held"))
    }

    fn effective(&self) -> Vec<Option<String>> {
        let all = self.held.lock().expect("nobody panics while it is held");
        shown(&all).map(|one| one.setting.effective()).collect()
    }

    fn rivals(&self, key: &str) -> Vec<String> {
        rivals_of(&host_proc(), &[key], &[]).iter().map(Rival::in_words).collect()
    }

    fn restore(&self) -> Result<Vec<String>, Failure> {
        let all = std::mem::take(&mut *self.held.lock().expect("nobody panics while it is held"));
        let outcomes = self.restored(&all).map_err(|error| {
            Failure::from_error(FailureCode::NotRestored, &error, "`tilemark recover` tries again")
        })?;
        if let Some(left) = outcomes.iter().find(|outcome| !outcome.is_settled()) {
            return Err(Failure::new(
                FailureCode::NotRestored,
                format!("a setting of the host could not be restored: {left}"),
                "look at it by hand; `tilemark recover` tries again",
            ));
        }
        let others = outcomes.iter().filter(|outcome| matches!(outcome.now, Now::Other(_)));
        Ok(others.map(ToString::to_string).collect())
    }
}

impl HostHands {
    /// The values now; those of the host are read where it is.
    fn values(&self, all: &[OneSetting]) -> Vec<Option<String>> {
        let of_place = |is_hosts: bool| -> Vec<Option<String>> {
            let value = |one: &OneSetting| (one.place == Place::Host) == is_hosts;
            let read = |one: &OneSetting| value(one).then(|| one.setting.now().ok()).flatten();
            let place = if is_hosts { Place::Host } else { Place::RunNetwork };
            self.at(place, || shown(all).map(read).collect())
                .unwrap_or_else(|_| vec![None; shown(all).count()])
        };
        of_place(true).into_iter().zip(of_place(false)).map(|(host, own)| host.or(own)).collect()
    }
}

/// Takes vectors that cannot be moved from what is set. Returns a key of which nothing is set then.
fn leave_out(all: &mut [OneSetting], immovable: &[Setting]) -> Option<String> {
    let cannot_move = |one: &OneSetting| immovable.contains(&one.setting);
    all.iter_mut().filter(|one| cannot_move(one)).for_each(|one| one.is_set = false);
    let is_set = |key: &str| shown(all).any(|one| one.key == key && one.is_set);
    all.iter().filter(|one| cannot_move(one)).map(|one| &one.key).find(|key| !is_set(key)).cloned()
}

/// Takes out the followers of keys whose values are there already, `before` being those of [`shown`]: nothing of ours changes them then, and
/// what another program writes to them meanwhile is its own.
fn drop_idle_followers(all: &mut Vec<OneSetting>, before: &[Option<String>]) {
    let changes = |(one, before): &(&OneSetting, &Option<String>)| {
        one.is_set && before.as_ref() != Some(&one.setting.value)
    };
    let changing: BTreeSet<String> =
        shown(all).zip(before).filter(changes).map(|(one, _)| one.key.clone()).collect();
    all.retain(|one| !one.setting.is_follower() || changing.contains(&one.key));
}

/// What was set, from the values before and after it. Where hardware threads are switched off, what cannot be read any more is not held to
/// its value: they have no governor.
fn reads(all: &[OneSetting], before: Vec<Option<String>>, after: Vec<Option<String>>) -> Vec<SettingRead> {
    let has_switched_off = all.iter().any(|one| one.is_set && one.key == "smt");
    let read = |((one, before), after): ((&OneSetting, Option<String>), Option<String>)| SettingRead {
        key: one.key.clone(),
        what: one.setting.to_string(),
        place: one.place.name().to_owned(),
        set: (one.is_set && (after.is_some() || !has_switched_off)).then(|| one.setting.value.clone()),
        before,
        ..SettingRead::default()
    };
    shown(all).zip(before).zip(after).map(read).collect()
}

/// Those that somebody asked for: what the kernel changes along with one of them is only restored.
fn shown(all: &[OneSetting]) -> impl Iterator<Item = &OneSetting> {
    all.iter().filter(|one| !one.setting.is_follower())
}

/// The key of the setting that an error is about, by the name of its file.
fn named_by(error: &HostError, all: &[OneSetting]) -> String {
    let text = error.to_string();
    let key = all.iter().find(|one| text.contains(&one.setting.name)).map(|one| one.key.clone());
    key.unwrap_or_else(|| "the host".to_owned())
}

fn refused(key: &str, error: &HostError) -> Failure {
    let message = format!("the setting {key} of the host could not be applied");
    let other = "leave it out, or give another value; `tilemark host plan` shows what this host accepts";
    let remedy = error.remedy_in_run().unwrap_or(other);
    Failure::caused_by(&error.in_a_line(), FailureCode::HostUnfit, message, remedy)
}

/// Does something in a thread that sees the network of the host, as the keeper does.
fn in_hosts_network<T: Send>(keeper: Option<u32>, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let keeper = keeper.ok_or_else(|| io::Error::other("there is no keeper"))?;
    let namespace = File::open(host_proc().join(keeper.to_string()).join("ns/net"))?;
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            join_network(namespace.as_fd())?;
            Ok(work())
        });
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{job::state_folder::Keeper, program::is_root};
    use std::fs;
    use tilemark_fixtures::skipped;
    use tilemark_host::setting::{Form, Reach};

    fn vector(key: &str, number: u32) -> OneSetting {
        let setting = Setting::file(format!("{key} {number}"), format!("/{number}"), Form::Processors, "1");
        OneSetting { key: key.to_owned(), place: Place::Host, setting, is_set: true }
    }

    #[test]
    fn vectors_that_cannot_be_moved_are_not_set_and_a_key_of_such_alone_is_named() {
        let mut all = [vector("irq.a", 1), vector("irq.a", 2), vector("irq.b", 3)];
        let [first, _, third] = all.clone().map(|one| one.setting);
        assert_eq!(leave_out(&mut all, &[first]), None);
        assert_eq!(all.clone().map(|one| one.is_set), [false, true, true]);
        assert_eq!(leave_out(&mut all, &[third]).as_deref(), Some("irq.b"));
    }

    #[test]
    fn where_vectors_are_delivered_is_read_in_the_order_of_what_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let of = |number: u32, reach| {
            let path = folder.path().join(number.to_string()).join("smp_affinity_list");
            fs::create_dir(path.parent().unwrap()).unwrap();
            fs::write(path.with_file_name("effective_affinity_list"), format!("{number}\n")).unwrap();
            let one = vector("irq.a", number);
            OneSetting { setting: Setting { path, reach, ..one.setting.clone() }, ..one }
        };
        let hands = HostHands::new(folder.path(), folder.path());
        let all = [(1, Reach::Vector), (2, Reach::Follower), (3, Reach::File), (4, Reach::Vector)];
        *hands.held.lock().unwrap() = all.map(|(number, reach)| of(number, reach)).into();
        assert_eq!(hands.effective(), [Some("1".to_owned()), None, Some("4".to_owned())]);
    }

    #[test]
    fn what_another_setting_took_away_is_shown_and_not_held_to_its_value() {
        let all = [vector("cpu.governor", 0), vector("cpu.governor", 1), vector("smt", 2)];
        let [was, is] = [Some("powersave".to_owned()), Some("performance".to_owned())];
        let found = reads(&all, vec![was.clone(); 3], vec![is.clone(), None, is.clone()]);
        let set: Vec<bool> = found.iter().map(|one| one.set.is_some()).collect();
        assert_eq!(set, [true, false, true]);
        assert!(found.iter().all(|one| one.before.is_some()));
        // Without it, a value that cannot be read is not proven.
        assert!(reads(&all[..2], vec![was; 2], vec![is, None])[1].set.is_some());
    }

    /// Since Linux 5.13 a network namespace takes only what is allowed to every user.
    #[test]
    fn a_congestion_control_that_a_runs_network_may_not_have_is_refused_with_what_allows_it() {
        let error = |path: &str, source| HostError::Setting {
            verb: "write",
            name: "a value".to_owned(),
            path: path.into(),
            source: io::Error::from_raw_os_error(source),
        };
        let path = "/proc/sys/net/ipv4/tcp_congestion_control";
        // EPERM, and ENOENT.
        let [restricted, absent] =
            [1, 2].map(|kind| refused("net.ipv4.tcp_congestion_control", &error(path, kind)));
        assert!(
            restricted.causes[0].contains("Operation not permitted"),
            "the kernel's reason: {restricted:?}"
        );
        let [restricted, absent] = [restricted, absent].map(|failure| failure.remedy);
        assert!(restricted.contains("host.setting.net.ipv4.tcp_allowed_congestion_control"), "{restricted}");
        assert!(absent.contains("give another value"), "{absent}");
    }

    #[test]
    fn a_key_that_kernels_no_longer_have_is_left_out_where_it_is_optional() {
        let folder = tempfile::tempdir().unwrap();
        let hands = HostHands::new(folder.path(), folder.path());
        let gone = "kernel.sched_min_granularity_ns";
        let optional = HostSettings { optional: [gone.to_owned()].into(), ..HostSettings::default() };
        assert_eq!(hands.resolved(gone, "10000000", &optional).unwrap().len(), 0);
        let error = hands.resolved(gone, "10000000", &HostSettings::default()).unwrap_err();
        assert!(matches!(error, HostError::SettingGone { .. }), "{error:?}");
    }

    /// What forwarding of eth0 is after a repeat that sets forwarding between all networks and one more value, where the first was
    /// `found`, and forwarding of eth0 is `meanwhile` while it is measured.
    fn forwarding_after(found: &str, meanwhile: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let values = [
            ("/proc/sys/net/ipv4/ip_forward", found),
            ("/proc/sys/net/ipv4/conf/eth0/forwarding", found),
            ("/proc/sys/net/core/somaxconn", "128"),
        ];
        for (path, value) in values {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        let state = folder.path().join("state");
        fs::create_dir(&state).unwrap();
        let under_way = serde_json::json!({
            "id": "state", "kind": "run", "boot_id": boot_id().unwrap(), "record": null, "cgroup": null,
            "keeper": Keeper::of(std::process::id()),
        });
        fs::write(state.join("under-way.json"), under_way.to_string()).unwrap();
        let hands = HostHands { root: root.clone(), ..HostHands::new(&state, folder.path()) };
        let wanted = [("net.ipv4.ip_forward", "1"), ("net.core.somaxconn", "1024")];
        let setting = wanted.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let wanted = HostSettings { setting, ..HostSettings::default() };
        hands.apply(&wanted, &wanted).unwrap();
        fs::write(root.path(values[1].0), meanwhile).unwrap();
        assert_eq!(hands.restore().unwrap(), [""; 0]);
        let now = |path: &str| fs::read_to_string(root.path(path)).unwrap();
        assert_eq!([now(values[0].0), now(values[2].0)], [found, "128"]);
        now(values[1].0)
    }

    #[test]
    fn what_the_kernel_changes_along_is_restored_only_where_the_setting_changed() {
        if !is_root() {
            return skipped("the network of the host is joined, which needs root");
        }
        assert_eq!(forwarding_after("0", "1"), "0", "the kernel changed it along");
        assert_eq!(forwarding_after("1", "0"), "0", "another program changed it");
    }
}
