//! A comparison as JUnit XML, which CI systems show: a suite for each side but the first, a case for its verdict, each gate, each failure
//! and each measure.

use super::{Against, ComparedRuns, ComparedSide, capacity};
use crate::html::Markup;
use crate::number::{change, percent, three};
use tilemark_record::result::{
    Comparison, ComparisonOutcome, FailureComparison, MeasureComparison, PointResult, VerdictStatus,
};
use tilemark_units::counted;

/// A test case.
struct Case {
    name: String,
    came: CaseResult,
    /// The figures behind it.
    figures: String,
}

/// The result of a test case.
enum CaseResult {
    /// The side is not worse.
    Passed,
    /// The judge calls the side worse.
    Failed,
    /// The judge cannot tell, with the reason.
    Skipped(String),
    /// There is nothing to compare, with the reason.
    Error(String),
}

/// The whole document.
pub(super) fn junit(runs: &ComparedRuns) -> String {
    let suites: Vec<(&ComparedSide, Vec<Case>)> = runs
        .sides
        .iter()
        .skip(1)
        .zip(&runs.against)
        .map(|(side, against)| (side, cases(&runs.sides[0], side, against)))
        .collect();
    let mut page = Markup::default();
    page.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"tilemark compare\"");
    counts(&mut page, suites.iter().flat_map(|(_, cases)| cases));
    page.raw(">\n");
    for (side, cases) in &suites {
        suite(&mut page, runs, side, cases);
    }
    page.raw("</testsuites>\n");
    page.finish()
}

fn counts<'c>(page: &mut Markup, cases: impl Iterator<Item = &'c Case>) {
    let (mut tests, mut failures, mut errors, mut skipped) = (0_usize, 0_usize, 0_usize, 0_usize);
    for case in cases {
        tests += 1;
        match case.came {
            CaseResult::Passed => {}
            CaseResult::Failed => failures += 1,
            CaseResult::Error(_) => errors += 1,
            CaseResult::Skipped(_) => skipped += 1,
        }
    }
    page.attribute("tests", &tests.to_string()).attribute("failures", &failures.to_string());
    page.attribute("errors", &errors.to_string()).attribute("skipped", &skipped.to_string());
}

fn suite(page: &mut Markup, runs: &ComparedRuns, side: &ComparedSide, cases: &[Case]) {
    let first = side.results.first();
    let name = format!("{}: {} against {}", runs.scenario(), side.name, runs.sides[0].name);
    page.raw("<testsuite").attribute("name", &name);
    counts(page, cases.iter());
    if let Some(result) = first {
        page.attribute("hostname", &capacity::host(&result.provenance.host));
        page.attribute("timestamp", result.provenance.began.trim_end_matches('Z'));
    }
    page.raw(">\n<properties>\n");
    for (key, side) in [("a", &runs.sides[0]), ("b", side)] {
        for result in &side.results {
            let value = format!(
                "{}, {}, host {}, {}",
                result.run,
                capacity::minute(&result.provenance.began),
                capacity::host(&result.provenance.host),
                capacity::words(&result.answer)
            );
            page.raw("<property").attribute("name", key).attribute("value", &value).raw("/>\n");
        }
    }
    page.raw("</properties>\n");
    for case in cases {
        self::case(page, runs.scenario(), case);
    }
    page.raw("</testsuite>\n");
}

fn case(page: &mut Markup, scenario: &str, case: &Case) {
    page.raw("<testcase")
        .attribute("classname", &format!("tilemark.{scenario}"))
        .attribute("name", &case.name);
    page.raw(">");
    match &case.came {
        CaseResult::Passed => page.element("system-out", "", &case.figures),
        CaseResult::Failed => {
            page.raw("<failure").attribute("type", "worse").attribute("message", &case.figures).raw(">");
            page.text(&case.figures).raw("</failure>")
        }
        CaseResult::Error(why) => {
            page.raw("<error").attribute("type", "not-comparable").attribute("message", why).raw(">");
            page.text(why).raw("</error>")
        }
        CaseResult::Skipped(why) => {
            page.raw("<skipped").attribute("message", why).raw("/>").element("system-out", "", &case.figures)
        }
    };
    page.raw("</testcase>\n");
}

