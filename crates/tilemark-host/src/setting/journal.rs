//! What was found of settings before they were changed, on disk: written and synced before a value is touched.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tilemark_sys::files::{read_trusted, replace_private};

use super::memory_controller::limit_of_others;
use super::{Reach, Setting};
use crate::error::HostError;
use crate::traces::holders;

/// A setting that is held at our value, with the text that it had before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The setting and our value.
    pub setting: Setting,
    /// The whole text before.
    pub found: String,
    /// The network namespace that it was found in, where it is a value of one: its inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<u64>,
    /// Whether our write of it is known to have ended, as where it takes many steps: a value between, or a third one, is not ours any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_whole: bool,
}

/// The value of a setting now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Now {
    /// The value found before ours.
    AsFound,
    /// Ours.
    Ours,
    /// Neither: somebody else's.
    Other(String),
    /// Its device or its file does not exist any more, and neither does the value.
    Gone(String),
    /// It cannot be read, and why.
    Unread(String),
}

/// What came of restoring a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The setting, with our value and that from before.
    pub held: Held,
    /// Its value after that.
    pub now: Now,
    /// Why it could not be written, where it could not.
    pub refused: Option<String>,
}

impl Held {
    /// A setting with its text of now.
    fn read(setting: &Setting) -> Result<Self, HostError> {
        let network = if setting.is_of_a_network() { own_network() } else { None };
        Ok(Self { setting: setting.clone(), found: setting.read()?, network, is_whole: false })
    }

    /// The value before ours.
    pub fn found_value(&self) -> String {
        self.setting.form.value_in(&self.found)
    }

    /// Whether restoring it may change anything.
    fn is_to_be_restored(&self) -> bool {
        self.setting.is_follower() || self.found_value() != self.setting.value
    }

    /// What a person does to restore it: `write "20" into /sys/…`.
    pub fn order_to_restore(&self) -> String {
        let order = self.setting.form.order_for(&self.found);
        let Setting { name, .. } = &self.setting;
        match self.setting.path() {
            Some(path) => format!("write {:?} into {}", order.trim_end(), path.display()),
            None => format!("set the {name} to {:?}", order.trim_end()),
        }
    }

    /// Reads which value it has now.
    pub fn now(&self) -> Now {
        let is_elsewhere = |network: &u64| own_network().is_some_and(|own| own != *network);
        if let Some(network) = self.network.filter(is_elsewhere) {
            return elsewhere(&format!("net:[{network}]"));
        }
        let value = match self.setting.read() {
            Ok(text) => self.setting.form.value_in(&text),
            Err(error) if error.is_gone() => return Now::Gone(error.in_a_line()),
            Err(error) => return Now::Unread(error.in_a_line()),
        };
        match value {
            value if value == self.found_value() => Now::AsFound,
            value if value == self.setting.value => Now::Ours,
            value => Now::Other(value),
        }
    }

    /// Writes the text found, if the value is still ours, and reads it back.
    pub fn restore_if_ours(&self) -> Outcome {
        match self.now() {
            Now::Ours => match limit_of_others(&self.setting) {
                Some(limit) => {
                    let why = format!("{limit}, which needs it");
                    self.outcome(Now::Other(self.setting.value.clone()), Some(why))
                }
                None => self.put_back(),
            },
            // Our own write of another setting brought it.
            Now::Other(_) if self.setting.is_follower() => self.put_back(),
            Now::Other(value) if self.is_on_the_way(&value) => self.put_back(),
            now => self.outcome(now, None),
        }
    }

    /// The same, but leaves it alone where another program has set the other one of its pair: to write this one would undo that.
    fn restore_beside(&self, of_others: &[PathBuf]) -> Outcome {
        let pair = self.setting.pair().filter(|pair| of_others.contains(pair));
        match pair.filter(|_| self.now() == Now::Ours) {
            Some(pair) => {
                let why = format!("another program set {}, which rules it", pair.display());
                self.outcome(Now::Other(self.setting.value.clone()), Some(why))
            }
            None => self.restore_if_ours(),
        }
    }

    /// Whether a value is one that our own write passes: whoever is killed in it leaves the kernel there.
    fn is_on_the_way(&self, value: &str) -> bool {
        // A group with our name that was not there before is ours in any state.
        if matches!(self.setting.reach, Reach::Partition { .. }) && self.found_value().is_empty() {
            return true;
        }
        let number = |text: &str| text.parse::<u64>().ok();
        let ends = number(&self.found_value()).zip(number(&self.setting.value));
        self.setting.is_set_in_steps()
            && !self.is_whole
            && ends
                .zip(number(value))
                .is_some_and(|((one, other), now)| (one.min(other)..=one.max(other)).contains(&now))
    }

    /// Writes the text found, whatever the value is, and reads it back. A third value then is what our write brought, such as fewer huge
    /// pages than there were: it counts as ours, so that the next who tries restores it.
    fn put_back(&self) -> Outcome {
        let refused = self.setting.write(&self.found).err().map(|error| error.in_a_line());
        match self.now() {
            Now::Other(value) => {
                let why = refused.unwrap_or_else(|| format!("the kernel keeps {value}"));
                let setting = Setting { value, ..self.setting.clone() };
                Self { setting, ..self.clone() }.outcome(Now::Ours, Some(why))
            }
            now => self.outcome(now, refused),
        }
    }

    fn outcome(&self, now: Now, refused: Option<String>) -> Outcome {
        Outcome { held: self.clone(), now, refused }
    }
}

impl Now {
    /// In words: `ours`, `as before`, or the value of another program.
    pub fn in_words(&self) -> String {
        match self {
            Self::AsFound => "now as before".to_owned(),
            Self::Ours => "unchanged since".to_owned(),
            Self::Other(value) => format!("now {value}, by another program"),
            Self::Gone(why) => format!("gone: {why}"),
            Self::Unread(why) => why.clone(),
        }
    }
}

impl Outcome {
    /// Whether nothing of ours is left: the value is as found, or somebody else's, or gone.
    pub fn is_settled(&self) -> bool {
        matches!(self.now, Now::AsFound | Now::Other(_) | Now::Gone(_))
    }
}

/// `wake-up latency limit (PM QoS) of CPU 3 (PATH): it was 0, Tilemark set n/a, and it is 50 now`.
impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let setting = &self.held.setting;
        let found = self.held.found_value();
        let shown = |value: &str| if value.is_empty() { "off".to_owned() } else { value.to_owned() };
        write!(out, "{setting}: it was {}, Tilemark set {}", shown(&found), shown(&setting.value))?;
        match &self.now {
            Now::AsFound => write!(out, ", and it is {} again", shown(&found))?,
            Now::Ours => write!(out, ", and it is still {}", shown(&setting.value))?,
            Now::Other(other) => write!(out, ", and it is {} now", shown(other))?,
            Now::Gone(why) => write!(out, ", and it is gone; {why}")?,
            Now::Unread(why) => write!(out, "; {why}")?,
        }
        self.refused.as_ref().map_or(Ok(()), |why| write!(out, "; {why}"))
    }
}

/// The journal of settings that are held together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    path: PathBuf,
    boot_id: String,
    owner: String,
    is_half_set: bool,
}

#[derive(Serialize, Deserialize)]
struct Document {
    /// The boot that the values belong to: the next one begins with its own.
    boot_id: String,
    /// For whom they are held.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    owner: String,
    held: Vec<Held>,
    /// Vectors of interrupts that the kernel did not let anybody move. A kernel before 6.12 says so only when one is written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    immovable: Vec<Setting>,
}

