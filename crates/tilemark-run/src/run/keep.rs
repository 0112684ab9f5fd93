//! The settings that paid, as a profile of this host, which is applied.

use crate::{
    failure::{Failure, place_failed},
    host::apply::{Consent, Done},
    run::{command::not_restored, result::draw_to},
};
use std::path::Path;
use tilemark_host::setting::known::{self, Place};
use tilemark_plan::{
    plan::shell_word,
    profile::{PROFILE_SCHEMA, Profile, ProfileSetting},
};
use tilemark_record::{
    RecordError,
    result::{MeasureEffect, RunResult, Screening, SettingEffect, SettingOutcome},
};
use tilemark_sys::files;
use tilemark_units::counted;

/// Whether a profile can be written there, before anything is measured for hours.
///
/// # Errors
/// When a link of another user leads there, or its folder is not there.
pub fn check(path: &Path) -> Result<(), Failure> {
    let failed = |source| RecordError::Write { path: path.to_owned(), source }.into();
    files::Place::of_file(path).map(drop).map_err(|error| place_failed(error, failed))
}

/// What was done with the settings that paid.
#[derive(Debug)]
pub struct KeepOutcome {
    /// In words, with what to do.
    pub said: String,
    /// Why they could not be applied.
    pub failed: Option<Failure>,
}

/// Applies a profile: its name or path, and what was agreed to.
pub type Apply<'a> = &'a dyn Fn(&str, &Consent) -> Result<Done, Failure>;

/// Writes the settings that paid as a profile, if any did, and applies it. What pays was confirmed in pairs.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(result: &RunResult, path: &Path, apply: Apply<'_>) -> Result<KeepOutcome, Failure> {
    let Some(found) = &result.screening else {
        return Ok(KeepOutcome { said: not_written(path, &[]), failed: None });
    };
    let (profile, of_runs) = profile(found, &result.run, &result.scenario);
    if profile.settings.is_empty() {
        return Ok(KeepOutcome { said: not_written(path, &of_runs), failed: None });
    }
    draw_to(path, &profile.to_toml())?;
    let apply: Option<Apply<'_>> = not_restored(result).is_none().then_some(apply);
    Ok(applied(&profile, &of_runs, path, apply))
}

/// Applies what was written, unless the run could not restore this host.
fn applied(profile: &Profile, of_runs: &[String], path: &Path, apply: Option<Apply<'_>>) -> KeepOutcome {
    let consent = Consent { yes: true, allow: dangerous(profile) };
    let (what, failed) = match apply.map(|apply| apply(&word(path), &consent)) {
        None => ("not applied, since this host was not restored", None),
        Some(Err(failure)) => ("not applied", Some(failure)),
        Some(Ok(_)) => ("applied; `tilemark host restore` undoes it, and a boot does too", None),
    };
    let said = format!(
        "{} that paid: {}; {what}. `{}` applies them until `host restore`.{}",
        counted(profile.settings.len() as u64, "setting"),
        path.display(),
        command(profile, path),
        note_of(of_runs)
    );
    KeepOutcome { said, failed }
}

fn not_written(path: &Path, of_runs: &[String]) -> String {
    let what = if of_runs.is_empty() { "setting" } else { "setting of the whole host" };
    format!("No {what} is known to pay: {} was not written.{}", path.display(), note_of(of_runs))
}

/// What paid in the network of a run: `host apply` would set it in the host's own.
fn note_of(of_runs: &[String]) -> String {
    if of_runs.is_empty() {
        return String::new();
    }
    let keys = of_runs.join(", ");
    format!(" Not in it, since they paid in the network of a run and the host has its own: {keys}.")
}

/// A path as the name of a profile: a word without a slash would be that of one inside the program.
fn word(path: &Path) -> String {
    let path = path.display().to_string();
    if path.contains('/') { path } else { format!("./{path}") }
}

/// Keys of a profile that are set only where they are named; whoever tried them has named them.
fn dangerous(profile: &Profile) -> Vec<String> {
    let needs_consent =
        |setting: &&ProfileSetting| known::find(&setting.key).is_ok_and(|known| known.danger.needs_consent());
    profile.settings.iter().filter(needs_consent).map(|setting| setting.key.clone()).collect()
}

/// The command that applies all of a profile.
fn command(profile: &Profile, path: &Path) -> String {
    let allow: String =
        dangerous(profile).iter().map(|key| format!(" --allow {}", shell_word(key))).collect();
    format!("sudo tilemark host apply {} --yes{allow}", shell_word(&word(path)))
}

