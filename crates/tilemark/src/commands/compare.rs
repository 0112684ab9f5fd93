//! `tilemark compare`

use super::baseline::side;
use crate::{
    arguments::CompareArguments,
    screen::{self, Form},
};
use std::process::ExitCode;
use tilemark_run::{
    failure::Failure,
    run::compare::{self, Compared, Tolerance},
};

/// Compares two runs, or two sets of runs.
pub(crate) fn compare(arguments: &CompareArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    match compared(arguments) {
        Err(failure) => {
            let code = screen::fail(&failure, form);
            if arguments.verdict.exit_verdict { screen::no_verdict(&failure) } else { code }
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
    let verdict = &arguments.verdict;
    let tolerance = Tolerance::read(&verdict.tolerance, verdict.tolerance_p99.as_deref())?;
    compare::compare(&side(&arguments.a)?, &side(&arguments.b)?, tolerance)
}
