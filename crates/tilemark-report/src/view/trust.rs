//! Chip, answer, cost and trust: what the first screen says in words.

use super::{Kind, View};
use crate::number::{brief, counted, percent};
use std::collections::BTreeMap;
use tilemark_plan::plan::{AcceleratorVerdict, Backend, Hardware};
use tilemark_record::result::{Figure, PointResult, VerdictStatus};

/// A mark that is seen before anything is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chip {
    /// The figures stand.
    Trusted,
    /// Something spoiled them.
    NotTrusted,
    /// There is not enough to say.
    CannotTell,
    /// They prove function only.
    Emulated,
    /// Some of them prove function only; the verdict is about the others.
    PartEmulated,
}

impl Chip {
    /// Its text.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Trusted => "TRUSTED",
            Self::NotTrusted => "NOT TRUSTED",
            Self::CannotTell => "CANNOT TELL",
            Self::Emulated => "EMULATED",
            Self::PartEmulated => "PART EMULATED",
        }
    }

    /// Its name in the style sheet and in the glossary.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::NotTrusted => "not-trusted",
            Self::CannotTell => "cannot-tell",
            Self::Emulated | Self::PartEmulated => "emulated",
        }
    }
}

/// The chips: the verdict, and what is emulated beside or instead of it.
pub(crate) fn chips(view: &View) -> Vec<Chip> {
    let verdict = match view.report.result.verdict.status {
        VerdictStatus::Trusted => Chip::Trusted,
        VerdictStatus::NotTrusted => Chip::NotTrusted,
        VerdictStatus::CannotTell => Chip::CannotTell,
    };
    match (view.all_emulated(), view.any_emulated()) {
        (true, _) if verdict == Chip::NotTrusted => vec![verdict, Chip::Emulated],
        (true, _) => vec![Chip::Emulated],
        (false, true) => vec![verdict, Chip::PartEmulated],
        (false, false) => vec![verdict],
    }
}

/// The answer, whole. The record brings it; an old one without gets a plain one.
pub(crate) fn sentence(view: &View) -> String {
    let result = &view.report.result;
    let comparison = result.comparison.as_ref().map(|comparison| comparison.sentence.clone());
    let reason = result.answer.none_because.as_ref().map(|reason| format!("No answer: {reason}."));
    [Some(result.sentence.clone()), comparison, reason]
        .into_iter()
        .flatten()
        .find(|sentence| !sentence.trim().is_empty())
        .unwrap_or_else(|| "No answer: the record holds none.".to_owned())
}

/// What virtualization costs, or why that is not known and how to know it.
pub(crate) struct CostView {
    /// In a sentence or two.
    pub(crate) sentence: String,
    /// What could not be made equal.
    pub(crate) unequal: Vec<String>,
    /// The command that would tell.
    pub(crate) command: Option<String>,
}

/// What virtualization costs.
pub(crate) fn cost(view: &View) -> CostView {
    let result = &view.report.result;
    if let Some(cost) = &result.cost {
        return CostView { sentence: cost.sentence.clone(), unequal: cost.unequal.clone(), command: None };
    }
    let verb = if view.report.plan.search.is_some() { "capacity" } else { "run" };
    let twin = Some(format!("{} --twin", view.report.plan.command(verb)));
    let doctor = Some("tilemark doctor".to_owned());
    let kvm_points = result.points.iter().any(|point| point.backend == Backend::Kvm);
    let twins = view.groups.iter().any(|group| group.kind == Kind::Twin);
    let (why, command) = match view.report.plan.host.kvm {
        _ if view.report.plan.host.hardware == Hardware::Emulated => {
            ("Not measurable here: this host is itself emulated.", doctor)
        }
        _ if kvm_points && twins => {
            let reason =
                result.missing.get("cost").map_or("the record holds no ratio of guests and twin", |why| why);
            return CostView {
                sentence: format!("Not known: {}", sentence_of(reason)),
                unequal: Vec::new(),
                command: None,
            };
        }
        _ if kvm_points => ("Not measured: this run had no native twin.", twin),
        AcceleratorVerdict::Usable => ("Not measured: this run had no guests on KVM.", twin),
        AcceleratorVerdict::TooSlow => {
            ("Not measurable here: KVM is present and too slow to boot a guest.", doctor)
        }
        AcceleratorVerdict::Absent => ("Not measurable here: this host offers no KVM.", doctor),
        AcceleratorVerdict::Unknown => {
            ("Not measured: the probe could not tell whether KVM works here.", doctor)
        }
    };
    CostView { sentence: why.to_owned(), unequal: Vec::new(), command }
}

/// A reason as a sentence's end: a full stop behind it.
fn sentence_of(reason: &str) -> String {
    let reason = reason.trim();
    if reason.ends_with(['.', '!', '?']) { reason.to_owned() } else { format!("{reason}.") }
}

/// How far the figures can be believed.
pub(crate) struct Trust {
    /// The smallest change that would have been seen.
    pub(crate) resolution: String,
    /// Repeats kept and voided.
    pub(crate) repeats: String,
    /// Why figures are doubted or voided.
    pub(crate) reasons: Vec<String>,
}

/// How far the figures can be believed.
pub(crate) fn trust(view: &View) -> Trust {
    let points = &view.report.result.points;
    let kept: u64 = points.iter().map(|point| u64::from(point.repeats_kept)).sum();
    let reasons_to_void =
        points.iter().flat_map(|point| &point.repeats_voided).map(|void| void.reason.as_str());
    let voided = reasons_to_void.clone().count();
    let mut reasons = view.report.result.verdict.reasons.clone();
    reasons.extend(why_voided(reasons_to_void, &reasons));
    let voided = if voided == 0 { "none voided".to_owned() } else { format!("{voided} voided") };
    Trust {
        resolution: resolution(view),
        repeats: format!("{} kept, {voided}", counted(kept, "repeat")),
        reasons,
    }
}

