//! `tilemark compare`

use super::places;
use crate::{
    arguments::CompareArguments,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_record::Runs;
use tilemark_run::{
    judge::{self, Compared, Tolerance},
    measure::record_failed,
    wire::Failure,
};

/// Compares two records.
pub(crate) fn compare(arguments: &CompareArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    match compared(arguments) {
        Err(failure) => {
            let code = screen::fail(&failure, form);
            if arguments.verdict.exit_verdict { ExitCode::from(screen::NO_VERDICT) } else { code }
        }
        Ok(compared) => {
            match form {
                Form::Json => screen::print_json(&compared.document),
                Form::Text => screen::print_text(&compared.text()),
            }
            ExitCode::from(if arguments.verdict.exit_verdict {
                compared.exit_verdict
            } else {
                screen::exit_code(compared.status())
            })
        }
    }
}

fn compared(arguments: &CompareArguments) -> Result<Compared, Failure> {
    let tolerance = Tolerance::read(&arguments.verdict.tolerance)?;
    let runs = Runs::new(&places().runs);
    let a = runs.find(&arguments.a).map_err(record_failed)?;
    let b = runs.find(&arguments.b).map_err(record_failed)?;
    judge::compare(&a, &b, tolerance)
}