/// A moment of [`Journal::hold`] or [`Journal::restore`], for tests that end it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Journaled,
    Written,
    ReadBack,
    PutBack,
}

impl Journal {
    /// The journal in this file, in this boot of the host.
    pub fn at(path: impl Into<PathBuf>, boot_id: impl Into<String>) -> Self {
        Self { path: path.into(), boot_id: boot_id.into(), owner: String::new(), is_half_set: false }
    }

    /// The same, of settings that were never all set: its writer gives it another name once they are. One of them may have been written and
    /// not read back, and a kernel may have made another value of it.
    pub fn half_set(self) -> Self {
        Self { is_half_set: true, ..self }
    }

    /// The same, which notes for whom the settings are held.
    pub fn owned_by(self, owner: impl Into<String>) -> Self {
        Self { owner: owner.into(), ..self }
    }

    /// For whom settings are held in this boot; `None` where none are.
    ///
    /// # Errors
    /// As [`Self::held`].
    pub fn owner(&self) -> Result<Option<String>, HostError> {
        Ok(self.document()?.map(|document| document.owner))
    }

    /// Gives it another name in the same folder, in place of what had that name before.
    ///
    /// # Errors
    /// Where it cannot be renamed.
    pub fn rename(&self, name: &str) -> Result<(), HostError> {
        let renamed = fs::rename(&self.path, self.path.with_file_name(name));
        renamed.and_then(|()| self.sync_folder()).map_err(HostError::journal("rename", &self.path))
    }

    /// What is held in this boot, in the order in which it was set. Nothing where there is no journal, or only one of another boot.
    ///
    /// # Errors
    /// Where it cannot be read, or is not to be trusted.
    pub fn held(&self) -> Result<Vec<Held>, HostError> {
        Ok(self.document()?.map(|document| document.held).unwrap_or_default())
    }

    /// The vectors of interrupts that could not be moved when what is held was set; none where nothing is held.
    ///
    /// # Errors
    /// As [`Self::held`].
    pub fn immovable(&self) -> Result<Vec<Setting>, HostError> {
        Ok(self.document()?.map(|document| document.immovable).unwrap_or_default())
    }

    fn document(&self) -> Result<Option<Document>, HostError> {
        let text = match read_trusted(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.map_err(HostError::journal("read", &self.path))?,
        };
        let document: Document = serde_json::from_slice(&text)
            .map_err(|error| HostError::journal("read", &self.path)(error.into()))?;
        Ok((document.boot_id == self.boot_id).then_some(document))
    }

    /// Sets all of these, or none: where one is refused, those before it are restored. One that has its value already is
    /// not ours, and is not restored later. Services are stopped first: some of them set values back when they stop, so that one that has
    /// its value already may need to be set too.
    ///
    /// # Errors
    /// The first setting that cannot be read, written or read back, or has another value again once the last one is set; a journal that
    /// cannot be written. What could not be restored then stays in the journal.
    ///
    /// Returns the vectors of interrupts that the kernel does not let anybody move: they are unchanged, and the others are set.
    pub fn hold(&self, settings: &[Setting]) -> Result<Vec<Setting>, HostError> {
        self.hold_watched(settings, &mut |_| {})
    }

    fn hold_watched(
        &self,
        settings: &[Setting],
        at: &mut dyn FnMut(Moment),
    ) -> Result<Vec<Setting>, HostError> {
        let mut before = self.held()?;
        let mut new = Vec::new();
        for setting in settings {
            let held = Held::read(setting)?;
            if held.is_to_be_restored() {
                // One that is held already, and changed since: its value now is what is to be found again.
                before.retain(|held| !held.setting.is_same_as(setting));
            }
            new.push(held);
        }
        let differs = |held: &Held| held.is_to_be_restored() && !held.setting.is_follower();
        if !new.iter().any(differs) {
            return Ok(Vec::new());
        }
        if !new.iter().any(|held| differs(held) && held.setting.stops_a_service()) {
            new.retain(Held::is_to_be_restored);
        }
        new.sort_by_key(|held| held.setting.turn());
        self.write(&with(&before, &new))?;
        at(Moment::Journaled);
        let immovable = match set_all(&new, at) {
            Ok(immovable) => immovable,
            Err((error, left)) => {
                before.extend(left.into_iter().map(|held| Held { is_whole: true, ..held }));
                self.write(&before)?;
                return Err(error);
            }
        };
        new.retain(|held| !immovable.contains(&held.setting));
        let has_steps = mark_ended(&mut new);
        if has_steps || !immovable.is_empty() {
            self.write_with(&with(&before, &new), &immovable)?;
        }
        Ok(immovable)
    }

    /// Restores all that is held, newest first, where the value is still ours. What could not be restored stays in the journal, and
    /// the journal goes with its last entry. A journal of another boot goes, and nothing of it is written.
    ///
    /// # Errors
    /// Where the journal cannot be read or written.
    pub fn restore(&self) -> Result<Vec<Outcome>, HostError> {
        self.restore_unless(&|_| false)
    }

    /// The same, but leaves what is in use by another of ours as it is, in the journal: whoever ends last restores it.
    ///
    /// # Errors
    /// As [`Self::restore`].
    pub fn restore_unless(&self, in_use: &dyn Fn(&Held) -> bool) -> Result<Vec<Outcome>, HostError> {
        self.restore_watched(in_use, &mut |_| {})
    }

    fn restore_watched(
        &self,
        in_use: &dyn Fn(&Held) -> bool,
        at: &mut dyn FnMut(Moment),
    ) -> Result<Vec<Outcome>, HostError> {
        let (mut left, mut free): (Vec<Held>, Vec<Held>) = self.held()?.into_iter().partition(in_use);
        if mark_begun(&mut free) {
            // A full disk keeps nothing from being restored.
            let _ = self.write(&[&left[..], &free].concat());
        }
        let half_set = if self.is_half_set { written_last(&free) } else { None };
        let of_others = pairs_of_others(&free);
        let mut outcomes = Vec::new();
        for (place, held) in free.iter().enumerate().rev() {
            let is_half_set = half_set == Some(place);
            outcomes.push(if is_half_set { held.put_back() } else { held.restore_beside(&of_others) });
            at(Moment::PutBack);
        }
        look_again(&mut outcomes);
        let not_restored = outcomes.iter().rev().filter(|outcome| !outcome.is_settled());
        // No value of another program is taken for that of a write that has long ended.
        let is_whole = |held: Held| Held { is_whole: held.is_whole || self.is_half_set, ..held };
        left.extend(not_restored.map(|outcome| is_whole(outcome.held.clone())));
        self.write(&left)?;
        Ok(outcomes)
    }

    /// Adds what an older version of Tilemark noted in another form.
    ///
    /// # Errors
    /// Where the journal cannot be read or written.
    pub fn adopt(&self, noted: Vec<Held>) -> Result<(), HostError> {
        let mut held = self.held()?;
        held.extend(noted.into_iter().filter(|one| !held.contains(one)).collect::<Vec<_>>());
        self.write(&held)
    }

    fn write(&self, held: &[Held]) -> Result<(), HostError> {
        self.write_with(held, &[])
    }

    /// Writes it whole, synced with its folder; where nothing is held it is removed.
    fn write_with(&self, held: &[Held], immovable: &[Setting]) -> Result<(), HostError> {
        let written = || -> io::Result<()> {
            if held.is_empty() {
                return match fs::remove_file(&self.path) {
                    // A file system that may not be written refuses that of a file that is not there, too.
                    Err(error) if fs::symlink_metadata(&self.path).is_ok() => Err(error),
                    _ => Ok(()),
                };
            }
            let Self { boot_id, owner, .. } = self.clone();
            let document = Document { boot_id, owner, held: held.to_vec(), immovable: immovable.to_vec() };
            replace_private(&self.path, &serde_json::to_vec_pretty(&document)?)
        };
        written().map_err(HostError::journal("write", &self.path))
    }

