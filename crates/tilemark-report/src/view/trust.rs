//! Chip, answer, cost and trust: what the first screen says in words.

use super::{Kind, View};
use crate::number::{counted, limit, percent, whole};
use std::collections::BTreeMap;
use tilemark_plan::plan::{AcceleratorVerdict, Backend, Hardware};
use tilemark_record::{
    result::{Figure, Interference, JUDGED_BY, PointResult, Screening, VerdictStatus},
    summary::{RepeatSummary, programs_in_words},
};
use tilemark_units::median;

/// A mark that is seen before anything is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chip {
    /// Nothing spoiled the figures.
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

/// The largest number of tiles within the gate by the law through all repeats, and how sure the answer's range is:
/// `Capacity estimated from all repeats: 17.3 tiles [16.4, 18.2]; the probability that it is 16 to 18 is 97 %.`
pub(crate) fn capacity(view: &View) -> Option<String> {
    let answer = &view.report.result.answer;
    let (figure, confidence) = (answer.capacity.as_ref()?, answer.confidence?);
    let interval = figure.low.zip(figure.high).map(|(low, high)| format!(" [{low:.1}, {high:.1}]"));
    let below_break = answer.breaks.as_ref().map(|broken| broken.tiles.saturating_sub(1));
    let range = match (answer.holds.unwrap_or(0), below_break) {
        (from, None) => format!("{from} or more"),
        (from, Some(to)) if from >= to => from.to_string(),
        (from, Some(to)) => format!("{from} to {to}"),
    };
    Some(format!(
        "Capacity estimated from all repeats: {:.1} tiles{}; the probability that it is {range} is {}.",
        figure.value,
        interval.unwrap_or_default(),
        sureness(confidence)
    ))
}

/// A probability in whole percent, never rounded up.
fn sureness(probability: f64) -> String {
    match 100.0 * probability {
        percent if percent > 99.0 => "more than 99\u{202f}%".to_owned(),
        percent => format!("{:.0}\u{202f}%", percent.floor()),
    }
}

/// What emulated guests of a backend prove by their answers, and what they do not say.
pub(crate) fn proof(view: &View, backend: Backend) -> String {
    let function = view.report.result.function.as_ref().filter(|_| backend == Backend::Emulated);
    let proof = function.map(|function| {
        let (right, asked) = (whole(function.right), counted(function.asked, "request"));
        let word = if function.proven { "guests work" } else { "not proven that guests work" };
        format!("{word} ({right} of {asked} answered correctly); ")
    });
    format!("{}its speed says nothing about this host", proof.unwrap_or_default())
}

/// What is different in a record of the first rule, where anything in it was judged.
pub(crate) fn older_rule(view: &View) -> Option<&'static str> {
    let result = &view.report.result;
    let is_judged = result.points.iter().any(|point| point.holds.is_some());
    (result.judged_by < JUDGED_BY && is_judged).then_some(
        "This record was judged by an older rule: a count held where the mean of its repeats' p99s was within the limit, \
         whatever its interval.",
    )
}

/// The answer, whole. The record has it; an older one without it gets a plain one.
pub(crate) fn sentence(view: &View) -> String {
    let result = &view.report.result;
    let comparison = result.comparison.as_ref().map(|comparison| comparison.sentence.clone());
    let reason = result.answer.none_because.as_ref().map(|reason| format!("No answer: {reason}."));
    [Some(result.sentence.clone()), comparison, reason]
        .into_iter()
        .flatten()
        .find(|sentence| !sentence.trim().is_empty())
        .unwrap_or_else(|| "No answer: the record has none.".to_owned())
}

