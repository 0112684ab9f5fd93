//! `tilemark report`

use crate::{
    arguments::ReportArguments,
    records::{find, tags_of},
    screen::{self, Form},
};
use serde::Serialize;
use std::process::ExitCode;
use tilemark_record::result::RunResult;
use tilemark_run::{
    failure::Failure,
    run::record::report_of,
    run::result::{Page, draw_again, draw_to},
};

/// Draws a record again.
pub(crate) fn report(arguments: &ReportArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    match drawn(arguments, form) {
        Err(failure) => screen::fail(&failure, form),
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// A result, and whose it is where every list of runs has it.
#[derive(Serialize)]
struct Found<'r> {
    id: &'r str,
    began: &'r str,
    host: &'r str,
    /// Kept beside the record. A tag may name a machine.
    tags: Vec<String>,
    #[serde(flatten)]
    result: &'r RunResult,
}

fn drawn(arguments: &ReportArguments, form: Form) -> Result<(), Failure> {
    let record = find(&arguments.run)?;
    record.verify()?;
    let mut report = report_of(&record)?;
    if arguments.redact {
        tilemark_report::redact(&mut report);
    }
    let page = || tilemark_report::html(&report);
    match &arguments.html {
        Some(path) => {
            draw_to(path, &page())?;
            screen::note(&format!("Report: {}", path.display()));
        }
        // A redacted page must not take the place of the whole one.
        None if arguments.redact => {
            if arguments.csv.is_none() {
                screen::note("No page was written: `--html FILE` writes one that names no machine.");
            }
        }
        None => match draw_again(&record, &page())? {
            Page::Written(path) => screen::note(&format!("Report: {}", path.display())),
            Page::OfUser(user) => screen::note(&format!(
                "No page was written into {}: it belongs to user {user}. `--html FILE` writes one elsewhere.",
                record.path().display()
            )),
        },
    }
    if let Some(path) = &arguments.csv {
        // A tag may name a machine.
        let tags = if arguments.redact { Vec::new() } else { tags_of(&record)? };
        draw_to(path, &tilemark_report::csv_with_tags(&report, &tags))?;
    }
    match form {
        Form::Json => screen::print_json(&Found {
            id: &report.result.run,
            began: &report.result.provenance.began,
            host: &report.result.provenance.host,
            tags: if arguments.redact { Vec::new() } else { tags_of(&record)? },
            result: &report.result,
        }),
        Form::Text => screen::print_painted(&tilemark_report::terminal(&report, screen::style())),
    }
    Ok(())
}
