//! What all formats share: the head, and what a format cannot say.

use tilemark_plan::profile::{Profile, ProfileSetting};
use tilemark_units::printable_line;

use super::{kernel_line, sysctl, tuned};
use crate::setting::known::{self, Danger};

/// A format of another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A profile of tuned (`tuned.conf(5)`).
    Tuned,
    /// A file for `/etc/sysctl.d` (`sysctl.d(5)`).
    Sysctl,
    /// Parameters for the boot loader (Documentation/admin-guide/kernel-parameters.txt).
    KernelLine,
}

impl Format {
    /// As the flag has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tuned => "tuned",
            Self::Sysctl => "sysctl",
            Self::KernelLine => "kernel-cmdline",
        }
    }
}

/// A profile as text of another format. Every setting is in it: as one of the format's, or as a comment with the reason. Those that make a
/// host easier to attack or may lose data, which `apply` sets only where they are named, are named in a comment.
pub fn export(profile: &Profile, format: Format) -> String {
    let body = match format {
        Format::Tuned => tuned::body(profile),
        Format::Sysctl => sysctl::body(profile),
        Format::KernelLine => kernel_line::body(profile),
    };
    let mut text = comment(&format!("{}: {}", profile.name, profile.about));
    if !profile.source.is_empty() {
        text += &comment(&format!("Source: {}", profile.source));
    }
    text +=
        &comment(&format!("Written by `tilemark host export {} --format {}`.", profile.name, format.name()));
    for setting in profile.settings.iter().filter(|setting| setting.value.is_some()) {
        let danger = known::find(&setting.key).map_or(Danger::None, |known| known.danger);
        if danger.needs_consent() {
            text += &comment(&format!("danger ({}): {}", danger.name(), setting.key));
        }
    }
    for line in &body.cannot_say {
        text += &comment(line);
    }
    text + "\n" + &body.text
}

/// A profile in a format.
#[derive(Default)]
pub(super) struct Body {
    /// What the format can say.
    pub(super) text: String,
    /// What it cannot, with the reason.
    pub(super) cannot_say: Vec<String>,
}

impl Body {
    /// Keeps a setting that the format has no word for.
    pub(super) fn leave_out(&mut self, setting: &ProfileSetting, why: &str) {
        let value = setting.value.as_deref().unwrap_or_default();
        let why = printable_line(why);
        self.cannot_say.push(format!("not in this format: {} = {value} ({why})", setting.key));
    }
}

/// The settings that have a value and a key of the catalogue; the others become notes. Any other key could hold what the format reads as
/// more lines or words.
pub(super) fn with_values<'p>(
    settings: impl IntoIterator<Item = &'p ProfileSetting>,
    body: &mut Body,
) -> Vec<(&'p ProfileSetting, &'p str)> {
    let mut set = Vec::new();
    for setting in settings {
        match setting.value.as_deref() {
            Some(value) if value.contains(['\n', '\r']) => body.leave_out(setting, "a value is one line"),
            Some(value) => match known::find(&setting.key) {
                Ok(_) => set.push((setting, value)),
                Err(error) => body.leave_out(setting, &error.in_a_line()),
            },
            None => {
                let then = setting.then.as_ref().map(|then| format!(" (then: {then})")).unwrap_or_default();
                body.cannot_say.push(format!("nothing to set: {}{then}", setting.key));
            }
        }
    }
    set
}

/// One comment, on one line whatever is in it.
fn comment(text: &str) -> String {
    format!("# {}\n", printable_line(&text.replace(['\n', '\r'], " ")))
}

/// Whether a key is a sysctl's own name.
pub(super) fn is_sysctl(key: &str) -> bool {
    const FOLDERS: [&str; 8] = ["vm", "kernel", "net", "fs", "dev", "debug", "user", "sunrpc"];
    key.split_once('.').is_some_and(|(folder, _)| FOLDERS.contains(&folder))
}
