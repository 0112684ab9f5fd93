//! Applying a profile until it is restored, verifying it, and saying what is applied.

use crate::{
    failure::{Failure, FailureCode, state_failed},
    host::{
        plan::{HostPlan, Planned, State, plan_on},
        profile,
    },
    job::{
        host_journal::{self, Applied, HostJournal},
        lock::{WhenBusy, take_for_run},
        remains,
    },
    program::need_root_for,
    stop::interrupted,
};
use serde::Serialize;
use std::path::PathBuf;
use tilemark_host::{
    HostError,
    setting::{Held, Now, Outcome, Setting, known::Root},
};
use tilemark_plan::profile::Profile;
use tilemark_record::places::Places;
use tilemark_units::counted;

/// Why root is needed.
const SETS: &str = "it changes settings of the kernel";

/// How a user wants a profile applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Consent {
    /// The plan was seen, and is wanted.
    pub yes: bool,
    /// Keys of dangerous settings that are wanted all the same.
    pub allow: Vec<String>,
}

/// What was applied.
#[derive(Debug, Serialize)]
pub struct Done {
    /// The profile.
    pub profile: String,
    /// Settings that have another value now.
    pub changed: Vec<Changed>,
    /// How many had their value already.
    pub as_wanted: usize,
    /// Settings that this host lacks.
    pub skipped: Vec<String>,
    /// Dangerous settings that nobody named: they are not set.
    pub left_out: Vec<String>,
    /// Interrupts that the kernel spreads itself: they stay where they are.
    pub immovable: Vec<String>,
    /// Settings that a killed run or command had set: they were restored first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// Settings that a killed run or command had set, and that another program has changed since: they are left alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed_by_others: Vec<String>,
}

impl Done {
    /// What is not as the profile wants it all the same, each in a sentence.
    pub fn exceptions(&self) -> Vec<String> {
        let Self { skipped, left_out, immovable, restored, changed_by_others, .. } = self;
        let kinds = [
            ("Restored first, because a killed command had set it", restored),
            ("Skipped", skipped),
            ("Left out", left_out),
            ("Unchanged, because the kernel spreads it itself", immovable),
            ("Not restored, because another program changed it", changed_by_others),
        ];
        let of_kind = |(what, all): (&str, &Vec<String>)| -> Vec<String> {
            all.iter().map(|one| format!("{what}: {one}.")).collect()
        };
        kinds.into_iter().flat_map(of_kind).collect()
    }
}

/// A setting with its value before and now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// What it is.
    pub name: String,
    /// Its file, where it is one.
    pub path: Option<PathBuf>,
    /// Its value before.
    pub was: String,
    /// Its value by the profile.
    pub wanted: String,
    /// Its value now: `wanted`, the one from before, or another program's.
    pub now: Now,
}

impl Changed {
    fn of(held: &Held) -> Self {
        Self {
            name: held.setting.name.clone(),
            path: held.setting.path().map(ToOwned::to_owned),
            was: held.found_value(),
            wanted: held.setting.value.clone(),
            now: held.now(),
        }
    }
}

/// What is applied on this host.
#[derive(Debug, Serialize)]
pub struct Status {
    /// The profile, where one is applied.
    pub profile: Option<String>,
    /// Its settings that had another value before.
    pub settings: Vec<Changed>,
    /// Whether it is applied in part only: a command is at it, was killed, or could not restore these settings.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_part: bool,
}

/// What came of restoring.
#[derive(Debug, Serialize)]
pub struct Restored {
    /// The profile that was applied.
    pub profile: Option<String>,
    /// Settings that have their value from before.
    pub restored: Vec<String>,
    /// Settings that another program has changed since: they are left alone.
    pub changed_by_others: Vec<String>,
    /// Settings whose device or file does not exist any more: there is nothing to restore.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gone: Vec<String>,
}

/// How a host differs from a profile.
#[derive(Debug, Serialize)]
pub struct Verified {
    /// The profile.
    pub profile: String,
    /// How many settings are as the profile wants them.
    pub as_wanted: usize,
    /// Each one that is not, in words.
    pub differences: Vec<String>,
    /// Settings that this host lacks.
    pub skipped: Vec<String>,
    /// Dangerous settings that differ and that nobody named.
    pub left_out: Vec<String>,
}

