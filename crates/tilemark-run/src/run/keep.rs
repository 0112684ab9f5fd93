//! The settings that paid, as a profile of this host, which is applied where the run is trusted.

use crate::{
    failure::{Failure, place_failed},
    host::apply::{Consent, Done, none_is_applied},
    program::is_root,
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
    places::Places,
    result::{MeasureEffect, RunResult, Screening, SettingEffect, SettingOutcome, VerdictStatus},
};
use tilemark_sys::files;
use tilemark_units::counted;

/// Whether a profile can be written there and applied, before anything is measured for hours.
///
/// # Errors
/// When a link of another user leads there, its folder is not there, or another profile is applied.
pub fn check(path: &Path, places: &Places) -> Result<(), Failure> {
    // Only root applies one, in a home that only root reads.
    if is_root() {
        none_is_applied(places)?;
    }
    files::Place::of_file(path).map(drop).map_err(|error| place_failed(error, RecordError::write(path)))
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
        return Ok(KeepOutcome { said: not_written(path, &NotInIt::default()), failed: None });
    };
    let (mut profile, not_in_it) = profile(found, &result.run, &result.scenario);
    if profile.settings.is_empty() {
        return Ok(KeepOutcome { said: not_written(path, &not_in_it), failed: None });
    }
    let doubt = doubt(result).or_else(|| worse_together(found));
    if let Some(doubt) = &doubt {
        profile.about += &format!(" Not certain: {doubt}.");
    }
    draw_to(path, &profile.to_toml())?;
    let restored = not_restored(result).map_or(Ok(()), |_| Err("this host was not restored".to_owned()));
    let apply = restored.and(doubt.map_or(Ok(apply), Err));
    Ok(applied(&profile, &not_in_it, path, apply))
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

/// In what the settings that looked better are worse than nothing set where all of them are set, although each of them pays alone.
fn worse_together(found: &Screening) -> Option<String> {
    let is_worse = |effect: &&MeasureEffect| {
        let interval = effect.change.and_then(|change| change.low.zip(change.high));
        let is_loss = |(low, high): (f64, f64)| if effect.more_is_better { high < 0.0 } else { low > 0.0 };
        effect.p.is_some_and(|p| p < found.level) && interval.is_some_and(is_loss)
    };
    let worse: Vec<&MeasureEffect> = found.together.iter().filter(is_worse).collect();
    let keys = found.together_of.join(", ");
    (!worse.is_empty())
        .then(|| format!("what looked better ({keys}) makes the load worse together: {}", effects(worse)))
}

/// Applies what was written, unless there is a reason to leave that to the user.
fn applied(
    profile: &Profile,
    not_in_it: &NotInIt,
    path: &Path,
    apply: Result<Apply<'_>, String>,
) -> KeepOutcome {
    let consent = Consent { yes: true, allow: dangerous(profile) };
    let (what, exceptions, failed) = match apply.map(|apply| apply(&word(path), &consent)) {
        Err(why) => (format!("not applied, since {why}"), Vec::new(), None),
        Ok(Err(failure)) => ("not applied".to_owned(), Vec::new(), Some(failure)),
        Ok(Ok(done)) => {
            let undone = "applied; `tilemark host restore` undoes it, and a boot does too";
            (undone.to_owned(), done.exceptions(), None)
        }
    };
    let exceptions: String = exceptions.iter().map(|exception| format!(" {exception}")).collect();
    let said = format!(
        "{} that paid: {}; {what}. `{}` applies them until `host restore`.{exceptions}{}",
        counted(profile.settings.len() as u64, "setting"),
        path.display(),
        command(profile, path),
        not_in_it.in_words()
    );
    KeepOutcome { said, failed }
}

fn not_written(path: &Path, not_in_it: &NotInIt) -> String {
    let note = not_in_it.in_words();
    let what = if note.is_empty() { "setting" } else { "setting of the whole host" };
    format!("No {what} is known to pay: {} was not written.{note}", path.display())
}

