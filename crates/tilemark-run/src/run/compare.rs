//! `compare`: two records, or two sets of records, side by side.

use crate::{
    failure::{Failure, FailureCode},
    job::types::QEMU_HASH,
    run::record::report_of,
};
use tilemark_record::{
    RunDirectory,
    result::{Comparison, Difference, Provenance, RESULT_SCHEMA, Verdict, VerdictStatus},
};
use tilemark_report::Report;
use tilemark_statistics::{
    ExitVerdict,
    judge::{RunRepeats, compare_runs},
};

/// Two records side by side.
pub struct Compared {
    /// What `--json` prints.
    pub document: serde_json::Value,
    /// 0 no worse, 1 worse by more than the tolerance, 125 anything else.
    pub exit_verdict: u8,
    comparison: Comparison,
    verdict: Verdict,
}

/// Compares two sides of one record or several each; with several, the run is the unit.
///
/// # Errors
/// When a side has no record, a record cannot be read, or one is on both sides.
pub fn compare(a: &[RunDirectory], b: &[RunDirectory], tolerance: Tolerance) -> Result<Compared, Failure> {
    let read = |records: &[RunDirectory]| -> Result<Vec<Report>, Failure> {
        let one = |record: &RunDirectory| {
            record.verify()?;
            Ok(report_of(record)?)
        };
        records.iter().map(one).collect()
    };
    let (a, b) = (read(a)?, read(b)?);
    let ids = |side: &[Report]| side.iter().map(|report| report.result.run.clone()).collect::<Vec<_>>();
    let (ids_a, ids_b) = (ids(&a), ids(&b));
    let (Some(first_a), Some(first_b)) = (a.first(), b.first()) else {
        let (what, fix) = ("a side has no run", "add runs to it: `tilemark runs baseline NAME RUN...`");
        return Err(Failure::new(FailureCode::BadInput, what, fix));
    };
    if let Some(both) = ids_a.iter().find(|id| ids_b.contains(id)).filter(|_| a.len() + b.len() > 2) {
        let fix = format!("take it out of one: `tilemark runs baseline NAME --remove {both}`");
        return Err(Failure::new(FailureCode::BadInput, format!("the run {both} is on both sides"), fix));
    }
    let unlike = [(first_a, &a[1..]), (first_b, &b[1..])].into_iter().flat_map(|(first, others)| {
        others.iter().flat_map(|other| made_with(&first.result.provenance, &other.result.provenance))
    });
    let made_with = made_with(&first_a.result.provenance, &first_b.result.provenance);
    let compared = compare_runs(&runs(&a), &runs(&b), made_with, unlike.collect());
    let exit_verdict = compared.exit_verdict(tolerance.0).code();
    let document = serde_json::json!({
        "schema": RESULT_SCHEMA, "a": one_or_all(&ids_a), "b": one_or_all(&ids_b),
        "verdict": compared.verdict, "comparison": compared.comparison,
    });
    Ok(Compared { document, exit_verdict, comparison: compared.comparison, verdict: compared.verdict })
}

fn runs(reports: &[Report]) -> Vec<RunRepeats<'_>> {
    reports.iter().map(|report| RunRepeats { plan: &report.plan, repeats: &report.repeats }).collect()
}

/// The id of one run, or a list of several.
fn one_or_all(ids: &[String]) -> serde_json::Value {
    match ids {
        [only] => serde_json::json!(only),
        all => serde_json::json!(all),
    }
}

/// What differs between the programs that made two records, each with its version and the start of its SHA-256: the same
/// version may be another build.
fn made_with(a: &Provenance, b: &Provenance) -> Vec<Difference> {
    let hash = |of: &Provenance, name: &str| {
        let hash = of.hashes.get(name).map_or("unknown", String::as_str);
        hash.get(..12).unwrap_or(hash).to_owned()
    };
    let qemu = |of: &Provenance| {
        let version = of.qemu.as_ref()?;
        let names = of.hashes.keys().filter(|name| name.starts_with(QEMU_HASH));
        let hashes: Vec<String> = names.map(|name| hash(of, name)).collect();
        Some(format!("{version} (SHA-256 {})", hashes.join(", ")))
    };
    let said = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let tilemark = |of: &Provenance| format!("{} (SHA-256 {})", of.tilemark, hash(of, "tilemark"));
    let difference = |key: &str, of: &dyn Fn(&Provenance) -> String| {
        let found = Difference { key: key.to_owned(), a: of(a), b: of(b) };
        (found.a != found.b).then_some(found)
    };
    let all = [
        difference("tilemark", &tilemark),
        difference("qemu", &|of| said(qemu(of))),
        difference("image", &|of| said(of.image.clone())),
        difference("guest kernel", &|of| said(of.guest_kernel.clone())),
    ];
    all.into_iter().flatten().collect()
}

/// What `--exit-verdict` says of the two sides of one run.
pub fn exit_verdict_of_sides(record: &RunDirectory, tolerance: Tolerance) -> Result<u8, Failure> {
    let report = report_of(record)?;
    let judged = tilemark_statistics::judge::judge(&report.plan, &report.repeats);
    // The run itself may have added doubts that the repeats do not show, such as another run beside it.
    let doubted = report.result.verdict.reasons.iter().any(|reason| !judged.verdict.reasons.contains(reason));
    let verdict = if doubted { ExitVerdict::CannotTell } else { judged.exit_verdict(tolerance.0) };
    Ok(verdict.code())
}