/// Applies a profile; it stays until [`restore`], or until the host boots.
///
/// # Errors
/// Where it is not wanted, another one is applied, a measured run is under way, or this host refuses a setting: then nothing is changed.
pub fn apply(places: &Places, name: &str, consent: &Consent) -> Result<Done, Failure> {
    let profile = profile::read(name)?;
    let plan = plan_on(&Root::real(), &profile);
    agreed(&plan, consent)?;
    need_root_for("applying a profile", SETS)?;
    let _locks = take_for_run(&places.state, "host-apply", WhenBusy::Stop)?;
    none_of_another_home(places)?;
    // What a killed run had set is no value of the host.
    let remains = remains::of_jobs(places)?;
    remains.settled()?;
    host_journal::announce(&places.state).map_err(host_failed)?;
    let journal = HostJournal::of(&places.state).map_err(state_failed)?;
    let mut done = apply_on(&Root::real(), &journal, &profile, &consent.allow)?;
    done.restored.splice(..0, remains.restored());
    done.changed_by_others.splice(..0, remains.changed_by_others());
    Ok(done)
}

/// Refuses where a profile is applied: no other one can be then.
///
/// # Errors
/// The profile that is applied, and how it is restored.
pub fn none_is_applied(places: &Places) -> Result<(), Failure> {
    none_of_another_home(places)?;
    none_in(&HostJournal::of(&places.state).map_err(state_failed)?)
}

fn none_of_another_home(places: &Places) -> Result<(), Failure> {
    let Some((home, first)) = host_journal::of_another_home(&places.state).map_err(host_failed)? else {
        return Ok(());
    };
    let remedy = format!(
        "restore it first with `tilemark host restore` in the home whose states are in {}",
        home.display()
    );
    Err(Failure { remedy, ..held_already(&first) })
}

pub(super) fn none_in(journal: &HostJournal) -> Result<(), Failure> {
    journal.applied().map_err(host_failed)?.map_or(Ok(()), |first| Err(held_already(&first)))
}

/// The same on any host, of a plan that is agreed.
pub(super) fn apply_on(
    root: &Root,
    journal: &HostJournal,
    profile: &Profile,
    allow: &[String],
) -> Result<Done, Failure> {
    none_in(journal)?;
    let half = journal.restore_half().map_err(host_failed)?;
    not_settled(&half)?;
    // Nor is what a killed command had set.
    let plan = plan_on(root, profile).allowing(allow);
    plan.check()?;
    let settings = to_set(&plan, allow);
    let immovable = journal.apply(&plan.profile, &settings).map_err(|error| not_applied(journal, error))?;
    if interrupted() {
        not_settled(&journal.restore_all().map_err(host_failed)?)?;
        let remedy = "nothing to do: every setting has its old value";
        return Err(Failure::new(FailureCode::Interrupted, "interrupted, and restored", remedy));
    }
    let held = journal.applied().map_err(host_failed)?.map(|applied| applied.held).unwrap_or_default();
    Ok(Done {
        profile: plan.profile.clone(),
        changed: changed(&held),
        as_wanted: plan.settings.iter().filter(|planned| planned.state == State::AsWanted).count(),
        skipped: skipped(&plan),
        left_out: plan.left_out(),
        immovable: spread(&plan).chain(&immovable).map(ToString::to_string).collect(),
        restored: words_of(&half, &|now| *now == Now::AsFound),
        changed_by_others: words_of(&half, &|now| matches!(now, Now::Other(_))),
    })
}

/// What changes, and what has its value already: a service that the plan stops may set it back.
pub(super) fn to_set(plan: &HostPlan, allow: &[String]) -> Vec<Setting> {
    let is_wanted = |planned: &&Planned| match planned.state {
        State::Changes => true,
        State::AsWanted => !planned.danger.needs_consent() || allow.contains(&planned.key),
        State::Skipped | State::Refused | State::LeftOut | State::Spread => false,
    };
    let wanted = plan.settings.iter().filter(is_wanted);
    wanted.flat_map(|planned| planned.followers.iter().chain(&planned.setting)).cloned().collect()
}

/// What was set, without what is only held to be restored.
fn changed(held: &[Held]) -> Vec<Changed> {
    held.iter().filter(|held| !held.setting.is_follower()).map(Changed::of).collect()
}

