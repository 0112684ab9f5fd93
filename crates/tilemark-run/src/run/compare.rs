//! `compare`: records, or sets of records, side by side.

use crate::{
    failure::{Failure, FailureCode},
    job::types::QEMU_HASH,
    run::record::{plan_as_run, report_of},
};
use serde_json::{Value, json};
use tilemark_plan::plan::Plan;
use tilemark_record::{
    RecordError, RunDirectory,
    result::{Difference, Provenance, RESULT_SCHEMA, RunResult, VerdictStatus},
    summary::RepeatSummary,
};
use tilemark_report::{Against, ComparedRuns, ComparedSide, Style};
use tilemark_statistics::{
    ExitVerdict,
    judge::{OtherRuns, RecordComparison, RunRepeats, compare_with_first},
};

/// A side that is to be compared: what it was asked for by, and its records.
#[derive(Debug, Clone)]
pub struct Side {
    /// A run, or a set of runs.
    pub name: String,
    /// Its records.
    pub records: Vec<RunDirectory>,
}

/// Records side by side.
pub struct Compared {
    /// What `--json` prints.
    pub document: Value,
    /// 0 no worse, 1 worse by more than the tolerance, 125 anything else.
    pub exit_verdict: u8,
    runs: ComparedRuns,
}

/// What is read of a record.
struct Read {
    plan: Plan,
    result: RunResult,
    repeats: Vec<RepeatSummary>,
}

impl Read {
    /// Reads a record whose files are what they were when it was closed.
    fn of(record: &RunDirectory) -> Result<Self, RecordError> {
        record.verify()?;
        Ok(Self { plan: plan_as_run(record)?, result: record.result()?, repeats: record.summaries()? })
    }
}

/// Compares sides of one record or several each, every side with the first; with several, the run is the unit.
///
/// # Errors
/// When there are fewer than two sides, a side has no record, a record cannot be read, or one is on two sides.
pub fn compare(sides: &[Side], tolerance: Tolerance) -> Result<Compared, Failure> {
    let read = |side: &Side| -> Result<Vec<Read>, Failure> {
        side.records.iter().map(|record| Ok(Read::of(record)?)).collect()
    };
    let all: Vec<Vec<Read>> = sides.iter().map(read).collect::<Result<_, _>>()?;
    check_sides(&all)?;
    let (first, others) = all.split_first().expect("there are two sides");
    let compared =
        compare_with_first(&runs(first), others.iter().map(|other| other_runs(first, other)).collect());
    let exit_verdict = exit_verdict_of_all(&compared, tolerance);
    let against = compared
        .into_iter()
        .map(|RecordComparison { comparison, verdict, .. }| Against { comparison, verdict });
    let against: Vec<Against> = against.collect();
    let sides = sides.iter().zip(all).map(|(side, runs)| ComparedSide {
        name: side.name.clone(),
        results: runs.into_iter().map(|run| run.result).collect(),
    });
    let runs = ComparedRuns { sides: sides.collect(), against };
    Ok(Compared { document: document(&runs), exit_verdict, runs })
}

/// A side with what differs from the first one, and among the runs of either.
fn other_runs<'r>(first: &[Read], other: &'r [Read]) -> OtherRuns<'r> {
    let unlike = [first, other].into_iter().flat_map(|side| {
        let (one, rest) = side.split_first().expect("no side is empty");
        rest.iter().flat_map(|run| made_with(&one.result.provenance, &run.result.provenance))
    });
    let made_with = made_with(&first[0].result.provenance, &other[0].result.provenance);
    OtherRuns { runs: runs(other), made_with, unlike: unlike.collect() }
}

/// That every side has a run, and none is on two of them. One run may be compared with itself.
fn check_sides(sides: &[Vec<Read>]) -> Result<(), Failure> {
    if sides.len() < 2 || sides.iter().any(Vec::is_empty) {
        let (what, fix) = ("a side has no run", "add runs to it: `tilemark runs baseline NAME RUN...`");
        return Err(Failure::new(FailureCode::BadInput, what, fix));
    }
    let ids = |side: &[Read]| side.iter().map(|run| run.result.run.clone()).collect::<Vec<_>>();
    let is_pair = sides.len() == 2 && sides.iter().all(|side| side.len() == 1);
    for (place, side) in sides.iter().enumerate().filter(|_| !is_pair) {
        let others = || sides[place + 1..].iter().flat_map(|other| ids(other));
        if let Some(both) = ids(side).into_iter().find(|id| others().any(|other| other == *id)) {
            let fix = format!(
                "name it once, or take it out of a set: `tilemark runs baseline NAME {both} --remove`"
            );
            return Err(Failure::new(
                FailureCode::BadInput,
                format!("the run {both} is on more than one side"),
                fix,
            ));
        }
    }
    Ok(())
}

