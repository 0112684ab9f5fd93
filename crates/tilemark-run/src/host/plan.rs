//! What a profile would change on this host. Nothing is changed.

use crate::{
    failure::{Failure, FailureCode},
    host::{
        huge_pages::refuse_more_than_memory,
        profile,
        rivals::{Rival, rivals},
    },
};
use serde::{Serialize, Serializer};
use std::path::PathBuf;
use tilemark_host::{
    HostError,
    setting::{
        Reach, Setting,
        known::{self, Danger, Place, Root},
    },
};
use tilemark_plan::profile::{Profile, ProfileSetting, Today};

/// A profile on a host.
#[derive(Debug, Serialize)]
pub struct HostPlan {
    /// The profile's name.
    pub profile: String,
    /// What it is.
    pub about: String,
    /// Each setting; one that is several files of this host is there several times.
    pub settings: Vec<Planned>,
    /// Lines of the profile that set nothing: what a paper did, and what became of it.
    pub not_set: Vec<NotSet>,
    /// Programs that change the same settings, and run.
    pub rivals: Vec<Rival>,
}

/// A setting of a profile on a host.
#[derive(Debug, Serialize)]
pub struct Planned {
    /// Its key.
    pub key: String,
    /// Which of several it is.
    pub name: String,
    /// Its file, where it is one.
    pub path: Option<PathBuf>,
    /// Its value now, where it can be read.
    pub now: Option<String>,
    /// Its value in the profile, as it would be read.
    pub wanted: String,
    /// Where the profile takes it from.
    pub source: String,
    /// What can go wrong.
    pub danger: Danger,
    /// Where it is in force.
    #[serde(rename = "where")]
    pub place: Place,
    /// What applying would do.
    pub state: State,
    /// Why, where it would not be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Refusal>,
    /// What a paper set, in its own terms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// The effect that a paper claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What a journal holds; none where there is nothing to set.
    #[serde(skip)]
    pub(super) setting: Option<Setting>,
    /// What is held with it only to be restored.
    #[serde(skip)]
    pub(super) followers: Vec<Setting>,
}

/// What applying would do to a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It has the value already.
    AsWanted,
    /// It would be set.
    Changes,
    /// This host lacks it, and the profile says that it may.
    Skipped,
    /// It cannot be set: nothing of the profile is applied.
    Refused,
    /// It is dangerous, and nobody named it: it stays as it is.
    LeftOut,
    /// The interrupts of this vector cannot be moved, and others of the device can.
    Spread,
}

/// Why a setting would not be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
    /// Whether the profile is wrong, on any host.
    pub is_mistake: bool,
}

impl Refusal {
    fn of(error: &HostError) -> Self {
        Self {
            message: error.in_a_line(),
            remedy: error.remedy_in_profile().into_owned(),
            is_mistake: error.is_mistake(),
        }
    }

    fn of_spread(setting: &Setting) -> Self {
        let message = format!("the kernel spreads {setting} itself");
        Self { message, remedy: "nothing to do: it is unchanged".to_owned(), is_mistake: false }
    }

    fn of_one_way(setting: &Setting, why: &str) -> Self {
        let message = format!("{setting} at {} could not be restored: {why}", setting.value);
        let remedy = "leave it out, or set it by other means for good".to_owned();
        Self { message, remedy, is_mistake: false }
    }
}

/// `message (remedy)`.
impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{} ({})", self.message, self.remedy))
    }
}

/// A line of a profile that sets nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotSet {
    /// Its key.
    pub key: String,
    /// What a paper set, in its own terms.
    pub then: Option<String>,
    /// What became of it.
    pub today: Option<Today>,
    /// More about it.
    pub note: Option<String>,
    /// Where it comes from.
    pub source: String,
}

/// What a profile would change on this host.
///
/// # Errors
/// Where the profile cannot be read. What this host refuses is a part of the plan.
pub fn plan(name: &str) -> Result<HostPlan, Failure> {
    Ok(plan_on(&Root::real(), &profile::read(name)?))
}