/// A part of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SentencePart<'a> {
    /// What is claimed: struck through where it is not to be believed.
    Claim(&'a str),
    /// Why it is not, or what to do: that always holds.
    Remedy(&'a str),
}

/// How sentences of the answer begin, or go on, that give a reason or a remedy.
const REMEDIES: [&str; 7] = [
    "Not trusted: ",
    "Cannot tell: ",
    "To try ",
    "About ",
    // Both of `tilemark_statistics::sentence::TWO_RUNS`.
    "Each side has one run.",
    "Two runs of the same configuration",
    "; to fix: ",
];

/// The parts of an answer's `sentence`; joined, they are the whole.
pub(crate) fn sentence_parts(sentence: &str) -> Vec<SentencePart<'_>> {
    let mut parts: Vec<SentencePart> = Vec::new();
    let mut rest = sentence;
    let mut is_remedy = false;
    while !rest.is_empty() {
        let end = rest.find(". ").map_or(rest.len(), |at| at + 2);
        let fix = rest[..end].find("; to fix: ").filter(|at| *at > 0);
        let (part, after) = rest.split_at(fix.unwrap_or(end));
        let begins_remedy = REMEDIES.iter().any(|begin| part.starts_with(begin));
        is_remedy = begins_remedy || (is_remedy && part.starts_with(char::is_lowercase));
        parts.push(if is_remedy { SentencePart::Remedy(part) } else { SentencePart::Claim(part) });
        rest = after;
    }
    parts
}

/// What virtualization costs, or why that is not known and how to know it.
pub(crate) struct CostView {
    /// In a sentence or two.
    pub(crate) sentence: String,
    /// What could not be made equal.
    pub(crate) unequal: Vec<String>,
    /// The command that measures it, or says why that cannot be done here, after a word for which.
    pub(crate) command: Option<(&'static str, String)>,
}

/// What virtualization costs.
pub(crate) fn cost(view: &View) -> CostView {
    let result = &view.report.result;
    if let Some(cost) = &result.cost {
        return CostView { sentence: cost.sentence.clone(), unequal: cost.unequal.clone(), command: None };
    }
    let verb = if view.report.plan.search.is_some() { "capacity" } else { "run" };
    let twin = Some(("To measure it", format!("{} --twin", view.report.plan.command(verb))));
    let doctor = Some(("Details", "tilemark doctor".to_owned()));
    let kvm_points = result.points.iter().any(|point| point.backend == Backend::Kvm);
    let twins = view.groups.iter().any(|group| group.kind == Kind::Twin);
    let (why, command) = match view.report.plan.host.kvm {
        _ if view.report.plan.host.hardware == Hardware::Emulated => {
            ("Not measurable here: this host is itself emulated.", doctor)
        }
        _ if kvm_points && twins => {
            let reason =
                result.missing.get("cost").map_or("the record has no ratio of guests to twins", |why| why);
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
        // Where no guests on KVM were wanted, nothing has looked for it.
        AcceleratorVerdict::Unknown => ("Not measured: this run had no guests on KVM.", doctor),
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
    /// Repeats kept and discarded.
    pub(crate) repeats: String,
    /// Why figures are doubted or discarded.
    pub(crate) reasons: Vec<String>,
}

/// How far the figures can be believed.
pub(crate) fn trust(view: &View) -> Trust {
    let points = &view.report.result.points;
    let kept: u64 = points.iter().map(|point| u64::from(point.repeats_kept)).sum();
    let reasons_to_discard =
        points.iter().flat_map(|point| &point.repeats_voided).map(|void| void.reason.as_str());
    let discarded = reasons_to_discard.clone().count();
    let mut reasons = view.report.result.verdict.reasons.clone();
    reasons.extend(why_discarded(reasons_to_discard, &reasons));
    reasons.extend(loudest(view));
    let discarded = if discarded == 0 { "none".to_owned() } else { discarded.to_string() };
    Trust {
        resolution: resolution(view),
        repeats: format!("{} kept, {discarded} discarded", counted(kept, "repeat")),
        reasons,
    }
}

/// What [`Trust::resolution`] is.
pub(crate) const SMALLEST_CHANGE: &str = "Smallest change that this run can show";

/// What [`Trust::repeats`] are.
pub(crate) const REPEATS: &str = "Repeats";

/// How the judge says that programs outside a run used too much, now and in records of older versions.
const FOREIGN: [&str; 2] = ["other programs used", "foreign load"];

/// Whether a repeat was discarded because of programs outside the run.
pub(crate) fn is_of_foreign_load(reason: &str) -> bool {
    FOREIGN.iter().any(|words| reason.contains(words))
}

/// The programs that used most of the host in the discarded repeat in which they used most.
fn loudest(view: &View) -> Option<String> {
    let is_discarded = |repeat: &&RepeatSummary| {
        let of_point = view.report.result.points.iter().filter(|point| point.index == repeat.point);
        let mut voided = of_point.flat_map(|point| &point.repeats_voided);
        voided.any(|void| void.repeat == repeat.repeat && is_of_foreign_load(&void.reason))
    };
    let used = |repeat: &&RepeatSummary| repeat.host.processor.other;
    let discarded = view.report.repeats.iter().filter(is_discarded);
    let loud = discarded.max_by(|one, other| used(one).total_cmp(&used(other)))?;
    let programs = programs_in_words(&loud.host.others)?;
    Some(format!("programs outside the run that used most of the host: {programs}"))
}

/// A line for each kind of reason that is not in `known`. Reasons that differ in their figures only are one kind.
fn why_discarded<'a>(reasons: impl Iterator<Item = &'a str>, known: &[String]) -> Vec<String> {
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
            return (!is_known).then(|| format!("{repeats} discarded: {first}"));
        }
        Some(format!("{repeats} discarded, the first because: {first}"))
    };
    kinds.values().filter_map(line).collect()
}

