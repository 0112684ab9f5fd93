//! `tilemark compare`

use crate::{
    arguments::CompareArguments,
    exit,
    records::side,
    screen::{self, Form},
};
use std::{path::PathBuf, process::ExitCode};
use tilemark_run::{
    failure::Failure,
    run::{
        compare::{self, Compared, Side, Tolerance},
        result::draw_to,
    },
};

/// Compares runs, or sets of runs, each with the first.
pub(crate) fn compare(arguments: &CompareArguments) -> ExitCode {
    let form = Form::of(arguments.json);
    match compared(arguments) {
        Err(failure) => {
            let code = screen::fail(&failure, form);
            if arguments.verdict.exit_verdict { exit::no_verdict(&failure, false) } else { code }
        }
        Ok(compared) => {
            match form {
                Form::Json => screen::print_json(&compared.document),
                Form::Text => screen::print_painted(&compared.text(screen::style())),
            }
            ExitCode::from(if arguments.verdict.exit_verdict {
                compared.exit_verdict
            } else {
                exit::exit_code(compared.status())
            })
        }
    }
}

/// A file that is asked for, and what makes its text.
type FileForm<'a> = (&'a Option<PathBuf>, fn(&Compared) -> String);

fn compared(arguments: &CompareArguments) -> Result<Compared, Failure> {
    let verdict = &arguments.verdict;
    let tolerance = Tolerance::read(&verdict.tolerance, verdict.tolerance_p99.as_deref())?;
    let names = [&arguments.a, &arguments.b].into_iter().chain(&arguments.more);
    let sides = names.map(|name| Ok(Side { name: name.clone(), records: side(name)? }));
    let sides: Vec<Side> = sides.collect::<Result<_, Failure>>()?;
    let compared = compare::compare(&sides, tolerance)?;
    let forms: [FileForm<'_>; 3] = [
        (&arguments.html, Compared::html),
        (&arguments.markdown, Compared::markdown),
        (&arguments.junit, Compared::junit),
    ];
    for (path, text) in forms {
        let Some(path) = path else { continue };
        draw_to(path, &text(&compared))?;
        screen::note(&format!("Written: {}", path.display()));
    }
    Ok(compared)
}