/// The same, on any host.
pub(super) fn plan_on(root: &Root, profile: &Profile) -> HostPlan {
    let (set, not_set): (Vec<&ProfileSetting>, _) =
        profile.settings.iter().partition(|setting| setting.value.is_some());
    let mut settings: Vec<Planned> = set.into_iter().flat_map(|line| planned(root, line)).collect();
    refuse_contradictions(&mut settings);
    refuse_one_way(&mut settings);
    refuse_more_than_memory(root, &mut settings);
    let rivals = rivals(root, &settings);
    HostPlan {
        profile: profile.name.clone(),
        about: profile.about.clone(),
        not_set: not_set.into_iter().map(as_not_set).collect(),
        settings,
        rivals,
    }
}

fn as_not_set(line: &ProfileSetting) -> NotSet {
    let ProfileSetting { key, then, today, note, source, .. } = line.clone();
    NotSet { key, then, today, note, source }
}

/// What a line of a profile is on a host: its files, or why there are none.
fn planned(root: &Root, line: &ProfileSetting) -> Vec<Planned> {
    let value = line.value.as_deref().unwrap_or_default();
    match known::resolve(root, &line.key, value) {
        Ok(settings) => {
            let (followers, settings): (Vec<_>, Vec<_>) =
                settings.into_iter().partition(Setting::is_follower);
            let mut all: Vec<Planned> = settings.into_iter().map(|setting| on_host(line, setting)).collect();
            if let Some(first) = all.iter_mut().find(|planned| planned.state == State::Changes) {
                first.followers = followers;
            }
            all
        }
        Err(error) => {
            let is_skipped = line.optional && error.is_skipped_where_optional();
            let state = if is_skipped { State::Skipped } else { State::Refused };
            vec![Planned { state, why: Some(Refusal::of(&error)), ..unplaced(line) }]
        }
    }
}

fn on_host(line: &ProfileSetting, setting: Setting) -> Planned {
    if let Reach::Limit(_) = setting.reach {
        let message =
            format!("it is a limit of what a run starts: set `host.setting.{}` in a scenario", line.key);
        let why = Refusal { message, remedy: "leave it out of the profile".to_owned(), is_mistake: false };
        return Planned { state: State::Skipped, why: Some(why), ..unplaced(line) };
    }
    let now = setting.now();
    let (state, why) = match &now {
        Err(error) => (State::Refused, Some(Refusal::of(error))),
        Ok(now) if *now == setting.value => (State::AsWanted, None),
        Ok(_) if setting.is_spread_by_kernel() => (State::Spread, Some(Refusal::of_spread(&setting))),
        Ok(_) => match setting.check_writable() {
            Ok(()) => (State::Changes, None),
            Err(error) => (State::Refused, Some(Refusal::of(&error))),
        },
    };
    Planned {
        name: setting.name.clone(),
        path: setting.path().map(ToOwned::to_owned),
        now: now.ok(),
        wanted: setting.value.clone(),
        state,
        why,
        setting: Some(setting),
        ..unplaced(line)
    }
}

fn unplaced(line: &ProfileSetting) -> Planned {
    let known = known::find(&line.key).ok();
    Planned {
        key: line.key.clone(),
        name: line.key.clone(),
        path: None,
        now: None,
        wanted: line.value.clone().unwrap_or_default(),
        source: line.source.clone(),
        danger: known.map_or(Danger::None, |known| known.danger),
        place: known.map_or(Place::Host, |known| known.place),
        state: State::Refused,
        why: None,
        then: line.then.clone(),
        effect: line.effect.clone(),
        note: line.note.clone(),
        setting: None,
        followers: Vec::new(),
    }
}

/// Two lines may set the same file, by `block.*.scheduler` and `block.vda.scheduler`: to one value, or neither is known to be meant.
fn refuse_contradictions(settings: &mut Vec<Planned>) {
    let mut place = 0;
    while place < settings.len() {
        let (before, rest) = settings.split_at_mut(place);
        let this = &mut rest[0];
        let first = before.iter_mut().find(|other| is_same(other, this));
        match first {
            Some(first) if first.wanted == this.wanted => {
                // It may hold those of all devices of its line.
                let more = std::mem::take(&mut this.followers);
                first.followers.extend(more);
                settings.remove(place);
            }
            Some(first) => {
                let message = format!(
                    "`{}` wants {} of {}, and `{}` wants {}",
                    first.key, first.wanted, this.name, this.key, this.wanted
                );
                let remedy = "keep one of the two".to_owned();
                this.why = Some(Refusal { message, remedy, is_mistake: true });
                this.state = State::Refused;
                place += 1;
            }
            None => place += 1,
        }
    }
}