/// What paid as a profile, and the keys of what paid in the network of a run.
fn profile(found: &Screening, run: &str, scenario: &str) -> (Profile, Vec<String>) {
    let source = format!("`tilemark host try`, run {run}, by the profile {}", found.profile);
    let setting = |paid: &SettingEffect| ProfileSetting {
        key: paid.key.clone(),
        value: Some(paid.value.clone()),
        source: source.clone(),
        then: None,
        today: None,
        effect: Some(effects(paid)),
        note: paid.found.as_ref().map(|found| format!("It was {found} before.")),
        optional: false,
    };
    let is_of_runs =
        |paid: &&SettingEffect| known::find(&paid.key).is_ok_and(|known| known.place == Place::RunNetwork);
    let (of_runs, of_host): (Vec<&SettingEffect>, Vec<&SettingEffect>) =
        found.of(SettingOutcome::Pays).partition(is_of_runs);
    let settings = of_host.into_iter().map(setting).collect();
    let about = format!("Settings that paid for the scenario {scenario} on this host.");
    let profile = Profile { schema: PROFILE_SCHEMA, name: "paid-here".to_owned(), about, source, settings };
    (profile, of_runs.into_iter().map(|paid| paid.key.clone()).collect())
}

/// `throughput +5.1 % [4.0, 6.2], p99 -2.3 % [-8.1, 4.0]`.
fn effects(paid: &SettingEffect) -> String {
    let effect = |MeasureEffect { measure, change, .. }: &MeasureEffect| {
        let change = (*change)?;
        let interval = change.low.zip(change.high);
        let interval = interval
            .map_or(String::new(), |(low, high)| format!(" [{:.1}, {:.1}]", 100.0 * low, 100.0 * high));
        Some(format!("{measure} {:+.1} %{interval}", 100.0 * change.value))
    };
    paid.effects().iter().filter_map(effect).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureCode;

    fn found(keys: &[&str]) -> Screening {
        let paid = |key: &&str| SettingEffect {
            key: (*key).to_owned(),
            value: "1".to_owned(),
            found: None,
            claim: None,
            screened: Vec::new(),
            confirmed: Vec::new(),
            failures: Vec::new(),
            outcome: SettingOutcome::Pays,
        };
        Screening {
            profile: "current".to_owned(),
            repeats: 4,
            level: 0.05,
            settings: keys.iter().map(paid).collect(),
            together: Vec::new(),
            together_of: Vec::new(),
            left_out: Vec::new(),
        }
    }

    #[test]
    fn the_command_that_is_named_applies_all_that_is_in_the_file() {
        let found = found(&["vm.swappiness", "net.core.somaxconn", "kernel.randomize_va_space"]);
        let (profile, of_runs) = profile(&found, "run-1", "web");
        let keys: Vec<&str> = profile.settings.iter().map(|setting| setting.key.as_str()).collect();
        assert_eq!(keys, ["vm.swappiness", "kernel.randomize_va_space"]);
        assert!(note_of(&of_runs).contains("net.core.somaxconn"));
        for (path, word) in
            [("paid", "./paid"), ("paid.toml", "./paid.toml"), ("/srv/my paid", "'/srv/my paid'")]
        {
            assert_eq!(
                command(&profile, Path::new(path)),
                format!("sudo tilemark host apply {word} --yes --allow kernel.randomize_va_space")
            );
        }
        assert!(not_written(Path::new("paid"), &of_runs).contains("net.core.somaxconn"));
        let done = |name: &str, consent: &Consent| {
            assert_eq!((name, consent.yes), ("./paid", true));
            assert_eq!(consent.allow, ["kernel.randomize_va_space"]);
            Err(Failure::new(FailureCode::HostUnfit, "tuned runs", "stop it"))
        };
        let kept = applied(&profile, &of_runs, Path::new("paid"), Some(&done));
        assert!(kept.said.starts_with("2 settings that paid: paid; not applied. `sudo "), "{kept:?}");
        assert_eq!(kept.failed.unwrap().message, "tuned runs");
        let kept = applied(&profile, &of_runs, Path::new("paid"), None);
        assert!(kept.said.contains("this host was not restored") && kept.failed.is_none(), "{kept:?}");
        // What is applied is found by the path.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("paid");
        draw_to(&path, &profile.to_toml()).unwrap();
        assert_eq!(crate::host::profile::read(path.to_str().unwrap()).unwrap(), profile);
    }
}
