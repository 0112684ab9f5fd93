//! `tilemark host pin` and `unpin`

use crate::{
    exit::{HOST_UNFIT, NOT_RESTORED},
    places::places,
    screen::{self, Form, Watcher},
};
use std::{path::Path, process::ExitCode};
use tilemark_run::{
    host::pin::{Looking, PinsDone, ThreadBinding, Undone, in_words, pin_guests, undo},
    plan_words::counted,
};

/// Binds running guests by a file of globs. One that cannot be bound makes the host unfit.
pub(super) fn pin(file: &Path, watch: bool, form: Form) -> ExitCode {
    let looking = if watch { Looking::UntilInterrupted } else { Looking::Once };
    let mut watcher = Watcher::new();
    let outcome = pin_guests(&places(), file, looking, &mut watcher);
    drop(watcher);
    screen::show_with(
        outcome,
        form,
        described,
        |done| if done.report.refused.is_empty() { 0 } else { HOST_UNFIT },
    )
}

fn described(done: &PinsDone) -> String {
    let PinsDone { report, binders } = done;
    let mut lines: Vec<String> = report.pinned.iter().map(in_words).collect();
    lines.extend(report.refused.iter().map(|guest| {
        format!(
            "{} (process {}) is unchanged: {}\n  to fix: {}",
            guest.name, guest.pid, guest.why, guest.remedy
        )
    }));
    if !report.left_alone.is_empty() {
        lines.push(format!("In no line of the file, and not touched: {}.", report.left_alone.join(", ")));
    }
    lines.extend(binders.iter().map(|binder| format!("Note: {}", binder.in_words())));
    if !report.pinned.is_empty() {
        lines.push("`tilemark host unpin` undoes it.".to_owned());
    }
    lines.join("\n")
}

/// Gives guests what they had.
pub(super) fn unpin(form: Form) -> ExitCode {
    screen::show_with(
        undo(&places()),
        form,
        undone,
        |undone| if undone.is_whole() { 0 } else { NOT_RESTORED },
    )
}

fn undone(undone: &Undone) -> String {
    if undone.guests.is_empty() {
        return nothing_undone(tilemark_run::program::is_root()).to_owned();
    }
    let mut lines = Vec::new();
    for guest in &undone.guests {
        let threads = counted(guest.threads as u64, "thread");
        lines.push(format!("{} (process {}): {threads} restored", guest.name, guest.pid));
        lines.extend(
            guest
                .left_alone
                .iter()
                .map(|kept| format!("  left alone, another program changed it: {}", words(kept))),
        );
        lines.extend(guest.failed.iter().map(|kept| format!("  not restored: {}", words(kept))));
    }
    if undone.guests.iter().any(|guest| !guest.failed.is_empty()) {
        lines.push(AGAIN.to_owned());
    }
    lines.push("Memory that was moved stays where it is.".to_owned());
    lines.join("\n")
}

/// What to do about threads that could not be restored.
const AGAIN: &str = "Fix the cause and run `tilemark host unpin` again: it restores what is left. A guest that ends is forgotten.";

/// Root's pins are in root's own journal.
fn nothing_undone(is_root: bool) -> &'static str {
    if is_root {
        "No running guest is pinned."
    } else {
        "This user has pinned no running guest. For those that root pinned: `sudo tilemark host unpin`."
    }
}

fn words(binding: &ThreadBinding) -> String {
    let why = binding.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    format!("thread {} had processors {} and has {}{why}", binding.tid, binding.found, binding.now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_run::host::pin::Unpinned;

    #[test]
    fn a_thread_that_could_not_be_restored_is_named_with_what_to_do() {
        let kept = ThreadBinding {
            tid: 11,
            found: "0-7".to_owned(),
            now: "2-7".to_owned(),
            why: Some("its control group (cpuset) allows fewer: widen it".to_owned()),
        };
        let guest =
            |failed| Unpinned { name: "web".to_owned(), pid: 10, threads: 1, left_alone: Vec::new(), failed };
        let shown = undone(&Undone { guests: vec![guest(vec![kept])] });
        let line = "  not restored: thread 11 had processors 0-7 and has 2-7: its control group (cpuset) allows fewer";
        assert!(shown.contains(line) && shown.contains(AGAIN), "{shown}");
        assert!(!undone(&Undone { guests: vec![guest(Vec::new())] }).contains(AGAIN));
    }

    #[test]
    fn an_ordinary_user_is_shown_where_roots_pins_are() {
        assert!(nothing_undone(false).contains("`sudo tilemark host unpin`"));
        assert_eq!(nothing_undone(true), "No running guest is pinned.");
    }
}