/// What could not be restored is not applied.
fn refuse_one_way(settings: &mut [Planned]) {
    let all: Vec<Setting> = settings.iter().filter_map(|planned| planned.setting.clone()).collect();
    for planned in settings.iter_mut().filter(|planned| planned.state == State::Changes) {
        let Some(setting) = &planned.setting else { continue };
        if let Some(why) = known::one_way(setting, &all) {
            planned.why = Some(Refusal::of_one_way(setting, why));
            planned.state = State::Refused;
        }
    }
}

fn is_same(one: &Planned, other: &Planned) -> bool {
    match (&one.setting, &other.setting) {
        (Some(one), Some(other)) => one.is_same_as(other),
        _ => false,
    }
}

impl HostPlan {
    /// Settings that would be changed.
    pub fn changes(&self) -> impl Iterator<Item = &Planned> {
        self.settings.iter().filter(|planned| planned.state == State::Changes)
    }

    /// Settings that would be changed, and need to be named for that: each key once.
    pub fn needs_consent(&self) -> Vec<&Planned> {
        let mut some: Vec<&Planned> =
            self.changes().filter(|planned| planned.danger.needs_consent()).collect();
        some.dedup_by(|one, other| one.key == other.key);
        some
    }

    /// The same plan, in which these vectors of interrupts are known to stay where they are.
    pub(super) fn with_spread(mut self, immovable: &[Setting]) -> Self {
        for planned in self.settings.iter_mut().filter(|planned| planned.state == State::Changes) {
            let setting = planned.setting.as_ref();
            if setting.is_some_and(|setting| immovable.iter().any(|one| one.is_same_as(setting))) {
                planned.state = State::Spread;
            }
        }
        self
    }

    /// The same plan, without what is dangerous and not among these keys.
    pub(super) fn allowing(mut self, allow: &[String]) -> Self {
        for planned in &mut self.settings {
            let is_allowed = !planned.danger.needs_consent() || allow.contains(&planned.key);
            if planned.state == State::Changes && !is_allowed {
                planned.state = State::LeftOut;
            }
        }
        self
    }

    /// What is left out since it is dangerous, in words.
    pub(super) fn left_out(&self) -> Vec<String> {
        let left_out = self.settings.iter().filter(|planned| planned.state == State::LeftOut);
        let words = |planned: &Planned| {
            let now = planned.now.as_deref().unwrap_or("unknown");
            let Planned { name, wanted, danger, key, .. } = planned;
            format!("{name} is {now}, not {wanted} (danger: {}); `--allow {key}` includes it", danger.name())
        };
        left_out.map(words).collect()
    }

    /// Whether this host refuses nothing of it, so that it can be applied.
    pub fn is_applicable(&self) -> bool {
        self.check().is_ok()
    }

    /// Why it cannot be applied here.
    ///
    /// # Errors
    /// All that is refused, each with its remedy.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let rivals: Vec<Refusal> = self.rivals.iter().map(Rival::refusal).collect();
        self.refuse(FailureCode::HostUnfit, &self.refused().chain(&rivals).collect::<Vec<_>>())
    }

    /// What is wrong with the profile itself.
    ///
    /// # Errors
    /// All keys that are not known and values that cannot be, each with its remedy.
    pub(super) fn check_profile(&self) -> Result<(), Failure> {
        let mistakes: Vec<&Refusal> = self.refused().filter(|refusal| refusal.is_mistake).collect();
        self.refuse(FailureCode::BadInput, &mistakes)
    }

    fn refused(&self) -> impl Iterator<Item = &Refusal> {
        let refused = self.settings.iter().filter(|planned| planned.state == State::Refused);
        refused.filter_map(|planned| planned.why.as_ref())
    }

    fn refuse(&self, code: FailureCode, all: &[&Refusal]) -> Result<(), Failure> {
        let Some(first) = all.first() else { return Ok(()) };
        let mut failure = Failure::new(code, &first.message, &first.remedy);
        if all.len() > 1 {
            failure.message = format!("{} settings of `{}` cannot be applied here", all.len(), self.profile);
            failure.causes =
                all.iter().map(|refusal| format!("{} ({})", refusal.message, refusal.remedy)).collect();
            "do what is said beside each; nothing was changed".clone_into(&mut failure.remedy);
        }
        Err(failure)
    }
}