/// A line for each kind of reason that `known` does not tell. Reasons that differ in their figures only are one kind.
fn why_voided<'a>(reasons: impl Iterator<Item = &'a str>, known: &[String]) -> Vec<String> {
    let mut kinds: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for reason in reasons {
        kinds
            .entry(reason.replace(|each: char| each.is_ascii_digit() || each == '.', ""))
            .or_default()
            .push(reason);
    }
    let line = |of_kind: &Vec<&str>| {
        let first = of_kind.first()?;
        let repeats = counted(of_kind.len() as u64, "repeat");
        if of_kind.iter().all(|reason| reason == first) {
            let is_known = known.iter().any(|known| known.contains(first));
            return (!is_known).then(|| format!("{repeats} voided: {first}"));
        }
        Some(format!("{repeats} voided, the first because: {first}"))
    };
    kinds.values().filter_map(line).collect()
}

/// From the half-width of an interval to the change that two runs like this one would show 95 times of 100
/// at p < 0.01: √2 · (t₀.₉₉₅ + t₀.₉₅) ⁄ t₀.₉₇₅ is 2.7 with 5 repeats a run and 2.9 with 14 (Student's t); 3 is
/// on the safe side of all.
const HALF_WIDTHS_SEEN: f64 = 3.0;

/// Repeats a side that a permutation test needs for p < 0.01: 2 ⁄ C(2n, n) is 0.029 with 4 and 0.008 with 5.
const REPEATS_FOR_SIGNIFICANCE: u32 = 5;

fn resolution(view: &View) -> String {
    if let Some(comparison) = &view.report.result.comparison {
        return sides_resolution(&comparison.measures);
    }
    let Some(point) = reference(view) else {
        return "no step has repeats enough to say".to_owned();
    };
    let step = format!("at {}", counted(point.tiles.into(), "tile"));
    let p99 = point.p99_ms.as_ref().and_then(half_width);
    let throughput = point.throughput.as_ref().and_then(|throughput| half_width(&throughput.figure));
    let named: Vec<String> = [("p99", p99), ("throughput", throughput)]
        .into_iter()
        .filter_map(|(name, half)| half.map(|half| (name, half)))
        .map(|(name, half)| match point.repeats_kept < REPEATS_FOR_SIGNIFICANCE {
            true => format!("{name} known to \u{b1}{}", percent(half)),
            false => format!("{} in {name}", percent(half * HALF_WIDTHS_SEEN)),
        })
        .collect();
    if named.is_empty() {
        return match point.repeats_kept {
            0..=2 => format!(
                "none: {} {step}, an interval needs three",
                counted(point.repeats_kept.into(), "repeat")
            ),
            _ => "not known: the record holds no interval".to_owned(),
        };
    }
    if point.repeats_kept < REPEATS_FOR_SIGNIFICANCE {
        let kept = point.repeats_kept;
        return format!("none at p < 0.01 with {kept} repeats (5 needed); {step} {}", named.join(", "));
    }
    format!("{} {step}", named.join(", "))
}

fn sides_resolution(measures: &[tilemark_record::result::MeasureComparison]) -> String {
    let named: Vec<String> = measures
        .iter()
        .filter(|measure| measure.primary)
        .filter_map(|measure| Some(format!("{} in {}", percent(measure.resolution?), measure.name)))
        .collect();
    if named.is_empty() { "not known: too few repeats".to_owned() } else { named.join("; ") }
}

/// The step that precision is told at: the largest that held, or the largest that was kept.
fn reference<'a>(view: &View<'a>) -> Option<&'a PointResult> {
    let wanted = view.report.result.answer.holds;
    let points = view.groups.iter().filter(|group| group.kind != Kind::Twin).flat_map(|group| &group.points);
    let kept: Vec<&PointResult> = points.copied().filter(|point| point.repeats_kept > 0).collect();
    kept.iter()
        .find(|point| Some(point.tiles) == wanted)
        .or_else(|| kept.iter().max_by_key(|point| point.tiles))
        .copied()
}

/// Half of an interval, as a part of its figure; the wider half where they differ.
fn half_width(figure: &Figure) -> Option<f64> {
    let half = (figure.value - figure.low?).max(figure.high? - figure.value);
    (figure.value > 0.0 && half.is_finite()).then(|| half / figure.value)
}

/// `p99 ≤ 50 ms, errors ≤ 0.1 %, achieved ≥ 99 %`
pub(crate) fn gate_words(gate: &tilemark_plan::scenario::Gate) -> String {
    format!(
        "p99 \u{2264} {}\u{202f}ms, errors \u{2264} {}\u{202f}%, achieved \u{2265} {}\u{202f}%",
        brief(gate.p99.as_milliseconds()),
        brief(gate.errors.get() * 100.0),
        brief(gate.achieved.get() * 100.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_differ_in_figures_only_are_one_line() {
        let reasons = ["foreign load 9.5 % of the host", "sent 2 ms late", "foreign load 12 % of the host"];
        let lines = why_voided(reasons.into_iter(), &[]);
        assert_eq!(
            lines,
            [
                "2 repeats voided, the first because: foreign load 9.5 % of the host",
                "1 repeat voided: sent 2 ms late"
            ]
        );
        assert_eq!(
            why_voided(["sent 2 ms late"].into_iter(), &["at 2 tiles: sent 2 ms late".to_owned()]),
            Vec::<String>::new()
        );
    }
}
