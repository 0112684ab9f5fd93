//! The settings that paid, as a profile of this host.

use crate::{
    failure::{Failure, place_failed},
    run::result::draw_to,
};
use std::path::Path;
use tilemark_plan::{
    plan::shell_word,
    profile::{PROFILE_SCHEMA, Profile, ProfileSetting},
};
use tilemark_record::{
    RecordError,
    result::{MeasureEffect, RunResult, Screening, SettingEffect, SettingOutcome},
};
use tilemark_sys::files::Place;
use tilemark_units::counted;

/// Whether a profile can be written there, before anything is measured for hours.
///
/// # Errors
/// When a link of another user leads there, or its folder is not there.
pub fn check(path: &Path) -> Result<(), Failure> {
    let failed = |source| RecordError::Write { path: path.to_owned(), source }.into();
    Place::of_file(path).map(drop).map_err(|error| place_failed(error, failed))
}

/// Writes the settings that paid as a profile, if any did. Returns what to do with it.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(result: &RunResult, path: &Path) -> Result<String, Failure> {
    let Some(profile) = result.screening.as_ref().and_then(|found| profile(found, result)) else {
        return Ok(format!("No setting is known to pay: {} was not written.", path.display()));
    };
    draw_to(path, &profile.to_toml())?;
    Ok(format!(
        "{} that paid: {}. `sudo tilemark host apply {}` applies them until `host restore`.",
        counted(profile.settings.len() as u64, "setting"),
        path.display(),
        shell_word(&path.display().to_string())
    ))
}

fn profile(found: &Screening, result: &RunResult) -> Option<Profile> {
    let source = format!("`tilemark host try`, run {}, by the profile {}", result.run, found.profile);
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
    let settings: Vec<ProfileSetting> = found.of(SettingOutcome::Pays).map(setting).collect();
    let about = format!("Settings that paid for the scenario {} on this host.", result.scenario);
    let name = "paid-here".to_owned();
    (!settings.is_empty()).then_some(Profile { schema: PROFILE_SCHEMA, name, about, source, settings })
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
