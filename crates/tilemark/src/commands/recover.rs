//! `tilemark recover`

use crate::{
    exit::{HOST_UNFIT, NOT_RESTORED},
    places::places,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_run::job::recover::{Recovered, recover as remove_left};

/// Removes what a killed run left behind.
pub(crate) fn recover(json: bool) -> ExitCode {
    screen::show_with(remove_left(&places()), Form::of(json), described, |recovered| match recovered {
        some if !some.changed_by_others.is_empty() => NOT_RESTORED,
        some if !some.not_looked_at.is_empty() => HOST_UNFIT,
        _ => 0,
    })
}

fn described(recovered: &Recovered) -> String {
    let mut lines = Vec::new();
    let Recovered { removed, records, disks, settings, changed_by_others, gone, not_looked_at, .. } =
        recovered;
    let lists = [removed, records, disks, settings, changed_by_others, gone, not_looked_at];
    if lists.iter().all(|list| list.is_empty()) {
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
    let gone = recovered.gone.iter();
    lines.extend(
        gone.map(|setting| format!("Nothing to restore, because it does not exist any more: {setting}.")),
    );
    let not_looked_at = recovered.not_looked_at.iter();
    lines.extend(not_looked_at.map(|what| format!("Not looked at: {what}. Try again when that is over.")));
    lines.extend(
        recovered.under_way.iter().map(|name| format!("{name} is still running and was not changed.")),
    );
    lines.join("\n")
}