/// How many half-widths of an interval a change must be for a permutation test of two sides with so many repeats each, to be found
/// 95 times of 100 at p < 0.01 for three measures. Simulated (decision 0047): 6.1 with 6 repeats, 4.9 with 7, 5.2 with 8, less beyond.
const fn half_widths_for_test(repeats: u32) -> f64 {
    if repeats <= REPEATS_FOR_SIGNIFICANCE { 6.2 } else { 5.3 }
}

/// How many half-widths the interval of the change takes beyond the least change: 3.35 with 6 repeats, less beyond.
const HALF_WIDTHS_FOR_INTERVAL: f64 = 3.4;

/// Repeats a side that a permutation test needs for p < 0.01 in one of three measures: 3 × 2 ⁄ C(2n, n) is 0.024 with 5 and 0.0065
/// with 6.
const REPEATS_FOR_SIGNIFICANCE: u32 = 6;

/// Changes below this are never called one: of p99, and of throughput.
const LEAST_CHANGES: [f64; 2] = [0.05, 0.01];

/// The change that would be found, as a part, from half of an interval, as a part; on factors.
fn change_found(half: f64, repeats: u32, least_change: f64) -> f64 {
    let half = half.ln_1p();
    let by_test = half_widths_for_test(repeats) * half;
    by_test.max(least_change.ln_1p() + HALF_WIDTHS_FOR_INTERVAL * half).exp_m1()
}

fn resolution(view: &View) -> String {
    if let Some(comparison) = &view.report.result.comparison {
        return sides_resolution(&comparison.measures);
    }
    if let Some(screening) = &view.report.result.screening {
        return screening_resolution(screening);
    }
    if let Some(interference) = &view.report.result.interference {
        return slowdowns_resolution(interference);
    }
    let Some(point) = reference(view) else {
        return "unknown: no step has enough repeats".to_owned();
    };
    let step = format!("at {}", counted(point.tiles.into(), "tile"));
    let p99 = point.p99_ms.as_ref().and_then(half_width);
    let throughput = point.throughput.as_ref().and_then(|throughput| half_width(&throughput.figure));
    let kept = point.repeats_kept;
    let printed = view.unit_of_figure(point, view.headline_of(point));
    let rate = if printed.is_some() { "the figure" } else { "throughput" };
    let named: Vec<String> = [("p99", p99), (rate, throughput)]
        .into_iter()
        .zip(LEAST_CHANGES)
        .filter_map(|((name, half), least)| half.map(|half| (name, half, least)))
        .map(|(name, half, least)| match kept < REPEATS_FOR_SIGNIFICANCE {
            true => format!("\u{b1}{} for {name}", percent(half)),
            false => format!("{} in {name}", percent(change_found(half, kept, least))),
        })
        .collect();
    if named.is_empty() {
        return match point.repeats_kept {
            0..=2 => format!(
                "unknown: {} {step}, and an interval needs 3",
                counted(point.repeats_kept.into(), "repeat")
            ),
            _ => "unknown: the record has no interval".to_owned(),
        };
    }
    if point.repeats_kept < REPEATS_FOR_SIGNIFICANCE {
        return format!(
            "unknown: it needs {REPEATS_FOR_SIGNIFICANCE} repeats (p < 0.01), and only {kept} were kept {step}. The 95 % interval of those is {}",
            named.join(" and ")
        );
    }
    format!("{} {step}", named.join(", "))
}

