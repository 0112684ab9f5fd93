//! `tilemark report` and `tilemark runs`

use super::{places, roots_are_apart};
use crate::{
    arguments::ReportArguments,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_record::{Runs, result::VerdictStatus};
use tilemark_run::{
    judge::{draw_to, report_of},
    measure::record_failed,
    wire::Failure,
};

/// Draws a record again.
pub(crate) fn report(arguments: &ReportArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    match drawn(arguments, form) {
        Err(failure) => screen::fail(&failure, form),
        Ok(()) => ExitCode::SUCCESS,
    }
}

fn drawn(arguments: &ReportArguments, form: Form) -> Result<(), Failure> {
    let record = Runs::new(&places().runs).find(&arguments.run).map_err(record_failed)?;
    record.verify().map_err(record_failed)?;
    let mut report = report_of(&record).map_err(record_failed)?;
    if arguments.redact {
        tilemark_report::redact(&mut report);
    }
    // A redacted page must not take the place of the whole one.
    let own_page = (!arguments.redact).then(|| record.path().join("report.html"));
    if let Some(path) = arguments.html.clone().or(own_page) {
        let drawn = draw_to(&path, &tilemark_report::html(&report));
        match (drawn, &arguments.html) {
            // Somebody else's record can be read and not written: the page is there already.
            (Err(_), None) => {}
            (drawn, _) => drawn.map_err(record_failed)?,
        }
        eprintln!("Report: {}", path.display());
    }
    if arguments.redact && arguments.html.is_none() && arguments.csv.is_none() {
        eprintln!("No page was written: `--html FILE` writes one that names no machine.");
    }
    if let Some(path) = &arguments.csv {
        draw_to(path, &tilemark_report::csv(&report)).map_err(record_failed)?;
    }
    match form {
        Form::Json => screen::print_json(&report.result),
        Form::Text => screen::print_text(&tilemark_report::terminal(&report, screen::style())),
    }
    Ok(())
}

/// Lists what was measured.
pub(crate) fn runs(json: bool) -> ExitCode {
    let listed = Runs::new(&places().runs).list();
    match Form::of(json) {
        Form::Json => {
            let document: Vec<_> = listed
                .iter()
                .map(|run| {
                    serde_json::json!({
                        "id": run.id, "path": run.path, "verdict": run.verdict, "sentence": run.sentence,
                    })
                })
                .collect();
            screen::print_json(&serde_json::json!({ "runs": document }));
        }
        Form::Text if listed.is_empty() => {
            screen::print_text(&format!(
                "No runs yet. `tilemark quick` makes one.{}",
                roots_are_apart("runs")
            ));
        }
        Form::Text => {
            for run in &listed {
                let verdict = match run.verdict {
                    Some(VerdictStatus::Trusted) => "trusted",
                    Some(VerdictStatus::NotTrusted) => "not trusted",
                    Some(VerdictStatus::CannotTell) => "cannot tell",
                    None => "unfinished",
                };
                screen::print_text(&format!(
                    "{}  {verdict:<11}  {}",
                    run.id,
                    run.sentence.as_deref().unwrap_or("")
                ));
            }
        }
    }
    ExitCode::SUCCESS
}
