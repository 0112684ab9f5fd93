//! The body of an exported file: what a format can say, and what it cannot, with the reason.

use tilemark_plan::profile::ProfileSetting;
use tilemark_units::printable_line;

use crate::setting::known;

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
