//! `tilemark host`

use super::{host_pin, run};
use crate::{
    arguments::{ExportFormat, HostCommand},
    exit::{HOST_UNFIT, NOT_RESTORED},
    places::places,
    screen::{self, Form},
};
use std::{path::Path, process::ExitCode};
use tilemark_run::{
    host::{
        apply::{self, Changed, Consent, Done, Restored, Status, Verified},
        exchange::{self, Format},
        plan,
        profile::{self, Listed},
    },
    plan_words::counted,
};

/// Something differs from the profile.
const DIFFERS: u8 = 1;

/// Shows, applies, verifies and restores settings of this host.
pub(crate) fn host(command: HostCommand) -> ExitCode {
    match command {
        HostCommand::Settings(flags) => {
            screen::show_list(Ok(profile::settings()), Form::of(flags.json), "settings", ("", listed))
        }
        HostCommand::Show { profile } => screen::show(profile::text(&profile), Form::Text, String::clone),
        HostCommand::Plan { profile, json } => {
            screen::show_with(plan::plan(&profile), Form::of(json.json), plan::HostPlan::text, |plan| {
                if plan.is_applicable() { 0 } else { HOST_UNFIT }
            })
        }
        HostCommand::Apply { profile, yes, allow, json } => {
            apply_profile(&profile, &Consent { yes, allow }, Form::of(json.json))
        }
        HostCommand::Verify { profile, allow, json } => screen::show_with(
            apply::verify(&places(), &profile, &allow),
            Form::of(json.json),
            verified,
            |verified| {
                if verified.differences.is_empty() { 0 } else { DIFFERS }
            },
        ),
        HostCommand::Restore(flags) => {
            screen::show_with(apply::restore(&places()), Form::of(flags.json), restored, |restored| {
                if restored.changed_by_others.is_empty() { 0 } else { NOT_RESTORED }
            })
        }
        HostCommand::Try(arguments) => run::host_try(&arguments),
        HostCommand::Status(flags) => screen::show(apply::status(&places()), Form::of(flags.json), status),
        HostCommand::Export { profile, format } => export(&profile, format),
        HostCommand::Import { file } => import(&file),
        HostCommand::Pin { file, watch, json } => host_pin::pin(&file, watch, Form::of(json.json)),
        HostCommand::Unpin(flags) => host_pin::unpin(Form::of(flags.json)),
    }
}

fn export(profile: &str, format: ExportFormat) -> ExitCode {
    let format = match format {
        ExportFormat::Tuned => Format::Tuned,
        ExportFormat::Sysctl => Format::Sysctl,
        ExportFormat::KernelCmdline => Format::KernelLine,
    };
    screen::show(exchange::exported(profile, format), Form::Text, String::clone)
}

fn import(file: &Path) -> ExitCode {
    screen::show(exchange::imported(file), Form::Text, String::clone)
}

/// Who has not said yes is shown the plan first.
fn apply_profile(profile: &str, consent: &Consent, form: Form) -> ExitCode {
    if !consent.yes
        && form == Form::Text
        && let Ok(plan) = plan::plan(profile)
    {
        screen::print_text(&plan.text());
    }
    screen::show(apply::apply(&places(), profile, consent), form, done)
}

fn listed(setting: &Listed) -> String {
    let Listed { key, about, accepts, danger, place, source } = setting;
    format!("{key}: {about}\n    accepts: {accepts}; where: {place}; danger: {danger}; source: {source}")
}

fn done(done: &Done) -> String {
    let count = counted(done.changed.len() as u64, "setting");
    let mut lines: Vec<String> = done.changed.iter().map(changed).collect();
    lines.extend(done.exceptions());
    let as_wanted = done.as_wanted;
    lines.push(match done.changed.len() {
        0 => format!("Nothing had to be changed: {as_wanted} already had the value of `{}`.", done.profile),
        _ => format!(
            "Applied `{}`: {count} changed, {as_wanted} already as wanted. `tilemark host restore` restores them; a boot does too.",
            done.profile
        ),
    });
    lines.join("\n")
}

fn changed(changed: &Changed) -> String {
    let Changed { name, was, wanted, .. } = changed;
    format!("  {name}: {} -> {wanted}", shown(was))
}

/// A value that is empty, as of a word that a list has not.
fn shown(value: &str) -> &str {
    if value.is_empty() { "off" } else { value }
}

fn verified(verified: &Verified) -> String {
    let mut lines: Vec<String> =
        verified.differences.iter().map(|difference| format!("  {difference}")).collect();
    lines.extend(verified.skipped.iter().map(|why| format!("  skipped: {why}")));
    lines.extend(verified.left_out.iter().map(|why| format!("  left out: {why}")));
    let as_wanted = counted(verified.as_wanted as u64, "setting");
    lines.push(match verified.differences.len() {
        0 => format!("This host is as `{}` wants it: {as_wanted}.", verified.profile),
        some => format!("{some} of `{}` differ; {as_wanted} as wanted.", verified.profile),
    });
    lines.join("\n")
}

fn restored(restored: &Restored) -> String {
    let mut lines: Vec<String> = restored.restored.iter().map(|setting| format!("  {setting}")).collect();
    let others = restored.changed_by_others.iter();
    lines.extend(
        others.map(|setting| format!("Not restored, because another program changed it: {setting}.")),
    );
    let gone = restored.gone.iter();
    lines.extend(
        gone.map(|setting| format!("Nothing to restore, because it does not exist any more: {setting}.")),
    );
    let done = match (restored.restored.is_empty(), restored.changed_by_others.is_empty()) {
        (true, false) => "Nothing was left to restore of what",
        (false, false) => "Restored the rest of what",
        (_, true) => "Restored what",
    };
    lines.push(match (&restored.profile, lines.is_empty()) {
        (_, true) => "Nothing is applied.".to_owned(),
        (Some(profile), _) => format!("{done} `{profile}` had changed."),
        (None, _) => format!("{done} a killed command had changed."),
    });
    lines.join("\n")
}

fn status(status: &Status) -> String {
    let Some(profile) = &status.profile else {
        return if tilemark_run::program::is_root() {
            "No profile is applied.".to_owned()
        } else {
            "This user has applied no profile. One that root applied: `sudo tilemark host status`.".to_owned()
        };
    };
    let mut lines = vec![if status.in_part {
        format!("The profile `{profile}` is being applied or restored, or a command left it in part:")
    } else {
        format!("The profile `{profile}` is applied:")
    }];
    lines.extend(status.settings.iter().map(|setting| {
        let Changed { name, was, wanted, now, .. } = setting;
        format!("  {name}: {wanted}, before {} ({})", shown(was), now.in_words())
    }));
    lines.push("`tilemark host restore` restores it.".to_owned());
    lines.join("\n")
}