fn cases(first: &ComparedSide, side: &ComparedSide, against: &Against) -> Vec<Case> {
    let Against { comparison, verdict } = against;
    if comparison.measures.is_empty() && comparison.failures.is_empty() {
        let why = format!("{} {}", comparison.sentence, verdict.reasons.join("; "));
        return vec![Case {
            name: "verdict".to_owned(),
            came: CaseResult::Error(why),
            figures: String::new(),
        }];
    }
    let doubt = doubt(against);
    let mut cases = vec![Case {
        name: "verdict".to_owned(),
        came: came(comparison.outcome, doubt.as_ref(), &comparison.sentence),
        figures: comparison.sentence.clone(),
    }];
    let gates = gates(first, side, comparison, doubt.as_ref());
    let is_gate = |failure: &&FailureComparison| gates.iter().any(|gate| gate.name == failure.name);
    let failures = comparison.failures.iter().filter(|failure| !is_gate(failure));
    let failures: Vec<Case> = failures.map(|failure| failure_case(failure, doubt.as_ref())).collect();
    cases.extend(gates);
    cases.extend(failures);
    cases.extend(comparison.measures.iter().map(|measure| measure_case(measure, doubt.as_ref())));
    cases
}

/// Why a case is skipped that would have failed, or passed.
struct Doubt {
    why: String,
    /// Whether the figures themselves are not trusted: they acquit nobody either.
    is_distrust: bool,
}

fn doubt(against: &Against) -> Option<Doubt> {
    let Against { comparison, verdict } = against;
    let not_trusted = format!("not trusted: {}", verdict.reasons.join("; "));
    let (why, is_distrust) = match (verdict.status, comparison.outcome) {
        (VerdictStatus::NotTrusted, _) => (not_trusted, true),
        (_, ComparisonOutcome::DiffersBetweenRuns | ComparisonOutcome::CannotTell) => {
            (comparison.sentence.clone(), false)
        }
        (VerdictStatus::CannotTell, _) => (not_trusted, false),
        (VerdictStatus::Trusted, _) => return None,
    };
    Some(Doubt { why, is_distrust })
}

fn came(outcome: ComparisonOutcome, doubt: Option<&Doubt>, why_not: &str) -> CaseResult {
    match (outcome, doubt) {
        (ComparisonOutcome::Worse, None) => CaseResult::Failed,
        (ComparisonOutcome::Worse, Some(doubt)) => CaseResult::Skipped(doubt.why.clone()),
        (ComparisonOutcome::Better | ComparisonOutcome::NoDifference, Some(doubt)) if doubt.is_distrust => {
            CaseResult::Skipped(doubt.why.clone())
        }
        (ComparisonOutcome::Better | ComparisonOutcome::NoDifference, _) => CaseResult::Passed,
        (ComparisonOutcome::CannotTell | ComparisonOutcome::DiffersBetweenRuns, doubt) => {
            CaseResult::Skipped(doubt.map_or(why_not, |doubt| &doubt.why).to_owned())
        }
    }
}

fn failure_case(failure: &FailureComparison, doubt: Option<&Doubt>) -> Case {
    let p = failure.p.map(|p| format!(", p = {}", three(p))).unwrap_or_default();
    let figures = format!(
        "{}: {} of B, {} of A{p}: {}",
        failure.name,
        percent(failure.b),
        percent(failure.a),
        failure.outcome.words()
    );
    Case { name: failure.name.clone(), came: came(failure.outcome, doubt, "it can be chance"), figures }
}

