//! Settings of the host that a point is measured with: applied before the guests of a repeat start, read back while it is measured, and
//! restored after it.
//!
//! ```text
//! of the whole host    -> journal in the state folder     a keeper restores it, or `recover`, however the engine ends
//! of the run's network,
//! of its processes     -> journal in the run's memory     they end with the run's namespaces
//! ```

use crate::failure::Failure;
use std::{iter, sync::Mutex};
use tilemark_host::parse_list;
use tilemark_plan::{host_settings::HostSettings, plan::Plan};
use tilemark_record::summary::{Incident, IncidentKind, SettingRead};

/// What can change the host.
pub(crate) trait Hands: Sync {
    /// Sets all of these, or none, and returns every setting of the plan with what was found of it.
    ///
    /// # Errors
    /// The first setting that the host refuses.
    fn apply(&self, wanted: &HostSettings, of_plan: &HostSettings) -> Result<Vec<SettingRead>, Failure>;

    /// The value of each now, in the order of [`Self::apply`].
    fn read(&self) -> Vec<Option<String>>;

    /// The processors to which the kernel delivers each vector of interrupts now, in the order of [`Self::apply`]; nothing of what is none.
    fn effective(&self) -> Vec<Option<String>> {
        Vec::new()
    }

    /// Programs that run and change a setting of this key, in words.
    fn rivals(&self, _key: &str) -> Vec<String> {
        Vec::new()
    }

    /// Restores what was set. Returns those that another program has changed since, in words: they are left alone.
    ///
    /// # Errors
    /// Where a value could not be restored; it stays in the journal.
    fn restore(&self) -> Result<Vec<String>, Failure>;
}

/// Hands of a world where nothing is to be set.
pub(crate) struct NoHands;

impl Hands for NoHands {
    fn apply(&self, _: &HostSettings, _: &HostSettings) -> Result<Vec<SettingRead>, Failure> {
        Ok(Vec::new())
    }

    fn read(&self) -> Vec<Option<String>> {
        Vec::new()
    }

    fn restore(&self) -> Result<Vec<String>, Failure> {
        Ok(Vec::new())
    }
}

/// Every setting that any point of a plan sets, each with the value of one of them: all are read in every repeat, so that the sides can
/// be laid side by side.
pub(crate) fn of_plan(plan: &Plan) -> HostSettings {
    let mut all = HostSettings::default();
    for point in &plan.points {
        all.setting.extend(point.host.setting.clone());
        all.optional.extend(point.host.optional.iter().cloned());
    }
    all
}

/// The settings of one repeat, from before its guests start until after they are gone. Dropped, they are restored.
pub(crate) struct SettingsHeld<'w> {
    hands: &'w dyn Hands,
    found: Vec<SettingRead>,
    /// What was read at the first counted moment.
    first: Mutex<Option<Reading>>,
    is_restored: bool,
}

/// What was read of all settings at one moment.
struct Reading {
    values: Vec<Option<String>>,
    effective: Vec<Option<String>>,
}

impl Reading {
    fn of(hands: &dyn Hands) -> Self {
        Self { values: hands.read(), effective: hands.effective() }
    }
}

impl<'w> SettingsHeld<'w> {
    /// Applies them.
    pub(crate) fn apply(
        hands: &'w dyn Hands,
        wanted: &HostSettings,
        of_plan: &HostSettings,
    ) -> Result<Self, Failure> {
        let found = if of_plan.is_empty() { Vec::new() } else { hands.apply(wanted, of_plan)? };
        Ok(Self { hands, found, first: Mutex::new(None), is_restored: false })
    }

    /// Reads them back, once, at the first counted moment.
    pub(crate) fn read_at_start(&self) {
        let mut first = self.first.lock().expect("nobody panics while reading");
        if first.is_none() && !self.found.is_empty() {
            *first = Some(Reading::of(self.hands));
        }
    }

    /// Reads them back at the end of the loads: each as it was measured, and what another program changed meanwhile.
    pub(crate) fn read_at_end(&self) -> (Vec<SettingRead>, Vec<Incident>) {
        if self.found.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let first = self.first.lock().expect("nobody panics while reading").take();
        let Reading { values: first, effective } = first.unwrap_or_else(|| Reading::of(self.hands));
        let mut effective = effective.into_iter().chain(iter::repeat(None));
        let last = self.hands.read();
        let mut incidents = Vec::new();
        let mut read = Vec::new();
        for ((found, first), last) in self.found.iter().zip(first).zip(last) {
            let wanted = found.set.as_ref().or(found.before.as_ref());
            let is_changed = first != last || (found.set.is_some() && first.as_ref() != wanted);
            if is_changed {
                let shown = |value: Option<&String>| value.map_or("not readable", String::as_str).to_owned();
                let other = if last.as_ref() == wanted { &first } else { &last };
                let rivals: String =
                    self.hands.rivals(&found.key).iter().map(|rival| format!("; {rival}")).collect();
                let what = format!(
                    "{} was {} and then {}: another program changed it while it was measured{rivals}",
                    found.what,
                    shown(wanted),
                    shown(other.as_ref())
                );
                incidents.push(Incident { kind: IncidentKind::Unproven, what, guest: None });
            }
            let effective = effective.next().flatten();
            let is_elsewhere = is_elsewhere(found.set.as_ref(), effective.as_ref());
            read.push(SettingRead { value: first, effective, is_elsewhere, ..found.clone() });
        }
        (read, incidents)
    }

    /// Restores them. Returns those that another program has changed, in words.
    pub(crate) fn restore(mut self) -> Result<Vec<String>, Failure> {
        self.is_restored = true;
        if self.found.is_empty() { Ok(Vec::new()) } else { self.hands.restore() }
    }
}

/// Whether the kernel delivers a vector to a processor that is none of those that were set.
fn is_elsewhere(set: Option<&String>, effective: Option<&String>) -> bool {
    let both =
        set.zip(effective).and_then(|(set, effective)| Some((parse_list(set)?, parse_list(effective)?)));
    both.is_some_and(|(set, effective)| effective.iter().any(|processor| !set.contains(processor)))
}

impl Drop for SettingsHeld<'_> {
    fn drop(&mut self) {
        // The failure that ends the repeat is the one to report; what cannot be restored stays in the journal, and the keeper names it.
        if !self.is_restored && !self.found.is_empty() {
            let _ = self.hands.restore();
        }
    }
}