/// Keys of what paid and is not in the file.
#[derive(Debug, Default)]
struct NotInIt {
    /// In the network of a run: `host apply` would set it in the host's own.
    of_runs: Vec<String>,
    /// In the processes that a run starts: `host apply` starts none.
    of_processes: Vec<String>,
}

impl NotInIt {
    fn in_words(&self) -> String {
        let paid_in = |keys: &[String], why: &str| match keys {
            [] => String::new(),
            keys => format!(" Not in it, since they {why}: {}.", keys.join(", ")),
        };
        paid_in(&self.of_runs, "paid in the network of a run and the host has its own")
            + &paid_in(
                &self.of_processes,
                "are limits of what a run starts, which `host.setting.KEY` of a scenario sets",
            )
    }
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

/// What paid as a profile of the host, and what of it cannot be in one.
fn profile(found: &Screening, run: &str, scenario: &str) -> (Profile, NotInIt) {
    let source = format!("`tilemark host try`, run {run}, by the profile {}", found.profile);
    let setting = |paid: &SettingEffect| ProfileSetting {
        key: paid.key.clone(),
        value: Some(paid.value.clone()),
        source: source.clone(),
        then: None,
        today: None,
        effect: Some(effects(paid.effects())),
        note: paid.found.as_ref().map(|found| format!("It was {found} before.")),
        optional: false,
    };
    let (mut settings, mut not_in_it) = (Vec::new(), NotInIt::default());
    for paid in found.of(SettingOutcome::Pays) {
        match known::find(&paid.key).map(|known| known.place) {
            Ok(Place::RunNetwork) => not_in_it.of_runs.push(paid.key.clone()),
            Ok(Place::Process) => not_in_it.of_processes.push(paid.key.clone()),
            Ok(Place::Host) | Err(_) => settings.push(setting(paid)),
        }
    }
    let about = format!("Settings that paid for the scenario {scenario} on this host.");
    let profile = Profile { schema: PROFILE_SCHEMA, name: "paid-here".to_owned(), about, source, settings };
    (profile, not_in_it)
}

/// `throughput +5.1 % [4.0, 6.2], p99 -2.3 % [-8.1, 4.0]`.
fn effects<'e>(all: impl IntoIterator<Item = &'e MeasureEffect>) -> String {
    let effect = |MeasureEffect { measure, change, .. }: &MeasureEffect| {
        let change = (*change)?;
        let interval = change.low.zip(change.high);
        let interval = interval
            .map_or(String::new(), |(low, high)| format!(" [{:.1}, {:.1}]", 100.0 * low, 100.0 * high));
        Some(format!("{measure} {:+.1} %{interval}", 100.0 * change.value))
    };
    all.into_iter().filter_map(effect).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FailureCode;
    use std::cell::Cell;
    use tilemark_record::result::{Figure, LeftOver, Provenance, Verdict};

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
        let found =
            found(&["vm.swappiness", "net.core.somaxconn", "limit.nofile", "kernel.randomize_va_space"]);
        let (profile, not_in_it) = profile(&found, "run-1", "web");
        let keys: Vec<&str> = profile.settings.iter().map(|setting| setting.key.as_str()).collect();
        assert_eq!(keys, ["vm.swappiness", "kernel.randomize_va_space"]);
        let note = not_in_it.in_words();
        assert!(note.contains("has its own: net.core.somaxconn."), "{note}");
        assert!(note.contains("limits of what a run starts") && note.contains(": limit.nofile."), "{note}");
        for (path, word) in
            [("paid", "./paid"), ("paid.toml", "./paid.toml"), ("/srv/my paid", "'/srv/my paid'")]
        {
            assert_eq!(
                command(&profile, Path::new(path)),
                format!("sudo tilemark host apply {word} --yes --allow kernel.randomize_va_space")
            );
        }
        assert!(not_written(Path::new("paid"), &not_in_it).ends_with(&note));
        let done = |name: &str, consent: &Consent| {
            assert_eq!((name, consent.yes), ("./paid", true));
            assert_eq!(consent.allow, ["kernel.randomize_va_space"]);
            Err(Failure::new(FailureCode::HostUnfit, "tuned runs", "stop it"))
        };
        let kept = applied(&profile, &not_in_it, Path::new("paid"), Ok(&done));
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
        RunResult {
            verdict: Verdict { status, reasons: reason.map(str::to_owned).into_iter().collect() },
            screening: Some(found(&["vm.swappiness"])),
            provenance: Provenance {
                left: left.iter().map(|what| left_over(what)).collect(),
                ..Provenance::default()
            },
            ..tilemark_fixtures::figures::result("run-1", "web")
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
            restored: Vec::new(),
            changed_by_others: Vec::new(),
        }
    }

    #[test]
    fn what_is_worse_all_together_is_written_and_not_applied() {
        let effect = |low: f64, high: f64, p: f64, more_is_better: bool| MeasureEffect {
            measure: if more_is_better { "throughput" } else { "p99" }.to_owned(),
            change: Some(Figure {
                value: f64::midpoint(low, high),
                low: Some(low),
                high: Some(high),
                n_repeats: 12,
            }),
            p: Some(p),
            resolution: None,
            margin: 0.05,
            more_is_better,
        };
        let worse =
            "not applied, since what looked better (vm.swappiness, ksm) makes the load worse together: ";
        for (together, wanted) in [
            (vec![effect(-0.07, -0.03, 0.001, true)], format!("{worse}throughput -5.0 % [-7.0, -3.0]. `")),
            (
                vec![effect(0.01, 0.05, 0.001, true), effect(0.02, 0.08, 0.01, false)],
                format!("{worse}p99 +5.0 % [2.0, 8.0]. `"),
            ),
            (
                vec![effect(0.03, 0.07, 0.001, true), effect(-0.08, -0.02, 0.01, false)],
                "; applied;".to_owned(),
            ),
            // It may be by chance.
            (vec![effect(-0.07, 0.03, 0.4, true), effect(0.001, 0.08, 0.06, false)], "; applied;".to_owned()),
        ] {
            let mut result = result(VerdictStatus::Trusted, None, &[]);
            let found = result.screening.as_mut().unwrap();
            found.together = together;
            found.together_of = vec!["vm.swappiness".to_owned(), "ksm".to_owned()];
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("paid.toml");
            let kept = keep(&result, &path, &|_, _| Ok(nothing_changed())).unwrap();
            assert!(kept.said.contains(&wanted), "{kept:?}");
            let written = crate::host::profile::read(path.to_str().unwrap()).unwrap();
            assert_eq!(written.about.contains("makes the load worse together"), wanted.starts_with(worse));
        }
    }

    #[test]
    fn what_is_not_set_where_the_rest_is_applied_is_named() {
        let done = Done {
            skipped: vec!["this host has no ksm".to_owned()],
            left_out: vec!["it is dangerous".to_owned()],
            immovable: vec!["interrupt 27".to_owned()],
            ..nothing_changed()
        };
        let done = Cell::new(Some(done));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("paid.toml");
        let trusted = result(VerdictStatus::Trusted, None, &[]);
        let said = keep(&trusted, &path, &|_, _| Ok(done.take().unwrap())).unwrap().said;
        for wanted in [
            "Skipped: this host has no ksm.",
            "Left out: it is dangerous.",
            "spreads it itself: interrupt 27.",
        ] {
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn only_what_a_trusted_run_found_is_applied_and_all_of_it_is_written() {
        use VerdictStatus::{CannotTell, NotTrusted, Trusted};
        let beside = "it was measured beside other work on this host, as was asked";
        let lost = "13 of 24 repeats were discarded: other programs used 30.0 % of the host";
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
