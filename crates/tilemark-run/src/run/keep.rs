//! The settings that paid, as a profile of this host, which is applied where the run is trusted.

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
    result::{MeasureEffect, RunResult, Screening, SettingEffect, SettingOutcome, VerdictStatus},
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

/// Writes the settings that paid as a profile, if any did, and applies it. What pays was confirmed in pairs. Nobody looks at it before it
/// is applied, so that this is done for a trusted run only: a run that is in doubt, such as one beside other work, may have it by chance.
///
/// # Errors
/// When the file cannot be written.
pub fn keep(result: &RunResult, path: &Path, apply: Apply<'_>) -> Result<KeepOutcome, Failure> {
    let Some(found) = &result.screening else {
        return Ok(KeepOutcome { said: not_written(path, &[]), failed: None });
    };
    let (mut profile, of_runs) = profile(found, &result.run, &result.scenario);
    if profile.settings.is_empty() {
        return Ok(KeepOutcome { said: not_written(path, &of_runs), failed: None });
    }
    let doubt = doubt(result);
    if let Some(doubt) = &doubt {
        profile.about += &format!(" Not certain: {doubt}.");
    }
    draw_to(path, &profile.to_toml())?;
    let restored = not_restored(result).map_or(Ok(()), |_| Err("this host was not restored".to_owned()));
    let apply = restored.and(doubt.map_or(Ok(apply), Err));
    Ok(applied(&profile, &of_runs, path, apply))
}

/// Why the run is not trusted; nothing where it is.
fn doubt(result: &RunResult) -> Option<String> {
    let status = match result.verdict.status {
        VerdictStatus::Trusted => return None,
        VerdictStatus::NotTrusted => "not trusted",
        VerdictStatus::CannotTell => "cannot tell",
    };
    let why = result.verdict.reasons.first().map_or_else(String::new, |reason| format!(" ({reason})"));
    Some(format!("the verdict of the run is `{status}`{why}"))
}

/// Applies what was written, unless there is a reason to leave that to the user.
fn applied(
    profile: &Profile,
    of_runs: &[String],
    path: &Path,
    apply: Result<Apply<'_>, String>,
) -> KeepOutcome {
    let consent = Consent { yes: true, allow: dangerous(profile) };
    let (what, failed) = match apply.map(|apply| apply(&word(path), &consent)) {
        Err(why) => (format!("not applied, since {why}"), None),
        Ok(Err(failure)) => ("not applied".to_owned(), Some(failure)),
        Ok(Ok(_)) => ("applied; `tilemark host restore` undoes it, and a boot does too".to_owned(), None),
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
    use std::{cell::Cell, collections::BTreeMap};
    use tilemark_record::result::{
        Answer, JUDGED_BY, LeftOver, Limit, LimitResource, Provenance, RESULT_SCHEMA, Verdict,
    };

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
        let kept = applied(&profile, &of_runs, Path::new("paid"), Ok(&done));
        assert!(kept.said.starts_with("2 settings that paid: paid; not applied. `sudo "), "{kept:?}");
        assert_eq!(kept.failed.unwrap().message, "tuned runs");
        // What is applied is found by the path.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("paid");
        draw_to(&path, &profile.to_toml()).unwrap();
        assert_eq!(crate::host::profile::read(path.to_str().unwrap()).unwrap(), profile);
    }

    /// A screening in which one setting paid, with this verdict; what it could not restore.
    fn result(status: VerdictStatus, reason: Option<&str>, left: &[&str]) -> RunResult {
        let limit = Limit { resource: LimitResource::Unknown, evidence: Vec::new() };
        RunResult {
            schema: RESULT_SCHEMA,
            judged_by: JUDGED_BY,
            run: "run-1".to_owned(),
            scenario: "web".to_owned(),
            preset: None,
            verdict: Verdict { status, reasons: reason.map(str::to_owned).into_iter().collect() },
            answer: Answer {
                backend: None,
                holds: None,
                undecided: None,
                breaks: None,
                confidence: None,
                capacity: None,
                more: None,
                untried: None,
                vcpus_per_thread: None,
                limit,
                none_because: None,
            },
            sentence: String::new(),
            cost: None,
            comparison: None,
            function: None,
            scaling: Vec::new(),
            interference: None,
            screening: Some(found(&["vm.swappiness"])),
            points: Vec::new(),
            idle_power_w: None,
            provenance: Provenance {
                left: left.iter().map(|what| left_over(what)).collect(),
                ..Provenance::default()
            },
            missing: BTreeMap::new(),
        }
    }

    fn left_over(what: &str) -> LeftOver {
        LeftOver { what: what.to_owned(), remedy: "remove it".to_owned() }
    }

    fn nothing_changed() -> Done {
        Done {
            profile: "paid-here".to_owned(),
            changed: Vec::new(),
            as_wanted: 1,
            skipped: Vec::new(),
            left_out: Vec::new(),
            immovable: Vec::new(),
            changed_by_others: Vec::new(),
        }
    }

    #[test]
    fn only_what_a_trusted_run_found_is_applied_and_all_of_it_is_written() {
        use VerdictStatus::{CannotTell, NotTrusted, Trusted};
        let beside = "it was measured beside other work on this host, as was asked";
        let lost = "13 of 24 repeats were discarded: foreign load 30.0 % of the host";
        let not_trusted =
            format!("not applied, since the verdict of the run is `not trusted` ({lost}). `sudo ");
        let cannot_tell =
            format!("not applied, since the verdict of the run is `cannot tell` ({beside}). `sudo ");
        for (result, wanted) in [
            (result(Trusted, None, &[]), "applied; `tilemark host restore` undoes it"),
            (result(Trusted, None, &["a mount"]), "not applied, since this host was not restored. `sudo "),
            (result(NotTrusted, Some(lost), &[]), not_trusted.as_str()),
            (result(CannotTell, Some(beside), &[]), cannot_tell.as_str()),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("paid.toml");
            let asked = Cell::new(0);
            let apply = |_: &str, _: &Consent| {
                asked.set(asked.get() + 1);
                Ok(nothing_changed())
            };
            let kept = keep(&result, &path, &apply).unwrap();
            assert!(kept.said.contains(wanted) && kept.failed.is_none(), "{kept:?}");
            let command = format!("`sudo tilemark host apply {} --yes` applies them", path.display());
            assert!(kept.said.contains(&command), "{kept:?}");
            assert_eq!(asked.get(), u32::from(wanted.starts_with("applied")), "{kept:?}");
            let written = crate::host::profile::read(path.to_str().unwrap()).unwrap();
            assert_eq!(written.settings[0].key, "vm.swappiness");
            let is_doubted = result.verdict.status != Trusted;
            assert_eq!(written.about.contains("Not certain: "), is_doubted, "{}", written.about);
        }
    }
}
