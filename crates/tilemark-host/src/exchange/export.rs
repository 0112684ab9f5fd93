//! A profile as a file of another program: the head that all formats share, and the body in one of them.

use tilemark_plan::profile::Profile;
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

/// One comment, on one line whatever is in it.
fn comment(text: &str) -> String {
    format!("# {}\n", printable_line(&text.replace(['\n', '\r'], " ")))
}