/// How wide the intervals of slowdowns are. What a run would find depends on each pair's scatter, so that no single figure says it.
fn slowdowns_resolution(interference: &Interference) -> String {
    let figures = interference.slowdowns.iter().filter_map(|one| one.slowdown.as_ref());
    let halves: Vec<f64> = figures.filter_map(half_width).collect();
    match (median(halves.clone()), halves.into_iter().max_by(f64::total_cmp)) {
        (Some(median), Some(widest)) => format!(
            "it differs by pair of roles. The 95 % interval of a slowdown is \u{b1}{} (median), the widest \u{b1}{}",
            percent(median),
            percent(widest)
        ),
        _ => "unknown: no slowdown has an interval".to_owned(),
    }
}

fn sides_resolution(measures: &[tilemark_record::result::MeasureComparison]) -> String {
    let named: Vec<String> = measures
        .iter()
        .filter(|measure| measure.primary)
        .filter_map(|measure| Some(format!("{} in {}", percent(measure.resolution?), measure.name)))
        .collect();
    joined(&named)
}

/// The smallest effect of one setting: the design is as fine for each of them, so the first one is enough.
fn screening_resolution(screening: &Screening) -> String {
    let measures = screening.settings.iter().take(1).flat_map(|setting| &setting.screened);
    let named: Vec<String> = measures
        .filter_map(|effect| Some(format!("{} in {}", percent(effect.resolution?), effect.measure)))
        .collect();
    joined(&named)
}

fn joined(named: &[String]) -> String {
    if named.is_empty() { "not known: too few repeats".to_owned() } else { named.join("; ") }
}