/// Largest loss of B that still counts as no worse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance(tilemark_statistics::Tolerance);

impl Tolerance {
    /// Reads `2%`, and that of p99 where it has its own.
    pub fn read(text: &str, p99: Option<&str>) -> Result<Self, Failure> {
        let measures = fraction(text, "--tolerance")?;
        let p99 = p99.map_or(Ok(measures), |p99| fraction(p99, "--tolerance-p99"))?;
        Ok(Self(tilemark_statistics::Tolerance { measures, p99 }))
    }
}

fn fraction(text: &str, flag: &str) -> Result<f64, Failure> {
    let read: Result<tilemark_units::Fraction, _> = text.parse();
    let remedy = format!("write it like `{flag} 2%`");
    read.map(|fraction| fraction.get())
        .map_err(|error| Failure::from_error(FailureCode::BadInput, &error, remedy))
}

impl Compared {
    /// Whether the comparison can be trusted.
    pub const fn status(&self) -> VerdictStatus {
        self.verdict.status
    }

    /// For a person.
    pub fn text(&self) -> String {
        let mut lines = vec![self.comparison.sentence.clone(), String::new()];
        lines.extend(self.comparison.failures.iter().map(|failure| {
            let (name, words) = (&failure.name, failure.outcome.words());
            format!("  {name}: {:.2} % of A, {:.2} % of B  {words}", failure.a * 100.0, failure.b * 100.0)
        }));
        for measure in &self.comparison.measures {
            let percent = |value: f64| format!("{:+.1} %", value * 100.0);
            let interval = match (measure.change.low, measure.change.high) {
                (Some(low), Some(high)) => format!(" [{}, {}]", percent(low), percent(high)),
                _ => String::new(),
            };
            let margin = measure.margin.map(|margin| format!(", margin ±{:.1} %", margin * 100.0));
            lines.push(format!(
                "  {:<32} {}{interval}  {}{}",
                measure.name,
                percent(measure.change.value),
                measure.outcome.words(),
                margin.unwrap_or_default()
            ));
        }
        if let Some(voided) = self.comparison.voided.filter(|voided| voided.a + voided.b > 0) {
            let tilemark_record::result::VoidedSides { a, of_a, b, of_b, .. } = voided;
            lines.push(format!("  discarded: {a} of {of_a} repeats of A, {b} of {of_b} of B"));
        }
        lines.push(String::new());
        lines.extend(self.comparison.differences.iter().map(|difference| {
            format!("  differs: {} = {} | {}", difference.key, difference.a, difference.b)
        }));
        lines.extend(self.verdict.reasons.iter().map(|reason| format!("  because: {reason}")));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_record::result::{ComparisonOutcome, Figure, MeasureComparison};

    #[test]
    fn a_comparison_is_told_in_words() {
        let change = Figure { value: 0.013, low: Some(-0.02), high: Some(0.046), n_repeats: 8 };
        let measure = MeasureComparison {
            name: "p99 of pages".to_owned(),
            change,
            p: Some(0.4),
            resolution: Some(0.05),
            margin: Some(0.1),
            primary: true,
            more_is_better: false,
            outcome: ComparisonOutcome::NoDifference,
        };
        let comparison = Comparison {
            differences: Vec::new(),
            failures: Vec::new(),
            measures: vec![measure],
            voided: None,
            outcome: ComparisonOutcome::NoDifference,
            sentence: "No difference.".to_owned(),
        };
        let verdict = Verdict { status: VerdictStatus::Trusted, reasons: Vec::new() };
        let compared = Compared { document: serde_json::Value::Null, exit_verdict: 0, comparison, verdict };
        let text = compared.text();
        assert!(text.contains("+1.3 % [-2.0 %, +4.6 %]  no difference, margin ±10.0 %"), "{text}");
    }

    #[test]
    fn records_that_other_programs_made_say_so() {
        let made = |qemu: &str, hash: &str| Provenance {
            tilemark: "0.1.0".to_owned(),
            qemu: Some(qemu.to_owned()),
            hashes: [
                ("tilemark".to_owned(), "aa".to_owned()),
                (format!("{QEMU_HASH}/usr/bin/q"), hash.to_owned()),
            ]
            .into(),
            ..Provenance::default()
        };
        let told = |a, b| -> Vec<(String, String, String)> {
            made_with(&a, &b).into_iter().map(|found| (found.key, found.a, found.b)).collect()
        };
        assert_eq!(told(made("7.2", "1234567890abcdef"), made("7.2", "1234567890abcdef")), []);
        let rebuilt = told(made("7.2", "1234567890abcdef"), made("7.2", "ffff"));
        let (a, b) = ("7.2 (SHA-256 1234567890ab)".to_owned(), "7.2 (SHA-256 ffff)".to_owned());
        assert_eq!(rebuilt, [("qemu".to_owned(), a, b)]);
        let native = Provenance { qemu: None, ..made("", "") };
        assert_eq!(told(native.clone(), Provenance { image: Some("x".to_owned()), ..native })[0].2, "x");
    }
}