fn runs(side: &[Read]) -> Vec<RunRepeats<'_>> {
    side.iter().map(|run| RunRepeats { plan: &run.plan, repeats: &run.repeats }).collect()
}

/// 1 where one side is worse, 0 where none can be, else 125.
fn exit_verdict_of_all(compared: &[RecordComparison], tolerance: Tolerance) -> u8 {
    let verdicts: Vec<ExitVerdict> = compared.iter().map(|one| one.exit_verdict(tolerance.0)).collect();
    let verdict = if verdicts.contains(&ExitVerdict::Worse) {
        ExitVerdict::Worse
    } else if verdicts.iter().all(|verdict| *verdict == ExitVerdict::NoWorse) {
        ExitVerdict::NoWorse
    } else {
        ExitVerdict::CannotTell
    };
    verdict.code()
}

/// What `--json` prints: `sides` and `comparisons`; of two sides also `a`, `b`, `comparison` and `verdict`.
fn document(runs: &ComparedRuns) -> Value {
    let side = |(place, side): (usize, &ComparedSide)| {
        let records: Vec<Value> = side.results.iter().map(record).collect();
        json!({ "label": runs.label(place), "name": side.name, "runs": records })
    };
    let sides: Vec<Value> = runs.sides.iter().enumerate().map(side).collect();
    let comparisons = runs.against.iter().enumerate().map(|(place, against)| {
        json!({ "side": runs.label(place + 1), "verdict": against.verdict, "comparison": against.comparison })
    });
    let comparisons: Vec<Value> = comparisons.collect();
    let mut document = json!({ "schema": RESULT_SCHEMA, "sides": sides, "comparisons": comparisons });
    if let ([a, b], [only]) = (&runs.sides[..], &runs.against[..]) {
        document["a"] = one_or_all(a);
        document["b"] = one_or_all(b);
        document["verdict"] = json!(only.verdict);
        document["comparison"] = json!(only.comparison);
    }
    document
}

fn record(result: &RunResult) -> Value {
    let (provenance, answer) = (&result.provenance, &result.answer);
    json!({
        "id": result.run, "scenario": result.scenario, "began": provenance.began, "host": provenance.host,
        "kernel": provenance.kernel, "qemu": provenance.qemu, "tilemark": provenance.tilemark, "image": provenance.image,
        "verdict": result.verdict.status, "backend": answer.backend, "holds": answer.holds,
        "undecided": answer.undecided, "breaks": answer.breaks.as_ref().map(|broken| broken.tiles),
        "capacity": answer.capacity, "limit": answer.limit.resource, "sentence": result.sentence,
    })
}

/// The id of one run, or a list of several.
fn one_or_all(side: &ComparedSide) -> Value {
    match &side.results[..] {
        [only] => json!(only.run),
        all => json!(all.iter().map(|result| &result.run).collect::<Vec<_>>()),
    }
}

/// What differs between the programs that made two records, each with its version and the start of its SHA-256: the same
/// version may be another build.
pub(super) fn made_with(a: &Provenance, b: &Provenance) -> Vec<Difference> {
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

/// What `--exit-verdict` says about the two sides of one run.
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
    /// Whether the comparisons can be trusted: all of them.
    pub fn status(&self) -> VerdictStatus {
        let any = |status| self.runs.against.iter().any(|against| against.verdict.status == status);
        if any(VerdictStatus::NotTrusted) {
            VerdictStatus::NotTrusted
        } else if any(VerdictStatus::CannotTell) {
            VerdictStatus::CannotTell
        } else {
            VerdictStatus::Trusted
        }
    }

    /// For a person.
    pub fn text(&self, style: Style) -> String {
        self.runs.terminal(style)
    }

    /// One HTML file.
    pub fn html(&self) -> String {
        self.runs.html()
    }

    /// Markdown.
    pub fn markdown(&self) -> String {
        self.runs.markdown()
    }

    /// JUnit XML.
    pub fn junit(&self) -> String {
        self.runs.junit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let differing = |a, b| -> Vec<(String, String, String)> {
            made_with(&a, &b).into_iter().map(|found| (found.key, found.a, found.b)).collect()
        };
        assert_eq!(differing(made("7.2", "1234567890abcdef"), made("7.2", "1234567890abcdef")), []);
        let rebuilt = differing(made("7.2", "1234567890abcdef"), made("7.2", "ffff"));
        let (a, b) = ("7.2 (SHA-256 1234567890ab)".to_owned(), "7.2 (SHA-256 ffff)".to_owned());
        assert_eq!(rebuilt, [("qemu".to_owned(), a, b)]);
        let native = Provenance { qemu: None, ..made("", "") };
        assert_eq!(differing(native.clone(), Provenance { image: Some("x".to_owned()), ..native })[0].2, "x");
    }
}
