//! What a run was made on and with, and what it left: the words of page and terminal.

use super::View;
use crate::number::{bytes, counted};
use tilemark_record::result::{LeftOver, Provenance};

/// Whether the host was restored, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Whether it was; `None` where nobody looked.
    pub(crate) is_restored: Option<bool>,
    /// The words.
    pub(crate) words: &'static str,
    /// The command that restores it; it comes after the words.
    pub(crate) command: Option<&'static str>,
}

/// Whether the host was restored after a run. Where something is left, each left thing names its own remedy, and there is no command.
pub(crate) fn restored(provenance: &Provenance) -> Restored {
    let (words, command) = match provenance.as_it_was {
        Some(true) => ("your machine was restored", None),
        Some(false) if provenance.left.is_empty() => {
            ("your machine was NOT restored. To restore it: ", Some("sudo tilemark recover"))
        }
        Some(false) => ("your machine was NOT restored", None),
        None => ("not checked whether your machine was restored", None),
    };
    Restored { is_restored: provenance.as_it_was, words, command }
}

/// What is left of the run, a line each, with what to do.
pub(crate) fn left_lines(provenance: &Provenance) -> Vec<String> {
    let line = |LeftOver { what, remedy }: &LeftOver| format!("{what}. To fix: {remedy}");
    provenance.left.iter().map(line).collect()
}

/// What another program changed while the run held it, a line each.
pub(crate) fn changed_lines(provenance: &Provenance) -> Vec<String> {
    let line = |setting: &String| format!("Another program changed the {setting}; it was not restored");
    provenance.changed_by_others.iter().map(line).collect()
}

/// Host, backend, processor and memory, versions, time taken.
pub(crate) fn facts(view: &View) -> Vec<String> {
    let provenance = &view.report.result.provenance;
    let Provenance { tilemark, host, processor, threads, memory_bytes, kernel, .. } = provenance;
    let mut facts = vec![if host.is_empty() { "host not named".to_owned() } else { host.clone() }];
    facts.extend(Some(view.backends()).filter(|words| !words.is_empty()));
    facts.push(format!("{processor}, {}, {}", counted((*threads).into(), "thread"), bytes(*memory_bytes)));
    facts.push(format!("Linux {kernel}"));
    facts.extend(view.qemu().map(qemu_words));
    facts.push(format!("Tilemark {tilemark}"));
    facts.push(took(provenance));
    facts
}

/// How long a run took: one session, or with `--more` several.
fn took(provenance: &Provenance) -> String {
    let time = crate::number::seconds(provenance.seconds);
    match provenance.sessions {
        0 | 1 => format!("took {time}"),
        sessions => format!("took {time} in {sessions} sessions"),
    }
}

/// A version of QEMU with its name before it.
fn qemu_words(version: &str) -> String {
    if version.to_ascii_lowercase().starts_with("qemu") {
        version.to_owned()
    } else {
        format!("QEMU {version}")
    }
}
