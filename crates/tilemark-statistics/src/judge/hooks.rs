//! What the user's own hooks cost and which of them failed. They discard no repeat: the user wanted them, and would get them again.

use tilemark_record::result::Verdict;
use tilemark_record::summary::RepeatSummary;

/// Processor time of hooks from which on figures are those of a host that is profiled, as a part of the host: a fifth of what foreign
/// load may be, since hooks run in every repeat and do not average out.
pub(crate) const HOOKS_FRACTION_MAX: f64 = 0.01;

/// The largest part of the host that hooks used in any of these repeats.
fn most<'a>(repeats: impl IntoIterator<Item = &'a RepeatSummary>) -> f64 {
    repeats.into_iter().map(|repeat| repeat.host.processor.hooks).fold(0.0, f64::max)
}

fn percent(fraction: f64) -> String {
    format!("{:.1} %", 100.0 * fraction)
}

/// The verdict, at best "cannot tell" where hooks took processors from guests and load.
pub(crate) fn doubt(verdict: Verdict, repeats: &[RepeatSummary]) -> Verdict {
    let used = most(repeats);
    if used <= HOOKS_FRACTION_MAX {
        return verdict;
    }
    verdict.doubted(&[format!(
        "hooks used up to {} of the host while it was measured: without them the figures may differ",
        percent(used)
    )])
}

/// What hooks used at a point, and each that failed. Nothing where none ran.
pub(crate) fn notes(kept: &[&RepeatSummary]) -> Vec<String> {
    let runs = || kept.iter().flat_map(|repeat| repeat.hooks.iter().map(move |run| (repeat.repeat, run)));
    if runs().next().is_none() {
        return Vec::new();
    }
    let used = most(kept.iter().copied());
    let mut notes =
        vec![format!("hooks ran around the measured seconds and used up to {} of the host", percent(used))];
    notes.extend(runs().filter_map(|(repeat, run)| {
        let failed = run.failed.as_ref()?;
        Some(format!("--hook-{} failed in repeat {repeat}: {failed}", run.hook.name()))
    }));
    notes
}