/// The step whose precision is shown: the largest that holds, or the largest that was kept.
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
    let mean = gate.mean.map(|mean| format!("mean \u{2264} {}\u{202f}ms", limit(mean.as_milliseconds())));
    let part = |name, part: Option<tilemark_units::Fraction>| {
        part.map(|part| format!("{name} \u{2265} {}\u{202f}%", limit(part.get() * 100.0)))
    };
    let always = [
        format!("p99 \u{2264} {}\u{202f}ms", limit(gate.p99.as_milliseconds())),
        format!("errors \u{2264} {}\u{202f}%", limit(gate.errors.get() * 100.0)),
        format!("achieved \u{2265} {}\u{202f}%", limit(gate.achieved.get() * 100.0)),
    ];
    let chosen = [mean, part("good pages", gate.good), part("tolerable pages", gate.tolerable)];
    always.into_iter().chain(chosen.into_iter().flatten()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};
    use tilemark_statistics::{
        BetterWhen, Block, Measure, Rank, Scale, SideVerdict, compare_sides, estimate, sentence::TWO_RUNS,
    };

    #[test]
    fn no_limit_of_the_gate_is_rounded_to_another_one() {
        let gate = tilemark_plan::scenario::Gate {
            p99: tilemark_units::Span::from_milliseconds(1_234),
            achieved: tilemark_units::Fraction::new(0.9995).unwrap(),
            ..Default::default()
        };
        let words = gate_words(&gate).replace('\u{202f}', " ");
        assert!(words.starts_with("p99 \u{2264} 1,234 ms, errors \u{2264} "), "{words}");
        assert!(words.contains("achieved \u{2265} 99.95 %"), "{words}");
    }

    #[test]
    fn the_change_that_a_run_calls_visible_is_found_95_times_of_100_by_the_real_comparison() {
        let (trials, noise) = (400, Normal::new(0.0, 0.04).unwrap());
        for repeats in [6, 7, 8] {
            for least_change in LEAST_CHANGES {
                let found = (0..trials).filter(|&trial| {
                    let mut random = ChaCha8Rng::seed_from_u64(trial);
                    let mut run = |factor: f64| -> Vec<f64> {
                        (0..repeats).map(|_| factor * f64::exp(noise.sample(&mut random))).collect()
                    };
                    let figure = estimate(&run(10.0), Scale::Logarithmic, 0).unwrap();
                    let half = figure.high().unwrap() / figure.value - 1.0;
                    let change = 1.0 + change_found(half, repeats, least_change);
                    let measure = Measure {
                        name: "p99".to_owned(),
                        better_when: BetterWhen::Lower,
                        rank: Rank::Primary,
                        is_tail: true,
                        least_change,
                        margin: 0.1,
                        blocks: Ok(vec![Block { a: run(10.0), b: run(10.0 * change) }]),
                    };
                    compare_sides(&[], &[measure], 0.01 / 3.0, trial).verdict == SideVerdict::Worse
                });
                let found = found.count();
                assert!(found * 100 >= trials as usize * 95, "{repeats} repeats, {least_change}: {found}");
            }
        }
    }

    #[test]
    fn a_repeat_that_other_programs_spoiled_is_known_by_the_words_of_this_and_of_older_versions() {
        let reasons = |steal, other| tilemark_statistics::judge::busy_host(steal, other).collect::<Vec<_>>();
        assert!(is_of_foreign_load(&reasons(0.0, 0.074)[0]));
        assert!(is_of_foreign_load("foreign load 7.4 % of the host"));
        assert!(!is_of_foreign_load(&reasons(0.062, 0.0)[0]));
    }

    #[test]
    fn reasons_that_differ_in_figures_only_are_one_line() {
        let reasons = [
            "other programs used 9.5 % of the host",
            "sent 2 ms late",
            "other programs used 12 % of the host",
        ];
        let lines = why_discarded(reasons.into_iter(), &[]);
        assert_eq!(
            lines,
            [
                "2 repeats discarded, the first because: other programs used 9.5 % of the host",
                "1 repeat discarded: sent 2 ms late"
            ]
        );
        assert_eq!(
            why_discarded(["sent 2 ms late"].into_iter(), &["at 2 tiles: sent 2 ms late".to_owned()]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_remedy_is_no_claim_and_nothing_is_lost() {
        use SentencePart::{Claim, Remedy};
        let whole = "This host carries 6 tiles: 24 guests. 7 tiles were not tried. To try them: `tilemark capacity web`. \
                     Not trusted: it was loud.";
        let wanted = [
            Claim("This host carries 6 tiles: 24 guests. "),
            Claim("7 tiles were not tried. "),
            Remedy("To try them: `tilemark capacity web`. "),
            Remedy("Not trusted: it was loud."),
        ];
        assert_eq!(sentence_parts(whole), wanted);
        let parts = sentence_parts("These two runs differ in p99; to fix: compare them in turn.");
        assert_eq!(parts, [Claim("These two runs differ in p99"), Remedy("; to fix: compare them in turn.")]);
        let single = format!("These two runs differ in p99. {TWO_RUNS} Only gate.p99 differs.");
        let parts = sentence_parts(&single);
        assert_eq!((parts.first(), parts.len()), (Some(&Claim("These two runs differ in p99. ")), 5));
        assert!(parts[1..4].iter().all(|part| matches!(part, Remedy(_))), "{parts:?}");
        assert_eq!(parts[4], Claim("Only gate.p99 differs."));
    }
}