    fn sync_folder(&self) -> io::Result<()> {
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }
}

/// The network namespace of this thread.
fn own_network() -> Option<u64> {
    Some(fs::metadata("/proc/thread-self/ns/net").ok()?.ino())
}

/// A value of another network namespace: here its file is that of another value. It is gone with its namespace.
fn elsewhere(namespace: &str) -> Now {
    match holders(&[namespace.to_owned()]) {
        Ok(holders) if holders.is_empty() => {
            Now::Gone(format!("its network namespace {namespace} has ended"))
        }
        _ => {
            Now::Unread(format!("it is a value of another network namespace, {namespace}: restore it there"))
        }
    }
}

/// The setting that a killed process may have written and not read back, where it has a third value: those before it are set, and none after
/// it is.
fn written_last(held: &[Held]) -> Option<usize> {
    let set: Vec<(usize, Now)> = held
        .iter()
        .enumerate()
        .filter(|(_, held)| !held.setting.is_follower() && !held.is_whole)
        .map(|(place, held)| (place, held.now()))
        .collect();
    let first = set.iter().position(|(_, now)| *now != Now::Ours)?;
    let (this, later) = (&set[first], &set[first + 1..]);
    let is_last = matches!(this.1, Now::Other(_)) && later.iter().all(|(_, now)| *now != Now::Ours);
    is_last.then_some(this.0)
}

/// Files of pairs that another program has set: it set the other one of the pair to 0 with that.
fn pairs_of_others(held: &[Held]) -> Vec<PathBuf> {
    let is_of_others = |held: &&Held| held.setting.pair().is_some() && matches!(held.now(), Now::Other(_));
    held.iter().filter(is_of_others).map(|held| held.setting.path.clone()).collect()
}

/// Notes that our writes that take many steps have ended: a value between is another program's from here on. Returns whether there are any.
fn mark_ended(new: &mut [Held]) -> bool {
    let mut has_steps = false;
    for held in new.iter_mut().filter(|held| held.setting.is_set_in_steps() && held.is_to_be_restored()) {
        held.is_whole = true;
        has_steps = true;
    }
    has_steps
}

/// Notes that such writes begin again, where the value is still ours: whoever is killed in them leaves one between.
fn mark_begun(free: &mut [Held]) -> bool {
    let mut has_steps = false;
    for held in free.iter_mut().filter(|held| held.is_whole && held.now() == Now::Ours) {
        held.is_whole = false;
        has_steps = true;
    }
    has_steps
}

/// Looks once more at what is not as found when all others were restored: another one may have restored it, or may have kept the kernel from
/// taking it.
fn look_again(outcomes: &mut [Outcome]) {
    for outcome in outcomes.iter_mut().filter(|outcome| outcome.now != Now::AsFound) {
        match outcome.held.now() {
            Now::AsFound => *outcome = outcome.held.outcome(Now::AsFound, None),
            Now::Ours if !outcome.is_settled() => {
                let again = outcome.held.restore_if_ours();
                if again.is_settled() {
                    *outcome = again;
                }
            }
            _ => {}
        }
    }
}

/// What is journaled. What has its value already has the same one once it is restored.
fn with(before: &[Held], new: &[Held]) -> Vec<Held> {
    before.iter().chain(new.iter().filter(|held| held.is_to_be_restored())).cloned().collect()
}

/// Sets all of these, and reads each once more when the last one is set: a service that stops, or another program, may have set one back.
/// Returns the vectors of interrupts that cannot be moved; with an error what could not be restored.
fn set_all(new: &[Held], at: &mut dyn FnMut(Moment)) -> Result<Vec<Setting>, (HostError, Vec<Held>)> {
    let mut immovable = Vec::new();
    for (place, held) in new.iter().enumerate().filter(|(_, held)| !held.setting.is_follower()) {
        if held.is_to_be_restored() && held.setting.is_spread_by_kernel() {
            immovable.push(held.setting.clone());
            continue;
        }
        match held.setting.set(&mut || at(Moment::Written)) {
            Ok(()) => at(Moment::ReadBack),
            Err(error) if held.setting.is_immovable(&error) => immovable.push(held.setting.clone()),
            Err(error) => return Err((error, left_after_undoing(held, &new[..place]))),
        }
    }
    for (place, held) in new.iter().enumerate() {
        if held.setting.is_follower() || immovable.contains(&held.setting) {
            continue;
        }
        // With hardware threads that are off, files of theirs are gone: that is no other value.
        if let Err(error @ HostError::SettingIgnored { .. }) = held.setting.check() {
            let others = [&new[..place], &new[place + 1..]].concat();
            return Err((error, left_after_undoing(held, &others)));
        }
    }
    Ok(immovable)
}

/// Restores a setting that was refused and, newest first, those that were set before it. Returns what could not be restored.
fn left_after_undoing(refused: &Held, set: &[Held]) -> Vec<Held> {
    // It was written a moment ago: whatever it reads, if not the value found, is ours. A service that is as found may be on its way: systemd
    // goes on with what it was asked for, also where whoever asked has failed.
    let undone = match refused.now() {
        Now::AsFound if !refused.setting.is_a_service() => refused.restore_if_ours(),
        _ => refused.put_back(),
    };
    let mut outcomes: Vec<Outcome> =
        std::iter::once(undone).chain(set.iter().rev().map(Held::restore_if_ours)).collect();
    look_again(&mut outcomes);
    let undone = outcomes.remove(0);
    // A unit that systemd made for the moment is gone once it is stopped, and cannot be started: that is no restoring.
    let is_restored = match undone.now {
        Now::AsFound => true,
        Now::Gone(_) => undone.refused.is_none(),
        _ => false,
    };
    let first = (!is_restored).then_some(undone);
    let left = outcomes.into_iter().filter(|outcome| !outcome.is_settled());
    let mut left: Vec<Held> = first.into_iter().chain(left).map(|outcome| outcome.held).collect();
    left.reverse();
    left
}

#[cfg(test)]
mod tests {
    use super::super::known::{self, Root};
    use super::super::reach::service;
    use super::super::{Form, NicValue, Reach, memory_controller, wake_limit};
    use super::*;
    use crate::cgroup::Group;
    use std::cell::{Cell, RefCell};
    use std::collections::{BTreeMap, BTreeSet};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::rc::Rc;

    /// A folder that plays the processors' folder of a host, and a journal beside it.
    struct Host {
        folder: tempfile::TempDir,
    }

    impl Host {
        fn with(limits: &[(u32, &str)]) -> Self {
            let host = Self { folder: tempfile::tempdir().unwrap() };
            for (processor, limit) in limits {
                let path = host.awake(*processor).path;
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, limit).unwrap();
            }
            host
        }

        fn awake(&self, processor: u32) -> Setting {
            wake_limit::awake_below(self.folder.path(), processor)
        }

        fn both_awake(&self) -> [Setting; 2] {
            [0, 1].map(|processor| self.awake(processor))
        }

        fn limits(&self) -> [String; 2] {
            [0, 1].map(|processor| fs::read_to_string(self.awake(processor).path).unwrap())
        }

        fn set(&self, processor: u32, limit: &str) {
            fs::write(self.awake(processor).path, limit).unwrap();
        }