/// Whether the plan can be applied, and the user has seen it and named only what is in it.
pub(super) fn agreed(plan: &HostPlan, consent: &Consent) -> Result<(), Failure> {
    in_profile(plan, &consent.allow)?;
    plan.check()?;
    if consent.yes {
        return Ok(());
    }
    let is_set = |planned: &&Planned| !planned.danger.needs_consent() || consent.allow.contains(&planned.key);
    let changes = counted(plan.changes().filter(is_set).count() as u64, "setting");
    let message =
        format!("nothing was changed: applying `{}` would change {changes} of this host", plan.profile);
    let remedy = "look at the plan (`tilemark host plan`), then add `--yes`";
    Err(Failure::new(FailureCode::BadInput, message, remedy))
}

/// Whether a profile has each of these keys.
fn in_profile(plan: &HostPlan, keys: &[String]) -> Result<(), Failure> {
    let is_there = |key: &String| plan.settings.iter().any(|planned| planned.key == *key);
    match keys.iter().find(|key| !is_there(key)) {
        None => Ok(()),
        Some(key) => Err(Failure::new(
            FailureCode::BadInput,
            format!("`{key}` is not a setting of the profile `{}`", plan.profile),
            "give `--allow` a key as `tilemark host plan` shows it",
        )),
    }
}

/// Which settings differ from a profile now. Of those that are dangerous, only these keys are compared. Interrupts that the kernel did not let
/// `host apply` move are no difference while that profile is applied.
///
/// # Errors
/// Where the profile cannot be read, is wrong, or has no such key; where what is applied cannot be read.
pub fn verify(places: &Places, name: &str, allow: &[String]) -> Result<Verified, Failure> {
    let plan = plan_on(&Root::real(), &profile::read(name)?);
    in_profile(&plan, allow)?;
    plan.check_profile()?;
    let applied = HostJournal::of(&places.state).map_err(state_failed)?.applied().map_err(host_failed)?;
    Ok(verified(plan, allow, &applied.map(|applied| applied.immovable).unwrap_or_default()))
}

/// How a host differs from a plan for it, where these vectors of interrupts cannot be moved.
pub(super) fn verified(plan: HostPlan, allow: &[String], immovable: &[Setting]) -> Verified {
    let plan = plan.with_spread(immovable).allowing(allow);
    let difference = |planned: &Planned| match (planned.state, &planned.now, &planned.why) {
        (State::AsWanted | State::Skipped | State::LeftOut | State::Spread, ..) => None,
        (_, Some(now), _) => {
            let Planned { name, wanted, .. } = planned;
            Some(format!("{name} is {now}, and the profile wants {wanted}"))
        }
        (_, None, why) => why.as_ref().map(|why| why.message.clone()),
    };
    Verified {
        profile: plan.profile.clone(),
        as_wanted: plan.settings.iter().filter(|planned| planned.state == State::AsWanted).count(),
        differences: plan.settings.iter().filter_map(difference).collect(),
        skipped: [
            skipped(&plan),
            spread(&plan).map(|one| format!("the kernel spreads {one} itself")).collect(),
        ]
        .concat(),
        left_out: plan.left_out(),
    }
}

/// Restores what is applied, and what a killed run or command had set in part.
///
/// # Errors
/// Where a setting cannot be restored: it stays in the journal.
pub fn restore(places: &Places) -> Result<Restored, Failure> {
    need_root_for("restoring the host", SETS)?;
    let _locks = take_for_run(&places.state, "host-restore", WhenBusy::Stop)?;
    // A run set its values on top of the profile's.
    let remains = remains::of_jobs(places)?;
    let mut restored = restore_from(&HostJournal::of(&places.state).map_err(state_failed)?)?;
    remains.settled()?;
    restored.restored.splice(..0, remains.restored());
    restored.changed_by_others.splice(..0, remains.changed_by_others());
    Ok(restored)
}

