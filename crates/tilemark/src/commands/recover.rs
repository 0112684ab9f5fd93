//! `tilemark recover`

use super::{NOT_RESTORED, places};
use crate::screen::{self, Form};
use std::process::ExitCode;
use tilemark_run::job::recover::{Recovered, recover as remove_left};

/// Removes what a killed run left behind.
pub(crate) fn recover(json: bool) -> ExitCode {
    screen::show_with(remove_left(&places()), Form::of(json), described, |recovered| {
        if recovered.changed_by_others.is_empty() { 0 } else { NOT_RESTORED }
    })
}

fn described(recovered: &Recovered) -> String {
    let mut lines = Vec::new();
    let Recovered { removed, records, disks, settings, .. } = recovered;
    if removed.is_empty() && records.is_empty() && disks.is_empty() && settings.is_empty() {
        lines.push("Nothing was left behind.".to_owned());
    }
    lines.extend(recovered.removed.iter().map(|name| format!("Removed what {name} had left.")));
    let restored = recovered.records.iter();
    lines.extend(restored.map(|id| format!("The record {id} is as before the `--more` that was killed.")));
    if !recovered.disks.is_empty() {
        let disks = recovered.disks.join(", ");
        lines.push(format!("Removed from the disk store what a killed run had left: {disks}."));
    }
    lines.extend(recovered.settings.iter().map(|setting| format!("Restored: {setting}.")));
    let changed = recovered.changed_by_others.iter();
    lines.extend(
        changed.map(|setting| format!("Not restored, because another program changed it: {setting}.")),
    );
    lines.extend(
        recovered.under_way.iter().map(|name| format!("{name} is still running and was not changed.")),
    );
    lines.join("\n")
}