        fn journal_of(&self, boot_id: &str) -> Journal {
            Journal::at(self.folder.path().join("settings.json"), boot_id)
        }

        fn journal(&self) -> Journal {
            self.journal_of("this-boot")
        }
    }

    fn nows(outcomes: &[Outcome]) -> Vec<Now> {
        outcomes.iter().map(|outcome| outcome.now.clone()).collect()
    }

    #[test]
    fn what_was_found_is_restored_byte_for_byte_and_a_value_that_was_there_already_is_nobodys_to_restore() {
        let host = Host::with(&[(0, "20\n"), (1, "n/a\n")]);
        host.journal().hold(&host.both_awake()).unwrap();
        assert_eq!(host.limits(), ["n/a", "n/a\n"]);
        let held = host.journal().held().unwrap();
        assert_eq!(held.iter().map(|held| held.found.as_str()).collect::<Vec<_>>(), ["20\n"]);
        assert_eq!(held[0].now(), Now::Ours);
        assert_eq!(nows(&host.journal().restore().unwrap()), [Now::AsFound]);
        assert_eq!(host.limits(), ["20\n", "n/a\n"]);
        assert!(!host.journal().path.exists());
    }

    #[test]
    fn a_value_that_somebody_else_changed_since_is_left_alone_and_named_with_all_three_values() {
        let host = Host::with(&[(0, "20\n"), (1, "0\n")]);
        host.journal().hold(&host.both_awake()).unwrap();
        host.set(0, "50\n");
        let outcomes = host.journal().restore().unwrap();
        assert_eq!(nows(&outcomes), [Now::AsFound, Now::Other("50".to_owned())], "the newest first");
        assert_eq!(host.limits(), ["50\n", "0\n"]);
        let path = host.awake(0).path;
        let named = format!(
            "wake-up latency limit (PM QoS) of CPU 0 ({}): it was 20, Tilemark set n/a, and it is 50 now",
            path.display()
        );
        assert_eq!(outcomes[1].to_string(), named);
        assert!(outcomes[1].is_settled());
        assert!(!host.journal().path.exists());
    }

    #[test]
    fn a_count_of_huge_pages_that_a_killed_write_left_half_way_is_ours_to_restore() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("nr_hugepages");
        fs::write(&count, "4\n").unwrap();
        let journal = Journal::at(folder.path().join("settings.json"), "this-boot");
        let setting = Setting::file("huge pages", &count, Form::Whole, "200");
        let other = |value: &str| Now::Other(value.to_owned());
        for (killed_at, left, now) in [
            (Some(Moment::Journaled), "31", Now::AsFound),
            (Some(Moment::PutBack), "31", Now::AsFound),
            (Some(Moment::Journaled), "201", other("201")),
            (Some(Moment::PutBack), "3", other("3")),
            // Whoever lowers the count of a write that has ended is another program.
            (None, "31", other("31")),
            (None, "200", Now::AsFound),
        ] {
            fs::write(&count, "4\n").unwrap();
            let mut journaled = Vec::new();
            let mut note = |moment| {
                if Some(moment) == killed_at {
                    journaled = fs::read(&journal.path).unwrap();
                }
            };
            journal.hold_watched(std::slice::from_ref(&setting), &mut note).unwrap();
            if killed_at == Some(Moment::PutBack) {
                journal.restore_watched(&|_| false, &mut note).unwrap();
            }
            if killed_at.is_some() {
                replace_private(&journal.path, &journaled).unwrap();
            }
            fs::write(&count, left).unwrap();
            let after = if now == Now::AsFound { "4\n" } else { left };
            assert_eq!(nows(&journal.restore().unwrap()), [now], "{killed_at:?} {left}");
            assert_eq!(fs::read_to_string(&count).unwrap(), after, "{killed_at:?}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_restored_is_named_with_the_reason_and_stays_in_the_journal() {
        let host = Host::with(&[(0, "20\n"), (1, "0\n")]);
        host.journal().hold(&host.both_awake()).unwrap();
        // Root may write every file, but no folder.
        let path = host.awake(0).path;
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let outcomes = host.journal().restore().unwrap();
        assert!(!outcomes[1].is_settled() && outcomes[0].is_settled(), "{outcomes:?}");
        let named = outcomes[1].to_string();
        assert!(
            named.contains("wake-up latency limit (PM QoS) of CPU 0") && named.contains("Is a directory"),
            "{named}"
        );
        assert_eq!(host.journal().held().unwrap(), [outcomes[1].held.clone()]);
        // When it can be written again, the next who tries restores it.
        fs::remove_dir(&path).unwrap();
        host.set(0, "n/a\n");
        assert_eq!(nows(&host.journal().restore().unwrap()), [Now::AsFound]);
        assert_eq!(host.limits(), ["20\n", "0\n"]);
    }

    #[test]
    fn what_a_write_changes_beside_its_own_value_is_restored_after_it() {
        let host = Host::with(&[]);
        let queue = host.folder.path().join("queue");
        fs::create_dir(&queue).unwrap();
        let [scheduler, depth] = ["scheduler", "nr_requests"].map(|name| queue.join(name));
        fs::write(&scheduler, "none\n").unwrap();
        fs::write(&depth, "128\n").unwrap();
        let settings = [
            Setting::file("depth", &depth, Form::Whole, "64"),
            Setting::file("depth of the scheduler", &depth, Form::Whole, "128").follower(),
            Setting::file("scheduler", &scheduler, Form::Choice, "mq-deadline"),
        ];
        // As the kernel does it: whenever the scheduler was written, the depth is 256.
        host.journal().hold_watched(&settings[1..], &mut |_| fs::write(&depth, "256").unwrap()).unwrap();
        assert_eq!(nows(&host.journal().restore().unwrap()), [Now::AsFound, Now::AsFound]);
        assert_eq!(fs::read_to_string(&depth).unwrap(), "128\n");
        // A depth that is asked for too is written after the scheduler.
        host.journal().hold(&settings).unwrap();
        let names: Vec<String> =
            host.journal().held().unwrap().into_iter().map(|held| held.setting.name).collect();
        assert_eq!(names, ["depth of the scheduler", "scheduler", "depth"]);
        host.journal().restore().unwrap();
        assert_eq!(fs::read_to_string(&depth).unwrap(), "128\n");
        // Nothing is held where only a follower would be.
        host.journal().hold(&settings[1..2]).unwrap();
        assert_eq!(host.journal().held().unwrap(), []);
    }

    #[test]
    fn a_third_value_that_a_killed_write_left_is_ours_only_where_nothing_after_it_was_set() {
        let third = |value: &str| Now::Other(value.to_owned());
        // Each was 1 and is to be 1000; the kernel makes 1024 of that in one of them.
        for (left, is_half_set, nows_then) in [
            (["1000", "1024", "1"], true, [Now::AsFound, Now::AsFound, Now::AsFound]),
            (["1024", "1", "1"], true, [Now::AsFound, Now::AsFound, Now::AsFound]),
            // One after it was set: so this one had been read back.
            (["1000", "1024", "1000"], true, [Now::AsFound, third("1024"), Now::AsFound]),
            // One before it was not yet.
            (["1", "1024", "1"], true, [Now::AsFound, third("1024"), Now::AsFound]),
            // All were set.
            (["1000", "1000", "1024"], false, [third("1024"), Now::AsFound, Now::AsFound]),
        ] {
            let limits: Vec<(u32, &str)> = (0..).zip(["1\n"; 3]).collect();
            let host = Host::with(&limits);
            let settings = [0, 1, 2].map(|number| Setting { value: "1000".to_owned(), ..host.awake(number) });
            host.journal().hold(&settings).unwrap();
            (0..).zip(left).for_each(|(number, value)| host.set(number, value));
            let journal = host.journal();
            let journal = if is_half_set { journal.half_set() } else { journal };
            assert_eq!(nows(&journal.restore().unwrap()), nows_then, "{left:?}");
        }
    }

    #[test]
    fn what_a_refused_setting_left_is_another_programs_where_it_has_a_third_value() {
        let host = Host::with(&[(0, "20\n")]);
        let first = host.awake(0);
        let path = first.path.clone();
        let ignored = Setting::file("a value that the kernel ignores", "/dev/null", Form::Whole, "1");
        // It cannot be read when the second one is refused.
        let mut moments = 0;
        let refused = host.journal().hold_watched(&[first, ignored], &mut |_| {
            moments += 1;
            if moments == 4 {
                fs::rename(&path, path.with_extension("away")).unwrap();
                fs::create_dir(&path).unwrap();
            }
        });
        refused.unwrap_err();
        assert_eq!(host.journal().held().unwrap().len(), 1, "it is still to be restored");
        fs::remove_dir(&path).unwrap();
        host.set(0, "50\n");
        assert_eq!(nows(&host.journal().half_set().restore().unwrap()), [Now::Other("50".to_owned())]);
    }

    #[test]
    fn hardware_threads_are_switched_off_after_the_values_of_their_processors_are_set() {
        let host = Host::with(&[]);
        let [threads, preference] =
            ["cpu/smt/control", "cpu/cpufreq/policy1/preference"].map(|name| host.folder.path().join(name));
        let write = |path: &PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(&threads, "on\n");
        write(&preference, "balance\n");
        let settings = [
            Setting::file("smt", &threads, Form::Whole, "off"),
            Setting::file("cpu.energy_preference", &preference, Form::Whole, "performance"),
        ];
        // As the kernel does it: nothing can be read of a processor that is offline. A read of a folder fails too.
        let mut switch = |_| {
            if fs::read_to_string(&threads).unwrap() == "off" && preference.is_file() {
                fs::rename(&preference, preference.with_extension("offline")).unwrap();
                fs::create_dir(&preference).unwrap();
            }
        };
        host.journal().hold_watched(&settings, &mut switch).unwrap();
        let mut switch = |_| {
            if fs::read_to_string(&threads).unwrap() != "off" && preference.is_dir() {
                fs::remove_dir(&preference).unwrap();
                fs::rename(preference.with_extension("offline"), &preference).unwrap();
            }
        };
        let outcomes = host.journal().restore_watched(&|_| false, &mut switch).unwrap();
        assert_eq!(nows(&outcomes), [Now::AsFound, Now::AsFound]);
        assert_eq!(
            [&threads, &preference].map(|path| fs::read_to_string(path).unwrap()),
            ["on\n", "balance\n"]
        );
    }

    #[test]
    fn a_third_value_after_restoring_is_the_kernels_and_stays_in_the_journal() {
        let host = Host::with(&[]);
        // A 0 in this file means the value at the start of the process: it is never read.
        let setting = Setting::file("slack of timers", "/proc/self/timerslack_ns", Form::Whole, "70000");
        setting.write("70000").unwrap();
        host.journal()
            .adopt(vec![Held { setting, found: "0\n".to_owned(), network: None, is_whole: false }])
            .unwrap();
        let outcomes = host.journal().restore().unwrap();
        assert!(!outcomes[0].is_settled() && outcomes[0].now == Now::Ours, "{outcomes:?}");
        let named = outcomes[0].to_string();
        assert!(named.contains("it was 0") && named.contains("the kernel keeps 50000"), "{named}");
        assert_eq!(host.journal().held().unwrap()[0].now(), Now::Ours, "the next who tries restores it");
    }

    #[test]
    fn all_are_set_or_none() {
        let host = Host::with(&[(0, "20\n"), (1, "0\n")]);
        let absent = host.awake(7);
        let ignored = Setting::file("a value that the kernel ignores", "/dev/null", Form::Whole, "1");
        for (bad, what) in [(absent, "CPU 7"), (ignored, "the kernel ignores")] {
            let [first, second] = host.both_awake();
            let error = host.journal().hold(&[first, second, bad]).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            assert_eq!(host.limits(), ["20\n", "0\n"]);
            assert_eq!(host.journal().held().unwrap(), []);
        }
    }

    #[test]
    fn after_a_reboot_nothing_is_replayed_and_the_journal_is_removed() {
        let host = Host::with(&[(0, "20\n"), (1, "0\n")]);
        host.journal().hold(&host.both_awake()).unwrap();
        let next = host.journal_of("next-boot");
        assert_eq!(next.held().unwrap(), []);
        assert_eq!(next.restore().unwrap(), []);
        assert_eq!(host.limits(), ["n/a", "n/a"], "these are the new boot's own");
        assert!(!next.path.exists());
    }

    #[test]
    fn a_held_setting_is_read_again_where_another_program_changed_it() {
        let host = Host::with(&[(0, "20\n"), (1, "0\n")]);
        host.journal().hold(&[host.awake(0)]).unwrap();
        host.set(0, "50\n");
        host.journal().hold(&host.both_awake()).unwrap();
        assert_eq!(nows(&host.journal().restore().unwrap()), [Now::AsFound, Now::AsFound], "once each");
        assert_eq!(host.limits(), ["50\n", "0\n"]);
    }

    #[test]
    fn a_value_whose_device_is_gone_is_named_and_needs_no_restoring() {
        let host = Host::with(&[(0, "20\n"), (1, "0\n")]);
        host.journal().hold(&host.both_awake()).unwrap();
        fs::remove_file(host.awake(0).path).unwrap();
        let outcomes = host.journal().restore().unwrap();
        assert!(matches!(&outcomes[1].now, Now::Gone(_)) && outcomes[1].is_settled(), "{outcomes:?}");
        assert!(outcomes[1].to_string().contains("gone"), "{}", outcomes[1]);
        assert_eq!(host.journal().held().unwrap(), []);
        let no_device =
            Setting::by("ring", Reach::Nic { device: "gone0".into(), value: NicValue::RxRing }, "64");
        assert!(matches!(
            Held { setting: no_device, found: "32".into(), network: None, is_whole: false }.now(),
            Now::Gone(_)
        ));
    }

    #[test]
    fn a_controller_by_which_another_group_is_limited_is_left() {
        for (controller, file, limit, default) in [
            ("cpuset", "cpuset.cpus", "0-3\n", "\n"),
            ("cpuset", "cpuset.mems", "0\n", "\n"),
            ("memory", "memory.high", "1073741824\n", "max\n"),
            ("memory", "memory.low", "4096\n", "0\n"),
        ] {
            let host = Host::with(&[]);
            let tree = host.folder.path();
            for group in ["machine.slice", "tilemark.run-1"] {
                fs::create_dir(tree.join(group)).unwrap();
                fs::write(tree.join(group).join(file), limit).unwrap();
            }
            let given = tree.join("cgroup.subtree_control");
            let held = || {
                fs::write(&given, controller).unwrap();
                let setting = memory_controller::given(&Group::at(tree), controller);
                Held { setting, found: "\n".to_owned(), network: None, is_whole: false }
            };
            let left = held().restore_if_ours();
            assert_eq!(left.now, Now::Other(controller.to_owned()));
            assert!(left.is_settled() && left.to_string().contains("machine.slice has"), "{left}");
            assert_eq!(fs::read_to_string(&given).unwrap(), controller);
            // Ours is no reason.
            fs::write(tree.join("machine.slice").join(file), default).unwrap();
            assert_eq!(held().restore_if_ours().now, Now::AsFound);
        }
    }

    /// The processors that a control group isolates, in a folder that plays the tree, held by a command that was killed in its write.
    fn isolated_by_a_killed_command(files: &[(&str, &str)]) -> (Host, Outcome) {
        let host = Host::with(&[]);
        let group = host.folder.path().join("group");
        let setting = Setting::by("cpuset.isolated", Reach::Partition { group: group.clone() }, "2-3");
        host.journal()
            .adopt(vec![Held { setting, found: String::new(), network: None, is_whole: false }])
            .unwrap();
        fs::create_dir(&group).unwrap();
        files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
        let outcome = host.journal().restore().unwrap().remove(0);
        (host, outcome)
    }

    #[test]
    fn a_group_of_isolated_processors_is_ours_at_every_moment_of_its_write() {
        // After the folder was made. Where the tree does not give the controller yet, the group has none of its files.
        let (host, outcome) = isolated_by_a_killed_command(&[]);
        assert_eq!(outcome.now, Now::AsFound, "{outcome}");
        assert!(!host.folder.path().join("group").exists());
        // After the processors, and after a partition that the kernel refused. Here the files keep the folder: in a tree of control groups
        // they go with it.
        for (processors, partition) in [
            ("2-3\n", "member\n"),
            ("2-3\n", "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n"),
            ("\n", "member\n"),
        ] {
            let files = [("cpuset.cpus", processors), ("cpuset.cpus.partition", partition)];
            let (host, outcome) = isolated_by_a_killed_command(&files);
            assert!(
                outcome.now == Now::Ours && outcome.refused.is_some(),
                "{partition}: it was left alone: {outcome}"
            );
            assert_eq!(host.journal().held().unwrap().len(), 1, "{partition}: the next who tries removes it");
        }
    }

    /// Plays a systemd in which these units run: `shows` has what a unit names in some properties, `None` for one that does not exist, and
    /// `does` starts or stops one. What was done is noted.
    fn play_systemd(
        running: &[&str],
        shows: impl Fn(&str, &str) -> Option<String> + 'static,
        does: impl Fn(&mut BTreeSet<String>, &str, &str) -> io::Result<()> + 'static,
    ) -> Rc<RefCell<Vec<String>>> {
        let done = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&done);
        let mut running: BTreeSet<String> = running.iter().map(ToString::to_string).collect();
        let play = move |arguments: &[&str]| {
            let unit = *arguments.last().unwrap();
            let Some(shown) = shows(unit, arguments[1]) else {
                return Ok("LoadState=not-found\nActiveState=inactive\n".to_owned());
            };
            match (arguments[0], arguments[1]) {
                ("show", "--property=LoadState,ActiveState") => {
                    let state = if running.contains(unit) { "active" } else { "inactive" };
                    Ok(format!("LoadState=loaded\nActiveState={state}\n"))
                }
                ("show", "--property=Id") => Ok(format!("Id={unit}\n")),
                ("show", _) => Ok(shown),
                (verb, _) => {
                    does(&mut running, verb, unit)?;
                    log.borrow_mut().push(format!("{verb} {unit}"));
                    Ok(String::new())
                }
            }
        };
        service::SYSTEMCTL.with_borrow_mut(|own| *own = Some(Box::new(play)));
        done
    }

    /// A systemd whose services are in a map: each is running or not, and stops with some others. Stopping tuned sets a file back.
    fn fake_systemd(
        units: &[(&'static str, &'static str, bool)],
        rolled_back: PathBuf,
    ) -> Rc<RefCell<Vec<String>>> {
        let running: Vec<&str> = units.iter().filter(|unit| unit.2).map(|unit| unit.0).collect();
        let with: BTreeMap<&str, &str> = units.iter().map(|(name, with, _)| (*name, *with)).collect();
        let shown = with.clone();
        let shows =
            move |unit: &str, _: &str| Some(format!("RequiredBy=\nConsistsOf={}\n", shown.get(unit)?));
        play_systemd(&running, shows, move |running, verb, unit| {
            if verb == "start" {
                running.insert(unit.to_owned());
                return Ok(());
            }
            running.retain(|other| other != unit && !with[unit].contains(other.as_str()));
            if unit == "tuned.service" { fs::write(&rolled_back, "20\n") } else { Ok(()) }
        })
    }

    #[test]
    fn services_that_stop_with_another_one_are_started_again() {
        let host = Host::with(&[]);
        let units = [
            ("firewalld.service", "fail2ban.service idle.service", true),
            ("fail2ban.service", "watcher.service", true),
            ("watcher.service", "", true),
            ("idle.service", "", false),
        ];
        let done = fake_systemd(&units, PathBuf::new());
        let settings = known::resolve(&Root::real(), "service.firewalld", "stopped").unwrap();
        let names: Vec<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["service.fail2ban", "service.watcher", "service.firewalld"]);
        host.journal().hold(&settings).unwrap();
        assert_eq!(*done.borrow(), ["stop firewalld.service"]);
        // It stops with fail2ban only, and this fake does not look further.
        service::write("watcher.service", "stopped").unwrap();
        done.borrow_mut().clear();
        assert_eq!(nows(&host.journal().restore().unwrap()), [Now::AsFound, Now::AsFound, Now::AsFound]);
        assert_eq!(
            *done.borrow(),
            ["start firewalld.service", "start watcher.service", "start fail2ban.service"]
        );
        assert_eq!(host.journal().held().unwrap(), []);
        // One that somebody started meanwhile needs nothing.
        host.journal().hold(&settings).unwrap();
        service::write("fail2ban.service", "running").unwrap();
        done.borrow_mut().clear();
        host.journal().restore().unwrap();
        assert_eq!(*done.borrow(), ["start firewalld.service"]);
        // Nothing stops with one that does not run.
        service::write("firewalld.service", "stopped").unwrap();
        assert_eq!(known::resolve(&Root::real(), "service.firewalld", "stopped").unwrap().len(), 1);
    }

    /// A systemd in which first requires second and fourth, second wants third and one that does not exist, and only fourth runs.
    fn first_starts_others() -> Rc<RefCell<Vec<String>>> {
        const NEEDS: [(&str, &str); 4] = [
            ("first.service", "Requires=second.service fourth.service\nWants=\n"),
            ("second.service", "Requires=\nWants=third.service absent.service\n"),
            ("third.service", "BindsTo=first.service\n"),
            ("fourth.service", "Wants=fifth.service\n"),
        ];
        let shows = |unit: &str, kinds: &str| {
            let (_, needs) = NEEDS.iter().find(|(name, _)| *name == unit)?;
            // It excludes none.
            Some(if kinds.contains("Requires") { *needs } else { "Conflicts=\nConflictedBy=\n" }.to_owned())
        };
        play_systemd(&["fourth.service"], shows, |running, verb, unit| {
            match verb {
                "start" => running.extend(NEEDS.iter().map(|(name, _)| (*name).to_owned())),
                _ => running.retain(|other| other != unit),
            }
            Ok(())
        })
    }

    #[test]
    fn services_that_start_with_another_one_are_stopped_again() {
        let host = Host::with(&[]);
        let done = first_starts_others();
        let settings = known::resolve(&Root::real(), "service.first", "running").unwrap();
        let names: Vec<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names, ["service.third", "service.second", "service.first"]);
        host.journal().hold(&settings).unwrap();
        assert_eq!(*done.borrow(), ["start first.service"]);
        done.borrow_mut().clear();
        assert_eq!(nows(&host.journal().restore().unwrap()), [Now::AsFound, Now::AsFound, Now::AsFound]);
        assert_eq!(*done.borrow(), ["stop first.service", "stop second.service", "stop third.service"]);
        assert_eq!(service::read("fourth.service").unwrap(), service::RUNNING);
        assert_eq!(host.journal().held().unwrap(), []);
    }

    /// A systemd that goes on stopping a service whose systemctl has failed, unless it is asked to start it. Whether it does.
    fn stops_later() -> Rc<Cell<bool>> {
        let is_stopping = Rc::new(Cell::new(false));
        let shared = Rc::clone(&is_stopping);
        play_systemd(
            &["tuned.service"],
            |_, _| Some(String::new()),
            move |_, verb, _| {
                shared.set(verb == "stop");
                if verb == "stop" { Err(io::Error::other("killed")) } else { Ok(()) }
            },
        );
        is_stopping
    }

    #[test]
    fn a_service_that_systemd_would_go_on_to_stop_is_started_where_its_stop_has_failed() {
        let host = Host::with(&[]);
        let is_stopping = stops_later();
        let tuned = Setting::by("tuned", Reach::Service { unit: "tuned.service".into() }, service::STOPPED);
        host.journal().hold(&[tuned]).unwrap_err();
        // What systemd still has to do.
        let is_running = service::read("tuned.service").unwrap() == service::RUNNING;
        assert!(is_running && !is_stopping.get(), "it stops later, and nobody restores it");
        assert_eq!(host.journal().held().unwrap(), []);
    }

    /// A systemd with two services that run, of which the second one starts only while the first one runs.
    fn second_needs_first() {
        let both = ["first.service", "second.service"];
        let does = move |running: &mut BTreeSet<String>, verb: &str, unit: &str| {
            if verb == "start" && unit == both[1] && !running.contains(both[0]) {
                return Err(io::Error::other("busy"));
            }
            if verb == "start" {
                running.insert(unit.to_owned())
            } else {
                running.remove(unit)
            };
            Ok(())
        };
        play_systemd(&both, |_, _| Some(String::new()), does);
    }

    #[test]
    fn what_cannot_be_restored_before_another_one_is_restored_after_it() {
        let host = Host::with(&[]);
        second_needs_first();
        let stopped = |name: &str| {
            Setting::by(name, Reach::Service { unit: format!("{name}.service") }, service::STOPPED)
        };
        let both = [stopped("first"), stopped("second")];
        host.journal().hold(&both).unwrap();
        let outcomes = host.journal().restore().unwrap();
        assert_eq!(nows(&outcomes), [Now::AsFound, Now::AsFound]);
        assert!(outcomes.iter().all(|outcome| outcome.refused.is_none()), "{outcomes:?}");
        assert!(!host.journal().path.exists());
        // The same where a later setting is refused.
        let ignored = Setting::file("a value that the kernel ignores", "/dev/null", Form::Whole, "1");
        host.journal().hold(&[&both[..], &[ignored]].concat()).unwrap_err();
        assert_eq!(both.map(|setting| setting.now().unwrap()), [service::RUNNING, service::RUNNING]);
        assert_eq!(host.journal().held().unwrap(), []);
    }

    #[test]
    fn of_a_pair_neither_is_written_where_another_program_set_one() {
        let host = Host::with(&[]);
        let [bytes, ratio] = ["dirty_bytes", "dirty_ratio"].map(|name| host.folder.path().join(name));
        let settings = [
            Setting::file("vm.dirty_bytes", &bytes, Form::Words, "100000000"),
            Setting::file("vm.dirty_ratio", &ratio, Form::Words, "0"),
        ];
        let write = |texts: [&str; 2]| {
            fs::write(&bytes, texts[0]).unwrap();
            fs::write(&ratio, texts[1]).unwrap();
        };
        let other = |value: &str| Now::Other(value.to_owned());
        for (others, nows_then) in [
            // A new limit in bytes keeps the ratio at 0, which is our value too.
            (["50000000\n", "0\n"], [other("0"), other("50000000")]),
            (["0\n", "15\n"], [other("15"), Now::AsFound]),
        ] {
            write(["0\n", "20\n"]);
            // As the kernel does it.
            host.journal().hold_watched(&settings, &mut |_| fs::write(&ratio, "0\n").unwrap()).unwrap();
            assert_eq!(host.journal().held().unwrap().len(), 2);
            write(others);
            let outcomes = host.journal().restore().unwrap();
            assert_eq!(nows(&outcomes), nows_then);
            assert_eq!([&bytes, &ratio].map(|path| fs::read_to_string(path).unwrap()), others);
            assert!(!host.journal().path.exists());
        }
        write(["0\n", "20\n"]);
        host.journal().hold(&settings).unwrap();
        assert_eq!(nows(&host.journal().restore().unwrap()), [Now::AsFound, Now::AsFound]);
    }

    #[test]
    fn a_value_of_another_network_namespace_is_left_alone_and_gone_with_it() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("a network namespace needs root");
        }
        let host = Host::with(&[]);
        let setting = Setting::file("TTL", "/proc/sys/net/ipv4/ip_default_ttl", Form::Words, "63");
        let journal = host.journal();
        let (held, restored) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                tilemark_sys::namespace::own_network().unwrap();
                // A thread's namespace is found by its descriptor.
                let _namespace = File::open("/proc/thread-self/ns/net").unwrap();
                journal.hold(std::slice::from_ref(&setting)).unwrap();
                held.wait();
                restored.wait();
                let own = journal.restore().unwrap();
                journal.hold(std::slice::from_ref(&setting)).unwrap();
                own
            });
            held.wait();
            let before = setting.read().unwrap();
            let outside = journal.restore().unwrap();
            restored.wait();
            assert!(matches!(outside[0].now, Now::Unread(_)) && !outside[0].is_settled(), "{outside:?}");
            assert!(outside[0].to_string().contains("another network namespace, net:["), "{}", outside[0]);
            assert_eq!(setting.read().unwrap(), before);
            assert_eq!(nows(&inside.join().unwrap()), [Now::AsFound]);
        });
        let gone = journal.restore().unwrap();
        assert!(matches!(&gone[0].now, Now::Gone(why) if why.contains("has ended")), "{gone:?}");
        assert_eq!(journal.held().unwrap(), []);
    }

    #[test]
    fn a_vector_whose_file_nobody_may_write_is_left_where_it_is_and_the_others_are_moved() {
        use std::os::unix::fs::PermissionsExt;
        let host = Host::with(&[]);
        let vector = |name: &str| {
            let path = host.folder.path().join(name);
            fs::write(&path, "0-3\n").unwrap();
            Setting::file(name, path, Form::Processors, "1").of_a_vector()
        };
        let [moved, spread] = [vector("1"), vector("2")];
        fs::set_permissions(&spread.path, fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(
            host.journal().hold(&[moved.clone(), spread.clone()]).unwrap(),
            std::slice::from_ref(&spread)
        );
        assert_eq!([&moved, &spread].map(|one| one.now().unwrap()), ["1", "0-3"]);
        assert_eq!(host.journal().held().unwrap().len(), 1);
        for (error, is_immovable) in [(libc_error(5), true), (libc_error(1), true), (libc_error(22), false)] {
            let error = HostError::Setting {
                verb: "write",
                name: String::new(),
                path: PathBuf::new(),
                source: error,
            };
            assert_eq!(moved.is_immovable(&error), is_immovable, "{error:?}");
        }
    }

    /// EPERM is 1, EIO is 5, EINVAL is 22.
    fn libc_error(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    #[test]
    fn a_service_that_sets_values_back_when_it_stops_is_stopped_before_values_are_set() {
        for found in ["30\n", "n/a\n"] {
            let host = Host::with(&[(0, found), (1, "0\n")]);
            let units = [("tuned.service", "", true)];
            let done = fake_systemd(&units, host.awake(0).path);
            let [first, second] = host.both_awake();
            let tuned =
                Setting::by("service.tuned", Reach::Service { unit: "tuned.service".into() }, "stopped");
            host.journal().hold(&[first, second, tuned]).unwrap();
            assert_eq!(host.limits(), ["n/a", "n/a"]);
            let held = if found == "30\n" { 3 } else { 2 };
            assert_eq!(
                host.journal().held().unwrap().len(),
                held,
                "what had its value is nobody's to restore"
            );
            host.journal().restore().unwrap();
            assert_eq!(host.limits(), [if found == "30\n" { found } else { "n/a" }, "0\n"]);
            assert_eq!(*done.borrow(), ["stop tuned.service", "start tuned.service"]);
        }
    }

    #[test]
    fn a_value_that_changes_before_the_last_one_is_set_refuses_all() {
        let host = Host::with(&[(0, "20\n"), (1, "0\n")]);
        let mut moments = 0;
        let error = host.journal().hold_watched(&host.both_awake(), &mut |_| {
            moments += 1;
            if moments == 5 {
                host.set(0, "50\n");
            }
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains("CPU 0") && error.contains("is 50 after n/a"), "{error}");
        assert_eq!(host.limits(), ["20\n", "0\n"]);
        assert_eq!(host.journal().held().unwrap(), []);
        // One that another setting took along has no other value.
        let mut moments = 0;
        let held = host.journal().hold_watched(&host.both_awake(), &mut |_| {
            moments += 1;
            if moments == 5 {
                fs::remove_file(host.awake(0).path).unwrap();
            }
        });
        assert_eq!(held.unwrap(), []);
        assert_eq!(host.journal().held().unwrap().len(), 2);
    }

    const DIES_AT: &str = "TILEMARK_TEST_DIES_AT";

    /// Starts itself again as a process that is killed at a moment of setting two values.
    fn killed_at(host: &Host, moment: &str) {
        let name = "setting::journal::tests::a_process_killed_at_any_moment_leaves_what_can_be_restored";
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", name]).env(DIES_AT, format!("{moment} {}", host.folder.path().display()));
        assert_eq!(child.output().unwrap().status.signal(), Some(9), "{moment}: it was not killed");
    }

    fn die_at(place: &str) {
        let (moment, folder) = place.split_once(' ').unwrap();
        let setting = |processor| wake_limit::awake_below(Path::new(folder), processor);
        let journal = Journal::at(Path::new(folder).join("settings.json"), "this-boot");
        let mut passed = Vec::new();
        let _ = journal.hold_watched(&[0, 1].map(setting), &mut |now| {
            passed.push(format!("{now:?}"));
            if passed.join(",") == moment {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        });
    }

    /// A host with so many settings, each with a value of its own.
    fn large(count: u32) -> (Host, Vec<String>) {
        let texts: Vec<String> = (0..count).map(|number| format!("{}\n", 10 + number)).collect();
        let limits: Vec<(u32, &str)> =
            texts.iter().enumerate().map(|(number, text)| (number as u32, text.as_str())).collect();
        let host = Host::with(&limits);
        (host, texts)
    }

    /// Ends after so many moments of setting so many values, and of restoring them.
    fn die_after(place: &str) {
        let [count, moments, folder] = place.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!() };
        let (count, moments): (u32, u32) = (count.parse().unwrap(), moments.parse().unwrap());
        let settings: Vec<Setting> =
            (0..count).map(|processor| wake_limit::awake_below(Path::new(folder), processor)).collect();
        let journal = Journal::at(Path::new(folder).join("settings.json"), "this-boot");
        let mut passed = 0;
        let mut pass = |_| {
            passed += 1;
            if passed == moments {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        };
        let _ = journal.hold_watched(&settings, &mut pass);
        let _ = journal.restore_watched(&|_| false, &mut pass);
    }

    /// Kills a process after so many moments of setting so many values and restoring them, and restores what it left.
    #[track_caller]
    fn is_restored_after(test: &str, count: u32, moments: u32) {
        let (host, texts) = large(count);
        let mut child = Command::new(std::env::current_exe().unwrap());
        let place = format!("{count} {moments} {}", host.folder.path().display());
        let test = format!("setting::journal::tests::{test}");
        let ended = child.args(["--exact", &test]).env(DIES_AFTER, place).output().unwrap();
        assert_eq!(ended.status.signal(), Some(9), "{count}, {moments}: it was not killed");
        let outcomes = host.journal().restore().unwrap();
        assert_eq!(outcomes.len(), count as usize, "{moments}: not journaled before it was touched");
        for (processor, text) in texts.iter().enumerate() {
            let path = host.awake(processor as u32).path;
            assert_eq!(fs::read_to_string(path).unwrap(), *text, "{count}, {moments} moments");
        }
    }

    const DIES_AFTER: &str = "TILEMARK_TEST_DIES_AFTER";

    #[test]
    fn a_process_killed_after_any_number_of_writes_leaves_what_is_restored_byte_for_byte() {
        if let Some(place) = std::env::var_os(DIES_AFTER) {
            return die_after(place.to_str().unwrap());
        }
        let kills = std::env::var("TILEMARK_TEST_KILLS").ok().and_then(|kills| kills.parse().ok());
        let mut random = 0x9e37_79b9_u32;
        for _ in 0..kills.unwrap_or(30) {
            // A linear congruential generator (Numerical Recipes, 7.1): the trials are the same each time.
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let count = 1 + (random >> 16) % 24;
            let moments = 1 + (random >> 8) % (3 * count + 1);
            is_restored_after(
                "a_process_killed_after_any_number_of_writes_leaves_what_is_restored_byte_for_byte",
                count,
                moments,
            );
        }
    }

    /// Once when it is journaled, before and after each value is read back, and after each one is restored.
    #[test]
    fn a_process_killed_at_every_write_of_three_values_leaves_what_is_restored_byte_for_byte() {
        if let Some(place) = std::env::var_os(DIES_AFTER) {
            return die_after(place.to_str().unwrap());
        }
        const COUNT: u32 = 3;
        for moments in 1..=3 * COUNT + 1 {
            is_restored_after(
                "a_process_killed_at_every_write_of_three_values_leaves_what_is_restored_byte_for_byte",
                COUNT,
                moments,
            );
        }
    }

    #[test]
    fn a_process_killed_at_any_moment_leaves_what_can_be_restored() {
        if let Some(place) = std::env::var_os(DIES_AT) {
            return die_at(place.to_str().unwrap());
        }
        for (moment, then) in [
            ("Journaled", ["20\n", "0\n"]),
            ("Journaled,Written", ["n/a", "0\n"]),
            ("Journaled,Written,ReadBack", ["n/a", "0\n"]),
            ("Journaled,Written,ReadBack,Written", ["n/a", "n/a"]),
        ] {
            let host = Host::with(&[(0, "20\n"), (1, "0\n")]);
            killed_at(&host, moment);
            assert_eq!(host.limits(), then, "{moment}");
            assert_eq!(
                host.journal().held().unwrap().len(),
                2,
                "{moment}: not journaled before it was touched"
            );
            assert_eq!(nows(&host.journal().restore().unwrap()), [Now::AsFound, Now::AsFound], "{moment}");
            assert_eq!(host.limits(), ["20\n", "0\n"], "{moment}");
        }
    }
}