/// The same, from any journal.
pub(super) fn restore_from(journal: &HostJournal) -> Result<Restored, Failure> {
    let profile = journal.applied().map_err(host_failed)?.map(|applied| applied.profile);
    let outcomes = journal.restore_all().map_err(host_failed)?;
    not_settled(&outcomes)?;
    Ok(Restored {
        profile,
        restored: words_of(&outcomes, &|now| !matches!(now, Now::Other(_) | Now::Gone(_))),
        changed_by_others: words_of(&outcomes, &|now| matches!(now, Now::Other(_))),
        gone: words_of(&outcomes, &|now| matches!(now, Now::Gone(_))),
    })
}

/// What became of those settings, in words.
fn words_of(outcomes: &[Outcome], is_one: &dyn Fn(&Now) -> bool) -> Vec<String> {
    outcomes.iter().filter(|outcome| is_one(&outcome.now)).map(ToString::to_string).collect()
}

/// What is applied, with the values now.
///
/// # Errors
/// Where the journal cannot be read.
pub fn status(places: &Places) -> Result<Status, Failure> {
    status_from(&HostJournal::of(&places.state).map_err(state_failed)?)
}

/// The same, from any journal.
pub(super) fn status_from(journal: &HostJournal) -> Result<Status, Failure> {
    let whole = journal.applied().map_err(host_failed)?;
    let in_part = whole.is_none();
    let found =
        whole.map_or_else(|| journal.applied_in_part(), |whole| Ok(Some(whole))).map_err(host_failed)?;
    Ok(match found {
        Some(Applied { profile, held, .. }) => {
            Status { profile: Some(profile), settings: changed(&held), in_part }
        }
        None => Status { profile: None, settings: Vec::new(), in_part: false },
    })
}

fn skipped(plan: &HostPlan) -> Vec<String> {
    let skipped = plan.settings.iter().filter(|planned| planned.state == State::Skipped);
    skipped.filter_map(|planned| planned.why.as_ref()).map(|why| why.message.clone()).collect()
}

/// Vectors of interrupts whose files say that the kernel spreads them itself.
fn spread(plan: &HostPlan) -> impl Iterator<Item = &Setting> {
    let spread = plan.settings.iter().filter(|planned| planned.state == State::Spread);
    spread.filter_map(|planned| planned.setting.as_ref())
}

fn held_already(first: &Applied) -> Failure {
    let held = counted(first.held.len() as u64, "setting");
    Failure::new(
        FailureCode::HostUnfit,
        format!("the profile `{}` is applied already, with {held}: nothing was changed", first.profile),
        "restore it first with `tilemark host restore`",
    )
}

fn host_failed(error: HostError) -> Failure {
    Failure::from_error(FailureCode::HostUnfit, &error, error.remedy())
}

/// A setting that the kernel refused: those before it are restored, or in the journal still.
pub(super) fn not_applied(journal: &HostJournal, error: HostError) -> Failure {
    let mut refused = host_failed(error);
    refused.message = format!("nothing was applied: {}", refused.message);
    let left = match journal.applied_in_part() {
        Ok(left) => left.map(|left| left.held).unwrap_or_default(),
        Err(unread) => {
            refused.causes.push(unread.in_a_line());
            return Failure { code: FailureCode::NotRestored, ..refused };
        }
    };
    let outcome = |held: Held| Outcome { now: held.now(), held, refused: None };
    let Err(mut left) = not_settled(&left.into_iter().map(outcome).collect::<Vec<_>>()) else {
        return refused;
    };
    left.message =
        format!("{}, and {}", refused.message.replacen("nothing", "not everything", 1), left.message);
    left.causes.splice(..0, refused.causes);
    left
}

/// Settings that are neither as before nor another program's. The others leave the journal with this: what became of them is named too.
fn not_settled(outcomes: &[Outcome]) -> Result<(), Failure> {
    let (settled, left): (Vec<&Outcome>, Vec<&Outcome>) =
        outcomes.iter().partition(|outcome| outcome.is_settled());
    let Some(first) = left.first() else { return Ok(()) };
    let count = counted(left.len() as u64, "setting");
    let mut failure = Failure::new(
        FailureCode::NotRestored,
        format!("{count} could not be restored"),
        format!("`tilemark host restore` tries it again; by hand, {}", first.held.order_to_restore()),
    );
    let of_others = settled.into_iter().filter(|outcome| outcome.now != Now::AsFound);
    failure.causes = left.into_iter().chain(of_others).map(ToString::to_string).collect();
    Err(failure)
}