/// A measure that does not decide is shown and never fails.
fn measure_case(measure: &MeasureComparison, doubt: Option<&Doubt>) -> Case {
    let signed = |value: f64| format!("{} %", change(value));
    let interval = measure.change.low.zip(measure.change.high);
    let interval = interval.map(|(low, high)| format!(" [{}, {}]", signed(low), signed(high)));
    let unit = measure.unit.as_deref().unwrap_or_default();
    let values = measure.a.zip(measure.b);
    let values = values.map(|(a, b)| format!("A {} {unit}, B {} {unit}, ", three(a), three(b)));
    let margin = measure.margin.map(|margin| format!(", margin {}", percent(margin)));
    let figures = format!(
        "{}: {}{}{}{}: {}{}",
        measure.name,
        values.unwrap_or_default(),
        signed(measure.change.value),
        interval.unwrap_or_default(),
        margin.unwrap_or_default(),
        measure.outcome.words(),
        if measure.primary { "" } else { "; it is shown only and decides nothing" }
    );
    let why_not = "its interval reaches beyond the margin";
    let came = if measure.primary { came(measure.outcome, doubt, why_not) } else { CaseResult::Passed };
    Case { name: measure.name.clone(), came, figures }
}

/// Each step that both sides judged, by its gate. Where one side holds and the other breaks, the judge has compared the repeats that
/// were beyond the gate; elsewhere there is nothing to test.
fn gates(
    first: &ComparedSide,
    side: &ComparedSide,
    comparison: &Comparison,
    doubt: Option<&Doubt>,
) -> Vec<Case> {
    let result = first.results.first();
    // Those of a native twin are no answer of the run.
    let backend =
        result.and_then(|result| result.answer.backend.or(result.points.first().map(|one| one.backend)));
    let points = result.into_iter().flat_map(|result| &result.points);
    let points = points.filter(|point| point.side.is_none() && Some(point.backend) == backend);
    let case = |point: &PointResult| {
        let (a, b) = (held(first, point)?, held(side, point)?);
        let place = place(point);
        let name = format!("repeats beyond the gate {place}");
        let word = |holds: bool| if holds { "holds" } else { "breaks" };
        let figures = format!("A {}, B {} the gate {place}", word(a), word(b));
        let broken_by_all = format!("the gate {place},");
        let tested = comparison.failures.iter();
        let tested = tested.clone().find(|one| one.name == name || one.name.starts_with(&broken_by_all));
        Some(match tested {
            Some(failure) => Case { name, figures, ..failure_case(failure, doubt) },
            None if a && !b => {
                let why = "A holds and B breaks the gate, and the judge has not compared them".to_owned();
                Case { name, came: CaseResult::Skipped(why), figures }
            }
            None => Case { name, came: came(ComparisonOutcome::NoDifference, doubt, ""), figures },
        })
    };
    points.filter_map(case).collect()
}

/// Whether a side holds a step: no run of it broke the gate, and at least one kept it.
fn held(side: &ComparedSide, step: &PointResult) -> Option<bool> {
    let same = |point: &&PointResult| {
        point.tiles == step.tiles
            && point.vary == step.vary
            && point.backend == step.backend
            && point.side.is_none()
    };
    let found: Vec<Option<bool>> = side
        .results
        .iter()
        .map(|result| result.points.iter().find(same).and_then(|point| point.holds))
        .collect();
    match found.contains(&Some(false)) {
        true => Some(false),
        false => found.contains(&Some(true)).then_some(true),
    }
}

/// As the judge names a step.
fn place(point: &PointResult) -> String {
    let tiles = format!("at {}", counted(point.tiles, "tile"));
    point.vary.iter().fold(tiles, |text, (name, value)| format!("{text}, {name} {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_trusted_passes_nothing() {
        let doubt = |is_distrust| Doubt { why: "not trusted: steal".to_owned(), is_distrust };
        for outcome in [ComparisonOutcome::Better, ComparisonOutcome::NoDifference] {
            assert!(matches!(came(outcome, None, ""), CaseResult::Passed));
            // Another measure has no answer: this one has.
            assert!(matches!(came(outcome, Some(&doubt(false)), ""), CaseResult::Passed));
            assert!(
                matches!(came(outcome, Some(&doubt(true)), ""), CaseResult::Skipped(why) if why.contains("steal"))
            );
        }
    }
}
